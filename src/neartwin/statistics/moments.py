"""Variance, covariance, correlation and linear regression: questions about products of columns, and the sums they need.

A set of moments is of the rows in which all its columns have a value: their number, the sum of each column and of products of
two, all from the same kept rows, weighted down to C a unit, and all on grids around the middle of each column's bounds. A
product is counted around the middle of its own range, which halves its sensitivity. Statistics that need the same sums share
them, and their noise.
"""

import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np

from neartwin.error_bars import moments as bars
from neartwin.error_bars.moment_noise import Bar, MomentNoise, MomentSums, half_of
from neartwin.errors import QueryError
from neartwin.exact import FloatArray
from neartwin.statistics.base import (
    GROUP_SIZES,
    Context,
    Estimate,
    ExpectedError,
    NoisyNumbers,
    Statistic,
    constructor,
    total_of,
)
from neartwin.statistics.columns import Choice, OneColumn, centred, chosen_grid
from neartwin.statistics.measures import Measurement, largest
from neartwin.statistics.sql import Call, Named, function, of_columns
from neartwin.tables.grid import GridColumn, MomentSet
from neartwin.tables.ranges import Value, value_of
from neartwin.tables.table import Bounds, Table
from neartwin.tables.table import bounds as as_bounds

_MOST_STEPS = 50_000  # of a grid that nobody asked for: its squares have a noise that can be drawn
_LARGEST_GRID = 2**31  # products of two fit 62 bits
_UNBOUNDED = sys.float_info.max  # the end of a bar that is not proven


class MomentStatistic(Statistic):
    """Read from a set of moments."""

    __slots__ = ()

    @abstractmethod
    def sums(self, table: Table) -> MomentSet:
        """The sums that it needs; `QueryError` where bounds are missing or too fine to be multiplied."""

    @abstractmethod
    def bars(self, sums: MomentSums, miss: float) -> list[Bar]:
        """Values and ends of bars of each released column, (groups,) each; a bar misses with probability at most `miss`."""

    def check(self, table: Table) -> None:
        """Refuse columns without bounds, and grids too fine."""
        self.sums(table)

    def clip_bounds(self, table: Table) -> dict[str, Bounds]:
        """Of every column."""
        return {column.column: column.bounds for column in self.sums(table).columns}

    def measurements(self, context: Context, weight: float, power: float) -> Iterator[Measurement]:
        """All totals, and the number of rows."""
        sums = self.sums(context.table)
        for cell in sums.cells.values():
            yield context.summed(cell, weight / largest(cell), *sums.columns, sure=sums.sure)
        yield context.counted(self._measures(sums, context)[0], weight / 2)

    def _measures(self, sums: MomentSet, context: Context) -> list[str]:
        """The number of rows, the total of each column, and of each product."""
        first = [sums.first(place) for place in range(len(sums.columns))]
        number = context.number(first[0]) if isinstance(first[0], GridColumn) else f"filled:{first[0].name}"
        return [number, *map(total_of, first), *(total_of(sums.second(*pair)) for pair in sums.pairs)]

    def noise(self, context: Context) -> MomentNoise:
        """The noise of its sums."""
        sums = self.sums(context.table)
        measures = [context.measures[name] for name in self._measures(sums, context)]
        return MomentNoise.of(sums, [one.mechanism.law for one in measures], [one.parts for one in measures])

    def estimate(self, name: str, noisy: NoisyNumbers, context: Context, confidence: float) -> list[Estimate]:
        """From sums in half-widths of the columns' bounds."""
        noise, found = self.noise(context), []
        sums = noise.sums
        names, half = self._measures(sums, context), [half_of(sums, place) for place in range(len(sums.columns))]
        number, *totals = (noisy.sums[one].astype(float) / context.measures[one].parts for one in names)
        first = tuple(total / width for total, width in zip(totals, half, strict=False))
        second = {
            (i, j): total / (half[i] * half[j]) + noise.centres[i, j] * number
            for (i, j), total in zip(sums.pairs, totals[len(half) :], strict=True)
        }
        told = self.bars(MomentSums(noise, number, first, second), 1 - confidence)
        for one, ends in zip(self.labels(name), told, strict=True):
            found.append(Estimate(one, *(_finite(end).tolist() for end in ends)))
        return found

    def expected(self, name: str, context: Context, confidence: float) -> list[ExpectedError]:
        """The release's own bars, at sums without noise of columns that do not depend on each other.

        Their means lie a quarter of the bounds' half-width h above the middle, and their standard deviations are h / 2.
        """
        noise, n = self.noise(context), np.array(GROUP_SIZES, dtype=float)
        first = tuple(n / 4 for _ in noise.sums.columns)
        second = {(i, j): n * (1 / 16 + (i == j) / 4) for i, j in noise.sums.pairs}
        found = []
        told = self.bars(MomentSums(noise, n, first, second), 1 - confidence)
        for label, (_, low, high) in zip(self.labels(name), told, strict=True):
            widths = np.clip((high - low) / 2, 0.0, _UNBOUNDED).tolist()
            by_size = tuple(zip(GROUP_SIZES, widths, strict=True))
            proven = [f"± {width:.3g} at n = {size:,}" for size, width in by_size if width < _UNBOUNDED]
            few = [f"no bar is proven at n = {size:,}" for size, width in by_size if width == _UNBOUNDED][-1:]
            says = "about " * bool(proven) + ", ".join([*proven, *few])
            found.append(ExpectedError(name=label, confidence=confidence, half_width=None, by_size=by_size, says=says))
        return found


def _finite(end: FloatArray) -> FloatArray:
    return np.clip(np.nan_to_num(end), -_UNBOUNDED, _UNBOUNDED)


@dataclass(frozen=True, slots=True)
class Spread(MomentStatistic, OneColumn):
    """Read from the total and the total of squares of one column."""

    def sums(self, table: Table) -> MomentSet:
        """Of the column and its square."""
        given = self.bounds is not None or self.step is not None
        return MomentSet((moment_column(self.value(table), self.fill, given=given),), (0,), ((0, 0),))

    def shared_column(self, table: Table, grid: object) -> GridColumn | None:
        """The column that is squared, for a mean on the same grid."""
        return self.sums(table).columns[0] if grid == (self.column, *self.grid) else None


@dataclass(frozen=True, slots=True)
class Variance(Spread):
    """The variance of a column's values, sum (x - mean)^2 over their number."""

    verb = "variance"

    def bars(self, sums: MomentSums, miss: float) -> list[Bar]:
        """Of one column."""
        return [bars.variance(sums, miss)]


@dataclass(frozen=True, slots=True)
class StandardDeviation(Spread):
    """The standard deviation: the root of the variance."""

    verb = "stddev"

    def bars(self, sums: MomentSums, miss: float) -> list[Bar]:
        """Of one column."""
        return [bars.deviation(sums, miss)]


class _Related(MomentStatistic):
    """Of several columns, in the rows in which all have a value."""

    __slots__ = ()

    @property
    @abstractmethod
    def operands(self) -> tuple[str, ...]:
        """The columns and expressions that it is about."""

    def pairs(self, places: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The products that it needs, by places of columns. places: of each operand."""
        size = range(len(places))
        return tuple((i, j) for i in size for j in size[i:] if not i == j == places[0])

    def sums(self, table: Table) -> MomentSet:
        """Of all columns, in one order whatever asks for them."""
        if len(set(self.operands)) != len(self.operands):
            raise QueryError(f"{self} names a column twice")
        found = {name: moment_column(value_of(table, name, None), None, given=False) for name in self.operands}
        ordered = sorted(found, key=lambda name: found[name].name)
        places = tuple(map(ordered.index, self.operands))
        return MomentSet(tuple(found[name] for name in ordered), places, self.pairs(places))


@dataclass(frozen=True, slots=True)
class _OfTwo(_Related):
    """Of two columns over the rows in which both have a value."""

    x: str
    y: str

    @property
    def record(self) -> str:
        """Its word in digests."""
        return f"{self.verb}({self.x}, {self.y})"

    @property
    def operands(self) -> tuple[str, ...]:
        """Both."""
        return self.x, self.y


@dataclass(frozen=True, slots=True)
class Covariance(_OfTwo):
    """The covariance of two columns over the rows in which both have a value."""

    verb = "covariance"

    def pairs(self, places: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The product alone."""
        return ((0, 1),)

    def bars(self, sums: MomentSums, miss: float) -> list[Bar]:
        """Of both columns."""
        return [bars.covariance(sums, miss)]


@dataclass(frozen=True, slots=True)
class Correlation(_OfTwo):
    """Pearson's correlation of two columns over the rows in which both have a value."""

    verb = "correlation"

    def pairs(self, places: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The product and both squares."""
        return (0, 0), (0, 1), (1, 1)

    def bars(self, sums: MomentSums, miss: float) -> list[Bar]:
        """Of both columns."""
        return [bars.correlation(sums, miss)]


@dataclass(frozen=True, slots=True)
class Regression(_Related):
    """Least squares: target = intercept + slopes * features, over the rows in which all have a value."""

    target: str
    features: tuple[str, ...]
    verb = "regression"
    has_bar = False

    @property
    def record(self) -> str:
        """Its word in digests."""
        return f"regression({self.target}, [{', '.join(self.features)}])"

    @property
    def operands(self) -> tuple[str, ...]:
        """The target first."""
        return self.target, *self.features

    def labels(self, name: str) -> tuple[str, ...]:
        """One for each coefficient.

        >>> Regression("pay", ("age",)).labels("fit")
        ('fit_intercept', 'fit_age')
        """
        return (f"{name}_intercept", *(f"{name}_{feature}" for feature in self.features))

    def bars(self, sums: MomentSums, miss: float) -> list[Bar]:
        """Intercept and slopes."""
        return bars.least_squares(sums, miss)


@dataclass(frozen=True, slots=True)
class Coefficient(_Related):
    """One number of a regression: the slope of `feature`, one of the features; the intercept where it is empty."""

    target: str
    features: tuple[str, ...]
    feature: str
    verb = "coefficient"
    has_bar = False

    @property
    def record(self) -> str:
        """Its word in digests."""
        of = f"slope of {self.feature}" if self.feature else "intercept"
        return f"{of} in {Regression(self.target, self.features).record}"

    @property
    def operands(self) -> tuple[str, ...]:
        """The target first."""
        return self.target, *self.features

    def bars(self, sums: MomentSums, miss: float) -> list[Bar]:
        """One of the regression's."""
        place = 1 + self.features.index(self.feature) if self.feature else 0
        return [bars.least_squares(sums, miss)[place]]


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


@constructor
def variance(
    column: str, low: Choice = None, high: Choice = None, step: Choice = None, *, fill: Choice = None
) -> Variance:
    """The variance of a column or an expression: sum (x - mean)^2 / n, with n the number of values. Arguments as of `sum`.

    Its bar is proven and its value at least 0 and at most (high - low)^2 / 4. Bounds decide its noise: take them tight.
    """
    return Variance(column, *chosen_grid(column, low, high, step, fill))


@constructor
def stddev(
    column: str, low: Choice = None, high: Choice = None, step: Choice = None, *, fill: Choice = None
) -> StandardDeviation:
    """The standard deviation: the root of `variance`, from the same sums where both are asked."""
    return StandardDeviation(column, *chosen_grid(column, low, high, step, fill))


@constructor
def covariance(x: str, y: str) -> Covariance:
    """The covariance of two columns or expressions over the rows in which both have a value.

    Bounds are those that the table declares, or that follow from them; write clip(x, low, high) for others.
    """
    return Covariance(*_texts(x, y))


@constructor
def correlation(x: str, y: str) -> Correlation:
    """Pearson's correlation of two columns or expressions, within [-1, 1]; 0 where the noise hides that they vary at all."""
    return Correlation(*_texts(x, y))


@constructor
def regression(target: str, features: Sequence[str]) -> Regression:
    """Least squares with an intercept: one statistic `NAME_intercept` and one `NAME_FEATURE` a slope.

    All come from one set of noisy moments. A bar is proven where the noise leaves the equations solvable for certain; where
    it does not, the value is a ridge estimate and its bar is the whole range of numbers.
    """
    if isinstance(features, str) or not features:
        raise QueryError(f"features={features!r} must be a list of columns, for instance ['age', 'visits']")
    _texts(target, *features)
    return Regression(target, tuple(features))


@constructor
def coefficient(target: str, features: Sequence[str], feature: str = "") -> Coefficient:
    """One number of a `regression`, as a statistic of its own name: the slope of a feature, or without one the intercept.

    Several coefficients of one regression come from the same noisy moments, and cost what one costs.

    >>> print(coefficient("pay", ["age"], "age"))
    slope of age in regression(pay, [age])
    """
    whole = regression(target, features)
    if feature and feature not in whole.features:
        raise QueryError(f"feature={feature!r} must be one of the features {list(whole.features)}")
    return Coefficient(whole.target, whole.features, feature)


def _texts(*columns: str) -> tuple[str, ...]:
    for column in columns:
        if not isinstance(column, str):
            raise QueryError(f"{column!r} must be the name of a column, or an expression")
    return columns


# of a population: an estimate over n and one over n - 1 differ by far less than the noise
of_columns("VARIANCE_POP", "variance", Variance, "x", spelled="VAR_POP")
of_columns("STDDEV_POP", "stddev", StandardDeviation, "x")
of_columns("COVAR_POP", "covariance", Covariance, "y", "x")
of_columns("CORR", "correlation", Correlation, "y", "x")
of_columns("REGR_SLOPE", "slope", lambda y, x: Coefficient(y, (x,), x), "y", "x")
of_columns("REGR_INTERCEPT", "intercept", lambda y, x: Coefficient(y, (x,), ""), "y", "x")


@function("REGRESSION", spelled="REGRESSION(y, x, z)")
def _regression(call: Call) -> Named | None:
    target, *features = call.columns or ("",)
    return (f"regression_{target}", Regression(target, tuple(features))) if features else None


@function("VARIANCE", "STDDEV", "STDDEV_SAMP", "COVAR_SAMP")
def _of_a_sample(call: Call) -> Named | None:
    raise QueryError(
        f"{call.function} divides by n - 1; write VAR_POP, STDDEV_POP or COVAR_POP, which divide by n: "
        "the noise hides the difference"
    )
