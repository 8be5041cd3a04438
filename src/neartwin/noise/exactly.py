"""One draw by integers alone: the reference for the array kernel, its judge of last resort, and the way to huge values.

The same bits are asked for in the same order as in `kernel.py`, and lead to the same value: the tests compare the two.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neartwin.noise.bounds import exp_neg
from neartwin.noise.profiles import Smooth
from neartwin.noise.recipes import POSITION_BITS, RealBlocks
from neartwin.noise.streams import Stream
from neartwin.noise.table import CELL_BITS, Table

V_BITS = 52


class RimPoint(NamedTuple):
    """A proposed point of a rim: block h, place, and the first 52 bits of V.

    q is place / 2**bits exactly for blocks of integers, in [place, place + 1) / 2**bits for real blocks.
    """

    h: int
    place: int
    bits: int
    v: int


def rim_taken(table: Table, point: RimPoint, stream: Stream, row: int) -> bool:
    """Whether 1 - exp(-y(h, q)) < V (1 - exp(-y(h, 1))).

    Draws more bits of V, then of q where it is real, until the bounds of both sides agree.
    """
    (h, place, bits, v), v_bits, layout = point, V_BITS, table.recipe.layout
    profile, length, real = table.recipe.profile, layout.length, isinstance(layout, RealBlocks)
    assert isinstance(profile, Smooth)  # noqa: S101 - for the type checker: only smooth profiles have rims
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


def attempt(table: Table, stream: Stream, row: int) -> int | None:
    """One proposal for a row: its value, of any size, or None if it was rejected."""
    layout, width = table.recipe.layout, table.word_bits
    word = int(stream.first(np.array([row]), 1, width)[0])
    cell = word >> (width - CELL_BITS)
    if cell >= table.owned:
        return _settle(table, cell, stream, row)
    base = int(table.cells[cell])
    if table.recipe.wide:
        h, negative = (~base, 1) if base < 0 else (base, 0)
        place, bits = _at_least(layout.offset_bits, (0, 0), stream, row)
        return int(layout.place(h, place >> (bits - layout.offset_bits), negative))
    value = base + (word & ((1 << layout.offset_bits) - 1))
    return value >> 1 if layout.halved else value


def _settle(table: Table, cell: int, stream: Stream, row: int) -> int | None:
    """A proposal whose cell is not owned; `kernel.settle` for one row, without a single float."""
    layout, kept = table.recipe.layout, table.boundary_bits - CELL_BITS
    first, place, v = (int(word) for word in stream.take(np.array([row]), 3)[:, 0])
    entry = table.resolve((cell << kept) | (first >> (64 - kept)), stream, row)
    negative = (place >> POSITION_BITS) * (table.recipe.sides - 1)
    if layout.owners(1) is not None:
        return int(layout.place(entry, 0, negative))
    h = entry >> 1
    place, bits = _at_least(layout.offset_bits, (place & ((1 << POSITION_BITS) - 1), POSITION_BITS), stream, row)
    offset = place >> (bits - layout.offset_bits)
    if entry % 2:
        if not isinstance(layout, RealBlocks):
            place, bits = layout.inner(offset, negative), layout.offset_bits
        if not rim_taken(table, RimPoint(h, place, bits, v >> (64 - V_BITS)), stream, row):
            return None
    return int(layout.place(h, offset, negative))


def _at_least(needed: int, place: tuple[int, int], stream: Stream, row: int) -> tuple[int, int]:
    """A place and its number of bits, drawn on until there are at least as many as needed."""
    known, bits = place
    while bits < needed:
        known, bits = (known << 64) | stream.more(row), bits + 64
    return known, bits


def draw(table: Table, stream: Stream, row: int) -> int:
    """One draw for a row."""
    while (value := attempt(table, stream, row)) is None:
        pass
    return value


def fill_wide(table: Table, out: NDArray[np.object_], stream: Stream) -> None:
    """Fill a vector of Python integers with independent draws."""
    for row in range(out.size):
        out[row] = draw(table, stream, row)
