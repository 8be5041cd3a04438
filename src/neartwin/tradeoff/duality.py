"""From statements to curves and back: a profile delta(epsilon) as a curve, validity, and a pair that has the curve.

A set of (epsilon, delta) guarantees is the supremum of the f_{epsilon,delta}, which is again a trade-off function
(Dong, Roth, Su 2022, Prop. 2.12); and every trade-off function is T(P, Q) of some pair, for instance of P uniform on
[0, 1] and Q with distribution function f(1 - x) below 1 and the atom 1 - f(0) at 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number
from neartwin.tradeoff.finite import FinitePair
from neartwin.tradeoff.functions import TradeOff
from neartwin.tradeoff.polygons import knots_below, pair_through, polygon_above
from neartwin.tradeoff.twofold import UNIT, certified, ends, read


def from_lines(epsilon: Sequence[Number] | FloatArray, delta: Sequence[Number] | FloatArray) -> FinitePair:
    """The least curve with these support lines, one order of the pair: f(a) >= 1 - delta - e^epsilon a for each.

    epsilon: (n,) of any sign; delta: (n,) in [0, 1]. Rounded down: a guarantee may rest on it.
    """
    slope, height = read(epsilon=epsilon), read(delta=delta)
    if slope[0].shape != height[0].shape or slope[0].ndim != 1:
        raise ParameterError("delta", delta, "must give one value for each epsilon")
    if np.any(height[0] < 0) or np.any(height[0] > 1):
        raise ParameterError("delta", delta, "must lie in [0, 1]")
    lines = np.append(slope[0], 0.0), np.append(height[0], 0.0 if slope[0].size == 0 else 1.0)
    alphas, betas = knots_below(np.exp(lines[0]) * (1 + 8 * UNIT), 1 - lines[1] - 8 * UNIT)
    return pair_through(alphas, np.where(alphas >= 1, 0.0, np.maximum(betas - 16 * UNIT, 0.0)))


def from_profile(epsilon: Sequence[Number] | FloatArray, delta: Sequence[Number] | FloatArray) -> FinitePair:
    """The curve of a mechanism that is (epsilon_i, delta_i)-DP for every i: the largest of the f_{epsilon_i,delta_i}.

    epsilon: (n,), none negative; delta: (n,) in [0, 1]. Both orders of a pair are covered, so each statement gives the
    line and its mirror image. Rounded down.

    >>> curve = from_profile([0, 1], ["0.2", "0.05"])
    >>> round(curve.beta("0.3").lower, 9), round(curve.beta("0.01").lower, 9)
    (0.5, 0.922817182)
    """
    slope, _ = read(epsilon=epsilon)
    if np.any(slope < 0):
        raise ParameterError("epsilon", epsilon, "must not be negative", remedy="from_lines takes one order of a pair")
    lost, _ = read(delta=delta)
    if slope.shape != lost.shape or slope.ndim != 1:
        raise ParameterError("delta", delta, "must give one value for each epsilon")
    # e^-e (1 - delta - a) is the line of slope e^-e with delta' = 1 - e^-e (1 - delta)
    mirrored = 1 - np.exp(-slope) * (1 - lost) * (1 - 4 * UNIT)
    return from_lines(np.concatenate((slope, -slope)), np.concatenate((lost, np.clip(mirrored, 0.0, 1.0))))


def conjugate(curve: TradeOff, epsilon: FloatArray, size: int = 4096) -> Interval[FloatArray]:
    """delta(epsilon) = sup_a 1 - f(a) - e^epsilon a from beta alone: an independent route to `curve.delta`."""
    from neartwin.tradeoff.polygons import delta_by_points

    return delta_by_points(curve, epsilon, size)


def violations(
    function: Callable[[FloatArray], FloatArray], size: int = 2001, tolerance: float = 1e-12
) -> tuple[str, ...]:
    """The conditions of a trade-off function that a function on [0, 1] breaks, as far as a grid can see; () if none.

    function: vectorised. Names: "values in [0, 1]", "at most 1 - alpha", "non-increasing", "convex", "continuous".
    Convex and non-increasing leave a jump possible at 0 alone, so continuity is looked at there.

    >>> violations(lambda a: 1 - a), violations(lambda a: (1 - a) ** 0.5)
    ((), ('at most 1 - alpha', 'convex'))
    """
    tail = np.geomspace(1e-12, 0.01, size // 4)
    grid = np.unique(np.concatenate((np.linspace(0, 1, size), tail, 1 - tail)))
    value = np.asarray(function(grid), dtype=np.float64)
    if value.shape != grid.shape or not np.all(np.isfinite(value)):
        return ("values in [0, 1]",)
    broken = []
    if np.any(value < -tolerance) or np.any(value > 1 + tolerance):
        broken.append("values in [0, 1]")
    if np.any(value > 1 - grid + tolerance):
        broken.append("at most 1 - alpha")
    if np.any(np.diff(value) > tolerance):
        broken.append("non-increasing")
    share = (grid[2:] - grid[1:-1]) / (grid[2:] - grid[:-2])
    chord = share * value[:-2] + (1 - share) * value[2:]
    if np.any((value[1:-1] - chord)[1:] > tolerance) or value[1] > chord[0] + tolerance:
        broken.append("convex")
    near = np.asarray(function(np.array([0.0, 1e-300])), dtype=np.float64)
    if near[0] - near[1] > 1e-6:
        broken.append("continuous")
    return tuple(broken)


def require_tradeoff(function: Callable[[FloatArray], FloatArray]) -> None:
    """Raise `ParameterError`, naming the violated condition, unless the function looks like a trade-off function.

    >>> require_tradeoff(lambda a: 0.5 * a)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: function=... must be a trade-off function, and is not: at most 1 - alpha, ...
    """
    broken = violations(function)
    if broken:
        raise ParameterError("function", function, f"must be a trade-off function, and is not: {', '.join(broken)}")


@dataclass(frozen=True, slots=True)
class WitnessPair:
    """P uniform on [0, 1] and Q with T(P, Q) = f: the test that rejects above 1 - alpha is best at every alpha."""

    curve: TradeOff

    def cdf_P(self, x: FloatArray) -> FloatArray:
        """P[X <= x]."""
        return np.clip(np.asarray(x, dtype=np.float64), 0.0, 1.0)

    def cdf_Q(self, x: FloatArray) -> Interval[FloatArray]:
        """Q[X <= x]: f(1 - x) below 1, all from 1 on."""
        points = np.asarray(x, dtype=np.float64)
        lower, upper = ends(self.curve.beta(1 - np.clip(points, 0.0, 1.0)))
        gone, all_in = points < 0, points >= 1
        return certified(
            np.where(all_in, 1.0, np.where(gone, 0.0, lower)),
            np.where(all_in, 1.0, np.where(gone, 0.0, upper)),
            "f(1-x)",
        )

    def atom(self) -> Interval[FloatArray]:
        """Q's mass at 1, where P has none: 1 - f(0)."""
        return self.curve.power(np.array(0.0))

    def on_cells(self, edges: FloatArray) -> FinitePair:
        """The pair seen through a partition of [0, 1]: a curve above f that tends to it as the cells shrink."""
        return polygon_above(self.curve, 1 - np.asarray(edges, dtype=np.float64))


def witness_pair(curve: TradeOff) -> WitnessPair:
    """A pair of laws whose trade-off function is the given curve (Dong, Roth, Su 2022, Prop. 2.2, proof).

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> round(float(witness_pair(epsilon_delta(1, "0.25")).atom().lower), 12)
    0.25
    """
    return WitnessPair(curve)
