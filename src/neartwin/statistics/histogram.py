"""Histograms: the number of a column's values in each of given bins."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import inf, isfinite
from typing import Any

from sqlglot import exp

from neartwin.checks import several
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import Number, rational
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.statistics.base import Context, Estimate, ExpectedError, NoisyNumbers, Statistic, cells_of, constructor
from neartwin.statistics.columns import as_column
from neartwin.statistics.measures import Measurement
from neartwin.statistics.sql import Call, Named, function, is_value, spelling
from neartwin.tables.expressions import RowExpression
from neartwin.tables.ranges import Value, as_value, is_name
from neartwin.tables.table import Bounds, Table
from neartwin.tables.terms import Term, as_kind, check_term
from neartwin.tables.types import NUMERIC, ColumnType, number_column

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
