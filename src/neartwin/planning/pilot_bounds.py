"""Private limits: a first stage whose noisy counts fix max_rows_per_group and max_groups of the question itself.

The first stage is a histogram of units over (number of groups, rows in a group), both in octaves. A unit adds 1024
parts in all: floor(1024 c / k) to each cell, for c of its k groups with so many rows. Its L1 and L2 sensitivity is one
unit's 1024 parts, however many rows and groups it has. The second stage is the question at the limits chosen from the
noisy histogram. Both are paid in one reserve. Adaptive composition lets a later stage depend on the noisy output of an
earlier one. The parts of the spend compose to it whatever is chosen.

The choice minimises the expected error: mean absolute noise plus lost rows, for each statistic in rows. The noise is
that of the question, scaled. A group loses its even share of the rows. An answer over groups (a range, a margin's cell)
loses those of all the groups that it counts, by the size of their weights. A count of units loses units. A sum loses
half, because its values are below their bound. A mean has no loss, but its noise is that of the total over the kept
rows. A unit in k groups with n rows in each is assumed to have a norm of n sqrt(k).

All of this is an estimate from noisy counts. It decides limits and no noise: the guarantee is promised, the choice is
not.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from neartwin.accounting.budgets import Budget, Pure
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import FloatArray, Number, WholeNumbers, rational
from neartwin.losses import Composition
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.mechanisms.additive.gaussian import Gaussian
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.noise import Source
from neartwin.planning.allocation import CONFIDENCE
from neartwin.planning.contribution_bounds import ContributionBounds
from neartwin.planning.digests import target_record
from neartwin.planning.explain import Explained, nodes
from neartwin.planning.groups import plan_groups
from neartwin.planning.limits import Limits, PrivateLimit
from neartwin.planning.marginals import plan_margins
from neartwin.planning.plan import Choice, FirstStage, Loss, QueryPlan
from neartwin.planning.spending import mu_squared_of, split_budget, without_delta
from neartwin.planning.stage import SALT_BITS, Engine, Stage
from neartwin.planning.workloads import plan_workload
from neartwin.queries.query import Query
from neartwin.tables.table import RowUnit
from neartwin.tables.types import Key

OCTAVES = tuple(2**i for i in range(13))
PARTS = 1024  # parts of one unit in the histogram
# The probability that no cell is noise alone. One empty cell far out would stand for millions of rows, and spoil the choice.
SURE = 0.9999
P = TypeVar("P", bound=QueryPlan)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenBounds(Choice):
    """The bounds of contributions that a pilot chose.

    Attributes:
        lost: The estimated share of all rows that the bounds lose; None if nothing could be estimated.
    """

    lost: float | None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The bounds and their loss."""
        bounding = self.plan.bounding
        bounds = f"max_rows_per_group = {bounding.max_rows_per_group}, max_groups = {bounding.max_groups}"
        if bounding.norm is not None:
            bounds = f"norm = {float(bounding.norm):g}"
        if self.lost is None:
            return (f"Chosen privately: {bounds}, the least noise, because too few people are there to choose by.",)
        loss = f"expected to lose about {self.lost:.1%} of all rows"
        caution = "This estimate is from noisy counts, which do not show a few heavy units."
        return (f"Chosen privately: {bounds}, {loss}. {caution} No error bar covers the bias of bounding.",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot(FirstStage):
    """A first stage that chooses bounds of contributions from noisy counts.

    Attributes:
        stage: The exact question: units by groups and rows, in octaves.
        mechanism: The noise of each cell.
        rows: The private limit of rows in a group; None if it is a number.
        groups: The private limit of groups; None if it is a number.
        norm: The private norm, in place of both; None if it is not chosen.
        expected_groups: The expected number of groups in the release.
        importance: The relative importance of each statistic.
        rest: The spend of the question itself.
        power: The p by which n rows in each of k groups have the length n k^p: 1/2, or at most 1 over margins.
    """

    stage: Stage
    mechanism: DiscreteLaplace | Gaussian
    rows: PrivateLimit | None
    groups: PrivateLimit | None
    norm: PrivateLimit | None
    expected_groups: int
    importance: tuple[tuple[str, Number], ...]
    rest: Budget
    power: float = 0.5

    @property
    def limits(self) -> dict[str, PrivateLimit]:
        """The private limits, by name."""
        limits = {"max_rows_per_group": self.rows, "max_groups": self.groups, "norm": self.norm}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def record(self, plan: QueryPlan) -> dict[str, object]:
        """The noise, the limits, the octaves, the importance and the rest of the spend."""
        del plan
        bounds = [limit and [limit.at_most, str(limit.share)] for limit in (self.rows, self.groups)]
        bounds += [] if self.norm is None else [[self.norm.at_most, str(self.norm.share)]]
        importance = [[name, str(weight)] for name, weight in self.importance]
        spread = [self.expected_groups, self.stage.octaves, importance, target_record(self.rest)]
        return {"pilot": [*self.mechanism.record, *bounds, *spread]}

    def losses(self) -> Composition:
        """The privacy loss of the noisy counts."""
        return self.mechanism.losses()

    def mechanisms(self) -> Iterator[tuple[str, object]]:
        """The noise of the counts."""
        yield "pilot that chose bounds", self.mechanism

    def origin(self, plan: QueryPlan, bound: str) -> str | None:
        """The origin of a limit that this stage chooses."""
        del plan
        limit = self.limits.get(bound)
        return None if limit is None else f"chosen by a private pilot that was paid for, at most {limit.at_most}"

    def objective(self, plan: QueryPlan) -> float:
        """The error at the root of each limit: the middle of a search by octaves."""
        bounding = plan.bounding
        if self.norm is not None:
            return plan.error * math.isqrt(self.norm.at_most) / self.norm.at_most
        limits = Limits(
            max_rows_per_group=math.isqrt(self.rows.at_most) if self.rows else bounding.max_rows_per_group,
            max_groups=math.isqrt(bounding.max_groups) if self.groups else bounding.max_groups,
        )
        return bounded_plan(plan.query, spend=self.rest, limits=limits, importance=dict(self.importance)).objective

    def explanation(self, plan: QueryPlan) -> Explained:
        """The choice, its method and its criterion."""
        bar = self.mechanism.half_width(CONFIDENCE) / PARTS
        share = plan.loss_in_words(self.expected_groups)
        weighed = (
            f"the bound has the least expected error, from noise and from lost rows: {share}, and loses their share of "
        )
        return Explained(
            f"first choose {' and '.join(self.limits)} from noisy counts of units by groups and rows, in octaves",
            nodes(
                "sensitivity 1,024 parts: a unit's groups share one unit among the cells, however many they are",
                f"noise of ± {bar:.3g} units a cell; a cell within the noise counts as empty",
                *(
                    [f"{weighed}the rows lost to scaling; the release says about how many rows those are"]
                    if share
                    else []
                ),
                f"the question then spends {self.rest}; the plan below is the worst case, at the largest bounds",
            ),
        )

    def choose(self, plan: QueryPlan, engine: Engine, source: Source) -> Choice:
        """Choose the plan at the bounds that a noisy histogram suggests."""
        counts = engine.aggregate(self.stage, salt=source.bits(SALT_BITS)).values["parts"]
        return self.chosen(plan, self.mechanism.noisy(counts, source=source))

    def chosen(self, plan: QueryPlan, noisy: WholeNumbers) -> ChosenBounds:
        """Choose the plan from noisy counts.

        Args:
            plan: The plan at the largest limits.
            noisy: (octaves^2,) counts in parts, cell (i, j) at i * octaves + j.

        Returns:
            The chosen bounds.
        """
        keys = plan.query.groups.keys
        units = _seen(self, noisy) if self.norm is None else _seen_by_norm(self, noisy, keys)
        bounds = self._best(plan, units)
        limits: dict[str, Any] = {"max_rows_per_group": bounds.max_rows_per_group, "max_groups": bounds.max_groups}
        if bounds.norm is not None:
            limits = {"norm": bounds.norm}
        if keys is None:
            limits["max_discovered_groups"] = _typical(units)
        question = bounded_plan(plan.query, spend=self.rest, limits=Limits(**limits), importance=dict(self.importance))
        everything, remaining = within_caps(units, math.inf, math.inf), self._within(units, bounds)
        lost = max(0.0, 1 - remaining.rows / everything.rows) if everything.rows > 0 else None
        return ChosenBounds(before=plan, plan=question, lost=lost)

    def _best(self, plan: QueryPlan, units: FloatArray) -> ContributionBounds:
        """The candidate with the least expected error; with too few people to decide, the one with the least noise."""
        candidates = list(self._candidates(plan.bounding))
        if not units.any():
            return candidates[0]
        importance = dict(self.importance)
        return min(candidates, key=lambda bounds: plan.error_within(bounds, self._loss(units, bounds), importance))

    def _candidates(self, most: ContributionBounds) -> Iterator[ContributionBounds]:
        if self.norm is not None:
            for norm in _steps(self.norm, self.norm.at_most):
                yield replace(most, norm=rational(norm=norm))
            return
        for rows in _steps(self.rows, most.max_rows_per_group):
            for groups in _steps(self.groups, most.max_groups):
                yield replace(most, max_rows_per_group=rows, max_groups=groups)

    def _loss(self, units: FloatArray, bounds: ContributionBounds) -> Loss:
        total, rest = within_caps(units, math.inf, math.inf), self._within(units, bounds)
        rows, pairs = total.rows - rest.rows, total.pairs - rest.pairs
        return Loss(rows / self.expected_groups, pairs / self.expected_groups, total.rows / max(rest.rows, 1.0))

    def _within(self, units: FloatArray, bounds: ContributionBounds) -> "KeptAmount":
        if bounds.norm is not None:
            return within_norm(units, float(bounds.norm), self.power)
        return within_caps(units, bounds.max_rows_per_group, bounds.max_groups)


@dataclass(frozen=True, slots=True)
class KeptAmount:
    """The amount kept within bounds.

    Attributes:
        rows: The number of rows.
        pairs: The number of pairs of a unit and a group.
    """

    rows: float
    pairs: float


def within_caps(units: FloatArray, rows: float, groups: float) -> KeptAmount:
    """The amount kept under caps.

    Args:
        units: (octaves, octaves) units by groups and rows.
        rows: The most rows of a unit in a group.
        groups: The most groups of a unit.

    Returns:
        The amount.
    """
    per_unit, per_group = _means(groups, len(units)), _means(rows, len(units))
    return KeptAmount(float(per_unit @ units @ per_group), float(per_unit @ units.sum(axis=1)))


def within_norm(units: FloatArray, norm: float, power: float = 0.5) -> KeptAmount:
    """The amount kept where each unit is weighted down to a norm.

    Args:
        units: (octaves, octaves) units by groups and rows.
        norm: The norm.
        power: The p by which n rows in each of k groups have the length n k^p.

    Returns:
        The amount.
    """
    groups, rows = _means(math.inf, len(units))[:, None], _means(math.inf, len(units))[None, :]
    share = np.minimum(1.0, norm / (rows * groups**power))
    return KeptAmount(float((units * groups * rows * share).sum()), float((units * groups * share).sum()))


def _means(bound: float, octaves: int) -> FloatArray:
    """The mean of min(x, bound) in each octave, for x spread evenly by its logarithm; the last octave is its least value."""
    means = []
    for low in OCTAVES[: octaves - 1]:
        values = np.arange(low, 2 * low)
        means.append(float(np.average(np.minimum(values, bound), weights=1.0 / values)))
    return np.array([*means, min(float(OCTAVES[octaves - 1]), bound)])


def bounded_plan(
    query: Query, *, spend: Budget, limits: Limits, importance: Mapping[str, Number] | None = None
) -> QueryPlan:
    """Plan groups, margins or a workload within limits that are all numbers.

    Args:
        query: The query.
        spend: The spend.
        limits: The limits, all numbers.
        importance: The relative importance of each statistic's error, by name. Default 1.

    Returns:
        The plan.
    """
    base = plan_groups(query, spend=spend, limits=limits, importance=importance)
    if query.groups.linear_workload is not None:
        return plan_workload(query, query.groups.linear_workload, base, spend)
    return plan_margins(query, base, spend) if query.groups.margins else base


def plan_within(
    query: Query,
    plan_of: Callable[..., P],
    *,
    spend: Budget,
    limits: Limits,
    importance: Mapping[str, Number] | None,
) -> P:
    """Plan within limits, some of which may be private.

    A plan with private limits is at their largest values, and has the pilot that will choose them. Its price is the
    whole spend.

    Args:
        query: The question; for marginals and workloads only the norm may be private.
        plan_of: The planner within limits that are numbers: `bounded_plan`, or `plan_groups` for groups alone.
        spend: The spend of both stages.
        limits: The limits of each unit.
        importance: The relative importance of each statistic's error, by name. Default 1.

    Returns:
        The plan.

    Raises:
        QueryError: Each row is its own unit, or the expected number of unknown groups is missing.
        ParameterError: The question cannot choose this limit privately.
    """
    private = limits.private
    if not private:
        return plan_of(query, spend=spend, limits=limits, importance=importance)
    if isinstance(query.table.unit, RowUnit):
        raise QueryError("private_limit(): each row is its own unit, so there is no limit to choose")
    if (query.groups.margins or query.groups.linear_workload is not None) and private.keys() != {"norm"}:
        raise ParameterError(
            next(iter(private)),
            "private_limit()",
            "cannot be chosen privately for marginals and workloads",
            remedy="give a number, or make the norm private: nt.limits(norm=nt.private_limit(256))",
        )
    requests = list(private.values())
    groups = _expected_groups(query, requests)
    first, rest = split_budget(spend, max(limit.share for limit in requests))
    most: dict[str, Any] = {name: limit.at_most for name, limit in private.items()}
    if "norm" in private and query.groups.keys is None:
        most |= {"max_discovered_groups": most["norm"]}
    worst = plan_of(query, spend=rest, limits=replace(limits, **most), importance=importance)
    stage = replace(
        worst.stage,
        measures=("parts",),
        rows_per_group=1,
        octaves=OCTAVES,
        groups_per_unit=None,
        discovery_groups=None,
        norm=None,
        length_by=None,
        parts={},
        grid={},
        moments={},
    )
    pilot = Pilot(
        stage=stage,
        mechanism=_noise(first, query.table.neighbours),
        rows=private.get("max_rows_per_group"),
        groups=private.get("max_groups"),
        norm=private.get("norm"),
        expected_groups=groups,
        importance=tuple((importance or {}).items()),
        rest=rest,
        power=1.0 if query.groups.margins else 0.5,
    )
    return replace(worst, spend=spend, price=price_of(spend, query), first_stages=(pilot,))


def price_of(spend: Budget, query: Query) -> Budget:
    """The price of a plan with first stages: the whole spend, without a delta that only unknown groups need.

    Args:
        spend: The spend.
        query: The question.

    Returns:
        The price.
    """
    return spend if query.groups.keys is None else without_delta(spend)


def _expected_groups(query: Query, requests: list[PrivateLimit]) -> int:
    numbers = {bound.groups for bound in requests} - {None}
    if len(numbers) > 1:
        raise ParameterError("groups", sorted(map(str, numbers)), "must be the same in both private limits")
    if query.groups.keys is not None:
        return len(query.groups.keys)
    for number in numbers:
        if number is not None:
            return number
    raise QueryError(
        "private_limit(groups=...) is missing: give the approximate number of groups in the release, for instance "
        "nt.private_limit(256, groups=500); the plan weighs lost rows against noise group by group"
    )


def _noise(spend: Budget, neighbours: Neighbours) -> DiscreteLaplace | Gaussian:
    """The noise native to the spend. A replaced unit removes its parts and adds others: twice the L1, twice the squared L2."""
    both = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    if isinstance(spend, Pure):
        return DiscreteLaplace.calibrated(epsilon=spend.epsilon, sensitivity=both * PARTS)
    squared = both * PARTS**2
    return Gaussian(variance=squared / mu_squared_of(spend), l2_squared=squared)


def _seen(pilot: Pilot, noisy: WholeNumbers) -> FloatArray:
    """Units by cell. Counts within the noise are 0, because in far cells they would stand for many rows."""
    size = len(pilot.stage.octaves)
    cells = np.asarray(noisy, dtype=float).reshape(size, size)
    threshold = pilot.mechanism.half_width(SURE, size * size)
    units: FloatArray = np.where(cells > threshold, cells, 0.0) / PARTS
    return units


def _seen_by_norm(pilot: Pilot, noisy: WholeNumbers, keys: tuple[Key, ...] | None) -> FloatArray:
    """Units by cell, up to the largest norms and numbers of groups that surely occur; nothing beyond.

    A tail is thin in each cell and heavy in an octave, and lost rows are linear in the counts. Setting single cells to
    0 would hide the tail, and with it most of the loss. So noisy counts within the range that surely has units stay
    unchanged.
    """
    size = len(pilot.stage.octaves)
    cells = np.asarray(noisy, dtype=float).reshape(size, size) / PARTS
    groups, rows = np.arange(size)[:, None], np.arange(size)[None, :]
    inside = np.broadcast_to(True if keys is None else np.array(OCTAVES[:size])[:, None] <= len(keys), cells.shape)
    # half octaves of the norm n sqrt(k), then octaves of k
    for place, last in ((groups + 2 * rows, 1), (groups + 0 * rows, 0)):
        windows = [inside & (place <= top) & (place >= top - last) for top in range(int(place.max()) + 1)]
        # the bar of one cell; m cells have at most sqrt(m) times it
        sure = pilot.mechanism.half_width(SURE, len(windows)) / PARTS
        occupied = [top for top, cut in enumerate(windows) if cells[cut].sum() > sure * math.sqrt(cut.sum())]
        inside = inside & (place <= max(occupied, default=-1))
    units: FloatArray = np.where(inside, cells, 0.0)
    return units if within_caps(units, math.inf, math.inf).rows > 0 else np.zeros_like(units)


def _typical(units: FloatArray) -> int:
    """The mean number of groups of a unit. A unit helps to discover so many, so that heavy units add little noise."""
    return max(1, math.ceil(within_caps(units, 1, math.inf).pairs / max(float(units.sum()), 1e-9)))


def _steps(bound: PrivateLimit | None, most: int) -> Iterator[int]:
    if bound is None:
        yield most
        return
    steps = sorted({1, *(2**i for i in range(1, 31)), *(3 * 2**i for i in range(30))})
    yield from (step for step in steps if step < most)
    yield most
