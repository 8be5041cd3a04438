"""Ingestion: files of text and frames become typed columns, once, before any account can be opened on them.

Whoever owns the data reads it here. The reading is the owner's own act. It is no release, and its messages name lines
and reasons to the owner alone. Afterwards no value can make a statement fail.

CSV, JSON lines, SQLite and Excel become a Parquet file in a folder of the owner's. The name of the snapshot is a running
number and a random word. Only a declared refresh advances it. A name that follows the content would tell by "free" or
"charged" whether one person's rows changed. In the owner's own process a file that was written again with equal rows keeps
its name, as an equal frame does.

Each row is read alone by the reader of its format. An odd row is left out, an odd value becomes NULL, and both are
listed. A CSV whose every line is in order is read by DuckDB. A line in order is read the same both ways. A space before
a quote is told, since DuckDB alone understands it.
"""

import contextlib
import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neartwin.errors import SchemaError
from neartwin.interactive import mending
from neartwin.tables.files import files_state, is_remote, quoted
from neartwin.tables.readers import ODD, Block, Odd, Reader, reader_of
from neartwin.tables.types import ColumnType, column_in_sql, has_column, identifier, require_told_apart

FOLDER = ".neartwin"
_SHOWN, _LISTED = 5, 1000
_SQL = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.NUMBER: "DOUBLE",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.TIMESTAMP: "TIMESTAMP",
    ColumnType.TEXT: "VARCHAR",
}
_BROKEN = {  # whether a text loses something in a type; every hour has a colon
    ColumnType.INTEGER: "TRY_CAST({0} AS DOUBLE) <> TRY_CAST({0} AS BIGINT)",
    ColumnType.DATE: "contains({0}, ':') AND TRY_CAST(TRY_CAST({0} AS TIMESTAMPTZ)::TIMESTAMP AS TIME) <> TIME '00:00:00'",
}
_DAYS = frozenset({ColumnType.DATE, ColumnType.TIMESTAMP})
_FIRST, _LAST = -62_135_596_800, 253_402_300_799  # seconds of the years 1 and 9999, from 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Terms on which the owner brings data in.

    Attributes:
        into: The folder of the typed copy; "" for `.neartwin` beside the file, or here if the file is a URL.
        accept_odd: Whether odd lines are left out and odd values become NULL. Else they are refused, and listed.
        refresh: Whether a file that was written since is read again. None refuses it, and False keeps the last copy.
        encoding: The encoding of text; "" for that of the last copy, or UTF-8.
        null: Texts that mean no value; () for those of the last copy.
    """

    into: str = ""
    accept_odd: bool = False
    refresh: bool | None = None
    encoding: str = ""
    null: tuple[str, ...] = ()


NO_TERMS = Terms()
_opened = set[Path]()  # the imports that this process has opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of an ingestion, for the owner alone.

    Attributes:
        copy: The Parquet file.
        snapshot: The name of the snapshot.
        number: Its running number.
        state: The state of the files that were read.
        rows: The number of rows.
        odd: The number of odd lines and values.
        listed: The first of them, with file, line and reason.
        accepted: Whether the owner accepted them.
        encoding: The encoding of text.
        null: Texts that mean no value.
    """

    copy: str
    snapshot: str
    number: int
    state: str
    rows: int
    odd: int
    listed: tuple[str, ...]
    accepted: bool
    encoding: str
    null: tuple[str, ...] = ()


def imported(
    paths: Sequence[str],
    types: Mapping[str, ColumnType],
    terms: Terms,
    table: str = "",
    seen: Callable[[int], None] = lambda _: None,
) -> Imported:
    """The typed copy of files: the last one, or a new one.

    Args:
        paths: The files. Columns are matched by name.
        types: The declared types, by column; others have the file's own types, or are text.
        terms: The owner's terms.
        table: The table of a SQLite file, or the sheet of Excel.
        seen: Called with the number of rows so far, for files that are read row by row.

    Returns:
        The copy and its facts.

    Raises:
        SchemaError: A file cannot be read, or has odd lines or values that nobody accepted. Or it changed since it was read.
    """
    place = _place(paths, table, types, terms)
    journals = [f"{path}-wal" for path in paths if not is_remote(path) and Path(f"{path}-wal").exists()]
    state, known = files_state([*paths, *journals]), _known(place)
    encoding = terms.encoding or (known.encoding if known else "utf-8")
    null = terms.null or (known.null if known else ())
    same = known is not None and (known.state, known.encoding, known.null) == (state, encoding, null)
    why = "had another encoding= or null= when it was" if known and known.state == state else "was written since it was"
    changed = SchemaError(
        f"path={paths[0]!r} {why} read as snapshot {known and known.number}; write refresh=True in nt.table(...), "
        "or use `neartwin import`, to read it again as another snapshot; refresh=False asks the one that was read"
    )
    undeclared = known is not None and not same and terms.refresh is None
    if known and undeclared and (known.state == state or place not in _opened):
        raise changed
    _opened.add(place)
    if known is not None and (same or terms.refresh is False):
        return known
    number, word = (known.number + 1 if known else 1), uuid.uuid4().hex
    copy = place / f"{number}-{word}.parquet"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = pq.read_schema(known.copy).names if known else []
        files = [reader_of(paths[0], table, encoding, names)]
        files += [reader_of(path, table, encoding, files[0].names) for path in paths[1:]]
        rows, odd, listed = _written(files, _columns(files, types), copy, null, seen)
        copy.chmod(0o600)
    except OSError as fault:
        raise SchemaError(f"the typed copy in {str(place)!r} cannot be written: {fault.strerror}; give into=") from None
    if odd and not (terms.accept_odd or (known and known.accepted)):
        copy.unlink()
        raise _refused(odd, listed, Path(paths[0]).name)
    if known and undeclared:  # a cell that writes the file was run again: equal rows keep their number
        equal = pq.read_table(known.copy).equals(pq.read_table(copy))
        copy.unlink()
        if not equal:
            raise changed
        copy, number, word = Path(known.copy), known.number, known.snapshot.rpartition(" ")[2]
    new = Imported(
        copy=str(copy), snapshot=f"{number} of {word}", number=number, state=state, rows=rows, odd=odd,
        listed=tuple(listed), accepted=bool(odd) or bool(known and known.accepted), encoding=encoding, null=null,
    )  # fmt: skip
    beside = place / f"{word}.json"
    beside.write_text(json.dumps(asdict(new)), encoding="utf-8")
    beside.replace(place / "import.json")  # at once: a reader has the old copy or the new one
    for old in place.glob("*.parquet"):
        if old not in {copy, Path(known.copy) if known else copy}:
            old.unlink(missing_ok=True)
    return new


def fitting_types(found: Imported, declared: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """Types that all values of the undeclared columns would fit: a proposal, for the owner to declare or not.

    Args:
        found: The import.
        declared: The declared types, by column.

    Returns:
        The narrowest type of each column that fits another than text.
    """
    kinds = [kind for kind in _SQL if kind is not ColumnType.TEXT]
    columns = [one.name for one in pq.read_schema(found.copy) if one.name not in declared and one.type == pa.string()]
    tests = [
        f"bool_and({identifier(name)} IS NULL OR {_lenient(name, kind)} IS NOT NULL)"
        for name in columns
        for kind in kinds
    ]
    if not tests:
        return {}
    with in_utc(duckdb.connect()) as connection:
        row = connection.execute(f"SELECT {', '.join(tests)} FROM read_parquet({quoted(found.copy)})").fetchone() or ()
    fits = [row[place : place + len(kinds)] for place in range(0, len(row), len(kinds))]
    return {name: kinds[fit.index(True)] for name, fit in zip(columns, fits, strict=True) if True in fit}


def in_utc(connection: Any, scope: str = "SESSION") -> Any:
    """A connection that reads times with a zone in UTC; otherwise their parts would be those of the machine's zone.

    Args:
        connection: The connection.
        scope: 'SESSION' for this cursor, 'GLOBAL' for the instance.

    Returns:
        The connection.
    """
    with contextlib.suppress(duckdb.Error):  # a DuckDB without time zones has no times with a zone
        connection.execute(f"SET {scope} TimeZone = 'UTC'")
    return connection


def _place(paths: Sequence[str], table: str, types: Mapping[str, ColumnType], terms: Terms) -> Path:
    first = Path(paths[0])
    digest = hashlib.sha256(repr((list(paths), table, sorted(types.items()))).encode()).hexdigest()[:16]
    beside = Path(FOLDER) if is_remote(paths[0]) else first.parent / FOLDER
    return (Path(terms.into) if terms.into else beside).absolute() / f"{first.name}-{digest}"


def _known(place: Path) -> Imported | None:
    try:
        body = json.loads((place / "import.json").read_text(encoding="utf-8"))
        found = Imported(**body | {name: tuple(body.get(name, ())) for name in ("listed", "null")})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return found if Path(found.copy).is_file() else None


def _refused(odd: int, listed: Sequence[str], file: str = "") -> SchemaError:
    """The refusal of odd lines and values, with what mends the first of each kind; of a frame without a file."""
    shown = "; ".join(listed[:_SHOWN]) + ("; ..." if odd > _SHOWN else "")
    found = mending("\n".join(listed), column_in_sql, file=file)
    if file and not found:
        found = ["name texts that mean no value: null='NA', or --null NA; or the encoding: encoding='latin-1'"]
    return SchemaError(
        f"{odd:,} {'lines or values are' if odd > 1 else 'line or value is'} odd: {shown}. Mend them, or accept them with "
        "nt.table(..., accept_odd=True) or `neartwin import --accept-odd`: odd lines are then left out, and odd values are NULL."
        + "".join(f" Or {line}." for line in found)
    )


def _columns(files: Sequence[Reader], types: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
    """The type of each column: the declared one, else the file's own, else text."""
    first = files[0]
    columns = {name: types.get(name, first.kinds.get(name, ColumnType.TEXT)) for name in first.names if name}
    for column in types:
        has_column(column, columns, "types")
    for file in files[1:]:
        if different := sorted(set(columns) ^ set(filter(None, file.names))):
            raise SchemaError(f"path={file.path!r}: column {different[0]!r} is in this file or in {first.path!r} alone")
    return columns


def _written(
    files: Sequence[Reader],
    columns: Mapping[str, ColumnType],
    copy: Path,
    null: Sequence[str],
    seen: Callable[[int], None],
) -> tuple[int, int, list[str]]:
    """Write the copy. The number of rows, the number of odd rows and values, and the first of these in words."""
    if all(file.delimiter for file in files):
        with contextlib.suppress(duckdb.Error), in_utc(duckdb.connect()) as connection:
            connection.execute("SET enable_progress_bar = false")
            return connection.execute(_copy(files, columns, copy, null)).fetchall()[0][0], 0, []
    with in_utc(duckdb.connect()) as connection:
        return _by_blocks(connection, files, columns, copy, null, seen=seen)


def _copy(files: Sequence[Reader], columns: Mapping[str, ColumnType], copy: Path, null: Sequence[str]) -> str:
    """The statement that copies files in which every line is in order; it fails on any other."""
    casts = ", ".join(
        f"coalesce({_lenient(name, kind)}, CASE WHEN {identifier(name)} IS NOT NULL THEN error('odd') END) AS {identifier(name)}"
        for name, kind in columns.items()
    )
    nothing = ", ".join(map(quoted, ("", *null)))
    parts = []
    for file in files:
        unnamed = max(file.names, key=len) + "_"
        kinds = ", ".join(f"{quoted(name or unnamed)}: 'VARCHAR'" for name in file.names)
        options = f"auto_detect = false, header = true, delim = {quoted(file.delimiter)}, quote = '\"', escape = '\"'"
        options = f"{options}, nullstr = [{nothing}]"
        rows = f"read_csv({quoted(file.path)}, columns = {{{kinds}}}, {options}, strict_mode = true)"
        parts.append(f"SELECT {casts} FROM {rows}")
    return f"COPY ({' UNION ALL '.join(parts)}) TO {quoted(str(copy))} (FORMAT parquet)"


def _lenient(name: str, kind: ColumnType) -> str:
    """A text as a type, NULL where it does not fit. DuckDB rounds 12.5 to an integer, drops the hour of a date, and takes a
    space before a quote away; here these fit no type. Times with an offset are those of UTC.
    """
    column = identifier(name)
    if kind is ColumnType.TEXT:
        return f"CASE WHEN NOT ({column} LIKE ' %' AND ltrim({column}, ' ') LIKE '\"%') THEN {column} END"
    text = f"TRY_CAST({column} AS TIMESTAMPTZ)" if kind is ColumnType.TIMESTAMP else column  # else an offset is dropped
    value = f"TRY_CAST({text} AS {_SQL[kind]})"
    if kind in _BROKEN:
        value = f"CASE WHEN {_BROKEN[kind].format(column)} THEN NULL ELSE {value} END"
    if kind in _DAYS:
        first, last = (f"{_SQL[kind]} '{year}-01-01'" for year in ("0001", "10000"))
        value = f"CASE WHEN {value} >= {first} AND {value} < {last} THEN {value} END"
    return value


def _by_blocks(
    connection: Any,
    files: Sequence[Reader],
    columns: Mapping[str, ColumnType],
    copy: Path,
    null: Sequence[str],
    *,
    seen: Callable[[int], None],
) -> tuple[int, int, list[str]]:
    rows, odd, listed, missing = 0, 0, list[str](), pa.array(null, pa.string())
    casts = ", ".join(f"{_lenient(name, kind)} AS {identifier(name)}" for name, kind in columns.items())
    nothing = pa.table(dict.fromkeys(columns, pa.array([], pa.string())))
    schema = connection.from_arrow(nothing).project(casts).to_arrow_table().schema
    texts_alone = [name for name, kind in columns.items() if kind is ColumnType.TEXT]
    with pq.ParquetWriter(copy, schema, use_dictionary=texts_alone) as writer:
        for file in files:
            name = Path(file.path).name
            for numbers, in_order, others in _to_the_end(file):
                faults = [(line, why) for line, found, why in others if found is None]
                kept = [(line, found) for line, found, _ in others if found is not None]
                at = np.append(numbers, np.array([line for line, _ in kept], np.int64))
                order, texts = np.argsort(at, kind="stable"), {}
                for column in columns:
                    place = file.names.index(column)
                    array, wrong = texts_of([found[place] for _, found in kept])
                    array = pa.chunked_array([*in_order[place], array])
                    array = array.take(order) if kept else array
                    texts[column] = pc.if_else(pc.is_in(array, missing), None, array) if null else array
                    faults += [(kept[i][0], f"{column!r} {why}") for i, why in wrong]
                given, at = pa.table(texts), at[order]
                typed = connection.from_arrow(given).project(casts).to_arrow_table()
                for column, kind in columns.items():
                    faults += [(at[i], f"{column!r} {why}") for i, why in _lost(given[column], typed[column], kind)]
                writer.write_table(typed)
                rows, odd = rows + len(at), odd + len(faults)
                listed += [f"{name}, {file.row} {line}: {why}" for line, why in sorted(faults)[: _LISTED - len(listed)]]
                seen(rows)
    return rows, odd, listed


def _to_the_end(file: Reader) -> Iterator[Block]:
    try:
        yield from file.blocks()
    except Exception as fault:  # noqa: BLE001 - of any library that unpacks or parses
        raise SchemaError(f"path={file.path!r} is damaged, and cannot be read to its end: {fault}") from None


def texts_of(values: Sequence[object]) -> tuple[pa.Array, list[tuple[int, str]]]:
    """Python values as texts, each on its own.

    Args:
        values: Any values; None and NaN are NULL.

    Returns:
        The texts, and the place and fault of each value that has none; it is NULL.
    """
    found = list(map(_text, values))
    odd = [(place, text.why) for place, text in enumerate(found) if isinstance(text, Odd)]
    return pa.array([None if isinstance(text, Odd) else text for text in found], pa.string()), odd


def _text(value: object) -> str | Odd | None:
    if value is None or isinstance(value, Odd) or type(value).__name__ == "NAType":
        return value if isinstance(value, Odd) else None
    with contextlib.suppress(Exception):  # of any kind, since the value is of any type
        if bool(value != value):  # noqa: PLR0124 - NaN
            return None
    try:
        text = str(value)
        text.encode()
    except UnicodeError:
        return Odd("is no valid Unicode")
    except Exception:  # noqa: BLE001 - as above
        return Odd(f"is a {type(value).__name__} without a text")
    return text


_labels: dict[bytes, str] = {}  # of this process: the same frame opened again is the same snapshot


def framed(data: Any, types: Mapping[str, ColumnType], terms: Terms) -> tuple[pa.Table, str, tuple[str, ...]]:
    """A frame as an Arrow table in which every value can be read, the name of its snapshot, and odd values.

    Equal data have one name in this process.

    Args:
        data: A pandas, Polars or Arrow table, or a lazy Polars table.
        types: The declared types, by column.
        terms: The owner's terms.

    Returns:
        The table, the name of the snapshot, and the first odd values that were accepted.

    Raises:
        SchemaError: A column cannot be held, or odd values were not accepted.
    """
    data = data.collect() if hasattr(data, "collect") else data
    names = list(map(str, data.schema.names if isinstance(data, pa.Table) else data.columns))
    require_told_apart(names, "the table" if isinstance(data, pa.Table) else "the frame")
    arrays, odd, listed = [], 0, list[str]()
    for place, name in enumerate(names):
        try:
            array, wrong = _column(data, place)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as fault:
            raise SchemaError(f"column {name!r} cannot be held: {fault}; convert it, or leave it out") from None
        if name in types and (pa.types.is_nested(array.type) or pa.types.is_duration(array.type)):  # a value could fail
            raise SchemaError(
                f"column {name!r} of {array.type} is not read as {types[name]}; convert it, or leave it out"
            )
        if types.get(name, ColumnType.TEXT) is not ColumnType.TEXT and _is_text(array.type):
            with in_utc(duckdb.connect()) as connection:  # questions read what is no value of the declared type as NULL
                typed = connection.from_arrow(pa.table({name: array})).project(_lenient(name, types[name]))
                wrong = [*wrong, *_lost(array, typed.to_arrow_table().column(0), types[name])]
        arrays.append(array)
        odd += len(wrong)
        listed += [f"row {row}: {name!r} {why}" for row, why in wrong[: _LISTED - len(listed)]]
    if odd and not terms.accept_odd:
        raise _refused(odd, listed)
    table = pa.Table.from_arrays(arrays, names=names)
    digest = hashlib.blake2b(repr(table.schema).encode())
    for batch in table.to_batches():
        digest.update(batch.serialize())
    return table, _labels.setdefault(digest.digest(), uuid.uuid4().hex), tuple(listed)


def _lost(texts: Any, typed: Any, kind: ColumnType) -> list[tuple[int, str]]:
    if texts.null_count == typed.null_count:  # as NULL stays NULL
        return []
    lost = pc.and_(pc.is_valid(texts), pc.is_null(typed))
    shown = zip(pc.indices_nonzero(lost).to_pylist(), texts.filter(lost).to_pylist(), strict=True)
    return [(place, f"is {text if len(text) <= 30 else text[:27] + '...'!r}, and no {kind}") for place, text in shown]


def _column(data: Any, place: int) -> tuple[Any, list[tuple[int, str]]]:
    """A column in Arrow, with the place and fault of each odd value. Objects and categories become texts."""
    if isinstance(data, pa.Table):
        return _readable(data.column(place))
    if hasattr(data, "iloc"):
        values = data.iloc[:, place]
        if values.dtype == object:
            return texts_of(list(values))
        if values.dtype.name == "category":
            texts, odd = texts_of(list(values.cat.categories))
            codes = values.cat.codes.to_numpy()
            return texts.take(pa.array(codes, mask=codes < 0)), odd
        return _readable(pa.Array.from_pandas(values))
    values = data.to_series(place)
    kind = str(values.dtype)
    if kind == "Object":
        return texts_of(values.to_list())
    if "Int128" in kind:
        raise TypeError(f"{kind} has no type in Arrow")
    return _readable(values.to_arrow())


def _readable(array: Any) -> tuple[Any, list[tuple[int, str]]]:
    """An array that DuckDB reads whatever its values: valid text, times of the years 1 to 9999, no half precision."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _readable(array.cast(kind.storage_type))
    if pa.types.is_dictionary(kind):
        array = array.cast(kind.value_type)
        kind = array.type
        if not _is_text(kind):
            array = array.cast(pa.string())
    elif pa.types.is_float16(kind):
        return array.cast(pa.float32()), []
    elif pa.types.is_decimal(kind) and (kind.bit_width > 128 or kind.scale < 0):
        return array.cast(pa.string()), []  # a double would merge ids above 2^53
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _timed(array)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        if not _is_text(array.type):
            raise
        return texts_of([raw and raw.decode(errors=ODD) for raw in array.cast(pa.large_binary()).to_pylist()])
    return array, []


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _timed(array: Any) -> tuple[Any, list[tuple[int, str]]]:
    """Times in microseconds, or days."""
    wanted: Any = pa.date32()
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("ms"))
    else:
        wanted = pa.timestamp("us", array.type.tz)
    unit = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
    if unit == 10**9:  # 64 bits end in the year 2262
        return array.cast(wanted, safe=False), []
    whole = array.cast(pa.int64())
    inside = pc.and_(pc.greater_equal(whole, _FIRST * unit), pc.less(whole, (_LAST + 1) * unit))
    array = pc.if_else(inside, array, pa.scalar(None, array.type)).cast(wanted, safe=False)
    return array, [
        (place, "is a time outside the years 1 to 9999") for place in pc.indices_nonzero(pc.invert(inside)).to_pylist()
    ]
