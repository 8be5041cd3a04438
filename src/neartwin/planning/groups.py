"""From a question within given bounds to a plan: what is measured, how the budget is split, what an engine is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import assert_never

from neartwin.accounting.budgets import Budget
from neartwin.checks import positive
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.planning.allocation import Discovery, allocate
from neartwin.planning.context import context_of
from neartwin.planning.contribution_bounds import ContributionBounds, contribution_bounds, rows_found
from neartwin.planning.limits import Limits
from neartwin.planning.most_common import plan_choice
from neartwin.planning.norm_clipping import share_norm
from neartwin.planning.plan import GroupPlan, Plan, Split
from neartwin.planning.stage import Stage, cell_clip, of_clipped_cells
from neartwin.queries.query import Query, TopK
from neartwin.statistics import sensitivity
from neartwin.statistics.measures import Measure, Measurement
from neartwin.statistics.sensitivity import Contribution
from neartwin.tables.grid import GridColumn, Moment
from neartwin.tables.table import RowUnit


def bounded_plan(
    query: Query | TopK, *, spend: Budget, limits: Limits, importance: Mapping[str, Number] | None = None
) -> Plan:
    """The plan of a question whose limits are all numbers: see `neartwin.planning.planner.plan`."""
    match query:
        case Query():
            return _of_query(query, contribution_bounds(query, limits), spend, importance or {})
        case TopK():
            return plan_choice(query, spend)
        case _:
            assert_never(query)


def _weights(query: Query, weights: Mapping[str, Number]) -> Mapping[str, float]:
    for name, weight in weights.items():
        if name not in query.aggregates:
            raise ParameterError(
                "importance", name, f"must name statistics of the question: {', '.join(query.aggregates)}"
            )
        positive(importance=rational(importance=weight))
    return {name: float(rational(importance=weights.get(name, 1))) for name in query.aggregates}


@dataclass(frozen=True, slots=True)
class _Draft:
    """Which measures a query needs, by name, before the budget is split among them. parts: of a row, in which trees count."""

    needed: Mapping[str, Measurement]
    parts: int

    @property
    def trees(self) -> dict[str, tuple[GridColumn, CountTree]]:
        """Those by cell, with the one column and its tree."""
        return {name: (need.grid[0], need.tree) for name, need in self.needed.items() if need.tree is not None}

    @property
    def grid(self) -> dict[str, GridColumn]:
        """The columns of all others."""
        return {column.name: column for need in self.needed.values() if need.tree is None for column in need.grid}

    @property
    def moments(self) -> dict[str, Moment]:
        """The products among their totals."""
        return {need.cell.name: need.cell for need in self.needed.values() if isinstance(need.cell, Moment)}


def _draft(query: Query, bounding: ContributionBounds, weights: Mapping[str, float], power: float) -> _Draft:
    """power: how the deviation of a node's noise grows with the levels of a tree, 1 for Laplace noise and 1/2 for normal."""
    context, norm = context_of(query, bounding), bounding.norm
    needed: dict[str, Measurement] = {}
    for name, statistic in query.aggregates.items():
        for need in statistic.measurements(context, weights[name], power):
            if need.tree is not None and norm is not None:
                clip = cell_clip(norm, need.tree)
                change = of_clipped_cells(query.table.neighbours, clip, need.tree, bounding.max_groups)
                need = replace(need, sensitivity=change)  # noqa: PLW2901 - the same measure, bounded in another way
            known = needed.get(need.name)
            needed[need.name] = need if known is None else _joined(known, need)
    return _Draft(needed, context.parts)


def _joined(one: Measurement, other: Measurement) -> Measurement:
    """One measure for two statistics: the sum of what its bar adds to theirs."""
    grid = (*one.grid, *(column for column in other.grid if column not in one.grid))
    return replace(other, weight=one.weight + other.weight, grid=grid)


def _of_query(query: Query, bounding: ContributionBounds, spend: Budget, weights: Mapping[str, Number]) -> Plan:
    """The plan of groups, or of what is asked in their place."""
    groups = query.groups
    alone = replace(query, groups=replace(groups, margins=(), asked=None))
    base = _plan_groups(alone, bounding, spend, _weights(query, weights))
    if groups.asked is not None:
        from neartwin.planning.workloads import plan_workload

        return plan_workload(query, base, spend)
    if groups.margins:
        from neartwin.planning.marginals import plan_margins

        return plan_margins(query, base, spend)
    return base


def _plan_groups(query: Query, bounding: ContributionBounds, spend: Budget, weights: Mapping[str, float]) -> GroupPlan:
    table, keys = query.table, query.groups.keys
    discovery = None
    if keys is None:
        reach = Contribution(rows_per_group=1, groups_per_unit=bounding.entering, groups=None)
        of_rows = any(not aggregate.counts_units for aggregate in query.aggregates.values())
        rows = rows_found(bounding) if of_rows else 1
        discovery = Discovery(sensitivity.of_units(table.neighbours, reach), bounding.entering, rows)
    drafts = [_draft(query, bounding, weights, power) for power in (1.0, 0.5)]
    if not drafts[0].trees:
        del drafts[1]
    if bounding.norm is not None:
        draft = drafts[-1]  # whose trees are for normal noise
        trees = tuple(need for need in draft.needed.values() if need.tree is not None)
        others = tuple(need for need in draft.needed.values() if need.tree is None)
        made = share_norm(
            others, bounding, discovery, spend, neighbours=table.neighbours, trees=trees, tree_parts=draft.parts
        )
        measures, allotted = made.measures, made.allotted
    else:
        made = None
        shared = [(draft, allocate(tuple(draft.needed.values()), discovery, spend)) for draft in drafts]
        draft, allotted = min(shared, key=lambda one: one[1].error)
        measures = {
            name: Measure(
                name=name,
                sensitivity=need.sensitivity,
                mechanism=allotted.noise[name],
                parts=1 if need.tree is None else draft.parts,
            )
            for name, need in draft.needed.items()
        }
    names = tuple(name for name in measures if name not in draft.trees)
    if discovery is not None and bounding.max_discovered_groups is not None:
        names = ("finders", *names)
    elif discovery is not None and "units" not in measures:
        names = ("units", *names)
    stage = replace(
        _stage(query, bounding, draft.grid, names), moments=draft.moments, clip=None if made is None else made.clip
    )
    return GroupPlan(
        query=query,
        bounding=bounding,
        spend=spend,
        price=allotted.price,
        stage=stage,
        measures=measures,
        selection=allotted.selection,
        splits=_splits(stage, draft, bounding.norm),
        why=allotted.why,
        error=allotted.error,
        shared=None if made is None else made.whole,
    )


def _splits(stage: Stage, draft: _Draft, norm: Fraction | None) -> dict[str, Split]:
    """For each tree a statement of its own, which keeps a unit in the same groups, or weights its values to the norm."""
    alone = replace(stage, moments={}, measures=(), clip=None, parts=draft.parts)
    if norm is not None:  # all groups of a unit, then: nothing is chosen
        alone = replace(alone, discovery_groups=None)
    return {
        name: Split(
            stage=replace(
                alone,
                grid={column.name: column},
                split=column.name,
                cell_clip=None if norm is None else cell_clip(norm, tree),
            ),
            tree=tree,
        )
        for name, (column, tree) in draft.trees.items()
    }


def _stage(
    query: Query, bounding: ContributionBounds, grid: Mapping[str, GridColumn], measures: tuple[str, ...]
) -> Stage:
    table, keys = query.table, query.groups.keys
    capped = not isinstance(table.unit, RowUnit) and (keys is None or bounding.max_groups < len(keys))
    capped = capped and bounding.norm is None
    return Stage(
        table=table,
        conditions=query.groups.rows.conditions,
        group_columns=query.groups.columns,
        keys=keys,
        grid=grid,
        measures=measures,
        rows_per_group=bounding.max_rows_per_group,
        groups_per_unit=bounding.max_groups if capped else None,
        rows_per_unit=bounding.rows,
        discovery_groups=bounding.max_discovered_groups,
    )
