"""Counts of rows, of values, and of distinct units."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

import numpy as np
from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.mechanisms.noise_sums import half_widths_of_sums
from neartwin.statistics import sensitivity
from neartwin.statistics.base import Context, Estimate, ExpectedError, NoisyNumbers, Statistic, cells_of, constructor
from neartwin.statistics.columns import as_column
from neartwin.statistics.measures import Measurement
from neartwin.statistics.sql import Call, Named, function, is_value, spelling
from neartwin.tables.grid import GridColumn
from neartwin.tables.ranges import Value, as_value
from neartwin.tables.table import Bounds, Table
from neartwin.tables.types import GROUPABLE

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
            raise QueryError(f"{self} is not of a {of.type}; write CAST({self.column} AS BIGINT), or AS DATE for times")
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
        """Whole numbers. Bars are open above where no number of lost rows bounds the lost values."""
        (found,) = _Counted.estimate(self, name, noisy, context, confidence)
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
