"""Keyed noise repeats on the same row and on no other, is as exact as fresh noise, and keeps its secret."""

import itertools
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from neartwin import noise
from neartwin.errors import ParameterError, PrivacyError
from neartwin.noise.keyed import encode_rows
from tests.oracles import noise_laws as oracles
from tests.oracles.noise_laws import THRESHOLD, Fit

SECRET = bytes(range(32))
LAW = noise.rounded_gaussian(2**90)  # wide enough that two draws agree once in 2**45
PLACE = {"secret": SECRET, "release": "r", "column": "n", "stage": 0, "counter": 0}


def batch(n=2000):
    return pa.record_batch(
        {
            "id": pa.array(np.arange(n)),
            "name": pa.array([None if i % 7 == 0 else f"g{i}" for i in range(n)]),
            "day": pa.array(np.arange(n, dtype=np.int32), pa.date32()),
        }
    )


def shared(first, second):
    return int((np.asarray(first) == np.asarray(second)).sum())


def test_a_retry_repeats_whatever_the_order_and_the_cut():
    keys, exact = batch(), np.arange(2000) * 3
    keyed = noise.keyed(LAW, **PLACE)
    first = keyed.draw(keys, exact)
    assert (first == keyed.draw(keys, exact)).all()
    assert (first == pickle.loads(pickle.dumps(keyed)).draw(keys, exact)).all()  # noqa: S301 - our own bytes
    order = noise.permutation(2000)
    assert (first[order] == keyed.draw(keys.take(pa.array(order)), exact[order])).all()
    parts = [keyed.draw(keys.slice(i, 300), exact[i : i + 300]) for i in range(0, 2000, 300)]
    assert (first == np.concatenate(parts)).all()
    encoded = keys.set_column(1, "name", keys.column(1).dictionary_encode())
    assert (first == keyed.draw(encoded, exact)).all()
    assert (first == keyed.draw(pa.Table.from_batches([keys]), pa.array(exact, pa.int32()))).all()


@pytest.mark.parametrize(
    "change",
    [{"secret": bytes(32)}, {"release": "s"}, {"column": "m"}, {"stage": 1}, {"counter": 1}],
    ids=lambda c: next(iter(c)),
)
def test_every_part_of_the_place_changes_every_draw(change):
    keys, exact = batch(), np.arange(2000)
    assert not shared(noise.keyed(LAW, **PLACE).draw(keys, exact), noise.keyed(LAW, **PLACE | change).draw(keys, exact))


def test_changed_data_another_key_and_another_law_share_nothing():
    keys, exact = batch(), np.arange(2000)
    keyed = noise.keyed(LAW, **PLACE)
    first = keyed.draw(keys, exact)
    assert not shared(first, keyed.draw(keys, exact + 1))
    assert not shared(first[1:], keyed.draw(keys.slice(1), exact[:-1]))
    assert not shared(first, keyed.draw(keys.select(["id", "name"]), exact))
    assert not shared(first, keyed.draw(keys, [exact, exact]))
    assert not shared(first, noise.keyed(noise.rounded_gaussian(2**92), **PLACE).draw(keys, exact))
    doubled = noise.keyed(noise.rounded_gaussian(2**92), **PLACE).draw(keys, exact)
    assert abs(np.corrcoef(first, doubled)[0, 1]) < 6.2 / np.sqrt(2000)  # not the same bits on another scale
    # a column moved from the key to the exact numbers is another question
    plain = keyed.draw([np.arange(5), np.arange(5)], np.arange(5))
    assert not shared(plain, keyed.draw([np.arange(5)], [np.arange(5), np.arange(5)]))


@pytest.mark.parametrize(
    ("sampler", "oracle"),
    [
        (noise.discrete_laplace(100), oracles.geometric(Fraction(100))),
        (noise.rounded_gaussian(9), oracles.rounded_gaussian(Fraction(9))),
        (noise.rounded_laplace("1/2"), oracles.rounded_laplace(Fraction(1, 2))),
        (noise.discrete_gaussian(10**12), oracles.discrete_gaussian(Fraction(10**12))),
    ],
    ids=["geometric", "rounded Gaussian", "rounded Laplace", "discrete Gaussian"],
)
def test_keyed_draws_fit_the_law(sampler, oracle):
    keyed = noise.keyed(sampler, **PLACE)
    fit = Fit(oracle)
    for start in range(0, 200_000, 50_000):
        fit.add(keyed.draw([np.arange(start, start + 50_000)], np.zeros(50_000, int)))
    assert fit.p_value() > THRESHOLD
    again = Fit(oracle)
    for _ in range(4):  # the near miss: the same rows counted four times over
        again.add(keyed.draw([np.arange(2000)], np.zeros(2000, int)).repeat(25))
    assert again.p_value() < THRESHOLD


def test_staircases_and_the_widest_laws_are_keyed_too():
    for sampler in (noise.staircase(1, 2**40, 2**39), noise.discrete_laplace(2**50)):
        keyed = noise.keyed(sampler, **PLACE)
        first = keyed.draw([np.arange(500)], np.arange(500))
        assert (first == keyed.draw([np.arange(500)], np.arange(500))).all()
        assert len(set(first.tolist())) == 500
        assert first[10:20].tolist() == keyed.draw([np.arange(10, 20)], np.arange(10, 20)).tolist()


def test_unkeyable_column_is_refused():
    keyed = noise.keyed(LAW, **PLACE)
    with pytest.raises(PrivacyError, match="twice in one batch"):
        keyed.draw([["a", "b", "a"]], [5, 6, 5])
    for keys, exact in (([[1, 2]], [1]), ([[[1], [2]]], [1, 2]), (["ab"], np.arange(2)), ([[1, "a"]], [1, 2])):
        with pytest.raises(ParameterError):
            keyed.draw(keys, exact)
    for wrong in (b"short", bytes(65)):
        with pytest.raises(ParameterError, match="32 to 64 bytes"):
            noise.keyed(LAW, **PLACE | {"secret": wrong})
    assert keyed.draw([[]], []).size == 0


def test_the_secret_is_nowhere_in_text_or_errors():
    secret = noise.fresh_secret()
    assert noise.fresh_secret() != secret
    keyed = noise.keyed(LAW, **PLACE | {"secret": secret})
    text = repr(keyed) + str(keyed)
    for part in (secret, keyed.key):
        assert part.hex() not in text
        assert repr(part) not in text
    with pytest.raises(ParameterError) as caught:
        noise.keyed(LAW, **PLACE | {"secret": secret[:31]})
    assert repr(secret[:8])[2:-1] not in str(caught.value)


VALUES = [
    [None, 0, 1, -1, 255, 2**63 - 1, -(2**63), 2**64 + 5, 10**30, -(10**30)],
    ["", "a", "b", "ab", "a\0", "\0", "1", None],
    [b"", b"a", b"ab", None],
    [0.0, 1.0, -1.0, 5e-324, float("inf"), float("-inf"), float("nan"), None],
    [True, False, None],
    [Decimal("1.00"), Decimal("1.01"), Decimal("-1.00"), None],
]


def test_rows_differ_by_their_bytes():
    # within a column, and with texts beside each other, where naive joining fails
    for values in VALUES:
        assert len(set(encode_rows([values]))) == len(values)
    pairs = list(itertools.product(VALUES[1], VALUES[1]))
    assert len(set(encode_rows([[a for a, _ in pairs], [b for _, b in pairs]]))) == len(pairs)
    kinds = [
        row for values in VALUES for row, value in zip(encode_rows([values]), values, strict=True) if value is not None
    ]
    assert len(set(kinds)) == len(kinds)  # 1, "1", True and 1.0 are four values


def test_equal_rows_have_equal_bytes_in_any_layout():
    number = encode_rows([[1, None, 3]])
    for held in (
        pa.array([1, None, 3], pa.int8()),
        pa.array([1, None, 3], pa.uint64()),
        pa.chunked_array([[1], [None, 3]]),
    ):
        assert encode_rows([held]) == number
    assert encode_rows([[1, None, 3, 2**70]])[:3] == number
    assert encode_rows([pa.array([None, None])]) == encode_rows([pa.array([None, None], pa.string())])
    assert len(set(encode_rows([np.array([0.0, -0.0])]))) == 1
    nans = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(float)
    assert len(set(encode_rows([nans]))) == 1
    stamps = pa.array([1, 2], pa.timestamp("us", tz="UTC"))
    assert encode_rows([stamps]) == encode_rows([pa.chunked_array([stamps])])
    for time in (
        pa.array([1], pa.time32("s")),
        pa.array([1], pa.time64("us")),
        pa.array([1], pa.date64()),
        pa.array([1], pa.duration("s")),
    ):
        assert len(encode_rows([time])) == 1
