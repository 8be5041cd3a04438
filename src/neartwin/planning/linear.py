"""Plans of margins and of linear workloads: they measure sums of groups, and answers follow by least squares.

**Under a norm.** Behind both is one statistic of every group, weighted as in `neartwin.planning.stage`. A unit moves it
over all groups by at most c in length, by `sensitivity.of_norm`. Noise N(0, s2) on every group is mu-GDP for mu^2 =
c^2 / s2 (Dong, Roth, Su 2022, Thm 2.7). Margins take the length over the coarsest groups that all of them share. Then
the bound c holds for each margin.

*For a workload every group alone is the best that can be measured.* Let a table A of sums of groups be measured with
unit noise instead, in units where c = 1. A unit may be anywhere within the norm. So A is mu-GDP only if |A x| <= mu |x|
for all x, at least for those of one sign. If sums have no negative weights, as in trees and prefixes, A^T A has a
largest eigenvector of one sign. Hence G = A^T A <= mu^2 I. Then G^-1 >= mu^-2 I, and every answer q has variance q .
G^-1 q >= |q|^2 / mu^2: that of the groups alone. So sums gain nothing under a norm. Under caps they do, because a unit
is then in few groups.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

from neartwin.accounting.budgets import Approx, Budget, Pure
from neartwin.exact import FloatArray
from neartwin.mechanisms.linear.workloads import Contribution
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.planning.allocation import gdp_of, without_delta
from neartwin.planning.groups import GroupPlan
from neartwin.planning.plan import QueryPlan
from neartwin.planning.stage import Stage
from neartwin.statistics.base import Estimate, Statistic

FINE = 2**16  # the least noise in parts of a step, so that its rounding is negligible
_MEAN_OF_NOISE = 0.41  # the mean absolute value of normal noise, in bars of releases; of Laplace noise it is 0.33
WHY = "each group alone: where a norm bounds units, no sums of groups measured in their place give a smaller error"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearPlan(QueryPlan):
    """The plan of answers that add up groups, for one statistic.

    Attributes:
        unit: The value of one step.
    """

    unit: Fraction

    @property
    def statistic(self) -> tuple[str, Statistic]:
        """The one statistic and its name."""
        ((name, statistic),) = self.query.aggregates.items()
        return name, statistic

    @property
    @abstractmethod
    def groups_counted(self) -> float:
        """The number of groups that an answer counts, by the size of their weights."""

    def noise_of_limit(self, name: str) -> float:
        """The noise of an answer, or of a cell of each margin."""
        own = self.bounding
        limits = {"norm": own.norm, "rows": own.rows or own.max_rows_per_group, "max_groups": own.max_groups}
        return _MEAN_OF_NOISE * self.error / float(limits[name] or 1) / self.groups_counted

    def estimate(self, values: FloatArray, bars: FloatArray) -> Estimate:
        """The released column.

        Args:
            values: (answers,) values in steps.
            bars: (answers,) half-widths in steps.

        Returns:
            The values and bars in the statistic's unit.
        """
        values, bars = values * float(self.unit), bars * float(self.unit)
        ends = (tuple(end.tolist()) for end in (values, values - bars, values + bars))
        return Estimate(self.statistic[0], *ends)


@dataclass(frozen=True, slots=True)
class NormContribution:
    """The largest change of all groups by one unit, in parts.

    Attributes:
        squared: The squared distance of two neighbours' groups.
        alone: The squared distance of the sum of all groups.
        groups: The number of groups.
    """

    squared: int
    alone: int
    groups: int

    @property
    def l1(self) -> int:
        """The largest change of all groups, in absolute sum."""
        return math.isqrt(self.squared * self.groups)

    def cell(self, groups: int) -> int:
        """The largest change of a margin's cell, which holds so many groups."""
        return math.isqrt(self.l2_squared(groups))

    def l2_squared(self, groups: int) -> int:
        """The largest squared change of a margin whose cells hold so many groups."""
        return self.alone if groups == self.groups else self.squared


def contribution_of(base: GroupPlan) -> Contribution:
    """The contribution to the one measure of a plan under caps, in rows."""
    bounding = base.bounding
    return Contribution(
        rows=bounding.max_rows_per_group,
        groups=bounding.max_groups,
        total=bounding.total_rows,
        replaced=base.query.table.neighbours is not Neighbours.ADD_REMOVE,
        signed=is_mixed(base),
    )


def norm_contribution(base: GroupPlan) -> NormContribution:
    """The contribution to the one measure of a plan under a norm, over public groups."""
    (measure,) = base.measures.values()
    squared, halves = measure.sensitivity.l2_squared, base.query.table.neighbours is not Neighbours.ADD_REMOVE
    alone = squared // 2 if halves and not is_mixed(base) else squared
    return NormContribution(squared, alone, len(base.stage.keys or ()))


def entry_parts(stage: Stage) -> int:
    """The parts of a step in which the one measure of a stage counts."""
    (measure,) = stage.measures
    return stage.parts.get(measure, 1)


def row_of(base: GroupPlan) -> tuple[int, Fraction]:
    """The largest change of a cell by one row, in steps, and the value of a step."""
    if not base.stage.grid:
        return 1, Fraction(1)
    (column,) = base.stage.grid.values()
    return max(abs(column.low), abs(column.high), 1), column.bounds.step


def is_mixed(base: GroupPlan) -> bool:
    """Whether one row can raise a sum and another lower it: then a replaced unit can move one cell by both."""
    return any(column.low < 0 < column.high for column in base.stage.grid.values())


def ways(spend: Budget, *, norm: Fraction | None) -> list[tuple[Budget, Budget]]:
    """The ways to spend, each with its price. Only normal noise uses a delta, and only normal noise fits a norm.

    Args:
        spend: The spend.
        norm: The norm of a unit, in rows; None for caps.

    Returns:
        Pairs of the shared budget and the price.

    Raises:
        PrivacyError: A plan cannot spend it.
    """
    if not isinstance(spend, Approx):
        return [(spend, without_delta(spend))]
    normal: list[tuple[Budget, Budget]] = [(gdp_of(spend, discovers=False), spend)]
    return normal if norm is not None else [(Pure(spend.epsilon), Pure(spend.epsilon)), *normal]
