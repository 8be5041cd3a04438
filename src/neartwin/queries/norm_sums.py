"""Workloads and margins of norm-clipped units: what is measured, and how far one unit moves it.

Behind both is one statistic of every group, clipped as in `neartwin.queries.norm`: a unit's vector x over the groups, in
parts of a step, has |x|^2 <= limit^2 / weight^2; it is of whole numbers, so that is at most the whole part. A replaced unit
moves the groups by x - x', in squared length at most twice that where entries are never negative, for then x . x' >= 0, and
four times where they may be: `neartwin.queries.clipping`. Call the largest of these c^2; noise N(0, s2) on every group is
mu-GDP for mu^2 = c^2 / s2 (Dong, Roth, Su 2022, Thm 2.7).

*Every group alone is the best that can be measured.* Let a table A of sums of groups be measured with unit noise instead, in
units where c = 1. A unit may be anywhere within the norm, so A is mu-GDP only if |A x| <= mu |x| for all x (at least those of
one sign; A^T A has a largest eigenvector of one sign where sums have no negative weights, as trees, prefixes and margins have
none): G = A^T A <= mu^2 I. Then G^-1 >= mu^-2 I, and every answer q has variance q . G^-1 q >= |q|^2 / mu^2: that of the
groups alone. So nothing is gained by sums where a norm bounds units, as it is where caps do: there a unit is in few groups.
"""

import math
from dataclasses import dataclass

from neartwin.accounting.targets import Pure, Target
from neartwin.mechanisms.gaussian import Gaussian
from neartwin.queries.plan import GroupPlan
from neartwin.queries.stage import Stage

WHY = "each group alone: where a norm bounds units, no sums of groups measured in their place give a smaller error"


@dataclass(frozen=True, slots=True)
class NormReach:
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


def norm_reach(base: GroupPlan) -> NormReach:
    """Of the one measure of a plan under a norm, over public groups."""
    (measure,) = base.measures.values()
    if not isinstance(measure.mechanism, Gaussian) or base.stage.keys is None:
        raise TypeError("a norm has normal noise, and margins and workloads have public groups")
    return NormReach(measure.mechanism.l2_squared, len(base.stage.keys))


def entry_parts(stage: Stage) -> int:
    """Parts of a step in which the one measure of a stage comes: more than 1 where a norm weights it."""
    if stage.clip is None:
        return 1
    ((_, one),) = stage.clip.coordinates.items()
    return one.parts


def normal_ways(ways: list[tuple[Target, Target]]) -> list[tuple[Target, Target]]:
    """Those of a spend that pay for normal noise, which alone a norm bounds."""
    return [(way, price) for way, price in ways if not isinstance(way, Pure)]
