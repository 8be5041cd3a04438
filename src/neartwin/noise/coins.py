"""Exact coins and dice on a stream, row by row, for any real probability."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from neartwin.noise.exponentials import Bounds, exp_floats, exp_neg
from neartwin.noise.streams import Rows, Stream

Bits = NDArray[np.bool_]
FILTER_BITS = 40


class Exponents(Protocol):
    """Exact rationals x >= 0, with floats within 2**-51 of them relatively (NaN where there is none)."""

    def floats(self) -> NDArray[np.float64]:
        """All of them, rounded."""

    def exactly(self, i: int) -> Fraction:
        """The i-th."""


def decide(bounds: Callable[[int], Bounds], begun: tuple[int, int], stream: Stream, row: int) -> bool:
    """Decide whether a uniform number lies below a probability.

    It draws more bits of the uniform until the bounds decide. That ends with probability 1.

    Args:
        bounds: `bounds(bits)` gives integers around 2**bits times the probability.
        begun: The leading bits of the uniform so far, and their number.
        stream: Further bits.
        row: The row of the stream.

    Returns:
        True if the uniform lies below the probability.
    """
    u, known = begun
    while True:
        low, high = bounds(known + 32)
        if (u + 1) << 32 <= low:
            return True
        if u << 32 >= high:
            return False
        u, known = (u << 64) | stream.more(row), known + 64


def coin(bounds: Callable[[int], Bounds], rows: Rows, stream: Stream) -> Bits:
    """Toss one coin for each row, all with one probability. Each takes one word.

    Args:
        bounds: The probability, as in `decide`.
        rows: The rows of the stream.
        stream: The bits.

    Returns:
        The coins, shape (rows,).
    """
    low, high = (end >> 64 for end in bounds(128))
    u = stream.take(rows, 1)[0]
    if low >= 1 << 64:
        return np.ones(rows.size, bool)
    heads: Bits = u < np.uint64(low)  # u + 1 <= low: certain
    for i in np.flatnonzero((u >= np.uint64(low)) & (u <= np.uint64(min(high, (1 << 64) - 1)))):
        heads[i] = decide(bounds, (int(u[i]), 64), stream, int(rows[i]))
    return heads


def exp_coins(exponents: Exponents, rows: Rows, stream: Stream) -> Bits:
    """Toss a coin for each row with probability exp(-x), x = exponents[i] >= 0. Each takes one word.

    Floats decide the clear cases, integers the rest. A float x is within 2**-51 of its value, relatively. `exp_floats`
    is within 2**-50, absolutely. The uniform V has 52 bits. All errors together are below 2**-47, and a difference
    above 2**-40 is clear.

    Args:
        exponents: The exponents, one for each row.
        rows: The rows of the stream.
        stream: The bits.

    Returns:
        The coins, shape (rows,).
    """
    v = stream.take(rows, 1)[0] >> np.uint64(12)
    difference = exp_floats(exponents.floats()) - v.astype(np.float64) * 2.0**-52
    heads: Bits = difference > 0
    for i in np.flatnonzero(~(np.abs(difference) > 2.0**-FILTER_BITS)):
        x = exponents.exactly(int(i))
        heads[i] = decide(partial(exp_neg, x), (int(v[i]), 52), stream, int(rows[i]))
    return heads


def rational_bounds(p: Fraction) -> Callable[[int], Bounds]:
    """Bounds of a rational probability, as `decide` takes them."""

    def bounds(bits: int) -> Bounds:
        scaled = p.numerator << bits
        return scaled // p.denominator, -(-scaled // p.denominator)

    return bounds


def below(n: int, rows: Rows, stream: Stream) -> NDArray[np.int64]:
    """Draw a uniform integer in [0, n) for each row: leading bits, drawn anew until they are below n.

    Args:
        n: The number of outcomes, from 1 to 2**63.
        rows: The rows of the stream.
        stream: The bits.

    Returns:
        The integers, shape (rows,).
    """
    out = np.zeros(rows.size, np.int64)
    width = (n - 1).bit_length()
    waiting = np.arange(rows.size if width else 0)
    while waiting.size:
        drawn = stream.take(rows[waiting], 1)[0] >> np.uint64(64 - width)
        good = drawn < np.uint64(n)
        out[waiting[good]] = drawn[good].astype(np.int64)
        waiting = waiting[~good]
    return out
