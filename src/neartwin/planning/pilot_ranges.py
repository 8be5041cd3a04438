"""Tuned clip bounds of values: first stages that find out privately where a column's values lie, within its declared limits.

The first stages are ordinary plans of their own, paid for in the same reserve: one count of rows, of which a unit counts for at
most 256, and for each column that is summed or averaged one histogram over all rows, in half octaves from 0 (or the limit next to
it) to the limits, of one value a unit, chosen by a salted hash. The question then runs at the bounds that they suggest:
adaptive composition lets a later stage depend on noisy answers of earlier ones.

The choice is the least of: mean absolute noise of the column's total in a group, which grows with the largest value, plus what
clipping takes from it, by the noisy histogram. All of it is an estimate: the guarantee is promised, the choice is not. One
value a unit says what people's values are like, not what heavy people's are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, isqrt, prod
from types import MappingProxyType

import numpy as np

from neartwin.accounting.budgets import Budget
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import FloatArray, Number
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.planning.context import planned_context
from neartwin.planning.groups import bounded_plan
from neartwin.planning.limits import Limits
from neartwin.planning.pilot_bounds import CONFIDENCE, SURE, plan_within, price_of, split_budget
from neartwin.planning.plan import GroupPlan, Ranging
from neartwin.queries.query import Query, TopK
from neartwin.statistics import count, histogram
from neartwin.statistics.base import Statistic
from neartwin.statistics.clipping import PrivateRange
from neartwin.tables.ranges import as_value
from neartwin.tables.table import Bounds, RowUnit

_OCTAVES = 12
_MOST_ROWS = 256  # of a unit in the count of all rows


@dataclass(frozen=True, slots=True)
class _Shape:
    """A column as it is asked about, its limits, and the edges among which bounds are chosen."""

    column: str
    limits: Bounds
    edges: tuple[Fraction, ...]


def private_range_of(query: Query) -> PrivateRange | None:
    """The private choice of clip bounds that sums and means of a query share; None where no bounds are chosen.

    Raises:
        ParameterError: where two statistics differ in it, for one pilot chooses all bounds.
    """
    found = {one.private_range for one in query.aggregates.values()} - {None}
    if len(found) > 1:
        raise ParameterError("clip", sorted(map(str, found)), "must be the same in all sums and means that have one")
    return next(iter(found), None)


def with_private_range(query: Query | TopK, clip: PrivateRange | None) -> Query | TopK:
    """The query, with clip bounds of all its sums and means chosen privately."""
    if clip is None:
        return query
    if not isinstance(query, Query) or all(one.summed_value(query.table) is None for one in query.aggregates.values()):
        raise QueryError("private_range(): the question has no sum or mean whose values are clipped")
    aggregates = {name: one.with_private_range(clip) for name, one in query.aggregates.items()}
    return replace(query, aggregates=MappingProxyType(aggregates))


def ranged_plan(
    query: Query, *, spend: Budget, clip: PrivateRange, limits: Limits, importance: Mapping[str, Number] | None
) -> GroupPlan:
    """The plan at the declared limits, with the stages that will choose narrower ones; its price is the whole spend.

    Raises:
        QueryError: where unknown groups have no expected number, or the question is for margins or a workload.
    """
    shapes = _shapes(query)
    groups = clip.groups if query.groups.keys is None else len(query.groups.keys)
    if groups is None:
        raise QueryError(
            "private_range(groups=...) is missing: say about how many groups you expect in the release; what clipping takes is "
            "weighed against noise group by group"
        )
    first, rest = split_budget(spend, clip.share)
    worst = plan_within(query, spend=rest, limits=limits, importance=importance)
    if not isinstance(worst, GroupPlan):
        raise QueryError("private_range(): this question has no clip bounds to choose")
    asked: list[GroupPlan] = []
    whole = query.groups.rows
    questions = [whole.agg(n=count()), *(whole.agg(shape=_histogram(query, shape)) for shape in shapes)]
    for left, question in zip(range(len(questions), 0, -1), questions, strict=True):
        part, first = (first, first) if left == 1 else split_budget(first, Fraction(1, left))
        cap = (
            Limits()
            if isinstance(query.table.unit, RowUnit)
            else Limits(max_rows_per_group=1 if asked else _cap(worst))
        )
        made = bounded_plan(question, spend=part, limits=cap)
        if isinstance(made, GroupPlan):
            asked.append(made)
    ranging = Ranging(tuple(asked), groups, rest, limits, importance)
    return replace(worst, spend=spend, price=price_of(spend, discovered=query.groups.keys is None), ranging=ranging)


def _cap(worst: GroupPlan) -> int:
    bounding = worst.bounding
    most = bounding.max_rows_per_group * bounding.max_groups
    return min(_MOST_ROWS, bounding.rows or most, most)


def _shapes(query: Query) -> tuple[_Shape, ...]:
    found: dict[tuple[str, Bounds], _Shape] = {}
    for aggregate in query.aggregates.values():
        value = aggregate.summed_value(query.table)
        if value is not None and aggregate.private_range is not None:
            shape = _Shape(value.column, value.bounds, _edges(value.bounds))
            found.setdefault((value.column, value.bounds), shape)
    return tuple(found.values())


def _edges(limits: Bounds) -> tuple[Fraction, ...]:
    """Half octaves from the limits towards 0, or towards the limit next to it; whole steps.

    >>> from neartwin.tables.table import bounds
    >>> [float(edge) for edge in _edges(bounds(-1, 8, "1"))]
    [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0]
    """
    near = min(max(Fraction(0), limits.low), limits.high)
    sizes = [Fraction(part, 4) / 2**octave for octave in range(_OCTAVES) for part in (4, 3)]
    found = {limits.low, limits.high, limits.step * round(near / limits.step)}
    for size in sizes:
        found.add(limits.step * ceil((near + (limits.high - near) * size) / limits.step))
        found.add(limits.step * floor((near + (limits.low - near) * size) / limits.step))
    return tuple(sorted(found))


def _histogram(query: Query, shape: _Shape) -> Statistic:
    table, name = query.table, shape.column
    text = as_value(table, name)
    low, high = float(shape.limits.low), float(shape.limits.high)
    term = table.expression(text).term
    ends = term.value if term.operation == "clip" else None
    if isinstance(ends, tuple) and low <= ends[0] and ends[1] <= high:
        return histogram(
            text, shape.edges
        )  # within already, and every edge names the value: a second clip would be long
    return histogram(f"clip({text}, {low!r}, {high!r})", shape.edges)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The plan at the chosen bounds, and for each column its bounds and the share of totals that they change, if it is known."""

    plan: GroupPlan
    columns: tuple[tuple[_Shape, Bounds, float | None], ...]

    @property
    def words(self) -> tuple[str, ...]:
        """What a reader must know of the choice, a sentence for each column."""
        return tuple(_words(*column) for column in self.columns)


def chosen(plan: GroupPlan, answers: Sequence[Sequence[float]]) -> Chosen:
    """The plan at the bounds that noisy answers suggest. answers: the count alone, then each histogram's bins."""
    ranging, shapes = plan.ranging, _shapes(plan.query)
    if ranging is None:
        raise TypeError("this plan tunes no values")
    rows, narrow, columns = float(answers[0][0]), {}, []
    for shape, made, bins in zip(shapes, ranging.asked[1:], answers[1:], strict=True):
        low, high, lost = _best(plan, shape, _seen(made, np.asarray(bins, dtype=float)), rows)
        narrow[shape.column, shape.limits] = found = Bounds(low, high, shape.limits.step)
        columns.append((shape, found, lost))
    aggregates = {name: _narrowed(plan.query, aggregate, narrow) for name, aggregate in plan.query.aggregates.items()}
    query = replace(plan.query, aggregates=MappingProxyType(aggregates))
    narrower = plan_within(query, spend=ranging.rest, limits=ranging.limits, importance=ranging.importance)
    if not isinstance(narrower, GroupPlan):
        raise TypeError("this question has no bounds")
    return Chosen(narrower, tuple(columns))


def _words(shape: _Shape, found: Bounds, lost: float | None) -> str:
    within = f"Chosen privately: {shape.column} clipped to [{float(found.low):g}, {float(found.high):g}], within {shape.limits}"
    if lost is None:
        return f"{within}: too few people are there to choose by."
    return (
        f"{within}; expected to change totals by about {lost:.1%}: an estimate from noisy counts of one value a unit."
    )


def _narrowed(query: Query, aggregate: Statistic, narrow: Mapping[tuple[str, Bounds], Bounds]) -> Statistic:
    value = aggregate.summed_value(query.table)
    if value is None or aggregate.private_range is None:
        return aggregate
    return aggregate.within(narrow[value.column, value.bounds])


def _seen(made: GroupPlan, bins: FloatArray) -> FloatArray:
    """Units by cell; what noise alone could be is nothing."""
    (measure,) = made.measures.values()
    found: FloatArray = np.where(bins > measure.mechanism.half_width(SURE, len(bins)) / measure.parts, bins, 0.0)
    return found


def _best(plan: GroupPlan, shape: _Shape, seen: FloatArray, rows: float) -> tuple[Fraction, Fraction, float | None]:
    """Bounds with the least expected error of a group's total, and the share of all totals that they change."""
    if not seen.sum() > 0 or plan.ranging is None:
        return shape.limits.low, shape.limits.high, None
    edges = np.array([float(edge) for edge in shape.edges])
    middles, share = (edges[:-1] + edges[1:]) / 2, seen / seen.sum()
    each = max(rows, float(seen.sum())) / plan.ranging.groups
    noise, centred = _noise(plan, shape)
    near = min(max(0.0, edges[0]), edges[-1])
    best = (float("inf"), 0, len(edges) - 1, 0.0)
    for i in np.flatnonzero(edges <= near).tolist():
        for j in np.flatnonzero(edges > max(near, edges[i])).tolist():
            far = (edges[j] - edges[i]) / 2 if centred else max(abs(edges[i]), abs(edges[j]))
            lost = float(share @ np.maximum(np.maximum(middles - edges[j], edges[i] - middles), 0.0))
            best = min(best, (noise * far + each * lost, i, j, lost))
    _, i, j, lost = best
    return shape.edges[i], shape.edges[j], lost / max(float(share @ np.abs(middles)), 1e-300)


def _noise(plan: GroupPlan, shape: _Shape) -> tuple[float, bool]:
    """Mean absolute noise of a group's total for values up to 1, and whether they are counted around the middle."""
    found, context = [], planned_context(plan)
    for aggregate in plan.outputs.values():
        value, column = aggregate.summed_value(plan.query.table), aggregate.total_column(context)
        if value is None or column is None or aggregate.private_range is None:
            continue
        if (value.column, value.bounds) != (shape.column, shape.limits):
            continue
        measure = plan.measures[f"total:{column.name}"]
        typical = 1 / 3 if isinstance(measure.mechanism, DiscreteLaplace) else 0.41
        size = typical * float(measure.half_width(CONFIDENCE)) * _smaller(plan)
        found.append((size / max(abs(column.low), abs(column.high)), column.centre != 0))
    return max(found)


def _smaller(plan: GroupPlan) -> float:
    """Where rows and groups are tuned too, the plan is at their limits; guessed is the geometric middle below them."""
    tuned = {} if plan.ranging is None else plan.ranging.limits.private
    return prod(isqrt(bound.at_most) / bound.at_most for bound in tuned.values())
