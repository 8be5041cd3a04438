"""The optimal composition of (epsilon, delta)-DP mechanisms: exact for equal parameters, bracketed for different ones.

Every (epsilon, delta)-DP mechanism is a post-processing of randomized response with a failure of probability delta, so
k of them are no worse than k such responses, whose hockey-stick divergence is a sum over signs. Equal parameters: a
binomial sum (Kairouz, Oh, Viswanath 2015, Theorem 3.3). Different ones: 2^k signs (Murtagh, Vadhan 2016), exactly while
that many fit, else on a grid of losses: above by splitting each response between grid points so that P and Q keep their
masses, below by merging cells, which is post-processing. Both are second order in the grid.

`lattice.py` answers the same questions for any mixture, 2e-12 wide, in a twentieth of the time for 200 equal mechanisms and a
hundredth for 40 different ones. This room is kept because it shares no arithmetic with that one, is narrower (1e-14) where
enough signs or binomial terms can be summed, and checks it (tests/losses/test_kov.py).

The parameters must be *fixed in advance*: for adaptively chosen ones optimal composition is not a theorem.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from neartwin.checks import integer, non_negative, probability
from neartwin.divergences.binomial import loss_hockey_stick
from neartwin.divergences.enclosure import Certified, Enclosure, Numeric, enclose, exp, expm1, log1p
from neartwin.divergences.inverse import certified_root
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, float_above, float_below, rational

EXACT_RESPONSES = 20
GRID_CELLS = 1 << 17
_U = 2.0**-53


def kov_delta(*, epsilon: Number, delta: Number = 0, count: int, epsilon_total: Numeric) -> Certified:
    """The least delta at which count (epsilon, delta)-DP mechanisms compose to (epsilon_total, .)-DP.

    epsilon, delta: of each mechanism, equal and fixed in advance; epsilon_total: at least 0, any shape. Attained by
    randomized response. Relative width about 1e-13 up to a count of 100 000 and a delta of 1e-300.

    >>> kov_delta(epsilon="0.1", count=100, epsilon_total=2).upper
    0.02014017...
    """
    each = _Equal.read(epsilon, delta, count)
    if isinstance(epsilon_total, (np.ndarray, list, tuple)):
        values = [each.delta(Fraction(x)) for x in _floats(epsilon_total).ravel().tolist()]
        shape = np.shape(np.asarray(epsilon_total, dtype=float))
        lower, upper = (np.array([getattr(v, end) for v in values]).reshape(shape) for end in ("lower", "upper"))
        return Interval(lower, upper, "KOV, exact binomial sum")
    scalar: Any = epsilon_total
    if scalar == math.inf:
        return Interval(*_ends(each.failure()), "KOV, exact binomial sum")
    total = non_negative(epsilon_total=rational(epsilon_total=scalar))
    return each.delta(total).interval("KOV, exact binomial sum")


def kov_epsilon(*, epsilon: Number, delta: Number = 0, count: int, delta_total: Number) -> Certified:
    """The least epsilon at which count (epsilon, delta)-DP mechanisms compose to (., delta_total)-DP.

    At least 0; infinite where delta_total is below the failure mass 1 - (1 - delta)^count. Not confined to the grid
    of losses (count - 2i) epsilon.

    >>> kov_epsilon(epsilon="0.1", count=100, delta_total="1e-6").upper
    4.77456758...
    """
    each = _Equal.read(epsilon, delta, count)
    target = each.target(probability(delta_total=rational(delta_total=delta_total)))
    top = each.count * each.epsilon
    if target is None:
        return Interval(math.inf, math.inf, "KOV, exact binomial sum")
    if target.upper == 0 or top == 0:
        return Interval(float_below(top), float_above(top), "KOV, exact binomial sum")
    zero, high = np.asarray(0.0), np.asarray(float_above(top))
    if each.hockey_stick(Fraction(0)).upper <= target.lower:
        return Interval(0.0, 0.0, "KOV, exact binomial sum")
    root = certified_root(lambda e: each.hockey_stick(Fraction(float(e))), target, (zero, high))
    upper = math.inf if target.lower < 0 else float(root.upper)
    return Interval(float(root.lower), upper, "KOV, exact binomial sum")


def _floats(values: Any) -> FloatArray:
    out = np.asarray(values, dtype=float)
    if not np.all(out >= 0) or np.any(np.isinf(out)):
        raise ParameterError("epsilon_total", values, "must be finite and not negative")
    return out


def _ends(value: Enclosure) -> tuple[float, float]:
    return float(value.lower), float(value.upper)


@dataclass(frozen=True, slots=True)
class _Equal:
    epsilon: Fraction
    each_delta: Fraction
    count: int

    @staticmethod
    def read(epsilon: Number, delta: Number, count: int) -> "_Equal":
        return _Equal(
            non_negative(epsilon=rational(epsilon=epsilon)),
            probability(delta=rational(delta=delta)),
            integer(at_least=1, count=count),
        )

    def hockey_stick(self, epsilon_total: Fraction) -> Enclosure:
        """Of the responses alone, without their failures."""
        e = enclose(epsilon=self.epsilon)
        if self.epsilon == 0:
            return Enclosure.of(0.0)
        # the largest number of failures whose loss (count - 2i) epsilon still exceeds epsilon_total
        last = math.ceil((self.count - epsilon_total / self.epsilon) / 2) - 1
        gap = enclose(gap=(self.count - 2 * last) * self.epsilon - epsilon_total)
        return loss_hockey_stick(
            self.count, p=1 / (1 + exp(-e)), rest=1 / (1 + exp(e)), gap=gap, step=2.0 * e, last=last
        )

    def failure(self) -> Enclosure:
        """1 - (1 - delta)^count."""
        if self.each_delta == 1:
            return Enclosure.of(1.0)
        return -expm1(float(self.count) * log1p(-enclose(delta=self.each_delta)))

    def delta(self, epsilon_total: Fraction) -> Enclosure:
        lost = self.failure()
        return (lost + (1 - lost) * self.hockey_stick(epsilon_total)).at_most(1)

    def target(self, delta_total: Fraction) -> Enclosure | None:
        """The hockey-stick value that leaves exactly delta_total; None where the failures alone exceed it."""
        if self.each_delta == 1:
            return None if delta_total < 1 else Enclosure.of(1.0)
        if self.count * self.each_delta.denominator.bit_length() <= 1 << 20:
            exact = 1 - (1 - delta_total) / (1 - self.each_delta) ** self.count
            return None if exact < 0 else Enclosure(np.asarray(float_below(exact)), np.asarray(float_above(exact)))
        rest = log1p(-enclose(delta=delta_total)) - float(self.count) * log1p(-enclose(delta=self.each_delta))
        value = -expm1(rest)
        return None if value.upper < 0 else value


def kov_mixed_delta(*, epsilons: Sequence[Number], deltas: Sequence[Number], epsilon_total: Numeric) -> Certified:
    """The least delta of (epsilon_i, delta_i)-DP mechanisms together at epsilon_total; parameters fixed in advance.

    Exact (to rounding) for up to 20 mechanisms, beyond that a certified bracket.

    >>> kov_mixed_delta(epsilons=["0.1", "0.2", "0.3", "0.5"], deltas=[0, "1e-6", 0, "1e-5"], epsilon_total="0.6").upper
    0.07286764...
    """
    mixed = mixed_responses(epsilons=epsilons, deltas=deltas)
    at = enclose(epsilon_total=epsilon_total)
    if not np.all((at.lower >= 0) & np.isfinite(at.upper)):
        raise ParameterError("epsilon_total", epsilon_total, "must be finite and not negative")
    return mixed.delta(at).interval(mixed.method)


def kov_mixed_epsilon(*, epsilons: Sequence[Number], deltas: Sequence[Number], delta_total: Number) -> Certified:
    """The least epsilon of different mechanisms together at delta_total: 0 or more, infinite below the failure mass."""
    mixed = mixed_responses(epsilons=epsilons, deltas=deltas)
    total = probability(delta_total=rational(delta_total=delta_total))
    kept = Fraction(1)
    for delta in deltas:
        kept *= 1 - rational(delta=delta)
    if 1 - total > kept:
        return Interval(math.inf, math.inf, mixed.method)
    top = sum((rational(epsilon=e) for e in epsilons), Fraction(0))
    goal = Enclosure.of(0.0) if kept == 0 else enclose(target=1 - (1 - total) / kept)
    if goal.upper == 0:
        return Interval(float_below(top), float_above(top), mixed.method)
    bracket = (np.asarray(0.0), np.asarray(float_above(top)))
    root = certified_root(lambda e: mixed.hockey_stick(Enclosure.of(e)), goal, bracket)
    return root.interval(mixed.method)


@dataclass(frozen=True, slots=True, eq=False)
class MixedResponses:
    """Randomized responses composed: atoms that bound the hockey-stick divergence above and below.

    above: (loss, P) enclosures; below: (P, Q) enclosures. For few responses both describe the same exact atoms.
    """

    above: tuple[Enclosure, Enclosure]
    below: tuple[Enclosure, Enclosure]
    failure: Enclosure
    method: str

    def hockey_stick(self, epsilon: Enclosure) -> Enclosure:
        """Of the responses alone, at each epsilon."""
        flat = Enclosure(np.reshape(epsilon.lower, -1), np.reshape(epsilon.upper, -1))
        parts = [self._one(flat[i]) for i in range(flat.shape[0])]
        lower, upper = np.array([p.lower for p in parts]), np.array([p.upper for p in parts])
        return Enclosure(lower.reshape(epsilon.shape), upper.reshape(epsilon.shape)).at_least(0).at_most(1)

    def _one(self, epsilon: Enclosure) -> Enclosure:
        loss, mass = self.above
        top = (mass * (-expm1(epsilon - loss)).at_least(0)).sum()
        P, Q = self.below
        bottom = (P - exp(epsilon) * Q).at_least(0).sum()
        return Enclosure(np.minimum(np.maximum(bottom.lower, 0), top.upper), top.upper)

    def delta(self, epsilon: Enclosure) -> Enclosure:
        """With the failures."""
        return (self.failure + (1 - self.failure) * self.hockey_stick(epsilon)).at_most(1)


def mixed_responses(*, epsilons: Sequence[Number], deltas: Sequence[Number]) -> MixedResponses:
    """The composition of randomized responses with these parameters, ready for many questions."""
    eps = [non_negative(epsilons=rational(epsilons=e)) for e in epsilons]
    dels = [probability(deltas=rational(deltas=d)) for d in deltas]
    if len(eps) != len(dels) or not eps:
        raise ParameterError("deltas", deltas, f"must be as many as epsilons, {len(eps)}, and at least one")
    kept = Fraction(1)
    for d in dels:
        kept *= 1 - d
    failure = enclose(failure=1 - kept)
    if len(eps) <= EXACT_RESPONSES:
        return _enumerated(eps, failure)
    return _gridded([float(e) for e in eps], failure)


def _enumerated(epsilons: list[Fraction], failure: Enclosure) -> MixedResponses:
    loss, mass = Enclosure.of(np.zeros(1)), Enclosure.of(np.ones(1))
    Q = mass
    for epsilon in epsilons:
        e = enclose(epsilon=epsilon)
        p, r = 1 / (1 + exp(-e)), 1 / (1 + exp(e))
        loss, mass, Q = _joined(loss + e, loss - e), _joined(mass * p, mass * r), _joined(Q * r, Q * p)
    return MixedResponses((loss, mass), (mass, Q), failure, "optimal composition, all signs")


def _joined(one: Enclosure, two: Enclosure) -> Enclosure:
    return Enclosure(np.concatenate([one.lower, two.lower]), np.concatenate([one.upper, two.upper]))


def _gridded(epsilons: list[float], failure: Enclosure) -> MixedResponses:
    """Both brackets on one grid of losses, step h; relative rounding of every mass at most 16 k 2^-53."""
    step = 2 * sum(epsilons) / GRID_CELLS
    reach = math.ceil(sum(epsilons) / step) + 2 * len(epsilons) + 2 if step else 1
    step = step or 1.0
    above = np.zeros(2 * reach + 1)
    P, Q = above.copy(), above.copy()
    above[reach] = P[reach] = Q[reach] = 1.0
    for epsilon in epsilons:
        p, r = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
        above = p * _split(above, epsilon, step) + r * _split(above, -epsilon, step)
        move = round(epsilon / step)
        P, Q = p * _moved(P, move) + r * _moved(P, -move), r * _moved(Q, move) + p * _moved(Q, -move)
    drift, tiny = 16 * len(epsilons) * _U, 1e-300
    pad = 16 * sum(epsilons) * _U  # what the shifts may have lost to rounding
    loss = Enclosure.of(np.arange(-reach, reach + 1.0)) * step + pad
    top = Enclosure(above * (1 - drift), above * (1 + drift) + tiny)
    low = (
        Enclosure(np.maximum(P * (1 - drift) - tiny, 0), P * (1 + drift) + tiny),
        Enclosure(Q * (1 - drift), Q * (1 + drift) + tiny),
    )
    return MixedResponses((loss, top), low, failure, "optimal composition, certified grid bracket")


def _moved(mass: FloatArray, cells: int) -> FloatArray:
    out = np.zeros_like(mass)
    if cells >= 0:
        out[cells:] = mass[: len(mass) - cells]
    else:
        out[:cells] = mass[-cells:]
    return out


def _split(mass: FloatArray, shift: float, step: float) -> FloatArray:
    """Every loss raised by `shift`: its mass goes to the two grid points around, so that P and Q keep their totals.

    The upper share is rounded up and the shift with it: more loss is on the safe side.
    """
    cells = math.floor(shift / step)
    inside = max(0.0, shift - cells * step) + 8 * abs(shift) * _U
    share = min(1.0, math.expm1(-inside) / math.expm1(-step) * (1 + 64 * _U))
    return (1 - share) * _moved(mass, cells) + share * _moved(mass, cells + 1)
