"""Pairs of densities without a closed form: certified brackets from declared structure, labelled estimates without.

`monotone_pair`: on each cell between two edges the loss is monotone. Merging every cell into one outcome is post-processing, so
that finite pair lies *below*. Moving each cell's mass to the losses at its two ends keeps the masses of P and Q. It is the
convex chord, so that finite pair lies *above*. Both errors are of second order in the cells, for all divergences.

`smooth_renyi`, `smooth_kl`: log p and the loss are analytic in a Bernstein ellipse and bounded there. Gauss-Legendre quadrature
has an error bound then (Trefethen 2013, Theorem 19.3), and exponential tails are bounded in closed form.

`estimate_renyi`, `estimate_kl`: plain quadrature, with no structure declared. Their result is of type `Estimate`, which
no theorem here accepts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from neartwin.balls import Certified, Numeric, ball, bounds, hull, legendre_rule, read
from neartwin.checks import positive
from neartwin.divergences.finite import FinitePair, Outcome, outcome
from neartwin.errors import ParameterError
from neartwin.exact import Estimate, FloatArray, Interval

if TYPE_CHECKING:
    from flint import arb

Mass = Callable[[FloatArray, FloatArray], FloatArray]
Real = Callable[[FloatArray], FloatArray]
_PANELS = 256  # of an estimate, with 16 nodes each
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
        """This pair with P and Q exchanged."""
        return BracketedPair(self.below.reversed(), self.above.reversed())


def _between(low: Certified, high: Certified) -> Certified:
    return Interval(np.minimum(low.lower, high.upper)[()], high.upper, "certified cells: " + low.method)


def monotone_pair(
    *, edges: Sequence[float], mass_p: Mass, mass_q: Mass, loss: Real, rounding: float = 1e-14
) -> BracketedPair:
    """Two laws on the line whose loss ln(p/q) is monotone between consecutive edges.

    Args:
        edges: Increasing; first and last may be infinite. Every turning point of the loss must be among them.
        mass_p: The probabilities of cells (left, right] under P, vectorised.
        mass_q: Those under Q.
        loss: ln(p/q) at the edges, its limits at infinity included.
        rounding: A declared bound on the relative error of the masses and the absolute error of the loss.

    Returns:
        The pair, with certified brackets.

    Raises:
        ParameterError: The functions do not fit the edges.
    """
    x = np.asarray(edges, dtype=float)
    if x.ndim != 1 or len(x) < 2 or not np.all(np.diff(x) > 0):
        raise ParameterError("edges", edges, "must be increasing, at least two")
    slack = positive(rounding=rounding)
    P, Q = (_masses(name, mass(x[:-1], x[1:]), slack) for name, mass in (("mass_p", mass_p), ("mass_q", mass_q)))
    ends = np.asarray(loss(x), dtype=float)
    if ends.shape != x.shape or np.isnan(ends).any():
        raise ParameterError("loss", ends.shape, "must give one number, not NaN, at each edge")
    low, high = np.minimum(ends[:-1], ends[1:]).tolist(), np.maximum(ends[:-1], ends[1:]).tolist()

    def merged(_: None) -> list[Outcome]:
        return [outcome(_about(p, slack), _about(q, slack)) for p, q in zip(P, Q, strict=True)]

    def split(_: None) -> list[Outcome]:
        return list(chain.from_iterable(_chord(*cell, slack) for cell in zip(P, Q, low, high, strict=True)))

    return BracketedPair(FinitePair(merged), FinitePair(split))


def _masses(name: str, mass: FloatArray, slack: float) -> list[float]:
    value = np.asarray(mass, dtype=float)
    if np.any(value < 0) or not abs(float(value.sum()) - 1) <= 1e-9 + len(value) * slack:
        raise ParameterError(name, float(value.sum()), "must be non-negative and sum to 1 over the cells")
    return [float(part) for part in value]


def _about(mass: float, slack: float) -> "arb":
    return ball(mass) * (1 + hull(-slack, slack))


def _chord(p: float, q: float, low: float, high: float, slack: float) -> list[Outcome]:
    """A cell's P and Q split between the losses at its ends: P = a + b, Q = a e^-low + b e^-high."""
    P, Q, error = _about(p, slack), _about(q, slack), hull(-slack, slack)
    if not high - low > _FLAT:
        return [_placed(P, Q, hull(low, high) + error)]
    left, right = ball(low) + error, ball(high) + error
    if low == -math.inf:  # P stands at the upper end, and Q takes the rest
        above = ball(0) if high == math.inf else P * (-right).exp()
        return [_placed(P, above, right), Outcome(ball(0), (Q - above).max(ball(0)), left)]
    spread = ball(1) if high == math.inf else -(left - right).expm1()
    up = ((P - Q * left.exp()) / spread).max(ball(0)).min(P)
    down = (P - up).max(ball(0))
    return [
        _placed(up, ball(0) if high == math.inf else up * (-right).exp(), right),
        _placed(down, down * (-left).exp(), left),
    ]


def _placed(p: "arb", q: "arb", loss: "arb") -> Outcome:
    return Outcome(p, q, ball(-math.inf) if p.is_zero() else ball(math.inf) if q.is_zero() else loss)


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
    """The Renyi divergence of one order, of densities made of smooth pieces and exponential tails.

    Args:
        pieces: The smooth pieces.
        tails: The tails. Pieces and tails cover the support of P.
        order: Positive, and not 1.

    Returns:
        An interval, which holds if the declared bounds do.
    """
    power = _power(order)

    def value() -> "arb":
        total = _integral(
            pieces,
            lambda log_p, loss: (log_p + power * loss).exp(),
            lambda piece: math.exp(piece.log_bound + abs(power) * piece.loss_bound),
        )
        rest = sum(tail.moment(power) for tail in tails)
        return (total + hull(0.0, rest)).log() / ball(power)

    rest = sum(tail.moment(power) for tail in tails)
    low, high = (0.0, math.inf) if math.isinf(rest) else bounds(value)
    return Interval(max(low, 0.0), high, "Renyi divergence, certified quadrature")


def smooth_kl(*, pieces: Sequence[SmoothPiece], tails: Sequence[ExponentialTail]) -> Certified:
    """The KL divergence of densities made of smooth pieces and exponential tails.

    Args:
        pieces: The smooth pieces.
        tails: The tails. Pieces and tails cover the support of P.

    Returns:
        An interval, which holds if the declared bounds do.
    """

    def value() -> "arb":
        total = _integral(
            pieces, lambda log_p, loss: log_p.exp() * loss, lambda piece: math.exp(piece.log_bound) * piece.loss_bound
        )
        rest = sum(tail.mean() for tail in tails)
        return total + hull(-rest, rest)

    low, high = bounds(value)
    return Interval(max(low, 0.0), high, "KL, certified quadrature")


def _power(order: float) -> float:
    a = float(read(order=order))
    if not a > 0 or a == 1 or math.isinf(a):
        raise ParameterError("order", order, "must be positive and finite, and not 1", remedy="smooth_kl is order 1")
    return a - 1


def _integral(
    pieces: Sequence[SmoothPiece], value: Callable[["arb", "arb"], "arb"], bound: Callable[[SmoothPiece], float]
) -> "arb":
    if not pieces:
        raise ParameterError("pieces", (), "must hold at least one piece")
    total = ball(0)
    for piece in pieces:
        half, middle = 0.5 * (piece.high - piece.low), 0.5 * (piece.high + piece.low)
        most, rho = bound(piece), piece.ellipse
        count = min(400, 4 + math.ceil((max(0.0, math.log(most)) + 40) / (2 * math.log(rho))))
        nodes, weights = legendre_rule(count)
        x = middle + half * np.array(nodes)
        error = hull(-piece.rounding, piece.rounding)
        laws = zip(weights, piece.log_p(x).tolist(), piece.loss(x).tolist(), strict=True)
        area = sum((w * value(ball(log_p) + error, ball(loss) + error) for w, log_p, loss in laws), ball(0)) * half
        # x is rounded by 2^-51 (|middle| + half) at most, and a Cauchy estimate on the ellipse bounds the slope by
        # most / (its distance from the interval)
        distance = (rho + 1 / rho) / 2 - 1
        shift = 2 * most * 2.0**-51 * (abs(middle) + half) / distance
        # count = n + 1 nodes: at most (64/15) most rho^(-2n) / (1 - rho^-2) on [-1, 1]
        cut = 64 / 15 * most * rho ** (-2 * (count - 1)) / (1 - rho**-2) * half
        room = (shift + cut) * (1 + 1e-12)
        total += area + hull(-room, room)
    return total


def estimate_kl(
    p: Callable[[float], float], q: Callable[[float], float], *, low: float, high: float
) -> Estimate[float]:
    """KL by plain quadrature of two densities without any declared structure.

    Args:
        p: The density of P.
        q: The density of Q.
        low: The left end of the range.
        high: The right end of the range.

    Returns:
        An estimate, without a bound.
    """
    return Estimate(_quad(lambda x: _kl_term(p(x), q(x)), low, high), "Gauss-Legendre quadrature, no error bound")


def estimate_renyi(
    p: Callable[[float], float], q: Callable[[float], float], *, order: float, low: float, high: float
) -> Estimate[float]:
    """Renyi divergence by plain quadrature of two densities without any declared structure.

    Args:
        p: The density of P.
        q: The density of Q.
        order: The order.
        low: The left end of the range.
        high: The right end of the range.

    Returns:
        An estimate, without a bound.
    """
    power = _power(order)
    total = _quad(lambda x: p(x) ** (power + 1) * q(x) ** (-power) if p(x) > 0 else 0.0, low, high)
    return Estimate(math.log(total) / power, "Gauss-Legendre quadrature, no error bound")


def _kl_term(p: float, q: float) -> float:
    return p * math.log(p / q) if p > 0 else 0.0


def _quad(integrand: Callable[[float], float], low: float, high: float) -> float:
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = np.linspace(low, high, _PANELS + 1)
    half = 0.5 * (high - low) / _PANELS
    points = (edges[:-1] + half)[:, None] + half * nodes
    values = np.array([integrand(x) for x in points.ravel().tolist()]).reshape(points.shape)
    return float(half * (values @ weights).sum())
