"""Samplers serve a law from blocks drawn in advance; the named laws; and addition without overflow.

A single draw in the far tail would take visibly longer than one near zero. So a sampler draws blocks before it sees any
data. Serving a value moves an index, and its time reveals nothing of the value.

Unused noise is a secret. It is never copied, pickled or shared. A fork throws it away: the process id is checked at
every use, and a hook runs after the fork. A served value is wiped from the block, and `close` wipes the rest. Threads
take turns.

Single values wait as Python integers. Python keeps the integers from -5 to 256 ready, and takes longer to make others,
so the conversion must not happen at serving. Python integers cannot be overwritten, only dropped.

Each named law is exact for any rational parameter. Scales are in units of the released integers (grid steps). Up to
scales of 2**50 values are int64; beyond, they are Python integers.
"""

import os
import threading
import weakref
from fractions import Fraction
from functools import lru_cache
from typing import Any, NoReturn, final, overload

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer, positive
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Number, rational
from neartwin.noise.densities import Exponential, Gaussian
from neartwin.noise.distributions import Law, Staircase, Tabulated
from neartwin.noise.layouts import on_integers, rounded
from neartwin.noise.source import I64, SYSTEM, Source
from neartwin.noise.streams import Fresh

Shape = int | tuple[int, ...]

SINGLES = 4096  # single values drawn at once: enough that the time of drawing them tells nothing about one
BLOCK = 1 << 16  # values from which on an array is drawn apart
WIDEST_BLOCK = 1 << 18  # and where many are asked for: the kernel's most efficient number, two megabytes
_SAFE = 1 << 62

_alive: "weakref.WeakSet[Sampler]" = weakref.WeakSet()


@final
class _Pool:
    """One process's unused noise of a law.

    Interrupted anywhere, it loses values and never serves one twice, or one that was not drawn: a block is filled
    before it is kept, and a value is marked as used before it is read.
    """

    __slots__ = ("_block", "_law", "_lock", "_singles", "_spare", "_used")

    def __init__(self, law: Law) -> None:
        self._law, self._lock, self._used = law, threading.Lock(), 0
        self._block: NDArray[Any] = np.empty(0, np.int64)
        self._spare: NDArray[Any] = self._block  # all zero, to be the next block: new memory is slow to touch
        self._singles: list[int] = []

    def one(self) -> int:
        """The next single value. Taking the last of a list is one step that threads cannot share; filling it is locked."""
        while True:
            try:
                return self._singles.pop()
            except IndexError:
                self._draw_singles()

    def _draw_singles(self) -> None:
        with self._lock:
            if not self._singles:
                self._singles = self._drawn(np.empty(SINGLES, np.int64)).tolist()

    def serve(self, out: NDArray[Any]) -> None:
        """Fill a vector with the next values."""
        size = out.size
        with self._lock:
            start = self._used
            if start + size <= self._block.size:  # the usual case, in few steps
                self._used = start + size
                part = self._block[start : start + size]
                out[:] = part
                part.fill(0)
                return
            done = 0
            while done < out.size:
                if self._used >= self._block.size:
                    self._refill()
                start, number = self._used, min(out.size - done, self._block.size - self._used)
                self._used += number
                part = self._block[start : start + number]
                out[done : done + number] = part
                part[:] = 0
                done += number

    def _refill(self) -> None:
        """The next block. Half-drawn values are never served: all of the old one is marked as used until the end."""
        size = min(max(SINGLES, 4 * self._block.size), WIDEST_BLOCK)
        spare = self._spare if self._spare.size == size else np.zeros(size, np.int64)
        self._spare, self._block = self._block, self._drawn(spare)
        self._used = 0

    def _drawn(self, block: NDArray[Any]) -> NDArray[Any]:
        (self._law.for_few() if block.size <= SINGLES else self._law).fill(block, Fresh(SYSTEM))
        return block

    def close(self) -> None:
        """Wipe what is left."""
        with self._lock:
            self.wipe()

    def wipe(self) -> None:
        """As `close`, where nobody else can be at work."""
        blocks = self._block, self._spare
        self._block, self._used = self._block[:0], 0
        for block in blocks:
            block[:] = 0
        self._singles.clear()


@final
class Sampler:
    """Exact draws of one law. One sampler a law serves the whole process, safely across threads and forks.

    Attributes:
        law: The frozen value that names the law.
    """

    __slots__ = ("__weakref__", "_pools", "law")

    law: Law

    def __init__(self, law: Law) -> None:
        self.law = law
        self._pools: dict[int, _Pool] = {}  # by process id; at most one
        _alive.add(self)

    def _pool(self) -> _Pool:
        """This process's pool; a new one after a fork."""
        process = os.getpid()
        pool = self._pools.get(process)
        if pool is None:
            self._forget()
            pool = self._pools.setdefault(process, _Pool(self.law))  # atomic: threads agree on one
        return pool

    def _forget(self) -> None:
        """Drop the noise of the process that forked."""
        for process in [each for each in self._pools if each != os.getpid()]:
            self._pools.pop(process, None)

    @overload
    def draw(self, shape: None = None, *, source: Source = SYSTEM) -> int: ...
    @overload
    def draw(self, shape: Shape, *, source: Source = SYSTEM) -> I64: ...
    def draw(self, shape: Shape | None = None, *, source: Source = SYSTEM) -> int | I64:
        """Draw one integer, or an array of independent integers.

        Args:
            shape: The shape of the array; None for one integer.
            source: The bits; tests pass a script.

        Returns:
            A Python integer, or an int64 array.

        >>> from neartwin import noise
        >>> sampler = noise.discrete_laplace(3)
        >>> type(sampler.draw()), sampler.draw((2, 3)).shape
        (<class 'int'>, (2, 3))
        >>> sampler.draw(5, source=noise.ScriptedSource(b"a test"))
        array([...])
        """
        if shape is None:
            if source is not SYSTEM:
                return int(self.draw(1, source=source)[0])
            pool = self._pools.get(os.getpid())
            return self._pool().one() if pool is None else pool.one()
        out = np.empty(shape, np.int64)
        self.fill(out, source=source)
        return out

    def fill(self, out: I64, *, source: Source = SYSTEM) -> None:
        """Fill an array with independent draws.

        Args:
            out: A writeable array of any shape, of the type that `draw` returns.
            source: The bits; tests pass a script.

        Raises:
            ParameterError: The array has another type, or is not writeable.
        """
        flags = out.flags
        if out.dtype != np.int64 or not flags.writeable:
            raise ParameterError("out", out.dtype, "must be the type of a writeable int64 array")
        whole = flags.c_contiguous
        flat = (out if out.ndim == 1 else out.reshape(-1)) if whole else np.empty(out.size, np.int64)
        if out.size >= BLOCK or source is not SYSTEM:
            self.law.fill(flat, Fresh(source))
        else:
            self._pool().serve(flat)
        if not whole:
            out[...] = flat.reshape(out.shape)

    def close(self) -> None:
        """Wipe the unused noise from memory. The next draw starts a new block."""
        self._pool().close()

    def __del__(self) -> None:
        for pool in self._pools.values():
            pool.wipe()

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a Sampler holds unused noise, and a copy of it would serve the same noise twice; send its `law`, and "
            "build a sampler there with noise.sampler(law)"
        )

    def __repr__(self) -> str:
        return f"Sampler({self.law})"


def _after_fork_in_child() -> None:
    for each in list(_alive):
        each._pools.clear()  # noqa: SLF001 - the room's own


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork_in_child)


@lru_cache(maxsize=64)
def sampler(law: Law) -> Sampler:
    """The process's one sampler of a law."""
    return Sampler(law)


def discrete_laplace(scale: Number) -> Sampler:
    """The discrete Laplace law: P(x) in proportion to exp(-|x| / scale) on the integers.

    Its variance is 2r / (1 - r)**2 with r = exp(-1 / scale).

    Args:
        scale: The scale, in released integers; positive.

    Returns:
        The sampler of the law.

    Source:
        Ghosh, Roughgarden, Sundararajan 2009.

    >>> bool(abs(discrete_laplace(5).draw(10_000).mean()) < 1)
    True
    """
    return laplace_sampler(_scale(scale))


@lru_cache(maxsize=64)
def laplace_sampler(scale: Fraction) -> Sampler:
    """The sampler of a positive scale, looked up without building its law again: most releases draw it."""
    return sampler(Tabulated(on_integers(Exponential(scale), 2)))


def one_sided_geometric(scale: Number) -> Sampler:
    """The geometric law: P(x) in proportion to exp(-x / scale) on 0, 1, 2, .... It is the floor of an exponential
    variable.

    Args:
        scale: The scale, in released integers; positive.

    Returns:
        The sampler of the law.

    >>> one_sided_geometric("1/3").draw() >= 0
    True
    """
    return sampler(Tabulated(on_integers(Exponential(_scale(scale)), 1)))


def discrete_gaussian(variance: Number) -> Sampler:
    """The discrete Gaussian law: P(x) in proportion to exp(-x**2 / (2 variance)) on the integers.

    Args:
        variance: The law's parameter, positive. The law's own variance is at most that, and nearly that from 1 on.

    Returns:
        The sampler of the law.

    Source:
        Canonne, Kamath, Steinke 2020.

    >>> bool(abs(discrete_gaussian(100).draw(10_000).mean()) < 1)
    True
    """
    return sampler(Tabulated(on_integers(Gaussian(positive(variance=rational(variance=variance))), 2)))


def rounded_gaussian(variance: Number) -> Sampler:
    """The nearest integer to a normal variable with mean 0.

    For an integer x, the sum of x and this noise is round(x + N(0, variance)). That is post-processing of the ideal
    Gaussian mechanism, so it keeps the Gaussian curve.

    Args:
        variance: The variance of the normal variable, positive.

    Returns:
        The sampler of the law.

    >>> bool(abs(rounded_gaussian(100).draw(10_000).mean()) < 1)
    True
    """
    return sampler(Tabulated(rounded(Gaussian(positive(variance=rational(variance=variance))))))


def rounded_laplace(scale: Number) -> Sampler:
    """The nearest integer to a continuous Laplace variable.

    For an integer x, the sum of x and this noise is the ideal Laplace mechanism, rounded.

    Args:
        scale: The scale, in released integers; positive.

    Returns:
        The sampler of the law.

    >>> bool(abs(rounded_laplace(5).draw(10_000).mean()) < 1)
    True
    """
    return sampler(Tabulated(rounded(Exponential(_scale(scale)))))


def staircase(epsilon: Number, sensitivity: int, step: int) -> Sampler:
    """The staircase law on the integers, epsilon-private at distance `sensitivity`; see `noise.distributions.Staircase`.

    Args:
        epsilon: The privacy at distance `sensitivity`, positive.
        sensitivity: The distance, in released integers. sensitivity * max(1, 1 / epsilon) is at most 2**50.
        step: The width of the upper step, from 1 to sensitivity.

    Returns:
        The sampler of the law.

    Raises:
        ParameterError: A parameter breaks its bounds.

    >>> bool(abs(staircase(1, 5, 2).draw(10_000).mean()) < 1)
    True
    """
    exact = positive(epsilon=rational(epsilon=epsilon))
    width, step = integer(at_least=1, sensitivity=sensitivity), integer(at_least=1, step=step)
    if step > width:
        raise ParameterError("step", step, f"must not exceed sensitivity={width}")
    if max(Fraction(width), width / exact) > 1 << 50:
        raise ParameterError("sensitivity", width, "must not exceed 2**50 min(1, epsilon)", remedy="use a coarser grid")
    return sampler(Staircase(exact, width, step))


def _scale(scale: Number) -> Fraction:
    return positive(scale=rational(scale=scale))


def add(exact: Any, noise: Any) -> NDArray[Any]:
    """Add integers elementwise, without overflow.

    Overflow would be private, and useless.

    Args:
        exact: Integers or an integer array.
        noise: Integers or an integer array that broadcasts with `exact`.

    Returns:
        The sums: int64 if all of them fit, else Python integers (dtype object).

    Raises:
        ParameterError: A value is no integer.

    >>> add(np.array([1, 2]), np.array([10, -20]))
    array([ 11, -18])
    >>> add(2**63 - 1, np.array([1]))
    array([9223372036854775808], dtype=object)
    """
    first, second = np.asarray(exact), np.asarray(noise)
    for each in (first, second):
        if each.dtype.kind not in "iuO":
            raise ParameterError("exact, noise", each.dtype, "must be integers")
    if first.dtype.kind == "i" and second.dtype.kind == "i":
        small = _small(first) and _small(second)
        sums: NDArray[Any] = first.astype(np.int64, copy=False) + second.astype(np.int64, copy=False)
        if small or not (((first ^ sums) & (second ^ sums)) < 0).any():  # both terms have the other sign: it wrapped
            return sums
    return np.asarray(first.astype(object) + second.astype(object), object)


def _small(values: NDArray[Any]) -> bool:
    """Whether sums of two such numbers fit 64 bits."""
    return not values.size or (int(values.min()) > -_SAFE and int(values.max()) < _SAFE)
