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

**The sampler proper** fills an array with exact draws of a tabulated law.

Each draw takes one word. 15 bits choose a cell; other bits are the offset in the block. In about 97 % of draws the cell
is owned, and base + offset is the answer. Otherwise the draw takes three more words: the rest of the table's uniform U,
the place (a sign bit and q), and V for the rim. A rim's point z = (h + q)L is taken with probability (f(z) - M_{h+1}) /
(M_h - M_{h+1}). That is the event

    1 - exp(-y(h, q)) < V (1 - exp(-y(h, 1))),     V uniform on [0, 1)

*Exactness.* Let S be the sum of the M_h. In a block of L integers, an integer x of block h on its side is proposed and
taken with probability 1/(2LS) [M_{h+1} + (f(|x|) - M_{h+1})] = f(|x|) / (2LS), in proportion to f. For real blocks the
same holds for the density at y, and the result is the nearest integer to y. Rejected rows are drawn anew.

Time does not depend on a value, only on the number of undecided and rejected draws of a block.

The tests hold an own path with integers alone beside it: both ask for bits in one order and reach equal values.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neartwin.errors import ParameterError
from neartwin.noise.exponentials import exp_neg, loss
from neartwin.noise.layouts import POSITION_BITS, RealBlocks, Recipe
from neartwin.noise.source import I64, U64
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


V_BITS = 52


class RimPoint(NamedTuple):
    """A proposed point of a rim.

    For blocks of integers q is place / 2**bits exactly. For real blocks it is in [place, place + 1) / 2**bits.

    Attributes:
        h: The number of the block.
        place: The leading bits of q.
        bits: Their number.
        v: The first 52 bits of V.
    """

    h: int
    place: int
    bits: int
    v: int


def rim_taken(table: Table, point: RimPoint, stream: Stream, row: int) -> bool:
    """Whether 1 - exp(-y(h, q)) < V (1 - exp(-y(h, 1))).

    It draws more bits of V, and then of q if q is real, until the bounds of both sides decide.

    Args:
        table: The table of the law.
        point: The proposed point of the rim.
        stream: The random bits.
        row: The row of the stream.

    Returns:
        True or False.
    """
    (h, place, bits, v), v_bits, layout = point, V_BITS, table.recipe.layout
    profile, length, real = table.recipe.profile, layout.length, isinstance(layout, RealBlocks)
    while True:
        work = v_bits + 64
        one = 1 << work
        near = exp_neg(profile.fall(length, h, Fraction(place, 1 << bits)), work)
        far = exp_neg(profile.fall(length, h, Fraction(place + 1, 1 << bits)), work) if real else near
        edge = exp_neg(profile.fall(length, h, Fraction(1)), work)
        if (one - far[0]) << v_bits < (one - edge[1]) * v:
            return True
        if (one - near[1]) << v_bits >= (one - edge[0]) * (v + 1):
            return False
        v, v_bits = (v << 64) | stream.more(row), v_bits + 64
        if real:
            place, bits = (place << 64) | stream.more(row), bits + 64


CHUNK = 1 << 15  # words, cell numbers, table and output of one chunk stay in the second-level cache together
SETTLED = 1 << 18  # draws whose undecided ones are settled at once: that takes many small steps, whatever their number


def fill(table: Table, out: I64, stream: Stream) -> None:
    """Fill a contiguous int64 vector with independent draws. Row i uses the stream's row i.

    Args:
        table: The table of the law.
        out: (n,) the vector.
        stream: The random bits.
    """
    rejected = _sweep(table, out, None, stream)
    while rejected.size:
        again = np.empty(rejected.size, np.int64)
        still = _sweep(table, again, rejected, stream)
        out[rejected] = again
        rejected = rejected[still]


def _sweep(table: Table, out: I64, rows: Rows | None, stream: Stream) -> Rows:
    """One attempt for each row (None: rows 0, 1, ...); the positions whose proposal was rejected."""
    size = min(CHUNK, out.size)
    scratch = np.empty(size, np.int64), np.empty(size, np.int64)
    rejected = [np.empty(0, np.intp)]
    for start in range(0, out.size, SETTLED):
        part = out[start : start + SETTLED]
        which = slice(start, start + part.size) if rows is None else rows[start : start + SETTLED]
        slow, cells = _proposals(table, part, which, stream, scratch)
        if slow.size:
            slow_rows = slow + start if isinstance(which, slice) else which[slow]
            part[slow], taken = settle(table, cells, slow_rows, stream)
            rejected.append(slow[~taken] + start)
    return np.concatenate(rejected)


def _proposals(
    table: Table, out: I64, rows: slice | Rows, stream: Stream, scratch: tuple[I64, I64]
) -> tuple[Rows, I64]:
    """Write base + offset for every row, a chunk at a time; the positions whose cell is not owned, with their cells."""
    slow, cells = [np.empty(0, np.intp)], [np.empty(0, np.int64)]
    for start in range(0, out.size, CHUNK):
        part = out[start : start + CHUNK]
        which = (
            slice(rows.start + start, rows.start + start + part.size)
            if isinstance(rows, slice)
            else rows[start : start + CHUNK]
        )
        found, theirs = _propose(table, part, which, stream, scratch)
        slow.append(found + start)
        cells.append(theirs)
    return np.concatenate(slow), np.concatenate(cells)


def _propose(table: Table, out: I64, rows: slice | Rows, stream: Stream, scratch: tuple[I64, I64]) -> tuple[Rows, I64]:
    """One chunk of them."""
    width, mask = table.word_bits, (1 << table.recipe.layout.offset_bits) - 1
    words = stream.first(rows, out.size, width)
    cells, offsets = scratch[0][: out.size], scratch[1][: out.size]
    same = words.dtype if width == 64 else cells.dtype  # as words of one kind nothing is converted on the way
    np.right_shift(words, words.dtype.type(width - CELL_BITS), out=cells.view(same), casting="unsafe")
    np.take(table.cells, cells, out=out, mode="clip")  # a cell number is below 2**15 by construction
    if mask:
        np.bitwise_and(words, words.dtype.type(mask), out=offsets.view(same), casting="unsafe")
        out += offsets
    if table.recipe.layout.halved:
        out >>= 1
    if table.owned == 1 << CELL_BITS:
        return np.empty(0, np.intp), cells[:0]
    slow = np.flatnonzero(cells >= table.owned)
    return slow, cells[slow]


def settle(table: Table, cells: I64, rows: Rows, stream: Stream) -> tuple[I64, NDArray[np.bool_]]:
    """The proposed values of draws whose cell is not owned, and the accepted ones among them.

    Args:
        table: The table of the law.
        cells: (n,) the cells of the draws.
        rows: (n,) their rows in the stream.
        stream: The random bits.

    Returns:
        (n,) values, and (n,) whether each is accepted.
    """
    layout = table.recipe.layout
    first, place, v = stream.take(rows, 3)
    entry = table.entries(cells, rows, first, stream)
    negative = (place >> np.uint64(POSITION_BITS)).astype(np.int64) if table.recipe.sides == 2 else np.zeros_like(entry)
    if layout.owners(1) is not None:  # every entry is one integer
        return layout.place(entry, 0, negative), np.ones(entry.size, bool)
    h, rim = entry >> 1, np.flatnonzero(entry & 1)
    q = (place & np.uint64((1 << POSITION_BITS) - 1)).astype(np.int64)
    offset = q >> (POSITION_BITS - layout.offset_bits)
    taken = np.ones(entry.size, bool)
    if rim.size:
        inner = q[rim] if isinstance(layout, RealBlocks) else layout.inner(offset[rim], negative[rim])
        taken[rim] = _rims(table, (h[rim], inner, v[rim]), rows[rim], stream)
    return layout.place(h, offset, negative), taken


def _rims(table: Table, points: tuple[I64, I64, U64], rows: Rows, stream: Stream) -> NDArray[np.bool_]:
    """Which points (h, place, V) of rims are taken: by floats where their difference is clear, else by integers.

    Float errors, relative to fall = 1 - exp(-y(h, 1)): `loss` and `falls` 2**-49 each plus 2**-50 for y itself; V cut
    to 52 bits 2**-52; q cut to 53 bits 2**-51, for dy/dq <= 2 y(h, 1). The sum is below 2**-46; a difference above
    2**-40 is clear.
    """
    h, inner, v = points
    bits = POSITION_BITS if isinstance(table.recipe.layout, RealBlocks) else table.recipe.layout.offset_bits
    known = h < table.falls.size
    blocks = np.minimum(h, table.falls.size - 1)
    fall = table.falls[blocks]
    profile = table.recipe.profile
    left = loss(profile.fall_floats(table.rate, blocks.astype(np.float64), inner.astype(np.float64) * 2.0**-bits))
    v_bits = v >> np.uint64(64 - V_BITS)
    difference = fall * (v_bits * 2.0**-V_BITS) - left
    taken: NDArray[np.bool_] = difference > 0
    for i in np.flatnonzero((np.abs(difference) <= fall * 2.0**-table.filter_bits) | ~known):
        taken[i] = rim_taken(table, RimPoint(int(h[i]), int(inner[i]), bits, int(v_bits[i])), stream, int(rows[i]))
    return taken
