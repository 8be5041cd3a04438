"""Bins of equal width as one division: engines take a branch of a CASE after the other, row by row, and a division once.

A histogram's bins are a term of comparisons, `CASE WHEN v >= e0 AND v <= en THEN (v by halves against e1, e2, ...) END`. Where
floor((v - e0) / w) is the bin of v for every v that there is, engines are asked for that instead.

That it is so is not a matter of rounding errors: subtraction of a number, division by a positive one and floor are monotone as
doubles are rounded, each of them and all together. So f(v) = i for all doubles v in [e_i, e_{i+1}) if f(e_i) = i and f is i
at the last double below e_{i+1}: two values a bin, which are looked at here. Of whole numbers, the first and last one in a bin.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp

from neartwin.engines.dialect import greatest, least, real
from neartwin.engines.grid import divided
from neartwin.queries.terms import Term
from neartwin.queries.types import ColumnType

_WHOLE = 2.0**53  # below it a whole number is a double


@dataclass(frozen=True, slots=True)
class Ladder:
    """The bins of a number: [e0, e1), [e1, e2), ..., the last one with both ends; nothing outside, of NULL or of NaN."""

    value: Term
    edges: tuple[float, ...]

    @property
    def width(self) -> float:
        """Of the first bin."""
        return self.edges[1] - self.edges[0]

    def is_even(self) -> bool:
        """Whether the lesser of floor((v - e0) / w) and the last bin is the bin of every v in them."""
        last = len(self.edges) - 2
        inside = [(i, self._first_from(edge)) for i, edge in enumerate(self.edges[:-1])]
        inside += [(i, self._last_below(edge)) for i, edge in enumerate(self.edges[1:-1])]
        steps = [(i, (v - self.edges[0]) / self.width) for i, v in inside]
        return math.isfinite(self.edges[-1] - self.edges[0]) and all(
            i <= step and (step < i + 1 or i == last) for i, step in steps
        )

    def _first_from(self, edge: float) -> float:
        return float(math.ceil(edge)) if self._of_whole(edge) else edge

    def _last_below(self, edge: float) -> float:
        return float(math.ceil(edge) - 1) if self._of_whole(edge) else math.nextafter(edge, -math.inf)

    def _of_whole(self, edge: float) -> bool:
        return self.value.operation == "double" and abs(edge) < _WHOLE

    def by_division(self, value: exp.Expr) -> exp.Expr:
        """The bin, a whole number. value: the SQL of the number, any at all: what is outside is brought in before."""
        low, high, last = self.edges[0], self.edges[-1], len(self.edges) - 2
        steps: exp.Expr = greatest(real(low), least(real(high), value))
        if low:
            steps = exp.Paren(this=exp.Sub(this=steps, expression=real(low)))
        if self.width != 1:
            steps = divided(steps, self.width)
        return exp.cast(least(exp.Floor(this=steps), real(float(last))), "BIGINT")


def ladder(case: Term) -> Ladder | None:
    """The bins that a CASE of this form is; None for any other.

    >>> from neartwin.queries.expression import RowExpression
    >>> text = "CASE WHEN x >= 0.0 AND x <= 2.0 THEN CASE WHEN x < 1.0 THEN 0 ELSE 1 END END"
    >>> ladder(RowExpression.parse(text, {"x": ColumnType.NUMBER}).term).edges
    (0.0, 1.0, 2.0)
    """
    if case.operation != "case" or len(case.parts) != 3 or not case.parts[2].is_null:
        return None
    inside, tree, _ = case.parts
    if inside.operation != "and" or [part.operation for part in inside.parts] != [">=", "<="]:
        return None
    (value, low), (same, high) = (part.parts for part in inside.parts)
    found = _thresholds(tree, value, 0) if value == same and value.kind is ColumnType.NUMBER else None
    edges = () if found is None else (low.value, *found, high.value)
    rising = all(isinstance(edge, float) for edge in edges) and all(a < b for a, b in pairwise(edges))  # type: ignore[operator] # floats
    return Ladder(value, edges) if edges and rising else None  # type: ignore[arg-type] # floats


def _thresholds(tree: Term, value: Term, first: int) -> tuple[object, ...] | None:
    """What a tree of v < e compares with, from left to right, if its leaves are the whole numbers from `first` on."""
    if tree.operation == "literal":
        return () if tree.value == first and tree.kind is ColumnType.INTEGER else None
    if tree.operation != "case" or len(tree.parts) != 3:
        return None
    below, left, right = tree.parts
    if below.operation != "<" or below.parts[0] != value:
        return None
    before = _thresholds(left, value, first)
    after = None if before is None else _thresholds(right, value, first + len(before) + 1)
    return None if before is None or after is None else (*before, below.parts[1].value, *after)
