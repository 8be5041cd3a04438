"""The staircase law: least expected error among all pure-epsilon laws (Geng, Kairouz, Oh, Viswanath 2015), on integers.

P(x) in proportion to exp(-k epsilon) for k D <= |x| < k D + r, and to exp(-(k + 1) epsilon) for k D + r <= |x| < (k +
1) D, where D is the sensitivity and r the width of the upper step, 1 <= r <= D. Then P(x) <= exp(epsilon) P(x + d)
for all |d| <= D.

Drawn in parts, each exact: with |x| on the half line, the period k is one-sided geometric with ratio exp(-epsilon);
it falls on the upper step with probability r / (r + (D - r) exp(-epsilon)), on a uniform place of its step; the sign
is fair, and a negative zero is drawn anew, so that zero is not twice as likely.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin.noise.bounds import Bounds, exp_neg
from neartwin.noise.coins import below, coin
from neartwin.noise.laws import Law, Tabulated
from neartwin.noise.profiles import Exponential
from neartwin.noise.recipes import on_integers
from neartwin.noise.streams import Rows, Stream, Subset


@dataclass(frozen=True, slots=True)
class Staircase(Law):
    """epsilon: privacy at distance `sensitivity`; step: the width r of the upper step."""

    epsilon: Fraction
    sensitivity: int
    step: int

    @property
    def label(self) -> str:
        """Its parameters."""
        return repr(self)

    @property
    def wide(self) -> bool:
        """Never: the constructor in `families` refuses sizes that could be."""
        return False

    def fill(self, out: NDArray[Any], stream: Stream) -> None:
        """Each row until it is not a negative zero."""
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
