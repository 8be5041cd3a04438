"""The owner's own reading of a table before anybody asks it. It is no release, and what it finds is for the owner alone."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neartwin.accounting.budgets import approx, pure
from neartwin.engines.engine_for import engine_for
from neartwin.planning.limit_choice import plan_within
from neartwin.planning.limits import Limits
from neartwin.planning.stage import Aggregates
from neartwin.queries.query import Query, Rows
from neartwin.statistics import count, count_distinct_units
from neartwin.tables.files import binary
from neartwin.tables.sources import ParquetFiles
from neartwin.tables.table import ROW
from neartwin.tables.types import ColumnType

_MOST = 10**9  # groups of one unit
_LISTED = 1000


def check(rows: Rows, *, key: str | Sequence[str] = ()) -> tuple[str, ...]:
    """Read each value of a table once, on its own engine, as questions do.

    A value that cannot be read would make releases fail. False statistics of a Parquet file hide rows from conditions. If a
    key has several units, one alone owns its rows in `nt.owned_by`.

    Args:
        rows: The rows of a table.
        key: Columns whose values must belong to one unit each. A key with NULL belongs to nobody.

    Returns:
        The columns that cannot be read whole, with the engine's reason, columns with false statistics, and the first 1,000
        keys of several units.

    Raises:
        SchemaError: A column is missing.

    >>> import neartwin as nt, pyarrow as pa
    >>> orders = nt.table(pa.table({"customer": [1, 2, 3], "order": [7, 8, 8]}), unit="customer", name="orders")
    >>> nt.check(orders), nt.check(orders, key="order")
    ((), ('key (8,) belongs to 2 units',))
    """
    reasons = dict[str, list[str]]()
    each_row = Rows(replace(rows.table, unit=ROW, period=None))
    for name, kind in rows.table.schema.items():
        try:
            if kind is not ColumnType.OTHER:
                _answer(each_row.agg(n=count(name)), Limits(max_rows_per_group=1))
        except Exception as fault:  # noqa: BLE001 - of any engine
            reasons.setdefault(str(fault).strip().partition("\n")[0] or type(fault).__name__, []).append(name)
    faults = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
    if isinstance(rows.table.source, ParquetFiles):
        faults += [line for path in rows.table.source.paths for line in _false_statistics(path)]
    columns = [key] if isinstance(key, str) else list(key)
    if columns and not faults:
        query = Rows(rows.table).group_by(*columns).agg(units=count_distinct_units())
        found = _answer(query, Limits(max_groups=_MOST))
        units = found.values["units"]
        keys = ((found.keys[place], int(units[place])) for place in np.flatnonzero(units > 1)[:_LISTED].tolist())
        faults += [f"key {values} belongs to {number} units" for values, number in keys if None not in values]
    return tuple(faults)


def _false_statistics(path: str) -> Iterator[str]:
    """Yield the columns of a Parquet file whose values its statistics deny. Engines skip rows by these."""
    with binary(path) as file:
        parquet = pq.ParquetFile(file)
        for group in range(parquet.num_row_groups):
            for place in range(parquet.metadata.num_columns):
                chunk = parquet.metadata.row_group(group).column(place)
                name, said = chunk.path_in_schema, chunk.statistics
                if said is None or name not in parquet.schema_arrow.names:  # a part of a list
                    continue
                with contextlib.suppress(Exception):  # of a value that is named above, or a type without an order
                    values = parquet.read_row_group(group, columns=[name]).column(0)
                    values = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
                    ends = pc.min_max(values).as_py() if said.has_min_max else {"min": None, "max": None}
                    low, high = ends["min"], ends["max"]
                    outside = low is not None and (low < said.min or high > said.max)
                    if outside or (said.has_null_count and said.null_count != values.null_count):
                        yield f"{name}: statistics in {path} deny values in rows of group {group}, so conditions miss these"


def _answer(query: Query, limits: Limits) -> Aggregates:
    spend = approx(1, "1e-6") if limits.max_groups else pure(1)
    stage = plan_within(query, spend=spend, limits=limits, importance=None).stage
    return engine_for(stage.table.source).aggregate(stage, salt=0)
