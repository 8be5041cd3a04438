"""Arrow tables of a stage: public keys on the way in, exact whole numbers on the way out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neartwin.engines.sql.dialect import POSITION
from neartwin.engines.sql.statement import group_names
from neartwin.engines.sql.trees import CELL
from neartwin.exact import WholeNumbers
from neartwin.planning.stage import Aggregates, Cells, Stage
from neartwin.tables.types import ArrowKeys, ColumnType, Key, keys_of

ARROW = {
    ColumnType.INTEGER: pa.int64(),
    ColumnType.TEXT: pa.string(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.DATE: pa.date32(),
}
_LIMITS = np.iinfo(np.int64)


def key_table(stage: Stage) -> pa.Table:
    """The public keys with their positions: columns p, k0, k1, ..."""
    keys = stage.keys or ()
    # other types of positions have another salted hash on Spark
    columns = {POSITION: pa.array(np.arange(len(keys), dtype=np.int64))}
    for i, name in enumerate(stage.group_columns):
        columns[f"k{i}"] = pa.array([key[i] for key in keys], ARROW[stage.table.schema[name]])
    return pa.table(columns)


def gathered(stage: Stage, answer: pa.Table) -> Aggregates:
    """The answers in a statement's result. `sql.statement.statement` names the columns.

    Args:
        stage: The stage.
        answer: The result of its statement.

    Returns:
        The groups and their exact whole numbers.
    """
    return _gathered(stage, answer.num_rows, {name: answer[name] for name in answer.column_names})


def gathered_rows(stage: Stage, answer: list[tuple[Any, ...]]) -> Aggregates:
    """The answers in a result's rows, in the form of the driver.

    Args:
        stage: The stage.
        answer: The rows of its statement.

    Returns:
        The groups and their exact whole numbers.
    """
    groups = [POSITION] if stage.sizes else group_names(stage)
    numbers = [f"m{i}" for i in range(len(stage.measures))] if stage.split is None else [CELL, "m0"]
    names = [*groups, *numbers]
    columns = dict(zip(names, zip(*answer, strict=True), strict=True)) if answer else dict.fromkeys(names, ())
    if stage.by_unit:
        columns["m0"] = pa.chunked_array([pa.array(columns["m0"])])
    if stage.keys is None and groups != [POSITION]:
        for group, name in zip(groups, stage.group_columns, strict=True):
            columns[group] = pa.chunked_array([pa.array(columns[group], ARROW[stage.table.schema[name]])])
    return _gathered(stage, len(answer), columns)


def _gathered(stage: Stage, rows: int, answer: Mapping[str, Any]) -> Aggregates:
    """The answers. Columns of keys are in Arrow, of numbers in Arrow or a sequence."""
    groups = group_names(stage)
    if stage.split is not None:
        (column,) = stage.grid.values()
        if stage.keys is None:
            places, keys = _numbered([answer[name].combine_chunks() for name in groups])
        else:
            places, keys = whole_numbers(answer[groups[0]]) if groups else np.zeros(rows, np.int64), stage.keys
        cells = np.asarray(whole_numbers(answer[CELL]), dtype=np.int64)
        counts = _numbered([answer["m0"].combine_chunks()])[0] if stage.by_unit else whole_numbers(answer["m0"])
        return Aggregates(len(keys), keys, {}, Cells(places, cells - column.low, np.asarray(counts, dtype=np.int64)))
    values = {name: whole_numbers(answer[f"m{i}"]) for i, name in enumerate(stage.measures)}
    if stage.sizes is not None:
        cells = whole_numbers(answer[POSITION]).tolist()
        edges = tuple((edge,) for edge in stage.sizes.edges or cells)
        return _dense(edges, cells if stage.sizes.edges else range(rows), values)
    if stage.keys is None:
        return Aggregates(rows, ArrowKeys([answer[name] for name in groups]), values)
    if not stage.group_columns:
        return Aggregates(1, ((),), values)
    return _dense(stage.keys, answer[POSITION], values)


def _numbered(columns: Sequence[pa.Array]) -> tuple[NDArray[np.int64], tuple[Key, ...]]:
    """The number of each row's group, and the groups in the order in which they first appear."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return np.argsort(order)[codes], keys_of(column.take(pa.array(first[order])) for column in columns)


def _dense(keys: tuple[Key, ...], places: Any, values: dict[str, WholeNumbers]) -> Aggregates:
    """Answers for all public keys, in their order.

    Args:
        keys: The public keys.
        places: The places of the groups that have rows.
        values: Their whole numbers, by measure.

    Returns:
        The groups, with 0 for those without rows.
    """
    spread, filled = {}, whole_numbers(places)
    for name, numbers in values.items():
        spread[name] = np.zeros(len(keys), dtype=numbers.dtype)
        spread[name][filled] = numbers
    return Aggregates(len(keys), keys, spread)


def whole_numbers(column: pa.ChunkedArray | Sequence[Any]) -> WholeNumbers:
    """Whole numbers, with 0 for NULL: int64, or Python integers if one is too large."""
    if isinstance(column, pa.ChunkedArray):
        try:
            column = column.cast(pa.int64())
            column = column.fill_null(0) if column.null_count else column  # which imports pandas, as `to_numpy` does
            return np.array(np.from_dlpack(column.combine_chunks()), dtype=np.int64)
        except pa.ArrowInvalid:  # a sum of more than 64 bits
            column = column.to_pylist()
    values = [int(value or 0) for value in column]
    small = all(_LIMITS.min <= value <= _LIMITS.max for value in values)
    return np.array(values, dtype=np.int64 if small else object)
