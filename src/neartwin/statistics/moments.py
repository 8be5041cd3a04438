"""Variance, covariance, correlation and linear regression: questions about products of columns, and the sums they need.

A set of moments covers the rows in which all its columns have a value. It holds their number, the sum of each column and the
sums of products of two. All come from the same kept rows, weighted down to C a unit. Their grids lie around the middle of each
column's bounds. A product is counted around the middle of its own range, which halves its sensitivity. Statistics that need
the same sums share them, and their noise.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil, floor, inf, isfinite
from typing import Any, ClassVar

import numpy as np

from neartwin.error_bars import moments as bars
from neartwin.error_bars.moment_noise import Bar, MomentNoise, MomentSums, half_of
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import FloatArray
from neartwin.statistics import base
from neartwin.statistics.columns import Choice, OneColumn, centred, chosen_grid
from neartwin.statistics.measures import Measurement, largest
from neartwin.statistics.sql import Call, Named, function, of_columns
from neartwin.tables.grid import GridColumn, MomentSet
from neartwin.tables.ranges import Value, value_of
from neartwin.tables.table import Bounds, Table, fine_step
from neartwin.tables.table import bounds as as_bounds

_MOST_STEPS = 50_000  # steps of a default grid, so that the noise of squares can be drawn
_LARGEST_GRID = 2**31  # products of two fit 62 bits


class MomentStatistic(base.Statistic):
    """A statistic that is read from a set of moments. Its products fill less of their bounds than values do.

    Both its noise and its bias from lost rows depend on how much of the bounds values fill. `docs/truth.md` has what a lost row
    costs correlations and slopes beside their noise: the median of fourteen tables is `RATIO` / 32. It is up to `RATIO` / 4
    where few units have most of the rows.

    Its bars reach over all its values where clipping was found to change some: nothing bounds what that does to products.
    """

    __slots__ = ()
    has_bar = False
    holds_lost = True
    lost_row = base.RATIO / 32
    values: ClassVar[tuple[float, float]] = (-inf, inf)

    @abstractmethod
    def sums(self, table: Table) -> MomentSet:
        """The sums that it needs.

        Args:
            table: The table.

        Returns:
            The set of moments.

        Raises:
            QueryError: Bounds are missing, or too fine to be multiplied.
        """

    @abstractmethod
    def bars(self, sums: MomentSums, failure: float) -> list[Bar]:
        """Values and ends of bars of each released column, (groups,) each.

        Args:
            sums: The noisy sums.
            failure: The most probable failure of a bar.
        """

    def check(self, table: Table) -> None:
        """Refuse columns without bounds, and grids too fine."""
        self.sums(table)

    def clip_bounds(self, table: Table) -> dict[str, Bounds]:
        """The bounds of every column."""
        return {column.column: column.bounds for column in self.sums(table).columns}

    def measurements(self, context: base.Context, weight: float, power: float) -> Iterator[Measurement]:
        """All totals, and the number of rows."""
        sums = self.sums(context.table)
        for cell in sums.cells.values():
            yield context.summed(cell, weight / largest(cell), *sums.columns, sure=sums.sure)
        yield context.counted(self._measures(sums, context)[0], weight / 2)

    def _measures(self, sums: MomentSet, context: base.Context) -> list[str]:
        """The number of rows, the total of each column, and of each product."""
        first = [sums.first(place) for place in range(len(sums.columns))]
        number = context.number(first[0]) if isinstance(first[0], GridColumn) else f"filled:{first[0].name}"
        return [number, *map(base.total_of, first), *(base.total_of(sums.second(*pair)) for pair in sums.pairs)]

    def main_measure(self, context: base.Context) -> str:
        """The total of a product."""
        return self._measures(self.sums(context.table), context)[-1]

    def noise(self, context: base.Context) -> MomentNoise:
        """The noise of its sums, and the lost rows."""
        sums = self.sums(context.table)
        measures = [context.measures[name] for name in self._measures(sums, context)]
        laws, parts = [one.mechanism.law for one in measures], [one.parts for one in measures]
        return MomentNoise.of(sums, laws, parts, lost=int(context.lost) if isfinite(context.lost) else 0)

    def estimate(
        self, name: str, noisy: base.NoisyNumbers, context: base.Context, confidence: float
    ) -> list[base.Estimate]:
        """From sums in half-widths of the columns' bounds."""
        noise = self.noise(context)
        sums = noise.sums
        names, half = self._measures(sums, context), [half_of(sums, place) for place in range(len(sums.columns))]
        number, *totals = (noisy.sums[one].astype(float) / context.measures[one].parts for one in names)
        first = tuple(total / width for total, width in zip(totals, half, strict=False))
        second = {
            (i, j): total / (half[i] * half[j]) + noise.centres[i, j] * number
            for (i, j), total in zip(sums.pairs, totals[len(half) :], strict=True)
        }
        all_bars = self.bars(MomentSums(noise, number, first, second), 1 - confidence)
        reach = [[0.0], [-inf], [inf]] if context.clipped or context.lost == inf else 0.0  # values beyond their bounds
        ends = (map(_ends, np.clip(np.add(one, reach), *self.values)) for one in all_bars)
        return [base.Estimate(one, *three) for one, three in zip(self.labels(name), ends, strict=True)]

    def expected(self, name: str, context: base.Context, confidence: float) -> list[base.ExpectedError]:
        """The release's own bars, at sums without noise of columns that do not depend on each other.

        Their means lie a quarter of the bounds' half-width h above the middle, and their standard deviations are h / 2.
        """
        noise, n = self.noise(context), np.array(base.GROUP_SIZES, dtype=float)
        first = tuple(n / 4 for _ in noise.sums.columns)
        second = {(i, j): n * (1 / 16 + (i == j) / 4) for i, j in noise.sums.pairs}
        errors = []
        all_bars = self.bars(MomentSums(noise, n, first, second), 1 - confidence)
        for label, (_, low, high) in zip(self.labels(name), all_bars, strict=True):
            by_size = tuple(zip(base.GROUP_SIZES, _ends((high - low) / 2), strict=True))
            proven = [f"± {width:.3g} at n = {size:,}" for size, width in by_size if width is not None]
            few = [f"no bar is proven at n = {size:,}" for size, width in by_size if width is None][-1:]
            says = "about " * bool(proven) + ", ".join([*proven, *few])
            errors.append(
                base.ExpectedError(name=label, confidence=confidence, half_width=None, by_size=by_size, says=says)
            )
        return errors


def _ends(ends: FloatArray) -> list[Any]:
    """Ends of bars as numbers, None where they are open."""
    return [end if isfinite(end) else None for end in ends.tolist()]


@dataclass(frozen=True, slots=True)
class Spread(MomentStatistic, OneColumn):
    """A statistic of the total and the total of squares of one column.

    Attributes:
        ddof: 1 to divide by one less than the number of values, else 0.
    """

    ddof: int = 0

    @property
    def record(self) -> str:
        """Its word in digests."""
        return f"sample {self.verb}({self.column})" if self.ddof else f"{self.verb}({self.column})"

    @base.known
    def sums(self, table: Table) -> MomentSet:
        """The sums of the column and its square."""
        if self.ddof not in {0, 1}:
            raise ParameterError("ddof", self.ddof, "must be 0 to divide by n, or 1 to divide by n - 1")
        usual = None if self.bounds is None else fine_step(self.bounds.low, self.bounds.high)
        given = self.step is not None or (self.bounds is not None and self.bounds.step != usual)
        return MomentSet((moment_column(self.value(table), self.fill, given=given),), (0,), ((0, 0),))

    def shared_column(self, table: Table, grid: object) -> GridColumn | None:
        """The column that is squared, for a mean on the same grid."""
        return self.sums(table).columns[0] if grid == (self.column, *self.grid) else None


@dataclass(frozen=True, slots=True)
class Variance(Spread):
    """The variance of a column's values, sum (x - mean)^2 over their number."""

    verb = "variance"

    def bars(self, sums: MomentSums, failure: float) -> list[Bar]:
        """The bar of a variance."""
        return [bars.sample_variance(sums, failure) if self.ddof else bars.variance(sums, failure)]


@dataclass(frozen=True, slots=True)
class StandardDeviation(Spread):
    """The standard deviation: the root of the variance."""

    verb = "stddev"

    def bars(self, sums: MomentSums, failure: float) -> list[Bar]:
        """The bar of a standard deviation."""
        variance_bar = bars.sample_variance if self.ddof else bars.variance
        value, low, high = map(np.sqrt, variance_bar(sums, failure))
        return [(value, low, high)]


class _Related(MomentStatistic, base.OfBoundedValues):
    """A statistic of several columns, in the rows in which all have a value."""

    __slots__ = ()

    def pairs(self, places: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The products that it needs, by places of columns. places: the place of each operand."""
        size = range(len(places))
        return tuple((i, j) for i in size for j in size[i:] if not i == j == places[0])

    @base.known
    def sums(self, table: Table) -> MomentSet:
        """The sums of all columns, in one order that does not depend on the statistic."""
        if len(set(self.operands)) != len(self.operands):
            raise QueryError(f"{self} names a column twice")
        values = {name: value_of(table, name, None, conditions=self.conditions) for name in self.operands}
        columns = {name: moment_column(value, None, given=False) for name, value in values.items()}
        ordered = sorted(columns, key=lambda name: columns[name].name)
        places = tuple(map(ordered.index, self.operands))
        return MomentSet(tuple(columns[name] for name in ordered), places, self.pairs(places))


@dataclass(frozen=True, slots=True)
class _OfTwo(_Related):
    """A statistic of two columns over the rows in which both have a value."""

    x: str
    y: str


@dataclass(frozen=True, slots=True)
class Covariance(_OfTwo):
    """The covariance of two columns over the rows in which both have a value."""

    verb = "covariance"

    def pairs(self, places: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The product alone."""
        return ((0, 1),)

    def bars(self, sums: MomentSums, failure: float) -> list[Bar]:
        """The bar of a covariance."""
        return [bars.covariance(sums, failure)]


@dataclass(frozen=True, slots=True)
class Correlation(_OfTwo):
    """Pearson's correlation of two columns over the rows in which both have a value."""

    verb = "correlation"
    values = (-1.0, 1.0)

    def pairs(self, places: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The product and both squares."""
        return (0, 0), (0, 1), (1, 1)

    def bars(self, sums: MomentSums, failure: float) -> list[Bar]:
        """The bar of a correlation."""
        return [bars.correlation(sums, failure)]


@dataclass(frozen=True, slots=True)
class Regression(_Related):
    """Least squares: target = intercept + slopes * features, over the rows in which all have a value.

    Attributes:
        target: A column or a SQL expression.
        features: Columns or SQL expressions.
    """

    target: str
    features: tuple[str, ...]
    verb = "regression"

    @property
    def record(self) -> str:
        """Its word in digests."""
        return f"regression({self.target}, [{', '.join(self.features)}])"

    @property
    def operands(self) -> tuple[str, ...]:
        """The target first."""
        return self.target, *self.features

    def labels(self, name: str) -> tuple[str, ...]:
        """One name for each coefficient.

        >>> Regression("pay", ("age",)).labels("fit")
        ('fit_intercept', 'fit_age')
        """
        return (f"{name}_intercept", *(f"{name}_{feature}" for feature in self.features))

    def bars(self, sums: MomentSums, failure: float) -> list[Bar]:
        """The bars of intercept and slopes."""
        return bars.least_squares(sums, failure)


@dataclass(frozen=True, slots=True)
class Coefficient(Regression):
    """One number of a regression.

    Attributes:
        feature: The one whose slope is wanted; empty for the intercept.
    """

    feature: str
    verb = "coefficient"

    @property
    def record(self) -> str:
        """Its word in digests."""
        of = f"slope of {self.feature}" if self.feature else "intercept"
        return f"{of} in {Regression(self.target, self.features).record}"

    def labels(self, name: str) -> tuple[str, ...]:
        """One column."""
        return (name,)

    def bars(self, sums: MomentSums, failure: float) -> list[Bar]:
        """The bar of one coefficient of the regression."""
        place = 1 + self.features.index(self.feature) if self.feature else 0
        return [bars.least_squares(sums, failure)[place]]


def moment_column(value: Value, fill: Fraction | None, *, given: bool) -> GridColumn:
    """The grid of a column whose products are summed, around the middle of its bounds.

    Args:
        value: The column or expression with its bounds.
        fill: The value of NULL and NaN; None leaves them out.
        given: Whether the question gave the step. Otherwise a coarser one may be taken.
    """
    bounds = value.bounds if given else coarse(value.bounds)
    if bounds.high_units - bounds.low_units > _LARGEST_GRID:
        raise QueryError(f"{value.column!r} within {bounds} has too many steps to be multiplied; take a larger step")
    return centred(value, bounds, fill, (bounds.low_units + bounds.high_units) // 2)


def coarse(bounds: Bounds) -> Bounds:
    """The bounds with at most 50,000 steps: ten times as large until there are few enough, ends rounded outward.

    >>> print(coarse(as_bounds(0, 1_000_000, "0.01")))
    [0, 1e+06] in steps of 100
    """
    step = bounds.step
    while (bounds.high - bounds.low) / step > _MOST_STEPS:
        step *= 10
    return as_bounds(floor(bounds.low / step) * step, ceil(bounds.high / step) * step, step)


@base.constructor
def variance(
    column: str, low: Choice = None, high: Choice = None, step: Choice = None, *, fill: Choice = None, ddof: int = 0
) -> Variance:
    """The variance of a column or an expression: sum (x - mean)^2 / n, with n the number of values.

    Its bar is proven, and its value is in [0, (high - low)^2 / 4]. Bounds decide its noise: choose them tight. A sample's
    is n / (n - 1) times as large, from the same sums. For fewer than two rows it has no meaning, and n counts as 2.

    Args:
        column: A column or SQL expression.
        low: The lower public bound, or None if the table declares it.
        high: The upper public bound, or None if the table declares it.
        step: The step of the grid; by default at most 50 000 steps.
        fill: The value for NULL and NaN; None leaves them out.
        ddof: 1 to divide by n - 1, as SQL's VARIANCE and VAR_SAMP do. VAR_POP divides by n.

    Returns:
        The statistic.

    >>> print(variance("age", 0, 120), variance("age", 0, 120, ddof=1))
    variance(age) sample variance(age)
    """
    return Variance(column, *chosen_grid(column, low, high, step, fill), ddof)


@base.constructor
def stddev(
    column: str, low: Choice = None, high: Choice = None, step: Choice = None, *, fill: Choice = None, ddof: int = 0
) -> StandardDeviation:
    """The standard deviation: the root of `variance`, from the same sums if both are asked.

    Args:
        column: A column or a SQL expression.
        low: The lower public bound, or None if the table declares it.
        high: The upper public bound, or None if the table declares it.
        step: The step of the grid; by default at most 50 000 steps.
        fill: The value for NULL and NaN; None leaves them out.
        ddof: 1 to divide by n - 1, as SQL's STDDEV and STDDEV_SAMP do. STDDEV_POP divides by n.

    Returns:
        The statistic.

    >>> print(stddev("age", 0, 120))
    stddev(age)
    """
    return StandardDeviation(column, *chosen_grid(column, low, high, step, fill), ddof)


@base.constructor
def covariance(x: str, y: str) -> Covariance:
    """The covariance of two columns or expressions over the rows in which both have a value.

    Bounds are the table's declarations, or follow from them; write clip(x, low, high) for others.

    Args:
        x: A column or SQL expression.
        y: Another.

    Returns:
        The statistic.

    >>> print(covariance("age", "pay"))
    covariance(age, pay)
    """
    return Covariance(*_texts(x, y))


@base.constructor
def correlation(x: str, y: str) -> Correlation:
    """Pearson's correlation of two columns or expressions, in [-1, 1]; 0 if the noise hides that they vary at all.

    Args:
        x: A column or SQL expression.
        y: Another.

    Returns:
        The statistic.

    >>> print(correlation("age", "pay"))
    correlation(age, pay)
    """
    return Correlation(*_texts(x, y))


@base.constructor
def regression(target: str, features: Sequence[str]) -> Regression:
    """Least squares with an intercept: one statistic `NAME_intercept` and one `NAME_FEATURE` a slope.

    All come from one set of noisy moments. A bar is proven if the equations are solvable for certain in spite of the
    noise. Otherwise its bar is the whole range of numbers.

    Args:
        target: The explained column or SQL expression.
        features: The explaining columns or expressions.

    Returns:
        The statistic.

    Raises:
        QueryError: The features are not a list of columns.

    >>> print(regression("pay", ["age"]))
    regression(pay, [age])
    """
    if isinstance(features, str) or not features:
        raise QueryError(f"features={features!r} must be a list of columns, for instance ['age', 'visits']")
    _texts(target, *features)
    return Regression(target, tuple(features))


@base.constructor
def coefficient(target: str, features: Sequence[str], feature: str = "") -> Coefficient:
    """One number of a `regression`, as a statistic of its own name.

    Several coefficients of one regression come from one set of noisy moments, and cost as much as one.

    Args:
        target: The explained column or SQL expression.
        features: The explaining columns or expressions.
        feature: The feature whose slope it is; "" for the intercept.

    Returns:
        The statistic.

    >>> print(coefficient("pay", ["age"], "age"))
    slope of age in regression(pay, [age])
    """
    model = regression(target, features)
    if feature and feature not in model.features:
        raise QueryError(f"feature={feature!r} must be one of the features {list(model.features)}")
    return Coefficient(model.target, model.features, feature)


def _texts(*columns: str) -> tuple[str, ...]:
    for column in columns:
        if not isinstance(column, str):
            raise QueryError(f"{column!r} must be the name of a column, or an expression")
    return columns


for _name in ("VARIANCE", "VAR"):
    of_columns(_name, "sample_variance", partial(Variance, ddof=1), "x", spelled="VAR_SAMP")
for _name in ("STDDEV", "STDDEV_SAMP", "STDEV"):
    of_columns(_name, "sample_stddev", partial(StandardDeviation, ddof=1), "x", spelled="STDDEV_SAMP")
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
