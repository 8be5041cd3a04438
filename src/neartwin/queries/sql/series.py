"""Several SELECT statements with semicolons between them: the questions of one series, each read by `from_sql`."""

from collections.abc import Mapping

from neartwin.errors import QueryError
from neartwin.interactive import suggested
from neartwin.queries.query import Query, Rows, TopK
from neartwin.queries.sql.joins import Others
from neartwin.queries.sql.parse import Keys, statement_of
from neartwin.queries.sql.spelling import trees


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
    read = [statement_of(tree, rows, tables=tables) for tree in trees(text, dialect, rows.table.name)]
    if not read:
        raise QueryError("the text must have at least one SELECT statement")
    chosen = [keys(one.rows.table.schema) if callable(keys) else keys for one in read]
    key_names = {name for each in chosen if isinstance(each, Mapping) for name in each}
    if spare := key_names.difference(*(one.groups for one in read)):
        near = suggested(min(spare), {name for one in read for name in one.groups})
        raise QueryError(f"keys: no statement groups by {min(spare)!r}" + (f"; write {near}" if near else ""))
    return tuple(one.question(one.own(each)) for one, each in zip(read, chosen, strict=True))
