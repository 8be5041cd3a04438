"""Counts of rows, of values, and of distinct units."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, inf, isfinite
from typing import Any

import numpy as np
from sqlglot import exp

from neartwin.checks import several
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import Number, rational
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.mechanisms.noise_laws import half_widths_of_sums
from neartwin.statistics import sensitivity
from neartwin.statistics.base import Context, Estimate, ExpectedError, NoisyNumbers, Statistic, cells_of, constructor
from neartwin.statistics.columns import as_column
from neartwin.statistics.measures import Measurement
from neartwin.statistics.sql import Call, Named, function, is_value, spelling
from neartwin.tables.expressions import RowExpression
from neartwin.tables.grid import GridColumn
from neartwin.tables.ranges import Value, as_value, is_name
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
        if self.column == table.unit:
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
