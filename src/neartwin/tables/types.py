"""The types of columns, their names in other systems, and public group keys.

A type is schema. A file's metadata, a database or the caller declares it; it is never inferred from rows. Types that
the query language does not need (lists, blobs, times of day, intervals) are OTHER, and can only be carried along.
"""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import product
from math import floor, isnan
from operator import itemgetter
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from neartwin.errors import QueryError, SchemaError
from neartwin.interactive import suggested


class ColumnType(StrEnum):
    """The type of a column's values; the value is the word used in declarations: `types={"amount": "number"}`."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    OTHER = "other"


NUMERIC = frozenset({ColumnType.INTEGER, ColumnType.NUMBER})
GROUPABLE = frozenset({ColumnType.INTEGER, ColumnType.TEXT, ColumnType.BOOLEAN, ColumnType.DATE})
UNHELD = "no bar holds what that changes."  # how notes end that belong into the headline
IDENTIFYING = frozenset({ColumnType.INTEGER, ColumnType.TEXT})

# the first word that a type's name starts with, in the dialects of DuckDB, PostgreSQL, Spark, Arrow, pandas and Polars
_PREFIXES = {
    "interval decimal256": ColumnType.OTHER,
    "int uint bigint ubigint hugeint smallint usmallint tinyint utinyint uinteger": ColumnType.INTEGER,
    "float double real decimal numeric halffloat": ColumnType.NUMBER,
    "varchar string large_string utf8 text char enum uuid dictionary str categor bpchar large_utf8": ColumnType.TEXT,
    "bool": ColumnType.BOOLEAN,
    "timestamp datetime": ColumnType.TIMESTAMP,
    "date": ColumnType.DATE,
}


def has_column(column: str, schema: Mapping[str, ColumnType], asked_by: str) -> ColumnType:
    """The type of a column.

    Args:
        column: The column.
        schema: The types, by column.
        asked_by: The part of a question that names it, for the error.

    Returns:
        The type.

    Raises:
        SchemaError: There is no such column.
    """
    if column not in schema:
        remedy = f"; write {near}" if (near := suggested(str(column), schema)) else ""
        raise SchemaError(
            f"{asked_by}: column {column!r} is not in the table; it has {', '.join(map(repr, schema))}{remedy}"
        )
    return schema[column]


def any_column(schema: Mapping[str, ColumnType], names: Iterable[str]) -> str:
    """A column that stands for rows of which none is needed: the first by name that every engine reads.

    Args:
        schema: The types, by column.
        names: The columns to choose from, one at least.

    Returns:
        The column.
    """
    return min(names, key=lambda name: (schema[name] is ColumnType.OTHER, name))


def number_column(column: str, schema: Mapping[str, ColumnType], asked_by: str) -> ColumnType:
    """The type of a column of numbers.

    Args:
        column: The column.
        schema: The types, by column.
        asked_by: The part of a question that names it, for the error.

    Returns:
        The type.

    Raises:
        SchemaError: The column is missing, or is no number.
    """
    kind = has_column(column, schema, asked_by)
    if kind not in NUMERIC:
        line = f"write types={{{column!r}: 'number'}}, or --types {quote(f'{column}=number')}, if it holds numbers"
        if kind in {ColumnType.DATE, ColumnType.TIMESTAMP}:
            line = f"write clip(date_diff('day', DATE '2020-01-01', CAST({column} AS DATE)), 0, 3650), in days"
            if asked_by == "columns":
                line = f"days need no bounds: leave it out, and write nt.median({column!r}), or MEDIAN({column})"
        raise SchemaError(f"{asked_by}: {column!r} is {kind}, but must be a number; {line}")
    return kind


def column_type(name: str) -> ColumnType:
    """The type behind another system's name of it.

    Args:
        name: The name of the type in DuckDB, PostgreSQL, Spark, Arrow, pandas or Polars.

    Returns:
        The type.

    >>> column_type("DECIMAL(18,2)"), column_type("VARCHAR"), column_type("int64"), column_type("STRUCT(a INTEGER)")
    (<ColumnType.NUMBER: 'number'>, <ColumnType.TEXT: 'text'>, <ColumnType.INTEGER: 'integer'>, <ColumnType.OTHER: 'other'>)
    """
    word = name.strip().lower()
    if word.endswith("[]") or word.startswith(("list", "struct", "map", "union", "strict", "time[")):
        return ColumnType.OTHER
    found = (kind for prefixes, kind in _PREFIXES.items() if word.startswith(tuple(prefixes.split())))
    return next(found, ColumnType.OTHER)


def with_ends(*names: str) -> set[str]:
    """The names of statistics, and those of the ends of their bars in frames and files."""
    return {name + end for name in names for end in ("", "_lower", "_upper")}


def identifier(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def column_in_sql(name: str) -> str:
    """A column as a question writes it: in quotes only if it is no plain word.

    >>> column_in_sql("paid"), column_in_sql("Kosten (EUR)")
    ('paid', '"Kosten (EUR)"')
    """
    return name if name.isidentifier() else identifier(name)


def require_told_apart(names: Sequence[str], where: str) -> None:
    """Refuse column names that are empty, or equal to DuckDB, which ignores the case of ASCII letters.

    DuckDB would read one of the two columns for both: one person's id for another's.

    Args:
        names: The names.
        where: The place of the table, for the error.

    Raises:
        SchemaError: A name is empty, or two names are equal.
    """
    known: dict[bytes, str] = {}
    for name in names:
        if not name:
            raise SchemaError(f"{where} has a column without a name; name it, or leave it out")
        key = name.encode("utf-8", "surrogatepass").lower()
        if key in known:
            raise SchemaError(
                f"{where} has columns {known[key]!r} and {name!r}, which are one name to DuckDB; rename one"
            )
        known[key] = name


Key = tuple[object, ...]


def days_of(day: object) -> int:
    """The days since 1970-01-01 of a date, or of its text.

    Args:
        day: The date, or its ISO text.

    Returns:
        The number.

    Raises:
        QueryError: There is no such day.
    """
    try:
        return (date.fromisoformat(str(day)) - date(1970, 1, 1)).days
    except ValueError:
        raise QueryError(f"{day} is no day; write '2024-01-31'") from None


def of_code(kind: ColumnType, code: float) -> float | str | date:
    """The date or text behind its number in statistics of order; a number is its own.

    Args:
        kind: The type of the value.
        code: Days since 1970-01-01; or 129 times the code of the first letter and that of the second, 0 for none.

    Returns:
        The value. A letter outside ASCII is written as a question mark in a box.

    >>> of_code(ColumnType.DATE, 19754.0), of_code(ColumnType.TEXT, 129 * ord("U") + ord("l"))
    (datetime.date(2024, 2, 1), 'Ul')
    """
    if kind is ColumnType.DATE:
        return date(1970, 1, 1) + timedelta(days=floor(code))
    if kind is ColumnType.TEXT:
        return "".join(chr(one) if one < 128 else "\ufffd" for one in divmod(floor(code), 129) if one)
    return code


_PYTHON = {  # the type of a key, and one as a caller writes it
    ColumnType.INTEGER: (int, "1"),
    ColumnType.TEXT: (str, "'Ulm'"),
    ColumnType.BOOLEAN: (bool, "True"),
    ColumnType.DATE: (date, "'2024-01-31'"),
}


_json = json.JSONEncoder(sort_keys=True, default=lambda day: {"date": day.isoformat()}).encode  # dumps makes one a call


class PublicKeys(tuple[Key, ...]):  # noqa: SLOT001 - it remembers its text
    """Public keys. Their text is in the digest of a question and in the document of its release, and is written once."""

    @cached_property
    def text(self) -> str:
        """The keys as JSON."""
        return _json(self)


class ArrowKeys(Sequence[Key]):
    """Keys that stay in Arrow until they are used. Most of millions of groups are not released."""

    def __init__(self, columns: Iterable[pa.ChunkedArray]) -> None:
        """columns: the group columns, of one length."""
        self.columns: list[pa.Array] = [column.combine_chunks() for column in columns]

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, place: Any) -> Any:
        """A key, or those of a slice."""
        if isinstance(place, slice):
            return keys_of(column[place] for column in self.columns)
        return keys_of(column.take([place]) for column in self.columns)[0]


def keys_of(columns: Iterable[pa.Array]) -> tuple[Key, ...]:
    """The keys in Python, of their columns."""
    lists = [(one.to_pylist(), pa.types.is_decimal(one.type)) for one in columns]  # whole numbers of more than 64 bits
    plain = ([v if v is None else int(v) for v in values] if wide else values for values, wide in lists)
    return tuple(zip(*plain, strict=True))


def in_order(keys: Sequence[Key], kept: NDArray[np.bool_]) -> tuple[NDArray[np.int64], tuple[Key, ...]]:
    """The places that are kept, in the order of their keys, and those keys. NULL is last, and text is ordered by its bytes.

    Args:
        keys: The keys.
        kept: (keys,) whether each is kept.
    """
    if not kept.any():
        return np.empty(0, np.int64), ()
    every = keys.columns if isinstance(keys, ArrowKeys) else list(map(pa.array, zip(*keys, strict=True)))
    bits = pa.py_buffer(np.packbits(kept, bitorder="little"))  # pa.array would import pandas wherever it is installed
    mask = pa.Array.from_buffers(pa.bool_(), len(kept), [None, bits])
    chosen = {str(i): column.filter(mask) for i, column in enumerate(every)}
    order = pc.sort_indices(pa.table(chosen), sort_keys=[(name, "ascending") for name in chosen])
    return np.flatnonzero(kept)[np.from_dlpack(order)], keys_of(column.take(order) for column in chosen.values())


def json_object(body: Mapping[str, object]) -> str:
    """JSON data with sorted names, in which a day is {"date": "2024-01-31"}.

    Args:
        body: The data.

    Returns:
        The text.

    >>> json_object({"keys": PublicKeys([("Ulm", date(2024, 1, 31))]), "groups": 1})
    '{"groups": 1, "keys": [["Ulm", {"date": "2024-01-31"}]]}'
    """
    texts = ((name, one.text if isinstance(one, PublicKeys) else _json(one)) for name, one in sorted(body.items()))
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in texts) + "}"


SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which UTF-8 cannot write


def public_keys(keys: Any, columns: Mapping[str, ColumnType]) -> tuple[Key, ...]:
    """Public keys, each a tuple with one value a column.

    Args:
        keys: A list, range, array or series of values for one column. For several columns, a list of tuples, or a
            mapping from column to values, whose product is taken. Or a table with the columns (Arrow, pandas, Polars, or
            a path to Parquet or CSV), whose rows are then declared public. None stands for NULL.
        columns: The types of the columns.

    Returns:
        The keys, in the given order.

    Raises:
        QueryError: A key is repeated, a column is unknown, or a value does not have its column's type.

    >>> public_keys({"city": ["Ulm", "Bonn"], "open": [True]}, {"city": ColumnType.TEXT, "open": ColumnType.BOOLEAN})
    (('Ulm', True), ('Bonn', True))
    """
    names = list(columns)
    if len(names) == 1 and hasattr(keys, "to_list"):  # a series of pandas or Polars
        keys = keys.to_list()
    if isinstance(keys, Mapping):
        if set(keys) != set(names):
            raise QueryError(
                f"keys= has the columns {sorted(map(str, keys))}, and group_by has {sorted(names)}; write "
                f"keys={{{', '.join(f'{name!r}: [...]' for name in names)}}}"
            )
        keys_list = list(product(*(_values(keys[name]) for name in names)))
    elif isinstance(keys, str | Path) or hasattr(keys, "__arrow_c_stream__") or hasattr(keys, "to_dict"):
        keys_list = _rows(keys, names)
    elif len(names) == 1:
        keys_list = [(value,) for value in _values(keys)]
    else:
        keys_list = [key if type(key) is tuple else tuple(_values(key)) for key in _values(keys)]
    return _checked(keys_list, columns)


def _python(value: Any, kind: ColumnType) -> object:
    """A value of NumPy, pandas or Arrow, or a day as ISO text, as Python's own; a missing one is None."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]")  # in nanoseconds it would be a number
    value = getattr(value, "as_py", getattr(value, "item", lambda: value))()
    if type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, float) and isnan(value)):
        return None
    if kind is ColumnType.INTEGER and isinstance(value, float) and value.is_integer():
        return int(value)  # as pandas holds whole numbers beside a missing one
    if kind is not ColumnType.DATE:
        return value
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return date.fromisoformat(value)
    return value.date() if isinstance(value, datetime) and value.time() == time() else value


def _values(values: Any) -> list[Any]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise QueryError(f"keys={values!r} must be a list, a range, a mapping or a table; write [{values!r}]")
    return list(values)


def _rows(keys: Any, names: list[str]) -> list[Key]:
    try:
        if isinstance(keys, str | Path):
            path = Path(keys)
            table = pacsv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
        else:
            table = pa.table(keys)
    except (OSError, ValueError, TypeError, pa.ArrowException):
        shown = repr(str(keys)) if isinstance(keys, str | Path) else f"a {type(keys).__name__}"
        raise QueryError(
            f"keys: {shown} is not a table of public keys; give a Parquet or CSV file, a table or a list; write [{shown}]"
        ) from None
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise QueryError(f"keys: the table of public keys has no column {missing[0]!r}; it has {table.column_names}")
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def _checked(keys: list[Key], columns: Mapping[str, ColumnType]) -> tuple[Key, ...]:
    if not keys:
        raise QueryError("keys=[] must hold at least one key; leave keys out to discover them privately")
    if odd := [key for key in keys if len(key) != len(columns)]:
        raise QueryError(f"key {odd[0]!r} must have {len(columns)} values, one for each of {list(columns)}")
    by_column = [tuple(map(itemgetter(place), keys)) for place in range(len(columns))]
    for place, (name, kind) in enumerate(columns.items()):
        own, example = _PYTHON[kind]  # bool is a subclass of int, and an exact type keeps 1 and True apart
        if _fit(by_column[place], own):
            continue
        by_column[place] = tuple(_python(value, kind) for value in by_column[place])
        keys = list(zip(*by_column, strict=True))
        if not _fit(by_column[place], own):
            key, value = next((key, key[place]) for key in keys if not _fit([key[place]], own))
            line = f"integers have 64 bits, text is valid Unicode; write {example}"
            raise QueryError(f"key {key!r}: {value!r} is not of the type of {name!r}, {kind}: {line}")
    if len(set(keys)) < len(keys):
        twice = Counter(keys).most_common(1)[0][0]
        raise QueryError(f"key {twice!r} is given twice; write list(dict.fromkeys(keys))")
    return PublicKeys(keys)


def _fit(values: Sequence[Any], own: type) -> bool:
    """Whether all values of a long list are of a type, or None, and a column can hold them."""
    kinds = set(map(type, values))
    if kinds - {own, type(None)}:
        return False
    present = [value for value in values if value is not None] if type(None) in kinds else values
    if own is str:
        text = "".join(present)
        return text.isascii() or SURROGATE.search(text) is None
    return own is not int or (min(present, default=0) >= -(2**63) and max(present, default=0) < 2**63)
