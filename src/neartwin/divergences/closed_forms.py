"""Closed forms of two pairs, the Gaussian and the Laplace one, and KL and Renyi of normals.

The Gaussian pair is N(0, s^2) against N(D, s^2), described by mu = |D| / s.

The Laplace pair is Lap(0, b) against Lap(D, b), which only its ratio d = |D| / b describes.

Under P its loss is d with probability 1/2, -d with probability e^-d / 2, and has density e^((l - d) / 2) / 4 between.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from flint import arb

from neartwin import balls, domains
from neartwin.balls import Certified, Exact, Numeric, ball, elementwise, infinite, read
from neartwin.divergences.finite import ORDERS, Pair
from neartwin.errors import ParameterError

_LARGEST = 1e300  # epsilon that is searched for
_ROUNDS = 60
_ROOM = 1e-9  # relative, of a bracket in floats
_FAR = 1e8  # standard deviations, beyond which Phi(a) alone bounds the profile


def read_ratio(*, distance: Numeric, scale: Numeric, name: str) -> Any:
    """The exact |distance| / scale of a caller's numbers.

    Args:
        distance: The distance, finite.
        scale: The scale, positive.
        name: The name of the distance, for errors.

    Returns:
        The ratio.
    """
    moved, wide = domains.FINITE(distance=distance), domains.POSITIVE(**{name: scale})
    return abs(balls.quotient(moved, wide))


def gaussian_pair(*, distance: Numeric, sigma: Numeric = 1) -> "GaussianPair":
    """N(0, sigma^2) against N(distance, sigma^2).

    Args:
        distance: The distance of the true answers; for vectors, the Euclidean one. Arrays broadcast.
        sigma: Positive.

    Returns:
        The pair.

    >>> gaussian_pair(distance=1).kl().upper
    0.5
    """
    return GaussianPair(read_ratio(distance=distance, scale=sigma, name="sigma"))


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPair(Pair):
    """Made by `gaussian_pair`; mu >= 0, exact. The pair is symmetric."""

    mu: Any

    def kl(self) -> Certified:
        """mu^2 / 2."""
        return elementwise(lambda mu: mu**2 / 2, self.mu, method="Gaussian KL, closed form")

    def max_divergence(self) -> Certified:
        """Infinite, unless the two laws are one."""
        return elementwise(lambda mu: math.inf if mu else 0, self.mu, method="Gaussian max divergence")

    def hockey_stick(self, epsilon: Numeric) -> Certified:
        """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), to full relative accuracy in the tail.

        Balle and Wang 2018, Theorem 5; valid for negative epsilon too.

        >>> gaussian_pair(distance=1).hockey_stick(1).upper
        0.12693673...
        """
        method = "Gaussian hockey-stick, closed form"
        return elementwise(gaussian_profile, balls.read(epsilon=epsilon), self.mu, method=method, least=0, most=1)

    def approximate_max_divergence(self, delta: Numeric) -> Certified:
        """The root of the hockey-stick curve, proved at both ends; infinite at delta = 0, unless mu = 0.

        >>> gaussian_pair(distance=1).approximate_max_divergence("1e-5").upper
        4.37717809...
        >>> gaussian_pair(distance=1).approximate_max_divergence(0.5).lower
        -0.37579834...
        """
        return balls.each(
            epsilon_root,
            self.mu,
            domains.NOT_NEGATIVE(delta=delta),
            method="Gaussian approximate max divergence, certified root",
        )

    def renyi(self, order: Numeric) -> Certified:
        """It is order mu^2 / 2; infinite at infinity, unless mu = 0."""

        def value(a: Exact, mu: Fraction) -> Exact:
            return math.inf if a == math.inf and mu else Fraction(a) * mu**2 / 2 if mu else 0

        return elementwise(value, ORDERS(order=order), self.mu, method="Gaussian Renyi, closed form")


def gaussian_profile(epsilon: Exact | arb, mu: Exact | arb) -> arb:
    """The delta at epsilon of normals mu apart: a formula of `neartwin.balls`.

    Args:
        epsilon: The epsilon.
        mu: The distance, in deviations.

    Returns:
        The delta, enclosed.
    """
    if mu == 0 or balls.infinite(epsilon):
        return (-balls.ball(epsilon).expm1()).max(balls.ball(0))
    size, apart = balls.ball(epsilon), balls.ball(mu)
    middle, half = size / apart, apart / 2
    first = balls.normal_cdf(half - middle)
    if middle - half > _FAR:
        return first.union(balls.ball(0))
    return first - size.exp() * balls.normal_cdf(-middle - half)


def epsilon_root(mu: Exact, delta: Exact, rtol: float = 0.0) -> tuple[float, float]:
    """Floats around the epsilon at which normals mu apart have this delta.

    Args:
        mu: The distance, in deviations.
        delta: The delta.
        rtol: The relative width that suffices, see `balls.root`.

    Returns:
        A lower and an upper bound.
    """
    if delta >= 1:
        return -math.inf, -math.inf
    rest = 1 - Fraction(delta)
    if mu == 0:
        return balls.bounds(lambda: balls.ball(rest).log())
    if delta == 0:
        return math.inf, math.inf

    def falling(epsilon: float) -> arb:
        return gaussian_profile(epsilon, mu) - balls.ball(delta)

    try:  # floats err by far less than what is added
        apart, low = float(mu), math.log(rest)
        high = (apart * apart / 2 + apart * math.sqrt(-2 * math.log(delta))) * (1 + _ROOM)
        low -= _ROOM * (1 - low)
    except (ValueError, OverflowError):  # beyond the floats
        low = balls.bounds(lambda: balls.ball(rest).log())[0]
        high = balls.bounds(lambda: balls.ball(mu) ** 2 / 2 + balls.ball(mu) * (-2 * balls.ball(delta).log()).sqrt())[1]
    return (low, high) if high > _LARGEST else balls.root(falling, low, high, _guess(mu, delta, rest), rtol=rtol)


def _guess(mu: Exact, delta: Exact, rest: Fraction) -> float | None:
    """Newton's method in floats on ln delta, or on ln (1 - delta) where that is the smaller; what it misses costs time alone."""
    try:
        apart, small = float(mu), delta < 0.5
        goal = math.log(delta if small else rest)
        x = apart * apart / 2 - apart * NormalDist().inv_cdf(float(delta))
        for _ in range(_ROUNDS):
            far = math.exp(x) * normal_tail(x / apart + apart / 2)
            value = normal_tail(x / apart - apart / 2) - far if small else normal_tail(apart / 2 - x / apart) + far
            moved = value / far * (math.log(value) - goal)
            x += moved if small else -moved
            if abs(moved) <= 1e-14 * abs(x):
                break
    except (ValueError, OverflowError, ZeroDivisionError):  # beyond the floats
        return None
    return x


def normal_tail(x: float) -> float:
    """Phi(-x) in floats."""
    return 0.5 * math.erfc(x * math.sqrt(0.5))


def kl_normal(*, mean: Numeric, sigma: Numeric, other_mean: Numeric, other_sigma: Numeric) -> Certified:
    """KL( N(mean, sigma^2) || N(other_mean, other_sigma^2) ), in nats.

    It is ln(s2/s1) + (s1^2 + (m1 - m2)^2) / (2 s2^2) - 1/2. Arrays broadcast.

    Args:
        mean: m1.
        sigma: s1, positive.
        other_mean: m2.
        other_sigma: s2, positive.

    Returns:
        The divergence, certified.

    >>> kl_normal(mean="0.3", sigma="1.2", other_mean="-0.5", other_sigma="0.8").upper
    0.71953489...
    """
    return renyi_normal(mean=mean, sigma=sigma, other_mean=other_mean, other_sigma=other_sigma, order=1)


def renyi_normal(
    *, mean: Numeric, sigma: Numeric, other_mean: Numeric, other_sigma: Numeric, order: Numeric
) -> Certified:
    """Renyi divergence of normals of different variances; KL at order 1.

    With s*^2 = a s2^2 + (1-a) s1^2 it is ln(s2/s1) + ln(s2^2/s*^2) / (2(a-1)) + a (m1-m2)^2 / (2 s*^2), infinite for
    s*^2 <= 0. Gil, Alajaji and Linder 2013, Table 2.

    Args:
        mean: m1.
        sigma: s1, positive.
        other_mean: m2.
        other_sigma: s2, positive.
        order: a, finite and positive.

    Returns:
        The divergence, certified.
    """
    s1, s2 = domains.POSITIVE(sigma=sigma), domains.POSITIVE(other_sigma=other_sigma)
    m1, m2 = domains.FINITE(mean=mean), domains.FINITE(other_mean=other_mean)
    a = ORDERS(order=order)
    if not balls.every(lambda x: x < math.inf, a):
        raise ParameterError("order", order, "must be finite", remedy="use gaussian_pair(...).max_divergence()")
    return elementwise(_renyi_normal, m1, s1, m2, s2, a, method="normal Renyi, closed form", least=0)


def _renyi_normal(m1: Exact, s1: Exact, m2: Exact, s2: Exact, order: Exact) -> arb | Exact:
    a = Fraction(order)
    ratio = (Fraction(s1) / Fraction(s2)) ** 2
    gap = ((Fraction(m1) - Fraction(m2)) / Fraction(s2)) ** 2
    mixed = a + (1 - a) * ratio  # s*^2 / s2^2
    if mixed <= 0:
        return math.inf
    if ratio == 1:
        return a * gap / 2
    if a == 1:
        return (balls.ball(ratio + gap - 1) - balls.ball(ratio).log()) / 2
    return balls.ball(a * gap / mixed) / 2 - (balls.ball(ratio).log() + balls.ball(mixed).log() / balls.ball(a - 1)) / 2


def laplace_pair(*, distance: Numeric, scale: Numeric = 1) -> "LaplacePair":
    """Lap(0, scale) against Lap(distance, scale).

    Args:
        distance: The distance of the true answers, of any sign. Arrays broadcast.
        scale: Positive, in the same unit.

    Returns:
        The pair.

    >>> laplace_pair(distance=1).kl().upper
    0.36787944...
    """
    return LaplacePair(read_ratio(distance=distance, scale=scale, name="scale"))


@dataclass(frozen=True, slots=True, eq=False)
class LaplacePair(Pair):
    """Made by `laplace_pair`; ratio: d >= 0, exact. The pair is symmetric: `reversed` has the same divergences."""

    ratio: Any

    def kl(self) -> Certified:
        """It is d + e^-d - 1: the least rho of the Laplace mechanism in zCDP too. Harrison and Manurangsi 2025."""
        return elementwise(laplace_kl, self.ratio, method="Laplace KL, closed form", least=0)

    def max_divergence(self) -> Certified:
        """It is d."""
        return elementwise(lambda d: d, self.ratio, method="Laplace max divergence, closed form")

    def hockey_stick(self, epsilon: Numeric) -> Certified:
        """1 - e^min(epsilon, (epsilon - d)/2), and 0 from epsilon = d on.

        >>> laplace_pair(distance=2, scale="0.8").hockey_stick(1.5).upper
        0.39346934...
        """
        method = "Laplace hockey-stick, closed form"
        return elementwise(laplace_profile, read(epsilon=epsilon), self.ratio, method=method, least=0, most=1)

    def approximate_max_divergence(self, delta: Numeric) -> Certified:
        """ln(1 - delta) + max(0, d + ln(1 - delta)); minus infinity from delta = 1 on.

        >>> laplace_pair(distance=1).approximate_max_divergence(0.8).upper
        -1.60943791...
        """
        method = "Laplace approximate max divergence, closed form"
        return elementwise(_approximate_max, domains.NOT_NEGATIVE(delta=delta), self.ratio, method=method)

    def renyi(self, order: Numeric) -> Certified:
        """ln[a/(2a-1) e^((a-1)d) + (a-1)/(2a-1) e^(-ad)] / (a - 1), with its limits at 1/2, 1 and infinity.

        >>> laplace_pair(distance=1).renyi(2).upper
        0.61912362...
        """
        return elementwise(_renyi, ORDERS(order=order), self.ratio, method="Laplace Renyi, closed form", least=0)


def laplace_kl(d: Exact) -> arb | Exact:
    """The value d + e^-d - 1, a formula of `neartwin.balls`."""
    return ball(d) + (-ball(d)).expm1() if d else 0


def laplace_profile(epsilon: Exact, d: Fraction) -> arb | Exact:
    """The delta at epsilon of Laplace laws d scales apart: a formula of `neartwin.balls`.

    Args:
        epsilon: The epsilon.
        d: The distance, in scales.

    Returns:
        The delta, enclosed.
    """
    if infinite(epsilon):
        return 0 if epsilon > 0 else 1
    exponent = min(Fraction(epsilon), (Fraction(epsilon) - d) / 2)
    return -ball(exponent).expm1() if exponent < 0 else 0


def _approximate_max(delta: Exact, d: Fraction) -> arb | Exact:
    if delta >= 1:
        return -math.inf
    if delta == 0:
        return d
    rest = (-ball(delta)).log1p()
    return rest + (ball(d) + rest).max(ball(0))


def _renyi(order: Exact, d: Fraction) -> arb | Exact:
    if d == 0 or order == math.inf:
        return d
    if order == 1:
        return laplace_kl(d)
    a = Fraction(order)
    b = max(a, 1 - a)  # the moments of the loss at a and at 1 - a are equal, for a symmetric pair
    if 2 * b == 1:
        return ball(d) - 2 * (ball(d) / 2).log1p()
    # the logarithm of the moment is (b - 1) d + ln[(b + (b - 1) e^(-(2b-1) d)) / (2b - 1)]
    inner = (ball(b) + ball(b - 1) * (-ball((2 * b - 1) * d)).exp()) / ball(2 * b - 1)
    return (ball((b - 1) * d) + inner.log()) / ball(a - 1)
