"""Planning a linear workload: which sums of groups to measure, with which noise, so that the mean error bar is least.

Each strategy's change by one unit is that of `neartwin.mechanisms.linear.workloads`, in units of one row's largest
contribution; noise
of the spend's kind is scaled to it, and every answer's bar follows before a row is read. All strategies and, for an
(epsilon, delta) spend, both kinds of noise are tried.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from neartwin.accounting.budgets import Budget, Pure
from neartwin.errors import QueryError
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.mechanisms.additive.gaussian import Gaussian
from neartwin.mechanisms.linear.workloads import (
    Bars,
    Contribution,
    Queries,
    Strategy,
    l1_change,
    l2_squared_change,
    reach_of_laplace,
    strategies,
)
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.planning.allocation import LARGEST_SCALE
from neartwin.planning.marginals import CONFIDENCE, is_mixed, mu_squared_of, row_of, ways
from neartwin.planning.norm_clipping import WHY, entry_parts, norm_contribution, normal_ways
from neartwin.planning.plan import GroupPlan, WorkloadPlan
from neartwin.queries.query import Query
from neartwin.statistics.measures import Measure
from neartwin.statistics.sensitivity import Sensitivity

_FINE = 2**16  # the noise in parts of a step, so that rounding it is nothing beside it


@dataclass(frozen=True, slots=True)
class _Tried:
    strategy: Strategy
    measure: Measure
    price: Budget
    bars: Bars

    @property
    def error(self) -> float:
        return float(self.bars.values.mean())

    def __str__(self) -> str:
        kind = "discrete Laplace" if isinstance(self.measure.mechanism, DiscreteLaplace) else "normal"
        return f"{self.strategy.name}, {kind} noise: bars of ± {self.error:,.4g} steps on average"


def plan_workload(query: Query, base: GroupPlan, spend: Budget) -> WorkloadPlan:
    """The plan of a workload. base: of the same groups alone, whose statement and bounds it has."""
    groups = query.groups
    if groups.asked is None:
        raise TypeError("this question has no workload")
    resolved = groups.asked.resolved(groups.columns, groups.keys)
    size, unit = row_of(base)
    normed, entry = base.bounding.norm is not None, entry_parts(base.stage)
    payable = normal_ways(ways(spend)) if normed else ways(spend)
    found = strategies(resolved.queries, prefixes=groups.asked.kind == "prefixes")
    tried: list[_Tried] = []
    for strategy in found[:1] if normed else found:  # of which each cell alone is the first
        change = _within_norm(base) if normed else _within_caps(strategy, query, base, size)
        for way, price in payable:
            measure = _measure(strategy.name, change, way, entry)
            if measure is not None:
                tried.append(_Tried(strategy, measure, price, bars_of(resolved.queries, strategy, measure, CONFIDENCE)))
    if not tried:
        raise QueryError("workload: the noise is too wide to be drawn; spend more, or take a larger step")
    best, *others = sorted(tried, key=lambda one: one.error)
    return WorkloadPlan(
        query=query,
        bounding=base.bounding,
        spend=spend,
        price=best.price,
        stage=base.stage,
        measure=best.measure,
        strategy=best.strategy,
        resolved=resolved,
        unit=unit,
        bars=best.bars,
        why=(str(best), *((WHY,) if normed else ()), *(f"less good: {one}" for one in others[:4])),
        error=best.error / size,
    )


def bars_of(queries: Queries, strategy: Strategy, measure: Measure, confidence: float) -> Bars:
    """Each answer is within this of the truth with this probability at least, in steps.

    An answer errs by sum R_i z_i, |R|^2 = q^T H q, with z drawn in parts of a step: a normal or Laplace draw, rounded by half a
    part or by less than one (a geometric draw is the floor of an exponential one), so by at most |R|_1 <= sqrt(m) |R| parts.
    """
    spread = np.sqrt(queries.variances(strategy.h))
    mechanism = measure.mechanism
    if isinstance(mechanism, DiscreteLaplace):
        reach = reach_of_laplace(confidence) * math.sqrt(2) * float(mechanism.scale)
    else:
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(float(mechanism.variance))
    bars = spread * (reach + math.sqrt(len(strategy.table))) / measure.parts
    return Bars(bars * (1 + 1e-9))


def _within_caps(strategy: Strategy, query: Query, base: GroupPlan, size: int) -> Sensitivity:
    """In steps. All measured sums are one cell: what is known is how far they move together."""
    contribution, (cell,) = _contribution(query, base), base.measures.values()
    l1 = l1_change(strategy.table, contribution) * size
    why = f"{cell.sensitivity.why}, each in the sums that hold its groups"
    return Sensitivity(l1, l1, 1, why, l2_squared_change(strategy.gram, contribution) * size**2)


def _within_norm(base: GroupPlan) -> Sensitivity:
    """Of each group alone, in the parts that a norm's groups come in."""
    (cell,) = base.measures.values()
    reach = norm_contribution(base)
    return Sensitivity(reach.l1, reach.cell(1), reach.groups, cell.sensitivity.why, reach.l2_squared(1))


def _contribution(query: Query, base: GroupPlan) -> Contribution:
    bounding = base.bounding
    most = bounding.max_rows_per_group * bounding.max_groups
    return Contribution(
        rows=bounding.max_rows_per_group,
        groups=bounding.max_groups,
        total=min(most, bounding.rows or most),
        replaced=query.table.neighbours is not Neighbours.ADD_REMOVE,
        signed=is_mixed(base),
    )


def _measure(name: str, change: Sensitivity, way: Budget, entry: int) -> Measure | None:
    """The noise, drawn in parts of a step, `entry` of which the groups come in; None where it is too wide to be drawn."""
    if isinstance(way, Pure):
        least = change.l1 / float(way.epsilon)
        parts = 1 << max(0, math.ceil(math.log2(_FINE / least)))
        laplace = DiscreteLaplace.calibrated(epsilon=way.epsilon, sensitivity=change.l1 * parts)
        found: DiscreteLaplace | Gaussian = laplace
        wide = float(laplace.scale)
    else:
        exact = change.l2_squared / mu_squared_of(way)
        parts = 1 << max(0, math.ceil(math.log2(_FINE / math.sqrt(float(exact)))))
        variance = Fraction(math.ceil(exact * parts**2))
        found = Gaussian(variance=variance, l2_squared=change.l2_squared * parts**2)
        wide = math.sqrt(float(variance))
    if wide > LARGEST_SCALE:
        return None
    finer = Sensitivity(change.l1 * parts, change.cell * parts, change.cells, change.why, change.l2_squared * parts**2)
    return Measure(name=name, sensitivity=finer, mechanism=found, parts=parts * entry)
