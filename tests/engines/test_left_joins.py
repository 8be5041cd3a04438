"""After a LEFT JOIN on columns of one name, SQL is answered as DuckDB itself answers it, or refused."""

import random

import duckdb
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.engine_for import engine_for
from neartwin.errors import QueryError, SchemaError
from neartwin.planning.planner import plan
from neartwin.queries.wire.parse import form_of, question_of
from tests.engines.places import SALT
from tests.engines.test_joins import PEOPLE, SPEND

TOWNS = pa.schema([("town", pa.string()), ("key", pa.string()), ("state", pa.string()), ("code", pa.int64())])
ROADS = pa.schema([("town", pa.string()), ("code", pa.int64()), ("length", pa.int64())])
ON, USING = "people p LEFT JOIN towns t ON p.town = t.town", "people p LEFT JOIN towns t USING (town)"
ANSWERED = {
    "those that met none, by another column": f"SELECT p.town, COUNT(*) AS n FROM {ON} WHERE t.code IS NULL GROUP BY p.town",
    "those that met one, by another column": f"SELECT p.age, COUNT(*) AS n FROM {USING} WHERE t.code IS NOT NULL GROUP BY p.age",
    "by a key of another name": (
        "SELECT p.town, COUNT(*) AS n FROM people p LEFT JOIN towns t ON p.town = t.key WHERE t.key IS NULL GROUP BY p.town"
    ),
    "both names": (
        "SELECT t.town, COUNT(*) AS n FROM people p LEFT JOIN towns t ON p.town = t.key WHERE p.age IS NULL OR t.key IS NULL "
        "GROUP BY t.town"
    ),
    "grouped by what is NULL": f"SELECT t.state, COUNT(*) AS n FROM {ON} GROUP BY t.state",
    "a case": (
        f"SELECT CASE WHEN t.code IS NULL THEN 'none' ELSE 'one' END AS met, COUNT(*) AS n FROM {ON} "
        "GROUP BY CASE WHEN t.code IS NULL THEN 'none' ELSE 'one' END"
    ),
    "the column before": f"SELECT p.age, COUNT(*) AS n FROM {ON} WHERE p.town IS NULL GROUP BY p.age",
    "the column of both": f"SELECT town, COUNT(*) AS n FROM {USING} WHERE town IS NOT NULL GROUP BY town",
    "an inner join": (
        "SELECT t.town, COUNT(*) AS n FROM people p JOIN towns t ON p.town = t.town WHERE t.town IS NOT NULL GROUP BY t.town"
    ),
    "two left joins": (
        f"SELECT p.town, COUNT(*) AS n FROM {ON} LEFT JOIN roads r ON p.town = r.town AND t.code = r.code "
        "WHERE r.length IS NULL GROUP BY p.town"
    ),
    "none is met": f"SELECT p.age, COUNT(*) AS n FROM {ON} WHERE t.town IS NULL GROUP BY p.age",
    "is null, using": f"SELECT p.age, COUNT(*) AS n FROM {USING} WHERE t.town IS NULL GROUP BY p.age",
    "is not null": f"SELECT p.age, COUNT(*) AS n FROM {ON} WHERE t.town IS NOT NULL GROUP BY p.age",
    "a case of the key": f"SELECT CASE WHEN t.town IS NULL THEN 1 ELSE 0 END AS c, COUNT(*) AS n FROM {ON} GROUP BY c",
    "a condition": f"SELECT COUNT(CASE WHEN t.town IS NULL THEN 1 END) AS n FROM {ON}",
    "a count": f"SELECT COUNT(t.town) AS n FROM {ON}",
    "a group": f"SELECT t.town, COUNT(*) AS n FROM {USING} GROUP BY t.town",
    "in quotes": f'SELECT COUNT(*) AS n FROM {ON} WHERE "t"."town" IS NULL',
    "in parentheses": (
        "SELECT t.code, COUNT(*) AS n FROM people p JOIN (roads r LEFT JOIN towns t ON r.code = t.code) ON p.town = r.town "
        "GROUP BY t.code"
    ),
    "the unit": "SELECT COUNT(v.who) AS n FROM people p LEFT JOIN others v ON p.who = v.who",
    "the unit, using": "SELECT COUNT(*) AS n FROM people p LEFT JOIN others v USING (who, town) WHERE v.who IS NULL",
    "an equality after it": f"SELECT p.town, COUNT(*) AS n FROM {ON} JOIN roads r ON t.town = r.town GROUP BY p.town",
    "a left join after it": f"SELECT r.length, COUNT(*) AS n FROM {ON} LEFT JOIN roads r ON t.town = r.town GROUP BY r.length",
}  # fmt: skip


def made(seed):
    """Keys that are NULL, met by none, by one and by several."""
    pick = random.Random(seed)
    towns = [None, "", "Ulm", "Köln", "o'town"]
    people = [
        {"who": f"p{i}", "town": pick.choice([*towns, "nowhere"]), "age": pick.choice([None, 3, 70])} for i in range(60)
    ]
    listed = [
        {"town": pick.choice(towns), "key": pick.choice(towns), "state": pick.choice([None, "BW"]), "code": pick.randint(0, 2)}
        for _ in range(8)
    ]  # fmt: skip
    roads = [{"town": pick.choice(towns), "code": pick.randint(0, 3), "length": pick.choice([7, 9])} for _ in range(8)]
    rows = {"people": people, "others": people[:9], "towns": listed, "roads": roads}
    schemas = {"people": PEOPLE, "others": PEOPLE, "towns": TOWNS, "roads": ROADS}
    return {name: pa.Table.from_pylist(rows[name], schema=schema) for name, schema in schemas.items()}


def asked(text, given):
    people, others = (nt.table(given[name], unit="who", name="people") for name in ("people", "others"))
    tables = {name: nt.public_table(given[name], name=name) for name in ("towns", "roads")}
    return nt.from_sql(text, people, tables=tables | {"others": others})


def answer(query):
    stage = plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=10**6, max_groups=1000)).stage
    found = engine_for(stage.table.source).aggregate(stage, salt=SALT)
    counted = found.values.get("rows", next(iter(found.values.values())) // 2**24)  # the parts of a row
    return {key: number for key, number in zip(found.keys or [()], counted.tolist(), strict=True) if number}


def truth(text, given):
    with duckdb.connect() as connection:
        for name, table in given.items():
            connection.register(name, table)
        return {row[:-1]: row[-1] for row in connection.sql(text).fetchall()}


SEEDS = [[0], pytest.param([1, 2], marks=pytest.mark.slow)]


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("kind", ANSWERED)
def test_left_joins_answer_as_duckdb_does(kind, seeds):
    for seed in seeds:
        given = made(seed)
        expected = truth(ANSWERED[kind], given)
        assert answer(asked(ANSWERED[kind], given)) == expected
        assert expected


def test_answers_of_null_keys_have_a_written_form_of_one_digest():
    given = made(0)
    people, others = (nt.table(given[name], unit="who", name="people") for name in ("people", "others"))
    tables = {name: nt.public_table(given[name], name=name) for name in ("towns", "roads")} | {"others": others}
    for text in ANSWERED.values():
        query = nt.from_sql(text, people, tables=tables)
        assert question_of(form_of(query, tables), people, tables=tables) == query


@pytest.mark.parametrize("seeds", SEEDS)
def test_key_of_a_table_that_is_joined_itself_is_null_where_it_met_none(seeds):
    for seed in seeds:
        given = made(seed)
        people, others = (nt.table(given[name], unit="who", name="people") for name in ("people", "others"))
        both = others.join(nt.public_table(given["roads"], name="roads"), on="town", prefix="r_")
        inner = "(SELECT o.*, r.code, r.length FROM others o JOIN roads r USING (town))"
        for key in ("who", "length"):
            text = f"SELECT COUNT(*) AS n FROM people p LEFT JOIN {{}} b ON p.who = b.who WHERE b.{key} IS NULL"
            query = nt.from_sql(text.format("both"), people, tables={"both": both})
            assert answer(query) == truth(text.format(inner), given)


def test_near_miss_null_column_read_as_the_other_answers_differently():
    text = "SELECT COUNT(*) FROM people p LEFT JOIN towns t USING (town) WHERE {}.town IS NULL"
    for seed in range(3):
        given = made(seed)
        assert truth(text.format("t"), given) != truth(text.format("p"), given)


def test_python_has_no_such_column_under_any_prefix():
    given = made(0)
    people, towns = nt.table(given["people"], unit="who", name="people"), nt.public_table(given["towns"], name="towns")
    joined = people.join(towns, on="town", how="left", prefix="t_")
    assert joined.where("code IS NULL") is not None
    for condition in ("t_town IS NULL", "t.town IS NULL", "towns.town IS NULL"):
        with pytest.raises((QueryError, SchemaError), match="town"):
            joined.where(condition)
    with_key = people.join(towns, on="town", how="left", keys={"t_town": "town"})
    text = f"SELECT COUNT(*) AS n FROM {ON} WHERE t.town IS NULL"
    assert answer(with_key.where("t_town IS NULL").agg(n=nt.count())) == truth(text, given)
    for keys, says in (
        ({"age": "town"}, "both tables have a column 'age'"),
        ({"t": "none"}, "'none' is not in the table"),
    ):
        with pytest.raises(SchemaError, match=says):
            people.join(towns, on="town", how="left", keys=keys)


def test_columns_of_a_joined_table_are_its_own():
    """`b.code` is the roads' and not the towns', which came along as `t_code`."""
    given = made(1)
    both = nt.public_table(given["roads"], name="roads")
    others = nt.table(given["others"], unit="who", name="people").join(both, on="town").join(
        nt.public_table(given["towns"], name="towns"), on="town", prefix="t_"
    )  # fmt: skip
    inner = "(SELECT o.who, r.code, t.code AS t_code FROM others o JOIN roads r USING (town) JOIN towns t USING (town))"
    people = nt.table(given["people"], unit="who", name="people")
    for column in ("code", "t_code"):
        text = f"SELECT b.{column}, COUNT(*) AS n FROM people p JOIN {{}} b ON p.who = b.who GROUP BY b.{column}"
        query = nt.from_sql(text.format("both"), people, tables={"both": others})
        assert answer(query) == truth(text.format(inner), given) != {}


def test_nested_left_join_stays_apart_from_a_column_of_its_name():
    """The roads' `town` cannot become `b_town`, which is what the towns' key is called, and that is NULL where none is met."""
    given = made(2)
    given["towns"] = given["towns"].rename_columns(["b_town", "key", "state", "number"])
    people, others = (nt.table(given[name], unit="who", name="people") for name in ("people", "others"))
    towns = nt.public_table(given["towns"], name="towns")
    both = others.join(towns, on={"town": "b_town"}, how="left")
    text = "SELECT b.b_town, COUNT(*) AS n FROM people p JOIN {} b ON p.who = b.who GROUP BY b.b_town"
    query = nt.from_sql(text.format("both"), people, tables={"both": both})
    expected = dict(truth(text.format("(FROM others o LEFT JOIN towns t ON o.town = t.b_town)"), given))
    assert answer(query) == expected
    assert (None,) in expected
    tables = {"both": others, "towns": towns}
    assert question_of(form_of(query, tables), people, tables=tables) == query
