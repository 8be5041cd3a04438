"""Releases of many groups are written in parts: five times the groups take no more memory, beyond what the engine itself may."""

import subprocess
import sys

import duckdb
import pytest

from tests.peaks import PEAK

FEW, MANY = 300_000, 1_500_000
ASKED = (
    PEAK
    + """
import sys
import neartwin as nt
from neartwin.engines.engine_for import engine_for
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.planning.planner import plan

address, table, folder = sys.argv[1:]
rows = nt.table(address, table=table, unit="who", name="pages", snapshot="one")
engine = DuckdbEngine(memory_limit="64MiB", threads=1, temp_directory=folder) if not table else engine_for(rows.table.source)
query = rows.group_by("page").agg(people=nt.count_distinct_units())
limits = {"spend": nt.approx(2, "1e-3"), "limits": nt.limits(max_groups=1)}

with nt.open_ledger(folder + "/budget.db") as ledger:
    account = ledger.open(rows, nt.approx(9, "1e-2"))
    account.release_to_parquet(account.plan(query, **limits), folder + "/pages.parquet", engine=engine)
print(peak())
held = list(engine.aggregate(plan(query, **limits).stage, salt=7).keys)  # all at once, as an ordinary release would
print(peak())
"""
)


def in_duckdb(groups, folder, request):
    del request
    duckdb.sql(
        f"COPY (SELECT range AS who, range % {groups} AS page FROM range({2 * groups})) TO '{folder}/rows.parquet'"
    )
    return f"{folder}/rows.parquet", ""


def in_postgres(groups, folder, request):
    del folder
    place = request.getfixturevalue("postgres_place")
    with place.writing() as connection:
        series = f"SELECT i AS who, i % {groups} AS page FROM generate_series(0, {2 * groups - 1}) t(i)"
        connection.execute(f"CREATE TABLE pages_{groups} AS {series}")
    return place.url, f"pages_{groups}"


@pytest.mark.slow
@pytest.mark.parametrize("made", [in_duckdb, in_postgres])
def test_five_times_the_groups_take_no_more_memory(tmp_path, request, made):
    peaks = []
    for groups in (FEW, MANY):
        folder = tmp_path / str(groups)
        folder.mkdir()
        command = [sys.executable, "-c", ASKED, *made(groups, folder, request), str(folder)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        peaks.append(tuple(map(int, told.split())))
    (few, _), (many, collected) = peaks
    most = few + 64
    assert many < most
    assert collected > most  # near miss: an answer in one piece does grow
