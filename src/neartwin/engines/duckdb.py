"""DuckDB in the same process: Parquet and CSV files, DuckDB databases, and frames in memory."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never

import duckdb
import pyarrow as pa
from sqlglot import exp

from neartwin.engines.base import Aggregates
from neartwin.engines.dialect import KEYS, in_calendar
from neartwin.engines.gather import gathered, key_table
from neartwin.engines.sql import in_order, needed_columns, statement
from neartwin.queries.source import (
    CsvFiles,
    DuckdbConnection,
    DuckdbQuery,
    DuckdbTable,
    Frame,
    LocalSource,
    ParquetFiles,
)
from neartwin.queries.stage import Stage
from neartwin.queries.types import ColumnType

_ROWS = "neartwin_rows"
_SALT = exp.cast(exp.Placeholder(this="salt"), "UBIGINT", dialect="duckdb")
_TYPES = {
    ColumnType.TEXT: "VARCHAR",
    ColumnType.NUMBER: "DOUBLE",
    ColumnType.TIMESTAMP: "TIMESTAMP",
    ColumnType.DATE: "DATE",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.INTEGER: "BIGINT",
}


class DuckdbDialect:
    """DuckDB's words for what dialects spell differently."""

    name = "duckdb"

    def column(self, name: str, kind: ColumnType, *, declared: bool) -> exp.Expr:
        """TRY_CAST; whole numbers stay as wide as they are."""
        value: exp.Expr = exp.column(name, quoted=True)
        if declared or kind not in {ColumnType.INTEGER, ColumnType.BOOLEAN}:
            value = exp.TryCast(this=value, to=exp.DataType.build(_TYPES[kind], dialect="duckdb"))
        return in_calendar(value) if kind is ColumnType.DATE else value

    def hash_key(self, salt: exp.Expr, parts: list[tuple[exp.Expr, ColumnType]]) -> exp.Expr:
        """hash(hash(...)): the inner hash alone combines columns by something like xor, and favours some groups."""
        return exp.func("hash", exp.func("hash", salt.copy(), *(part.copy() for part, _ in parts)))

    def is_nan(self, value: exp.Expr) -> exp.Expr:
        """Isnan()."""
        return exp.func("isnan", value)

    def arithmetic(self, node: exp.Binary) -> exp.Expr:
        """As it is: DuckDB's doubles overflow to infinity."""
        return node

    def summed(self, value: exp.Expr) -> exp.Expr:
        """A HUGEINT, which is what DuckDB's sums are."""
        return exp.Sum(this=value)

    def weighted(self, total: exp.Expr, cap: exp.Expr, number: exp.Expr) -> exp.Expr:
        """DuckDB's // truncates."""
        return exp.IntDiv(this=exp.paren(_huge(total) * _huge(cap)), expression=_huge(number))

    def same(self, value: exp.Expr, key: exp.Expr, kind: ColumnType, *, nullable: bool) -> exp.Expr:  # noqa: ARG002
        """IS NOT DISTINCT FROM, which DuckDB hashes."""
        return exp.NullSafeEQ(this=value, expression=key) if nullable else exp.EQ(this=value, expression=key)

    def by_unit(self, query: exp.Select) -> exp.Select:
        """As it is: one process has all rows."""
        return query


def _huge(value: exp.Expr) -> exp.Expr:
    return exp.cast(value, "HUGEINT", dialect="duckdb")


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckdbEngine:
    """Runs a stage on a connection of its own, or on a cursor of the owner's connection.

    memory_limit, such as "4GB", and threads hold for connections of its own; beyond the limit DuckDB works from disk.
    """

    memory_limit: str = ""
    threads: int = 0

    def aggregate(self, stage: Stage, *, salt: int) -> Aggregates:
        """Exact answers to a stage; the source is opened read-only and closed again."""
        with self._asked(stage) as (connection, query):
            text = query.sql(dialect="duckdb")
            answer = connection.sql(text, params=_parameters(stage, salt)).to_arrow_table()
        return gathered(stage, answer)

    def batches(self, stage: Stage, *, salt: int, groups: int) -> Iterator[Aggregates]:
        """The same a part at a time: DuckDB sorts within its memory limit, and this process holds one part."""
        if stage.keys is not None:
            yield self.aggregate(stage, salt=salt)
            return
        with self._asked(stage) as (connection, query):
            text = in_order(query, stage).sql(dialect="duckdb")
            for batch in connection.sql(text, params=_parameters(stage, salt)).to_arrow_reader(groups):
                yield gathered(stage, pa.Table.from_batches([batch]))

    @contextlib.contextmanager
    def _asked(self, stage: Stage) -> Iterator[tuple[Any, exp.Select]]:
        source = stage.table.source
        if not isinstance(source, LocalSource):
            raise TypeError(f"DuckDB cannot read a {type(source).__name__}")
        with _connection(source, self._settings()) as connection:
            rows = exp.table_(_named(connection, source, needed_columns(stage)), quoted=True)
            if stage.keys is not None and stage.group_columns:
                connection.register(KEYS, key_table(stage))
            try:
                yield connection, statement(stage, rows, DuckdbDialect(), _SALT)
            finally:
                for name in (KEYS, _ROWS):
                    with contextlib.suppress(duckdb.Error):
                        connection.unregister(name)

    def _settings(self) -> dict[str, str | int]:
        chosen: dict[str, str | int] = {"memory_limit": self.memory_limit, "threads": self.threads}
        return {name: value for name, value in chosen.items() if value}


def _parameters(stage: Stage, salt: int) -> dict[str, int]:
    """The salt as a parameter, so that no text of a statement holds it."""
    return {} if stage.groups_per_unit is None else {"salt": salt}


@contextlib.contextmanager
def _connection(source: LocalSource, settings: dict[str, str | int]) -> Iterator[Any]:
    match source:
        case DuckdbConnection(connection=owner) | DuckdbQuery(connection=owner):
            with contextlib.closing(owner.cursor()) as cursor:
                yield cursor
        case DuckdbTable(path=path):
            with duckdb.connect(path, read_only=True, config=settings) as connection:
                yield connection
        case ParquetFiles() | CsvFiles() | Frame():
            with duckdb.connect(config=settings) as connection:
                yield connection
        case _:
            assert_never(source)


def _named(connection: Any, source: LocalSource, columns: tuple[str, ...]) -> str:
    """The name under which the connection knows the source's rows."""
    match source:
        case DuckdbTable(table=table) | DuckdbConnection(table=table):
            return table
        case ParquetFiles(paths=paths):
            files = ", ".join(map(_quoted, paths))
            connection.execute(f"CREATE TEMP VIEW {_ROWS} AS SELECT * FROM read_parquet([{files}])")
        case CsvFiles():
            connection.execute(f"CREATE TEMP VIEW {_ROWS} AS SELECT * FROM {_csv(source)}")
        case DuckdbQuery(text=text):
            connection.execute(f"CREATE TEMP VIEW {_ROWS} AS {text}")
        case Frame(frame=frame):
            connection.register(_ROWS, _arrow(frame, list(columns)))
        case _:
            assert_never(source)
    return _ROWS


def _csv(source: CsvFiles) -> str:
    """Every value as text, by options that look at no row; malformed lines are skipped, for an error would tell of them."""
    columns = ", ".join(f"{_quoted(name)}: 'VARCHAR'" for name in source.names())
    files = ", ".join(map(_quoted, source.paths))
    options = "header = true, auto_detect = false, delim = ',', quote = '\"', escape = '\"'"
    return f"read_csv([{files}], columns = {{{columns}}}, {options}, null_padding = true, ignore_errors = true)"


def _arrow(frame: Any, columns: list[str]) -> pa.Table:
    """The needed columns alone. Python objects become text, each on its own, so that no odd value can fail the whole."""
    if isinstance(frame, pa.Table):
        return frame.select(columns)
    if hasattr(frame, "to_arrow"):
        return frame.select(columns).to_arrow()
    found = {}
    for name in columns:
        values = frame[name]
        if values.dtype == object:
            texts = [None if value is None or value != value else str(value) for value in values]  # noqa: PLR0124 - NaN
            found[name] = pa.array(texts, pa.string())
        else:
            found[name] = pa.Array.from_pandas(values)
    return pa.table(found)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
