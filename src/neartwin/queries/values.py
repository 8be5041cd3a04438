"""What a sum or mean is taken of: a column or an expression, its public bounds and its grid."""

from dataclasses import dataclass, replace
from fractions import Fraction

from neartwin.errors import QueryError, SchemaError
from neartwin.queries.expression import RowExpression
from neartwin.queries.ranges import clipped, grid_of, range_of, unbounded
from neartwin.queries.table import Bounds, Table, bounded
from neartwin.queries.types import NUMERIC


@dataclass(frozen=True, slots=True)
class Value:
    """column: its name or text. expression: what is computed in place of a column, each column in it within its own bounds."""

    column: str
    bounds: Bounds
    expression: RowExpression | None


def value_of(
    table: Table, column: str, bounds: Bounds | None, step: Fraction | None = None, fill: Fraction | None = None
) -> Value:
    """Find the bounds of a value: those given, the declared ones of a column, or those that follow for an expression.

    Bounds that follow hold because each column is clipped to its own declared bounds first; bounds that are given clip the
    result alone. Errors: `SchemaError` for a column that is missing or no number, `QueryError` where bounds are missing.
    """
    expression = _expression(table, column)
    if expression is None:
        found = Value(column, bounds or _declared(table, column, step), None)
    elif bounds is not None:
        found = Value(column, bounds, expression)
    else:
        found = _propagated(table, column, expression, step)
    if fill is not None and not (
        found.bounds.low <= fill <= found.bounds.high and (fill / found.bounds.step).denominator == 1
    ):
        raise QueryError(f"fill={float(fill):g} of {column!r} must be a multiple of the step within {found.bounds}")
    return found


def is_name(table: Table, column: str) -> bool:
    """Whether a text is the name of a column, there or missing, and no expression."""
    return column in table.schema or column.isidentifier()


def spelled(table: Table, column: str) -> str:
    """A column's name, or an expression as SQL writes it, so that two spellings of one value are one question."""
    return column if is_name(table, column) else table.expression(column).text


def as_value(table: Table, column: str) -> str:
    """A column or expression as it can stand inside of another expression."""
    return '"' + column.replace('"', '""') + '"' if is_name(table, column) else f"({column})"


def _expression(table: Table, column: str) -> RowExpression | None:
    """None for a column of the source."""
    if column in table.computed:
        found = table.computed[column]
    elif is_name(table, column):
        table.numeric(column, "of a sum")
        return None
    else:
        found = table.expression(column)
    if found.type not in NUMERIC:
        raise SchemaError(f"{column!r} is {found.type}, and a number is wanted")
    return found


def _declared(table: Table, column: str, step: Fraction | None) -> Bounds:
    found = table.columns.get(column)
    if found is None:
        raise QueryError(
            f"{column!r} needs bounds, for instance sum({column!r}, 0, 100), or --bounds {column}=0:100 in a terminal: "
            "bounds read from the data would reveal its extremes; take them from public knowledge"
        )
    return found if step is None else bounded(found.low, found.high, step)


def _propagated(table: Table, column: str, expression: RowExpression, step: Fraction | None) -> Value:
    reach = range_of(expression.term, table.columns)
    if not reach.finite:
        names = ", ".join(map(repr, unbounded(expression.term, table.columns)))
        raise QueryError(
            f"{column!r} needs bounds, and {names} in it has none to derive them from: declare them in nt.table(columns=...), "
            "write clip(x, low, high) around it, or give low and high"
        )
    if reach.low == reach.high:
        raise QueryError(f"{column!r} is the same in every row; count rows instead")
    term = clipped(expression.term, table.columns)
    return Value(column, grid_of(reach, step), replace(expression, term=term, type=term.kind))
