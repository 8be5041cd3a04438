"""The expected errors of a sampled plan: for a group of so many rows, about what its release will say.

The formulas of `neartwin.releases.sampled`, at a sample that is as large as it is on average and noise that is 0.
"""

from collections.abc import Callable

import numpy as np

from neartwin.exact import FloatArray
from neartwin.mechanisms.ranks import OF_SAMPLE, Ranks, looks
from neartwin.queries.histograms import Histogram
from neartwin.queries.measuring import count_measure, filled_measure, grid_column
from neartwin.queries.plan import GroupPlan, Measure
from neartwin.queries.quantiles import Quantile
from neartwin.queries.sample_bars import SampleBars
from neartwin.queries.sample_mean_ends import SampledMean
from neartwin.queries.sample_noise import Noise
from neartwin.queries.sample_ranks import table_reach
from neartwin.queries.sample_sums import measured_noise, sum_ends
from neartwin.queries.statistics import Count, CountUnits, Mean, Sum
from neartwin.queries.trees import cell_measure, histogram_column, quantile_column

SIZES = (10, 100, 1_000, 10_000, 100_000)
Sized = Callable[[FloatArray], FloatArray]  # from numbers of rows of groups to half-widths


def half_widths(plan: GroupPlan, confidence: float) -> dict[str, tuple[str, tuple[tuple[int, float], ...]]]:
    """By name of what is released: in words what is off, and half-widths by number of rows in a group."""
    if plan.sampled is None:
        raise TypeError("this plan is not sampled")
    bars, n = SampleBars(float(plan.sampled.rate), 1 - confidence), np.array(SIZES, dtype=float)
    found: dict[str, tuple[str, tuple[tuple[int, float], ...]]] = {}

    def tell(name: str, words: str, widths: FloatArray) -> None:
        found[name] = (words, tuple(zip(SIZES, widths.tolist(), strict=True)))

    for name, aggregate in plan.outputs.items():
        match aggregate:
            case Sum():
                tell(name, "if each row adds the most,", _sum(plan, aggregate, bars, n))
            case Mean():
                tell(name, "if values are at both bounds,", _mean(plan, aggregate, bars, n))
            case Histogram():
                measure = plan.measures[cell_measure(histogram_column(plan.query, aggregate))]
                tell(name, "about", _total(bars, measured_noise(measure), plan.bounding.rows_per_group, n))
            case Quantile():
                column = quantile_column(plan.query, aggregate)
                measure = plan.measures[cell_measure(column)]
                for rank, label in zip(map(float, aggregate.ranks), aggregate.labels(name), strict=True):
                    tell(
                        label,
                        "in rank, as a share of all values, at most",
                        _rank(plan, measure, rank, bars, n),
                    )
            case Count() | CountUnits():
                measure = plan.measures[count_measure(plan.query, aggregate, plan.bounding)]
                most = 1 if measure.name == "units" else plan.bounding.rows_per_group
                tell(name, "about", _total(bars, measured_noise(measure), most, n))
    return found


def _total(bars: SampleBars, noise: Noise, most: int, n: FloatArray) -> FloatArray:
    low, high = bars.totals(bars.rate * n, noise, most=most)
    return (high - low) / 2


def _sum(plan: GroupPlan, aggregate: Sum, bars: SampleBars, n: FloatArray) -> FloatArray:
    column = grid_column(plan.query, aggregate)
    low, high = column.bounds.low_units, column.bounds.high_units
    # each row adds the most; of values of both signs the width is the same at every sum
    largest = 0 if low < 0 < high else max(low, high, key=abs)
    ends = sum_ends(plan, column, bars, bars.rate * n * largest, bars.rate * n)
    return (ends[1] - ends[0]) / 2 * float(column.bounds.step)


def _mean(plan: GroupPlan, aggregate: Mean, bars: SampleBars, n: FloatArray) -> FloatArray:
    """Of a mean in the middle of the bounds, where values may vary most."""
    column = grid_column(plan.query, aggregate)
    names = f"total:{column.name}", filled_measure(column, plan.bounding)
    middle, numbers = (column.low + column.high) / 2, bars.rate * n
    low, high = SampledMean(plan, column, names, bars).ends(middle * numbers, numbers, numbers)
    return (high - low) / 2 * float(column.bounds.step)


def _rank(plan: GroupPlan, measure: Measure, rank: float, bars: SampleBars, n: FloatArray) -> FloatArray:
    ranks = Ranks(plan.splits[measure.name].tree, measure.mechanism.law)
    reach = table_reach(ranks, rank, bars.rate * n, bars, most=plan.bounding.rows_per_group, parts=measure.parts)
    ((width, share), *_) = looks(ranks.tree, OF_SAMPLE)
    off = np.maximum(*(end.max(axis=1) for end in reach(share, width))) / measure.parts
    widths: FloatArray = np.minimum(off / (bars.rate * n), 1.0)
    return widths
