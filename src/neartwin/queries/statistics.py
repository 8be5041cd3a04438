"""Statistics that can be asked: counts, sums and means here, and the names and values of all. Frozen; making one reads no row.

The verbs of statistics that relate columns: covariance, correlation, regression.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from neartwin.errors import QueryError
from neartwin.exact import Number, rational
from neartwin.queries.histograms import Histogram
from neartwin.queries.moments import (
    Coefficient,
    Correlation,
    Covariance,
    Deviation,
    MomentStatistic,
    Regression,
    Variance,
    moment_set,
)
from neartwin.queries.quantiles import MinMax, Quantile
from neartwin.tables.ranges import Value, as_value, is_name, spelled, value_of
from neartwin.tables.table import Bounds, Table, both_ends, bounds


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows; with a column or expression those in which it is not NULL."""

    column: str | None = None

    def __str__(self) -> str:
        return f"count({self.column or ''})"


@dataclass(frozen=True, slots=True)
class CountDistinctUnits:
    """How many distinct units."""

    def __str__(self) -> str:
        return "count_distinct_units()"


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of a column or expression, each value clipped to its public bounds; NULL and NaN are left out, or stand for `fill`.

    step: of the grid, where the bounds are the table's or follow from them.
    """

    column: str
    bounds: Bounds | None
    fill: Fraction | None = None
    step: Fraction | None = None

    def __str__(self) -> str:
        return f"sum({self.column})"


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of the values of a column or expression that are neither NULL nor NaN, each clipped to its public bounds."""

    column: str
    bounds: Bounds | None
    fill: Fraction | None = None
    step: Fraction | None = None

    def __str__(self) -> str:
        return f"mean({self.column})"


Aggregate = Count | CountDistinctUnits | Sum | Mean | Quantile | MinMax | Histogram | MomentStatistic


def count(column: str | None = None) -> Count:
    """Count rows. column: or an expression; then only rows in which it is not NULL, as COUNT(column) counts them in SQL.

    NaN is no NULL, so it is counted; the number of values behind a mean leaves it out.

    >>> print(count(), count("amount"))
    count() count(amount)
    """
    if column is not None and not isinstance(column, str):
        raise QueryError(f"count({column!r}) takes the name of a column, an expression, or nothing")
    return Count(column or None)


def count_distinct_units() -> CountDistinctUnits:
    """Count distinct units."""
    return CountDistinctUnits()


def sum(  # noqa: A001
    column: str,
    low: Number | None = None,
    high: Number | None = None,
    step: Number | None = None,
    *,
    fill: Number | None = None,
) -> Sum:
    """Sum a column or an expression, within public bounds. fill: what NULL and NaN stand for.

    low, high: without them the bounds are those that the table declares for the column, or those that follow from the
    declared bounds of each column in the expression. step: of the grid that values are rounded to, by default 1/100, the
    declared one, or the one that follows.

    >>> print(sum("amount", 0, 200).bounds)
    [0, 200] in steps of 0.01
    """
    return Sum(column, *_grid(column, low, high, step, fill))


def mean(
    column: str,
    low: Number | None = None,
    high: Number | None = None,
    step: Number | None = None,
    *,
    fill: Number | None = None,
) -> Mean:
    """The mean of a column or an expression, within public bounds; arguments as those of `sum`."""
    return Mean(column, *_grid(column, low, high, step, fill))


def variance(
    column: str,
    low: Number | None = None,
    high: Number | None = None,
    step: Number | None = None,
    *,
    fill: Number | None = None,
) -> Variance:
    """The variance of a column or an expression: sum (x - mean)^2 / n, with n the number of values. Arguments as of `sum`.

    Its bar is proven and its value at least 0 and at most (high - low)^2 / 4. Bounds decide its noise: take them tight.
    """
    return Variance(column, *_grid(column, low, high, step, fill))


def stddev(
    column: str,
    low: Number | None = None,
    high: Number | None = None,
    step: Number | None = None,
    *,
    fill: Number | None = None,
) -> Deviation:
    """The standard deviation: the root of `variance`, from the same sums where both are asked."""
    return Deviation(column, *_grid(column, low, high, step, fill))


def columns_of(name: str, aggregate: Aggregate) -> tuple[str, ...]:
    """The names of what a statistic releases: several for a regression and for a list of quantiles.

    >>> columns_of("fit", Regression("pay", ("age",)))
    ('fit_intercept', 'fit_age')
    """
    if isinstance(aggregate, Quantile):
        return aggregate.labels(name)
    if isinstance(aggregate, Regression):
        return (f"{name}_intercept", *(f"{name}_{feature}" for feature in aggregate.features))
    return (name,)


def _grid(
    column: str, low: Number | None, high: Number | None, step: Number | None, fill: Number | None
) -> tuple[Bounds | None, Fraction | None, Fraction | None]:
    """Bounds, fill, and the step where there are no bounds yet."""
    filled = None if fill is None else rational(fill=fill)
    ends = both_ends(column, low, high)
    if ends is None:
        chosen = None if step is None else rational(step=step)
        if chosen is not None and chosen <= 0:
            raise QueryError(f"step={step!r} of {column!r} must be positive")
        return None, filled, chosen
    return bounds(*ends, "1/100" if step is None else step), filled, None


def summand(table: Table, aggregate: Sum | Mean | Quantile | MinMax) -> Value:
    """What a sum, mean or quantile is taken of, and its bounds; `QueryError` where there are none."""
    if isinstance(aggregate, Quantile | MinMax):  # which have a grid of their own
        return value_of(table, aggregate.column, aggregate.bounds)
    return value_of(table, aggregate.column, aggregate.bounds, aggregate.step, aggregate.fill)


def check_value(table: Table, aggregate: Aggregate) -> None:
    """Refuse what a statistic cannot be taken of, or has no bounds."""
    match aggregate:
        case Histogram():
            bin_value(table, aggregate)
        case Sum() | Mean() | Quantile() | MinMax():
            summand(table, aggregate)
        case Count(column=str()):
            counted_value(table, aggregate)
        case Count() | CountDistinctUnits():
            pass
        case _:
            moment_set(table, aggregate)


def counted_value(table: Table, aggregate: Count) -> Value:
    """1 in the rows that a count with a column counts, NULL in others."""
    column = aggregate.column or ""
    plain = column in table.schema or column in table.computed
    text = '"' + column.replace('"', '""') + '"' if plain else f"({column})"
    one = Bounds(Fraction(0), Fraction(1), Fraction(1))
    name = f"count({column})"  # the name of a measure, so it is in digests
    return Value(name, one, table.expression(f"CASE WHEN {text} IS NOT NULL THEN 1 END"))


def bin_value(table: Table, aggregate: Histogram) -> Value:
    """The number of the bin, computed from the column or expression that the histogram is of."""
    name = aggregate.column
    if name not in table.computed and is_name(table, name):
        table.numeric(name, "histogram")
    text = as_value(table, name)
    bins = Bounds(Fraction(0), Fraction(len(aggregate.edges) - 2), Fraction(1))
    return Value(aggregate.record, bins, aggregate.bin_of(table.expression(text)))


def as_spelled(table: Table, aggregate: Aggregate) -> Aggregate:
    """The same statistic, its expressions written as SQL writes them."""
    written: dict[str, Any] = {}
    for field in fields(aggregate):
        told = getattr(aggregate, field.name)
        if isinstance(told, str) and told:
            written[field.name] = spelled(table, told)
        elif field.name == "features":
            written[field.name] = tuple(spelled(table, feature) for feature in told)
    return replace(aggregate, **written) if written else aggregate


def covariance(x: str, y: str) -> Covariance:
    """The covariance of two columns or expressions over the rows in which both have a value.

    Bounds are those that the table declares, or that follow from them; write clip(x, low, high) for others.
    """
    return Covariance(*_texts(x, y))


def correlation(x: str, y: str) -> Correlation:
    """Pearson's correlation of two columns or expressions, within [-1, 1]; 0 where the noise hides that they vary at all."""
    return Correlation(*_texts(x, y))


def regression(target: str, features: Sequence[str]) -> Regression:
    """Least squares with an intercept: one statistic `NAME_intercept` and one `NAME_FEATURE` a slope.

    All come from one set of noisy moments. A bar is proven where the noise leaves the equations solvable for certain; where
    it does not, the value is a ridge estimate and its bar is the whole range of numbers.
    """
    if isinstance(features, str) or not features:
        raise QueryError(f"features={features!r} must be a list of columns, for instance ['age', 'visits']")
    _texts(target, *features)
    return Regression(target, tuple(features))


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
