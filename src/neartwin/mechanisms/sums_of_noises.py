"""Error bars of w_1 X_1 + ... + w_k X_k for many weights at once, where all noises are normal or all discrete Laplace. No
data.

*Normal.* Rounded to whole numbers it is within 1/2 of a normal variable. A discrete Gaussian X of parameter s^2 >= 1 can be
drawn together with a normal Y of that variance so that |X - Y| <= 1 but for 1e-8: for k >= 0, P(X > k) is at most P(Y > k),
for a sum of a falling function is at most its integral and the sum over all whole numbers is at least s sqrt(2 pi); and at
least P(Y > k + 1) / (1 + 5.4e-9), for it is at most that much more (Poisson's formula). Take both at one quantile.

*Laplace.* A discrete Laplace variable is the difference of two rounded-down exponential ones, so it is within 1 of a Laplace
variable of its scale. With p_i = |w_i| s_i all different, by partial fractions of the product of 1 / (1 + p_i^2 u^2),

    P(|sum of Laplace(p_i)| > t) = sum c_i exp(-t / p_i),   c_i = product over j != i of p_i^2 / (p_i^2 - p_j^2).

Scales that are too close are made larger until they are not: the sum's law is symmetric and unimodal, and so is each term's,
so the tail grows with each scale (Anderson 1955). What rounding may do to the sum is added to it.

Either way the sum is off by at most the sum of |w_i|, or half of it, from the continuous one. Never above the union bound.
"""

import math
from collections.abc import Sequence

import numpy as np

from neartwin.checks import open_probability
from neartwin.exact import FloatArray
from neartwin.mechanisms.laws import DiscreteGaussianLaw, GeometricLaw, Law, RoundedGaussianLaw
from neartwin.special import ndtri

_SLACK = 1 + 1e-9  # of rounding to doubles
_APART = 1e-8  # P(|X - Y| > 1) of a discrete Gaussian and its normal variable
_HALVINGS = 45
_RATIOS = (
    (2, 1.0005),
    (3, 1.002),
    (6, 1.01),
    (10, 1.02),
    (15, 1.03),
    (10**9, 1.05),
)  # of neighbouring scales, by how many


def half_widths_of_sums(laws: Sequence[Law], weights: FloatArray, confidence: float) -> FloatArray:
    """(n,) t with P(|sum of w_i X_i| <= t) >= confidence, for each column of weights, (laws, n), of which signs do not matter.

    >>> from fractions import Fraction
    >>> normal = RoundedGaussianLaw(Fraction(10**6))
    >>> half_widths_of_sums([normal, normal], np.array([[1.0, 1.0], [0.0, 1.0]]), 0.95).round()
    array([1960., 2773.])
    """
    miss, sizes = 1 - open_probability(confidence=confidence), np.abs(np.asarray(weights, dtype=float))
    union: FloatArray = np.array([law.half_width(1 - miss / len(laws)) for law in laws], dtype=float) @ sizes
    if all(isinstance(law, GeometricLaw) for law in laws):
        scales = np.array([[float(law.scale)] for law in laws if isinstance(law, GeometricLaw)])
        together = _of_laplaces(sizes * scales, miss) + sizes.sum(axis=0)
    else:
        normal = [_normal(law) for law in laws]
        known = [one for one in normal if one is not None]
        if len(known) < len(laws):
            return union
        variance, off = (np.array(column) for column in zip(*known, strict=True))
        left = miss - _APART * sum(isinstance(law, DiscreteGaussianLaw) for law in laws)
        together = -ndtri(left / 2) * np.sqrt(variance @ sizes**2) + off @ sizes
    found: FloatArray = np.minimum(union, together * _SLACK)
    return found


def _normal(law: Law) -> tuple[float, float] | None:
    """The variance of a normal variable and how far the law can be from it."""
    match law:
        case RoundedGaussianLaw():
            return float(law.normal_variance), 0.5
        case DiscreteGaussianLaw() if law.parameter >= 1:
            return float(law.parameter), 1.0
        case _:
            return None


def _of_laplaces(scales: FloatArray, miss: float) -> FloatArray:
    """(n,) the least t at which the tail is at most `miss`, rounded up: the upper end of a bisection. scales: (k, n)."""
    count = len(scales)
    if not scales.size:
        return np.zeros(scales.shape[1])
    p = np.sort(np.maximum(scales, np.maximum(scales.max(axis=0) * 1e-9, 1e-300)), axis=0)
    ratio = next(ratio for most, ratio in _RATIOS if count <= most)
    for i in range(1, count):
        p[i] = np.maximum(p[i], p[i - 1] * ratio)
    shares = (p[None, :] / p[:, None]) ** 2  # (i, j, n): p_j^2 / p_i^2
    shares[np.arange(count), np.arange(count)] = 0.0
    parts = 1 / np.prod(1 - shares, axis=1)
    rounding = 16 * count * np.finfo(float).eps / (ratio**2 - 1)
    sure = parts + rounding * np.abs(parts)
    low, high = np.zeros(p.shape[1]), p.sum(axis=0) * (1 + math.log(count / miss))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        few = (sure * np.exp(-middle / p)).sum(axis=0) <= miss
        low, high = np.where(few, low, middle), np.where(few, middle, high)
    found: FloatArray = high
    return found
