"""The functionals kl, kappa2, kappa3 and the centred kappa3 of a curve: moments of the privacy loss.

|f'| at the threshold is q/p, so with L = ln p/q under P: kl = E L, kappa2 = E L^2, kappa3 = E |L|^3 and
centred = E |L - kl|^3 (Dong, Roth, Su 2022, section 3). All are infinite where f(0) < 1: factor f_{0,delta} out first.
"""

import math
from dataclasses import dataclass

import numpy as np

from neartwin import special
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval
from neartwin.tradeoff.amplification import Subsampled
from neartwin.tradeoff.families import EpsilonDelta, Gaussian, Laplace
from neartwin.tradeoff.finite import FinitePair
from neartwin.tradeoff.functions import TradeOff
from neartwin.tradeoff.normal import ROOM
from neartwin.tradeoff.operations import Group, Maximum
from neartwin.tradeoff.polygons import alphas_grid
from neartwin.tradeoff.twofold import UNIT, ends, root


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
