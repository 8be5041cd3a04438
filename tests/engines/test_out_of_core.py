"""Tables larger than memory: DuckDB works from disk within its limit, and what was on disk is gone afterwards."""

import duckdb
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import ExecutionError

ROWS, TOWNS, LIMIT = 600_000, 20_000, 28 * 2**20
LIMITS = {"spend": nt.approx(10**8, "1e-9"), "limits": nt.limits(max_rows_per_group=5, max_groups=2)}


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file of which the needed columns alone are larger than the limit."""
    path = tmp_path_factory.mktemp("large") / "visits.parquet"
    columns = f"i AS who, 'a town with a rather long name ' || ((i * 7919) % {TOWNS}) AS town, (i % 50)::DOUBLE AS paid"
    duckdb.sql(f"COPY (SELECT {columns} FROM range({ROWS}) t(i)) TO '{path}'")
    assert pq.read_table(path).nbytes > LIMIT
    return path


def written(path, folder, **more):
    rows = nt.table(path, unit="who", name="visits")
    engine = DuckdbEngine(memory_limit=f"{LIMIT // 2**20}MiB", threads=1, **more)
    with nt.open_ledger(folder / "budget.db") as ledger:
        account = ledger.open(rows, nt.approx(10**9, "1e-6"))
        query = rows.group_by("town").agg(n=nt.count(), paid=nt.sum("paid", 0, 50))
        return account.release_to_parquet(account.plan(query, **LIMITS), folder / "t.parquet", engine=engine).place


@pytest.mark.slow
def test_table_beyond_the_memory_limit_is_released_and_the_disk_is_cleared(large, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = written(large, tmp_path, temp_directory=str(tmp_path / "spill"))
    wanted = duckdb.sql(
        f"SELECT town, count(*)::DOUBLE, sum(paid) FROM '{large}' GROUP BY town ORDER BY town"
    ).fetchall()
    assert len(wanted) == TOWNS
    assert duckdb.sql(f"SELECT town, n, round(paid, 2) + 0.0 FROM '{place}'").fetchall() == wanted
    assert not list(tmp_path.glob("spill/*"))
    assert not (tmp_path / ".tmp").exists()


def test_near_miss_large_table_without_a_disk_fails_with_the_uniform_error(large, tmp_path):
    nowhere = tmp_path / "nowhere"
    nowhere.touch()  # a file, so that no folder of this name can be made
    with pytest.raises(ExecutionError) as failed:
        written(large, tmp_path, temp_directory=str(nowhere / "spill"))
    assert failed.value.__context__ is None
    assert not (tmp_path / "t.parquet").exists()
