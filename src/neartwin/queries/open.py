"""`nt.table(...)` opens a table. It reads names and types, and never a row."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from neartwin.errors import ParameterError, SchemaError
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.queries.groups import Grouping
from neartwin.queries.query import Rows
from neartwin.tables.joins import file_name, typed_schema
from neartwin.tables.sources import source_of
from neartwin.tables.table import Bounds, RowUnit, Table
from neartwin.tables.types import IDENTIFYING, ColumnType


def table(
    data: Any,
    *,
    unit: str | RowUnit | tuple[str, Grouping],
    name: str = "",
    table: str = "",
    neighbours: str = "add_remove",
    types: Mapping[str, str] | None = None,
    columns: Mapping[str, Bounds] | None = None,
    snapshot: str = "",
) -> Rows:
    """Open a table about people: a file, a database or a frame.

    Args:
        data: A path or glob to Parquet or CSV files; a path to a DuckDB database, or an open connection (with
            `table=`); a PostgreSQL URL (with `table=`). Or a Spark DataFrame, an Ibis table, or a pandas, Polars or
            Arrow table.
        unit: The column of the people or things to protect, or `ROW`. Or the column and a period, such as `("user_id",
            nt.date("at"))`. That protects one user's rows of one period, and users with rows in several less.
        name: The population's name in the ledger; by default the file's or table's name.
        table: The table in a database.
        neighbours: "add_remove" or "replace_one".
        types: Declared types by column: "integer", "number", "text", "boolean", "date", "timestamp". A CSV needs one
            for each used column.
        columns: Public bounds, by column.
        snapshot: The name of the state of a frame or an open connection; by default each call makes a new one.

    Returns:
        The rows of the table.

    Raises:
        SchemaError: A column is unknown, or has an unusable type.
        ParameterError: An argument breaks its rule.

    >>> import pyarrow as pa
    >>> rows = table(pa.table({"who": [1, 2], "paid": [3.5, 8.0]}), unit="who", name="visits")
    >>> rows.table.schema["paid"].value, rows.table.unit_name
    ('number', 'who')
    """
    source = source_of(data, table=table, snapshot=snapshot)
    schema, declared = typed_schema(source, types or {})
    if neighbours not in set(Neighbours):
        raise ParameterError("neighbours", neighbours, "must be 'add_remove' or 'replace_one'")
    if not (chosen := name or table or file_name(source)):
        raise ParameterError("name", name, "must name the population", remedy="for instance name='purchases'")
    column, period = unit if isinstance(unit, tuple) else (unit, None)
    opened = Table(
        source=source,
        name=chosen,
        unit=column,
        neighbours=Neighbours(neighbours),
        schema=schema,
        declared=declared,
        columns=MappingProxyType(dict(columns or {})),
    )
    _check(opened)
    return Rows(opened if period is None else _within(opened, period))


def _within(opened: Table, period: Grouping) -> Table:
    if isinstance(opened.unit, RowUnit):
        raise ParameterError("unit", "(ROW, ...)", "must name the column of units before their period")
    expression = opened.expression(period.text(opened.schema))
    if expression.type is not ColumnType.DATE:
        raise SchemaError(
            f"unit: {period.name!r} is {expression.type}, and a period is named by its first day: nt.date('at'), or "
            "nt.date_part('week start', 'at') for weeks, months, quarters or years"
        )
    word = period.around.split("'")[1] if "'" in period.around else "day"  # date_trunc('week', ...)
    return replace(opened, period=expression, period_name=f"{word} of {period.of}")


def _check(opened: Table) -> None:
    for column in opened.columns:
        opened.numeric(column, "columns")
    if isinstance(opened.unit, RowUnit):
        return
    if opened.has(opened.unit, "unit") not in IDENTIFYING:
        raise SchemaError(
            f"unit={opened.unit!r} is {opened.schema[opened.unit]}; a unit is integer or text: "
            f"declare it with types={{{opened.unit!r}: 'integer'}}, or --types {opened.unit}=integer in a terminal"
        )
