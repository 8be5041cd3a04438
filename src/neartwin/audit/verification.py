"""Exact verification of a finite mechanism: its laws in rational numbers, and no statistics.

A law is a mapping from outputs to `Fraction`s that sum to 1. The answer is certified: comparisons with e^epsilon take
as many bits as decide them. A refutation comes with the violating set.

A program becomes its exact law by running it down every path of its coins and multiplying exact probabilities. The program draws
through one argument, `choose(weights)`, which returns an index with the given rational odds. Nothing is sampled: each run
follows one path, the next run the next path, until all are done.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from neartwin.checks import integer, probability
from neartwin.divergences import finite_pair
from neartwin.divergences.theorems import verdict
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational

Law = Mapping[Hashable, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Two neighbouring inputs and a set of outputs on which the claim is false: P(event) > e^epsilon Q(event) + delta.

    Attributes:
        left: The input under which the event is likelier.
        right: Its neighbour.
        event: The outputs that are more than e^epsilon times as likely on the left: no other event shows more.
        probability_left: P(event), exact.
        probability_right: Q(event), exact.
    """

    left: Any
    right: Any
    event: tuple[Hashable, ...]
    probability_left: Fraction
    probability_right: Fraction


def exact_violation(
    law_of: Callable[[Any], Law], pairs: Iterable[tuple[Any, Any]], *, epsilon: Number, delta: Number = 0
) -> Violation | None:
    """The first violation of (epsilon, delta)-privacy among these neighbours, in either order; None is a proof of privacy.

    The worst event is the set where P exceeds e^epsilon Q.

    Args:
        law_of: The exact law of the output for an input.
        pairs: The neighbouring inputs.
        epsilon: The claimed epsilon.
        delta: The claimed delta.

    Returns:
        The violation, or None.

    Raises:
        ParameterError: A law's probabilities are negative or do not sum to 1.

    Source:
        Dwork, Roth 2014, Definition 2.4.

    >>> flip = lambda bit: {bit: Fraction(3, 4), 1 - bit: Fraction(1, 4)}
    >>> exact_violation(flip, [(0, 1)], epsilon="1.0986") is None  # ln 3 = 1.09861...
    False
    >>> exact_violation(flip, [(0, 1)], epsilon="1.0987") is None
    True
    """
    slack = probability(delta=rational(delta=delta))
    for left, right in pairs:
        P, Q = _checked(law_of(left), left), _checked(law_of(right), right)
        outputs = list(P | Q)
        p, q = ([law.get(output, Fraction(0)) for output in outputs] for law in (P, Q))
        result = verdict(finite_pair(p, q), epsilon=epsilon, delta=slack)
        if not result.private:
            first, second = ((left, p), (right, q)) if result.direction == "P over Q" else ((right, q), (left, p))
            return Violation(
                left=first[0],
                right=second[0],
                event=tuple(outputs[i] for i in result.event),
                probability_left=sum((first[1][i] for i in result.event), Fraction(0)),
                probability_right=sum((second[1][i] for i in result.event), Fraction(0)),
            )
    return None


def _checked(law: Law, argument: Any) -> dict[Hashable, Fraction]:
    if sum(law.values(), Fraction(0)) != 1 or any(p < 0 for p in law.values()):
        raise ParameterError("law_of", argument, "must map outputs to exact probabilities that sum to 1")
    return dict(law)


Choose = Callable[[Sequence[Fraction]], int]
Program = Callable[[Choose], Hashable]


def exact_law(program: Program, *, most_paths: int = 1_000_000) -> dict[Hashable, Fraction]:
    """The exact law of a program's output.

    Args:
        program: A function of `choose` with a hashable output and no other randomness.
        most_paths: The most paths of its coins.

    Returns:
        The probability of each output.

    Raises:
        ParameterError: Weights are negative or do not sum to 1, or there are more paths.

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
