"""Central limits of composition: a bracket with its conditions, and estimates that are labelled as such.

Dong, Roth, Su 2022, Thm 3.4: for symmetric f_1, ..., f_n with finite kappa3, with mu = 2 sum kl / v, v^2 = sum
(kappa2 - kl^2) and gamma = 0.56 sum centred3 / v^3 < 1/2, for alpha in [gamma, 1 - gamma]

    G_mu(alpha + gamma) - gamma <= f_1 (x) ... (x) f_n (alpha) <= G_mu(alpha - gamma) + gamma.

G_mu itself, and every limit below, is an `Estimate`: published DP-SGD budgets from it lie below the truth.

The functionals kl, kappa2, kappa3 and the centred kappa3 of a curve: moments of the privacy loss.

|f'| at the threshold is q/p, so with L = ln p/q under P: kl = E L, kappa2 = E L^2, kappa3 = E |L|^3 and
centred = E |L - kl|^3 (Dong, Roth, Su 2022, section 3). All are infinite where f(0) < 1: factor f_{0,delta} out first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin import special
from neartwin.checks import non_negative, positive
from neartwin.errors import ParameterError
from neartwin.exact import Estimate, FloatArray, Interval, Number, rational
from neartwin.special import erf
from neartwin.tradeoff.amplification import Subsampled
from neartwin.tradeoff.families import EpsilonDelta, Gaussian, Laplace
from neartwin.tradeoff.finite import FinitePair
from neartwin.tradeoff.functions import TradeOff
from neartwin.tradeoff.normal import ROOM, cdf
from neartwin.tradeoff.operations import Group, Maximum, with_failure
from neartwin.tradeoff.polygons import alphas_grid
from neartwin.tradeoff.twofold import UNIT, Argument, certified, ends, levels, read, root


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """The functionals, each certified. variance = kappa2 - kl^2, computed without that difference where it can be."""

    kl: Interval[float]
    kappa2: Interval[float]
    kappa3: Interval[float]
    centred3: Interval[float]
    variance: Interval[float]


def _near(value: float, relative: float, method: str) -> Interval[float]:
    return Interval(value * (1 - relative), value * (1 + relative), method)


def _all_near(values: tuple[float, float, float, float, float], relative: float, method: str) -> Moments:
    """kl, kappa2, kappa3, centred kappa3 and variance, each to a relative error."""
    parts = [_near(value, relative, method) for value in values]
    return Moments(kl=parts[0], kappa2=parts[1], kappa3=parts[2], centred3=parts[3], variance=parts[4])


def _of_pure(epsilon: float) -> Moments:
    t, sech = math.tanh(epsilon / 2), 1 / math.cosh(min(epsilon / 2, 700.0))
    variance = epsilon**2 * sech**2
    centred = epsilon * variance * (1 + t * t)  # epsilon^3 (1 - t^4)
    return _all_near((epsilon * t, epsilon**2, epsilon**3, centred, variance), 32 * UNIT * (1 + epsilon), "closed form")


def _of_gaussian(curve: Gaussian) -> Moments:
    mu, square = float(root(curve.mu_squared)[0]), float(curve.mu_squared)
    z = mu / 2
    folded = (z**3 + 3 * z) * math.erf(z / math.sqrt(2)) + 2 * (z**2 + 2) * math.exp(-z * z / 2) / math.sqrt(
        2 * math.pi
    )
    centred = 2 * math.sqrt(2 / math.pi) * mu**3
    return _all_near((square / 2, square + square**2 / 4, mu**3 * folded, centred, square), 4 * ROOM, "closed form")


def _of_laplace(shift: float) -> Moments:
    """Atoms 1/2 at s and e^-s/2 at -s, density e^{(l - s)/2}/4 between: positive terms, Gauss-Legendre by pieces."""
    shrink = math.exp(-shift)
    kl = shift + math.expm1(-shift)
    if shift < 1:
        kl = math.fsum((-shift) ** k / math.factorial(k) for k in range(2, 25))
    nodes, weights = (np.asarray(part) for part in special.roots_legendre(24))
    cuts = np.unique(np.concatenate((np.linspace(-shift, shift, 2 * math.ceil(shift / 4) + 1), [0.0, kl])))
    half = 0.5 * np.diff(cuts)[:, None]
    loss = 0.5 * (cuts[1:] + cuts[:-1])[:, None] + half * nodes
    mass = half * weights * np.exp((loss - shift) / 2) / 4

    def mean(power: int, centre: float) -> float:
        atoms = abs(shift - centre) ** power / 2 + abs(shift + centre) ** power * shrink / 2
        return atoms + float(np.sum(mass * np.abs(loss - centre) ** power))

    method = "exact integral by pieces"
    return _all_near((kl, mean(2, 0.0), mean(3, 0.0), mean(3, kl), mean(2, kl)), 400 * UNIT, method)


def _of_finite(pair: FinitePair) -> Moments:
    if pair.betas[0] < 1 - 64 * UNIT - pair.slack or np.any((pair.P <= 0) & (pair.Q > 0)):
        raise _infinite()
    live = pair.P > 0
    if np.any(pair.Q[live] <= 0):
        endless = Interval(math.inf, math.inf, "P has outcomes that Q lacks")
        return Moments(kl=endless, kappa2=endless, kappa3=endless, centred3=endless, variance=endless)
    p, loss = pair.P[live], np.log(pair.P[live]) - np.log(pair.Q[live])
    room = (2 * pair.slack + (8 + p.size) * UNIT) * (1 + np.abs(loss))

    def summed(terms: FloatArray, error: FloatArray) -> Interval[float]:
        total, slack = math.fsum(p * terms), math.fsum(p * error)
        return Interval(total - slack, total + slack, "sum over outcomes")

    kl = summed(loss, room)
    size = np.abs(loss)
    apart, off = np.abs(loss - 0.5 * (kl.lower + kl.upper)), room + kl.width
    return Moments(
        kl=Interval(max(kl.lower, 0.0), kl.upper, kl.method),
        kappa2=summed(size**2, 4 * (1 + size) * room),
        kappa3=summed(size**3, 8 * (1 + size) ** 2 * room),
        centred3=summed(apart**3, 8 * (1 + apart) ** 2 * off),
        variance=summed(apart**2, 4 * (1 + apart) * off),
    )


def _infinite() -> ParameterError:
    return ParameterError(
        "curve", "f(0) < 1", "must start at f(0) = 1: its moments are infinite", remedy="factor f_{0,delta} out first"
    )


def largest_loss(curve: TradeOff) -> float:
    """A bound on |ln |f'||, by the curve's construction; infinite where none is known."""
    match curve:
        case EpsilonDelta(epsilon=epsilon, delta_mass=mass) if mass == 0:
            return float(epsilon) * (1 + UNIT)
        case Laplace(shift=shift):
            return float(shift) * (1 + UNIT)
        case Subsampled(of=inner) | Group(of=inner, k=1):
            return largest_loss(inner)
        case Group(of=inner, k=k):
            return k * largest_loss(inner)
        case Maximum(of=parts):
            return max(largest_loss(part) for part in parts)
        case _:
            return math.inf


def moments(curve: TradeOff, size: int = 1 << 14) -> Moments:
    """All functionals of one curve: closed forms, exact sums over finite pairs, else certified quadrature.

    size: cells of the quadrature; its width falls in proportion. Upper ends are infinite where the loss has no known
    bound. Refused where f(0) < 1.

    >>> from neartwin.tradeoff.families import laplace
    >>> m = moments(laplace(1))
    >>> bool(m.kl.lower <= 0.36787944117144232 <= m.kl.upper)
    True
    """
    match curve:
        case EpsilonDelta(delta_mass=mass) if mass > 0:
            raise _infinite()
        case EpsilonDelta(epsilon=epsilon):
            return _of_pure(float(epsilon))
        case Gaussian():
            return _of_gaussian(curve)
        case Laplace(shift=shift):
            return _of_laplace(float(shift))
        case FinitePair():
            return _of_finite(curve)
        case _:
            return quadrature(curve, size)


def quadrature(curve: TradeOff, size: int = 1 << 14) -> Moments:
    """The functionals from values of the curve alone.

    f is convex, so on each cell |f'| lies between the slopes of the neighbouring cells' chords; `largest_loss` bounds
    the two end cells. Sums of cell-wise extremes, each rounded outward.
    """
    if ends(curve.beta(np.array(0.0)))[0] < 1 - 1e-9:
        raise _infinite()
    reach = largest_loss(curve)
    alphas = np.unique(np.append(alphas_grid(curve, size), [0.0, 1.0]))
    low, high = ends(curve.beta(alphas))
    width = np.diff(alphas)
    with np.errstate(divide="ignore", invalid="ignore"):
        steep = np.log(np.maximum((high[:-1] - low[1:]) / width, 0.0))
        flat = np.log(np.maximum((low[:-1] - high[1:]) / width, 0.0))
    # the loss ln p/q = -ln |f'| rises with alpha; chords of neighbours bound it
    most = np.minimum(np.append(-flat[1:], np.inf), reach)
    least = np.maximum(np.concatenate(([-np.inf], -steep[:-1])), -reach)
    least = np.minimum(least, most)
    room = 64 * UNIT

    def mean(transform: str, centre: Interval[float]) -> Interval[float]:
        power = {"square": 2, "cube": 3}[transform]
        nearest = np.maximum(np.maximum(least - centre.upper, centre.lower - most), 0.0) ** power
        farthest = np.maximum(np.abs(least - centre.upper), np.abs(most - centre.lower))
        farthest = np.maximum(farthest, np.maximum(np.abs(least - centre.lower), np.abs(most - centre.upper))) ** power
        ceiling = math.inf if math.isinf(reach) else float(np.sum(width * farthest)) * (1 + room)
        return Interval(float(np.sum(width * nearest)) * (1 - room), ceiling, "quadrature")

    bounded = math.isfinite(reach)
    kl = Interval(
        max(float(np.sum(width * np.where(np.isfinite(least), least, 0.0))) * (1 - room), 0.0) if bounded else 0.0,
        float(np.sum(width * most)) * (1 + room) if bounded else math.inf,
        "quadrature",
    )
    zero = Interval(0.0, 0.0)
    centre = kl if bounded else Interval(0.0, math.inf)
    apart = [mean(name, centre) if bounded else Interval(0.0, math.inf, "quadrature") for name in ("square", "cube")]
    return Moments(kl=kl, kappa2=mean("square", zero), kappa3=mean("cube", zero), centred3=apart[1], variance=apart[0])


@dataclass(frozen=True, slots=True)
class Normalised:
    """mu and gamma of the theorem, each certified."""

    mu: Interval[float]
    gamma: Interval[float]


def normalised(factors: Sequence[tuple[Moments, int]]) -> Normalised:
    """Mu and gamma of a composition: each factor's moments with how often it stands.

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> from neartwin.tradeoff.limits import moments
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
    >>> from neartwin.tradeoff.limits import moments
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
