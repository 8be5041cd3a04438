"""Variance, covariance, correlation and linear regression: questions about products of columns, and the sums they need.

A set of moments is of the rows in which all its columns have a value: their number, the sum of each column and of products of
two, all from the same kept rows, weighted down to C a unit, and all on grids around the middle of each column's bounds. A
product is counted around the middle of its own range, which halves its sensitivity. Statistics that need the same sums share
them, and their noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from neartwin.errors import QueryError
from neartwin.tables.grid import GridColumn, Moment
from neartwin.tables.ranges import Value, value_of
from neartwin.tables.table import Bounds, Table
from neartwin.tables.table import bounds as as_bounds

_MOST_STEPS = 50_000  # of a grid that nobody asked for: its squares have a noise that can be drawn
_LARGEST_GRID = 2**31  # products of two fit 62 bits


@dataclass(frozen=True, slots=True)
class Variance:
    """The variance of a column's values, sum (x - mean)^2 over their number."""

    column: str
    bounds: Bounds | None
    fill: Fraction | None = None
    step: Fraction | None = None

    def __str__(self) -> str:
        return f"variance({self.column})"


@dataclass(frozen=True, slots=True)
class Deviation:
    """The standard deviation: the root of the variance."""

    column: str
    bounds: Bounds | None
    fill: Fraction | None = None
    step: Fraction | None = None

    def __str__(self) -> str:
        return f"stddev({self.column})"


@dataclass(frozen=True, slots=True)
class Covariance:
    """The covariance of two columns over the rows in which both have a value."""

    x: str
    y: str

    def __str__(self) -> str:
        return f"covariance({self.x}, {self.y})"


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's correlation of two columns over the rows in which both have a value."""

    x: str
    y: str

    def __str__(self) -> str:
        return f"correlation({self.x}, {self.y})"


@dataclass(frozen=True, slots=True)
class Regression:
    """Least squares: target = intercept + slopes * features, over the rows in which all have a value."""

    target: str
    features: tuple[str, ...]

    def __str__(self) -> str:
        return f"regression({self.target}, [{', '.join(self.features)}])"


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One number of a regression: the slope of `feature`, one of the features; the intercept where it is empty."""

    target: str
    features: tuple[str, ...]
    feature: str

    def __str__(self) -> str:
        of = f"slope of {self.feature}" if self.feature else "intercept"
        return f"{of} in {Regression(self.target, self.features)}"


MomentStatistic = Variance | Deviation | Covariance | Correlation | Regression | Coefficient


@dataclass(frozen=True, slots=True)
class MomentSet:
    """Columns, in one order whatever asks for them, and the sums that are needed of them.

    operands: place of each column that the statistic names, in its order. pairs: places of the factors of products.
    """

    columns: tuple[GridColumn, ...]
    operands: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]

    def first(self, place: int) -> GridColumn | Moment:
        """What the sum of a column is of."""
        return self.columns[place] if len(self.columns) == 1 else _moment((self.columns[place],), self.columns)

    def second(self, place: int, other: int) -> Moment:
        """What the sum of a product is of."""
        low, high = sorted((place, other))
        return _moment((self.columns[low], self.columns[high]), self.columns)

    @property
    def sure(self) -> bool:
        """Whether every row has all values, because missing ones are filled."""
        return all(column.fill is not None for column in self.columns)

    @property
    def moments(self) -> Mapping[str, Moment]:
        """Those sums that are not of a grid column itself."""
        return {name: cell for name, cell in self.cells.items() if isinstance(cell, Moment)}

    @property
    def cells(self) -> Mapping[str, GridColumn | Moment]:
        """All that is summed, by name; the number of rows is that of any one."""
        found = [self.first(place) for place in range(len(self.columns))]
        return {cell.name: cell for cell in [*found, *(self.second(*pair) for pair in self.pairs)]}


def operands_of(statistic: MomentStatistic) -> tuple[str, ...]:
    """The columns and expressions that a statistic is about."""
    match statistic:
        case Variance() | Deviation():
            return (statistic.column,)
        case Covariance() | Correlation():
            return (statistic.x, statistic.y)
        case Regression() | Coefficient():
            return (statistic.target, *statistic.features)


def moment_set(table: Table, statistic: MomentStatistic) -> MomentSet:
    """The sums behind a statistic; `QueryError` where bounds are missing or too fine to be multiplied."""
    names = operands_of(statistic)
    if len(set(names)) != len(names):
        raise QueryError(f"{statistic} names a column twice")
    if isinstance(statistic, Variance | Deviation):
        value = value_of(table, statistic.column, statistic.bounds, statistic.step, statistic.fill)
        given = statistic.bounds is not None or statistic.step is not None
        columns = (moment_column(value, statistic.fill, given=given),)
        return MomentSet(columns, (0,), ((0, 0),))
    found = {name: moment_column(value_of(table, name, None), None, given=False) for name in names}
    ordered = sorted(found, key=lambda name: found[name].name)
    places = tuple(ordered.index(name) for name in names)
    match statistic:
        case Covariance():
            pairs: list[tuple[int, int]] = [(0, 1)]
        case Correlation():
            pairs = [(0, 0), (0, 1), (1, 1)]
        case _:
            pairs = [(i, j) for i in range(len(names)) for j in range(i, len(names)) if not i == j == places[0]]
    return MomentSet(tuple(found[name] for name in ordered), places, tuple(pairs))


def moment_column(value: Value, fill: Fraction | None, *, given: bool) -> GridColumn:
    """The grid of a column whose products are summed: around the middle of its bounds, coarser unless the step was given."""
    bounds = value.bounds if given else coarse(value.bounds)
    if bounds.high_units - bounds.low_units > _LARGEST_GRID:
        raise QueryError(f"{value.column!r} within {bounds} has too many steps to be multiplied; take a larger step")
    return centred(value, bounds, fill, (bounds.low_units + bounds.high_units) // 2)


def coarse(bounds: Bounds) -> Bounds:
    """The same with at most 50 000 steps: ten times as large until there are few enough, ends rounded outward.

    >>> print(coarse(as_bounds(0, 1_000_000, "0.01")))
    [0, 1e+06] in steps of 100
    """
    step = bounds.step
    while (bounds.high - bounds.low) / step > _MOST_STEPS:
        step *= 10
    return as_bounds(floor(bounds.low / step) * step, ceil(bounds.high / step) * step, step)


def centred(value: Value, bounds: Bounds, fill: Fraction | None, centre: int) -> GridColumn:
    """A value on its grid, less a centre; equal ones have equal names."""
    steps = None if fill is None else floor(fill / bounds.step + Fraction(1, 2)) - centre
    name = f"{value.column}[{bounds.low},{bounds.high},{bounds.step}]-{centre}"
    return GridColumn(
        name if steps is None else f"{name}?{steps}", value.column, bounds, centre, steps, expression=value.expression
    )


def _moment(factors: tuple[GridColumn, ...], columns: tuple[GridColumn, ...]) -> Moment:
    low, high = _range(factors)
    centre = (low + high) // 2 if len(factors) > 1 else 0
    name = " * ".join(factor.name for factor in factors) + f" - {centre}"
    among = "" if len(columns) == 1 else " among " + " & ".join(column.name for column in columns)
    return Moment(name + among, factors, columns, low - centre, high - centre, centre)


def _range(factors: tuple[GridColumn, ...]) -> tuple[int, int]:
    first, last = factors[0], factors[-1]
    if len(factors) == 1:
        return first.low, first.high
    corners = [x * y for x in (first.low, first.high) for y in (last.low, last.high)]
    if first is last or first == last:
        return (0 if first.low <= 0 <= first.high else min(corners)), max(corners)
    return min(corners), max(corners)
