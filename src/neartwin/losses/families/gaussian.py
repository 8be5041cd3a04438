"""The Gaussian mechanism, the same on a Poisson sample, and mixtures of Gaussians.

**Gaussian.** mu-GDP: L ~ N(mu^2/2, mu^2) in both directions, and any number of them is one with sum of mu^2.
M(s) = exp(mu^2 s(s+1)/2), so |M(tilt+it)/M(tilt)| = exp(-mu^2 t^2/2): one Gaussian in a mix certifies everything else.
Dong, Roth, Su 2022, section 2; Balle, Wang 2018, theorem 8.

**On a sample.** One direction at a time: both of add/remove, and replace-one.

The pairs and their transforms are (S1). The nodes of the quadrature are cut by (S2), and its step follows from (S4), or from
(S5) where seldom sampled. One number bounds all higher frequencies (S3).

**Mixtures.** A unit moves the answer by one of several distances, chosen at random and in secret. That is DP-SGD as a group on
Poisson batches meets it, a step that sums several batches, and many a scheme of sampling. The losses go the sampled
Gaussian's way, with a mixture for its ratio r: (S16) to (S19). Equations: docs/proofs/losses-sampled.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from neartwin import balls
from neartwin.checks import in_floats, sampling_rate, several
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, floats_around, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.families.noise_schedule import NoiseSchedule, Rows
from neartwin.losses.families.rare_participation import LADDER
from neartwin.losses.summands.atoms import SHARED, Layout, QuadratureSum, Weighted
from neartwin.losses.summands.base import UNBOUNDED, Direction, MaximumLoss, Pair, Summand, no_replacement
from neartwin.losses.summands.closed_forms import gaussian_delta, half_line_delta, half_line_epsilon
from neartwin.losses.summands.rounding import ELEMENTARY, SMALLEST, ComplexArray, NoCertificateError, U, few_bits, gamma
from neartwin.special import erfcx, log_ndtr, ndtri

ANGLES = np.pi * np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97])
TURNS = np.array([0.2, 0.4, 0.6, 0.8])  # angles tried, as shares of the one that brings tilt' to 0
QUARTER = 0.5 * math.pi * (1 - 1e-12)
STRIPS = np.geomspace(0.25, 1.5, 8)  # strips tried, as shares of about the best
INSIDE = np.array([0.25, 0.5, 0.75, 0.9, 0.98])  # strips tried, as shares of the one that a quarter turn leaves
NEGATIVE = {"remove": 0.0, "add": 1.0, "replace": 1.0}  # the negative power of r or r~, over the tilt
PLACES = np.linspace(-30.0, 3.0, 67)  # the a at which E X is bounded from below
SMALL = 1e-3  # of errors of first order
GENTLE = 0.25  # mu below which a tilt moves the law so little that more tilts share their nodes
FAR = np.geomspace(1e-3, 1.5, 16)  # shifts tried where a Gaussian's best is no guide; below pi/2
RANGE = 4  # of mu in one schedule, between its powers
MOST_SHIFTS, LEAST_WEIGHT = 64, Fraction(1, 10**300)  # of a mixture
NEARLY_ALL = Fraction(1, 10**6)  # who stays out of a sample, below which a mixture knows that to more digits
OfAngles = Callable[[FloatArray], FloatArray]
Law = tuple[tuple[Fraction, Fraction], ...]  # distances in deviations of the noise, rising, with their probabilities


class GaussianSum(Summand):
    """Gaussians whose squared mu add up to `mu2`."""

    has_closed_form = True

    def __init__(self, mu2: Fraction | float) -> None:
        """mu2: exact, or its nearest float: it errs by U."""
        self.mu2 = float(mu2)

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """K = mu^2 tilt(tilt+1)/2 and its derivatives."""
        return 0.5 * self.mu2 * tilt * (tilt + 1), self.mu2 * (tilt + 0.5), self.mu2

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """Four correctly rounded operations and the rounding of mu2."""
        value = 0.5 * self.mu2 * tilt * (tilt + 1)
        return value, 8 * U * value

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """-mu^2 t^2/2 + i mu^2 t (tilt + 1/2), each product of four factors; t itself may err by 4U."""
        real, imaginary = t * t * (-0.5 * self.mu2), t * (self.mu2 * (tilt + 0.5))
        return real + 1j * imaginary, (imaginary - real) * (16 * U)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """Exact and decreasing in t."""
        return -0.5 * self.mu2 * t * t * (1 - 16 * U)

    def log_modulus_bound(self, tilt: float, t: FloatArray, width: float, enough: FloatArray) -> FloatArray:
        """Exact at the nearest t."""
        return np.square(np.maximum(t - width, 0.0)) * (-0.5 * self.mu2 * (1 - 32 * U))

    def zcdp_tail(self, s: float) -> float:
        """mu^2/2 at every order."""
        return 0.5 * self.mu2 * (1 + 4 * U)

    def root(self, delta: float) -> tuple[float, float] | None:
        """Newton on the logarithm of delta, in plain floats; e^eps and the tail that it multiplies would leave their range."""
        mu, log = math.sqrt(self.mu2), math.log(delta)
        e = 0.5 * self.mu2 - mu * float(ndtri(min(delta * (2 + 1 / mu), 0.5)))
        for _ in range(30):
            near, far = (e / mu - mu / 2) / math.sqrt(2), (e / mu + mu / 2) / math.sqrt(2)  # far^2 - near^2 = e
            p, q = 0.5 * math.erfc(near), 0.5 * math.exp(-near * near) * float(erfcx(far))
            if not (p > q > 0):
                return None
            move = (math.log(p - q) - log) * (p - q) / q
            e += max(-2 * mu, min(2 * mu, move))
            if abs(move) <= 1e-13 * (abs(e) + 1e-3):
                return e, q / (p - q)
        return e, q / (p - q)

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The closed form; mu errs by 2U, which moves delta by at most mu phi(0) 2U relative to its own slope in mu."""
        mu = math.sqrt(self.mu2)
        lower, upper = gaussian_delta(mu, eps)
        # d delta / d mu = phi(a) exactly, so 2U mu phi(a) covers the rounding of mu
        slope = np.exp(-0.5 * np.square(np.maximum(eps / mu - mu / 2, 0.0) * (1 - 1e-9))) * 3 * U * mu
        return np.maximum(lower - slope, 0.0), np.minimum(upper + slope, 1.0)


@dataclass(frozen=True, slots=True)
class GaussianPair(Pair):
    """N(mu, 1) against N(0, 1); the same law of losses in both directions."""

    merges: ClassVar[float] = 2

    mu: Fraction

    def repeated(self, count: int) -> Summand:
        """Mu^2 adds."""
        return GaussianSum(count * self.mu**2)

    def gaussian(self) -> Fraction:
        """Itself."""
        return self.mu**2

    @classmethod
    def merged(cls, uses: Sequence[tuple[GaussianPair, int]]) -> list[Summand]:
        """All Gaussians are one: mu^2 adds."""
        squares: dict[int, int] = {}  # by the denominator of mu, so that whole numbers do most of the adding
        for pair, count in uses:
            top, bottom = pair.mu.as_integer_ratio()
            squares[bottom] = squares.get(bottom, 0) + count * top * top
        whole = math.lcm(*[bottom * bottom for bottom in squares])
        top = sum([top * (whole // (bottom * bottom)) for bottom, top in squares.items()])
        return [GaussianSum(top / whole)]  # whole numbers divide to the nearest float


@dataclass(frozen=True, slots=True, init=False)
class Gaussian(PrivacyLoss):
    """The Gaussian mechanism, equivalently a mechanism that is exactly mu-GDP: mu = sensitivity / sigma.

    Errors: `ParameterError` unless mu is finite and positive. Dong, Roth, Su 2022, theorem 2.7.

    >>> 0.12693673750664397 in Gaussian(mu=1).__mul__(1).delta(1.0)
    True
    """

    both_ways: ClassVar[bool] = True
    mu: Fraction

    def __init__(self, *, mu: Number) -> None:
        """mu: l2 sensitivity over the standard deviation of the noise."""
        object.__setattr__(self, "mu", in_floats(mu=rational(mu=mu)))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction."""
        return GaussianPair(self.mu)

    def stated_rho(self) -> Fraction | None:
        """Bun, Steinke 2016, proposition 1.6."""
        return self.mu**2 / 2


@dataclass(frozen=True, slots=True)
class Strip:
    """One law of one direction: order is remove, add or replace."""

    mu: float
    q: float
    direction: Direction
    # of angles: the tilt that one unit of |t| takes (S5), and the widest strip beside (S3), a quarter turn and no zero of r
    turn: OfAngles = field(default=np.sin, kw_only=True)
    widest: OfAngles = field(default=lambda theta: np.minimum(0.95 * (math.pi - theta), QUARTER), kw_only=True)

    def hidden(self, tilt: float) -> float:
        """An upper bound on -log E X of (S5), rising in tilt."""
        if self.direction == "remove":
            return 0.0
        result = -tilt * math.log1p(-self.q)
        if self.direction == "add" and result > 1:
            k = self.q / (1 - self.q) * np.exp(self.mu * PLACES - 0.5 * self.mu**2)
            result = min(result, float(np.min(tilt * np.log1p(k) - log_ndtr(PLACES))))
        return result * (1 + 1e-9)

    def step(self, low: float, high: float, t: float, log_goal: float) -> float:
        """The widest step whose error is below a goal; of so few bits that nodes are exact.

        The integrand grows by (S4) or (S5), where 1 - tilt'/tilt falls in tilt.

        Args:
            low: The least tilt.
            high: The greatest tilt.
            t: The greatest |t|.
            log_goal: Logarithm of the error allowed, relative to M(tilt).
        """
        theta = np.append(ANGLES, math.atan2(low, t) * TURNS) if self.direction == "add" and low > 0 else ANGLES
        theta = np.minimum(theta, 40 * self.mu)
        turned = (2 if self.direction == "replace" else 1) * t * theta
        often = turned - high * NEGATIVE[self.direction] * np.log(np.cos(theta / 2))
        if self.direction == "add":
            share = 1 - np.cos(theta) + t * self.turn(theta) / max(low, SMALLEST)
            seldom = np.where(share <= 1, share * self.hidden(high), np.inf)
        else:
            seldom = turned + (1 - np.cos(theta)) * self.hidden(high)
        y, cost = theta / self.mu, math.log(2) - log_goal + 0.01
        log_grown = 0.5 * y * y + np.minimum(often, np.where(theta < QUARTER, seldom, np.inf))
        wide = float((2 * math.pi * y / (cost + log_grown)).max())
        if not 0 < wide < math.inf:
            raise NoCertificateError
        return few_bits(wide, 6)

    def log_rule_error(self, step: float, tilt: float, theta: FloatArray) -> FloatArray:
        """Log of what the rule errs by in the integral of B(t) (S3), over M(tilt) e^{y^2/2}: the best of some strips eta.

        e^{-x} stands for 1/(e^x - 1). Where that is less than a quarter too small, four times the bound proves nothing.

        Args:
            step: The rule's step.
            tilt: Above 0.
            theta: Angles of the shift, (angles,).
        """
        negative, hidden = tilt * NEGATIVE[self.direction], self.hidden(tilt)
        widest = self.widest(theta)[:, None] / self.mu
        falls = np.array([negative / 4, min(negative / 4, hidden)]) * self.mu**2
        best = 2 * math.pi / step / (1 + falls)  # of e^{eta^2 (1 + fall)/2 - 2 pi eta/h}, small eta
        eta = np.append(np.multiply.outer(best, STRIPS), 2 * math.pi / step)
        # up to the quarter turn within which a seldom sampled law is bounded
        inside = (np.maximum(QUARTER - theta, 0.0) / self.mu)[:, None] * INSIDE
        eta = np.minimum(widest, np.hstack([np.broadcast_to(eta, (len(theta), len(eta))), inside]))
        turned = theta[:, None] + eta * self.mu
        seldom = np.where(turned < QUARTER, (1 - np.cos(turned)) * hidden, np.inf)
        strip = math.log(2) + 0.5 * eta * eta + np.minimum(-negative * np.log(np.cos(turned / 2)), seldom)
        least: FloatArray = np.min(strip - 2 * math.pi * eta / step, axis=1) + 1e-9
        return least


class NormalRatioSum(QuadratureSum):
    """`count` steps of one direction of P = r phi against Q = phi, r a mixture of normal likelihood ratios."""

    def __init__(self, strip: Strip, count: int, top: MaximumLoss, variation: float) -> None:
        """variation: an upper bound on the total variation of the whole."""
        self.strip, self.mu, self.count, self.top, self.variation = strip, strip.mu, count, top, variation
        self.direction = strip.direction
        self.turns = 2 if self.direction == "replace" else 1
        self.goal = math.log(2.0**-58 / max(count, 1))

    @abstractmethod
    def log_ratio(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log r(u) and a bound on its error."""

    @abstractmethod
    def ends(self, low: float, high: float) -> tuple[float, float]:
        """Nodes in [left, right] leave out at most e^goal of M(tilt), twice over (at tilt and 0), low <= tilt <= high.

        Args:
            low: The least tilt.
            high: The greatest tilt.
        """

    @abstractmethod
    def turned(self, u: FloatArray, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log |r(u + iy)| - log r(u) and arg r(u + iy), y = theta/mu, and the relative error of both.

        Args:
            u: Nodes, (n,).
            theta: Angles below pi/2, (angles,).

        Returns:
            Two of (angles, n), and (n,).
        """

    def law(self, u: FloatArray, step: float) -> Weighted:
        """Losses and P-masses at the nodes; the rounding of u^2/2 costs U u^2 in the density."""
        plus, plus_error = self.log_ratio(u)
        log_density = -0.5 * u * u
        density_error = 2 * U * u * u + 3 * ELEMENTARY
        constant = math.log(step) - 0.5 * math.log(2 * math.pi)
        if self.direction == "add":
            return Weighted(-plus, constant + log_density, density_error, plus_error)
        minus, minus_error = self.log_ratio(-u) if self.direction == "replace" else (np.zeros_like(u), np.zeros_like(u))
        return Weighted(
            plus - minus,
            constant + log_density + plus,
            density_error + plus_error + U * np.abs(plus),
            plus_error + minus_error,
        )

    def layout(self, low: float, high: float, reach: float) -> Layout:
        """Equal steps over the range that matters; the strip's bound grows with tilt."""
        left, right = self.ends(low, high)
        step = self.strip.step(low, high, reach, self.goal)
        return Layout(low, high, reach, math.ceil((right - left) / step), step, (left, right), self.goal)

    def nodes(self, layout: Layout) -> tuple[FloatArray, Weighted]:
        """All of them."""
        u = layout.places()
        return u, replace(self.law(u, layout.step), outside=4 * math.exp(layout.log_error))

    @np.errstate(all="ignore")
    def log_tail(self, tilt: float, t: float, until: float, rows: Rows | None = None) -> float:
        """Sum of n log (B(t)/M(tilt)) of (S3), for all laws of its x (S23) or this alone: each at the best of a few shifts.

        A term is w e^{a m - t g}, m the modulus and g the argument of `turned`, which err as that states. A weight errs as in
        `Tilted`, and sums by gamma. Rounded up.

        Args:
            tilt: Above 0.
            t: The least t'.
            until: The greatest t', which decides nothing.
            rows: Those laws; None for this alone.
        """
        if t <= 0:
            return 0.0
        if rows is None:
            nodes = self._nodes(tilt, 0.0)
            law, weights = nodes.weighted, nodes.tilted(tilt).shifted.weights
            own = law.mass_error + tilt * law.loss_error + 8 * U * tilt * np.abs(law.losses) + 4 * ELEMENTARY
            own = own + 2 * U * np.abs(law.log_masses) + 4 * U * abs(float((law.log_masses + tilt * law.losses).max()))
            whole = np.array([1.01 * float(own.max() + weights @ own) + 4 * gamma(len(weights))])
            rows = Rows(nodes, np.array([float(self.count)]), np.array([self.mu]), weights[None], whole)
        nodes, n, mu, weights, moved = rows
        u, law = nodes.at, nodes.weighted
        step = float(u[1] - u[0])
        # theta of the Gaussian approximation, which decides shifts alone
        centres = (t / self.mu / step) * np.square(mu) * (weights[:, 1:] @ np.abs(np.diff(law.losses)))
        most = 1.2 * float(centres.max())
        near = max(0.5 * float(centres.min()), 0.02 * most)
        last = 3 if len(mu) == 1 else 7
        theta = near * (most / near) ** (np.arange(last + 1) / last) if 0 < most < 1.2 else FAR
        exponent, turned = np.zeros((2, len(theta), len(u)))
        for sign in (1.0, -1.0) if self.direction == "replace" else (1.0,):
            modulus, argument, relative = self.turned(sign * u, theta)
            power = 1 + tilt if sign > 0 and self.direction != "add" else -tilt
            exponent += power * modulus - t * argument
            turned += (abs(power) * np.abs(modulus) + t * argument) * relative
        moved = moved + float(turned.max())
        outside = np.exp(np.minimum(self.strip.log_rule_error(step, tilt, theta), 700.0)) + law.outside
        above = (weights @ np.exp(np.minimum(exponent, 700.0)).T) * (1 + 1.01 * moved[:, None]) + 4 * outside
        logs = np.multiply.outer(0.5 / np.square(mu), theta * theta) * (1 + 16 * U) + np.log(above)
        least = np.where(exponent.max(axis=1) > 700.0, np.inf, logs).min(axis=1)
        # above 0 it proves nothing
        return float(n @ np.where(moved < SMALL, np.minimum(least, 0.0), 0.0)) * (1 - 1e-12)

    def zcdp_tail(self, s: float) -> float:
        """No more than at the greatest distance: a mixture of pairs, and Renyi divergence is quasi-convex."""
        own = 0.5 * self.count * (self.turns * self.mu) ** 2 * (1 + 16 * U)
        return min(own, super().zcdp_tail(s))


def log_mixed(x: FloatArray, moved: FloatArray, q: float) -> tuple[FloatArray, FloatArray]:
    """Log(1 - q + q e^x) and a bound on its error, through d log r/dx = q e^x / r <= 1.

    Z = q (e^x - 1) errs relatively, by q's 4U, by ELEMENTARY and by a product. That moves the logarithm of 1 + z by z/(1 + z) of
    it, which is much where q is near 1 and x low. Beyond the floats it is x + log q, and |log q| is at most 745.

    Args:
        x: Logarithms of ratios, (n,).
        moved: Bounds on their errors, (n,).
        q: The sampling rate, which errs by 4U of itself.
    """
    z = q * np.expm1(np.minimum(x, 700.0))
    value, share = np.log1p(z), np.maximum(z + q, 0.0) / (1 + z)
    error = share * moved + (ELEMENTARY + 8 * U) * np.abs(z) / (1 + z) + 1.1 * ELEMENTARY * np.abs(value)
    far = x > 700
    if far.any():
        value = np.where(far, x + math.log(q) + np.log1p((1 - q) / q * np.exp(-np.maximum(x, 700.0))), value)
        error += np.where(far, 2 * ELEMENTARY * x, 0.0)
    return value, error


class SubsampledGaussianSum(NormalRatioSum):
    """`count` steps of one direction."""

    def __init__(self, mu: Fraction, rate: Fraction, count: int, direction: Direction) -> None:
        """mu: sensitivity over sigma; rate: the sampling probability, strictly between 0 and 1."""
        self.q = float(rate)
        below, above = floats_around(rate)
        least, reach = (-count * math.log1p(-end) if end < 1 else math.inf for end in (below, above))
        bounded = MaximumLoss(reach * (1 + ELEMENTARY), 0.0, least * (1 - ELEMENTARY))
        strip = Strip(float(mu), self.q, "replace" if direction == "replace_back" else direction)
        # P and Q are equal unless the unit takes part, and then so far apart as two normal laws are
        apart = math.erf(float(mu) / math.sqrt(8) * (1 if direction in ("remove", "add") else 2))
        variation = min(count * above * apart * (1 + 1e-12), 1.0)
        super().__init__(strip, count, bounded if direction == "add" else UNBOUNDED, variation)
        self.exact, self.shifts = (mu, rate), np.array([self.mu])
        self.odds = np.array([math.log(self.q / (1 - self.q))])
        self.shares = True
        self.ladder = None if direction == "add" else LADDER  # under add no loss is great
        self.shared = 4 * SHARED if self.mu <= GENTLE else SHARED

    # -- the loss and the P-density over phi, at nodes -------------------------------------------------------------
    def log_ratio(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log r(u) and a bound on its error; x errs by 4U, relative, of q and mu."""
        x = self.mu * u - 0.5 * self.mu**2
        return log_mixed(x, 6 * U * (np.abs(self.mu * u) + self.mu**2), self.q)

    def log_ratio_at(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log(1 - q + q e^x) and a bound on its error, x exact."""
        return log_mixed(x, np.zeros_like(x), self.q)

    # -- the rule -----------------------------------------------------------------------------------------------------
    def ends(self, low: float, high: float) -> tuple[float, float]:
        """The cut of (S2). Its width and z grow with tilt, so both ends at high serve; the left centre is taken at low."""
        mu, q, tilt = self.mu, self.q, high
        width = math.sqrt(-2 * self.goal) + 0.5
        if self.direction == "add":
            width = math.sqrt(2 * (self.strip.hidden(tilt) - self.goal)) + 0.5  # X <= 1
            return -width, width
        a = 1 + tilt
        right = width + (mu if self.direction == "replace" else 0.0)
        left = -width
        power = -tilt * math.log1p(-q) if self.direction == "replace" else 0.0  # r~^{-tilt} <= (1-q)^{-tilt}
        height = math.log(q) + 0.5 * tilt * a * mu * mu
        floor = max(0.0, a * math.log(q) + 0.5 * tilt * a * mu * mu) if self.direction == "remove" else 0.0
        z = math.sqrt(max(0.0, 2 * (height + power - floor - self.goal))) + 0.5
        right = max(right, math.sqrt(2 * (power - self.goal)) + 0.5, a * mu + z)
        left = min(left, -math.sqrt(2 * (power - self.goal)) - 0.5, (1 + low) * mu - z)
        return left, right

    def turned(self, u: FloatArray, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log |r(u + iy)| - log r(u) and g = arg r(u + iy), each (len(theta), len(u)), and the relative error of both, (len(u),).

        |r(u+iy)|^2 = r(u)^2 (1 - D), D = 4 q(1-q) e^x sin^2(theta/2)/r(u)^2: no cancellation near theta = 0.
        theta <= pi/2, so D <= 1/2, and both parts of r(u+iy) are sums of positive numbers. x errs by 4U(|mu u| + mu^2), and by no
        more again where u = x/mu + mu/2 is computed, q and
        1-q relatively by U/(1-q), sin, cos, exp and atan2 by ELEMENTARY. D and g depend on k = q e^x/(1-q) alone, and a relative
        error of k becomes at most the same of D, since |d log D/d log k| = |1-k|/(1+k), and of g, since dg/dlog k =
        (1-q) sin(g)/|r(u+iy)| <= g. A relative error of D becomes one of log1p(-D) at most 3/2 as large: D/(1-D) <=
        3/2 log 1/(1-D) for D <= 1/2. Products, sums and atan2 are covered by the rest of the constant.
        """
        grown = self.q * np.exp(np.minimum(self.mu * u - 0.5 * self.mu**2, 600.0))
        plain = 1 - self.q + grown
        drop = 4 * np.multiply.outer(np.square(np.sin(theta / 2)), (1 - self.q) * grown / np.square(plain))
        modulus = 0.5 * np.log1p(-np.minimum(drop, 0.5))
        height = np.multiply.outer(np.sin(theta), grown)
        base = (1 - self.q) + np.multiply.outer(np.cos(theta), grown)
        relative = 1.5 * (5 * ELEMENTARY + 16 * U + 2 * U / (1 - self.q) + 8 * U * (np.abs(self.mu * u) + self.mu**2))
        return modulus, np.arctan2(height, base), relative

    # -- one step: the hockey-stick itself ---------------------------------------------------------------------------
    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """One step, by its half-line."""
        return half_line_delta(self._one_step, eps) if self.count == 1 else None

    def inverse(self, low_delta: float, high_delta: float) -> tuple[float, float] | None:
        """One step, by its half-line; no loss is as great as `most` but with less probability than the low delta."""
        x = self.mu * (math.sqrt(-2 * math.log(low_delta)) + 1 + self.mu)  # no less than |log z| there
        most = x - math.log(self.q) if self.direction == "add" else np.logaddexp(0.0, x + math.log(self.q))
        most -= math.log1p(-self.q)
        return half_line_epsilon(self._one_step, low_delta, high_delta, min(float(most), 1.01 * self.top.loss))

    def _one_step(self, eps: float) -> Any:
        """Delta of one step at one eps, a ball. With v = q z at the threshold u of {L > eps}, remove and add,

            q Phi(mu - u) - v Phi(-u),    e^eps (v Phi(u) - q Phi(u - mu)),    v = e^{+-eps} - 1 + q = q e^{mu u - mu^2/2};
        under replace z = e^{mu u} solves q a z^2 - (1-q)(e^eps - 1) z - q a e^eps = 0, a = e^{-mu^2/2}.
        """
        (mu, q), x = map(balls.ball, self.exact), balls.ball(eps)
        if self.direction == "replace":
            a, half = q * (-mu * mu / 2).exp(), (1 - q) * x.expm1() / 2
            u = ((half + (half * half + a * a * x.exp()).sqrt()) / a).log() / mu
            one, other, both = (balls.normal_cdf(mu - u), balls.normal_cdf(-mu - u), balls.normal_cdf(-u))
            return q * (one - x.exp() * other) - (1 - q) * x.expm1() * both
        v = (x if self.direction == "remove" else -x).expm1() + q
        if v <= 0:  # every loss is above eps, or none
            return -x.expm1() if self.direction == "remove" else 0
        u = (v / q).log() / mu + mu / 2
        if self.direction == "remove":
            return q * balls.normal_cdf(mu - u) - v * balls.normal_cdf(-u)
        return x.exp() * (v * balls.normal_cdf(u) - q * balls.normal_cdf(u - mu))


@dataclass(frozen=True, slots=True)
class SubsampledGaussianPair(Pair):
    """One step in one direction."""

    merges: ClassVar[float] = 24
    mu: Fraction
    rate: Fraction
    direction: Direction

    def __hash__(self) -> int:
        """By its ratios: the hash of a fraction takes a power of integers, which schedules would wait for."""
        return hash((self.mu.as_integer_ratio(), self.rate.as_integer_ratio(), self.direction))

    def repeated(self, count: int) -> Summand:
        """The composition."""
        return SubsampledGaussianSum(self.mu, self.rate, count, self.direction)

    @classmethod
    def merged(cls, uses: Sequence[tuple[SubsampledGaussianPair, int]]) -> list[Summand]:
        """A schedule for each rate and range of noises; law by law where few are alike."""
        alike: dict[object, list[tuple[SubsampledGaussianPair, int]]] = {}
        for pair, count in uses:
            kind = pair.rate.as_integer_ratio(), pair.direction, math.floor(math.log(float(pair.mu), RANGE))
            alike.setdefault(kind, []).append((pair, count))
        result: list[Summand] = []
        for some in alike.values():
            many = len(some) >= cls.merges and some[0][0].direction != "replace"
            result += [NoiseSchedule(some)] if many else [pair.repeated(count) for pair, count in some]
        return result


@dataclass(frozen=True, slots=True, init=False)
class SubsampledGaussian(PrivacyLoss):
    """The Gaussian mechanism on a Poisson sample: each unit takes part with probability `rate`, independently.

    mu: how far one unit moves the answer over sigma, mu = sensitivity/sigma under add/remove; under replace-one the
    unit moves from +sensitivity to -sensitivity. The two directions differ; ask for one with `direction`. Not valid for
    shuffled or fixed-size batches (Lebeda, Regehr, Kamath, Steinke 2024). rate = 1 is the Gaussian itself.

    >>> steps = 10_000 * SubsampledGaussian(mu=1, rate="0.01")
    >>> eps = steps.epsilon(1e-5)
    >>> round(eps.lower, 9), round(eps.upper, 9)
    (6.18771239, 6.18771239)
    >>> steps.epsilon(1e-5, direction="add").upper < steps.epsilon(1e-5, direction="remove").lower
    True
    """

    mu: Fraction
    rate: Fraction

    def __init__(self, *, mu: Number, rate: Number) -> None:
        """mu, rate: exact; 0 < rate <= 1."""
        object.__setattr__(self, "mu", in_floats(mu=rational(mu=mu)))
        object.__setattr__(self, "rate", sampling_rate(rate=rational(rate=rate)))

    def __hash__(self) -> int:
        """By its ratios, as of its pair."""
        return hash((self.mu.as_integer_ratio(), self.rate.as_integer_ratio()))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair of this direction; at rate 1 a plain Gaussian (twice as far apart under replace-one)."""
        if self.rate == 1:
            return GaussianPair(2 * self.mu if direction.startswith("replace") else self.mu)
        if self.rate > 1 - NEARLY_ALL and not direction.startswith("replace"):
            return GaussianMixturePair(((Fraction(0), 1 - self.rate), (self.mu, self.rate)), direction)
        return SubsampledGaussianPair(self.mu, self.rate, "replace" if direction == "replace_back" else direction)

    def stated_rho(self) -> Fraction | None:
        """As without sampling: the Renyi divergence of a great order a grows as a mu^2 / 2."""
        return self.mu**2 / 2


@dataclass(frozen=True, slots=True)
class MixtureStrip(Strip):
    """The growth off the real line: mu is the greatest distance, q the probability of any but the least."""

    shifts: tuple[float, ...]
    weights: tuple[float, ...]
    turn: OfAngles = field(default=lambda theta: np.tan(np.minimum(theta, QUARTER)), kw_only=True)  # (S17)
    widest: OfAngles = field(default=lambda theta: np.maximum(QUARTER - theta, 0.0), kw_only=True)  # (S18)

    def hidden(self, tilt: float) -> float:
        """An upper bound on -log E X of (S17); inf where the least distance is not 0."""
        if self.direction == "remove":
            return 0.0
        if self.shifts[0] > 0:
            return math.inf
        grown = np.exp(np.multiply.outer(self.shifts, PLACES) - 0.5 * np.square(self.shifts)[:, None])
        k = np.array(self.weights[1:]) @ grown[1:] / self.weights[0]
        least = min(-tilt * math.log(self.weights[0]), float(np.min(tilt * np.log1p(k) - log_ndtr(PLACES))))
        return least * (1 + 1e-9)


class GaussianMixtureSum(NormalRatioSum):
    """`count` steps of one direction."""

    def __init__(self, law: Law, count: int, direction: Direction) -> None:
        """law: two distances or more, none of them equal."""
        shifts, weights = (tuple(map(float, part)) for part in zip(*law, strict=True))
        self.distances, self.weights = np.array(shifts)[:, None], np.array(weights)[:, None]
        top, variation = UNBOUNDED, 1.0
        if law[0][0] == 0:
            least, reach = (-count * math.log(end) for end in reversed(floats_around(law[0][1])))
            variation = min(count * floats_around(1 - law[0][1])[1], 1.0)
            if direction == "add":
                top = MaximumLoss(reach * (1 + ELEMENTARY), 0.0, least * (1 - ELEMENTARY))
        strip = MixtureStrip(shifts[-1], float(1 - law[0][1]), direction, shifts, weights)
        self.mixture = strip
        super().__init__(strip, count, top, variation)
        self.q = strip.q
        self.shifts, self.odds = self.distances[1:, 0], np.log(self.weights[1:, 0] / self.weights[0, 0])
        self.ladder = LADDER if direction == "remove" and law[0][0] == 0 and 2 * law[0][1] >= 1 else None

    def _parts(self, u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Exponents of the likelihood ratios, bounds on their errors, and the parts' shares of r; each (shifts, nodes)."""
        x = self.distances * u - 0.5 * self.distances**2
        raw = self.weights * np.exp(x - x.max(axis=0))
        return x, 6 * U * (np.abs(self.distances * u) + self.distances**2), raw / raw.sum(axis=0)

    def log_ratio(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(S19): where r and the greatest ratio are near 1, the logarithm of 1 plus the sum of w (e^x - 1)."""
        x, moved, shares = self._parts(u)
        top = x.max(axis=0)
        grown = np.expm1(np.minimum(x, 1.0))
        near = (self.weights * grown).sum(axis=0)
        far = top + np.log((self.weights * np.exp(x - top)).sum(axis=0))
        apart, near = (np.abs(top) > 1) | (near < -0.5), np.maximum(near, -0.5)
        value = np.where(apart, far, np.log1p(near))
        each = ELEMENTARY + (len(x) + 8) * U
        lost = each * (self.weights * np.abs(grown)).sum(axis=0) / (1 + near)
        lost = np.where(apart, each + 2 * U * np.abs(top) + ELEMENTARY * np.abs(value - top), lost)
        return value, 1.01 * ((shares * moved).sum(axis=0) + lost) + 2 * ELEMENTARY * np.abs(value)

    def ends(self, low: float, high: float) -> tuple[float, float]:
        """The cut of (S16)."""
        shifts, weights, tilt = self.mixture.shifts, self.mixture.weights, high
        goal = self.goal - math.log(len(shifts))
        if self.direction == "add":
            if shifts[0] == 0:
                width = math.sqrt(2 * (self.mixture.hidden(tilt) - goal)) + 0.5
                return -width, width
            least = 0.5 * tilt * (1 + tilt) * shifts[0] ** 2 - tilt * math.log(weights[0])
            at_zero = sum(weight * math.exp(-0.5 * shift**2) for shift, weight in zip(shifts, weights, strict=True))
            right = math.sqrt(2 * (tilt * max(-math.log(at_zero), 0.0) - goal)) + 0.5
            return -tilt * shifts[0] - math.sqrt(2 * (least - goal)) - 0.5, right
        a = 1 + tilt
        heights = [math.log(w) + 0.5 * tilt * a * shift**2 for shift, w in zip(shifts, weights, strict=True)]
        floor = max(0.0, *(height + tilt * math.log(w) for height, w in zip(heights, weights, strict=True)))
        left, right = math.inf, -math.inf
        for shift, weight, height in zip(shifts, weights, heights, strict=True):
            far = math.sqrt(max(0.0, 2 * (height - floor - goal))) + 0.5
            near = math.sqrt(max(0.0, 2 * (math.log(weight) - goal))) + 0.5
            left, right = min(left, a * shift - far, shift - near), max(right, a * shift + far, shift + near)
        return left, right

    def turned(self, u: FloatArray, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(S18), in sums of numbers that are not negative."""
        shares, angles = self._parts(u)[2], np.multiply.outer(theta / self.mu, self.distances[:, 0])
        apart = np.square(np.sin(0.5 * (angles[:, :, None] - angles[:, None, :])))
        drop = 2 * np.einsum("tij,in,jn->tn", apart, shares, shares, optimize=True)
        modulus = 0.5 * np.log1p(-np.minimum(drop, 0.5))
        size = np.abs(self.mu * u) + self.mu**2 + len(self.distances)
        relative = 1.5 * (12 * ELEMENTARY + 40 * U * size)
        return modulus, np.arctan2(np.sin(angles) @ shares, np.cos(angles) @ shares), relative


@dataclass(frozen=True, slots=True)
class GaussianMixturePair(Pair):
    """One step in one direction."""

    law: Law
    direction: Direction

    def repeated(self, count: int) -> Summand:
        """The composition."""
        return GaussianMixtureSum(self.law, count, self.direction)


@dataclass(frozen=True, slots=True, init=False)
class GaussianMixture(PrivacyLoss):
    """The mixture of Gaussians: with the unit the answer moves by mu_k with probability w_k; without it, by nothing.

    The pair is sum_k w_k N(mu_k, 1) against N(0, 1). Answers in many dimensions are covered if |v_k| <= mu_k, the mixtures of all
    other units included (S16). Not for replace-one.

    Source:
        Choquette-Choo, Ganesh, Steinke, Thakurta 2024; Ganesh 2024 for groups.

    >>> pairs = GaussianMixture(distances=(0, 1, 2), weights=("0.81", "0.18", "0.01"))  # two units, sampled at a tenth
    >>> round((100 * pairs).epsilon(1e-5).upper, 6)
    16.230882
    """

    law: Law

    def __init__(self, *, distances: Sequence[Number], weights: Sequence[Number]) -> None:
        """One distance for each weight.

        Args:
            distances: How far the answer moves, over the noise's standard deviation, not negative, at most 64 different ones.
            weights: Their probabilities, which sum to 1 exactly.

        Raises:
            ParameterError: A number is out of bounds, or no distance is above 0.
        """
        shifts = [rational(distances=one) for one in several(distances=distances)]  # type: ignore[arg-type]
        masses = [rational(weights=one) for one in several(weights=weights)]  # type: ignore[arg-type]
        if len(shifts) != len(masses):
            raise ParameterError("weights", weights, f"must be as many as the distances, {len(shifts)}")
        if sum(masses) != 1 or any(mass < 0 or 0 < mass < LEAST_WEIGHT for mass in masses):
            raise ParameterError(
                "weights",
                weights,
                "must sum to 1 exactly, none negative or tiny",
                remedy="write fractions, such as '1/3'",
            )
        total: dict[Fraction, Fraction] = {}
        for shift, mass in zip(shifts, masses, strict=True):
            if shift < 0:
                raise ParameterError(
                    "distances", distances, "must hold no negative distance", remedy="take absolute values"
                )
            if mass:
                total[in_floats(distances=shift) if shift else shift] = total.get(shift, Fraction(0)) + mass
        if not any(total):
            raise ParameterError("distances", distances, "must hold a distance above 0 of positive weight")
        if len(total) > MOST_SHIFTS:
            raise ParameterError(
                "distances", f"{len(total)} of them", f"must hold at most {MOST_SHIFTS} different ones"
            )
        object.__setattr__(self, "law", tuple(sorted(total.items())))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair; a plain or a sampled Gaussian where it is one."""
        if direction.startswith("replace"):
            raise no_replacement()
        (least, weight), *rest = self.law
        if not rest:
            return GaussianPair(least)
        if least == 0 and len(rest) == 1 and weight >= NEARLY_ALL:
            return SubsampledGaussianPair(rest[0][0], 1 - weight, direction)
        return GaussianMixturePair(self.law, direction)

    def stated_rho(self) -> Fraction:
        """That of the greatest distance, approached at great orders."""
        return self.law[-1][0] ** 2 / 2

    def sampled(self, rate: Fraction) -> GaussianMixture:
        """The mixture on a Poisson sample.

        Args:
            rate: The probability with which each unit is in the sample.
        """
        shifts, weights = zip(*self.law, strict=True)
        return GaussianMixture(distances=(0, *shifts), weights=(1 - rate, *(rate * weight for weight in weights)))
