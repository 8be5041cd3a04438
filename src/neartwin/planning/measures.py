"""Behind each statistic: its column of whole steps, and the measures that count them, for plans and what reads them.

The trees over the cells of a column that quantiles and histograms are counted in: which one, and how far a unit moves it.
"""

from typing import assert_never

from neartwin.errors import QueryError
from neartwin.mechanisms.linear.count_trees import CountTree
from neartwin.mechanisms.linear.ranks import best_tree, typical_weight
from neartwin.planning import sensitivity
from neartwin.planning.plan import Bounding
from neartwin.planning.sensitivity import Contribution, Sensitivity
from neartwin.planning.stage import cell_clip, of_clipped_cells
from neartwin.queries.histograms import Histogram
from neartwin.queries.moments import Deviation, MomentSet, Variance, centred, moment_set
from neartwin.queries.quantiles import MinMax, Quantile, grid_of
from neartwin.queries.query import Query
from neartwin.queries.statistics import Count, CountDistinctUnits, Mean, Sum, bin_value, counted_value, summand
from neartwin.tables.grid import GridColumn


def row_measure(bounding: Bounding) -> str:
    """The measure that counts rows: where one row of a unit counts in a group, rows are units, and share their noise."""
    return "units" if bounding.rows_per_group == 1 and bounding.rows_per_unit is None else "rows"


def count_measure(query: Query, aggregate: Count | CountDistinctUnits, bounding: Bounding) -> str:
    """The measure that a count is read from."""
    match aggregate:
        case CountDistinctUnits():
            return "units"
        case Count(column=None):
            return row_measure(bounding)
        case Count():
            return filled_measure(count_column(query, aggregate), bounding)
        case _:
            assert_never(aggregate)


def count_column(query: Query, aggregate: Count) -> GridColumn:
    """The column whose values a count with a column counts: 1, or NULL."""
    value = counted_value(query.table, aggregate)
    return GridColumn(value.column, value.column, value.bounds, 0, None, expression=value.expression)


def counted_columns(query: Query, aggregate: Count) -> dict[str, GridColumn]:
    """That column by its name; none for a count of all rows."""
    if aggregate.column is None:
        return {}
    column = count_column(query, aggregate)
    return {column.name: column}


def filled_measure(column: GridColumn, bounding: Bounding) -> str:
    """The measure that counts a column's values: all rows, where missing values are filled."""
    return f"filled:{column.name}" if column.fill is None else row_measure(bounding)


def grid_column(query: Query, aggregate: Sum | Mean) -> GridColumn:
    """The grid column behind a sum or mean.

    A mean is taken around the middle of its bounds, which halves the sensitivity of its total; where the sum of the same
    column is asked too, both share that total, and the number of values that the mean needs. A sum alone is taken around 0.
    """
    value, fill = summand(query.table, aggregate), aggregate.fill
    same = [other for other in query.aggregates.values() if getattr(other, "column", None) == value.column]
    averaged = any(
        isinstance(other, Mean) and other.fill == fill and summand(query.table, other) == value for other in same
    )
    if not averaged:
        return centred(value, value.bounds, fill, 0)
    for other in same:  # a variance's sums serve a mean too
        if isinstance(other, Variance | Deviation) and (other.bounds, other.fill, other.step) == (
            aggregate.bounds,
            fill,
            aggregate.step,
        ):
            return moment_set(query.table, other).columns[0]
    return centred(value, value.bounds, fill, (value.bounds.low_units + value.bounds.high_units) // 2)


def number_measure(sums: MomentSet, bounding: Bounding) -> str:
    """The measure that counts the rows of a set of moments."""
    first = sums.first(0)
    return filled_measure(first, bounding) if isinstance(first, GridColumn) else f"filled:{first.name}"


def tree_of(
    query: Query, aggregate: Quantile | MinMax | Histogram, power: float
) -> tuple[GridColumn, CountTree, float]:
    """The column whose cells are counted, the tree over them, and how many bars of a node an answer's bar is."""
    if isinstance(aggregate, Histogram):
        column = histogram_column(query, aggregate)
        bins = column.high - column.low + 1
        return column, CountTree(bins, max(2, bins)), 1.0
    column = quantile_column(query, aggregate)
    tree = best_tree(column.high - column.low + 1, power)
    return column, tree, _rank_error(tree, aggregate)


def _rank_error(tree: CountTree, aggregate: Quantile | MinMax) -> float:
    """The bars of the ranks asked for, typical over the places, in bars of one node."""
    if isinstance(aggregate, MinMax):
        return typical_weight(tree, 1.0 if aggregate.end == "maximum" else 0.0)
    return sum(typical_weight(tree, float(rank)) for rank in aggregate.ranks)


def cell_measure(column: GridColumn) -> str:
    """The measure that counts values by cell."""
    return f"cells:{column.name}"


def histogram_column(query: Query, aggregate: Histogram) -> GridColumn:
    """The number of a value's bin as a grid column, NULL for what lies in none."""
    value = bin_value(query.table, aggregate)
    return GridColumn(value.column, value.column, value.bounds, 0, None, expression=value.expression)


def quantile_column(query: Query, aggregate: Quantile | MinMax) -> GridColumn:
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


def cells_change(query: Query, bounding: Bounding, reach: Contribution, tree: CountTree, parts: int) -> Sensitivity:
    """Of counts by group and node, within caps or a norm."""
    neighbours, norm = query.table.neighbours, bounding.norm_per_unit
    if norm is not None:
        return of_clipped_cells(neighbours, cell_clip(norm, tree), tree, bounding.groups_per_unit)
    return sensitivity.of_cells(neighbours, reach, levels=tree.levels, parts=parts)
