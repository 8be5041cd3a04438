"""From noisy measures to the named statistics with error bars. Post-processing: nothing here sees an exact number."""

from collections.abc import Mapping, Sequence

import numpy as np

from neartwin.exact import FloatArray, WholeNumbers
from neartwin.queries.plan import GroupPlan, Measure
from neartwin.queries.planner import filled_measure, grid_column, row_measure
from neartwin.queries.query import Aggregate, Count, CountUnits, Mean, Sum
from neartwin.queries.stage import GridColumn
from neartwin.releases.release import Statistic

Noisy = Mapping[str, WholeNumbers]


def statistic(plan: GroupPlan, name: str, aggregate: Aggregate, noisy: Noisy, confidence: float) -> Statistic:
    """One statistic of every group. Each bar holds with probability at least `confidence` over the noise alone."""
    match aggregate:
        case Count() | CountUnits():
            measure = plan.measures[row_measure(plan.bounding) if isinstance(aggregate, Count) else "units"]
            values = [int(value) for value in noisy[measure.name]]
            bar = measure.mechanism.half_width(confidence)
            return _statistic(name, aggregate, values, [v - bar for v in values], [v + bar for v in values])
        case Sum():
            column = grid_column(plan.query, aggregate)
            measure = plan.measures[f"total:{column.name}"]
            step, centre = column.bounds.step, column.centre
            steps = [int(value) + centre for value in noisy[measure.name]]
            bar = measure.mechanism.half_width(confidence)
            up, down = step.numerator, step.denominator  # whole numbers divide to the nearest double, as fractions do
            ends = ([(v + move) * up / down for v in steps] for move in (0, -bar, bar))
            return _statistic(name, aggregate, *ends)
        case Mean():
            return _mean(plan, name, aggregate, noisy, confidence)


def _mean(plan: GroupPlan, name: str, aggregate: Mean, noisy: Noisy, confidence: float) -> Statistic:
    column = grid_column(plan.query, aggregate)
    total, filled = plan.measures[f"total:{column.name}"], plan.measures[filled_measure(column, plan.bounding)]
    each = (1 + confidence) / 2  # both noises within their bars together, by the union bound
    totals, counts = noisy[total.name].astype(float), noisy[filled.name].astype(float)
    lower, upper = ratio_bounds(totals, counts, bar(total, each), bar(filled, each))
    values = np.where(counts >= 1, totals / np.maximum(counts, 1), (column.low + column.high) / 2)
    return _statistic(name, aggregate, *(_in_bounds(ends, column).tolist() for ends in (values, lower, upper)))


def bar(measure: Measure, confidence: float) -> float:
    """A measure's half-width as a float; whole numbers up to 2**53 are exact."""
    return float(measure.mechanism.half_width(confidence))


def ratio_bounds(totals: FloatArray, counts: FloatArray, a: float, b: float) -> tuple[FloatArray, FloatArray]:
    """The least and largest t / n over |t - total| <= a, |n - count| <= b, n >= 1; infinite where no such n exists.

    A ratio is monotone in each argument, so its extremes are at corners: the low end takes the least t, over the least n if
    that t is negative and over the largest n if it is not.

    >>> ratio_bounds(np.array([100.0]), np.array([10.0]), 10.0, 2.0)
    (array([7.5]), array([13.75]))
    """
    few, many = np.maximum(1.0, counts - b), counts + b
    possible = many >= 1
    many = np.maximum(many, 1.0)
    low, high = totals - a, totals + a
    lower = np.where(low < 0, low / few, low / many)
    upper = np.where(high > 0, high / few, high / many)
    return np.where(possible, lower, -np.inf), np.where(possible, upper, np.inf)


def _in_bounds(steps: FloatArray, column: GridColumn) -> FloatArray:
    """Whole steps around the centre as values of the column, inside its bounds: a mean cannot leave them."""
    bounds = column.bounds
    inside: FloatArray = np.clip(steps, column.low, column.high)
    values: FloatArray = np.clip((inside + column.centre) * float(bounds.step), float(bounds.low), float(bounds.high))
    return values


def _statistic(
    name: str, aggregate: Aggregate, values: Sequence[float], lower: Sequence[float], upper: Sequence[float]
) -> Statistic:
    return Statistic(name=name, what=str(aggregate), values=tuple(values), lower=tuple(lower), upper=tuple(upper))
