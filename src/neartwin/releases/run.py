"""The walk: reserve, aggregate, add noise, settle, release. The one place where ledger, engine and noise meet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from neartwin import noise
from neartwin.accounting.guarantee import Guarantee
from neartwin.engines.base import Engine
from neartwin.errors import ExecutionError, LedgerError
from neartwin.ledger import Account, Stored, Ticket
from neartwin.queries.plan import Plan
from neartwin.queries.unchanged import state_of
from neartwin.releases.method import library_version
from neartwin.releases.noising import CONFIDENCE, answer_of
from neartwin.releases.release import Provenance, Release
from neartwin.releases.settled import Settled, settled
from neartwin.releases.table import group_columns_of, require_document
from neartwin.releases.written import WrittenRelease, is_written


@dataclass(frozen=True, slots=True)
class Payer:
    """Who pays beside the account. holders: whose allotments; key: of a request that never pays twice, or ""."""

    holders: tuple[str, ...] = ()
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
    ticket = account.reserve(plan.digest, snapshot, plan.price, str(plan.price), holders=payer.holders, key=payer.key)
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
    made = settled(plan, engine, source)
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


def provenance_of(paid: Paid, plan: Plan, made: Settled) -> Provenance:
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
