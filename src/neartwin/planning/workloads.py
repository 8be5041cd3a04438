"""Plans of margins and of linear workloads: they measure sums of groups, and answers follow by least squares.

For a workload the mean error bar is least. `neartwin.mechanisms.linear.workloads` bounds each strategy's change by one unit,
in units of one row's largest contribution. Noise of the spend's kind is scaled to it, and every answer's bar follows before a
row is read. The planner tries all strategies and, for an (epsilon, delta) spend, both kinds of noise.

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

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Self

import numpy as np

from neartwin.accounting.budgets import Approx, Budget, Pure
from neartwin.errors import QueryError
from neartwin.exact import FloatArray
from neartwin.losses import Composition
from neartwin.mechanisms.additive import DiscreteLaplace, Gaussian
from neartwin.mechanisms.linear.workloads import (
    Contribution,
    Strategy,
    l1_change,
    l2_squared_change,
    reach_of_laplace,
    strategies,
)
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.noise import Source
from neartwin.planning.allocation import CONFIDENCE, LARGEST_SCALE, LOSS_FAILURE, gdp_of, mu_squared_of, without_delta
from neartwin.planning.bounding_loss import taken
from neartwin.planning.explain import Explained, nodes
from neartwin.planning.groups import GroupPlan
from neartwin.planning.plan import NoisyAnswer, QueryPlan
from neartwin.planning.stage import Aggregates, Stage
from neartwin.queries.query import Query
from neartwin.queries.workloads import Resolved, Workload
from neartwin.statistics.base import Estimate, ExpectedError, Statistic
from neartwin.statistics.measures import Measure, Noise, largest
from neartwin.statistics.sensitivity import Sensitivity
from neartwin.tables.types import ColumnType

WITH_LOSS = CONFIDENCE + 2 * LOSS_FAILURE  # of noise, where limits and clipping may have taken something
FINE = 2**16  # the least noise in parts of a step, so that its rounding is negligible
_MEAN_OF_NOISE = 0.41  # the mean absolute value of normal noise, in bars of releases; of Laplace noise it is 0.33
WHY = "each group alone: where a norm bounds units, no sums of groups measured in their place give a smaller error"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearPlan(QueryPlan):
    """The plan of answers that add up groups, for one statistic.

    Attributes:
        unit: The value of one step.
        lost: The most rows that limits took, as far as it was measured.
        clipped: The most that clipping took, in largest values.
    """

    unit: Fraction
    lost: float = 0.0
    clipped: Fraction = Fraction(0)

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

    def after_loss(self, lost: Mapping[str, Any]) -> Self:
        """The plan whose bars hold what limits and clipping took: (L13) of docs/proofs/lost-rows.md."""
        _, rows, clipped = taken(lost, units_alone=False)
        return replace(self, lost=rows, clipped=clipped)

    def estimate(self, values: FloatArray, bars: FloatArray, least: FloatArray, most: FloatArray) -> Estimate:
        """The released column.

        Args:
            values: (answers,) values in steps.
            bars: (answers,) half-widths in steps, with the confidence of `WITH_LOSS` where something was taken.
            least: (answers,) the least weight of a group, at most 0.
            most: (answers,) the largest one, at least 0.

        Returns:
            The values and bars in the statistic's unit.
        """
        (low, high), size = (0, 1), 1
        for column in self.stage.grid.values():
            low, high, size = min(column.low, 0), max(column.high, 0), largest(column)
        up, down = np.maximum(most * high, least * low), np.minimum(least * high, most * low)
        bars = bars + float(self.clipped) * size * np.maximum(most, -least)
        moves = [np.multiply(end, self.lost, out=np.zeros(len(values)), where=end != 0) for end in (down, up)]
        lower, upper = ((values + move) * float(self.unit) for move in (moves[0] - bars, moves[1] + bars))
        ends = ([end if math.isfinite(end) else None for end in side.tolist()] for side in (lower, upper))
        return Estimate(self.statistic[0], (values * float(self.unit)).tolist(), *map(tuple, ends))


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
    return largest(column), column.bounds.step


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


_ONE_ESTIMATE = (
    "All answers are sums of one estimate of the groups: sums over equal groups are equal. Rows outside the public keys are "
    "in none. Single answers may be negative or no whole numbers."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPlan(LinearPlan):
    """The plan of a `Query` for a linear workload: it measures a strategy's sums of groups with noise, and all answers
    follow.

    Attributes:
        workload: The workload of the question.
        resolved: Its queries over the public keys.
        strategy: The measured sums of groups.
        measure: The measure of those sums, in parts of a step.
        bars: (queries,) half-widths in steps at the confidence of releases. `error` is their mean, in units of one
            row's largest contribution.
    """

    kind = "workload"

    workload: Workload
    resolved: Resolved
    strategy: Strategy
    measure: Measure
    bars: FloatArray = field(compare=False)

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The columns of the workload's answers."""
        return tuple(name for name, _ in self.resolved.columns)

    @property
    def group_types(self) -> dict[str, ColumnType]:
        """The types of the columns of answers that are columns of the table; all others are text."""
        return self.resolved.typed(self.stage.table.schema)

    @property
    def groups_counted(self) -> float:
        """The number of groups that an answer counts on average."""
        return self.resolved.queries.counted()

    def _measured(self) -> dict[str, object]:
        return {
            "workload": self.workload.record(),
            "strategy": self.strategy.name,
            "measure": self.measure.mechanism.record,
            "parts": self.measure.parts,
        }

    def _losses(self) -> list[Composition]:
        return [self.measure.losses()]

    def mechanisms(self) -> Iterator[tuple[str, object]]:
        """The noise, and the sums to which it is added."""
        yield "measure", self.measure.mechanism
        yield "strategy", self.strategy

    def noised(self, answers: Sequence[Aggregates], source: Source) -> NoisyAnswer:
        """Add noise to the strategy's sums, and compute the workload's answers from them."""
        (exact,) = (answers[0].values[name] for name in self.stage.measures)
        sums = self.strategy.measured(exact).astype(object) * (self.measure.parts // entry_parts(self.stage))
        noisy = self.measure.mechanism.noisy(sums, source=source)
        groups = self.strategy.estimate(np.asarray(noisy, dtype=float) / self.measure.parts)
        queries = self.resolved.queries
        # the law of the noise is log-concave, so that P(|X| > c t) <= P(|X| > t)^c
        bars = self.bars * (math.log(1 - WITH_LOSS) / math.log(1 - CONFIDENCE) if self.lost or self.clipped else 1)
        return NoisyAnswer(self.resolved.keys, (self.estimate(queries.answers(groups), bars, *queries.extremes()),))

    def _errors(self) -> tuple[ExpectedError, ...]:
        """The widest bar, with the least and the mean in words."""
        bars = self.bars * float(self.unit)
        says = f"± {bars.min():,.4g} to {bars.max():,.4g} by answer, ± {bars.mean():,.4g} on average"
        widest = Fraction(float(bars.max()))
        return (ExpectedError(name=self.statistic[0], confidence=CONFIDENCE, half_width=widest, by_size=(), says=says),)

    def _explain_noise(self) -> tuple[Explained, ...]:
        measured = (
            f"{len(self.strategy.table):,} sums are measured ({self.strategy.name}): {self.measure.noise_in_words}"
        )
        choice = Explained("how it was chosen", nodes(*self.why))
        answers = f"{len(self.resolved.keys):,} answers ({self.workload}), by least squares from those, consistent"
        return (
            Explained(measured, (Explained(self.measure.sensitivity.why), choice)),
            Explained(answers, nodes("{} = {}".format(*self.statistic))),
        )

    def _notes_of_answers(self) -> tuple[str, ...]:
        return (_ONE_ESTIMATE,)

    def _over_groups(self) -> dict[str, Any]:
        """The workload, with the digest of its record."""
        record = json.dumps(self.workload.record(), sort_keys=True).encode()
        return {"workload": str(self.workload), "workload_sha256": hashlib.sha256(record).hexdigest()}


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A strategy with the noise that a price pays for, and its bars: (queries,) in steps."""

    strategy: Strategy
    measure: Measure
    price: Budget
    bars: FloatArray

    @property
    def error(self) -> float:
        return float(self.bars.mean())

    def __str__(self) -> str:
        kind = self.measure.mechanism.kind
        return f"{self.strategy.name}, {kind}: bars of ± {self.error:,.4g} steps on average"


def plan_workload(query: Query, workload: Workload, base: GroupPlan, spend: Budget) -> WorkloadPlan:
    """Plan a linear workload.

    Args:
        query: The query.
        workload: The workload.
        base: The plan of the same groups alone, whose statement and bounds this plan takes.
        spend: The spend.

    Returns:
        The plan with the least mean bar.

    Raises:
        QueryError: The noise is too wide to be drawn.
    """
    groups, norm = query.groups, base.bounding.norm
    resolved = workload.resolved(groups.columns, groups.keys)
    size, unit = row_of(base)
    options = strategies(resolved.queries, prefixes=workload.kind == "prefixes")
    candidates: list[_Candidate] = []
    for strategy in options[:1] if norm is not None else options:  # the first strategy is each cell alone
        spread = np.sqrt(resolved.queries.variances(strategy.h))
        change = _within_caps(strategy, base, size) if norm is None else _within_norm(base)
        for way, price in ways(spend, norm=norm):
            measure, reach = _measure(strategy.name, change, way, entry_parts(base.stage))
            if measure.mechanism.noise_scale <= LARGEST_SCALE:
                bars = spread * (reach + math.sqrt(len(strategy.table))) / measure.parts
                candidates.append(_Candidate(strategy, measure, price, bars * (1 + 1e-9)))
    if not candidates:
        raise QueryError("workload: the noise is too wide to be drawn; spend more, or take a larger step")
    best, *others = sorted(candidates, key=lambda one: one.error)
    return WorkloadPlan(
        query=query,
        bounding=base.bounding,
        spend=spend,
        price=best.price,
        stage=base.stage,
        workload=workload,
        resolved=resolved,
        strategy=best.strategy,
        measure=best.measure,
        unit=unit,
        bars=best.bars,
        why=(str(best), *((WHY,) if norm is not None else ()), *(f"less good: {one}" for one in others[:4])),
        error=best.error / size,
    )


def _within_caps(strategy: Strategy, base: GroupPlan, size: int) -> Sensitivity:
    """The sensitivity in parts. All measured sums are one cell, because only their joint change is known."""
    contribution, (cell,) = contribution_of(base), base.measures.values()
    size *= cell.parts
    l1 = l1_change(strategy.table, contribution) * size
    why = f"{cell.sensitivity.why}, each in the sums that hold its groups"
    return Sensitivity(l1, l1, 1, why, l2_squared_change(strategy.gram, contribution) * size**2)


def _within_norm(base: GroupPlan) -> Sensitivity:
    """The sensitivity of each group alone, in parts."""
    (cell,) = base.measures.values()
    reach = norm_contribution(base)
    return Sensitivity(reach.l1, reach.cell(1), reach.groups, cell.sensitivity.why, reach.l2_squared(1))


def _measure(name: str, change: Sensitivity, way: Budget, entry: int) -> tuple[Measure, float]:
    """The measure of a strategy's sums, and the reach of a sum of its noise with weights of length 1, in parts.

    An answer errs by sum R_i z_i, with |R|^2 = q^T H q and z drawn in parts of a step. The groups come in `entry` of
    these parts. A normal draw is rounded by half a part. A Laplace draw is rounded by less than one, because a
    geometric draw is the floor of an exponential one. So rounding adds at most |R|_1 <= sqrt(m) |R| parts.
    """
    noise: Noise
    if isinstance(way, Pure):
        parts = _parts(change.l1 / float(way.epsilon))
        noise = DiscreteLaplace.calibrated(epsilon=way.epsilon, sensitivity=change.l1 * parts)
        reach = reach_of_laplace(CONFIDENCE) * math.sqrt(2) * noise.noise_scale
    else:
        variance = change.l2_squared / mu_squared_of(way)
        parts = _parts(math.sqrt(float(variance)))
        noise = Gaussian(variance=Fraction(math.ceil(variance * parts**2)), l2_squared=change.l2_squared * parts**2)
        reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * noise.noise_scale
    finer = Sensitivity(change.l1 * parts, change.cell * parts, change.cells, change.why, change.l2_squared * parts**2)
    return Measure(name=name, sensitivity=finer, mechanism=noise, parts=parts * entry), reach


def _parts(scale: float) -> int:
    """The parts of a step in which noise of so many steps is drawn."""
    return 1 << max(0, math.ceil(math.log2(FINE / scale)))
