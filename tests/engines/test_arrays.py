"""Columns made from buffers hold what pyarrow's own conversions hold, and numbers read from buffers are the exact ones."""

import subprocess
import sys
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from neartwin.engines.arrays import column_of, whole_column
from neartwin.engines.arrow import ARROW, whole_numbers
from neartwin.queries.types import ColumnType

LISTS = {
    ColumnType.INTEGER: [-(2**63), 2**63 - 1, 0, 7],
    ColumnType.TEXT: ["", "Ulm", "Zürich", "日本", "a\0b"],
    ColumnType.BOOLEAN: [True, False, False, True, True, False, False, False, True],
    ColumnType.DATE: [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
}


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("nulls", [(), (0,), (1, 3, 9)])
def test_a_column_is_the_one_that_pyarrow_makes(kind, nulls):
    values = list(LISTS[kind])
    for place in nulls:
        values.insert(place, None)
    made = column_of(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(values, ARROW[kind]))
    assert made.null_count == len(nulls)
    assert not made.equals(pa.array([*values[:-1], None if values[-1] is not None else values[-2]], ARROW[kind]))


def test_no_value_makes_no_column_but_an_empty_one():
    for kind in LISTS:
        assert column_of([], kind).equals(pa.array([], ARROW[kind]))


@pytest.mark.parametrize("kind", [pa.decimal128(38, 0), pa.int64(), pa.int32(), pa.int8()])
def test_whole_numbers_are_read_exactly_through_slices_chunks_and_nulls(kind):
    most = 2 ** (min(kind.bit_width, 64) - 1) - 1
    values = [0, most, None, -most - 1, -1, 1, None, 5, most // 3]
    typed = [None if v is None else Decimal(v) for v in values] if pa.types.is_decimal(kind) else values
    chunk = pa.array(typed, kind)
    column = pa.chunked_array([chunk.slice(1, 4), chunk.slice(0, 0), chunk.slice(3)])
    found = whole_column(column)
    assert found is not None
    assert found.dtype == np.int64
    assert found.tolist() == [value or 0 for value in [*values[1:5], *values[3:]]]


@pytest.mark.parametrize("large", [2**63, -(2**63) - 1, 2**64, 10**37])
def test_a_number_of_more_than_64_bits_is_kept_whole_and_not_cut(large):
    column = pa.chunked_array([pa.array([Decimal(1), Decimal(large)], pa.decimal128(38, 0))])
    assert whole_column(column) is None
    assert whole_numbers(column).tolist() == [1, large]


def test_a_type_that_is_none_of_these_is_read_the_long_way():
    assert whole_column(pa.chunked_array([pa.array([1.0])])) is None
    assert whole_numbers(pa.chunked_array([pa.array([2**63], pa.uint64())])).tolist() == [2**63]


def test_a_release_loads_neither_pandas_nor_what_only_migrations_other_mechanisms_and_calibrations_need(tmp_path):
    text = f"""
import sys, duckdb, neartwin as nt
connection = duckdb.connect()
connection.execute("CREATE TABLE visits AS SELECT i % 50 AS who, 'c' || i % 3 AS city, i % 7 AS paid FROM range(400) t(i)")
rows = nt.table(connection, table="visits", unit="who")
with nt.open_ledger({str(tmp_path / "budget.db")!r}) as ledger:
    account = ledger.open(rows, nt.approx(5, "1e-4"))
    for asked in (rows.group_by("city"), rows.group_by("city", keys=["c0", "c1"])):
        query = asked.agg(n=nt.count(), total=nt.sum("paid", 0, 6))
        account.release(account.plan(query, spend=nt.approx(1, "1e-5"), rows_per_group=3, groups_per_unit=3))
heavy = ("pandas", "alembic", "pyarrow.compute", "polars", "pyspark", "scipy.optimize", "scipy.linalg")
others = ("neartwin.mechanisms.above_threshold", "neartwin.mechanisms.unary", "neartwin.mechanisms.shuffled")
print([name for name in (*heavy, *others) if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
