"""Tuned bounds: a first stage whose noisy counts fix max_rows_per_group and max_groups of the question itself.

The first stage is a histogram of units over (number of groups, rows in a group), both in octaves. A unit adds 1024 parts in
all, floor(1024 c / k) to each cell, for c of its k groups with so many rows: its L1 and L2 sensitivity is one unit's 1024
parts, however many rows and groups it has. The second stage is the question at the bounds chosen from the noisy histogram.
Both are paid in one reserve: adaptive composition lets a later stage depend on the noisy output of an earlier one, and the
spend is parted so that the parts compose to it whatever is chosen.

The choice is the least of: mean absolute noise, for each statistic in rows (that of the question, scaled), plus rows lost a
group (units for a count of units; half for a sum, whose values are below their bound), or of all groups that an answer of a
workload or a cell of a margin counts. A mean has no loss, but its noise is that of the total over the rows kept. All of it is
an estimate from noisy counts (`neartwin.planning.pilot_bounds`): the guarantee is promised, the choice is not.

What bounds of contributions are expected to cost, from noisy counts of units by octaves of groups and of rows in a group.

The error of bounds is the mean absolute noise of each statistic, in rows, and the rows that it loses: of a group its even share;
of an answer over groups (a range, a margin's cell) those of all the groups that it counts, by the size of their weights. A unit
in k groups with n rows in each is taken to have a norm of n sqrt(k). All of it is an estimate, which decides bounds and no noise.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, assert_never

import numpy as np

from neartwin.accounting.budgets import Approx, Budget, Gdp, Pure, Rdp, Zcdp
from neartwin.errors import ParameterError, PrivacyError, QueryError
from neartwin.exact import FloatArray, Number, WholeNumbers, rational, root_below
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.mechanisms.additive.gaussian import Gaussian
from neartwin.mechanisms.linear.workloads import Intervals
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.planning.context import planned_context
from neartwin.planning.groups import bounded_plan
from neartwin.planning.limits import Limits, PrivateLimit
from neartwin.planning.plan import GroupPlan, MarginalPlan, Pilot, Plan, QueryPlan, TopKPlan, WorkloadPlan
from neartwin.queries.groups import values_of
from neartwin.queries.query import Query, TopK
from neartwin.statistics.base import Statistic
from neartwin.tables.table import RowUnit
from neartwin.tables.types import Key

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
    """Expected error over the statistics at max_rows_per_group and max_groups, in rows a group."""
    whole, kept = within_caps(units, math.inf, math.inf), within_caps(units, *bounds)
    return _of_groups(plan, pilot, whole, kept, lambda asked: _noise_of_caps(plan, asked, bounds))


def error_of_norm(plan: QueryPlan, pilot: Pilot, units: FloatArray, norm: int) -> float:
    """Expected error at a norm, in rows: over the statistics of a group, or of an answer, or over the margins of a cell each."""
    whole, kept = within_caps(units, math.inf, math.inf), within_norm(units, norm)
    match plan:
        case GroupPlan():
            return _of_groups(plan, pilot, whole, kept, lambda asked: _noise_of_norm(plan, asked, norm))
        case MarginalPlan() | WorkloadPlan():
            noise = _OF_NORMAL * plan.error * norm / float(plan.bounding.norm or 1)
            (asked,) = plan.outputs.values()
            lost = asked.lost((whole.rows - kept.rows) / pilot.expected_groups * groups_counted(plan), 0.0)
            return noise + (lost or 0.0)
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


def _of_groups(plan: GroupPlan, pilot: Pilot, whole: Kept, kept: Kept, noise_of: Callable[[Statistic], float]) -> float:
    weights, error = dict(pilot.weights), 0.0
    for name, aggregate in plan.query.aggregates.items():
        share = 1 / pilot.expected_groups
        size = noise_of(aggregate)
        lost = aggregate.lost((whole.rows - kept.rows) * share, (whole.pairs - kept.pairs) * share)
        if lost is None:
            lost, size = 0.0, size * whole.rows / max(kept.rows, 1.0)
        error += float(rational(importance=weights.get(name, 1))) * (size + lost)
    return error


def _noise_of_norm(plan: GroupPlan, aggregate: Statistic, norm: float) -> float:
    """The mean absolute noise of a statistic at another norm than the plan's, in rows."""
    measure = plan.measures[aggregate.main_measure(planned_context(plan))]
    name = measure.name.partition(":")[2]
    cell = plan.stage.grid.get(name) or plan.stage.moments.get(name)
    far = max(abs(cell.low), abs(cell.high)) if cell is not None and measure.name.startswith("total") else 1
    return _OF_NORMAL * float(measure.half_width(CONFIDENCE)) / far * norm / float(plan.bounding.norm or 1)


def _noise_of_caps(plan: GroupPlan, aggregate: Statistic, bounds: tuple[int, int]) -> float:
    """The mean absolute noise of a statistic at other bounds than the plan's, in rows: grows with C, and with k or its root."""
    measure = plan.measures[aggregate.main_measure(planned_context(plan))]
    of_units = measure.name == "units"
    one_row = 1.0 if of_units else measure.sensitivity.cell / plan.bounding.max_rows_per_group
    rows = 1.0 if of_units else bounds[0] / plan.bounding.max_rows_per_group
    laplace = isinstance(measure.mechanism, DiscreteLaplace)
    power, typical = (1.0, _OF_LAPLACE) if laplace else (0.5, _OF_NORMAL)
    width = typical * float(measure.mechanism.half_width(CONFIDENCE)) / one_row
    groups: float = (bounds[1] / plan.bounding.max_groups) ** power
    return width * rows * groups


PARTS = 1024  # that one unit adds to the histogram
SURE = (
    0.9999  # that no cell is noise alone: one far cell of nobody would stand for millions of rows, and spoil the choice
)


def plan_within(query: Query | TopK, *, spend: Budget, limits: Limits, importance: Mapping[str, Number] | None) -> Plan:
    """The plan within limits of which some may be chosen privately."""
    if not limits.private:
        return bounded_plan(query, spend=spend, limits=limits, importance=importance)
    if not isinstance(query, Query):
        raise QueryError("private_limit(): the most common value has no limits to choose")
    return tuned_plan(query, spend=spend, limits=limits, importance=importance)


def tuned_plan(query: Query, *, spend: Budget, limits: Limits, importance: Mapping[str, Number] | None) -> QueryPlan:
    """The plan at the largest limits that may be chosen, with the pilot that will choose them; its price is the whole spend.

    limits: some of them private; for marginals and workloads the norm alone.
    """
    tuned = limits.private
    if isinstance(query.table.unit, RowUnit):
        raise QueryError("private_limit(): where each row is its own unit there is nothing to choose")
    if (query.groups.margins or query.groups.asked is not None) and tuned.keys() != {"norm"}:
        raise ParameterError(
            next(iter(tuned)),
            "private_limit()",
            "cannot be chosen privately for marginals and workloads",
            remedy="give a number, or have the norm chosen: nt.limits(norm=nt.private_limit(256))",
        )
    asked = list(tuned.values())
    share, groups = max(bound.share for bound in asked), _expected_groups(query, asked)
    first, rest = split_budget(spend, share)
    most: dict[str, Any] = {name: bound.at_most for name, bound in tuned.items()}
    if "norm" in tuned and query.groups.keys is None:
        most |= {"max_discovered_groups": most["norm"]}
    worst = bounded_plan(query, spend=rest, limits=replace(limits, **most), importance=importance)
    if isinstance(worst, TopKPlan):
        raise TypeError("a question for groups has bounds")
    nothing: dict[str, Any] = {
        "groups_per_unit": None,
        "discovery_groups": None,
        "clip": None,
        "grid": {},
        "moments": {},
    }
    stage = replace(worst.stage, measures=("parts",), rows_per_group=1, octaves=OCTAVES, **nothing)
    pilot = Pilot(
        stage=stage,
        mechanism=_noise(first, query.table.neighbours),
        rows=tuned.get("max_rows_per_group"),
        groups=tuned.get("max_groups"),
        norm=tuned.get("norm"),
        expected_groups=groups,
        weights=tuple((importance or {}).items()),
        rest=rest,
    )
    return replace(worst, spend=spend, price=price_of(spend, discovered=query.groups.keys is None), pilot=pilot)


def _expected_groups(query: Query, asked: list[PrivateLimit]) -> int:
    told = {bound.groups for bound in asked} - {None}
    if len(told) > 1:
        raise ParameterError("groups", sorted(map(str, told)), "must be the same in both private limits")
    if query.groups.keys is not None:
        return len(query.groups.keys)
    for number in told:
        if number is not None:
            return number
    raise QueryError(
        "private_limit(groups=...) is missing: say about how many groups you expect in the release, for instance "
        "nt.private_limit(256, groups=500); "
        "rows that a bound loses are weighed against noise group by group"
    )


def split_budget(spend: Budget, share: Fraction) -> tuple[Budget, Budget]:
    """Two spends that compose to one, adaptively: the first gets this share of what adds up, the second the rest and delta.

    >>> split_budget(Approx(Fraction(1), Fraction(1, 10**6)), Fraction(1, 4))
    (Pure(epsilon=Fraction(1, 4)), Approx(epsilon=Fraction(3, 4), delta=Fraction(1, 1000000)))
    """
    rest = 1 - share
    match spend:
        case Pure(epsilon=epsilon):
            return Pure(epsilon * share), Pure(epsilon * rest)
        case Approx(epsilon=epsilon, delta=delta):
            return Pure(epsilon * share), Approx(epsilon * rest, delta)
        case Zcdp(rho=rho, delta=delta):
            return Zcdp(rho * share, Fraction(0)), Zcdp(rho * rest, delta)
        case Rdp(order=order, epsilon=epsilon, delta=delta):
            return Rdp(order, epsilon * share, Fraction(0)), Rdp(order, epsilon * rest, delta)
        case Gdp(mu=mu, delta=delta):
            return Gdp(root_below(mu**2 * share), Fraction(0)), Gdp(root_below(mu**2 * rest), delta)
    raise PrivacyError(f"a plan cannot spend {spend}; spend pure, approx, zcdp, rdp or gdp")


def price_of(spend: Budget, *, discovered: bool) -> Budget:
    """The whole spend, whatever is chosen; without the delta that sums of squares need only for unknown groups."""
    if not discovered and isinstance(spend, Zcdp | Rdp | Gdp):
        return replace(spend, delta=Fraction(0))
    return spend


def _noise(spend: Budget, neighbours: Neighbours) -> DiscreteLaplace | Gaussian:
    """Native to the spend. A replaced unit takes its parts away and adds others: twice the L1, twice the squared L2."""
    both = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    squared = both * PARTS**2
    match spend:
        case Pure(epsilon=epsilon):
            return DiscreteLaplace.calibrated(epsilon=epsilon, sensitivity=both * PARTS)
        case Zcdp(rho=rho):
            return Gaussian.for_zcdp(rho=rho, l2_squared=squared)
        case Rdp(order=order, epsilon=epsilon):
            return Gaussian.for_zcdp(rho=epsilon / order, l2_squared=squared)
        case Gdp(mu=mu):
            return Gaussian.for_gdp(mu=mu, l2_squared=squared)
    raise PrivacyError(f"{spend} pays for no pilot")


@dataclass(frozen=True, slots=True)
class Choice:
    """What a pilot chose. kept: the estimated share of rows that the bounds keep, None where nothing could be seen."""

    plan: QueryPlan
    kept: float | None

    @property
    def words(self) -> tuple[str, ...]:
        """What a reader must know of the choice."""
        return (_words(self),)


def chosen(plan: QueryPlan, noisy: WholeNumbers) -> Choice:
    """The plan at the bounds that a noisy histogram suggests. noisy: (octaves^2,), cell (i, j) at i * octaves + j."""
    pilot = plan.pilot
    if pilot is None or not isinstance(plan.query, Query):
        raise TypeError("this plan has no pilot")
    bounds: dict[str, int]
    if pilot.norm is not None:
        units = _seen_by_norm(pilot, noisy, plan.query.groups.keys)
        bounds = {"norm": _best_norm(plan, pilot, pilot.norm, units)}
        kept = within_norm(units, bounds["norm"])
    elif isinstance(plan, GroupPlan):
        units = _seen(pilot, noisy)
        rows, groups = _best_caps(plan, pilot, units)
        bounds, kept = {"max_rows_per_group": rows, "max_groups": groups}, within_caps(units, rows, groups)
    else:
        raise TypeError("marginals and workloads choose their norm alone")
    made = bounded_plan(
        plan.query,
        spend=pilot.rest,
        limits=Limits(max_discovered_groups=_typical(units) if plan.query.groups.keys is None else None, **bounds),
        importance=dict(pilot.weights),
    )
    if isinstance(made, TopKPlan):
        raise TypeError("this question has no bounds")
    whole = within_caps(units, math.inf, math.inf)
    return Choice(made, kept.rows / whole.rows if whole.rows > 0 else None)


def _words(choice: Choice) -> str:
    bounding = choice.plan.bounding
    chosen_bounds = f"max_rows_per_group = {bounding.max_rows_per_group}, max_groups = {bounding.max_groups}"
    if bounding.norm is not None:
        chosen_bounds = f"norm = {float(bounding.norm):g}"
    if choice.kept is None:
        return f"Chosen privately: {chosen_bounds}, the least noise, because too few people are there to choose by."
    return (
        f"Chosen privately: {chosen_bounds}, expected to lose about {max(0.0, 1 - choice.kept):.1%} of all rows. This "
        "estimate is from noisy counts, which do not show a few heavy units. No error bar covers the bias of bounding."
    )


def _seen(pilot: Pilot, noisy: WholeNumbers) -> FloatArray:
    """Units by cell; what noise alone could be is nothing, for in far cells it would stand for many rows."""
    size = len(pilot.stage.octaves)
    cells = np.asarray(noisy, dtype=float).reshape(size, size)
    threshold = pilot.mechanism.half_width(SURE, size * size)
    found: FloatArray = np.where(cells > threshold, cells, 0.0) / PARTS
    return found


def _seen_by_norm(pilot: Pilot, noisy: WholeNumbers, keys: tuple[Key, ...] | None) -> FloatArray:
    """Units by cell, as far out as there surely are some: by norm, an octave at a time, and by groups; nothing beyond.

    A tail is thin in each cell and much in all of an octave, and lost rows are linear in the counts: within what is surely there
    noisy counts stay as they are, for those cut to nothing one by one would hide the tail, and with it most of what bounds lose.
    """
    size = len(pilot.stage.octaves)
    cells = np.asarray(noisy, dtype=float).reshape(size, size) / PARTS
    groups, rows = np.arange(size)[:, None], np.arange(size)[None, :]
    inside = np.broadcast_to(True if keys is None else np.array(OCTAVES[:size])[:, None] <= len(keys), cells.shape)
    for place, last in (
        (groups + 2 * rows, 1),
        (groups + 0 * rows, 0),
    ):  # half octaves of the norm n sqrt(k), then octaves of k
        windows = [inside & (place <= top) & (place >= top - last) for top in range(int(place.max()) + 1)]
        sure = (
            pilot.mechanism.half_width(SURE, len(windows)) / PARTS
        )  # of one cell; of m cells at most sqrt(m) times that
        reached = [top for top, cut in enumerate(windows) if cells[cut].sum() > sure * math.sqrt(cut.sum())]
        inside = inside & (place <= max(reached, default=-1))
    found: FloatArray = np.where(inside, cells, 0.0)
    return found if within_caps(found, math.inf, math.inf).rows > 0 else np.zeros_like(found)


def _typical(units: FloatArray) -> int:
    """The mean number of groups of a unit: in so many it helps to discover them, so that heavy units do not blur the search."""
    return max(1, math.ceil(within_caps(units, 1, math.inf).pairs / max(float(units.sum()), 1e-9)))


def _best_norm(plan: QueryPlan, pilot: Pilot, asked: PrivateLimit, units: FloatArray) -> int:
    if not units.any():  # too few people to tell: the least noise
        return 1
    return min(_candidates(asked, asked.at_most), key=lambda norm: error_of_norm(plan, pilot, units, norm))


def _best_caps(plan: GroupPlan, pilot: Pilot, units: FloatArray) -> tuple[int, int]:
    rows, groups = plan.bounding.max_rows_per_group, plan.bounding.max_groups
    if not units.any():
        return 1 if pilot.rows else rows, 1 if pilot.groups else groups
    candidates = [(r, g) for r in _candidates(pilot.rows, rows) for g in _candidates(pilot.groups, groups)]
    return min(candidates, key=lambda bounds: (error_of_caps(plan, pilot, units, bounds), bounds))


def _candidates(bound: PrivateLimit | None, most: int) -> Iterator[int]:
    if bound is None:
        yield most
        return
    steps = sorted({1, *(2**i for i in range(1, 31)), *(3 * 2**i for i in range(30))})
    yield from (step for step in steps if step < most)
    yield most
