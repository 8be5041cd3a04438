"""Several SELECT statements with semicolons between them: the questions of one series, each read by `from_sql`."""

from collections.abc import Mapping

from neartwin.errors import QueryError
from neartwin.interactive import suggested
from neartwin.queries.query import Query, Rows, TopK
from neartwin.queries.sql.joins import Others
from neartwin.queries.sql.parse import Keys, from_sql, grouped_rows
from neartwin.queries.sql.spelling import trees


def statements(text: str, dialect: str = "duckdb", table: str = "purchases") -> tuple[str, ...]:
    """The statements between semicolons, without empty ones. A semicolon within quotes or a comment separates nothing.

    Args:
        text: The statements.
        dialect: The SQL that they are written in, as for `from_sql`.
        table: A table, for the error.

    Returns:
        Each statement in DuckDB's dialect.

    Raises:
        QueryError: The text is no SQL.

    >>> statements("SELECT COUNT(*) FROM t WHERE a = ';'; SELECT SUM(b) FROM t;")
    ("SELECT COUNT(*) FROM t WHERE a = ';'", 'SELECT SUM(b) FROM t')
    """
    return tuple(tree.sql(dialect="duckdb", comments=False) for tree in trees(text, dialect, table))


def series_from_sql(
    text: str, rows: Rows, *, keys: Keys = None, tables: Others | None = None, dialect: str = "duckdb"
) -> tuple[Query | TopK, ...]:
    """The questions of all statements of a text, in their order.

    Args:
        text: SELECT statements with semicolons between them.
        rows: The rows of the table in FROM.
        keys: A mapping from columns, of which each statement takes those that it groups by. Other forms go to every
            statement that groups.
        tables: The tables that JOIN may name.
        dialect: The SQL that the text is written in, as for `from_sql`.

    Returns:
        The questions.

    Raises:
        QueryError: As for `from_sql`, or no statement groups by a column of the keys.

    >>> import neartwin as nt, pyarrow as pa
    >>> rows = nt.table(pa.table({"who": [1, 2]}), unit="who", name="visits")
    >>> len(nt.series_from_sql("SELECT COUNT(*) FROM visits; SELECT COUNT(DISTINCT who) FROM visits", rows))
    2
    """
    texts = statements(text, dialect, rows.table.name)
    if not texts:
        raise QueryError("the text must have at least one SELECT statement")
    selects = []
    for statement in texts:
        grouped, columns = grouped_rows(statement, rows, tables=tables)
        selects.append((statement, columns, keys(grouped.table.schema) if callable(keys) else keys))
    key_names = {name for _, _, chosen in selects if isinstance(chosen, Mapping) for name in chosen}
    if spare := key_names.difference(*(columns for _, columns, _ in selects)):
        near = suggested(min(spare), {name for _, columns, _ in selects for name in columns})
        raise QueryError(f"keys: no statement groups by {min(spare)!r}" + (f"; write {near}" if near else ""))
    return tuple(
        from_sql(statement, rows, keys=_own(chosen, columns), tables=tables) for statement, columns, chosen in selects
    )


def _own(keys: object, columns: tuple[str, ...]) -> object:
    """The keys that one statement takes."""
    if not isinstance(keys, Mapping):
        return keys if columns else None
    return {name: values for name, values in keys.items() if name in columns} or None
