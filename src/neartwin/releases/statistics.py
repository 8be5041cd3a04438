"""The statistics of a table from noisy numbers, whether all of it was asked or a sample of its units."""

from neartwin.queries.plan import GroupPlan
from neartwin.releases.estimates import Noisy, Trees, whole_statistics
from neartwin.releases.release import Statistic
from neartwin.releases.sampled import sampled_statistics


def statistics_of(plan: GroupPlan, noisy: Noisy, trees: Trees, confidence: float) -> tuple[Statistic, ...]:
    """Every statistic of every group, several for a list of quantiles.

    noisy: (groups,) by measure; trees: by measure, (groups, nodes) a level. Each bar holds with probability at least
    `confidence` over the noise alone, or where the plan is sampled over noise and sample.
    """
    answer = whole_statistics if plan.sampled is None else sampled_statistics
    return answer(plan, noisy, trees, confidence)
