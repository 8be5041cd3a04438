"""How Spark does the work: units come together once, nothing is collected, and a task that runs again repeats its noise."""

import contextlib
import os
import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.engines.spark import stage_frame
from neartwin.errors import ExecutionError
from neartwin.planning.planner import plan
from neartwin.releases import parquet
from tests.engines.places import SALT
from tests.engines.test_large import SURE, read

LIMITS = {"spend": nt.approx(10**6, "1e-6"), "limits": nt.limits(max_rows_per_group=5, max_groups=3)}
QUESTIONS = {
    "sums": lambda rows: rows.group_by("town").agg(n=nt.count(), total=nt.sum("paid", 0, 9)),
    "public keys": lambda rows: rows.group_by("town", keys=["a", "b", "c", "d"]).agg(n=nt.count()),
    "by expression": lambda rows: rows.where("paid > 1").group_by("year(day)").agg(v=nt.variance("paid", 0, 9)),
    "one group": lambda rows: rows.agg(n=nt.count(), people=nt.count_distinct_units()),
    "margins": lambda rows: rows.group_by("town", keys=["a", "b", "c", "d"]).marginals(["town"], []).agg(n=nt.count()),
}
MORE = {
    "all rows": {"limits": nt.limits(max_rows_per_group=5, max_groups=3, rows=7)},
    "a norm": {"limits": nt.limits(norm=3, max_discovered_groups=2), "spend": nt.gdp(10, "1e-6")},
}


def people(spark):
    columns = (
        "id % 9 AS who",
        "char(97 + id % 5) AS town",
        "double(id % 7) AS paid",
        "date_add(DATE '2024-01-01', int(id)) AS day",
    )
    return nt.table(spark.range(100).selectExpr(*columns), unit="who", name="visits")


def shuffles(stage):
    """What rows are moved by, in each exchange of the physical plan, the last first. Broadcasts of keys and salt are none."""
    with stage_frame(stage, SALT) as frame:
        text = frame._jdf.queryExecution().executedPlan().toString()
    found = re.findall(r"(?<!Broadcast)Exchange (\w+)\(?([^\n]*)", text)
    return [(how, re.findall(r"(\w+)#", columns)[: 1 if how == "hashpartitioning" else 0]) for how, columns in found]


@pytest.mark.parametrize("name", [*QUESTIONS, *MORE])
def test_rows_move_once_by_unit_and_then_only_totals_of_groups_move(spark, name):
    query = QUESTIONS.get(name, QUESTIONS["sums"])(people(spark))
    stage = plan(query, **LIMITS | MORE.get(name, {})).stage
    by_group, by_unit = shuffles(stage)
    assert by_unit == ("hashpartitioning", ["u"])
    assert by_group[0] == ("SinglePartition" if name == "one group" else "hashpartitioning")
    assert by_group[1] != ["u"]


@contextlib.contextmanager
def settings(spark, **chosen):
    """Settings of a session that are its own again afterwards."""
    names = {name: name.replace("_", ".") for name in chosen}
    before = {name: spark.conf.get(names[name], None) for name in chosen}
    for name, value in chosen.items():
        spark.conf.set(names[name], value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(names[name]) if value is None else spark.conf.set(names[name], value)


@contextlib.contextmanager
def the_driver_takes_at_most(spark, size):
    """Spark stops a job whose tasks send their driver more than this."""
    conf = spark.sparkContext._jsc.sc().conf()  # read anew for each job
    conf.set("spark.driver.maxResultSize", size)
    try:
        yield
    finally:
        conf.remove("spark.driver.maxResultSize")


def of_towns(spark, towns, units, snapshot="first"):
    """So many units in each of so many towns, each in one."""
    frame = spark.range(towns * units).selectExpr("id AS who", f"concat('town ', id % {towns}) AS town")
    return nt.table(frame, unit="who", name="towns", snapshot=snapshot)


@pytest.mark.parametrize("more", [{}, {"middle": nt.median("who", 0, 18000, 2000)}], ids=["counts", "medians"])
def test_a_table_is_written_where_collecting_its_groups_would_fail(spark, tmp_path, more):
    towns = 6000
    with nt.open_ledger(tmp_path / "budget.db") as ledger, the_driver_takes_at_most(spark, "64k"):
        rows = of_towns(spark, towns, 3)
        account = ledger.open(rows, nt.approx(10**10, "1e-3"))
        query = rows.group_by("town").agg(people=nt.count_distinct_units(), **more)
        written = account.release_to_parquet(account.plan(query, **SURE), tmp_path / "t.parquet")
        other = of_towns(spark, towns, 3, "second").group_by("town").agg(people=nt.count_distinct_units())
        with pytest.raises(ExecutionError):  # the near miss: an ordinary release of the same collects them
            account.release(account.plan(other, **SURE))
    found = read(written.place)
    assert found["people"].to_pylist() == [3] * towns
    assert set(found["town"].to_pylist()) == {f"town {i}" for i in range(towns)}
    assert spark.read.parquet(written.place).count() == towns


TASKS, TOWNS = 4, 400


def tried(spark, folder, monkeypatch, answer_of):
    """What each attempt at each task drew, by task and attempt, and the table; every first attempt is lost at its end."""
    (folder / "drawn").mkdir(parents=True)
    honest, place = parquet.keyed_answer, str(folder / "drawn")

    def losing(made, schema, *, release, secret):
        answer = honest(made, schema, release=release, secret=secret)

        def function(batches):
            from pyspark import TaskContext

            task = TaskContext.get()
            drawn = list(answer_of(answer)(batches))
            pq.write_table(pa.Table.from_batches(drawn), f"{place}/{task.partitionId()}-{task.attemptNumber()}.parquet")
            if task.attemptNumber() == 0:
                raise OSError("lost")
            yield from drawn

        return function

    chosen = {"spark_sql_shuffle_partitions": str(TASKS), "spark_sql_adaptive_coalescePartitions_enabled": "false"}
    with monkeypatch.context() as patched, nt.open_ledger(folder / "b.db") as ledger, settings(spark, **chosen):
        patched.setattr(parquet, "keyed_answer", losing)
        rows = of_towns(spark, TOWNS, 300)
        account = ledger.open(rows, nt.approx(1, "1e-6"))
        query = rows.group_by("town").agg(people=nt.count_distinct_units())
        made = account.plan(query, spend=nt.approx("1/5", "1e-6"), limits=nt.limits(max_groups=1))
        written = account.release_to_parquet(made, folder / "t.parquet")
    drawn = {
        tuple(map(int, file.stem.split("-"))): pq.read_table(file).to_pydict() for file in (folder / "drawn").iterdir()
    }
    return drawn, read(written.place).to_pydict()


def shared(drawn):
    """The largest part of two tasks' noise that is alike, row by row."""
    noise = [np.array(drawn[task, 1]["people"]) - 300 for task in range(TASKS)]
    rows = min(map(len, noise))
    return max((one[:rows] == other[:rows]).mean() for one, other in combinations(noise, 2))


def test_lost_task_repeats_its_noise_and_no_task_shares_it(spark, tmp_path, monkeypatch):
    drawn, table = tried(spark, tmp_path / "honest", monkeypatch, lambda answer: answer)
    assert set(drawn) == {
        (task, attempt) for task in range(TASKS) for attempt in (0, 1)
    }  # each is drawn once an attempt
    by_town = {}
    for task in range(TASKS):
        lost, kept = (dict(zip(*list(drawn[task, attempt].values())[:2], strict=True)) for attempt in (0, 1))
        assert lost == kept
        by_town |= kept
    assert by_town == dict(zip(table["town"], table["people"], strict=True))
    assert len(by_town) == len(table["town"]) == TOWNS
    assert len(set(by_town.values())) > 10  # it is noise
    assert shared(drawn) < 0.5  # scale 5: one in twenty would be alike


def by_place(answer):
    """The fault: noise by a row's place in its task."""

    class Placed:
        def __init__(self, keyed):
            self.keyed = keyed

        def draw(self, keys, values):
            return self.keyed.draw([pa.array(range(len(values)))], values)

    return replace(answer, measures={name: Placed(keyed) for name, keyed in answer.measures.items()})


def fresh(answer):
    """The fault: noise that is drawn anew whenever a task runs."""
    keyed = {name: replace(one, key=os.urandom(64)) for name, one in answer.measures.items()}
    return replace(answer, measures=keyed)


@pytest.mark.slow
def test_near_misses_fresh_noise_differs_and_noise_by_place_is_shared(spark, tmp_path, monkeypatch):
    drawn, _ = tried(spark, tmp_path / "fresh", monkeypatch, fresh)
    assert all(drawn[task, 0] != drawn[task, 1] for task in range(TASKS))
    drawn, _ = tried(spark, tmp_path / "placed", monkeypatch, by_place)
    assert shared(drawn) > 0.9
