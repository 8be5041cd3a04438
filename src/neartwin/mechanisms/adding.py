"""Mechanisms that add fresh noise to whole numbers, without a wrap-around, and how much one unit can change these.

For an integer vector v that differs from zero in c coordinates: |v|_inf <= |v|_1 <= |v|_2^2, c <= |v|_1,
|v|_1 <= c |v|_inf, |v|_1^2 <= c |v|_2^2, |v|_2^2 <= |v|_inf |v|_1. Each bound that is left out follows from the others;
each that is given may be sharpened by them. Laplace-like noise asks for `l1`, Gaussian noise for `l2_squared`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.exact import WholeNumbers
from neartwin.losses import Composition
from neartwin.mechanisms.noise_laws import Law


@dataclass(frozen=True, slots=True, init=False)
class Change:
    """Bounds on an integer vector: absolute sum, squared length, largest entry, entries that differ from zero.

    Give l1, or l2_squared, or linf with cells; any further bound sharpens. Whole numbers, in grid steps.

    >>> Change(linf=20, cells=3)
    Change(l1=60, l2_squared=1200, linf=20, cells=3)
    >>> Change(l1=5).l2_squared, Change(l2_squared=100, cells=4).l1
    (25, 20)
    """

    l1: int
    l2_squared: int
    linf: int
    cells: int

    def __init__(
        self, *, l1: int | None = None, l2_squared: int | None = None, linf: int | None = None, cells: int | None = None
    ) -> None:
        """All bounds are at least 1: what nobody can change needs no noise."""
        known = {"l1": l1, "l2_squared": l2_squared, "linf": linf, "cells": cells}
        for name, value in known.items():
            if value is not None:
                integer(at_least=1, **{name: value})
        if l1 is None and l2_squared is None and (linf is None or cells is None):
            raise ParameterError("l1", l1, "must be given", remedy="or l2_squared, or linf together with cells")
        if l1 is None:
            options = [] if l2_squared is None else [l2_squared]
            if cells is not None:
                options += [] if l2_squared is None else [isqrt(cells * l2_squared)]
                options += [] if linf is None else [cells * linf]
            l1 = min(options)
        one, square, most, count = l1, l2_squared or l1 * l1, linf or l1, cells or l1
        while True:
            before = (one, square, most, count)
            most = min(most, one, isqrt(square))
            count = min(count, one, square)
            one = min(one, square, count * most, isqrt(count * square))
            square = min(square, most * one)
            if before == (one, square, most, count):
                break
        for name, value in zip(("l1", "l2_squared", "linf", "cells"), before, strict=True):
            object.__setattr__(self, name, value)


class AdditiveMechanism(ABC):
    """Whole numbers plus independent noise, each of one law.

    Subclasses state the law and its sampler, and the privacy loss.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def law(self) -> Law:
        """The law of one coordinate's noise."""

    @property
    @abstractmethod
    def sampler(self) -> noise.Sampler:
        """The exact sampler of this law."""

    @abstractmethod
    def losses(self) -> Composition:
        """The privacy loss, for composition."""

    def losses_in_cells(self, *, cells: int, cell: int, l1: int) -> Composition:
        """The privacy loss where a unit moves few cells, each by a little.

        Args:
            cells: The most cells that one unit moves.
            cell: The most that it moves one of them, in steps.
            l1: The most that it moves all of them together, in absolute sum.

        Returns:
            The losses of the whole sensitivity, unless the law composes better cell by cell.
        """
        return self.losses()

    def noisy(self, values: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> WholeNumbers:
        """Fresh noise on each value.

        Args:
            values: Whole numbers of any size and shape, int64 or Python's. A sum that wrapped round would keep privacy
                and spoil the answer.
            source: Where randomness comes from.

        Returns:
            Noisy values in the same shape: int64 where they fit, Python integers otherwise.

        Raises:
            ParameterError: The values are not whole numbers.
        """
        if values.dtype.kind not in "iuO":
            raise ParameterError("values", values.dtype, "must be whole numbers", remedy="round them to a grid first")
        return noise.add(values, self.sampler.draw(values.shape, source=source))

    def half_width(self, confidence: float, count: int = 1) -> int:
        """The least t with P(|noise| <= t in all `count` coordinates) >= confidence.

        Args:
            confidence: The confidence over the noise, in (0, 1).
            count: The number of coordinates.

        Returns:
            t, in steps.
        """
        return self.law.half_width(confidence, count)


class PostProcessed:
    """Answers that follow from noisy numbers and reveal nothing more.

    Attributes:
        each: The noise on each number.
    """

    __slots__ = ()
    each: AdditiveMechanism

    def losses(self) -> Composition:
        """The privacy loss of all noisy numbers together, for composition."""
        return self.each.losses()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledNoise(AdditiveMechanism):
    """Noise of a scale, which is pure for a bound on the absolute sum of changes.

    Attributes:
        scale: The scale, in units of the answer.
        sensitivity: D, the L1 sensitivity, a whole number.
    """

    kind: ClassVar[str]
    growth: ClassVar[float] = 1.0  # its noise grows with the number of groups of a unit to this power

    scale: Fraction
    sensitivity: int

    def __post_init__(self) -> None:
        positive(scale=self.scale)
        integer(at_least=1, sensitivity=self.sensitivity)

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, sensitivity: int) -> Self:
        """The least scale that is epsilon-DP: sensitivity / epsilon, exactly.

        Args:
            epsilon: The pure-DP parameter.
            sensitivity: D, the L1 sensitivity, in steps.

        Returns:
            The mechanism.

        Raises:
            ParameterError: An argument is not positive, or the sensitivity is not whole.
        """
        scale = Fraction(integer(at_least=1, sensitivity=sensitivity)) / positive(epsilon=epsilon)
        return cls(scale=scale, sensitivity=sensitivity)

    @property
    def epsilon(self) -> Fraction:
        """The pure-DP parameter, sensitivity / scale."""
        return self.sensitivity / self.scale

    @property
    def record(self) -> list[object]:
        """Its words in digests. A class may be renamed, these never change."""
        return [str(self.scale), self.sensitivity]

    @property
    def noise_scale(self) -> float:
        """The scale, in steps."""
        return float(self.scale)

    def describe(self, parts: int = 1) -> str:
        """The law, for noise that is drawn in parts of a step."""
        return f"{self.kind}, scale {self.noise_scale / parts:,g}"

    def calibration(self, parts: int = 1) -> tuple[str, str]:
        """Its sensitivity, and how the noise follows from it, for noise that is drawn in parts of a step."""
        size = f"{self.sensitivity / parts:,.12g}"
        return f"sensitivity {size}", f"scale = sensitivity / epsilon = {size} / {float(self.epsilon):g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SquaredNoise(AdditiveMechanism):
    """Noise of a variance, concentrated for a bound on the squared length of changes.

    Attributes:
        variance: s2, the parameter of the law.
        l2_squared: D2, the squared Euclidean sensitivity, a whole number.
    """

    kind: ClassVar[str]
    growth: ClassVar[float] = 0.5  # its noise grows with the number of groups of a unit to this power
    record_name: ClassVar[str]  # its name in digests, which never changes

    variance: Fraction
    l2_squared: int

    def __post_init__(self) -> None:
        positive(variance=self.variance)
        integer(at_least=1, l2_squared=self.l2_squared)

    @classmethod
    def for_zcdp(cls, *, rho: Fraction, l2_squared: int) -> Self:
        """The least variance that is rho-zCDP: l2_squared / (2 rho), exactly.

        Args:
            rho: The zCDP parameter.
            l2_squared: D2, the squared Euclidean sensitivity, in squared steps.

        Returns:
            The mechanism.

        Raises:
            ParameterError: An argument is not positive, or the sensitivity is not whole.
        """
        return cls(variance=integer(at_least=1, l2_squared=l2_squared) / (2 * positive(rho=rho)), l2_squared=l2_squared)

    @property
    def rho(self) -> Fraction:
        """The zCDP parameter, exactly."""
        return self.l2_squared / (2 * self.variance)

    @property
    def record(self) -> list[object]:
        """Its words in digests, which never change."""
        return [self.record_name, str(self.variance), self.l2_squared]

    @property
    def noise_scale(self) -> float:
        """The deviation of the normal law, in steps."""
        return math.sqrt(float(self.variance))

    @property
    def mean_size(self) -> float:
        """About E|X|, in steps."""
        return math.sqrt(2 / math.pi) * self.noise_scale

    def describe(self, parts: int = 1) -> str:
        """The law, for noise that is drawn in parts of a step."""
        return f"{self.kind}, deviation {self.noise_scale / parts:,g}"

    def calibration(self, parts: int = 1) -> tuple[str, str]:
        """Its sensitivity, and how the noise follows from it, for noise that is drawn in parts of a step."""
        mu_squared, size = float(self.l2_squared / self.variance), f"{self.l2_squared / parts**2:,.12g}"
        return f"squared sensitivity {size}", f"variance = squared sensitivity / mu^2 = {size} / {mu_squared:g}"


def clipped_whole(values: WholeNumbers, low: int, high: int) -> NDArray[np.int64]:
    """Whole numbers of any size and kind, clipped to 64 bits. It is total, whatever the values are.

    Args:
        values: (n,) whole numbers.
        low: The lower bound.
        high: The upper bound.

    Returns:
        (n,) values in [low, high].

    Raises:
        ParameterError: The values are not a list of whole numbers.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iuO" or array.ndim != 1:
        raise ParameterError("values", f"{array.dtype}{array.shape}", "must be a list of whole numbers")
    wide = array if array.dtype.kind == "i" else array.astype(object)
    return np.asarray(np.clip(wide, low, high).astype(np.int64))
