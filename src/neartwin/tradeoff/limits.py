"""Central limits of composition: a bracket with its conditions, and estimates that are labelled as such.

Dong, Roth, Su 2022, Thm 3.4: for symmetric f_1, ..., f_n with finite kappa3, with mu = 2 sum kl / v, v^2 = sum
(kappa2 - kl^2) and gamma = 0.56 sum centred3 / v^3 < 1/2, for alpha in [gamma, 1 - gamma]

    G_mu(alpha + gamma) - gamma <= f_1 (x) ... (x) f_n (alpha) <= G_mu(alpha - gamma) + gamma.

G_mu itself, and every limit below, is an `Estimate`: published DP-SGD budgets from it lie below the truth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin.checks import non_negative, positive
from neartwin.errors import ParameterError
from neartwin.exact import Estimate, FloatArray, Interval, Number, rational
from neartwin.special import erf
from neartwin.tradeoff.families import Gaussian
from neartwin.tradeoff.functions import TradeOff
from neartwin.tradeoff.loss_moments import Moments
from neartwin.tradeoff.normal import cdf
from neartwin.tradeoff.operations import with_failure
from neartwin.tradeoff.twofold import UNIT, Argument, certified, ends, levels, read


@dataclass(frozen=True, slots=True)
class Normalised:
    """mu and gamma of the theorem, each certified."""

    mu: Interval[float]
    gamma: Interval[float]


def normalised(factors: Sequence[tuple[Moments, int]]) -> Normalised:
    """Mu and gamma of a composition: each factor's moments with how often it stands.

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> from neartwin.tradeoff.loss_moments import moments
    >>> n = normalised([(moments(epsilon_delta("0.1")), 100)])
    >>> bool(n.mu.lower <= 1.0004167187531003 <= n.mu.upper)
    True
    """
    if not factors:
        raise ParameterError("factors", factors, "must not be empty")

    def summed(values: Sequence[Interval[float]]) -> tuple[float, float]:
        counted = list(zip(values, factors, strict=True))
        low = math.fsum(value.lower * times for value, (_, times) in counted)
        return low, math.fsum(value.upper * times for value, (_, times) in counted)

    kl = summed([part.kl for part, _ in factors])
    variance = summed([part.variance for part, _ in factors])
    third = summed([part.centred3 for part, _ in factors])
    if not variance[0] > 0 or math.isinf(third[1]) or math.isinf(kl[1]):
        raise ParameterError("factors", factors, "must have finite third moments and a positive variance")
    room = 16 * UNIT
    mu = 2 * kl[0] / math.sqrt(variance[1]) * (1 - room), 2 * kl[1] / math.sqrt(variance[0]) * (1 + room)
    gamma = 0.56 * third[0] / variance[1] ** 1.5 * (1 - room), 0.56 * third[1] / variance[0] ** 1.5 * (1 + room)
    return Normalised(Interval(*mu, "moments"), Interval(*gamma, "moments"))


def _gaussian_at(mu: float, alpha: FloatArray, side: int) -> FloatArray:
    """G_mu(alpha) rounded down (side 0) or up (side 1), for a float mu; alpha outside [0, 1] is clipped."""
    return ends(Gaussian(Fraction(mu) ** 2).beta(np.clip(alpha, 0.0, 1.0)))[side]


def berry_esseen(factors: Sequence[tuple[Moments, int]], alpha: Argument) -> Interval[FloatArray]:
    """The bracket of the theorem, cut to [0, 1 - alpha]: a guarantee, however wide.

    Refused where gamma may reach 1/2 or alpha leave [gamma, 1 - gamma].

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> from neartwin.tradeoff.loss_moments import moments
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
    level, rest = levels(alpha=alpha)
    if np.any(level < gamma) or np.any(rest < gamma):
        raise ParameterError("alpha", alpha, f"must lie in [gamma, 1 - gamma], gamma={gamma:.6g}")
    lower = _gaussian_at(constants.mu.upper, level + gamma + UNIT, 0) - gamma - UNIT
    upper = _gaussian_at(constants.mu.lower, level - gamma - UNIT, 1) + gamma + UNIT
    cut = np.minimum(np.maximum(upper, 0.0), np.minimum(rest + UNIT, 1.0))
    return certified(np.clip(lower, 0.0, cut), cut, "Berry-Esseen")


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
    """G_{2K/s} where sum kl -> K and sum kappa2 -> s^2, if also max kl -> 0 and sum kappa3 -> 0 (Thm 3.5)."""
    total = non_negative(kl_total=rational(kl_total=kl_total))
    spread = positive(kappa2_total=rational(kappa2_total=kappa2_total))
    return Estimate(Gaussian(4 * total**2 / spread), method="limit of a triangular array", error="no rate is stated")


def poisson_limit(mu: Number, delta_total: Number) -> Estimate[TradeOff]:
    """G_mu (x) f_{0,1-e^-delta}: where sum eps_i^2 -> mu^2, sum delta_i -> delta and both maxima -> 0 (section 5.3).

    >>> poisson_limit(1, "0.01").value.failure > 0.00995
    True
    """
    square = non_negative(mu=rational(mu=mu)) ** 2
    lost = -math.expm1(-float(non_negative(delta_total=rational(delta_total=delta_total))))
    curve = with_failure(Gaussian(square), Fraction(lost))
    return Estimate(curve, method="limit of (epsilon, delta) compositions", error="no rate is stated")


def _sampling(rate: Argument, steps: Argument, sigma: Argument) -> tuple[FloatArray, FloatArray]:
    """Q sqrt(T) and 1/sigma, broadcast."""
    share, rounds, width = np.broadcast_arrays(levels(rate=rate)[0], read(steps=steps)[0], read(sigma=sigma)[0])
    if np.any(rounds < 0):
        raise ParameterError("steps", steps, "must not be negative")
    if np.any(width < _LEAST_SIGMA):
        raise ParameterError("sigma", sigma, f"must be at least {_LEAST_SIGMA}: below it the value is no number")
    return share * np.sqrt(rounds), 1 / width


_LEAST_SIGMA = 0.04
_UNSAFE = "unknown sign: published budgets from it are below the certified ones"


def dpsgd_mu_poisson(rate: Argument, steps: Argument, sigma: Argument) -> Estimate[FloatArray]:
    """The value q sqrt(T) sqrt(e^{1/sigma^2} - 1): noisy gradients under Poisson sampling (Bu, Dong, Long, Su 2020).

    Arguments are broadcast.

    >>> round(float(dpsgd_mu_poisson("0.01", 10000, 4).value), 12)
    0.253957592755
    """
    scale, inverse = _sampling(rate, steps, sigma)
    return Estimate(scale * np.sqrt(np.expm1(inverse**2)), method="central limit, Poisson sampling", error=_UNSAFE)


def dpsgd_mu_uniform(rate: Argument, steps: Argument, sigma: Argument) -> Estimate[FloatArray]:
    """sqrt(2) q sqrt(T) sqrt(e^{1/s^2} Phi(1.5/s) + 3 Phi(-0.5/s) - 2): uniform batches (Dong, Roth, Su, Cor. 5.4).

    Arguments are broadcast.
    """
    scale, inverse = _sampling(rate, steps, sigma)
    root_half = math.sqrt(0.5) * inverse
    inner = np.expm1(inverse**2) * cdf(1.5 * inverse) + 0.5 * erf(1.5 * root_half) - 1.5 * erf(0.5 * root_half)
    return Estimate(np.sqrt(2 * inner) * scale, method="central limit, uniform batches", error=_UNSAFE)
