"""From noisy measures to the named statistics with error bars. Post-processing: nothing here sees an exact number.

Statistics from noisy moments: variance, standard deviation, covariance, correlation, regression. Post-processing.

From the exact table behind margins to noisy answers of those asked for. Exact numbers end in `noisy_margins`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import assert_never

import numpy as np

from neartwin import noise
from neartwin.engines.base import Aggregates
from neartwin.error_bars.moment_noise import MomentNoise, MomentSums, half_of
from neartwin.error_bars.moments import moment_values
from neartwin.error_bars.sums_means import mean_bounds, sum_half_width, thresholds
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.mechanisms.linear.marginals import Margin
from neartwin.mechanisms.linear.ranks import Ranks
from neartwin.planning.marginals import half_width
from neartwin.planning.measures import (
    cell_measure,
    count_measure,
    filled_measure,
    grid_column,
    histogram_column,
    number_measure,
    quantile_column,
)
from neartwin.planning.norm_clipping import entry_parts
from neartwin.planning.plan import GroupPlan, MarginalPlan, Measure
from neartwin.queries.groups import named, values_of
from neartwin.queries.histograms import Histogram
from neartwin.queries.moments import MomentStatistic, moment_set
from neartwin.queries.quantiles import MinMax, Quantile
from neartwin.queries.statistics import Aggregate, Count, CountDistinctUnits, Mean, Sum, columns_of
from neartwin.releases.values import UNBOUNDED, Statistic
from neartwin.tables.grid import GridColumn
from neartwin.tables.types import Key


def moment_statistics(
    plan: GroupPlan, name: str, statistic: MomentStatistic, noisy: Mapping[str, WholeNumbers], confidence: float
) -> tuple[Statistic, ...]:
    """A statistic of every group, a regression as several; each bar holds with probability at least `confidence`."""
    made = moment_values(_sums(plan, statistic, noisy), statistic, 1 - confidence)
    names, told = columns_of(name, statistic), []
    for one, ends in zip(names, made, strict=True):
        value, low, high = (np.clip(np.nan_to_num(end), -UNBOUNDED, UNBOUNDED).tolist() for end in ends)
        told.append(Statistic(name=one, what=str(statistic), values=tuple(value), lower=tuple(low), upper=tuple(high)))
    return tuple(told)


def _sums(plan: GroupPlan, statistic: MomentStatistic, noisy: Mapping[str, WholeNumbers]) -> MomentSums:
    sums = moment_set(plan.query.table, statistic)
    noise, half = MomentNoise.of(plan, sums), [half_of(sums, place) for place in range(len(sums.columns))]

    def taken(measure: str) -> np.ndarray:
        return noisy[measure].astype(float) / plan.measures[measure].parts

    number = taken(number_measure(sums, plan.bounding))
    first = tuple(taken(f"total:{sums.first(place).name}") / half[place] for place in range(len(half)))
    second = {
        (i, j): taken(f"total:{sums.second(i, j).name}") / (half[i] * half[j]) + noise.centres[i, j] * number
        for i, j in sums.pairs
    }
    return MomentSums(noise, number, first, second)


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
        elif isinstance(aggregate, Quantile | MinMax):
            found += _of_order(plan, name, aggregate, trees, confidence)
        elif isinstance(aggregate, MomentStatistic):
            found += moment_statistics(plan, name, aggregate, noisy, confidence)
        else:
            found.append(statistic(plan, name, aggregate, noisy, confidence))
    return tuple(found)


def statistic(
    plan: GroupPlan,
    name: str,
    aggregate: Count | CountDistinctUnits | Sum | Mean,
    noisy: Noisy,
    confidence: float,
) -> Statistic:
    """One statistic of every group, one that is made from noisy sums and counts."""
    match aggregate:
        case Count() | CountDistinctUnits():
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
    """The total, and where values are counted around a centre so many times that: see `neartwin.error_bars.sums_means`."""
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
    return Statistic(name="count", what="count_distinct_units()", values=ends[0], lower=ends[1], upper=ends[2])


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
    plan: GroupPlan, name: str, aggregate: Quantile | MinMax, trees: Trees, confidence: float
) -> list[Statistic]:
    """Quantiles and extremes from the trees."""
    column = quantile_column(plan.query, aggregate)
    measure = plan.measures[cell_measure(column)]
    ranks = Ranks(plan.splits[measure.name].tree, measure.mechanism.law)
    levels, place = trees[measure.name], column.bounds
    steps: dict[str, list[list[FloatArray]]] = {}
    for part in _parts(levels, ranks.tree.cells):  # some groups at a time
        split = ranks.tree.split(part)
        if isinstance(aggregate, MinMax):
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
    ranks: Ranks, split: tuple[FloatArray, FloatArray], aggregate: MinMax, confidence: float
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


WHOLE_TABLE = (
    "All margins are of one table: what two of them share adds up to the same. Rows with a value outside the public keys of any "
    "column are in none. Single answers may be negative or no whole numbers."
)


def noisy_margins(plan: MarginalPlan, aggregates: Aggregates, source: noise.Source) -> dict[Margin, FloatArray]:
    """Each measured margin with its noise, in steps, of its own sizes."""
    sizes = plan.design.sizes
    (exact,) = (aggregates.values[name] for name in plan.stage.measures)
    whole = np.asarray(exact).astype(object).reshape(sizes)
    finer, found = plan.parts // entry_parts(plan.stage), {}
    for margin, measure in zip(plan.measured, plan.measures.values(), strict=True):
        away = tuple(place for place in range(len(sizes)) if place not in margin)
        cells = np.asarray(whole.sum(axis=away) if away else whole, dtype=object)
        noisy = measure.mechanism.noisy(narrowed(cells.reshape(-1) * finer), source=source)
        found[margin] = np.asarray(noisy, dtype=float).reshape(cells.shape) / plan.parts
    return found


def narrowed(cells: WholeNumbers) -> WholeNumbers:
    """As 64 bits where they fit."""
    if all(-(2**62) < cell < 2**62 for cell in cells):
        return cells.astype(np.int64)
    return cells


def margin_answers(
    plan: MarginalPlan, noisy: dict[Margin, FloatArray], confidence: float
) -> tuple[tuple[Key, ...], Statistic]:
    """The groups of all margins asked for, one margin after the other, and the statistic of each with its bar."""
    columns = plan.query.groups.columns
    values = values_of(len(columns), plan.query.groups.keys or ())
    ((name, asked),) = plan.outputs.items()
    keys: list[Key] = []
    answers, bars = [], []
    for margin in plan.query.groups.margins:
        found = plan.design.answers(margin, noisy).reshape(-1) * float(plan.unit)
        bar = half_width(plan, margin, confidence) * float(plan.unit)
        for chosen in product(*(values[place] for place in margin)):
            told = dict(zip(margin, chosen, strict=True))
            keys.append((*(told.get(place) for place in range(len(columns))), named(columns, margin)))
        answers += found.tolist()
        bars += [bar] * len(found)
    lower = tuple(value - bar for value, bar in zip(answers, bars, strict=True))
    upper = tuple(value + bar for value, bar in zip(answers, bars, strict=True))
    return tuple(keys), Statistic(name=name, what=str(asked), values=tuple(answers), lower=lower, upper=upper)
