"""Renyi divergence of the Poisson-subsampled Gaussian: (1-q) N(0, s^2) + q N(1, s^2) against N(0, s^2).

This direction (one person removed) is the larger of the two at every order >= 1 (Mironov, Talwar, Zhang 2019,
Theorem 5 and Corollary 7), so it prices both. Integer orders: a finite sum of positive terms. Others: the trapezoidal
rule, whose error for an integrand analytic in the strip |Im x| < pi s^2 is bounded before it is computed. With
t = dP/dQ both sum Q [t^a - 1 - a (t - 1)], which is non-negative, so nothing cancels at small rates.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin.checks import positive, probability
from neartwin.divergences.binomial import log_choose
from neartwin.divergences.enclosure import (
    Certified,
    Enclosure,
    Numeric,
    enclose,
    exp,
    expm1,
    log,
    log1p,
    log_fraction,
    square,
    where,
    widened,
)
from neartwin.divergences.pairs import read_order
from neartwin.divergences.series import exp_excess, kl_excess
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, rational
from neartwin.special import log_ndtr

_LARGEST_SUM = 4096  # integer orders above take the quadrature


def subsampled_gaussian_renyi(*, rate: Number, noise_multiplier: Number, order: Numeric) -> Certified:
    """Renyi divergence of one step at each order, in nats; an upper bound for add and for remove at orders >= 1.

    rate: the Poisson sampling probability q; noise_multiplier: s, sigma over the sensitivity; order: at least 1, any
    shape, fractions and infinity taken.

    >>> subsampled_gaussian_renyi(rate="0.01", noise_multiplier=4, order=32).upper
    0.00010526...
    """
    step = _Step(
        probability(rate=rational(rate=rate)), positive(noise_multiplier=rational(noise_multiplier=noise_multiplier))
    )
    read = read_order(order)
    if np.any(read.upper < 1):
        raise ParameterError("order", order, "must be at least 1")
    at = {a: step.renyi(a) for a in {*np.ravel(read.lower).tolist(), *np.ravel(read.upper).tolist()}}
    lower = np.array([float(at[a].lower) for a in np.ravel(read.lower).tolist()])
    upper = np.array([float(at[a].upper) for a in np.ravel(read.upper).tolist()])
    value = Enclosure(lower.reshape(read.shape), upper.reshape(read.shape)).at_least(0)
    return value.interval("subsampled Gaussian Renyi, finite sum or certified quadrature")


@dataclass(frozen=True, slots=True)
class _Step:
    rate: Fraction
    sigma: Fraction

    def renyi(self, order: float) -> Enclosure:
        """At one order in [1, inf]."""
        if self.rate == 0:
            return Enclosure.of(0.0)
        if self.rate == 1:
            precision = enclose(precision=1 / (2 * self.sigma**2))
            return order * precision if order < math.inf else Enclosure.of(math.inf)
        if order == math.inf:
            return Enclosure.of(math.inf)
        if order == 1:
            # increasing in the order: its neighbours enclose it
            return Enclosure(self._quadrature(1 - 2.0**-20).lower, self._quadrature(1 + 2.0**-20).upper)
        if order == int(order) and order <= _LARGEST_SUM:
            return self._finite_sum(int(order))
        return self._quadrature(order)

    def _finite_sum(self, order: int) -> Enclosure:
        """ln(1 + sum_{k>=2} C(a,k) (1-q)^(a-k) q^k (e^(k(k-1)/(2 s^2)) - 1)) / (a - 1)."""
        k = np.arange(2, order + 1)
        logs = log_choose(order)[2:] + Enclosure.of(k * 1.0) * log_fraction(self.rate)
        logs = logs + Enclosure.of((order - k) * 1.0) * log_fraction(1 - self.rate)
        growth = Enclosure.of(k * (k - 1.0)) * enclose(half=1 / (2 * self.sigma**2))
        whole = logs + growth
        if float(np.max(whole.upper)) < 600:
            mild = growth.upper <= 1
            grown = exp(where(mild, 0.0, whole)) - exp(logs)
            terms = where(mild, exp(logs) * expm1(where(mild, growth, 0.0)), grown)
            return log1p(terms.sum()) / float(order - 1)
        peak = float(np.max(whole.upper))
        # the terms k = 0, 1 are below 1 together
        total = exp(whole - peak).sum() + Enclosure(np.asarray(0.0), np.exp(np.asarray(-peak)))
        return (log(total) + peak) / float(order - 1)

    def _quadrature(self, order: float) -> Enclosure:
        rule = _Trapezoid.fitted(float(self.rate), float(self.sigma), order)
        nodes = Enclosure.of(rule.nodes())
        s2 = enclose(s2=self.sigma**2)
        gain = (nodes - 0.5) / s2
        q, kept = enclose(q=self.rate), enclose(kept=1 - self.rate)
        with np.errstate(all="ignore"):
            near = log1p(q * expm1(gain.at_most(1)))
            far = gain + log(q) + log1p(kept / q * exp(-gain.at_least(-600)))
            loss = where(gain.middle <= 1, near, far)
            scale = log(enclose(sigma=self.sigma)) + 0.5 * log(widened(np.asarray(2 * math.pi), 1))
            log_mass = loss - 0.5 * square(nodes) / s2 - scale
            power = (order - 1) * loss
            mass = exp(log_mass)
            small = mass * exp_excess(power.at_most(1).at_least(-1e4))
            large = exp(log_mass + power) - mass * (1 + power)
            linear = where(np.abs(loss.middle) <= 1, mass * kl_excess(loss), mass * (loss - 1) + exp(log_mass - loss))
            terms = where(power.middle <= 1, small, large) + (order - 1) * linear
        total = terms.sum() * rule.step
        error = rule.relative_error() * (1 + np.abs(float(total.upper)) + 2 * order) * 1.01
        tail = rule.tail()
        low, high = total.lower - error - (tail if order < 1 else 0.0), total.upper + error + tail
        if not math.isfinite(float(total.upper)):
            return _log_domain(log_mass + power, rule, order)
        return log1p(Enclosure(low, high)) / Enclosure.of(order - 1)


def _log_domain(exponents: Enclosure, rule: "_Trapezoid", order: float) -> Enclosure:
    """The logarithm of the whole moment where it is too large for a float."""
    peak = float(np.max(exponents.upper))
    total = exp(exponents - peak).sum() * rule.step
    error = 2 * rule.relative_error()  # relative to the moment itself
    spread = Enclosure(total.lower * (1 - error), total.upper * (1 + error) + rule.tail(-peak))
    return (log(spread) + peak) / Enclosure.of(order - 1)


@dataclass(frozen=True, slots=True)
class _Trapezoid:
    """Nodes k step, first <= k <= last, for the moment of one order; step has few bits, so that nodes are exact."""

    rate: float
    sigma: float
    order: float
    angle: float
    step: float
    first: int
    last: int

    @staticmethod
    def fitted(rate: float, sigma: float, order: float) -> "_Trapezoid":
        """A step and a range whose errors are far below the rounding of the smallest moment of interest."""
        wanted = 45 + 2 * abs(math.log(rate)) + abs(math.log(abs(order - 1))) + 2 * abs(math.log(sigma))
        angle = min(0.75 * math.pi, math.sqrt(2 * wanted) / sigma)
        raw = 2 * math.pi * angle * sigma**2 / (wanted + angle**2 * sigma**2 / 2)
        step = 2.0 ** math.floor(math.log2(raw))
        reach = math.sqrt(2 * (wanted + max(0.0, order - 1) * abs(math.log(rate)))) * sigma
        return _Trapezoid(
            rate, sigma, order, angle, step, -math.ceil(reach / step), math.ceil((reach + max(order, 1.0)) / step)
        )

    def nodes(self) -> FloatArray:
        return np.arange(self.first, self.last + 1, dtype=np.float64) * self.step

    def relative_error(self) -> float:
        """|rule - integral| / integral for t^a, at most: 2 e^(th^2 s^2 / 2) / (e^(2 pi th s^2 / h) - 1)."""
        strip = 2 * math.pi * self.angle * self.sigma**2 / self.step * (1 - 1e-12)
        return 2.1 * math.exp(self.angle**2 * self.sigma**2 / 2 * (1 + 1e-12) - strip)

    def tail(self, log_scale: float = 0.0) -> float:
        """What the nodes left out can add: t^a <= (1-q) + q e^(a y) for a >= 1 (t^a <= 1 + t below), and a - 1 or 1."""
        left, right = -(self.first + 1) * self.step / self.sigma, (self.last - 1) * self.step
        a = max(self.order, 1.0)
        growth = math.log(self.rate) + a * (a - 1) / (2 * self.sigma**2) + log_scale
        beyond = float(log_ndtr(-(right - a) / self.sigma))
        plain = math.exp(float(log_ndtr(-right / self.sigma)) + log_scale) + math.exp(
            float(log_ndtr(-left)) + log_scale
        )
        return 1.01 * (2 * (a + 1) * plain + (math.exp(min(growth + beyond, 700.0))) * 2)
