"""A sample of units: the same units on every engine, chosen by a secret alone, with all their rows or none."""

import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest
from scipy.stats import binom

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.engines.memory import MemoryEngine
from neartwin.errors import ParameterError
from neartwin.queries.planner import plan
from neartwin.queries.sample import first_digits, is_kept, salt_and_secret
from tests.engines.places import SALT
from tests.engines.test_joins import PLACES, local, made, questions
from tests.engines.test_same_answers import (
    RANKED,
    SPEND,
    STATISTICS,
    answers,
    as_mapping,
    engines,
    hostile_rows,
    in_cells,
    row,
)

SECRET = int("c3" * 32, 16)
DRAWN = (SECRET << 64) | SALT
HALF, TENTH = Fraction(1, 2), Fraction(1, 10)


def sampled(stage, rate=HALF):
    return replace(stage, sampling_rate=rate)


def whole(rows, rate=HALF, drawn=DRAWN):
    """Those rows whose units are kept, by the words of the definition and nothing else."""
    _, secret = salt_and_secret(drawn, rate)
    return [one for one in rows if one["who"] is not None and is_kept(one["who"], secret, rate)]


@pytest.mark.parametrize("place", engines(spark=True))
def test_every_engine_keeps_the_units_that_the_oracle_keeps(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("sample", 900)
    query = place.visits(rows).where("paid < 40 OR open").group_by("town").agg(**STATISTICS)
    stage = plan(query, spend=SPEND, rows_per_group=2, groups_per_unit=3).stage
    oracle = MemoryEngine(rows, order=place.order(stage, rows))
    found = as_mapping(place.engine.aggregate(sampled(stage), salt=DRAWN))
    assert found == as_mapping(oracle.aggregate(sampled(stage), salt=DRAWN))
    # and that is the answer of a table that never had the others
    alone = MemoryEngine(whole(rows), order=place.order(stage, rows))
    assert found == as_mapping(alone.aggregate(stage, salt=SALT))
    every, _ = answers(place, rows, plan(query, spend=SPEND, rows_per_group=2, groups_per_unit=3))
    assert found != every


@pytest.mark.parametrize("place", engines(spark=False))
def test_whole_numbers_name_units_alike_on_every_engine(request, place):
    place = request.getfixturevalue(place)
    rows = [row(None, year=year) for year in (0, -1, 7, 2**62, 2**63 - 1, -(2**63), None, *range(100, 160))]
    query = place.visits(rows, unit="year").agg(people=nt.count_units(), n=nt.count())
    stage = sampled(plan(query, spend=SPEND, rows_per_group=1).stage)
    for drawn in (DRAWN, DRAWN + (1 << 64)):
        kept = place.engine.aggregate(stage, salt=drawn).values["units"].tolist()
        assert kept == MemoryEngine(rows).aggregate(stage, salt=drawn).values["units"].tolist()
        assert 0 < kept[0] < 66


@pytest.mark.parametrize("place", engines(spark=False))
def test_cells_are_of_the_same_sample(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("cells", 500)
    asked = plan(place.visits(rows).agg(**RANKED), spend=SPEND, rows_per_group=2)
    for split in asked.splits.values():
        hashes = dict(
            zip(
                names := sorted({one["who"] for one in rows} - {None}),
                place.hashes([(name,) for name in names], [split.stage.table.unit_kind]),
                strict=True,
            )
        )
        oracle = MemoryEngine(rows, order=lambda unit, _, hashes=hashes: (hashes[unit],))
        found = in_cells(place.engine.aggregate(sampled(split.stage), salt=DRAWN))
        assert found == in_cells(oracle.aggregate(sampled(split.stage), salt=DRAWN))
        assert sum(found.values()) < sum(in_cells(oracle.aggregate(split.stage, salt=SALT)).values())


@pytest.mark.parametrize("kind", ["same unit", "owned", "owned, or NULL", "all"])
@pytest.mark.parametrize("place", engines(spark=False))
def test_joined_tables_are_sampled_by_their_unit(request, place, kind):
    place, name = request.getfixturevalue(place), place
    rows = made(4)
    tables, _ = PLACES[name](place, rows)
    asked, names = questions(tables)[kind]
    query = asked.agg(n=nt.count(), people=nt.count_units())
    stage = plan(query, spend=SPEND, rows_per_group=4).stage
    first, *others = (rows[one] for one in names)
    found = as_mapping(place.engine.aggregate(sampled(stage), salt=DRAWN))
    assert found == as_mapping(MemoryEngine(first, others=others).aggregate(sampled(stage), salt=DRAWN))
    assert found != as_mapping(MemoryEngine(first, others=others).aggregate(stage, salt=SALT))


def test_a_unit_outside_the_sample_leaves_no_trace_not_even_in_what_it_owns():
    """Neighbours differ in a unit, its rows and those it owns: where it is not kept, both have one answer.

    So who owns a key is decided over all units, kept or not. The near miss decides it among those that are kept: then a row
    of the unit that is gone passes to another, and the sample without that unit still tells of it.
    """
    rows = made(4)
    asked, _ = questions(local(rows))["owned"]
    (join,) = asked.table.joins
    stage = sampled(plan(asked.agg(n=nt.count()), spend=SPEND, rows_per_group=50).stage)
    engine = lambda visits, lines: MemoryEngine(visits, others=[lines])  # noqa: E731
    told, near_miss = 0, 0
    for turn in range(20):
        drawn = DRAWN + (turn << 64)
        _, secret = salt_and_secret(drawn, HALF)
        for gone in sorted({one["who"] for one in rows["visits"]} - {None}):
            if is_kept(gone, secret, HALF):
                continue
            visits = [one for one in rows["visits"] if one["who"] != gone]
            lines = [one for one in rows["lines"] if _owner(rows, join, one["visit"]) != gone]
            told += len(lines) < len(rows["lines"])
            with_it = engine(rows["visits"], rows["lines"]).aggregate(stage, salt=drawn)
            without = engine(visits, lines).aggregate(stage, salt=drawn)
            assert as_mapping(with_it) == as_mapping(without)
            kept = [one for one in rows["visits"] if one["who"] is None or is_kept(one["who"], secret, HALF)]
            fewer = [one for one in kept if one["who"] != gone]
            early = [engine(kept, rows["lines"]), engine(fewer, lines)]
            early = [as_mapping(one.aggregate(replace(stage, sampling_rate=None), salt=SALT)) for one in early]
            near_miss += early[0] != early[1]
    assert told > 50
    assert near_miss > 5


def _owner(rows, join, visit):
    from neartwin.engines.memory import owner

    return owner(rows["visits"], {"id": visit}, join, "who")


@pytest.mark.parametrize("rate", [HALF, TENTH, Fraction(1, 1000), Fraction(999, 1000)])
def test_the_share_of_units_that_is_kept_is_binomial_at_the_rate(duckdb_place, rate):
    units, pick = 40_000, random.SystemRandom()
    query = duckdb_place.visits([row(f"p{i}") for i in range(units)]).agg(people=nt.count_units())
    stage = sampled(plan(query, spend=SPEND).stage, rate)
    counts = [
        int(duckdb_place.engine.aggregate(stage, salt=pick.getrandbits(320) | 1 << 319).values["units"][0])
        for _ in range(4)
    ]
    low, high = binom.ppf([1e-11, 1 - 1e-11], units, float(rate))
    assert all(low <= count <= high for count in counts)
    wrong = binom.ppf([1e-11, 1 - 1e-11], units, min(1.0, float(rate) * 1.5 + 0.01))
    assert not all(wrong[0] <= count <= wrong[1] for count in counts) or rate > HALF


def test_two_units_and_two_secrets_are_kept_independently():
    """Of 10,000 units and pairs of secrets each of four outcomes comes in a quarter of the cases, but for 7 deviations."""
    secrets = [salt_and_secret(DRAWN + (turn << 64), HALF)[1] for turn in range(2)]
    one = [[is_kept(f"u{i}", secret, HALF) for i in range(10_001)] for secret in secrets]
    for a, b in ((one[0][:-1], one[1][:-1]), (one[0][:-1], one[0][1:])):
        for wanted in ((True, True), (True, False), (False, True), (False, False)):
            count = sum(pair == wanted for pair in zip(a, b, strict=True))
            assert abs(count - 2500) < 7 * math.sqrt(10_000 * 3 / 16)


def test_the_edge_of_the_rate_is_at_its_first_128_bits():
    digest = int(first_digits(HALF), 16)
    assert digest == 2**127
    third = Fraction(1, 3)
    assert int(first_digits(third), 16) == 2**128 // 3
    assert f"{2**128 // 3:032x}" + "0" * 32 >= first_digits(third)  # equal digits are not below
    assert f"{2**128 // 3 - 1:032x}" + "f" * 32 < first_digits(third)


@pytest.mark.parametrize("place", engines(spark=False))
def test_a_salt_without_a_secret_is_no_sample(request, place):
    place = request.getfixturevalue(place)
    query = place.visits([row("a")]).agg(people=nt.count_units())
    stage = sampled(plan(query, spend=SPEND).stage)
    for drawn in (SALT, 2**64 - 1, 1 << 64, 1 << 320):
        with pytest.raises(ValueError, match="fresh secret of 256 bits"):
            place.engine.aggregate(stage, salt=drawn)
        with pytest.raises(ValueError, match="fresh secret of 256 bits"):
            MemoryEngine([]).aggregate(stage, salt=drawn)


@pytest.mark.parametrize("rate", [0, 1, "1.5", -1, "1e-13"])
def test_a_rate_that_is_none_is_refused(rate):
    from neartwin.queries.sample import read_rate

    with pytest.raises(ParameterError, match="sampling_rate"):
        read_rate(rate)


def test_spellings_that_a_collation_makes_one_unit_are_kept_or_left_out_together():
    """The near miss hashes each row by its own spelling: then a unit of many spellings is almost always in the sample."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (who VARCHAR COLLATE NOCASE)")
    connection.execute("INSERT INTO t SELECT unnest(['Ab', 'aB', 'ab', 'AB']) || i FROM range(500) r(i)")
    rows = nt.table(connection, table="t", unit="who", name="spelled")
    stage = sampled(plan(rows.agg(n=nt.count(), people=nt.count_units()), spend=SPEND, rows_per_group=9).stage)
    values = DuckdbEngine().aggregate(stage, salt=DRAWN).values
    people, n = int(values["units"][0]), int(values["rows"][0])
    assert n == 4 * people
    assert abs(people - 250) < 7 * math.sqrt(125)
    _, secret = salt_and_secret(DRAWN, HALF)
    some = sum(any(is_kept(f"{name}{i}", secret, HALF) for name in ("Ab", "aB", "ab", "AB")) for i in range(500))
    assert some > 420


@pytest.mark.parametrize("place", engines(spark=False))
def test_units_of_a_period_are_sampled_period_by_period(request, place):
    place = request.getfixturevalue(place)
    rows = hostile_rows("periods", 400)
    query = place.visits(rows, unit=("who", nt.part("week start", "day"))).agg(n=nt.count(), people=nt.count_units())
    stage = sampled(plan(query, spend=SPEND, rows_per_group=3).stage)
    found = as_mapping(place.engine.aggregate(stage, salt=DRAWN))
    assert found == as_mapping(MemoryEngine(rows).aggregate(stage, salt=DRAWN))
    assert found[()] != as_mapping(MemoryEngine(rows).aggregate(replace(stage, sampling_rate=None), salt=SALT))[()]


def test_no_log_plan_or_page_of_a_cluster_has_the_secret_of_a_sample(spark_place, spark):
    from pathlib import Path

    rows = [row(f"p{i}") for i in range(300)]
    stage = sampled(plan(spark_place.visits(rows).agg(people=nt.count_units()), spend=SPEND).stage)
    secret = random.Random(11).getrandbits(256) | 1 << 255
    drawn = (secret << 64) | SALT
    kept = spark_place.engine.aggregate(stage, salt=drawn).values["units"].tolist()
    assert kept == MemoryEngine(rows).aggregate(stage, salt=drawn).values["units"].tolist()
    (log,) = Path(spark.conf.get("spark.eventLog.dir").removeprefix("file://")).iterdir()
    files = [log] if log.is_file() else [path for path in log.rglob("*") if path.is_file()]
    events = b"".join(path.read_bytes() for path in files)
    assert b"sha2(" in events  # the log does describe the statement
    assert first_digits(HALF).encode() in events
    assert f"{secret:064x}".encode() not in events
