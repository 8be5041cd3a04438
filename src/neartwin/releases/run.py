"""The walk: reserve, aggregate, add noise, settle, release. The one place where ledger, engine and noise meet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction

from neartwin import noise
from neartwin.accounting.guarantee import Guarantee
from neartwin.engines.base import Engine
from neartwin.errors import ExecutionError, LedgerError
from neartwin.ledger import Account, Stored, Ticket
from neartwin.queries import tuning, value_ranges
from neartwin.queries.explain import explain
from neartwin.queries.plan import GroupPlan, Plan
from neartwin.releases.method import library_version, method_after_pilot, method_after_ranging, method_of
from neartwin.releases.noising import CONFIDENCE, Noisy, answer_of, answered
from neartwin.releases.notes import notes_of
from neartwin.releases.release import Provenance, Release
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
    snapshot = table.snapshot()
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
    if isinstance(plan, GroupPlan) and plan.ranging is not None:
        return _ranged(paid, plan, engine, source)
    if isinstance(plan, GroupPlan) and plan.pilot is not None:
        return _piloted(paid, plan, engine, source)
    return release_of(paid, plan, answer_of(plan, engine, source), notes_of(plan))


def _ranged(paid: Paid, plan: GroupPlan, engine: Engine, source: noise.Source) -> Release:
    """Noisy counts of values, the clip bounds that they suggest, and the question at those bounds, tuned in turn or not."""
    if plan.ranging is None:
        raise TypeError("this plan tunes no values")
    answers = [answered(one, engine, source).statistics[0].values for one in plan.ranging.asked]
    choice = value_ranges.chosen(plan, answers)
    made = released(paid, replace(choice.plan, price=plan.price, together=plan.together), engine, source)
    told = made.provenance
    explained = f"{explain(plan)}\n\nchosen for values:\n{told.explanation}"
    method = method_after_ranging(plan.ranging, told.method)
    provenance = replace(told, plan=plan.digest, explanation=explained, method=method)
    return replace(made, notes=(*made.notes, *choice.told), provenance=provenance)


def _piloted(paid: Paid, plan: GroupPlan, engine: Engine, source: noise.Source) -> Release:
    """The pilot's noisy counts, the bounds that they suggest, and the question at those bounds."""
    if plan.pilot is None:
        raise TypeError("this plan has no pilot")
    parts = engine.aggregate(plan.pilot.stage, salt=source.bits(64)).values["parts"]
    choice = tuning.chosen(plan, plan.pilot.mechanism.noisy(parts, source=source))
    answer = answered(choice.plan, engine, source)
    made = release_of(paid, plan, answer, (*notes_of(choice.plan), tuning.told(choice)))
    explained = f"{made.provenance.explanation}\n\nchosen by the pilot:\n{explain(choice.plan)}"
    method = method_after_pilot(plan, choice.plan, CONFIDENCE)
    return replace(made, provenance=replace(made.provenance, explanation=explained, method=method))


def provenance_of(paid: Paid, plan: Plan) -> Provenance:
    """Where a release of this plan comes from."""
    ticket = paid.ticket
    after = {pool: left - ticket.price.get(pool, Fraction(0)) for pool, left in ticket.before.items()}
    return Provenance(
        population=plan.stage.table.name,
        snapshot=ticket.snapshot,
        plan=plan.digest,
        explanation=str(explain(plan)),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        version=library_version(),
        account=paid.account.name,
        position=ticket.position,
        budget_before=_written(ticket.before),
        budget_after=_written(after),
        cap=_written(ticket.caps),
        method=method_of(plan, CONFIDENCE),
    )


def release_of(paid: Paid, plan: Plan, answer: Noisy, notes: tuple[str, ...]) -> Release:
    """The release of a plan's answer."""
    return Release(
        group_columns=group_columns_of(plan),
        keys=answer.keys,
        statistics=answer.statistics,
        confidence=CONFIDENCE,
        guarantee=guarantee_of(plan),
        notes=notes,
        provenance=provenance_of(paid, plan),
    )


def guarantee_of(plan: Plan) -> Guarantee:
    """What a release of this plan promises."""
    table, together = plan.stage.table, plan.together
    promise, units = (plan.price, 1) if together is None else (together.promise, together.units)
    return Guarantee.of(promise, unit=table.unit_name, neighbours=table.neighbours, units=units)


def _written(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    return {pool: str(amount) for pool, amount in amounts.items()}
