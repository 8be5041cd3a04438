"""Statistics from noisy moments: variance, standard deviation, covariance, correlation, regression. Post-processing."""

from collections.abc import Mapping

import numpy as np

from neartwin.exact import FloatArray, WholeNumbers
from neartwin.frozen import dataclass
from neartwin.queries.measuring import number_measure
from neartwin.queries.moments import (
    Coefficient,
    Correlation,
    Covariance,
    Deviation,
    MomentSet,
    MomentStatistic,
    Regression,
    Variance,
    moment_set,
)
from neartwin.queries.plan import GroupPlan
from neartwin.queries.statistics import columns_of
from neartwin.releases.intervals import Ends, Sums, correlation_ends, covariance_ends, solved, variance_ends
from neartwin.releases.release import UNBOUNDED, Statistic


@dataclass(frozen=True, slots=True)
class _Noisy:
    """The noisy sums of a set, with half-widths that hold together."""

    sums: MomentSet
    number: Sums
    first: tuple[Sums, ...]
    second: Mapping[tuple[int, int], Sums]

    def half(self, place: int) -> float:
        """Half the width of a column's bounds, in steps."""
        column = self.sums.columns[place]
        return (column.high - column.low) / 2

    def step(self, place: int) -> float:
        """The column's step."""
        return float(self.sums.columns[place].bounds.step)

    def centre(self, place: int, other: int) -> float:
        """What products are counted around."""
        return float(self.sums.second(place, other).centre)


def moment_statistics(
    plan: GroupPlan, name: str, statistic: MomentStatistic, noisy: Mapping[str, WholeNumbers], confidence: float
) -> tuple[Statistic, ...]:
    """A statistic of every group, a regression as several; each bar holds with probability at least `confidence`."""
    found = _noisy(plan, statistic, noisy, confidence)
    match statistic:
        case Regression():
            made = _regressed(found)
        case Coefficient():
            place = 1 + statistic.features.index(statistic.feature) if statistic.feature else 0
            made = [_regressed(found)[place]]
        case _:
            made = [_single(found, statistic)]
    names = columns_of(name, statistic)
    return tuple(_as_statistic(one, str(statistic), ends) for one, ends in zip(names, made, strict=True))


def _as_statistic(name: str, what: str, ends: tuple[FloatArray, FloatArray, FloatArray]) -> Statistic:
    value, low, high = (np.clip(np.nan_to_num(end), -UNBOUNDED, UNBOUNDED).tolist() for end in ends)
    return Statistic(name=name, what=what, values=tuple(value), lower=tuple(low), upper=tuple(high))


def _noisy(plan: GroupPlan, statistic: MomentStatistic, noisy: Mapping[str, WholeNumbers], confidence: float) -> _Noisy:
    sums = moment_set(plan.query.table, statistic)
    names = [f"total:{sums.first(place).name}" for place in range(len(sums.columns))]
    products = {pair: f"total:{sums.second(*pair).name}" for pair in sums.pairs}
    number = number_measure(sums, plan.bounding)
    each = 1 - (1 - confidence) / (1 + len(names) + len(products))  # all together, by the union bound

    def taken(measure: str) -> Sums:
        made = plan.measures[measure]
        return Sums(noisy[measure].astype(float) / made.parts, float(made.half_width(each)))

    return _Noisy(sums, taken(number), tuple(map(taken, names)), {pair: taken(it) for pair, it in products.items()})


def _single(noisy: _Noisy, statistic: MomentStatistic) -> tuple[FloatArray, FloatArray, FloatArray]:
    x, y = noisy.sums.operands[0], noisy.sums.operands[-1]
    match statistic:
        case Variance():
            value, ends = _variance(noisy, x)
            scale = noisy.step(x) ** 2
        case Deviation():
            value, ends = _variance(noisy, x)
            value, ends, scale = np.sqrt(value), (np.sqrt(ends[0]), np.sqrt(ends[1])), noisy.step(x)
        case Covariance():
            value, ends = _covariance(noisy)
            scale = noisy.step(x) * noisy.step(y)
        case Correlation():
            value, ends = _correlation(noisy)
            scale = 1.0
        case _:
            raise TypeError(statistic)
    value = np.clip(value, *ends)
    return value * scale, ends[0] * scale, ends[1] * scale


def _variance(noisy: _Noisy, place: int) -> tuple[FloatArray, Ends]:
    total, square = noisy.first[place], noisy.second[place, place]
    centre, largest = noisy.centre(place, place), noisy.half(place) ** 2
    ends = variance_ends(noisy.number, total, square, centre=centre, largest=largest)
    n = np.maximum(noisy.number.total, 1.0)
    value = np.clip(square.total / n + centre - (total.total / n) ** 2, 0.0, largest)
    return np.where(noisy.number.total >= 1, value, largest / 2), ends


def _covariance(noisy: _Noisy) -> tuple[FloatArray, Ends]:
    x, y = noisy.first
    centre, largest = noisy.centre(0, 1), noisy.half(0) * noisy.half(1)
    ends = covariance_ends(noisy.number, x, y, noisy.second[0, 1], centre=centre, largest=largest)
    n = np.maximum(noisy.number.total, 1.0)
    value = noisy.second[0, 1].total / n + centre - x.total * y.total / n**2
    return np.where(noisy.number.total >= 1, np.clip(value, -largest, largest), 0.0), ends


def _correlation(noisy: _Noisy) -> tuple[FloatArray, Ends]:
    (v, x), (w, y), (c, both) = _variance(noisy, 0), _variance(noisy, 1), _covariance(noisy)
    varies = (v > 0) & (w > 0) & (noisy.number.total >= 1)
    value = np.where(varies, c / np.sqrt(np.where(varies, v * w, 1.0)), 0.0)
    return np.clip(value, -1.0, 1.0), correlation_ends(both, x, y)


def _regressed(noisy: _Noisy) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Intercept and slopes, from the equations in columns that are scaled to [-1, 1]."""
    target, *features = noisy.sums.operands
    half = [noisy.half(place) for place in range(len(noisy.sums.columns))]
    groups = len(noisy.number.total)
    made = np.zeros((groups, len(features) + 1, 2))
    for group in range(groups):
        matrix, right = _equations(noisy, group, features, target)
        made[group] = np.stack(solved(matrix[0], right[0], matrix[1], right[1]), axis=1)
    up = half[target] * noisy.step(target)
    middles = [noisy.sums.columns[place].centre / half[place] for place in features]
    slopes = [
        (made[:, i, 0] * up / (half[place] * noisy.step(place)), made[:, i, 1] * up / (half[place] * noisy.step(place)))
        for i, place in enumerate(features, start=1)
    ]
    start = noisy.sums.columns[target].centre * noisy.step(target)
    value = start + up * (made[:, 0, 0] - sum(made[:, i, 0] * middle for i, middle in enumerate(middles, start=1)))
    error = up * (
        made[:, 0, 1] + sum(made[:, i, 1] * abs(middle) for i, middle in enumerate(middles, start=1) if middle)
    )
    return [(value, value - error, value + error) for value, error in [(value, error), *slopes]]


def _equations(
    noisy: _Noisy, group: int, features: list[int], target: int
) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """The normal equations of a group with the half-widths of their entries: (matrix, bars), (right side, bars)."""
    size = len(features) + 1
    matrix, right = np.zeros((2, size, size)), np.zeros((2, size))
    n = noisy.number
    matrix[:, 0, 0] = n.total[group], n.bar

    def scaled(first: int, other: int | None = None) -> tuple[float, float]:
        if other is None:
            return noisy.first[first].total[group] / noisy.half(first), noisy.first[first].bar / noisy.half(first)
        pair = (min(first, other), max(first, other))
        sums, centre, size = noisy.second[pair], noisy.centre(*pair), noisy.half(first) * noisy.half(other)
        return (sums.total[group] + centre * n.total[group]) / size, (sums.bar + abs(centre) * n.bar) / size

    right[:, 0] = scaled(target)
    for i, feature in enumerate(features, start=1):
        matrix[:, 0, i] = matrix[:, i, 0] = scaled(feature)
        right[:, i] = scaled(feature, target)
        for j, other in enumerate(features[:i], start=1):
            matrix[:, i, j] = matrix[:, j, i] = scaled(feature, other)
    return (matrix[0], matrix[1]), (right[0], right[1])
