"""Laws: frozen values that name a distribution on the integers and fill arrays from a stream of bits.

A law holds no noise. It may be copied, compared and sent to other processes. A `Sampler` serves it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin.noise.coins import below, coin
from neartwin.noise.densities import Exponential
from neartwin.noise.exponentials import Bounds, exp_neg
from neartwin.noise.layouts import WIDEST_OFFSET, Blocks, Recipe, on_integers
from neartwin.noise.lookup_table import build, fill
from neartwin.noise.streams import Rows, Stream, Subset


class Law(ABC):
    """A distribution on the integers. Its `repr` names this law and no other in every process: keyed noise depends on it."""

    __slots__ = ()

    @abstractmethod
    def fill(self, out: NDArray[Any], stream: Stream) -> None:
        """Fill a contiguous vector with independent draws.

        Args:
            out: The vector, int64.
            stream: The bits; row i takes those of the stream's row i.
        """

    def for_few(self) -> "Law":
        """A law of equal masses that is sooner ready and slower to draw. Equal bits give it other values."""
        return self


@dataclass(frozen=True, slots=True)
class Tabulated(Law):
    """A law drawn through the lazy table of its recipe.

    Attributes:
        recipe: The profile and its layout on the integers.
    """

    recipe: Recipe

    def fill(self, out: NDArray[Any], stream: Stream) -> None:
        """Draw with the array kernel."""
        fill(build(self.recipe), out, stream)

    def for_few(self) -> Law:
        """Longer blocks, four times: a quarter of the table, and four times as many draws that need a test."""
        layout = self.recipe.layout
        if not isinstance(layout, Blocks) or layout.offset_bits + 2 > WIDEST_OFFSET:
            return self
        return Tabulated(replace(self.recipe, layout=replace(layout, exponent=layout.exponent + 2)))


@dataclass(frozen=True, slots=True)
class UniformBits(Law):
    """The uniform law on 0, ..., 2**63 - 1: coins of any probability, 63 digits at a time."""

    def fill(self, out: NDArray[Any], stream: Stream) -> None:
        """Draw one word a row, and drop its last bit."""
        out[:] = (stream.take(np.arange(out.size), 1)[0] >> np.uint64(1)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Staircase(Law):
    """The staircase law on the integers, with the least expected error among all pure-epsilon laws.

    D is the sensitivity and r the width of the upper step. P(x) is in proportion to exp(-k epsilon) for k D <= |x| < k
    D + r. It is in proportion to exp(-(k + 1) epsilon) for k D + r <= |x| < (k + 1) D. So P(x) <= exp(epsilon) P(x + d)
    for all |d| <= D.

    The draw has three exact parts. The period k of |x| is one-sided geometric with ratio exp(-epsilon). The draw falls
    on the upper step with probability r / (r + (D - r) exp(-epsilon)), at a uniform place of its step. The sign is
    fair; a negative zero is drawn anew, so that zero is not twice as likely.

    Attributes:
        epsilon: Privacy at distance `sensitivity`.
        sensitivity: D, in released integers.
        step: r, from 1 to D.

    Source:
        Geng, Kairouz, Oh, Viswanath 2015.
    """

    epsilon: Fraction
    sensitivity: int
    step: int

    def fill(self, out: NDArray[Any], stream: Stream) -> None:
        """Draw each row until it is not a negative zero."""
        waiting = np.arange(out.size)
        while waiting.size:
            size, negative = self._half(waiting, stream)
            out[waiting] = (size ^ -negative) + negative
            waiting = waiting[(size == 0) & (negative == 1)]

    def _half(self, rows: Rows, stream: Stream) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """|x| and a sign bit for each row."""
        period = np.empty(rows.size, np.int64)
        Tabulated(on_integers(Exponential(1 / self.epsilon), 1)).fill(period, Subset(stream, rows))
        negative = (stream.take(rows, 1)[0] >> np.uint64(63)).astype(np.int64)
        upper = coin(self._upper, rows, stream)
        place = np.empty(rows.size, np.int64)
        place[upper] = below(self.step, rows[upper], stream)
        if self.step < self.sensitivity:
            place[~upper] = self.step + below(self.sensitivity - self.step, rows[~upper], stream)
        if period.size and int(period.max()) > (1 << 62) // self.sensitivity:
            raise OverflowError("a value beyond 2**62 was drawn, an event less likely than exp(-2**11)")
        return period * self.sensitivity + place, negative

    def _upper(self, bits: int) -> Bounds:
        """Bounds of r / (r + (D - r) exp(-epsilon))."""
        low, high = exp_neg(self.epsilon, bits + 8)
        r, rest, one = self.step, self.sensitivity - self.step, 1 << (bits + 8)
        return (r * one << bits) // (r * one + rest * high), -(-(r * one << bits) // (r * one + rest * low))
