"""Amplification by sampling: the operator C_p, and Poisson sampling with its two directions.

Replace-one neighbours and a uniform sample of a share p: M o Sample is C_p(f)-DP with f_p = p f + (1 - p) Id and
C_p(f) = min{f_p, f_p^-1}** (Dong, Roth, Su 2022, Thm 4.2). For symmetric f with fixed point x* = f(x*) it is f_p up to
x*, its inverse from f_p(x*) on, and the chord of slope -1 between.

Add/remove neighbours and Poisson sampling at rate q: the pair is ((1 - q) Q + q P, Q) when a unit is removed and
(P, (1 - q) P + q Q) when one is added. Compose the two directions apart and take the worse at the end.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from neartwin.balls import Certified, Exact, Numeric, ball, elementwise, every
from neartwin.balls import read as exact
from neartwin.checks import probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, rational
from neartwin.tradeoff.functions import TradeOff
from neartwin.tradeoff.operations import Inverse, symmetrised
from neartwin.tradeoff.twofold import UNIT, Argument, certified, clipped, ends, levels, read

if TYPE_CHECKING:
    from flint import arb

_FAR = 700.0  # of epsilon: beyond it e^epsilon may be no number


@dataclass(frozen=True, slots=True)
class Mixture:
    """f_p = p f + (1 - p) Id = T(P, p Q + (1 - p) P): the alternative is diluted with the null."""

    of: TradeOff
    rate: Fraction

    @property
    def symmetric(self) -> bool:
        """Only at the ends of p."""
        return self.rate == 0 or (self.rate == 1 and self.of.symmetric)

    def inverse(self) -> TradeOff:
        """T(p Q + (1 - p) P, P): the null is diluted."""
        return DilutedNull(self)

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The mixture p f(a) + (1 - p)(1 - a)."""
        _, rest = levels(alpha=alpha)
        lower, upper = ends(self.of.beta(alpha))
        p, idle = float(self.rate), float(1 - self.rate) * rest
        return clipped((p * lower + idle) * (1 - 4 * UNIT), (p * upper + idle) * (1 + 4 * UNIT), "mixture")

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """The mixture of p times the power + (1 - p) a."""
        level, _ = levels(alpha=alpha)
        lower, upper = ends(self.of.power(alpha))
        p, idle = float(self.rate), float(1 - self.rate) * level
        return clipped((p * lower + idle) * (1 - 4 * UNIT), (p * upper + idle) * (1 + 4 * UNIT), "mixture")

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """With e^e' = 1 + (e^epsilon - 1)/p: p times delta at e'; 1 - e^epsilon where that is not positive."""
        high, low = read(epsilon=epsilon)
        p = float(self.rate)
        if p == 0:
            value = -np.expm1(np.minimum(high, 0.0))
            return clipped(value * (1 - 4 * UNIT), value * (1 + 4 * UNIT), "mixture")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            excess = np.where(high < 600, np.expm1(high) / p, np.inf)
            inner = np.where(excess > -1, np.log1p(np.maximum(excess, -1.0)), -np.inf)
            inner = np.where(np.isposinf(inner), high - np.log(p), inner)
            # rounding of e': through 1 + excess, which may nearly vanish, and the dropped low part
            shrunk = np.maximum(1 + np.where(np.isfinite(excess), excess, 1.0), 1e-300)
            spread = 8 * UNIT * (1 + np.abs(inner) + np.minimum(np.abs(excess), 1e300) / shrunk) + np.abs(low) / shrunk
        within = np.isfinite(inner) & np.isfinite(spread)
        centre, spread = np.where(within, inner, 0.0), np.where(within, spread, 0.0)
        lower = ends(self.of.delta(centre + spread))[0] * p * (1 - 4 * UNIT)
        upper = ends(self.of.delta(centre - spread))[1] * p * (1 + 4 * UNIT)
        trivial = np.maximum(0.0, -np.expm1(high))
        lower = np.where(within, lower, trivial * (1 - 8 * UNIT))
        upper = np.where(within, upper, trivial * (1 + 8 * UNIT))
        return clipped(lower, upper, "mixture")


@dataclass(frozen=True, slots=True)
class DilutedNull:
    """The inverse of a mixture, T(p Q + (1 - p) P, P), with delta in closed form."""

    of: Mixture

    @property
    def symmetric(self) -> bool:
        """As the mixture."""
        return self.of.symmetric

    def inverse(self) -> TradeOff:
        """The mixture."""
        return self.of

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """By bisection of the mixture."""
        return Inverse(self.of).beta(alpha)

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """1 - beta."""
        return Inverse(self.of).power(alpha)

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """With c = 1 - (1 - p) e^epsilon: c times the inner inverse's delta at epsilon + ln(p/c); 0 where c <= 0."""
        high, low = read(epsilon=epsilon)
        p = float(self.of.rate)
        inner = self.of.of.inverse()
        if p == 0:
            return self.of.delta(epsilon)
        rest = -float(np.log1p(-p)) if p < 1 else np.inf  # c is positive below this epsilon
        gap = np.minimum(high - rest, 0.0) if np.isfinite(rest) else np.where(True, -np.inf, high)
        c = -np.expm1(gap + np.where(gap < 0, low, 0.0))
        # c may be tiny: its absolute error is that of its exponent
        room = 4 * UNIT * (1 + np.abs(high) + (rest if np.isfinite(rest) else 0.0))
        c_low, c_high = np.maximum(c - room, 0.0), np.minimum(c + room, 1.0)
        ends_of = []
        for factor, side in ((c_low, 0), (c_high, 1)):
            with np.errstate(divide="ignore"):
                shift = np.where(factor > 0, np.log(p) - np.log(np.maximum(factor, 1e-300)), 0.0)
            moved = high + shift
            step = 8 * UNIT * (1 + np.abs(moved)) * (1 if side == 0 else -1)
            ends_of.append(np.where(factor > 0, factor * ends(inner.delta(moved + step))[side], 0.0))
        return clipped(ends_of[0] * (1 - 4 * UNIT), ends_of[1] * (1 + 4 * UNIT) + 1e-322, "diluted null")


def poisson(curve: TradeOff, rate: Number) -> Mixture:
    """Poisson sampling, one direction: T(P, (1 - q) P + q Q) for the inner T(P, Q); its `inverse()` is the other.

    `delta` of the result speaks for the mixture exceeding the plain law (a unit removed); `inverse().delta` for the
    plain law exceeding the mixture (a unit added).

    >>> from neartwin.tradeoff.families import gaussian
    >>> round(poisson(gaussian(1), "0.1").delta("0.5").upper, 16)
    0.0020325369203404
    """
    return Mixture(curve, probability(rate=rational(rate=rate)))


@dataclass(frozen=True, slots=True)
class Subsampled:
    """C_p(f) of a symmetric curve f."""

    of: TradeOff
    rate: Fraction

    @property
    def symmetric(self) -> bool:
        """By construction."""
        return True

    def inverse(self) -> "Subsampled":
        """Itself."""
        return self

    def fixed_point(self) -> Interval[float]:
        """x* = f(x*), where the line of slope -1 touches a symmetric curve: a bracket by two bisections."""
        found = []
        for side in (0, 1):  # f certainly above the diagonal at the lower end, certainly not at the upper
            low, high = 0.0, 0.5
            while high - low > UNIT * high:
                middle = 0.5 * (low + high)
                if middle in (low, high):
                    break
                value = ends(self.of.beta(np.array(middle)))[side]
                low, high = (middle, high) if value > middle else (low, middle)
            found.append((low, high)[side])
        return Interval(found[0], found[1], "bisection")

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The three pieces; where rounding leaves the piece open, the bracket holds both."""
        level, rest = levels(alpha=alpha)
        mixed = Mixture(self.of, self.rate)
        touch = self.fixed_point()
        start, stop = touch.lower, float(ends(mixed.beta(np.array(touch.lower)))[1])
        chord = ends(self.delta(np.array(0.0)))
        direct = ends(mixed.beta(alpha))
        turned = ends(Inverse(mixed).beta(alpha))
        low, high = level <= start, level >= stop
        lower = np.where(low, direct[0], np.where(high, turned[0], rest - chord[1] - 4 * UNIT))
        upper = np.where(low, direct[1], np.where(high, turned[1], np.minimum(rest - chord[0] + 4 * UNIT, direct[1])))
        return clipped(lower, np.maximum(lower, upper), "C_p in three pieces")

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """1 - beta; the mixture's own power on the first piece."""
        level, _ = levels(alpha=alpha)
        mixed = ends(Mixture(self.of, self.rate).power(alpha))
        beta = ends(self.beta(alpha))
        low = level <= self.fixed_point().lower
        return clipped(
            np.where(low, mixed[0], 1 - beta[1] - UNIT),
            np.where(low, mixed[1], 1 - beta[0] + UNIT),
            "C_p in three pieces",
        )

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """With e^e' = 1 + (e^epsilon - 1)/p: p times delta at e', for epsilon >= 0; below zero by symmetry."""
        high, low = read(epsilon=epsilon)
        mixed = Mixture(self.of, self.rate)
        lower, upper = ends(mixed.delta(np.abs(high)))
        down = np.minimum(high, 0.0)
        spread = 4 * UNIT + np.abs(low)
        whole = [-np.expm1(down) + np.exp(down) * end for end in (lower, upper)]
        return certified(
            np.where(high < 0, np.clip(whole[0] - spread, 0, 1), lower),
            np.where(high < 0, np.clip(whole[1] + spread, 0, 1), upper),
            "C_p",
        )


def subsampled(curve: TradeOff, p: Number) -> TradeOff:
    """C_p(f): a uniform sample of the share p, drawn without replacement, replace-one neighbours.

    An asymmetric f is symmetrised first: f-DP is f^S-DP.

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> round(subsampled(epsilon_delta(1, "0.01"), "0.2").beta("0.3").lower, 12)
    0.606500802863
    """
    share = probability(p=rational(p=p))
    whole = symmetrised(curve)
    return whole if share == 1 else Subsampled(whole, share)


def amplified_epsilon(epsilon: Numeric, rate: Numeric) -> Certified:
    """ln(1 + q (e^epsilon - 1)): pure DP after sampling each unit with probability q (Balle, Barthe, Gaboardi 2018).

    epsilon >= 0 and rate in [0, 1], broadcast.

    >>> e = amplified_epsilon(1, "0.01")
    >>> bool(e.lower <= 0.017036863236176550 <= e.upper)
    True
    """
    e, q = exact(epsilon=epsilon), exact(rate=rate)
    if not every(lambda x: x >= 0, e):
        raise ParameterError("epsilon", epsilon, "must not be negative")
    if not every(lambda x: 0 <= x <= 1, q):
        raise ParameterError("rate", rate, "must lie in [0, 1]")
    return elementwise(_amplified, e, q, method="amplification by subsampling", least=0)


def _amplified(epsilon: Exact, rate: Exact) -> "arb | Exact":
    if epsilon == 0 or rate == 0:
        return 0
    if epsilon < _FAR:
        return (ball(rate) * ball(epsilon).expm1()).log1p()
    return (
        epsilon
        if epsilon == math.inf
        else ball(epsilon) + (ball(rate) + (1 - ball(rate)) * (-ball(epsilon)).exp()).log()
    )
