"""An L2 norm clip in whole numbers: a unit's vector over groups and measures is made no longer than a limit. It drops no row.

The vector of a unit has an entry v for each group and measure, in steps of the measure's grid. Its length is over-estimated by
S = sum of ceil(|v| times / over)^2. Where S is at most limit^2, an entry is handed out whole, as v parts; else it is multiplied
by limit / R, with R the least whole number whose square is at least S, and truncated toward zero: `scaled`.

So sum of (|scaled| times / (over parts))^2 <= limit^2 whatever a unit has: |scaled| <= |v| parts limit / R, and the squares of
|v| times / over add up to at most S <= R^2. Half-up rounding has no such bound: entries of half a part would all double.

Every number fits the engines' 126 bits. A row moves an entry by at most 2^60 steps (`moments`) and its length by about 2^20, so a
limit is below 2^41: an entry times the limit is below 2^(60 + 24 + 41). A length is below 2^45, so S is below 2^45 times the sum
of lengths, 2^21 a row of the unit: below 2^126 for tables of up to 2^60 rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TypeVar

K = TypeVar("K")

MOST_ROWS = 2**24  # of a unit in a group, weighted down to it as by rows_per_group
LARGEST = 2**20  # norm, in rows


@dataclass(frozen=True, slots=True)
class Coordinate:
    """How one measure counts in the norm: an entry v has length |v| times / over. parts: of a step, that it is handed out in."""

    times: int
    over: int
    parts: int

    @property
    def weight(self) -> Fraction:
        """The length of one part."""
        return Fraction(self.times, self.over * self.parts)


@dataclass(frozen=True, slots=True)
class NormClip:
    """The limit, and the coordinate of each measure by name."""

    limit: int
    coordinates: Mapping[str, Coordinate]

    def scaled(self, entries: Mapping[tuple[K, str], int]) -> dict[tuple[K, str], int]:
        """What a unit with these entries, by group and measure, counts for; in parts.

        >>> clip = NormClip(5, {"n": Coordinate(1, 1, 100)})
        >>> clip.scaled({("a", "n"): 3, ("b", "n"): 4}), clip.scaled({("a", "n"): 6, ("b", "n"): -8})
        ({('a', 'n'): 300, ('b', 'n'): 400}, {('a', 'n'): 300, ('b', 'n'): -400})
        """
        squared = sum(self._length(name, value) ** 2 for (_, name), value in entries.items())
        whole = {place: value * self.coordinates[place[1]].parts for place, value in entries.items()}
        if squared <= self.limit**2:
            return whole
        root = isqrt(squared - 1) + 1
        sizes = {place: abs(value) * self.limit // root for place, value in whole.items()}
        return {place: size if whole[place] >= 0 else -size for place, size in sizes.items()}

    def _length(self, name: str, value: int) -> int:
        one = self.coordinates[name]
        return -(-abs(value) * one.times // one.over)
