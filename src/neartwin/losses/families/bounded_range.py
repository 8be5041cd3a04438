"""Bounded range, the guarantee of the exponential mechanism: sup L - inf L <= e for each pair of neighbours.

Two-point pairs with losses t and t - e, 0 <= t <= e, are the extreme ones (Dong, Durfee, Rogers 2020). The supremum of
their profiles on [-e, e] is

    delta(eps) = (1 - e^{(eps-e)/2})^2 / (1 - e^{-e}).

It is itself the profile of a pair: P has density e^{(l-e)/2} / (2(1 - e^{-e})) of the loss l on (-e, e). That pair
dominates every e-bounded-range mechanism, so its composition is an upper bound, adaptive choice included. With w = (s +
1/2)e,

    M(s) = [sinh(w)/w] / [sinh(e/2)/(e/2)].

For many uses the Renyi curve is the better bound. At order a the supremum over t of the two-point pair is attained at
e^t = (a-1)(1 - e^{-ae}) / (a(e^{-e} - e^{-ae})), where E_P e^{(a-1)L} = (1 - e^{-ae}) e^{(a-1)t} / (a(1 - e^{-e})).
From below, t = e/2 is randomized response of e/2, one mechanism of the class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from neartwin.checks import in_floats
from neartwin.exact import FloatArray, Number, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.families.randomized_response import ResponsePair
from neartwin.losses.summands.base import Direction, MaximumLoss, Pair, RenyiCurve, Summand
from neartwin.losses.summands.rounding import ELEMENTARY, ComplexArray, U, log_one_plus

SERIES = [
    1 / math.factorial(2 * k + 1) for k in range(12, 0, -1)
]  # sinh(w)/w - 1 = sum w^2k/(2k+1)!, |w| < 1: to 1e-25


def log_sinhc(x: FloatArray, y: FloatArray) -> tuple[ComplexArray, FloatArray]:
    """Log of sinh(w)/w for w = x + iy, and its error bound as of `log_one_plus`.

    For |w| < 1 it is the series, with a relative error of 40U of w^2/6. Else it is w + log((1 - e^{-2w})/(2w)), every
    part within ELEMENTARY and 8U|w|. |1 - e^{-2w}| may be small where the ratio vanishes. Its absolute error is 8
    ELEMENTARY.

    Args:
        x: Real parts, above 0.
        y: Imaginary parts.
    """
    w = x + 1j * y
    z = w * w
    small = np.abs(w) < 1
    inner = np.where(small, z, 0.0)
    series = np.zeros_like(inner)
    for coefficient in SERIES:
        series = (series + coefficient) * inner
    near, near_error = log_one_plus(series.real, series.imag, 40 * U * np.abs(inner))
    safe = np.where(small, 1.0, w)
    decay = np.exp(-2 * safe.real)
    ratio_x, ratio_y = -decay * np.cos(2 * safe.imag), decay * np.sin(2 * safe.imag)
    ratio_error = 8 * ELEMENTARY * decay + 16 * U * np.abs(safe) * decay + 2 * U
    far, far_error = log_one_plus(ratio_x, ratio_y, ratio_error)
    far = far + safe - np.log(2 * safe)
    far_error = far_error + 4 * ELEMENTARY + 8 * U * np.abs(safe)
    return np.where(small, near, far), np.where(small, near_error, far_error)


class BoundedRangeSum(Summand):
    """`count` copies of the dominating pair."""

    def __init__(self, e: Fraction, count: int) -> None:
        """e: the range."""
        self.e, self.count = float(e), count
        self.top = MaximumLoss(count * self.e * (1 + 8 * U), 0.0, count * self.e * (1 - 8 * U))
        self._zero = log_sinhc(np.array([self.e / 2]), np.zeros(1))

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """From log(sinh w / w): e(coth w - 1/w), e^2(1/w^2 - 1/sinh^2 w)."""
        w = (tilt + 0.5) * self.e
        value, _ = self.log_mgf(tilt)
        if w < 1e-2:
            return value, self.count * self.e * w / 3, self.count * self.e**2 / 3
        sinh = math.sinh(min(w, 300.0))
        return (
            value,
            self.count * self.e * (1 / math.tanh(w) - 1 / w),
            self.count * self.e**2 * (1 / w**2 - 1 / sinh**2),
        )

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """A difference of two logarithms."""
        here, error = log_sinhc(np.array([(tilt + 0.5) * self.e]), np.zeros(1))
        value = float(here[0].real - self._zero[0][0].real)
        slack = float(error[0] + self._zero[1][0]) + 8 * U * (abs(float(here[0].real)) + (tilt + 0.5) * self.e)
        return self.count * value, self.count * slack

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Log M(s) - log M(tilt)."""
        x = np.full(len(t), (tilt + 0.5) * self.e)
        value, error = log_sinhc(x, t * self.e)
        here, here_error = log_sinhc(x[:1], np.zeros(1))
        moved = 8 * U * (x + t * self.e)  # of w, through a logarithmic derivative coth w - 1/w of modulus below 2
        total = self.count * (value - here[0])
        return total, self.count * (error + here_error[0] + 2 * moved) + 2 * U * np.abs(total)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """|sinh(w + iy)| <= cosh w, so the ratio is at most coth(w) w / |w + iy|, falling in t."""
        del until
        w = (tilt + 0.5) * self.e
        ratio = w / math.tanh(w) / math.hypot(w, t * self.e)
        return self.count * math.log(min(ratio * (1 + 1e-13), 1.0)) * (1 - 1e-12)

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """One copy: the profile itself."""
        if self.count > 1:
            return None
        inside = -np.expm1(np.minimum((eps - self.e) / 2, 0.0))
        value = np.where(eps < -self.e, -np.expm1(np.minimum(eps, 0.0)), inside * inside / -math.expm1(-self.e))
        shift = 4 * U * (np.abs(eps) + self.e)
        error = value * 8 * ELEMENTARY + (2 * inside + shift) * shift / -math.expm1(-self.e)
        return np.maximum(value - error, 0.0), np.minimum(value + error, 1.0)


@dataclass(frozen=True, slots=True)
class BoundedRangePair(Pair):
    """The dominating pair of range e, its own mirror image."""

    e: Fraction

    def repeated(self, count: int) -> Summand:
        """The composition."""
        return BoundedRangeSum(self.e, count)


@dataclass(frozen=True, slots=True)
class BoundedRangeCurve(RenyiCurve):
    """The worst two-point pair at each order."""

    e: Fraction

    def renyi(self, order: float) -> float:
        """Log of the maximum over (order - 1), each logarithm within ELEMENTARY; at order 1 the divergence's limit."""
        e = float(self.e)
        s = order - 1
        if s < 1e-6:  # increasing in the order
            order, s = 1 + 1e-6, 1e-6
        log_a = math.log(-math.expm1(-order * e))
        t = math.log(s / order) + log_a - (-e + math.log(-math.expm1(-s * e)))
        value = log_a + s * t - math.log(order) - math.log(-math.expm1(-e))
        slack = (
            8 * ELEMENTARY * (abs(log_a) + s * (abs(t) + e + 1) + abs(math.log(order)) + abs(math.log(-math.expm1(-e))))
        )
        return min((value + slack) / s, e * (1 + 2 * U))


@dataclass(frozen=True, slots=True, init=False)
class BoundedRange(PrivacyLoss):
    """Any mechanism of bounded range epsilon, such as the exponential mechanism with that total guarantee.

    An interval here covers the class: no mechanism of it exceeds the upper end, one of it reaches the lower.
    Errors: `ParameterError` unless epsilon is positive. Dong, Durfee, Rogers 2020.

    >>> choice = 1 * BoundedRange(epsilon=1)
    >>> choice.pure().upper <= 1 + 1e-12
    True
    """

    both_ways: ClassVar[bool] = True
    epsilon: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        """epsilon: the range of the loss."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The dominating pair."""
        del direction
        return BoundedRangePair(self.epsilon)

    def attained_pair(self, direction: Direction) -> Pair:
        """One mechanism of the class."""
        del direction
        return ResponsePair(self.epsilon / 2, Fraction(0), 0)

    def renyi(self, direction: Direction) -> RenyiCurve:
        """The better bound for many uses."""
        del direction
        return BoundedRangeCurve(self.epsilon)

    def stated_pure(self) -> Fraction | None:
        """Its parameter."""
        return self.epsilon
