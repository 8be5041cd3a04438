"""Keyed noise: for engines that run a task again. The same row always gets the same noise, any other row unrelated
noise.

An engine that retries a task, or reads a result twice, would release two noisy versions of one number; their mean has
half the variance, and was paid for once. So there the bits of a row's noise are a function of

    secret, release, column, stage, counter, law;  group key, exact integers being noised

through BLAKE2b in its keyed mode, a pseudorandom function: to who does not have the secret, noise of different rows,
of different columns, or of one row with changed data, is independent. The law is in it because two laws on the same
bits give two noises that tell the true value between them. The secret is fresh for each release, and destroyed when
the release is settled.

Every row reads a stream of its own, as long as it needs: undecided and rejected draws go on in it, so the law is
exact, as with fresh bits (relative to ideal bits, as everywhere).
"""

import hashlib
from collections.abc import Sized
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer
from neartwin.errors import ParameterError, PrivacyError
from neartwin.noise.encoding import encode_rows, length_prefixed
from neartwin.noise.laws import Law
from neartwin.noise.sampler import Sampler
from neartwin.noise.source import SYSTEM, U64
from neartwin.noise.streams import Rows

_WORDS = 8  # of 64 bits, in one BLAKE2b digest


def fresh_secret() -> bytes:
    """32 bytes from the system's generator, for one release.

    >>> len(fresh_secret())
    32
    """
    return SYSTEM.words(4).tobytes()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """Noise of one law for one column of one stage of one release; made by `keyed`, sent to an engine's workers.

    It may be pickled, for a worker must have it: only over channels as private as the rows themselves. Its text shows
    no secret.
    """

    law: Law
    key: bytes = field(repr=False)

    def draw(self, keys: Any, exact: Any) -> NDArray[np.int64]:
        """Noise for each row of a batch: int64 (n,), or Python integers where the law's values may need more.

        keys: the group key's columns, an Arrow record batch or table or a list of arrays; in a batch no row occurs
        twice. exact: the integers to be noised, (n,), or a list of such columns where several numbers of a row decide
        the noise. Row order and the cutting into batches do not matter.
        """
        columns = _listed(keys)
        rows = encode_rows([*columns, *_listed(exact)])
        if len(set(rows)) < len(rows):
            raise PrivacyError(
                "a group occurs twice in one batch, and both rows would get the same noise; group by its whole key"
            )
        out: NDArray[Any] = np.empty(len(rows), np.object_ if self.law.wide else np.int64)
        self.law.fill(out, _Streams(_digest(self.key, str(len(columns)).encode()), rows))
        return out


def keyed(law: Law | Sampler, *, secret: bytes, release: str, column: str, stage: int, counter: int) -> Keyed:
    """Noise that repeats on the same data and is unrelated on any other.

    secret: 32 to 64 bytes, from `fresh_secret`, one for each release. release, column, stage, counter: what makes
    this noise different from all other noise under that secret; counter numbers the draws on one column of one stage.

    >>> from neartwin.noise import geometric
    >>> noise = keyed(geometric(5), secret=fresh_secret(), release="2031-05", column="n", stage=0, counter=0)
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
    parts = [text.encode() for text in (release, column, *numbers, plain.label)]
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

    @property
    def alike(self) -> bool:
        """No: a row's noise is a function of its own bits."""
        return False

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
