"""Counts of rows, values and distinct units, sums and means of values clipped to public bounds, and shares of a condition.

**A share** is read from a count of true rows and a count of false ones.
A row is in at most one of the two counts, so each gets noise as if it were asked alone. A mean of 0 and 1 would pay for its
total and its number of values apart. Let T rows be true and F false, m = T / (T + F), and X and Y the noises of T' and F'. Then
T' - m (T' + F') = (1 - m) X - m Y, whatever T and F are. So the bar is that of a mean, with thresholds for this noise.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, inf, isfinite, lcm
from typing import Any, Self

import numpy as np
from sqlglot import exp

from neartwin.checks import several
from neartwin.error_bars.sums_means import TotalAndNumber
from neartwin.errors import ParameterError, QueryError, SchemaError
from neartwin.exact import Number, rational
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.mechanisms.noise_laws import half_widths_of_sums
from neartwin.statistics import base, sensitivity
from neartwin.statistics.base import Context, Estimate, ExpectedError, NoisyNumbers, Statistic, cells_of, constructor
from neartwin.statistics.clipping import PrivateRange
from neartwin.statistics.columns import Choice, OneColumn, as_column, centred, chosen_grid
from neartwin.statistics.measures import Measurement, largest
from neartwin.statistics.sql import Call, Named, function, is_value, of_columns, spelling
from neartwin.tables.expressions import RowExpression
from neartwin.tables.grid import GridColumn
from neartwin.tables.ranges import ANY, Range, Value, as_value, is_name, never_null, possible_values, range_of
from neartwin.tables.table import Bounds, Table
from neartwin.tables.terms import Term, as_kind, check_term
from neartwin.tables.types import GROUPABLE, NUMERIC, ColumnType, number_column

_ONE = Bounds(Fraction(0), Fraction(1), Fraction(1))


class _Counted(Statistic):
    """Read from one count, with one bar for every group."""

    __slots__ = ()
    only_lowered = True
    holds_lost = True

    def estimate(self, name: str, noisy: NoisyNumbers, context: Context, confidence: float) -> list[Estimate]:
        """Whole numbers, or parts of them."""
        terms = context.whole(self.main_measure(context))
        parts, bar = context.measures[terms[0]].parts, _bar(terms, context, confidence)
        values = np.add.reduce([noisy.sums[term] for term in terms]).tolist()
        lost = (context.lost_groups if self.counts_units else context.lost) * parts
        ends = [[value + move for value in values] for move in (0, -bar, bar + lost)]
        return [Estimate(name, *(ends if parts == 1 else [[value / parts for value in end] for end in ends]))]

    def expected(self, name: str, context: Context, confidence: float) -> list[ExpectedError]:
        """The bar of the count."""
        terms = context.whole(self.main_measure(context))
        width = Fraction(_bar(terms, context, confidence), context.measures[terms[0]].parts)
        return [ExpectedError.everywhere(name, width, confidence)]


def _bar(terms: tuple[str, ...], context: Context, confidence: float) -> int:
    """The bar of a count, or of the sum of two with noise alike, in parts."""
    mechanism = context.measures[terms[0]].mechanism
    if len(terms) == 1:
        return mechanism.half_width(confidence)
    weights = np.ones((len(terms), 1))
    return ceil(float(half_widths_of_sums([mechanism.law] * len(terms), weights, confidence)[0]))


@dataclass(frozen=True, slots=True)
class Count(_Counted):
    """The number of rows; with a column or expression, of rows in which it is not NULL.

    Attributes:
        column: A column or a SQL expression, or None.
    """

    column: str | None = None
    verb = "count"
    adds_rows = True
    is_linear = True

    def check(self, table: Table) -> None:
        """Refuse an expression that the table has not."""
        _present(table, self.column)

    def measurements(self, context: Context, weight: float, power: float) -> Iterator[Measurement]:
        """The count alone."""
        yield context.counted(self.main_measure(context), weight, *_present(context.table, self.column))

    def main_measure(self, context: Context) -> str:
        """The number of rows, or of values."""
        return next(map(context.number, _present(context.table, self.column)), context.rows)


def _present(table: Table, column: str | None) -> tuple[GridColumn, ...]:
    """1 in the rows that a count with a column counts, NULL in others; none for a count of all rows."""
    if column is None:
        return ()
    text = as_value(table, column)
    name = f"count({column})"  # the name of a measure, so it is in digests
    return (as_column(Value(name, _ONE, table.expression(f"CASE WHEN {text} IS NOT NULL THEN 1 END"))),)


@dataclass(frozen=True, slots=True)
class CountDistinctUnits(_Counted):
    """The number of distinct units; with a column or expression, of those that have a row in which it is not NULL.

    Attributes:
        column: A column or a SQL expression, or None.
    """

    column: str | None = None
    verb = "count_distinct_units"
    counts_units = True

    def __str__(self) -> str:
        return f"count_distinct_units({self.column or ''})"

    @property
    def record(self) -> str:
        """Its word in digests."""
        return f"count_units({self.column or ''})"

    def check(self, table: Table) -> None:
        """Every table has units. Refuse an expression that the table has not."""
        _present(table, self.column)

    def measurements(self, context: Context, weight: float, power: float) -> Iterator[Measurement]:
        """The count alone. With a column a unit counts in some of the groups that it is in, so it moves no more."""
        grid = _present(context.table, self.column)
        yield replace(context.units(weight), name=self.main_measure(context), grid=grid)

    def main_measure(self, context: Context) -> str:
        """The number of units."""
        return next((f"units:{one.name}" for one in _present(context.table, self.column)), "units")


@dataclass(frozen=True, slots=True)
class CountDistinct(_Counted):
    """The number of distinct values of a column or expression, each through one of the units that have it.

    Attributes:
        column: The column or expression.
    """

    column: str
    verb = "count_distinct"
    counts_values = True
    has_bar = False

    def check(self, table: Table) -> None:
        """Refuse a column that the table lacks, of another type, or of units."""
        self._values(table)

    def _values(self, table: Table) -> GridColumn:
        """The column whose hashed values are told apart."""
        if self.column == table.unit and table.period is None:
            raise QueryError(f"{self}: {self.column!r} is the unit; write nt.count_distinct_units()")
        of = table.expression(as_value(table, self.column))
        if of.type not in GROUPABLE:
            whole = "DATE" if of.type is ColumnType.TIMESTAMP else "BIGINT"
            raise QueryError(f"{self} is not of a {of.type}; write CAST({self.column} AS {whole})")
        return GridColumn(self.record, self.column, _ONE, 0, None, of)

    def measurements(self, context: Context, weight: float, power: float) -> Iterator[Measurement]:
        """The number of values that units can be matched to."""
        if context.reach.groups is None:
            raise QueryError(f"{self} is of groups with public keys: give them with keys=, or leave the groups out")
        reach, column = context.reach.of_values, self._values(context.table)
        change = sensitivity.of_count(context.table.neighbours, reach)
        yield Measurement(self.main_measure(context), change, weight, (column,), tree=CountTree(1, 2), by_unit=True)

    def main_measure(self, context: Context) -> str:
        """The number of values."""
        return cells_of(self._values(context.table))

    def estimate(self, name: str, noisy: NoisyNumbers, context: Context, confidence: float) -> list[Estimate]:
        """Whole numbers. Bars are open above where no number of lost rows bounds the lost values, else as (V8) says."""
        (found,) = _Counted.estimate(self, name, noisy, context, confidence)
        if isfinite(context.lost) and isfinite(context.lost_each):
            reach, bar = context.reach.of_values, _bar((self.main_measure(context),), context, confidence)
            full, tops = reach.rows_per_unit or reach.rows_per_group, [value + bar for value in found.values]
            upper = [top + min(context.lost, max(top, 0) // full * context.lost_each) for top in tops]
            found = replace(found, upper=upper)
        unbounded = context.reach.norm is not None or context.reach.values is not None
        return [replace(found, upper=[None] * len(found.values)) if unbounded else found]


@constructor
def count(column: str | None = None) -> Count:
    """Count rows.

    NaN is no NULL, so it is counted; the number of values behind a mean leaves it out.

    Args:
        column: A column or SQL expression. Then only rows in which it is not NULL count, as COUNT(column) counts them
            in SQL.

    Returns:
        The statistic.

    >>> print(count(), count("amount"))
    count() count(amount)
    """
    if column is not None and not isinstance(column, str):
        raise QueryError(f"count({column!r}) takes the name of a column, an expression, or nothing")
    return Count(column or None)


@constructor
def count_distinct_units(column: str | None = None) -> CountDistinctUnits:
    """Count distinct units. Each counts once in a group, whatever its number of rows.

    Args:
        column: A column or SQL expression. Then only units with a row in which it is not NULL count.

    Returns:
        The statistic.

    >>> print(count_distinct_units(), count_distinct_units("CASE WHEN paid > 10 THEN 1 END"))
    count_distinct_units() count_distinct_units(CASE WHEN paid > 10 THEN 1 END)
    """
    return CountDistinctUnits(column or None)


@constructor
def count_distinct(column: str) -> CountDistinct:
    """Count the distinct values of a column that is not the unit, in groups with public keys or in all rows.

    A unit stands for at most as many values as its limits allow rows. Each value counts through one unit that has it, so
    that values of many units are hardly ever lost. NULL is no value.

    Args:
        column: A column of texts, whole numbers, dates or booleans, or a SQL expression.

    Returns:
        The statistic.

    >>> print(count_distinct("diagnosis"))
    count_distinct(diagnosis)
    """
    return CountDistinct(column)


@function("COUNT", spelled="COUNT(*), COUNT(x), COUNT(DISTINCT {unit}), COUNT(DISTINCT x)")
def _count(call: Call) -> Named | None:
    match call.arguments:
        case (exp.Star() | exp.Literal(),):
            return "count", Count()
        case (exp.Distinct(expressions=[exp.Column(this=column, table="")]),) if column.name in call.units:
            return "units", CountDistinctUnits()
        case (exp.Distinct(expressions=[one]),) if _of_unit(one.unnest(), call.units):
            return f"distinct_{spelling(one)}", CountDistinctUnits(spelling(one))
        case (exp.Distinct(expressions=[one]),) if is_value(one):
            return f"distinct_{spelling(one)}", CountDistinct(spelling(one))
    columns = call.columns
    return (f"count_{columns[0]}", Count(columns[0])) if len(columns) == 1 else None


def _of_unit(node: exp.Expr, units: Collection[object]) -> bool:
    """Whether it is a choice of the unit or NULL."""
    branches = [*node.args.get("ifs", ()), node] if isinstance(node, exp.Case | exp.If) else []
    values = [one.args[end].unnest() for one in branches for end in ("true", "false", "default") if one.args.get(end)]
    known = (isinstance(one, exp.Null) or (isinstance(one, exp.Column) and one.name in units) for one in values)
    return bool(values) and all(known)


MOST_BINS = 1000

COUNTS = "count"  # the statistic of a histogram's release; the bins have the histogram's name


@dataclass(frozen=True, slots=True)
class Histogram(Statistic):
    """Counts of a column's values by bin.

    Attributes:
        column: The column or expression.
        edges: Increasing. A bin holds its lower edge, and the last one its upper edge too.
    """

    column: str
    edges: tuple[Fraction, ...]
    verb = "histogram"
    holds_lost = True
    only_lowered = True

    @property
    def record(self) -> str:
        """Its permanent word in digests."""
        return f"histogram({self.column}, {', '.join(_short(edge) for edge in self.edges)})"

    @property
    def bins(self) -> tuple[str, ...]:
        """The bins in words, as keys of a release.

        >>> histogram("age", [0, 18, 65]).bins
        ('[0, 18)', '[18, 65]')
        """
        words = [f"[{_short(low)}, {_short(high)})" for low, high in pairwise(self.edges)]
        return (*words[:-1], f"{words[-1][:-1]}]")

    def labels(self, name: str) -> tuple[str, ...]:
        """The column of counts; the column of bins has the statistic's own name."""
        return (COUNTS,)

    def released(self, name: str, table: Table) -> dict[str, ColumnType]:
        """The bins and their counts."""
        return {name: ColumnType.TEXT, COUNTS: ColumnType.NUMBER}

    def value(self, table: Table) -> Value:
        """The number of the bin, computed from the column or expression that the histogram is of."""
        if self.column not in table.computed and is_name(table, self.column):
            number_column(self.column, table.schema, "histogram")
        bins = Bounds(Fraction(0), Fraction(len(self.edges) - 2), Fraction(1))
        return Value(self.record, bins, self.bin_of(table.expression(as_value(table, self.column))))

    def check(self, table: Table) -> None:
        """Refuse what is no number, or too many bins."""
        self.value(table)

    def measurements(self, context: Context, weight: float, power: float) -> Iterator[Measurement]:
        """One count for each bin."""
        bins = len(self.edges) - 1
        yield context.by_cell(as_column(self.value(context.table)), CountTree(bins, max(2, bins)), weight)

    def main_measure(self, context: Context) -> str:
        """The counts of bins."""
        return cells_of(as_column(self.value(context.table)))

    def estimate(self, name: str, noisy: NoisyNumbers, context: Context, confidence: float) -> list[Estimate]:
        """One count for each group and bin, group by group.

        The counts are the nearest whole numbers; the ends of bars are rounded outward.
        """
        measure = context.measures[self.main_measure(context)]
        (leaves,) = noisy.trees[measure.name]
        values, bar, parts = leaves.ravel().tolist(), measure.mechanism.half_width(confidence), measure.parts
        nearest = [(2 * value + parts) // (2 * parts) for value in values]
        most = bar + (context.lost if isfinite(context.lost) else 0) * parts
        lower, upper = [(value - bar) // parts for value in values], [-((-value - most) // parts) for value in values]
        upper = upper if isfinite(context.lost) else [inf] * len(upper)
        return [Estimate(COUNTS, nearest, lower, upper)]

    def expected(self, name: str, context: Context, confidence: float) -> list[ExpectedError]:
        """The bar of a bin's count."""
        width = context.measures[self.main_measure(context)].half_width(confidence)
        return [ExpectedError.everywhere(name, width, confidence)]

    def bin_of(self, of: RowExpression) -> RowExpression:
        """The number of the bin of a value, 0 and up; NULL for a value in none.

        Numbers are compared as doubles, an edge as the double nearest to it. The term is built directly, since reading it from
        text takes longer than the query itself.

        Args:
            of: The value.

        Raises:
            QueryError: The value is no number.

        >>> x = RowExpression.parse("x", {"x": ColumnType.NUMBER})
        >>> print(histogram("x", [0, 1]).bin_of(x).term.parts[0])
        (and:boolean (>=:boolean (column:number 'x') (literal:number 0.0)) (<=:boolean (column:number 'x') (literal:number 1.0)))
        """
        if of.type not in NUMERIC:
            raise QueryError(f"histogram of {of.text!r}: it is {of.type}, and must be a number")
        value, edges = as_kind(of.term, ColumnType.NUMBER), tuple(map(float, self.edges))
        ends = _compared(value, ">=", edges[0]), _compared(value, "<=", edges[-1])
        inside, bins = Term("and", ColumnType.BOOLEAN, ends), _bin(value, edges, 0, len(edges) - 1)
        term = Term("case", ColumnType.INTEGER, (inside, bins, Term("literal", ColumnType.INTEGER)))
        check_term(term)
        return RowExpression(self.record, ColumnType.INTEGER, term)


def _compared(value: Term, how: str, edge: float) -> Term:
    return Term(how, ColumnType.BOOLEAN, (value, Term("literal", ColumnType.NUMBER, value=edge)))


def _bin(value: Term, edges: Sequence[float], first: int, end: int) -> Term:
    """The bin of a value in one of [first, end), found by halves: engines try one branch after the other, row by row."""
    if end - first == 1:
        return Term("literal", ColumnType.INTEGER, value=first)
    middle = (first + end) // 2
    halves = _bin(value, edges, first, middle), _bin(value, edges, middle, end)
    return Term("case", ColumnType.INTEGER, (_compared(value, "<", edges[middle]), *halves))


def _short(edge: Fraction) -> str:
    """As the nearest double is written, whole numbers without a point: other edges, another text."""
    return str(edge.numerator) if edge.denominator == 1 else repr(float(edge))


@constructor
def histogram(column: str, edges: Sequence[Number]) -> Histogram:
    """Counts of a column's values by bin. The bins must come from public knowledge.

    Values outside all bins, NULL and NaN are left out. A unit counts for at most max_rows_per_group values in all bins
    of a group together. The release has one row for each group and bin, empty ones included.

    Args:
        column: A column or a SQL expression.
        edges: At least two numbers in ascending order: at most about 600 bins of a column, and fewer of a long
            expression.

    Returns:
        The statistic.

    Raises:
        ParameterError: The edges are not such numbers.

    >>> print(histogram("age", [0, 18, 65, 120]))
    histogram(age, 0, 18, 65, 120)
    >>> histogram("age", [0, 0])
    Traceback (most recent call last):
    neartwin.errors.ParameterError: edges=[0.0, 0.0] must increase
    """
    ends: tuple[Any, ...] = several(edges=edges)
    exact = tuple(rational(edge=edge) for edge in ends)
    shown = [float(edge) for edge in exact[:20]]
    if not 2 <= len(exact) <= MOST_BINS + 1:
        raise ParameterError("edges", shown, f"must hold 2 to {MOST_BINS + 1} numbers")
    if any(float(low) >= float(high) for low, high in pairwise(exact)):
        raise ParameterError("edges", shown, "must increase")
    return Histogram(column, exact)


@function("HISTOGRAM", spelled="HISTOGRAM(x, [0, 10, 20])")
def _histogram(call: Call) -> Named | None:
    match call.arguments:
        case (value, exp.Array(expressions=edges)) if is_value(value):
            bare = [edge.this if isinstance(edge, exp.Neg) else edge for edge in edges]
            if all(isinstance(edge, exp.Literal) and not edge.is_string for edge in bare):
                return f"histogram_{spelling(value)}", histogram(spelling(value), [edge.sql() for edge in edges])
    return None


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
        return replace(self, bounds=bounds, step=None)


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
        more = context.clipped * largest(column) * parts
        width = ceil(half_width * parts) + (ceil(more) if more < inf else inf)
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
