"""Which two neighbouring inputs the attacker plays with: known worst cases, corners, and random search.

A strategy is any iterable of `Twins`; the game tries each with few runs and plays the most promising with many.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neartwin.checks import integer


@dataclass(frozen=True, slots=True)
class Twins:
    """Two inputs that the claim says cannot be told apart, and why they were chosen.

    left, right: whatever the mechanism takes. That they are neighbours is the caller's word: a pair that is not proves
    nothing about the mechanism.
    """

    left: Any
    right: Any
    why: str = "given"


def known(*pairs: tuple[Any, Any], why: str = "known worst case") -> Iterator[Twins]:
    """The pairs that are worst by theory.

    Args:
        pairs: Pairs of neighbouring inputs.
        why: The reason, for reports.

    Yields:
        The pairs with the reason.

    >>> [twins.right for twins in known((0, 1), (0, -1))]
    [1, -1]
    """
    return (Twins(left, right, why) for left, right in pairs)


def searched(make: Callable[[np.random.Generator], tuple[Any, Any]], *, rounds: int, seed: int) -> Iterator[Twins]:
    """Random pairs of neighbouring inputs.

    Args:
        make: The function that draws one pair from a generator.
        rounds: The number of pairs.
        seed: The seed, which makes the search repeatable.

    Yields:
        The pairs.

    >>> list(searched(lambda rng: (0, int(rng.integers(2))), rounds=1, seed=1))[0].why
    'random search, round 0 of seed 1'
    """
    integer(rounds=rounds, at_least=1)
    for turn in range(rounds):
        left, right = make(np.random.default_rng([seed, turn]))
        yield Twins(left, right, f"random search, round {turn} of seed {seed}")


def answer_patterns(length: int, *, change: float = 1.0) -> Iterator[Twins]:
    """Vectors of query answers that one person changes: the patterns that break selection mechanisms.

    They are: one up; one up and the rest down; half up and half down; all one way, each around equal answers. Then one that
    lagged and draws level, and a cross. Ding et al. 2018, table 1.

    Args:
        length: The number of answers, at least 2.
        change: The most that each answer moves.

    >>> [(twins.left, twins.right) for twins in answer_patterns(2)][0]
    ((1.0, 1.0), (2.0, 1.0))
    """
    integer(length=length, at_least=2)
    base = np.ones(length)
    half = np.arange(length) < (length + 1) // 2
    moves = {
        "one above": np.eye(length)[0],
        "one below": -np.eye(length)[0],
        "one above, the rest below": 2 * np.eye(length)[0] - 1,
        "one below, the rest above": 1 - 2 * np.eye(length)[0],
        "half above, half below": np.where(half, 1.0, -1.0),
        "all above": np.ones(length),
        "all below": -np.ones(length),
    }
    for name, move in moves.items():
        yield Twins(_numbers(base), _numbers(base + change * move), f"{name}, {length} answers")
    laggard = base - np.eye(length)[0]
    yield Twins(_numbers(2 * change * laggard), _numbers(change * base), f"the last draws level, {length} answers")
    crossed = np.where(half, 1.0, 0.0)
    yield Twins(_numbers(crossed * change), _numbers((1 - crossed) * change), f"cross, {length} answers")


def _numbers(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


Row = tuple[Any, ...]


def table_corners(*, low: float, high: float, heavy: int = 100, keys: Sequence[Any] = ("a", "b")) -> Iterator[Twins]:
    """Tables of rows (unit, key, value), one unit apart by add/remove, at the corners where real code breaks.

    A newcomer has one row at a bound, many rows in one key, or one row in each of many keys. Or its value is out of bounds, NaN,
    infinite or missing, or its key is missing or its own. Each is played against no rows and against a crowd.

    Args:
        low: The declared lower bound of the value.
        high: The declared upper bound.
        heavy: The number of rows of heavy units.
        keys: Keys that others have.

    >>> sum(1 for _ in table_corners(low=0, high=1))
    26
    """
    integer(heavy=heavy, at_least=1)
    spread = tuple(f"key {i}" for i in range(heavy))
    newcomers: dict[str, tuple[Row, ...]] = {
        "one row at the upper bound": (("new", keys[0], high),),
        "one row at the lower bound": (("new", keys[0], low),),
        "many rows in one key": tuple(("new", keys[0], high) for _ in range(heavy)),
        "a row in each of many keys": tuple(("new", key, high) for key in spread),
        "far above the bounds": (("new", keys[0], 1e300),),
        "far below the bounds": (("new", keys[0], -1e300),),
        "not a number": (("new", keys[0], float("nan")),),
        "infinite": (("new", keys[0], float("inf")),),
        "both infinities": (("new", keys[0], float("inf")), ("new", keys[0], float("-inf"))),
        "missing value": (("new", keys[0], None),),
        "missing key": (("new", None, high),),
        "a key of its own": (("new", "only here", high),),
        "half a step": (("new", keys[0], (low + high) / 2 + 0.5),),
    }
    crowd = tuple((unit, key, (low + high) / 2) for unit, key in itertools.product(range(5), keys))
    for (crowd_name, rows), (name, extra) in itertools.product(
        {"no rows": (), "a crowd": crowd}.items(), newcomers.items()
    ):
        yield Twins(rows, rows + extra, f"{name}, against {crowd_name}")
