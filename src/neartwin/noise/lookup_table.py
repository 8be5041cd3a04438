"""The lazy table: an infinite string of random bits chooses one entry of a law. Certified, never approximated.

Entries e = 0, 1, ... have masses m_e that sum to 1. [0, 1) has 2**15 equal *cells*. The first D cells belong to entries
whose points are always taken. Entry e owns c_e cells for each sign, with any integer c_e such that (cells of e) / 2**15
<= m_e. The remaining masses m_e - (cells of e) / 2**15 lie behind them in order, and end at boundaries C_0 <= C_1 <=
...:

    U in [0, 1) infinite; its leading 15 bits j:   j < D: the owner of cell j.   else: the e with C_{e-1} <= U < C_e

So P(e) = m_e exactly. The table keeps an integer T_e for each C_e, with T_e <= 2**64 C_e < T_e + 2. Let u be the
leading 64 bits of U. u < T_e gives U < C_e, and u > T_e + 1 gives U > C_e. If u is T_e or T_e + 1, or lies past the
last kept boundary, the draw is undecided. It then draws more bits of the same U until integers decide. That ends with
probability 1, because boundaries are countable. Nothing is cut off, and delta is charged nothing.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from operator import add

import numpy as np
from numpy.typing import NDArray

from neartwin.errors import ParameterError
from neartwin.noise.exponentials import loss
from neartwin.noise.layouts import Recipe
from neartwin.noise.source import U64
from neartwin.noise.streams import Rows, Stream

CELL_BITS = 15
_FIRST_BITS = 112  # working precision of the first attempt; doubled until every kept boundary is certain
_MORE = 128  # further working bits, beyond the drawn ones, when a single draw is resolved


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A law made ready to sample. It is immutable, so threads and samplers share it.

    Attributes:
        recipe: The law.
        cells: (2**15,) int64, base values of the owned cells.
        cell_counts: Number of cells of each entry.
        owned: D.
        thresholds: T_e.
        falls: (blocks,) 1 - exp(-y(h, 1)), rounded.
        rate: y(0, 1), rounded.
        boundary_bits: 64, except in tests that force the rare branches.
        filter_bits: 40, except in those tests.
    """

    recipe: Recipe
    cells: NDArray[np.int64]
    cell_counts: tuple[int, ...]
    owned: int
    thresholds: U64
    falls: NDArray[np.float64]
    rate: float
    boundary_bits: int
    filter_bits: int
    _finer: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

    @property
    def word_bits(self) -> int:
        """Bits of a draw's first word: 32 if cell number and offset fit into it, else 64."""
        return 32 if CELL_BITS + self.recipe.layout.offset_bits <= 32 else 64

    def entries(self, cell: NDArray[np.int64], rows: Rows, first: U64, stream: Stream) -> NDArray[np.int64]:
        """The entries of draws whose cell is not owned.

        Args:
            cell: The 15 leading bits of each draw, at least `owned`, shape (rows,).
            rows: The rows of the stream.
            first: The next bits of each draw, shape (rows,).
            stream: Further bits, for undecided draws.

        Returns:
            The entries, shape (rows,).
        """
        rest = np.uint64(64 - (self.boundary_bits - CELL_BITS))
        u = (cell.astype(np.uint64) << np.uint64(self.boundary_bits - CELL_BITS)) | (first >> rest)
        entry = np.searchsorted(self.thresholds, u, side="right").astype(np.int64)  # how many T_e <= u
        last = self.thresholds.size - 1
        before = self.thresholds[np.maximum(entry, 1) - 1]  # where entry = 0 the difference wraps to a huge number
        undecided = (u - before <= np.uint64(1)) | (entry > last)
        for i in np.flatnonzero(undecided):
            chosen = self.resolve(int(u[i]), stream, int(rows[i]))
            if chosen.bit_length() + self.recipe.layout.offset_bits > 62:
                raise OverflowError("a value beyond 2**62 was drawn, an event less likely than exp(-2**11)")
            entry[i] = chosen
        return entry

    def resolve(self, u: int, stream: Stream, row: int) -> int:
        """The entry of one undecided draw. It draws bits until integers decide.

        Args:
            u: The leading bits of U.
            stream: Further bits.
            row: The row of the stream.

        Returns:
            The entry.
        """
        bits = self.boundary_bits
        while True:
            lows, highs = self._boundaries(bits + _MORE)
            entry = bisect_right(highs, u << _MORE)  # all before it end at or before U, certainly
            if entry < len(lows) and (u + 1) << _MORE <= lows[entry]:
                return entry
            u, bits = (u << 64) | stream.more(row), bits + 64

    def _boundaries(self, bits: int) -> tuple[list[int], list[int]]:
        if bits not in self._finer:
            lows, highs = (self.recipe.layout.ends(side, self.recipe.sides) for side in _shares(self.recipe, bits))
            rest = [int(cells) << (bits - CELL_BITS) for cells in _cells_after(self.cell_counts, len(lows))]
            self._finer[bits] = list(map(add, lows, rest)), list(map(add, highs, rest))
        return self._finer[bits]


def _shares(recipe: Recipe, bits: int) -> tuple[list[int], list[int]]:
    """Weights over the mass of all entries at this precision, from below and from above."""
    lows, highs, weights = recipe.profile.weights(recipe.layout.length, bits)
    total_lo, total_hi = recipe.layout.total(weights, bits, recipe.sides)
    one_over_lo, one_over_hi = (1 << 2 * bits) // total_hi, -(-(1 << 2 * bits) // total_lo)
    return [(lo * one_over_lo) >> bits for lo in lows], [((hi * one_over_hi) >> bits) + 1 for hi in highs]


def _cells_after(counts: Sequence[int], size: int) -> NDArray[np.int64]:
    """The owned cells of later entries, for the first entries. C_e is the mass up to e, and these."""
    after = np.zeros(size, np.int64)
    after[: len(counts)] = (sum(counts) - np.cumsum(counts))[:size]
    return after


def _cells(recipe: Recipe, ends: list[int], bits: int) -> tuple[list[int], NDArray[np.int64]]:
    """The cells of each entry, at most its mass, and the base values that stand in them."""
    layout = recipe.layout
    counts, values, repeats = list[int](), list[int](), list[int]()
    for e, (before, end) in enumerate(pairwise([0, *ends])):
        owner = layout.owners(e)
        if owner is None:
            counts.append(0)
            continue
        h, signs = owner[0], owner[1:][: recipe.sides]
        each = ((end - before) >> (bits - CELL_BITS)) // len(signs)
        counts.append(each * len(signs))
        values += [layout.base(h, negative) for negative in signs]
        repeats += [each] * len(signs)
        if not each and h:
            break  # masses fall: no later entry fills a cell
    return counts, np.repeat(np.array(values, np.int64), repeats)


def _thresholds(ends: list[int], after: NDArray[np.int64], bits: int, kept: int) -> U64:
    """T_e <= 2**kept C_e, rising, up to the first that is all ones. No C_e is 1."""
    sums = np.array([end >> (bits - kept) for end in ends], np.uint64)
    found = np.maximum.accumulate(sums + (after.astype(np.uint64) << np.uint64(kept - CELL_BITS)))
    return found[: int(np.searchsorted(found, np.uint64((1 << kept) - 1))) + 1]


@lru_cache(maxsize=64)
def build(recipe: Recipe, *, boundary_bits: int = 64, filter_bits: int = 40) -> Table:
    """Build the table of a recipe, once a process. It takes 1 to 4 ms, less than a million draws take.

    Args:
        recipe: The law.
        boundary_bits: Bits kept of each boundary; for tests.
        filter_bits: Bits of the float test; for tests.

    Returns:
        The table.

    Raises:
        ParameterError: The law's bounds do not tighten as bits grow.
    """
    bits = _FIRST_BITS
    while True:
        lows, highs = _shares(recipe, bits)
        if not recipe.sides * (sum(highs) - sum(lows)) >> (bits - boundary_bits):  # what a C_e lies above its bound
            break
        bits *= 2
        if bits > 1 << 14:
            raise ParameterError("recipe", recipe, "has weights whose bounds do not tighten as bits grow")
    ends = recipe.layout.ends(lows, recipe.sides)
    counts, values = _cells(recipe, ends, bits)
    thresholds = _thresholds(ends, _cells_after(counts, len(ends)), bits, boundary_bits)
    rate, falls = _falls(recipe, len(thresholds) // 2 + 1)
    return Table(
        recipe=recipe,
        cells=np.pad(values, (0, (1 << CELL_BITS) - values.size)),
        cell_counts=tuple(counts),
        owned=values.size,
        thresholds=thresholds,
        falls=falls,
        rate=rate,
        boundary_bits=boundary_bits,
        filter_bits=filter_bits,
    )


def _falls(recipe: Recipe, blocks: int) -> tuple[float, NDArray[np.float64]]:
    """y(0, 1), and 1 - exp(-y(h, 1)) for the blocks whose rims the float test may decide."""
    profile = recipe.profile
    if recipe.layout.owners(1) is not None:
        return 0.0, np.zeros(0)
    rate = float(profile.fall(recipe.layout.length, 0, Fraction(1)))
    numbers = np.arange(min(blocks, 1 << 13), dtype=np.float64)
    y = profile.fall_floats(rate, numbers, np.ones_like(numbers))
    return rate, loss(y[y <= 0.25])
