"""Amplification: by a sample that nobody knows, and by shuffling reports.

Replace-one neighbours and a uniform sample of a share p: M o Sample is C_p(f)-DP with f_p = p f + (1 - p) Id and
C_p(f) = min{f_p, f_p^-1}** (Dong, Roth, Su 2022, Thm 4.2). For symmetric f with fixed point x* = f(x*) it is f_p up to
x*, its inverse from f_p(x*) on, and the chord of slope -1 between.

Add/remove neighbours and Poisson sampling at rate q: the pair is ((1 - q) Q + q P, Q) when a unit is removed and
(P, (1 - q) P + q Q) when one is added. Compose the two directions apart and take the worse at the end.

Shuffling takes n reports, each epsilon_0-DP on its own, in an order that nobody knows. Feldman, McMillan, Talwar
2021: the outputs on neighbours are no easier to tell apart than the pair (A + D, C - A + 1 - D) and (A + 1 - D, C - A
+ D), with C ~ Bin(n - 1, e^-eps0), A ~ Bin(C, 1/2) and D ~ Bernoulli(e^eps0/(e^eps0 + 1)). Replace-one neighbours. A
closed form, and the pair's delta itself.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from flint import arb

from neartwin import domains, special
from neartwin.balls import Exact, ball, bounds, each, elementwise, hull, root
from neartwin.checks import integer, positive, probability
from neartwin.exact import FloatArray, Interval, Number, float_above, float_below, rational
from neartwin.tradeoff import functions
from neartwin.tradeoff.functions import UNIT, Argument, SymmetricCurve, TradeOff, clipped, levels
from neartwin.tradeoff.operations import Inverse, symmetrised

_FAR = 700.0  # an epsilon at which no float of delta is left


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
        level = levels(alpha=alpha)
        return functions.mapped(
            lambda end, a: self._mixed(end, 1 - Fraction(a)), self.of.beta(alpha), level, method="mixture"
        )

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """The mixture of p times the power + (1 - p) a."""
        return functions.mapped(self._mixed, self.of.power(alpha), levels(alpha=alpha), method="mixture")

    def _mixed(self, end: float, idle: Exact) -> Fraction:
        return self.rate * Fraction(end) + (1 - self.rate) * Fraction(idle)

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """With e^e' = 1 + (e^epsilon - 1)/p: p times delta at e'; 1 - e^epsilon where that is not positive."""
        wanted = functions.finite(epsilon=epsilon)
        if self.rate == 0:
            return functions.closed_form(lambda e: -ball(min(e, 0)).expm1(), wanted, method="mixture")
        moved = functions.ends(each(partial(bounds, self._moved), wanted, method="mixture"))
        lower, upper = functions.ends(self.of.delta(moved[1]))[0], functions.ends(self.of.delta(moved[0]))[1]

        def value(end: float, exponent: Exact) -> arb:
            return (ball(self.rate) * ball(end)).max(-ball(exponent).expm1())

        return functions.mapped(value, functions.certified(lower, upper, "mixture"), wanted, method="mixture")

    def _moved(self, epsilon: Exact) -> arb | int:
        growth = 1 + ball(epsilon).expm1() / ball(self.rate)
        # where growth is not positive 1 - e^epsilon is at least p, and any e' will do; where it is tiny, e' < -80
        return growth.log() if growth > 0 else -80


@dataclass(frozen=True, slots=True)
class DilutedNull(Inverse):
    """The inverse of a mixture, T(p Q + (1 - p) P, P), with delta in closed form."""

    of: Mixture

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """With c = 1 - (1 - p) e^epsilon: c times the inner inverse's delta at epsilon + ln(p/c); 0 where c <= 0."""
        if self.of.rate == 0:
            return self.of.delta(epsilon)
        wanted, inner = functions.finite(epsilon=epsilon), self.of.of.inverse()
        moved = functions.ends(each(self._moved, wanted, method="diluted null"))
        lower, upper = functions.ends(inner.delta(moved[1]))[0], functions.ends(inner.delta(moved[0]))[1]

        def value(end: float, exponent: Exact) -> arb:
            return self._kept(exponent).max(ball(0)) * end

        return functions.mapped(value, functions.certified(lower, upper, "diluted null"), wanted, method="diluted null")

    def _kept(self, epsilon: Exact) -> arb:
        return 1 - ball(1 - self.of.rate) * ball(epsilon).exp()

    def _moved(self, epsilon: Exact) -> tuple[float, float]:
        """Bounds on epsilon + ln(p/c); any where c is not positive, for delta is then 0."""
        low, high = bounds(self._kept, epsilon)
        if low > 0:
            return bounds(lambda: ball(epsilon) + (ball(self.of.rate) / self._kept(epsilon)).log())
        return (0.0, 0.0) if high <= 0 else (0.0, _FAR)


def poisson(curve: TradeOff, rate: Number) -> Mixture:
    """Poisson sampling, one direction: T(P, (1 - q) P + q Q) for the inner T(P, Q); its `inverse()` is the other.

    `delta` of the result is that of a removed unit: the mixture exceeds the plain law. `inverse().delta` is that of an
    added one.

    Args:
        curve: The inner curve.
        rate: q, the sampling probability.

    Returns:
        The curve of one direction.

    >>> from neartwin.tradeoff.families import gaussian
    >>> round(poisson(gaussian(1), "0.1").delta("0.5").upper, 16)
    0.0020325369203404
    """
    return Mixture(curve, probability(rate=rational(rate=rate)))


@dataclass(frozen=True, slots=True)
class Subsampled(SymmetricCurve):
    """C_p(f) of a symmetric curve f."""

    of: TradeOff
    rate: Fraction

    def fixed_point(self) -> Interval[float]:
        """x* = f(x*), where the line of slope -1 touches a symmetric curve: a bracket with proved signs."""
        return _fixed_point(self.of)  # type: ignore[arg-type]  # every curve is a frozen value

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The three pieces; where rounding leaves the piece open, the bracket holds both."""
        exact = levels(alpha=alpha)
        level, rest = functions.as_floats(exact), functions.as_floats(functions.complement(exact))
        mixed = Mixture(self.of, self.rate)
        touch = self.fixed_point()
        start, stop = touch.lower, float(functions.ends(mixed.beta(np.array(touch.lower)))[1])
        chord = functions.ends(self.delta(np.array(0.0)))
        direct = functions.ends(mixed.beta(alpha))
        low, high = level <= start, level >= stop
        turned = functions.ends(Inverse(mixed).beta(np.where(high, level, 1.0)))
        lower = np.where(low, direct[0], np.where(high, turned[0], rest - chord[1] - 4 * UNIT))
        upper = np.where(low, direct[1], np.where(high, turned[1], np.minimum(rest - chord[0] + 4 * UNIT, direct[1])))
        return clipped(lower, np.maximum(lower, upper), "C_p in three pieces")

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """1 - beta; the mixture's own power on the first piece."""
        level = functions.as_floats(levels(alpha=alpha))
        mixed = functions.ends(Mixture(self.of, self.rate).power(alpha))
        beta = functions.ends(self.beta(alpha))
        low = level <= self.fixed_point().lower
        return clipped(
            np.where(low, mixed[0], 1 - beta[1] - UNIT),
            np.where(low, mixed[1], 1 - beta[0] + UNIT),
            "C_p in three pieces",
        )

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """With e^e' = 1 + (e^epsilon - 1)/p: p times delta at e', for epsilon >= 0; below zero by symmetry."""
        wanted = functions.finite(epsilon=epsilon)
        above = Mixture(self.of, self.rate).delta(np.frompyfunc(lambda e: abs(Fraction(e)), 1, 1)(wanted))

        def value(end: float, exponent: Exact) -> arb | float:
            return end if exponent >= 0 else ball(exponent).exp() * end - ball(exponent).expm1()

        return functions.mapped(value, above, wanted, method="C_p")


@lru_cache(maxsize=64)
def _fixed_point(curve: TradeOff) -> Interval[float]:
    def above(x: float) -> arb:
        """The curve less the diagonal, which falls."""
        low, high = functions.ends(curve.beta(np.array(x)))
        return hull(float(low), float(high)) - ball(x)

    return Interval(*root(above, 0.0, 1.0), "signs of f(x) - x")


def subsampled(curve: TradeOff, p: Number) -> TradeOff:
    """C_p(f): a uniform sample of the share p, drawn without replacement, under replace-one.

    An asymmetric f is symmetrised first: f-DP is f^S-DP.

    Args:
        curve: f.
        p: The share of the sample.

    Returns:
        The curve.

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> round(subsampled(epsilon_delta(1, "0.01"), "0.2").beta("0.3").lower, 12)
    0.606500802863
    """
    share = probability(p=rational(p=p))
    whole = symmetrised(curve)
    return whole if share == 1 else Subsampled(whole, share)


def amplified_epsilon(epsilon: Argument, rate: Argument) -> Interval[FloatArray]:
    """Pure DP after a secret random sample: ln(1 + q (e^epsilon - 1)).

    Poisson sampling goes with add/remove neighbours, sampling without replacement with replace-one. Neither is valid for
    shuffled fixed batches (Lebeda et al. 2024).

    Args:
        epsilon: before sampling, at least 0; broadcast with rate.
        rate: q in [0, 1], the probability of each unit to be sampled, or the fraction sampled without replacement.

    Returns:
        Epsilon after sampling, of the broadcast shape; `upper` is the safe side.

    Raises:
        ParameterError: if a parameter lies outside its range.

    Source: Balle, Barthe, Gaboardi 2018, Thms 8 and 9.

    >>> e = amplified_epsilon(1, "0.01")
    >>> bool(e.lower <= 0.017036863236176550 <= e.upper)
    True
    """
    size, share = domains.FINITE_NOT_NEGATIVE(epsilon=epsilon), levels(rate=rate)
    method = "amplification by subsampling"
    return elementwise(lambda e, q: (ball(q) * ball(e).expm1()).log1p(), size, share, method=method, least=0.0)


def _binomial_tail(least: FloatArray, count: FloatArray) -> FloatArray:
    """Pr[Bin(count, 1/2) >= least], vectorised, ends included."""
    inner = np.clip(least, 1.0, np.maximum(count, 1.0))
    value = special.betainc(inner, np.maximum(count - inner + 1, 0.5), 0.5)
    return np.where(least <= 0, 1.0, np.where(least > count, 0.0, value))


def _counts(e0: float, n: int) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """What C ~ Bin(n - 1, e^-e0) may be, the masses, their relative errors, and a bound on what is left out.

    Masses are products of their ratios, outwards from the greatest. Beyond 39 deviations (Bernstein) the rest is left out.
    """
    rate, log_rest = math.exp(-e0), math.log(-math.expm1(-e0))
    mean, variance = (n - 1) * rate, -(n - 1) * rate * math.expm1(-e0)
    reach = 39 * (math.sqrt(variance) + 1)
    low, high = max(0, math.floor(mean - reach)), min(n - 1, math.ceil(mean + reach))
    count = np.arange(low, high + 1, dtype=np.float64)
    steps = np.log((n - count[1:]) / count[1:]) - (e0 + log_rest)
    top = int(np.searchsorted(-steps, 0.0))
    logs = np.concatenate([-np.cumsum(steps[:top][::-1])[::-1], [0.0], np.cumsum(steps[top:])])
    wrong = 4 * UNIT * np.abs(np.arange(len(count)) - top) * (2 * np.abs(logs) + 2 * abs(log_rest) + 2 * e0 + 4)
    mass = np.exp(logs)
    return count, mass / mass.sum(), wrong, 2 * math.exp(-(reach**2) / (2 * variance + reach)) * (high - low < n - 1)


def _delta_at(gap: float, epsilon: float, e0: float, n: int) -> tuple[float, float]:
    """The delta and a bound on its error: rounding, and the binomial's tails that are left out.

    gap: e0 - epsilon, above 0. No difference below is of two numbers that are nearly equal, but for won - paid.
    """
    count, mass, wrong, omitted = _counts(e0, n)
    truth = 1 / (1 + math.exp(-e0))
    # t - e^epsilon l and t - e^-epsilon l; a report in favour wins the first, and one against it loses e^epsilon the second
    win, loss = -truth * math.expm1(-gap), -truth * math.expm1(-(e0 + epsilon))
    # the ratio (t a + l (c + 1 - a))/(l a + t (c + 1 - a)) rises with the count a of the first report's side
    cut = np.ceil((count + 1) / (1 + win / loss * math.exp(-epsilon)))
    above, at = _binomial_tail(cut - 1, count), _binomial_tail(cut, count)
    # where e^epsilon is above the greatest count, nothing is lost
    won, paid = win * above, math.exp(min(epsilon, _FAR)) * loss * at
    gain = np.maximum(won - paid, 0.0)
    # betainc errs by less than half of this at counts up to 1e8, in balls
    tails = 2e-12 + 1e-14 * np.sqrt(count)
    value = float(mass @ gain)
    error = float(mass @ (gain * (wrong + float(mass @ wrong)) + (won + paid) * tails))
    return value, 1.01 * error + value * (len(count) + 20) * UNIT + omitted * win + 1e-300


def shuffle_delta(local_epsilon: Number, n: int, epsilon: Argument) -> Interval[FloatArray]:
    """delta(epsilon) of the dominating pair of shuffling; `upper` is the safe side.

    The relative width stays below 1e-8 unless delta is tiny.

    Args:
        local_epsilon: The privacy of each report.
        n: The number of people.
        epsilon: At least 0, any shape.

    Returns:
        An interval of the shape of epsilon.

    >>> bool(shuffle_delta(1, 10_000, "0.214").upper < 1e-6)
    True
    """
    exact = positive(local_epsilon=rational(local_epsilon=local_epsilon))
    people = integer(at_least=1, n=n)
    # beyond there delta is below 1e-300, or that of one report alone
    near = min(max(float_below(exact), 1e-300), 1e300)

    def ends(e: Exact) -> tuple[float, float]:
        gap = float_above(min(exact - Fraction(e), Fraction(1000)))
        value, error = _delta_at(gap, min(float_below(Fraction(e)), near), near, people) if gap > 0 else (0.0, 0.0)
        return value - error, value + error

    wanted = domains.FINITE_NOT_NEGATIVE(epsilon=epsilon)
    return each(ends, wanted, method="dominating pair", least=0.0, most=1.0)
