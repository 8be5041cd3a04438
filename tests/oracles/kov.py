"""The optimal composition of (epsilon, delta)-DP mechanisms by sums over binomial counts, for few different parameters.

Every (epsilon, delta)-DP mechanism is a post-processing of randomized response with a failure of probability delta, so
k of them are no worse than k such responses, whose hockey-stick divergence is a sum over signs. Equal parameters: two
binomial tails (Kairouz, Oh, Viswanath 2015, Theorem 3.3). Different ones: the product of such counts (Murtagh, Vadhan 2016).

`neartwin.losses.compose` answers the same questions for any mixture; this file shares no arithmetic with it and checks it.

The parameters must be *fixed in advance*: for adaptively chosen ones optimal composition is not a theorem.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from neartwin.balls import (
    Certified,
    Exact,
    Numeric,
    ball,
    binomial_cdf,
    bounds,
    each,
    elementwise,
    every,
    exceeds,
    read,
    root,
)
from neartwin.checks import integer, non_negative, probability, several
from neartwin.errors import ParameterError
from neartwin.exact import Interval, Number, float_above, float_below, rational

if TYPE_CHECKING:
    from flint import arb

MOST_SUMS = 1 << 12  # terms of a product of counts
EXACT_BITS = 1 << 20  # of a power that is compared as a rational
METHOD = "KOV, exact binomial sum"
Steps = Mapping[tuple[Fraction, Fraction], int]  # how many mechanisms have this (epsilon, delta)


def kov_delta(*, epsilon: Number, delta: Number = 0, count: int, epsilon_total: Numeric) -> Certified:
    """The least delta at which count (epsilon, delta)-DP mechanisms compose to (epsilon_total, .)-DP.

    epsilon, delta: of each mechanism, equal and fixed in advance; epsilon_total: at least 0, any shape. Attained by
    randomized response.

    >>> kov_delta(epsilon="0.1", count=100, epsilon_total=2).upper
    0.02014017...
    """
    return _delta(_equal(epsilon, delta, count), epsilon_total)


def kov_epsilon(*, epsilon: Number, delta: Number = 0, count: int, delta_total: Number) -> Certified:
    """The least epsilon at which count (epsilon, delta)-DP mechanisms compose to (., delta_total)-DP.

    At least 0; infinite where delta_total is below the failure mass 1 - (1 - delta)^count. Not confined to the grid
    of losses (count - 2i) epsilon.

    >>> kov_epsilon(epsilon="0.1", count=100, delta_total="1e-6").upper
    4.77456758...
    """
    return _epsilon(_equal(epsilon, delta, count), delta_total)


def kov_mixed_delta(*, epsilons: Sequence[Number], deltas: Sequence[Number], epsilon_total: Numeric) -> Certified:
    """The least delta of (epsilon_i, delta_i)-DP mechanisms together at epsilon_total; parameters fixed in advance.

    >>> kov_mixed_delta(epsilons=["0.1", "0.2", "0.3", "0.5"], deltas=[0, "1e-6", 0, "1e-5"], epsilon_total="0.6").upper
    0.07286764...
    """
    return _delta(_mixed(epsilons, deltas), epsilon_total)


def kov_mixed_epsilon(*, epsilons: Sequence[Number], deltas: Sequence[Number], delta_total: Number) -> Certified:
    """The least epsilon of different mechanisms together at delta_total: 0 or more, infinite below the failure mass."""
    return _epsilon(_mixed(epsilons, deltas), delta_total)


def _equal(epsilon: Number, delta: Number, count: int) -> Steps:
    each_ = non_negative(epsilon=rational(epsilon=epsilon)), probability(delta=rational(delta=delta))
    return {each_: integer(at_least=1, count=count)}


def _mixed(epsilons: Sequence[Number], deltas: Sequence[Number]) -> Steps:
    if len(several(epsilons=epsilons)) != len(several(deltas=deltas)) or not epsilons:
        raise ParameterError("deltas", deltas, f"must be as many as epsilons, {len(epsilons)}, and at least one")
    steps = Counter(
        (non_negative(epsilons=rational(epsilons=e)), probability(deltas=rational(deltas=d)))
        for e, d in zip(epsilons, deltas, strict=True)
    )
    sums = math.prod(count + 1 for count in sorted(_counts(steps).values())[:-1])
    if sums > MOST_SUMS:
        raise ParameterError("epsilons", len(epsilons), "make too many sums", remedy="use neartwin.losses.compose")
    return steps


def _counts(steps: Steps) -> dict[Fraction, int]:
    counts: Counter[Fraction] = Counter()
    for (epsilon, _), count in steps.items():
        counts[epsilon] += count
    return dict(counts)


def _hockey_stick(steps: Steps, epsilon_total: Fraction) -> "arb":
    """Of the responses alone: the largest group by two binomial tails, the others by every count of losses below 0."""
    (main, count), *others = sorted(_counts(steps).items(), key=lambda group: -group[1])
    total = ball(0)
    if main == 0:
        return total
    lie = 1 / (1 + ball(main).exp())  # the probability of loss -epsilon under P; under Q it is that of the truth
    for below in product(*(range(n + 1) for _, n in others)):
        shift, weight = Fraction(0), ball(1)
        for (e, n), i in zip(others, below, strict=True):
            shift += (n - 2 * i) * e
            weight *= math.comb(n, i) * (1 / (1 + (-ball(e)).exp())) ** n * (-ball(i * e)).exp()
        # the largest number of losses below 0 that leaves the sum above epsilon_total
        last = min(math.ceil((count - (epsilon_total - shift) / main) / 2) - 1, count)
        tail = binomial_cdf(count, last, lie) - ball(epsilon_total - shift).exp() * binomial_cdf(count, last, 1 - lie)
        total += weight * tail
    return total


def _kept(steps: Steps) -> "arb":
    """The probability that nothing fails."""
    return sum((n * (-ball(delta)).log1p() for (_, delta), n in steps.items()), ball(0)).exp()


def _delta(steps: Steps, epsilon_total: Numeric) -> Certified:
    totals = read(epsilon_total=epsilon_total)
    if not every(lambda e: e >= 0, totals):
        raise ParameterError("epsilon_total", epsilon_total, "must not be negative")
    return elementwise(lambda total: _delta_at(steps, total), totals, method=METHOD, least=0, most=1)


def _delta_at(steps: Steps, total: Exact) -> "arb | Exact":
    if any(delta == 1 for _, delta in steps):
        return 1
    kept = _kept(steps)
    beyond = total == math.inf or total >= sum(n * e for (e, _), n in steps.items())
    fails = any(delta for _, delta in steps)
    if beyond:
        return 1 - kept if fails else 0
    return 1 - kept + kept * _hockey_stick(steps, Fraction(total))


def _epsilon(steps: Steps, delta_total: Number) -> Certified:
    goal = probability(delta_total=rational(delta_total=delta_total))
    top = sum((n * e for (e, _), n in steps.items()), Fraction(0))
    room = _room(steps, goal)
    if room < 0:
        return Interval(math.inf, math.inf, METHOD)
    if room == 0 or top == 0:
        return Interval(float_below(top), float_above(top), METHOD)

    def excess(total: float) -> "arb":
        return ball(_delta_at(steps, total)) - ball(goal)

    if bounds(excess, 0.0)[1] <= 0:
        return Interval(0.0, 0.0, METHOD)
    return each(lambda: root(excess, 0.0, float_above(top)), method=METHOD)


def _room(steps: Steps, goal: Fraction) -> int:
    """The sign of delta_total less the failure mass."""
    if any(delta == 1 for _, delta in steps) or goal == 1:
        return 0 if goal == 1 else -1
    if sum(n * delta.denominator.bit_length() for (_, delta), n in steps.items()) <= EXACT_BITS:
        kept = math.prod((1 - delta) ** n for (_, delta), n in steps.items())
        return (kept > 1 - goal) - (kept < 1 - goal)
    return 1 if exceeds(lambda: _kept(steps), lambda: 1 - ball(goal)) else -1
