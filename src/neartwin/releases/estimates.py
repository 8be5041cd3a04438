"""From noisy measures to the named statistics with error bars. Post-processing: nothing here sees an exact number."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

import numpy as np

from neartwin.exact import FloatArray, WholeNumbers
from neartwin.mechanisms.ranks import Ranks
from neartwin.queries.histograms import Histogram
from neartwin.queries.mean_bars import thresholds
from neartwin.queries.mean_ends import mean_bounds
from neartwin.queries.measuring import count_measure, filled_measure, grid_column
from neartwin.queries.moments import MomentStatistic
from neartwin.queries.plan import GroupPlan, Measure
from neartwin.queries.quantiles import Extreme, Quantile
from neartwin.queries.stage import GridColumn
from neartwin.queries.statistics import Aggregate, Count, CountUnits, Mean, Sum
from neartwin.queries.sum_bars import sum_half_width
from neartwin.queries.trees import cell_measure, histogram_column, quantile_column
from neartwin.releases.moments import moment_statistics
from neartwin.releases.release import Statistic

_AT_ONCE = 1 << 22  # cells of groups that are worked on together

Noisy = Mapping[str, WholeNumbers]
Trees = Mapping[str, Sequence[WholeNumbers]]


def statistics_of(plan: GroupPlan, noisy: Noisy, trees: Trees, confidence: float) -> tuple[Statistic, ...]:
    """Compute every statistic of every group from noisy numbers.

    Args:
        plan: names the statistics and the laws of the noise.
        noisy: (groups,) noisy whole numbers by measure, in parts of a step.
        trees: (groups, nodes) noisy counts for each level of a tree, by measure.
        confidence: of each bar alone, over the noise.

    Returns:
        The statistics in the order of the plan. A list of quantiles gives one a rank.
    """
    found: list[Statistic] = []
    for name, aggregate in plan.outputs.items():
        if isinstance(aggregate, Histogram):
            found.append(_of_bins(plan, aggregate, trees, confidence))
        elif isinstance(aggregate, Quantile | Extreme):
            found += _of_order(plan, name, aggregate, trees, confidence)
        elif isinstance(aggregate, MomentStatistic):
            found += moment_statistics(plan, name, aggregate, noisy, confidence)
        else:
            found.append(statistic(plan, name, aggregate, noisy, confidence))
    return tuple(found)


def statistic(
    plan: GroupPlan,
    name: str,
    aggregate: Count | CountUnits | Sum | Mean,
    noisy: Noisy,
    confidence: float,
) -> Statistic:
    """One statistic of every group, one that is made from noisy sums and counts."""
    match aggregate:
        case Count() | CountUnits():
            measure = plan.measures[count_measure(plan.query, aggregate, plan.bounding)]
            values, bar, parts = (
                noisy[measure.name].tolist(),
                measure.mechanism.half_width(confidence),
                measure.parts,
            )
            if parts == 1:
                return _with_bar(name, aggregate, values, [v - bar for v in values], [v + bar for v in values])
            return _with_bar(name, aggregate, *([(v + move) / parts for v in values] for move in (0, -bar, bar)))
        case Sum():
            return _sum(plan, name, aggregate, noisy, confidence)
        case Mean():
            return _mean(plan, name, aggregate, noisy, confidence)
        case _:
            assert_never(aggregate)


def _sum(plan: GroupPlan, name: str, aggregate: Sum, noisy: Noisy, confidence: float) -> Statistic:
    """The total, and where values are counted around a centre so many times that: see `neartwin.queries.sum_bars`."""
    column = grid_column(plan.query, aggregate)
    total, parts, step = plan.measures[f"total:{column.name}"], 1, column.bounds.step
    steps: list[int] = noisy[total.name].tolist()  # in parts
    if column.centre:
        number = plan.measures[filled_measure(column, plan.bounding)]
        parts, each = number.parts, column.centre * total.parts
        steps = [value * parts + each * n for value, n in zip(steps, noisy[number.name].tolist(), strict=True)]
    up, down = step.numerator, step.denominator * total.parts * parts
    bar = sum_half_width(plan, column, confidence) * total.parts * parts
    if bar.denominator == 1:  # whole numbers divide to the nearest double, as fractions do
        moves = [0, -bar.numerator, bar.numerator]
        return _with_bar(name, aggregate, *([(v + move) * up / down for v in steps] for move in moves))
    width = math.ceil(bar)
    return _with_bar(name, aggregate, *([(v + move) * up / down for v in steps] for move in (0, -width, width)))


def counted(measure: Measure, noisy: WholeNumbers, confidence: float) -> Statistic:
    """The numbers of units of the values that were chosen."""
    values, bar = noisy.tolist(), measure.mechanism.half_width(confidence)
    ends = [tuple(value + move for value in values) for move in (0, -bar, bar)]
    return Statistic(name="count", what="count_units()", values=ends[0], lower=ends[1], upper=ends[2])


def _of_bins(plan: GroupPlan, aggregate: Histogram, trees: Trees, confidence: float) -> Statistic:
    """One count for each group and bin, group by group: whole numbers, and bars rounded outward."""
    measure = plan.measures[cell_measure(histogram_column(plan.query, aggregate))]
    (leaves,) = trees[measure.name]
    return _with_bar("count", aggregate, *_whole_counts(measure, leaves.ravel(), confidence))


def _whole_counts(measure: Measure, noisy: WholeNumbers, confidence: float) -> tuple[list[int], list[int], list[int]]:
    """Counts in parts as whole numbers, the nearest, and the ends of their bars rounded outward."""
    bar, parts = measure.mechanism.half_width(confidence), measure.parts
    values = noisy.tolist()
    nearest = [(2 * value + parts) // (2 * parts) for value in values]
    return nearest, [(value - bar) // parts for value in values], [-((-value - bar) // parts) for value in values]


def _of_order(
    plan: GroupPlan, name: str, aggregate: Quantile | Extreme, trees: Trees, confidence: float
) -> list[Statistic]:
    """Quantiles and extremes from the trees."""
    column = quantile_column(plan.query, aggregate)
    measure = plan.measures[cell_measure(column)]
    ranks = Ranks(plan.splits[measure.name].tree, measure.mechanism.law)
    levels, place = trees[measure.name], column.bounds
    steps: dict[str, list[list[FloatArray]]] = {}
    for part in _parts(levels, ranks.tree.cells):  # some groups at a time
        split = ranks.tree.split(part)
        if isinstance(aggregate, Extreme):
            found = {name: _extreme(ranks, split, aggregate, confidence)}
        else:
            found, last = {}, np.zeros(split[0].shape[0])
            for rank, label in zip(aggregate.ranks, aggregate.labels(name), strict=True):
                value, low, high = ranks.quantile(split, float(rank), confidence)
                last = np.maximum(last, value)
                # only values are put in order: a bar that another rank's noise cut would hold less often than it says
                found[label] = [last, np.minimum(low, last), np.maximum(high, last)]
        for label, three in found.items():
            steps.setdefault(label, []).append(three)
    statistics = []
    for label, parts in steps.items():
        ends = [np.concatenate([part[i] for part in parts]) for i in range(3)]
        values = [((end + place.low_units) * float(place.step)).tolist() for end in ends]
        values = [[min(max(v, float(place.low)), float(place.high)) for v in end] for end in values]
        statistics.append(_with_bar(label, aggregate, *values))
    return statistics


def _extreme(
    ranks: Ranks, split: tuple[FloatArray, FloatArray], aggregate: Extreme, confidence: float
) -> list[FloatArray]:
    """What is certainly reached, and between it and the public bound the true value."""
    top = np.full(split[0].shape[0], ranks.tree.cells - 1.0)
    if aggregate.end == "maximum":
        reached = np.maximum(ranks.largest(split, confidence), 0.0)
        return [reached, reached, top]
    reached = np.minimum(ranks.smallest(split, confidence), top)
    return [reached, np.zeros_like(top), reached]


def _parts(levels: Sequence[WholeNumbers], cells: int) -> Iterator[list[WholeNumbers]]:
    groups, some = levels[0].shape[0], max(1, _AT_ONCE // cells)
    for start in range(0, max(groups, 1), some):
        yield [level[start : start + some] for level in levels]


def _mean(plan: GroupPlan, name: str, aggregate: Mean, noisy: Noisy, confidence: float) -> Statistic:
    column = grid_column(plan.query, aggregate)
    total, filled = plan.measures[f"total:{column.name}"], plan.measures[filled_measure(column, plan.bounding)]
    totals, counts = (noisy[it.name].astype(float) / it.parts for it in (total, filled))
    lower, upper = mean_bounds(totals, counts, thresholds(total, filled, column, confidence))
    values = _mean_of(totals, counts, column)
    ends = values, np.minimum(lower, values), np.maximum(upper, values)
    return _with_bar(name, aggregate, *(_in_bounds(part, column).tolist() for part in ends))


def _mean_of(totals: FloatArray, counts: FloatArray, column: GridColumn) -> FloatArray:
    """In steps around the centre, within the bounds; their middle where too few values are seen."""
    values = np.where(counts >= 1, totals / np.maximum(counts, 1), (column.low + column.high) / 2)
    return np.clip(values, column.low, column.high)


def _in_bounds(steps: FloatArray, column: GridColumn) -> FloatArray:
    """Whole steps around the centre as values of the column, inside its bounds: a mean cannot leave them."""
    bounds = column.bounds
    inside: FloatArray = np.clip(steps, column.low, column.high)
    values: FloatArray = np.clip((inside + column.centre) * float(bounds.step), float(bounds.low), float(bounds.high))
    return values


def _with_bar(
    name: str, aggregate: Aggregate, values: Sequence[float], lower: Sequence[float], upper: Sequence[float]
) -> Statistic:
    """A statistic from its values and the ends of its bars, (groups,) each."""
    return Statistic(name=name, what=str(aggregate), values=tuple(values), lower=tuple(lower), upper=tuple(upper))
