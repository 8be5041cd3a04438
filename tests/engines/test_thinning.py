"""Rows that are left out before they are counted are of no kept group: the answer is the oracle's, thinned or not."""

import random
from dataclasses import replace

import duckdb
import pytest
from sqlglot import exp

import neartwin as nt
from neartwin.engines import duckdb as engine
from neartwin.engines.duckdb import DuckdbDialect, DuckdbEngine
from neartwin.engines.sql import statement
from neartwin.engines.sql.bounding import are_many, can_thin, thinned
from neartwin.engines.sql.dialect import selected, with_parts
from neartwin.planning.planner import plan
from neartwin.planning.stage import ContributionSizes
from tests.engines.places import SALT
from tests.engines.test_same_answers import SPEND, answers, hostile_rows

ASKED = {"people": nt.count_distinct_units(), "n": nt.count(), "paid": nt.sum("paid", -50, 50, "1/256")}


def thin(_connection, _stage, places):
    return [replace(place, dialect=DuckdbDialect(thins=True)) for place in places]


def many(units, rows, towns):
    pick = random.Random(units)
    return [
        {"who": "", "year": pick.randrange(units), "town": f"t{pick.randrange(towns)}", "paid": pick.uniform(-9, 9), "open": True}
        for _ in range(rows)
    ]  # fmt: skip


@pytest.mark.parametrize("cap", [1, 3, 20])
@pytest.mark.parametrize(
    "keys", [None, ["Ulm", None, "nowhere", "t3", "t5", *(f"t{i}" for i in range(40, 90))]], ids=["unknown", "public"]
)
def test_thinned_rows_give_the_oracles_answer(monkeypatch, duckdb_place, cap, keys):
    monkeypatch.setattr(engine, "_thinning", thin)
    rows = hostile_rows("thin", 400) + many(9, 2500, 200)
    query = duckdb_place.visits(rows, unit="year").group_by("town", keys=keys).agg(**ASKED)
    found, expected = answers(
        duckdb_place, rows, plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=1, max_groups=cap))
    )
    assert found == expected
    assert found


def test_finders_are_the_same_thinned(monkeypatch):
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE visits AS SELECT hash(i) % 40 AS who, hash(i, 1) % 300 AS page FROM range(20000) t(i)"
    )
    rows = nt.table(connection, table="visits", unit="who").group_by("page").agg(n=nt.count_distinct_units())
    stage = plan(rows, spend=SPEND, limits=nt.limits(max_groups=9, max_discovered_groups=4)).stage
    plain = DuckdbEngine().aggregate(stage, salt=SALT)
    monkeypatch.setattr(engine, "_thinning", thin)
    found = DuckdbEngine().aggregate(stage, salt=SALT)
    (streamed,) = DuckdbEngine().batches(stage, salt=SALT, groups=10**6)
    for name, values in plain.values.items():
        expected = dict(zip(plain.keys, values.tolist(), strict=True))
        assert expected == dict(zip(found.keys, found.values[name].tolist(), strict=True))
        assert expected == dict(zip(streamed.keys, streamed.values[name].tolist(), strict=True))


def test_near_miss_one_place_too_few_loses_kept_groups(monkeypatch, duckdb_place):
    """The near miss: rows with at most K - 2 places before their own, where K - 1 may be."""
    rows = many(9, 2500, 200)
    query = duckdb_place.visits(rows, unit="year").group_by("town").agg(**ASKED)
    made = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=1, max_groups=5))
    monkeypatch.setattr(engine, "_thinning", thin)
    monkeypatch.setattr(statement, "thinned", lambda rows, hashed, groups: thinned(rows, hashed, groups - 1))
    found, expected = answers(duckdb_place, rows, made)
    assert found != expected


def test_the_first_rows_tell_whether_units_are_in_many_groups(monkeypatch):
    texts = []
    monkeypatch.setattr(engine, "text_of", lambda *asked, **more: texts.append(sql_text(*asked, **more)) or texts[-1])
    for groups, thins in ((500, True), (20, False)):
        connection = duckdb.connect()
        connection.execute(
            f"CREATE TABLE visits AS SELECT hash(i) % 100 AS who, hash(i, 1) % {groups} AS page FROM range(30000) t(i)"
        )
        rows = nt.table(connection, table="visits", unit="who")
        made = plan(
            rows.group_by("page").agg(n=nt.count_distinct_units()), spend=SPEND, limits=nt.limits(max_groups=10)
        )
        found = DuckdbEngine().aggregate(made.stage, salt=SALT)
        assert ("bit_or" in texts[-1].lower()) == thins
        assert int(found.values["units"].sum()) == 1000
    assert are_many(3001, 100, 10)
    assert not are_many(3000, 100, 10)
    assert not are_many(999, 0, 10)


sql_text = engine.text_of


def test_only_groups_that_are_kept_by_hash_alone_can_be_thinned():
    rows = nt.table(_table(), unit="who", name="pages").group_by("page")
    stage = plan(rows.agg(n=nt.count_distinct_units()), spend=SPEND, limits=nt.limits(max_groups=9)).stage
    assert can_thin(stage)
    for odd in (
        {"rows_per_group": 2},
        {"groups_per_unit": None},
        {"groups_per_unit": 21},
        {"sizes": ContributionSizes((1, 2), 1)},
    ):
        assert not can_thin(replace(stage, **odd))
    text = nt.table(_table(), unit="name", name="pages").group_by("page")
    assert not can_thin(plan(text.agg(n=nt.count_distinct_units()), spend=SPEND, limits=nt.limits(max_groups=9)).stage)


def _table():
    import pyarrow as pa

    return pa.table({"who": [1], "page": [2], "name": ["a"]})


def test_places_rise_with_the_hash_over_its_whole_range():
    hashes = sorted({2**i + j for i in range(64) for j in (-1, 0, 1) if 2**i + j < 2**64} | {2**64 - 1, 2**64 - 2**10})
    values = exp.select("*").from_(
        "(VALUES " + ", ".join(f"({i}, {h}::UBIGINT)" for i, h in enumerate(hashes)) + ") v(u, h)"
    )
    query = with_parts(selected("kept", "u", "s"), thinned(values, exp.column("h"), 1)).order_by("u")
    found = duckdb.sql(query.sql(dialect="duckdb")).fetchall()
    places = [bit.bit_length() - 1 for _, bit in found]
    assert [u for u, _ in found] == list(range(len(hashes)))
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, 59)
    assert all(bit == 1 << place for (_, bit), place in zip(found, places, strict=True))
