"""How far off each statistic will be, known before anything is spent: it follows from the plan alone."""

import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin.error_bars.moment_noise import MomentNoise, MomentSums
from neartwin.error_bars.moments import moment_values
from neartwin.error_bars.sums_means import sum_half_width, thresholds
from neartwin.mechanisms.linear.ranks import Ranks, looks
from neartwin.planning.marginals import half_width
from neartwin.planning.measures import (
    cell_measure,
    count_measure,
    filled_measure,
    grid_column,
    histogram_column,
    quantile_column,
)
from neartwin.planning.plan import GroupPlan, MarginalPlan, Plan, TopKPlan, WorkloadPlan
from neartwin.queries.groups import named
from neartwin.queries.histograms import Histogram
from neartwin.queries.moments import (
    Coefficient,
    Correlation,
    Covariance,
    Deviation,
    MomentStatistic,
    Regression,
    Variance,
    moment_set,
)
from neartwin.queries.quantiles import MinMax, Quantile
from neartwin.queries.statistics import Count, CountDistinctUnits, Mean, Sum, columns_of

GROUP_SIZES = (10, 100, 1_000, 10_000, 100_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedError:
    """The error of one statistic around its bounded value.

    half_width: the error bar at `confidence`, in the statistic's own unit; None where it depends on the size of the group.
    by_size: upper bounds on the error bar by number of values in the group, for means; for quantiles, of the
    rank as a share of them. says: in words.
    """

    name: str
    confidence: float
    half_width: Fraction | None
    by_size: tuple[tuple[int, float], ...]
    says: str


def expected_errors(plan: Plan, *, confidence: float = 0.95) -> tuple[ExpectedError, ...]:
    """The expected error of each statistic of a plan. Touches no data."""
    if isinstance(plan, TopKPlan):
        return _of_choice(plan, confidence)
    if isinstance(plan, WorkloadPlan):
        return (_of_workload(plan, confidence),)
    if isinstance(plan, MarginalPlan):
        return _of_margins(plan, confidence)
    errors = []
    for name, aggregate in plan.outputs.items():
        match aggregate:
            case Sum():
                column = grid_column(plan.query, aggregate)
                steps = sum_half_width(plan, column, confidence)
                errors.append(_fixed(name, steps * column.bounds.step, confidence))
            case Histogram():
                bins = plan.measures[cell_measure(histogram_column(plan.query, aggregate))]
                errors.append(_fixed(name, bins.half_width(confidence), confidence))
            case Quantile() | MinMax():
                errors += _of_order(plan, name, aggregate, confidence)
            case Mean():
                errors.append(_of_mean(plan, name, aggregate, confidence))
            case Variance() | Deviation() | Covariance() | Correlation() | Regression() | Coefficient():
                errors += _of_moments(plan, name, aggregate, confidence)
            case Count() | CountDistinctUnits():
                measure = plan.measures[count_measure(plan.query, aggregate, plan.bounding)]
                errors.append(_fixed(name, measure.half_width(confidence), confidence))
    return tuple(errors)


def _fixed(name: str, width: Fraction, confidence: float) -> ExpectedError:
    return ExpectedError(
        name=name, confidence=confidence, half_width=width, by_size=(), says=f"± {float(width):,.6g} in every group"
    )


def _of_mean(plan: GroupPlan, name: str, aggregate: Mean, confidence: float) -> ExpectedError:
    """Of the bar around T' / N' for n values: t over N', with N' above n - b but for (1 - confidence) / 2. See `mean_bars`."""
    column = grid_column(plan.query, aggregate)
    total, number = plan.measures[f"total:{column.name}"], plan.measures[filled_measure(column, plan.bounding)]
    reach = float(thresholds(total, number, column, confidence).reach.max())
    b, step = float(number.half_width((1 + confidence) / 2)), float(column.bounds.step)
    whole = float(column.bounds.high - column.bounds.low)
    by_size = tuple((n, min(whole, step * reach / (n - b)) if n > b else whole) for n in GROUP_SIZES)
    sizes = ", ".join(f"± {width:.3g} at n = {n:,}" for n, width in by_size)
    return ExpectedError(name=name, confidence=confidence, half_width=None, by_size=by_size, says=f"at most {sizes}")


def _of_order(plan: GroupPlan, name: str, aggregate: Quantile | MinMax, confidence: float) -> list[ExpectedError]:
    """In rows: which values lie so many rows away is private. by_size: as a share of all values."""
    column = quantile_column(plan.query, aggregate)
    measure = plan.measures[cell_measure(column)]
    ranks = Ranks(plan.splits[measure.name].tree, measure.mechanism.law)
    step = f"on a grid with steps of {float(column.bounds.step):g}"
    if isinstance(aggregate, MinMax):
        width = float(ranks.bars(1.0 if aggregate.end == "maximum" else 0.0, 2 * confidence - 1).max()) / measure.parts
        return [_by_rank(name, width, f"about {width:,.0f} values or fewer lie beyond it, {step}", confidence)]
    found = []
    ((_, share), *_) = looks(ranks.tree)
    for rank, label in zip(map(float, aggregate.ranks), aggregate.labels(name), strict=True):
        width = float(ranks.bars(rank, 1 - share * (1 - confidence)).max()) / measure.parts
        found.append(_by_rank(label, width, f"at most {width:,.0f} values off its rank, {step}", confidence))
    return found


def _by_rank(name: str, width: float, says: str, confidence: float) -> ExpectedError:
    by_size = tuple((n, min(1.0, width / n)) for n in GROUP_SIZES)
    return ExpectedError(name=name, confidence=confidence, half_width=None, by_size=by_size, says=says)


def _of_moments(plan: GroupPlan, name: str, aggregate: MomentStatistic, confidence: float) -> list[ExpectedError]:
    """The release's own bars, at sums without noise of columns that do not depend on each other.

    Their means lie a quarter of the bounds' half-width h above the middle, and their standard deviations are h / 2.
    """
    sums = moment_set(plan.query.table, aggregate)
    n = np.array(GROUP_SIZES, dtype=float)
    first = tuple(n / 4 for _ in sums.columns)
    second = {(i, j): n * (1 / 16 + (i == j) / 4) for i, j in sums.pairs}
    told = moment_values(MomentSums(MomentNoise.of(plan, sums), n, first, second), aggregate, 1 - confidence)
    found = []
    for label, (_, low, high) in zip(columns_of(name, aggregate), told, strict=True):
        widths = np.clip((high - low) / 2, 0.0, sys.float_info.max).tolist()
        by_size = tuple(zip(GROUP_SIZES, widths, strict=True))
        proven = [f"± {width:.3g} at n = {size:,}" for size, width in by_size if width < sys.float_info.max]
        few = [f"no bar is proven at n = {size:,}" for size, width in by_size if width == sys.float_info.max][-1:]
        says = "about " * bool(proven) + ", ".join([*proven, *few])
        found.append(ExpectedError(name=label, confidence=confidence, half_width=None, by_size=by_size, says=says))
    return found


def _of_margins(plan: MarginalPlan, confidence: float) -> tuple[ExpectedError, ...]:
    """The same for every group of a margin."""
    ((name, _),) = plan.outputs.items()
    columns = plan.query.groups.columns
    return tuple(
        _fixed(
            f"{name} by {named(columns, margin)}",
            Fraction(half_width(plan, margin, confidence)) * plan.unit,
            confidence,
        )
        for margin in plan.query.groups.margins
    )


def _of_workload(plan: WorkloadPlan, confidence: float) -> ExpectedError:
    """The widest bar, with the least and the mean in words."""
    from neartwin.planning.workloads import bars_of

    ((name, _),) = plan.outputs.items()
    bars = bars_of(plan.resolved.queries, plan.strategy, plan.measure, confidence).values * float(plan.unit)
    says = f"± {bars.min():,.4g} to {bars.max():,.4g} by answer, ± {bars.mean():,.4g} on average"
    return ExpectedError(
        name=name, confidence=confidence, half_width=Fraction(float(bars.max())), by_size=(), says=says
    )


def _of_choice(plan: TopKPlan, confidence: float) -> tuple[ExpectedError, ...]:
    """Each winner's count is within t ln(m / beta) of the best left: McKenna, Sheldon 2020; a union over the k choices."""
    from math import ceil, log

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
    return (chosen, _fixed("count", plan.counts.half_width(confidence), confidence))
