"""The planner: from a question and a spend to a plan, and from several questions to one. It reads no row and no file.

**Several questions.** Their stages compose as one, under one price that is reserved before the first is asked.

Shares of the spend minimise the sum of the questions' stated errors. An error falls like 1/x in its share x of epsilon,
or like the root of 1/x in its share of rho or mu squared. So x is in proportion to the root of the error, or to its
power 2/3. An (epsilon, delta) spend is tried two ways. One adds epsilons and deltas. The other gives all questions
normal noise, whose mu^2 add up to that of (epsilon, delta) as a whole. A choice of the most common values states how
far its winners may be from the best. A private limit is taken at the plan's
example.

**The most common values**: k noisy choices one after the other, and their counts if asked. Each choice is permute-and-flip
among the values that are left. All k compose by the rule of the spend's own currency. k choices at e are (k e)-private, k
rho(e)-zCDP, and k mu(e)^2 in squared mu. At a delta the certified engine gives their epsilon.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from neartwin.accounting.budgets import Approx, Budget, Gdp, Pure, Rdp, Zcdp
from neartwin.accounting.unit_groups import of_one, of_units
from neartwin.errors import PrivacyError, QueryError
from neartwin.exact import Number
from neartwin.losses import Composition, compose
from neartwin.losses import Pure as PureLoss
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.selection.exponential import PeeledTop, PermuteAndFlip
from neartwin.noise import Source
from neartwin.planning import allocation
from neartwin.planning.allocation import CONFIDENCE, allocate, delta_of, each_epsilon, share_of, total_of, without_delta
from neartwin.planning.explain import Explained, nodes
from neartwin.planning.limit_choice import plan_within
from neartwin.planning.limits import Limits
from neartwin.planning.pilots import private_range_of, ranged_plan, scalar_plan
from neartwin.planning.plan import NoisyAnswer, Plan, Together
from neartwin.planning.stage import Aggregates, Stage
from neartwin.queries.query import Query, TopK
from neartwin.statistics.base import Estimate, ExpectedError
from neartwin.statistics.measures import Measure, Measurement
from neartwin.statistics.sensitivity import Sensitivity

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKPlan(Plan):
    """The plan of a `TopK`: it releases the winners, and their counts with separate noise if asked.

    Attributes:
        mechanism: The choices.
        counts: The counts of the winners' units; None if they were not asked for.
        why: The sensitivity of the compared counts, in words.
    """

    kind = "choice"

    query: TopK
    mechanism: PeeledTop
    counts: Measure | None
    why: str

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The winners' counts, if they were asked for."""
        return () if self.counts is None else (("count", "count_distinct_units()"),)

    @property
    def objective(self) -> float:
        """The sum of the gap and the bars, in units."""
        return math.fsum(float(error.half_width or 0) for error in self.expected_errors())

    def record(self) -> dict[str, object]:
        """The scale of each choice, the number of choices, and the noise of counts."""
        form: dict[str, object] = {"scale": str(self.mechanism.each.scale)}
        if self.query.k != 1:
            form["k"] = self.query.k
        if self.counts is not None:
            form["counts"] = self.counts.mechanism.record
        return form

    def losses(self) -> Composition:
        """The privacy loss of the choices and the counts together. The price covers this curve."""
        chosen = self.mechanism.losses()
        return chosen if self.counts is None else chosen + self.counts.losses()

    def mechanisms(self) -> Iterator[tuple[str, object]]:
        """The choice, and the noise of counts."""
        yield "", self.mechanism
        if self.counts is not None:
            yield "counts", self.counts.mechanism

    def noised(self, answers: Sequence[Aggregates], source: Source) -> NoisyAnswer:
        """The winners, best first, and their noisy counts."""
        units = answers[0].values["units"]
        winners = self.mechanism.choose(units, source=source)
        keys = tuple(answers[0].keys[winner] for winner in winners)
        if self.counts is None:
            return NoisyAnswer(keys, ())
        values = self.counts.mechanism.noisy(units[winners], source=source).tolist()
        bar = self.counts.mechanism.half_width(CONFIDENCE)
        ends = (tuple(value + move for value in values) for move in (0, -bar, bar))
        return NoisyAnswer(keys, (Estimate("count", *ends),))

    def expected_errors(self) -> tuple[ExpectedError, ...]:
        """The gap of each winner to the best value left, and the bar of its count.

        A winner's count is within t ln(m / beta) of the best left (McKenna, Sheldon 2020), with a union bound over the
        k choices.
        """
        k = self.query.k
        gap = math.ceil(float(self.mechanism.each.scale) * math.log(len(self.query.among) * k / (1 - CONFIDENCE)))
        what = "the winner's count" if k == 1 else "each winner's count"
        best = "the largest" if k == 1 else "the largest that is left"
        chosen = ExpectedError(
            name=self.query.column,
            confidence=CONFIDENCE,
            half_width=Fraction(gap),
            by_size=(),
            says=f"{what} is within {gap:,} of {best}",
        )
        if self.counts is None:
            return (chosen,)
        return chosen, ExpectedError.everywhere("count", self.counts.half_width(CONFIDENCE), CONFIDENCE)

    def _explained(self) -> tuple[Explained, ...]:
        query, each = self.query, self.mechanism.each
        times = f", {query.k} times, each among what is left" if query.k > 1 else ""
        lines = [self.why, f"each choice costs epsilon {float(each.epsilon):g}"]
        if self.counts is None:
            lines.append("only what wins is released; a count would need noise of its own")
        count = f"count distinct units by {query.column!r} over {len(query.among)} public values"
        chosen = Explained(f"permute and flip{times}, scale {float(each.scale):g}", nodes(*lines))
        if self.counts is None:
            return Explained(count), chosen
        why = nodes(f"sensitivity {self.counts.sensitivity.l1}: {self.counts.sensitivity.why}")
        counts = f"the winners' counts, for half of the spend: {self.counts.noise_in_words}"
        return Explained(count), chosen, Explained(counts, why)

    def _notes(self) -> tuple[str, ...]:
        if self.counts is None:
            subject = "winners are released. Their counts" if self.query.k > 1 else "winner is released. Its count"
            return (f"Only the {subject} and the runners-up are not; asking for them costs more.",)
        bars = f"Each count has fresh noise, and its bar holds with probability at least {CONFIDENCE:.0%}"
        return (f"{bars}; which values won was decided with other noise.",)

    def _statistics(self) -> dict[str, Any]:
        return {"statistics": {"most common": self.query.column}}

    def bounds(self) -> list[dict[str, str]]:
        """The one bound: a unit counts once for each value."""
        return [{"what": "rows of one unit for each value", "value": "1", "origin": "the mechanism counts units"}]


def plan_choice(query: TopK, spend: Budget) -> TopKPlan:
    """Plan the choice of the most common values; counts take half of the spend.

    Args:
        query: The question.
        spend: The spend.

    Returns:
        The plan.

    Raises:
        PrivacyError: A choice cannot spend this currency.
    """
    table = query.table
    monotone = table.neighbours is Neighbours.ADD_REMOVE
    if monotone:
        why = (
            "one unit raises counts by at most 1, all in one direction, however many it is in: no factor m, no factor 2"
        )
    else:
        why = "replacing a unit can raise one count and lower another by 1: the gap moves by 2"
    stage = Stage(
        table=table,
        conditions=query.rows.conditions,
        group_columns=(query.column,),
        keys=query.among,
        grid={},
        measures=("units",),
        rows_per_group=1,
        groups_per_unit=None,
    )
    half = share_of(spend, _HALF, delta=delta_of(spend) / 2)
    epsilon, price = _each(half if query.counted else spend, query.k)
    each = PermuteAndFlip.calibrated(epsilon=epsilon, sensitivity=1, monotone=monotone)
    counts = None
    if query.counted:
        reach = Sensitivity(query.k, 1, query.k, f"a unit counts at most once for each of {query.k} values")
        allotted = allocate((Measurement("units", reach, 1.0),), None, half)
        counts = Measure(name="units", sensitivity=reach, mechanism=allotted.noise["units"])
        price = total_of([price, allotted.price], spend)
    return TopKPlan(
        query=query,
        spend=spend,
        price=price,
        stage=stage,
        mechanism=PeeledTop(each=each, count=query.k),
        counts=counts,
        why=why,
    )


def _each(spend: Budget, k: int) -> tuple[Fraction, Budget]:
    """The epsilon of one of k choices, and the price of all of them, never more than the spend."""
    match spend:
        case Pure(epsilon=epsilon):
            return epsilon / k, spend
        case Approx(epsilon=epsilon, delta=delta):
            # quarters of epsilon / k, the largest first; four of them hold by sums, and leave delta unspent
            for quarters in range(4 * k, 4, -1):
                if (k * PureLoss(epsilon=epsilon * quarters / (4 * k))).epsilon(delta).upper <= epsilon:
                    return epsilon * quarters / (4 * k), spend
            return epsilon / k, Pure(epsilon)
        case Zcdp() | Gdp():
            return each_epsilon(spend, k), without_delta(spend)
        case Rdp(order=order, epsilon=epsilon):
            return each_epsilon(Zcdp(epsilon / order, spend.delta), k), without_delta(spend)
        case _:
            raise PrivacyError(f"a choice cannot spend {spend}; spend pure(epsilon), approx, zcdp(rho) or gdp(mu)")


def plan(
    query: Query | TopK,
    *,
    spend: Budget,
    limits: Limits | None = None,
    importance: Mapping[str, Number] | None = None,
    group_size: int = 1,
) -> Plan:
    """Decide every step of a release, and its price.

    Args:
        query: The question.
        spend: A budget in any currency that composes: pure, approx, zcdp, rdp or gdp. The noise is native to it.
        limits: The most that one unit may count for (`nt.limits`). Without any, the plan chooses those that it needs
            privately, with a share of the spend.
        importance: The relative importance of each statistic's error, by name. Default 1; see
            `neartwin.planning.allocation`.
        group_size: The number of units changed together that the spend protects. The account is charged the implied
            cost of one unit: see `neartwin.accounting.unit_groups`.

    Returns:
        The plan.

    Raises:
        QueryError: A limit is missing, or groups of one unit each are to be discovered.
        ParameterError: A limit makes no sense for this question.
        PrivacyError: The spend cannot pay for the question at all; unknown groups need a delta.
    """
    limits = limits or Limits()
    if group_size != 1:
        one = of_one(spend, group_size)
        alone = plan(query, spend=one, limits=limits, importance=importance)
        promised = spend if alone.price == one and isinstance(spend, Approx) else of_units(alone.price, group_size)
        return replace(alone, together=Together(group_size, promised))
    if isinstance(query, TopK):
        if limits.private or query.rows.first:
            raise QueryError("private_limit(): the most common value has no limits to choose, and asks nothing first")
        return plan_choice(query, spend)
    table = query.table
    if query.groups.keys is None and table.unit in query.groups.columns and table.period is None:
        units = f"FROM (SELECT {table.unit}, COUNT(*) AS n FROM {table.name} GROUP BY 1) AS t GROUP BY n"
        raise QueryError(
            f"a group of {table.unit!r} is one unit, whom discovery hides; write SELECT n, COUNT(*) {units}"
        )
    if query.groups.rows.first:
        return scalar_plan(plan, query, spend=spend, limits=limits, importance=importance)
    clip = private_range_of(query)
    if clip is not None:
        return ranged_plan(query, spend=spend, clip=clip, limits=limits, importance=importance)
    return plan_within(query, spend=spend, limits=limits, importance=importance)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlan:
    """The plans of several questions about one population, paid together.

    Attributes:
        parts: The plans.
        price: The price of all of them.
        why: The reasons for the split, in words.
    """

    parts: tuple[Plan, ...]
    price: Budget
    why: str

    @property
    def digest(self) -> str:
        """The identity of the series: equal for series with the same effect."""
        return hashlib.sha256(" ".join(["series", *(part.digest for part in self.parts)]).encode()).hexdigest()

    def losses(self) -> Composition:
        """The privacy loss of all parts together. The price covers this curve."""
        return compose([part.losses() for part in self.parts])


def plan_series(
    queries: Sequence[Query | TopK],
    *,
    spend: Budget,
    limits: Limits | None = None,
    importance: Mapping[str, Number] | None = None,
    group_size: int = 1,
) -> SeriesPlan:
    """Plan several questions under one spend.

    Args:
        queries: The questions, all about one table.
        spend: The price of all together.
        limits: As for `plan`; each question takes those that fit it.
        importance: The relative importance of each statistic's error, by name, in whichever question it is. Default 1.
        group_size: Must be 1; another size is for one question.

    Returns:
        The plan.

    Raises:
        QueryError: The questions are about different tables, or there is a `group_size` or a private range.
    """
    limits = limits or Limits()
    if group_size != 1 or any(isinstance(query, Query) and private_range_of(query) for query in queries):
        raise QueryError("a series takes no group_size and no private_range(); ask such questions one at a time")
    if not queries:
        raise QueryError("a series needs at least one question")
    if len({query.table.name for query in queries}) > 1:
        raise QueryError(
            "the questions of a series must be about one table; ask questions about others in a series of their own"
        )
    names = [query.aggregates if isinstance(query, Query) else () for query in queries]
    parts = [{name: value for name, value in (importance or {}).items() if name in own} for own in names]
    unknown = set(importance or {}) - {name for part in parts for name in part}
    if unknown:
        raise QueryError(f"importance: {min(unknown)!r} does not name a statistic of these questions")
    discovered = sum(isinstance(query, Query) and query.groups.keys is None for query in queries)

    def planned(shares: Sequence[Fraction], shared: Budget) -> tuple[Plan, ...]:
        # a delta adds up with the shares, or else is equal for all questions that discover groups
        deltas = [share if isinstance(shared, Approx) else Fraction(1, max(1, discovered)) for share in shares]
        spends = [share_of(shared, share, delta=delta_of(shared) * d) for share, d in zip(shares, deltas, strict=True)]
        return tuple(
            _planned(query, part, own, limits) for query, part, own in zip(queries, spends, parts, strict=True)
        )

    options = []
    for shared, price, name in _ways(spend, discovers=discovered > 0):
        even = planned([Fraction(1, len(queries))] * len(queries), shared)
        power = 0.5 if isinstance(shared, Pure | Approx) else 2 / 3
        by_error = allocation.shares_of([part.objective for part in even], power)[-1]
        best = min(even, planned(by_error, shared), key=_error)
        worth = f"shares by error, which add up to {_error(best):.4g}; an even split would to {_error(even):.4g}"
        paid = price or total_of([part.price for part in best], spend)
        options.append(SeriesPlan(parts=best, price=paid, why=f"{name}: {worth}"))
    return min(options, key=lambda one: _error(one.parts))


def _planned(query: Query | TopK, spend: Budget, importance: Mapping[str, Number], limits: Limits) -> Plan:
    if isinstance(query, TopK):
        return plan(query, spend=spend)
    keys, none = query.groups.keys, dict[str, None]()
    if keys is not None:
        none["max_discovered_groups"] = None
    if keys is not None and len(keys) == 1:
        none["max_groups"] = None  # there is one group
    return plan(query, spend=spend, importance=importance, limits=replace(limits, **none))


def _error(parts: Sequence[Plan]) -> float:
    return math.fsum(part.objective for part in parts)


def _ways(spend: Budget, *, discovers: bool) -> list[tuple[Budget, Budget | None, str]]:
    """The budgets that the parts share, each with its charge (None for the sum of the parts' prices) and its name."""
    if not isinstance(spend, Approx):
        return [(spend, None, "one currency")]
    normal = allocation.gdp_of(spend, discovers=discovers)
    return [(spend, None, "epsilons and deltas added"), (normal, spend, "normal noise, composed as a whole")]
