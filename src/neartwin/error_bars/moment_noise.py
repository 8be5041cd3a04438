"""Noisy sums of a set of moments in one unit, and how far their noises together can be from 0. Arithmetic only, no data.

Each column is counted in half-widths of its bounds around its centre, so that values lie in about [-1, 1]; products are counted
around 0. Noises are in the order of `MomentSet`: of the number of rows, of each column's sum, of each product's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from neartwin.exact import FloatArray
from neartwin.mechanisms.noise_laws import Law
from neartwin.mechanisms.noise_sums import half_widths_of_sums
from neartwin.tables.grid import MomentSet

Ends = tuple[FloatArray, FloatArray]
Bar = tuple[FloatArray, FloatArray, FloatArray]  # values, and the lower and upper ends of their bars
Weights = Mapping[Any, FloatArray | float]  # of noises: by "n", by the place of a column, or by a pair of places


@dataclass(frozen=True, slots=True)
class MomentNoise:
    """The laws of all noises of a set, what one unit of each is worth, and what the noise of the number adds to each product."""

    sums: MomentSet
    laws: tuple[Law, ...]
    worth: FloatArray
    centres: Mapping[tuple[int, int], float]

    @classmethod
    def of(cls, sums: MomentSet, laws: Sequence[Law], parts: Sequence[int]) -> Self:
        """Of measured sums.

        Args:
            sums: What is summed.
            laws: Of the number, of each column's sum, of each product's.
            parts: Of a step, in which each of these is counted.
        """
        half = [half_of(sums, place) for place in range(len(sums.columns))]
        sizes = [1.0, *half, *(half[i] * half[j] for i, j in sums.pairs)]
        worth = np.array([1 / (size * part) for size, part in zip(sizes, parts, strict=True)])
        centres = {(i, j): sums.second(i, j).centre / (half[i] * half[j]) for i, j in sums.pairs}
        return cls(sums, tuple(laws), worth, centres)

    def reach(self, weights: Weights, groups: int, miss: float) -> FloatArray:
        """(groups,) t that |sum of weight * noise| passes with probability at most `miss`.

        weights: those of noises that are not named are 0.
        """
        order: list[object] = ["n", *range(len(self.sums.columns)), *self.sums.pairs]
        used = [place for place, name in enumerate(order) if name in weights]
        table = np.stack([np.broadcast_to(weights[order[place]], (groups,)) * self.worth[place] for place in used])
        return half_widths_of_sums([self.laws[place] for place in used], table, 1 - miss)


@dataclass(frozen=True, slots=True)
class MomentSums:
    """The noisy sums of every group: number, first and second, (groups,) each, and their noise."""

    noise: MomentNoise
    number: FloatArray
    first: tuple[FloatArray, ...]
    second: Mapping[tuple[int, int], FloatArray]

    @property
    def groups(self) -> int:
        """How many."""
        return len(self.number)

    def limits(self, place: int) -> tuple[float, float]:
        """The least and largest value of a column."""
        column, half = self.noise.sums.columns[place], half_of(self.noise.sums, place)
        return column.low / half, column.high / half


def half_of(sums: MomentSet, place: int) -> float:
    """Half the width of a column's bounds, in steps."""
    column = sums.columns[place]
    return (column.high - column.low) / 2
