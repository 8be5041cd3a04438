"""Limits that a plan chooses privately: a first stage whose choice fixes the limits of the question itself.

The candidates are quarter octaves of the limit C. Units are counted by the size of their contribution: rows, length or
number of groups. The score of C is

    q(C) = -max(units above C - r, 0) - max(t f(C), min(max(r, 3 t), units not above C / 16) min(log2 C, 16))

with f(C) = 3 for each of two doublings and 2 for each further one. Where many counts are asked the choice takes less of the
spend, and both threes are 4.

Correlations, regressions and the like have bars that a cut unit hardly lengthens. For units that join or leave
a limit then costs at most two thirds of what they leave idle of it. A unit of size x <= C leaves 1 - x / C.

A unit that is added or replaced moves no score by more than 1, and all of them one way: (M14) of
docs/proofs/mechanisms.md. So the choice has scale t = 1 / epsilon, without the factor 2 of
other scores. It is permute-and-flip for a spend in epsilon. Otherwise it is the exponential mechanism, whose bounded range
epsilon costs epsilon^2 / 8 in rho, and the mu of `mu_of_bounded_range`.

r is the number of units whose bias for one row of C is the growth of the noise. So the best C has about r units above it,
and nothing is gained by fewer. A doubling costs at most a sixteenth of the units that it is for. Otherwise few units with
many rows each would all be cut where r is larger than they are. Beyond all units the second term lets the probability of C
fall like C^-2.9, and like C^-4.3 where there are many. The noise only grows like C. So a limit far too large is hardly ever
chosen. A count loses a row that a limit takes. A ratio, such as a mean or a rank, only moves by as much as lost rows differ
from the others. So its r is larger: see `lost_row` of statistics. Where all are ratios and 1.2 r is large, r is 0 in the
first term and 1.2 r stands for r in the second: (M17). Under replace-one such a cap is for ratios alone.
`bench/bench_limits.py` has the figures that fixed these numbers and the shares of the spend. A share is less
where t need not be that small, because 1.2 r is above 6 t.

The choice and the question are paid in one reserve. Adaptive composition lets the question depend on the choice.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from neartwin.accounting.budgets import Approx, Budget, Gdp, Pure
from neartwin.accounting.prices import mu_of_bounded_range
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import FloatArray, Number, WholeNumbers, rational, root_below
from neartwin.losses import Composition, compose
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.selection.exponential import ExponentialMechanism, PermuteAndFlip
from neartwin.noise import Source
from neartwin.planning.allocation import largest, mu_squared_of, require_delta, split_budget, total_of, without_delta
from neartwin.planning.bounding_loss import LossStage
from neartwin.planning.contribution_bounds import contribution_bounds
from neartwin.planning.digests import target_record
from neartwin.planning.explain import Explained, nodes
from neartwin.planning.groups import plan_groups
from neartwin.planning.limits import Limits, PrivateLimit, private_limit
from neartwin.planning.matching import matched, shortfalls
from neartwin.planning.plan import Choice, FirstStage, QueryPlan
from neartwin.planning.stage import SALT_BITS, Cells, ContributionSizes, Engine, Stage
from neartwin.planning.workloads import plan_margins, plan_workload
from neartwin.queries.arithmetic import adds_groups
from neartwin.queries.query import Query
from neartwin.statistics.clipping import PrivateRange
from neartwin.tables.table import RowUnit

PARTS = 1024  # parts of a unit in which scores are counted
DISCOVERED = 4  # groups that a unit helps to discover, where nobody says
GROUPS = 16  # groups expected among unknown ones, where nobody says
SHARES = {"rows": Fraction(1, 4), "max_groups": Fraction(1, 4), "norm": Fraction(1, 6), "values": Fraction(1, 5)}
EXAMPLE = {"rows": 16, "max_groups": 4, "norm": 16, "values": 4}  # at which a plan is shown
SIZES = (100, 1_000, 10_000)  # units for which a plan states limits
_INDEX = 1.5  # of the Pareto law of sizes in that statement
_LEAST, _COUNTS = 25, 8  # a share is at least 1 / 25, or 1 / 8 for counts that are not very many
_ROOM = 2.7  # 1 over 1 + so many times the groups is the least M, as a share of the limit
_LESS = 16  # the step down from limits whose noise cannot be drawn
# over t, of each of two doublings, of each where counts are many, and of further ones; over r
_FIRST, _STEEPER, _FURTHER, GROWTH = 3.0, 4.0, 2.0, 1.2
_SIXTEENTH, _STEEP = 16, 32.0  # the share of units that a doubling costs at most, where 1.2 r is more than this
_IDLE = 2 / 3  # the cost of a unit that leaves all of a limit idle, beside one that the limit cuts
LOSS_OF_EPSILON, LOSS_OF_SQUARES = Fraction(1, 10), Fraction(1, 20)  # shares for what limits take


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSearch:
    """The private choice of one limit.

    Attributes:
        name: The name of the limit.
        stages: The exact question: the number of units by size, or the values of units, a question for each counted column.
        candidates: The limits to choose from, increasing.
        mechanism: The selection. Its scores are in parts of a unit.
        growth: 1.2 r, in units for each doubling of it, or of its root.
        squared: Whether the limit is the square of a length: groups beside a norm.
        least: Whether units above the limit cost from the first on, as for ratios whose r is large.
        capped: Whether a doubling costs no more than a 16th of the units that are not above the limit.
        idle: Whether the limit costs no more than two thirds of what these units leave idle of it, instead.
        counts: The counts beside each other that it is for, where it is of rows of counts under Laplace noise alone; else 0.
    """

    name: str
    stages: tuple[Stage, ...]
    candidates: tuple[Fraction, ...]
    mechanism: PermuteAndFlip | ExponentialMechanism
    growth: float
    capped: bool
    squared: bool = False
    least: bool = False
    idle: bool = False
    counts: float = 0.0

    @property
    def record(self) -> list[object]:
        """The selection in the words of digests."""
        flags = [name for name in ("least", "capped", "idle", "counts") if getattr(self, name)]
        return [self.name, str(self.candidates[-1]), str(self.mechanism.epsilon), round(self.growth, 6), *flags]

    def penalties(self, within: FloatArray | float) -> WholeNumbers:
        """The costs of the candidates, and one part for each smaller one, so that the least of equal limits wins.

        Args:
            within: (..., candidates) the units that are not above each.

        Returns:
            (..., candidates) costs, in parts of a unit.
        """
        doublings = np.log2([float(limit) for limit in self.candidates]) / (2 if self.squared else 1)
        first, scale = _STEEPER if self.counts > 1 / SHARES["rows"] else _FIRST, float(self.mechanism.scale)
        far = (first - _FURTHER) * np.minimum(doublings, 2) + _FURTHER * doublings
        few = self.growth if self.least or self.stages[0].by_unit else self.growth / GROWTH
        most = _SIXTEENTH * (max(few, first * scale / PARTS) if self.capped else few)
        sixteenths = np.rint(PARTS / _SIXTEENTH * (np.minimum(doublings, _SIXTEENTH) if self.capped else doublings))
        steep = (np.minimum(most, within) if self.capped else most) * sixteenths
        if self.idle:  # the largest size between two candidates stands for all
            left = 1 - np.exp2(np.minimum(np.subtract.outer(doublings, doublings), 0.0))
            steep = np.minimum(most * sixteenths, np.diff(within, prepend=0.0) @ np.floor(PARTS * _IDLE * left))
        costs = np.maximum(np.rint(far * scale), np.floor(steep))
        return np.frompyfunc(int, 1, 1)(costs) + np.arange(len(self.candidates), dtype=object)

    def scores(self, units: WholeNumbers) -> WholeNumbers:
        """The scores of the candidates.

        Args:
            units: (edges,) exact counts of units, by size.

        Returns:
            (candidates,) scores, in parts of a unit.
        """
        sizes = self.stages[0].sizes or ContributionSizes((1,), 1)
        above = dict(zip(sizes.edges, np.cumsum(units[::-1])[::-1].tolist(), strict=True))
        over = [PARTS * int(above[_edge(self.name, limit)]) for limit in self.candidates]
        return self.scores_above(over, PARTS * int(units.sum()))

    def scores_above(self, over: Sequence[int], units: int) -> WholeNumbers:
        """The scores of the candidates by the units above each.

        Args:
            over: (candidates,) units above, in parts of a unit.
            units: All of them, in parts.

        Returns:
            (candidates,) scores, in parts of a unit.
        """
        missed = np.array([max(many - self._few, 0) for many in over], dtype=object)
        return -missed - self.penalties((units - np.array(over, dtype=float)) / PARTS)

    def scores_of_values(self, columns: Sequence[Cells]) -> WholeNumbers:
        """The scores of the candidates by the values that they lose and the noise that they need: (V6).

        Args:
            columns: The values of units, for each counted column.

        Returns:
            (candidates,) scores, in parts of a unit.
        """
        limits, found = [int(limit) for limit in self.candidates], list[int]()
        most = self._matched(columns, max(len(cells.cell) for cells in columns), None)
        for limit in limits:  # until nothing is lost
            found.append(most if found[-1:] == [most] else self._matched(columns, limit, limit))
        noise = PARTS * len(columns) * self.growth / GROWTH  # of all groups and columns, for one more value of a unit
        costs = [round(noise * limit) - PARTS * number for limit, number in zip(limits, found, strict=True)]
        moved = [limit * len(columns) for limit in limits]
        return -np.array(shortfalls(costs, moved), dtype=object) - self.penalties(math.inf)

    def _matched(self, columns: Sequence[Cells], most: int, in_all: int | None) -> int:
        """The matched values of all columns and groups together, within a limit."""
        stages = [replace(stage, rows_per_group=most, rows_per_unit=in_all) for stage in self.stages]
        pairs = zip(stages, columns, strict=True)
        return sum(int(matched(stage, cells, len(stage.keys or ())).sum()) for stage, cells in pairs)

    def choose(self, engine: Engine, source: Source) -> Number:
        """Choose a limit.

        Args:
            engine: The engine that counts units.
            source: The source of randomness.

        Returns:
            The limit: a whole number, or for a norm in sixteenths.
        """
        salt = source.bits(SALT_BITS)
        answers = [engine.aggregate(stage, salt=salt) for stage in self.stages]
        columns = [answer.cells for answer in answers if answer.cells is not None]
        scores = self.scores_of_values(columns) if columns else self.scores(answers[0].values["units"])
        limit = self.candidates[self.mechanism.choose(scores, source=source)]
        return limit if self.name == "norm" else int(limit)

    def likely(self, units: Sequence[int]) -> list[float]:
        """For each number of units, the limit that has the best score where their sizes follow a Pareto law."""
        limits = np.array([float(limit) for limit in self.candidates])
        all_ = np.array(units, dtype=float)[:, None]
        above = all_ * limits**-_INDEX
        missed = np.maximum(above - self._few / PARTS, 0)
        return [float(limits[best]) for best in np.argmin(missed + self.penalties(all_ - above) / PARTS, axis=1)]

    @property
    def _few(self) -> int:
        """r, in parts: units above the limit that cost nothing."""
        return 0 if self.least else math.floor(PARTS * self.growth / GROWTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChoice(FirstStage):
    """A first stage that chooses limits.

    Attributes:
        searches: The choices, one for each limit.
    """

    searches: tuple[LimitSearch, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The exact questions: one for each limit."""
        return tuple(stage for one in self.searches for stage in one.stages)

    def record(self, plan: QueryPlan) -> dict[str, object]:
        """That limits are chosen, the selections, the importance and the rest of the spend."""
        searches = [one.record for one in self.searches]
        importance = [[name, str(weight)] for name, weight in (self.importance or {}).items()]
        return {"limits": ["chosen", *searches, importance, target_record(self.rest)]}

    def losses(self) -> Composition:
        """The privacy loss of all choices."""
        return compose([one.mechanism.losses() for one in self.searches])

    def mechanisms(self) -> Iterator[tuple[str, object]]:
        """The selection of each limit."""
        yield from ((f"choice of {one.name}", one.mechanism) for one in self.searches)

    def origin(self, plan: QueryPlan, bound: str) -> str | None:
        """The origin of a limit that this stage chooses."""
        few = self.limits.max_discovered_groups or "max_groups"
        names = {bound, {"max_rows_per_group": "rows", "max_discovered_groups": few}.get(bound)}
        most = [float(one.candidates[-1]) for one in self.searches if one.name in names]
        return f"chosen by a private first stage that was paid for, at most {most[0]:g}" if most else None

    def explanation(self, plan: QueryPlan) -> Explained:
        """The choice, its scores, and the limits to expect."""
        lines, examples = [], self._examples(plan)
        for one in self.searches:
            if one.stages[0].by_unit:
                lines.append(f"{one.name}: values lost, and noise; epsilon {float(one.mechanism.epsilon):.3g}")
                continue
            example = examples[one.name]
            sizes = zip(SIZES, one.likely(SIZES), strict=True)
            likely = (f"{limit:g} for {units:,} units (errors times {limit / example:.2g})" for units, limit in sizes)
            lines += [
                f"one unit moves each cost by at most 1, all one way; epsilon {float(one.mechanism.epsilon):.3g}",
                f"{one.name} to expect, if sizes are Pareto with index {_INDEX}: {', '.join(likely)}",
            ]
        lines.append(
            f"the question then spends {self.rest}; the plan below is an example, and errors grow with the limit"
        )
        return Explained(f"first choose {' and '.join(one.name for one in self.searches)} privately", nodes(*lines))

    def example(self, plan: QueryPlan) -> str:
        """The limits of the example."""
        return f", at an example of {' and '.join(f'{name} = {at:g}' for name, at in self._examples(plan).items())}"

    def _examples(self, plan: QueryPlan) -> dict[str, float]:
        own = plan.bounding
        limits = {one.name: own.units_groups if one.squared else getattr(own, one.name) for one in self.searches}
        return {name: float(limit or own.max_rows_per_group) for name, limit in limits.items()}

    def choose(self, plan: QueryPlan, engine: Engine, source: Source) -> Choice:
        """Choose the limits, and plan the question within them."""
        return self.chosen(plan, {one.name: one.choose(engine, source) for one in self.searches})

    def chosen(self, plan: QueryPlan, limits: Mapping[str, Any]) -> Choice:
        """The plan at these limits.

        Args:
            plan: The plan before the choice.
            limits: The chosen limits, by name.

        Returns:
            The choice.
        """
        within = replace(self.limits, **limits)
        question = bounded_plan(plan.query, spend=self.rest, limits=within, importance=self.importance)
        found = ", ".join(f"{name} = {float(limit):g}" for name, limit in limits.items())
        return Choice(before=plan, plan=question, sentences=(f"Chosen privately: {found}.",))


def bounded_plan(
    query: Query, *, spend: Budget, limits: Limits, importance: Mapping[str, Number] | None = None
) -> QueryPlan:
    """Plan groups, margins or a workload within limits that are all numbers, and measure what these take, if anything.

    Args:
        query: The query.
        spend: The spend of both.
        limits: The limits, all numbers.
        importance: The relative importance of each statistic's error, by name. Default 1.

    Returns:
        The plan. Its digest is that of the question at the whole spend, unless `limits` says the share of the measurement.
    """
    whole = _bounded_plan(query, spend, limits, importance)
    share = limits.loss_share
    if share == 0 or not whole.can_cut:
        return whole
    usual = LOSS_OF_EPSILON if isinstance(spend, Pure | Approx) else LOSS_OF_SQUARES
    first, rest = split_budget(spend, usual if share is None else rational(loss_share=share))
    plan = _bounded_plan(query, rest, limits, importance)
    distinct = [stage for stage in plan.stages if stage.by_unit and stage.norm is None and not stage.group_columns]
    if query.values_alone and len(distinct) == 1:
        loss = LossStage.of_values(distinct[0], first)
    else:
        loss = LossStage.of(plan.stage, first, power=0 if query.units_alone else 1, beside=query.units_beside)
        if not query.units_alone:  # few groups have bars so short that the choice does not see what matters to them
            bins = max(len(one.bins) or 1 for one in query.aggregates.values())
            groups = len(query.groups.keys or ()) or GROUPS
            added = any(adds_groups(text) for _, text in query.after.computed)
            added &= all(one.bounds.low >= 0 for one in plan.stage.grid.values())
            spread = added * (1.0 if plan.bounding.norm is None else groups**0.5)  # rows of a unit, over its limit
            loss = replace(loss, least=1 / (1 + _ROOM * bins * groups), totals=spread / 2)
            if any(one.clip for one in query.aggregates.values()):  # bounds that are chosen surely clip somebody
                clipped = (replace(one, least=0.25 / groups) for one in loss.clipped)
                loss = replace(loss, clipped=tuple(clipped))
    price = whole.price if whole.price == price_of(spend, query) else total_of([first, plan.price], spend)
    return replace(plan, spend=spend, price=price, loss=loss, asked=whole if share is None else None)


def _bounded_plan(query: Query, spend: Budget, limits: Limits, importance: Mapping[str, Number] | None) -> QueryPlan:
    base = plan_groups(query, spend=spend, limits=limits, importance=importance)
    if query.groups.linear_workload is not None:
        return plan_workload(query, query.groups.linear_workload, base, spend)
    return plan_margins(query, base, spend) if query.groups.margins else base


def plan_within(query: Query, *, spend: Budget, limits: Limits, importance: Mapping[str, Number] | None) -> QueryPlan:
    """Plan within limits, some of which may be private. Without any, the plan chooses those that the question needs.

    A plan with private limits is at an example of 16 rows or 4 groups, and has the stage that will choose them. Its
    price is the whole spend.

    Args:
        query: The question.
        spend: The spend of both stages.
        limits: The limits of each unit.
        importance: The relative importance of each statistic's error, by name. Default 1.

    Returns:
        The plan.

    Raises:
        QueryError: Each row is its own unit.
        ParameterError: An argument makes no sense for this question, or its noise is too wide.
    """
    limits = _needed(query, limits)
    lacks, private = _lacks(query, limits), limits.private
    if private and isinstance(query.table.unit, RowUnit):
        raise QueryError("private_limit(): each row is its own unit, so there is no limit to choose")
    if not lacks and not private:
        made = bounded_plan(query, spend=spend, limits=limits, importance=importance)  # limits may cut many units
        return made if made.loss is None else replace(made, loss=replace(made.loss, rules=3))
    ways = _ways(query, spend, limits) if lacks else [limits]
    return min((_choosing(query, spend, way, importance) for way in ways), key=lambda way: way[0])[1]


def _needed(query: Query, limits: Limits) -> Limits:
    """The limits that the question needs. That of distinct values alone is one of rows. Units alone have none of rows, and
    none of groups beside a norm, which is only for counts of units beside others.
    """
    units, other = [one.counts_units for one in query.aggregates.values()], dict[str, Any]()
    if query.values_alone and limits.values is not None:
        other = {"values": None, "rows": limits.values, "norm": None}
    elif not any(one.counts_values for one in query.aggregates.values()):
        other = {"values": None}
    if limits.norm is not None and any(units) is all(units):
        other["max_groups"] = None
    if all(units) and "rows" in limits.private:
        other["rows"] = None
    return replace(limits, **other)


def price_of(spend: Budget, query: Query) -> Budget:
    """The price of a plan with first stages: the whole spend, without a delta that only unknown groups need.

    Args:
        spend: The spend.
        query: The question.

    Returns:
        The price.
    """
    return spend if query.groups.keys is None else without_delta(spend)


def _lacks(query: Query, limits: Limits) -> bool:
    """Whether nothing is said of limits that the question needs."""
    if set(limits.given) - {"max_discovered_groups", "loss_share", "values"}:
        return False
    try:
        contribution_bounds(query, replace(limits, values=None))
    except QueryError:
        return True
    return False


def _ways(query: Query, spend: Budget, limits: Limits) -> list[Limits]:
    """The limits that the question can choose: of rows and groups for Laplace noise or distinct values, or a norm."""
    keys, statistics = query.groups.keys, query.aggregates.values()
    units, values_alone = [one.counts_units for one in statistics], query.values_alone
    own: dict[str, Any] = {"max_groups": private_limit()} if any(units) and (keys is None or len(keys) > 1) else {}
    found = own if all(units) else {"rows": private_limit(), **own}
    if all(units) or (keys is not None and len(keys) <= GROUPS):
        own = {}  # beside a norm, which bounds units alone; in few groups a unit is short, and a choice costs more
    voice: dict[str, Any] = {"loss_share": limits.loss_share}
    if not values_alone and any(one.counts_values for one in statistics):
        voice["values"] = limits.values or private_limit()
    voice |= {} if keys is not None else {"max_discovered_groups": limits.max_discovered_groups or DISCOVERED}
    ways = [Limits(**found, **voice)] if values_alone or isinstance(spend, Pure | Approx) else []
    return ways if values_alone or isinstance(spend, Pure) else [*ways, Limits(norm=private_limit(), **own, **voice)]


def _choosing(
    query: Query, spend: Budget, limits: Limits, importance: Mapping[str, Number] | None
) -> tuple[float, QueryPlan]:
    """The plan with the stage that chooses its limits, and the noise of an answer for each row of the limit."""
    private = limits.private
    if query.groups.keys is None:
        require_delta(spend)  # before the rest of it is named
    if query.groups.keys is None and not {"max_groups", "max_discovered_groups"} & set(limits.given):
        limits = replace(limits, max_discovered_groups=DISCOVERED)
    values = {"rows" if query.values_alone else "values"}
    share = max(limit.share or SHARES[name] for name, limit in private.items())
    _, rest = split_budget(spend, share)
    most = {name: _most(query, name, limit) for name, limit in private.items()}
    while True:  # the largest limits whose noise can be drawn
        try:
            bounded_plan(query, spend=rest, limits=replace(limits, **most), importance=importance)
            break
        except ParameterError:
            if max(most.values()) < _LESS:
                raise
            most = {name: max(1, limit // _LESS) for name, limit in most.items()}
    example: dict[str, Any] = {name: min(EXAMPLE[name], limit) for name, limit in most.items()}

    def search(plan: QueryPlan, part: Budget, rest: Budget, name: str, growth: float) -> LimitSearch:
        steps = candidates(name, most[name], 1 if name in values else 2 if name in squared else 4)
        distinct = tuple(stage for stage in plan.stages if stage.by_unit)
        least = ratios and name not in values and growth > _STEEP
        joins = query.table.neighbours is Neighbours.ADD_REMOVE
        capped = name not in values and (least or joins)
        alone = set(private) == {"rows"} - values and not ratios
        return LimitSearch(
            name=name,
            stages=distinct if name in values else (_sized(plan.stage, query, name, steps),),
            candidates=steps,
            mechanism=selection(part, monotone=name not in values),
            growth=growth,
            squared=name in squared,
            least=least,
            capped=capped,
            idle=capped and joins and not any(one.has_bar for one in query.aggregates.values()),
            counts=growth / GROWTH * float(rest.epsilon) if alone and isinstance(rest, Pure | Approx) else 0.0,
        )

    def at(share: Fraction) -> tuple[float, QueryPlan, int]:
        """The noise, the plan, and the parts of the spend of which the choice needs one."""
        first, rest = split_budget(spend, share)
        plan = bounded_plan(query, spend=rest, limits=replace(limits, **example), importance=importance)
        # rows of a unit are in about the root of the groups
        less = dict.fromkeys(("norm", *squared), groups**-0.25)
        noises = {name: plan.noise_of_limit(name) * less.get(name, 1.0) for name in private}
        part = first if len(private) == 1 else split_budget(first, Fraction(1, len(private)))[0]
        searches = tuple(search(plan, part, rest, name, GROWTH * groups * noise) for name, noise in noises.items())
        choice = LimitChoice(searches=searches, limits=limits, importance=importance, rest=rest)
        # with 1.2 r above 6 t a finer choice gains nothing
        finer = min(one.growth * PARTS / (2 * _FIRST * float(one.mechanism.scale)) for one in searches)
        parts = max(finer / share, min(_COUNTS, 1 + searches[0].counts))
        plan = replace(plan, spend=spend, price=price_of(spend, query), first_stages=(choice,))
        return max(noises.values()), plan, min(_LEAST, math.floor(parts))

    squared = {"max_groups"} if limits.norm is not None else set[str]()
    groups = expected_groups(query, private.values())
    ratios = all(one.lost_row < 1 or name in query.after.divided for name, one in query.aggregates.items())
    noise, plan, parts = at(share)
    if parts > 1 / share and not values & set(private) and not any(limit.share for limit in private.values()):
        noise, plan, _ = at(Fraction(1, parts))
    return noise, plan


def _most(query: Query, name: str, limit: PrivateLimit) -> int:
    """The end of the search: no unit is in more groups than there are, and units alone are no longer than their root."""
    keys = query.groups.keys
    if keys is None or name in {"rows", "values"} or (name == "norm" and not query.units_alone):
        return limit.at_most
    return min(limit.at_most, len(keys) if name == "max_groups" else math.isqrt(len(keys) - 1) + 1)


def expected_groups(query: Query, requests: Iterable[PrivateLimit | PrivateRange]) -> int:
    """The number of groups that a choice expects: of keys, or as its requests say.

    Args:
        query: The query.
        requests: The requests for private choices.

    Raises:
        ParameterError: They differ in it.
    """
    numbers = {one.groups for one in requests if one.groups is not None}
    if len(numbers) > 1:
        raise ParameterError("groups", sorted(map(str, numbers)), "must be the same in all private limits")
    return len(query.groups.keys) if query.groups.keys is not None else next(iter(numbers), GROUPS)


def candidates(name: str, most: int, steps: int = 4) -> tuple[Fraction, ...]:
    """The steps of a limit by a factor: whole numbers, or sixteenths of a row for a norm.

    Args:
        name: The name of the limit.
        most: The largest.
        steps: The number of steps in a doubling.

    Returns:
        The limits, increasing from 1.

    >>> [int(limit) for limit in candidates("rows", 20)]
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 16, 19, 20]
    """
    fine = 16 if name == "norm" else 1
    found = {Fraction(round(fine * 2 ** (i / steps)), fine) for i in range(steps * most.bit_length())}
    return tuple(sorted({Fraction(most), *(step for step in found if step < most)}))


def _edge(name: str, limit: Fraction) -> int:
    """The least size above a limit. The size for a norm is the squared length."""
    return math.floor(limit**2 if name == "norm" else limit) + 1


def _sized(stage: Stage, query: Query, name: str, steps: tuple[Fraction, ...]) -> Stage:
    """The stage that counts units by size. A norm bounds the length in rows, or in groups where units alone are counted."""
    power = {"rows": 1, "max_groups": 0, "norm": 0 if query.units_alone else 2}[name]
    sizes = ContributionSizes((1, *sorted({_edge(name, step) for step in steps})), power)
    return replace(stage, rows_per_group=1, rows_per_unit=None, groups_per_unit=None, norm=None).counting_units(sizes)


@lru_cache(maxsize=256)
def selection(spend: Budget, *, monotone: bool) -> PermuteAndFlip | ExponentialMechanism:
    """The selection that a part of the spend pays for, where one unit moves each score by one unit at most.

    Args:
        spend: The part of the spend.
        monotone: Whether it moves all scores one way.
    """
    if isinstance(spend, Pure):
        return PermuteAndFlip.calibrated(epsilon=spend.epsilon, sensitivity=PARTS, monotone=monotone)
    epsilon = 2 * root_below(mu_squared_of(spend))
    if isinstance(spend, Gdp):
        epsilon = largest(mu_of_bounded_range, spend.mu)
    return ExponentialMechanism.calibrated(epsilon=epsilon, sensitivity=PARTS, monotone=monotone)
