"""One row never decides whether an answer comes out: pairs of tables, with and without a row of odd values.

Values are drawn by a fixed seed. The owner accepts odd values, or a table is refused before an account can be opened.
"""

import math
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import SchemaError
from neartwin.planning.planner import plan

LATE = 400_000 * 365 * 86_400  # seconds
WORDS = [
    '"', '""', "'", "\n", "\r", "\r\n", ",", ";", "\t", "\\", "\0", "\ufeff", "\x1a", " ", "#", "-", "1", "1.5", "1e400", "nan",
    "inf", "-0", "0x1F", "1_000", "true", "2024-02-30", "2024-01-01", "infinity", "epoch", "9" * 40, "ä", "\u2028", "NULL", "\\N",
]  # fmt: skip
OBJECTS = [
    None, pd.NA, pd.NaT, np.nan, float("inf"), "\ud800", "a", b"\xff", 10**5000, 2**70, Decimal("sNaN"), Decimal("1E+999"),
    np.array([1, 2]), [1], {"a": 1}, {1}, object(), datetime(9999, 12, 31, tzinfo=UTC), date.min, 1 + 2j, np.datetime64("NaT"),
    True, np.float16(1), np.timedelta64(3), Exception("x"), (), type,
]  # fmt: skip


class Unspeakable:
    """A value without a text, and not to be compared."""

    def __str__(self):
        raise RuntimeError("none")

    def __eq__(self, other):
        raise RuntimeError("none")

    __hash__ = None


def csv_pair(draw, folder):
    """A file of text, and the same with one line more, of pieces that mean something to a reader."""
    rows = [f"{who},{draw.integers(9)},2024-01-{1 + who % 28:02},t{who % 3}\n" for who in range(8)]
    words = WORDS + ["x"] * 10
    pieces = "".join(draw.choice(words) for _ in range(draw.integers(1, 9)))
    shape = draw.integers(4)
    line = {0: pieces, 1: f"99,{pieces},2024-01-01,t\n", 2: f"99,1,{pieces},t\n", 3: f'99,1,2024-01-01,"{pieces}"\n'}[
        shape
    ]
    content = line.encode()
    if draw.random() < 0.2:
        content = content.replace(b"x", b"\xff\xfe")
    at = draw.integers(len(rows) + 1)
    for name, extra in (("without", b""), ("with", content + (b"" if content.endswith(b"\n") else b"\n"))):
        body = b"".join([*(row.encode() for row in rows[:at]), extra, *(row.encode() for row in rows[at:])])
        (folder / f"{name}.csv").write_bytes(b"who,paid,day,town\n" + body)
    types = {"who": "integer", "paid": "number", "day": "date"}
    return [
        lambda name=name: nt.table(
            folder / f"{name}.csv", unit="who", name="v", types=types, accept_odd=True, refresh=True
        )
        for name in ("without", "with")
    ]


def frame_pair(draw, folder):
    """A frame, and the same with one row more of odd values."""
    size = 6
    who, odd = (
        list(range(size)),
        [OBJECTS[draw.integers(len(OBJECTS))] if draw.random() < 0.5 else f"t{i}" for i in range(size)],
    )
    last = Unspeakable() if draw.random() < 0.1 else OBJECTS[draw.integers(len(OBJECTS))]
    time = [0, 86_400, None, 5, 6, 7]
    kind = draw.integers(6)
    pairs = []
    for more in (0, 1):
        ids = [*who, *[99] * more]
        values = [*odd, *[last] * more]
        times = [*time, *[int(draw.choice([LATE, -LATE, 2**62, -(2**63)]))] * more]
        texts = [b"t0", b"\xc3\xa4", None, b"", b"t1", b"t2", *[bytes(draw.integers(0, 256, 3, dtype=np.uint8))] * more]
        unit = str(draw.choice(["s", "ms", "us", "ns"]))
        series = pd.Series([None] * len(ids), dtype=object)
        for i, value in enumerate(values):
            series.iloc[i] = value
        made = {
            0: lambda ids=ids, series=series: pd.DataFrame({"who": ids, "paid": series, "town": series}),
            1: lambda ids=ids, texts=texts: pa.table(
                {"who": ids, "paid": ids, "town": pa.array(texts, pa.binary()).view(pa.string())}
            ),
            2: lambda ids=ids, times=times, unit=unit: pa.table(
                {"who": ids, "paid": ids, "town": pa.array(times, pa.int64()).cast(pa.timestamp(unit))}
            ),
            3: lambda ids=ids, times=times: pl.DataFrame(
                {"who": ids, "paid": ids, "town": pl.Series(times, dtype=pl.Int64).cast(pl.Datetime("ms", "UTC"))}
            ),
            4: lambda ids=ids, values=values: pl.LazyFrame(
                {"who": ids, "paid": ids, "town": pl.Series(values, dtype=pl.Object)}
            ),
            5: lambda ids=ids, texts=texts: pa.table(
                {"who": ids, "paid": ids, "town": pa.array(texts, pa.binary()).view(pa.string()).dictionary_encode()}
            ),
        }[int(kind)]  # fmt: skip
        pairs.append(
            lambda made=made: nt.table(made(), unit="who", name="v", types={"paid": "number"}, accept_odd=True)
        )
    return pairs


def answered(rows):
    """The exact numbers of questions that read every column, or the type of what made one fail."""
    by_text = [f"{name} IS NULL" for name in rows.table.schema]
    asked = rows.where(" OR ".join([*by_text, "who >= 0"])).agg(
        n=nt.count(), paid=nt.sum("paid", 0, 10, 1), **{f"n_{name}": nt.count(name) for name in rows.table.schema}
    )
    stage = plan(asked, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1)).stage
    found = DuckdbEngine().aggregate(stage, salt=1).values
    return {name: values.tolist() for name, values in found.items()}


def outcomes(seed, number, folder):
    """What became of pairs: answered both, or refused both before an account could be opened."""
    draw, found = np.random.default_rng(seed), Counter()
    for pair in range(number):
        told = []
        for opened in (csv_pair if pair % 2 else frame_pair)(draw, folder):
            try:
                rows = opened()
            except SchemaError:
                told.append("refused")
                continue
            answer = answered(rows)  # whatever it raises fails the test: it would be after the price was paid
            assert all(math.isfinite(value) for (value,) in answer.values())
            told.append("answered")
        found[" and ".join(told)] += 1
    return found


@pytest.mark.parametrize("number", [40, pytest.param(600, marks=pytest.mark.slow)])
def test_no_row_decides_whether_an_answer_comes_out(tmp_path, number):
    found = outcomes(number, number, tmp_path)
    assert set(found) <= {"answered and answered", "refused and refused"}
    assert found["answered and answered"] > 0.9 * number
