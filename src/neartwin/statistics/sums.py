"""Sums and means of a column or expression, each value clipped to public bounds, and shares of a condition.

**A share** is read from a count of true rows and a count of false ones.
A row is in at most one of the two counts, so each gets noise as if it were asked alone. A mean of 0 and 1 would pay for its
total and its number of values apart. Let T rows be true and F false, m = T / (T + F), and X and Y the noises of T' and F'. Then
T' - m (T' + F') = (1 - m) X - m Y, whatever T and F are. So the bar is that of a mean, with thresholds for this noise.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, lcm
from typing import Self

import numpy as np

from neartwin.error_bars.sums_means import TotalAndNumber
from neartwin.errors import SchemaError
from neartwin.statistics import base
from neartwin.statistics.clipping import PrivateRange
from neartwin.statistics.columns import Choice, OneColumn, as_column, centred, chosen_grid
from neartwin.statistics.measures import Measurement, largest
from neartwin.statistics.sql import Call, Named, function, of_columns
from neartwin.tables.expressions import RowExpression
from neartwin.tables.grid import GridColumn
from neartwin.tables.ranges import ANY, Range, Value, as_value, is_name, never_null, possible_values, range_of
from neartwin.tables.table import Bounds, Table
from neartwin.tables.terms import Term, check_term
from neartwin.tables.types import ColumnType

AVG_OR_0 = "AVG_OR_0"  # in SQL that stands for other SQL
_BINARY = Bounds(Fraction(0), Fraction(1), Fraction(1))
_FEW = 0.005  # of what may fail, for the number of values that share what clipping took


@dataclass(frozen=True, slots=True)
class Share(base.Statistic):
    """The share of rows for which a condition is true, among those for which it is true or false.

    Attributes:
        column: A condition, a column of booleans, or whole numbers that are surely 0 or 1.
    """

    column: str
    verb = "share"
    lost_row = base.RATIO
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
        return number, f"filled:{others[0].name}" if others else base.opposite(number)

    def measurements(self, context: base.Context, weight: float, power: float) -> Iterator[Measurement]:
        """The count of true rows, whose price covers that of false rows."""
        bins, (true, false) = self._bins(context.table), self._counts(context.table)
        of_true = context.in_bins(true, weight, *bins[:2], others=(false,))
        yield replace(of_true, rest=bins[2] if bins[2:] else None)

    def main_measure(self, context: base.Context) -> str:
        """The count of true rows."""
        return self._counts(context.table)[0]

    def _read(self, context: base.Context) -> TotalAndNumber:
        """True rows and all rows, from the measures."""
        measure = context.measures[self.main_measure(context)]
        return TotalAndNumber.from_ends(measure.mechanism.law, measure.parts)

    def estimate(
        self, name: str, noisy: base.NoisyNumbers, context: base.Context, confidence: float
    ) -> list[base.Estimate]:
        """True rows over all rows, within [0, 1]."""
        counts = [noisy.sums[one].astype(float) for one in self._counts(context.table)]
        *ends, _ = self._read(context).means(counts, confidence, context.lost)
        return [base.Estimate(name, *(end.tolist() for end in ends))]

    def expected(self, name: str, context: base.Context, confidence: float) -> list[base.ExpectedError]:
        """The bar for n rows."""
        return [base.ExpectedError.of_mean(name, self._read(context), _BINARY.step, confidence)]


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


@base.constructor
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


@dataclass(frozen=True, slots=True)
class _Totalled(OneColumn):
    """A statistic of the total of a column and the number of its values."""

    clip: PrivateRange | None = None
    holds_lost = True

    def total_column(self, context: base.Context) -> GridColumn:
        """The column that is totalled."""
        return self._totals(context)[0]

    def _totals(self, context: base.Context) -> tuple[GridColumn, *tuple[str, ...]]:
        """The column that is totalled, and a second measure of it if both share each row between the ends of its bounds.

        A mean is read from two totals, of distances from the lower bound and from the upper one: (W17). A row adds the span of
        the bounds to both together. Where missing values are filled, so that others have their number, a mean is taken around
        the middle of its bounds, which halves the sensitivity of its total. A sum of the same column reads what the mean
        reads, unless the mean reads a variance's sums in coarser steps. A sum alone is taken around 0.
        """
        value, bounds = self.value(context.table), self.value(context.table).bounds
        if not any(other.averages(context.table, value, self.fill) for other in context.statistics):
            return (centred(value, bounds, self.fill, 0),)
        for other in context.statistics:  # a mean can share a variance's sums, and its bar can hold their coarser steps
            shared = other.shared_column(context.table, (self.column, *self.grid))
            if shared is not None and (self.is_value or shared.bounds.step == bounds.step):
                return (shared,)
        low, high = bounds.low_units, bounds.high_units
        if self.fill is not None or low == high:
            return (centred(value, bounds, self.fill, (low + high) // 2),)
        below = centred(value, bounds, None, low)
        below = replace(below, name=f"{below.name} from below")
        return below, f"short:{below.name}"

    def measurements(self, context: base.Context, weight: float, power: float) -> Iterator[Measurement]:
        """The total and, where it has a part in the bar, the number of values."""
        column, *others = self._totals(context)
        if others:
            yield context.in_bins(base.total_of(column), weight, column, others=tuple(others), row=column.high)
            return
        of_total, of_number = self._shares(column)
        yield context.summed(column, weight * of_total, column, sure=column.fill is not None)
        if of_number:
            yield context.counted(context.number(column), weight * of_number)

    def _shares(self, column: GridColumn) -> tuple[float, float]:
        """The worth of one step of the bars of the total and of the number in this bar, in units of its largest value."""
        raise NotImplementedError

    def main_measure(self, context: base.Context) -> str:
        """The total."""
        return base.total_of(self.total_column(context))

    def _read(self, context: base.Context) -> tuple[tuple[str, str], TotalAndNumber]:
        """The measures of the total and of the number of values, or of the two ends, and what is read from them."""
        column, *others = self._totals(context)
        names = base.total_of(column), others[0] if others else context.number(column)
        first, second = (context.measures[name] for name in names)
        if others:
            return names, TotalAndNumber.from_ends(first.mechanism.law, first.parts, column.high)
        zero, laws = Fraction(0), (first.mechanism.law, second.mechanism.law)
        total, number = (Fraction(1, first.parts), zero), (zero, Fraction(1, second.parts))
        return names, TotalAndNumber(laws, total, number, (column.low, column.high))

    def summed_value(self, table: Table) -> Value:
        """The column or expression."""
        return self.value(table)

    def within(self, bounds: Bounds) -> Self:
        """This statistic within other bounds, widened to hold the value of missing ones."""
        if self.fill is not None:
            bounds = replace(bounds, low=min(bounds.low, self.fill), high=max(bounds.high, self.fill))
        return replace(self, bounds=bounds, step=None, clip=None)


@dataclass(frozen=True, slots=True)
class Sum(_Totalled):
    """The sum of a column's values, each clipped to its public bounds."""

    only_lowered = True
    verb = "sum"
    is_linear = True

    def _shares(self, column: GridColumn) -> tuple[float, float]:
        """A + |c| b, in units of the largest value."""
        most = max(abs(column.bounds.low_units), abs(column.bounds.high_units), 1)
        return 1 / most, abs(column.centre) / most

    def estimate(
        self, name: str, noisy: base.NoisyNumbers, context: base.Context, confidence: float
    ) -> list[base.Estimate]:
        """The total around a centre c, and c times the number of values."""
        column = self.total_column(context)
        weights, half_width = self._weights(column, context, confidence)
        parts = lcm(*(weight.denominator for weight in weights.values()))
        each = [noisy.sums[one].astype(object) * int(weight * parts) for one, weight in weights.items()]
        steps: list[int] = np.add.reduce(each).tolist()
        up, down = column.bounds.step.numerator, column.bounds.step.denominator * parts
        width = ceil(half_width * parts) + ceil(context.clipped * largest(column) * parts)
        lost = context.lost * parts
        reach = min(column.bounds.low_units, 0), max(column.bounds.high_units, 0)
        low, high = (lost * end if end else 0 for end in reach)
        # whole numbers divide to the nearest double, as fractions do
        ends = ([(v + move) * up / down for v in steps] for move in (0, low - width, high + width))
        return [base.Estimate(name, *ends)]

    def expected(self, name: str, context: base.Context, confidence: float) -> list[base.ExpectedError]:
        """The bar of the total."""
        column = self.total_column(context)
        width = self._weights(column, context, confidence)[1] * column.bounds.step
        return [base.ExpectedError.everywhere(name, width, confidence)]

    def _weights(
        self, column: GridColumn, context: base.Context, confidence: float
    ) -> tuple[dict[str, Fraction], Fraction]:
        """The weights of the noisy numbers that it is the sum of, and its bar, in steps."""
        total = context.measures[base.total_of(column)]
        if len(self._totals(context)) == 1 and not column.centre:
            return {total.name: Fraction(1, total.parts)}, total.half_width(confidence)
        names, read = self._read(context)
        return dict(zip(names, read.around(column.centre), strict=True)), read.half_width(column.centre, confidence)


@dataclass(frozen=True, slots=True)
class Mean(_Totalled):
    """The mean of a column's values, each clipped to its public bounds."""

    verb = "mean"
    is_value = True
    lost_row = base.RATIO

    def check(self, table: Table) -> None:
        """Refuse what is no number with bounds, nor a condition."""
        if self._as_share(table) is None:
            OneColumn.check(self, table)

    def spelled(self, table: Table) -> base.Statistic:
        """A mean of values that are surely 0 or 1 is a share."""
        as_share = self._as_share(table)
        return base.Statistic.spelled(self if as_share is None else as_share, table)

    def _as_share(self, table: Table) -> Share | None:
        plain = self == Mean(self.column) and condition_of(table, self.column) is not None
        return Share(self.column) if plain else None

    def averages(self, table: Table, value: Value, fill: Fraction | None) -> bool:
        """Whether it is the mean of this value."""
        return self.column == value.column and self.fill == fill and self.value(table) == value

    def _shares(self, column: GridColumn) -> tuple[float, float]:
        """(a + |m| b) / n at its worst: |m| is one row's largest contribution."""
        return 1 / largest(column), 1.0

    def estimate(
        self, name: str, noisy: base.NoisyNumbers, context: base.Context, confidence: float
    ) -> list[base.Estimate]:
        """The total over the number, within the bounds: a mean cannot leave them."""
        column, (names, read) = self.total_column(context), self._read(context)
        few, bounds, rounding = _FEW * bool(context.clipped), column.bounds, self._rounding(column, context)
        *ends, counts = read.means([noisy.sums[one].astype(float) for one in names], confidence + few, context.lost)
        inside = ((np.clip(end, column.low, column.high) + column.centre) * float(bounds.step) for end in ends)
        ends = [end + move * rounding for end, move in zip(inside, (0, -1, 1), strict=True)]
        value, low, high = (np.clip(end, float(bounds.low), float(bounds.high)) for end in ends)
        if few:
            least = counts - float(read.half_width(None, 1 - 2 * _FEW))
            off = float(context.clipped * largest(column) * bounds.step) / np.maximum(least, 1.0)
            low, high = low - off, high + off
        return [base.Estimate(name, value.tolist(), low.tolist(), high.tolist())]

    def expected(self, name: str, context: base.Context, confidence: float) -> list[base.ExpectedError]:
        """The bar of the mean."""
        read, column = self._read(context)[1], self.total_column(context)
        rounding = self._rounding(column, context)
        return [base.ExpectedError.of_mean(name, read, column.bounds.step, confidence, rounding=rounding)]

    def _rounding(self, column: GridColumn, context: base.Context) -> float:
        """How far the mean may be from that of values on the column's grid, if that is the coarser one of squares."""
        step = column.bounds.step
        return float(step) / 2 if step != self.value(context.table).bounds.step else 0.0


@base.constructor
def sum(  # noqa: A001
    column: str,
    low: Choice = None,
    high: Choice = None,
    step: Choice = None,
    *,
    fill: Choice = None,
    clip: PrivateRange | None = None,
) -> Sum:
    """The sum of a column or an expression, within public bounds.

    Args:
        column: A column or a SQL expression.
        low: The lower public bound; by default the table's, or the one that follows from the bounds of each column in
            the expression.
        high: The upper public bound, with the same default.
        step: The step of the grid; by default the declared one, or one of at least a million steps.
        fill: The value for NULL and NaN; None leaves them out.
        clip: `nt.private_range()` has narrower bounds chosen privately within these.

    Returns:
        The statistic.

    Raises:
        QueryError: One bound is given without the other.

    >>> print(sum("amount", 0, 200).bounds)
    [0, 200] in steps of 0.0001
    """
    return Sum(column, *chosen_grid(column, low, high, step, fill), clip)


@base.constructor
def mean(
    column: str,
    low: Choice = None,
    high: Choice = None,
    step: Choice = None,
    *,
    fill: Choice = None,
    clip: PrivateRange | None = None,
) -> Mean:
    """The mean of a column or an expression, within public bounds.

    Args:
        column: A column or a SQL expression.
        low: The lower public bound, as for `sum`.
        high: The upper public bound, as for `sum`.
        step: The step of the grid, as for `sum`.
        fill: The value for NULL and NaN; None leaves them out.
        clip: `nt.private_range()` has narrower bounds chosen privately within these.

    Returns:
        The statistic.

    Raises:
        QueryError: One bound is given without the other.

    >>> print(mean("age", 0, 120))
    mean(age)
    """
    return Mean(column, *chosen_grid(column, low, high, step, fill), clip)


of_columns("SUM", "sum", Sum, "x")
of_columns("AVG", "mean", Mean, "x")


@function(AVG_OR_0)
def _of_all_rows(call: Call) -> Named | None:
    """SUM(x) / COUNT(*)."""
    return (f"mean_{call.columns[0]}_or_0", mean(*call.columns, fill=0)) if len(call.columns) == 1 else None
