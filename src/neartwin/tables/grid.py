"""Columns on a grid of whole steps, and products of them: the exact summands of an engine."""

from collections.abc import Mapping
from dataclasses import dataclass

from neartwin.tables.expressions import RowExpression
from neartwin.tables.table import Bounds


@dataclass(frozen=True, slots=True)
class GridColumn:
    """A column clipped to its bounds and rounded to its grid, in whole steps less `centre`.

    Attributes:
        name: The name of the measure.
        column: The name of the column, or the text of the expression.
        bounds: Its bounds and step.
        centre: Subtracted from each value, in whole steps.
        fill: The value for NULL and NaN, in steps less centre; None leaves such values out.
        expression: The expression that is computed in place of a column, or None.
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
        """The column's name, or the canonical text of the expression."""
        return self.column if self.expression is None else str(self.expression.term)

    @property
    def low(self) -> int:
        """The least value that a row can add, in steps."""
        return self.bounds.low_units - self.centre

    @property
    def high(self) -> int:
        """The largest value that a row can add, in steps."""
        return self.bounds.high_units - self.centre


@dataclass(frozen=True, slots=True)
class Moment:
    """A grid column, or the product of two, less `centre`.

    It counts rows in which all of `present` have a value.

    Attributes:
        name: The name of the measure.
        factors: One or two grid columns, or one column twice.
        present: The columns that must have a value.
        low: The least value that a row can add, in steps.
        high: The largest value that a row can add, in steps.
        centre: Subtracted from each value, in whole steps.
    """

    name: str
    factors: tuple[GridColumn, ...]
    present: tuple[GridColumn, ...]
    low: int
    high: int
    centre: int


@dataclass(frozen=True, slots=True)
class MomentSet:
    """The columns of one or more statistics in one order, and the sums that they need.

    Attributes:
        columns: The columns, in an order that does not depend on the statistic.
        operands: The place of each column that the statistic names, in its order.
        pairs: The places of the factors of products.
    """

    columns: tuple[GridColumn, ...]
    operands: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]

    def first(self, place: int) -> GridColumn | Moment:
        """The summand for a column."""
        return self.columns[place] if len(self.columns) == 1 else _moment((self.columns[place],), self.columns)

    def second(self, place: int, other: int) -> Moment:
        """The summand for a product.

        Args:
            place: The place of one factor.
            other: The place of the other factor.

        Returns:
            The moment.
        """
        low, high = sorted((place, other))
        return _moment((self.columns[low], self.columns[high]), self.columns)

    @property
    def sure(self) -> bool:
        """Whether every row has all values, because missing ones are filled."""
        return all(column.fill is not None for column in self.columns)

    @property
    def cells(self) -> Mapping[str, GridColumn | Moment]:
        """All summands, by name. Each sum also has the number of rows."""
        cells = [self.first(place) for place in range(len(self.columns))]
        return {cell.name: cell for cell in [*cells, *(self.second(*pair) for pair in self.pairs)]}


def _moment(factors: tuple[GridColumn, ...], columns: tuple[GridColumn, ...]) -> Moment:
    low, high = _range(factors)
    centre = (low + high) // 2 if len(factors) > 1 else 0
    name = " * ".join(factor.name for factor in factors) + f" - {centre}"
    among = "" if len(columns) == 1 else " among " + " & ".join(column.name for column in columns)
    return Moment(name + among, factors, columns, low - centre, high - centre, centre)


def _range(factors: tuple[GridColumn, ...]) -> tuple[int, int]:
    first, last = factors[0], factors[-1]
    if len(factors) == 1:
        return first.low, first.high
    corners = [x * y for x in (first.low, first.high) for y in (last.low, last.high)]
    if first is last or first == last:
        return (0 if first.low <= 0 <= first.high else min(corners)), max(corners)
    return min(corners), max(corners)
