"""What only Spark can get wrong: secrets in its plans and logs, noise drawn twice, the caller's session."""

import base64
import pickle
import random
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.engines.spark import SparkEngine, stage_frame
from neartwin.errors import QueryError, SchemaError
from neartwin.planning.planner import plan
from neartwin.releases import parquet
from neartwin.releases.parquet import keyed_answer
from neartwin.releases.preparation import prepare
from neartwin.tables.table import Table
from tests.engines.places import SALT, DuckdbPlace
from tests.engines.test_large import SURE, proposed, visits
from tests.engines.test_same_answers import SPEND, STATISTICS, answers, hostile_rows

SECRET = bytes(range(100, 132))


def exact(sizes):
    """What a stage of `asked_plan` would answer."""
    towns = pa.array([f"t{i}" for i in range(len(sizes))])
    return pa.RecordBatch.from_pydict({"g0": towns, "m0": pa.array(sizes, pa.int64())})


def asked_plan(epsilon="1/5"):
    rows = DuckdbPlace().visits(visits(10))
    return plan(
        rows.group_by("town").agg(people=nt.count_distinct_units()),
        spend=nt.approx(epsilon, "1e-6"),
        limits=nt.limits(max_groups=1),
    )


def released(answer, *batches):
    return pa.Table.from_batches(list(answer(iter(batches))), answer.schema).to_pydict()


def test_repeated_task_repeats_its_noise_and_one_on_changed_rows_does_not():
    made = asked_plan()
    answer = keyed_answer(made, prepare(made).schema, release="r", secret=SECRET)
    again = (
        pickle.loads(pickle.dumps(answer.selection)),  # noqa: S301
        keyed_answer(made, prepare(made).schema, release="r", secret=SECRET),
    )
    assert again[0] == answer.selection
    batch = exact([500 + i for i in range(400)])
    first = released(answer, batch)
    assert first == released(again[1], batch)
    halves = released(answer, batch.slice(0, 123), batch.slice(123))
    assert first == halves
    changed = released(answer, exact([501 + i for i in range(400)]))
    differences = np.array(changed["people"]) - np.array(first["people"])
    assert (differences != 1).mean() > 0.7  # other noise, where the same noise would differ by the one unit alone
    other = released(keyed_answer(made, prepare(made).schema, release="r", secret=SECRET[::-1]), batch)
    assert (np.array(other["people"]) != np.array(first["people"])).mean() > 0.7


def test_workers_draw_the_plans_noise_and_apply_its_threshold():
    made = asked_plan()
    answer = keyed_answer(made, prepare(made).schema, release="r", secret=SECRET)
    drawn = np.array(released(answer, exact([10_000] * 4000))["people"]) - 10_000
    scale = float(made.measures["units"].mechanism.scale)
    spread = np.abs(drawn).mean()  # of geometric noise about the scale, with a relative sd of 1/sqrt(n)
    assert abs(spread / scale - 1) < 6 / np.sqrt(4000)
    assert abs(spread / (scale * 4 / 5) - 1) > 6 / np.sqrt(4000)
    chosen = made.selection
    assert len(released(answer, exact([1] * 500))["town"]) == 0
    assert len(released(answer, exact([chosen.sure] * 500))["town"]) == 500
    for units in (chosen.sure // 2, chosen.sure // 2 + 3):
        wanted = float(chosen.keep_probability(units))
        kept = len(released(answer, exact([units] * 2000))["town"]) / 2000
        assert abs(kept - wanted) < 6 * 0.5 / np.sqrt(2000)


def test_workers_draw_normal_noise_where_the_plan_says_so():
    rows = DuckdbPlace().visits(visits(10))
    query = rows.group_by("town").agg(people=nt.count_distinct_units())
    for spend in (nt.gdp("1/5", "1e-6"), nt.zcdp("1/50", "1e-6")):
        made = plan(query, spend=spend, limits=nt.limits(max_groups=1))
        answer = keyed_answer(made, prepare(made).schema, release="r", secret=SECRET)
        drawn = np.array(released(answer, exact([10_000] * 4000))["people"]) - 10_000
        deviation = made.measures["units"].mechanism.law.deviation
        assert abs(drawn.std() / deviation - 1) < 6 / np.sqrt(2 * 4000)
        assert abs(drawn.std() / (deviation * 4 / 5) - 1) > 6 / np.sqrt(2 * 4000)
        assert len(released(answer, exact([1] * 500))["town"]) == 0


def tables_in(value):
    """Every table that a value holds, however deep."""
    if isinstance(value, Table):
        yield value
    parts = [getattr(value, one.name) for one in fields(value)] if is_dataclass(value) else ()
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else parts
    for part in parts:
        yield from tables_in(part)


def test_the_function_for_workers_shows_no_key_and_holds_no_source():
    counts = DuckdbPlace().visits(visits(10)).group_by("town").agg(n=nt.count())
    made = plan(counts, spend=nt.approx(1, "1e-6"), limits=nt.limits(max_groups=1, max_rows_per_group=1))
    assert made.loss is not None
    answer = keyed_answer(made, prepare(made).schema, release="r", secret=SECRET)
    for text in (repr(answer), str(answer)):
        assert repr(SECRET)[2:-1] not in text
        assert SECRET.hex() not in text
    assert all(table.source.paths == () for table in tables_in(answer.plan))
    assert len(list(tables_in(made))) > len(list(tables_in(answer.plan))) > 1


def test_public_keys_get_noise_by_their_places_and_one_group_has_none():
    rows = DuckdbPlace().visits(visits(10))
    public = plan(
        rows.group_by("town", keys=["a", "b"]).agg(n=nt.count_distinct_units()),
        spend=nt.pure(1),
        limits=nt.limits(max_groups=1),
    )
    answer = keyed_answer(public, prepare(public).schema, release="r", secret=SECRET)
    batch = pa.RecordBatch.from_pydict({"p": pa.array([1, 0]), "m0": pa.array([None, 5000], pa.int64())})
    found = released(answer, batch)
    assert found["town"] == ["b", "a"]
    assert abs(found["n"][0]) < 100
    assert 4900 < found["n"][1] < 5100
    whole = plan(rows.agg(n=nt.count_distinct_units()), spend=nt.pure(1))
    with pytest.raises(QueryError, match="is for groups"):
        keyed_answer(whole, prepare(whole).schema, release="r", secret=SECRET)


def ranked_plan():
    rows = DuckdbPlace().visits(visits(10))
    query = rows.group_by("town").agg(middle=nt.median("paid", 0, 100, 1))
    return plan(query, spend=nt.approx(1, "1e-6"), limits=nt.limits(max_groups=1, max_rows_per_group=1))


def with_cells(groups, moved=()):
    """Groups of 10,000 units with 100 values in each of 101 cells; moved: groups with one value more in cell 7."""
    of = [[{"b": b, "m0": 100 + (g in moved and b == 7)} for b in range(101)] for g in range(groups)]
    kind = pa.list_(pa.struct([("b", pa.int64()), ("m0", pa.decimal128(38, 0))]))
    batch = {"g0": [f"t{g}" for g in range(groups)], "m0": pa.array([10_100] * groups), "c0": pa.array(of, kind)}
    return pa.RecordBatch.from_pydict(batch)


def noise_of_nodes(answer, batch, monkeypatch):
    """(groups, nodes) what the workers add, level by level."""
    found = []

    def watched(keyed, keys, level):
        found.append(noisy_nodes(keyed, keys, level) - level)
        return found[-1] + level

    noisy_nodes = parquet._noisy_nodes
    with monkeypatch.context() as patched:
        patched.setattr(parquet, "_noisy_nodes", watched)
        released(answer, batch)
    return found


def test_noise_of_nodes_is_the_plans_own_repeats_and_is_shared_by_no_two(monkeypatch):
    made = ranked_plan()
    ((name, split),) = made.splits.items()
    answer = keyed_answer(made, prepare(made).schema, release="r", secret=SECRET)
    levels = noise_of_nodes(answer, with_cells(60), monkeypatch)
    assert [level.shape for level in levels] == [(60, -(-101 // width)) for width in split.tree.widths]
    again = noise_of_nodes(answer, with_cells(60).slice(20, 30), monkeypatch)
    assert all((one[20:50] == other).all() for one, other in zip(levels, again, strict=True))
    every = np.concatenate([level.ravel() for level in levels])
    scale, spread = float(made.measures[name].mechanism.scale), np.abs(every).mean()
    assert abs(spread / scale - 1) < 6 / np.sqrt(every.size)
    assert abs(spread / (scale * 4 / 5) - 1) > 6 / np.sqrt(every.size)
    first, moved = levels[-1], noise_of_nodes(answer, with_cells(60, range(60)), monkeypatch)[-1]
    assert (first[:, 7] == moved[:, 7]).mean() < 0.5  # of a changed count
    assert (np.delete(first, 7, 1) == np.delete(moved, 7, 1)).all()
    assert (first[0] == first[1]).mean() < 0.3  # of groups with the same counts
    assert (first[:, 0] == first[:, 1]).mean() < 0.5  # of cells with the same count


@pytest.mark.slow
def test_no_log_plan_or_page_of_the_cluster_has_the_key_or_the_salt(spark_place, spark, tmp_path, monkeypatch):
    salt = random.Random(5).getrandbits(64)
    monkeypatch.setattr(noise, "fresh_secret", lambda: SECRET)
    monkeypatch.setattr(SparkEngine, "write", with_salt(SparkEngine.write, salt))
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account, proposal = proposed(ledger, spark_place.visits(visits(200), name="visits"))
        account.release_to_parquet(proposal, tmp_path / "t.parquet")
    (log,) = Path(spark.conf.get("spark.eventLog.dir").removeprefix("file://")).iterdir()
    files = [log] if log.is_file() else [path for path in log.rglob("*") if path.is_file()]
    events = b"".join(path.read_bytes() for path in files)
    assert b"released_rows" in events  # the log does describe this plan
    assert b"xxhash64" in events
    signed = salt - 2**64 if salt >= 2**63 else salt
    texts = (SECRET.hex(), base64.b64encode(SECRET).decode(), str(list(SECRET)), repr(SECRET)[2:-1])
    for secret in (SECRET, *(text.encode() for text in texts)):
        assert secret not in events
    for number in (salt, signed):
        assert str(number).encode() not in events


def with_salt(write, salt):
    def fixed(self, stage, splits, **more):
        return write(self, stage, splits, **(more | {"salt": salt}))

    return fixed


@pytest.mark.slow
def test_spark_and_the_oracle_agree_to_the_last_bit(spark_place):
    """One question with every kind of sum; `test_same_answers` asks Spark the others."""
    rows = hostile_rows(4, 700)
    query = spark_place.visits(rows).group_by("town").agg(**STATISTICS)
    found, expected = answers(
        spark_place, rows, plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=2, max_groups=3))
    )
    assert found == expected


@pytest.mark.slow
def test_the_callers_session_is_left_as_it_was(spark_place, spark):
    rows = spark_place.visits(visits(50), name="visits")
    stage = plan(rows.group_by("town").agg(n=nt.count_distinct_units()), **SURE).stage
    before = (dict(spark.conf.getAll), [view.name for view in spark.catalog.listTables("global_temp")])
    with stage_frame(stage, SALT) as frame:
        text = frame._jdf.queryExecution().toString()
    assert text.count("RepartitionByExpression") >= 1
    assert str(SALT) not in text
    assert (dict(spark.conf.getAll), [view.name for view in spark.catalog.listTables("global_temp")]) == before


@pytest.mark.slow
def test_tables_of_the_catalogue_are_found_by_name_and_others_refused(spark):
    spark.createDataFrame(pa.table({"who": ["a", "b"], "paid": [1.0, 2.0]})).createOrReplaceTempView("payments")
    rows = nt.table(spark, table="payments", unit="who")
    asked_for = plan(
        rows.agg(total=nt.sum("paid", 0, 9, "0.01")), spend=SURE["spend"], limits=nt.limits(max_rows_per_group=1)
    )
    name = "total:paid[0,9,1/100]-0"
    values = SparkEngine().aggregate(asked_for.stage, salt=SALT).values[name]
    assert list(values) == [300 * asked_for.stage.parts[name]]
    assert rows.table.source.location() == ""  # a temporary view has no place that outlives the session
    for name, why in (("nowhere", "is not a table"), ("", "must name")):
        with pytest.raises(SchemaError, match=why):
            nt.table(spark, table=name, unit="who")
    twice = spark.createDataFrame(pa.table({"who": ["a"]})).selectExpr("who", "who")
    with pytest.raises(SchemaError, match="which are one name"):
        nt.table(twice, name="twice", unit="who")


@pytest.mark.slow
def test_odd_values_of_sparks_own_make_nothing_fail(spark):
    frame = spark.sql("""
        SELECT * FROM VALUES
          ('a', CAST(X'ff61' AS STRING), DATE '10000-01-01', 99999999999999999999999999999999999999BD, 'x',
           TIMESTAMP '2024-01-01 00:00:00'),
          ('b', CAST(X'ff61' AS STRING), DATE '-0001-01-01', -5BD, '1.5', NULL),
          ('c', 'ok', DATE '2024-02-29', NULL, 'NaN', TIMESTAMP '1969-01-01 00:00:00')
        AS t(who, text, day, wide, written, at)
    """)
    rows = nt.table(frame, name="odd", unit="who", types={"written": "number"})
    query = rows.where("wide * wide >= 0 OR wide IS NULL OR at > TIMESTAMP '2000-01-01 00:00:00'").group_by(
        "text", "day"
    )
    query = query.agg(
        n=nt.count_distinct_units(), total=nt.sum("wide", -9, 9, "0.01"), read=nt.sum("written", 0, 9, "0.01")
    )
    stage = plan(query, **SURE).stage
    found = SparkEngine().aggregate(stage, salt=SALT)
    parts = stage.parts
    answers = {
        key: [int(found.values[name][i]) / parts.get(name, 1) for name in stage.measures]
        for i, key in enumerate(found.keys)
    }
    assert {key[1] and key[1].year for key in answers} == {None, 2024}
    assert {key[0] for key in answers} == {"\ufffda", "ok"}
    totals = {key: dict(zip(stage.measures, values, strict=True)) for key, values in answers.items()}
    assert totals["\ufffda", None]["total:wide[-9,9,1/100]-0"] == 900 - 500
    assert totals["\ufffda", None]["total:written[0,9,1/100]-0"] == 150


@pytest.mark.slow
def test_times_with_an_offset_in_a_text_are_those_of_utc(spark):
    texts = ["2025-02-01T00:30:00+01:00", "2025-01-31 18:30:00-05:00", "2025-01-31T23:30:00Z", "2025-01-31 23:30:00"]
    frame = spark.createDataFrame(pa.table({"who": range(4), "at": texts}))
    rows = nt.table(frame, unit="who", name="times", types={"at": "timestamp"}, snapshot="1")
    hours = rows.group_by("hour(at)", keys=[23, 0, 18]).agg(n=nt.count())
    stage = plan(hours, spend=nt.pure(1), limits=nt.limits(rows=1)).stage
    (counts,) = SparkEngine().aggregate(stage, salt=1).values.values()
    assert list(counts) == [4 * stage.parts["rows"], 0, 0]
