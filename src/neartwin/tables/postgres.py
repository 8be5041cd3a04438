"""A table or view of a PostgreSQL database: its lookup, its catalogue, and its connection.

Only the catalogue is read here: names and declared types of the columns that the role may select. Statistics, enum
values and row counts are never read.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from neartwin.checks import needed
from neartwin.errors import SchemaError
from neartwin.tables.types import ColumnType, column_type

OLDEST = 150000  # PostgreSQL 15, as server_version_num
_SCHEMES = ("postgresql://", "postgres://")
_FORM = "write postgresql://user@host:5432/database, with '@', ':', '/' and '#' in a password percent-encoded"

_KINDS = re.compile(  # types whose every value can be read
    "smallint|integer|bigint|real|double precision|numeric|text|character( varying)?|uuid|enum|boolean|date|"
    "timestamp with(out)? time zone"
)
# from the catalogue's type to a declared one, beside TEXT: PostgreSQL has no cast that gives NULL in place of an error
_WIDER, _TIMES = (ColumnType.INTEGER, ColumnType.NUMBER), {ColumnType.DATE, ColumnType.TIMESTAMP}

_FIND = """
SELECT n.nspname::text, c.relname::text, c.oid FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND c.relname = $2 AND n.nspname = ANY($1::text[])
ORDER BY pg_catalog.array_position($1::text[], n.nspname::text)
"""
_DESCRIBE = """
WITH RECURSIVE base(place, name, type, modifier) AS (
  SELECT attnum, attname::text, atttypid, atttypmod FROM pg_catalog.pg_attribute
  WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped
  AND pg_catalog.has_column_privilege($1::oid, attnum, 'SELECT')
  UNION ALL  -- a domain is its base type
  SELECT place, name, t.typbasetype, t.typtypmod FROM base JOIN pg_catalog.pg_type t ON t.oid = base.type
  WHERE t.typtype = 'd')
SELECT name, CASE WHEN t.typtype = 'e' THEN 'enum' ELSE pg_catalog.format_type(t.oid, modifier) END
FROM base JOIN pg_catalog.pg_type t ON t.oid = base.type WHERE t.typtype <> 'd' ORDER BY place
"""


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """One table or view.

    Attributes:
        url: The connection's URL, which is secret.
        place: Host, port and database.
        namespace: The schema of the table.
        table: The name of the table.
        label: The name of the snapshot.
    """

    url: str = field(repr=False)
    place: str
    namespace: str
    table: str
    label: str

    def types(self, connection: Any) -> dict[str, str]:
        """PostgreSQL's own names of the column types, in the catalogue's order."""
        rows = connection.execute(_FIND, [[self.namespace], self.table]).fetchall()
        return dict(connection.execute(_DESCRIBE, [rows[0][2]]).fetchall()) if rows else {}

    def schema(self) -> dict[str, ColumnType]:
        """The declared columns that the role may read."""
        with _reported(self.place), reading(self.url) as connection:
            types = {name: kind_of(written) for name, written in self.types(connection).items()}
        if not types:
            raise SchemaError(f"table={self.table!r} of {self.place} has no column that this role may select")
        return types

    def location(self) -> str:
        """The name of the place in the ledger, without user and password."""
        return f"postgresql://{self.place}#{self.namespace}.{self.table}"

    def snapshot(self) -> str:
        """The label."""
        return self.label


def is_url(text: str) -> bool:
    """Whether a text names a PostgreSQL server.

    >>> is_url("postgresql://ada@db.example/clinic"), is_url("visits.parquet")
    (True, False)
    """
    return text.startswith(_SCHEMES)


def kind_of(written: str) -> ColumnType:
    """The type behind PostgreSQL's name of it.

    >>> kind_of("numeric(12,2)"), kind_of("int4range"), kind_of("timestamp(3) with time zone")
    (<ColumnType.NUMBER: 'number'>, <ColumnType.OTHER: 'other'>, <ColumnType.TIMESTAMP: 'timestamp'>)
    """
    return column_type(written) if _KINDS.fullmatch(re.sub(r"\([-0-9, ]*\)", "", written)) else ColumnType.OTHER


def postgres_table(url: str, table: str, label: str) -> PostgresTable:
    """Find a table.

    Args:
        url: The database's URL.
        table: "visits" on the role's search path, or "clinic.visits".
        label: The name of the snapshot.

    Returns:
        The source.

    Raises:
        SchemaError: The table or the database cannot be used; the message says why.
    """
    if not table:
        raise SchemaError("table='' must name a table or view of the PostgreSQL database")
    place = _place(url)
    with _reported(place), reading(url) as connection:
        identity = _identity(connection, table)
    if identity is None:
        raise SchemaError(f"table={table!r} is not a table or view of {place} that this role can see")
    return PostgresTable(url, place, *identity, label)


def _identity(connection: Any, table: str) -> tuple[str, str] | None:
    version, encoding, path = connection.execute(
        "SELECT pg_catalog.current_setting('server_version_num')::int, pg_catalog.current_setting('server_encoding'), "
        "pg_catalog.string_to_array(pg_catalog.current_setting('neartwin.path'), ',')"
    ).fetchall()[0]
    if version < OLDEST:
        raise SchemaError(f"PostgreSQL {version // 10000} is too old; version {OLDEST // 10000} or later is needed")
    if encoding != "UTF8":
        raise SchemaError(
            f"the database's encoding is {encoding}; it must be UTF8, because other encodings fail on some text"
        )
    candidates = [(path, table)]
    if "." in table:
        namespace, _, name = table.partition(".")
        candidates.append(([namespace], name))
    for namespaces, name in candidates:
        rows = connection.execute(_FIND, [namespaces, name]).fetchall()
        if rows:
            return rows[0][0], rows[0][1]
    return None


def check_declared(held_types: Mapping[str, ColumnType], declared: Mapping[str, ColumnType]) -> None:
    """Refuse declared types whose cast could fail on some row.

    Args:
        held_types: The catalogue's types, by column.
        declared: The declared types, by column.

    Raises:
        SchemaError: A cast could fail.
    """
    for name, kind in declared.items():
        held = held_types.get(name, kind)
        sure = kind in {held, ColumnType.TEXT} or (held, kind) == _WIDER or {held, kind} == _TIMES
        if not sure or (held is ColumnType.OTHER):
            raise SchemaError(
                f"types: {name!r} is {held} in PostgreSQL, and its cast to {kind} could fail on some row, which would "
                "reveal that such a row exists; make a view with a column of that type"
            )


@contextmanager
def reading(url: str) -> Iterator[Any]:
    """A connection of our own in one read-only snapshot. Its settings end with it.

    Args:
        url: The database's URL.

    Yields:
        The connection.
    """
    psycopg = driver()
    options = {"application_name": "neartwin", "client_encoding": "UTF8", "prepare_threshold": None}
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor, **options) as connection:
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute(
            "SELECT pg_catalog.set_config('neartwin.path', "
            "pg_catalog.array_to_string(pg_catalog.current_schemas(false), ','), true)"
        )
        for name, value in _SETTINGS.items():
            connection.execute("SELECT pg_catalog.set_config($1, $2, true)", [name, value])
        try:
            yield connection
        finally:
            connection.rollback()


_SETTINGS = {
    "search_path": "pg_catalog",  # no schema of others supplies a function or operator
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "standard_conforming_strings": "on",
    "cursor_tuple_fraction": "1",  # a cursor that is read to its end
}


def driver() -> Any:
    """The psycopg module.

    Raises:
        ParameterError: It is not installed; the message says what to install.
    """
    return needed("postgres", "psycopg")[0]


def _place(url: str) -> str:
    """Host, port and database, without user and password; a URL that libpq would read in another way is refused."""
    psycopg = driver()
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        raise SchemaError(f"the PostgreSQL URL cannot be read; {_FORM}") from None
    host, port = str(parts.get("host", "")), str(parts.get("port", "5432"))
    database = str(parts.get("dbname", parts.get("user", "")))
    if "@" in host + database or not re.fullmatch(r"[0-9]+(,[0-9]+)*", port):  # a password that was cut in two
        raise SchemaError(f"the PostgreSQL URL cannot be read; {_FORM}")
    return f"{host or 'local'}:{port}/{database}"


@contextmanager
def _reported(place: str) -> Iterator[None]:
    """The driver's errors as one of ours, without its text, which may hold what was typed as a password."""
    try:
        yield
    except driver().Error as fault:
        kind = type(fault).__name__
        raise SchemaError(
            f"cannot read the catalogue of postgresql://{place} ({kind}); check that it is up, and the user and password"
        ) from None
