"""Plans of margins and of linear workloads: they measure sums of groups, and answers follow by least squares.

**Workloads and margins of norm-clipped units.** Behind both is one statistic of every group, clipped as in
`neartwin.planning.stage`. A unit's vector x over the groups, in parts of a step, has |x|^2 <= limit^2 / weight^2. It is
of whole numbers, so |x|^2 is at most the whole part of that. A replaced unit moves the groups by x - x'. Its squared
length is at most twice that if entries are never negative, because then x . x' >= 0, and otherwise four times
(`neartwin.planning.norm_clipping`). Call the largest of these c^2. Noise N(0, s2) on every group is mu-GDP for mu^2 =
c^2 / s2 (Dong, Roth, Su 2022, Thm 2.7).

*Every group alone is the best that can be measured.* Let a table A of sums of groups be measured with unit noise
instead, in units where c = 1. A unit may be anywhere within the norm. So A is mu-GDP only if |A x| <= mu |x| for all x,
at least for those of one sign. If sums have no negative weights, as in trees, prefixes and margins, A^T A has a largest
eigenvector of one sign. Hence G = A^T A <= mu^2 I. Then G^-1 >= mu^-2 I, and every answer q has variance q . G^-1 q >=
|q|^2 / mu^2: that of the groups alone. So sums gain nothing under a norm. Under caps they do, because a unit is then in
few groups.
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

FINE = 2**16  # the least noise in parts of a step, so that its rounding is negligible
_MEAN_OF_NORMAL = 0.41  # the mean absolute value of normal noise, in bars of releases
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
        ((name, statistic),) = self.outputs.items()
        return name, statistic

    @property
    @abstractmethod
    def groups_counted(self) -> float:
        """The number of groups that an answer counts, by the size of their weights."""

    def error_within(self, bounds: ContributionBounds, loss: Loss, importance: Mapping[str, Number]) -> float:
        """The expected error of an answer, or of a cell of each margin, if the norm alone is chosen privately.

        Args:
            bounds: The candidate bounds.
            loss: The expected loss under them.
            importance: Not used: there is one statistic.

        Returns:
            The expected error, in rows.
        """
        del importance
        noise = _MEAN_OF_NORMAL * self.error * float((bounds.norm or 1) / (self.bounding.norm or 1))
        return noise + (self.statistic[1].lost(loss.rows * self.groups_counted, 0.0) or 0.0)

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
        groups: The number of groups.
    """

    squared: int
    groups: int

    @property
    def l1(self) -> int:
        """The largest change of all groups, in absolute sum."""
        return math.isqrt(self.squared * self.groups)

    def cell(self, groups: int) -> int:
        """The largest change of a sum of so many groups."""
        return math.isqrt(self.l2_squared(groups))

    def l2_squared(self, groups: int) -> int:
        """The largest squared change of disjoint sums of so many groups each."""
        return self.squared * groups


def norm_contribution(base: GroupPlan) -> NormContribution:
    """The contribution to the one measure of a plan under a norm, over public groups."""
    (measure,) = base.measures.values()
    return NormContribution(measure.sensitivity.l2_squared, len(base.stage.keys or ()))


def entry_parts(stage: Stage) -> int:
    """The parts of a step in which the one measure of a stage counts: more than 1 if a norm weights it."""
    if stage.clip is None:
        return 1
    (coordinate,) = stage.clip.coordinates.values()
    return coordinate.parts


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
