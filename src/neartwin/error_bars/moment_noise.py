"""Noisy sums of a set of moments in one unit, and how far their noises together can be from 0. Arithmetic only, no data.

Each column is counted in half-widths of its bounds around its centre, so that values lie in about [-1, 1]. Products are counted
around 0. Noises are in the order of `MomentSet`: of the number of rows, of each column's sum, of each product's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from neartwin.exact import FloatArray
from neartwin.mechanisms.noise_laws import Law, half_widths_of_sums
from neartwin.tables.grid import MomentSet

Ends = FloatArray  # (2, groups): the lower ends of ranges, and the upper ones
Bar = tuple[FloatArray, FloatArray, FloatArray]  # values, and the lower and upper ends of their bars
Weights = Mapping[Any, FloatArray | float]  # of noises: by "n", by the place of a column, or by a pair of places


@dataclass(frozen=True, slots=True)
class MomentNoise:
    """The noise of a set of moments, and what lost rows may add to it.

    Attributes:
        sums: The set.
        laws: The law of the number, of each column's sum and of each product's.
        worth: The size of one step of each, in half-widths.
        centres: The factor with which the noise of the number enters each product.
        lost: The most that lost rows add to each, in half-widths: (L9) of docs/proofs/lost-rows.md.
    """

    sums: MomentSet
    laws: tuple[Law, ...]
    worth: FloatArray
    centres: Mapping[tuple[int, int], float]
    lost: FloatArray

    @classmethod
    def of(cls, sums: MomentSet, laws: Sequence[Law], parts: Sequence[int], *, lost: int = 0) -> Self:
        """The noise of measured sums.

        Args:
            sums: The set of moments.
            laws: The law of the number, of each column's sum and of each product's.
            parts: The parts of a step in which each of these is counted.
            lost: The most rows that may be lost.
        """
        half = [half_of(sums, place) for place in range(len(sums.columns))]
        sizes = [1.0, *half, *(half[i] * half[j] for i, j in sums.pairs)]
        worth = np.array([1 / (size * part) for size, part in zip(sizes, parts, strict=True)])
        centres = {(i, j): sums.second(i, j).centre / (half[i] * half[j]) for i, j in sums.pairs}
        most = [1, *(max(abs(cell.low), abs(cell.high)) for cell in sums.cells.values())]
        return cls(sums, tuple(laws), worth, centres, lost * np.array(most, dtype=float) / sizes)

    def reach(self, weights: Weights, groups: int, failure: float) -> FloatArray:
        """(groups,) t that |sum of weight * noise|, lost rows included, passes with probability at most `failure`.

        Args:
            weights: Weights by name of the noise; those that are not named are 0.
            groups: The number of groups.
            failure: The probability.
        """
        order: list[object] = ["n", *range(len(self.sums.columns)), *self.sums.pairs]
        used = [place for place, name in enumerate(order) if name in weights]
        table = np.stack([np.broadcast_to(weights[order[place]], (groups,)) for place in used])
        widths = half_widths_of_sums([self.laws[place] for place in used], table * self.worth[used, None], 1 - failure)
        return np.asarray(widths + self.lost[used] @ np.abs(table))


@dataclass(frozen=True, slots=True)
class MomentSums:
    """The noisy sums of every group, (groups,) each.

    Attributes:
        noise: Their noise.
        number: The number of rows.
        first: The sum of each column.
        second: The sum of each product.
    """

    noise: MomentNoise
    number: FloatArray
    first: tuple[FloatArray, ...]
    second: Mapping[tuple[int, int], FloatArray]

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.number)

    def limits(self, place: int) -> tuple[float, float]:
        """The least and largest value of a column."""
        column, half = self.noise.sums.columns[place], half_of(self.noise.sums, place)
        return column.low / half, column.high / half


def half_of(sums: MomentSet, place: int) -> float:
    """Half the width of a column's bounds, in steps.

    Args:
        sums: The measured sums.
        place: The place of the column.

    Returns:
        The half-width.
    """
    column = sums.columns[place]
    return (column.high - column.low) / 2
