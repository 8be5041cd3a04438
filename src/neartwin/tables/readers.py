"""Readers of files: each kind becomes rows of values in order, with a fault beside a row that cannot be read.

A reader judges nothing but its own format: CSV, JSON lines, a table of a SQLite file, a sheet of Excel. Whether a value
fits its column's type is the ingestion's to say. Names of columns come from a header, a catalogue, or the first lines.

CSV is read in blocks: Arrow reads the lines in order, and Python's own reader each other record alone. A line in order has
a value for each column, and its quotes open after a separator and close before one. At the start of a record such a line
is a record, and all readers of CSV agree on it. Every other line starts a record of Python's, which may go on over the next
lines. After a fault reading goes on with the next line. So a quote that is never closed takes no other line with it.
"""

import codecs
import csv
import gzip
import io
import json
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from neartwin.checks import needed
from neartwin.errors import ParameterError, SchemaError
from neartwin.tables.files import binary, is_remote
from neartwin.tables.types import SURROGATE, ColumnType, column_type, identifier, require_told_apart

_ENDINGS = {
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    "json": (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz"),
    "excel": (".xlsx", ".xlsm"),
    "sqlite": (".sqlite", ".sqlite3", ".db"),
}
_SQLITE = b"SQLite format 3\0"
_DELIMITERS = ",;\t|"
_RARE = ",^~:\x01\x1f"
_BATCH = 50_000  # rows
_LOOKED_AT = 1000  # lines whose keys name columns
_LETTERS = 2**22  # of a block, which a cache of the processor holds
_QUOTE, _LF, _CR, _SURROGATE = b'"\n\r\xed'
Row = tuple[int, list[Any] | None, str]  # its number; its values, or None and the fault
Block = tuple[Any, Sequence[Sequence[pa.Array]], list[Row]]  # numbers of rows, their columns of text, and other rows
ODD = "neartwin.odd"
codecs.register_error(ODD, lambda fault: ("\udcff", getattr(fault, "end", 0)))  # no valid Unicode, so it is odd


def format_of(path: str) -> str:
    """The kind of a file that is read once: "csv", "json", "excel" or "sqlite"; "" for any other.

    >>> format_of("visits.csv.gz"), format_of("visits.jsonl"), format_of("visits.parquet")
    ('csv', 'json', '')
    """
    found = next((kind for kind, endings in _ENDINGS.items() if path.lower().endswith(endings)), "")
    if is_remote(path) or not path.lower().endswith(".db"):
        return found
    with Path(path).open("rb") as file:
        return found if file.read(len(_SQLITE)) == _SQLITE else ""


@dataclass(frozen=True, slots=True)
class Odd:
    """A value that no column holds, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Reader:
    """A file in which each row has one value a column.

    Attributes:
        path: The file.
        names: The columns in order, "" for one without a name.
        blocks: Yields the rows in blocks.
        row: The word for a row.
        kinds: The types that the file itself declares.
        delimiter: The separator of a CSV that DuckDB may read; "" for other files.
    """

    path: str
    names: tuple[str, ...]
    blocks: Callable[[], Iterator[Block]]
    row: str = "line"
    kinds: Mapping[str, ColumnType] = field(default_factory=dict)
    delimiter: str = ""


def reader_of(path: str, table: str, encoding: str, names: Sequence[str]) -> Reader:
    """The reader of a file.

    Args:
        path: The file.
        table: The table of a SQLite file, or the sheet of Excel.
        encoding: The encoding of text.
        names: Columns that are known already; of JSON lines these are all columns.

    Returns:
        The reader.

    Raises:
        SchemaError: The file cannot be read, or names no such table.
        ParameterError: The encoding is unknown.
    """
    try:
        codec = codecs.lookup(encoding).name
    except LookupError:
        raise ParameterError("encoding", encoding, "must be an encoding of Python", remedy="'latin-1'") from None
    kind = format_of(path) or "csv"
    read: Mapping[str, Callable[[], Reader]] = {
        "csv": partial(_csv, path, codec),
        "json": partial(_json, path, codec, names),
        "sqlite": partial(_sqlite, path, table),
        "excel": partial(_excel, path, table),
    }
    try:
        found = read[kind]()
    except SchemaError:
        raise
    except Exception as fault:  # noqa: BLE001 - of any library that unpacks or parses
        raise SchemaError(f"path={path!r} cannot be read as a file of {kind}: {fault}") from None
    twice = [name for place, name in enumerate(found.names) if name in found.names[:place]]
    if twice or not any(found.names):
        file, why = Path(path).name, f"has {twice[0]!r} twice" if twice else "has none"
        line = f"read_excel({file!r})" if kind == "excel" else f"read_csv({file!r}, sep={found.delimiter or None!r})"
        raise SchemaError(
            f"path={path!r} must begin with a header line of distinct column names, and {why}; write pandas.{line}, with "
            "header=None if there is no header"
        )
    require_told_apart([name for name in found.names if name], f"path={path!r}")
    return found


def _in_blocks(rows: Callable[[], Iterator[Row]], wanted: int) -> Iterator[Block]:
    waiting = rows()
    while batch := list(islice(waiting, _BATCH)):
        yield np.zeros(0, np.int64), [()] * wanted, batch


@contextmanager
def _text(path: str, codec: str, end: str) -> Iterator[io.TextIOWrapper]:
    """Text whose lines end in `end`, or in any line end if it is empty. What cannot be decoded is no valid Unicode."""
    decoded = "utf-8-sig" if codec == "utf-8" else codec
    with (
        binary(path) as raw,
        gzip.open(raw) if path.lower().endswith(".gz") else raw as file,
        io.TextIOWrapper(file, encoding=decoded, errors=ODD, newline=end) as text,
    ):
        yield text


def _csv(path: str, codec: str) -> Reader:
    with _text(path, codec, "") as lines:
        try:
            header = ""
            for line in lines:
                header += line
                if header.count('"') % 2 == 0:
                    break
            header.encode()
            delimiter = _delimiter(path, header)
            names = tuple(next(csv.reader([header.rstrip("\r\n")], strict=True, delimiter=delimiter), ()))
        except (OSError, EOFError, UnicodeError, csv.Error):
            likely = "utf-16" if "\0" in header else "latin-1"
            raise SchemaError(
                f"path={path!r} is not a CSV file that can be read as {codec.upper()}; write it as UTF-8, or name its "
                f"encoding: nt.table(..., encoding={likely!r})"
            ) from None
    found = partial(_csv_blocks, path, codec, delimiter, len(names))
    return Reader(path, names, found, delimiter="" if is_remote(path) or codec != "utf-8" else delimiter)


def _csv_blocks(path: str, codec: str, delimiter: str, wanted: int) -> Iterator[Block]:
    with _text(path, codec, "") as text:
        yield from blocks(text, delimiter, wanted)


def _delimiter(path: str, header: str) -> str:
    """The separator that a header has most often outside its quotes; a tab in a .tsv, and a rare one where no usual one is."""
    bare = "".join(header.split('"')[::2])
    usual = "\t" if "\t" in bare and path.lower().endswith((".tsv", ".tsv.gz")) else _DELIMITERS
    return max(usual if set(usual) & set(bare) else _RARE, key=bare.count)


def _json(path: str, codec: str, names: Sequence[str]) -> Reader:
    """Without known names, the columns are the keys of the first lines. Later lines cannot add one."""
    known = {name.lower(): name for name in names}
    with closing(_objects(path, codec)) as lines:
        for _, found in islice([] if names else lines, _LOOKED_AT):
            for key in [] if isinstance(found, str) else found:
                if key and not SURROGATE.search(key):
                    known.setdefault(key.lower(), key)
    if not known:
        raise SchemaError(
            f"path={path!r} must hold one JSON object a line; of a list write pandas.read_json({Path(path).name!r})"
        )
    columns = tuple(known.values())
    return Reader(path, columns, partial(_in_blocks, partial(_json_rows, path, codec, columns), len(columns)))


def _json_rows(path: str, codec: str, names: tuple[str, ...]) -> Iterator[Row]:
    """Yield each line that is not empty. A key that it lacks is NULL; one that is no column is odd."""
    known = set(names)
    for number, found in _objects(path, codec):
        if isinstance(found, str):
            yield number, None, found
        elif other := next((name for name in found if name not in known), None):
            yield number, None, f"has the key {other!r}, which is no column"
        else:
            yield number, [_plain(found.get(name)) for name in names], ""


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return Odd("is nested") if isinstance(value, list | dict) else value


def _objects(path: str, codec: str) -> Generator[tuple[int, dict[str, object] | str]]:
    """Yield the number of each line with its object, or with its fault. Numbers are texts as they were written."""
    with _text(path, codec, "\n") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            found: Any = None
            fault = "is no JSON object"
            try:
                found = json.loads(line, parse_float=str, parse_int=str, object_pairs_hook=_once)
            except (ValueError, RecursionError) as error:
                fault = f"{fault}: {error}"
            yield number, found if isinstance(found, dict) else fault


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _sqlite(path: str, table: str) -> Reader:
    """SQLite gives each value a type of its own. Columns that are declared as blobs are left out."""
    tables = dict(_queried(path, "SELECT name, '' FROM sqlite_master WHERE type IN ('table', 'view')"))
    found = list(_queried(path, "SELECT name, type FROM pragma_table_xinfo(?) WHERE hidden <> 1", table))
    if table not in tables or not found:
        raise SchemaError(
            f"table={table!r} must name a table or view of {path!r}; it has {', '.join(map(repr, tables))}"
            + "".join(f"; write table={one!r}" for one in list(tables)[:1])
        )
    declared = {name: column_type(kind) for name, kind in found if "BLOB" not in kind.upper()}
    kinds = {name: ColumnType.TEXT if kind is ColumnType.OTHER else kind for name, kind in declared.items()}
    rows = partial(_sqlite_rows, path, table, tuple(kinds))
    return Reader(path, tuple(kinds), partial(_in_blocks, rows, len(kinds)), "row", kinds)


def _queried(path: str, text: str, *values: str) -> Iterator[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{Path(path).as_uri()}?mode=ro", uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode(errors=ODD)
        yield from connection.execute(text, values)


def _sqlite_rows(path: str, table: str, names: tuple[str, ...]) -> Iterator[Row]:
    columns, name = ", ".join(map(identifier, names)), identifier(table)
    for number, row in enumerate(_queried(path, f"SELECT {columns} FROM {name}"), 1):
        yield number, [Odd("is a blob") if isinstance(value, bytes) else value for value in row], ""


def _excel(path: str, sheet: str) -> Reader:
    """A sheet of a workbook, whose first row is the header. A formula counts as its stored result."""
    with closing(_workbook(path)) as book:
        sheets = [page.title for page in book.worksheets]
    chosen = sheets[0] if not sheet and len(sheets) == 1 else sheet
    if chosen not in sheets:
        raise SchemaError(
            f"table={sheet!r} must name a sheet of {path!r}, which has {', '.join(map(repr, sheets))}; write table={sheets[0]!r}"
        )
    names = ["" if value is None else str(value) for value in next(_cells(path, chosen), (0, []))[1]]
    while names and not names[-1]:
        names.pop()
    rows = partial(_excel_rows, path, chosen, len(names))
    return Reader(path, tuple(names), partial(_in_blocks, rows, len(names)), "row")


def _workbook(path: str) -> Any:
    (openpyxl,) = needed("excel", "openpyxl")
    with binary(path) as file:
        return openpyxl.load_workbook(io.BytesIO(file.read()), read_only=True, data_only=True)


def _cells(path: str, sheet: str) -> Iterator[tuple[int, list[object]]]:
    with closing(_workbook(path)) as book:
        page = book[sheet]
        page.reset_dimensions()  # which some programs write wrongly
        for number, row in enumerate(page.iter_rows(), 1):
            yield number, [Odd(f"is the error {cell.value}") if cell.data_type == "e" else cell.value for cell in row]


def _excel_rows(path: str, sheet: str, wanted: int) -> Iterator[Row]:
    """Yield each row after the header. Empty rows are left out."""
    for number, row in islice(_cells(path, sheet), 1, None):
        filled = max((place for place, value in enumerate(row, 1) if value is not None), default=0)
        if filled > wanted:
            yield number, None, f"has {filled} values, and the header {wanted}"
        elif filled:
            yield number, [*row[:wanted], *[None] * (wanted - len(row))], ""


def blocks(text: TextIO, delimiter: str, wanted: int) -> Iterator[Block]:
    """Yield the records after the header. Empty lines are left out, and an empty text is NULL.

    Args:
        text: The text with its own line ends. Bytes of no character are surrogates.
        delimiter: The separator.
        wanted: The number of columns.

    Yields:
        The lines in order with their numbers, and all other records of a block.
    """
    content, passed = b"", 0
    while (more := text.read(_LETTERS)) or content:
        content += more.encode("utf-8", "surrogatepass")
        starts, blank, odd = _lines(content, delimiter, wanted, last=not more)
        runs, numbers, others = [b""], [np.zeros(0, np.int64)], list[Row]()
        line, end = 0, len(blank)
        while line < end:
            until = odd[np.searchsorted(odd, line)] if passed + line else line
            numbers.append(passed + line + 1 + np.flatnonzero(~blank[line:until]))
            runs.append(content[starts[line] : starts[until]])
            line = int(until)
            if until < end:
                taken, values, fault = _alone(content, starts[until:], delimiter, wanted)
                if more and not taken:  # it goes on in the next block
                    break
                if passed + line:  # no header
                    others.append((passed + line + 1, values, fault))
                line += taken or 1
        at = np.concatenate(numbers)
        yield at, _columns(b"\n".join(runs), delimiter, wanted) if at.size else [()] * wanted, others
        content, passed = content[starts[line] :], passed + line


def _lines(content: bytes, delimiter: str, wanted: int, *, last: bool) -> tuple[Any, Any, Any]:
    """The byte of each line's start and of the end, whether it is empty, and the lines that are not in order."""
    letters = np.frombuffer(content, np.uint8)
    at_end, returns = letters == _LF, np.flatnonzero(letters == _CR)
    alone = (letters.take(returns + 1, mode="clip") != _LF) & (last | (returns + 1 < len(letters)))  # no \r\n so far
    at_end[returns[alone]] = True
    at_end[-1] |= last
    starts = np.append(0, np.flatnonzero(at_end) + 1)
    blank = np.isin(letters.take(starts[:-1]), (_LF, _CR))
    quotes, separators = np.flatnonzero(letters == _QUOTE), np.flatnonzero(letters == ord(delimiter))
    before, surrogates = np.searchsorted(quotes, starts), np.flatnonzero(letters == _SURROGATE)
    of_quotes, of_surrogates = (np.searchsorted(starts, places, side="right") - 1 for places in (quotes, surrogates))
    if quotes.size:
        of_separators = np.searchsorted(starts, separators, side="right") - 1
        separators = separators[(np.searchsorted(quotes, separators) - before[of_separators]) % 2 == 0]
    odd = np.append(np.diff(np.searchsorted(separators, starts)) != wanted - 1, False)
    odd[:-1] = odd[:-1] & ~blank if wanted > 1 else odd[:-1] | blank
    odd[:-1] |= np.diff(before) % 2 == 1
    opening = (np.arange(len(quotes)) - before[of_quotes]) % 2 == 0
    beside = np.isin(range(256), (ord(delimiter), _LF, _CR, _QUOTE))
    odd[of_quotes[~beside[letters.take(np.where(opening, quotes - 1, quotes + 1), mode="clip")]]] = True
    odd[of_surrogates[letters.take(surrogates + 1, mode="clip") >= 0xA0]] = True
    return starts, blank, np.append(np.flatnonzero(odd[:-1]), len(blank))


def _alone(content: bytes, starts: Any, delimiter: str, wanted: int) -> tuple[int, list[Any] | None, str]:
    """The first record: its number of lines, or 0 for one that does not end here; its values, or None and the fault."""
    lines = (content[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(starts))
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    try:
        row = next(reader) or [""]
    except csv.Error as error:
        return int("unexpected end" not in str(error)), None, f"cannot be read: {error}"
    if len(row) == wanted + 1 and not row[-1]:
        row.pop()
    if len(row) != wanted:
        return reader.line_num, None, f"has {len(row)} values, and the header {wanted}"
    return reader.line_num, [value or None for value in row], ""


def _columns(content: bytes, delimiter: str, wanted: int) -> list[Sequence[pa.Array]]:
    """Columns of lines in order. An empty line goes before, since Arrow takes a byte order mark from the first bytes away."""
    names = list(map(str, range(wanted)))
    table = pa_csv.read_csv(
        pa.BufferReader(content),
        pa_csv.ReadOptions(column_names=names, block_size=len(content) + 1),
        pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in content),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
        ),
    )
    return [column.chunks for column in table.columns]
