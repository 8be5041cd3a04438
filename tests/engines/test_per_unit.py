"""Rows computed from one unit's rows: every engine gives the oracle's, whatever the values and the order of the rows."""

import contextlib
import json
import random
import re
from datetime import date, datetime
from math import inf, nan

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.accounting.budgets import approx
from neartwin.engines.sql.dialect import selected, with_parts
from neartwin.engines.sql.joins import table_rows
from neartwin.errors import QueryError, SchemaError
from neartwin.planning.planner import plan
from neartwin.queries.query import Rows
from neartwin.queries.wire.parse import form_of, question_of
from neartwin.tables.expressions import parsed
from neartwin.tables.per_unit import per_unit
from tests.engines.places import ARROW
from tests.oracles import memory

WHO = [None, "", "ada", "Ada", "ö", "o'hara", "bob"]
TOWNS = [None, "", "Ulm", "ulm", "Köln", "z"]
PAID = [None, nan, -0.0, 0.0, inf, -inf, 1.5, 2.005, -7.25, 1e308, 5e-324]
DAYS = [None, date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)]
SEEN = [None, *map(datetime.fromisoformat, ("2024-01-01T00:00:00", "2024-01-01T00:00:00.000001"))]
YEARS = [None, 0, -1, 2**63 - 1, -(2**63), 7, 7]


def made(seed, number=40):
    pick = random.Random(seed)
    values = {
        "who": WHO,
        "town": TOWNS,
        "year": YEARS,
        "paid": PAID,
        "open": [None, True, False],
        "day": DAYS,
        "seen": SEEN,
    }
    return [{name: pick.choice(some) for name, some in values.items()} for _ in range(number)]


AGGREGATES = {
    "n": "COUNT(*)",
    "towns": "COUNT(town)",
    "kinds": "COUNT(DISTINCT town)",
    "years": "SUM(year)",
    "mean_year": "AVG(CASE WHEN year BETWEEN -9 AND 9 THEN year END)",
    "total": "SUM(paid)",
    "mean": "AVG(paid)",
    "least": "MIN(paid)",
    "most": "MAX(paid)",
    "a": "MIN(town)",
    "z": "MAX(town)",
    "first": "MIN(day)",
    "last": "MAX(seen)",
    "some": "BOOL_OR(open)",
    "every": "BOOL_AND(open)",
    "twice": "SUM(CASE WHEN open THEN paid ELSE 1 END)",
    "newest": "ARG_MAX(town, seen)",
    "was_open": "ARG_MIN(open, day)",
    "of_paid": "COALESCE(ARG_MIN(year, paid), 0)",
}
OVER = "OVER (PARTITION BY who, open ORDER BY day DESC, paid)"
WINDOWS = {
    "nth": "ROW_NUMBER() OVER (PARTITION BY who ORDER BY seen)",
    "emptiest": "ROW_NUMBER() OVER (PARTITION BY who ORDER BY paid DESC NULLS FIRST, town NULLS FIRST)",
    "before": f"LAG(paid) {OVER}",
    "later": f"LEAD(town, 2) {OVER}",
    "earliest": "FIRST_VALUE(day) OVER (PARTITION BY who ORDER BY year)",
    "so_far": f"COUNT(*) {OVER}",
    "sum_so_far": f"SUM(paid) {OVER}",
    "top_so_far": f"MAX(year) {OVER}",
    "n": "COUNT(open) OVER (PARTITION BY who)",
    "any_open": "BOOL_OR(open) OVER (PARTITION BY who ORDER BY town)",
    "mean": "AVG(paid) OVER (PARTITION BY who)",
}
FRAMES = {
    "by rows": f"SUM(paid) {OVER[:-1]} ROWS UNBOUNDED PRECEDING)",
    "near": f"AVG(paid) {OVER[:-1]} ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
    "ahead": f"COUNT(town) {OVER[:-1]} ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING)",
    "least near": f"MIN(paid) {OVER[:-1]} ROWS BETWEEN CURRENT ROW AND CURRENT ROW)",
    "last": f"LAST_VALUE(day) {OVER[:-1]} RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    "first near": f"FIRST_VALUE(town) {OVER[:-1]} ROWS BETWEEN 5 PRECEDING AND 3 PRECEDING)",
    "before or else": f"LAG(year, 2, 7) {OVER}",
    "later or here": f"LEAD(town, 1, town) {OVER}",
    "so far again": f"COUNT(*) {OVER[:-1]} RANGE UNBOUNDED PRECEDING)",
}


def opened(place, rows):
    return place.visits(rows, columns={"paid": nt.bounds(-10, 1000, "0.01")})


def questions(visits):
    windows = visits.where("town IS NOT NULL")
    for name, text in WINDOWS.items():
        windows = windows.with_column(name, text)
    frames = visits
    for name, text in FRAMES.items():
        frames = frames.with_column(name, text)
    counts = visits.where("open").per_unit(mine="COUNT(*)", top="MAX(paid)")
    return {
        "by unit": visits.per_unit(**AGGREGATES),
        "by unit and more": visits.where("year > 0").per_unit("open", "month(day)", **AGGREGATES),
        "windows": windows,
        "frames": frames,
        "windows in windows": visits.with_column("b", WINDOWS["before"]).with_column(
            "c", "LAG(b) OVER (PARTITION BY who ORDER BY town)"
        ),
        "by unit of windows": visits.with_column("nth", WINDOWS["nth"])
        .where("nth < 3")
        .per_unit(n="COUNT(*)", m="MAX(nth)"),
        "joined": visits.join(counts, how="left"),
        "of joined": visits.join(counts).per_unit("town", n="SUM(mine)", t="MAX(top)"),
    }


@contextlib.contextmanager
def reading(place, stage):
    """The engine's places for a stage, and a way to run a text."""
    kind = type(place).__name__
    if kind == "DuckdbPlace":
        with place.engine._opened_places(stage) as (connection, places, _):
            yield places, lambda query: connection.execute(query.sql(dialect="duckdb")).fetchall()
    elif kind == "PostgresPlace":
        from neartwin.engines import postgres

        with postgres.reading(stage.table.source.url) as connection:
            yield (
                postgres._places(stage, connection, []),
                lambda query: connection.execute(query.sql(dialect="postgres")).fetchall(),
            )
    else:
        from neartwin.engines import spark

        with contextlib.ExitStack() as undone:
            session = spark._session_of(stage)
            places = spark._places(stage, session, undone)
            yield places, lambda query: [tuple(row) for row in session.sql(query.sql(dialect="spark")).collect()]


def as_texts(rows):
    return sorted(repr(tuple(rows_value(value) for value in row)) for row in rows)


def rows_value(value):
    return 0.0 if isinstance(value, float) and value == 0 else value


def compared(place, seed, kind):
    rows = made(seed)
    asked = questions(opened(place, rows))[kind]
    names = [name for name in asked.table.schema if name not in asked.table.computed]
    query = asked.agg(**{f"n{i}": nt.count(name) for i, name in enumerate(names)})
    stage = plan(query, spend=approx(10**9, "1e-6"), limits=nt.limits(max_rows_per_group=1)).stage
    aliases = {name: f"x{i}" for i, name in enumerate(sorted(names))}
    with reading(place, stage) as (places, run):
        parts = table_rows(asked.table, iter(places), places[0].dialect, aliases, "")
        found = run(with_parts(selected("typed", *aliases.values()), parts))
    leaves = 2 if "joined" in kind else 1
    expected = memory.table_rows(iter([rows] * leaves), asked.table, tuple(aliases))
    expected = [tuple(row[name] for name in aliases) for row in expected if row["who"] is not None]
    found = [row for row in found if row[list(aliases).index("who")] is not None]
    return as_texts(found), as_texts(expected)


KINDS = [
    "by unit",
    "by unit and more",
    "windows",
    "frames",
    "windows in windows",
    "by unit of windows",
    "joined",
    "of joined",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_duckdb_and_the_oracle_agree_to_the_last_bit(duckdb_place, seed, kind):
    found, expected = compared(duckdb_place, seed, kind)
    assert found == expected
    assert len(found) > 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_postgres_and_the_oracle_agree_to_the_last_bit(postgres_place, kind):
    found, expected = compared(postgres_place, 3, kind)
    assert found == expected


@pytest.mark.parametrize("kind", KINDS)
def test_spark_and_the_oracle_agree_to_the_last_bit(spark_place, kind):
    found, expected = compared(spark_place, 3, kind)
    assert found == expected


CONDITIONS = """
town IN (SELECT name FROM places WHERE big)
town IN (SELECT name FROM places WHERE name IS NOT NULL)
town IN (SELECT name FROM places)
town IN (SELECT name FROM places WHERE size > 100)
year = ANY (SELECT DISTINCT size FROM places WHERE size > 0)
town IN (SELECT name FROM places WHERE kind IN (SELECT kind FROM kinds WHERE good))
(town, year) IN (SELECT name, size FROM places)
year > (SELECT AVG(size) FROM places)
year <= (SELECT MAX(size) FROM places AS p WHERE p.name = visits.town AND p.kind <> 'b')
year > (SELECT COUNT(*) FROM places AS p WHERE p.name = visits.town)
EXISTS (SELECT 1 FROM places AS p JOIN kinds AS k ON p.kind = k.kind WHERE p.name = visits.town AND good)
town IN (SELECT w.town FROM visits AS w WHERE w.who = visits.who AND w.open)
who IN (SELECT name FROM places)
""".strip().splitlines()
PLACES = {"name": ["Ulm", "Ulm", "", "z", None], "size": [7, None, 0, -1, 3], "kind": ["a", "b", "a", None, "b"]}
PLACES["big"] = [True, False, None, True, False]


def shown(condition):
    """Its truth as a letter; whether a row of numbers is in a set is NULL in ways that are refused."""
    unknown = f" WHEN NOT ({condition}) THEN 'n'" * (not condition.startswith("("))
    return f"CASE WHEN {condition} THEN 'y'{unknown} ELSE '-' END"


def sets_compared(place):
    """Rows by the truth of all conditions, and how many DuckDB itself finds."""
    rows, places = made(5, 60), pa.table(PLACES)
    kinds = pa.table({"kind": ["a", "b"], "good": [True, False]})
    text = f"SELECT {' || '.join(map(shown, CONDITIONS))} AS truth, COUNT(*) AS n FROM visits LEFT JOIN places AS o "
    text += "ON visits.town = o.name AND o.size > 1 GROUP BY 1"
    others = {"places": nt.public_table(places, name="places"), "kinds": nt.public_table(kinds, name="kinds")}
    visits = place.visits(rows, name="visits")
    query = nt.from_sql(text, visits, tables=others)
    limits = nt.limits(max_rows_per_group=10**6, max_groups=1000)
    stage = plan(query, spend=approx(10**9, "1e-6"), limits=limits).stage
    found = place.engine.aggregate(stage, salt=1)
    again = question_of(json.loads(json.dumps(form_of(query, others))), visits, others)
    assert (
        plan(again, spend=approx(1, "1e-6"), limits=limits).digest
        == plan(query, spend=approx(1, "1e-6"), limits=limits).digest
    )
    with duckdb.connect() as connection:
        given = pa.Table.from_pylist([row for row in rows if row["who"] is not None], schema=ARROW)
        for name, table in {"visits": given, "places": places, "kinds": kinds}.items():
            connection.register(name, table)
        truth = connection.sql(text).fetchall()
    return dict(zip([key for (key,) in found.keys], found.values["rows"].tolist(), strict=True)), dict(truth)


@pytest.mark.slow
def test_sets_of_public_rows_are_true_false_and_null_as_in_duckdb(duckdb_place):
    found, truth = sets_compared(duckdb_place)
    assert found == truth
    assert all(set("yn") <= {key[place] for key in truth} for place in (0, 1, 4, 5, 7, 8, 9, 10, 11))
    assert all("-" in {key[place] for key in truth} for place in (0, 1, 2, 4, 5, 7, 8, 11))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgres", "spark"])
def test_sets_of_public_rows_are_the_same_on_all_engines(request, engine):
    found, truth = sets_compared(request.getfixturevalue(f"{engine}_place"))
    assert found == truth


def odd_public_rows(place):
    """Answers where nothing of a public table is read, its first column has no type, or one is called as rows of nobody are."""
    odd = pa.table({"A": [[1], [2], [3]], "NOBODY": [None, "Ulm", None], "name": ["Ulm", "z", None]})
    others = {"odd": nt.public_table(odd, name="odd"), "kinds": nt.public_table(pa.table({"q": [1, 2]}), name="kinds")}
    visits = place.visits(made(5, 60), name="visits")
    one = Rows(others["odd"].of_nobody).join(Rows(others["kinds"].of_nobody).per_unit(m="COUNT(*)"), on={})
    asked = [
        *(nt.from_sql(f"SELECT COUNT(*) AS n FROM visits {text}", visits, tables=others) for text in ODD),
        visits.join(one.per_unit(most="MAX(m)"), on={}).where("most = 2").agg(n=nt.count()),
    ]
    limits = nt.limits(max_rows_per_group=10**6)
    stages = [plan(query, spend=approx(10**9, "1e-6"), limits=limits).stage for query in asked]
    return [place.engine.aggregate(stage, salt=1).values["rows"].tolist() for stage in stages]


ODD = [
    "",
    "JOIN (SELECT COUNT(*) AS m FROM odd) AS t ON TRUE",
    "WHERE 3 = (SELECT COUNT(*) FROM odd)",
    "WHERE town = 'Ulm'",
    'WHERE town IN (SELECT name FROM odd WHERE "NOBODY" IS NULL)',
    'WHERE town IN (SELECT "NOBODY" FROM odd)',
]


def test_public_rows_count_whatever_is_read_of_them(duckdb_place):
    every, joined, counted, ulm, unnamed, named, most = odd_public_rows(duckdb_place)
    assert every == joined == counted == most
    assert ulm == unnamed == named != every
    with pytest.raises(QueryError, match="a column at least"):
        Rows(nt.public_table(pa.table(PLACES), name="places").of_nobody).per_unit()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgres", "spark"])
def test_public_rows_count_on_all_engines(request, duckdb_place, engine):
    assert odd_public_rows(request.getfixturevalue(f"{engine}_place")) == odd_public_rows(duckdb_place)


@pytest.mark.parametrize("kind", KINDS)
def test_removed_unit_leaves_the_computed_rows_of_all_others(duckdb_place, kind):
    """The premise of bounding: neighbours stay neighbours, however the rows are stored."""
    rows = made(5)
    asked = questions(opened(duckdb_place, rows))[kind]
    leaves, names = 2 if "joined" in kind else 1, tuple(sorted(set(asked.table.schema) - set(asked.table.computed)))

    def by_unit(given):
        found = {}
        for row in memory.table_rows(iter([given] * leaves), asked.table, names):
            found.setdefault(row["who"], []).append({name: row[name] for name in names})
        return {unit: as_texts(row.values() for row in mine) for unit, mine in found.items() if unit is not None}

    whole = by_unit(rows)
    assert by_unit(rows[::-1]) == whole
    for gone in WHO[1:]:
        fewer = by_unit([row for row in rows if row["who"] != gone])
        assert fewer == {unit: mine for unit, mine in whole.items() if unit != gone}
    assert len(whole) == len(WHO) - 1


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda v: v.with_column("n", "ROW_NUMBER() OVER (ORDER BY seen)"), "write PARTITION BY who, ..."),
        (lambda v: v.with_column("n", "COUNT(*) OVER (PARTITION BY town)"), "write PARTITION BY who, ..."),
        (lambda v: v.with_column("n", "LAG(paid) OVER (PARTITION BY who)"), "LAG needs an order"),
        (lambda v: v.with_column("n", "LAG(paid, 0) OVER (PARTITION BY who ORDER BY day)"), "a number of rows"),
        (
            lambda v: v.with_column("n", "SUM(year) OVER (PARTITION BY who ORDER BY day RANGE 2 PRECEDING)"),
            "frames count rows of one order",
        ),
        *(
            (lambda v, text=text: v.with_column("n", text), "frames count rows of one order")
            for text in (
                "SUM(year) OVER (PARTITION BY who ORDER BY day GROUPS 2 PRECEDING)",
                "SUM(year) OVER (PARTITION BY who ORDER BY day ROWS BETWEEN 2 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)",
                "SUM(year) OVER (PARTITION BY who ORDER BY day ROWS BETWEEN UNBOUNDED FOLLOWING AND UNBOUNDED FOLLOWING)",
                "SUM(year) OVER (PARTITION BY who ORDER BY day ROWS BETWEEN 9999999999 PRECEDING AND CURRENT ROW)",
                "SUM(year) OVER (PARTITION BY who ROWS 2 PRECEDING)",
                "LAG(year) OVER (PARTITION BY who ORDER BY day ROWS 2 PRECEDING)",
                "LAST_VALUE(year) OVER (PARTITION BY who ORDER BY day)",
            )
        ),
        (lambda v: v.with_column("n", "COUNT(DISTINCT town) OVER (PARTITION BY who)"), "write it with GROUP BY"),
        (lambda v: v.with_column("n", "COUNT(*) OVER (PARTITION BY who, paid)"), "PARTITION BY takes integers"),
        (lambda v: v.per_unit(n="MEDIAN(paid)"), "of one person's rows there are COUNT"),
        (lambda v: v.per_unit(n="SUM(paid * 2)", m="SUM(1 / paid)"), "needs bounds"),
        (lambda v: v.per_unit(n="SUM(year * 1.5)"), "needs bounds"),
        (lambda v: v.per_unit(town="COUNT(*)", who="COUNT(*)"), "is a column of the rows too"),
        (lambda v: v.per_unit("seen", n="COUNT(*)"), "group by integers"),
        (lambda v: nt.owned_by(v.per_unit(n="COUNT(*)"), on="n"), "own no rows of other tables"),
    ],
)
def test_computed_rows_that_could_tell_of_others_or_fail_are_refused(duckdb_place, ask, says):
    with pytest.raises((QueryError, SchemaError), match=re.escape(says)):
        ask(opened(duckdb_place, made(0)))


@pytest.mark.parametrize("more", [{"unit": nt.ROW}, {"unit": ("who", nt.date("day"))}])
def test_units_without_a_column_have_no_computed_rows(duckdb_place, more):
    with pytest.raises(QueryError, match=r"write|open|name"):
        duckdb_place.visits(made(0), **more).per_unit(n="COUNT(*)")


@pytest.mark.parametrize("kind", KINDS)
def test_computed_rows_have_a_written_form_of_one_digest(duckdb_place, kind):
    visits = opened(duckdb_place, made(0))
    query = questions(visits)[kind].agg(people=nt.count_distinct_units())
    again = question_of(json.loads(json.dumps(form_of(query))), visits)
    near = questions(visits)[kind].where("who <> 'x'").agg(people=nt.count_distinct_units())
    first, second, other = (
        plan(one, spend=approx(1, "1e-6"), limits=nt.limits(max_rows_per_group=1)).digest
        for one in (query, again, near)
    )
    assert first == second != other


def test_window_is_another_question_with_another_order_or_frame(duckdb_place):
    visits = opened(duckdb_place, made(0))
    orders = [
        f"ROW_NUMBER() OVER (PARTITION BY who ORDER BY {text})" for text in ("day", "day DESC", "year", "day, year")
    ]
    frames = ["", "ROWS UNBOUNDED PRECEDING", "ROWS 1 PRECEDING", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"]
    digests = set()
    for text in (*orders, *(f"SUM(year) OVER (PARTITION BY who ORDER BY day {frame})" for frame in frames)):
        asked = visits.with_column("n", text).where("n = 1")
        stage = plan(asked.agg(n=nt.count()), spend=approx(1, "1e-6"), limits=nt.limits(max_rows_per_group=1))
        digests.add(stage.digest)
    assert len(digests) == 8


def test_computed_rows_are_released_while_their_sources_are_as_they_were(tmp_path):
    path = tmp_path / "visits.parquet"
    pq.write_table(pa.table({"who": [1, 1, 2], "age": [3, 4, 5]}), path)
    visits = nt.table(path, unit="who")
    account = nt.open_ledger(tmp_path / "b.db").open(visits, nt.pure(9))
    renamed = Rows(per_unit(visits.table, (), {"person": "who"}, {"n": parsed("COUNT(*)")}))
    beside = visits.join(visits.per_unit(n="MAX(age)"), how="left")
    for rows in (renamed, beside):
        proposal = account.plan(rows.where("n > 0").agg(people=nt.count()), spend=nt.pure(1), limits=nt.limits(rows=1))
        assert account.release(proposal).keys == ((),)
    pq.write_table(pa.table({"who": [1, 1, 2], "age": ["3", "4", "5"]}), path)
    for rows in (visits.per_unit(n="MAX(age)"), beside):
        with pytest.raises(SchemaError, match="'age' is text now"):
            account.release(account.plan(rows.agg(people=nt.count()), spend=nt.pure(1), limits=nt.limits(rows=1)))


def test_rows_computed_within_each_other_have_names_that_postgres_takes(duckdb_place):
    visits = opened(duckdb_place, made(0))
    rows = visits.per_unit("town", n="COUNT(*)")
    for _ in range(11):
        rows = visits.join(rows, prefix="p_").per_unit("town", n="COUNT(*)")
    stage = plan(rows.agg(n=nt.count()), spend=approx(1, "1e-6"), limits=nt.limits(max_rows_per_group=1)).stage
    with reading(duckdb_place, stage) as (places, _):
        names = list(table_rows(stage.table, iter(places), places[0].dialect, {"who": "c0", "n": "c1"}, ""))
    assert max(map(len, names)) < 60
    assert len(set(names)) == len(names)
    with pytest.raises(QueryError, match="at most 12 deep"):
        rows.per_unit("town", n="COUNT(*)")


@pytest.mark.parametrize("kind", [float, int])
@pytest.mark.parametrize(
    "mean", ["AVG(stars) AS a FROM reviews GROUP BY who", "AVG(stars) OVER (PARTITION BY who) AS a FROM reviews"]
)
def test_means_of_a_person_lie_between_the_steps_of_her_values(tmp_path, mean, kind):
    rng = random.Random(5)
    rows = [(who, kind(rng.choice([1, 2, 5]))) for who in range(300) for _ in range(rng.choice([1, 2, 3, 7]))]
    who, stars = zip(*rows, strict=True)
    frame = pa.table({"who": who, "stars": stars})
    table = nt.table(frame, unit="who", name="reviews", columns={"stars": nt.bounds(1, 5, 1)})
    text = f"SELECT AVG(a) AS m, SUM(a) AS s FROM (SELECT who, {mean}) AS t"
    ((m, s),) = duckdb.sql(text.replace("reviews", "frame")).fetchall()
    with nt.open_ledger(tmp_path / "b.db") as book:
        answer = book.open(table, nt.pure(10**9)).sql(text, spend=nt.pure(10**8))
    assert answer["m"].values[0] == pytest.approx(m, abs=1e-6)
    assert answer["s"].values[0] == pytest.approx(s, abs=1e-3)
