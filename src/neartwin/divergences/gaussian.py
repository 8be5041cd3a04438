"""The Gaussian pair N(0, s^2) against N(D, s^2), described by mu = |D| / s; and KL and Renyi of normals.

With a = mu/2 - e/mu and b = a - mu the hockey-stick divergence is Phi(a) - e^e Phi(b); phi(a) = e^e phi(b) turns it
into phi(a) [M(a) - M(b)] with Mills ratios M, which loses no digits however small it is.
"""

import math
from dataclasses import dataclass

import numpy as np

from neartwin.divergences.enclosure import (
    ULPS,
    Certified,
    Enclosure,
    Numeric,
    blockwise,
    enclose,
    exp,
    expm1,
    increasing,
    log,
    log1p,
    quotient,
    sqrt,
    square,
    squared_excess,
    where,
    widened,
)
from neartwin.divergences.inverse import confirmed
from neartwin.divergences.laplace import absolute
from neartwin.divergences.normal_roots import epsilon_roots
from neartwin.divergences.pairs import read_delta, read_order
from neartwin.divergences.series import log_excess
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray
from neartwin.special import erf, erfc, erfcx

_ROOT_HALF = math.sqrt(0.5)


def gaussian_pair(*, distance: Numeric, sigma: Numeric = 1) -> "GaussianPair":
    """N(0, sigma^2) against N(distance, sigma^2).

    distance: how far apart the true answers are (for vectors, in the Euclidean norm); sigma > 0. Arrays broadcast.

    >>> gaussian_pair(distance=1).kl().upper
    0.50000000...
    """
    if not np.all(enclose(sigma=sigma).lower > 0):
        raise ParameterError("sigma", sigma, "must be positive")
    mu = quotient(numerator=distance, denominator=sigma, names=("distance", "sigma"))
    if not np.all(np.isfinite(mu.upper)):
        raise ParameterError("distance", distance, "must be finite")
    return GaussianPair(absolute(mu))


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPair:
    """Made by `gaussian_pair`; mu >= 0, enclosed. The pair is symmetric."""

    mu: Enclosure

    def kl(self) -> Certified:
        """mu^2 / 2."""
        return (0.5 * square(self.mu)).interval("Gaussian KL, closed form")

    def max_divergence(self) -> Certified:
        """Infinite, unless the two laws are one."""
        value = where(self.mu.upper == 0, 0.0, np.inf)
        return value.interval("Gaussian max divergence")

    def total_variation(self) -> Certified:
        """2 Phi(mu/2) - 1 = erf(mu / sqrt 8)."""
        x = self.mu * widened(np.asarray(math.sqrt(0.125)), 1)
        value = increasing(lambda t: widened(erf(t), ULPS["erf"]), x)
        value = where(x.upper == 0, 0.0, value.at_least(0).at_most(1))
        return value.interval("Gaussian total variation, closed form")

    def hockey_stick(self, epsilon: Numeric) -> Certified:
        """Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), to full relative accuracy in the tail.

        Balle and Wang 2018, Theorem 5; valid for negative epsilon too.

        >>> gaussian_pair(distance=1).hockey_stick(1).upper
        0.12693673...
        """
        value = blockwise(_hockey_stick, enclose(epsilon=epsilon), self.mu)
        return value.interval("Gaussian hockey-stick, closed form")

    def approximate_max_divergence(self, delta: Numeric) -> Certified:
        """The root of the hockey-stick curve, certified at both ends; infinite at delta = 0, unless mu = 0.

        >>> gaussian_pair(distance=1).approximate_max_divergence("1e-5").upper
        4.37717809...
        >>> gaussian_pair(distance=1).approximate_max_divergence(0.5).lower
        -0.37579834...
        """
        value = blockwise(_approximate_max, read_delta(delta), self.mu)
        return value.interval("Gaussian approximate max divergence, certified root")

    def renyi(self, order: Numeric) -> Certified:
        """It is order mu^2 / 2; infinite at infinity, unless mu = 0."""
        read = read_order(order)
        value = where(np.isinf(read.lower), np.inf, read * (0.5 * square(self.mu)))
        return where(self.mu.upper == 0, 0.0, value).interval("Gaussian Renyi, closed form")

    def reversed(self) -> "GaussianPair":
        """Itself: shifting the other way is the mirror image."""
        return self


def _hockey_stick(epsilon: Enclosure, mu: Enclosure) -> Enclosure:
    # decreasing in epsilon and increasing in mu: two corners are enough
    low = _hockey_stick_at(epsilon.upper, mu.lower)
    one = epsilon.lower is epsilon.upper and mu.lower is mu.upper
    return Enclosure(low.lower, (low if one else _hockey_stick_at(epsilon.lower, mu.upper)).upper)


def _hockey_stick_at(epsilon: FloatArray, mu: FloatArray) -> Enclosure:
    right = _right_of_zero(np.abs(epsilon), mu)
    if np.all(epsilon >= 0):
        return right.at_most(1)
    point = Enclosure.of(np.minimum(epsilon, 0))
    left = -expm1(point) + exp(point) * right  # H(e) = 1 - e^e + e^e H(-e), for a symmetric pair
    return where(epsilon >= 0, right, left).at_least(0).at_most(1)


def _right_of_zero(epsilon: FloatArray, mu: FloatArray) -> Enclosure:
    """H at epsilon >= 0 and one float mu >= 0.

    With s = mu/2 + epsilon/mu both a and b = -s carry at most 4 u s; that moves phi(a) by |a| 4 u s relatively, and
    Phi and the Mills ratio by 0.8 of it; a^2 and the trusted functions add the rest. u = 2^-53.
    """
    with np.errstate(all="ignore"):
        first, second, size, a = _two_parts(epsilon, mu)
        unit = 2.0**-53
        trust = 2 * (ULPS["erfcx"] + ULPS["exp"]) + 16
        relative = ((np.abs(a) + 1) * 4 * size + 2 * a * a + trust) * unit * 1.01
        error = relative * (first + second) + 1e-320
        low, high = np.maximum(first - second - error, 0), first - second + error
        undefined = (mu == 0) | np.isinf(epsilon)
        low, high = np.where(undefined, 0.0, low), np.where(undefined, 0.0, high)
    return Enclosure(np.where(np.isnan(low), 0.0, low), np.where(np.isnan(high), 1.0, high))


def _two_parts(epsilon: FloatArray, mu: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Phi(a) and e^epsilon Phi(b) in plain floats, then mu/2 + epsilon/mu and a."""
    shift = epsilon / mu
    a, size = 0.5 * mu - shift, 0.5 * mu + shift
    density = 0.5 * np.exp(-0.5 * a * a)  # phi(a) sqrt(pi/2)
    second = density * erfcx(size * _ROOT_HALF)
    first = density * erfcx(np.maximum(-a, 0) * _ROOT_HALF)
    if np.any(a > 0):
        first = np.where(a > 0, 0.5 * erfc(-np.maximum(a, 0) * _ROOT_HALF), first)
    return np.asarray(first), np.asarray(second), np.asarray(size), np.asarray(a)


def _approximate_max(delta: Enclosure, mu: Enclosure) -> Enclosure:
    inner = Enclosure(np.clip(delta.lower, 5e-324, 1 - 2**-53), np.clip(delta.upper, 5e-324, 1 - 2**-53))
    shape = np.broadcast_shapes(delta.shape, np.shape(mu.lower))
    # the root grows with mu and falls with delta: its lower end lies at the lower mu and the upper delta
    low, high = _quick_roots(mu.lower, inner.upper)
    if not (np.all(delta.lower == delta.upper) and np.all(mu.lower == mu.upper)):
        high = _quick_roots(mu.upper, inner.lower)[1]
    low, high = (np.array(np.broadcast_to(end, shape)) for end in (low, high))
    other = (delta.lower <= 0) | (delta.upper >= 1) | np.isnan(low) | np.isnan(high)
    if other.any():
        ends = (np.broadcast_to(end, shape)[other] for end in (delta.lower, delta.upper, mu.lower, mu.upper))
        a, b, c, d = ends
        found = _searched_max(Enclosure(a, b), Enclosure(c, d))
        low[other], high[other] = found.lower, found.upper
    return Enclosure(low, high)


def _quick_roots(mu: FloatArray, delta: FloatArray) -> tuple[FloatArray, ...]:
    shape = np.broadcast_shapes(np.shape(mu), np.shape(delta))
    m, d = np.ravel(mu), np.ravel(delta)
    if m.size != 1 != d.size:
        m, d = (np.broadcast_to(part, shape).ravel() for part in (mu, delta))
    return tuple(end.reshape(shape) for end in epsilon_roots(m, np.zeros(1), d, 1 - d))


def _searched_max(delta: Enclosure, mu: Enclosure) -> Enclosure:
    inner = Enclosure(np.clip(delta.lower, 5e-324, 1 - 2**-53), np.clip(delta.upper, 5e-324, 1 - 2**-53))
    rest = log1p(-inner)
    roof = 0.5 * square(mu) + mu * sqrt(-2.0 * log(inner))
    low, high = np.broadcast_arrays(rest.lower, roof.upper)
    guess = _guess(np.broadcast_to(inner.middle, low.shape), np.maximum(mu.middle, 1e-300), low, high)
    value = confirmed(lambda e: _hockey_stick(Enclosure.of(e), mu), inner, guess, (low, high))
    value = where(mu.upper == 0, rest, value)
    return where(delta.lower >= 1, -np.inf, where((delta.upper == 0) & (mu.lower > 0), np.inf, value))


def _guess(delta: FloatArray, mu: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Newton on ln H in plain floats, kept in a shrinking bracket; its errors are caught by the certificate."""
    goal, x = np.log(np.maximum(delta, 1e-320)), 0.5 * (low + high)
    with np.errstate(all="ignore"):
        for _ in range(40):
            first, upper, _, _ = _two_parts(np.abs(x), mu)
            value, left = first - upper, x < 0
            # left of 0: H(x) = 1 - e^x + e^x H(-x), so -H'(x) = e^x [1 - H(-x) - e^-x Phi(b)]
            slope = np.where(left, np.exp(x) * (1 - value - upper), upper)
            value = np.where(left, -np.expm1(x) + np.exp(x) * value, value)
            gap = np.log(value) - goal
            low, high = np.where(gap > 0, x, low), np.where(gap > 0, high, x)
            step = x + gap * value / slope
            new = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
            moved, x = np.abs(new - x), new
            if np.all(moved <= 1e-13 * (np.abs(x) + mu)):
                break
    return np.asarray(x)


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
    s1, s2 = enclose(sigma=sigma), enclose(other_sigma=other_sigma)
    for name, given, read in (("sigma", sigma, s1), ("other_sigma", other_sigma, s2)):
        if not np.all(read.lower > 0):
            raise ParameterError(name, given, "must be positive")
    a = read_order(order)
    if np.any(np.isinf(a.upper)):
        raise ParameterError("order", order, "must be finite", remedy="use gaussian_pair(...).max_divergence()")
    gap = square((enclose(mean=mean) - enclose(other_mean=other_mean)) / s2)
    r = squared_excess(numerator=sigma, denominator=other_sigma, names=("sigma", "other_sigma"))
    unit = a.lower == 1
    order_gap = where(unit, 1.0, a - 1)
    # s*^2 / s2^2 = 1 - (a-1) r; the two logarithms lose their linear parts, which cancel exactly
    inner = -order_gap * r
    with np.errstate(all="ignore"):
        shape = 0.5 * log_excess(inner.at_least(-1)) / order_gap + 0.5 * log_excess(r.at_least(-1))
        value = shape + a * gap / (2 * (1 + inner))
    value = where(unit, 0.5 * log_excess(r.at_least(-1)) + 0.5 * gap, where(inner.upper <= -1, np.inf, value))
    value = Enclosure(value.lower, np.where((inner.lower <= -1) & ~unit, np.inf, value.upper))
    return value.at_least(0).interval("normal Renyi, closed form")
