"""The share of rows for which a condition is true, from a count of true rows and a count of false ones.

A row is in at most one of the two counts, so each gets noise as if it were asked alone. A mean of 0 and 1 would pay for its
total and its number of values apart. Let T rows be true and F false, m = T / (T + F), and X and Y the noises of T' and F'. Then
T' - m (T' + F') = (1 - m) X - m Y, whatever T and F are. So the bar is that of a mean, with thresholds for this noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from neartwin.error_bars.sums_means import TotalAndNumber
from neartwin.errors import SchemaError
from neartwin.statistics.base import (
    RATIO,
    Context,
    Estimate,
    ExpectedError,
    NoisyNumbers,
    Statistic,
    constructor,
    opposite,
)
from neartwin.statistics.columns import as_column
from neartwin.statistics.measures import Measurement
from neartwin.statistics.sql import of_columns
from neartwin.tables.expressions import RowExpression
from neartwin.tables.grid import GridColumn
from neartwin.tables.ranges import ANY, Range, Value, as_value, is_name, never_null, possible_values, range_of
from neartwin.tables.table import Bounds, Table
from neartwin.tables.terms import Term, check_term
from neartwin.tables.types import ColumnType

_BINARY = Bounds(Fraction(0), Fraction(1), Fraction(1))


@dataclass(frozen=True, slots=True)
class Share(Statistic):
    """The share of rows for which a condition is true, among those for which it is true or false.

    Attributes:
        column: A condition, a column of booleans, or whole numbers that are surely 0 or 1.
    """

    column: str
    verb = "share"
    lost_row = RATIO
    holds_lost = True

    def check(self, table: Table) -> None:
        """Refuse what is no condition."""
        if condition_of(table, self.column) is None:
            kind = table.expression(as_value(table, self.column)).type
            raise SchemaError(f"share({self.column!r}): it is {kind}, and must be a condition, such as 'age >= 65'")

    def _bins(self, table: Table) -> tuple[GridColumn, ...]:
        """The columns that have a value where the condition is true, where it is false, and where it is NULL if it can be."""
        condition = condition_of(table, self.column)
        assert condition is not None  # noqa: S101 - as checked
        true = self._bin("true", condition)
        if never_null(condition):
            return (true,)
        false, null = (Term(operation, ColumnType.BOOLEAN, (condition,)) for operation in ("not", "isnull"))
        return true, self._bin("false", false), self._bin("NULL", null)

    def _bin(self, word: str, condition: Term) -> GridColumn:
        """1 in the rows of the bin, NULL in others."""
        one, null = Term("literal", ColumnType.INTEGER, value=1), Term("literal", ColumnType.INTEGER)
        term = Term("case", ColumnType.INTEGER, (condition, one, null))
        check_term(term)
        name = f"{self.column}: {word}"
        return as_column(Value(name, _BINARY, RowExpression(name, ColumnType.INTEGER, term)))

    def _counts(self, table: Table) -> tuple[str, str]:
        """The measures of true and of false rows."""
        true, *others = self._bins(table)
        number = f"filled:{true.name}"
        return number, f"filled:{others[0].name}" if others else opposite(number)

    def measurements(self, context: Context, weight: float, power: float) -> Iterator[Measurement]:
        """The count of true rows, whose price covers that of false rows."""
        bins, (true, false) = self._bins(context.table), self._counts(context.table)
        of_true = context.in_bins(true, weight, *bins[:2], others=(false,))
        yield replace(of_true, rest=bins[2] if bins[2:] else None)

    def main_measure(self, context: Context) -> str:
        """The count of true rows."""
        return self._counts(context.table)[0]

    def _read(self, context: Context) -> TotalAndNumber:
        """True rows and all rows, from the measures."""
        measure = context.measures[self.main_measure(context)]
        return TotalAndNumber.from_ends(measure.mechanism.law, measure.parts)

    def estimate(self, name: str, noisy: NoisyNumbers, context: Context, confidence: float) -> list[Estimate]:
        """True rows over all rows, within [0, 1]."""
        counts = [noisy.sums[one].astype(float) for one in self._counts(context.table)]
        *ends, _ = self._read(context).means(counts, confidence, context.lost)
        return [Estimate(name, *(end.tolist() for end in ends))]

    def expected(self, name: str, context: Context, confidence: float) -> list[ExpectedError]:
        """The bar for n rows."""
        return [ExpectedError.of_mean(name, self._read(context), _BINARY.step, confidence)]


def condition_of(table: Table, column: str) -> Term | None:
    """A text as a condition.

    Args:
        table: The table.
        column: A column or a SQL expression.

    Returns:
        The condition, or "above 0" of whole numbers that are surely 0 or 1. None for other values.

    Raises:
        SchemaError: The column is missing.
        QueryError: The expression is not allowed.
    """
    if is_name(table, column):
        table.has(column, "of a sum")
    term = table.expression(as_value(table, column)).term
    if term.kind is ColumnType.BOOLEAN:
        return term
    whole = range_of(term, table.columns) if term.kind is ColumnType.INTEGER else ANY
    if whole != Range(_BINARY.low, _BINARY.high, _BINARY.step) and set(possible_values(term) or ()) != {0, 1}:
        return None
    zero = Term("literal", term.kind, value=0 if term.kind is ColumnType.INTEGER else 0.0)
    return Term(">", ColumnType.BOOLEAN, (term, zero))


@constructor
def share(column: str) -> Share:
    """The share of rows for which a condition is true, in [0, 1]. No bounds are needed.

    Rows for which the condition is NULL are left out, as AVG leaves them out. `coalesce(condition, false)` counts them as
    false, and so does `ELSE 0`. In SQL a share is `SHARE(condition)`, `AVG(condition)`, or AVG of a CASE that is 0 or 1.

    Args:
        column: A condition in SQL, such as `age >= 65`, or a column of booleans.

    Returns:
        The statistic.

    >>> print(share("age >= 65"))
    share(age >= 65)
    """
    return Share(column)


of_columns("SHARE", "share", Share, "condition")
