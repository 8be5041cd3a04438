"""A release as an Arrow table: the group columns, then each statistic with its bar."""

from collections.abc import Sequence
from typing import Any, assert_never

import pyarrow as pa

from neartwin.engines.arrow import ARROW
from neartwin.errors import QueryError
from neartwin.ledger.account import DOCUMENT_BYTES
from neartwin.queries.keys import Key
from neartwin.queries.margins import MARGIN
from neartwin.queries.plan import ChoicePlan, GroupPlan, MarginalPlan, Plan, WorkloadPlan
from neartwin.queries.statistics import columns_of
from neartwin.releases.release import Statistic

MOST_NUMBERS = DOCUMENT_BYTES // 16  # a value in JSON takes some ten bytes, and a comma


def group_columns_of(plan: Plan) -> tuple[str, ...]:
    """The release's group columns: those of the question, and the bin of a histogram or the margin."""
    if isinstance(plan, WorkloadPlan):
        return tuple(name for name, _ in plan.resolved.columns)
    if isinstance(plan, MarginalPlan):
        return (*plan.stage.group_columns, MARGIN)
    extra = plan.histogram if isinstance(plan, GroupPlan) else None
    return plan.stage.group_columns if extra is None else (*plan.stage.group_columns, extra[0])


def statistics_told(plan: Plan) -> dict[str, str]:
    """The names of the release's statistics, in their order, with what each is."""
    match plan:
        case ChoicePlan():
            return {} if plan.counts is None else {"count": "count_units()"}
        case GroupPlan() if plan.histogram is not None:
            return {"count": str(plan.histogram[1])}
        case GroupPlan() | MarginalPlan() | WorkloadPlan():
            return {one: str(asked) for name, asked in plan.outputs.items() for one in columns_of(name, asked)}
        case _:
            assert_never(plan)


def require_document(plan: Plan) -> None:
    """`QueryError` for a release over more public groups than a ledger's document holds: it would fail after it was paid."""
    if not isinstance(plan, GroupPlan) or plan.stage.keys is None:
        return
    bins = 1 if plan.histogram is None else len(plan.histogram[1].labels)
    groups = len(plan.stage.keys) * bins
    numbers = groups * (len(group_columns_of(plan)) + 3 * len(statistics_told(plan)))
    if numbers > MOST_NUMBERS:
        raise QueryError(
            f"{groups} groups have {numbers} keys, values and ends of bars, and a release in the ledger holds at most "
            f"{MOST_NUMBERS}: write it with release_to_parquet(proposal, place), or ask about fewer groups"
        )


def table_schema(plan: Plan) -> pa.Schema:
    """Columns known before any row is: statistics are doubles, for what they are computed from is rounded anyway."""
    schema = plan.stage.table.schema
    told = {name: ARROW[schema[name]] for name in plan.stage.group_columns}
    if isinstance(plan, WorkloadPlan):
        told = {name: ARROW[kind] for name, kind in plan.resolved.typed(schema).items()}
    groups = [pa.field(name, told.get(name, pa.string())) for name in group_columns_of(plan)]
    statistics = [
        pa.field(part, pa.float64())
        for name in statistics_told(plan)
        for part in (name, f"{name}_lower", f"{name}_upper")
    ]
    return pa.schema([*groups, *statistics], metadata={"neartwin.plan": plan.digest, "neartwin.price": str(plan.price)})


def as_table(schema: pa.Schema, keys: Sequence[Key], statistics: Sequence[Statistic]) -> pa.Table:
    """The rows of some groups."""
    groups = len(schema) - 3 * len(statistics)
    columns: list[Any] = [[key[i] for key in keys] for i in range(groups)]
    for statistic in statistics:
        columns += [statistic.values, statistic.lower, statistic.upper]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
