"""Values and bars of variances, covariances, correlations and regressions in the columns' own units, from sums of moments."""

import numpy as np

from neartwin.exact import FloatArray
from neartwin.queries.moment_bars import correlation_ends, covariance_ends, variance_ends
from neartwin.queries.moment_sums import Ends, MomentSums, half_of
from neartwin.queries.moments import (
    Coefficient,
    Correlation,
    Covariance,
    Deviation,
    MomentStatistic,
    Regression,
    Variance,
)
from neartwin.queries.regression_bars import fitted, slopes_of

Told = tuple[FloatArray, FloatArray, FloatArray]  # values, and the lower and upper ends of their bars


def moment_values(sums: MomentSums, statistic: MomentStatistic, miss: float) -> list[Told]:
    """Every group's value and bar, (groups,) each, several for a regression; a bar misses with probability at most `miss`."""
    match statistic:
        case Regression():
            return _regressed(sums, miss)
        case Coefficient():
            place = 1 + statistic.features.index(statistic.feature) if statistic.feature else 0
            return [_regressed(sums, miss)[place]]
        case Variance():
            return [_scaled(_variance(sums, 0), variance_ends(sums, 0, miss), _unit(sums, 0) ** 2)]
        case Deviation():
            low, high = variance_ends(sums, 0, miss)
            return [_scaled(np.sqrt(_variance(sums, 0)), (np.sqrt(low), np.sqrt(high)), _unit(sums, 0))]
        case Covariance():
            return [_scaled(_covariance(sums), covariance_ends(sums, miss), _unit(sums, 0) * _unit(sums, 1))]
        case Correlation():
            return [_scaled(_correlation(sums), correlation_ends(sums, miss), 1.0)]


def _scaled(value: FloatArray, ends: Ends, unit: float) -> Told:
    return np.clip(value, *ends) * unit, ends[0] * unit, ends[1] * unit


def _unit(sums: MomentSums, place: int) -> float:
    """Half the width of a column's bounds."""
    return half_of(sums.noise.sums, place) * float(sums.noise.sums.columns[place].bounds.step)


def _variance(sums: MomentSums, place: int) -> FloatArray:
    n = np.maximum(sums.number, 1.0)
    value = np.clip(sums.second[place, place] / n - (sums.first[place] / n) ** 2, 0.0, 1.0)
    return np.where(sums.number >= 1, value, 0.5)


def _covariance(sums: MomentSums) -> FloatArray:
    n = np.maximum(sums.number, 1.0)
    value = sums.second[0, 1] / n - sums.first[0] * sums.first[1] / n**2
    return np.where(sums.number >= 1, np.clip(value, -1.0, 1.0), 0.0)


def _correlation(sums: MomentSums) -> FloatArray:
    v, w, c = _variance(sums, 0), _variance(sums, 1), _covariance(sums)
    varies = (v > 0) & (w > 0) & (sums.number >= 1)
    return np.clip(np.where(varies, c / np.sqrt(np.where(varies, v * w, 1.0)), 0.0), -1.0, 1.0)


def _regressed(sums: MomentSums, miss: float) -> list[Told]:
    """Intercept and slopes."""
    target, *features = sums.noise.sums.operands
    values, bars = fitted(sums, slopes_of(sums, features), miss)
    up, column = _unit(sums, target), sums.noise.sums.columns[target]
    start = column.centre * float(column.bounds.step)
    units = [up, *(up / _unit(sums, place) for place in features)]
    found = [(start * (i == 0) + values[:, i] * unit, bars[:, i] * unit) for i, unit in enumerate(units)]
    return [(value, value - bar, value + bar) for value, bar in found]
