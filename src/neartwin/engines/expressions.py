"""Terms as SQL: each operation in a form that no value makes fail, and that has the same value on every engine."""

from collections.abc import Callable, Mapping
from datetime import date, datetime

from sqlglot import exp

from neartwin.engines.dialect import Dialect, as_double, greatest, least, real, whole
from neartwin.engines.ladders import Ladder, ladder
from neartwin.queries.terms import PARTS, Term

_COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_ARITHMETIC: dict[str, type[exp.Binary]] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul}
Columns = Mapping[str, exp.Expr]


def translated(term: Term, columns: Columns, dialect: Dialect) -> exp.Expr:
    """The SQL of a term; columns: what stands for each column of the source."""
    if term.operation == "column":
        return columns[str(term.value)].copy()
    if term.operation == "literal":
        return _literal(term, dialect)
    bins = ladder(term)
    if bins is not None and bins.is_even():
        return _binned(bins, columns, dialect)
    parts = [translated(part, columns, dialect) for part in term.parts]
    if term.operation in _COMPARISONS:
        return exp.Paren(this=_COMPARISONS[term.operation](this=parts[0], expression=parts[1]))
    if term.operation in _ARITHMETIC:
        return exp.Paren(this=dialect.arithmetic(_ARITHMETIC[term.operation](this=parts[0], expression=parts[1])))
    if term.operation in PARTS:
        return dialect.date_part(term.operation, parts[0])
    return _OTHERS[term.operation](term, parts, dialect)


def _binned(bins: Ladder, columns: Columns, dialect: Dialect) -> exp.Expr:
    value = translated(bins.value, columns, dialect)
    inside = exp.and_(value >= real(bins.edges[0]), value.copy() <= real(bins.edges[-1]), copy=False)
    return exp.Paren(this=exp.case().when(inside, bins.by_division(value.copy())).else_(exp.null()))


def column_of(term: Term, columns: Columns, dialect: Dialect) -> exp.Expr:
    """The same as a column to group by: whole numbers of 64 bits, text that compares by its bytes."""
    return dialect.computed(translated(term, columns, dialect), term.kind)


def _literal(term: Term, dialect: Dialect) -> exp.Expr:
    match term.value:
        case bool(value):
            return exp.true() if value else exp.false()
        case int(value):
            return whole(value)
        case float(value):
            return real(value)
        case str(value):
            return dialect.text(value)
        case datetime():
            return exp.cast(exp.Literal.string(str(term.value)), "TIMESTAMP", dialect="duckdb")
        case date():
            return exp.cast(exp.Literal.string(str(term.value)), "DATE", dialect="duckdb")
    return exp.null()


def _clip(term: Term, parts: list[exp.Expr], dialect: Dialect) -> exp.Expr:
    (value,) = parts
    assert isinstance(term.value, tuple)  # noqa: S101 - what a clip holds
    low, high = term.value
    odd = exp.or_(value.copy().is_(exp.null()), dialect.is_nan(value.copy()))
    return exp.case().when(odd, value).else_(greatest(real(low), least(real(high), value.copy())))


def _case(_term: Term, parts: list[exp.Expr], _dialect: Dialect) -> exp.Expr:
    case = exp.case()
    for condition, value in zip(parts[:-1:2], parts[1::2], strict=False):
        case = case.when(condition, value)
    return exp.Paren(this=case.else_(parts[-1]))


def _divided(term: Term, parts: list[exp.Expr], dialect: Dialect) -> exp.Expr:
    divisor = term.parts[1].value
    assert isinstance(divisor, float)  # noqa: S101 - what a division holds
    return dialect.divided(parts[0], divisor)


_OTHERS: dict[str, Callable[[Term, list[exp.Expr], Dialect], exp.Expr]] = {
    "double": lambda _, parts, __: as_double(parts[0]),
    "neg": lambda _, parts, __: exp.Paren(this=exp.Neg(this=exp.Paren(this=parts[0]))),
    "abs": lambda _, parts, __: exp.Abs(this=parts[0]),
    "/": _divided,
    "clip": _clip,
    "least": lambda _, parts, __: exp.Least(this=parts[0], expressions=parts[1:], ignore_nulls=True),
    "greatest": lambda _, parts, __: exp.Greatest(this=parts[0], expressions=parts[1:], ignore_nulls=True),
    "coalesce": lambda _, parts, __: exp.Coalesce(this=parts[0], expressions=parts[1:]),
    "case": _case,
    "between": lambda _, parts, __: exp.Paren(this=exp.Between(this=parts[0], low=parts[1], high=parts[2])),
    "in": lambda _, parts, __: exp.Paren(this=exp.In(this=parts[0], expressions=parts[1:])),
    "and": lambda _, parts, __: exp.Paren(this=exp.and_(*parts, copy=False)),
    "or": lambda _, parts, __: exp.Paren(this=exp.or_(*parts, copy=False)),
    "not": lambda _, parts, __: exp.Paren(this=exp.Not(this=parts[0])),
    "isnull": lambda _, parts, __: exp.Paren(this=parts[0].is_(exp.null())),
    "like": lambda term, parts, dialect: exp.Paren(
        this=exp.Like(this=parts[0], expression=dialect.text(str(term.value)))
    ),
    "date": lambda _, parts, __: exp.cast(parts[0], "DATE", dialect="duckdb"),
    "trunc": lambda term, parts, dialect: dialect.truncated(str(term.value), parts[0]),
    "days": lambda _, parts, dialect: dialect.days(parts[0], parts[1]),
}
