"""The six types a column can have here, and how other systems' types map to them.

A type is schema: declared by a file's metadata, a database or the caller, never inferred from rows. Everything that the
query language does not need (lists, blobs, times of day, intervals) is OTHER and can only be carried along.
"""

from enum import StrEnum


class ColumnType(StrEnum):
    """What a column's values are; the value is the word used in declarations: `types={"amount": "number"}`."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    OTHER = "other"


NUMERIC = frozenset({ColumnType.INTEGER, ColumnType.NUMBER})
GROUPABLE = frozenset({ColumnType.INTEGER, ColumnType.TEXT, ColumnType.BOOLEAN, ColumnType.DATE})
IDENTIFYING = frozenset({ColumnType.INTEGER, ColumnType.TEXT})

# the first word that a type's name starts with, in the dialects of DuckDB, PostgreSQL, Spark, Arrow, pandas and Polars
_PREFIXES: tuple[tuple[ColumnType, tuple[str, ...]], ...] = (
    (ColumnType.OTHER, ("interval", "decimal256")),
    (
        ColumnType.INTEGER,
        ("int", "uint", "bigint", "ubigint", "hugeint", "smallint", "usmallint", "tinyint", "utinyint", "uinteger"),
    ),
    (ColumnType.NUMBER, ("float", "double", "real", "decimal", "numeric", "halffloat")),
    (
        ColumnType.TEXT,
        ("varchar", "string", "large_string", "utf8", "text", "char", "enum", "uuid", "dictionary", "str"),
    ),
    (ColumnType.TEXT, ("category", "categorical", "bpchar", "large_utf8")),
    (ColumnType.BOOLEAN, ("bool",)),
    (ColumnType.TIMESTAMP, ("timestamp", "datetime")),
    (ColumnType.DATE, ("date",)),
)


def column_type(name: str) -> ColumnType:
    """The type whose name another system writes so.

    >>> column_type("DECIMAL(18,2)"), column_type("VARCHAR"), column_type("int64"), column_type("STRUCT(a INTEGER)")
    (<ColumnType.NUMBER: 'number'>, <ColumnType.TEXT: 'text'>, <ColumnType.INTEGER: 'integer'>, <ColumnType.OTHER: 'other'>)
    """
    word = name.strip().lower()
    if word.endswith("[]") or word.startswith(("list", "struct", "map", "union", "strict", "time[")):
        return ColumnType.OTHER
    for kind, prefixes in _PREFIXES:
        if word.startswith(prefixes):
            return kind
    return ColumnType.OTHER
