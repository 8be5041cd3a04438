"""What a statistic is planned and estimated within, from a question and its bounds, or from a plan."""

from dataclasses import replace

from neartwin.planning.contribution_bounds import ContributionBounds, parts_of_row
from neartwin.planning.plan import GroupPlan
from neartwin.queries.query import Query
from neartwin.statistics.base import Context
from neartwin.statistics.sensitivity import Contribution
from neartwin.tables.table import RowUnit


def context_of(query: Query, bounding: ContributionBounds) -> Context:
    """Before the budget is split."""
    keys = query.groups.keys
    return Context(
        table=query.table,
        statistics=tuple(query.aggregates.values()),
        reach=Contribution(
            rows_per_group=bounding.max_rows_per_group,
            groups_per_unit=bounding.max_groups,
            groups=None if keys is None else len(keys),
            rows_per_unit=bounding.rows,
        ),
        parts=parts_of_row(query, bounding),
        one_value=isinstance(query.table.unit, RowUnit) and keys == ((),) and not query.groups.rows.conditions,
    )


def planned_context(plan: GroupPlan) -> Context:
    """With the measures of a plan."""
    trees = {name: split.tree for name, split in plan.splits.items()}
    return replace(context_of(plan.query, plan.bounding), measures=plan.measures, trees=trees)
