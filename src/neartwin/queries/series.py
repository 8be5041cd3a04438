"""Several questions in one plan: their stages compose as one, under one price that is reserved before the first is asked.

Shares of the spend minimise the sum of the questions' stated errors, each of which falls like 1/x in its share x of epsilon,
or like the root of 1/x in its share of rho or mu squared: x in proportion to the root of the error, or to its power 2/3. An
(epsilon, delta) spend is tried both ways: epsilons and deltas added, and all questions with normal noise whose mu^2 add up to
that of (epsilon, delta) as a whole.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from neartwin.accounting.targets import Approx, Gdp, Pure, Rdp, Target, Zcdp
from neartwin.curves import mu_of
from neartwin.errors import PrivacyError, QueryError
from neartwin.exact import Number
from neartwin.losses import Composed, compose
from neartwin.mechanisms.change import root_below
from neartwin.queries.plan import GroupPlan
from neartwin.queries.planner import plan
from neartwin.queries.query import MostCommon, Query

_PARTS = 4096  # shares are multiples of one part in this
Limits = Mapping[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPlan:
    """The plans of several questions about one population, paid together. price: of all of them."""

    parts: tuple[GroupPlan, ...]
    price: Target
    why: str

    @property
    def digest(self) -> str:
        """Equal for series that would do the same."""
        return hashlib.sha256(" ".join(["series", *(part.digest for part in self.parts)]).encode()).hexdigest()

    def losses(self) -> Composed:
        """What all parts reveal together: the price covers this curve."""
        return compose([part.losses() for part in self.parts])


def plan_series(
    queries: Sequence[Query | MostCommon],
    *,
    spend: Target,
    limits: Limits,
    weights: Mapping[str, Number] | None = None,
) -> SeriesPlan:
    """Plan several questions under one spend. limits: rows_per_group and groups_per_unit, the same for all.

    weights: by name of a statistic, in whichever question it is. Errors: as of `plan`; `QueryError` for a choice among values,
    which has no share to compare, and for questions about different tables.
    """
    if not queries:
        raise QueryError("a series needs at least one question")
    asked = [query for query in queries if isinstance(query, Query)]
    if len(asked) < len(queries):
        raise QueryError("the most common values are chosen in a plan of their own")
    if len({query.table.name for query in asked}) > 1:
        raise QueryError("the questions of a series are about one table")
    told = [{name: value for name, value in (weights or {}).items() if name in query.aggregates} for query in asked]
    unknown = set(weights or {}) - {name for part in told for name in part}
    if unknown:
        raise QueryError(f"weights: {min(unknown)!r} is no statistic of these questions")

    def planned(shares: Sequence[Fraction], whole: Target) -> tuple[GroupPlan, ...]:
        discovered = sum(query.groups.keys is None for query in asked)
        spends = [_share(whole, share, discovered) for share in shares]
        made = [
            plan(
                query,
                spend=part,
                weights=own,
                rows_per_group=limits["rows_per_group"],
                groups_per_unit=limits["groups_per_unit"],
            )
            for query, part, own in zip(asked, spends, told, strict=True)
        ]
        return tuple(part for part in made if isinstance(part, GroupPlan))

    options = []
    for whole, price, name in _ways(spend, discovers=any(query.groups.keys is None for query in asked)):
        even = planned([Fraction(1, len(asked))] * len(asked), whole)
        power = 0.5 if isinstance(whole, Pure | Approx) else 2 / 3
        found = [even, planned(_shares([part.error for part in even], power), whole)]
        best = min(found, key=_error)
        worth = f"shares by error, which add up to {_error(best):.4g}; an even split would to {_error(even):.4g}"
        options.append(SeriesPlan(parts=best, price=price or _sum(best, spend), why=f"{name}: {worth}"))
    return min(options, key=lambda one: _error(one.parts))


def _error(parts: Sequence[GroupPlan]) -> float:
    return math.fsum(part.error for part in parts)


def _ways(spend: Target, *, discovers: bool) -> list[tuple[Target, Target | None, str]]:
    """What the parts share, and what is charged: None for the sum of their prices."""
    if not isinstance(spend, Approx):
        return [(spend, None, "one currency")]
    failure = spend.delta / 2 if discovers else Fraction(0)
    mu = Fraction(float(mu_of(spend.epsilon, (spend.delta - failure) / (1 - failure)).lower))
    return [(spend, None, "epsilons and deltas added"), (Gdp(mu, failure), spend, "normal noise, composed as a whole")]


def _shares(errors: Sequence[float], power: float) -> list[Fraction]:
    weights = [max(error, 1e-12) ** power for error in errors]
    parts = [max(1, math.floor(_PARTS * weight / math.fsum(weights))) for weight in weights]
    parts[parts.index(max(parts))] += _PARTS - sum(parts)
    return [Fraction(part, _PARTS) for part in parts]


def _share(whole: Target, share: Fraction, discovered: int) -> Target:
    """A part of what adds up; of delta, an equal part for each question that discovers groups."""
    many = max(1, discovered)
    match whole:
        case Pure(epsilon=epsilon):
            return Pure(epsilon * share)
        case Approx(epsilon=epsilon, delta=delta):
            return Approx(epsilon * share, delta * share)
        case Zcdp(rho=rho, delta=delta):
            return Zcdp(rho * share, delta / many)
        case Rdp(order=order, epsilon=epsilon, delta=delta):
            return Rdp(order, epsilon * share, delta / many)
        case Gdp(mu=mu, delta=delta):
            return Gdp(root_below(mu**2 * share), delta / many)
        case _:
            raise PrivacyError(f"a plan cannot spend {whole}; spend pure, approx, zcdp, rdp or gdp")


def _sum(parts: Sequence[GroupPlan], spend: Target) -> Target:
    """The prices of one currency added: epsilon, delta, rho; mu in squares, which are at most those of the spend."""
    prices = [part.price for part in parts]
    delta = sum((getattr(price, "delta", Fraction(0)) for price in prices), Fraction(0))
    first = prices[0]
    match first:
        case Zcdp():
            return Zcdp(sum((price.rho for price in prices if isinstance(price, Zcdp)), Fraction(0)), delta)
        case Rdp(order=order):
            return Rdp(order, sum((price.epsilon for price in prices if isinstance(price, Rdp)), Fraction(0)), delta)
        case Gdp():
            from neartwin.mechanisms.change import root_above

            squared = sum((price.mu**2 for price in prices if isinstance(price, Gdp)), Fraction(0))
            most = spend.mu if isinstance(spend, Gdp) and squared <= spend.mu**2 else root_above(squared)
            return Gdp(min(root_above(squared), most), delta)
    epsilon = sum((price.epsilon for price in prices if isinstance(price, Pure | Approx)), Fraction(0))
    return Approx(epsilon, delta) if delta else Pure(epsilon)
