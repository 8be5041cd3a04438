"""An injective encoding of rows as bytes: two rows have equal bytes only if they hold the same values.

A row's bytes are, column by column, a tag (1 byte: NULL, or the kind of value) and a word (8 bytes: the number
itself, or the length of a text), then the texts in order. All rows with the same number of columns can be read in one
way only. They depend on the row's values alone: not on the batch it came in, on dictionary encoding, or on the width
of an integer.

Values are equal as in SQL's GROUP BY: -0.0 is 0.0, and all NaN are one.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neartwin.errors import ParameterError

_NULL, _INTEGER, _UNSIGNED, _WIDE, _REAL, _TEXT, _BYTES, _DECIMAL, _TIME, _BOOLEAN = range(10)


class _Encoded(NamedTuple):
    """A column: tags and words for each row, and the texts where there are any."""

    tags: NDArray[np.uint8]
    words: NDArray[np.int64]
    texts: list[bytes] | None = None


def length_prefixed(parts: Sequence[bytes]) -> bytes:
    """A list of byte strings as one, injectively.

    >>> length_prefixed([b"ab", b"c"]) == length_prefixed([b"a", b"bc"])
    False
    """
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def encode_rows(columns: Sequence[Any]) -> list[bytes]:
    """One byte string a row. columns: Arrow arrays, or sequences Arrow can read, of one length; at least one.

    Numbers, texts, bytes, times, booleans and decimals; `ParameterError` for what else there is.

    >>> encode_rows([[1, 2], [None, "a"]])[1].hex(" ", -9)
    '010200000000000000 050100000000000000 61'
    """
    encoded = [_encode(column) for column in columns]
    sizes = [each.tags.size for each in encoded]
    if len(set(sizes)) > 1:
        raise ParameterError("columns", sizes, "must be of one length")
    layout = np.dtype([("tag", np.uint8), ("word", "<i8")])
    block = np.empty((sizes[0], len(encoded)), layout)
    for i, each in enumerate(encoded):
        block["tag"][:, i], block["word"][:, i] = each.tags, each.words
    width, whole = 9 * len(encoded), block.tobytes()
    heads = [whole[start : start + width] for start in range(0, len(whole), width)]
    texts = [each.texts for each in encoded if each.texts is not None]
    return [b"".join(parts) for parts in zip(heads, *texts, strict=True)] if texts else heads


def _encode(column: Any) -> _Encoded:
    """One column, whatever holds it."""
    import pyarrow as pa

    if isinstance(column, str | bytes):
        raise ParameterError("column", column, "must be an array, not one value")
    if isinstance(column, np.ndarray) and column.dtype == object:
        column = column.tolist()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    elif not isinstance(column, pa.Array):
        try:
            column = pa.array(column)
        except (pa.ArrowInvalid, OverflowError, pa.ArrowTypeError):
            return _wide(column)
    return _arrow(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column)


def _arrow(column: Any) -> _Encoded:
    """One plain Arrow array."""
    import pyarrow as pa
    from pyarrow import types

    t = column.type
    if types.is_null(t):
        return _Encoded(np.zeros(len(column), np.uint8), np.zeros(len(column), np.int64))
    if types.is_floating(t):
        floats = np.asarray(column.cast(pa.float64()).fill_null(0.0)) + 0.0  # -0.0 + 0.0 is 0.0
        return _Encoded(_tags(column, _REAL), np.where(np.isnan(floats), np.nan, floats).astype("<f8").view("<i8"))
    if types.is_uint64(t):
        unsigned = np.array(column.fill_null(0))
        tags = _tags(column, _INTEGER)
        tags[unsigned > np.iinfo(np.int64).max] = _UNSIGNED
        return _Encoded(tags, unsigned.view(np.int64))
    if types.is_date32(t) or types.is_time32(t):
        column = column.cast(pa.int32())
    if types.is_integer(t) or types.is_boolean(t) or (types.is_temporal(t) and not types.is_interval(t)):
        kind = _TIME if types.is_temporal(t) else _BOOLEAN if types.is_boolean(t) else _INTEGER
        return _Encoded(_tags(column, kind), np.asarray(column.cast(pa.int64()).fill_null(0)))
    if types.is_decimal(t):
        column, kind = column.cast(pa.string()), _DECIMAL
    elif types.is_string(t) or types.is_large_string(t) or types.is_string_view(t):
        kind = _TEXT
    elif types.is_binary(t) or types.is_large_binary(t) or types.is_binary_view(t) or types.is_fixed_size_binary(t):
        kind = _BYTES
    else:
        raise ParameterError("column type", str(t), "must be a number, text, bytes, time, boolean or decimal")
    texts = [text or b"" for text in column.cast(pa.large_binary()).to_pylist()]
    return _Encoded(_tags(column, kind), np.fromiter(map(len, texts), np.int64, len(texts)), texts)


def _tags(column: Any, kind: int) -> NDArray[np.uint8]:
    """The kind, or NULL."""
    return np.where(np.asarray(column.is_null()), _NULL, kind).astype(np.uint8)


def _wide(column: Any) -> _Encoded:
    """Python integers of any size: as words where they fit, so that a row does not depend on its neighbours."""
    tags, words, texts = [], [], []
    for value in column:
        if isinstance(value, bool) or not isinstance(value, int | None):
            raise ParameterError("column", type(value).__name__, "must hold values of one kind")
        fits = value is None or -(1 << 63) <= value < 1 << 63
        tags.append(_NULL if value is None else _INTEGER if fits else _WIDE)
        texts.append(b"" if fits else str(value).encode())
        words.append(int(value or 0) if fits else len(texts[-1]))
    return _Encoded(np.array(tags, np.uint8), np.array(words, np.int64), texts)
