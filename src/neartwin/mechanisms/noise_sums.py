"""Error bars of sums of independent noises, each times a number of its own. Arithmetic only, no data.

`half_widths_of_sums` takes many weights at once, of normal noises (M1, M2) or of discrete Laplace noises (M3, M6).
`laplace_quantiles` takes Laplace variables of many scales (M6, M7).
Numbers refer to docs/proofs/mechanisms.md.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from neartwin.checks import open_probability
from neartwin.exact import FloatArray
from neartwin.mechanisms.noise_laws import Law
from neartwin.special import erfc

_SLACK = 1 + 1e-9  # covers rounding to doubles
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
    >>> from neartwin.mechanisms.noise_laws import RoundedGaussianLaw
    >>> normal = RoundedGaussianLaw(Fraction(10**6))
    >>> half_widths_of_sums([normal, normal], np.array([[1.0, 1.0], [0.0, 1.0]]), 0.95).round()
    array([1960., 2773.])
    """
    failure, sizes = 1 - open_probability(confidence=confidence), np.abs(np.asarray(weights, dtype=float))
    alone = {law: law.half_width(1 - failure / len(laws)) for law in set(laws)}
    union: FloatArray = np.array([alone[law] for law in laws], dtype=float) @ sizes
    scales = [law.laplace_scale for law in laws if law.laplace_scale is not None]
    normals = [law.near_normal for law in laws if law.near_normal is not None]
    if len(scales) == len(laws):
        each_side, scale = min(failure / 2, _MOST_ON_ONE_SIDE), max(scales)
        shares = np.ascontiguousarray(sizes.T * (np.array(scales) / scale))
        found = _known_sums if shares.size <= 2**10 else _known_sums.__wrapped__  # many weights are not kept
        surer, sure = (scale * found(shares.tobytes(), len(laws), each_side / n) for n in (2, 1))
        together = np.minimum(surer, sure + sizes.sum(axis=0))
    elif len(normals) == len(laws):
        variances, distances, failures = (np.array(column) for column in zip(*normals, strict=True))
        z = -NormalDist().inv_cdf((failure - failures.sum()) / 2)
        together = z * np.sqrt(variances @ sizes**2) + distances @ sizes
    else:
        return union
    return np.asarray(np.minimum(union, together * _SLACK))


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
    >>> from neartwin.mechanisms.noise_laws import RoundedGaussianLaw
    >>> joint_half_axes([RoundedGaussianLaw(Fraction(10**6))] * 2, 0.05).round(-1)  # the root of chi-square's 5.99 is 2.448
    array([2450., 2450.])
    """
    count = len(laws)
    scales = np.array([law.laplace_scale or 0.0 for law in laws])
    normals = [law.near_normal for law in laws if law.near_normal is not None]
    if scales.all():
        distances, radius = np.ones(count), _radius(count, failure, normal=False)
    elif len(normals) == count:
        variances, distances, failures = (np.array(column) for column in zip(*normals, strict=True))
        scales, radius = np.sqrt(variances), _radius(count, failure - failures.sum(), normal=True)
    else:
        return math.sqrt(count) * np.array([max(1.0, law.half_width(1 - failure / count)) for law in laws])
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
    return math.sqrt(width * int(np.argmax(beyond <= failure)))


_POINTS = 12
_STEP = 2 / 3  # in deviations at the saddle
_LEAST_BEND = 0.05
_HALVINGS_OF_SADDLE = 12  # of the search for the saddle; any other line is valid too, with a longer bar
_NEWTON = 6
_LAPLACE_SLACK = 1 + 3e-4


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
        quantiles[some] = spread[some] * _quantiles(ones, numbers[some], failure) * _LAPLACE_SLACK
    return quantiles


def _quantiles(squares: FloatArray, numbers: FloatArray, failure: float) -> FloatArray:
    """Of sums of variance 1."""
    z = -NormalDist().inv_cdf(failure)
    excess = 12 * (numbers * squares**2).sum(axis=1)
    t: FloatArray = np.maximum(z + (z**3 - 3 * z) * np.minimum(excess, 1.0) / 24, z / 2)  # Cornish, Fisher 1938
    saddle = _saddles(squares, numbers, t)
    q = squares * saddle[:, None] ** 2
    second = (numbers * 2 * squares * (1 + q) / (1 - q) ** 2).sum(axis=1) + 1 / saddle**2
    third = (numbers * 4 * squares**2 * (3 + q) / (1 - q) ** 3).sum(axis=1) * saddle - 2 / saddle**3
    unit = 1 / np.sqrt(second)
    bend = np.maximum(third / (6 * second), _LEAST_BEND / unit)
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
