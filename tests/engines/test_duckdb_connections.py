"""A DuckDB that is kept between questions: it remembers nothing, bears a fork and an error, and locks nobody out."""

import subprocess
import sys
import threading

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.engines import duckdb_connections as kept
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.planning.planner import plan

FORKED = """
import os, sys
import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.planning.planner import plan

stage = plan(nt.table(sys.argv[1], unit="who").agg(n=nt.count()), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1)).stage
asked = lambda: int(DuckdbEngine().aggregate(stage, salt=1).values["units"][0])
before = asked()
child = os.fork()
if child == 0:
    sys.exit(0 if asked() == before == 3 else 1)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) or (0 if asked() == before else 2))
"""


@pytest.fixture
def visits(tmp_path):
    return written(tmp_path / "visits.parquet", 3)


def written(place, people):
    pq.write_table(pa.table({"who": list(range(people)), "paid": [1.0] * people}), place)
    return place


def people(place, engine=None):
    stage = plan(
        nt.table(place, unit="who").agg(n=nt.count()), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1)
    ).stage
    return int((engine or DuckdbEngine()).aggregate(stage, salt=1).values["units"][0])


def test_a_file_that_was_rewritten_is_read_anew_and_names_do_not_stay(visits):
    assert people(visits) == 3
    (instance,) = kept._instances.values()
    written(visits, 5)
    assert people(visits) == 5
    assert list(kept._instances.values()) == [instance]
    with kept.memory_connection({}) as connection:
        assert connection.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]
        assert connection.execute("SELECT count(*) FROM duckdb_external_file_cache()").fetchall() == [(0,)]


def test_after_an_error_the_next_question_has_a_fresh_one(visits):
    assert people(visits) == 3
    (instance,) = kept._instances.values()
    with pytest.raises(duckdb.Error), kept.memory_connection({}) as connection:
        connection.execute("SELECT nothing FROM nowhere")
    assert people(visits) == 3
    assert list(kept._instances.values()) != [instance]


def test_settings_hold_for_their_own_questions(visits):
    with kept.memory_connection({"memory_limit": "123MB"}) as connection:
        assert connection.execute("SELECT current_setting('memory_limit')").fetchall() == [("117.3 MiB",)]
    assert people(visits, DuckdbEngine(memory_limit="1GB", threads=1)) == 3
    with kept.memory_connection({}) as connection:
        assert connection.execute("SELECT current_setting('memory_limit')").fetchall() != [("117.3 MiB",)]


def test_threads_ask_at_once(visits):
    found = []
    threads = [threading.Thread(target=lambda: found.append([people(visits) for _ in range(5)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[3] * 5] * 4


def test_a_folder_of_temporary_files_closes_no_other_question(visits, tmp_path, monkeypatch):
    """Of anybody's: it was seen at the end of one question, and then the connections of all were closed, paid ones too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".tmp").mkdir()
    with kept.memory_connection({}) as outer:
        assert people(visits) == 3
        assert outer.execute("SELECT 1").fetchall() == [(1,)]
    test_threads_ask_at_once(visits)


@pytest.mark.slow
def test_temporary_files_go_with_the_last_question_of_their_instance(tmp_path):
    small = {"memory_limit": "60MB", "threads": 1, "temp_directory": str(tmp_path / "spill")}
    numbers = "CREATE TEMP TABLE t AS SELECT range AS a, md5(range::VARCHAR) AS b FROM range(3000000)"
    with kept.memory_connection(small) as outer:
        with kept.memory_connection(small) as inner:
            inner.execute(numbers)
            assert list((tmp_path / "spill").iterdir())
        assert not kept._instances
        assert outer.execute("SELECT 1").fetchall() == [(1,)]
    assert not (tmp_path / "spill").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_a_forked_process_asks_and_ends(visits):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED, str(visits)], timeout=120, check=False)
    assert done.returncode == 0


@pytest.mark.slow
def test_a_database_file_is_open_to_writers_between_questions(tmp_path):
    place = tmp_path / "clinic.duckdb"
    with duckdb.connect(place) as connection:
        connection.execute("CREATE TABLE visits AS SELECT range AS who FROM range(3)")
    stage = plan(
        nt.table(place, unit="who", table="visits").agg(n=nt.count()),
        spend=nt.pure(1),
        limits=nt.limits(max_rows_per_group=1),
    ).stage
    for expected in (3, 4):
        assert int(DuckdbEngine().aggregate(stage, salt=1).values["units"][0]) == expected
        writer = f"import duckdb; duckdb.connect({str(place)!r}).execute('INSERT INTO visits VALUES (99)')"
        subprocess.run([sys.executable, "-c", writer], timeout=120, check=True)
