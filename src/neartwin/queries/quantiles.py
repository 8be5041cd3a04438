"""Statistics of order: quantiles, median, minimum and maximum of a column, on a grid of its public bounds."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor, gcd, lcm, log10
from typing import Literal

from neartwin.errors import ParameterError, QueryError
from neartwin.exact import Number, rational
from neartwin.tables.table import Bounds, both_ends
from neartwin.tables.table import bounds as as_bounds
from neartwin.tables.types import ColumnType

MOST_CELLS = 2**16  # of a grid: its counts are held for every group
_GOOD = 1000  # cells of a grid that nobody asked for
_FACTORS = (1, 2, 5)


@dataclass(frozen=True, slots=True)
class Quantile:
    """Quantiles of a column's values, each clipped to public bounds and rounded to a grid. ranks: increasing, in (0, 1)."""

    column: str
    ranks: tuple[Fraction, ...]
    bounds: Bounds | None
    fill: Fraction | None = None
    step: Fraction | None = None

    def __str__(self) -> str:
        if self.ranks == (Fraction(1, 2),):
            return f"median({self.column})"
        return f"quantile({self.column}, {', '.join(repr(float(rank)) for rank in self.ranks)})"

    def labels(self, name: str) -> tuple[str, ...]:
        """The names of what is released under a name, one for each rank.

        >>> quantile("amount", [0.25, 0.75], 0, 200).labels("paid")
        ('paid_p25', 'paid_p75')
        """
        if len(self.ranks) == 1:
            return (name,)
        return tuple(f"{name}_p{float(100 * rank):g}" for rank in self.ranks)

    def keywords(self) -> dict[str, object]:
        """What `quantile` is called with to make it, as text."""
        ranks = [str(rank) for rank in self.ranks]
        return {"rank": ranks[0] if len(ranks) == 1 else ranks} | _grid_keywords(self)


@dataclass(frozen=True, slots=True)
class MinMax:
    """How far a column's values certainly reach: `end` is "minimum" or "maximum"."""

    column: str
    end: Literal["minimum", "maximum"]
    bounds: Bounds | None
    fill: Fraction | None = None
    step: Fraction | None = None

    def __str__(self) -> str:
        return f"{self.end}({self.column})"

    def keywords(self) -> dict[str, object]:
        """What `minimum` or `maximum` is called with to make it, as text."""
        return _grid_keywords(self)


def _grid_keywords(asked: Quantile | MinMax) -> dict[str, object]:
    given = {"low": asked.bounds.low, "high": asked.bounds.high} if asked.bounds is not None else {}
    more = {"step": asked.step, "fill": asked.fill}
    told: dict[str, object] = {name: str(value) for name, value in (given | more).items() if value is not None}
    return {"column": asked.column} | told


def quantile(
    column: str,
    rank: Number | list[Number] | tuple[Number, ...],
    low: Number | None = None,
    high: Number | None = None,
    step: Number | None = None,
    *,
    fill: Number | None = None,
) -> Quantile:
    """One quantile, or several from the same noisy counts: no more noise, and never out of order.

    rank: strictly between 0 and 1, or a list of them. low, high: public bounds, or those that the table declares. step: of the
    grid that answers lie on; by default about a thousand points. fill: what NULL and NaN stand for; without it they are left
    out. A unit with more than rows_per_group values in a group counts for that many, each of its values for an equal part.

    >>> print(quantile("amount", [0.25, 0.75], 0, 200))
    quantile(amount, 0.25, 0.75)
    >>> quantile("amount", 1, 0, 200)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: rank=1 must lie strictly between 0 and 1; minimum() and maximum() ...
    """
    ranks = tuple(rational(rank=each) for each in (rank if isinstance(rank, list | tuple) else [rank]))
    for each in ranks:
        if not 0 < each < 1:
            remedy = "minimum() and maximum() say how far values reach"
            raise ParameterError("rank", each, "must lie strictly between 0 and 1", remedy=remedy)
    if not ranks or any(a >= b for a, b in pairwise(ranks)):
        raise ParameterError("rank", [float(each) for each in ranks], "must increase, with at least one")
    found = Quantile(column, ranks, *_grid(column, low, high, step, fill))
    if len(set(found.labels(""))) < len(ranks):
        raise ParameterError(
            "rank", [float(each) for each in ranks], "must differ in six digits, by which answers are named"
        )
    return found


def median(
    column: str,
    low: Number | None = None,
    high: Number | None = None,
    step: Number | None = None,
    *,
    fill: Number | None = None,
) -> Quantile:
    """The quantile of rank 1/2; arguments as those of `quantile`."""
    return quantile(column, Fraction(1, 2), low, high, step, fill=fill)


def minimum(
    column: str,
    low: Number | None = None,
    high: Number | None = None,
    step: Number | None = None,
    *,
    fill: Number | None = None,
) -> MinMax:
    """The least value that is certainly reached: some kept value is at most this, at the release's confidence.

    A true minimum is one unit's own value, so no private answer is close to it: as many rows as the noise hides may lie beyond
    what is returned, down to the public bound, and the interval says so. Arguments as those of `quantile`.
    """
    return MinMax(column, "minimum", *_grid(column, low, high, step, fill))


def maximum(
    column: str,
    low: Number | None = None,
    high: Number | None = None,
    step: Number | None = None,
    *,
    fill: Number | None = None,
) -> MinMax:
    """The largest value that is certainly reached: some kept value is at least this, at the release's confidence.

    As `minimum`, from above.
    """
    return MinMax(column, "maximum", *_grid(column, low, high, step, fill))


def grid_of(bounds: Bounds, kind: ColumnType, step: Fraction | None, *, given: bool) -> Bounds:
    """The grid of a quantile: the step asked for, the declared one where its grid is small, or one with about 1000 points.

    given: the bounds are the question's own, and the step in them nobody's choice. A step of its own divides both bounds: the
    finest of 1, 2 or 5 times a power of ten with at most 1000 cells, at least 1 for whole numbers; else a part of what they
    have in common.

    >>> str(grid_of(as_bounds(0, 200), ColumnType.NUMBER, None, given=True))
    '[0, 200] in steps of 0.2'
    >>> str(grid_of(as_bounds(0, 120), ColumnType.INTEGER, None, given=True))
    '[0, 120] in steps of 1'
    """
    if step is not None:
        found = as_bounds(bounds.low, bounds.high, step)
    elif not given and cells_of(bounds) <= 4 * _GOOD:
        found = bounds
    else:
        found = as_bounds(bounds.low, bounds.high, _step(bounds, whole=kind is ColumnType.INTEGER))
    if cells_of(found) > MOST_CELLS:
        raise QueryError(f"a grid of {cells_of(found):,} points is too fine for quantiles; give a larger step")
    return found


def cells_of(bounds: Bounds) -> int:
    """How many points a grid has."""
    return bounds.high_units - bounds.low_units + 1


def _step(bounds: Bounds, *, whole: bool) -> Fraction:
    span = bounds.high - bounds.low
    ends = (bounds.low, bounds.high)
    power = Fraction(10) ** floor(log10(span / _GOOD))
    options = [factor * ten * power for ten in (1, 10) for factor in _FACTORS]
    for step in [Fraction(1), *options] if whole else options:
        if all((end / step).denominator == 1 for end in ends) and span / step <= _GOOD and (step >= 1 or not whole):
            return step
    unit = Fraction(1, lcm(*(end.denominator for end in ends)))
    common = unit * gcd(*(int(end / unit) for end in ends))
    return common / max(1, int(_GOOD * common / span))


def _grid(
    column: str, low: Number | None, high: Number | None, step: Number | None, fill: Number | None
) -> tuple[Bounds | None, Fraction | None, Fraction | None]:
    """Bounds, fill and step, as far as they are given."""
    filled = None if fill is None else rational(fill=fill)
    chosen = None if step is None else rational(step=step)
    ends = both_ends(column, low, high)
    if ends is None:
        return None, filled, chosen
    common = chosen or Fraction(1, lcm(*(end.denominator for end in ends)))
    return as_bounds(*ends, common), filled, chosen
