"""Recipes: a profile, and how its mass is laid on the integers.

Three layouts. `Single`: one entry for each integer. `IntegerBlocks`: runs of 2**l integers. `RealBlocks`: runs of the
real line, whose points are then rounded to the nearest integer. A block h has two entries, *core* (index 2h) and
*rim* (2h + 1): under the flat line at the block's outer height M_{h+1}, and the rest of the rectangle up to M_h. A
point of the core is always taken, one of the rim only under f. Every integer (real point) is in exactly one place.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from neartwin.noise.densities import Profile, Smooth
from neartwin.noise.exponentials import Bounds

POSITION_BITS = 63  # known bits of the place q in [0, 1) within a block, before any refinement
WIDEST_OFFSET = 46  # cell and offset bits share one 64-bit word without overlap, and every value fits 62 bits


class Layout(ABC):
    """Where an entry's points lie. Arithmetic only, so that the methods serve Python integers and int64 arrays alike.

    `negative` is 0 or 1: x ^ -1 is ~x = -x - 1, and (x ^ -1) + 1 is -x.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def length(self) -> Fraction:
        """The block length L."""

    @property
    def offset_bits(self) -> int:
        """How many leading bits of q decide the point."""
        return 0

    @property
    def halved(self) -> bool:
        """Whether base + offset counts half steps, to be shifted right by one."""
        return False

    @abstractmethod
    def masses(self, weights: list[Bounds], total: Bounds, sides: int) -> tuple[list[Bounds], Bounds]:
        """The entries' masses in order, and the sum of all."""

    @abstractmethod
    def owners(self, entry: int) -> tuple[int, ...] | None:
        """For an entry whose points are always taken: (h, its possible signs...); None for a rim."""

    @abstractmethod
    def base(self, h: int, negative: int) -> int:
        """The table's value for a block, to which the offset is added; see `place`."""

    @abstractmethod
    def place(self, h: Any, offset: Any, negative: Any) -> Any:
        """The integer at this offset of a block."""

    def inner(self, offset: Any, negative: Any) -> Any:
        """The exact place of an integer's |x| in its block, in units of L / 2**offset_bits; for blocks of integers."""
        return offset + negative


@dataclass(frozen=True, slots=True)
class Single(Layout):
    """Entry h is the integer h, with either sign."""

    @property
    def length(self) -> Fraction:
        """One integer."""
        return Fraction(1)

    def masses(self, weights: list[Bounds], total: Bounds, sides: int) -> tuple[list[Bounds], Bounds]:
        """f(0), then `sides` times f(h)."""
        (lo, hi), extra = weights[0], sides - 1
        rest = [(sides * low, sides * high) for low, high in weights[1:]]
        return [weights[0], *rest], (sides * total[0] - extra * hi, sides * total[1] - extra * lo)

    def owners(self, entry: int) -> tuple[int, ...] | None:
        """Every entry; zero has one sign."""
        return (0, 0) if entry == 0 else (entry, 0, 1)

    def base(self, h: int, negative: int) -> int:
        """+-h."""
        return -h if negative else h

    def place(self, h: Any, offset: Any, negative: Any) -> Any:  # noqa: ARG002 - nothing to add
        """+-h."""
        return (h ^ -negative) + negative


@dataclass(frozen=True, slots=True)
class _Blocks(Layout):
    """What integer and real blocks share. exponent: l = log2 L."""

    exponent: int

    @property
    def length(self) -> Fraction:
        """2**l."""
        return Fraction(2) ** self.exponent

    def masses(self, weights: list[Bounds], total: Bounds, sides: int) -> tuple[list[Bounds], Bounds]:  # noqa: ARG002
        """Core M_{h+1}, rim M_h - M_{h+1}: they telescope, so the sum of all is the sum of the M_h."""
        entries = []
        for inner, outer in pairwise(weights):
            entries += [outer, (max(0, inner[0] - outer[1]), inner[1] - outer[0])]
        return entries, total

    def owners(self, entry: int) -> tuple[int, ...] | None:
        """Cores."""
        return (entry >> 1, 0, 1) if entry % 2 == 0 else None


@dataclass(frozen=True, slots=True)
class IntegerBlocks(_Blocks):
    """Block h is the 2**l integers hL, ..., hL + L - 1, or their mirror images ~x = -x - 1.

    |x| = hL + offset + negative, so hL <= |x| <= (h + 1)L on both sides.
    """

    @property
    def offset_bits(self) -> int:
        """L."""
        return self.exponent

    def base(self, h: int, negative: int) -> int:
        """hL, or -(h + 1)L: the mirrored block, counted upward."""
        return -((h + 1) << self.exponent) if negative else h << self.exponent

    def place(self, h: Any, offset: Any, negative: Any) -> Any:
        """HL + offset or its complement."""
        return ((h << self.exponent) + offset) ^ -negative


@dataclass(frozen=True, slots=True)
class RealBlocks(_Blocks):
    """Block h is the reals from hL to (h + 1)L, or their mirror image; each is rounded to the nearest integer.

    In half steps the offset has l + 1 bits, and round((2hL + offset + part) / 2) = (2hL + offset + 1) >> 1 for part
    in (0, 1). With l + 1 <= 0 a block lies within one half step and needs no offset. Ties have probability 0.
    """

    @property
    def offset_bits(self) -> int:
        """L + 1 half-step bits, or none."""
        return max(0, self.exponent + 1)

    @property
    def halved(self) -> bool:
        """Half steps, unless there is no offset and the table holds the rounded value itself."""
        return self.offset_bits > 0

    def base(self, h: int, negative: int) -> int:
        """2hL + 1, or its mirror image -2(h + 1)L + 1, in half steps: floor halves of both are the rounded points."""
        if not self.halved:
            return int(self.place(h, 0, negative))
        return (-((h + 1) << self.offset_bits) if negative else h << self.offset_bits) + 1

    def place(self, h: Any, offset: Any, negative: Any) -> Any:
        """The rounded point."""
        half_steps = h << self.offset_bits if self.exponent >= -1 else h >> -(self.exponent + 1)
        x = (half_steps + offset + 1) >> 1
        return (x ^ -negative) + negative


@dataclass(frozen=True, slots=True)
class Recipe:
    """A distribution on the integers, ready to be tabulated. sides: 2 if symmetric about 0, 1 if never negative."""

    profile: Profile
    layout: Layout
    sides: int

    @property
    def wide(self) -> bool:
        """Whether values may need more than 64 bits; they are then Python integers."""
        return self.layout.offset_bits > WIDEST_OFFSET

    def masses(self, bits: int) -> tuple[list[Bounds], Bounds]:
        """The entries' certified masses at this precision, and their sum, both relative to M_0."""
        return self.layout.masses(*self.profile.weights(self.layout.length, bits), self.sides)


def on_integers(profile: Smooth, sides: int) -> Recipe:
    """P(x) in proportion to f(|x|) on the integers (sides 2) or f(x) on 0, 1, 2, ... (sides 1)."""
    exponent = profile.block_exponent
    return Recipe(profile, IntegerBlocks(exponent) if exponent > 0 else Single(), sides)


def rounded(profile: Smooth) -> Recipe:
    """The nearest integer to a real number with density in proportion to f(|y|)."""
    return Recipe(profile, RealBlocks(profile.block_exponent), 2)
