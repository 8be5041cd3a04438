"""Apache Spark 4: the one statement as Spark SQL, over a DataFrame, in a session of our own beside the caller's.

No expression fails on a value in this session: ANSI is off. Sums are DECIMAL(38, 0), so nothing overflows. Times are in
UTC, and names keep their case. The caller's settings for speed are taken over, and the caller's session stays as it is.
"""

import contextlib
import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import and_
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from neartwin.engines.arrow import gathered, key_table
from neartwin.engines.base import Answer
from neartwin.engines.duckdb import typed_rows
from neartwin.engines.sql.dialect import KEYS, POSITION, Dialect, as_double, in_calendar
from neartwin.engines.sql.joins import Place, sources_of
from neartwin.engines.sql.statement import column_aliases, group_names, statement
from neartwin.engines.sql.trees import CELL
from neartwin.planning.stage import Aggregates, Stage
from neartwin.tables.sources import SparkFrame
from neartwin.tables.types import ColumnType

_SALT = "neartwin_salt"
_SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
}
_TYPES = {ColumnType.INTEGER: "BIGINT", ColumnType.BOOLEAN: "BOOLEAN"}
_SIGN = 2**63
_ORDER = "neartwin_order"


class SparkDialect(Dialect):
    """Spark's spelling."""

    name: ClassVar[str] = "spark"
    reads_once: ClassVar[bool] = False
    collates = False

    def column(self, name: str, kind: ColumnType, *, declared: bool) -> exp.Expr:
        """Casts give NULL for values that do not fit, because ANSI is off. Text is made valid UTF-8.

        NANVL hides the statistics of a Parquet file, which leave NaN out: Spark would skip rows for which x > 9 holds.
        """
        value: exp.Expr = exp.column(name, quoted=True)
        match kind:
            case ColumnType.NUMBER:
                return exp.func("nanvl", as_double(value), as_double(exp.Literal.string("NaN")))
            case ColumnType.TEXT:
                text = exp.func("make_valid_utf8", exp.cast(value, "STRING", dialect="spark"))
                return _by_bytes(text)
            case ColumnType.DATE:
                return in_calendar(exp.cast(value, "DATE", dialect="spark"), kind)
            case ColumnType.TIMESTAMP:
                if declared:  # a text may have an offset, which the cast below drops
                    value = exp.cast(value, "TIMESTAMP", dialect="spark")
                return in_calendar(exp.cast(value, "TIMESTAMP_NTZ", dialect="spark"), kind)
        return exp.cast(value, _TYPES[kind], dialect="spark")

    def hash_key(self, salt: exp.Expr, parts: list[tuple[exp.Expr, ColumnType]]) -> exp.Expr:
        """xxhash64, 64 bits: finalised, each part seeded by the one before."""
        return exp.func("xxhash64", salt.copy(), *(part.copy() for part, _ in parts))

    def text(self, value: str) -> exp.Expr:
        """With the columns' collation, whatever the session's is."""
        return _by_bytes(exp.Literal.string(value))

    def computed(self, value: exp.Expr, kind: ColumnType) -> exp.Expr:
        """A cast gives NULL for a value that does not fit."""
        if kind is ColumnType.TEXT:
            return _by_bytes(value)
        return exp.cast(value, "BIGINT", dialect="spark") if kind is ColumnType.INTEGER else value

    def summed(self, value: exp.Expr) -> exp.Expr:
        """A sum of BIGINT would overflow."""
        return exp.Sum(this=_wide(value))

    def wide(self, value: exp.Expr) -> exp.Expr:
        """A DECIMAL of 38 digits."""
        return _wide(value)

    def weighted(self, total: exp.Expr, cap: exp.Expr, number: exp.Expr, parts: int = 1) -> exp.Expr:
        """Total * cap / number, as q cap + r cap / number with total = q number + r, then its parts alike: DIV is a BIGINT."""
        over, times = _wide(number), exp.Literal.number(parts)
        rest = exp.paren(_wide(exp.paren(exp.Mod(this=total.copy(), expression=over))) * _wide(cap))
        quotient = exp.paren(exp.IntDiv(this=total.copy(), expression=over.copy()))
        found = _wide(quotient) * _wide(cap) + _wide(exp.paren(exp.IntDiv(this=rest, expression=over.copy())))
        if parts == 1:
            return found
        finer = exp.paren(_wide(exp.paren(exp.Mod(this=rest.copy(), expression=over.copy()))) * times)
        return exp.paren(found) * times.copy() + _wide(exp.paren(exp.IntDiv(this=finer, expression=over.copy())))

    def by_unit(self, query: exp.Select) -> exp.Select:
        """One repartition by unit. A unit's groups are then counted and ranked on the machine of its rows."""
        hinted = query.copy()
        hinted.set("hint", exp.Hint(expressions=[exp.func("repartition", exp.column("u"))]))
        return hinted


def _by_bytes(value: exp.Expr) -> exp.Expr:
    return exp.Collate(this=value, expression=exp.var("UTF8_BINARY"))


def _wide(value: exp.Expr) -> exp.Expr:
    return exp.cast(value.copy(), "DECIMAL(38, 0)", dialect="spark")


class SparkEngine:
    """Runs a stage on the cluster of the source's DataFrame."""

    def aggregate(self, stage: Stage, *, salt: int) -> Aggregates:
        """Answer a stage exactly and collect the result, which must fit in this process.

        Args:
            stage: The stage.
            salt: The salt of the hash that chooses a unit's groups.

        Returns:
            The groups and their exact whole numbers.
        """
        with stage_frame(stage, salt) as frame:
            answer: pa.Table = frame.toArrow()
        return gathered(stage, answer)

    def write(
        self, stage: Stage, splits: Sequence[Stage], *, salt: int, answer: Answer, schema: pa.Schema, place: str
    ) -> None:
        """Write the released rows, as `Distributed.write` does.

        A group's key decides its file and its place in it, so no file reveals rows that it does not hold. The function
        travels as bytes inside the plan, which prints its name alone. Rising numbers keep a group's rows in order until
        they are sorted.
        """
        from pyspark.sql import functions as f
        from pyspark.sql.pandas.types import from_arrow_schema

        def released_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from answer(batches)

        groups = schema.names[: len(stage.group_columns)]
        with contextlib.ExitStack() as undone:
            session = _session_of(stage)
            exact = together(stage, splits, session, lambda one: _frame(one, salt, session, undone))
            released = exact.mapInArrow(released_rows, from_arrow_schema(schema))
            columns = [released["`" + name.replace("`", "``") + "`"] for name in groups]  # whole names, dots included
            numbered = released.withColumn(_ORDER, f.monotonically_increasing_id())
            placed = numbered.repartition(*columns).sortWithinPartitions(
                *(column.asc_nulls_last() for column in columns), _ORDER
            )
            placed.drop(_ORDER).write.mode("errorifexists").parquet(place)

    def put(self, stage: Stage, rows: pa.Table, place: str) -> None:
        """Write one file."""
        session = _session_of(stage)
        session.createDataFrame(rows).coalesce(1).write.mode("errorifexists").parquet(place)

    def shelf(self, stage: Stage) -> "SparkShelf":
        """The cluster's file system."""
        return SparkShelf(_source(stage).frame.sparkSession)


class SparkShelf:
    """A file system of Hadoop's, by the scheme of a place."""

    def __init__(self, session: Any) -> None:
        """Keeps the session."""
        self._session = session

    def exists(self, place: str) -> bool:
        """Whether the folder exists."""
        files, path = self._at(place)
        return bool(files.exists(path))

    def digest(self, place: str) -> str:
        """SHA-256 of the data files' digests, by name. The workers compute those."""
        from pyspark.sql import functions as f

        files = self._session.read.format("binaryFile").option("pathGlobFilter", "*.parquet").load(place)
        lines = files.select(f.element_at(f.split("path", "/"), -1), f.sha2("content", 256)).collect()
        return hashlib.sha256("\n".join(f"{name} {digest}" for name, digest in sorted(lines)).encode()).hexdigest()

    def move(self, place: str, to: str) -> None:
        """Rename a folder. It fails if another folder has taken the name meanwhile."""
        files, path = self._at(place)
        _, target = self._at(to)
        if files.exists(target) or not files.rename(path, target):
            raise OSError(f"cannot rename {place!r} to {to!r}")

    def remove(self, place: str) -> None:
        """Remove the folder, if it exists."""
        files, path = self._at(place)
        files.delete(path, True)

    def _at(self, place: str) -> tuple[Any, Any]:
        context = self._session.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(place)  # noqa: SLF001 - PySpark has no other door to it
        return path.getFileSystem(context._jsc.hadoopConfiguration()), path  # noqa: SLF001


@contextlib.contextmanager
def stage_frame(stage: Stage, salt: int) -> Iterator[Any]:
    """The DataFrame of a stage's statement, for the life of the context. Nothing has run yet.

    Args:
        stage: The stage.
        salt: The salt of the hash that chooses a unit's groups.

    Yields:
        The DataFrame.
    """
    with contextlib.ExitStack() as undone:
        yield _frame(stage, salt, _session_of(stage), undone)


def _frame(stage: Stage, salt: int, session: Any, undone: contextlib.ExitStack) -> Any:
    """The DataFrame of a stage's statement. The salt is a table of one row, so that no text, plan or page of the cluster
    shows it.
    """
    signed = pa.table({"salt": pa.array([(salt ^ _SIGN) - _SIGN], pa.int64())})
    _named(session.createDataFrame(signed), _SALT, undone)
    if stage.keys is not None and stage.group_columns:
        _named(session.createDataFrame(key_table(stage)), KEYS, undone)
    drawn = exp.select("salt").from_(_SALT).subquery()
    query = statement(stage, _places(stage, session, undone), drawn)
    return session.sql(query.sql(dialect="spark"))


def _source(stage: Stage) -> SparkFrame:
    source = stage.table.source
    if not isinstance(source, SparkFrame):
        raise TypeError(f"Spark cannot read a {type(source).__name__}")
    return source


def _session_of(stage: Stage) -> Any:
    return _session(_source(stage).frame.sparkSession)


def _named(frame: Any, name: str, undone: contextlib.ExitStack) -> None:
    frame.createOrReplaceTempView(name)
    undone.callback(frame.sparkSession.catalog.dropTempView, name)


def _places(stage: Stage, session: Any, undone: contextlib.ExitStack) -> list[Place]:
    """The tables in our session. Rows of public tables that are elsewhere are copied to it."""
    places = []
    for source, needed, join, _ in sources_of(stage.table, tuple(column_aliases(stage))):
        name = f"neartwin_{secrets.token_hex(8)}"
        if isinstance(source, SparkFrame):
            source.frame.createGlobalTempView(name)
            undone.callback(session.catalog.dropGlobalTempView, name)
            rows = exp.table_(name, db="global_temp", quoted=True)
        elif join is not None:
            _named(session.createDataFrame(typed_rows(join, needed)), name, undone)
            rows = exp.table_(name, quoted=True)
        places.append(Place(rows, SparkDialect()))
    return places


def _session(theirs: Any) -> Any:
    """A session with the caller's settings, except those that decide an expression's meaning."""
    ours = theirs.newSession()
    for name, value in theirs.conf.getAll.items():
        if name.startswith("spark.sql.") and theirs.conf.isModifiable(name):
            ours.conf.set(name, value)
    for name, value in _SETTINGS.items():
        ours.conf.set(name, value)
    return ours


CELLS = 2**19  # the most cells that a worker holds in memory at a time
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


def together(stage: Stage, splits: Sequence[Stage], session: Any, frame_of: Callable[[Stage], Any]) -> Any:
    """Join the answers of stages about the same groups: one row for every public group, or each group in the stage's
    answer.

    Args:
        stage: The stage.
        splits: Stages about the same groups.
        session: The Spark session.
        frame_of: The DataFrame of a stage's statement.

    Returns:
        A DataFrame with the columns of the stage's statement. For the i-th split it has an array `c{i}` of cells with
            their counts, or NULL.
    """
    from pyspark.sql import functions as f

    names = group_names(stage)
    frame = frame_of(stage) if stage.measures else None
    if stage.keys is not None:
        public = session.createDataFrame(key_table(stage)).select(POSITION)
        frame = public if frame is None else _beside(public, frame, names)
    if frame is None:
        raise TypeError("discovered groups have a measure that they are discovered by")
    for i, split in enumerate(splits):
        cells = f.collect_list(f.struct(CELL, "m0")).alias(f"c{i}")
        frame = _beside(frame, frame_of(split).groupBy(*names).agg(cells), names)
    if splits:
        widest = max(column.high - column.low + 1 for split in splits for column in split.grid.values())
        rows = max(1, CELLS // widest)
        session.conf.set(_BATCH, str(min(rows, int(session.conf.get(_BATCH)))))
    return frame


def _beside(left: Any, right: Any, names: Sequence[str]) -> Any:
    """The rows of the left table, with the right table's values of each group; these may be NULL."""
    from pyspark.sql import functions as f

    other = right.select(
        *(f.col(name).alias(f"of_{name}") for name in names), *(name for name in right.columns if name not in names)
    )
    same = reduce(and_, (left[name].eqNullSafe(other[f"of_{name}"]) for name in names))
    return left.join(other.hint("merge"), same, "left").drop(*(f"of_{name}" for name in names))
