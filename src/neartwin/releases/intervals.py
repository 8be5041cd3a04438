"""Proven intervals for variances, covariances, correlations and regressions from noisy sums. Arithmetic only, no data.

Every noisy sum lies within its half-width of the exact one with a stated probability, all of them together by the union
bound. What follows is the exact range, over that box, of the formula that makes the statistic: so the interval holds whenever
the box does. With u = 1 / n each formula is a quadratic in u for fixed sums, and its extremes are at the ends of u's range or
where it is stationary.
"""

import numpy as np

from neartwin.exact import FloatArray
from neartwin.frozen import dataclass

_SLACK = 1e-12  # rounding of the formulas in doubles, in units of the largest value that they can have


@dataclass(frozen=True, slots=True)
class Sums:
    """One noisy sum of every group and its half-width: total (groups,), bar >= 0."""

    total: FloatArray
    bar: float

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The least and largest exact sum."""
        return self.total - self.bar, self.total + self.bar


Ends = tuple[FloatArray, FloatArray]


def variance_ends(number: Sums, total: Sums, square: Sums, *, centre: float, largest: float) -> Ends:
    """The range of square / n + centre - (total / n)^2 over the box, within [0, largest].

    >>> one = lambda value, bar: Sums(np.array([value]), bar)
    >>> low, high = variance_ends(one(100.0, 0.0), one(0.0, 0.0), one(400.0, 50.0), centre=1.0, largest=100.0)
    >>> print(round(low[0], 6), round(high[0], 6))
    4.5 5.5
    """
    lower, upper = total.ends
    near = np.where((lower <= 0) & (upper >= 0), 0.0, np.minimum(np.abs(lower), np.abs(upper))) ** 2
    far = np.maximum(np.abs(lower), np.abs(upper)) ** 2
    return _within(_quadratic(number, square, centre, (near, far)), 0.0, largest)


def covariance_ends(number: Sums, x: Sums, y: Sums, product: Sums, *, centre: float, largest: float) -> Ends:
    """The range of product / n + centre - x y / n^2 over the box, within [-largest, largest]."""
    corners = [a * b for a in x.ends for b in y.ends]
    least, most = np.minimum.reduce(corners), np.maximum.reduce(corners)
    return _within(_quadratic(number, product, centre, (least, most)), -largest, largest)


def _quadratic(number: Sums, linear: Sums, centre: float, subtracted: Ends) -> Ends:
    """The range of L u + centre - S u^2 over L and S in their ranges and u in 1 / [n - b, n + b], n at least 1."""
    few, many = number.ends
    possible = many >= 1
    first, last = 1 / np.maximum(many, 1.0), 1 / np.maximum(few, 1.0)
    ends = []
    for side, slope, square, choose in (
        ("low", linear.ends[0], subtracted[1], np.minimum),
        ("high", linear.ends[1], subtracted[0], np.maximum),
    ):
        with np.errstate(all="ignore"):
            middle = np.clip(np.nan_to_num(slope / (2 * square), nan=0.0, posinf=0.0, neginf=0.0), first, last)
        found = [slope * u + centre - square * u * u for u in (first, middle, last)]
        infinite = -np.inf if side == "low" else np.inf
        ends.append(np.where(possible, choose.reduce(found), infinite))
    return ends[0], ends[1]


def _within(ends: Ends, least: float, largest: float) -> Ends:
    slack = _SLACK * (largest - least)
    low, high = ends
    return np.clip(low - slack, least, largest), np.clip(high + slack, least, largest)


def correlation_ends(covariance: Ends, x: Ends, y: Ends) -> Ends:
    """The range of c / sqrt(v w) over three intervals, variances at least 0, within [-1, 1]."""
    with np.errstate(all="ignore"):
        near, far = np.sqrt(x[0] * y[0]), np.sqrt(x[1] * y[1])
        low = np.where(covariance[0] < 0, covariance[0] / near, covariance[0] / far)
        high = np.where(covariance[1] > 0, covariance[1] / near, covariance[1] / far)
    low, high = np.nan_to_num(low, nan=-1.0, neginf=-1.0), np.nan_to_num(high, nan=1.0, posinf=1.0)
    return np.clip(low - _SLACK, -1.0, 1.0), np.clip(high + _SLACK, -1.0, 1.0)


def solved(
    matrix: FloatArray, right: FloatArray, matrix_bar: FloatArray, right_bar: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The solution of noisy equations, and how far each part can be from that of the exact ones; infinite where unproven.

    matrix, matrix_bar: (k, k); right, right_bar: (k,). If |A - matrix| <= matrix_bar and |b - right| <= right_bar then for
    R = matrix^-1, x = R right and M = |R| matrix_bar with spectral radius below 1, A is regular and
    |A^-1 b - x| <= (I - M)^-1 |R| (matrix_bar |x| + right_bar) (Rump 2010, Verification methods, sec. 10; by Perron-Frobenius).
    Where that fails, x is a ridge estimate: the matrix made positive semidefinite, and the size of its bars added.
    """
    size = len(right)
    try:
        inverse = np.linalg.inv(matrix)
        spread = np.abs(inverse) @ matrix_bar
        if np.max(np.abs(np.linalg.eigvals(spread))) < 1 - 1e-9:
            found = inverse @ right
            reach = np.linalg.solve(np.eye(size) - spread, np.abs(inverse) @ (matrix_bar @ np.abs(found) + right_bar))
            if np.all(np.isfinite(reach)) and np.all(reach >= 0):
                return found, reach * (1 + 1e-9) + 1e-12 * (1 + np.abs(found))
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    ridge = max(float(np.linalg.norm(matrix_bar)), 1e-9)
    estimate: FloatArray = vectors @ ((vectors.T @ right) / (np.maximum(values, 0.0) + ridge))
    return estimate, np.full(size, np.inf)
