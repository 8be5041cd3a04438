"""How far noise and the error of a large Poisson sample can be together: about as far as a normal variable's. Arithmetic only.

Wanted is d with P(X + D > d) <= miss for noise X and D = sum (B_u - q) x_u, B_u independent and 1 with probability q, of which
only |x_u| <= b and sum x_u^2 <= Q are known. Let s^2 = q (1 - q) sum x_u^2 be the variance of D, at most S^2 = q (1 - q) Q.

*Where s is between R and R', of some steps up to S.* P(D > y) is within e = 0.56 (q^2 + (1 - q)^2) b / R of that of a normal
variable s Z, by the theorem of Berry and Esseen with the constant 0.56 for terms that need not be alike (Shevtsova 2010), for
their third absolute moments add up to at most (q^2 + (1 - q)^2) b s^2. So it is with X, which is independent: P(X + D > d) is at
most P(X + s Z > d) + e. With normal noise that is a normal variable's, largest at s = R'. Else P(s Z > d - x) is at most g(x) =
P(R' Z > d - x) up to d, and 1/2 + (x - d) / (R sqrt(2 pi)) beyond, the steepest tangent: g is convex, so E g(X) <= E g(X*) for an
X* that X is at most in convex order, on the lattice of `neartwin.queries.sample_tails`.

*Where s is below a step R.* E e^(l D) <= exp(l^2 R^2 / (2 (1 - b' l / 3))) with b' = b max(q, 1 - q) (Boucheron, Lugosi, Massart
2013, sec. 2.8), and e^(l x) is convex, so noise may again be replaced by X*: P(X + D >= d) <= e^(-l d) E e^(l X*) E e^(l D).

d is the largest of all, and the least over the lowest step. It is 1.0 to 1.1 times the least that holds for the worst table where
S / b is some hundreds, and infinite where e is all of `miss`.
"""

import math
from functools import lru_cache

import numpy as np

from neartwin.exact import FloatArray
from neartwin.queries.sample_tails import Draws, Sums, lattice_law
from neartwin.special import ndtr, ndtri

_APART = 0.56
_STEPS = 1.03 ** -np.arange(40.0)  # R / S
_TRIED = np.geomspace(1e-3, 0.99, 60)  # values of l, of those that are possible
_FINE = 3e-4  # of d
_SLACK = 1e-7  # of `miss`, for the lattice and floating point


@lru_cache(maxsize=4096)
def normal_reach(draws: Draws, rate: float, sums: Sums, miss: float) -> float:
    """What noise and sample pass with probability at most `miss`. draws: as `Noise` has them; a normal one is the noise itself.

    sums: pairs of so many units and what each counts for, that D is at most in convex order; no |x_u| is above the largest.

    >>> d = normal_reach(Draws(), 0.5, ((1_000_000, 1.0),), 0.025)
    >>> 1.96 < d / 500 < 1.99  # deviations
    True
    >>> normal_reach(Draws(), 0.5, ((100, 1.0),), 0.025)
    inf
    """
    b, most = max((abs(size) for _, size in sums), default=0.0), math.sqrt(variance_of(rate, sums))
    if not most:
        return math.inf
    left = miss * (1 - _SLACK)
    deviations = most * _STEPS
    misses = left - _APART * (rate**2 + (1 - rate) ** 2) * b / deviations[1:]
    count = int((misses > 0).sum())
    if not count:
        return math.inf
    deviations, misses = deviations[: count + 1], misses[:count]
    small = _of_small_variance(draws, deviations[1:], b * max(rate, 1 - rate), left)
    alike = -ndtri(misses) * np.hypot(deviations[:-1], math.sqrt(draws.variance))
    lowest = int(np.argmin(np.maximum(np.maximum.accumulate(alike), small))) + 1
    if draws.normal or not draws.sizes:
        found = float(alike[:lowest].max())
    else:
        found = _beyond(draws, deviations[: lowest + 1], misses[:lowest])
    return max(found, float(small[lowest - 1])) * (1 + 1e-9)


def variance_of(rate: float, sums: Sums) -> float:
    """Of the sample's error, at most."""
    return rate * (1 - rate) * sum(units * size**2 for units, size in sums)


def _of_small_variance(draws: Draws, deviations: FloatArray, size: float, miss: float) -> FloatArray:
    """(n,) what noise and a sample of such deviations at most pass, by exponential moments."""
    limit = 3 / size
    if draws.sizes and not draws.normal:
        limit = min(limit, 1 / max(scale for scale, _ in draws.sizes))
    at = _TRIED * limit
    noise = np.zeros_like(at)
    for scale, count in draws.sizes:
        squares = np.square(scale * at)
        noise += count * (squares / 2 if draws.normal else -np.log1p(-squares))
    sample = at**2 / (2 * (1 - size * at / 3)) * np.square(deviations)[:, None]
    found: FloatArray = ((math.log(1 / miss) + noise + sample) / at).min(axis=1)
    return found


def _beyond(draws: Draws, deviations: FloatArray, misses: FloatArray) -> float:
    """The least d, rounded up, with E g(X*) <= miss for each step. deviations: (steps + 1,) falling."""
    grid, chances = lattice_law(draws)
    slopes = 1 / (deviations[1:] * math.sqrt(2 * math.pi))

    def passed(d: float, steps: int) -> bool:
        off = grid - d
        inside = ndtr(np.minimum(off, 0.0) / deviations[:steps, None])
        bound = np.where(off > 0, 0.5 + np.maximum(off, 0.0) * slopes[:steps, None], inside)
        return bool((bound @ chances > misses[:steps]).any())

    low = high = max(-float(ndtri(misses[0])) * float(deviations[0]), 0.0)
    for steps in (1, len(misses)):  # the first is hardly ever not the worst
        while passed(high, steps):
            low, high = high, 1.1 * high + 0.1 * float(deviations[0])
        while high - low > _FINE * high:
            middle = (low + high) / 2
            low, high = (middle, high) if passed(middle, steps) else (low, middle)
        low = high
    return high
