"""From a program to its exact law: run it down every path of its coins, multiplying exact probabilities.

The program draws through one argument, `choose(weights)`, which returns an index with the given rational odds. Nothing
is sampled: each run follows one path, the next run the next path, until all are done.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction

from neartwin.checks import integer
from neartwin.errors import ParameterError

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
