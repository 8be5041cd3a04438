"""Amplification by sampling: the operator C_p, and Poisson sampling with its two directions.

Replace-one neighbours and a uniform sample of a share p: M o Sample is C_p(f)-DP with f_p = p f + (1 - p) Id and
C_p(f) = min{f_p, f_p^-1}** (Dong, Roth, Su 2022, Thm 4.2). For symmetric f with fixed point x* = f(x*) it is f_p up to
x*, its inverse from f_p(x*) on, and the chord of slope -1 between.

Add/remove neighbours and Poisson sampling at rate q: the pair is ((1 - q) Q + q P, Q) when a unit is removed and
(P, (1 - q) P + q Q) when one is added. Compose the two directions apart and take the worse at the end.

Amplification by shuffling: n reports, each epsilon_0-DP on its own, in an order that nobody knows.

Feldman, McMillan, Talwar 2021: the shuffled outputs on neighbours are no easier to tell apart than the pair
(A + D, C - A + 1 - D) and (A + 1 - D, C - A + D), with C ~ Bin(n - 1, e^-eps0), A ~ Bin(C, 1/2) and
D ~ Bernoulli(e^eps0/(e^eps0 + 1)). Replace-one neighbours. A closed form, and the pair's delta itself.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin import special
from neartwin.checks import integer, open_probability, positive, probability
from neartwin.divergences import Certified, Numeric, enclose, exp, expm1, log, log1p, where
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, rational
from neartwin.tradeoff.functions import TradeOff
from neartwin.tradeoff.operations import Inverse, symmetrised
from neartwin.tradeoff.twofold import UNIT, Argument, certified, clipped, ends, levels, read

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
    e, q = enclose(epsilon=epsilon), enclose(rate=rate)
    if not np.all(e.lower >= 0):
        raise ParameterError("epsilon", epsilon, "must not be negative")
    if not np.all((q.lower >= 0) & (q.upper <= 1)):
        raise ParameterError("rate", rate, "must lie in [0, 1]")
    near = log1p(q * expm1(e.at_most(_FAR)))
    if np.all(e.upper <= _FAR):
        return near.interval("amplification by subsampling")
    # beyond, the same as epsilon + ln(q + (1 - q) e^-epsilon)
    far = where(q.upper > 0, (e + log(q + (1.0 - q) * exp(-e))).at_least(0.0), 0.0)
    return where(e.upper <= _FAR, near, far).interval("amplification by subsampling")


def shuffle_epsilon_closed_form(local_epsilon: Number, n: int, delta: Number) -> Interval[float]:
    """ln(1 + (e^e0 - 1)/(e^e0 + 1) (8 sqrt(e^e0 ln(4/delta)/n) + 8 e^e0/n)): an epsilon that holds with delta.

    Refused outside the theorem, eps0 <= ln(n/(16 ln(2/delta))). `upper` is the safe side.

    >>> e = shuffle_epsilon_closed_form(1, 10_000, "1e-6")
    >>> bool(e.lower <= 0.21402565193083783 <= e.upper)
    True
    """
    exact = positive(local_epsilon=rational(local_epsilon=local_epsilon))
    people = integer(at_least=1, n=n)
    log_delta = math.log(float(open_probability(delta=rational(delta=delta))))
    most = math.log(people / (16 * (math.log(2) - log_delta)))
    e0 = float(exact)
    if e0 > most * (1 - 8 * UNIT):
        rule = f"must be at most ln(n/(16 ln(2/delta))) = {most:.6g}"
        raise ParameterError("local_epsilon", local_epsilon, rule, remedy="take more people or shuffle_delta")
    growth = math.exp(e0)
    size = 8 * math.sqrt(growth * (math.log(4) - log_delta) / people) + 8 * growth / people
    value = math.log1p(math.tanh(e0 / 2) * size)
    return Interval(value * (1 - 64 * UNIT), value * (1 + 64 * UNIT), "closed form")


def _binomial_tail(least: FloatArray, count: FloatArray) -> FloatArray:
    """Pr[Bin(count, 1/2) >= least], vectorised, ends included."""
    inner = np.clip(least, 1.0, np.maximum(count, 1.0))
    value = special.betainc(inner, np.maximum(count - inner + 1, 0.5), 0.5)
    return np.where(least <= 0, 1.0, np.where(least > count, 0.0, value))


def _delta_at(epsilon: float, e0: float, n: int) -> tuple[float, float]:
    """The delta and a bound on its error: rounding, and the binomial's tails that are left out."""
    rate, truth = math.exp(-e0), 1 / (1 + math.exp(-e0))
    mean, spread = (n - 1) * rate, math.sqrt((n - 1) * rate * (1 - rate)) + 1
    low, high = max(0, math.floor(mean - 39 * spread)), min(n - 1, math.ceil(mean + 39 * spread))
    count = np.arange(low, high + 1, dtype=np.float64)
    log_mass = special.gammaln(n) - special.gammaln(count + 1) - special.gammaln(n - count)
    log_mass = log_mass + count * math.log(rate) + (n - 1 - count) * math.log1p(-rate)
    mass = np.exp(log_mass)
    mass = mass / mass.sum()
    growth, lie = math.exp(epsilon), 1 - truth
    # the ratio (t a + l (c + 1 - a))/(l a + t (c + 1 - a)) rises with the count a of the first report's side
    denominator = (truth - growth * lie) + (growth * truth - lie)
    if growth >= truth / lie:
        return 0.0, 0.0
    cut = np.ceil((count + 1) * (growth * truth - lie) / denominator - 1e-9)
    above, at = _binomial_tail(cut - 1, count), _binomial_tail(cut, count)
    won, paid = truth * above + lie * at, growth * (lie * above + truth * at)
    value = float(np.sum(mass * np.maximum(won - paid, 0.0)))
    # lgamma's error is common to the masses but for what grows along the window; betainc is good to 1e-13
    return value, 1e-10 * value + 4e-12 * float(np.sum(mass * (won + paid))) + 1e-300


def shuffle_delta(local_epsilon: Number, n: int, epsilon: Argument) -> Interval[FloatArray]:
    """delta(epsilon) of the dominating pair, epsilon >= 0; `upper` is the safe side.

    The relative width stays below 1e-8 where delta is not tiny.

    >>> bool(shuffle_delta(1, 10_000, "0.214").upper < 1e-6)
    True
    """
    exact = float(positive(local_epsilon=rational(local_epsilon=local_epsilon)))
    people = integer(at_least=1, n=n)
    wanted = read(epsilon=epsilon)[0]
    if np.any(wanted < 0):
        raise ParameterError("epsilon", epsilon, "must not be negative")
    pairs = np.array([_delta_at(float(e), exact, people) for e in wanted.ravel()]).reshape(*wanted.shape, 2)
    return clipped(pairs[..., 0] - pairs[..., 1], pairs[..., 0] + pairs[..., 1], "dominating pair")
