"""Exact whole numbers come out of Arrow columns as they are, whatever their type, slices and chunks."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from neartwin.engines.arrow import whole_numbers


@pytest.mark.parametrize("kind", [pa.decimal128(38, 0), pa.int64(), pa.int32(), pa.int8()])
def test_whole_numbers_are_read_exactly_through_slices_chunks_and_nulls(kind):
    most = 2 ** (min(kind.bit_width, 64) - 1) - 1
    values = [0, most, None, -most - 1, -1, 1, None, 5, most // 3]
    typed = [None if v is None else Decimal(v) for v in values] if pa.types.is_decimal(kind) else values
    chunk = pa.array(typed, kind)
    column = pa.chunked_array([chunk.slice(1, 4), chunk.slice(0, 0), chunk.slice(3)])
    found = whole_numbers(column)
    assert found.dtype == np.int64
    assert found.tolist() == [value or 0 for value in [*values[1:5], *values[3:]]]


@pytest.mark.parametrize("large", [2**63, -(2**63) - 1, 2**64, 10**37])
def test_a_number_of_more_than_64_bits_is_kept_whole_and_not_cut(large):
    column = pa.chunked_array([pa.array([Decimal(1), Decimal(large)], pa.decimal128(38, 0))])
    assert whole_numbers(column).tolist() == [1, large]


def test_unsigned_numbers_beyond_64_bits_are_kept_whole():
    assert whole_numbers(pa.chunked_array([pa.array([2**63], pa.uint64())])).tolist() == [2**63]
