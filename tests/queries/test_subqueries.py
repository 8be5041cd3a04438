"""WITH and subqueries: what they mean, and the refusal of those that read many people's rows."""

import pyarrow as pa
import pytest

import neartwin as nt
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
}


@pytest.mark.parametrize("text", SAME)
def test_subquery_of_single_rows_is_the_question_without_it(asked, text):
    assert digest(asked(text)) == digest(asked(SAME[text]))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT COUNT(*) FROM (SELECT town FROM visits) t WHERE paid > 1", "add paid to its SELECT"),
        ("SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 5) t", "ORDER BY and LIMIT outside"),
        ("WITH RECURSIVE a AS (SELECT * FROM visits) SELECT COUNT(*) FROM a", "without RECURSIVE"),
        ("SELECT COUNT(*) FROM (SELECT 1 AS one) t", "FROM a table inside"),
        ("SELECT COUNT(*) FROM (SELECT town, paid FROM visits) t (x)", "2 columns and 1 names"),
        ("SELECT COUNT(*) FROM (SELECT * EXCLUDE (paid) FROM visits) t", "a star stands alone"),
        ("SELECT COUNT(*) FROM visits v LEFT JOIN (SELECT * FROM towns WHERE state > 'A') t USING (town)", "WHERE"),
    ],
)
def test_subquery_that_cannot_be_put_in_place_is_refused_with_a_line(asked, text, says):
    with pytest.raises(QueryError, match=says):
        asked(text)


def test_names_that_stand_for_more_and_more_subqueries_are_refused(asked):
    names = [f"t{i} AS (SELECT * FROM t{i - 1} JOIN t{i - 1} AS u USING (who))" for i in range(1, 40)]
    with pytest.raises(QueryError, match="more than 64"):
        asked(f"WITH t0 AS (SELECT * FROM visits), {', '.join(names)} SELECT COUNT(*) FROM t39")
