"""Keyed noise, for engines that run a task again: one row always gets one noise, and other rows get unrelated noise.

An engine that retries a task, or reads a result twice, would release two noisy versions of one number. Their mean has
half the variance, and only one was paid for. So the bits of a row's noise are a function of

    secret, release, column, stage, counter, law;  group key, exact integers being noised

through BLAKE2b in its keyed mode, a pseudorandom function. Without the secret, the noise of different rows or columns
is independent. So is the noise of one row with changed data. The law is part of the input, because two laws on the same
bits give two noises that together reveal the true value. The secret is fresh for each release, and destroyed when the
release is settled.

Every row reads a stream of its own, as long as it needs. Undecided and rejected draws read on in that stream. So the
law is as exact as with fresh bits, relative to ideal bits.

Rows are encoded as bytes injectively: two rows have equal bytes only if they hold equal values. Column by column, a row
has a tag of 1 byte (NULL, or the kind of value) and a word of 8 bytes. The word is the number, or the length of a text.
The texts follow in order. All rows with one number of columns can be read in one way only. The bytes depend on the
row's values alone: not on its batch, on dictionary encoding, or on the width of an integer.

Values are equal as in SQL's GROUP BY: -0.0 is 0.0, and all NaN are one.
"""

import hashlib
from collections.abc import Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer
from neartwin.errors import ParameterError, PrivacyError
from neartwin.noise.distributions import Law
from neartwin.noise.sampler import Sampler
from neartwin.noise.source import SYSTEM, U64
from neartwin.noise.streams import Rows

_NULL, _INTEGER, _UNSIGNED, _WIDE, _REAL, _TEXT, _BYTES, _DECIMAL, _TIME, _BOOLEAN = range(10)


class _Encoded(NamedTuple):
    """A column: tags and words for each row, and the texts where there are any."""

    tags: NDArray[np.uint8]
    words: NDArray[np.int64]
    texts: list[bytes] | None = None


def length_prefixed(parts: Sequence[bytes]) -> bytes:
    """Join byte strings into one, injectively.

    Args:
        parts: The byte strings.

    Returns:
        Each part after its length in 8 bytes.

    >>> length_prefixed([b"ab", b"c"]) == length_prefixed([b"a", b"bc"])
    False
    """
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def encode_rows(columns: Sequence[Any]) -> list[bytes]:
    """Encode each row as one byte string, injectively.

    Args:
        columns: At least one Arrow array, or a sequence that Arrow can read, all of one length. They hold numbers,
            texts, bytes, times, booleans or decimals.

    Returns:
        One byte string a row.

    Raises:
        ParameterError: A column has another type, or another length.

    >>> encode_rows([[1, 2], [None, "a"]])[1].hex(" ", -9)
    '010200000000000000 050100000000000000 61'
    """
    encoded = [_encode(column) for column in columns]
    sizes = [each.tags.size for each in encoded]
    if len(set(sizes)) > 1:
        raise ParameterError("columns", sizes, "must be of one length")
    block = np.empty((sizes[0], len(encoded)), np.dtype([("tag", np.uint8), ("word", "<i8")]))
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


_WORDS = 8  # of 64 bits, in one BLAKE2b digest


def fresh_secret() -> bytes:
    """Draw 32 bytes from the system's generator, for one release.

    >>> len(fresh_secret())
    32
    """
    return SYSTEM.words(4).tobytes()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """Noise of one law for one column of one stage of one release.

    `keyed` makes it, and an engine sends it to its workers. It may be pickled, because a worker needs it, but only over
    channels as private as the rows. Its text shows no secret.

    Attributes:
        law: The law of the noise.
        key: The secret key of this column, stage and release.
    """

    law: Law
    key: bytes = field(repr=False)

    def draw(self, keys: Any, exact: Any) -> NDArray[np.int64]:
        """Draw the noise of each row of a batch. Row order and the cut into batches do not matter.

        Args:
            keys: The group key's columns: an Arrow record batch or table, or a list of arrays. No row may occur twice.
            exact: The integers to be noised, (n,), or a list of columns if several numbers of a row decide the noise.

        Returns:
            The noise, int64 (n,).

        Raises:
            PrivacyError: A group occurs twice in the batch.
        """
        columns = _listed(keys)
        rows = encode_rows([*columns, *_listed(exact)])
        if len(set(rows)) < len(rows):
            raise PrivacyError(
                "a group occurs twice in one batch, and both rows would get the same noise; group by its whole key"
            )
        out = np.empty(len(rows), np.int64)
        self.law.fill(out, _Streams(_digest(self.key, str(len(columns)).encode()), rows))
        return out


def keyed(law: Law | Sampler, *, secret: bytes, release: str, column: str, stage: int, counter: int) -> Keyed:
    """Noise that repeats on the same data and is unrelated on any other.

    Args:
        law: The law of the noise, or its sampler.
        secret: 32 to 64 bytes from `fresh_secret`, one secret for each release.
        release: The name of the release.
        column: The name of the column.
        stage: The number of the stage.
        counter: The number of the draw on this column and stage.

    Returns:
        The keyed noise, for workers.

    Raises:
        ParameterError: The secret is too short or too long.

    >>> from neartwin.noise import discrete_laplace
    >>> noise = keyed(discrete_laplace(5), secret=fresh_secret(), release="2031-05", column="n", stage=0, counter=0)
    >>> groups, counts = [["a", "b"], [1, 1]], np.array([10, 20])
    >>> bool((noise.draw(groups, counts) == noise.draw(groups, counts)).all())
    True
    """
    if not 32 <= len(secret) <= 64:
        raise ParameterError(
            "secret", f"<{len(secret)} bytes>", "must have 32 to 64 bytes", remedy="use fresh_secret()"
        )
    plain = law.law if isinstance(law, Sampler) else law
    numbers = [str(integer(at_least=0, stage=stage)), str(integer(at_least=0, counter=counter))]
    parts = [text.encode() for text in (release, column, *numbers, repr(plain))]
    return Keyed(law=plain, key=_digest(secret, *parts))


def _digest(key: bytes, *parts: bytes) -> bytes:
    return hashlib.blake2b(length_prefixed(parts), key=key, person=b"neartwin noise").digest()


def _listed(columns: Any) -> list[Any]:
    """The columns of a record batch, of a table or of a list; or one column."""
    if hasattr(columns, "schema"):
        return list(columns.columns)
    several = isinstance(columns, list | tuple) and columns and all(isinstance(each, Sized) for each in columns)
    return list(columns) if several else [columns]


@final
class _Streams:
    """A stream for each row: word i is word i % 8 of the BLAKE2b digest, salted with i // 8, of the row's encoding."""

    __slots__ = ("_first", "_key", "_next", "_rows")

    def __init__(self, key: bytes, rows: list[bytes]) -> None:
        self._key, self._rows = key, rows
        blake, salt = hashlib.blake2b, bytes(16)
        digests = b"".join([blake(row, key=key, salt=salt).digest() for row in rows])
        self._first = np.frombuffer(digests, "<u8").reshape(len(rows), _WORDS)
        self._next = np.zeros(len(rows), np.int64)

    def first(self, rows: slice | Rows, n: int, width: int) -> NDArray[np.uint32] | U64:  # noqa: ARG002 - as many as rows
        """Each row's next word, or the upper half of it."""
        words: U64 = self.take(np.arange(len(self._rows))[rows], 1)[0]
        return (words >> np.uint64(32)).astype(np.uint32) if width == 32 else words

    def take(self, rows: Rows, k: int) -> U64:
        """Each row's next k words."""
        places = self._next[rows] + np.arange(k)[:, None]
        self._next[rows] += k
        words: U64 = self._first[rows, np.minimum(places, _WORDS - 1)].astype(np.uint64)
        for word, i in np.argwhere(places >= _WORDS):
            words[word, i] = self._later(int(rows[i]), int(places[word, i]))
        return words

    def more(self, row: int) -> int:
        """The row's next word."""
        return int(self.take(np.array([row]), 1)[0, 0])

    def _later(self, row: int, place: int) -> int:
        salt = (place // _WORDS).to_bytes(16, "little")
        start = 8 * (place % _WORDS)
        digest = hashlib.blake2b(self._rows[row], key=self._key, salt=salt).digest()
        return int.from_bytes(digest[start : start + 8], "little")
