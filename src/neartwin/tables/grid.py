"""Columns on a grid of whole steps, and products of them: what an engine sums exactly."""

from dataclasses import dataclass

from neartwin.tables.expressions import RowExpression
from neartwin.tables.table import Bounds


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column clipped to its bounds and rounded to its grid, in whole steps less `centre` (whole steps too).

    expression: what is computed in place of a column; then `column` is its text.
    """

    name: str
    column: str
    bounds: Bounds
    centre: int
    fill: int | None  # stands for NULL and NaN, in steps less centre; None leaves such values out
    expression: RowExpression | None = None

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the source that it reads."""
        return frozenset({self.column}) if self.expression is None else self.expression.columns

    @property
    def written(self) -> str:
        """The column's name, or the one spelling of the expression."""
        return self.column if self.expression is None else str(self.expression.term)

    @property
    def low(self) -> int:
        """Least value that a row can add."""
        return self.bounds.low_units - self.centre

    @property
    def high(self) -> int:
        """Largest value that a row can add."""
        return self.bounds.high_units - self.centre


@dataclass(frozen=True, slots=True)
class Moment:
    """A grid column, or the product of two (or one with itself), less `centre`, in rows where all of `present` have a value.

    low, high: the least and largest that a row can add.
    """

    name: str
    factors: tuple[GridColumn, ...]
    present: tuple[GridColumn, ...]
    low: int
    high: int
    centre: int
