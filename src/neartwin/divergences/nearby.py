"""Lemma 3.17: (epsilon, delta)-closeness is epsilon-closeness of laws nearby, with the laws constructed.

Part 1: D^delta(Y||Z) <= epsilon iff some Y' within delta of Y has D_inf(Y'||Z) <= epsilon; for epsilon >= 0.
Part 2, as corrected: both D^delta <= epsilon iff some Y', Z' within delta / (1 + e^epsilon) have *both*
D_inf(Y'||Z') and D_inf(Z'||Y') <= epsilon. (The text asks one direction of them, and Y = (1, 0), Z = (1/2, 1/2),
delta = 0, epsilon = ln 2 refutes that.) Dwork and Roth 2014, Lemma 3.17.
"""

from dataclasses import dataclass

import numpy as np

from neartwin.checks import non_negative
from neartwin.divergences.enclosure import Certified, Enclosure, enclose, exp, larger, smaller, where
from neartwin.divergences.finite import FinitePair
from neartwin.exact import Number, rational


@dataclass(frozen=True, slots=True, eq=False)
class NearbyLaw:
    """Part 1's witness: `law` is Y' (one enclosed probability an outcome), `distance` its total variation from Y."""

    law: Certified
    distance: Certified


@dataclass(frozen=True, slots=True, eq=False)
class NearbyPair:
    """Part 2's witnesses Y' and Z', and the larger of their total variations from Y and Z."""

    first: Certified
    second: Certified
    distance: Certified


def nearby_law(pair: FinitePair, epsilon: Number) -> NearbyLaw:
    """The law nearest to Y = P whose max divergence from Z = Q is at most epsilon.

    epsilon: at least 0. The distance is the hockey-stick divergence itself, the least possible. What exceeds
    e^epsilon Z is cut off and given, in proportion, to where there is room.

    >>> from neartwin.divergences.finite import finite_pair
    >>> near = nearby_law(finite_pair(["0.5", "0.3", "0.2"], ["0.2", "0.5", "0.3"]), "0.4")
    >>> near.law.upper.round(6), near.distance.upper
    (array([0.298365, 0.429656, 0.271979]), 0.20163506...)
    """
    e = _read(epsilon)
    Y, roof = pair.P, exp(e) * pair.Q
    distance = pair.hockey_stick_at(e)
    room = (roof - Y).at_least(0)
    total = room.sum()
    if total.upper == 0 or distance.upper == 0:
        return NearbyLaw(Y.interval("Lemma 3.17.1"), distance.interval("Lemma 3.17.1"))
    law = smaller(Y, roof) + distance * room / total
    law = smaller(law, roof).at_least(0)
    return NearbyLaw(law.interval("Lemma 3.17.1"), distance.interval("Lemma 3.17.1"))


def nearby_pair(pair: FinitePair, epsilon: Number) -> NearbyPair:
    """Laws near Y = P and Z = Q that are epsilon-close in both directions.

    epsilon: at least 0. The distance is max(H(Y||Z), H(Z||Y)) / (1 + e^epsilon), the least possible: where one law
    exceeds e^epsilon times the other both give way by the same mass; then both sums are mended where the laws have a
    gap, which only brings them closer.

    >>> from neartwin.divergences.finite import finite_pair
    >>> nearby_pair(finite_pair(["0.5", "0.3", "0.2"], ["0.2", "0.5", "0.3"]), "0.4").distance.upper
    0.08091863...
    """
    e = _read(epsilon)
    odds = exp(e)
    Y, Z = pair.P, pair.Q
    up = (Y - odds * Z).at_least(0) / (1 + odds)
    down = (Z - odds * Y).at_least(0) / (1 + odds)
    forward, backward = pair.hockey_stick_at(e), pair.reversed().hockey_stick_at(e)
    first, second = Y - up + down, Z + up - down
    first, second = _mended(first, second, (forward - backward) / (1 + odds))
    distance = larger(forward, backward) / (1 + odds)
    method = "Lemma 3.17.2, corrected"
    return NearbyPair(
        first.at_least(0).interval(method), second.at_least(0).interval(method), distance.interval(method)
    )


def _mended(first: Enclosure, second: Enclosure, missing: Enclosure) -> tuple[Enclosure, Enclosure]:
    """Move `missing` mass into the first law and out of the second (negative: the other way), where they differ."""
    sign = 1.0 if missing.middle >= 0 else -1.0
    gap = (second - first).at_least(0) if sign > 0 else (first - second).at_least(0)
    total = gap.sum()
    if total.upper == 0 or total.lower == 0:
        return first, second
    moved = missing * gap / total
    return where(gap.upper > 0, first + moved, first), where(gap.upper > 0, second - moved, second)


def _read(epsilon: Number) -> Enclosure:
    return enclose(epsilon=non_negative(epsilon=rational(epsilon=epsilon)))


def largest_log_ratio(first: Certified, second: Certified) -> float:
    """A lower bound on the max divergence of two enclosed laws; to check a witness.

    >>> from neartwin.exact import Interval
    >>> largest_log_ratio(Interval(np.array([0.5]), np.array([0.5])), Interval(np.array([0.25]), np.array([0.25])))
    0.69314718...
    """
    with np.errstate(divide="ignore"):
        ratios = np.log(first.lower[first.lower > 0]) - np.log(second.upper[first.lower > 0])
    return float(np.max(ratios))
