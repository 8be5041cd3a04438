"""Values on their grid: clipped to public bounds, rounded half up to whole steps, by expressions that no value makes fail."""

import math
from collections.abc import Mapping
from fractions import Fraction

from sqlglot import exp

from neartwin.engines.dialect import Dialect, as_double, greatest, least, real, whole
from neartwin.queries.ranges import possible_values
from neartwin.queries.stage import GridColumn, Stage
from neartwin.queries.table import Bounds
from neartwin.queries.types import ColumnType


def _value(column: GridColumn, place: int, stage: Stage, aliases: Mapping[str, str]) -> tuple[exp.Expr, ColumnType]:
    if column.expression is not None:
        return exp.column(f"v{place}"), column.expression.type
    return exp.column(aliases[column.column]), stage.table.schema[column.column]


def is_on_grid(column: GridColumn) -> bool:
    """Whether all that an expression can be, whatever the row, are whole steps within the bounds: bins are."""
    bounds, expression = column.bounds, column.expression
    if expression is None or expression.type is not ColumnType.INTEGER or bounds.step != 1:
        return False
    values = possible_values(expression.term)
    return values is not None and all(
        isinstance(value, int) and bounds.low_units <= value <= bounds.high_units for value in values
    )


def grid_steps(column: GridColumn, place: int, stage: Stage, aliases: Mapping[str, str]) -> exp.Expr:
    """The value within its bounds, in steps; anything for NULL and NaN."""
    value, kind = _value(column, place, stage, aliases)
    if kind is ColumnType.INTEGER:
        value = as_double(value)
    bounds = column.bounds
    steps: exp.Expr = greatest(real(float(bounds.low)), least(real(float(bounds.high)), value))
    if bounds.step.denominator != 1:
        steps = exp.Mul(this=steps, expression=real(float(bounds.step.denominator)))
    if bounds.step.numerator != 1:
        steps = divided(steps, float(bounds.step.numerator))
    return steps


def on_grid(column: GridColumn, place: int, stage: Stage, aliases: Mapping[str, str], dialect: Dialect) -> exp.Expr:
    """Round half up to whole steps, clip again in whole numbers if need be: total, and inside the bounds whatever floats do."""
    bounds = column.bounds
    inside: exp.Expr
    if is_on_grid(column):
        inside = exp.cast(exp.column(f"v{place}"), "BIGINT")
    else:
        inside = dialect.half_up(exp.column(f"y{place}"), negative=bounds.low < 0)
        if can_leave(bounds):
            inside = greatest(whole(bounds.low_units), least(whole(bounds.high_units), inside))
    if column.centre:
        inside = inside - whole(column.centre)
    value, kind = _value(column, place, stage, aliases)
    missing: exp.Expr = value.copy().is_(exp.null())
    if kind is ColumnType.NUMBER:
        missing = exp.or_(missing, dialect.is_nan(value.copy()))
    return exp.case().when(missing, exp.null() if column.fill is None else whole(column.fill)).else_(inside)


def can_leave(bounds: Bounds) -> bool:
    """Whether a value within the bounds may be rounded to a step beyond: every operation is monotone, so the ends tell."""
    low, high = (
        math.floor(
            Fraction(float(end) * float(bounds.step.denominator) / float(bounds.step.numerator)) + Fraction(1, 2)
        )
        for end in (bounds.low, bounds.high)
    )
    return low < bounds.low_units or high > bounds.high_units


def divided(steps: exp.Expr, divisor: float) -> exp.Expr:
    """The quotient, 0 where it is below 1/4 in size: the same rounded half up or down, and never an underflow, which can fail.

    steps: at least 0 where it is to be rounded down.
    """
    small = exp.Abs(this=exp.paren(steps.copy())) < real(divisor / 4)
    quotient = exp.Div(this=exp.paren(steps), expression=real(divisor), typed=True)
    return exp.case().when(small, real(0.0)).else_(quotient)
