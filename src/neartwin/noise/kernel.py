"""The sampler proper: fill an array with exact draws of a tabulated law.

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

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neartwin.noise.exponentials import exp_neg, loss
from neartwin.noise.layouts import POSITION_BITS, RealBlocks
from neartwin.noise.lookup_table import CELL_BITS, Table
from neartwin.noise.source import U64
from neartwin.noise.streams import Rows, Stream

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


I64 = NDArray[np.int64]
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
