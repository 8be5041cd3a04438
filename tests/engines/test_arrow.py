"""Exact whole numbers and keys come out of Arrow columns as they are, whatever their type, slices and chunks."""

import random
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from neartwin.engines.arrow import whole_numbers
from neartwin.tables.types import ArrowKeys, in_order


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


TEXTS = [
    "",
    "a",
    "B",
    "b\x00",
    "\uffff",
    "\U00010000",
    "é",
    "z",
    None,
]  # UTF-16 has the fifth and sixth the other way round
COLUMNS = {
    pa.string(): TEXTS,
    pa.bool_(): [True, None, False],
    pa.date32(): [date(1, 1, 1), date(9999, 12, 31), None, date(1969, 12, 31)],
    pa.int64(): [-(2**63), 2**63 - 1, 0, None],
    pa.decimal128(38, 0): [None, 10**37, -(10**37), 2**64, 3],
}


def test_kept_keys_are_in_the_order_of_values_with_null_last():
    source = random.Random(7)
    every = {tuple(source.choice(values) for values in COLUMNS.values()) for _ in range(400)}
    keys = source.sample(sorted(every, key=repr), len(every))
    kept = np.array([source.random() < 0.7 for _ in keys])
    in_bytes = [[v.encode() if isinstance(v, str) else v for v in key] for key in keys]
    wanted = sorted(np.flatnonzero(kept), key=lambda i: [(v is None, v) for v in in_bytes[i]])
    columns = [
        pa.chunked_array([[v if v is None or k != pa.decimal128(38, 0) else Decimal(v) for v in column]], k)
        for k, column in zip(COLUMNS, zip(*keys, strict=True), strict=True)
    ]
    places, found = in_order(ArrowKeys(columns), kept)
    assert places.tolist() == wanted
    assert found == tuple(keys[place] for place in wanted)
    assert {type(key[4]) for key in found} == {int, type(None)}
    narrow = [key[:4] for key in keys]  # engines of others answer in tuples
    assert in_order(narrow, kept)[1] == in_order(ArrowKeys(columns[:4]), kept)[1]
    for some in (ArrowKeys(columns), keys, ()):
        assert in_order(some, np.zeros(len(some), np.bool_))[1] == ()
