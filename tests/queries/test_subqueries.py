"""WITH and subqueries: what they mean, and the refusal of those that read many people's rows."""

import random
import re
from datetime import date

import duckdb
import pyarrow as pa
import pyarrow.compute
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import QueryError
from neartwin.planning.planner import plan

VISITS = pa.table({"who": [1, 2, 3], "town": ["Ulm", "Bonn", "Ulm"], "paid": [1.0, 2, 3], "age": [3, 4, 5]})
TOWNS = pa.table({"town": ["Ulm"], "state": ["BW"]})


@pytest.fixture(scope="module")
def visits():
    return nt.table(VISITS, unit="who", name="visits", columns={"paid": nt.bounds(0, 10)})


@pytest.fixture(scope="module")
def asked(visits):
    towns = nt.public_table(TOWNS, name="towns")
    return lambda text: nt.from_sql(text, visits, tables={"towns": towns})


def digest(query):
    return plan(query, spend=nt.approx(1, "1e-6"), limits=nt.limits(max_rows_per_group=1, max_groups=1)).digest


SAME = {
    "SELECT COUNT(*) AS n FROM (SELECT * FROM visits WHERE paid > 1) AS virtual_table": (
        "SELECT COUNT(*) AS n FROM visits WHERE paid > 1"
    ),
    "SELECT t.town AS town, COUNT(*) AS n FROM (SELECT town FROM visits v WHERE v.age > 3 ORDER BY 1) t GROUP BY t.town": (
        "SELECT town, COUNT(*) AS n FROM visits WHERE age > 3 GROUP BY town"
    ),
    "WITH a AS (SELECT who, paid * 2 AS twice, town FROM visits), b AS (SELECT * FROM a WHERE twice > 1) "
    "SELECT town, AVG(twice + 1) AS m FROM b GROUP BY town ORDER BY m": (
        "SELECT town, AVG((paid * 2) + 1) AS m FROM visits WHERE paid * 2 > 1 GROUP BY town"
    ),
    "WITH a(x, y) AS (SELECT town, paid FROM visits) SELECT x AS town, SUM(y) AS s FROM a GROUP BY x": (
        "SELECT town AS town, SUM(paid) AS s FROM visits GROUP BY town"
    ),
    "SELECT state, COUNT(*) AS n FROM (SELECT t.state, v.paid FROM visits v JOIN towns t USING (town)) q "
    "WHERE q.paid > 1 GROUP BY state": (
        "SELECT state, COUNT(*) AS n FROM visits JOIN towns USING (town) WHERE paid > 1 GROUP BY state"
    ),
    "SELECT state, COUNT(*) AS n FROM (SELECT * FROM visits WHERE age > 3) v "
    "JOIN (SELECT * FROM towns) t ON v.town = t.town GROUP BY state": (
        "SELECT state, COUNT(*) AS n FROM visits JOIN towns ON visits.town = towns.town WHERE age > 3 GROUP BY state"
    ),
    "SELECT COUNT(DISTINCT p) AS n FROM (SELECT who AS p FROM visits) t": "SELECT COUNT(DISTINCT who) AS n FROM visits",
    "WITH p AS (SELECT 1 AS low, 3 AS age) SELECT town, COUNT(*) AS n FROM visits CROSS JOIN p WHERE paid > low AND "
    "visits.age > p.age GROUP BY town": "SELECT town, COUNT(*) AS n FROM visits WHERE paid > 1 AND age > 3 GROUP BY town",
    "WITH p(low) AS (SELECT 1), q AS (SELECT low + 1 AS high FROM p) SELECT SUM(paid) AS s FROM p JOIN visits v ON "
    "v.paid > p.low, q WHERE age < (SELECT 5) AND paid < high": (
        "SELECT SUM(paid) AS s FROM visits WHERE (age < 5 AND paid < 1 + 1) AND paid > 1"
    ),
    "WITH p(low, home) AS (VALUES (1, 'Ulm')) SELECT COUNT(*) AS n FROM visits, p WHERE paid > low AND town = home": (
        "SELECT COUNT(*) AS n FROM visits WHERE paid > 1 AND town = 'Ulm'"
    ),
    "WITH p AS (SELECT 2 AS k) SELECT town, SUM(paid) / MAX(k) AS s FROM visits, p GROUP BY town": (
        "SELECT town, SUM(paid) / 2 AS s FROM visits GROUP BY town"
    ),
    "SELECT COUNT(*) AS n FROM visits CROSS JOIN (VALUES (1)) AS p(low) WHERE paid > p.low": (
        "SELECT COUNT(*) AS n FROM visits WHERE paid > 1"
    ),
    "WITH p AS (SELECT 'Ulm' AS home) SELECT COUNT(*) AS n FROM (SELECT visits.* FROM visits, p WHERE town = home) AS t": (
        "SELECT COUNT(*) AS n FROM visits WHERE town = 'Ulm'"
    ),
}


@pytest.mark.parametrize("text", SAME)
def test_subquery_of_single_rows_is_the_question_without_it(asked, text):
    assert digest(asked(text)) == digest(asked(SAME[text]))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT COUNT(*) FROM (SELECT town FROM visits) t WHERE paid > 1", "add paid to its SELECT"),
        ("SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 5) t", "ORDER BY and LIMIT outside"),
        ("SELECT COUNT(*) FROM ((SELECT * FROM visits) LIMIT 5) t", "ORDER BY and LIMIT outside"),
        ("SELECT COUNT(*) FROM (SELECT * FROM visits) TABLESAMPLE 10%", "no safer than all"),
        ("SELECT COUNT(*) FROM (SELECT town, paid FROM visits) PIVOT (SUM(paid) FOR town IN ('Ulm'))", "FILTER"),
        ("SELECT COUNT(*) FROM visits PIVOT (SUM(paid) FOR town IN ('Ulm'))", "FILTER"),
        ("WITH RECURSIVE a AS (SELECT * FROM visits) SELECT COUNT(*) FROM a", "without RECURSIVE"),
        ("SELECT COUNT(*) FROM (SELECT 1 AS one) t", "FROM a table inside"),
        ("SELECT COUNT(*) FROM visits, (SELECT 1 AS one WHERE FALSE) t", "no join condition"),
        ("SELECT COUNT(*) FROM visits, (SELECT 1 AS one UNION ALL SELECT 2) t", "without UNION"),
        ("SELECT COUNT(*) FROM visits, (VALUES (1), (2)) AS p(low) WHERE age > low", "no join condition|understood"),
        ("SELECT COUNT(*) FROM visits, (SELECT 4 AS age) p WHERE age > 3", "several tables; write table.age"),
        ("SELECT COUNT(*) FROM (SELECT 4 age) p JOIN visits ON paid > age", "several tables; write table.age"),
        ("SELECT COUNT(*) FROM visits, (SELECT UNNEST([1, 2]) AS one) t WHERE age > one", "not allowed in a row"),
        (
            "SELECT COUNT(*) FROM (SELECT who, ARG_MIN(town, age, 2) AS t FROM visits GROUP BY who) t",
            "ARG_MIN, ARG_MAX, over",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT town, ARG_MIN(age, paid) AS a FROM visits GROUP BY town) t",
            "must be of one person",
        ),
        ("SELECT COUNT(*) FROM (SELECT town, paid FROM visits) t (x)", "2 columns and 1 names"),
        ("SELECT COUNT(*) FROM (SELECT * EXCLUDE (paid) FROM visits) t", "a star stands alone"),
    ],
)
def test_subquery_that_cannot_be_put_in_place_is_refused_with_a_line(asked, text, says):
    with pytest.raises(QueryError, match=says):
        asked(text)


def test_names_that_stand_for_more_and_more_subqueries_are_refused(asked):
    names = [f"t{i} AS (SELECT * FROM t{i - 1} JOIN t{i - 1} AS u USING (who))" for i in range(1, 40)]
    with pytest.raises(QueryError, match="more than 64"):
        asked(f"WITH t0 AS (SELECT * FROM visits), {', '.join(names)} SELECT COUNT(*) FROM t39")


def made(seed):
    pick = random.Random(seed)
    days = [None, date(2024, 2, 29), date(2024, 3, 1), date(2024, 3, 9)]
    visits = [
        {
            "who": pick.randrange(25),
            "town": pick.choice([None, "", "Ulm", "Bonn"]),
            "day": pick.choice(days),
            "age": pick.choice([None, 3, 4, 70]),
        }
        for _ in range(80)
    ]
    doses = [
        {"who": pick.randrange(30), "drug": pick.choice(["a", "b", None]), "dose": pick.randrange(9)} for _ in range(50)
    ]
    return pa.Table.from_pylist(visits), pa.Table.from_pylist(doses)


BY_PERSON = (
    """
FROM (SELECT who, COUNT(*) AS n, MAX(age) AS top FROM visits WHERE age > 3 GROUP BY who) AS t WHERE top > 4 OR n > 2
FROM (SELECT who w, town, COUNT(*) FROM visits GROUP BY 1, town HAVING COUNT(*) > 1 AND MIN(age) < 5) AS t (w, u, n) WHERE n < 9
FROM (SELECT who, MAX(day) - MIN(day) AS span FROM visits GROUP BY who) t WHERE t.span <= 1
FROM (SELECT DISTINCT who, town FROM visits) t
FROM (SELECT d.who, d.drug, SUM(d.dose) AS s FROM visits v JOIN doses d ON v.who = d.who GROUP BY d.who, d.drug) t WHERE s > 5
FROM (SELECT n, COUNT(*) m FROM (SELECT who, town, COUNT(*) n FROM visits GROUP BY who, town) a GROUP BY who, n) b WHERE m > 1
FROM visits JOIN (SELECT who, MAX(dose) AS top FROM doses GROUP BY who) d USING (who) WHERE d.top > age
FROM visits v LEFT JOIN (SELECT * FROM doses WHERE drug = 'a') d ON v.who = d.who WHERE d.drug IS NULL
FROM visits WHERE EXISTS (SELECT 1 FROM doses d WHERE d.who = visits.who AND d.drug = 'a')
FROM visits v WHERE NOT EXISTS (SELECT * FROM visits w WHERE w.who = v.who AND w.town = v.town AND w.age > 4) AND age > 3
FROM visits WHERE who IN (SELECT who FROM doses WHERE dose > 5) OR age = 70
FROM visits WHERE who NOT IN (SELECT who FROM visits GROUP BY who HAVING COUNT(*) > 3)
FROM (SELECT * FROM visits WHERE who IN (SELECT who FROM doses)) t WHERE EXISTS (SELECT 1 FROM doses d WHERE t.who = d.who)
FROM (SELECT who, age - LAG(age) OVER (PARTITION BY who ORDER BY age) AS more FROM visits) t WHERE more > 0
FROM (SELECT LAG(age, 2, 4) OVER (PARTITION BY who ORDER BY age) AS l, age FROM visits) t WHERE l < age OR l IS NULL
FROM (SELECT town t, LEAD(town, 1, town) OVER (PARTITION BY who ORDER BY age, day, town) u FROM visits) a WHERE t = u OR u IS NULL
FROM (SELECT * FROM visits QUALIFY LEAD(age, 1, -1) OVER (PARTITION BY who ORDER BY age, day, town) = -1) t WHERE age > 3
FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY who ORDER BY age, day, town) = 1) t WHERE age > 3
FROM (SELECT sum(age) over (partition by who order by age rows between 1 preceding and current row) s FROM visits) WHERE s > 7
FROM (SELECT count(*) over (partition by who order by age rows unbounded preceding) n FROM visits) WHERE n = 2
FROM (SELECT count(*) over (partition by who order by age range unbounded preceding) n FROM visits) WHERE n = 2
FROM (SELECT who, COUNT(*) OVER (PARTITION BY who, town) AS n FROM visits WHERE day IS NOT NULL) t WHERE n = 2
FROM (SELECT *, RANK() OVER (PARTITION BY who ORDER BY town) AS r FROM visits) t WHERE r > 1 AND age > 3
FROM (SELECT *, DENSE_RANK() OVER (PARTITION BY who ORDER BY age DESC, day) AS r FROM visits) t WHERE r = 2
FROM (SELECT who, ARG_MIN(CASE WHEN town <> '' THEN age END, age) AS a FROM visits GROUP BY who) t WHERE a = 4
FROM (SELECT who, town, MAX_BY(day, day) FILTER (WHERE age > 3) AS last FROM visits GROUP BY ALL) t WHERE last > DATE '2024-02-29'
FROM (SELECT who p, ARG_MAX(age + 1, age) - MIN(age) AS m FROM visits GROUP BY p HAVING ARG_MIN(age, age) > 3) WHERE m > 1
FROM (SELECT ARG_MAX(d.dose > 4, d.dose) AS high FROM visits v JOIN doses d ON v.who = d.who GROUP BY d.who) t WHERE high
FROM visits, (SELECT 3 AS least, DATE '2024-03-01' AS start) p WHERE age > p.least AND day >= start
FROM visits WHERE day >= (SELECT start + INTERVAL '1' DAY FROM (SELECT DATE '2024-02-29' AS start) q)
FROM visits v WHERE EXISTS (SELECT 1 FROM doses d, (SELECT 2 k) WHERE d.who = v.who AND dose > k)
FROM visits v WHERE age = (SELECT MAX(age) FROM visits w WHERE w.who = v.who AND w.town = v.town)
FROM visits v WHERE age > 1 + (SELECT 2 * COUNT(*) FROM doses d WHERE d.who = v.who AND drug = 'a')
FROM (SELECT * FROM visits v WHERE day > (SELECT MIN(day) FROM visits w WHERE w.who = v.who)) t WHERE age > 3
FROM visits JOIN (SELECT who, CASE WHEN COUNT(*) > 4 THEN 'x' END AS c FROM visits GROUP BY who) t USING (who) WHERE c = 'x'
FROM visits v JOIN (SELECT who, COUNT(*) n FROM visits GROUP BY 1) t ON v.who = t.who OR (v.who IS NULL AND t.who IS NULL)
FROM visits v JOIN (SELECT DISTINCT who, town FROM visits) t ON (v.who IS NULL AND t.who IS NULL OR t.who = v.who) \
    AND (v.town = t.town OR (v.town IS NULL AND t.town IS NULL)) WHERE age > 3
FROM visits LEFT JOIN (SELECT who, 1 + MAX(dose) m FROM doses GROUP BY who HAVING COUNT(*) > 1) d USING (who) WHERE m IS NULL
""".replace("\\\n", "")
    .strip()
    .splitlines()
)


@pytest.mark.parametrize("text", BY_PERSON)
def test_subquery_by_person_counts_the_rows_that_duckdb_counts(text):
    for seed in range(3):
        visits, doses = made(seed)
        rows = nt.table(visits, unit="who", name="visits")
        others = {"doses": nt.table(doses, unit="who", name="visits")}
        query = nt.from_sql(f"SELECT COUNT(*) AS n {text}", rows, tables=others)
        stage = plan(query, spend=nt.approx(1, "1e-6"), limits=nt.limits(max_rows_per_group=10**6)).stage
        with duckdb.connect() as connection:
            connection.register("visits", visits)
            connection.register("doses", doses)
            ((truth,),) = connection.sql(f"SELECT COUNT(*) {text}").fetchall()
        ((found,),) = DuckdbEngine().aggregate(stage, salt=1).values.values()  # rows, or units of one row
        assert found == truth
        assert truth


def test_a_window_as_a_default_has_a_default_of_its_own():
    """No engine reads one within another, so the truth is written down: the first row of each person."""
    over = "OVER (PARTITION BY who ORDER BY day)"
    rows = nt.table(pa.table({"who": [1, 1, 1, 2], "day": [1, 2, 3, 1]}), unit="who", name="visits")
    text = (
        f"SELECT COUNT(*) AS n FROM (SELECT LAG(day, 1, LAG(day, 1, 7) {over}) {over} AS l FROM visits) t WHERE l = 7"
    )
    stage = plan(nt.from_sql(text, rows), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=9)).stage
    ((found,),) = DuckdbEngine().aggregate(stage, salt=1).values.values()
    assert found == 2


@pytest.mark.parametrize(
    ("text", "ask"),
    [
        (
            "SELECT COUNT(*) AS n FROM (SELECT who, COUNT(*) AS times FROM visits WHERE age > 3 GROUP BY who) t WHERE times > 2",
            lambda v: v.where("age > 3").per_unit(times="COUNT(*)").where("times > 2"),
        ),
        (
            "SELECT COUNT(*) AS n FROM (SELECT who, COUNT(*) AS times FROM visits GROUP BY who HAVING COUNT(*) > 2)",
            lambda v: v.per_unit(times="COUNT(*)").where("times > 2"),
        ),
        (
            "WITH a AS (SELECT LAG(age) OVER (PARTITION BY who ORDER BY day) b FROM visits) SELECT COUNT(*) n FROM a WHERE b > 3",
            lambda v: v.with_column("b", "LAG(age) OVER (PARTITION BY who ORDER BY day)").where("b > 3"),
        ),
    ],
)
def test_subquery_by_person_is_the_question_of_python(text, ask):
    rows = nt.table(made(0)[0], unit="who", name="visits")
    assert digest(nt.from_sql(text, rows)) == digest(ask(rows).agg(n=nt.count()))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("FROM (SELECT town, COUNT(*) AS n FROM visits GROUP BY town) t", "write GROUP BY who"),
        ("FROM visits v JOIN visits w ON v.who = w.who OR (v.who IS NULL OR w.who IS NULL)", "not an equality"),
        ("FROM visits v JOIN visits w ON v.who = w.who OR (v.who IS NULL AND v.who IS NULL)", "not an equality"),
        ("FROM visits v JOIN visits w ON NOT (v.who = w.who OR (v.who IS NULL AND w.who IS NULL))", "not an equality"),
        ("FROM visits v JOIN towns t ON v.town = t.town OR (v.town IS NULL AND t.town IS NULL)", "not an equality"),
        ("FROM (SELECT SUM(age) AS s FROM visits) t", "write GROUP BY who"),
        ("FROM (SELECT DISTINCT town FROM visits) t", "write GROUP BY who"),
        ("FROM (SELECT ROW_NUMBER() OVER (ORDER BY paid) AS n FROM visits) t WHERE n < 3", "write PARTITION BY who"),
        ("FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.town = v.town)", "inside.who = outside.who"),
        ("FROM visits v WHERE EXISTS (SELECT 1 FROM visits w)", "equate the person's column"),
        ("FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.who = v.who LIMIT 1)", "does not go with EXISTS"),
        ("FROM visits WHERE who IN (SELECT who FROM visits LIMIT 1)", "LIMIT outside"),
        ("FROM visits WHERE (town, age) NOT IN (SELECT town, age FROM visits w WHERE w.who = visits.who)", "EXISTS"),
        ("FROM visits WHERE UPPER(town) IN (SELECT town FROM towns)", "as many columns of a table before IN"),
        ("FROM visits WHERE (town, age) IN (SELECT town FROM towns)", "as many columns of a table before IN"),
        ("FROM visits WHERE town IN (SELECT town FROM towns LIMIT 1)", "LIMIT outside"),
        ("FROM visits WHERE age IN (SELECT ROW_NUMBER() OVER (ORDER BY town) FROM towns)", "write GROUP BY here"),
        (
            "FROM (SELECT town, COUNT(*) AS m FROM towns GROUP BY 1) t JOIN visits USING (town)",
            "write FROM visits JOIN",
        ),
        (
            "FROM visits WHERE town IN (SELECT v.town FROM visits v JOIN towns t ON v.town = t.town)",
            "inside.who = outside.who",
        ),
        ("FROM visits WHERE age > (SELECT age FROM visits)", "is asked first in WHERE and beside"),
        ("FROM (SELECT who FROM visits GROUP BY GROUPING SETS (who, ())) t", "columns and expressions"),
        ("FROM (SELECT DISTINCT ON (town) who FROM visits) t", "write PARTITION BY who"),
        (
            "FROM visits v WHERE age > (SELECT AVG(age) FROM visits w WHERE w.town = v.town)",
            "over many people for each",
        ),
        ("FROM visits v WHERE age > (SELECT AVG(age) FROM visits w WHERE w.who <> v.who)", "over many people for each"),
        ("FROM (SELECT who, RANK() OVER (PARTITION BY town ORDER BY age) AS r FROM visits) t", "PARTITION BY who"),
        (
            "FROM visits v GROUP BY town HAVING COUNT(*) > (SELECT AVG(age) FROM visits w WHERE w.who = v.who)",
            "HAVING compares statistics of groups",
        ),
        (
            "FROM visits v WHERE 2 < (SELECT COUNT(*) FROM visits w WHERE w.who = v.who AND w.age < v.age)",
            "write a window, COUNT(*) OVER (PARTITION BY",
        ),
        (
            "FROM visits v WHERE age >= ALL (SELECT age FROM visits w WHERE w.who = v.who)",
            "write [NOT] EXISTS (SELECT 1",
        ),
        ("FROM visits v WHERE age = ANY (SELECT age FROM visits w WHERE w.town = v.town)", "inside.who = outside.who"),
    ],
)
def test_subquery_over_several_people_is_refused_with_a_line(asked, text, says):
    with pytest.raises(QueryError, match=re.escape(says)):
        asked(f"SELECT COUNT(*) AS n {text}")


def bills_of(seed):
    """Doses with a number that one person has, and bills that name it; bills of nobody's number too."""
    pick = random.Random(seed)
    visits, doses = made(seed)
    doses = doses.append_column("dose_no", pa.array(range(len(doses)), pa.int64()))
    bills = [
        {"no": pick.randrange(60), "price": pick.choice([None, 2, 5, 9]), "place": pick.choice(["Ulm", "Bonn"])}
        for _ in range(90)
    ]
    return visits, doses, pa.Table.from_pylist(bills)


ARRANGED = """
FROM visits v, towns t WHERE v.town = t.name AND t.state = 'BW'
FROM towns, visits WHERE name = town AND age > 3
FROM towns t, visits v WHERE (v.town = t.name AND t.state = 'BW' AND age > 3) OR (v.town = t.name AND age = 3)
FROM visits v JOIN towns t ON v.town = t.name AND t.state = 'BW' AND v.age > 3
FROM visits v LEFT JOIN doses d ON v.who = d.who AND d.drug = 'a' AND d.dose > 2 WHERE d.drug IS NULL
FROM doses WHERE drug = 'a'
FROM doses d, visits v WHERE d.who = v.who AND v.age > d.dose
FROM visits v, visits w WHERE v.who = w.who AND w.day > v.day
FROM visits v JOIN visits w ON v.who = w.who AND v.town = w.town AND w.age < v.age
FROM visits v LEFT JOIN visits w ON v.who = w.who AND w.town = 'Ulm' WHERE w.age IS NULL OR w.age > v.age
FROM bills WHERE price > 2
FROM bills b, towns t WHERE b.place = t.name AND t.state = 'BW'
FROM bills JOIN doses ON dose_no = no WHERE drug = 'a'
FROM bills, visits v, doses d WHERE no = dose_no AND d.who = v.who AND place = v.town
FROM doses WHERE EXISTS (SELECT * FROM bills WHERE no = dose_no AND price > 2)
FROM doses d WHERE dose > 3 AND NOT EXISTS (SELECT 1 FROM bills b WHERE b.no = d.dose_no AND b.price >= d.dose)
FROM bills a WHERE EXISTS (SELECT * FROM bills b WHERE b.no = a.no AND b.price <> a.price)
FROM bills a WHERE NOT EXISTS (SELECT * FROM bills b, towns t WHERE b.no = a.no AND b.place = t.name AND a.price > b.price)
FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.who = v.who AND w.day < v.day)
FROM visits WHERE EXISTS (SELECT 1 FROM towns WHERE state = 'BW')
FROM visits WHERE NOT EXISTS (SELECT 1 FROM towns WHERE state = 'SH')
FROM doses d WHERE dose >= (SELECT MIN(price) FROM bills b WHERE b.no = d.dose_no)
FROM (SELECT b.place AS p, d.dose * 2 AS twice FROM bills b, doses d WHERE b.no = d.dose_no) x WHERE twice > 3 AND p = 'Ulm'
""".strip().splitlines()


@pytest.mark.parametrize("text", ARRANGED)
def test_commas_owned_rows_and_comparisons_count_what_duckdb_counts(text):
    for seed in range(2):
        visits, doses, bills = bills_of(seed)
        people = visits.column("who").to_pylist()
        doses = doses.filter(pa.compute.is_in(doses["who"], pa.array(people)))  # the account's table says who is there
        towns = pa.table({"name": ["Ulm", "Bonn", ""], "state": ["BW", "NW", None]})
        rows = nt.table(visits, unit="who", name="visits")
        others = {"doses": nt.table(doses, unit="who", name="visits"), "towns": nt.public_table(towns, name="towns")}
        others["bills"] = nt.table(bills, unit=nt.owned_by(others["doses"], on={"dose_no": "no"}), name="bills")
        query = nt.from_sql(f"SELECT COUNT(*) AS n {text}", rows, tables=others)
        stage = plan(query, spend=nt.approx(1, "1e-6"), limits=nt.limits(max_rows_per_group=10**6)).stage
        with duckdb.connect() as connection:
            for name, table in {"visits": visits, "doses": doses, "towns": towns, "bills": bills}.items():
                connection.register(name, table)
            connection.execute("CREATE TABLE owned AS SELECT * FROM bills WHERE no IN (SELECT dose_no FROM doses)")
            connection.unregister("bills")
            connection.execute("ALTER TABLE owned RENAME TO bills")
            ((truth,),) = connection.sql(f"SELECT COUNT(*) {text}").fetchall()
        ((found,),) = DuckdbEngine().aggregate(stage, salt=1).values.values()  # rows, or units of one row
        assert found == truth
        assert truth


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("FROM visits v, towns t WHERE v.age > 3", "no join condition"),
        ("FROM towns t, towns u WHERE t.name = u.name", "asks public tables alone"),
        ("FROM visits v LEFT JOIN towns t ON v.town = t.name AND v.age > 3", "further conditions are on t alone"),
        ("FROM doses d, bills b WHERE d.dose = b.no", "which is declared; join on that"),
        ("FROM visits v WHERE EXISTS (SELECT * FROM bills b WHERE b.no = v.age)", "nothing says of which"),
        (
            "FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.who = v.who AND w.age > v.age AND w.day < v.day)",
            "compare",
        ),
        (
            "FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.who = v.who AND w.age > v.age + 1)",
            "compare one",
        ),
        ("FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.who <> v.who)", "equate the person's column"),
    ],
)
def test_joins_of_several_people_are_refused_with_a_line(text, says):
    visits, doses, bills = bills_of(0)
    towns = pa.table({"name": ["Ulm"], "state": ["BW"]})
    others = {"doses": nt.table(doses, unit="who", name="visits"), "towns": nt.public_table(towns, name="towns")}
    others["bills"] = nt.table(bills, unit=nt.owned_by(others["doses"], on={"dose_no": "no"}), name="bills")
    with pytest.raises(QueryError, match=re.escape(says)):
        nt.from_sql(f"SELECT COUNT(*) AS n {text}", nt.table(visits, unit="who", name="visits"), tables=others)


def test_unit_under_another_name_is_counted_as_the_unit():
    doses = nt.table(pa.table({"person": [1, 2, 2], "dose": [3, 4, 5]}), unit="person", name="visits")
    visits = nt.table(VISITS, unit="who", name="visits")

    def read(what):
        text = f"SELECT COUNT(DISTINCT {what}) AS n FROM visits v, doses d WHERE v.who = d.person"
        return nt.from_sql(text, visits, tables={"doses": doses})

    assert digest(read("d.person")) == digest(read("v.who"))
    assert read("d.dose").aggregates == {"n": nt.count_distinct("dose")}


def test_the_account_s_table_under_another_name_is_the_same_question(visits):
    homes = nt.table(pa.table({"who": [1, 2], "home": ["Ulm", "Bonn"]}), unit="who", name="visits")

    def read(text, name):
        return nt.from_sql(text.format(name), visits, tables={"homes": homes, "orders": visits})

    join = "SELECT home, AVG({0}.paid) AS m FROM {0} JOIN homes h ON {0}.who = h.who WHERE {0}.age > 3 GROUP BY home"
    within = "SELECT AVG(LEAST(n, 5)) AS m FROM (SELECT who, COUNT(*) AS n FROM {0} GROUP BY who)"
    for text in ("SELECT COUNT(*) AS n FROM {}", "SELECT COUNT(*) AS n FROM {} AS o WHERE o.paid > 1", join, within):
        assert digest(read(text, "orders")) == digest(read(text, "visits")), text
    with pytest.raises(QueryError, match=r"FROM must name the table 'visits', and not 'others'; .* tables="):
        read("SELECT COUNT(*) AS n FROM {}", "others")


def test_a_mean_count_without_bounds_has_a_form_that_needs_none(visits):
    """The message's own words, asked: rows over people. A number of windows or of distinct values has no such form."""
    inner = "SELECT who, {} AS n FROM visits GROUP BY who"
    with pytest.raises(QueryError, match=r"for AVG\(n\) alone write (.*) of the inner rows") as refused:
        nt.from_sql(f"SELECT AVG(n) FROM ({inner.format('COUNT(*)')}) AS t", visits)
    form = re.search(r"for AVG\(n\) alone write (.*) of the inner rows", str(refused.value))[1]
    assert set(nt.from_sql(f"SELECT {form} FROM visits", visits).aggregates) == {"count", "units"}
    windows = "SELECT who, COUNT(*) OVER (PARTITION BY who) AS n FROM visits"
    for other in (inner.format("COUNT(DISTINCT town)"), windows):
        with pytest.raises(QueryError, match=r"needs bounds(?!.*alone)"):
            nt.from_sql(f"SELECT AVG(n) FROM ({other}) AS t", visits)


def test_conditions_within_bound_what_a_person_s_rows_add_up_to(visits):
    inner = "SELECT who, {} AS n FROM visits WHERE age BETWEEN 0 AND 50 GROUP BY who"
    text = f"SELECT AVG({{}}) AS m FROM ({inner}) AS t WHERE n BETWEEN 0 AND 400"
    for made in ("AVG(age * 2.0)", "MAX(age)", "SUM(age * 1.0)"):
        asked = nt.from_sql(text.format("n", made), visits)
        (bounds,) = asked.aggregates["m"].clip_bounds(asked.table).values()
        assert bounds.high == {"AVG": 100, "MAX": 50, "SUM": 400}[made[:3]]
    with pytest.raises(QueryError, match="needs bounds"):
        nt.from_sql(
            text.format("n", "MAX(age)")
            .replace("n BETWEEN 0 AND 400", "n < who")
            .replace("age BETWEEN 0 AND 50", "age > 0"),
            visits,
        )


@pytest.mark.parametrize(
    ("inner", "asked", "most"),
    [
        ("COUNT(*)", "SUM(LEAST(n, 3))", 3),
        ("COUNT(DISTINCT town)", "SUM(n * LEAST(n, 2))", 10),
        ("SUM(CASE WHEN age > 4 THEN 1.5 ELSE 0.5 END)", "SUM(LEAST(n, 4))", 4),
        ("2 * COUNT(age)", "SUM(n)", 6),  # on its grid
        ("COUNT(*) - 4", "SUM(GREATEST(n + 4, 0))", 9),
    ],
)
def test_counts_and_sums_of_what_is_never_negative_begin_at_0(inner, asked, most):
    visits = made(2)[0]
    text = f"SELECT {asked} AS s FROM (SELECT who, {inner} AS n FROM visits GROUP BY who) AS t WHERE n <= 5"
    query = nt.from_sql(text, nt.table(visits, unit="who", name="visits"))
    (bounds,) = query.aggregates["s"].clip_bounds(query.table).values()
    assert (bounds.low, bounds.high) == (0, most)
    stage = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1)).stage
    (values,) = DuckdbEngine().aggregate(stage, salt=1).values.values()
    with duckdb.connect() as connection:
        ((truth,),) = connection.register("visits", visits).sql(text).fetchall()
    assert values[0] * bounds.step / stage.parts.popitem()[1] == truth


@pytest.mark.parametrize("inner", ["SUM(CASE WHEN age > 4 THEN 1.5 ELSE -0.5 END)", "SUM(age)", "MAX(age)"])
def test_what_may_be_negative_does_not_begin_at_0(inner):
    visits = nt.table(made(2)[0], unit="who", name="visits")
    with pytest.raises(QueryError, match="needs bounds"):
        nt.from_sql(f"SELECT AVG(LEAST(n, 3)) FROM (SELECT who, {inner} AS n FROM visits GROUP BY who) AS t", visits)
