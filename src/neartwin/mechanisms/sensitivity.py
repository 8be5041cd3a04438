"""How much one person can change an answer: exact for counts, histograms and linear queries, brute force for the rest.

Sensitivity is the largest distance, in a named norm, between the answers on two neighbouring data sets. Which data sets are
neighbours is always named. All results are exact rationals; an L2 norm that is irrational is rounded up.
Dwork and Roth 2014, Definitions 2.3 and 3.1.

How much one unit can change a vector of whole numbers: all the bounds that follow from the bounds that are known.

For an integer vector v that differs from zero in c coordinates: |v|_inf <= |v|_1 <= |v|_2^2, c <= |v|_1,
|v|_1 <= c |v|_inf, |v|_1^2 <= c |v|_2^2, |v|_2^2 <= |v|_inf |v|_1. Each bound that is left out follows from the others;
each that is given may be sharpened by them. Laplace-like noise asks for `l1`, Gaussian noise for `l2_squared`.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import combinations_with_replacement
from math import ceil, floor, isqrt
from typing import TypeVar

from neartwin.checks import integer, non_negative, positive
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational, root_above
from neartwin.mechanisms.neighbours import Neighbours


@dataclass(frozen=True, slots=True, init=False)
class Change:
    """Bounds on an integer vector: absolute sum, squared length, largest entry, entries that differ from zero.

    Give l1, or l2_squared, or linf with cells; any further bound sharpens. Whole numbers, in grid steps.

    >>> Change(linf=20, cells=3)
    Change(l1=60, l2_squared=1200, linf=20, cells=3)
    >>> Change(l1=5).l2_squared, Change(l2_squared=100, cells=4).l1
    (25, 20)
    """

    l1: int
    l2_squared: int
    linf: int
    cells: int

    def __init__(
        self, *, l1: int | None = None, l2_squared: int | None = None, linf: int | None = None, cells: int | None = None
    ) -> None:
        """All bounds are at least 1: what nobody can change needs no noise."""
        known = {"l1": l1, "l2_squared": l2_squared, "linf": linf, "cells": cells}
        for name, value in known.items():
            if value is not None:
                integer(at_least=1, **{name: value})
        if l1 is None and l2_squared is None and (linf is None or cells is None):
            raise ParameterError("l1", l1, "must be given", remedy="or l2_squared, or linf together with cells")
        if l1 is None:
            options = [] if l2_squared is None else [l2_squared]
            if cells is not None:
                options += [] if l2_squared is None else [isqrt(cells * l2_squared)]
                options += [] if linf is None else [cells * linf]
            l1 = min(options)
        one, square, most, count = l1, l2_squared or l1 * l1, linf or l1, cells or l1
        while True:
            before = (one, square, most, count)
            most = min(most, one, isqrt(square))
            count = min(count, one, square)
            one = min(one, square, count * most, isqrt(count * square))
            square = min(square, most * one)
            if before == (one, square, most, count):
                break
        for name, value in zip(("l1", "l2_squared", "linf", "cells"), before, strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def of_rounded(
        cls, *, step: Number, cells: int, l1: Number | None = None, l2: Number | None = None, linf: Number | None = None
    ) -> "Change":
        """Of a real vector that is rounded half up to multiples of `step`, in steps.

        l1, l2, linf: bounds before rounding, of a real change in at most `cells` coordinates. Rounding half up commutes
        with shifts by a step, so one coordinate moves by at most ceil(|v_i| / step): see docs/mechanisms/grid.md.

        >>> Change.of_rounded(step="1/2", linf=1, cells=1).l1, Change.of_rounded(step=1, l1="0.3", cells=4).l1
        (2, 4)
        """
        g, k = positive(step=rational(step=step)), integer(at_least=1, cells=cells)
        bounds: dict[str, int] = {"cells": k}
        if l1 is not None:
            bounds["l1"] = ceil(non_negative(l1=rational(l1=l1)) / g) + k - 1
        if linf is not None:
            bounds["linf"] = max(1, ceil(non_negative(linf=rational(linf=linf)) / g))
        if l2 is not None:
            length = non_negative(l2=rational(l2=l2)) / g
            bounds["l2_squared"] = max(1, floor(length**2 + k + root_above(4 * k * length**2)))
        for name in ("l1", "linf", "l2_squared"):
            if name in bounds:
                bounds[name] = max(1, bounds[name])
        return cls(**bounds)


Record = TypeVar("Record", bound=Hashable)


class Norm(Enum):
    """The norm of a difference of answers."""

    L1 = "sum of absolute values"
    L2 = "root of the sum of squares"
    LINF = "largest absolute value"


def length(vector: Sequence[Fraction], norm: Norm) -> Fraction:
    """The norm of a vector of rationals, exact; an irrational L2 norm rounded up in the 19th place.

    >>> length([Fraction(3), Fraction(-4)], Norm.L2)
    Fraction(5, 1)
    """
    match norm:
        case Norm.L1:
            return sum((abs(x) for x in vector), Fraction(0))
        case Norm.LINF:
            return max((abs(x) for x in vector), default=Fraction(0))
        case Norm.L2:
            return root_above(sum((x * x for x in vector), Fraction(0)))


def count_sensitivity(queries: int = 1, *, norm: Norm = Norm.L1) -> Fraction:
    """Of m counting queries asked together, none of them known to exclude another: m in L1, under every neighbours.

    One person may be in every count, also when replaced. (Example 3.1; a text that bounds k such queries by 1 is
    wrong: one person may change all of them.)

    >>> count_sensitivity(7), count_sensitivity(4, norm=Norm.L2)
    (Fraction(7, 1), Fraction(2, 1))
    """
    return length([Fraction(1)] * integer(at_least=1, queries=queries), norm)


def histogram_sensitivity(neighbours: Neighbours, *, norm: Norm = Norm.L1) -> Fraction:
    """Of the counts of disjoint, data-independent bins: 1 in L1 under add/remove, 2 under replace-one.

    >>> histogram_sensitivity(Neighbours.ADD_REMOVE), histogram_sensitivity(Neighbours.REPLACE_ONE)
    (Fraction(1, 1), Fraction(2, 1))
    """
    changed = 2 if neighbours is Neighbours.REPLACE_ONE else 1
    return length([Fraction(1)] * changed, norm)


def linear_sensitivity(
    weights: Sequence[Sequence[Number]], neighbours: Neighbours, *, norm: Norm = Norm.L1, records: int = 1
) -> Fraction:
    """Of queries that are linear in the histogram: f(x)_i = sum_c weights[i][c] x_c / records.

    weights: one row a query, one column a kind of record. Add/remove: the longest column; replace-one: the longest
    difference of two columns. records: the *public* number n of records of a fractional query, which only replace-one
    keeps; under add/remove n itself is private, and a mean has no such bound.

    >>> linear_sensitivity([[0, 1]], Neighbours.REPLACE_ONE, records=50)
    Fraction(1, 50)
    """
    n = integer(at_least=1, records=records)
    if n > 1 and neighbours is Neighbours.ADD_REMOVE:
        raise ParameterError(
            "records", records, "is private under add/remove", remedy="release the sum and the count instead"
        )
    rows = [[rational(weight=w) for w in row] for row in weights]
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise ParameterError("weights", weights, "must be a rectangle with at least one query and one kind of record")
    columns = list(zip(*rows, strict=True))
    if neighbours is Neighbours.REPLACE_ONE:
        changes = [[a - b for a, b in zip(x, y, strict=True)] for i, x in enumerate(columns) for y in columns[:i]]
    else:
        changes = [list(column) for column in columns]
    return max((length(change, norm) for change in changes), default=Fraction(0)) / n


def database_distance(one: Sequence[Record], two: Sequence[Record]) -> int:
    """The l1 distance of the two histograms: how many records must be removed and added. Definition 2.3.

    >>> database_distance(["a", "b"], ["b", "c"])
    2
    """
    first, second = Counter(one), Counter(two)
    return sum(abs(first[key] - second[key]) for key in {*first, *second})


def are_neighbours(one: Sequence[Record], two: Sequence[Record], neighbours: Neighbours) -> bool:
    """Whether two data sets are neighbours, as multisets of records; a data set is no neighbour of itself.

    >>> are_neighbours(["a", "b"], ["a", "c"], Neighbours.REPLACE_ONE)
    True
    """
    distance = database_distance(one, two)
    match neighbours:
        case Neighbours.ADD_REMOVE:
            return distance == 1
        case Neighbours.REPLACE_ONE:
            return len(one) == len(two) and distance == 2


def brute_force_sensitivity(
    query: Callable[[tuple[Record, ...]], Sequence[Number]],
    domain: Sequence[Record],
    *,
    size: int,
    neighbours: Neighbours,
    norm: Norm = Norm.L1,
) -> Fraction:
    """The largest change over *all* pairs of neighbours with up to `size` records: an oracle for finite domains.

    query: a function of the multiset of records, given as a tuple in no order. Exponential in size.

    >>> brute_force_sensitivity(lambda rows: [rows.count("a")], ["a", "b"], size=3, neighbours=Neighbours.ADD_REMOVE)
    Fraction(1, 1)
    """
    pairs = _neighbour_pairs(domain, integer(at_least=1, size=size), neighbours)
    largest = Fraction(0)
    for one, two in pairs:
        answers = [[rational(answer=a) for a in query(rows)] for rows in (one, two)]
        change = [a - b for a, b in zip(*answers, strict=True)]
        largest = max(largest, length(change, norm))
    return largest


def _neighbour_pairs(
    domain: Sequence[Record], size: int, neighbours: Neighbours
) -> Iterator[tuple[tuple[Record, ...], tuple[Record, ...]]]:
    for rest in range(size):
        for kept in combinations_with_replacement(domain, rest):
            for index, record in enumerate(domain):
                with_one = (*kept, record)
                match neighbours:
                    case Neighbours.ADD_REMOVE:
                        yield with_one, kept
                    case Neighbours.REPLACE_ONE:
                        for other in domain[:index]:
                            yield with_one, (*kept, other)
