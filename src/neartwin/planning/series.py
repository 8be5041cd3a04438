"""Several questions in one plan: their stages compose as one, under one price that is reserved before the first is asked.

Shares of the spend minimise the sum of the questions' stated errors, each of which falls like 1/x in its share x of epsilon,
or like the root of 1/x in its share of rho or mu squared: x in proportion to the root of the error, or to its power 2/3. An
(epsilon, delta) spend is tried both ways: epsilons and deltas added, and all questions with normal noise whose mu^2 add up to
that of (epsilon, delta) as a whole. A choice of the most common values states how far its winners may be from the best; a tuned
bound is taken at the root of its limit, the middle of its search by octaves.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from neartwin.accounting.budgets import Approx, Budget, Pure
from neartwin.errors import QueryError
from neartwin.exact import Number
from neartwin.losses import Composition, compose
from neartwin.planning.allocation import shares_of
from neartwin.planning.limits import Limits
from neartwin.planning.pilot_ranges import private_range_of
from neartwin.planning.plan import Plan
from neartwin.planning.planner import plan
from neartwin.planning.spending import delta_of, gdp_of, share_of, total_of
from neartwin.queries.query import Query, TopK


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlan:
    """The plans of several questions about one population, paid together. price: of all of them."""

    parts: tuple[Plan, ...]
    price: Budget
    why: str

    @property
    def digest(self) -> str:
        """Equal for series that would do the same."""
        return hashlib.sha256(" ".join(["series", *(part.digest for part in self.parts)]).encode()).hexdigest()

    def losses(self) -> Composition:
        """What all parts reveal together: the price covers this curve."""
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
        spend: What they may cost together.
        limits: As of `plan`, the same for all; a question takes those that it can have.
        importance: Of each statistic's error, by name, in whichever question it is.
        group_size: 1; another is for one question.

    Raises:
        QueryError: for questions about different tables, for a `group_size` and for clip bounds that are chosen privately.
    """
    limits = limits or Limits()
    if group_size != 1 or any(isinstance(query, Query) and private_range_of(query) for query in queries):
        raise QueryError("group_size and private_range() are for one question; ask one at a time")
    if not queries:
        raise QueryError("a series needs at least one question")
    if len({query.table.name for query in queries}) > 1:
        raise QueryError("the questions of a series are about one table")
    told = [{name: value for name, value in (importance or {}).items() if name in _names(query)} for query in queries]
    unknown = set(importance or {}) - {name for part in told for name in part}
    if unknown:
        raise QueryError(f"importance: {min(unknown)!r} is no statistic of these questions")
    discovered = sum(_discovers(query) for query in queries)

    def planned(shares: Sequence[Fraction], whole: Budget) -> tuple[Plan, ...]:
        spends = [share_of(whole, share, delta=_delta(whole, share, discovered)) for share in shares]
        return tuple(_planned(query, part, own, limits) for query, part, own in zip(queries, spends, told, strict=True))

    options = []
    for whole, price, name in _ways(spend, discovers=discovered > 0):
        even = planned([Fraction(1, len(queries))] * len(queries), whole)
        power = 0.5 if isinstance(whole, Pure | Approx) else 2 / 3
        by_error = shares_of([part.objective for part in even], power)[-1]
        best = min(even, planned(by_error, whole), key=_error)
        worth = f"shares by error, which add up to {_error(best):.4g}; an even split would to {_error(even):.4g}"
        paid = price or total_of([part.price for part in best], spend)
        options.append(SeriesPlan(parts=best, price=paid, why=f"{name}: {worth}"))
    return min(options, key=lambda one: _error(one.parts))


def _names(query: Query | TopK) -> frozenset[str]:
    return frozenset(query.aggregates) if isinstance(query, Query) else frozenset()


def _discovers(query: Query | TopK) -> bool:
    return isinstance(query, Query) and query.groups.keys is None


def _planned(query: Query | TopK, spend: Budget, importance: Mapping[str, Number], limits: Limits) -> Plan:
    if isinstance(query, TopK):
        return plan(query, spend=spend)
    keys, none = query.groups.keys, dict[str, None]()
    if keys is not None:
        none["max_discovered_groups"] = None
    if keys is not None and len(keys) == 1:
        none["max_groups"] = None  # there is one group to be in
    if "max_rows_per_group" in limits.private and all(asked.counts_units for asked in query.aggregates.values()):
        none["max_rows_per_group"] = None  # a unit counts once, whatever its rows
    return plan(query, spend=spend, importance=importance, limits=replace(limits, **none))


def _error(parts: Sequence[Plan]) -> float:
    return math.fsum(part.objective for part in parts)


def _ways(spend: Budget, *, discovers: bool) -> list[tuple[Budget, Budget | None, str]]:
    """What the parts share, and what is charged: None for the sum of their prices."""
    if not isinstance(spend, Approx):
        return [(spend, None, "one currency")]
    normal = gdp_of(spend, discovers=discovers)
    return [(spend, None, "epsilons and deltas added"), (normal, spend, "normal noise, composed as a whole")]


def _delta(whole: Budget, share: Fraction, discovered: int) -> Fraction:
    """What a part gets of delta: its share of what adds up, else an equal part for each question that discovers groups."""
    return delta_of(whole) * share if isinstance(whole, Approx) else delta_of(whole) / max(1, discovered)
