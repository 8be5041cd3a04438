"""One draw of a tabulated law with integers alone: the reference for the array kernel, which reads the same bits."""

import numpy as np

from neartwin.noise.layouts import POSITION_BITS, RealBlocks
from neartwin.noise.lookup_table import CELL_BITS, V_BITS, RimPoint, Table, rim_taken
from neartwin.noise.streams import Stream


def attempt(table: Table, stream: Stream, row: int) -> int | None:
    """One proposal for a row.

    Args:
        table: The table of the law.
        stream: The random bits.
        row: The row of the stream.

    Returns:
        The value, of any size, or None if the proposal was rejected.
    """
    layout, width = table.recipe.layout, table.word_bits
    word = int(stream.first(np.array([row]), 1, width)[0])
    cell = word >> (width - CELL_BITS)
    if cell >= table.owned:
        return _settle(table, cell, stream, row)
    base = int(table.cells[cell])
    value = base + (word & ((1 << layout.offset_bits) - 1))
    return value >> 1 if layout.halved else value


def _settle(table: Table, cell: int, stream: Stream, row: int) -> int | None:
    """A proposal whose cell is not owned; as `lookup_table.settle` for one row, without a single float."""
    layout, kept = table.recipe.layout, table.boundary_bits - CELL_BITS
    first, place, v = (int(word) for word in stream.take(np.array([row]), 3)[:, 0])
    entry = table.resolve((cell << kept) | (first >> (64 - kept)), stream, row)
    negative = (place >> POSITION_BITS) * (table.recipe.sides - 1)
    if layout.owners(1) is not None:
        return int(layout.place(entry, 0, negative))
    h = entry >> 1
    place, bits = place & ((1 << POSITION_BITS) - 1), POSITION_BITS
    offset = place >> (bits - layout.offset_bits)
    if entry % 2:
        if not isinstance(layout, RealBlocks):
            place, bits = layout.inner(offset, negative), layout.offset_bits
        if not rim_taken(table, RimPoint(h, place, bits, v >> (64 - V_BITS)), stream, row):
            return None
    return int(layout.place(h, offset, negative))


def draw(table: Table, stream: Stream, row: int) -> int:
    """One draw for a row.

    Args:
        table: The table of the law.
        stream: The random bits.
        row: The row of the stream.

    Returns:
        The value, of any size.
    """
    while (value := attempt(table, stream, row)) is None:
        pass
    return value
