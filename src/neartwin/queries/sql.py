"""SQL as a way to write a question: parsed to the same `Query`, through an allow-list, never passed through.

Understood: one SELECT from a table, [LEFT] JOIN ... USING or ON equalities with tables given beside it, WHERE with a row
expression, GROUP BY columns, COUNT(*), COUNT(DISTINCT unit), SUM(column), AVG(column), and over the noisy result HAVING, ORDER
BY, LIMIT and OFFSET. What else SQL can say is refused with what to write instead.
"""

import re
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from neartwin.errors import QueryError
from neartwin.queries.after import CLAUSES, After, after_of
from neartwin.queries.query import Aggregate, Count, CountUnits, Mean, Query, Rows, Sum
from neartwin.queries.sql_joins import Others, joined_by
from neartwin.queries.table import Table
from neartwin.queries.types import ColumnType

_CLAUSES = {"kind", "expressions", "from_", "from", "joins", "where", "group"} | CLAUSES
_INSTEAD = {
    "distinct": "use GROUP BY",
    "with_": "use one SELECT without WITH",
    "with": "use one SELECT without WITH",
}


def from_sql(text: str, rows: Rows, *, keys: object = None, tables: Others | None = None) -> Query:
    """The question that a SQL text asks of a table; bounds come from the table's declared columns.

    keys: public keys of the GROUP BY columns, as for `Rows.group_by`. tables: those that JOIN may name, as for `Rows.join`.
    Errors: `QueryError` for what is not understood, with what to write instead.
    """
    select = _select(text)
    rows = joined_by(select, rows, tables or {})
    where = select.args.get("where")
    if where is not None:
        rows = rows.where(where.this.sql(dialect="duckdb"))
    group = select.args.get("group")
    columns = [] if group is None else _group_columns(group)
    aggregates = _aggregates(select, columns, rows.table)
    query = rows.group_by(*columns, keys=keys).agg(**aggregates) if columns else rows.agg(**aggregates)
    return replace(query, after=_after(select, query))


def _after(select: exp.Select, query: Query) -> After:
    """HAVING, ORDER BY and LIMIT, over the names of the noisy result."""
    table = query.table
    schema = {name: table.schema[name] for name in query.groups.columns}
    schema |= dict.fromkeys(query.aggregates, ColumnType.NUMBER)

    def named(node: exp.Expr) -> str | None:
        asked = _aggregate(node, table)[1]
        return next((name for name, aggregate in query.aggregates.items() if aggregate == asked), None)

    selected = [
        item.alias if isinstance(item, exp.Alias) else item.name if isinstance(item, exp.Column) else named(item) or ""
        for item in select.expressions
    ]
    return after_of(select, schema, selected, named)


def explained_sql(text: str) -> str | None:
    """The question behind an EXPLAIN, or None for any other text; `QueryError` for EXPLAIN with options."""
    found = re.match(r"\s*EXPLAIN\b\s*(\w*)", text, re.IGNORECASE)
    if found is None:
        return None
    if found.group(1).upper() != "SELECT":
        raise QueryError("EXPLAIN takes a SELECT and no options: it shows the plan and never runs it")
    return text[found.start(1) :]


def _select(text: str) -> exp.Select:
    try:
        statements = sqlglot.parse(text, read="duckdb")
    except SqlglotError:
        raise QueryError(
            f"{text!r} is not SQL; write for instance SELECT town, COUNT(*) FROM visits GROUP BY town"
        ) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise QueryError("one SELECT statement is wanted, and nothing else")
    select = statements[0]
    for clause, value in select.args.items():
        if value and clause not in _CLAUSES:
            instead = _INSTEAD.get(clause, "leave it out")
            raise QueryError(f"{clause.strip('_').upper()} is not understood in a private question: {instead}")
    return select


def _group_columns(group: exp.Group) -> list[str]:
    if not group.expressions or any(value for name, value in group.args.items() if name != "expressions"):
        raise QueryError("GROUP BY takes plain columns, without ROLLUP, CUBE, GROUPING SETS or ALL")
    for item in group.expressions:
        if not isinstance(item, exp.Column) or item.table:
            raise QueryError(f"GROUP BY takes plain columns, and {item.sql(dialect='duckdb')!r} is none")
    return [item.name for item in group.expressions]


def _aggregates(select: exp.Select, columns: list[str], table: Table) -> dict[str, Aggregate]:
    found: dict[str, Aggregate] = {}
    for item in select.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        if (
            isinstance(inner, exp.Column)
            and not inner.table
            and inner.name in columns
            and not isinstance(item, exp.Alias)
        ):
            continue
        name, aggregate = _aggregate(inner, table)
        name = item.alias if isinstance(item, exp.Alias) else name
        if name in found:
            raise QueryError(f"{name!r} names two statistics; give one of them another name with AS")
        found[name] = aggregate
    if not found:
        raise QueryError("SELECT must ask at least one statistic, for instance COUNT(*)")
    return found


def _aggregate(node: exp.Expr, table: Table) -> tuple[str, Aggregate]:
    match node:
        case exp.Count(this=exp.Star()):
            return "count", Count()
        case exp.Count(this=exp.Distinct(expressions=[exp.Column(this=column, table="")])) if column.name == table.unit:
            return "units", CountUnits()
        case exp.Sum(this=exp.Column(this=column, table="")):
            return f"sum_{column.name}", Sum(column.name, None)
        case exp.Avg(this=exp.Column(this=column, table="")):
            return f"mean_{column.name}", Mean(column.name, None)
    raise QueryError(
        f"{node.sql(dialect='duckdb')!r} is not understood; ask COUNT(*), COUNT(DISTINCT {table.unit_name}), SUM(column) or "
        "AVG(column), and select other columns only to GROUP BY them"
    )
