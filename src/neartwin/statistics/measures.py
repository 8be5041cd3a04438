"""Measures: the noisy counts and sums that statistics are read from, before and after the budget is split among them."""

from dataclasses import dataclass, field
from fractions import Fraction

from neartwin.losses import Composition
from neartwin.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Gaussian
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.statistics.sensitivity import Sensitivity
from neartwin.tables.grid import GridColumn, Moment

Noise = DiscreteLaplace | Gaussian | DiscreteGaussian


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measure that wants noise.

    Attributes:
        name: Its name in the stage.
        sensitivity: How far one unit moves it, in parts.
        weight: The worth of one part of its bar in the stated errors.
        grid: The columns that it needs.
        cell: The column or product that it totals; None for a count.
        tree: The tree over the cells of its column, if it counts by node.
        parts: The parts of a step that it is counted in.
        others: Counts of other rows that its price covers: a row is in at most one of them all.
        rest: The column that has a value in the rows of none of them; None if there are no such rows.
        by_unit: Whether it counts a group's distinct values, each through one of its units.
        row: The steps of one row, where its parts are those of a row shared between two ends, and not of a step; else 0.
    """

    name: str
    sensitivity: Sensitivity
    weight: float
    grid: tuple[GridColumn, ...] = field(default=(), compare=False)
    cell: GridColumn | Moment | None = field(default=None, compare=False)
    tree: CountTree | None = field(default=None, compare=False)
    parts: int = 1
    others: tuple[str, ...] = ()
    rest: GridColumn | None = field(default=None, compare=False)
    by_unit: bool = False
    row: int = 0


def largest(cell: GridColumn | Moment) -> int:
    """The size of the largest value, at least 1."""
    return max(abs(cell.low), abs(cell.high), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One noisy number of every group.

    Attributes:
        name: Its name in the stage.
        sensitivity: How far one unit moves it.
        mechanism: The noise that pays for it.
        parts: The parts of a step in which its numbers and its noise are counted.
        paid: Whether another measure's price covers it: the two count disjoint rows, and one sensitivity holds for both.
        row: The steps of one row, where its parts are those of a row shared between two ends, and not of a step; else 0.
    """

    name: str
    sensitivity: Sensitivity
    mechanism: Noise
    parts: int = 1
    paid: bool = False
    row: int = 0

    def half_width(self, confidence: float) -> Fraction:
        """The bar of its noise, in steps."""
        return Fraction(self.mechanism.half_width(confidence), self.parts)

    @property
    def noise_in_words(self) -> str:
        """The law of its noise, in steps."""
        finer = f", drawn in parts of 1/{self.parts:,}" if self.parts > 1 else ""
        return f"{self.mechanism.describe(self.parts)}{finer}"

    def losses(self) -> Composition:
        """Its privacy loss as a factor for composition: cell by cell where that is less than all at once."""
        moved = self.sensitivity
        return self.mechanism.losses_in_cells(cells=moved.cells, cell=moved.cell, l1=moved.l1)
