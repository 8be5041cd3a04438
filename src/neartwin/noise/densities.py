"""Profiles: decreasing functions f on [0, oo) that give noise its shape, as certified integers.

A block has length L. A profile knows two things:

- its *weights* M_h = f(hL) / f(0) for h = 0, 1, ..., and their sum;
- the *fall* inside a block, y(h, q) = -log(f(z) / f(hL)) at z = (h + q) L with q in [0, 1].

The fall is rational for the laws here. So every number that is computed of a law is exp(-rational).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from neartwin.noise.exponentials import F64, Bounds, exp_neg, log2_floor

_REST = 44  # weights are listed down to 2**-(bits - 44): 2**-68 for a table, whose boundaries have 64 bits


class Profile(ABC):
    """A decreasing function exp(-polynomial), known through its weights. Its fall and block length are exact."""

    __slots__ = ()

    @abstractmethod
    def weights(self, length: Fraction, bits: int) -> tuple[list[int], list[int], Bounds]:
        """The weights M_0 = 1, M_1, ... and the sum of all M_h, unlisted ones included.

        Args:
            length: The block length L.
            bits: The precision.

        Returns:
            The weights in order, from below and from above, and their certified sum.
        """

    @property
    @abstractmethod
    def block_exponent(self) -> int:
        """log2 of the block length. It is short enough that 97 % of draws need no test, and long enough for a table."""

    @abstractmethod
    def fall(self, length: Fraction, h: int, q: Fraction) -> Fraction:
        """y(h, q), exactly: f(z) = M_h exp(-y).

        Args:
            length: The block length L.
            h: The number of the block.
            q: The place in the block, in [0, 1].

        Returns:
            The fall y(h, q).
        """

    @abstractmethod
    def fall_floats(self, rate: float, h: F64, q: F64) -> F64:
        """y(h, q) in floats, within 4 units in the last place.

        Args:
            rate: y(0, 1), rounded.
            h: Numbers of blocks below 2**13, any shape.
            q: Places in the blocks, in the shape of h.

        Returns:
            The falls, in the shape of h.
        """


@dataclass(frozen=True, slots=True)
class Exponential(Profile):
    """f(z) = exp(-z / scale), with geometric weights.

    M_h = r**h with r = exp(-L / scale), and the sum is 1 / (1 - r).

    Attributes:
        scale: The scale, in released integers.
    """

    scale: Fraction

    @property
    def block_exponent(self) -> int:
        """Between 32 and 64 blocks a scale."""
        return log2_floor(self.scale) - 5

    def weights(self, length: Fraction, bits: int) -> tuple[list[int], list[int], Bounds]:
        """The weights, by repeated multiplication with r."""
        one = lo = hi = 1 << bits
        r_lo, r_hi = exp_neg(length / self.scale, bits)
        lows, highs = [one], [one]
        while lo >> _REST:
            lo, hi = (lo * r_lo) >> bits, ((hi * r_hi) >> bits) + 1
            lows.append(lo)
            highs.append(hi)
        return lows, highs, ((one << bits) // (one - r_lo), -(-(one << bits) // (one - r_hi)))

    def fall(self, length: Fraction, h: int, q: Fraction) -> Fraction:  # noqa: ARG002 - the same in every block
        """The fall q L / scale."""
        return q * length / self.scale

    def fall_floats(self, rate: float, h: F64, q: F64) -> F64:  # noqa: ARG002 - the same in every block
        """The fall rate * q, in floats."""
        return q * rate


@dataclass(frozen=True, slots=True)
class Gaussian(Profile):
    """f(z) = exp(-z**2 / (2 variance)).

    With a = L**2 / (2 variance), M_h = exp(-a h**2). So M_{h+1} = M_h d_h with d_h = exp(-a (2h + 1)), and d_{h+1} =
    d_h exp(-2a). The ratios d_h fall, so the sum beyond the last listed M_H is at most M_H d_H / (1 - d_H).

    Attributes:
        variance: The parameter of the law, in squared released integers.
    """

    variance: Fraction

    @property
    def block_exponent(self) -> int:
        """Between 64 and 128 blocks a standard deviation."""
        return log2_floor(self.variance) // 2 - 6

    def weights(self, length: Fraction, bits: int) -> tuple[list[int], list[int], Bounds]:
        """The weights, by the two recurrences."""
        one = lo = hi = 1 << bits
        d_lo, d_hi = exp_neg(length * length / (2 * self.variance), bits)
        q_lo, q_hi = (d_lo * d_lo) >> bits, ((d_hi * d_hi) >> bits) + 1
        lows, highs = [one], [one]
        while lo >> _REST:
            lo, hi = (lo * d_lo) >> bits, ((hi * d_hi) >> bits) + 1
            d_lo, d_hi = (d_lo * q_lo) >> bits, ((d_hi * q_hi) >> bits) + 1
            lows.append(lo)
            highs.append(hi)
        return lows, highs, (sum(lows), sum(highs) - (-hi * d_hi // (one - d_hi)))

    def fall(self, length: Fraction, h: int, q: Fraction) -> Fraction:
        """The fall a q (2h + q), because (h + q)**2 - h**2 = q (2h + q)."""
        return length * length * q * (2 * h + q) / (2 * self.variance)

    def fall_floats(self, rate: float, h: F64, q: F64) -> F64:
        """The fall rate * q * (2h + q), in floats."""
        return q * (2.0 * h + q) * rate
