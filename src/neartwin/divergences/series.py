"""Functions that vanish to second order at 0, without the cancellation their formulas suffer there.

`exp_excess(x)` = e^x - 1 - x, `kl_excess(x)` = x - 1 + e^-x, `log_excess(x)` = x - ln(1 + x),
`log_sinhc(x)` = ln(sinh(x) / x), `gaussian_mills(x)` = Phi(x) / phi(x) for x <= 0.
Near 0 a Taylor polynomial in enclosure arithmetic with its remainder bounded; elsewhere the formula.
"""

import math
from collections.abc import Callable

import numpy as np

from neartwin.divergences.enclosure import (
    ULPS,
    Enclosure,
    exp,
    expm1,
    increasing,
    log,
    log1p,
    square,
    where,
    widened,
)
from neartwin.exact import FloatArray
from neartwin.special import erfcx

_NEAR = 0.5
_TERMS = 18  # 0.5^18 / 20! < 1e-23: far below one unit in the last place of the leading 1/2


def _exp_excess_at(x: FloatArray) -> Enclosure:
    near = np.clip(x, -_NEAR, _NEAR)
    total = np.full(np.shape(x), 1 / math.factorial(_TERMS + 2))
    for power in range(_TERMS + 1, 1, -1):
        total = total * near + 1 / math.factorial(power)
    # Horner errs by at most u sum_k (2k+2) |x|^k / (k+2)! < 1.5 u, for a value of at least 0.42: under 4 u; the tail
    # is below u/100; the square and the product add 2 u. Six ulps are 12 u.
    close = widened(near * near * total, 6)
    with np.errstate(over="ignore", invalid="ignore"):
        point = Enclosure.of(x)
        far = (expm1(point) - point).at_least(0)
    return where(np.abs(x) <= _NEAR, close, far)


def _valley(function_at: Callable[[FloatArray], Enclosure], x: Enclosure) -> Enclosure:
    """A function that falls to 0 at 0 and rises after, from its enclosures at points."""
    if x.lower is x.upper:
        value = function_at(x.lower)
        return Enclosure(np.maximum(value.lower, 0), np.where(x.lower == 0, 0.0, value.upper))
    left, right = function_at(x.lower), function_at(x.upper)
    inside = (x.lower <= 0) & (x.upper >= 0)
    low = np.where(inside, 0.0, np.minimum(left.lower, right.lower))
    high = np.maximum(left.upper, right.upper)
    return Enclosure(np.maximum(low, 0), np.where((x.lower == 0) & (x.upper == 0), 0.0, high))


def exp_excess(x: Enclosure) -> Enclosure:
    """e^x - 1 - x, at least 0.

    >>> float(exp_excess(Enclosure.of(1e-9)).upper)
    5.00000000...e-19
    """
    return _valley(_exp_excess_at, x)


def kl_excess(loss: Enclosure) -> Enclosure:
    """The value l - 1 + e^-l, at least 0: what an atom of privacy loss l adds to KL."""
    return exp_excess(-loss)


def _log_excess_at(x: FloatArray) -> Enclosure:
    # with t = x / (2 + x): x = 2t / (1 - t), ln(1 + x) = 2 atanh t, so the difference is
    # 2 t^2 [1 / (1 - t) - t (1/3 + t^2/5 + ...)]; |x| <= 1/4 gives |t| <= 1/7 and a tail below 1e-20
    near = np.clip(x, -0.25, 0.25)
    t = near / (near + 2.0)
    t2 = t * t
    total = np.zeros(np.shape(x))
    for power in range(25, 1, -2):
        total = total * t2 + 1 / power
    # t errs by 2 u, t^2 by 5 u, the bracket by 4 u, the products by 2 u: 11 u, and eight ulps are 16 u
    close = widened(2.0 * t2 * (1 / (1 - t) - t * total), 8)
    with np.errstate(invalid="ignore"):
        point = Enclosure.of(np.maximum(x, -1))
        far = point - log1p(point)
    far = where(x <= -1, np.inf, far)
    return where(np.abs(x) <= 0.25, close, far).at_least(0)


def log_excess(x: Enclosure) -> Enclosure:
    """The value x - ln(1 + x) for x >= -1, at least 0; infinite at -1."""
    return _valley(_log_excess_at, x)


def _log_sinhc_at(x: FloatArray) -> Enclosure:
    y = np.minimum(x, 1.0) ** 2
    total = np.zeros(np.shape(x))
    for k in range(12, 0, -1):
        total = (total + 1 / math.factorial(2 * k + 1)) * y  # sinh(x)/x - 1 = sum_{k>=1} x^(2k) / (2k+1)!
    # all terms positive: each level adds 3 u to what the next divides by at least 20; under 6 u in all
    near = log1p(widened(total, 4))
    far = Enclosure.of(np.maximum(x, 1.0))
    long = far - log(2.0 * far) + log1p(-exp(-2.0 * far))
    return where(x <= 1.0, near, long).at_least(0)


def log_sinhc(x: Enclosure) -> Enclosure:
    """ln(sinh(x) / x) for x >= 0; 0 at 0."""
    return increasing(_log_sinhc_at, x.at_least(0))


def gaussian_mills(x: Enclosure) -> Enclosure:
    """Phi(x) / phi(x) for x <= 0, increasing."""
    scale = widened(np.asarray(math.sqrt(math.pi / 2)), 2)
    root = widened(np.asarray(math.sqrt(0.5)), 1)
    y = -x.at_most(0) * root
    value = Enclosure(
        widened(erfcx(np.maximum(y.upper, 0)), ULPS["erfcx"]).lower,
        widened(erfcx(np.maximum(y.lower, 0)), ULPS["erfcx"]).upper,
    )
    return (scale * value).at_least(0)


def normal_density(x: Enclosure) -> Enclosure:
    """phi(x) = e^(-x^2/2) / sqrt(2 pi)."""
    scale = widened(np.asarray(1 / math.sqrt(2 * math.pi)), 2)
    return scale * exp(-0.5 * square(x))


def tanh_half(x: Enclosure) -> Enclosure:
    """tanh(x/2) for x >= 0."""
    return increasing(_tanh_half_at, x.at_least(0)).at_most(1)


def _tanh_half_at(x: FloatArray) -> Enclosure:
    share = -expm1(-Enclosure.of(x))
    return share / (2.0 - share)
