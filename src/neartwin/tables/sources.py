"""Sources of rows, and their free facts: names and types of columns, and the name of the snapshot.

No function here reads a row. A Parquet file supplies its schema and never its statistics. A CSV supplies its header
line. A DuckDB database supplies the declared columns of one table or view, and a frame its column types.

A Spark source is a DataFrame, or a table of Spark's catalogue. Nothing here runs a job. An Ibis source is its SQL, on
the engine to which it is bound. Ibis itself runs nothing, and is never imported here. For a table that a service keeps,
only the public schema is here. Only the service can plan on it.

DuckDB reads one fixed version of a lake, Delta or Iceberg, as a stream of Arrow, and so Parquet files of a store.
"""

import contextlib
import hashlib
import hmac
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from neartwin.errors import QueryError, SchemaError
from neartwin.interactive import instead, variable
from neartwin.tables.files import binary, files_state, filesystem, matched
from neartwin.tables.ingestion import NO_TERMS, Terms, framed, imported
from neartwin.tables.postgres import PostgresTable, is_url, postgres_table
from neartwin.tables.readers import format_of
from neartwin.tables.types import ColumnType, column_type, identifier, require_told_apart


@dataclass(frozen=True, slots=True)
class LakeTable:
    """One version of a Delta or Iceberg table.

    Attributes:
        place: The name of the place in the ledger.
        version: The version.
        columns: The columns in Arrow.
        read: Opens a new reader of the named columns.
    """

    place: str
    version: str
    columns: pa.Schema = field(compare=False, repr=False)
    read: Callable[[Sequence[str]], Any] = field(compare=False, repr=False)

    def schema(self) -> dict[str, ColumnType]:
        """The columns of this version."""
        require_told_apart(self.columns.names, self.place)
        return {one.name: column_type(str(one.type)) for one in self.columns}

    def location(self) -> str:
        """The name of the place in the ledger."""
        return self.place

    def snapshot(self) -> str:
        """The version. The table's own writers advance it."""
        return self.version


@dataclass(frozen=True, slots=True)
class Stream:
    """Columns of a table as a stream of Arrow that DuckDB opens anew for each scan.

    Attributes:
        read: Opens a new reader of the named columns.
        names: The columns.
    """

    read: Callable[[Sequence[str]], Any]
    names: Sequence[str]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.read(self.names).__arrow_c_stream__(requested_schema)


def remote_parquet(urls: Sequence[str], folders: Sequence[str]) -> Any:
    """Parquet files of a store.

    Args:
        urls: The files.
        folders: The columns that their folders give.

    Returns:
        The files, a dataset of Arrow, of which nothing but the first footer is read.
    """
    import pyarrow.dataset as ds  # it imports pandas, and most releases need neither

    files = filesystem(urls[0])
    hive = ds.partitioning(pa.schema([(name, pa.string()) for name in folders]), flavor="hive")
    paths = [str(files._strip_protocol(url)) for url in urls]  # noqa: SLF001 - fsspec's own name for it
    return ds.dataset(paths, format="parquet", filesystem=files, partitioning=hive)


def batches_of(files: Any, names: Sequence[str]) -> Any:
    """A new reader of some columns.

    Args:
        files: The files, a dataset of Arrow.
        names: The columns.
    """
    return files.scanner(columns=list(names)).to_reader()


def is_lake(data: Any) -> bool:
    """Whether this is a table of deltalake or pyiceberg, or the path of one. It imports nothing."""
    if isinstance(data, str | Path):
        return str(data).endswith(".metadata.json") or (Path(data) / "_delta_log").is_dir()
    return (type(data).__module__.partition(".")[0], type(data).__name__) in {
        ("deltalake", "DeltaTable"), ("pyiceberg", "Table"), ("pyiceberg", "StaticTable"),
    }  # fmt: skip


def lake_table(data: Any) -> LakeTable:
    """The present version of a table.

    Args:
        data: A table of deltalake or pyiceberg. Or the path of a Delta folder, or of a metadata file of Iceberg.

    Returns:
        The source.

    Raises:
        SchemaError: A package is missing, or the table cannot be read.
    """
    try:
        if isinstance(data, str | Path):
            data = _opened(str(data))
        return _delta(data) if type(data).__name__ == "DeltaTable" else _iceberg(data)
    except ImportError as fault:
        raise SchemaError(f"Delta and Iceberg need their packages: pip install 'neartwin[lakes]' ({fault})") from None
    except SchemaError:
        raise
    except Exception as fault:  # noqa: BLE001 - of either package
        raise SchemaError(f"the table cannot be read: {fault}") from None


def _opened(path: str) -> Any:
    if path.endswith(".metadata.json"):
        from pyiceberg.table import StaticTable

        return StaticTable.from_metadata(path)
    from deltalake import DeltaTable

    return DeltaTable(path)


def _delta(table: Any) -> LakeTable:
    files = table.to_pyarrow_dataset()
    return LakeTable(
        f"delta:{_lake_place(table.table_uri)}",
        f"{table.metadata().id} version {table.version()}",
        files.schema,
        partial(batches_of, files),
    )


def _iceberg(table: Any) -> LakeTable:
    state = table.current_snapshot()
    if state is None:
        raise SchemaError(f"the table {table.location()!r} has no snapshot yet; write rows first")
    scan = table.scan(snapshot_id=state.snapshot_id)
    return LakeTable(
        f"iceberg:{_lake_place(table.location())}",
        f"{table.metadata.table_uuid} snapshot {state.snapshot_id}",
        scan.projection().as_arrow(),
        lambda names: scan.select(*names).to_arrow_batch_reader(),
    )


def _lake_place(uri: str) -> str:
    """A local folder by its resolved path, and any other by its URL."""
    parts = urlsplit(uri)
    return uri.rstrip("/") if parts.scheme not in {"", "file"} else str(Path(unquote(parts.path)).resolve())


class _Labelled:
    """Rows in memory, in a session or behind a connection. They have no lasting place, and a label names their snapshot."""

    __slots__ = ()
    label: str

    def location(self) -> str:
        """Empty: neither memory nor a session is a lasting place."""
        return ""

    def snapshot(self) -> str:
        """The label."""
        return self.label


@dataclass(frozen=True, slots=True)
class SparkFrame(_Labelled):
    """A Spark DataFrame.

    Attributes:
        frame: The DataFrame.
        name: The name of the table in the catalogue, or "".
        label: The name of the snapshot.
    """

    frame: Any = field(compare=False, repr=False)
    name: str
    label: str

    def schema(self) -> dict[str, ColumnType]:
        """The DataFrame's column names and types."""
        return {name: column_type(kind) for name, kind in self.frame.dtypes}

    def location(self) -> str:
        """A table has the catalogue's name; a DataFrame has no place that outlives the session."""
        return f"spark:{self.name}" if self.name else ""


def spark_frame(data: Any, table: str, label: str) -> SparkFrame:
    """A DataFrame, or the table of this name in a session's catalogue.

    Args:
        data: A DataFrame or a Spark session.
        table: The name of the table, for a session.
        label: The name of the snapshot.

    Returns:
        The source.

    Raises:
        SchemaError: There is no such table, or two columns have one name.
    """
    if type(data).__module__.startswith("pyspark.sql.connect"):
        raise SchemaError("Spark Connect is not supported; use a session of SparkSession.builder with a master")
    if type(data).__name__ == "DataFrame":
        _distinct(data)
        return SparkFrame(data, "", label)
    if not table:
        raise SchemaError("table='' must name a table or view of the Spark session")
    if not data.catalog.tableExists(table):
        raise SchemaError(f"table={table!r} is not a table or view of this Spark session")
    entry = data.catalog.getTable(table)
    parts = (entry.catalog, *(entry.namespace or ()), entry.name)
    name = "" if entry.isTemporary else ".".join(part for part in parts if part)
    frame = data.table(table)
    _distinct(frame)
    return SparkFrame(frame, name, label)


def _distinct(frame: Any) -> None:
    """Unless its session says otherwise, Spark knows no capitals: of two such names it would take neither."""
    exact = str(frame.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
    known: dict[str, str] = {}
    for name in frame.columns:
        key = name if exact else name.lower()
        if key in known:
            raise SchemaError(f"the DataFrame has columns {known[key]!r} and {name!r}, which are one name; rename one")
        known[key] = name


@dataclass(frozen=True, slots=True)
class ServedTable:
    """A data set of a service.

    Attributes:
        address: The service's address.
        name: The data set's name.
    """

    address: str
    name: str

    def schema(self) -> dict[str, ColumnType]:
        """Always refused: the service sent the schema."""
        raise self.elsewhere()

    def location(self) -> str:
        """The data set's name in messages."""
        return f"{self.address}#{self.name}"

    def snapshot(self) -> str:
        """Always refused: only the service knows it."""
        raise self.elsewhere()

    def elsewhere(self) -> QueryError:
        """The refusal of everything that needs the rows."""
        return QueryError(
            f"{self.name!r} is kept by the service at {self.address}; plan and release with its own account"
        )


def bound(data: Any) -> tuple[str, Any, str]:
    """The engine of an Ibis table.

    Args:
        data: An Ibis table expression.

    Returns:
        The name of its engine ("duckdb" or "pyspark"), the engine's own connection or session, and the table's SQL.

    Raises:
        SchemaError: The table is bound to no engine, or to an unsupported one.
    """
    try:
        backend = data.get_backend()
        text = str(backend.compile(data))
    except Exception:  # noqa: BLE001 - of many kinds, and all mean this
        raise SchemaError("the Ibis table is bound to no engine; make it with a connection's .table(...)") from None
    match backend.name:
        case "duckdb":
            return "duckdb", backend.con, text
        case "pyspark":
            return "pyspark", backend._session, text  # noqa: SLF001 - Ibis has no other door to it
    raise SchemaError(
        f"an Ibis table of {backend.name} is not supported; of PostgreSQL, make a view and give the URL with table="
    )


Schema = Mapping[str, ColumnType]
_KNOWN = 64  # files' schemas, by their state
_LONGEST = 1000  # letters of a place; a ledger holds each file's own place too


def _place(kind: str, paths: tuple[str, ...]) -> str:
    """The name of files in a ledger; of many files a digest stands for their paths."""
    listed = "|".join(paths)
    if len(listed) > _LONGEST:
        listed = f"{paths[0]} and others, {hashlib.sha256(listed.encode()).hexdigest()}"
    return f"{kind}:{listed}"


@dataclass(frozen=True, slots=True)
class ParquetFiles:
    """One or more Parquet files of one schema. Folders such as `month=05` give each file's rows a column of text."""

    paths: tuple[str, ...]
    format: ClassVar[str] = "parquet"

    def schema(self) -> dict[str, ColumnType]:
        """The first file's column names and types, and its folders' columns. All others must have these, and may have more."""
        return dict(_of_parquet(self.paths, self.snapshot()))

    def location(self) -> str:
        """The name of the place in the ledger."""
        return _place(self.format, self.paths)

    def snapshot(self) -> str:
        """A digest that changes when a file is written."""
        return files_state(self.paths)


@dataclass(frozen=True, slots=True)
class ImportedFiles(_Labelled):
    """The typed copy of files.

    Attributes:
        paths: The files that were read.
        format: Their format.
        copy: The Parquet file of the copy.
        label: The name of the snapshot.
        table: The table of a SQLite file, or the sheet of Excel.
        odd: The first 1,000 odd lines and values that were accepted, for the owner alone.
    """

    paths: tuple[str, ...]
    format: str
    copy: str
    label: str
    table: str = ""
    odd: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def schema(self) -> dict[str, ColumnType]:
        """The columns of the copy."""
        return dict(_of_parquet((self.copy,), files_state((self.copy,))))

    def location(self) -> str:
        """The name of the place in the ledger: that of the files."""
        return _place(self.format, self.paths) + (f"#{self.table}" if self.table else "")


@dataclass(frozen=True, slots=True)
class DuckdbTable:
    """A table or view in a DuckDB database file, opened read-only."""

    path: str
    table: str

    def schema(self) -> dict[str, ColumnType]:
        """The declared columns."""
        return dict(_of_database(self.path, self.table, self.snapshot()))

    def location(self) -> str:
        """The name of the place in the ledger."""
        return f"duckdb:{self.path}#{self.table}"

    def snapshot(self) -> str:
        """A digest that changes when the database file is written."""
        return files_state((self.path,))


@dataclass(frozen=True, slots=True)
class DuckdbConnection(_Labelled):
    """A table or view behind an open DuckDB connection, which the caller closes, or what an expression of Ibis asks of it.

    Attributes:
        connection: The connection.
        text: The table as FROM has it: its name, or a query in parentheses.
        label: The name of the snapshot.
        place: The name of the table's place in the ledger; "" for memory.
    """

    connection: Any = field(compare=False, repr=False)
    text: str
    label: str = field(compare=False)
    place: str = ""

    def location(self) -> str:
        """The place of a table in a database file."""
        return self.place

    def schema(self) -> dict[str, ColumnType]:
        """The columns, by binding the text. No row is read."""
        try:
            return _described(self.connection.cursor(), self.text)
        except duckdb.ConnectionException:
            raise SchemaError("the DuckDB connection is closed; give an open one") from None
        except duckdb.Error:
            raise SchemaError(
                f"{self.text}: this is not a table or view that a second cursor of the open connection can read"
            ) from None


@dataclass(frozen=True, slots=True)
class Frame(_Labelled):
    """A pandas, Polars or Arrow table, held in memory as Arrow columns in which every value can be read.

    Attributes:
        frame: The Arrow table.
        label: The name of the snapshot.
        odd: The first 1,000 odd values that were accepted, for the owner alone.
    """

    frame: pa.Table = field(compare=False, repr=False)
    label: str
    odd: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def schema(self) -> dict[str, ColumnType]:
        """The column types. An `object` column of pandas is text: declare its type."""
        return _typed(self.frame.schema.names, self.frame.schema.types, "the table")


# DuckDB reads these in this process.
LocalSource = ParquetFiles | ImportedFiles | LakeTable | DuckdbTable | DuckdbConnection | Frame
Source = LocalSource | PostgresTable | SparkFrame | ServedTable


def places_of(source: Source) -> tuple[str, ...]:
    """The lasting places of a source's rows: the whole, each of several files, and a typed copy. Empty if there is none."""
    whole: tuple[str, ...] = (place,) if (place := source.location()) else ()
    if isinstance(source, ParquetFiles | ImportedFiles) and len(source.paths) > 1:
        whole += tuple(replace(source, paths=(path,)).location() for path in source.paths)
    if isinstance(source, DuckdbTable):  # which DuckDB finds under any capitals
        whole += (replace(source, table=source.table.lower()).location(),)
    return (*whole, f"{ParquetFiles.format}:{source.copy}") if isinstance(source, ImportedFiles) else whole


def same_rows(one: Source, other: Source) -> bool:
    """Whether two sources surely hold the same rows: one place, one frame, or one table or text behind a connection.

    Args:
        one: One source.
        other: The other source.

    Returns:
        True if they surely do.
    """
    frames = (getattr(source, "frame", source) for source in (one, other))
    return one == other or next(frames) is next(frames) or bool(set(places_of(one)) & set(places_of(other)))


def snapshot_name(source: Source, key: bytes) -> str:
    """The name of a source's state in a ledger.

    Size and time of a private file depend on its rows. So a digest of them is keyed: without the key nobody can try
    guesses against a release that shows it.

    Args:
        source: The source.
        key: The secret of the ledger.

    Returns:
        A label as it is, and a keyed digest of the state of files.
    """
    state = source.snapshot()
    files = isinstance(source, ParquetFiles | DuckdbTable)
    return hmac.new(key, state.encode(), "sha256").hexdigest() if files else state


def source_of(
    data: Any,
    *,
    table: str = "",
    snapshot: str = "",
    types: Mapping[str, ColumnType] | None = None,
    terms: Terms = NO_TERMS,
) -> Source:
    """Recognise the caller's data.

    Args:
        data: A path, a URL, a connection, a session or a frame.
        table: The table in a database.
        snapshot: The name of the snapshot; by default a new one.
        types: The declared types, by column.
        terms: The owner's terms for files of text and frames.

    Returns:
        The source.

    Raises:
        SchemaError: The data is no table; the message lists the accepted kinds. Or values are odd, and not accepted.
    """
    label = snapshot or uuid.uuid4().hex
    if isinstance(data, duckdb.DuckDBPyConnection):
        if not table:
            raise SchemaError("table='' must name a table or view of the DuckDB connection")
        return DuckdbConnection(data, identifier(table), label, _behind(data, table))
    if isinstance(data, str) and is_url(data):
        return postgres_table(data, table, label)
    if is_lake(data):
        return lake_table(data)
    if isinstance(data, str | Path):
        return _file_source(str(data), table, types or {}, terms)
    module, kind = type(data).__module__, type(data).__name__
    if module.startswith("ibis.expr.") and hasattr(data, "get_backend"):
        engine, place, text = bound(data)
        if engine == "duckdb":
            return DuckdbConnection(place, f"({text})", label)
        return spark_frame(place.sql(text), "", label)
    if module.startswith("pyspark.sql.") and kind in {"DataFrame", "SparkSession"}:
        return spark_frame(data, table, label)
    module = module.partition(".")[0]
    if module == "pyarrow" and hasattr(data, "to_table"):
        data = data.to_table()
    if isinstance(data, pa.Table) or (module in {"pandas", "polars"} and kind in {"DataFrame", "LazyFrame"}):
        held, name, odd = framed(data, types or {}, terms)
        return Frame(held, snapshot or name, odd)
    accepted = (
        "give a path to Parquet, CSV or a DuckDB database, a DuckDB connection, PostgreSQL URL or Spark session with table=, or "
        "a Spark, Ibis, Delta, Iceberg, pandas, Polars or Arrow table"
    )
    raise SchemaError(f"data of type {kind} is not a table: {instead('tables', kind, variable(data)) or accepted}")


def _file_source(path: str, table: str, types: Mapping[str, ColumnType], terms: Terms) -> Source:
    paths = matched(path)
    suffix = Path(paths[0]).suffix.lower()
    if suffix in {".parquet", ".pq"}:
        return ParquetFiles(paths)
    if kind := format_of(paths[0]):
        found = imported(paths, types, terms, table)
        return ImportedFiles(paths, kind, found.copy, found.snapshot, table, found.listed)
    if suffix in {".duckdb", ".db", ".ddb"}:
        if not table:
            raise SchemaError(f"table='' must name a table or view of the database {path!r}")
        return DuckdbTable(paths[0], table)
    raise SchemaError(
        f"path={path!r} must end in .parquet, .csv, .tsv, .jsonl, .json, .xlsx, .sqlite, .duckdb or .db; of another format "
        f"give a DataFrame: of text, also in a .zip, write pandas.read_csv({path!r}, sep=None, engine='python')"
    )


def _typed(names: Sequence[str], kinds: Iterable[Any], where: str) -> dict[str, ColumnType]:
    require_told_apart(names, where)
    return {name: column_type(str(kind)) for name, kind in zip(names, kinds, strict=True)}


@lru_cache(maxsize=_KNOWN)
def _of_parquet(paths: tuple[str, ...], _state: str) -> Mapping[str, ColumnType]:
    """By the files' state: to look again whether columns are what they were costs nothing while no file is written."""
    first = _footer(paths[0])
    if not first.names:
        raise SchemaError(f"path={paths[0]!r} has no columns")
    folders = folder_columns(paths[0])
    kinds = [*first.types, *["text"] * len(folders)]
    schema = _typed([*first.names, *folders], kinds, f"path={paths[0]!r}")
    for path in paths[1:]:
        if folder_columns(path) != folders:
            raise SchemaError(f"path={path!r} has other folders with '=' than {paths[0]!r}, so rows lack a column")
        other = _footer(path)
        _typed(other.names, other.types, f"path={path!r}")
        for name, kind in zip(first.names, first.types, strict=True):
            held = other.field(name).type if name in other.names else "missing"
            if held == "missing" or not _holds(kind, held):
                raise SchemaError(
                    f"path={path!r}: column {name!r} is {held}, and {kind} in {paths[0]!r}; write it with one type, since "
                    "a value that does not fit that of the first file would make a release fail"
                )
    return schema


def folder_columns(path: str) -> list[str]:
    """The columns that folders such as `month=05` give the rows of a file. Their values are text.

    >>> folder_columns("/visits/year=2026/month=05/1.parquet")
    ['year', 'month']
    """
    return [name for name, sign, _ in (part.partition("=") for part in path.split("/")[:-1]) if sign and name]


def _footer(path: str) -> pa.Schema:
    if "://" in path and len(filesystem(path).cat_file(path, start=-8)) != 8:  # it would fail in a release
        raise SchemaError(f"path={path!r}: the server sends no part of a file alone; copy the file here")
    try:
        with binary(path) as file:
            return pq.read_schema(file)
    except (pa.ArrowException, OSError):
        raise SchemaError(f"path={path!r} is not a Parquet file that can be read") from None


def _holds(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether every value of the other type is one of this, however texts are stored."""
    for same in (pa.types.is_signed_integer, pa.types.is_unsigned_integer, pa.types.is_floating):
        if same(kind) and same(other):
            return bool(other.bit_width <= kind.bit_width)
    kinds = [one.value_type if pa.types.is_dictionary(one) else one for one in (kind, other)]
    return kinds[0] == kinds[1] or all(
        pa.types.is_string(one) or pa.types.is_large_string(one) or pa.types.is_string_view(one) for one in kinds
    )


@lru_cache(maxsize=_KNOWN)
def _of_database(path: str, table: str, _state: str) -> Mapping[str, ColumnType]:
    try:
        connection = duckdb.connect(path, read_only=True)
    except duckdb.Error:
        raise SchemaError(
            f"database {path!r} cannot be opened for reading; close its writers, or give an open connection"
        ) from None
    with connection:
        try:
            return _described(connection, identifier(table))
        except duckdb.Error:
            raise SchemaError(f"table={table!r} is not a table or view of this database") from None


def _behind(connection: Any, table: str) -> str:
    """The place of a table of an open connection, under the capitals that every table of a database file is known by."""
    with contextlib.suppress(duckdb.Error):
        found = "SELECT path FROM duckdb_databases() WHERE database_name = current_database() AND path <> ''"
        if row := connection.cursor().execute(found).fetchone():
            return DuckdbTable(str(Path(row[0]).resolve()), table.lower()).location()
    return ""


def _described(connection: Any, relation: str) -> dict[str, ColumnType]:
    found = connection.sql(f"FROM {relation}")  # which is bound, and not run
    return {name: column_type(str(kind)) for name, kind in zip(found.columns, found.types, strict=True)}
