"""The planner: from a question and a spend to a plan, and from several questions to one. It reads no row and no file.

**Several questions.** Their stages compose as one, under one price that is reserved before the first is asked.

Shares of the spend minimise the sum of the questions' stated errors. An error falls like 1/x in its share x of epsilon,
or like the root of 1/x in its share of rho or mu squared. So x is in proportion to the root of the error, or to its
power 2/3. An (epsilon, delta) spend is tried two ways. One adds epsilons and deltas. The other gives all questions
normal noise, whose mu^2 add up to that of (epsilon, delta) as a whole. A choice of the most common values states how
far its winners may be from the best. A private limit is taken at the plan's
example.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from neartwin.accounting.budgets import Approx, Budget, Pure
from neartwin.accounting.unit_groups import of_one, of_units
from neartwin.errors import QueryError
from neartwin.exact import Number
from neartwin.losses import Composition, compose
from neartwin.planning.allocation import delta_of, gdp_of, share_of, shares_of, total_of
from neartwin.planning.limit_choice import plan_within
from neartwin.planning.limits import Limits
from neartwin.planning.most_common import plan_choice
from neartwin.planning.pilots import private_range_of, ranged_plan, scalar_plan
from neartwin.planning.plan import Plan, Together
from neartwin.queries.query import Query, TopK


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
        spends = [share_of(shared, share, delta=_delta(shared, share, discovered)) for share in shares]
        return tuple(
            _planned(query, part, own, limits) for query, part, own in zip(queries, spends, parts, strict=True)
        )

    options = []
    for shared, price, name in _ways(spend, discovers=discovered > 0):
        even = planned([Fraction(1, len(queries))] * len(queries), shared)
        power = 0.5 if isinstance(shared, Pure | Approx) else 2 / 3
        by_error = shares_of([part.objective for part in even], power)[-1]
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
    normal = gdp_of(spend, discovers=discovers)
    return [(spend, None, "epsilons and deltas added"), (normal, spend, "normal noise, composed as a whole")]


def _delta(shared: Budget, share: Fraction, discovered: int) -> Fraction:
    """A part's delta: its share of what adds up, else an equal part for each question that discovers groups."""
    return delta_of(shared) * share if isinstance(shared, Approx) else delta_of(shared) / max(1, discovered)
