"""Streams: how a sampler asks for bits, row by row.

A row is one value to be drawn. Its bits come in the order in which it asks for them, and no two requests, of one row
or of two, ever see the same bits. Fresh noise takes them from a source in any order; keyed noise (`keyed.py`) gives
each row a stream of its own.
"""

from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from neartwin.noise.source import U64, Source

Rows = NDArray[np.intp]


class Stream(Protocol):
    """Independent uniform bits for numbered rows."""

    @property
    def alike(self) -> bool:
        """Whether any row's bits serve any other row as well."""
        ...

    def first(self, rows: slice | Rows, n: int, width: int) -> NDArray[np.uint32] | U64:
        """(n,) words of 32 or 64 bits, one a row."""
        ...

    def take(self, rows: Rows, k: int) -> U64:
        """(k, rows) words of 64 bits, k a row."""
        ...

    def more(self, row: int) -> int:
        """64 further bits for one row."""
        ...


@final
class Subset:
    """Some rows of a stream, numbered anew."""

    __slots__ = ("_rows", "_stream")

    def __init__(self, stream: Stream, rows: Rows) -> None:
        self._stream, self._rows = stream, rows

    @property
    def alike(self) -> bool:
        """As those of the stream."""
        return self._stream.alike

    def first(self, rows: slice | Rows, n: int, width: int) -> NDArray[np.uint32] | U64:
        """Words of the rows they stand for."""
        return self._stream.first(self._rows[rows], n, width)

    def take(self, rows: Rows, k: int) -> U64:
        """Words of the rows they stand for."""
        return self._stream.take(self._rows[rows], k)

    def more(self, row: int) -> int:
        """Bits of the row it stands for."""
        return self._stream.more(int(self._rows[row]))


@final
class Fresh:
    """Bits straight from a source: every request is new."""

    __slots__ = ("_source",)

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def alike(self) -> bool:
        """Yes."""
        return True

    def first(self, rows: slice | Rows, n: int, width: int) -> NDArray[np.uint32] | U64:  # noqa: ARG002 - all alike
        """Words off the source; two narrow ones from each 64 bits."""
        if width == 32:
            return self._source.words(-(-n // 2)).view(np.uint32)[:n]
        return self._source.words(n)

    def take(self, rows: Rows, k: int) -> U64:
        """Words off the source."""
        return self._source.words(k * rows.size).reshape(k, rows.size)

    def more(self, row: int) -> int:  # noqa: ARG002 - all are alike
        """64 bits off the source."""
        return self._source.bits(64)
