"""How far noise and the error of a Poisson sample can be together, whatever the units count for. Arithmetic only, no data.

Unit u is kept with probability q, independently: B_u is 1 or 0. What it counts for, x_u, is unknown, but for its range and for
sums over all units. Wanted is d with P(X + D >= d) <= miss for the noise X and D = sum (B_u - q) x_u.

*The worst table.* E phi(X + D) of a convex phi is convex in x, and unchanged where units change places. So among all x in [0, m]
that add up to T it is largest where floor(T / m) units have m, one has the rest and the others nothing (Schur; Marshall, Olkin,
Arnold 2011, 3.C.2), and one more unit with all of m makes it no smaller, for it adds an error of mean 0: D is at most
m (Bin(k, q) - k q) for k = ceil(T / m) in convex order. Where x_u = c a_u + c' b_u of a_u + b_u <= C rows of two kinds, A and B
in all, it is largest at a corner of the a and b that are possible; there all units but two have C rows of one kind or none, and
those two are mixtures of such units: D is at most c C (Bin(k, q) - k q) + c' C (Bin(k', q) - k' q) for k = floor(A / C) + 2 and
k' = floor(B / C) + 2. More units, again, make it no smaller.

*From convex order to tails.* P(Y >= d) <= E (Y - t)+ / (d - t) for each t < d, and for Y at most Z in convex order that is at
most E (Z - t)+ / (d - t). Above the mean d of Z beyond its quantile some t makes it `miss` (expected shortfall; Rockafellar,
Uryasev 2000, theorem 1; Bentkus 2004 has such bounds for sums): P(Y > d) <= miss. Of a normal Z and 2.5 % that is 2.338
deviations in place of 1.960: 1.19 times the least that holds for the worst table. Where noise is a Laplace draw of scale b, also
P(X >= y) <= P(X >= 0) g(-y / b) for g(v) = e^v up to 0 and 1 + v beyond, which is convex: so P(X + D >= d) is at most
P(X >= 0) E g((D* - d) / b) for a D* that D is at most: near the truth where noise is most of the error. So it is for a normal
draw of deviation s and g(v) = P(X >= -s v) up to 0 and 1 / 2 + v / sqrt(2 pi) beyond, its tangent there.

*Noise.* A discrete Laplace variable is at most a Laplace variable of its scale in convex order. (Cut that at n - c, n = 1, 2,
..., and at their negatives, c the mean of an exponential variable of scale b below 1: its means within the parts are the whole
numbers, and each but 0 has e^(c/b) (1 + r) / 2 times the discrete one's mass, r = e^(-1/b). That is 1 or more: it is where b is
large, and falls with b, for tanh(x) <= x.) A normal variable that is rounded to whole numbers is within 1/2 of itself.

*Numbers.* Each law is put on a lattice so that its mean stays and its mass moves outwards, which makes it no smaller in convex
order; the lattice laws are convolved by Fourier transforms. What lies beyond the lattice, below 1e-9, is taken off `miss`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from neartwin.exact import FloatArray
from neartwin.special import betainc, betaln, ndtr, xlogy

_POINTS = 512  # of the lattice
_BEYOND = 1e-11  # probability
_SLACK = 1e-7  # of `miss`, for what lies beyond and for floating point
_FAINT = 1e-18  # of a transform: less is its rounding
_HALVINGS = 40
_MANY = 300  # kept or left units, of which 150 or more are kept and left wherever the chance is not nothing
MOST_UNITS = 2**50

Waves = NDArray[np.complex128]
Sums = tuple[tuple[int, float], ...]  # so many units, each with so much, of either sign


@dataclass(frozen=True, slots=True)
class Draws:
    """Independent continuous draws of mean 0, normal or Laplace: pairs of a deviation or scale and how many have it.

    from_zero: the chance that one draw of the noise that they stand for is 0 or above, where it is one; else 1.
    """

    sizes: tuple[tuple[float, int], ...] = ()
    normal: bool = False
    from_zero: float = 1.0

    @property
    def variance(self) -> float:
        """Of their sum."""
        return sum(count * size**2 for size, count in self.sizes) * (1 if self.normal else 2)


@lru_cache(maxsize=4096)
def farthest(draws: tuple[Draws, ...], rate: float, sums: Sums, miss: float) -> tuple[float, ...]:
    """For each noise d with P(X + sum of c (Bin(k, rate) - k rate) > d) <= miss, over the pairs (k, c) of `sums`.

    It holds for all that is at most that in convex order; inf where there are more than `MOST_UNITS`.

    >>> (d,) = farthest((Draws(),), 0.5, ((10_000, 1.0),), 0.025)
    >>> 2.33 < d / 50 < 2.36  # deviations
    True
    """
    if any(units > MOST_UNITS for units, _ in sums):
        return (math.inf,) * len(draws)
    left = miss * (1 - _SLACK)
    reach = sum(abs(size) * _reach(units, rate) for units, size in sums) + max(map(_far, draws)) + 1e-9
    step = 2 * reach / (_POINTS - 4)
    grid: FloatArray = step * np.arange(-_POINTS // 2, _POINTS // 2).astype(np.float64)
    sampled: Waves = np.ones(_POINTS // 2 + 1, dtype=np.complex128)
    for units, size in sums:
        sampled = sampled * np.fft.rfft(_binomial(grid, units, size, rate))
    whole = sampled * np.exp(_log_waves(draws, grid, step))
    far = _shortfalls(grid, np.fft.irfft(whole, n=_POINTS, axis=1), left)
    alone = [len(one.sizes) == 1 and one.sizes[0][1] == 1 and (one.normal or one.from_zero < 1) for one in draws]
    law = np.fft.irfft(sampled, n=_POINTS) if any(alone) else grid
    found = [
        _beside(grid, law, one, left, high) if single else high
        for one, single, high in zip(draws, alone, far.tolist(), strict=True)
    ]
    return tuple(high * (1 + 1e-12) for high in found)


@lru_cache(maxsize=256)
def lattice_law(draws: Draws) -> tuple[FloatArray, FloatArray]:
    """A lattice and the chances of its points, of a law that the draws are at most in convex order but for `_BEYOND`."""
    reach = _far(draws) + 1e-9
    step = 2 * reach / (_POINTS - 4)
    grid: FloatArray = step * np.arange(-_POINTS // 2, _POINTS // 2).astype(np.float64)
    law = np.fft.irfft(np.exp(_log_waves((draws,), grid, step))[0], n=_POINTS)
    return grid, np.maximum(np.fft.fftshift(law), 0.0)


def _log_waves(draws: tuple[Draws, ...], grid: FloatArray, step: float) -> FloatArray:
    """(draws, waves) the logarithms of the transforms of their lattice laws, which are even and positive: sums of such as the
    transform of a law at all frequencies that the lattice does not tell apart, times that of a triangle.
    """
    kinds = sorted({(one.normal, size) for one in draws for size, _ in one.sizes})
    if not kinds:
        return np.zeros((len(draws), _POINTS // 2 + 1))
    row = {kind: i for i, kind in enumerate(kinds)}
    counts = np.zeros((len(draws), len(kinds)))
    for i, one in enumerate(draws):
        for size, count in one.sizes:
            counts[i, row[one.normal, size]] += count
    laplace = np.array([size for normal, size in kinds if not normal])
    waves = np.concatenate(
        [_laplace_waves(laplace, step)]
        + [np.fft.rfft(_spread(_normal_excess(grid, size), step)).real[None] for normal, size in kinds if normal]
    )
    found: FloatArray = counts @ np.log(np.maximum(waves, _FAINT))
    return found


def _far(draws: Draws) -> float:
    """How far they are but for a probability of `_BEYOND`."""
    deviation = math.sqrt(draws.variance)
    if draws.normal:
        return 8 * deviation
    return 9 * deviation + 27 * max((size for size, _ in draws.sizes), default=0.0)


def _reach(units: int, rate: float) -> float:
    """How far Bin(units, rate) is from its mean but for a probability of `_BEYOND`, by Bernstein; at most all the way."""
    size = math.log(2 / _BEYOND)
    far = size / 3 + math.sqrt(size * size / 9 + 2 * units * rate * (1 - rate) * size)
    return min(far, units * max(rate, 1 - rate)) + 1


def _spread(excess: FloatArray, step: float) -> FloatArray:
    """The lattice law with this mean excess E (X - y)+ at the lattice, its 0 in front."""
    inside = np.maximum((excess[:-2] - 2 * excess[1:-1] + excess[2:]) / step, 0.0)
    return np.fft.ifftshift(np.concatenate([[0.0], inside, [0.0]]))


def _laplace_waves(scales: FloatArray, step: float) -> FloatArray:
    """(scales, waves) transforms of the lattice laws with the mean excess s e^(-|y| / s) / 2 + (-y)+ of Laplace variables.

    Their masses are a r^|j| but at 0, where it is 1 - (1 - r) s / step; r = e^(-step / s).
    """
    ratio = scales[:, None] / step
    r = np.exp(-1 / ratio)
    cosine = np.cos(2 * np.pi / _POINTS * np.arange(_POINTS // 2 + 1))
    # a (2 (r cos - r^2) / (1 - 2 r cos + r^2)), a = ratio (1 - r)^2 / (2 r)
    away = ratio * np.square(1 - r) * (cosine - r) / (1 - 2 * r * cosine + r * r)
    found: FloatArray = 1 - (1 - r) * ratio + away
    return found


def _normal_excess(y: FloatArray, deviation: float) -> FloatArray:
    """E (X - y)+ of a normal variable."""
    z = np.abs(y) / deviation
    found: FloatArray = np.maximum(-y, 0.0) + deviation * (np.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * ndtr(-z))
    return found


def _binomial(grid: FloatArray, units: int, size: float, rate: float) -> FloatArray:
    """The lattice law of size (Bin(units, rate) - units rate), its 0 in front.

    Between two points of the lattice, mass and first moment are kept and put on both: the sum over j > i of (j - k q) P(j) is
    k q (1 - q) times the chance that Bin(k - 1, q) is i (De Moivre). Less its mean, -Bin(k, q) is Bin(k, 1 - q).
    """
    q, size = rate if size > 0 else 1 - rate, abs(size)
    last = np.floor(grid / size + units * q)  # number of kept units at or below each point
    inside = (last >= 0) & (last < units)
    i = np.where(inside, last, 0.0)
    above = np.where(inside, betainc(i + 1, units - i, q), np.where(last < 0, 1.0, 0.0))
    moment = np.where(inside, units * q * (1 - q) * np.exp(_log_chance(i, units - 1, q)), 0.0) * size
    step = grid[1] - grid[0]
    mass, first = above[:-1] - above[1:], moment[:-1] - moment[1:]
    found = np.zeros_like(grid)
    found[:-1] += np.clip((grid[1:] * mass - first) / step, 0.0, mass)
    found[1:] += np.clip((first - grid[:-1] * mass) / step, 0.0, mass)
    return np.fft.ifftshift(found)


def _log_chance(i: FloatArray, n: int, q: float) -> FloatArray:
    """The logarithm of P(Bin(n, q) = i). Of many by Stirling's series: sums of large logarithms would lose digits."""
    if min(n * q, n * (1 - q)) < _MANY:
        exact: FloatArray = xlogy(i, q) + (n - i) * math.log1p(-q) - betaln(i + 1, n - i + 1) - math.log(n + 1)
        return exact
    i = np.clip(i, 1, n - 1)
    off = i - n * q
    deviance = i * np.log1p(off / (n * q)) + (n - i) * np.log1p(-off / (n * (1 - q)))
    series = [(sign / x - sign / (30 * x**3)) / 12 for sign, x in ((1, n), (-1, i), (-1, n - i))]
    found: FloatArray = sum(series) - deviance - np.log(2 * math.pi * i * ((n - i) / n)) / 2
    return found


def _shortfalls(grid: FloatArray, laws: FloatArray, miss: float) -> FloatArray:
    """(n,) the means of lattice laws beyond their quantiles. laws: (n, points), their 0 in front."""
    chances, points = np.maximum(np.fft.fftshift(laws, axes=1), 0.0)[:, ::-1], grid[::-1]
    beyond = np.cumsum(chances, axis=1)
    sums = np.cumsum(points * chances, axis=1)
    passed = beyond >= miss
    place = np.argmax(passed, axis=1)[:, None]
    here, at = np.take_along_axis(chances, place, 1), points[place]
    before = np.take_along_axis(beyond, place, 1) - here
    total = np.take_along_axis(sums, place, 1) - at * here + at * (miss - before)
    return np.where(passed.any(axis=1), total[:, 0] / miss, np.inf)


def _beside(grid: FloatArray, law: FloatArray, draws: Draws, miss: float, high: float) -> float:
    """The least d, rounded up, at which P(X >= d - D) is at most `miss` by a convex bound; `high` where it is no less.

    draws: one, normal or Laplace. law: of D, its 0 in front.
    """
    chances, low = np.maximum(np.fft.fftshift(law), 0.0), 0.0
    ((size, _),) = draws.sizes
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        v = (grid - middle) / size
        near, inside = np.maximum(v, 0.0), np.minimum(v, 0.0)
        if draws.normal:
            bound = np.where(v > 0, 0.5 + near / math.sqrt(2 * math.pi), ndtr(inside))
        else:
            bound = draws.from_zero * np.where(v > 0, 1 + near, np.exp(inside))
        few = float(chances @ bound) <= miss
        low, high = (low, middle) if few else (middle, high)
    return high
