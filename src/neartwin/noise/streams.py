"""Streams of bits for the rows that a sampler draws.

A row is one value to be drawn. A row gets its bits in the order of its requests. No two requests ever see the same
bits, whether of one row or of two. Fresh noise takes bits from a source in any order. Keyed noise (`keyed.py`) gives
each row a stream of its own.
"""

from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from neartwin.noise.source import U64, Source

Rows = NDArray[np.intp]


class Stream(Protocol):
    """Independent uniform bits for numbered rows."""

    def first(self, rows: slice | Rows, n: int, width: int) -> NDArray[np.uint32] | U64:
        """Words of 32 or 64 bits, one a row.

        Args:
            rows: The rows.
            n: Number of rows.
            width: Bits a word, 32 or 64.

        Returns:
            The words, shape (n,).
        """

    def take(self, rows: Rows, k: int) -> U64:
        """Words of 64 bits, k a row.

        Args:
            rows: The rows.
            k: Words a row.

        Returns:
            The words, shape (k, rows).
        """

    def more(self, row: int) -> int:
        """64 further bits for one row, as an integer."""


@final
class Subset:
    """Some rows of a stream, renumbered from 0."""

    __slots__ = ("_rows", "_stream")

    def __init__(self, stream: Stream, rows: Rows) -> None:
        self._stream, self._rows = stream, rows

    def first(self, rows: slice | Rows, n: int, width: int) -> NDArray[np.uint32] | U64:
        """Words of the rows of the stream."""
        return self._stream.first(self._rows[rows], n, width)

    def take(self, rows: Rows, k: int) -> U64:
        """Words of the rows of the stream."""
        return self._stream.take(self._rows[rows], k)

    def more(self, row: int) -> int:
        """Bits of the row of the stream."""
        return self._stream.more(int(self._rows[row]))


@final
class Fresh:
    """Bits straight from a source: every request is new."""

    __slots__ = ("_source",)

    def __init__(self, source: Source) -> None:
        self._source = source

    def first(self, rows: slice | Rows, n: int, width: int) -> NDArray[np.uint32] | U64:  # noqa: ARG002 - all alike
        """Words from the source; each 64 bits give two words of 32."""
        return self._source.words(-(-n // 2)).view(np.uint32)[:n] if width == 32 else self._source.words(n)

    def take(self, rows: Rows, k: int) -> U64:
        """Words from the source."""
        return self._source.words(k * rows.size).reshape(k, rows.size)

    def more(self, row: int) -> int:  # noqa: ARG002 - all are alike
        """64 bits from the source."""
        return self._source.bits(64)
