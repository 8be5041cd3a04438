"""First stages that choose clip bounds, or answer questions in conditions, paid for in the same reserve.

**Clip bounds** of values are chosen as limits are, within their declared ends. Cells are half octaves from 0 (or the end
next to it) to the ends. A unit counts once, in parts by the share of its values in each cell. So the number of units above
a candidate has sensitivity 1. Few units are best above it: they lose to clipping what noise in each group gains by a larger
bound. The scores are those of `LimitSearch`, and each end of each column is one choice. The question then runs at these
bounds. Adaptive composition lets a later stage depend on earlier choices: (F9) of docs/proofs/filters.md.
All of this is for the error: the guarantee is promised, a good choice is not.

**Scalar answers** stand in conditions. `WHERE balance > (SELECT AVG(balance) FROM accounts)` compares rows with a number
over many people. That number is a question of its own, and its noisy answer is a literal in the condition. A literal
changes no sensitivity, so limits, noise and price are those planned before it was known.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, isfinite, sqrt
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from neartwin.accounting.budgets import Budget
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import Number, WholeNumbers
from neartwin.losses import Composition, compose
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.selection.exponential import ExponentialMechanism, PermuteAndFlip
from neartwin.noise import Source
from neartwin.planning.allocation import NO_DELTA, share_of, split_budget, total_of
from neartwin.planning.digests import limits_record
from neartwin.planning.explain import Explained, nodes
from neartwin.planning.groups import GroupPlan, Split, plan_groups
from neartwin.planning.limit_choice import (
    GROUPS,
    GROWTH,
    PARTS,
    LimitSearch,
    expected_groups,
    plan_within,
    price_of,
    selection,
)
from neartwin.planning.limits import Limits
from neartwin.planning.plan import Choice, FirstStage, QueryPlan
from neartwin.planning.stage import SALT_BITS, Engine, RowCounts, Stage
from neartwin.queries.query import NOTHING, Query, Rows, TopK
from neartwin.statistics import histogram
from neartwin.statistics.base import Statistic
from neartwin.statistics.clipping import PrivateRange
from neartwin.tables.expressions import RowExpression
from neartwin.tables.ranges import as_value
from neartwin.tables.table import Bounds, RowUnit, Table
from neartwin.tables.types import NUMERIC, ColumnType, of_code

_OCTAVES = 15  # below the 16 doublings that scores tell apart
_TYPICAL = 4  # most units have such a part of the rows that a limit leaves
_ASKED = NUMERIC | {ColumnType.DATE}  # types of scalar answers
_SCALARS = Fraction(1, 5)  # of the spend for scalar answers: a number over all rows is less noisy than those of groups


@dataclass(frozen=True, slots=True)
class _Range:
    """A column whose clip bounds are chosen.

    Attributes:
        column: The column, or its expression.
        limits: Its declared bounds.
        split: The exact question: units by the share of their values in each cell between candidates.
        searches: The choice of each end that has several candidates, "low" or "high", and these, from near 0 on.
    """

    column: str
    limits: Bounds
    split: Split
    searches: Mapping[str, tuple[LimitSearch, tuple[Fraction, ...]]]

    def chosen(self, cells: WholeNumbers, source: Source) -> Bounds:
        """Bounds that few units have values beyond.

        Args:
            cells: (cells,) exact units by cell, in the parts of the question.
            source: The source of randomness.
        """
        found = {
            end: values[search.mechanism.choose(self.scores(end, cells), source=source)]
            for end, (search, values) in self.searches.items()
        }
        return replace(self.limits, **found)

    def scores(self, end: str, cells: WholeNumbers) -> WholeNumbers:
        """The scores of the candidates for an end.

        Args:
            end: "low" or "high".
            cells: As for `chosen`.

        Returns:
            (candidates,) scores.
        """
        search, values = self.searches[end]
        beyond = np.cumsum(cells[:: -1 if end == "high" else 1].astype(object)) * PARTS // self.split.stage.split_parts
        return search.scores_above([0, *beyond][len(values) - 1 :: -1], beyond[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranging(FirstStage):
    """A first stage that chooses clip bounds of values.

    Attributes:
        ranges: The ranges to choose.
        groups: The expected number of groups.
    """

    ranges: tuple[_Range, ...]
    groups: int

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The exact questions: one for each column."""
        return tuple(one.split.stage for one in self.ranges)

    def record(self, plan: QueryPlan) -> dict[str, object]:
        """The choices, the limits, the importance, and the sums whose bounds stay."""
        table, asked = plan.query.table, plan.query.aggregates.items()
        unclipped = sorted(name for name, one in asked if one.clip is None and one.summed_value(table) is not None)
        searches = [[part.record for part, _ in one.searches.values()] for one in self.ranges]
        limits = limits_record(self.limits, self.importance)
        return {"ranging": [*searches, self.groups, limits, *([unclipped] if unclipped else [])]}

    def losses(self) -> Composition:
        """The privacy loss of all choices."""
        return compose([mechanism.losses() for _, mechanism in self.mechanisms()])

    def mechanisms(self) -> Iterator[tuple[str, PermuteAndFlip | ExponentialMechanism]]:
        """The selection of each bound."""
        yield from (
            (f"choice of {part.name}", part.mechanism) for one in self.ranges for part, _ in one.searches.values()
        )

    def origin(self, plan: QueryPlan, bound: str) -> str | None:
        """The origin of clip bounds that this stage chooses."""
        clip = getattr(plan.query.aggregates.get(bound.partition(": ")[0]), "clip", None)
        return clip and "chosen by a private first stage that was paid for, within the declared bounds"

    def explanation(self, plan: QueryPlan) -> Explained:
        """The choices."""
        lines = [
            f"{name}: one unit moves each score by at most 1; epsilon {float(one.epsilon):.3g}"
            for name, one in self.mechanisms()
        ]
        lines.append(f"the question then spends {self.rest}; the plan below is the worst case, at the widest bounds")
        return Explained("first choose clip bounds of values privately", nodes(*lines))

    def choose(self, plan: QueryPlan, engine: Engine, source: Source) -> Choice:
        """Choose the bounds, and plan the question within them."""
        narrow = {}
        for one in self.ranges:
            answer = engine.aggregate(one.split.stage, salt=source.bits(SALT_BITS))
            narrow[one.column, one.limits] = one.chosen(one.split.leaves([()], answer)[0], source)
        return self.chosen(plan, narrow)

    def chosen(self, plan: QueryPlan, bounds: Mapping[tuple[str, Bounds], Bounds]) -> Choice:
        """The plan at these bounds.

        Args:
            plan: The plan at the widest bounds.
            bounds: The bounds, by column and declared bounds.
        """
        asked = dict(plan.query.aggregates)
        for name, one in asked.items():
            if one.clip is not None and (value := one.summed_value(plan.query.table)) is not None:
                asked[name] = one.within(bounds[value.column, value.bounds])
        query = replace(plan.query, aggregates=MappingProxyType(asked))
        question = plan_within(query, spend=self.rest, limits=self.limits, importance=self.importance)
        question = replace(question, price=plan.price, together=plan.together)
        said = (
            f"Chosen privately: {column} clipped to [{float(one.low):g}, {float(one.high):g}], within {limits}."
            for (column, limits), one in bounds.items()
        )
        return Choice(before=plan, plan=question, sentences=tuple(said))


@dataclass(frozen=True, slots=True)
class ScalarAnswers(FirstStage):
    """Questions whose numbers stand in conditions, in their order.

    Attributes:
        plans: The plans.
        plan_of: The planner.
    """

    plans: tuple[QueryPlan, ...]
    plan_of: Callable[..., Any]

    def losses(self) -> Composition:
        """The privacy loss of all these plans."""
        return compose([one.losses() for one in self.plans])

    def mechanisms(self) -> Iterator[tuple[str, object]]:
        """The noise of each of these plans, and of their own first stages."""
        for one in self.plans:
            parts = (*one.mechanisms(), *(part for stage in one.first_stages for part in stage.mechanisms()))
            yield from ((f"first stage: {name}", mechanism) for name, mechanism in parts)

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of these questions."""
        return tuple(one.stage.table for one in self.plans)

    @property
    def asked(self) -> list[str]:
        """The questions with their prices, in words."""
        return [f"${i} = {str(*one.query.aggregates.values())}, for {one.price}" for i, one in enumerate(self.plans, 1)]

    def record(self, plan: QueryPlan) -> dict[str, object]:
        """The digests of these plans."""
        return {"asked first": [one.digest for one in self.plans]}

    def example(self, plan: QueryPlan) -> str:
        """The questions."""
        return f", after asking first {' and '.join(self.asked)}, whose own error is left out"

    def explanation(self, plan: QueryPlan) -> Explained:
        """These plans."""
        plans = (Explained(what, (one.explain(),)) for what, one in zip(self.asked, self.plans, strict=True))
        rest = Explained(f"the question then spends {self.rest}, with the noisy answers as numbers in its conditions")
        return Explained("first ask, with noise of their own", (*plans, rest))

    def choose(self, plan: QueryPlan, engine: Engine, source: Source) -> Choice:
        """Answer these questions, and plan the question with their noisy numbers. One that is not finite stands as 0.

        Numbers in no condition are asked within the limits of the question, where these were chosen too and are wider.
        """
        rows, answered = plan.query.groups.rows, []
        compared = any(part.operation == "answer" for one in rows.conditions for part in one.term.walk())

        def planned(conditions: tuple[RowExpression, ...]) -> Any:
            given = Rows(rows.table, conditions, compared=compared)
            query = replace(plan.query, groups=replace(plan.query.groups, rows=given))
            question = self.plan_of(query, spend=self.rest, limits=self.limits, importance=self.importance)
            return replace(question, price=plan.price, together=plan.together)

        question, later = (plan, ()) if compared else planned(rows.conditions).resolve(engine, source)
        for one in self.plans:
            counted = RowCounts.of(one.all_stages, engine)
            own = one.resolve(counted, source)[0]
            alike = later and one.first_stages and one.query.groups.rows.conditions == rows.conditions
            if alike and not one.query.values_alone and _rows_of(question) > _rows_of(own):
                own = self.plan_of(one.query, spend=own.spend, limits=Limits(rows=_rows_of(question)))
            own, lost = own.with_loss(counted, source)
            answered.append((own, lost, own.answer(counted, source).columns[0]))
        answers = [answer for *_, answer in answered]
        numbers = tuple(of_code(one.kind, one.values[0] if isfinite(one.values[0]) else 0.0) for one in answers)
        if compared:
            question = planned(tuple(replace(one, term=one.term.answered(numbers)) for one in rows.conditions))
        shown = tuple((one.kind, one.values[0], one.lower[0], one.upper[0]) for one in answers)
        values = (f"{one:.9g}" if isinstance(one, float) else one for one in numbers)
        found = (f"{what}, is {number}" for what, number in zip(self.asked, values, strict=True))
        said = [f"Asked first: {'; '.join(found)}."]
        for i, (own, lost, answer) in enumerate(answered, 1):
            said += [] if lost is None else [f"For ${i}: {lost['says']}"]
            said += own.notes_of_values([answer])
        parts = tuple(own for own, *_ in answered)
        return Choice(before=plan, plan=question, sentences=tuple(said), asked_first=shown, answered=parts, later=later)


def _rows_of(plan: Any) -> int:
    """The most rows of a unit that a plan counts, in as many groups as it has."""
    own, groups = plan.bounding, len(plan.query.groups.keys or ()) or GROUPS
    return int(own.total_rows) if own.norm is None else ceil(float(own.norm) * sqrt(groups))


def _people(query: Query) -> tuple[object, ...]:
    return query.table.source, query.table.name, query.table.unit_name, query.table.neighbours


def scalar_plan(
    plan_of: Callable[..., Any], query: Query, *, spend: Budget, limits: Limits, importance: Mapping[str, Number] | None
) -> QueryPlan:
    """Plan a question, and those whose numbers stand in its conditions.

    Args:
        plan_of: The planner.
        query: The question.
        spend: The spend of all.
        limits: The limits of each unit.
        importance: The relative importance of each statistic's error, by name. Default 1.

    Returns:
        The plan. Its price is the sum of all.

    Raises:
        QueryError: A question asked first has other than one number, is of other people, or asks another first.
    """
    rows, own = query.groups.rows, replace(limits, max_groups=None, max_discovered_groups=None)
    for one in rows.first:
        kinds = [kind in _ASKED for kind in one.released.values()] if isinstance(one, Query) else []
        if kinds != [True] or one.groups.rows.first or one.after != NOTHING or _people(one) != _people(query):
            line = "rows.where('amount > $1', rows.agg(typical=nt.mean('amount', 0, 200)))"
            raise QueryError(f"{one!r} cannot be asked first: it must have one number of the same people; write {line}")
    first, rest = split_budget(spend, _SCALARS)
    each = share_of(first, Fraction(1, len(rows.first)), delta=NO_DELTA)
    plans = tuple(plan_of(one, spend=each, limits=own) for one in rows.first)
    alone = replace(query, groups=replace(query.groups, rows=replace(rows, first=())))
    question: QueryPlan = plan_of(alone, spend=rest, limits=limits, importance=importance)
    stage = ScalarAnswers(plans, plan_of, rest=rest, limits=limits, importance=importance)
    price = total_of([*(one.price for one in plans), question.price], spend)
    return replace(question, query=query, spend=spend, price=price, first_stages=(stage, *question.first_stages))


def private_range_of(query: Query) -> PrivateRange | None:
    """The private choice of clip bounds that sums and means of a query share; None if it chooses no bounds.

    Raises:
        ParameterError: Two statistics differ in it. One pilot chooses all bounds.
    """
    choices = {one.clip for one in query.aggregates.values()} - {None}
    if len(choices) > 1:
        raise ParameterError(
            "clip", sorted(map(str, choices)), "must be equal in all sums and means with private ranges"
        )
    return next(iter(choices), None)


def with_private_range(query: Query | TopK, clip: PrivateRange | None) -> Query | TopK:
    """The query, with the clip bounds of all its sums and means chosen privately.

    Args:
        query: The query.
        clip: The private choice; None leaves the query unchanged.

    Returns:
        The query with the choice in each sum and mean.

    Raises:
        QueryError: No sum or mean of the question clips values.
    """
    if clip is None:
        return query
    asked = query.aggregates if isinstance(query, Query) else {}
    summed = {name: one for name, one in asked.items() if one.summed_value(query.table) is not None}
    if not isinstance(query, Query) or not summed:
        raise QueryError("private_range(): the question has no sum or mean whose values are clipped")
    chosen = {name: replace(one, clip=clip) for name, one in summed.items()}  # type: ignore[type-var]
    return replace(query, aggregates=MappingProxyType({**asked, **chosen}))


def ranged_plan(
    query: Query, *, spend: Budget, clip: PrivateRange, limits: Limits, importance: Mapping[str, Number] | None
) -> GroupPlan:
    """Plan at the declared bounds, with the stages that will choose narrower ones. The price is the whole spend.

    Args:
        query: The query.
        spend: The spend of all stages.
        clip: The private choice of clip bounds.
        limits: The limits of each unit.
        importance: The relative importance of each statistic's error, by name. Default 1.

    Returns:
        The plan.

    Raises:
        QueryError: The question is for margins or a workload.
    """
    if query.groups.margins or query.groups.linear_workload is not None:
        raise QueryError("private_range(): this question has no clip bounds to choose")
    groups = expected_groups(query, [clip])
    first, rest = split_budget(spend, clip.share)
    # a plan of groups: there are no margins and no workload
    worst = cast("GroupPlan", plan_within(query, spend=rest, limits=limits, importance=importance))
    own, found = worst.bounding, _ranges(worst)
    rows = float(own.total_rows) if own.norm is None else float(own.norm) * groups**0.25
    ends = sum(len(_candidates(limits)) for _, limits in found)
    part = share_of(first, Fraction(1, max(ends, 1)), delta=NO_DELTA)
    ranges = tuple(_range(query, key, groups * size / max(rows / _TYPICAL, 1.0), part) for key, size in found.items())
    ranging = Ranging(ranges=ranges, groups=groups, rest=rest, limits=limits, importance=importance)
    return replace(worst, spend=spend, price=price_of(spend, query), first_stages=(ranging, *worst.first_stages))


def _range(query: Query, key: tuple[str, Bounds], few: float, spend: Budget) -> _Range:
    """The choice of a column's bounds. few: the units beyond a bound that are as bad as noise that grows with it."""
    (column, limits), joins = key, query.table.neighbours is Neighbours.ADD_REMOVE
    ends = _candidates(limits)
    edges = sorted({min(max(Fraction(0), limits.low), limits.high), limits.low, limits.high}.union(*ends.values()))
    question = query.groups.rows.agg(shape=_histogram(query, column, limits, tuple(edges)))
    cap = Limits() if isinstance(query.table.unit, RowUnit) else Limits(max_rows_per_group=1)
    (split,) = plan_groups(question, spend=spend, limits=cap).splits.values()
    mechanism, least = selection(spend, monotone=joins), min(map(abs, edges))
    searches = {
        end: LimitSearch(
            name=f"{end} of {column}",
            stages=(split.stage,),
            candidates=tuple(max(abs(value), least) / max(abs(values[0]), least) for value in values),
            mechanism=mechanism,
            growth=GROWTH * few,
            capped=joins,
        )
        for end, values in ends.items()
    }
    return _Range(column, limits, split, {end: (searches[end], ends[end]) for end in ends})


def _ranges(plan: GroupPlan) -> dict[tuple[str, Bounds], float]:
    """The columns whose bounds are chosen, with the mean absolute noise of a group's total for values up to 1."""
    sizes = dict[tuple[str, Bounds], float]()
    for one in plan.query.aggregates.values():
        value, column = one.summed_value(plan.query.table), one.total_column(plan.context)
        if value is None or column is None or one.clip is None:
            continue
        measure = plan.measures[f"total:{column.name}"]
        shared = measure.row > 0  # two noises beside one, and half the span is the largest value
        size = measure.mechanism.mean_size * sqrt(1 + shared) / measure.parts
        size *= (measure.row or 1) / max(abs(column.low), abs(column.high))
        sizes[value.column, value.bounds] = max(size, sizes.get((value.column, value.bounds), 0.0))
    return sizes


def _candidates(limits: Bounds) -> dict[str, tuple[Fraction, ...]]:
    """For each end that has several, whole steps in half octaves from 0 on, or from the end next to it.

    >>> from neartwin.tables.table import bounds
    >>> {end: [int(one) for one in found] for end, found in _candidates(bounds(-1, 8, "1")).items()}
    {'high': [1, 2, 3, 4, 6, 8]}
    """
    near, found = min(max(Fraction(0), limits.low), limits.high), dict[str, tuple[Fraction, ...]]()
    sizes = [Fraction(part, 4) / 2**octave for octave in range(_OCTAVES) for part in (4, 3)]
    for end, to, whole in ("high", limits.high, ceil), ("low", limits.low, floor):
        ends = {to, *(limits.step * whole((near + (to - near) * size) / limits.step) for size in sizes)} - {near}
        if len(ends) > 1:
            found[end] = tuple(sorted(ends, key=lambda one: abs(one - near)))
    return found


def _histogram(query: Query, column: str, limits: Bounds, edges: tuple[Fraction, ...]) -> Statistic:
    table = query.table
    text = as_value(table, column)
    low, high = float(limits.low), float(limits.high)
    term = table.expression(text).term
    ends = term.value if term.operation == "clip" else None
    if isinstance(ends, tuple) and low <= ends[0] and ends[1] <= high:
        return histogram(text, edges)  # clipped already; every edge repeats the value, so a second clip would be long
    return histogram(f"clip({text}, {low!r}, {high!r})", edges)
