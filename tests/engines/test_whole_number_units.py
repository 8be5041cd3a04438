"""Groups in arrays: the answer of hash tables, and never more memory than is set aside for them."""

import random
import subprocess
import sys
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines import duckdb as engine
from neartwin.engines.duckdb import DuckdbEngine, array_bits
from neartwin.planning.planner import plan
from neartwin.tables.sources import ParquetFiles
from tests.engines.places import SALT
from tests.engines.test_same_answers import SPEND, as_mapping
from tests.oracles.memory import MemoryEngine
from tests.peaks import PEAK

ASKED = {"n": nt.count(), "people": nt.count_distinct_units(), "paid": nt.sum("paid", -50, 50, "1/256")}
UNITS = {
    "negative": range(-40, 3),
    "the least and more": range(-(2**63), -(2**63) + 50),
    "the most and less": range(2**63 - 50, 2**63),
    "both ends": (-(2**63), 2**63 - 1, 0),
    "with gaps": range(0, 2**18 - 2, 9001),
    "the last range that fits": (0, 5, 2**18 - 3),
    "one too wide": (0, 5, 2**18 - 1),
    "one": (7,),
}


def written(place, units, size=700):
    pick = random.Random(size)
    rows = [
        {"who": pick.choice([None, *units]), "town": pick.choice([None, 1, 2, -3]), "paid": pick.uniform(-60, 60)}
        for _ in range(size)
    ]
    connection = duckdb.connect()
    connection.execute("CREATE TABLE v (who BIGINT, town SMALLINT, paid DOUBLE)")
    connection.executemany("INSERT INTO v VALUES ($who, $town, $paid)", rows)
    connection.execute(f"COPY v TO '{place}' (ROW_GROUP_SIZE 2048)")
    return rows


def with_bits(monkeypatch, bits):
    monkeypatch.setattr(
        engine,
        "_allow_arrays",
        lambda connection, *_: connection.execute(f"SET perfect_ht_threshold = {bits}"),
    )


@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
def test_arrays_of_any_size_give_the_oracles_answer(monkeypatch, tmp_path, units):
    rows = written(tmp_path / "v.parquet", units)
    query = nt.table(tmp_path / "v.parquet", unit="who").group_by("town").agg(**ASKED)
    stage = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=3, max_groups=4)).stage
    expected = as_mapping(MemoryEngine(rows).aggregate(stage, salt=SALT))
    for bits in (0, 12, 18, 22):
        with_bits(monkeypatch, bits)
        assert as_mapping(DuckdbEngine(threads=3).aggregate(stage, salt=SALT)) == expected
    other = MemoryEngine(rows).aggregate(replace(stage, rows_per_group=2), salt=SALT)
    assert len(units) > 200 or as_mapping(other) != expected  # the near miss: a row of a unit fewer


def test_arrays_of_all_threads_together_stay_in_their_room():
    rows = nt.table(pa.table({"who": [1], "paid": [2.0]}), unit="who", name="v")
    stage = plan(rows.agg(**ASKED), spend=SPEND, limits=nt.limits(max_rows_per_group=3)).stage
    for size in (2**22, 2**24, 2**28, 2**40):
        room = min(2**26, size // 4)
        for threads in (1, 2, 8, 64):
            bits = array_bits(stage, size, threads=threads)
            assert 12 <= bits <= 18
            assert bits == 12 or threads * 2**bits * (24 + 32) <= room
            assert bits == 18 or threads * 2 ** (bits + 1) * (24 + 32) > room


def test_a_large_file_has_arrays_and_an_owners_setting_stays(monkeypatch, tmp_path):
    written(tmp_path / "v.parquet", range(5))
    asked = []
    bits = engine.array_bits
    monkeypatch.setattr(engine, "array_bits", lambda *a, **more: asked.append(bits(*a, **more)) or asked[-1])
    query = nt.table(tmp_path / "v.parquet", unit="who").group_by("town").agg(**ASKED)
    stage = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=3, max_groups=4)).stage
    for size, expected in ((2**22 - 1, []), (2**32, [18])):
        monkeypatch.setattr(ParquetFiles, "size", lambda _, size=size: size)
        DuckdbEngine(threads=2).aggregate(stage, salt=SALT)
        assert asked == expected
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE v AS SELECT * FROM '{tmp_path / 'v.parquet'}'")
    own = nt.table(connection, table="v", unit="who").group_by("town").agg(**ASKED)
    DuckdbEngine().aggregate(
        plan(own, spend=SPEND, limits=nt.limits(max_rows_per_group=3, max_groups=4)).stage, salt=SALT
    )
    assert asked == [18]


FEW_ROWS = (
    PEAK
    + """
import sys
import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.planning.planner import plan
rows = nt.table(sys.argv[1], unit="who").where("paid < 0.001")
asked = rows.agg(n=nt.count(), **{f"s{i}": nt.sum("paid", 0, i, 1) for i in range(1, 7)})
stage = plan(asked, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=5)).stage
DuckdbEngine(threads=1).aggregate(stage, salt=1)
before = peak()
DuckdbEngine(threads=64).aggregate(stage, salt=1)
print(peak() - before)
"""
)


def test_few_rows_on_many_threads_take_no_arrays_of_their_own(tmp_path):
    """64 arrays of 262,144 slots took two gigabytes where hash tables take some megabytes."""
    place = tmp_path / "v.parquet"
    rows = "SELECT hash(i) % 250000 AS who, (hash(i, 1) % 1000) / 10 AS paid FROM range(300000) t(i)"
    duckdb.execute(f"COPY ({rows}) TO '{place}' (ROW_GROUP_SIZE 2048)")
    done = subprocess.run([sys.executable, "-c", FEW_ROWS, str(place)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100
