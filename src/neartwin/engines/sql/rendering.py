"""Terms and summed values as SQL. No value makes an expression fail, and every engine gives the same value.

**Values go on their grid** in three steps: clip to public bounds, scale to steps, round half up.
"""

import math
from collections.abc import Callable, Mapping
from datetime import date
from fractions import Fraction
from functools import cache, reduce
from typing import Any

import sqlglot
from sqlglot import exp

from neartwin.engines.sql.dialect import Dialect, as_bigint, as_double, either, greatest, integer, least, real
from neartwin.planning.stage import Stage
from neartwin.tables.expressions import ARITHMETIC, COMPARED
from neartwin.tables.functions import CAPITAL, OPERATIONS, SMALL
from neartwin.tables.grid import GridColumn
from neartwin.tables.ranges import possible_values
from neartwin.tables.table import Bounds
from neartwin.tables.terms import Term
from neartwin.tables.types import ColumnType

_OPERATORS: dict[str, Any] = {sign: kind for kind, sign in {**COMPARED, **ARITHMETIC}.items()}
Columns = Mapping[str, exp.Expr]


def translated(term: Term, columns: Columns, dialect: Dialect) -> exp.Expr:
    """The SQL of a term.

    Args:
        term: The term.
        columns: The SQL of each column of the source.
        dialect: The engine's spelling.

    Returns:
        The expression.
    """
    if term.operation == "column":
        return columns[str(term.value)].copy()
    if term.operation == "literal":
        return _literal(term, dialect)
    parts = [translated(part, columns, dialect) for part in term.parts]
    if term.operation in _OPERATORS:
        found = _OPERATORS[term.operation](this=parts[0], expression=parts[1])
        return exp.Paren(this=dialect.arithmetic(found) if type(found) in ARITHMETIC else found)
    return _OTHERS.get(term.operation, _spelled)(term, parts, dialect)


def _spelled(term: Term, parts: list[exp.Expr], dialect: Dialect) -> exp.Expr:
    """A function as the engine spells it, with the parts and then the literals as a to e."""
    literals = _ALPHABETS.get(term.operation, term.value or ())
    given = [*parts, *(dialect.text(one) if isinstance(one, str) else integer(int(one)) for one in literals)]
    function = OPERATIONS.get(term.operation) or OPERATIONS[f"{term.operation} {term.value}"]
    text = function.spelled(dialect.name)
    if text.isidentifier():
        return exp.Anonymous(this=text, expressions=given)
    whole = exp.Paren(this=_template(text, dialect.name).copy())
    for place in [column for column in whole.find_all(exp.Column) if column.name in "abcde"]:
        place.replace(given["abcde".index(place.name)].copy())
    return whole


@cache
def _template(text: str, dialect: str) -> exp.Expr:
    return sqlglot.parse_one(text, read=dialect)


def column_of(term: Term, columns: Columns, dialect: Dialect) -> exp.Expr:
    """The SQL of a term to group by: whole numbers of 64 bits, text that compares by its bytes.

    Args:
        term: The term.
        columns: The SQL of each column of the source.
        dialect: The engine's spelling.

    Returns:
        The expression.
    """
    return dialect.computed(translated(term, columns, dialect), term.kind)


def _literal(term: Term, dialect: Dialect) -> exp.Expr:
    match term.value:
        case float(value):
            return real(value)
        case str(value):
            return dialect.text(value)
        case date():
            return exp.cast(exp.Literal.string(str(term.value)), term.kind, dialect="duckdb")
    return exp.convert(term.value)


def _clip(term: Term, parts: list[exp.Expr], dialect: Dialect) -> exp.Expr:
    (value,) = parts
    assert isinstance(term.value, tuple)  # noqa: S101 - what a clip holds
    low, high = term.value
    odd = exp.or_(value.copy().is_(exp.null()), dialect.is_nan(value.copy()))
    return either(odd, value, greatest(real(low), least(real(high), value.copy())))


def _case(_term: Term, parts: list[exp.Expr], _dialect: Dialect) -> exp.Expr:
    ifs = [exp.If(this=condition, true=value) for condition, value in zip(parts[:-1:2], parts[1::2], strict=False)]
    return exp.Paren(this=exp.Case(ifs=ifs, default=parts[-1]))


def _divided(term: Term, parts: list[exp.Expr], dialect: Dialect) -> exp.Expr:
    value, divisor = parts
    if term.operation == "over":  # a literal divisor is not 0
        divisor = exp.Nullif(this=divisor, expression=real(0.0))
    return exp.Paren(this=dialect.arithmetic(exp.Div(this=value, expression=divisor, typed=True)))


def _like(term: Term, parts: list[exp.Expr], dialect: Dialect) -> exp.Expr:
    like, mark = exp.Like(this=parts[0], expression=dialect.text(str(term.value))), exp.Literal.string("\\")
    return exp.Paren(this=exp.Escape(this=like, expression=mark) if "\\" in str(term.value) else like)


_ALPHABETS: dict[str, Any] = {"upper": (SMALL, CAPITAL), "lower": (CAPITAL, SMALL)}
_OTHERS: dict[str, Callable[[Term, list[exp.Expr], Dialect], exp.Expr]] = {
    "double": lambda _, parts, __: as_double(parts[0]),
    "/": _divided,
    "over": _divided,
    "||": lambda _, parts, __: exp.Paren(this=reduce(lambda x, y: exp.DPipe(this=x, expression=y, safe=True), parts)),
    "clip": _clip,
    "least": lambda _, parts, __: exp.Least(this=parts[0], expressions=parts[1:], ignore_nulls=True),
    "greatest": lambda _, parts, __: exp.Greatest(this=parts[0], expressions=parts[1:], ignore_nulls=True),
    "coalesce": lambda _, parts, __: exp.Coalesce(this=parts[0], expressions=parts[1:]),
    "case": _case,
    "in": lambda _, parts, __: exp.Paren(this=exp.In(this=parts[0], expressions=parts[1:])),
    "and": lambda _, parts, __: exp.Paren(this=exp.and_(*parts, copy=False)),
    "or": lambda _, parts, __: exp.Paren(this=exp.or_(*parts, copy=False)),
    "like": _like,
}


def _value(column: GridColumn, place: int, stage: Stage, aliases: Mapping[str, str]) -> tuple[exp.Expr, ColumnType]:
    if column.expression is not None:
        return exp.column(f"v{place}"), column.expression.type
    return exp.column(aliases[column.column]), stage.table.schema[column.column]


def is_on_grid(column: GridColumn) -> bool:
    """Whether all possible values of an expression are whole steps within the bounds, as bins are."""
    bounds, expression = column.bounds, column.expression
    if expression is None or expression.type is not ColumnType.INTEGER or bounds.step != 1:
        return False
    values = possible_values(expression.term)
    return values is not None and all(
        isinstance(value, int) and bounds.low_units <= value <= bounds.high_units for value in values
    )


def steps_within(value: exp.Expr, bounds: Bounds) -> exp.Expr:
    """A double within bounds, in steps. NULL and NaN give any number.

    Args:
        value: The double.
        bounds: The bounds and their step.

    Returns:
        The expression.
    """
    steps: exp.Expr = greatest(real(float(bounds.low)), least(real(float(bounds.high)), value))
    if bounds.step.denominator != 1:
        steps = exp.Mul(this=steps, expression=real(float(bounds.step.denominator)))
    if bounds.step.numerator != 1:
        steps = divided(steps, float(bounds.step.numerator))
    return steps


def on_grid(column: GridColumn, place: int, stage: Stage, aliases: Mapping[str, str], dialect: Dialect) -> exp.Expr:
    """The value rounded half up to whole steps. It is total, and clipped again in whole numbers if needed.

    Args:
        column: The column.
        place: Its place among the summed columns.
        stage: The stage.
        aliases: The names of the columns in the statement.
        dialect: The engine's spelling.

    Returns:
        The expression.
    """
    inside: exp.Expr
    value, kind = _value(column, place, stage, aliases)
    if stage.by_unit:
        key = exp.paren(dialect.hash_key(integer(0), [(value, kind)]))
        inside = as_bigint(exp.paren(exp.BitwiseAnd(this=key, expression=integer(2**62 - 1))))
    elif is_on_grid(column):
        inside = exp.cast(exp.column(f"v{place}"), "BIGINT")
    else:
        steps = steps_within(as_double(value.copy()) if kind is ColumnType.INTEGER else value.copy(), column.bounds)
        inside = rounded(steps, column.bounds, dialect)
    if column.centre:
        inside = inside - integer(column.centre)
    missing: exp.Expr = value.copy().is_(exp.null())
    if kind is ColumnType.NUMBER:
        missing = exp.or_(missing, dialect.is_nan(value.copy()))
    return either(missing, exp.null() if column.fill is None else integer(column.fill), inside)


def rounded(steps: exp.Expr, bounds: Bounds, dialect: Dialect) -> exp.Expr:
    """Steps of a value within bounds as a whole number of them, halves up.

    Args:
        steps: The steps, a double.
        bounds: The bounds and their step.
        dialect: The engine's spelling.

    Returns:
        The expression.
    """
    whole = dialect.half_up(steps, negative=bounds.low < 0)
    return greatest(integer(bounds.low_units), least(integer(bounds.high_units), whole)) if can_leave(bounds) else whole


def can_leave(bounds: Bounds) -> bool:
    """Whether a value within the bounds may be rounded to a step outside. Every operation is monotone, so the ends decide."""
    low, high = (
        math.floor(
            Fraction(float(end) * float(bounds.step.denominator) / float(bounds.step.numerator)) + Fraction(1, 2)
        )
        for end in (bounds.low, bounds.high)
    )
    return low < bounds.low_units or high > bounds.high_units


def divided(steps: exp.Expr, divisor: float) -> exp.Expr:
    """The quotient, with 0 for a size below 1/4. Rounding half up or down is unchanged, and no underflow can fail.

    Args:
        steps: The dividend; at least 0 if it is to be rounded down.
        divisor: The divisor.

    Returns:
        The expression.
    """
    small = exp.Abs(this=exp.paren(steps.copy())) < real(divisor / 4)
    quotient = exp.Div(this=exp.paren(steps), expression=real(divisor), typed=True)
    return either(small, real(0.0), quotient)
