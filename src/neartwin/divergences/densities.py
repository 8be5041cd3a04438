"""Pairs of densities without a closed form: certified brackets from declared structure.

`monotone_pair`: on each cell between two edges the loss is monotone. Merging every cell into one outcome is post-processing, so
that finite pair lies *below*. Moving each cell's mass to the losses at its two ends keeps the masses of P and Q. It is the
convex chord, so that finite pair lies *above*. Both errors are of second order in the cells, for all divergences.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from neartwin.balls import Certified, Numeric, ball, hull
from neartwin.checks import positive
from neartwin.divergences.finite import FinitePair, Outcome, outcome
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval

if TYPE_CHECKING:
    from flint import arb

Mass = Callable[[FloatArray, FloatArray], FloatArray]
Real = Callable[[FloatArray], FloatArray]
_FLAT = 1e-7  # below this spread of losses a cell is one outcome with an enclosed loss


@dataclass(frozen=True, slots=True, eq=False)
class BracketedPair:
    """A pair known to lie between two finite pairs in every divergence; made by `monotone_pair`."""

    below: FinitePair
    above: FinitePair

    def kl(self) -> Certified:
        """KL divergence: infinite above where the last cell's loss is unbounded."""
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
