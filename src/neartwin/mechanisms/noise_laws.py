"""The laws of integer noise as numbers: probabilities, tails, error bars, and the noise that an error bar allows.

The samplers in `noise` draw them exactly; here they are evaluated, in floats, for error bars and expected errors. No
privacy depends on these values. Tails are rounded up and error bars never too short.

Sums are of independent noises, each times a number of its own. `half_widths_of_sums` takes many weights at once, of normal
noises (M1, M2) or of discrete Laplace noises (M3, M6). `laplace_quantiles` takes Laplace variables of many scales (M6, M7).
Numbers refer to docs/proofs/mechanisms.md.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer, open_probability
from neartwin.exact import FloatArray
from neartwin.special import erfc

_SLACK = 1e-12  # relative; the tails below are evaluated to a few units in the last place
_APART = 1e-8  # P(|X - Y| > 1) of a discrete Gaussian and its normal variable
_SUMMED = 2000.0  # standard deviations up to which discrete Gaussian tails are summed term by term


class NearNormal(NamedTuple):
    """A normal variable that can be drawn together with noise X, and nearly always stands beside it.

    Attributes:
        variance: The variance of the normal variable.
        distance: The most that X is away from it.
        failure: The probability that X is further away.
    """

    variance: float
    distance: float
    failure: float


class Law(ABC):
    """A symmetric law on the integers."""

    __slots__ = ()

    @property
    def near_normal(self) -> NearNormal | None:
        """The normal variable beside this noise, if one is known: (M1), (M2) of docs/proofs/mechanisms.md."""
        return None

    @property
    def laplace_scale(self) -> float | None:
        """The scale of a Laplace variable that stands in for this noise in sums: (M3) of docs/proofs/mechanisms.md."""
        return None

    @abstractmethod
    def pmf(self, x: NDArray[np.int64]) -> FloatArray:
        """P(X = x)."""

    @abstractmethod
    def beyond(self, t: int) -> float:
        """P(|X| > t) for t >= 0, or a bound not below it."""

    def at_least(self, x: int) -> float:
        """P(X >= x), by symmetry."""
        return self.beyond(x - 1) / 2 if x > 0 else 1 - self.beyond(-x) / 2

    @property
    @abstractmethod
    def variance(self) -> float:
        """E X^2."""

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.variance)

    def half_width(self, confidence: float, count: int = 1) -> int:
        """The least t with P(|X_i| <= t for all `count` independent draws) >= confidence.

        It is exact in law: the allowed tail of one draw is 1 - confidence**(1/count), not (1 - confidence)/count.

        Args:
            confidence: The confidence, in (0, 1).
            count: The number of draws.

        Returns:
            t, in steps.
        """
        open_probability(confidence=confidence)
        return self.reach(-math.expm1(math.log(confidence) / integer(at_least=1, count=count)) * (1 - _SLACK))

    def reach(self, allowed: float) -> int:
        """The least t >= 0 with P(|X| > t) <= allowed, for tails too small to be one minus a confidence."""
        low, high, above, ends = -1, 1, -math.log(allowed), [0, 0]  # which of these stayed how often
        while (tail := self.beyond(high)) > allowed:
            low, high, above = high, 16 * high, math.log(tail / allowed)
        below = math.log(tail / allowed) if tail else -above
        while high - low > 1:  # by the line through the logarithms of tails, or by halves while one end stays
            step = round((high - low) * above / (above - below or 1.0)) if max(ends) < 2 else (high - low) // 2
            middle = low + min(max(step, 1), high - low - 1)
            if (tail := self.beyond(middle)) > allowed:
                low, above, ends = middle, math.log(tail / allowed), [0, ends[1] + 1]
            else:
                high, below, ends = middle, math.log(tail / allowed) if tail else -above, [ends[0] + 1, 0]
        return high


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceLaw(Law):
    """P(x) in proportion to r^|x|, r = exp(-1/scale). Ghosh, Roughgarden, Sundararajan 2009.

    >>> round(DiscreteLaplaceLaw(Fraction(1)).variance, 12)
    1.841347188416
    """

    scale: Fraction

    @property
    def laplace_scale(self) -> float:
        """That of the law itself."""
        return float(self.scale)

    def pmf(self, x: NDArray[np.int64]) -> FloatArray:
        """(1 - r) / (1 + r) r^|x|."""
        rate = 1 / float(self.scale)
        return math.tanh(rate / 2) * np.exp(-np.abs(x) * rate)

    def beyond(self, t: int) -> float:
        """2 r^(t+1) / (1 + r)."""
        rate = 1 / float(self.scale)
        return 2 * math.exp(-(t + 1) * rate) / (1 + math.exp(-rate))

    @property
    def variance(self) -> float:
        """2r / (1 - r)^2 = 1 / (2 sinh^2(1 / (2 scale)))."""
        half = 1 / (2 * float(self.scale))
        return 0.5 / math.sinh(half) ** 2 if half < 350 else 0.0


@dataclass(frozen=True, slots=True)
class RoundedLaplaceLaw(Law):
    """The nearest integer to a Laplace variable of this scale."""

    scale: Fraction

    def pmf(self, x: NDArray[np.int64]) -> FloatArray:
        """exp(-|x|/b) sinh(1/(2b)), and 1 - exp(-1/(2b)) at 0."""
        b = float(self.scale)
        size = np.abs(x)
        beside = np.exp(-(size - 0.5) / b) * -math.expm1(-1 / b) / 2
        return np.where(size == 0, -math.expm1(-0.5 / b), beside)

    def beyond(self, t: int) -> float:
        """exp(-(t + 1/2)/b)."""
        return math.exp(-(t + 0.5) / float(self.scale))

    @property
    def variance(self) -> float:
        """exp(-1/(2b)) (1 + r) / (1 - r)^2 with r = exp(-1/b): the sum of (2t + 1) P(|X| > t)."""
        rate = 1 / float(self.scale)
        return math.exp(-rate / 2) * (1 + math.exp(-rate)) / math.expm1(-rate) ** 2


@dataclass(frozen=True, slots=True)
class RoundedGaussianLaw(Law):
    """The nearest integer to a normal variable; `normal_variance` is the variance before rounding."""

    normal_variance: Fraction
    _root: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_root", math.sqrt(2 * float(self.normal_variance)))

    @property
    def near_normal(self) -> NearNormal:
        """The variable before rounding."""
        return NearNormal(float(self.normal_variance), 0.5, 0.0)

    def pmf(self, x: NDArray[np.int64]) -> FloatArray:
        """The normal mass of [|x| - 1/2, |x| + 1/2], as a difference of upper tails."""
        size = np.abs(x)
        tails: FloatArray = erfc((size - 0.5) / self._root) - erfc((size + 0.5) / self._root)
        return np.where(size == 0, math.erf(0.5 / self._root), tails / 2)

    def beyond(self, t: int) -> float:
        """erfc((t + 1/2) / sqrt(2 variance))."""
        return math.erfc((t + 0.5) / self._root)

    @property
    def variance(self) -> float:
        """The sum of (2t + 1) P(|X| > t); normal_variance + 1/12 beyond deviation 2, where they agree to 1e-30."""
        if self.normal_variance > 4:
            return float(self.normal_variance + Fraction(1, 12))
        return math.fsum((2 * t + 1) * self.beyond(t) for t in range(100))


@dataclass(frozen=True, slots=True)
class DiscreteGaussianLaw(Law):
    """P(x) in proportion to exp(-x^2 / (2 parameter)). Canonne, Kamath, Steinke 2020.

    >>> round(DiscreteGaussianLaw(Fraction(1)).variance, 14)
    0.99999978876773
    """

    parameter: Fraction

    @property
    def near_normal(self) -> NearNormal | None:
        """That of the same variance parameter, from 1 on."""
        return NearNormal(float(self.parameter), 1.0, _APART) if self.parameter >= 1 else None

    @property
    def _normaliser(self) -> float:
        """The sum over the integers; sqrt(2 pi parameter) beyond deviation 3, by Poisson summation to 1e-70."""
        s2 = float(self.parameter)
        return math.sqrt(2 * math.pi * s2) if s2 > 9 else self._sum(lambda x: x * 0.0 + 1.0)

    def _sum(self, of: Callable[[FloatArray], FloatArray]) -> float:
        s2 = float(self.parameter)
        x = np.arange(math.ceil(40 * math.sqrt(s2)) + 2).astype(np.float64)
        return float((of(x) * np.exp(-x * x / (2 * s2)) * np.where(x > 0, 2.0, 1.0))[::-1].sum())

    def pmf(self, x: NDArray[np.int64]) -> FloatArray:
        """exp(-x^2 / (2 parameter)) over its sum."""
        wide = x.astype(np.float64)
        return np.exp(-wide * wide / (2 * float(self.parameter))) / self._normaliser

    def beyond(self, t: int) -> float:
        """Summed; for wide noise the bound erfc(t / sqrt(2 parameter)), since the sum over x > t is below the integral."""
        s2 = float(self.parameter)
        if s2 > _SUMMED**2:
            return math.erfc(t / math.sqrt(2 * s2))
        x = np.arange(t + 1, t + 3 + math.ceil(40 * math.sqrt(s2))).astype(np.float64)
        return 2 * float(np.exp(-x * x / (2 * s2))[::-1].sum()) / self._normaliser

    @property
    def variance(self) -> float:
        """Below the parameter; equal to it in floats beyond deviation 3."""
        return float(self.parameter) if self.parameter > 9 else self._sum(lambda x: x * x) / self._normaliser


@dataclass(frozen=True, slots=True)
class StaircaseLaw(Law):
    """Steps of width r and D - r, each period exp(-epsilon) lower. Geng, Kairouz, Oh, Viswanath 2015."""

    epsilon: Fraction
    sensitivity: int
    step: int

    @property
    def _period(self) -> tuple[float, float]:
        """The mass of the first period of the half line, relative to the height at 0, and the ratio of periods."""
        q = math.exp(-float(self.epsilon))
        return self.step + (self.sensitivity - self.step) * q, q

    @property
    def _fall(self) -> float:
        """1 less the ratio of periods."""
        return -math.expm1(-float(self.epsilon))

    @property
    def _whole(self) -> float:
        first, _ = self._period
        return 2 * first / self._fall - 1

    def pmf(self, x: NDArray[np.int64]) -> FloatArray:
        """exp(-epsilon * steps down) over the sum."""
        period, place = np.divmod(np.abs(x), self.sensitivity)
        return np.exp(-float(self.epsilon) * (period + (place >= self.step))) / self._whole

    def beyond(self, t: int) -> float:
        """The rest of t's period and all later ones, twice."""
        first, q = self._period
        period, place = divmod(t + 1, self.sensitivity)
        rest = max(0, self.step - place) + q * (self.sensitivity - max(self.step, place))
        return 2 * math.exp(-float(self.epsilon * period)) * (rest + q * first / self._fall) / self._whole

    @property
    def variance(self) -> float:
        """From the moments of the period index k: E(kD + j)^2, with k geometric and j on the first period."""
        (_, q), fall = self._period, self._fall
        j = np.arange(self.sensitivity).astype(np.float64)
        w = np.where(j < self.step, 1.0, q)
        k1, k2 = q / fall**2, q * (1 + q) / fall**3  # sums of k q^k and k^2 q^k
        d = self.sensitivity
        half = k2 * d * d * w.sum() + 2 * k1 * d * (w * j).sum() + (w * j * j).sum() / fall
        return 2 * float(half) / self._whole


_ROUNDED = 1 + 1e-9  # covers rounding to doubles
_MOST_ON_ONE_SIDE = 0.25  # the largest failure that the rule covers: bars below 50 % confidence are those at 50 %


def half_widths_of_sums(laws: Sequence[Law], weights: FloatArray, confidence: float) -> FloatArray:
    """Half-widths t with P(|sum of w_i X_i| <= t) >= confidence, one for each column of weights.

    Args:
        laws: The laws of the X_i.
        weights: (laws, n) weights; their signs do not matter.
        confidence: The confidence, in (0, 1).

    Returns:
        (n,) upper bounds on the least t.

    >>> from fractions import Fraction
    >>> normal = RoundedGaussianLaw(Fraction(10**6))
    >>> half_widths_of_sums([normal, normal], np.array([[1.0, 1.0], [0.0, 1.0]]), 0.95).round()
    array([1960., 2773.])
    """
    failure, sizes = 1 - open_probability(confidence=confidence), np.abs(np.asarray(weights, dtype=float))
    alone = {law: law.reach(failure / len(laws) * (1 - _SLACK)) for law in set(laws)}
    union: FloatArray = np.array([alone[law] for law in laws], dtype=float) @ sizes
    scales = [law.laplace_scale for law in laws if law.laplace_scale is not None]
    normals = [law.near_normal for law in laws if law.near_normal is not None]
    if len(scales) == len(laws):
        each_side, scale = min(failure / 2, _MOST_ON_ONE_SIDE), max(scales)
        shares = np.ascontiguousarray(sizes.T * (np.array(scales) / scale))
        found = _known_sums if shares.size <= 2**10 else _known_sums.__wrapped__  # many weights are not kept
        surer, sure = (scale * found(shares.tobytes(), len(laws), each_side / n) for n in (2, 1))
        together = np.minimum(surer, sure + sizes.sum(axis=0))
    elif len(normals) == len(laws) and sum(one.failure for one in normals) < failure:
        variances, distances, failures = (np.array(column) for column in zip(*normals, strict=True))
        z = -NormalDist().inv_cdf((failure - failures.sum()) / 2)
        together = z * np.sqrt(variances @ sizes**2) + distances @ sizes
    else:
        return union
    return np.asarray(np.minimum(union, together * _ROUNDED))


@lru_cache(maxsize=256)
def _known_sums(shares: bytes, laws: int, failure: float) -> FloatArray:
    """Quantiles of sums of Laplace variables of these scales: a question's noise has a new scale, and the same weights."""
    scales = np.frombuffer(shares).reshape(-1, laws)
    return laplace_quantiles(scales, np.ones(scales.shape), failure)


def joint_half_axes(laws: Sequence[Law], failure: float) -> FloatArray:
    """Half-axes a with P(sum of (X_i / a_i)^2 > 1) <= failure: all noises together lie in an ellipsoid.

    Each noise is within `distance` of a Laplace or normal variable of scale s_i, (M1) to (M3). The length of such variables
    in their scales exceeds r with the given probability, and |(X_i / s_i)| is at most r plus the length of distance / s_i.

    Args:
        laws: The laws of the X_i.
        failure: The probability, in (0, 1).

    Returns:
        (laws,) half-axes.

    >>> from fractions import Fraction
    >>> joint_half_axes([RoundedGaussianLaw(Fraction(10**6))] * 2, 0.05).round(-1)  # the root of chi-square's 5.99 is 2.448
    array([2450., 2450.])
    """
    count = len(laws)
    scales = np.array([law.laplace_scale or 0.0 for law in laws])
    normals = [law.near_normal for law in laws if law.near_normal is not None]
    if scales.all():
        distances, radius = np.ones(count), _radius(count, failure, normal=False)
    elif len(normals) == count and sum(one.failure for one in normals) < failure:
        variances, distances, failures = (np.array(column) for column in zip(*normals, strict=True))
        scales, radius = np.sqrt(variances), _radius(count, failure - failures.sum(), normal=True)
    else:
        return math.sqrt(count) * np.array([max(1.0, law.reach(failure / count * (1 - _SLACK))) for law in laws])
    return np.asarray(scales * (radius + np.linalg.norm(distances / scales)))


_SQUARES = 2**14  # cells of the sum of squares; each square is rounded up to the end of its cell


@lru_cache(maxsize=64)
def _radius(count: int, failure: float, *, normal: bool) -> float:
    """An r that the length of independent Laplace or normal variables of scale 1 exceeds with probability <= failure."""
    rare = failure / (100 * count)
    most = -NormalDist().inv_cdf(rare / 2) if normal else -math.log(rare)
    width, cells = count * most**2 / _SQUARES, _SQUARES // count + 1
    sizes = np.sqrt(width * np.arange(cells + 1))
    squares = np.append(0.0, -np.diff(erfc(sizes / math.sqrt(2)) if normal else np.exp(-sizes)))
    frequencies = np.fft.rfft(squares, 2 * _SQUARES + 4 * count) ** count
    beyond = failure / 100 + 1e-9 - np.cumsum(np.fft.irfft(frequencies)) + squares.sum() ** count
    one_by_one = math.ceil(count * most**2 / width)
    return math.sqrt(width * int(np.append(np.flatnonzero(beyond <= failure), one_by_one)[0]))


_POINTS = 24
_STEP = 0.6  # in deviations at the saddle
_BEND = 0.05  # more would let many small variables beside a large one grow along the line
_HALVINGS_OF_SADDLE = 12  # of the search for the saddle; any other line is valid too, with a longer bar
_NEWTON = 6
_LAPLACE_ROUNDED = 1 + 3e-4


def laplace_quantiles(scales: FloatArray, numbers: FloatArray, failure: float) -> FloatArray:
    """The t that sums of Laplace variables exceed with probability `failure`, rounded up by 3e-4 for the error of the
    rule.

    Args:
        scales: (n, kinds) scales.
        numbers: (n, kinds) numbers of variables of each scale.
        failure: The probability, in (0, 1/4].

    Returns:
        (n,) upper bounds on t.

    >>> laplace_quantiles(np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]]), 0.025).round(2)
    array([3.  , 6.55])
    """
    squares = np.where(numbers > 0, scales**2, 0.0)
    spread = np.sqrt(2 * (numbers * squares).sum(axis=1))
    some = spread > 0
    quantiles = np.zeros(len(spread))
    if some.any():
        ones = squares[some] / spread[some, None] ** 2
        quantiles[some] = spread[some] * _quantiles(ones, numbers[some], failure) * _LAPLACE_ROUNDED
    return quantiles


def _quantiles(squares: FloatArray, numbers: FloatArray, failure: float) -> FloatArray:
    """Of sums of variance 1."""
    z = -NormalDist().inv_cdf(failure)
    excess = 12 * (numbers * squares**2).sum(axis=1)
    t: FloatArray = np.maximum(z + (z**3 - 3 * z) * np.minimum(excess, 1.0) / 24, z / 2)  # Cornish, Fisher 1938
    saddle = _saddles(squares, numbers, t)
    q = squares * saddle[:, None] ** 2
    second = (numbers * 2 * squares * (1 + q) / (1 - q) ** 2).sum(axis=1) + 1 / saddle**2
    unit = 1 / np.sqrt(second)
    bend = _BEND / unit
    y = unit[:, None] * _STEP * (np.arange(_POINTS) + 0.5)
    line, along = saddle[:, None] + 1j * y + bend[:, None] * y**2, 1j + 2 * bend[:, None] * y
    cumulants = np.zeros_like(line)
    for kind in range(squares.shape[1]):
        cumulants -= numbers[:, kind, None] * np.log(1 - squares[:, kind, None] * line**2)
    weights = along * (unit * _STEP / np.pi)[:, None]
    for _ in range(_NEWTON):
        density = np.exp(cumulants - line * t[:, None]) * weights
        tail = np.maximum((density / line).imag.sum(axis=1), 1e-300)
        t = t + np.log(tail / failure) * tail / np.maximum(density.imag.sum(axis=1), 1e-300)
    return t


def _saddles(squares: FloatArray, numbers: FloatArray, t: FloatArray) -> FloatArray:
    """(n,) where K(z) - z t - log z is least, between 0 and the first pole."""
    low, high = np.zeros(len(t)), 1 / np.sqrt(squares.max(axis=1))
    for _ in range(_HALVINGS_OF_SADDLE):
        z = (low + high) / 2
        slope = (numbers * 2 * squares * z[:, None] / (1 - squares * z[:, None] ** 2)).sum(axis=1) - t - 1 / z
        low, high = np.where(slope < 0, z, low), np.where(slope < 0, high, z)
    return np.asarray((low + high) / 2)
