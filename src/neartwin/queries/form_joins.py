"""Joins in the written form of a question: `[{"table": "towns", "on": [["town", "name"]], "how": "left", "prefix": "t_"}]`.

Tables are named as whoever reads the form knows them; nothing here names a file.
"""

from collections.abc import Mapping
from typing import Any

from neartwin.errors import QueryError
from neartwin.queries.join import How, Join
from neartwin.queries.joining import own_columns
from neartwin.queries.query import Rows
from neartwin.queries.sql_joins import Others
from neartwin.queries.table import Table


def with_joins(told: object, rows: Rows, tables: Others) -> Rows:
    """The rows with their joins made; `QueryError` for what is none, and for tables that are not given."""
    if not isinstance(told, list):
        raise QueryError("question: joins must be a list such as [{'table': 'towns', 'on': [['town', 'name']]}]")
    for join in told:
        rows = _joined(join, rows, tables)
    return rows


def _joined(join: object, rows: Rows, tables: Others) -> Rows:
    if not isinstance(join, Mapping) or set(join) - {"table", "on", "how", "prefix"} or "table" not in join:
        raise QueryError("question: a join takes table, on, how and prefix")
    table, on, how, prefix = join["table"], join.get("on", []), join.get("how", "inner"), join.get("prefix", "")
    if not isinstance(table, str) or table not in tables:
        known = ", ".join(map(repr, tables)) or "none"
        raise QueryError(
            f"question: a join must name one of the tables given beside {rows.table.name!r}, which are: {known}"
        )
    if not isinstance(on, list) or not all(_pair(one) for one in on):
        raise QueryError("question: on of a join must be a list of pairs, a column here and one of the other table")
    if how not in set(How) or not isinstance(prefix, str):
        raise QueryError("question: how of a join must be inner, left or beside, and prefix text")
    return rows.join(tables[table], on=dict(on) or None, how=how, prefix=prefix)


def _pair(one: object) -> bool:
    return isinstance(one, list) and len(one) == 2 and all(isinstance(name, str) for name in one)


def joins_of(table: Table, tables: Others) -> list[dict[str, Any]]:
    """The joins of a table, as `with_joins` reads them; `QueryError` for names that it would not give."""
    known, told = set(own_columns(table)) | set(table.computed), []
    for join in table.joins:
        form = _form(join, tables)
        prefix = form.get("prefix", "")
        if any((old, old) in join.on or new != prefix * (old in known) + old for new, old in join.columns.items()):
            raise QueryError(
                f"question: columns of {join.name!r}, which came joined already, were renamed twice, and have no written form; "
                "join the tables one after the other"
            )
        known |= set(join.columns)
        told.append(form)
    return told


def _form(join: Join, tables: Others) -> dict[str, Any]:
    named = (name for name, other in tables.items() if _source(other) == join.source)
    name = next(named, "")
    if not name:
        raise QueryError("question: a table that was joined has no written form; it must be one that is given by name")
    told: dict[str, Any] = {"table": name, "on": [list(pair) for pair in join.on]}
    prefixes = {new.removesuffix(old) for new, old in join.columns.items() if new != old}
    told |= {"how": str(join.how)} if join.how is not How.INNER else {}
    return told | ({"prefix": prefixes.pop()} if prefixes else {})


def _source(other: Any) -> object:
    return other.table.source if isinstance(other, Rows) else other.source
