"""Histograms: how many values of a column lie in each of given bins."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from neartwin.errors import ParameterError
from neartwin.exact import Number, rational

MOST_BINS = 1000


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of a column's values by bin. edges: increasing; a bin holds its lower edge, and the last one its upper edge too."""

    column: str
    edges: tuple[Fraction, ...]

    def __str__(self) -> str:
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

    def bin_of(self, value: str) -> str:
        """The number of the bin, 0 and up, as a row expression of `value`; NULL for what lies in none.

        Numbers are compared as doubles, an edge as the double nearest to it.
        """
        edges = [repr(float(edge)) for edge in self.edges]
        found = _search(value, edges, 0, len(edges) - 1)
        return f"CASE WHEN {value} >= {edges[0]} AND {value} <= {edges[-1]} THEN {found} END"


def _search(value: str, edges: Sequence[str], first: int, end: int) -> str:
    """The bin of a value that lies in one of [first, end), by halves: engines try one branch after the other, row by row."""
    if end - first == 1:
        return str(first)
    middle = (first + end) // 2
    below, above = _search(value, edges, first, middle), _search(value, edges, middle, end)
    return f"CASE WHEN {value} < {edges[middle]} THEN {below} ELSE {above} END"


def _short(edge: Fraction) -> str:
    """As the nearest double is written, whole numbers without a point: other edges, another text."""
    return str(edge.numerator) if edge.denominator == 1 else repr(float(edge))


def histogram(column: str, edges: Sequence[Number]) -> Histogram:
    """Count a column's values by bin; the bins must come from public knowledge.

    edges: at least two, increasing. Values outside all bins, NULL and NaN are left out. A unit counts for at most rows_per_group
    values in all bins of a group together. The release has one row for each group and bin, empty ones included.

    >>> print(histogram("age", [0, 18, 65, 120]))
    histogram(age, 0, 18, 65, 120)
    >>> histogram("age", [0, 0])
    Traceback (most recent call last):
    neartwin.errors.ParameterError: edges=[0.0, 0.0] must increase
    """
    exact = tuple(rational(edge=edge) for edge in edges)
    told = [float(edge) for edge in exact[:20]]
    if not 2 <= len(exact) <= MOST_BINS + 1:
        raise ParameterError("edges", told, f"must hold 2 to {MOST_BINS + 1} numbers")
    if any(float(low) >= float(high) for low, high in pairwise(exact)):
        raise ParameterError("edges", told, "must increase")
    return Histogram(column, exact)
