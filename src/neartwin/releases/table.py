"""A release as an Arrow table: the group columns, then each statistic with its bar."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from neartwin.engines.gather import ARROW
from neartwin.queries.keys import Key
from neartwin.queries.plan import GroupPlan
from neartwin.releases.release import Statistic


def table_schema(plan: GroupPlan) -> pa.Schema:
    """Columns known before any row is: statistics are doubles, for what they are computed from is rounded anyway."""
    schema = plan.stage.table.schema
    groups = [pa.field(name, ARROW[schema[name]]) for name in plan.stage.group_columns]
    statistics = [
        pa.field(part, pa.float64()) for name in plan.columns for part in (name, f"{name}_lower", f"{name}_upper")
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
