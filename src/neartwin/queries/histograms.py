"""Histograms: how many values of a column lie in each of given bins."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from neartwin.checks import several
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import Number, rational
from neartwin.tables.expressions import RowExpression
from neartwin.tables.terms import Term, as_kind, check_bins, check_term
from neartwin.tables.types import NUMERIC, ColumnType

MOST_BINS = 1000

COUNTS = "count"  # the statistic of a histogram's release; the bins stand under its own name


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of a column's values by bin. edges: increasing; a bin holds its lower edge, and the last one its upper edge too."""

    column: str
    edges: tuple[Fraction, ...]

    def __str__(self) -> str:
        return self.record

    @property
    def record(self) -> str:
        """Its name in digests, for ever."""
        return f"histogram({self.column}, {', '.join(_short(edge) for edge in self.edges)})"

    def keywords(self) -> dict[str, object]:
        """What `histogram` is called with to make it, as text."""
        return {"column": self.column, "edges": [str(edge) for edge in self.edges]}

    @property
    def labels(self) -> tuple[str, ...]:
        """The bins in words, as keys of a release.

        >>> histogram("age", [0, 18, 65]).labels
        ('[0, 18)', '[18, 65]')
        """
        words = [f"[{_short(low)}, {_short(high)})" for low, high in pairwise(self.edges)]
        return (*words[:-1], f"{words[-1][:-1]}]")

    def bin_of(self, of: RowExpression) -> RowExpression:
        """The number of the bin of a value, 0 and up; NULL for what lies in none.

        Numbers are compared as doubles, an edge as the double nearest to it. The term is made and not read from text, which
        would take longer than many an answer. `QueryError` for a value that is no number.

        >>> age = RowExpression.parse("age", {"age": ColumnType.NUMBER})
        >>> histogram("age", [0, 18, 65]).bin_of(age).text
        'CASE WHEN age >= 0.0 AND age <= 65.0 THEN CASE WHEN age < 18.0 THEN 0 ELSE 1 END END'
        """
        if of.type not in NUMERIC:
            raise QueryError(f"histogram of {of.text!r}: it is {of.type}, and a number is wanted")
        search = _Search(as_kind(of.term, ColumnType.NUMBER), of.text, tuple(map(float, self.edges)))
        ends = (search.compared(">=", 0), search.compared("<=", -1))
        inside, (found, text) = Term("and", ColumnType.BOOLEAN, ends), search.between(0, len(self.edges) - 1)
        term = Term("case", ColumnType.INTEGER, (inside, found, Term("literal", ColumnType.INTEGER)))
        check_bins(term, of.text, len(self.edges) - 1)
        check_term(term)
        low, high = search.edges[0], search.edges[-1]
        said = f"CASE WHEN {of.text} >= {low!r} AND {of.text} <= {high!r} THEN {text} END"
        return RowExpression(said, ColumnType.INTEGER, term)


@dataclass(frozen=True, slots=True)
class _Search:
    """Of the bin of a value, by halves: engines try one branch after the other, row by row."""

    value: Term
    text: str
    edges: tuple[float, ...]

    def compared(self, how: str, place: int) -> Term:
        """The value with an edge."""
        literal = Term("literal", ColumnType.NUMBER, value=self.edges[place])
        return Term(how, ColumnType.BOOLEAN, (self.value, literal))

    def between(self, first: int, end: int) -> tuple[Term, str]:
        """The bin of a value that lies in one of [first, end), as a term and as text."""
        if end - first == 1:
            return Term("literal", ColumnType.INTEGER, value=first), str(first)
        middle = (first + end) // 2
        (low, below), (high, above) = self.between(first, middle), self.between(middle, end)
        said = f"CASE WHEN {self.text} < {self.edges[middle]!r} THEN {below} ELSE {above} END"
        return Term("case", ColumnType.INTEGER, (self.compared("<", middle), low, high)), said


def _short(edge: Fraction) -> str:
    """As the nearest double is written, whole numbers without a point: other edges, another text."""
    return str(edge.numerator) if edge.denominator == 1 else repr(float(edge))


def histogram(column: str, edges: Sequence[Number]) -> Histogram:
    """Count a column's values by bin; the bins must come from public knowledge.

    edges: at least two, increasing, of at most about 600 bins of a column, and fewer of a long expression. Values outside all
    bins, NULL and NaN are left out. A unit counts for at most rows_per_group values in all bins of a group together. The release
    has one row for each group and bin, empty ones included.

    >>> print(histogram("age", [0, 18, 65, 120]))
    histogram(age, 0, 18, 65, 120)
    >>> histogram("age", [0, 0])
    Traceback (most recent call last):
    neartwin.errors.ParameterError: edges=[0.0, 0.0] must increase
    """
    given: tuple[Any, ...] = several(edges=edges)
    exact = tuple(rational(edge=edge) for edge in given)
    told = [float(edge) for edge in exact[:20]]
    if not 2 <= len(exact) <= MOST_BINS + 1:
        raise ParameterError("edges", told, f"must hold 2 to {MOST_BINS + 1} numbers")
    if any(float(low) >= float(high) for low, high in pairwise(exact)):
        raise ParameterError("edges", told, "must increase")
    return Histogram(column, exact)
