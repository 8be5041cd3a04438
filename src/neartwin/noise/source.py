"""Sources of random bits: the operating system's cryptographic generator, and scripts for tests.

Every random function of this library takes a `source`, last, by keyword. Only `ScriptedSource` can be seeded. The
functions that release take no source: their noise comes from `SYSTEM` alone.
"""

import hashlib
import os
from collections.abc import Callable
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from neartwin.errors import ParameterError

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

_BYTES_A_CALL = 1 << 20  # larger requests cost page faults and gain nothing


class Source(Protocol):
    """A source of independent fair random bits."""

    def words(self, n: int) -> U64:
        """Draw independent uniform 64-bit words.

        Args:
            n: Number of words.

        Returns:
            The words, shape (n,).
        """

    def bits(self, k: int) -> int:
        """Draw one uniform integer.

        Args:
            k: Number of bits, of any size.

        Returns:
            An integer in [0, 2**k).
        """


def _generator() -> Callable[[int], bytes]:
    """OpenSSL's AES-256 counter-mode generator: reseeded from the system, safe across threads and forks.

    15 times faster than reading the kernel's generator directly, which serves where Python was built without OpenSSL.
    """
    try:
        import ssl
    except ImportError:
        return os.urandom
    return ssl.RAND_bytes if ssl.RAND_status() else os.urandom


@final
class _System:
    """The system's cryptographic generator. There is one, `SYSTEM`; it holds no state of ours."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = _generator()

    def words(self, n: int) -> U64:
        if 8 * n <= _BYTES_A_CALL:
            return np.frombuffer(self._bytes(8 * n), np.uint64)
        out = np.empty(n, np.uint64)
        step = _BYTES_A_CALL // 8
        for start in range(0, n, step):
            part = out[start : start + step]
            part[:] = np.frombuffer(self._bytes(8 * part.size), np.uint64)
        return out

    def bits(self, k: int) -> int:
        return int.from_bytes(self._bytes(-(-k // 8)), "little") >> (-k % 8)

    def __repr__(self) -> str:
        return "noise.SYSTEM"

    def __reduce__(self) -> str:
        return "SYSTEM"  # the name of the one instance: another process uses its own system


SYSTEM = _System()


@final
class ScriptedSource:
    """A repeatable, endless stream of bits, for tests only.

    Call number c reads SHAKE-256 of the seed and c. `replay` plays given words instead.

    Args:
        seed: Any bytes. Equal seeds give equal streams.

    >>> first, again = ScriptedSource(b"a test"), ScriptedSource(b"a test")
    >>> bool((first.words(3) == again.words(3)).all()), first.bits(70) == again.bits(70)
    (True, True)
    """

    __slots__ = ("_calls", "_script", "_seed")

    def __init__(self, seed: bytes) -> None:
        self._seed, self._calls = seed, 0
        self._script: list[int] | None = None

    @classmethod
    def replay(cls, words: list[int]) -> "ScriptedSource":
        """A source that plays given words, and raises `ParameterError` after the last one.

        Args:
            words: 64-bit words, in the order of play. `bits` takes whole words, the first one lowest.

        Returns:
            The source.

        >>> ScriptedSource.replay([7, 1]).bits(65) == (1 << 64) + 7
        True
        """
        source = cls(b"")
        source._script = list(words)
        return source

    def words(self, n: int) -> U64:
        """The next n words of the script."""
        if self._script is not None:
            if n > len(self._script):
                raise ParameterError("words", n, f"must not exceed the {len(self._script)} words left in the script")
            head, self._script = self._script[:n], self._script[n:]
            return np.array(head, np.uint64)
        self._calls += 1
        stream = hashlib.shake_256(
            len(self._seed).to_bytes(8, "little") + self._seed + self._calls.to_bytes(8, "little")
        )
        return np.frombuffer(stream.digest(8 * n), "<u8").astype(np.uint64)

    def bits(self, k: int) -> int:
        """The next k bits of the script, as one integer."""
        words = self.words(-(-k // 64))
        return int.from_bytes(words.astype("<u8").tobytes(), "little") & ((1 << k) - 1)
