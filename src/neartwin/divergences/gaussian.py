"""The Gaussian pair N(0, s^2) against N(D, s^2), described by mu = |D| / s; and KL and Renyi of normals."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from neartwin.balls import (
    Certified,
    Exact,
    Numeric,
    ball,
    bounds,
    each,
    elementwise,
    every,
    infinite,
    normal_cdf,
    quotient,
    read,
    root,
)
from neartwin.divergences.finite import read_delta, read_order
from neartwin.errors import ParameterError

if TYPE_CHECKING:
    from flint import arb

_LARGEST = 1e300  # epsilon that is searched for
_FAR = 1e8  # standard deviations, beyond which Phi(a) alone bounds the profile


def read_ratio(*, distance: Numeric, scale: Numeric, name: str) -> Any:
    """|distance| / scale, exact, of a caller's finite distance and positive scale."""
    moved, wide = read(distance=distance), read(**{name: scale})
    if not every(lambda s: 0 < s < math.inf, wide):
        raise ParameterError(name, scale, "must be positive")
    if not every(lambda d: abs(d) < math.inf, moved):
        raise ParameterError("distance", distance, "must be finite")
    return abs(quotient(moved, wide))


def gaussian_pair(*, distance: Numeric, sigma: Numeric = 1) -> "GaussianPair":
    """N(0, sigma^2) against N(distance, sigma^2).

    distance: how far apart the true answers are (for vectors, in the Euclidean norm); sigma > 0. Arrays broadcast.

    >>> gaussian_pair(distance=1).kl().upper
    0.5
    """
    return GaussianPair(read_ratio(distance=distance, scale=sigma, name="sigma"))


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPair:
    """Made by `gaussian_pair`; mu >= 0, exact. The pair is symmetric."""

    mu: Any

    def kl(self) -> Certified:
        """mu^2 / 2."""
        return elementwise(lambda mu: mu**2 / 2, self.mu, method="Gaussian KL, closed form")

    def max_divergence(self) -> Certified:
        """Infinite, unless the two laws are one."""
        return elementwise(lambda mu: math.inf if mu else 0, self.mu, method="Gaussian max divergence")

    def total_variation(self) -> Certified:
        """2 Phi(mu/2) - 1 = erf(mu / sqrt 8)."""
        method = "Gaussian total variation, closed form"
        return elementwise(lambda mu: (ball(mu) / ball(8).sqrt()).erf(), self.mu, method=method, least=0, most=1)

    def hockey_stick(self, epsilon: Numeric) -> Certified:
        """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), to full relative accuracy in the tail.

        Balle and Wang 2018, Theorem 5; valid for negative epsilon too.

        >>> gaussian_pair(distance=1).hockey_stick(1).upper
        0.12693673...
        """
        method = "Gaussian hockey-stick, closed form"
        return elementwise(gaussian_profile, read(epsilon=epsilon), self.mu, method=method, least=0, most=1)

    def approximate_max_divergence(self, delta: Numeric) -> Certified:
        """The root of the hockey-stick curve, proved at both ends; infinite at delta = 0, unless mu = 0.

        >>> gaussian_pair(distance=1).approximate_max_divergence("1e-5").upper
        4.37717809...
        >>> gaussian_pair(distance=1).approximate_max_divergence(0.5).lower
        -0.37579834...
        """
        return each(
            epsilon_root, self.mu, read_delta(delta), method="Gaussian approximate max divergence, certified root"
        )

    def renyi(self, order: Numeric) -> Certified:
        """It is order mu^2 / 2; infinite at infinity, unless mu = 0."""

        def value(a: Exact, mu: Fraction) -> Exact:
            return math.inf if a == math.inf and mu else Fraction(a) * mu**2 / 2 if mu else 0

        return elementwise(value, read_order(order), self.mu, method="Gaussian Renyi, closed form")

    def reversed(self) -> "GaussianPair":
        """Itself: shifting the other way is the mirror image."""
        return self


def gaussian_profile(epsilon: Exact, mu: Exact) -> "arb":
    """The delta of normals mu apart at epsilon: a formula of `neartwin.balls`."""
    if infinite(epsilon) or mu == 0:
        return -ball(min(epsilon, 0)).expm1()
    e, m = ball(epsilon), ball(mu)
    a, b = m / 2 - e / m, -m / 2 - e / m
    first = normal_cdf(a)
    return first.union(ball(0)) if a < -_FAR else first - e.exp() * normal_cdf(b)


def epsilon_root(mu: Exact, delta: Exact) -> tuple[float, float]:
    """The floats around the epsilon at which normals mu apart have this delta."""
    if delta >= 1:
        return -math.inf, -math.inf
    if delta == 0:
        return (math.inf, math.inf) if mu else (0.0, 0.0)
    floor = bounds(lambda d: (-ball(d)).log1p(), delta)
    if mu == 0:
        return floor
    low, high = floor[0], bounds(lambda m, d: ball(m) ** 2 / 2 + ball(m) * (-2 * ball(d).log()).sqrt(), mu, delta)[1]
    if high > _LARGEST:
        return low, high
    return root(lambda e: gaussian_profile(e, mu) - ball(delta), low, high, _guess(mu, delta, low, high))


def _guess(mu: Exact, delta: Exact, low: float, high: float) -> float | None:
    """Newton on ln delta in plain floats, and a last step in balls; what it misses costs `root` time alone."""
    try:
        m, goal, x = float(mu), math.log(delta), 0.5 * (low + high)
        for _ in range(40):
            tail = 0.5 * math.exp(x) * math.erfc((0.5 * m + x / m) * math.sqrt(0.5))
            value = 0.5 * math.erfc((x / m - 0.5 * m) * math.sqrt(0.5)) - tail
            gap = math.log(value) - goal
            low, high = (x, high) if gap > 0 else (low, x)
            step = x + gap * value / tail
            new = step if low <= step <= high else 0.5 * (low + high)
            x, moved = new, abs(new - x)
            if moved <= 1e-9 * (abs(x) + m):
                break
    except (ValueError, OverflowError, ZeroDivisionError):  # beyond the floats
        return None

    def newton() -> "arb":
        e, apart = ball(x), ball(mu)
        tail = e.exp() * normal_cdf(-apart / 2 - e / apart)
        return e + (normal_cdf(apart / 2 - e / apart) - tail - ball(delta)) / tail

    return bounds(newton)[0]


def kl_normal(*, mean: Numeric, sigma: Numeric, other_mean: Numeric, other_sigma: Numeric) -> Certified:
    """KL( N(mean, sigma^2) || N(other_mean, other_sigma^2) ), in nats.

    ln(s2/s1) + (s1^2 + (m1 - m2)^2) / (2 s2^2) - 1/2; sigmas above 0; arrays broadcast.

    >>> kl_normal(mean="0.3", sigma="1.2", other_mean="-0.5", other_sigma="0.8").upper
    0.71953489...
    """
    return renyi_normal(mean=mean, sigma=sigma, other_mean=other_mean, other_sigma=other_sigma, order=1)


def renyi_normal(
    *, mean: Numeric, sigma: Numeric, other_mean: Numeric, other_sigma: Numeric, order: Numeric
) -> Certified:
    """Renyi divergence of normals of different variances, of any finite order > 0; KL at order 1.

    With s*^2 = a s2^2 + (1-a) s1^2: ln(s2/s1) + ln(s2^2/s*^2) / (2(a-1)) + a (m1-m2)^2 / (2 s*^2), infinite where
    s*^2 <= 0. Gil, Alajaji and Linder 2013, Table 2.
    """
    s1, s2, m1, m2 = read(sigma=sigma), read(other_sigma=other_sigma), read(mean=mean), read(other_mean=other_mean)
    for name, given, wide in (("sigma", sigma, s1), ("other_sigma", other_sigma, s2)):
        if not every(lambda s: 0 < s < math.inf, wide):
            raise ParameterError(name, given, "must be positive")
    for name, given, centre in (("mean", mean, m1), ("other_mean", other_mean, m2)):
        if not every(lambda m: abs(m) < math.inf, centre):
            raise ParameterError(name, given, "must be finite")
    a = read_order(order)
    if not every(lambda x: x < math.inf, a):
        raise ParameterError("order", order, "must be finite", remedy="use gaussian_pair(...).max_divergence()")
    return elementwise(_renyi_normal, m1, s1, m2, s2, a, method="normal Renyi, closed form", least=0)


def _renyi_normal(m1: Exact, s1: Exact, m2: Exact, s2: Exact, order: Exact) -> "arb | Exact":
    a = Fraction(order)
    ratio = (Fraction(s1) / Fraction(s2)) ** 2
    gap = ((Fraction(m1) - Fraction(m2)) / Fraction(s2)) ** 2
    mixed = a + (1 - a) * ratio  # s*^2 / s2^2
    if mixed <= 0:
        return math.inf
    if ratio == 1:
        return a * gap / 2
    if a == 1:
        return (ball(ratio + gap - 1) - ball(ratio).log()) / 2
    return ball(a * gap / mixed) / 2 - (ball(ratio).log() + ball(mixed).log() / ball(a - 1)) / 2
