"""From a question and what may be spent to a plan. Reads no row and no file."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from neartwin.accounting.budgets import Approx, Budget
from neartwin.accounting.groups import of_one, of_units
from neartwin.errors import QueryError
from neartwin.exact import Number
from neartwin.planning.limits import PrivateLimit, PrivateRange
from neartwin.planning.pilot_bounds import plan_within
from neartwin.planning.pilot_ranges import ranged_plan
from neartwin.planning.plan import Plan, Together
from neartwin.queries.query import Query, TopK


def plan(
    query: Query | TopK,
    *,
    spend: Budget,
    rows_per_group: int | PrivateLimit | None = None,
    groups_per_unit: int | PrivateLimit | None = None,
    rows_per_unit: int | None = None,
    norm_per_unit: Number | PrivateLimit | None = None,
    discovery_groups: int | None = None,
    weights: Mapping[str, Number] | None = None,
    units_together: int = 1,
    value_range: PrivateRange | None = None,
) -> Plan:
    """Decide everything that a release will do, and its price.

    spend: in any currency that composes: pure, approx, zcdp, rdp or gdp; the noise is the one native to it. rows_per_group,
    groups_per_unit: the most that one unit counts for; asked for wherever a unit could have more, and never guessed, for a
    bound too low loses data and one too high adds noise; `nt.private_limit()` has them chosen privately.
    rows_per_unit: the most in all groups together, for counts, sums and means; over public keys it can stand for both.
    norm_per_unit: instead of all three, the Euclidean length of a unit's whole vector over groups and statistics, in rows: longer
    ones are scaled down, and no row is dropped; unknown groups still need discovery_groups. See
    `neartwin.planning.norm_clipping`.
    discovery_groups: in how many of its groups a unit helps to discover unknown ones, by default all; fewer find more groups
    where groups_per_unit is large. weights: how much the error of a statistic matters beside the others, by name, 1 where it is
    not given: see `neartwin.planning.allocation`. units_together: how many units changed together are promised the spend;
    one alone is
    promised, and the account charged, what the group theorems leave for it: see `neartwin.accounting.groups`. value_range:
    `nt.private_range()` has clip bounds of sums and means chosen privately within the declared ones.

    Errors: `QueryError` for a bound that is missing, `PrivacyError` for what the spend cannot pay at all (unknown groups
    need a delta).
    """
    told: dict[str, Any] = {"rows_per_group": rows_per_group, "groups_per_unit": groups_per_unit, "weights": weights}
    told |= {"rows_per_unit": rows_per_unit, "norm_per_unit": norm_per_unit, "discovery_groups": discovery_groups}
    if units_together != 1:
        one = of_one(spend, units_together)
        made = plan(query, spend=one, value_range=value_range, **told)
        promised = spend if made.price == one and isinstance(spend, Approx) else of_units(made.price, units_together)
        return replace(made, together=Together(units_together, promised))
    if value_range is not None:
        if not isinstance(query, Query):
            raise QueryError("tuned_range(): the most common value has no values to clip")
        return ranged_plan(query, spend=spend, tuned=value_range, limits=told)
    return plan_within(query, spend=spend, limits=told)
