"""Proven bars of means, variances, covariances and correlations from noisy sums. Arithmetic only, no data.

A bar is the set of values that the noisy sums do not speak against, as Fieller (1954) has it for a ratio. With N rows, sums X
and Q = sum of x^2, the mean m and the variance v are such that

    X - m N = 0   and   Q - 2 m X + (m^2 - v) N = 0,

so the same of the noisy sums is noise alone: Z_X - m Z_N, and Z_Q - 2 m Z_X + (m^2 - v) Z_N. Its law is known for each m and
v, and it is within t(m, v) of 0 but for the chance that t is taken for. The first says which means are possible; for these
the second says which variances are. As the second's left side has no slope in m at the noisy mean, that m is not known costs
nothing but in small groups. The chances to fail add up: a tenth of the whole for the first. In the same way, with the
covariance c,

    P - m_x Y - m_y X + (m_x m_y - c) N = 0   for P = sum of x y,

and with the correlation r and any s, V_x = Q_x - 2 m_x X + m_x^2 N and V_y likewise, s the ratio of standard deviations of y
and x,

    (P - m_x Y - m_y X + m_x m_y N) - r / 2 (s V_x + V_y / s) = 0.

As r multiplies its least value over s, errors of s cost little too. Where t depends on the bounded quantity, it is taken at the
farthest value that is still possible, again and again. Each set can only shrink to one that holds every possible value.

Values and bars of variances, covariances, correlations and regressions in the columns' own units, from sums of moments.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from neartwin.error_bars.moment_noise import Bar, Ends, MomentSums, Weights, half_of
from neartwin.error_bars.regression import fitted, slopes_of
from neartwin.exact import FloatArray

_ROUNDS = 4
_SLACK = 1e-12  # of rounding, in units of the largest value
_SIGNS: FloatArray = np.array([[-1.0], [1.0]])  # of what lengthens a range
_FEW, _SOME = 0.1, 0.2  # of what may fail, for what a variance or covariance, and what a correlation depends on


def mean_ends(sums: MomentSums, place: int, failure: float) -> Ends:
    """The possible means of a column.

    Args:
        sums: The noisy sums.
        place: The column.
        failure: The failure probability.

    Returns:
        The ends, (groups,) each.
    """

    def reach(inside: Ends) -> FloatArray:
        return sums.noise.reach({place: 1.0, "n": largest(inside)}, sums.groups, failure)

    return _narrowed(sums, sums.limits(place), np.stack([sums.first[place]] * 2), reach)


def variance_ends(sums: MomentSums, place: int, failure: float) -> Ends:
    """The possible variances of a column, within [0, 1].

    Args:
        sums: The noisy sums.
        place: The column.
        failure: The failure probability.

    Returns:
        The ends, (groups,) each.
    """
    mean = mean_ends(sums, place, failure * _FEW)
    square = sums.noise.centres[place, place] + squared(mean)

    def reach(inside: Ends) -> FloatArray:
        weights: Weights = {(place, place): 1.0, place: 2 * largest(mean), "n": largest(_less(square, inside))}
        return sums.noise.reach(weights, sums.groups, failure * (1 - _FEW))

    return _narrowed(sums, (0.0, 1.0), spread_ends(sums, place, mean), reach)


def covariance_ends(sums: MomentSums, failure: float) -> Ends:
    """The possible covariances of the two columns, within [-1, 1].

    Args:
        sums: The noisy sums.
        failure: The failure probability.

    Returns:
        The ends, (groups,) each.
    """
    x, y = (mean_ends(sums, place, failure * _FEW / 2) for place in (0, 1))
    both = sums.noise.centres[0, 1] + times(x, y)

    def reach(inside: Ends) -> FloatArray:
        weights: Weights = {(0, 1): 1.0, 0: largest(y), 1: largest(x), "n": largest(_less(both, inside))}
        return sums.noise.reach(weights, sums.groups, failure * (1 - _FEW))

    return _narrowed(sums, (-1.0, 1.0), product_ends(sums, x, y), reach)


def correlation_ends(sums: MomentSums, failure: float) -> Ends:
    """The possible correlations of the two columns; all of [-1, 1] if one of them may not vary.

    Args:
        sums: The noisy sums.
        failure: The failure probability.

    Returns:
        The ends, (groups,) each.
    """
    each = failure * _SOME / 4  # of two means and two variances
    means = [mean_ends(sums, place, each) for place in (0, 1)]
    varies = [variance_ends(sums, place, each) for place in (0, 1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt(varies[1] / varies[0][::-1])
    spreads = [spread_ends(sums, place, means[place]) for place in (0, 1)]
    known = (sums.number > 0) & (ratio[0] > 0) & np.isfinite(ratio[1]) & (spreads[0][0] > 0) & (spreads[1][0] > 0)
    s = np.where(known, ratio, 1.0)
    (low_x, high_x), (low_y, high_y) = np.where(known, spreads, 1.0)
    best = np.clip(np.sqrt(low_y / low_x), *s)
    least, most = (best * low_x + low_y / best) / 2, np.maximum(*((s * high_x + high_y / s) / 2))
    above, found = product_ends(sums, *means), np.ones((2, sums.groups)) * _SIGNS
    for _ in range(_ROUNDS):
        t = sums.noise.reach(_of_correlation(sums, means, s, found), sums.groups, failure * (1 - _SOME))
        ends = above + t * _SIGNS
        found = _within(found, np.where(ends * _SIGNS > 0, ends / least, ends / most), known)
    return found


def _of_correlation(sums: MomentSums, means: list[Ends], s: Ends, r: Ends) -> Weights:
    """At most how much each noise weighs."""
    centres, (x, y) = sums.noise.centres, means
    by_x, by_y = times(r / 2, s), times(r / 2, 1 / s[::-1])
    inner = times(by_x, centres[0, 0] + squared(x)), times(by_y, centres[1, 1] + squared(y))
    number = _less(_less(centres[0, 1] + times(x, y), inner[0]), inner[1])
    first = _less(times(2 * by_x, x), y), _less(times(2 * by_y, y), x)
    return {
        (0, 1): 1.0,
        (0, 0): largest(by_x),
        (1, 1): largest(by_y),
        0: largest(first[0]),
        1: largest(first[1]),
        "n": largest(number),
    }


def spread_ends(sums: MomentSums, place: int, mean: Ends) -> Ends:
    """The range of Q - 2 m X + m^2 N over these means, for N above 0.

    Args:
        sums: The noisy sums.
        place: The place of the column.
        mean: The range of m.

    Returns:
        The ends of the range.
    """
    total, square = sums.first[place], sums.second[place, place]
    nearest = np.clip(total / np.where(sums.number > 0, sums.number, 1.0), *mean)
    low, *ends = (square - 2 * m * total + m * m * sums.number for m in (nearest, *mean))
    return np.stack([low, np.maximum(*ends)])


def product_ends(sums: MomentSums, x: Ends, y: Ends) -> Ends:
    """The range of P - m_x Y - m_y X + m_x m_y N over these means. It is attained at corners: the form is linear in each
    mean.

    Args:
        sums: The noisy sums.
        x: The range of m_x.
        y: The range of m_y.

    Returns:
        The ends of the range.
    """
    product, (of_x, of_y) = sums.second[0, 1], sums.first
    return _range([product - a * of_y - b * of_x + a * b * sums.number for a in x for b in y])


def _narrowed(sums: MomentSums, limits: tuple[float, float], ends: Ends, reach: Callable[[Ends], FloatArray]) -> Ends:
    """All q within limits with |a - q N| <= t(q) for an a between the ends; t only grows as the range of q does."""
    seen, found = sums.number > 0, np.stack([np.full(sums.groups, limit) for limit in limits])
    some = np.where(seen, sums.number, 1.0)
    for _ in range(_ROUNDS):
        found = _within(found, (ends + reach(found) * _SIGNS) / some, seen)
    return found


def _within(outer: Ends, inner: Ends, known: NDArray[np.bool_]) -> Ends:
    """What both hold. Where that is nothing, which is as rare as a bar that misses, a point of the outer that is nearest."""
    middle = np.clip((inner[0] + inner[1]) / 2, *outer)
    low = np.where(known, np.minimum(np.maximum(inner[0] - _SLACK, outer[0]), middle), outer[0])
    high = np.where(known, np.maximum(np.minimum(inner[1] + _SLACK, outer[1]), middle), outer[1])
    return np.stack([low, high])


def largest(ends: Ends) -> FloatArray:
    """The largest size of what lies between."""
    return np.asarray(np.max(np.abs(ends), axis=0))


def squared(ends: Ends) -> Ends:
    """The range of squares."""
    near = np.where((ends[0] <= 0) & (ends[1] >= 0), 0.0, np.minimum(np.abs(ends[0]), np.abs(ends[1])))
    return np.square([near, largest(ends)])


def times(one: Ends, other: Ends) -> Ends:
    """The range of products.

    Args:
        one: The range of one factor.
        other: The range of the other factor.

    Returns:
        The ends of the range.
    """
    return _range([a * b for a in one for b in other])


def _range(corners: list[FloatArray]) -> Ends:
    return np.stack([np.min(corners, axis=0), np.max(corners, axis=0)])


def _less(one: Ends, other: Ends) -> Ends:
    return one - other[::-1]


def variance(sums: MomentSums, failure: float) -> Bar:
    """The variance of the one column, in its own unit squared.

    Args:
        sums: The noisy sums.
        failure: The failure probability of the bar.

    Returns:
        Values and ends of bars, (groups,) each.
    """
    return _scaled(_variance(sums, 0), variance_ends(sums, 0, failure), _unit(sums, 0) ** 2)


def sample_variance(sums: MomentSums, failure: float) -> Bar:
    """The variance of the one column times N / (N - 1), which is at most 2, for two rows, and falls in N.

    Args:
        sums: The noisy sums.
        failure: The failure probability of the bar.

    Returns:
        Values and ends of bars, (groups,) each.
    """
    value, low, high = variance(sums, failure * (1 - _FEW))
    t = sums.noise.reach({"n": 1.0}, sums.groups, failure * _FEW)
    of, most, least = (n / (n - 1) for n in np.maximum([sums.number, sums.number - t, sums.number + t], 2.0))
    return np.clip(value * of, low * least, high * most), low * least, high * most


def covariance(sums: MomentSums, failure: float) -> Bar:
    """The covariance of the two columns, in the product of their units.

    Args:
        sums: The noisy sums.
        failure: The failure probability of the bar.

    Returns:
        Values and ends of bars, (groups,) each.
    """
    return _scaled(_covariance(sums), covariance_ends(sums, failure), _unit(sums, 0) * _unit(sums, 1))


def correlation(sums: MomentSums, failure: float) -> Bar:
    """The correlation of the two columns.

    Args:
        sums: The noisy sums.
        failure: The failure probability of the bar.

    Returns:
        Values and ends of bars, (groups,) each.
    """
    return _scaled(_correlation(sums), correlation_ends(sums, failure), 1.0)


def _scaled(value: FloatArray, ends: Ends, unit: float) -> Bar:
    return np.clip(value, *ends) * unit, *(ends * unit)


def _unit(sums: MomentSums, place: int) -> float:
    """Half the width of a column's bounds."""
    return half_of(sums.noise.sums, place) * float(sums.noise.sums.columns[place].bounds.step)


def _variance(sums: MomentSums, place: int) -> FloatArray:
    n = np.maximum(sums.number, 1.0)
    value = np.clip(sums.second[place, place] / n - (sums.first[place] / n) ** 2, 0.0, 1.0)
    return np.where(sums.number >= 1, value, 0.5)


def _covariance(sums: MomentSums) -> FloatArray:
    n = np.maximum(sums.number, 1.0)
    value = sums.second[0, 1] / n - sums.first[0] * sums.first[1] / n**2
    return np.where(sums.number >= 1, np.clip(value, -1.0, 1.0), 0.0)


def _correlation(sums: MomentSums) -> FloatArray:
    v, w, c = _variance(sums, 0), _variance(sums, 1), _covariance(sums)
    varies = (v > 0) & (w > 0) & (sums.number >= 1)
    return np.clip(np.where(varies, c / np.sqrt(np.where(varies, v * w, 1.0)), 0.0), -1.0, 1.0)


def least_squares(sums: MomentSums, failure: float) -> list[Bar]:
    """Intercept and slopes of the first operand on the others, in their own units.

    Args:
        sums: The noisy sums.
        failure: The failure probability of each bar.

    Returns:
        Values and ends of bars for each coefficient, (groups,) each.
    """
    target, *features = sums.noise.sums.operands
    values, bars = fitted(sums, slopes_of(sums, features), failure)
    up, column = _unit(sums, target), sums.noise.sums.columns[target]
    start = column.centre * float(column.bounds.step)
    units = [up, *(up / _unit(sums, place) for place in features)]
    found = [(start * (i == 0) + values[:, i] * unit, bars[:, i] * unit) for i, unit in enumerate(units)]
    return [(value, value - bar, value + bar) for value, bar in found]
