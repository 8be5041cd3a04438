"""Arrow columns from Python values and whole numbers from Arrow columns, through their buffers alone.

pyarrow's own conversions import pandas where it is installed, which takes longer than many a release.
"""

from collections.abc import Sequence
from datetime import date

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neartwin.queries.types import ColumnType

_EPOCH = date(1970, 1, 1).toordinal()


def column_of(values: Sequence[object], kind: ColumnType) -> pa.Array:
    """An Arrow column of values that have the type exactly; None is NULL.

    >>> column_of(["Ulm", None], ColumnType.TEXT).to_pylist()
    ['Ulm', None]
    """
    nulls = values.count(None)
    present = None if not nulls else pa.py_buffer(_bits([value is not None for value in values]))
    match kind:
        case ColumnType.INTEGER:
            whole = np.array([value or 0 for value in values] if nulls else values, dtype=np.int64)
            return pa.Array.from_buffers(pa.int64(), len(values), [present, pa.py_buffer(whole)], nulls)
        case ColumnType.DATE:
            days = np.array([_days(value) for value in values], dtype=np.int32)
            return pa.Array.from_buffers(pa.date32(), len(values), [present, pa.py_buffer(days)], nulls)
        case ColumnType.BOOLEAN:
            true = pa.py_buffer(_bits([value is True for value in values]))
            return pa.Array.from_buffers(pa.bool_(), len(values), [present, true], nulls)
        case _:
            texts = [b"" if value is None else str(value).encode() for value in values]
            ends = np.concatenate([[0], np.cumsum([len(text) for text in texts], dtype=np.int64)])
            small = ends[-1] < 2**31
            buffers = [
                present,
                pa.py_buffer(ends.astype(np.int32 if small else np.int64)),
                pa.py_buffer(b"".join(texts)),
            ]
            return pa.Array.from_buffers(pa.string() if small else pa.large_string(), len(values), buffers, nulls)


def whole_column(column: pa.ChunkedArray) -> NDArray[np.int64] | None:
    """Signed whole numbers, of at most 64 bits or of 128, NULL as 0; None for others, and where a number needs more than 64."""
    chunks = [_whole_chunk(chunk) for chunk in column.chunks]
    if any(chunk is None for chunk in chunks):
        return None
    return np.concatenate([np.zeros(0, dtype=np.int64), *(chunk for chunk in chunks if chunk is not None)])


def _whole_chunk(chunk: pa.Array) -> NDArray[np.int64] | None:
    wide = pa.types.is_decimal128(chunk.type) and chunk.type.scale == 0
    if not (wide or pa.types.is_signed_integer(chunk.type)):
        return None
    if not len(chunk):
        return np.zeros(0, dtype=np.int64)
    validity, numbers = chunk.buffers()
    words = np.frombuffer(numbers, dtype="<i8" if wide else f"<i{chunk.type.bit_width // 8}").astype(
        np.int64, copy=False
    )
    found = words.reshape(-1, 2 if wide else 1)[chunk.offset : chunk.offset + len(chunk)]  # the low word first
    if chunk.null_count:
        bits = np.unpackbits(np.frombuffer(validity, dtype=np.uint8), bitorder="little")
        found = np.where(bits[chunk.offset : chunk.offset + len(chunk), None].astype(bool), found, 0)
    if wide and not np.array_equal(found[:, 1], found[:, 0] >> 63):  # the high word is more than the sign
        return None
    return found[:, 0]


def _bits(true: list[bool]) -> NDArray[np.uint8]:
    return np.packbits(np.array(true, dtype=bool), bitorder="little")


def _days(value: object) -> int:
    return value.toordinal() - _EPOCH if isinstance(value, date) else 0
