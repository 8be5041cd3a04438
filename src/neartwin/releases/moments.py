"""Statistics from noisy moments: variance, standard deviation, covariance, correlation, regression. Post-processing."""

from collections.abc import Mapping

import numpy as np

from neartwin.exact import WholeNumbers
from neartwin.queries.measuring import number_measure
from neartwin.queries.moment_statistics import moment_values
from neartwin.queries.moment_sums import MomentNoise, MomentSums, half_of
from neartwin.queries.moments import MomentStatistic, moment_set
from neartwin.queries.plan import GroupPlan
from neartwin.queries.statistics import columns_of
from neartwin.releases.release import UNBOUNDED, Statistic


def moment_statistics(
    plan: GroupPlan, name: str, statistic: MomentStatistic, noisy: Mapping[str, WholeNumbers], confidence: float
) -> tuple[Statistic, ...]:
    """A statistic of every group, a regression as several; each bar holds with probability at least `confidence`."""
    made = moment_values(_sums(plan, statistic, noisy), statistic, 1 - confidence)
    names, told = columns_of(name, statistic), []
    for one, ends in zip(names, made, strict=True):
        value, low, high = (np.clip(np.nan_to_num(end), -UNBOUNDED, UNBOUNDED).tolist() for end in ends)
        told.append(Statistic(name=one, what=str(statistic), values=tuple(value), lower=tuple(low), upper=tuple(high)))
    return tuple(told)


def _sums(plan: GroupPlan, statistic: MomentStatistic, noisy: Mapping[str, WholeNumbers]) -> MomentSums:
    sums = moment_set(plan.query.table, statistic)
    noise, half = MomentNoise.of(plan, sums), [half_of(sums, place) for place in range(len(sums.columns))]

    def taken(measure: str) -> np.ndarray:
        return noisy[measure].astype(float) / plan.measures[measure].parts

    number = taken(number_measure(sums, plan.bounding))
    first = tuple(taken(f"total:{sums.first(place).name}") / half[place] for place in range(len(half)))
    second = {
        (i, j): taken(f"total:{sums.second(i, j).name}") / (half[i] * half[j]) + noise.centres[i, j] * number
        for i, j in sums.pairs
    }
    return MomentSums(noise, number, first, second)
