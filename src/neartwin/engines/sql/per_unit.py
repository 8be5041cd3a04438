"""Aggregates and windows over one unit's rows as SQL. No value makes one fail, and no order of stored rows decides one.

Sums are of whole numbers, exact. A sum beyond 64 bits is NULL. Arguments lose the sign of 0, of which a maximum could
show either. An order ends in every column that is read, so rows that tie in it are equal to the question.
"""

from collections.abc import Mapping

from sqlglot import exp

from neartwin.engines.sql.dialect import Dialect, as_bigint, as_double, either, integer, real
from neartwin.engines.sql.rendering import rounded, steps_within, translated
from neartwin.tables.expressions import RowExpression
from neartwin.tables.per_unit import AGGREGATES, ORDERED
from neartwin.tables.table import Bounds, UnitColumn
from neartwin.tables.types import ColumnType

_LARGEST = 2**63 - 1
_FUNCTIONS = {name: function for function, name in {**AGGREGATES, **ORDERED}.items()}


def unit_value(
    column: UnitColumn, unit: exp.Column | None, columns: Mapping[str, exp.Column], dialect: Dialect
) -> exp.Expr:
    """An aggregate, or a window.

    Args:
        column: The column.
        unit: The column of units that parts a window; None for an aggregate.
        columns: The columns that are read.
        dialect: The engine's spelling.

    Returns:
        The expression.
    """

    def over(value: exp.Expr) -> exp.Expr:
        if unit is None:
            return value
        parts = [unit.copy(), *(_plain(part, columns, dialect) for part in column.by)]
        keys = [(_plain(key, columns, dialect), down) for key, down in column.order]
        if column.frame or column.function in {"row_number", "lag", "lead", "first_value"}:
            keys += [(one.copy(), False) for one in columns.values()]
        ordered = [exp.Ordered(this=key, desc=down, nulls_first=False) for key, down in keys]
        order, frame = exp.Order(expressions=ordered), exp.var(column.frame) if column.frame else None
        return exp.Window(this=value, partition_by=parts, order=order if ordered else None, spec=frame)

    if column.value is None:
        count = column.function == "count"
        return as_bigint(over(exp.Count(this=exp.Star()) if count else _FUNCTIONS[column.function]()))
    value = _plain(column.value, columns, dialect)
    if column.function.startswith("count"):
        distinct = column.function == "count distinct"
        return as_bigint(over(exp.Count(this=exp.Distinct(expressions=[value]) if distinct else value)))
    if column.function in {"sum", "avg"}:
        steps = value if column.bounds is None else _steps(value, column.bounds, dialect)
        total = over(dialect.summed(steps))
        fits = exp.Between(this=total, low=integer(-_LARGEST), high=integer(_LARGEST))
        whole: exp.Expr = either(fits, as_bigint(total.copy()), exp.null())
        if column.kind is ColumnType.INTEGER:
            return whole
        found = as_double(whole)
        if column.bounds is not None:
            step = column.bounds.step
            found = exp.paren(found * real(float(step.numerator)))
            found = exp.paren(exp.Div(this=found, expression=real(float(step.denominator)), typed=True))
        if column.function == "sum":
            return found
        number = as_double(over(exp.Count(this=steps.copy())))
        return exp.Div(this=found, expression=exp.Nullif(this=number, expression=real(0.0)), typed=True)
    more = {"offset": integer(column.offset)} if column.function in {"lag", "lead"} else {}
    return over(_FUNCTIONS[column.function](this=value, **more))


def _plain(value: RowExpression, columns: Mapping[str, exp.Column], dialect: Dialect) -> exp.Expr:
    """A value in its type, and 0 for -0.0."""
    found = translated(value.term, columns, dialect)
    if value.type is ColumnType.NUMBER:
        return either(found.eq(real(0.0)), real(0.0), found.copy())
    return dialect.computed(found, value.type)


def _steps(value: exp.Expr, bounds: Bounds, dialect: Dialect) -> exp.Expr:
    """A double within its bounds in whole steps, rounded half up; NULL for NULL and NaN."""
    inside = rounded(steps_within(value, bounds), bounds, dialect)
    missing = exp.or_(value.copy().is_(exp.null()), dialect.is_nan(value.copy()))
    return either(missing, exp.null(), inside)
