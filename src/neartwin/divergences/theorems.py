"""Lemmas of the texts on pairs of laws, as functions: Azuma's inequality, KL of pure privacy, nearby laws, verdicts.

Nothing else of the package stands on this file. Dwork and Roth 2014, section 3.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from flint import arb

from neartwin import domains
from neartwin.balls import Certified, Exact, Numeric, all_bounds, ball, binomial_cdf, bounds, elementwise, exceeds, read
from neartwin.checks import integer, non_negative
from neartwin.divergences.finite import FinitePair, Laws, Outcome, hockey_stick_of, kl_of
from neartwin.errors import ParameterError
from neartwin.exact import Interval, Number, rational

# Lemma 3.19, Azuma's inequality, and the exact tail it bounds for randomized response.
#
# |C_i| <= A and E[C_i | past] <= B imply Pr[sum of k > kB + z sqrt(k) A] <= e^(-z^2/2). It is right only through
# Hoeffding's lemma for the *range* 2A; putting |C_i - E C_i| <= 2A into the classical form gives e^(-z^2/8).


def azuma_threshold(*, count: int, bound: Numeric, drift: Numeric, z: Numeric) -> Certified:
    """The value k B + z sqrt(k) A: the sum that is exceeded with probability at most `azuma_tail(z)`.

    Args:
        count: k, the number of summands.
        bound: A > 0, with |C_i| <= A surely.
        drift: B, at least every conditional mean.
        z: A positive number.

    Returns:
        The value.

    >>> azuma_threshold(count=100, bound="0.1", drift="0.005", z=3).upper
    3.5000000000000004
    """
    k = integer(at_least=1, count=count)
    return elementwise(
        lambda A, B, z: k * ball(B) + ball(z) * ball(k).sqrt() * ball(A),
        domains.NOT_NEGATIVE(bound=bound),
        read(drift=drift),
        domains.NOT_NEGATIVE(z=z),
        method="Dwork-Roth Lemma 3.19",
    )


def azuma_tail(z: Numeric) -> Certified:
    """e^(-z^2/2), an upper bound on the probability of passing the threshold; z >= 0.

    >>> azuma_tail(3).upper
    0.01110899...
    """
    return elementwise(
        lambda z: (-(ball(z) ** 2) / 2).exp(),
        domains.NOT_NEGATIVE(z=z),
        method="Dwork-Roth Lemma 3.19",
        least=0,
        most=1,
    )


def response_loss_tail(*, epsilon: Number, count: int, z: Number) -> Certified:
    """The exact probability that the sum of randomized-response losses exceeds k epsilon tanh(epsilon/2) + z sqrt(k)
    epsilon.

    Under P each loss is +-epsilon with mean epsilon tanh(epsilon/2): the lemma with A = epsilon is at least this.

    Args:
        epsilon: The privacy of each response.
        count: k, the number of responses.
        z: A positive number.

    Returns:
        The probability.

    >>> response_loss_tail(epsilon="0.1", count=100, z=2).upper
    0.02204721...
    """
    k, deviations = integer(at_least=1, count=count), rational(z=z)
    e = non_negative(epsilon=rational(epsilon=epsilon))
    if e == 0:
        return Interval(0.0, 0.0, "exact binomial tail")
    # (k - 2i) epsilon passes the threshold iff i < [k (1 - tanh) - z sqrt k] / 2
    edge = bounds(lambda: (k * (1 - (ball(e) / 2).tanh()) - ball(deviations) * ball(k).sqrt()) / 2)
    tails = [bounds(lambda end=end: binomial_cdf(k, math.ceil(end) - 1, 1 / (1 + ball(e).exp()))) for end in edge]
    return Interval(tails[0][0], tails[1][1], "exact binomial tail")


# Lemma 3.18: what pure closeness says about KL, loosely (as printed), better, and tight; and the chain of its proof.
#
# If D_inf(Y||Z) <= epsilon and D_inf(Z||Y) <= epsilon then D(Y||Z) <= epsilon (e^epsilon - 1).


def kl_bound_dwork_roth(epsilon: Numeric) -> Certified:
    """The value epsilon (e^epsilon - 1): the lemma as printed, loose by a factor of about 2.

    >>> kl_bound_dwork_roth(1).upper
    1.71828182...
    """
    e = domains.NOT_NEGATIVE(epsilon=epsilon)
    return elementwise(lambda e: ball(e) * ball(e).expm1(), e, method="Dwork-Roth Lemma 3.18")


def kl_bound_tight(epsilon: Numeric) -> Certified:
    """The value epsilon tanh(epsilon / 2): the least bound, attained by randomized response and the discrete Laplace.

    >>> kl_bound_tight(1).upper
    0.46211715...
    """
    e = domains.NOT_NEGATIVE(epsilon=epsilon)
    return elementwise(tight_kl, e, method="tight KL of pure differential privacy")


def tight_kl(epsilon: Exact) -> arb:
    """The value epsilon tanh(epsilon / 2), a formula of `neartwin.balls`."""
    return ball(epsilon) * (ball(epsilon) / 2).tanh()


def jeffreys(pair: FinitePair) -> Certified:
    """D(Y||Z) + D(Z||Y) = sum (p - q) ln(p/q), the first step of the proof."""
    other = pair.reversed()
    return elementwise(
        lambda at: kl_of(pair.outcomes(at)) + kl_of(other.outcomes(at)), pair.at, method="Jeffreys divergence", least=0
    )


@dataclass(frozen=True, slots=True, eq=False)
class KlChain:
    """The quantities of the proof of Lemma 3.18, each at most the next."""

    kl: Certified
    jeffreys: Certified
    by_difference: Certified  # epsilon sum |p - q| = epsilon sum (max - min)
    by_minimum: Certified  # epsilon (e^epsilon - 1) sum min(p, q) = epsilon (e^epsilon - 1) (1 - TV)
    bound: Certified  # epsilon (e^epsilon - 1)


def kl_chain(pair: FinitePair, epsilon: Numeric) -> KlChain:
    """The whole chain of inequalities for one pair.

    Args:
        pair: The pair, whose losses lie in [-epsilon, epsilon].
        epsilon: The epsilon.

    Returns:
        The values of the chain.

    Raises:
        ParameterError: A loss is larger.
    """
    e = domains.NOT_NEGATIVE(epsilon=epsilon)
    for one in (pair, pair.reversed()):
        most = one.max_divergence()
        if bounds(lambda: ball(e))[1] < most.lower:
            raise ParameterError("epsilon", epsilon, f"must be at least the max divergence {most.lower}")

    def distance() -> arb:
        return hockey_stick_of(pair.outcomes(pair.at), 0)

    method = "Dwork-Roth Lemma 3.18, a step of its proof"
    return KlChain(
        pair.kl(),
        jeffreys(pair),
        elementwise(lambda e: 2 * ball(e) * distance(), e, method=method),
        elementwise(lambda e: ball(e) * ball(e).expm1() * (1 - distance()), e, method=method),
        kl_bound_dwork_roth(epsilon),
    )


# Lemma 3.17: (epsilon, delta)-closeness is epsilon-closeness of laws nearby, with the laws constructed.
#
# Part 1: D^delta(Y||Z) <= epsilon iff some Y' within delta of Y has D_inf(Y'||Z) <= epsilon; for epsilon >= 0.
# Part 2, as corrected: both D^delta <= epsilon iff some Y', Z' within delta / (1 + e^epsilon) have *both*
# D_inf(Y'||Z') and D_inf(Z'||Y') <= epsilon. (The text asks one direction of them, and Y = (1, 0), Z = (1/2, 1/2),
# delta = 0, epsilon = ln 2 refutes that.)


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

    The distance is the hockey-stick divergence itself, the least possible. The mass above e^epsilon Z is cut off and given, in
    proportion, to outcomes with room below it.

    Args:
        pair: P and Q.
        epsilon: At least 0.

    >>> from neartwin.divergences.finite import finite_pair
    >>> near = nearby_law(finite_pair(["0.5", "0.3", "0.2"], ["0.2", "0.5", "0.3"]), "0.4")
    >>> near.law.upper.round(6), near.distance.upper
    (array([0.298365, 0.429656, 0.271979]), 0.20163506...)
    """
    e = non_negative(epsilon=rational(epsilon=epsilon))

    def law() -> list[arb]:
        outcomes, odds = pair.outcomes(pair.at), ball(e).exp()
        excess = hockey_stick_of(outcomes, e)
        room = [(odds * one.q - one.p).max(ball(0)) for one in outcomes]
        total = sum(room, ball(0))
        if excess == 0 or total == 0:
            return [one.p for one in outcomes]
        return [one.p.min(odds * one.q) + excess * part / total for one, part in zip(outcomes, room, strict=True)]

    return NearbyLaw(_law(law, "Lemma 3.17.1"), replace(pair.hockey_stick(e), method="Lemma 3.17.1"))


def _law(probabilities: Callable[[], list[arb]], method: str) -> Certified:
    ends = np.clip(np.array(all_bounds(probabilities)), 0, 1)
    return Interval(ends[:, 0], ends[:, 1], method)


def nearby_pair(pair: FinitePair, epsilon: Number) -> NearbyPair:
    """Laws near Y = P and Z = Q that are epsilon-close in both directions.

    The distance is max(H(Y||Z), H(Z||Y)) / (1 + e^epsilon), the least possible. Where one law exceeds e^epsilon times the other,
    both give way by the same mass. Then both sums are mended where the laws have a gap, which only brings them closer.

    Args:
        pair: P and Q.
        epsilon: At least 0.

    >>> from neartwin.divergences.finite import finite_pair
    >>> nearby_pair(finite_pair(["0.5", "0.3", "0.2"], ["0.2", "0.5", "0.3"]), "0.4").distance.upper
    0.08091863...
    """
    e = non_negative(epsilon=rational(epsilon=epsilon))
    method = "Lemma 3.17.2, corrected"

    def excesses(outcomes: list[Outcome]) -> tuple[arb, arb]:
        return hockey_stick_of(outcomes, e), hockey_stick_of([one.reversed() for one in outcomes], e)

    def laws() -> tuple[list[arb], list[arb]]:
        outcomes, odds = list(pair.outcomes(pair.at)), ball(e).exp()
        moved = [((y.p - odds * y.q).max(ball(0)) - (y.q - odds * y.p).max(ball(0))) / (1 + odds) for y in outcomes]
        first = [one.p - part for one, part in zip(outcomes, moved, strict=True)]
        second = [one.q + part for one, part in zip(outcomes, moved, strict=True)]
        forward, backward = excesses(outcomes)
        return _mended(first, second, (forward - backward) / (1 + odds))

    def distance() -> arb:
        forward, backward = excesses(list(pair.outcomes(pair.at)))
        return forward.max(backward) / (1 + ball(e).exp())

    return NearbyPair(
        _law(lambda: laws()[0], method),
        _law(lambda: laws()[1], method),
        elementwise(distance, method=method, least=0, most=1),
    )


def _mended(first: list[arb], second: list[arb], missing: arb) -> tuple[list[arb], list[arb]]:
    """Move `missing` mass into the first law and out of the second (negative: the other way), where they differ."""
    sign = 1 if missing.mid() >= 0 else -1
    gap = [(sign * (z - y)).max(ball(0)) for y, z in zip(first, second, strict=True)]
    total = sum(gap, ball(0))
    if not total > 0:
        return first, second
    moved = [missing * part / total for part in gap]
    return [y + part for y, part in zip(first, moved, strict=True)], [
        z - part for z, part in zip(second, moved, strict=True)
    ]


# Remark 3.1: a mechanism is (epsilon, delta)-DP iff D^delta <= epsilon for every ordered pair of neighbours. For laws given
# as rationals the answer is exact: e^epsilon is irrational for rational epsilon != 0, so enough bits decide every comparison.


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether (epsilon, delta) holds, and the event that decides it.

    event: the outcomes S with the largest P(S) - e^epsilon Q(S), in the worse direction; when private, the closest to
    a violation. direction: "P over Q" or "Q over P". excess: P(S) - e^epsilon Q(S) - delta, above 0 when violated.
    pair: the index of the pair in its family. certain: false where the enclosures of a pair that is not rational leave
    both answers possible; it then counts as not private.
    """

    private: bool
    event: tuple[int, ...]
    direction: str
    excess: Certified
    pair: int = 0
    certain: bool = True

    def __bool__(self) -> bool:
        return self.private


def verdict(pair: FinitePair, *, epsilon: Number, delta: Number = 0) -> Verdict:
    """Whether a pair of neighbours is (epsilon, delta)-close in both directions.

    Rational laws are decided exactly. A pair known only by enclosures counts as private only if that is certain.

    Args:
        pair: The two laws.
        epsilon: The epsilon, at least 0.
        delta: The delta, at least 0.

    Returns:
        The verdict, with a violating event if there is one.

    Raises:
        ParameterError: The pair is a batch, or epsilon or delta is negative.

    >>> from neartwin.divergences.finite import finite_pair
    >>> law = finite_pair(["0.75", "0.25"], ["0.25", "0.75"])
    >>> bool(verdict(law, epsilon="1.0987")), bool(verdict(law, epsilon="1.0986"))
    (True, False)
    >>> verdict(law, epsilon=1).event
    (0,)
    """
    e = non_negative(epsilon=rational(epsilon=epsilon))
    d = non_negative(delta=rational(delta=delta))
    if pair.batch != ():
        raise ParameterError("pair", pair.batch, "must be one pair, not a batch")
    forward, backward = _judged(pair, e, d, "P over Q"), _judged(pair.reversed(), e, d, "Q over P")
    if forward.private != backward.private:
        return backward if forward.private else forward
    return max(forward, backward, key=lambda v: v.excess.upper)


def family_verdict(pairs: Iterable[FinitePair], *, epsilon: Number, delta: Number = 0) -> Verdict:
    """The verdict over every pair of neighbours of a mechanism: the first violation, or else the closest pair.

    Args:
        pairs: The pairs.
        epsilon: The claimed epsilon.
        delta: The claimed delta.

    Returns:
        The verdict.

    Raises:
        ParameterError: There is no pair.

    >>> from neartwin.divergences.finite import finite_pair
    >>> same, far = finite_pair([0.5, 0.5], [0.5, 0.5]), finite_pair([1, 0], [0.5, 0.5])
    >>> family_verdict([same, far], epsilon=1).pair
    1
    """
    worst: Verdict | None = None
    for index, pair in enumerate(pairs):
        placed = replace(verdict(pair, epsilon=epsilon, delta=delta), pair=index)
        if not placed.private:
            return placed
        if worst is None or placed.excess.upper > worst.excess.upper:
            worst = placed
    if worst is None:
        raise ParameterError("pairs", (), "must hold at least one pair")
    return worst


def _judged(pair: FinitePair, epsilon: Fraction, delta: Fraction, direction: str) -> Verdict:
    if pair.exact:
        return _by_rationals(pair.exact, epsilon, delta, direction)
    return _by_balls(pair, epsilon, delta, direction)


def _above_exp(value: Fraction, x: Fraction) -> bool:
    """Whether value > e^x, exactly."""
    return value > 1 if x == 0 else value > 0 and exceeds(lambda: ball(value).log(), lambda: ball(x))


def _by_rationals(laws: Laws, epsilon: Fraction, delta: Fraction, direction: str) -> Verdict:
    event = tuple(
        i for i, (p, q) in enumerate(zip(*laws, strict=True)) if p > 0 and (q == 0 or _above_exp(p / q, epsilon))
    )
    mass, other = (sum((law[i] for i in event), Fraction(0)) for law in laws)
    violated = mass > delta and (other == 0 or _above_exp((mass - delta) / other, epsilon))
    excess = elementwise(lambda: ball(mass - delta) - ball(epsilon).exp() * ball(other), method="exact rationals")
    return Verdict(not violated, event, direction, excess)


def _by_balls(pair: FinitePair, epsilon: Fraction, delta: Fraction, direction: str) -> Verdict:
    chosen = tuple(
        i
        for i, one in enumerate(pair.outcomes(pair.at))
        if one.only_p or (one.both and float(one.loss.mid()) > float(epsilon))
    )

    def attained() -> arb:
        parts = [pair.outcomes(pair.at)[i] for i in chosen]
        return sum((one.p - ball(epsilon).exp() * one.q for one in parts), ball(0)) - ball(delta)

    low, high = bounds(attained)[0], bounds(lambda: hockey_stick_of(pair.outcomes(pair.at), epsilon) - ball(delta))[1]
    # without a delta the losses decide: they may equal epsilon, where the sum is only known to be near 0
    private = high <= 0 or (delta == 0 and pair.max_divergence().upper <= epsilon)
    return Verdict(private, chosen, direction, Interval(min(low, high), high, "balls"), certain=private or low > 0)
