"""Recipes: a profile, and the layout of its mass on the integers.

There are three layouts. `Single` has one entry for each integer. `IntegerBlocks` has runs of 2**l integers.
`RealBlocks` has runs of the real line, whose points are rounded to the nearest integer.

A block h has two entries. The *core* (index 2h) lies under the flat line at the block's outer height M_{h+1}. The *rim*
(index 2h + 1) is the rest of the rectangle up to M_h. A point of the core is always taken, a point of the rim only
under f. Every integer (real point) is in exactly one place.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from operator import add
from typing import Any

from neartwin.errors import ParameterError
from neartwin.noise.densities import Profile
from neartwin.noise.exponentials import Bounds

POSITION_BITS = 63  # known bits of the place q in [0, 1) within a block, before any refinement
WIDEST_OFFSET = 46  # cell and offset bits share one 64-bit word without overlap, and every value fits 62 bits


class Layout(ABC):
    """The places of an entry's points.

    Methods are arithmetic only, so they serve Python integers and int64 arrays alike. `negative` is 0 or 1: x ^ -1 is
    ~x = -x - 1, and (x ^ -1) + 1 is -x.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def length(self) -> Fraction:
        """The block length L."""

    @property
    def offset_bits(self) -> int:
        """The number of leading bits of q that decide the point."""
        return 0

    @property
    def halved(self) -> bool:
        """Whether base + offset counts half steps, to be shifted right by one."""
        return False

    @abstractmethod
    def ends(self, weights: list[int], sides: int) -> list[int]:
        """The mass of each entry and all before it: a lower bound of lower bounds, and an upper one of upper ones.

        Args:
            weights: M_0, M_1, ....
            sides: 2 if the law is symmetric about 0, 1 if it is never negative.

        Returns:
            The sums. Their differences are bounds too for entries whose points are always taken.
        """

    def total(self, weights: Bounds, bits: int, sides: int) -> Bounds:  # noqa: ARG002 - blocks have both sides
        """The mass of all entries.

        Args:
            weights: The sum of all M_h, from below and from above.
            bits: Their precision.
            sides: As for `ends`.
        """
        return weights

    @abstractmethod
    def owners(self, entry: int) -> tuple[int, ...] | None:
        """The block h and its possible signs, for an entry whose points are always taken; None for a rim."""

    @abstractmethod
    def base(self, h: int, negative: int) -> int:
        """The table's value for a block, to which the offset is added; see `place`.

        Args:
            h: The number of the block.
            negative: 1 for the mirrored block, else 0.

        Returns:
            The value.
        """

    @abstractmethod
    def place(self, h: Any, offset: Any, negative: Any) -> Any:
        """The integer at an offset of a block.

        Args:
            h: The number of the block.
            offset: The offset.
            negative: 1 for the mirrored block, else 0.

        Returns:
            The integer.
        """

    def inner(self, offset: Any, negative: Any) -> Any:
        """The exact place of an integer's |x| in its block, in units of L / 2**offset_bits; for blocks of integers.

        Args:
            offset: The offset.
            negative: 1 for the mirrored block, else 0.

        Returns:
            The place.
        """
        return offset + negative


@dataclass(frozen=True, slots=True)
class Single(Layout):
    """Entry h is the integer h, with either sign."""

    @property
    def length(self) -> Fraction:
        """One integer."""
        return Fraction(1)

    def ends(self, weights: list[int], sides: int) -> list[int]:
        """f(0), then `sides` times f(h)."""
        return list(accumulate((sides * weight for weight in weights[1:]), initial=weights[0]))

    def total(self, weights: Bounds, bits: int, sides: int) -> Bounds:
        """The sum with one side of f(0) = 1.

        Args:
            weights: The sum of all M_h, from below and from above.
            bits: Their precision.
            sides: As for `ends`.
        """
        return sides * weights[0] - ((sides - 1) << bits), sides * weights[1] - ((sides - 1) << bits)

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
class Blocks(Layout):
    """The common part of integer and real blocks.

    Attributes:
        exponent: l = log2 L.
    """

    exponent: int

    @property
    def length(self) -> Fraction:
        """2**l."""
        return Fraction(2) ** self.exponent

    def ends(self, weights: list[int], sides: int) -> list[int]:  # noqa: ARG002 - blocks have both sides
        """Core M_{h+1}, rim M_h - M_{h+1}: together M_h."""
        sums = list(accumulate(weights, initial=0))
        cores = list(map(add, sums, weights[1:]))
        return [end for both in zip(cores, sums[1:-1], strict=True) for end in both]

    def owners(self, entry: int) -> tuple[int, ...] | None:
        """Cores."""
        return (entry >> 1, 0, 1) if entry % 2 == 0 else None


@dataclass(frozen=True, slots=True)
class IntegerBlocks(Blocks):
    """Block h is the 2**l integers hL, ..., hL + L - 1, or their mirror images ~x = -x - 1.

    |x| = hL + offset + negative, so hL <= |x| <= (h + 1)L on both sides.
    """

    @property
    def offset_bits(self) -> int:
        """The exponent l."""
        return self.exponent

    def base(self, h: int, negative: int) -> int:
        """hL, or -(h + 1)L: the mirrored block, counted upward."""
        return -((h + 1) << self.exponent) if negative else h << self.exponent

    def place(self, h: Any, offset: Any, negative: Any) -> Any:
        """The integer hL + offset, or its complement."""
        return ((h << self.exponent) + offset) ^ -negative


@dataclass(frozen=True, slots=True)
class RealBlocks(Blocks):
    """Block h is the reals from hL to (h + 1)L, or their mirror image; each is rounded to the nearest integer.

    In half steps the offset has l + 1 bits. For part in (0, 1), round((2hL + offset + part) / 2) = (2hL + offset + 1)
    >> 1. With l + 1 <= 0 a block lies within one half step and needs no offset. Ties have probability 0.
    """

    @property
    def offset_bits(self) -> int:
        """Half-step bits: l + 1, or none."""
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
    """A distribution on the integers, ready to be tabulated.

    Attributes:
        profile: The shape of the law.
        layout: The places of its mass.
        sides: 2 if symmetric about 0, 1 if never negative.
    """

    profile: Profile
    layout: Layout
    sides: int

    def __post_init__(self) -> None:
        if self.layout.offset_bits > WIDEST_OFFSET:
            raise ParameterError("scale", self.profile, "must be at most 2**50", remedy="use a coarser grid")


def on_integers(profile: Profile, sides: int) -> Recipe:
    """The law with P(x) in proportion to f(|x|) on the integers, or to f(x) on 0, 1, 2, ....

    Args:
        profile: f.
        sides: 2 for all integers, 1 for 0, 1, 2, ....

    Returns:
        The recipe.
    """
    exponent = profile.block_exponent
    return Recipe(profile, IntegerBlocks(exponent) if exponent > 0 else Single(), sides)


def rounded(profile: Profile) -> Recipe:
    """The nearest integer to a real number y with density in proportion to f(|y|).

    Args:
        profile: f.

    Returns:
        The recipe.
    """
    return Recipe(profile, RealBlocks(profile.block_exponent), 2)
