"""`nt.table(...)` opens a table. It reads names and types, and never a row."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from typing import Any, TypedDict, Unpack, overload

from neartwin.checks import made_of
from neartwin.errors import ParameterError, QueryError, SchemaError
from neartwin.interactive import suggested, variable
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.queries.query import Grouping, Rows
from neartwin.tables import joins
from neartwin.tables.ingestion import Terms
from neartwin.tables.joins import On, OtherTable
from neartwin.tables.sources import source_of
from neartwin.tables.table import Bounds, Owner, RowUnit, Table
from neartwin.tables.types import IDENTIFYING, ColumnType


def owned_by(rows: Rows, *, on: On) -> Owner:
    """The unit of a private table without a unit column: its rows belong to the unit with their key in another table.

    Order lines have an order number, and orders name the customer. If rows of several units have one key, one of them
    owns it: see `neartwin.tables.table`. The ledger remembers the owner, and no question can say another.

    Args:
        rows: The table of the units, whole and not joined.
        on: The key: a column, a list of columns, or a mapping from this table's columns to the other's.

    Returns:
        The owner, for `nt.table(..., unit=...)`.

    Raises:
        QueryError: The rows are no whole table with a unit of its own, or the key is none of its columns.

    >>> import neartwin as nt, pyarrow as pa
    >>> orders = nt.table(pa.table({"customer": [1, 2], "order": [7, 8]}), unit="customer", name="orders")
    >>> bought = pa.table({"order": [7, 7, 8], "paid": [1, 2, 3]})
    >>> lines = nt.table(bought, unit=nt.owned_by(orders, on="order"), name="lines")
    >>> sorted(orders.join(lines).table.schema)
    ['customer', 'order', 'paid']
    """
    if rows.conditions:
        raise QueryError("owned_by: rows belong to the units of a whole table; leave .where(...) out")
    return joins.owner_of(rows.table, on)


class _Given(TypedDict, total=False):
    name: str
    table: str
    types: Mapping[str, str] | None
    columns: Mapping[str, Bounds] | None
    snapshot: str
    into: str | PathLike[str]
    accept_odd: bool
    refresh: bool | None
    encoding: str
    null: str | Sequence[str]


@overload
def table(
    data: Any, *, unit: str | RowUnit | tuple[str, Grouping], neighbours: str = "add_remove", **given: Unpack[_Given]
) -> Rows: ...
@overload
def table(data: Any, *, unit: Owner, **given: Unpack[_Given]) -> OtherTable: ...
def table(
    data: Any,
    *,
    unit: str | RowUnit | tuple[str, Grouping] | Owner,
    name: str = "",
    table: str = "",
    neighbours: str = "add_remove",
    types: Mapping[str, str] | None = None,
    columns: Mapping[str, Bounds] | None = None,
    snapshot: str = "",
    into: str | PathLike[str] = "",
    accept_odd: bool = False,
    refresh: bool | None = None,
    encoding: str = "",
    null: str | Sequence[str] = (),
) -> Rows | OtherTable:
    """Open a table about people: a file, a database or a frame.

    CSV, TSV, JSON lines, Excel, SQLite and frames are read here, once: see `neartwin.tables.ingestion`. Of other sources
    no row is read.

    Args:
        data: A path or glob to Parquet, CSV, TSV, JSON lines (`.jsonl`), Excel (`.xlsx`) or SQLite files, or a folder of
            Parquet or Delta, or their URL. A path to a DuckDB database, or an open connection (with `table=`); a PostgreSQL
            URL (with `table=`). Or a Spark DataFrame, an Ibis, Delta or Iceberg table, or a pandas, Polars or Arrow table.
        unit: The column of the people or things to protect, or `ROW`. Or the column and a period, such as `("user_id",
            nt.date("at"))`. That protects one user's rows of one period, and users with rows in several less. Or
            `nt.owned_by(...)` for rows that belong to the units of another table.
        name: The population's name in the ledger; by default the file's or table's name.
        table: The table in a database, or the sheet of Excel.
        neighbours: "add_remove" or "replace_one".
        types: Declared types by column: "integer", "number", "text", "boolean", "date", "timestamp". Other columns of
            files that are read here are text, but those of SQLite have their declared types.
        columns: Public bounds, by column.
        snapshot: The name of the state of a frame or an open connection. Equal frames share a name in this process if
            none is given, and each opening of a connection has a new one.
        into: The folder of a file's typed copy; by default `.neartwin` beside the file.
        accept_odd: Leave odd lines out, and take odd values as NULL. Else they are refused, and listed.
        refresh: Read a file again if it was written since, as another snapshot. False asks the last one; by default a
            file that was written since is refused.
        encoding: The encoding of CSV, TSV and JSON lines, such as "latin-1"; by default that of the last copy, or UTF-8.
        null: Texts in a file that mean no value, such as "NA"; by default those of the last copy. An empty text always does.

    Returns:
        The rows of the table; of owned rows, a table for `join`.

    Raises:
        SchemaError: A column is unknown, or has an unusable type. Or lines or values are odd, and not accepted.
        ParameterError: An argument breaks its rule.

    >>> import pyarrow as pa
    >>> rows = table(pa.table({"who": [1, 2], "paid": [3.5, 8.0]}), unit="who", name="visits")
    >>> rows.table.schema["paid"].value, rows.table.unit_name
    ('number', 'who')
    """
    who: object = unit  # the annotation is a promise, not yet a fact
    one = repr(who[0]) if isinstance(who, list) and who else "'customer_id'"
    made_of((str, RowUnit, tuple, Owner), f"the column of those to protect; write unit={one}", unit=unit)
    declared = joins.declared_types(types)
    nothing = (null,) if isinstance(null, str) else tuple(null)
    terms = Terms(into=fspath(into), accept_odd=accept_odd, refresh=refresh, encoding=encoding, null=nothing)
    source = source_of(data, table=table, snapshot=snapshot, types=declared, terms=terms)
    if not (chosen := name or table or joins.file_name(source)):
        raise ParameterError("name", name, "must name the population", remedy="write name='purchases'")
    if isinstance(unit, Owner):
        return joins.owned_table(source, unit, chosen, declared, columns)
    schema, cast = joins.typed_schema(source, declared)
    if neighbours not in set(Neighbours):
        near = suggested(neighbours, Neighbours) or Neighbours.ADD_REMOVE
        raise ParameterError("neighbours", neighbours, "must be 'add_remove' or 'replace_one'", remedy=f"write {near}")
    column, period = unit if isinstance(unit, tuple) else (unit, None)
    opened = Table(
        source=source,
        name=chosen,
        unit=column,
        neighbours=Neighbours(neighbours),
        schema=schema,
        declared=cast,
        columns=joins.public_bounds(columns, schema),
    )
    if unit not in schema and unit in (getattr(getattr(data, "index", None), "names", None) or ()):
        raise SchemaError(
            f"unit={unit!r} is the index of the frame, and no column; write {variable(data)}.reset_index()"
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
    if isinstance(opened.unit, RowUnit):
        return
    if opened.has(opened.unit, "unit") not in IDENTIFYING:
        kind = "integer" if opened.schema[opened.unit] is ColumnType.NUMBER else "text"
        raise SchemaError(
            f"unit={opened.unit!r} is {opened.schema[opened.unit]}; a unit is integer or text: "
            f"declare it with types={{{opened.unit!r}: '{kind}'}}, or --types {opened.unit}={kind} in a terminal"
        )
