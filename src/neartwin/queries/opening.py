"""`nt.table(...)`: the door through which a table comes in. Reads names and types; never a row."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from neartwin.errors import ParameterError, SchemaError
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.queries.joining import file_name, typed_schema
from neartwin.queries.query import Rows
from neartwin.queries.source import source_of
from neartwin.queries.table import Bounds, RowUnit, Table
from neartwin.queries.types import IDENTIFYING


def table(
    data: Any,
    *,
    unit: str | RowUnit,
    name: str = "",
    table: str = "",
    neighbours: str = "add_remove",
    types: Mapping[str, str] | None = None,
    columns: Mapping[str, Bounds] | None = None,
    snapshot: str = "",
) -> Rows:
    """The rows of a table about people, from a file, a database or a frame.

    data: a path or glob to Parquet or CSV files, a path to a DuckDB database or an open DuckDB connection (with `table=`),
    a PostgreSQL URL with `table=`, a Spark DataFrame, an Ibis table, or a pandas, Polars or Arrow table.
    unit: the column whose values are the people or things to protect, or `EACH_ROW`.
    name: what the ledger calls this population; by default the file's or table's name. neighbours: "add_remove" or
    "replace_one". types: declared types by column ("integer", "number", "text", "boolean", "date", "timestamp"), wanted
    for each used column of a CSV. columns: public bounds by column. snapshot: a label for the state of a frame or an open
    connection; by default each call makes a new one.

    Errors: `SchemaError` for an unknown column or unusable type, `ParameterError` for a value outside its rule.
    """
    source = source_of(data, table=table, snapshot=snapshot)
    schema, declared = typed_schema(source, types or {})
    if neighbours not in set(Neighbours):
        raise ParameterError("neighbours", neighbours, "must be 'add_remove' or 'replace_one'")
    if not (chosen := name or table or file_name(source)):
        raise ParameterError("name", name, "must name the population", remedy="for instance name='purchases'")
    opened = Table(
        source=source,
        name=chosen,
        unit=unit,
        neighbours=Neighbours(neighbours),
        schema=schema,
        declared=declared,
        columns=MappingProxyType(dict(columns or {})),
    )
    _check(opened)
    return Rows(opened)


def _check(opened: Table) -> None:
    for column in opened.columns:
        opened.numeric(column, "columns")
    if isinstance(opened.unit, RowUnit):
        return
    if opened.has(opened.unit, "unit") not in IDENTIFYING:
        raise SchemaError(
            f"unit={opened.unit!r} is {opened.schema[opened.unit]}; a unit is integer or text: "
            f"declare it with types={{{opened.unit!r}: 'integer'}}"
        )
