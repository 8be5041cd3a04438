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
from neartwin.planning import sensitivity
from neartwin.planning.allocation import Discovery, Measurement, allocate
from neartwin.planning.contribution_bounds import Limits, bounding_of, parts_of_row, rows_found
from neartwin.planning.measures import (
    cell_measure,
    cells_change,
    count_measure,
    counted_columns,
    filled_measure,
    grid_column,
    number_measure,
    tree_of,
)
from neartwin.planning.most_common import plan_choice
from neartwin.planning.norm_clipping import Measured, ScaledMeasurement, share_norm
from neartwin.planning.plan import Bounding, GroupPlan, Measure, Plan, Split
from neartwin.planning.sensitivity import Contribution, Sensitivity
from neartwin.planning.stage import Stage, cell_clip
from neartwin.queries.histograms import Histogram
from neartwin.queries.moments import moment_set
from neartwin.queries.quantiles import MinMax, Quantile
from neartwin.queries.query import Query, TopK
from neartwin.queries.statistics import Count, CountDistinctUnits, Mean, Sum
from neartwin.tables.grid import GridColumn, Moment
from neartwin.tables.table import RowUnit


def bounded_plan(
    query: Query | TopK,
    *,
    spend: Budget,
    rows_per_group: int | None = None,
    groups_per_unit: int | None = None,
    rows_per_unit: int | None = None,
    norm_per_unit: Number | None = None,
    discovery_groups: int | None = None,
    weights: Mapping[str, Number] | None = None,
) -> Plan:
    """The plan of a question whose bounds are all given: see `neartwin.planning.planner.plan`."""
    match query:
        case Query():
            limits = Limits(
                rows_per_group=rows_per_group,
                groups_per_unit=groups_per_unit,
                rows_per_unit=rows_per_unit,
                norm_per_unit=None if norm_per_unit is None else rational(norm_per_unit=norm_per_unit),
                discovery_groups=discovery_groups,
            )
            bounding = bounding_of(query, limits)
            return _of_query(query, bounding, spend, weights or {})
        case TopK():
            return plan_choice(query, spend)
        case _:
            assert_never(query)


def _weights(query: Query, weights: Mapping[str, Number]) -> Mapping[str, float]:
    for name, weight in weights.items():
        if name not in query.aggregates:
            raise ParameterError(
                "weights", name, f"must name statistics of the question: {', '.join(query.aggregates)}"
            )
        positive(weight=rational(weight=weight))
    return {name: float(rational(weight=weights.get(name, 1))) for name in query.aggregates}


@dataclass(frozen=True, slots=True)
class _Draft:
    """Which measures a query needs, before the budget is split among them."""

    grid: Mapping[str, GridColumn]
    moments: Mapping[str, Moment]
    needed: Mapping[str, Measurement]
    trees: Mapping[str, tuple[GridColumn, CountTree]]

    def to_share(self) -> tuple[ScaledMeasurement, ...]:
        """The measures with how far one row moves each."""
        cells: dict[str, GridColumn | Moment] = {f"total:{name}": cell for name, cell in self.grid.items()}
        cells |= {f"total:{name}": cell for name, cell in self.moments.items()}
        far = {name: (_far(cell), cell.low < 0 < cell.high) for name, cell in cells.items()}
        return tuple(
            ScaledMeasurement(need, *far.get(name, (1, False)))
            for name, need in self.needed.items()
            if name not in self.trees
        )


def _reach(bounding: Bounding, groups: int | None) -> Contribution:
    return Contribution(
        rows_per_group=bounding.rows_per_group,
        groups_per_unit=bounding.groups_per_unit,
        groups=groups,
        rows_per_unit=bounding.rows_per_unit,
    )


def _draft(query: Query, bounding: Bounding, weights: Mapping[str, float], power: float) -> _Draft:
    """power: how the deviation of a node's noise grows with the levels of a tree, 1 for Laplace noise and 1/2 for normal."""
    trees: dict[str, tuple[GridColumn, CountTree]] = {}
    grid: dict[str, GridColumn] = {}
    moments: dict[str, Moment] = {}
    needed: dict[str, Measurement] = {}
    table, keys = query.table, query.groups.keys
    reach = _reach(bounding, None if keys is None else len(keys))
    surely_once = isinstance(table.unit, RowUnit) and keys == ((),) and not query.groups.rows.conditions

    def want(name: str, change: Sensitivity, weight: float) -> None:
        """weight: of one step of its bar in a statistic's bar, in units of one row's largest contribution."""
        shared = needed[name].weight if name in needed else 0.0
        needed[name] = Measurement(name, change, shared + weight)

    def changed(cell: GridColumn | Moment, *, sure: bool) -> Sensitivity:
        if surely_once and sure:
            return sensitivity.of_sure_sum(table.neighbours, low=cell.low, high=cell.high)
        return sensitivity.of_sum(table.neighbours, reach, low=cell.low, high=cell.high)

    for name, aggregate in query.aggregates.items():
        weight = weights[name]
        match aggregate:
            case CountDistinctUnits():
                want("units", sensitivity.of_units(table.neighbours, reach), weight)
            case Count():
                grid |= counted_columns(query, aggregate)
                want(count_measure(query, aggregate, bounding), sensitivity.of_count(table.neighbours, reach), weight)
            case Sum() | Mean():
                column = grid_column(query, aggregate)
                grid[column.name] = column
                change = changed(column, sure=column.fill is not None)
                of_total, of_number = _shares(aggregate, column)
                want(f"total:{column.name}", change, weight * of_total)
                if of_number:
                    number = sensitivity.of_count(table.neighbours, reach)
                    want(filled_measure(column, bounding), number, weight * of_number)
            case Quantile() | MinMax() | Histogram():
                column, tree, size = tree_of(query, aggregate, power)
                trees[cell_measure(column)] = (column, tree)
                parts = parts_of_row(query, bounding)
                change = cells_change(query, bounding, reach, tree, parts)
                want(cell_measure(column), change, weight * size / parts)
            case _:
                sums = moment_set(table, aggregate)
                grid |= {column.name: column for column in sums.columns}
                moments |= sums.moments
                for cell in sums.cells.values():
                    want(f"total:{cell.name}", changed(cell, sure=sums.sure), weight / _far(cell))
                want(number_measure(sums, bounding), sensitivity.of_count(table.neighbours, reach), weight / 2)
    return _Draft(grid, moments, needed, trees)


def _shares(aggregate: Sum | Mean, column: GridColumn) -> tuple[float, float]:
    """What a bar of the total and one of the number add to the statistic's, in units of its largest value: a + |c| b for a sum.

    For a mean (a + |m| b) / n at its worst: |m| is one row's largest contribution.
    """
    if isinstance(aggregate, Mean):
        return 1 / _far(column), 1.0
    largest = max(abs(column.bounds.low_units), abs(column.bounds.high_units), 1)
    return 1 / largest, abs(column.centre) / largest


def _far(cell: GridColumn | Moment) -> int:
    return max(abs(cell.low), abs(cell.high), 1)


def _of_query(query: Query, bounding: Bounding, spend: Budget, weights: Mapping[str, Number]) -> Plan:
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


def _plan_groups(query: Query, bounding: Bounding, spend: Budget, weights: Mapping[str, float]) -> GroupPlan:
    table, keys = query.table, query.groups.keys
    discovery = None
    if keys is None:
        reach = Contribution(rows_per_group=1, groups_per_unit=bounding.entering, groups=None)
        of_rows = any(not isinstance(aggregate, CountDistinctUnits) for aggregate in query.aggregates.values())
        rows = rows_found(bounding) if of_rows else 1
        discovery = Discovery(sensitivity.of_units(table.neighbours, reach), bounding.entering, rows)
    drafts = [_draft(query, bounding, weights, power) for power in (1.0, 0.5)]
    if not drafts[0].trees:
        del drafts[1]
    if bounding.norm_per_unit is not None:
        draft = drafts[-1]  # whose trees are for normal noise
        trees = tuple(Measured(draft.needed[name], parts_of_row(query, bounding)) for name in draft.trees)
        made = share_norm(draft.to_share(), bounding, discovery, spend, neighbours=table.neighbours, trees=trees)
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
                parts=parts_of_row(query, bounding) if name in draft.trees else 1,
            )
            for name, need in draft.needed.items()
        }
    names = tuple(name for name in measures if name not in draft.trees)
    if discovery is not None and bounding.discovery_groups is not None:
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
        splits=_splits(stage, draft, bounding.norm_per_unit, parts_of_row(query, bounding)),
        why=allotted.why,
        error=allotted.error,
        shared=None if made is None else made.whole,
    )


def _splits(stage: Stage, draft: _Draft, norm: Fraction | None, parts: int) -> dict[str, Split]:
    """For each tree a statement of its own, which keeps a unit in the same groups, or weights its values to the norm."""
    alone = replace(stage, moments={}, measures=(), clip=None, parts=parts)
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


def _stage(query: Query, bounding: Bounding, grid: Mapping[str, GridColumn], measures: tuple[str, ...]) -> Stage:
    table, keys = query.table, query.groups.keys
    capped = not isinstance(table.unit, RowUnit) and (keys is None or bounding.groups_per_unit < len(keys))
    capped = capped and bounding.norm_per_unit is None
    return Stage(
        table=table,
        conditions=query.groups.rows.conditions,
        group_columns=query.groups.columns,
        keys=keys,
        grid=grid,
        measures=measures,
        rows_per_group=bounding.rows_per_group,
        groups_per_unit=bounding.groups_per_unit if capped else None,
        rows_per_unit=bounding.rows_per_unit,
        discovery_groups=bounding.discovery_groups,
    )
