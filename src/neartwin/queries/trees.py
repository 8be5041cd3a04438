"""The trees over the cells of a column that quantiles and histograms are counted in: which one, and how far a unit moves it."""

from neartwin.errors import QueryError
from neartwin.mechanisms.count_trees import CountTree
from neartwin.mechanisms.ranks import best_tree, typical_weight
from neartwin.queries import sensitivity
from neartwin.queries.histograms import Histogram
from neartwin.queries.norm_cells import cell_clip, of_clipped_cells
from neartwin.queries.plan import Bounding
from neartwin.queries.quantiles import Extreme, Quantile, grid_of
from neartwin.queries.query import Query
from neartwin.queries.sensitivity import Reach, Sensitivity
from neartwin.queries.stage import GridColumn
from neartwin.queries.statistics import bin_value, summand


def tree_of(
    query: Query, aggregate: Quantile | Extreme | Histogram, power: float
) -> tuple[GridColumn, CountTree, float]:
    """The column whose cells are counted, the tree over them, and how many bars of a node an answer's bar is."""
    if isinstance(aggregate, Histogram):
        column = histogram_column(query, aggregate)
        bins = column.high - column.low + 1
        return column, CountTree(bins, max(2, bins)), 1.0
    column = quantile_column(query, aggregate)
    tree = best_tree(column.high - column.low + 1, power)
    return column, tree, _rank_error(tree, aggregate)


def _rank_error(tree: CountTree, aggregate: Quantile | Extreme) -> float:
    """The bars of the ranks asked for, typical over the places, in bars of one node."""
    if isinstance(aggregate, Extreme):
        return typical_weight(tree, 1.0 if aggregate.end == "maximum" else 0.0)
    return sum(typical_weight(tree, float(rank)) for rank in aggregate.ranks)


def cell_measure(column: GridColumn) -> str:
    """The measure that counts values by cell."""
    return f"cells:{column.name}"


def histogram_column(query: Query, aggregate: Histogram) -> GridColumn:
    """The number of a value's bin as a grid column, NULL for what lies in none."""
    value = bin_value(query.table, aggregate)
    return GridColumn(value.column, value.column, value.bounds, 0, None, expression=value.expression)


def quantile_column(query: Query, aggregate: Quantile | Extreme) -> GridColumn:
    """The grid column behind quantiles: all of one column, grid and fill share one tree."""
    value = summand(query.table, aggregate)
    kind = query.table.schema[value.column] if value.expression is None else value.expression.type
    chosen = aggregate.bounds is not None or value.expression is not None
    bounds = grid_of(value.bounds, kind, aggregate.step, given=chosen)
    fill = None if aggregate.fill is None else aggregate.fill / bounds.step
    if fill is not None and not (fill.denominator == 1 and bounds.low_units <= fill <= bounds.high_units):
        raise QueryError(
            f"fill={float(aggregate.fill or 0):g} of {aggregate} must be a multiple of the step within {bounds}"
        )
    name = f"{value.column}[{bounds.low},{bounds.high},{bounds.step}]" + ("" if fill is None else f"?{fill}")
    return GridColumn(name, value.column, bounds, 0, None if fill is None else int(fill), expression=value.expression)


def cells_change(query: Query, bounding: Bounding, reach: Reach, tree: CountTree, parts: int) -> Sensitivity:
    """Of counts by group and node, within caps or a norm."""
    neighbours, norm = query.table.neighbours, bounding.norm_per_unit
    if norm is not None:
        return of_clipped_cells(neighbours, cell_clip(norm, tree), tree, bounding.groups_per_unit)
    return sensitivity.of_cells(neighbours, reach, levels=tree.levels, parts=parts)
