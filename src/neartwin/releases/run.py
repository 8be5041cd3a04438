"""The walk: reserve, aggregate, add noise, settle, release. The one place where ledger, engine and noise meet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np

from neartwin import noise
from neartwin.accounting.guarantee import Guarantee
from neartwin.engines.base import Aggregates, Engine
from neartwin.errors import ExecutionError, LedgerError
from neartwin.exact import WholeNumbers
from neartwin.ledger import Account, Stored, Ticket
from neartwin.queries import tuning, value_ranges
from neartwin.queries.explain import explain
from neartwin.queries.keys import Key
from neartwin.queries.margins import MARGIN
from neartwin.queries.plan import Bounding, ChoicePlan, GroupPlan, MarginalPlan, Plan, Split
from neartwin.releases.estimates import counted, statistics_of
from neartwin.releases.margins import WHOLE_TABLE, margin_answers, noisy_margins
from neartwin.releases.method import library_version, method_after_pilot, method_after_ranging, method_of
from neartwin.releases.release import Provenance, Release, Statistic
from neartwin.releases.written import WrittenRelease, is_written

CONFIDENCE = 0.95


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


@dataclass(frozen=True, slots=True)
class Noisy:
    """Noisy, and so free to leave."""

    keys: tuple[Key, ...]
    statistics: tuple[Statistic, ...]
    notes: tuple[str, ...]


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

    Errors: `BudgetError` and `LedgerError` before anything is read or spent; `ExecutionError`, the same for every cause,
    for whatever fails after: whether a query fails is data. `PrivacyError` for a source of noise that is not the system's.
    """
    noise.require_system(source)
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
    if isinstance(plan, ChoicePlan):
        answer = _chosen(plan, engine.aggregate(plan.stage, salt=source.bits(64)), source)
    elif isinstance(plan, MarginalPlan):
        aggregates = engine.aggregate(plan.stage, salt=source.bits(64))
        keys, statistic = margin_answers(plan, noisy_margins(plan, aggregates, source), CONFIDENCE)
        answer = Noisy(keys, (statistic,), (*bounding_notes(plan), WHOLE_TABLE))
    elif plan.ranging is not None:
        return _ranged(paid, plan, engine, source)
    elif plan.pilot is not None:
        return _piloted(paid, plan, engine, source)
    else:
        answer = answered(plan, engine, source)
    return release_of(paid, plan, answer)


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
    told = Noisy(answer.keys, answer.statistics, (*answer.notes, tuning.told(choice)))
    made = release_of(paid, plan, told)
    explained = f"{made.provenance.explanation}\n\nchosen by the pilot:\n{explain(choice.plan)}"
    method = method_after_pilot(plan, choice.plan, CONFIDENCE)
    return replace(made, provenance=replace(made.provenance, explanation=explained, method=method))


def answered(plan: GroupPlan, engine: Engine, source: noise.Source) -> Noisy:
    """Every stage with one salt, then noise."""
    salt = source.bits(64)
    aggregates = engine.aggregate(plan.stage, salt=salt) if plan.stage.measures else _nothing(plan)
    cells = {name: engine.aggregate(split.stage, salt=salt) for name, split in plan.splits.items()}
    return noisy_answer(plan, aggregates, source, cells)


def _nothing(plan: GroupPlan) -> Aggregates:
    """Of a stage without measures, whose groups are public."""
    keys = plan.stage.keys or ()
    return Aggregates(len(keys), keys, {})


def noisy_answer(
    plan: GroupPlan, aggregates: Aggregates, source: noise.Source, cells: Mapping[str, Aggregates] | None = None
) -> Noisy:
    """Select, add fresh noise, and compute the statistics: for all groups, or for a part of the discovered ones.

    cells: the answers of the plan's splits, by measure.
    """
    keys, values = aggregates.keys, aggregates.values
    if plan.selection is not None:
        kept = np.flatnonzero(plan.selection.keeps(values[plan.discovered_by], source=source))
        order = sorted((int(place) for place in kept), key=lambda place: _sortable(keys[place]))
        keys, values = tuple(keys[place] for place in order), {name: found[order] for name, found in values.items()}
    mechanisms = {name: measure.mechanism for name, measure in plan.measures.items()}
    noisy: dict[str, WholeNumbers] = {
        name: mechanism.noisy(values[name], source=source)
        for name, mechanism in mechanisms.items()
        if name not in plan.splits
    }
    trees = {
        name: [mechanisms[name].noisy(level, source=source) for level in _levels(split, keys, (cells or {})[name])]
        for name, split in plan.splits.items()
    }
    if plan.histogram is not None:
        keys = tuple((*key, label) for key in keys for label in plan.histogram[1].labels)
    return Noisy(tuple(keys), statistics_of(plan, noisy, trees, CONFIDENCE), notes_of(plan))


def _levels(split: Split, keys: Sequence[Key], answer: Aggregates) -> list[WholeNumbers]:
    """Exact counts of the tree's nodes for the kept groups, (groups, nodes) a level."""
    found = answer.cells
    leaves = np.zeros((len(keys), split.tree.cells), dtype=np.int64)
    if found is not None:
        places = {key: place for place, key in enumerate(keys)}
        position = np.array([places.get(key, -1) for key in answer.keys], dtype=np.int64)[found.group]
        kept = position >= 0
        leaves[position[kept], found.cell[kept]] = found.count[kept]
    return split.tree.nodes(leaves)


def _chosen(plan: ChoicePlan, aggregates: Aggregates, source: noise.Source) -> Noisy:
    units = aggregates.values["units"]
    winners = plan.mechanism.choose(units, source=source)
    keys = tuple(aggregates.keys[winner] for winner in winners)
    if plan.counts is None:
        note = "What wins is released alone: its count and the runners-up are not, and asking for them costs more."
        return Noisy(keys, (), (note, *together_notes(plan)))
    noisy = plan.counts.mechanism.noisy(units[winners], source=source)
    note = (
        f"Each count has fresh noise, and its bar holds with probability at least {CONFIDENCE:.0%}; which values won was decided "
        "with other noise."
    )
    return Noisy(keys, (counted(plan.counts, noisy, CONFIDENCE),), (note, *together_notes(plan)))


def _sortable(key: Key) -> tuple[tuple[bool, str, object], ...]:
    return tuple((value is None, type(value).__name__, "" if value is None else value) for value in key)


def bounding_notes(plan: GroupPlan | MarginalPlan) -> tuple[str, ...]:
    """What a reader must know of bars, bounds and units."""
    bounding = plan.bounding
    notes = [f"Each bar holds alone with probability at least {CONFIDENCE:.0%}, around the bounded statistic."]
    if isinstance(plan.stage.table.unit, str):
        notes.append(
            f"Bounded: {_bounded(bounding)}. The bias of this and of clipping is not in the bars, and unknown."
        )
        if plan.stage.table.period is not None:
            notes.append(
                f"Protected is one {plan.stage.table.unit_name}: who has rows in m of them is protected as a group of m."
            )
    else:
        notes.append("Each row is protected as its own unit: people with several rows are protected less.")
    return tuple(notes)


def notes_of(plan: GroupPlan) -> tuple[str, ...]:
    """What a reader of the release must know."""
    notes = [*bounding_notes(plan)]
    for split in plan.splits.values():
        (column,) = split.stage.grid.values()
        if plan.histogram is not None:
            notes.append(
                "Values outside all bins are left out. A unit with more rows counts for the most allowed, over all bins."
            )
            continue
        notes.append(
            f"Quantiles of {column.column} lie on a grid with steps of {float(column.bounds.step):g}; a unit with more rows "
            "counts for the most allowed, spread evenly over its own values. A minimum or maximum is what values certainly "
            "reach: some may lie beyond."
        )
    notes += together_notes(plan)
    if plan.selection is not None:
        notes.append("Groups were discovered privately: small ones are missing. The bars use noise separate from that.")
    return tuple(notes)


def together_notes(plan: Plan) -> list[str]:
    """What one unit alone is promised, where several together are."""
    together = plan.together
    if together is None:
        return []
    note = f"The guarantee is for up to {together.units} units changed together"
    return [f"{note}; one alone has {plan.price}, and that is what the account was charged."]


def _bounded(bounding: Bounding) -> str:
    if bounding.norm_per_unit is not None:
        return (
            "a unit's whole vector of contributions, over groups and statistics, is scaled down to a norm of "
            f"{float(bounding.norm_per_unit):g} rows; no row is dropped"
        )
    total = "" if bounding.rows_per_unit is None else f", for {bounding.rows_per_unit} rows in all"
    return (
        f"a unit counts for at most {bounding.rows_per_group} rows in a group and in at most "
        f"{bounding.groups_per_unit} groups{total}"
    )


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


def release_of(paid: Paid, plan: Plan, answer: Noisy) -> Release:
    """The release of a plan's answer."""
    return Release(
        group_columns=_columns_of(plan),
        keys=answer.keys,
        statistics=answer.statistics,
        confidence=CONFIDENCE,
        guarantee=guarantee_of(plan),
        notes=answer.notes,
        provenance=provenance_of(paid, plan),
    )


def guarantee_of(plan: Plan) -> Guarantee:
    """What a release of this plan promises."""
    table, together = plan.stage.table, plan.together
    promise, units = (plan.price, 1) if together is None else (together.promise, together.units)
    return Guarantee.of(promise, unit=table.unit_name, neighbours=table.neighbours, units=units)


def _columns_of(plan: Plan) -> tuple[str, ...]:
    """The release's group columns: those of the question, and the bin of a histogram."""
    if isinstance(plan, MarginalPlan):
        return (*plan.stage.group_columns, MARGIN)
    extra = plan.histogram if isinstance(plan, GroupPlan) else None
    return plan.stage.group_columns if extra is None else (*plan.stage.group_columns, extra[0])


def _written(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    return {pool: str(amount) for pool, amount in amounts.items()}
