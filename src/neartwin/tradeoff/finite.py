"""T(P, Q) of two laws on finitely many outcomes, by Neyman and Pearson with randomisation at the boundary.

Outcomes are sorted by likelihood ratio q/p, largest first. Outcomes that Q alone can produce are rejected for nothing, so
f(0) may be below 1. The curve is the polygon through (p_1 + ... + p_k, q_{k+1} + ... + q_n). Masses known to a relative error
`slack` give every knot to about that error, and the bracket moves the whole polygon by it, both ways.

Integer noise has such curves: discrete Laplace and the staircase, exactly.
Proofs: (T1) to (T7) of docs/proofs/tradeoff.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from flint import arb

from neartwin.balls import ball, bounds
from neartwin.checks import in_floats, integer, non_negative, positive
from neartwin.divergences.finite import FinitePair as CertifiedPair
from neartwin.divergences.finite import discrete_laplace_pair, k_ary_response_pair
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, rational
from neartwin.tradeoff.functions import TINY, UNIT, Argument, as_floats, clipped, complement, finite, levels


@dataclass(frozen=True, slots=True, eq=False)
class FinitePair:
    """The curve of a finite pair. P, Q: masses sorted by falling q/p. slack: bound on their relative error.

    alphas, betas: (n + 1,) knots from (0, f(0)) to (1, 0), each within `slack` relatively.
    """

    P: FloatArray
    Q: FloatArray
    alphas: FloatArray
    betas: FloatArray
    slack: float

    @property
    def symmetric(self) -> bool:
        """Whether the masses of P are those of Q in opposite order, to the last bit."""
        return bool(np.array_equal(self.P, self.Q[::-1]))

    def inverse(self) -> "FinitePair":
        """T(Q, P): the two laws change places."""
        return FinitePair(self.Q[::-1], self.P[::-1], self.betas[::-1], self.alphas[::-1], self.slack)

    def _at(self, level: FloatArray, rest: FloatArray) -> FloatArray:
        """The polygon through the knots, from alpha = 0."""
        value = _between(self.alphas, self.betas, level)
        free = max(int(np.searchsorted(self.alphas, 0.0, side="right")) - 1, 0)
        return np.where(rest <= 0, 0.0, np.where(level <= 0, self.betas[free], value))

    def _left_of_one(self, rest: FloatArray) -> FloatArray:
        """The same polygon from alpha = 1, where 1 - alpha is known better than alpha."""
        return _between(np.concatenate(([0.0], np.cumsum(self.P[::-1]))), self.betas[::-1], rest)

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The polygon, widened by the slack of its knots."""
        level, rest = _level_and_rest(alpha)
        room = self.slack + 8 * UNIT
        moved = np.minimum(level * (1 + room) + 16 * TINY, 1.0)
        lower = self._at(np.where(level <= 0, 0.0, moved), np.where(level <= 0, 1.0, rest - level * room))
        upper = self._at(level * (1 - room), rest + level * room)
        near, more = rest < 0.25, room + self.P.size * UNIT
        if np.any(near):
            lower = np.where(near, self._left_of_one(rest * (1 - more)), lower)
            upper = np.where(near, self._left_of_one(rest * (1 + more)), upper)
        # masses below the floats' range have an error of their own
        few = 16 * TINY * self.P.size
        upper = np.where((rest <= 0) | (upper <= 0), 0.0, upper * (1 + room) + few)
        return clipped(lower * (1 - room) - few, upper, "Neyman-Pearson")

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """1 - beta, through the cumulative masses of Q."""
        level, rest = _level_and_rest(alpha)
        room = self.slack + 8 * UNIT
        gained = np.concatenate(([0.0], np.cumsum(self.Q)))
        room = room + self.Q.size * UNIT
        moved = [np.minimum(level * (1 + sign * room), 1.0) for sign in (-1, 1)]
        low, high = (np.interp(part, self.alphas, gained) for part in moved)
        free = gained[np.searchsorted(self.alphas, 0.0, side="right") - 1]
        low, high = np.where(level <= 0, free, low), np.where(level <= 0, free, high)
        return clipped(low * (1 - room), np.where(rest <= 0, 1.0, high * (1 + room)), "Neyman-Pearson")

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """Sum of (q - e^epsilon p) over the outcomes where it is positive."""
        wanted = as_floats(finite(epsilon=epsilon))
        with np.errstate(over="ignore"):  # the largest float is still below the ratio of an outcome of Q alone
            factor = np.minimum(np.atleast_1d(np.exp(wanted)), np.finfo(float).max)
        # the rounding of epsilon moves e^epsilon by |epsilon| units; 1 - e^epsilon < 0 where it is large
        room = self.slack + (8 + self.Q.size + np.minimum(np.abs(np.atleast_1d(wanted)), 1e3)) * UNIT
        with np.errstate(divide="ignore", over="ignore"):
            ratios = np.where(self.P > 0, self.Q / np.maximum(self.P, TINY), np.inf)
        # outcomes that may win something, and of them those that surely do, for ratios and e^epsilon are rounded
        count, sure = (
            np.searchsorted(-ratios, -(factor * (1 - part)).ravel()).reshape(factor.shape) for part in (room, 0)
        )
        won = np.concatenate(([0.0], np.cumsum(self.Q)))[count]
        cost = np.concatenate(([0.0], np.cumsum(self.P)))
        with np.errstate(invalid="ignore", over="ignore"):
            paid, open_ = np.where(count > 0, factor * cost[count], 0.0), factor * (cost[count] - cost[sure])
        value, slack = won - paid, room * (won + paid + 2 * open_)
        # a factor that is cut pays too little, but for outcomes of Q alone
        least = np.where(factor < np.finfo(float).max, value - slack, self.Q[self.P == 0].sum() * (1 - room))
        lower = np.maximum(least, np.maximum(0.0, 1 - factor - 8 * UNIT))
        upper = np.maximum(value + slack, lower)
        return clipped(lower.reshape(wanted.shape), upper.reshape(wanted.shape), "sum over outcomes")


def _level_and_rest(alpha: Argument) -> tuple[FloatArray, FloatArray]:
    """A probability and its complement, each to the last bit."""
    level = levels(alpha=alpha)
    return as_floats(level), as_floats(complement(level))


def _between(at: FloatArray, values: FloatArray, x: FloatArray) -> FloatArray:
    """Linear interpolation between ascending knots by two weights, relatively accurate where values are small."""
    index = np.clip(np.searchsorted(at, x, side="right") - 1, 0, at.size - 2)
    left, right = at[index], at[index + 1]
    width = np.maximum(right - left, 1e-300)
    share = np.clip(np.minimum(right - x, width) / width, 0.0, 1.0)
    other = np.clip(np.minimum(x - left, width) / width, 0.0, 1.0)
    return np.asarray(share * values[index] + other * values[index + 1])


def from_masses(P: FloatArray, Q: FloatArray, *, slack: float) -> FinitePair:
    """The curve of float probabilities, in any order.

    Args:
        P: (n,) probabilities, whose sum is 1 within the error.
        Q: (n,) probabilities, whose sum is 1 within the error.
        slack: The relative error of each.

    Returns:
        The curve.
    """
    keep = (P > 0) | (Q > 0)
    p, q = P[keep], Q[keep]
    with np.errstate(divide="ignore", over="ignore"):
        order = np.argsort(-np.where(p > 0, q / np.maximum(p, TINY), np.inf), kind="stable")
    p, q = p[order], q[order]
    alphas = np.concatenate(([0.0], np.cumsum(p)))
    betas = np.concatenate((np.cumsum(q[::-1])[::-1], [0.0]))
    alphas = np.where(alphas >= alphas[-1], 1.0, np.minimum(alphas, 1.0))
    betas = np.where(betas >= betas[0], min(1.0, max(betas[0], 1 - slack)), betas)
    a, b, c, d = parts = [np.array(part) for part in (p, q, alphas, betas)]
    for part in parts:
        part.flags.writeable = False
    return FinitePair(a, b, c, d, slack + (2 + p.size) * 2 * UNIT)


def product(first: FinitePair, second: FinitePair) -> FinitePair:
    """The product of two finite pairs, outcome by outcome.

    Args:
        first: One pair.
        second: The other pair.

    Returns:
        The pair of product laws.
    """
    P, Q = np.outer(first.P, second.P).ravel(), np.outer(first.Q, second.Q).ravel()
    return from_masses(P, Q, slack=first.slack + second.slack + 2 * UNIT)


def of_pair(pair: CertifiedPair) -> FinitePair:
    """The curve of two certified finite laws, whose masses the nearest floats below stand for."""
    # a mass below the range of floats is still not nothing
    masses = [np.where(law.upper > 0, np.maximum(law.lower, TINY), 0.0) for law in pair.probabilities()]
    return from_masses(*masses, slack=8 * UNIT)


def exact_masses(name: str, masses: Sequence[Number] | FloatArray) -> list[Fraction]:
    """A law's probabilities as rationals that sum to 1. A sum within 1e-9 of 1 is scaled.

    Args:
        name: The name of the parameter, for errors.
        masses: (n,) probabilities.

    Returns:
        (n,) exact probabilities.

    Raises:
        ParameterError: They are negative or empty, or their sum is not 1.
    """
    exact = [rational(**{name: value}) for value in masses]
    total = sum(exact, Fraction(0))
    if any(value < 0 for value in exact):
        raise ParameterError(name, masses, "must not hold a negative probability")
    if abs(total - 1) > Fraction(1, 10**9):
        raise ParameterError(name, masses, f"must sum to 1, not {float(total):.12g}")
    return [value / total for value in exact]


def finite_pair(P: Sequence[Number] | FloatArray, Q: Sequence[Number] | FloatArray) -> FinitePair:
    """T(P, Q) of two probability vectors of one length.

    Args:
        P: Probabilities. Decimals are exact; sums within 1e-9 of 1 are scaled to it.
        Q: As many probabilities.

    Returns:
        The curve.

    Raises:
        ParameterError: The vectors are no laws, or have different lengths.

    >>> curve = finite_pair(["0.5", "0.3", "0.2"], ["0.1", "0.3", "0.6"])
    >>> round(curve.beta("0.35").lower, 12), round(curve.inverse().beta("0.1").upper, 12)
    (0.25, 0.5)
    >>> finite_pair([0, "0.6", "0.4"], ["0.3", "0.5", "0.2"]).beta(0).upper < 0.70001
    True
    """
    p, q = exact_masses("P", P), exact_masses("Q", Q)
    if len(p) != len(q):
        raise ParameterError("Q", Q, f"must have the length of P, {len(p)}")
    return from_masses(np.array(p, dtype=np.float64), np.array(q, dtype=np.float64), slack=2 * UNIT)


def polygon(alphas: Sequence[Number], betas: Sequence[Number]) -> FinitePair:
    """The piecewise linear curve through exact knots, from alpha = 0 to (1, 0).

    Args:
        alphas: Increasing, from 0 to 1.
        betas: The values there.

    Returns:
        The curve.

    Raises:
        ParameterError: The knots are no trade-off function.

    >>> float(polygon([0, "1/4", 1], [1, "1/4", 0]).beta("1/8").lower) <= 0.625
    True
    >>> polygon([0, "1/2", 1], [1, "3/4", 0])
    Traceback (most recent call last):
    neartwin.errors.ParameterError: betas=[1, '3/4', 0] must be convex in alpha; knot 1 lies above its neighbours' chord
    """
    a, b = [rational(alphas=v) for v in alphas], [rational(betas=v) for v in betas]
    if len(a) != len(b) or len(a) < 2 or a[0] != 0 or a[-1] != 1 or b[-1] != 0:
        raise ParameterError("alphas", alphas, "must be knots from alpha=0 to the point (1, 0), one beta each")
    if any(x >= y for x, y in pairwise(a)):
        raise ParameterError("alphas", alphas, "must increase")
    if any(x < y for x, y in pairwise(b)) or b[0] > 1:
        raise ParameterError("betas", betas, "must not increase, from at most 1")
    for k in range(1, len(a) - 1):
        if (b[k] - b[k - 1]) * (a[k + 1] - a[k]) > (b[k + 1] - b[k]) * (a[k] - a[k - 1]):
            raise ParameterError("betas", betas, f"must be convex in alpha; knot {k} lies above its neighbours' chord")
    p = [y - x for x, y in pairwise(a)]
    return finite_pair([Fraction(0), *p], [1 - b[0], *[x - y for x, y in pairwise(b)]])


def randomized_response(epsilon: Number, k: int = 2) -> FinitePair:
    """The curve of k-ary randomized response: the truth with odds e^epsilon to 1 against each other answer.

    For k = 2 it is f_{epsilon,0}, the worst curve of pure DP; for larger k it lies above.

    Args:
        epsilon: The privacy.
        k: The number of answers.

    Returns:
        The curve.

    >>> round(randomized_response(1, 4).beta("0.3").lower, 12)
    0.399510818108
    """
    return of_pair(k_ary_response_pair(epsilon=non_negative(epsilon=rational(epsilon=epsilon)), outcomes=k))


def randomized_response_power(epsilon: Number, n: int) -> FinitePair:
    """f_{epsilon,0} composed with itself n times, exactly: the number of truths is binomial.

    Masses follow from the recurrence p_{i+1}/p_i = (n - i)/(i + 1) e^epsilon, summed from the mode: relative error 4n
    units.

    Args:
        epsilon: The privacy of each, at most 690.
        n: Up to 10^6.

    Returns:
        The curve.

    Raises:
        ParameterError: An argument is out of bounds.

    >>> round(randomized_response_power("0.1", 100).beta("0.2").lower, 10)
    0.4375198085
    """
    exact = non_negative(epsilon=rational(epsilon=epsilon))
    count = integer(at_least=1, n=n)
    if exact > 690:
        raise ParameterError("epsilon", epsilon, "must be at most 690: its power would be beyond the floats")
    growth = bounds(lambda: ball(exact).exp())[0]
    i = np.arange(count, dtype=np.float64)
    steps = (count - i) / (i + 1) * growth
    mode = min(int(np.searchsorted(-steps, -1.0)), count)
    up = np.cumprod(steps[mode:])
    down = np.cumprod(1 / steps[:mode][::-1])[::-1]
    masses = np.concatenate((down, [1.0], up))
    masses = np.maximum(masses / math.fsum(masses), TINY)  # below the range of floats, and still not nothing
    return from_masses(masses[::-1].copy(), masses, slack=(6 * count + 16) * UNIT)


def discrete_laplace(epsilon: Number, sensitivity: int = 1) -> FinitePair:
    """T of integer noise with odds e^{-epsilon/sensitivity} a step, against its shift by the whole sensitivity.

    Args:
        epsilon: The privacy at distance `sensitivity`.
        sensitivity: The shift, in steps.

    Returns:
        The curve.

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> flat, pure = discrete_laplace(1), epsilon_delta(1)
    >>> abs(flat.beta("0.2").lower - pure.beta("0.2").lower) < 1e-14
    True
    """
    exact = non_negative(epsilon=rational(epsilon=epsilon))
    return of_pair(discrete_laplace_pair(epsilon=exact, sensitivity=sensitivity))


def staircase_masses(epsilon: Number, sensitivity: int, step: int) -> tuple[float, float, float]:
    """The probabilities under P of the losses epsilon, 0 and -epsilon of staircase noise against its shift by the
    sensitivity.

    Args:
        epsilon: The epsilon of a period.
        sensitivity: D, a whole number.
        step: r, from 1 to D.

    Returns:
        Three floats, each within one unit in its last place.

    Raises:
        ParameterError: The step is above the sensitivity.

    >>> [round(mass, 6) for mass in staircase_masses(1, 5, 2)]
    [0.670073, 0.083422, 0.246506]
    """
    exact = positive(epsilon=rational(epsilon=epsilon))
    distance = in_floats(sensitivity=integer(at_least=1, sensitivity=sensitivity))
    upper = integer(at_least=1, step=step)
    if upper > distance:
        raise ParameterError("step", step, f"must be at most the sensitivity, {distance}")

    def mass(loss: int) -> arb:
        q = ball(-exact).exp()
        half = (upper + (distance - upper) * q) / (1 - q)
        whole = 2 * half - 1
        if loss == 0:
            if 2 * upper > distance:
                return ball(2 * upper - distance - 1) / whole
            return (distance - 2 * upper + 1) * q / whole
        return (half + min(upper - 1, distance - upper)) / whole * (1 if loss > 0 else q)

    truth, shared, lie = (max(bounds(mass, loss)[0], 0.0) for loss in (1, 0, -1))
    return truth, shared, lie


def staircase(epsilon: Number, sensitivity: int, step: int) -> FinitePair:
    """T of staircase noise against its shift by the whole sensitivity, the worst of its shifts: two knees, or one.

    Args:
        epsilon: The privacy at distance `sensitivity`.
        sensitivity: The shift, in steps.
        step: The width of the upper step, from 1 to sensitivity.

    Returns:
        The curve.

    >>> from neartwin.tradeoff.families import epsilon_delta
    >>> staircase(1, 100, 27).beta("0.27").lower > epsilon_delta(1).beta("0.27").upper
    True
    """
    truth, shared, lie = staircase_masses(epsilon, sensitivity, step)
    lie = max(lie, TINY)  # below the range of floats, and still not nothing
    slack = 8 * UNIT
    return from_masses(np.array([lie, shared, truth]), np.array([truth, shared, lie]), slack=slack)
