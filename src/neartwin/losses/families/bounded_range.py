"""Bounded range, the guarantee of the exponential mechanism: sup L - inf L <= e for each pair of neighbours.

Two-point pairs with losses t and t - e, 0 <= t <= e, are the extreme ones (Dong, Durfee, Rogers 2020). The supremum of
their profiles on [-e, e] is

    delta(eps) = (1 - e^{(eps-e)/2})^2 / (1 - e^{-e}).

It is itself the profile of a pair: P has density e^{(l-e)/2} / (2(1 - e^{-e})) of the loss l on (-e, e). That pair
dominates every e-bounded-range mechanism, so its composition is an upper bound, adaptive choice included. With w = (s +
1/2)e,

    M(s) = [sinh(w)/w] / [sinh(e/2)/(e/2)].

Adaptive uses of one range alone have an optimum, delta_n(eps) = max over t of E_P delta_{n-1}(eps - L), L of the two-point
pair of t. `optimum` bounds it on lattices of eps (M15, M16), for up to some hundred uses: docs/proofs/mechanisms.md.

For many uses the Renyi curve is the better bound. At order a the supremum over t of the two-point pair is attained at
e^t = (a-1)(1 - e^{-ae}) / (a(e^{-e} - e^{-ae})), where E_P e^{(a-1)L} = (1 - e^{-ae}) e^{(a-1)t} / (a(1 - e^{-e})).
From below, t = e/2 is randomized response of e/2, one mechanism of the class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from neartwin.checks import in_floats
from neartwin.exact import FloatArray, Number, float_above, float_below, rational
from neartwin.losses.composition import PureLoss
from neartwin.losses.families.randomized_response import three_losses
from neartwin.losses.summands.atoms import AtomicSum
from neartwin.losses.summands.base import Direction, Lattice, MaximumLoss, Pair, RenyiCurve, Summand
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


WORK, FEWEST, MOST = 1 << 22, 8, 512  # products for one optimum; steps of a range, at least and at most
WIDEST, DEEPEST = 50.0, -40.0  # the widest range; an eps below which delta is 1 - e^eps to 1e-17


def by_choice(delta: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """E_P delta(eps - L) for each eps and t; delta at eps - t; and delta at eps - t + e (M15).

    Args:
        delta: At multiples of the step, from the range e below the first eps to e above the last.
        t: Multiples of the step from 0 to e.
    """
    turned = sliding_window_view(delta, len(t))[:, ::-1]
    high, low = turned[: 1 - len(t)], turned[len(t) - 1 :]
    share = np.expm1(t - t[-1]) / math.expm1(-t[-1])
    return share * high + (1 - share) * low, high, low


@lru_cache(maxsize=8)  # both ends of an interval ask for it
def optimum(e: Fraction, count: int) -> tuple[tuple[float, int, FloatArray], ...] | None:
    """Bounds from below of all uses but one, and from above of all; None where they cost too much or are too coarse.

    Args:
        e: The range.
        count: Adaptive uses.

    Returns:
        For each of the two a step, its first multiple, and the bounds on delta at that and further ones.
    """
    size = float(e)
    rho = count * size * size / 8
    start, last = max(-count * size, DEEPEST), min(count * size, rho + 2 * math.sqrt(70 * rho))
    m = min(math.isqrt(int(WORK / (count * ((last - start) / size + 1)))), MOST)
    if m < FEWEST or size > WIDEST:
        return None
    steps, first = (float_below(e / m), float_above(e / m)), math.floor(m * start / size) - m
    places = np.arange(first, math.ceil(m * last / size) + m + 1)
    lower, upper = (-np.expm1(np.minimum(places * step, 0.0)) for step in steps)
    low_t, t = (np.arange(m + 1.0) * step for step in steps)
    z = np.exp(t)
    for _ in range(count):
        before = lower.copy()
        lower[m:-m] = by_choice(lower, low_t)[0].max(axis=1)
        mean, *both = by_choice(upper, t)
        # between two t the mean is at most the greater one and its bend there (M16)
        high, low = (part[:, :-1] * z[:-1] - np.diff(part * z) / np.diff(z) * z[:-1] for part in both)
        bend = np.maximum(low * math.exp(-t[-1]) - high, 0.0) / -math.expm1(-t[-1])
        most = np.maximum(mean[:, 1:], mean[:, :-1]) + 1.01 * bend * np.square(np.diff(z) / z[:-1]) / (4 * z[:-1])
        upper[m:-m] = np.minimum(most.max(axis=1), 1.0)
        upper[:m], upper[-m:] = 1.0, upper[-m - 1]
    slack = 4096 * U * (count + 2)  # sums of products of positive numbers
    return (steps[0], first, before * (1 - slack)), (steps[1], first, upper * (1 + slack))


def optimal_delta(e: Fraction, count: int, eps: FloatArray, *, above: bool) -> tuple[FloatArray, FloatArray] | None:
    """One side of the optimum at each eps, as both ends.

    Args:
        e: The range.
        count: Adaptive uses.
        eps: Finite, (n,).
        above: Whether it bounds from above.
    """
    known = optimum(e, count)
    if known is None:
        return None
    step, first, delta = known[above]
    away = 8 * U * (np.abs(eps) - first * step)
    if above:  # it is convex in e^eps
        places = np.clip((eps - away) / step - first, 0, len(delta) - 1)
        j = np.minimum(places.astype(int), len(delta) - 2)
        share = np.expm1((places - j) * step) / math.expm1(step)
        bound = np.minimum((1 - share) * delta[j] + share * delta[j + 1], 1.0)
    else:  # the first use leaves a multiple of the step
        m, places = round(float(e) / step), (eps + away) / step - first
        j = np.clip(places.astype(int), m, len(delta) - m - 1)[:, None] - np.arange(m)
        t = np.clip((places[:, None] - j) * step, 0.0, m * step)
        share = np.expm1(t - m * step) / math.expm1(-m * step)
        found = (share * delta[j] + (1 - share) * delta[j + m]).max(axis=1)
        bound = np.where(abs(places - j[:, 0]) <= 1, found, -np.expm1(np.minimum(eps, 0.0)) * (1 - 64 * U))
    return bound, bound


class BoundedRangeSum(Summand):
    """`count` copies of the dominating pair, or as many adaptive uses."""

    def __init__(self, e: Fraction, count: int) -> None:
        """e: the range."""
        self.range, self.e, self.count = e, float(e), count
        self.top = MaximumLoss(count * self.e * (1 + 8 * U), 0.0, count * self.e * (1 - 8 * U))
        self._zero = log_sinhc(np.array([self.e / 2]), np.zeros(1))

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """From log(sinh w / w): e(coth w - 1/w), e^2(1/w^2 - 1/sinh^2 w)."""
        w = (tilt + 0.5) * self.e
        value, _ = self.log_mgf(tilt)
        if w < 1e-2:
            return value, self.count * self.e * w / 3, self.count * self.e**2 / 3
        mean, variance = 1 / math.tanh(w) - 1 / w, 1 / w**2 - 1 / math.sinh(min(w, 300.0)) ** 2
        return value, self.count * self.e * mean, self.count * self.e**2 * variance

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
        w = (tilt + 0.5) * self.e
        ratio = w / math.tanh(w) / math.hypot(w, t * self.e)
        return self.count * math.log(min(ratio * (1 + 1e-13), 1.0)) * (1 - 1e-12)

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """One use: the profile itself. Several: the optimum's upper bound."""
        if self.count > 1:
            return optimal_delta(self.range, self.count, eps, above=True)
        inside = -np.expm1(np.minimum((eps - self.e) / 2, 0.0))
        value = np.where(eps < -self.e, -np.expm1(np.minimum(eps, 0.0)), inside * inside / -math.expm1(-self.e))
        shift = 4 * U * (np.abs(eps) + self.e)
        error = value * 8 * ELEMENTARY + (2 * inside + shift) * shift / -math.expm1(-self.e)
        return np.maximum(value - error, 0.0), np.minimum(value + error, 1.0)


class WorstUsesSum(AtomicSum):
    """`count` adaptive uses: alone the worst ones, beside other mechanisms copies of randomized response of e/2."""

    def __init__(self, e: Fraction, count: int) -> None:
        """e: the range."""
        self.above = BoundedRangeSum(e, count)
        masses = tuple(1 / (1 + math.exp(side * float(e) / 2)) for side in (-1, 1))
        response = three_losses(e / 2, (masses[0], 0.0, masses[1]), count, error=4 * ELEMENTARY + 2 * U * float(e))
        super().__init__(response.weighted, count, lattice=Lattice(e / 2, e))
        self.top = self.top._replace(loss=self.above.top.loss)

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """A lower bound that some uses attain."""
        above = self.above
        return optimal_delta(above.range, self.count, eps, above=False) if self.count > 1 else above.delta(eps)


@dataclass(frozen=True, slots=True)
class BoundedRangePair(Pair):
    """A pair above the class of range e, or uses of it; each its own mirror image."""

    e: Fraction
    kind: type[BoundedRangeSum | WorstUsesSum]

    def repeated(self, count: int) -> Summand:
        """The composition."""
        return self.kind(self.e, count)


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
class BoundedRange(PureLoss):
    """Any mechanism of bounded range epsilon, such as the exponential mechanism with that total guarantee.

    An interval here covers the class: no mechanism of it exceeds the upper end, one of it reaches the lower.
    Errors: `ParameterError` unless epsilon is positive. Dong, Durfee, Rogers 2020.

    >>> choice = 1 * BoundedRange(epsilon=1)
    >>> choice.pure().upper <= 1 + 1e-12
    True
    """

    epsilon: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        """epsilon: the range of the loss."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The dominating pair."""
        return BoundedRangePair(self.epsilon, BoundedRangeSum)

    def attained_pair(self, direction: Direction) -> Pair:
        """Mechanisms of the class."""
        return BoundedRangePair(self.epsilon, WorstUsesSum)

    def renyi(self, direction: Direction) -> RenyiCurve:
        """The better bound for many uses."""
        return BoundedRangeCurve(self.epsilon)
