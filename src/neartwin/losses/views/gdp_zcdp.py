"""The tightest curve of one family below a composition: mu-GDP beside a delta, rho-zCDP. Certified both ways.

GDP. T >= G_mu (x) f_{0,delta} at all alpha and in both directions means delta(eps) <= delta + (1 - delta) delta_mu(eps)
for all eps. eps >= 0 in both directions suffices (Dong, Roth, Su 2022, proposition 2.12), because eps -> -eps on both
sides reverses the order. On a cell of x = e^eps the left side is convex, so it lies below its chord at upper bounds.
The right side is convex, so it lies above any tangent. Both are straight, so the ends decide. Beyond the last eps delta
<= delta.

zCDP. K is convex with K(0) = 0. On a cell of s it is below its chord A + m s, A <= 0. Then (A + ms)/(s(s+1)) peaks at
an end or at s = (-A + sqrt(A^2 - mA))/m.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.closed_forms import gaussian_delta
from neartwin.losses.summands.rounding import ELEMENTARY, U
from neartwin.special import ndtr

CELLS = 2048
STARTS = [1e-6, 1e-4, 1e-3, *np.geomspace(1e-2, 1e6, 33).tolist()]  # orders less 1
FEW = [1e-4, 1.0, 1e2, 1e5]
CLOSE, SPLITS = 1e-6, 400


def _above(mu: float, delta: float, eps: FloatArray, high: FloatArray) -> bool:
    """Proof that the profile with these upper bounds at the knots eps lies below that of (mu, delta)."""
    x = np.exp(eps)
    proved = np.zeros(len(eps) - 1, dtype=bool)
    for point in (0.5 * (eps[1:] + eps[:-1]), eps[1:]):  # tangents at the middle, and at the right end
        base = delta + (1 - delta) * gaussian_delta(mu, point)[0]
        slope = (1 - delta) * ndtr(-point / mu - mu / 2)  # -d delta_mu / dx at x = e^eps
        centre = np.exp(point)
        slack = 256 * ELEMENTARY * (base + slope * x[1:])
        left, right = base + slope * (centre - x[:-1]) - slack, base - slope * (x[1:] - centre) - slack
        proved |= (high[:-1] <= left) & (high[1:] <= right)
    return bool(np.all(proved))


def _refuted(mu: float, delta: float, eps: FloatArray, low: FloatArray) -> bool:
    """Some eps where even the lower bound exceeds the profile of (mu, delta)."""
    return bool(np.any(low > (delta + (1 - delta) * gaussian_delta(mu, eps)[1]) * (1 + 8 * U)))


def _bisect(proved: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """The last value that fails and the first that holds, for a monotone test; high holds."""
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if proved(middle) else (middle, high)
        if high - low < 1e-12 * high:
            break
    return low, high


def gdp(knots: Sequence[tuple[FloatArray, FloatArray, FloatArray]], delta: float) -> tuple[float, float]:
    """Bounds on the least mu.

    Args:
        knots: For each direction its eps (increasing from 0), and lower and upper delta at them. The last upper bound
            of each direction is at most delta.
        delta: The failure set aside.
    """

    def holds(mu: float) -> bool:
        return all(_above(mu, delta, eps, high) for eps, _, high in knots)

    def stands(mu: float) -> bool:
        return not any(_refuted(mu, delta, eps, low) for eps, low, _ in knots)

    high = 1e-3
    while not holds(high):
        high *= 2
        if high > 1e6:
            return 0.0, math.inf
    _, upper = _bisect(holds, 1e-9, high)
    lower, _ = _bisect(stands, 1e-9, upper) if stands(upper) else (upper, upper)
    return (0.0 if lower <= 1e-9 else lower * (1 - 1e-9)), upper * (1 + 4 * U)


def gdp_below(eps: FloatArray, low: FloatArray) -> float:
    """A lower bound on the least mu without a delta.

    Args:
        eps: Some eps of one direction.
        low: Lower bounds on delta there.
    """
    lower, _ = _bisect(lambda mu: not _refuted(mu, 0.0, eps, low), 1e-9, 1e6)
    return 0.0 if lower <= 1e-9 else lower * (1 - 1e-9)


def zcdp(totals: Sequence[SumOfLosses], log_mgf: Sequence[Callable[[float], float]]) -> tuple[float, list[float]]:
    """An upper bound on the least rho, over directions, and where each direction's K(s)/(s(s+1)) is about largest.

    Args:
        totals: The sum of each direction.
        log_mgf: An upper bound on K of each direction.
    """
    result = [_largest(total, above) for total, above in zip(totals, log_mgf, strict=True)]
    return max(bound for bound, _ in result) * (1 + 64 * U), [s for _, s in result]


def _largest(total: SumOfLosses, above: Callable[[float], float]) -> tuple[float, float]:
    """A bound on K(s)/(s(s+1)) over all s > 0, and about where it is attained.

    Below the first knot K(s)/s <= K(s_0)/s_0; beyond the last the tail; between, chords, of which the highest is halved until
    none exceeds the best knot by more than `CLOSE`.
    """
    bound = total.zcdp_tail(0.0)
    if total.zcdp_tail(STARTS[-1]) >= bound:  # great orders decide: no chord can do better than what bounds all of them
        return bound, max(FEW, key=lambda s: above(s) / (s * (s + 1)))
    knots, values = [], []
    best, where = 0.0, STARTS[0]
    for s in STARTS:
        k = above(s)
        if not math.isfinite(k):
            break
        knots.append(s)
        values.append(k)
        if k / (s * (s + 1)) > best:
            best, where = k / (s * (s + 1)), s
        if total.zcdp_tail(s) <= best:
            break
    if not knots:
        return math.inf, where
    ends = max(values[0] / knots[0], total.zcdp_tail(knots[-1]))
    cells = [(-_peak(*cell), *cell) for cell in zip(knots, values, knots[1:], values[1:], strict=False)]
    heapq.heapify(cells)
    for _ in range(SPLITS):
        if not cells or -cells[0][0] <= max(best * (1 + CLOSE), ends):
            break
        _, s0, k0, s1, k1 = heapq.heappop(cells)
        s = math.sqrt(s0 * s1)
        k = above(s)
        if k / (s * (s + 1)) > best:
            best, where = k / (s * (s + 1)), s
        for cell in ((s0, k0, s, k), (s, k, s1, k1)):
            heapq.heappush(cells, (-_peak(*cell), *cell))
    return max([ends, *(-cell[0] for cell in cells)]), where


def _peak(s0: float, k0: float, s1: float, k1: float) -> float:
    """The largest of (A + ms)/(s(s+1)) on the cell."""
    m = (k1 - k0) / (s1 - s0)
    a = k0 - m * s0
    candidates = [s0, s1]
    if a < 0 < m:
        candidates.append(min(max((-a + math.sqrt(a * a - m * a)) / m, s0), s1))
    return max((max(k0, 0.0) if s == s0 else a + m * s + 4 * U * abs(k1)) / (s * (s + 1)) for s in candidates)
