"""First bars of a table's mean by noisy numbers of a sample of its units, for all means at once. Arithmetic only, no data.

With m the table's mean of values in [low, high] around a centre, the sample's total less m times its number of rows is the sum of
B_u y_u for y_u = t_u - m n_u, which add up to 0 over the table; so the noisy T' - m N' is X - m Y + sum (B_u - q) y_u: the noise
of both, and a sum of independent terms of mean 0. The bar holds every m that is within t(m) of it (Fieller 1954).

A unit counts for n_u <= C rows, so |y_u| <= C max(high - m, m - low), and by Cauchy sum y_u^2 <= C times the sum over rows of
(x - m)^2, which is at most (high - m) (m - low) for each of N rows, for m is their mean (Bhatia, Davis 2000).

t is the least of some bounds on the tail of D = X - m Y + S, each of which rises with the variance V of S: any of them holds.
*Union*: the noise passes t_1 with probability s miss and S passes t_2 with (1 - s) miss, by Bernstein: P(S >= t) is at most
exp(-t^2 / (2 (V + b t / 3))) for terms of size at most b (Boucheron, Lugosi, Massart 2013, corollary 2.11).
*Together*: P(|D| > t) <= 2 exp(-l t) E exp(l D) for each l, where E exp(l S) <= exp(l^2 V / (2 (1 - b l / 3))) for terms of
size at most b (Boucheron, Lugosi, Massart 2013, sec. 2.8), and the noise is within a step of a Laplace or normal variable, whose
moments are known (`neartwin.mechanisms.sums_of_noises`).

Either holds on each side with half of `miss`. They cost little and are 1.4 times the least where noise is small:
`neartwin.queries.sample_mean_ends` looks closer at the means that they leave.
"""

import math

import numpy as np

from neartwin.exact import FloatArray
from neartwin.mechanisms.laws import GeometricLaw, RoundedGaussianLaw
from neartwin.mechanisms.sums_of_noises import half_widths_of_sums
from neartwin.queries.mean_bars import Thresholds
from neartwin.queries.plan import GroupPlan
from neartwin.queries.sample_bars import SampleBars
from neartwin.queries.stage import GridColumn

_CELLS = 24  # of the column's range
_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)  # of what may fail, for the noise
_TRIED = 40  # values of l


def sampled_thresholds(
    plan: GroupPlan, column: GridColumn, measures: tuple[str, str], rows: FloatArray, bars: SampleBars
) -> Thresholds:
    """T by cells of means and groups, (cells, groups), for the noisy total and number of a sample. measures: their names.

    rows: (groups,) at most so many in the table.
    """
    edges = np.linspace(column.low, column.high, _CELLS + 1)
    left, right = edges[:-1], edges[1:]
    far = np.maximum(np.abs(left), np.abs(right))
    nearest = np.clip((column.low + column.high) / 2, left, right)  # to the middle, where rows vary most
    varies = (column.high - nearest) * (nearest - column.low)
    largest = plan.bounding.rows_per_group * np.maximum(column.high - left, right - column.low)
    rate, miss = bars.rate, bars.miss
    variance = rate * (1 - rate) * plan.bounding.rows_per_group * varies[:, None] * rows[None, :]
    size = max(rate, 1 - rate) * largest[:, None]
    total, number = (plan.measures[name] for name in measures)
    laws = total.mechanism.law, number.mechanism.law
    weights = np.stack([np.full(_CELLS, 1 / total.parts), far / number.parts])
    found = np.full(variance.shape, np.inf)
    for share in _SHARES:
        noise = half_widths_of_sums(laws, weights, 1 - share * miss)
        found = np.minimum(found, noise[:, None] + _bernstein(variance, size, (1 - share) * miss / 2))
    found = np.minimum(found, _together(laws, weights, variance, size, miss))
    return Thresholds(edges, found * (1 + 1e-9))


def _bernstein(variance: FloatArray, size: FloatArray, miss: float) -> FloatArray:
    """What a sum of terms of mean 0 passes, on one side, with probability at most `miss`."""
    many = math.log(1 / miss)
    b = size * many / 3
    found: FloatArray = (b + np.sqrt(b * b + 2 * variance * many)) * (1 + 1e-9)
    return found


def _together(
    laws: tuple[object, object], weights: FloatArray, variance: FloatArray, size: FloatArray, miss: float
) -> FloatArray:
    """The least over some l of (ln(2 / miss) + ln E exp(l D)) / l, and what rounding the noise adds."""
    if all(isinstance(law, GeometricLaw) for law in laws):
        scales = np.array([[float(law.scale)] for law in laws if isinstance(law, GeometricLaw)]) * weights
        reach, slack = 1 / np.maximum(scales.max(axis=0), 1e-300), weights.sum(axis=0)
    elif all(isinstance(law, RoundedGaussianLaw) for law in laws):
        scales = (
            np.array([[float(law.normal_variance)] for law in laws if isinstance(law, RoundedGaussianLaw)]) * weights**2
        )
        reach, slack = np.full(weights.shape[1], np.inf), weights.sum(axis=0) / 2
    else:
        return np.full(variance.shape, np.inf)
    limit = np.minimum(reach[:, None], 3 / size)
    best = np.full(variance.shape, np.inf)
    for part in np.geomspace(1e-4, 0.98, _TRIED):
        at = part * limit
        if isinstance(laws[0], GeometricLaw):
            noise = -np.log1p(-((scales[:, :, None] * at[None]) ** 2)).sum(axis=0)
        else:
            noise = scales.sum(axis=0)[:, None] * at**2 / 2
        sample = at**2 * variance / (2 * (1 - size * at / 3))
        best = np.minimum(best, (math.log(2 / miss) + noise + sample) / at)
    found: FloatArray = best + slack[:, None]
    return found
