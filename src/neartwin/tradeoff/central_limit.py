"""Central limits of composition: a bracket with its conditions, and estimates that are labelled as such.

Dong, Roth, Su 2022, Thm 3.4 takes symmetric f_1, ..., f_n with finite kappa3. Let mu = 2 sum kl / v,
v^2 = sum (kappa2 - kl^2) and gamma = 0.56 sum centred3 / v^3 < 1/2. Then for alpha in [gamma, 1 - gamma]

    G_mu(alpha + gamma) - gamma <= f_1 (x) ... (x) f_n (alpha) <= G_mu(alpha - gamma) + gamma.

G_mu itself, and every limit below, is an `Estimate`: published DP-SGD budgets from it lie below the truth.

The functionals of a curve are moments of the privacy loss. |f'| at the threshold is q/p, so with L = ln p/q under P:
kl = E L, kappa2 = E L^2, kappa3 = E |L|^3 and centred = E |L - kl|^3 (Dong, Roth, Su 2022, section 3). All are
infinite where f(0) < 1: factor f_{0,delta} out first.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from neartwin import domains
from neartwin.balls import Exact, ball, bounds, elementwise, every, normal_cdf, normal_density, pi
from neartwin.checks import non_negative, positive
from neartwin.errors import ParameterError
from neartwin.exact import Estimate, FloatArray, Interval, Number, rational
from neartwin.tradeoff.families import EpsilonDelta, Gaussian, Laplace
from neartwin.tradeoff.functions import Argument, TradeOff, certified, ends, levels, mapped
from neartwin.tradeoff.operations import with_failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """The functionals, each certified. variance = kappa2 - kl^2, computed without that difference where it can be."""

    kl: Interval[float]
    kappa2: Interval[float]
    kappa3: Interval[float]
    centred3: Interval[float]
    variance: Interval[float]


def _each(formulas: Sequence[Callable[[], arb]]) -> Moments:
    """kl, kappa2, kappa3, centred kappa3 and variance by their formulas."""
    kl, kappa2, kappa3, centred3, variance = (Interval(*bounds(formula), "closed form") for formula in formulas)
    return Moments(kl=kl, kappa2=kappa2, kappa3=kappa3, centred3=centred3, variance=variance)


def _of_pure(epsilon: Fraction) -> Moments:
    """The loss is epsilon or -epsilon, with mean epsilon t for t = tanh(epsilon/2)."""

    def t() -> arb:
        return (ball(epsilon) / 2).tanh()

    return _each(
        [
            lambda: ball(epsilon) * t(),
            lambda: ball(epsilon**2),
            lambda: ball(epsilon**3),
            lambda: ball(epsilon**3) * (1 - t() ** 4),
            lambda: ball(epsilon**2) * (1 - t() ** 2),
        ]
    )


def _of_gaussian(square: Fraction) -> Moments:
    """The loss is normal with mean mu^2/2 and variance mu^2."""

    def folded() -> arb:
        z = ball(square).sqrt() / 2
        return (z**3 + 3 * z) * (z / ball(2).sqrt()).erf() + 2 * (z**2 + 2) * normal_density(z)

    return _each(
        [
            lambda: ball(square / 2),
            lambda: ball(square + square**2 / 4),
            lambda: ball(square).sqrt() ** 3 * folded(),
            lambda: 2 * (2 / pi()).sqrt() * ball(square).sqrt() ** 3,
            lambda: ball(square),
        ]
    )


def _of_laplace(shift: Fraction) -> Moments:
    """The loss has atoms 1/2 at s and e^-s/2 at -s, and density e^{(l - s)/2}/4 between."""

    def kl() -> arb:
        return ball(shift) + (-ball(shift)).expm1()

    def mean(power: int, centre: arb) -> arb:
        """E |L - centre|^power; int (l - c)^k e^{l/2} dl = 2 (l - c)^k e^{l/2} - 2 k int (l - c)^{k - 1} e^{l/2} dl."""
        s = ball(shift)

        def primitive(loss: arb) -> Any:
            total, away, raised = ball(1), loss - centre, ball(1)
            for k in range(1, power + 1):
                raised *= away
                total = raised - 2 * k * total
            return 2 * total * ((loss - s) / 2).exp()

        below, at, above = primitive(-s), primitive(centre), primitive(s)
        inner = (above - at) + (-1) ** power * (at - below)
        total: arb = (s - centre) ** power / 2 + (s + centre) ** power * (-s).exp() / 2 + inner / 4
        return total

    return _each([kl, lambda: mean(2, ball(0)), lambda: mean(3, ball(0)), lambda: mean(3, kl()), lambda: mean(2, kl())])


def moments(curve: TradeOff) -> Moments:
    """All functionals of one curve, by closed forms.

    Args:
        curve: The curve, with f(0) = 1: pure, Gaussian or Laplace.

    Returns:
        The functionals.

    Raises:
        ParameterError: f(0) < 1, so the functionals are infinite; or the curve is of another kind.

    >>> from neartwin.tradeoff.families import laplace
    >>> m = moments(laplace(1))
    >>> bool(m.kl.lower <= 0.36787944117144232 <= m.kl.upper)
    True
    """
    match curve:
        case EpsilonDelta(delta_mass=mass) if mass > 0:
            rule, remedy = "must start at f(0) = 1: its moments are infinite", "factor f_{0,delta} out first"
            raise ParameterError("curve", curve, rule, remedy=remedy)
        case EpsilonDelta(epsilon=epsilon):
            return _of_pure(epsilon)
        case Gaussian(mu_squared=square):
            return _of_gaussian(square)
        case Laplace(shift=shift):
            return _of_laplace(shift)
    raise ParameterError("curve", curve, "must be pure, Gaussian or Laplace")


@dataclass(frozen=True, slots=True)
class Normalised:
    """mu and gamma of the theorem, each certified."""

    mu: Interval[float]
    gamma: Interval[float]


def normalised(factors: Sequence[tuple[Moments, int]]) -> Normalised:
    """Mu and gamma of a composition: each factor's moments with how often it stands.

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> from neartwin.tradeoff.central_limit import moments
    >>> n = normalised([(moments(epsilon_delta("0.1")), 100)])
    >>> bool(n.mu.lower <= 1.0004167187531003 <= n.mu.upper)
    True
    """
    if not factors:
        raise ParameterError("factors", factors, "must not be empty")

    def summed(name: str, end: str) -> Fraction | float:
        ends_of = [(getattr(getattr(part, name), end), times) for part, times in factors]
        if any(math.isinf(value) for value, _ in ends_of):
            return math.inf
        return sum((Fraction(value) * times for value, times in ends_of), Fraction(0))

    low, high = ({name: summed(name, end) for name in ("kl", "variance", "centred3")} for end in ("lower", "upper"))
    if not low["variance"] > 0 or math.inf in high.values():
        raise ParameterError("factors", factors, "must have finite third moments and a positive variance")

    def mu(kl: Fraction, variance: Fraction) -> arb:
        return 2 * ball(kl) / ball(variance).sqrt()

    def gamma(third: Fraction, variance: Fraction) -> arb:
        return ball(Fraction(56, 100) * third) / (ball(variance) * ball(variance).sqrt())

    return Normalised(
        Interval(bounds(mu, low["kl"], high["variance"])[0], bounds(mu, high["kl"], low["variance"])[1], "moments"),
        Interval(
            bounds(gamma, low["centred3"], high["variance"])[0],
            bounds(gamma, high["centred3"], low["variance"])[1],
            "moments",
        ),
    )


def _shifted(level: Any, by: float) -> Any:
    """Type I errors moved by a number and cut to [0, 1], exactly."""
    return np.frompyfunc(lambda one: min(max(Fraction(one) + Fraction(by), Fraction(0)), Fraction(1)), 1, 1)(level)


def berry_esseen(factors: Sequence[tuple[Moments, int]], alpha: Argument) -> Interval[FloatArray]:
    """The bracket of the theorem, cut to [0, 1 - alpha]: a guarantee, however wide.

    Args:
        factors: The functionals of each curve, and the number of its uses.
        alpha: Type I errors, any shape.

    Returns:
        Bounds of the shape of alpha.

    Raises:
        ParameterError: gamma may reach 1/2, or alpha is outside [gamma, 1 - gamma].

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> from neartwin.tradeoff.central_limit import moments
    >>> b = berry_esseen([(moments(epsilon_delta("0.1")), 100)], "0.2")
    >>> round(b.lower, 12), round(b.upper, 12)
    (0.308708526905, 0.581338058725)
    """
    constants = normalised(factors)
    gamma = constants.gamma.upper
    if gamma >= 0.5:
        raise ParameterError(
            "gamma", gamma, "must be below 1/2: too few compositions for the theorem", remedy="compose"
        )
    level = levels(alpha=alpha)
    if not every(lambda one: Fraction(gamma) <= one <= 1 - Fraction(gamma), level):
        raise ParameterError("alpha", alpha, f"must lie in [gamma, 1 - gamma], gamma={gamma:.6g}")
    steep, flat = (Gaussian(Fraction(end) ** 2) for end in (constants.mu.upper, constants.mu.lower))
    lower = mapped(lambda end: Fraction(end) - Fraction(gamma), steep.beta(_shifted(level, gamma)), method="")
    upper = mapped(
        lambda end, a: min(Fraction(end) + Fraction(gamma), 1 - Fraction(a)),
        flat.beta(_shifted(level, -gamma)),
        level,
        method="",
    )
    return certified(ends(lower)[0], ends(upper)[1], "Berry-Esseen")


def clt(factors: Sequence[tuple[Moments, int]]) -> Estimate[Gaussian]:
    """G_mu for the whole composition. An estimate: it may lie above the true curve."""
    constants = normalised(factors)
    mu = 0.5 * (constants.mu.lower + constants.mu.upper)
    return Estimate(
        Gaussian(Fraction(mu) ** 2),
        method="central limit theorem",
        error=f"within gamma={constants.gamma.upper:.6g} in both errors by Berry-Esseen, if that is below 1/2",
    )


def limit_gaussian(kl_total: Number, kappa2_total: Number) -> Estimate[Gaussian]:
    """The limit G_{2K/s} if sum kl -> K, sum kappa2 -> s^2, max kl -> 0 and sum kappa3 -> 0.

    Args:
        kl_total: K.
        kappa2_total: s^2.

    Returns:
        The curve, an estimate.

    Source:
        Dong, Roth, Su 2022, Thm 3.5.
    """
    total = non_negative(kl_total=rational(kl_total=kl_total))
    spread = positive(kappa2_total=rational(kappa2_total=kappa2_total))
    return Estimate(Gaussian(4 * total**2 / spread), method="limit of a triangular array", error="no rate is stated")


def poisson_limit(mu: Number, delta_total: Number) -> Estimate[TradeOff]:
    """The limit G_mu (x) f_{0,1-e^-delta} if sum eps_i^2 -> mu^2, sum delta_i -> delta and both maxima -> 0.

    Args:
        mu: The limit of the root of sum eps_i^2.
        delta_total: The limit of sum delta_i.

    Returns:
        The curve, an estimate.

    Source:
        Dong, Roth, Su 2022, section 5.3.

    >>> poisson_limit(1, "0.01").value.failure > 0.00995
    True
    """
    square = non_negative(mu=rational(mu=mu)) ** 2
    total = non_negative(delta_total=rational(delta_total=delta_total))
    curve = with_failure(Gaussian(square), Fraction(bounds(lambda: -ball(-total).expm1())[0]))
    return Estimate(curve, method="limit of (epsilon, delta) compositions", error="no rate is stated")


def _sampled(
    of_sigma: Callable[[arb], arb], rate: Argument, steps: Argument, sigma: Argument, method: str
) -> Estimate[FloatArray]:
    """Q sqrt(T) sqrt(of_sigma(1/sigma)), arguments broadcast."""
    share, rounds = levels(rate=rate), domains.FINITE_NOT_NEGATIVE(steps=steps)
    width = _SIGMAS(sigma=sigma)

    def value(q: Exact, t: Exact, s: Exact) -> arb:
        return ball(q) * ball(t).sqrt() * of_sigma(1 / ball(s)).sqrt()

    return Estimate(elementwise(value, share, rounds, width, method=method).lower, method=method, error=_UNSAFE)


_SIGMAS = domains.Domain(
    lambda one: 0.04 <= one < math.inf, "must be finite and at least 0.04: below it the value is no number"
)
_UNSAFE = "unknown sign: published budgets from it are below the certified ones"


def dpsgd_mu_poisson(rate: Argument, steps: Argument, sigma: Argument) -> Estimate[FloatArray]:
    """The value q sqrt(T) sqrt(e^{1/sigma^2} - 1): noisy gradients under Poisson sampling.

    Args:
        rate: probability q of each unit to be sampled, in [0, 1]; arguments are broadcast.
        steps: how many gradients T, at least 0.
        sigma: standard deviation of the noise, in units of the clipping norm, at least 0.04.

    Returns:
        An estimate of mu, of the broadcast shape. It may lie below the truth.

    Raises:
        ParameterError: if a parameter lies outside its range.

    Source: Bu, Dong, Long, Su 2020.

    >>> round(float(dpsgd_mu_poisson("0.01", 10000, 4).value), 12)
    0.253957592755
    """
    return _sampled(lambda w: (w * w).expm1(), rate, steps, sigma, "central limit, Poisson sampling")


def dpsgd_mu_uniform(rate: Argument, steps: Argument, sigma: Argument) -> Estimate[FloatArray]:
    """sqrt(2) q sqrt(T) sqrt(e^{1/s^2} Phi(1.5/s) + 3 Phi(-0.5/s) - 2): noisy gradients of uniform batches.

    Args:
        rate: share q of the units in a batch, in [0, 1]; arguments are broadcast.
        steps: how many gradients T, at least 0.
        sigma: standard deviation of the noise, in units of the clipping norm, at least 0.04.

    Returns:
        An estimate of mu, of the broadcast shape. It may lie below the truth.

    Raises:
        ParameterError: if a parameter lies outside its range.

    Source: Dong, Roth, Su 2022, Cor. 5.4.
    """

    def of_sigma(w: arb) -> arb:
        return 2 * ((w * w).exp() * normal_cdf(3 * w / 2) + 3 * normal_cdf(-w / 2) - 2)

    return _sampled(of_sigma, rate, steps, sigma, "central limit, uniform batches")
