"""A check that a table is still the one of the plan. It runs before anything is spent and reads no row."""

import hashlib
from collections.abc import Mapping

from neartwin.errors import SchemaError
from neartwin.tables.joins import own_columns
from neartwin.tables.postgres import PostgresTable
from neartwin.tables.sources import LocalSource, Source, snapshot_name
from neartwin.tables.table import Join, Table
from neartwin.tables.types import ColumnType


def state_of(table: Table, key: bytes) -> str:
    """The state of the data that would be read now: the table's snapshot, and of joined tables that of all of them.

    Args:
        table: The table.
        key: The secret of the ledger that the state is written to.

    Returns:
        The name of the snapshot.

    Raises:
        SchemaError: Files are gone, or a server does not answer. Or a column is gone or has another type than at
            opening; the plan then does not fit the data.
    """
    own = {name: table.schema[name] for name in own_columns(table)}
    parts: list[tuple[Table | Join, Mapping[str, ColumnType]]] = [(table, own)]
    states = []
    for part, schema in [*parts, *((join, join.schema) for join in table.joins)]:
        if part.per_unit is not None:
            states.append(state_of(part.per_unit.table, key))
        else:
            _require_same(part.source, schema, part.declared)
            states.append(snapshot_name(part.source, key))
    return states[0] if len(states) == 1 else hashlib.sha256(repr(states).encode()).hexdigest()


def _require_same(source: Source, schema: Mapping[str, ColumnType], declared: frozenset[str]) -> None:
    if not isinstance(source, LocalSource | PostgresTable):
        return
    now = source.schema()
    for name, kind in schema.items():
        if name not in now or (now[name] != kind and name not in declared):
            is_now = now.get(name, "gone")
            raise SchemaError(
                f"column {name!r} is {is_now} now, and was {kind} when the table was opened; open it and plan again"
            )
