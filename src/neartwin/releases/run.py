"""The walk: reserve, aggregate, add noise, settle, release. The one place where ledger, engine and noise meet.

A release as an Arrow table: the group columns, then each statistic with its bar.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, assert_never

import pyarrow as pa

from neartwin import noise
from neartwin.accounting.guarantee import Guarantee
from neartwin.engines.arrow import ARROW
from neartwin.engines.base import Engine
from neartwin.errors import ExecutionError, LedgerError, QueryError
from neartwin.ledger import Account, Stored, Ticket
from neartwin.ledger.account import DOCUMENT_BYTES
from neartwin.planning.plan import GroupPlan, MarginalPlan, Plan, TopKPlan, WorkloadPlan
from neartwin.queries.groups import MARGIN
from neartwin.releases.documents import WrittenRelease, is_written
from neartwin.releases.noising import CONFIDENCE, answer_of
from neartwin.releases.pilots import ResolvedPlan, resolve
from neartwin.releases.provenance import library_version
from neartwin.releases.release import Release
from neartwin.releases.values import Provenance, Statistic
from neartwin.tables.snapshot import state_of
from neartwin.tables.types import Key

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
        case TopKPlan():
            return {} if plan.counts is None else {"count": "count_distinct_units()"}
        case GroupPlan() | MarginalPlan() | WorkloadPlan():
            return {one: str(asked) for name, asked in plan.outputs.items() for one in asked.labels(name)}
        case _:
            assert_never(plan)


def require_document(plan: Plan) -> None:
    """`QueryError` for a release over more public groups than a ledger's document holds: it would fail after it was paid."""
    if not isinstance(plan, GroupPlan) or plan.stage.keys is None:
        return
    bins = 1 if plan.histogram is None else len(plan.histogram[1].bins)
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


@dataclass(frozen=True, slots=True)
class Payer:
    """Who pays beside the account. names: whose allotments; key: of a request that never pays twice, or ""."""

    names: tuple[str, ...] = ()
    key: str = ""


ACCOUNT_ALONE = Payer()


@dataclass(frozen=True, slots=True)
class Paid:
    """A reservation on an account."""

    account: Account
    ticket: Ticket


def run(
    account: Account,
    plan: Plan,
    *,
    engine: Engine,
    payer: Payer = ACCOUNT_ALONE,
    source: noise.Source = noise.SYSTEM,
) -> Release:
    """Pay for a plan, run it, and hand out its release; a repeated question gets its stored answer for nothing.

    The price is durable before a row is read, and the release is durable before it is returned.

    Errors: `BudgetError`, `LedgerError` and `QueryError` before anything is read or spent; `ExecutionError`, the same for every
    cause, for whatever fails after: whether a query fails is data. `PrivacyError` for a source of noise that is not the system's.
    """
    noise.require_system(source)
    require_document(plan)
    table = plan.stage.table
    for place in table.joined_locations():
        account.claim(place)
    snapshot = state_of(table)
    ticket = account.reserve(plan.digest, snapshot, plan.price, str(plan.price), payers=payer.names, key=payer.key)
    if isinstance(ticket, Stored):
        return _stored(ticket)
    paid = Paid(account, ticket)
    release = _run_paid(paid, plan, engine, source)
    if release is None:  # raised here, outside any handler, so that the cause is not chained to it
        written_down(lambda: account.fail(ticket))
        raise ExecutionError
    if not written_down(lambda: account.settle(ticket, release.to_json().encode())):
        raise ExecutionError
    return release


def written_down(record: Callable[[], object]) -> bool:
    """Whether the ledger took a record. How it refused may depend on the answer, for instance on its size."""
    try:
        record()
    except LedgerError:
        return False
    return True


def _stored(answer: Stored) -> Release:
    if is_written(answer.document):
        raise LedgerError(
            f"this question was answered by a table that was written to {WrittenRelease.from_json(answer.document).place!r}; "
            "read it there: it costs nothing"
        )
    return Release.from_json(answer.document)


def _run_paid(paid: Paid, plan: Plan, engine: Engine, source: noise.Source) -> Release | None:
    try:
        return released(paid, plan, engine, source)
    except Exception:  # noqa: BLE001 - every failure after reserve is one uniform error
        return None


def released(paid: Paid, plan: Plan, engine: Engine, source: noise.Source) -> Release:
    """Whatever the plan asks, with noise. Raises anything: the caller turns every failure into one."""
    made = resolve(plan, engine, source)
    answer = answer_of(made.plan, engine, source)
    return Release(
        group_columns=group_columns_of(plan),
        keys=answer.keys,
        statistics=answer.statistics,
        confidence=CONFIDENCE,
        guarantee=guarantee_of(plan),
        notes=made.notes,
        provenance=provenance_of(paid, plan, made),
    )


def provenance_of(paid: Paid, plan: Plan, made: ResolvedPlan) -> Provenance:
    """Where a release of this plan comes from. made: what its first stages made of it."""
    ticket = paid.ticket
    after = {pool: left - ticket.price.get(pool, Fraction(0)) for pool, left in ticket.before.items()}
    return Provenance(
        population=plan.stage.table.name,
        snapshot=ticket.snapshot,
        plan=plan.digest,
        explanation=made.explanation,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        version=library_version(),
        account=paid.account.name,
        position=ticket.position,
        budget_before=_written(ticket.before),
        budget_after=_written(after),
        cap=_written(ticket.caps),
        method=dict(made.method),
    )


def guarantee_of(plan: Plan) -> Guarantee:
    """What a release of this plan promises."""
    table, together = plan.stage.table, plan.together
    promise, units = (plan.price, 1) if together is None else (together.promise, together.units)
    return Guarantee.of(promise, unit=table.unit_name, neighbours=table.neighbours, units=units)


def _written(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    return {pool: str(amount) for pool, amount in amounts.items()}
