"""The closed families: f_{epsilon,delta}, the Gaussian G_mu and the Laplace curve, each its own inverse.

Dong, Roth, Su 2022: (epsilon, delta)-DP is f_{epsilon,delta}-DP (Prop. 2.5), mu-GDP is G_mu-DP (Def. 2.6), and the
Laplace curve is T(Lap(0, 1), Lap(shift, 1)) (Lemma A.6). Parameters are exact; a Gaussian keeps mu^2, which is the
quantity that composition adds.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin.checks import non_negative, positive, probability
from neartwin.exact import FloatArray, Interval, Number, rational
from neartwin.tradeoff.gaussian_dp import delta_of_twofold
from neartwin.tradeoff.normal import ROOM, cdf, quantile
from neartwin.tradeoff.twofold import UNIT, Argument, Twofold, clipped, exponential, grown, levels, plus, read, root


@dataclass(frozen=True, slots=True)
class EpsilonDelta:
    """f_{epsilon,delta}(a) = max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a))."""

    epsilon: Fraction
    delta_mass: Fraction

    @property
    def symmetric(self) -> bool:
        """A polygon mirrored in the diagonal."""
        return True

    def inverse(self) -> "EpsilonDelta":
        """Itself."""
        return self

    def _constants(self) -> tuple[Twofold, FloatArray]:
        return read(epsilon=self.epsilon), np.asarray(float(self.delta_mass))

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The polygon at each alpha."""
        _, rest = levels(alpha=alpha)
        _, _, low, high = self.walk(*levels(alpha=alpha), 1)
        return clipped(low, np.where(rest <= float(self.delta_mass) * (1 - UNIT), 0.0, high), "closed form")

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """min(1, delta + e^epsilon a, 1 - e^-epsilon (1 - delta - a))."""
        _, rest = levels(alpha=alpha)
        low, high, _, _ = self.walk(*levels(alpha=alpha), 1)
        return clipped(np.where(rest <= float(self.delta_mass) * (1 - UNIT), 1.0, low), high, "closed form")

    def walk(
        self, level: FloatArray, rest: FloatArray, steps: int
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The map 1 - f applied some times to x = level: bounds on x (two), and on 1 - x (two).

        Both x and 1 - x are carried, so neither loses digits where it is small.
        """
        pairs = [self._side(level, rest, steps, sign) for sign in (-1, 1)]
        return pairs[0][0], pairs[1][0], pairs[1][1], pairs[0][1]

    def _side(self, x: FloatArray, y: FloatArray, steps: int, sign: int) -> tuple[FloatArray, FloatArray]:
        epsilon, mass = self._constants()
        shrink, growth = exponential((-epsilon[0], -epsilon[1])), exponential(epsilon)
        with np.errstate(over="ignore"):
            beyond = np.expm1(epsilon[0]) + epsilon[1] * np.minimum(growth, 1e300)  # e^epsilon - 1
        for _ in range(steps):
            extra = grown(beyond, x, 4.0)
            steep, flat = (y - mass) - extra, shrink * (y - mass)
            first = steep >= flat
            room = 6 * UNIT * np.where(first, y + mass + extra, shrink * (y + mass))
            left = np.maximum(np.maximum(steep, flat), 0.0)
            reached = np.where(first, mass + grown(growth, x, 4.0), 1.0 - left)
            x = np.clip(reached * (1 + sign * 8 * UNIT) + sign * 4e-323 * (reached > 0), 0.0, 1.0)
            y = np.clip(left - sign * (room + 4e-323 * (left > 0)), 0.0, 1.0)
        return x, y

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """The largest of the values at the polygon's corners."""
        wanted = read(epsilon=epsilon)
        own, mass = self._constants()
        kept, ratio = float(1 - self.delta_mass), exponential(own)
        short = plus(wanted, (-own[0], -own[1]))
        within = np.minimum(short[0], 0.0)
        corner = mass + kept * -np.expm1(within + np.where(within < 0, short[1], 0.0)) / (1 + 1 / ratio)
        whole = mass - kept * np.expm1(np.minimum(wanted[0] + wanted[1], 0.0))  # 1 - e^x (1 - delta)
        value = np.maximum(np.maximum(mass, corner), np.where(wanted[0] < 0, whole, 0.0))
        room = 16 * UNIT * value + np.where(value > 0, 1e-322, 0.0)
        return clipped(value - room, value + room, "closed form")


@dataclass(frozen=True, slots=True)
class Gaussian:
    """G_mu(a) = Phi(Phi^-1(1 - a) - mu), the curve of N(0, 1) against N(mu, 1)."""

    mu_squared: Fraction

    @property
    def symmetric(self) -> bool:
        """Mirrored by x -> mu - x."""
        return True

    def inverse(self) -> "Gaussian":
        """Itself."""
        return self

    def mu(self) -> Interval[float]:
        """The distance mu, the root of mu^2."""
        high = float(root(self.mu_squared)[0])
        return Interval(high, high, "square root").outward() if high else Interval(0.0, 0.0, "square root")

    def _points(self, alpha: Argument) -> tuple[FloatArray, FloatArray]:
        level, rest = levels(alpha=alpha)
        start, distance = quantile(level, rest), root(self.mu_squared)
        with np.errstate(invalid="ignore"):
            centre = start + distance[0]
            spread = ROOM * 0.25 * np.abs(start) + 2 * UNIT * np.abs(centre)
            # near the median the quantile's relative error is on the scale of the argument's own rounding
            spread = np.where(np.isfinite(centre), spread + 2 * UNIT, 0.0)
        return centre, spread

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """Phi(-Phi^-1(a) - mu), never through 1 - a; exactly 1 at 0 and 0 at 1."""
        centre, spread = self._points(alpha)
        return _around(-centre, spread)

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """Phi(Phi^-1(a) + mu)."""
        return _around(*self._points(alpha))

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)."""
        return delta_of_twofold(root(self.mu_squared), read(epsilon=epsilon))


def _around(centre: FloatArray, spread: FloatArray) -> Interval[FloatArray]:
    """Phi between centre - spread and centre + spread: its relative slope phi/Phi is at most max(-x, 0) + 1."""
    value = cdf(centre)
    with np.errstate(invalid="ignore"):
        room = ROOM + 1.01 * spread * (1 + np.maximum(-centre, 0.0))
        lower, upper = value * (1 - room), value * (1 + room) + 1e-322
    endless = np.isinf(centre)
    return clipped(np.where(endless, centre > 0, lower), np.where(endless, centre > 0, upper), "normal law")


@dataclass(frozen=True, slots=True)
class Laplace:
    """T(Lap(0, 1), Lap(shift, 1)): 1 - e^s a below e^-s/2, e^-s/(4a) up to 1/2, e^-s (1 - a) above."""

    shift: Fraction

    @property
    def symmetric(self) -> bool:
        """Mirrored by x -> shift - x."""
        return True

    def inverse(self) -> "Laplace":
        """Itself."""
        return self

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The three pieces."""
        level, rest = levels(alpha=alpha)
        shift = read(shift=self.shift)
        shrink, growth = exponential((-shift[0], -shift[1])), exponential(shift)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            steep = 1 - grown(growth, level, 0.5)
            middle = shrink / (4 * np.maximum(level, 1e-320))
            value = np.where(level <= 0.5 * shrink, steep, np.where(rest >= 0.5, middle, shrink * rest))
            room = np.where(level <= 0.5 * shrink, 8 * UNIT, 16 * UNIT * value + 1e-322)
        room = np.where((level <= 0) | (rest <= 0), 0.0, room)
        return clipped(value - room, value + room, "closed form")

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """1 - beta, e^s a while a is small."""
        level, _ = levels(alpha=alpha)
        shift = read(shift=self.shift)
        shrink, growth = exponential((-shift[0], -shift[1])), exponential(shift)
        beta = self.beta(alpha)
        with np.errstate(over="ignore"):
            steep = grown(growth, level, 0.5)
            near = level <= 0.5 * shrink
            lower = np.where(near, steep * (1 - 8 * UNIT), 1 - np.asarray(beta.upper) - UNIT)
            upper = np.where(near, steep * (1 + 8 * UNIT), 1 - np.asarray(beta.lower) + UNIT)
        return clipped(lower, upper, "closed form")

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """1 - e^{(epsilon - s)/2} between -s and s, 0 above, 1 - e^epsilon below."""
        wanted, shift = read(epsilon=epsilon), read(shift=self.shift)
        short = plus(wanted, (-shift[0], -shift[1]))
        below = wanted[0] <= -shift[0]
        exponent = np.where(below, wanted[0] + wanted[1], 0.5 * (short[0] + short[1]))
        value = np.where(short[0] + short[1] >= 0, 0.0, -np.expm1(np.minimum(exponent, 0.0)))
        return clipped(value * (1 - 16 * UNIT), value * (1 + 16 * UNIT), "closed form")


def epsilon_delta(epsilon: Number, delta: Number = 0) -> EpsilonDelta:
    """The curve of (epsilon, delta)-DP, epsilon >= 0 and delta in [0, 1].

    >>> curve = epsilon_delta(1, "0.05")
    >>> round(curve.beta("0.1").lower, 12)
    0.678171817154
    """
    return EpsilonDelta(non_negative(epsilon=rational(epsilon=epsilon)), probability(delta=rational(delta=delta)))


def identity() -> EpsilonDelta:
    """Id(a) = 1 - a: two equal laws, the unit of composition.

    >>> round(identity().beta("0.25").upper, 12)
    0.75
    """
    return EpsilonDelta(Fraction(0), Fraction(0))


def gaussian(mu: Number) -> Gaussian:
    """The curve of mu-GDP, mu >= 0 exact.

    >>> round(gaussian(1).beta("0.1").lower, 12)
    0.610856308355
    """
    return Gaussian(non_negative(mu=rational(mu=mu)) ** 2)


def laplace(shift: Number) -> Laplace:
    """The curve of the Laplace mechanism, shift = sensitivity / scale >= 0.

    >>> round(laplace(2).beta("0.2").lower, 12)
    0.169169104046
    """
    return Laplace(non_negative(shift=rational(shift=shift)))


def gaussian_mechanism(*, sensitivity: Number, sigma: Number) -> Gaussian:
    """The curve of adding N(0, sigma^2) noise to an answer of that L2 sensitivity: G_{sensitivity/sigma}, exactly.

    T(M(S), M(S')) = G_{|answer(S) - answer(S')|/sigma}, and G decreases in mu, so the worst pair rules.
    """
    moved = non_negative(sensitivity=rational(sensitivity=sensitivity))
    return Gaussian((moved / positive(sigma=rational(sigma=sigma))) ** 2)
