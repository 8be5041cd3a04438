"""Plans of linear workloads: the measured sums of groups and their noise, so that the mean error bar is least.

`neartwin.mechanisms.linear.workloads` bounds each strategy's change by one unit, in units of one row's largest
contribution. Noise of the spend's kind is scaled to it, and every answer's bar follows before a row is read. The
planner tries all strategies and, for an (epsilon, delta) spend, both kinds of noise.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from neartwin.accounting.budgets import Budget, Pure
from neartwin.errors import QueryError
from neartwin.exact import FloatArray
from neartwin.losses import Composition
from neartwin.mechanisms.additive import DiscreteLaplace, Gaussian
from neartwin.mechanisms.linear.workloads import Strategy, l1_change, l2_squared_change, reach_of_laplace, strategies
from neartwin.noise import Source
from neartwin.planning.allocation import CONFIDENCE, LARGEST_SCALE, mu_squared_of
from neartwin.planning.explain import Explained, nodes
from neartwin.planning.groups import GroupPlan
from neartwin.planning.linear import (
    FINE,
    WHY,
    LinearPlan,
    contribution_of,
    entry_parts,
    norm_contribution,
    row_of,
    ways,
)
from neartwin.planning.plan import NoisyAnswer
from neartwin.planning.stage import Aggregates
from neartwin.queries.query import Query
from neartwin.queries.workloads import Resolved, Workload
from neartwin.statistics.base import ExpectedError
from neartwin.statistics.measures import Measure, Noise
from neartwin.statistics.sensitivity import Sensitivity
from neartwin.tables.types import ColumnType

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
        return NoisyAnswer(self.resolved.keys, (self.estimate(self.resolved.queries.answers(groups), self.bars),))

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
