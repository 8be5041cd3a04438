"""The planner: from a question and a spend to a plan. It reads no row and no file."""

from collections.abc import Mapping
from dataclasses import replace

from neartwin.accounting.budgets import Approx, Budget
from neartwin.accounting.unit_groups import of_one, of_units
from neartwin.errors import QueryError
from neartwin.exact import Number
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
