"""Pairs of densities without a closed form: certified brackets from declared structure, labelled estimates without.

`monotone_pair`: on each cell between two edges the loss is monotone. Merging every cell into one outcome is
post-processing, so that finite pair lies *below*; moving each cell's mass to the losses at its two ends, so that P and
Q keep their masses, is the convex chord, and that finite pair lies *above*. Both errors are of second order in the
cells, for all divergences at once.

`smooth_renyi`, `smooth_kl`: where log p and the loss are analytic in a Bernstein ellipse and bounded there, Gauss-
Legendre quadrature with its error bound (Trefethen 2013, Theorem 19.3), exponential tails bounded in closed form.

`estimate_renyi`, `estimate_kl`: plain quadrature, with no structure declared. Their result is of type `Estimate`, which
no theorem here accepts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from neartwin.checks import positive
from neartwin.divergences.enclosure import (
    Certified,
    Enclosure,
    Numeric,
    concatenate,
    enclose,
    exp,
    expm1,
    log,
    where,
)
from neartwin.divergences.finite import FinitePair, losses_of
from neartwin.errors import ParameterError
from neartwin.exact import Estimate, FloatArray, Interval

Mass = Callable[[FloatArray, FloatArray], FloatArray]
Real = Callable[[FloatArray], FloatArray]
_FLAT = 1e-7  # below this spread of losses a cell is one outcome with an enclosed loss


@dataclass(frozen=True, slots=True, eq=False)
class BracketedPair:
    """A pair known to lie between two finite pairs in every divergence; made by `monotone_pair`."""

    below: FinitePair
    above: FinitePair

    def kl(self) -> Certified:
        """KL divergence: infinite above where the last cell's loss is unbounded; then use `smooth_kl`."""
        return _between(self.below.kl(), self.above.kl())

    def max_divergence(self) -> Certified:
        """The essential supremum of the loss."""
        return _between(self.below.max_divergence(), self.above.max_divergence())

    def total_variation(self) -> Certified:
        """sup_S |P(S) - Q(S)|."""
        return _between(self.below.total_variation(), self.above.total_variation())

    def hockey_stick(self, epsilon: Numeric) -> Certified:
        """sup_S P(S) - e^epsilon Q(S)."""
        return _between(self.below.hockey_stick(epsilon), self.above.hockey_stick(epsilon))

    def approximate_max_divergence(self, delta: Numeric) -> Certified:
        """inf{e real : H_{e^e}(P||Q) <= delta}."""
        return _between(self.below.approximate_max_divergence(delta), self.above.approximate_max_divergence(delta))

    def renyi(self, order: Numeric) -> Certified:
        """Renyi divergence of any order > 0."""
        return _between(self.below.renyi(order), self.above.renyi(order))

    def reversed(self) -> "BracketedPair":
        """The same pair with P and Q exchanged."""
        return BracketedPair(self.below.reversed(), self.above.reversed())


def _between(low: Certified, high: Certified) -> Certified:
    return Interval(np.minimum(low.lower, high.upper)[()], high.upper, "certified cells: " + low.method)


def monotone_pair(
    *, edges: Sequence[float], mass_p: Mass, mass_q: Mass, loss: Real, rounding: float = 1e-14
) -> BracketedPair:
    """Two laws on the line whose loss ln(p/q) is monotone between consecutive edges.

    edges: increasing, first and last may be infinite; every turning point of the loss must be among them. mass_p,
    mass_q: the probabilities of cells (left, right], vectorised; loss: ln(p/q) at the edges, its limits at infinity
    included. rounding: a bound you declare on the relative error of the masses and the absolute error of the loss.
    """
    x = np.asarray(edges, dtype=float)
    if x.ndim != 1 or len(x) < 2 or not np.all(np.diff(x) > 0):
        raise ParameterError("edges", edges, "must be increasing, at least two")
    slack = positive(rounding=rounding)
    P, Q = (_masses(name, mass(x[:-1], x[1:]), slack) for name, mass in (("mass_p", mass_p), ("mass_q", mass_q)))
    ends = np.asarray(loss(x), dtype=float)
    if ends.shape != x.shape or np.isnan(ends).any():
        raise ParameterError("loss", ends.shape, "must give one number, not NaN, at each edge")
    low, high = np.minimum(ends[:-1], ends[1:]), np.maximum(ends[:-1], ends[1:])
    return BracketedPair(FinitePair(P, Q, losses_of(P, Q)), _chords(P, Q, low, high, slack))


def _masses(name: str, mass: FloatArray, slack: float) -> Enclosure:
    value = np.asarray(mass, dtype=float)
    if np.any(value < 0) or not abs(float(value.sum()) - 1) <= 1e-9 + len(value) * slack:
        raise ParameterError(name, float(value.sum()), "must be non-negative and sum to 1 over the cells")
    return Enclosure(value * (1 - slack), np.where(value > 0, value * (1 + slack), 0.0))


def _chords(P: Enclosure, Q: Enclosure, low: FloatArray, high: FloatArray, slack: float) -> FinitePair:
    """Each cell's P and Q split between the losses at its ends: P = a + b, Q = a e^-low + b e^-high."""
    flat = ~(high - low > _FLAT)
    left = Enclosure(low - slack, low + slack)
    right = Enclosure(high - slack, high + slack)
    with np.errstate(all="ignore"):
        # written for finite ends; an infinite upper loss has e^(low - high) = 0, an infinite lower one takes Q alone
        spread = -expm1(where(np.isfinite(low) & np.isfinite(high), left - right, -np.inf))
        up = ((P - Q * exp(left)) / spread).at_least(0)
        up = where(
            low == -np.inf, P, where(flat, P, Enclosure(np.minimum(up.lower, P.upper), np.minimum(up.upper, P.upper)))
        )
        down = where(flat | (low == -np.inf), 0.0, (P - up).at_least(0))
        up_q = where(high == np.inf, 0.0, up * exp(-right))
        down_q = where(low == -np.inf, (Q - up_q).at_least(0), down * exp(-left))
    whole = Enclosure(low - slack, high + slack)
    upper_loss = where(flat, whole, where(high == np.inf, np.inf, right))
    lower_loss = where(low == -np.inf, -np.inf, left)
    up_q = where(flat, Q, up_q)
    P_all, Q_all = concatenate(up, down), concatenate(up_q, where(flat, 0.0, down_q))
    loss = concatenate(upper_loss, lower_loss)
    loss = where(P_all.upper == 0, -np.inf, loss)
    return FinitePair(P_all, Q_all, loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothPiece:
    """A finite stretch on which log p and the loss are analytic, with bounds you declare and answer for.

    ellipse: rho > 1 of the Bernstein ellipse of [low, high] (the points z with |z - low| + |z - high| <=
    (high - low)(rho + 1/rho)/2); inside it Re log p <= log_bound and |loss| <= loss_bound. rounding: the absolute
    error of the two functions as computed.
    """

    low: float
    high: float
    log_p: Real
    loss: Real
    ellipse: float
    log_bound: float
    loss_bound: float
    rounding: float = 1e-14

    def __post_init__(self) -> None:
        if not (self.low < self.high and self.ellipse > 1 and self.loss_bound >= 0 and self.rounding > 0):
            raise ParameterError("piece", (self.low, self.high, self.ellipse), "must have low < high and ellipse > 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialTail:
    """A half-line from a point outward, at distance t: log p <= log_p - rate t and |loss| <= loss + slope t."""

    log_p: float
    rate: float
    loss: float
    slope: float = 0.0

    def moment(self, power: float) -> float:
        """An upper bound on the integral of p e^(power loss): 0 < it, infinite if the loss outgrows the decay."""
        left = self.rate - abs(power) * self.slope
        return math.exp(self.log_p + abs(power) * self.loss) / left * (1 + 1e-12) if left > 0 else math.inf

    def mean(self) -> float:
        """An upper bound on the integral of p |loss|."""
        return math.exp(self.log_p) * (self.loss / self.rate + self.slope / self.rate**2) * (1 + 1e-12)


def smooth_renyi(*, pieces: Sequence[SmoothPiece], tails: Sequence[ExponentialTail], order: float) -> Certified:
    """The Renyi divergence of one order > 0, not 1, of densities made of smooth pieces and exponential tails.

    Together they must cover the support of P. The interval holds if the declared bounds do.
    """
    power = _power(order)

    def value(piece: SmoothPiece, x: FloatArray) -> Enclosure:
        log_p, loss = _at(piece, x)
        return exp(log_p + power * loss)

    total = _integral(pieces, value, lambda piece: math.exp(piece.log_bound + abs(power) * piece.loss_bound))
    rest = sum(tail.moment(power) for tail in tails)
    moment = Enclosure(total.lower, total.upper + rest).at_least(0)
    return (log(moment) / Enclosure.of(power)).at_least(0).interval("Renyi divergence, certified quadrature")


def smooth_kl(*, pieces: Sequence[SmoothPiece], tails: Sequence[ExponentialTail]) -> Certified:
    """The KL divergence of densities made of smooth pieces and exponential tails, which cover the support of P."""

    def value(piece: SmoothPiece, x: FloatArray) -> Enclosure:
        log_p, loss = _at(piece, x)
        return exp(log_p) * loss

    total = _integral(pieces, value, lambda piece: math.exp(piece.log_bound) * piece.loss_bound)
    rest = sum(tail.mean() for tail in tails)
    return Enclosure(total.lower - rest, total.upper + rest).at_least(0).interval("KL, certified quadrature")


def _power(order: float) -> float:
    a = float(enclose(order=order).middle)
    if not a > 0 or a == 1 or math.isinf(a):
        raise ParameterError("order", order, "must be positive and finite, and not 1", remedy="smooth_kl is order 1")
    return a - 1


def _at(piece: SmoothPiece, x: FloatArray) -> tuple[Enclosure, Enclosure]:
    values = piece.log_p(x), piece.loss(x)
    log_p, loss = (Enclosure(v - piece.rounding, v + piece.rounding) for v in map(np.asarray, values))
    return log_p, loss


@cache
def _rule(count: int) -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return np.asarray(nodes), np.asarray(weights)


def _integral(
    pieces: Sequence[SmoothPiece], value: Callable[[SmoothPiece, FloatArray], Enclosure], bound: Callable[..., float]
) -> Enclosure:
    if not pieces:
        raise ParameterError("pieces", (), "must hold at least one piece")
    total = Enclosure.of(0.0)
    for piece in pieces:
        half, middle = 0.5 * (piece.high - piece.low), 0.5 * (piece.high + piece.low)
        most, rho = bound(piece), piece.ellipse
        count = min(400, 4 + math.ceil((max(0.0, math.log(most)) + 40) / (2 * math.log(rho))))
        nodes, weights = _rule(count)
        # weights are trusted to 1e-13 relatively and nodes to 4e-15 of the half length; a Cauchy estimate on the
        # ellipse bounds the slope by most / (its distance from the interval)
        w = Enclosure(weights * (1 - 1e-13), weights * (1 + 1e-13))
        area = (w * value(piece, middle + half * nodes)).sum() * half
        distance = (rho + 1 / rho) / 2 - 1
        shift = 2 * half * most * (4e-15 + 4e-16 * abs(middle) / half) / distance
        # count = n + 1 nodes: at most (64/15) most rho^(-2n) / (1 - rho^-2) on [-1, 1]
        cut = 64 / 15 * most * rho ** (-2 * (count - 1)) / (1 - rho**-2) * half
        error = (shift + cut) * (1 + 1e-12)
        total = total + Enclosure(area.lower - error, area.upper + error)
    return total


def estimate_kl(
    p: Callable[[float], float], q: Callable[[float], float], *, low: float, high: float
) -> Estimate[float]:
    """KL by adaptive quadrature of two densities of which nothing is known."""
    return Estimate(_quad(lambda x: _kl_term(p(x), q(x)), low, high), "adaptive quadrature, no error bound")


def estimate_renyi(
    p: Callable[[float], float], q: Callable[[float], float], *, order: float, low: float, high: float
) -> Estimate[float]:
    """Renyi divergence by adaptive quadrature of two densities of which nothing is known."""
    power = _power(order)
    total = _quad(lambda x: p(x) ** (power + 1) * q(x) ** (-power) if p(x) > 0 else 0.0, low, high)
    return Estimate(math.log(total) / power, "adaptive quadrature, no error bound")


def _kl_term(p: float, q: float) -> float:
    return p * math.log(p / q) if p > 0 else 0.0


def _quad(integrand: Callable[[float], float], low: float, high: float) -> float:
    from scipy.integrate import quad

    found: Any = quad(integrand, low, high, limit=200)
    return float(found[0])
