"""A joined table on the right of a join: the rows that DuckDB itself finds, or a refusal."""

import random

import duckdb
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.engine_for import engine_for
from neartwin.errors import QueryError, SchemaError
from neartwin.planning.planner import plan
from tests.engines.places import SALT
from tests.engines.test_joins import PEOPLE, SPEND, TOWNS, VISITS, local, made

_LEFT_INSIDE = (
    "people p JOIN (visits v JOIN towns t ON v.place = t.name LEFT JOIN taxes x ON t.state = x.state) ON p.who = v.who"
)
_USING = "people p JOIN (visits v JOIN towns t ON v.place = t.name JOIN taxes x USING (state)) ON p.who = v.who"
NESTED = {  # python, SQL, and the same in plain SQL: units equated, rows without one left out
    "public in public": (
        None,
        "people p JOIN (towns t JOIN taxes x ON t.state = x.state) ON p.town = t.name",
        "p.who IS NOT NULL",
    ),
    "private with public": (
        lambda people, visits, towns, taxes: people.join(visits.join(towns, on={"place": "name"}).join(taxes, on="state")),
        "people p JOIN (visits v JOIN towns t ON v.place = t.name JOIN taxes x ON t.state = x.state) ON p.who = v.who",
        "p.who IS NOT NULL",
    ),
    "an equality with the inner table": (
        lambda people, visits, towns, taxes: people.join(
            visits.join(towns, on={"place": "name"}).join(taxes, on="state"), on={"age": "least"}
        ),
        f"{_USING} AND p.age = x.least",
        "p.who IS NOT NULL",
    ),
    "left inside": (
        lambda people, visits, towns, taxes: people.join(
            visits.join(towns, on={"place": "name"}).join(taxes, on="state", how="left")
        ),
        _LEFT_INSIDE,
        "p.who IS NOT NULL",
    ),
    "left inside, and asked for from outside": (
        lambda people, visits, towns, taxes: people.join(
            visits.join(towns, on={"place": "name"}).join(taxes, on="state", how="left"), on={"age": "least"}
        ),
        f"{_LEFT_INSIDE} AND p.age = x.least",
        "p.who IS NOT NULL",
    ),
    "left of joined ones": (
        lambda people, visits, towns, _: people.join(visits.join(towns, on={"place": "name"}), how="left"),
        "people p LEFT JOIN (visits v JOIN towns t ON v.place = t.name) ON p.who = v.who",
        "p.who IS NOT NULL",
    ),
    "left of joined ones, each asked for from outside": (
        lambda people, visits, towns, taxes: people.join(
            visits.join(towns, on={"place": "name"}).join(taxes, on="state"), on={"who": "who", "age": "least"}, how="left"
        ),
        (
            "people p LEFT JOIN (visits v JOIN towns t ON v.place = t.name JOIN taxes x ON t.state = x.state) "
            "ON p.who = v.who AND p.age = x.least"
        ),
        "p.who IS NOT NULL",
    ),
    "left of public ones, the keys of one name": (
        lambda people, _, towns, taxes: people.join(towns, on={"town": "name"}, how="left").join(
            taxes, on="state", how="beside", prefix="x_"
        ),
        "people p LEFT JOIN (towns t JOIN taxes x ON t.state = x.state) ON p.town = t.name",
        "p.who IS NOT NULL",
    ),
    "left of one with a left inside": (
        lambda people, visits, towns, taxes: people.join(
            visits.join(towns, on={"place": "name"}).join(taxes, on="state", how="left"), how="left"
        ),
        "people p LEFT JOIN (visits v JOIN towns t ON v.place = t.name LEFT JOIN taxes x ON t.state = x.state) ON p.who = v.who",
        "p.who IS NOT NULL",
    ),
    "left of one with a left inside that is asked for": (
        lambda people, visits, towns, taxes: people.join(
            visits.join(towns, on={"place": "name"}).join(taxes, on="state", how="left"), on={"age": "least"}, how="left"
        ),
        (
            "people p LEFT JOIN (visits v JOIN towns t ON v.place = t.name LEFT JOIN taxes x ON t.state = x.state) "
            "ON p.who = v.who AND p.age = x.least"
        ),
        "p.who IS NOT NULL",
    ),
    "left of a left": (
        lambda people, visits, towns, _: people.join(visits.join(towns, on={"place": "name"}, how="left"), how="left"),
        "people p LEFT JOIN (visits v LEFT JOIN towns t ON v.place = t.name) ON p.who = v.who",
        "p.who IS NOT NULL",
    ),
    "left of joined ones, and another after": (
        lambda people, visits, towns, taxes: people.join(visits.join(towns, on={"place": "name"}), how="left").join(
            taxes, on="state"
        ),
        "people p LEFT JOIN (visits v JOIN towns t ON v.place = t.name) ON p.who = v.who JOIN taxes x ON t.state = x.state",
        "p.who IS NOT NULL",
    ),
    "a left of joined ones within": (
        lambda people, visits, towns, taxes: people.join(
            visits.join(towns, on={"place": "name"}, how="left").join(taxes, on="state", how="beside", prefix="x_")
        ),
        (
            "people p JOIN (SELECT v.* FROM visits v LEFT JOIN (towns t JOIN taxes x ON t.state = x.state) ON v.place = t.name) "
            "w ON p.who = w.who"
        ),
        "p.who IS NOT NULL",
    ),
    "left, in groups in groups": (
        None,
        "people p LEFT JOIN (taxes x JOIN (towns t JOIN visits v ON v.place = t.name) ON t.state = x.state) ON v.who = p.who",
        "p.who IS NOT NULL",
    ),
    "twice, and the other way round": (
        None,
        "people p JOIN (taxes x JOIN (towns t JOIN visits v ON v.place = t.name) ON t.state = x.state) ON v.who = p.who",
        "p.who IS NOT NULL",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_joined_table_on_the_right_has_the_rows_that_duckdb_itself_finds(seed, kind):
    rows, pick = made(seed), random.Random(seed)
    for visit in rows["visits"]:
        visit["place"] = pick.choice([None, "", "Ulm", "Köln"])
    rows["taxes"] = [{"state": state, "least": least} for state in ("BW", "BY", None) for least in (None, 3, 3)]
    visited = VISITS.append(pa.field("place", pa.string()))
    taxed = pa.schema([("state", pa.string()), ("least", pa.int64())])
    given = {
        name: pa.Table.from_pylist(rows[name], schema=schema)
        for name, schema in {"people": PEOPLE, "visits": visited, "towns": TOWNS, "taxes": taxed}.items()
    }
    people, visits = (nt.table(given[name], unit="who", name="people") for name in ("people", "visits"))
    towns, taxes = (nt.public_table(given[name], name=name) for name in ("towns", "taxes"))
    in_python, text, condition = NESTED[kind]
    others = {"visits": visits, "towns": towns, "taxes": taxes}
    sql = f"SELECT p.town, COUNT(*) AS n FROM {text} GROUP BY p.town"
    asked = [nt.from_sql(sql, people, tables=others)] if "SELECT" not in text else []
    if in_python is not None:
        asked.append(in_python(people, visits, towns, taxes).group_by("town").agg(n=nt.count()))
    with duckdb.connect() as connection:
        for name, table in given.items():
            connection.register(name, table)
        truth = connection.sql(f"SELECT p.town, count(*) FROM {text} WHERE {condition} GROUP BY p.town").fetchall()
    assert truth or seed
    for query in asked:
        stage = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=10**6, max_groups=1000)).stage
        found = engine_for(stage.table.source).aggregate(stage, salt=SALT)
        assert dict(zip([key[0] for key in found.keys], found.values["rows"].tolist(), strict=True)) == dict(truth)


def test_a_nested_join_renames_moves_conditions_and_keeps_bounds():
    people, visits, towns = local(made(1))["people"], local(made(1))["visits"], local(made(1))["towns"]
    first = nt.table(people, unit="who", name="people")
    second = nt.table(people.append_column("id", pa.array(range(len(people)), pa.int64())), unit="who", name="people")
    public = nt.public_table(towns, name="towns", columns={"rent": nt.bounds(0, 9)})
    nested = second.where("age > 5").join(public, on={"town": "name"}).where("state = 'BW'")
    both = first.join(nested, prefix="o_")
    assert {"o_town", "o_age", "id", "state", "rent"} <= set(both.table.schema)
    assert both.table.columns["rent"] == nt.bounds(0, 9)
    (join,) = both.table.joins
    assert join.per_unit.conditions == nested.conditions
    moved = first.join(second.where("age > 5"), prefix="o_")
    assert [condition.columns for condition in moved.conditions] == [{"o_age"}]
    assert visits.num_rows


def test_inexpressible_nested_join_is_refused():
    tables = local(made(1))
    people, visits = (nt.table(tables[name], unit="who", name="people") for name in ("people", "visits"))
    towns = nt.public_table(tables["towns"], name="towns")
    lines = nt.table(tables["lines"], unit=nt.owned_by(visits, on={"id": "visit"}), name="lines")
    with pytest.raises(QueryError, match="cannot be joined beside another"):
        people.join(visits, how="left").join(lines, on={"id": "visit"}, how="beside")
    with pytest.raises(QueryError, match="start with that table"):  # which rows are left there is the question's
        people.join(visits.join(towns, on={"who": "name"})).join(lines, on={"id": "visit"})
    with pytest.raises(QueryError, match="start with that table"):  # a unit without visits has no row there
        people.join(visits, how="left").join(lines, on={"id": "visit"})
    with pytest.raises(SchemaError, match="'nothing' is not in the table"):
        people.join(visits.join(towns, on={"who": "name"}), on={"town": "nothing"})
    others = {"visits": visits, "towns": towns, "lines": lines}
    for text, says in (
        ("people p LEFT JOIN (visits v JOIN lines l ON v.id = l.visit) ON p.who = v.who", "beside|start with"),
        (
            "people p JOIN (visits v LEFT JOIN (towns t JOIN towns u ON t.name = u.name) ON v.who = t.name) ON p.who = v.who",
            "within parentheses is not understood",
        ),
        ("people p JOIN (visits v JOIN towns t ON v.who = t.name) USING (who)", "qualified columns"),
        ("people p JOIN (visits v JOIN towns t ON v.who = t.name) ON who = v.who", "qualified columns"),
        ("people p JOIN (visits v JOIN towns t ON v.who = p.town) ON p.who = v.who", "qualified columns|outside"),
        ("people p JOIN (visits v CROSS JOIN towns t) ON p.who = v.who", "not understood|tie"),
        ("people p JOIN (visits v JOIN secrets s ON v.who = s.name) ON p.who = v.who", "one of the tables given"),
        ("people p JOIN (visits v JOIN visits v ON v.id = v.id) ON p.who = v.who", "two tables"),
        ("people p JOIN (visits v JOIN lines l ON v.day = l.item) ON p.who = v.who", "which is declared; join on that"),
        (
            "people p JOIN (towns t JOIN visits v ON v.id = v.id) ON p.town = t.name",
            "ties|not an equality of a column of 'v'",
        ),
    ):
        with pytest.raises(QueryError, match=says):
            nt.from_sql(f"SELECT COUNT(*) AS n FROM {text}", people, tables=others)


def test_near_miss_no_chain_has_the_rows_of_a_left_join_of_joined_tables():
    """Who has visits, but to no town, is kept once with NULL: two left joins keep each visit, and an inner one drops them."""
    people = nt.table(pa.table({"who": ["a", "b"], "age": [1, 2]}), unit="who", name="people")
    visits = nt.table(pa.table({"who": ["a", "a", "b"], "place": ["x", "y", "Ulm"]}), unit="who", name="people")
    towns = nt.public_table(pa.table({"name": ["Ulm"], "state": ["BW"]}), name="towns")

    def counted(rows):
        stage = plan(
            rows.group_by("state").agg(n=nt.count()), spend=SPEND, limits=nt.limits(max_rows_per_group=9, max_groups=9)
        ).stage
        found = engine_for(stage.table.source).aggregate(stage, salt=SALT)
        return dict(zip([key[0] for key in found.keys], found.values["rows"].tolist(), strict=True))

    met = people.join(visits, how="left")
    assert counted(met.join(towns, on={"place": "name"}, how="beside")) == {"BW": 1, None: 1}
    assert counted(met.join(towns, on={"place": "name"}, how="left")) == {"BW": 1, None: 2}
    assert counted(met.join(towns, on={"place": "name"})) == {"BW": 1}
