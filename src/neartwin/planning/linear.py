"""What plans of margins and of linear workloads share: sums of groups are measured, and answers follow by least squares.

Workloads and margins of norm-clipped units: what is measured, and how far one unit moves it.

Behind both is one statistic of every group, clipped as in `neartwin.planning.stage`: a unit's vector x over the groups, in
parts of a step, has |x|^2 <= limit^2 / weight^2; it is of whole numbers, so that is at most the whole part. A replaced unit
moves the groups by x - x', in squared length at most twice that where entries are never negative, for then x . x' >= 0, and
four times where they may be: `neartwin.planning.norm_clipping`. Call the largest of these c^2; noise N(0, s2) on every group is
mu-GDP for mu^2 = c^2 / s2 (Dong, Roth, Su 2022, Thm 2.7).

*Every group alone is the best that can be measured.* Let a table A of sums of groups be measured with unit noise instead, in
units where c = 1. A unit may be anywhere within the norm, so A is mu-GDP only if |A x| <= mu |x| for all x (at least those of
one sign; A^T A has a largest eigenvector of one sign where sums have no negative weights, as trees, prefixes and margins have
none): G = A^T A <= mu^2 I. Then G^-1 >= mu^-2 I, and every answer q has variance q . G^-1 q >= |q|^2 / mu^2: that of the
groups alone. So nothing is gained by sums where a norm bounds units, as it is where caps do: there a unit is in few groups.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from neartwin.accounting.budgets import Approx, Budget, Pure
from neartwin.exact import FloatArray, Number
from neartwin.planning.contribution_bounds import ContributionBounds
from neartwin.planning.groups import GroupPlan
from neartwin.planning.plan import Loss, QueryPlan
from neartwin.planning.spending import gdp_of, without_delta
from neartwin.planning.stage import Stage
from neartwin.statistics.base import Estimate, Statistic

FINE = 2**16  # the least noise in parts of a step, so that rounding it is nothing beside it
_MEAN_OF_NORMAL = 0.41  # the mean absolute value of normal noise, in bars of releases
WHY = "each group alone: where a norm bounds units, no sums of groups measured in their place give a smaller error"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearPlan(QueryPlan):
    """The plan of answers that add up groups, for one statistic.

    Attributes:
        unit: What one step is worth.
    """

    unit: Fraction

    @property
    def statistic(self) -> tuple[str, Statistic]:
        """The one statistic and its name."""
        ((name, asked),) = self.outputs.items()
        return name, asked

    @property
    @abstractmethod
    def groups_counted(self) -> float:
        """How many groups an answer counts, by size of weights."""

    def error_within(self, bounds: ContributionBounds, loss: Loss, importance: Mapping[str, Number]) -> float:
        """Of an answer, or of a cell of each margin. Privately chosen is the norm alone."""
        del importance
        noise = _MEAN_OF_NORMAL * self.error * float((bounds.norm or 1) / (self.bounding.norm or 1))
        return noise + (self.statistic[1].lost(loss.rows * self.groups_counted, 0.0) or 0.0)

    def estimate(self, values: FloatArray, bars: FloatArray) -> Estimate:
        """The released column. values, bars: (answers,) in steps."""
        values, bars = values * float(self.unit), bars * float(self.unit)
        ends = (tuple(end.tolist()) for end in (values, values - bars, values + bars))
        return Estimate(self.statistic[0], *ends)


@dataclass(frozen=True, slots=True)
class NormContribution:
    """What one unit can do to all groups, in parts. squared: of the distance of two neighbours' groups; groups: how many."""

    squared: int
    groups: int

    @property
    def l1(self) -> int:
        """The most that all groups move, in absolute sum."""
        return math.isqrt(self.squared * self.groups)

    def cell(self, groups: int) -> int:
        """The most that a sum of so many groups moves."""
        return math.isqrt(self.l2_squared(groups))

    def l2_squared(self, groups: int) -> int:
        """The most that sums of so many groups each, none of them in two, move together in squared length."""
        return self.squared * groups


def norm_contribution(base: GroupPlan) -> NormContribution:
    """Of the one measure of a plan under a norm, over public groups."""
    (measure,) = base.measures.values()
    return NormContribution(measure.sensitivity.l2_squared, len(base.stage.keys or ()))


def entry_parts(stage: Stage) -> int:
    """Parts of a step in which the one measure of a stage comes: more than 1 where a norm weights it."""
    if stage.clip is None:
        return 1
    (coordinate,) = stage.clip.coordinates.values()
    return coordinate.parts


def row_of(base: GroupPlan) -> tuple[int, Fraction]:
    """The most that one row adds to a cell, in steps, and what a step is worth."""
    if not base.stage.grid:
        return 1, Fraction(1)
    (column,) = base.stage.grid.values()
    return max(abs(column.low), abs(column.high), 1), column.bounds.step


def is_mixed(base: GroupPlan) -> bool:
    """Whether a row can raise a sum and another lower it: then a replaced unit can move one cell by both."""
    return any(column.low < 0 < column.high for column in base.stage.grid.values())


def ways(spend: Budget, *, norm: Fraction | None) -> list[tuple[Budget, Budget]]:
    """What is shared, and the price. Only normal noise uses a delta, and it alone bounds a norm."""
    if not isinstance(spend, Approx):
        return [(spend, without_delta(spend))]
    normal: list[tuple[Budget, Budget]] = [(gdp_of(spend, discovers=False), spend)]
    return normal if norm is not None else [(Pure(spend.epsilon), Pure(spend.epsilon)), *normal]
