"""Quantiles and histograms some groups at a time are those of an ordinary release, whatever memory holds of them at once."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.planning.planner import plan
from neartwin.planning.stage import Aggregates, Cells
from neartwin.releases import parquet as parts
from neartwin.releases.parquet import pieces
from tests.peaks import PEAK

SURE = {"spend": nt.approx(10**12, "1e-9"), "limits": nt.limits(max_rows_per_group=4, max_groups=9)}  # noise of no size
NOISY = SURE | {"spend": nt.approx(1, "1e-2")}


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(3)
    size = 3000
    town = np.array([None, "", "Z", "a", "ä", *(f"town {i}" for i in range(15))], dtype=object)
    frame = pa.table(
        {
            "who": draw.integers(0, 900, size),
            "town": pa.array(draw.choice(town, size).tolist(), pa.string()),
            "open": pa.array([[True, False, None][i] for i in draw.integers(0, 3, size)]),
            "paid": draw.gamma(2.0, 15.0, size),
            "age": draw.integers(18, 90, size),
        }
    )
    return nt.table(frame, unit="who", name="visits")


def ranks(groups):
    return groups.agg(
        n=nt.count(), q=nt.quantile("paid", [0.1, 0.5], 0, 200, 2), old=nt.maximum("age", 0, 120), age=nt.median("age", 0, 120)
    )  # fmt: skip


def questions(rows):
    public = [(town, yes) for town in ("Z", None, "nowhere", "ä", "town 3") for yes in (True, False, None)]
    given = [public[i] for i in (4, 0, 14, 7, 2, 9, 1)]  # in no order
    bins = {"paid": nt.histogram("paid", [0, 10, 20, 50, 100])}
    return {
        "found by few": (
            ranks(rows.group_by("town", "open")),
            {"limits": nt.limits(max_rows_per_group=4, max_groups=9, max_discovered_groups=2)},
        ),
        "found, in bins": (rows.group_by("town").agg(**bins), {}),
        "public": (ranks(rows.group_by("town", "open", keys=given)), {}),
        "together": (ranks(rows), {"limits": nt.limits(max_rows_per_group=4)}),
    }


NAMES = ["found by few", "found, in bins", "public", "together"]


def whole(answers):
    """Parts put together: keys, and by statistic its three columns."""
    found = list(answers)
    keys = [key for part in found for key in part.keys]
    columns = {one.name: [] for one in found[0].columns}
    for part in found:
        for one in part.columns:
            columns[one.name] += zip(one.values, one.lower, one.upper, strict=True)
    return keys, columns


class InOrder:
    """An engine that has its groups in the order of the keys already, for noise is drawn in the order of the engine."""

    def aggregate(self, stage, *, salt):
        if stage.split is not None:
            return DuckdbEngine().aggregate(stage, salt=salt)
        (answer,) = DuckdbEngine().batches(stage, salt=salt, groups=10**6)
        return answer


@pytest.mark.parametrize("name", NAMES)
def test_release_in_one_part_has_the_noise_of_an_ordinary_one(rows, name):
    asked, more = questions(rows)[name]
    made = plan(asked, **(NOISY | more))
    first = made.answer(InOrder(), noise.ScriptedSource(b"one"))
    assert whole(pieces(made, DuckdbEngine(), noise.ScriptedSource(b"one"))) == whole([first])
    assert whole(pieces(made, DuckdbEngine(), noise.ScriptedSource(b"two"))) != whole([first])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [2, 30])
def test_release_in_many_parts_equals_an_ordinary_one(rows, name, size, monkeypatch):
    asked, more = questions(rows)[name]
    made = plan(asked, **(SURE | more))
    expected = whole([made.answer(DuckdbEngine(), noise.ScriptedSource(b"x"))])
    assert len(expected[0]) >= 1
    monkeypatch.setattr(parts, "GROUPS_AT_ONCE", 13 * size)
    monkeypatch.setattr(parts, "CELLS", size * max(split.tree.cells for split in made.splits.values()))
    found = list(pieces(made, DuckdbEngine(), noise.ScriptedSource(b"x")))
    assert len(found) > 1 or len(expected[0]) <= size * (4 if "bins" in name else 1)
    assert whole(found) == expected


class Streamed:
    """Groups g = 0, 1, ... with one unit's worth of rows in some cells of each, made as they are asked for."""

    def __init__(self, made, groups, *, swapped=False):
        self.made, self.groups, self.swapped = made, groups, swapped

    def batches(self, stage, *, salt, groups):
        for start in range(0, self.groups, groups):
            number = min(groups, self.groups - start)
            keys = [(start + i,) for i in range(number)]
            if stage.split is None:
                yield Aggregates(number, keys, {name: np.full(number, 1000) for name in stage.measures})
                continue
            if self.swapped:
                keys[0], keys[1] = keys[1], keys[0]
            here = np.arange(number)
            yield Aggregates(
                number, keys, {}, Cells(here, (start + here) % 101, np.full(number, 1000 * stage.split_parts))
            )


def streamed(table, groups, **more):
    asked = table.group_by("shop").agg(typical=nt.median("paid", 0, 100, 1))
    return Streamed(
        plan(asked, spend=nt.approx(10**6, "1e-3"), limits=nt.limits(max_rows_per_group=1, max_groups=1)),
        groups,
        **more,
    )


@pytest.fixture(scope="module")
def shops():
    return nt.table(pa.table({"who": [1], "shop": [1], "paid": [1.0]}), unit="who", name="t")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_groups(shops, monkeypatch):
    monkeypatch.setattr(parts, "GROUPS_AT_ONCE", 500)
    monkeypatch.setattr(parts, "CELLS", 101 * 100)
    peaks = []
    for groups in (6000, 750, 6000):  # the first warms up: blocks of noise are as wide as they get
        engine, seen = streamed(shops, groups), 0
        tracemalloc.start()
        for answer in pieces(engine.made, engine, noise.SYSTEM):
            (typical,) = answer.columns
            assert list(typical.values) == [float(key % 101) for (key,) in answer.keys]
            seen += len(answer.keys)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert seen == groups
    assert peaks[2] < 1.5 * peaks[1]
    assert peaks[2] < 8000 * 101 * 8  # what the cells alone would take at once


def test_wrong_order_of_keys_is_a_failure_and_no_lost_cell(shops):
    good, swapped = streamed(shops, 300), streamed(shops, 300, swapped=True)
    assert len(list(pieces(good.made, good, noise.SYSTEM))) == 1
    with pytest.raises(ValueError, match="sorted by key"):
        list(pieces(swapped.made, swapped, noise.SYSTEM))


BIG = (
    PEAK
    + """
import sys
import duckdb, neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
groups, folder = int(sys.argv[1]), sys.argv[2]
rows = nt.table(f"{folder}/rows-{groups}.parquet", unit="who", name=f"rows {groups}")
with nt.open_ledger(f"{folder}/budget.db") as book:
    account = book.open(rows, nt.approx(100, "1e-3"))
    asked = rows.group_by("shop").agg(n=nt.count(), paid=nt.quantile("paid", [0.5, 0.9], 0, 100, 1))
    made = account.plan(asked, spend=nt.approx(20, "1e-4"), limits=nt.limits(max_rows_per_group=1, max_groups=1))
    account.release_to_parquet(made, f"{folder}/out-{groups}.parquet", engine=DuckdbEngine(memory_limit="400MB", threads=1))
print(peak())
"""
)


@pytest.mark.slow
def test_ten_times_the_groups_take_no_more_memory_of_the_process(tmp_path):
    import duckdb

    peaks = {}
    for groups in (40_000, 400_000):
        text = f"SELECT i AS who, i % {groups} AS shop, 1.0 * (i % 97) AS paid FROM range({8 * groups}) t(i)"
        duckdb.sql(f"COPY ({text}) TO '{tmp_path}/rows-{groups}.parquet'")
        done = subprocess.run(
            [sys.executable, "-c", BIG, str(groups), str(tmp_path)], capture_output=True, text=True, check=True
        )
        peaks[groups] = int(done.stdout)
        assert pq.ParquetFile(Path(tmp_path, f"out-{groups}.parquet")).metadata.num_rows > groups / 2
    assert (
        peaks[400_000] - peaks[40_000] < 450
    )  # MB: the engine's own limit; the cells alone would be 400,000 * 101 * 8 bytes
