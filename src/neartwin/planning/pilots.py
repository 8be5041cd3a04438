"""First stages that are ordinary plans, paid for in the same reserve.

**Clip bounds** of values are found privately, within their declared limits. One plan is a count of rows, in which a unit counts
for at most 256. The others are histograms over all rows, one for each column that is summed or averaged. A histogram takes one
value a unit, chosen by a salted hash. Its cells are half octaves from 0 (or the limit next to it) to the limits. The
question then runs at the bounds that they suggest. Adaptive composition lets a later stage depend on noisy answers of
earlier ones: (F9) of docs/proofs/filters.md.

The choice minimises the mean absolute noise of the column's total in a group plus the loss from clipping. The noise
grows with the largest value, and the noisy histogram gives the loss. All of this is an estimate: the guarantee is
promised, the choice is not. One value a unit describes people's values, not those of heavy people.

**Scalar answers** stand in conditions. `WHERE balance > (SELECT AVG(balance) FROM accounts)` compares rows with a number
over many people. That number is a question of its own, and its noisy answer is a literal in the condition. A literal
changes no sensitivity, so limits, noise and price are those planned before it was known.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from math import ceil, floor, isfinite, sqrt
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from neartwin.accounting.budgets import Budget
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import FloatArray, Number
from neartwin.losses import Composition, compose
from neartwin.noise import Source
from neartwin.planning.allocation import NO_DELTA, share_of, split_budget, total_of
from neartwin.planning.digests import limits_record
from neartwin.planning.explain import Explained
from neartwin.planning.groups import GroupPlan, plan_groups
from neartwin.planning.limit_choice import GROUPS, plan_within, price_of
from neartwin.planning.limits import Limits
from neartwin.planning.plan import Choice, FirstStage, Plan, QueryPlan
from neartwin.planning.stage import Engine, RowCounts
from neartwin.queries.query import NOTHING, Query, Rows, TopK
from neartwin.statistics import count, histogram
from neartwin.statistics.base import Estimate, Statistic
from neartwin.statistics.clipping import PrivateRange
from neartwin.tables.expressions import RowExpression
from neartwin.tables.ranges import as_value
from neartwin.tables.table import Bounds, RowUnit, Table
from neartwin.tables.types import NUMERIC, ColumnType, of_code

_OCTAVES = 12
# The probability that no cell is noise alone. One empty cell far out would stand for large values, and spoil the choice.
SURE = 0.9999
_MOST_ROWS = 256  # the most rows of a unit in the count of all rows
_ASKED = NUMERIC | {ColumnType.DATE}  # types of scalar answers
_SCALARS = Fraction(1, 5)  # of the spend for scalar answers: a number over all rows is less noisy than those of groups


@dataclass(frozen=True, slots=True)
class _Range:
    """A column whose clip bounds are chosen.

    Attributes:
        column: The column, or its expression.
        limits: Its declared bounds.
        edges: The candidates for bounds.
        noise: The mean absolute noise of a group's total, for values up to 1.
        centred: Whether values are counted around the middle of their bounds.
    """

    column: str
    limits: Bounds
    edges: tuple[Fraction, ...]
    noise: float
    centred: bool

    def best(self, units: FloatArray, rows: float) -> Bounds:
        """Bounds with the least expected error of a group's total; the declared ones where nobody is seen.

        Args:
            units: Units by cell between the edges.
            rows: The rows of a group.
        """
        if not units.sum() > 0:
            return self.limits
        edges = np.array([float(edge) for edge in self.edges])
        middles, share = (edges[:-1] + edges[1:]) / 2, units / units.sum()
        near = min(max(0.0, edges[0]), edges[-1])
        best = (float("inf"), 0, len(edges) - 1)
        for i in np.flatnonzero(edges <= near).tolist():
            for j in np.flatnonzero(edges > max(near, edges[i])).tolist():
                largest = (edges[j] - edges[i]) / 2 if self.centred else max(abs(edges[i]), abs(edges[j]))
                lost = float(share @ np.maximum(np.maximum(middles - edges[j], edges[i] - middles), 0.0))
                best = min(best, (self.noise * largest + rows * lost, i, j))
        return Bounds(self.edges[best[1]], self.edges[best[2]], self.limits.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRanges(Choice):
    """The chosen clip bounds of values.

    Attributes:
        bounds: The bounds, by column and declared bounds.
    """

    bounds: Mapping[tuple[str, Bounds], Bounds]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The notes about the choice, a sentence for each column."""
        return tuple(
            f"Chosen privately: {column} clipped to [{float(bounds.low):g}, {float(bounds.high):g}], within {limits}, from "
            "noisy counts of one value a unit."
            for (column, limits), bounds in self.bounds.items()
        )


@dataclass(frozen=True, slots=True)
class _Pilots(FirstStage):
    """First stages that are plans.

    Attributes:
        plans: The plans.
    """

    plans: tuple[QueryPlan, ...]

    def losses(self) -> Composition:
        """The privacy loss of all these plans."""
        return compose([one.losses() for one in self.plans])

    def mechanisms(self) -> Iterator[tuple[str, object]]:
        """The noise of each of these plans, and of their own first stages."""
        for one in self.plans:
            parts = (*one.mechanisms(), *(part for stage in one.first_stages for part in stage.mechanisms()))
            yield from ((f"first stage: {name}", mechanism) for name, mechanism in parts)


@dataclass(frozen=True, slots=True)
class Ranging(_Pilots):
    """First stages that choose clip bounds of values.

    Attributes:
        plans: The plans: the count of all rows, and a histogram for each range.
        ranges: The ranges to choose.
        groups: The expected number of groups.
    """

    plans: tuple[GroupPlan, ...]
    ranges: tuple[_Range, ...]
    groups: int

    def record(self, plan: QueryPlan) -> dict[str, object]:
        """The digests of these plans, the limits, the importance, and the sums whose bounds stay."""
        table = plan.query.table
        unclipped = sorted(
            name
            for name, statistic in plan.query.aggregates.items()
            if statistic.clip is None and statistic.summed_value(table) is not None
        )
        limits = limits_record(self.limits, self.importance)
        form = [*(one.digest for one in self.plans), self.groups, limits]
        return {"ranging": [*form, *([unclipped] if unclipped else [])]}

    def origin(self, plan: QueryPlan, bound: str) -> str | None:
        """The origin of clip bounds that this stage chooses."""
        statistic = plan.query.aggregates.get(bound.partition(": ")[0])
        if statistic is None or statistic.clip is None:
            return None
        return "chosen by private first stages that were paid for, within the declared bounds"

    def explanation(self, plan: QueryPlan) -> Explained:
        """These plans, with their measures."""
        plans = (
            Explained(
                f"{next(iter(one.query.aggregates.values()))}: {one.price}",
                tuple(map(one.explain_measure, one.measures)),
            )
            for one in self.plans
        )
        rest = Explained(
            f"the question then spends {self.rest}; the plan below is the worst case, at the widest bounds"
        )
        return Explained("first choose clip bounds of values, from noisy counts of one value a unit", (*plans, rest))

    def choose(self, plan: QueryPlan, engine: Engine, source: Source) -> Choice:
        """Choose the plan at the bounds that noisy answers suggest."""
        return self.chosen(plan, [one.answer(engine, source).columns[0].values for one in self.plans])

    def chosen(self, plan: QueryPlan, answers: Sequence[Sequence[float]]) -> ChosenRanges:
        """Choose the plan from noisy answers.

        Args:
            plan: The plan at the widest bounds.
            answers: The number of rows, and then units by cell for each range.

        Returns:
            The chosen bounds.
        """
        rows, narrow = float(answers[0][0]), {}
        for one, part, bins in zip(self.ranges, self.plans[1:], answers[1:], strict=True):
            units = _seen(part, np.asarray(bins, dtype=float))
            narrow[one.column, one.limits] = one.best(units, max(rows, float(units.sum())) / self.groups)
        query = plan.query
        aggregates = {name: _narrowed(query, part, narrow) for name, part in query.aggregates.items()}
        question = plan_within(
            replace(query, aggregates=MappingProxyType(aggregates)),
            spend=self.rest,
            limits=self.limits,
            importance=self.importance,
        )
        question = replace(question, price=plan.price, together=plan.together)
        return ChosenRanges(before=plan, plan=question, bounds=narrow)


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAnswers(Choice):
    """The noisy numbers that stand in conditions.

    Attributes:
        stage: The questions.
        numbers: The noisy numbers, or dates.
        answered: The plan of each at its chosen limits, what these took, and the noisy answer.
    """

    stage: "ScalarAnswers"
    numbers: tuple[float | str | date, ...]
    answered: Sequence[tuple[Plan, Mapping[str, Any] | None, Estimate]]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The numbers in words, what limits took from them, and which lie at a clip bound."""
        shown = (f"{one:.9g}" if isinstance(one, float) else one for one in self.numbers)
        found = (f"{what}, is {number}" for what, number in zip(self.stage.asked, shown, strict=True))
        said = [f"Asked first: {'; '.join(found)}."]
        for i, (plan, lost, answer) in enumerate(self.answered, 1):
            said += [] if lost is None else [f"For ${i}: {lost['says']}"]
            said += plan.notes_of_values([answer])
        return tuple(said)


@dataclass(frozen=True, slots=True)
class ScalarAnswers(_Pilots):
    """Questions whose numbers stand in conditions, in their order.

    Attributes:
        plan_of: The planner.
    """

    plan_of: Callable[..., Any]

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
        return GivenAnswers(
            before=plan, plan=question, stage=self, numbers=numbers, answered=answered, asked_first=shown, later=later
        )


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
        QueryError: The expected number of unknown groups is missing, or the question is for margins or a workload.
    """
    if query.groups.margins or query.groups.linear_workload is not None:
        raise QueryError("private_range(): this question has no clip bounds to choose")
    groups = clip.groups if query.groups.keys is None else len(query.groups.keys)
    if groups is None:
        raise QueryError(
            "private_range(groups=...) is missing: give the approximate number of groups in the release; the plan weighs the "
            "loss from clipping against noise group by group"
        )
    first, rest = split_budget(spend, clip.share)
    # a plan of groups: there are no margins and no workload
    worst = cast("GroupPlan", plan_within(query, spend=rest, limits=limits, importance=importance))
    ranges = _ranges(worst)
    rows = query.groups.rows
    histograms = (_histogram(query, one.column, one.limits, one.edges) for one in ranges)
    questions = [rows.agg(n=count()), *(rows.agg(shape=one) for one in histograms)]
    plans: list[GroupPlan] = []
    for left, question in zip(range(len(questions), 0, -1), questions, strict=True):
        part, first = split_budget(first, Fraction(1, left)) if left > 1 else (first, first)
        cap = Limits()
        if not isinstance(query.table.unit, RowUnit):
            cap = Limits(max_rows_per_group=1 if plans else min(_MOST_ROWS, worst.bounding.total_rows))
        plans.append(plan_groups(question, spend=part, limits=cap))
    ranging = Ranging(plans=tuple(plans), ranges=ranges, groups=groups, rest=rest, limits=limits, importance=importance)
    return replace(worst, spend=spend, price=price_of(spend, query), first_stages=(ranging, *worst.first_stages))


def _ranges(plan: GroupPlan) -> tuple[_Range, ...]:
    """The columns whose bounds are chosen, each once. The noise is the largest over the statistics of a column."""
    sizes: dict[tuple[str, Bounds], list[tuple[float, bool]]] = {}
    for one in plan.query.aggregates.values():
        value, column = one.summed_value(plan.query.table), one.total_column(plan.context)
        if value is None or column is None or one.clip is None:
            continue
        measure = plan.measures[f"total:{column.name}"]
        shared = measure.row > 0  # two noises beside one, and half the span is the largest value
        size = measure.mechanism.mean_size * sqrt(1 + shared) / measure.parts
        size *= (measure.row or 1) / max(abs(column.low), abs(column.high))
        sizes.setdefault((value.column, value.bounds), []).append((size, shared or column.centre != 0))
    return tuple(_Range(column, bounds, _edges(bounds), *max(noises)) for (column, bounds), noises in sizes.items())


def _edges(limits: Bounds) -> tuple[Fraction, ...]:
    """Half octaves from the limits towards 0, or towards the limit next to it; whole steps.

    >>> from neartwin.tables.table import bounds
    >>> [float(edge) for edge in _edges(bounds(-1, 8, "1"))]
    [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0]
    """
    near = min(max(Fraction(0), limits.low), limits.high)
    sizes = [Fraction(part, 4) / 2**octave for octave in range(_OCTAVES) for part in (4, 3)]
    edges = {limits.low, limits.high, limits.step * round(near / limits.step)}
    for size in sizes:
        edges.add(limits.step * ceil((near + (limits.high - near) * size) / limits.step))
        edges.add(limits.step * floor((near + (limits.low - near) * size) / limits.step))
    return tuple(sorted(edges))


def _histogram(query: Query, column: str, limits: Bounds, edges: tuple[Fraction, ...]) -> Statistic:
    table = query.table
    text = as_value(table, column)
    low, high = float(limits.low), float(limits.high)
    term = table.expression(text).term
    ends = term.value if term.operation == "clip" else None
    if isinstance(ends, tuple) and low <= ends[0] and ends[1] <= high:
        return histogram(text, edges)  # clipped already; every edge repeats the value, so a second clip would be long
    return histogram(f"clip({text}, {low!r}, {high!r})", edges)


def _narrowed(query: Query, aggregate: Statistic, narrow: Mapping[tuple[str, Bounds], Bounds]) -> Statistic:
    value = aggregate.summed_value(query.table)
    if value is None or aggregate.clip is None:
        return aggregate
    return aggregate.within(narrow[value.column, value.bounds])


def _seen(plan: GroupPlan, bins: FloatArray) -> FloatArray:
    """Units by cell; counts within the noise are 0."""
    (measure,) = plan.measures.values()
    return np.where(bins > measure.mechanism.half_width(SURE, len(bins)) / measure.parts, bins, 0.0)
