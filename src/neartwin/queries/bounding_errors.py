"""What bounds of contributions are expected to cost, from noisy counts of units by octaves of groups and of rows in a group.

The error of bounds is the mean absolute noise of each statistic, in rows, and the rows that it loses: of a group its even share;
of an answer over groups (a range, a margin's cell) those of all the groups that it counts, by the size of their weights. A unit
in k groups with n rows in each is taken to have a norm of n sqrt(k). All of it is an estimate, which decides bounds and no noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from neartwin.exact import FloatArray, rational
from neartwin.mechanisms.geometric import Geometric
from neartwin.mechanisms.workloads import Intervals
from neartwin.queries.histograms import Histogram
from neartwin.queries.margins import values_of
from neartwin.queries.measuring import count_measure, grid_column
from neartwin.queries.plan import GroupPlan, MarginalPlan, Measure, OverGroups, Pilot, WorkloadPlan
from neartwin.queries.statistics import Count, CountUnits, Mean, Sum

CONFIDENCE = 0.95
OCTAVES = tuple(2**i for i in range(13))
_OF_NORMAL = 0.41  # the mean absolute value of noise in bars at that confidence, of either law
_OF_LAPLACE = 1 / 3


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept within bounds: rows, and pairs of a unit and a group."""

    rows: float
    pairs: float


def within_caps(units: FloatArray, rows: float, groups: float) -> Kept:
    """Where a unit counts for so many rows in a group and in so many groups. units: (octaves, octaves) by groups and rows."""
    per_unit, per_group = _means(groups, len(units)), _means(rows, len(units))
    return Kept(float(per_unit @ units @ per_group), float(per_unit @ units.sum(axis=1)))


def within_norm(units: FloatArray, norm: float) -> Kept:
    """Where each unit is scaled down to a norm."""
    groups, rows = _means(math.inf, len(units))[:, None], _means(math.inf, len(units))[None, :]
    share = np.minimum(1.0, norm / (rows * np.sqrt(groups)))
    return Kept(float((units * groups * rows * share).sum()), float((units * groups * share).sum()))


def _means(bound: float, octaves: int) -> FloatArray:
    """The mean of min(x, bound) in each octave, for x spread evenly by its logarithm; the last octave is its least value."""
    found = []
    for low in OCTAVES[: octaves - 1]:
        values = np.arange(low, 2 * low)
        found.append(float(np.average(np.minimum(values, bound), weights=1.0 / values)))
    return np.array([*found, min(float(OCTAVES[octaves - 1]), bound)])


def error_of_caps(plan: GroupPlan, pilot: Pilot, units: FloatArray, bounds: tuple[int, int]) -> float:
    """Expected error over the statistics at rows_per_group and groups_per_unit, in rows a group."""
    whole, kept = within_caps(units, math.inf, math.inf), within_caps(units, *bounds)
    return _of_groups(plan, pilot, whole, kept, lambda asked: _noise_of_caps(plan, asked, bounds))


def error_of_norm(plan: OverGroups, pilot: Pilot, units: FloatArray, norm: int) -> float:
    """Expected error at a norm, in rows: over the statistics of a group, or of an answer, or over the margins of a cell each."""
    whole, kept = within_caps(units, math.inf, math.inf), within_norm(units, norm)
    match plan:
        case GroupPlan():
            return _of_groups(plan, pilot, whole, kept, lambda asked: _noise_of_norm(plan, asked, norm))
        case MarginalPlan() | WorkloadPlan():
            noise = _OF_NORMAL * plan.error * norm / float(plan.bounding.norm_per_unit or 1)
            (asked,) = plan.outputs.values()
            value = 1 / 2 if isinstance(asked, Sum) else 1
            return noise + value * (whole.rows - kept.rows) / pilot.expected_groups * groups_counted(plan)
        case _:
            assert_never(plan)


def groups_counted(plan: MarginalPlan | WorkloadPlan) -> float:
    """How many groups an answer counts, by size of weights: the mean over a workload, or a cell of each margin at once."""
    if isinstance(plan, WorkloadPlan):
        queries = plan.resolved.queries
        if isinstance(queries, Intervals):
            return float((queries.last - queries.first + 1).mean())
        return float(np.abs(queries.table).sum(axis=1).mean())
    groups = plan.query.groups
    sizes = [len(values) for values in values_of(len(groups.columns), groups.keys or ())]
    return float(sum(math.prod(size for i, size in enumerate(sizes) if i not in margin) for margin in groups.margins))


def _of_groups(plan: GroupPlan, pilot: Pilot, whole: Kept, kept: Kept, noise_of: Callable[[object], float]) -> float:
    weights, error = dict(pilot.weights), 0.0
    for name, aggregate in plan.query.aggregates.items():
        share = 1 / pilot.expected_groups
        size, rows_lost = noise_of(aggregate), (whole.rows - kept.rows) * share
        if isinstance(aggregate, CountUnits):
            lost = (whole.pairs - kept.pairs) * share
        elif isinstance(aggregate, Count):
            lost = rows_lost
        elif isinstance(aggregate, Sum):
            lost = rows_lost / 2
        elif isinstance(aggregate, Histogram):
            lost = rows_lost / len(aggregate.labels)
        else:
            lost, size = 0.0, size * whole.rows / max(kept.rows, 1.0)
        error += float(rational(weight=weights.get(name, 1))) * (size + lost)
    return error


def _noise_of_norm(plan: GroupPlan, aggregate: object, norm: float) -> float:
    """The mean absolute noise of a statistic at another norm than the plan's, in rows."""
    measure = _measure(plan, aggregate)
    name = measure.name.partition(":")[2]
    cell = plan.stage.grid.get(name) or plan.stage.moments.get(name)
    far = max(abs(cell.low), abs(cell.high)) if cell is not None and measure.name.startswith("total") else 1
    return _OF_NORMAL * float(measure.half_width(CONFIDENCE)) / far * norm / float(plan.bounding.norm_per_unit or 1)


def _noise_of_caps(plan: GroupPlan, aggregate: object, bounds: tuple[int, int]) -> float:
    """The mean absolute noise of a statistic at other bounds than the plan's, in rows: grows with C, and with k or its root."""
    measure = _measure(plan, aggregate)
    of_units = measure.name == "units"
    one_row = 1.0 if of_units else measure.sensitivity.cell / plan.bounding.rows_per_group
    rows = 1.0 if of_units else bounds[0] / plan.bounding.rows_per_group
    laplace = isinstance(measure.mechanism, Geometric)
    power, typical = (1.0, _OF_LAPLACE) if laplace else (0.5, _OF_NORMAL)
    width = typical * float(measure.mechanism.half_width(CONFIDENCE)) / one_row
    groups: float = (bounds[1] / plan.bounding.groups_per_unit) ** power
    return width * rows * groups


def _measure(plan: GroupPlan, aggregate: object) -> Measure:
    """The measure whose noise is most of a statistic's error."""
    if isinstance(aggregate, Count | CountUnits):
        return plan.measures[count_measure(plan.query, aggregate, plan.bounding)]
    if isinstance(aggregate, Sum | Mean):
        return plan.measures[f"total:{grid_column(plan.query, aggregate).name}"]
    return max(plan.measures.values(), key=lambda measure: measure.name != "units")
