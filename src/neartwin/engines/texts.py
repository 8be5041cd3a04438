"""The one statement as text, written once for questions that differ in their conditions alone.

Building a statement and writing it out takes longer than many an answer; a session asks the same count under a thousand
conditions. So the text is made with a mark in place of the conditions, kept by everything else that it depends on (its shape),
and each question puts its own conditions where the mark was. A shape holds no rows and no connection.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

from sqlglot import exp

from neartwin.engines.sql.dialect import Dialect
from neartwin.engines.sql.expressions import translated
from neartwin.engines.sql.joins import Place
from neartwin.engines.sql.statement import column_aliases, in_order, statement
from neartwin.queries.expression import RowExpression
from neartwin.queries.stage import Stage
from neartwin.queries.terms import Term
from neartwin.queries.types import ColumnType

_MOST_SHAPES = 256
_MOST_KEYS = 1000  # a shape compares keys, and the text of more takes no noticeable part of the work
_known: dict[object, tuple[str, str]] = {}
_NOT_IN_TEXT = {"source"}  # what stands in FROM is compared in its place


def text_of(stage: Stage, places: Sequence[Place], salt: exp.Expr, *, ordered: bool = False) -> str:
    """`sql.statement` as text, in the order of discovered groups where that is asked for.

    salt: the same expression at each call of an engine; a parameter, since texts are kept.
    """
    dialect = places[0].dialect

    def written(asked: Stage) -> str:
        query = statement(asked, places, salt)
        return _text(in_order(query, asked) if ordered else query, dialect)

    if len(stage.keys or ()) > _MOST_KEYS or not stage.conditions:
        return written(stage)
    aliases = column_aliases(stage)
    columns = {name: exp.column(alias) for name, alias in aliases.items()}
    rows = tuple(place.rows.sql(copy=False) for place in places)
    shape = (dialect.name, dialect.thins, ordered, rows, tuple(aliases), _shape(replace(stage, conditions=())))
    around = _known.get(shape)
    if around is None:
        mark = _mark(stage)
        text, there = (
            written(replace(stage, conditions=(mark,))),
            _text(translated(mark.term, columns, dialect), dialect),
        )
        if text.count(there) != 1:
            raise ValueError("the conditions stand in a statement once")
        before, _, after = text.partition(there)
        while len(_known) >= _MOST_SHAPES:
            _known.pop(next(iter(_known)), None)
        around = _known[shape] = before, after
    asked = exp.and_(*(translated(condition.term, columns, dialect) for condition in stage.conditions), copy=False)
    return _text(exp.Paren(this=asked), dialect).join(around)


def _text(query: exp.Expr, dialect: Dialect) -> str:
    return query.sql(dialect=dialect.name, copy=False)


def _mark(stage: Stage) -> RowExpression:
    """A condition that reads the same columns, and whose text no other part of the statement can have."""
    names = sorted(frozenset().union(*(condition.columns for condition in stage.conditions)))
    columns = [Term("column", stage.table.schema[name], value=name) for name in names]
    literal = Term("literal", ColumnType.TEXT, value=secrets.token_hex(16))
    return RowExpression("", ColumnType.BOOLEAN, Term("in", ColumnType.BOOLEAN, (literal, literal, *columns)))


def _shape(value: Any) -> object:
    """A value that is equal for what is written alike: all fields of all dataclasses, mappings in their order."""
    if isinstance(value, tuple):
        return tuple(map(_shape, value))
    if isinstance(value, Mapping):
        return tuple((name, _shape(part)) for name, part in value.items())
    kind: Any = type(value)
    names = _compared(kind)
    return value if names is None else (kind, *(_shape(getattr(value, name)) for name in names))


@cache
def _compared(kind: Any) -> tuple[str, ...] | None:
    """The fields of a dataclass that a text depends on; None for any other type."""
    return tuple(at.name for at in fields(kind) if at.name not in _NOT_IN_TEXT) if is_dataclass(kind) else None
