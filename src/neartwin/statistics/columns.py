"""Statistics of one column or expression, and its grid of whole steps."""

from dataclasses import dataclass
from fractions import Fraction
from math import floor

from neartwin.errors import QueryError
from neartwin.exact import Number, rational
from neartwin.statistics.base import OfBoundedValues, known
from neartwin.tables.grid import GridColumn
from neartwin.tables.ranges import Value, value_of
from neartwin.tables.table import Bounds, Table, both_ends, bounds

Choice = Number | None  # an end, a step or a fill; None takes the table's declaration


@dataclass(frozen=True, slots=True)
class OneColumn(OfBoundedValues):
    """A statistic of the values of one column or expression, each clipped to its public bounds.

    Attributes:
        column: The column or expression.
        bounds: Bounds that the question gives; None for the table's.
        fill: The value of NULL and NaN; None leaves them out.
        step: The step of the grid, where the bounds are the table's or follow from them.
    """

    column: str
    bounds: Bounds | None = None
    fill: Fraction | None = None
    step: Fraction | None = None

    @known
    def value(self, table: Table) -> Value:
        """The summand and its bounds.

        Args:
            table: The table.

        Returns:
            The value.

        Raises:
            QueryError: There are no bounds.
        """
        return value_of(table, self.column, self.bounds, self.step, self.fill, conditions=self.conditions)

    def check(self, table: Table) -> None:
        """Refuse a column that is missing, no number, or without bounds."""
        self.value(table)

    def clip_bounds(self, table: Table) -> dict[str, Bounds]:
        """The bounds of the one column."""
        return {self.column: self.value(table).bounds}

    @property
    def grid(self) -> tuple[Bounds | None, Fraction | None, Fraction | None]:
        """Bounds, fill and step as the question gives them: equal for statistics that can share sums."""
        return self.bounds, self.fill, self.step


def chosen_grid(
    column: str, low: Choice, high: Choice, step: Choice, fill: Choice
) -> tuple[Bounds | None, Fraction | None, Fraction | None]:
    """Bounds, fill, and the step if there are no bounds yet.

    Args:
        column: The column, for errors.
        low: The lower bound, or None.
        high: The upper bound, or None.
        step: The step of the grid, or None.
        fill: The value for NULL and NaN, or None.

    Returns:
        Bounds, fill and step.

    Raises:
        QueryError: The arguments do not fit each other.
    """
    filled = None if fill is None else rational(fill=fill)
    ends = both_ends(column, low, high)
    if ends is None:
        chosen = None if step is None else rational(step=step)
        if chosen is not None and chosen <= 0:
            raise QueryError(f"step={step!r} of {column!r} must be positive")
        return None, filled, chosen
    return bounds(*ends, step), filled, None


def centred(value: Value, bounds: Bounds, fill: Fraction | None, centre: int) -> GridColumn:
    """A value on its grid, less a centre. Equal ones have equal names.

    Args:
        value: The summand.
        bounds: Its bounds and grid.
        fill: The value for NULL and NaN, or None.
        centre: Subtracted, in steps.

    Returns:
        The column.
    """
    steps = None if fill is None else floor(fill / bounds.step + Fraction(1, 2)) - centre
    name = f"{value.column}[{bounds.low},{bounds.high},{bounds.step}]-{centre}"
    return GridColumn(
        name if steps is None else f"{name}?{steps}", value.column, bounds, centre, steps, expression=value.expression
    )


def as_column(value: Value) -> GridColumn:
    """A value that is computed in whole steps already, under its own name."""
    return GridColumn(value.column, value.column, value.bounds, 0, None, expression=value.expression)
