"""The verbs of statistics that relate columns: covariance, correlation, regression."""

from collections.abc import Sequence

from neartwin.errors import QueryError
from neartwin.queries.moments import Coefficient, Correlation, Covariance, Regression


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
