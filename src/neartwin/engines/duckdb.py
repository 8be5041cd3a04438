"""DuckDB in the same process: Parquet and CSV files, DuckDB databases, and frames in memory."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from neartwin.engines.arrow import ARROW, gathered, gathered_rows, key_table
from neartwin.engines.duckdb_connections import memory_connection, opened
from neartwin.engines.sql import dialect as dialects
from neartwin.engines.sql.joins import Place, sources_of
from neartwin.engines.sql.rendering import translated
from neartwin.engines.sql.statement import BY_UNIT, SHARED, SharedRows, column_aliases, in_order, salted, statement
from neartwin.planning.stage import Aggregates, Engine, Stage
from neartwin.tables.sources import DuckdbConnection, DuckdbTable
from neartwin.tables.table import Join, Table
from neartwin.tables.terms import Term
from neartwin.tables.types import ColumnType

_Opened = tuple[Any, list[Place], SharedRows | None]  # a connection, its tables, and rows that were read before
_SETTINGS = ("memory_limit", "threads", "temp_directory")
_LARGEST = 2**62  # a product in 64 bits
_SHORT = 2**40  # a factor that leaves room for most totals
_FEW_ROWS = 2**10  # of an answer
_SALT = exp.cast(exp.Placeholder(this="salt"), "UBIGINT", dialect="duckdb")
_TYPES = {
    ColumnType.TEXT: exp.DataType.Type.TEXT,
    ColumnType.NUMBER: exp.DataType.Type.DOUBLE,
    ColumnType.TIMESTAMP: exp.DataType.Type.TIMESTAMPNTZ,
    ColumnType.DATE: exp.DataType.Type.DATE,
    ColumnType.BOOLEAN: exp.DataType.Type.BOOLEAN,
    ColumnType.INTEGER: exp.DataType.Type.BIGINT,
}
_ARROW = ARROW | {ColumnType.INTEGER: pa.decimal128(38, 0), ColumnType.NUMBER: pa.float64()}


@dataclass(frozen=True, slots=True)
class DuckdbDialect(dialects.Dialect):
    """DuckDB's spelling."""

    collates: bool = False

    name: ClassVar[str] = "duckdb"
    reads_once: ClassVar[bool] = True
    keeps: ClassVar[int] = 64

    def column(self, name: str, kind: ColumnType, *, declared: bool) -> exp.Expr:
        """TRY_CAST; whole numbers stay as wide as they are, and times with an offset are those of UTC.

        TRY hides the statistics of a Parquet file, which leave NaN out: DuckDB would answer x <= 9 for all rows from them.
        """
        value: exp.Expr = exp.column(name, quoted=True)
        if kind is ColumnType.NUMBER or (declared and kind in {ColumnType.INTEGER, ColumnType.BOOLEAN}):
            value = exp.func("try", value)
        if declared or kind not in {ColumnType.INTEGER, ColumnType.BOOLEAN}:
            value = exp.TryCast(this=value, to=exp.DataType(this=_TYPES[kind]))
        if declared and kind is ColumnType.TIMESTAMP:  # a text's cast would drop its offset; one of the two is planned
            zoned = exp.TryCast(this=value.this.copy(), to=exp.DataType(this=exp.DataType.Type.TIMESTAMPTZ))
            text = exp.func("typeof", value.this.copy()).eq(exp.Literal.string("VARCHAR"))
            value = dialects.either(text, exp.TryCast(this=zoned, to=value.args["to"].copy()), value)
        return dialects.in_calendar(value, kind) if kind in {ColumnType.DATE, ColumnType.TIMESTAMP} else value

    def hash_key(self, salt: exp.Expr, parts: list[tuple[exp.Expr, ColumnType]]) -> exp.Expr:
        """hash(hash(...)): the inner hash alone combines columns by something like xor, and favours some groups."""
        return exp.func("hash", exp.func("hash", salt.copy(), *(part.copy() for part, _ in parts)))

    def bytewise(self, value: exp.Expr) -> exp.Expr:
        """Without a collation. A filter still moves down to the file."""
        return exp.Collate(this=exp.paren(value), expression=exp.to_identifier("binary", quoted=True))

    def computed(self, value: exp.Expr, kind: ColumnType) -> exp.Expr:
        """TRY_CAST: a whole number of more than 64 bits is NULL."""
        return exp.TryCast(this=value, to=exp.DataType(this=_TYPES[kind]))

    def half_up(self, value: exp.Expr, *, negative: bool) -> exp.Expr:
        """Round() takes halves away from 0, exactly, so it rounds values of at least 0 half up."""
        return dialects.floor_half_up(value) if negative else dialects.as_bigint(exp.Round(this=value))

    def summed_in_doubles(self, value: exp.Expr) -> exp.Expr:
        """A sum of 128 bits has twice the state."""
        return dialects.as_bigint(exp.Sum(this=dialects.as_double(value)))

    def wide(self, value: exp.Expr) -> exp.Expr:
        """A HUGEINT."""
        return exp.Cast(this=value, to=exp.DataType(this=exp.DataType.Type.INT128))

    def weighted(self, total: exp.Expr, cap: exp.Expr, number: exp.Expr, parts: int = 1) -> exp.Expr:
        """DuckDB's // truncates. 64 bits take a tenth of the time, and mostly hold a product with the cap and one with parts."""
        all_parts = exp.paren(self.wide(cap) * dialects.integer(parts)) if parts > 1 else self.wide(cap)
        wide = exp.IntDiv(this=exp.paren(self.wide(total) * all_parts), expression=self.wide(number))
        at_once = parts if int(cap.this) * parts <= _SHORT else 1  # else parts follow, from quotient and rest
        times = int(cap.this) * at_once
        small: exp.Expr = exp.Between(
            this=total.copy(), low=dialects.integer(-(_LARGEST // times)), high=dialects.integer(_LARGEST // times)
        )
        product, over = (
            exp.paren(dialects.as_bigint(total.copy()) * dialects.integer(times)),
            dialects.as_bigint(number.copy()),
        )
        short: exp.Expr = exp.IntDiv(this=product, expression=over)
        if at_once < parts:
            rest = exp.paren(exp.paren(exp.Mod(this=product.copy(), expression=over.copy())) * dialects.integer(parts))
            short = exp.paren(short) * dialects.integer(parts) + exp.paren(
                exp.IntDiv(this=rest, expression=over.copy())
            )
            small = exp.and_(small, over.copy() <= dialects.integer(_LARGEST // parts))
        return dialects.either(small, short, wide)


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckdbEngine:
    """Runs a stage on a connection of its own, or on a cursor of the caller's connection.

    Beyond the memory limit DuckDB works from disk. The folder holds rows while a statement runs, and nothing after it.
    The settings hold for connections of the engine's own.

    Attributes:
        memory_limit: The limit, such as "4GB"; "" for DuckDB's default.
        threads: The number of threads; 0 for DuckDB's default.
        temp_directory: The folder for work on disk; by default `.tmp` in the current folder.
    """

    memory_limit: str = ""
    threads: int = 0
    temp_directory: str = ""
    _shared: tuple[Any, list[Place], SharedRows] | None = field(default=None, repr=False, compare=False)

    def aggregate(self, stage: Stage, *, salt: int) -> Aggregates:
        """Answer a stage exactly. The source is opened read-only and closed again.

        Args:
            stage: The stage.
            salt: The salt of the hash that chooses a unit's groups.

        Returns:
            The groups and their exact whole numbers.
        """
        with self._opened_places(stage) as (connection, places, shared):
            parameters, text = {"salt": salt} if salted(stage) else {}, text_of(stage, places, shared=shared)
            rows = len(stage.keys or ()) if stage.sizes is None else len(stage.sizes.edges or (1,))
            if 0 < rows <= _FEW_ROWS and stage.split is None:  # half as long as by Arrow
                return gathered_rows(stage, connection.execute(text, parameters).fetchall())
            answer = connection.sql(text, params=parameters).to_arrow_table()
        return gathered(stage, answer)

    @contextlib.contextmanager
    def reading(self, stages: Sequence[Stage]) -> Iterator[Engine]:
        """Read the rows of some stages once, as `SharesRows.reading` does. Several share a temporary table.

        Args:
            stages: The stages.

        Yields:
            The engine that answers them.
        """
        rows = SharedRows.of(stages)
        if rows is None:
            yield self
            return
        with self._opened_places(rows.stage) as (connection, places, _):
            tables = {SHARED: rows.statement(places)} | ({BY_UNIT: rows.by_unit()} if rows.summed else {})
            for name, made in tables.items():
                text = made.sql(dialect="duckdb", comments=False, copy=False)
                connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {text}")  # it goes with the connection
            yield replace(self, _shared=(connection, places, rows))

    def batches(self, stage: Stage, *, salt: int, groups: int) -> Iterator[Aggregates]:
        """Yield the answers in parts, as `Streaming.batches` does. DuckDB sorts within its memory limit, and this process
        holds one part.
        """
        if stage.keys is not None and stage.split is None:
            yield self.aggregate(stage, salt=salt)
            return
        with self._opened_places(stage) as (connection, places, _):
            parameters, text = {"salt": salt} if salted(stage) else {}, text_of(stage, places, ordered=True)
            for batch in connection.sql(text, params=parameters).to_arrow_reader(groups):
                yield gathered(stage, pa.Table.from_batches([batch]))

    @contextlib.contextmanager
    def _opened_places(self, stage: Stage) -> Iterator[_Opened]:
        if self._shared is not None and self._shared[2].serves(stage):
            yield self._shared
            return
        sources, needed, *_ = zip(*sources_of(stage.table, tuple(column_aliases(stage))), strict=True)
        settings = {name: getattr(self, name) for name in _SETTINGS if getattr(self, name)}
        with opened(sources, needed, settings) as (connection, rows):
            if stage.keys is not None and stage.group_columns:
                # joining a registered table takes longer than joining a copy of it
                connection.register(f"{dialects.KEYS}_given", key_table(stage))
                connection.execute(f"CREATE OR REPLACE TEMP TABLE {dialects.KEYS} AS FROM {dialects.KEYS}_given")
            dialect = DuckdbDialect(collates=_collates(connection, stage.table, rows[0]))
            yield connection, [Place(source_rows, dialect) for source_rows in rows], None


def text_of(stage: Stage, places: list[Place], *, ordered: bool = False, shared: SharedRows | None = None) -> str:
    """The statement of a stage in DuckDB's SQL.

    Args:
        stage: The stage.
        places: The tables.
        ordered: Whether discovered groups are sorted by key.
        shared: The rows that were read for this stage; None to read the tables.

    Returns:
        The text.
    """
    query = statement(stage, places, _SALT, shared=shared)
    return (in_order(query, stage) if ordered else query).sql(dialect="duckdb", comments=False, copy=False)


def _collates(connection: Any, table: Table, rows: exp.Expr) -> bool:
    """Whether DuckDB groups the units' ids by a collation: it then plans that otherwise than by bytes. No row is read."""
    if not isinstance(table.source, DuckdbTable | DuckdbConnection) or not isinstance(table.unit, str):
        return False
    if table.schema[table.unit] is not ColumnType.TEXT:
        return False
    while table.per_unit is not None:
        table = table.per_unit.table
    unit = DuckdbDialect().column(str(table.unit), ColumnType.TEXT, declared=False)
    plans = []
    for value in (unit, DuckdbDialect().bytewise(unit)):
        text = exp.select("1").from_(rows.copy()).group_by(value).sql(dialect="duckdb")
        plans.append(connection.execute(f"EXPLAIN (FORMAT JSON) {text}").fetchall())
    return bool(plans[0] != plans[1])


def typed_rows(of: Join | Table, needed: tuple[str, ...]) -> pa.Table:
    """A public table's needed columns, for an engine that cannot reach it.

    Args:
        of: The public table, or its join.
        needed: The names of the columns.

    Returns:
        The rows; each column has one of six Arrow types.
    """
    with opened([of.source], [needed], {}) as (connection, (rows,)):
        columns = []
        for name in needed:
            typed = DuckdbDialect().column(name, of.schema[name], declared=True)
            columns.append(exp.alias_(typed, name, quoted=True))
        text = exp.select(*columns).from_(rows).sql(dialect="duckdb")
        answer: pa.Table = connection.sql(text).to_arrow_table()
    return answer


def values_of(term: Term, columns: Mapping[str, tuple[ColumnType, Sequence[object]]], rows: int) -> list[Any]:
    """The value of an expression in each row in memory.

    Args:
        term: The expression, over these columns.
        columns: The columns that it reads, each with its type and (rows,) values; None is NULL.
        rows: The number of rows.

    Returns:
        The values; None is NULL.
    """
    numbered = {name: exp.column(f"c{i}") for i, name in enumerate(columns)}
    literals = {f"c{i}": pa.array(values, _ARROW[kind]) for i, (kind, values) in enumerate(columns.values())}
    literals["place"] = pa.array(range(rows), pa.int64())
    query = exp.select(translated(term, numbered, DuckdbDialect())).from_("given").order_by("place")
    with memory_connection({}) as connection:
        connection.register("given", pa.table(literals))
        return [value for (value,) in connection.execute(query.sql(dialect="duckdb")).fetchall()]
