"""How far off each statistic will be, known before anything is spent: it follows from the plan alone."""

from fractions import Fraction
from math import ceil, log

from neartwin.planning.context import planned_context
from neartwin.planning.marginals import half_width
from neartwin.planning.plan import MarginalPlan, Plan, TopKPlan, WorkloadPlan
from neartwin.planning.workloads import bars_of
from neartwin.queries.groups import named
from neartwin.statistics.base import ExpectedError, same_everywhere


def expected_errors(plan: Plan, *, confidence: float = 0.95) -> tuple[ExpectedError, ...]:
    """The expected error of each statistic of a plan. Touches no data."""
    if isinstance(plan, TopKPlan):
        return _of_choice(plan, confidence)
    if isinstance(plan, WorkloadPlan):
        return (_of_workload(plan, confidence),)
    if isinstance(plan, MarginalPlan):
        return _of_margins(plan, confidence)
    context = planned_context(plan)
    return tuple(error for name, asked in plan.outputs.items() for error in asked.expected(name, context, confidence))


def _of_margins(plan: MarginalPlan, confidence: float) -> tuple[ExpectedError, ...]:
    """The same for every group of a margin."""
    ((name, _),) = plan.outputs.items()
    columns = plan.query.groups.columns
    return tuple(
        same_everywhere(
            f"{name} by {named(columns, margin)}",
            Fraction(half_width(plan, margin, confidence)) * plan.unit,
            confidence,
        )
        for margin in plan.query.groups.margins
    )


def _of_workload(plan: WorkloadPlan, confidence: float) -> ExpectedError:
    """The widest bar, with the least and the mean in words."""
    ((name, _),) = plan.outputs.items()
    bars = bars_of(plan.resolved.queries, plan.strategy, plan.measure, confidence).values * float(plan.unit)
    says = f"± {bars.min():,.4g} to {bars.max():,.4g} by answer, ± {bars.mean():,.4g} on average"
    return ExpectedError(
        name=name, confidence=confidence, half_width=Fraction(float(bars.max())), by_size=(), says=says
    )


def _of_choice(plan: TopKPlan, confidence: float) -> tuple[ExpectedError, ...]:
    """Each winner's count is within t ln(m / beta) of the best left: McKenna, Sheldon 2020; a union over the k choices."""
    k = plan.query.k
    gap = ceil(float(plan.mechanism.each.scale) * log(len(plan.query.among) * k / (1 - confidence)))
    what = "the winner's count" if k == 1 else "each winner's count"
    best = "the largest" if k == 1 else "the largest that is left"
    chosen = ExpectedError(
        name=plan.query.column,
        confidence=confidence,
        half_width=Fraction(gap),
        by_size=(),
        says=f"{what} is within {gap:,} of {best}",
    )
    if plan.counts is None:
        return (chosen,)
    return (chosen, same_everywhere("count", plan.counts.half_width(confidence), confidence))
