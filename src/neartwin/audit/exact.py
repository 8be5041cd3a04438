"""Exact verification of a finite mechanism: its laws in rational numbers, and no statistics.

A law is a mapping from outputs to `Fraction`s that sum to 1. The answer is certified: comparisons with e^epsilon take
as many bits as decide them. What is refuted comes with the violating set.

From a program to its exact law: run it down every path of its coins, multiplying exact probabilities.

The program draws through one argument, `choose(weights)`, which returns an index with the given rational odds. Nothing
is sampled: each run follows one path, the next run the next path, until all are done.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from neartwin import balls
from neartwin.checks import integer, non_negative, probability
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational

Law = Mapping[Hashable, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Two neighbouring inputs and a set of outputs on which the claim is false: P(event) > e^epsilon Q(event) + delta.

    `event` is the fewest outputs of highest likelihood ratio that show it.
    """

    left: Any
    right: Any
    event: tuple[Hashable, ...]
    probability_left: Fraction
    probability_right: Fraction


def exact_violation(
    law_of: Callable[[Any], Law], pairs: Iterable[tuple[Any, Any]], *, epsilon: Number, delta: Number = 0
) -> Violation | None:
    """The first violation of (epsilon, delta)-privacy among these neighbours, both orders tried; None is a proof.

    law_of: the exact law of the output for an input. Raises `ParameterError` for a law that is none. Dwork and Roth
    2014, Definition 2.4: the worst event is the set where P exceeds e^epsilon Q.

    >>> flip = lambda bit: {bit: Fraction(3, 4), 1 - bit: Fraction(1, 4)}
    >>> exact_violation(flip, [(0, 1)], epsilon="1.0986") is None  # ln 3 = 1.09861...
    False
    >>> exact_violation(flip, [(0, 1)], epsilon="1.0987") is None
    True
    """
    allowed = non_negative(epsilon=rational(epsilon=epsilon))
    slack = probability(delta=rational(delta=delta))
    for one, other in pairs:
        for left, right in ((one, other), (other, one)):
            P, Q = _checked(law_of(left), left), _checked(law_of(right), right)
            event = _violating_set(P, Q, allowed, slack)
            if event is not None:
                return Violation(
                    left=left,
                    right=right,
                    event=event,
                    probability_left=sum((P[y] for y in event), Fraction(0)),
                    probability_right=sum((Q.get(y, Fraction(0)) for y in event), Fraction(0)),
                )
    return None


def _violating_set(P: Law, Q: Law, epsilon: Fraction, delta: Fraction) -> tuple[Hashable, ...] | None:
    p_sum, q_sum = Fraction(0), Fraction(0)
    event: list[Hashable] = []
    for output in _by_ratio(P, Q):
        p_sum, q_sum = p_sum + P[output], q_sum + Q.get(output, Fraction(0))
        event.append(output)
        if exceeds(p_sum - delta, q_sum, epsilon):
            return tuple(event)
    return None


def _by_ratio(P: Law, Q: Law) -> list[Hashable]:
    """Outputs that P can give, highest P/Q first; prefixes of this order hold a worst event (Neyman and Pearson)."""
    possible = [output for output, p in P.items() if p > 0]
    return sorted(
        possible, key=lambda y: (Q.get(y, Fraction(0)) > 0, -P[y] / Q[y] if Q.get(y, Fraction(0)) > 0 else -P[y])
    )


def exceeds(p: Fraction, q: Fraction, epsilon: Fraction) -> bool:
    """Whether p > e^epsilon q, certified: by as many bits as it takes, for e^epsilon is irrational and no tie can be.

    >>> exceeds(Fraction(2718281829, 10**9), Fraction(1), Fraction(1))
    True
    >>> exceeds(Fraction(2718281828, 10**9), Fraction(1), Fraction(1))
    False
    """
    if q == 0 or epsilon == 0 or p <= 0:
        return p > q
    return balls.exceeds(lambda: balls.ball(p), lambda: balls.ball(q) * balls.ball(epsilon).exp())


@dataclass(frozen=True, slots=True)
class Knots:
    """The exact trade-off curve of two finite laws: false-alarm and miss rates of the likelihood-ratio tests.

    fpr: increasing from the first test; the curve is linear between knots.
    """

    fpr: tuple[Fraction, ...]
    fnr: tuple[Fraction, ...]


def exact_tradeoff(P: Law, Q: Law) -> Knots:
    """T(P, Q): the least miss rate under Q at each false-alarm rate under P, as exact knots.

    >>> knots = exact_tradeoff({0: Fraction(3, 4), 1: Fraction(1, 4)}, {0: Fraction(1, 4), 1: Fraction(3, 4)})
    >>> [str(rate) for rate in knots.fpr], [str(rate) for rate in knots.fnr]
    (['0', '1/4', '1'], ['1', '1/4', '0'])
    """
    P, Q = _checked(P, "P"), _checked(Q, "Q")
    fpr, fnr = [Fraction(0)], [Fraction(1)]
    for output in _by_ratio(Q, P):
        p = P.get(output, Fraction(0))
        if p == 0:
            fnr[0] -= Q[output]  # rejected for nothing
        else:
            fpr.append(fpr[-1] + p)
            fnr.append(fnr[-1] - Q[output])
    if fpr[-1] < 1:
        fpr.append(Fraction(1))
        fnr.append(fnr[-1])
    return Knots(tuple(fpr), tuple(fnr))


def exact_gap(P: Law, Q: Law, curve: Callable[[float], float]) -> tuple[float, Fraction]:
    """How far T(P, Q) falls below a claimed convex curve at worst, and where; at most 0 if the claim holds.

    Exact up to the claimed curve's own rounding: T is linear between knots and the curve convex, so that the gap is
    largest at a knot.
    """
    knots = exact_tradeoff(P, Q)
    gaps = [(curve(float(a)) - float(b), a) for a, b in zip(knots.fpr, knots.fnr, strict=True)]
    return max(gaps, key=lambda pair: pair[0])


def _checked(law: Law, argument: Any) -> dict[Hashable, Fraction]:
    if sum(law.values(), Fraction(0)) != 1 or any(p < 0 for p in law.values()):
        raise ParameterError("law_of", argument, "must map outputs to exact probabilities that sum to 1")
    return dict(law)


Choose = Callable[[Sequence[Fraction]], int]
Program = Callable[[Choose], Hashable]


def exact_law(program: Program, *, most_paths: int = 1_000_000) -> dict[Hashable, Fraction]:
    """The exact law of what the program returns.

    program: takes `choose`, returns a hashable output, and has no other randomness. Raises `ParameterError` for weights
    that are negative or do not sum to 1, and when there are more than `most_paths` paths.

    >>> law = exact_law(lambda choose: choose([Fraction(1, 3), Fraction(2, 3)]) + choose([Fraction(1, 2)] * 2))
    >>> {total: str(chance) for total, chance in law.items()}
    {0: '1/6', 1: '1/2', 2: '1/3'}
    """
    integer(most_paths=most_paths, at_least=1)
    law: defaultdict[Hashable, Fraction] = defaultdict(Fraction)
    path: list[tuple[int, tuple[Fraction, ...]]] = []  # the choices so far, with the weights they were made from
    for _ in range(most_paths):
        output, chance = _followed(program, path)
        law[output] += chance
        while path and not _advanced(path):
            path.pop()
        if not path:
            return dict(law)
    raise ParameterError("program", program, f"has more than most_paths={most_paths} paths")


def _followed(program: Program, path: list[tuple[int, tuple[Fraction, ...]]]) -> tuple[Hashable, Fraction]:
    """Run once along `path`, first branches afterwards; the path grows to the whole run's."""
    depth = 0

    def choose(weights: Sequence[Fraction]) -> int:
        nonlocal depth
        if depth == len(path):
            exact = tuple(Fraction(weight) for weight in weights)
            if sum(exact) != 1 or min(exact) < 0:
                raise ParameterError("weights", weights, "must be exact, not negative, and sum to 1")
            path.append((next(i for i, weight in enumerate(exact) if weight > 0), exact))
        depth += 1
        return path[depth - 1][0]

    output = program(choose)
    chance = Fraction(1)
    for branch, weights in path:
        chance *= weights[branch]
    return output, chance


def _advanced(path: list[tuple[int, tuple[Fraction, ...]]]) -> bool:
    """Move the last choice to its next possible branch; False if it has none."""
    branch, weights = path[-1]
    for later in range(branch + 1, len(weights)):
        if weights[later] > 0:
            path[-1] = (later, weights)
            return True
    return False
