"""Behind each statistic: its column of whole steps, and the measures that count them, for plans and what reads them."""

from typing import assert_never

from neartwin.queries.moments import Deviation, MomentSet, Variance, centred, moment_set
from neartwin.queries.plan import Bounding
from neartwin.queries.query import Query
from neartwin.queries.stage import GridColumn
from neartwin.queries.statistics import Count, CountUnits, Mean, Sum, counted_value, summand


def row_measure(bounding: Bounding) -> str:
    """The measure that counts rows: where one row of a unit counts in a group, rows are units, and share their noise."""
    return "units" if bounding.rows_per_group == 1 and bounding.rows_per_unit is None else "rows"


def count_measure(query: Query, aggregate: Count | CountUnits, bounding: Bounding) -> str:
    """The measure that a count is read from."""
    match aggregate:
        case CountUnits():
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
