"""Copies of one law in parts: how many each part may have, and in how many ways."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from neartwin.exact import FloatArray
from neartwin.losses.loss import Summand

Part = Callable[[int], Summand]
Counts = tuple[int, ...]  # how many copies of one summand each of its parts has


def ways_of(counts: Counts) -> int:
    """The multinomial coefficient."""
    return math.prod(math.comb(sum(counts[: i + 1]), k) for i, k in enumerate(counts))


class Split(NamedTuple):
    """n copies in parts, the common one first, and K, K', K'' of one copy of each, (parts, 3, lams), uncertified."""

    copies: int
    parts: tuple[Part, ...]
    of: FloatArray
    log_never: float

    def every(self, most: int) -> Iterator[Counts]:
        """How many copies each part may have, where so many at most are not common."""
        for k in range(min(most, self.copies) + 1):
            for great in itertools.combinations_with_replacement(range(1, len(self.parts)), k):
                yield self.copies - k, *(great.count(part) for part in range(1, len(self.parts)))
