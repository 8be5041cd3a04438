"""From a question and what may be spent to a plan. Reads no row and no file."""

from collections.abc import Mapping
from dataclasses import replace

from neartwin.accounting.budgets import Approx, Budget
from neartwin.accounting.groups import of_one, of_units
from neartwin.errors import QueryError
from neartwin.exact import Number
from neartwin.planning.limits import Limits
from neartwin.planning.most_common import plan_choice
from neartwin.planning.pilot_bounds import bounded_plan, plan_within
from neartwin.planning.pilot_ranges import private_range_of, ranged_plan
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
    """Decide everything that a release will do, and its price.

    Args:
        query: The question.
        spend: In any currency that composes: pure, approx, zcdp, rdp or gdp. The noise is the one native to it.
        limits: How much one unit may count for: see `nt.limits`. Wanted wherever a unit could have more than one row or
            group, and never guessed.
        importance: How much the error of each statistic matters, by name; 1 by default. See
            `neartwin.planning.allocation`.
        group_size: How many units changed together are promised the spend. One alone is promised, and the account charged,
            what the group theorems leave for it: see `neartwin.accounting.groups`.

    Raises:
        QueryError: for a limit that is missing.
        ParameterError: for a limit that makes no sense for this question.
        PrivacyError: for what the spend cannot pay at all; unknown groups need a delta.
    """
    limits = limits or Limits()
    if group_size != 1:
        one = of_one(spend, group_size)
        alone = plan(query, spend=one, limits=limits, importance=importance)
        promised = spend if alone.price == one and isinstance(spend, Approx) else of_units(alone.price, group_size)
        return replace(alone, together=Together(group_size, promised))
    if isinstance(query, TopK):
        if limits.private:
            raise QueryError("private_limit(): the most common value has no limits to choose")
        return plan_choice(query, spend)
    clip = private_range_of(query)
    if clip is not None:
        return ranged_plan(query, spend=spend, clip=clip, limits=limits, importance=importance)
    return plan_within(query, bounded_plan, spend=spend, limits=limits, importance=importance)
