"""SQL is understood as the same question, or refused with what to write instead; it never reaches a database."""

import datetime as dt

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

import neartwin as nt
from neartwin.errors import ParameterError, QueryError, SchemaError
from neartwin.queries.wire.parse import form_of, question_of
from neartwin.statistics import CONSTRUCTORS
from neartwin.statistics.sql import SPELLINGS, statistic_of


@pytest.fixture(scope="module")
def visits():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits (who INTEGER, town TEXT, paid DOUBLE, open BOOLEAN, day DATE)")
    return nt.table(connection, table="visits", unit="who", columns={"paid": nt.bounds(0, 10)})


def test_sql_and_python_say_the_same_question(visits):
    text = (
        "SELECT town, COUNT(*) AS n, AVG(paid) AS typical, SUM(paid) total, COUNT(DISTINCT who) AS people FROM visits "
    )
    found = nt.from_sql(text + "WHERE paid > 3 AND open GROUP BY town", visits, keys=["Ulm"])
    built = (
        visits.where("paid > 3 AND open")
        .group_by("town", keys=["Ulm"])
        .agg(n=nt.count(), typical=nt.mean("paid"), total=nt.sum("paid"), people=nt.count_distinct_units())
    )
    assert found == built
    assert nt.from_sql("select count(*) from visits", visits) != nt.from_sql("select sum(paid) from visits", visits)


LISTED = {
    "town IN ('Ulm', 'Bonn', 'Ulm') AND paid > 3": {"town": [("Ulm",), ("Bonn",)]},
    "paid > 3 AND (open AND town = 'Ulm')": {"town": [("Ulm",)]},
    "upper(town) IN ('ULM')": {"upper(town)": [("ULM",)], "town": None},
    "day = DATE '2024-05-01'": {"day": [(dt.date(2024, 5, 1),)]},
    "town IN ('Ulm', 'Bonn') AND day = DATE '2024-05-01'": {
        "town, day": [("Ulm", dt.date(2024, 5, 1)), ("Bonn", dt.date(2024, 5, 1))],
        "town, who": None,
    },
    "town IN ('Ulm') OR open": {"town": None},
    "NOT town IN ('Ulm')": {"town": None},
    "town <> 'Ulm'": {"town": None},
    "COALESCE(town, 'Ulm') IN ('Ulm')": {"town": None},
}


@pytest.mark.parametrize("condition", LISTED)
def test_groups_that_a_condition_lists_are_public(visits, condition):
    """The analyst wrote them. So none is discovered, and a row beyond them or without one meets no condition."""
    for columns, keys in LISTED[condition].items():
        text = f"SELECT {columns}, COUNT(*) AS n FROM visits WHERE {condition} GROUP BY {columns}"
        found = nt.from_sql(text, visits)
        assert found.groups.keys == (None if keys is None else tuple(keys))
        built = visits.where(condition).group_by(*(part.strip() for part in columns.split(","))).agg(n=nt.count())
        assert built.groups.keys == found.groups.keys
    assert nt.from_sql(
        "SELECT town, COUNT(*) FROM visits WHERE town = 'Ulm' GROUP BY 1", visits, keys=["Bonn"]
    ).groups.keys == (("Bonn",),)  # given ones are taken


def test_lists_of_very_many_groups_are_discovered_and_given_keys_are_taken(visits):
    """Two lists of a text are multiplied: a short question would list millions of groups before anybody prices it."""
    long = ", ".join(f"'{i}'" for i in range(600))
    text = "SELECT town, who, COUNT(*) AS n FROM visits WHERE town IN ({}) AND who IN ({}) GROUP BY town, who"
    assert nt.from_sql(text.format(long, ", ".join(map(str, range(600)))), visits).groups.keys is None
    few = nt.from_sql(text.format(long, ", ".join(map(str, range(400)))), visits)
    assert len(few.groups.keys) == 240_000
    rows = visits.where("town IN ('Ulm', 'Bonn')")
    assert rows.group_by("town", "who", keys={"who": [1]}).keys == (("Ulm", 1), ("Bonn", 1))
    many = visits.where(f"town IN ({long}) AND who IN ({', '.join(map(str, range(600)))})")
    with pytest.raises(QueryError, match="town, who with 360,000 cells to list; give keys of fewer"):
        many.group_by("town", "who", "open", keys={"open": [True]})  # which lists millions, too


def test_listed_groups_cost_no_delta_and_are_those_of_the_rows(tmp_path):
    """At a budget without noise: an empty group appears with 0, NULL and others do not."""
    rows = {"who": range(400), "town": ["Ulm", "Bonn", "Köln", None] * 100}
    table = nt.table(pa.table(rows), unit="who", name="visits")
    text = (
        "SELECT town, COUNT(*) AS n, 100 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM visits "
        "WHERE town IN ('Ulm', 'Bonn', 'Lund') GROUP BY 1"
    )
    with nt.open_ledger(tmp_path / "b.db") as book:
        release = book.open(table, nt.pure(100)).sql(text, spend=nt.pure(90))
    assert release.keys == (("Ulm",), ("Bonn",), ("Lund",))
    assert np.allclose(release["n"].values, [100, 100, 0], atol=3)
    assert release["pct"].lower[0] > 45  # a bar, as all groups of the total are there


def test_an_expression_is_one_question_however_python_spells_it(visits):
    text = "SELECT SUM(paid * (1 - paid / 20)) AS a, CORR(paid - 1, paid) AS b, COUNT(nullif(paid, 0)) AS c FROM visits"
    built = visits.agg(a=nt.sum("paid*(1-paid/20)"), b=nt.correlation("paid-1", "paid"), c=nt.count("NULLIF( paid,0 )"))
    assert nt.from_sql(text, visits) == built
    assert nt.from_sql(text, visits) != visits.agg(a=nt.sum("paid*(1-paid/21)"), b=built.aggregates["b"])
    assert visits.agg(a=nt.coefficient("paid", ["paid+1"], "paid+1")).aggregates["a"].feature == "paid + 1"
    when = visits.where("CAST(day AS DATE) < DATE '2024-01-01'")
    assert when.agg(a=nt.sum("paid")).aggregates["a"].column == "paid"


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        ("AVG((paid))", "AVG(paid)"),
        ('SUM((("paid")))', "SUM(paid)"),
        ("AVG(((paid) + (1)))", "AVG(paid + 1)"),
        ("COUNT_IF(((paid > 3)))", "COUNT_IF(paid > 3)"),
        ("SHARE((open))", "SHARE(open)"),
    ],
)
def test_parentheses_that_change_nothing_are_no_other_question(visits, spelled, plain):
    one, other = (nt.from_sql(f"SELECT {text} AS y FROM visits", visits) for text in (spelled, plain))
    assert one == other
    assert other.aggregates["y"].spelled(visits.table) == other.aggregates["y"]
    grouped, loose = (nt.from_sql(f"SELECT SUM({t}) AS y FROM visits", visits) for t in ("(paid+1)*2", "paid+1*2"))
    assert grouped != loose  # near miss: these do change something


def test_a_condition_where_a_number_is_needed_is_0_or_1(visits):
    for text in ("SUM(open)", "SUM(paid > 3)", "MAX((open))"):
        value = nt.from_sql(f"SELECT {text} AS y FROM visits", visits).aggregates["y"].value(visits.table)
        assert (value.bounds.low, value.bounds.high, value.bounds.step) == (0, 1, 1)
    with pytest.raises(SchemaError, match="is text, but must be a number; write types="):
        nt.from_sql("SELECT SUM(town) AS y FROM visits", visits)


@pytest.mark.parametrize(
    ("filtered", "cased"),
    [
        ("COUNT(*) FILTER (WHERE open)", "COUNT(CASE WHEN open THEN 1 END)"),
        ("COUNT_IF(paid > 3)", "COUNT(CASE WHEN paid > 3 THEN 1 END)"),
        ("COUNT(day) FILTER (WHERE open)", "COUNT(CASE WHEN open THEN day END)"),
        ("SUM(paid / 2) FILTER (WHERE open)", "SUM(CASE WHEN open THEN paid / 2 END)"),
        ("AVG(paid) FILTER (WHERE open)", "AVG(CASE WHEN open THEN paid END)"),
        ("MEDIAN(paid) FILTER (WHERE open)", "MEDIAN(CASE WHEN open THEN paid END)"),
        (
            "QUANTILE_CONT(paid, [0.1, 0.9]) FILTER (WHERE open)",
            "QUANTILE_CONT(CASE WHEN open THEN paid END, [0.1, 0.9])",
        ),
        ("VAR_POP(paid) FILTER (WHERE open)", "VAR_POP(CASE WHEN open THEN paid END)"),
        ("COUNT(DISTINCT who) FILTER (WHERE open)", "COUNT(DISTINCT CASE WHEN open THEN who END)"),
        ("SUM(paid) FILTER (WHERE open) / COUNT(*)", "SUM(CASE WHEN open THEN paid END) / COUNT(*)"),
    ],
)
def test_filter_is_the_case_that_it_means(visits, filtered, cased):
    assert nt.from_sql(f"SELECT {filtered} AS a FROM visits", visits) == nt.from_sql(
        f"SELECT {cased} AS a FROM visits", visits
    )
    plain = filtered.replace(" FILTER (WHERE open)", "").replace("COUNT_IF(paid > 3)", "COUNT(*)")
    assert nt.from_sql(f"SELECT {filtered} AS a FROM visits", visits) != nt.from_sql(
        f"SELECT {plain} AS a FROM visits", visits
    )


CASE = "AVG(CASE WHEN paid > 3 THEN 1 ELSE 0 END)"


@pytest.mark.parametrize(
    ("ratio", "share"),
    [
        ("COUNT_IF(paid > 3) / COUNT(*)", CASE),
        ("COUNT(*) FILTER (WHERE paid > 3) / NULLIF(COUNT(*), 0)", CASE),
        ("(COUNT(CASE WHEN paid > 3 THEN 7 END)) / COUNT(1)", CASE),
        ("1 - ROUND(100.0 * COUNT_IF(paid > 3) / COUNT(*), 1)", f"1 - ROUND(100.0 * {CASE}, 1)"),
        ("COUNT_IF(paid > 3) / COUNT(*) AS y, COUNT(*)", f"{CASE} AS y, COUNT(*)"),
        ("SUM(CASE WHEN paid > 3 THEN 1 ELSE 0 END) / COUNT(*)", CASE),
        ("SUM(CASE WHEN paid > 3 THEN 1.0 END) * 1.0 / COUNT(*)", CASE),
        ("100 * SUM(IF(paid > 3, 1, 0)) / COUNT(*)", f"100 * {CASE}"),
        ("CAST(COUNT_IF(paid > 3) AS DOUBLE) / COUNT(*)", CASE),
        ("SUM(CASE WHEN paid > 3 THEN 1 ELSE 0 END)::REAL / CAST(NULLIF(COUNT(*), 0) AS DOUBLE)", CASE),
        ("1.0 * COUNT(*) FILTER (WHERE paid > 3) / COUNT(*)", CASE),
        ("COUNT_IF(paid > -3) / COUNT(paid)", "AVG(paid > -3)"),  # among those that are known
        ("COUNT(*) FILTER (WHERE paid BETWEEN 1 AND 3) / COUNT(paid)", "AVG(paid BETWEEN 1 AND 3)"),
        ("COUNT_IF(town IN ('Ulm', 'Bonn')) / COUNT(town)", "AVG(town IN ('Ulm', 'Bonn'))"),
        ("RANK() OVER (ORDER BY COUNT_IF(paid > 3) / COUNT(*))", f"RANK() OVER (ORDER BY {CASE})"),
        ("SUM((paid > 3)::INT) / COUNT(*)", CASE),
        ("SUM(paid > 3) / COUNT(*)", CASE),
        ("100.0 * SUM(CAST(open AS INTEGER)) / COUNT(*)", f"100.0 * {CASE.replace('paid > 3', 'open')}"),
        ("SUM((NOT open)::INT) / COUNT(*)", CASE.replace("paid > 3", "NOT open")),
        ("SUM((paid > 3 OR open)::INT) / COUNT(*)", CASE.replace("paid > 3", "paid > 3 OR open")),
        ("SUM(open::INT) / COUNT(open)", "AVG(open)"),
        ("COUNT(paid) / COUNT(*)", CASE.replace("paid > 3", "NOT paid IS NULL")),
        ("100 * SUM(paid) / COUNT(paid)", "100 * AVG(paid)"),
        ('SUM("paid") / COUNT(visits.paid)', "AVG(paid)"),
        ("SUM(paid + 1) / NULLIF(NULLIF(COUNT(paid + 1), 0), 0)", "AVG(paid + 1)"),
    ],
)
def test_a_ratio_that_is_a_share_or_a_mean_is_asked_as_one(visits, ratio, share):
    one, other = (
        nt.from_sql(f"SELECT town, {text} AS a FROM visits GROUP BY town ORDER BY a", visits, keys=["Bonn"])
        for text in (ratio, share)
    )
    assert one == other


@pytest.mark.parametrize(
    "text",
    [
        "COUNT_IF(paid > 3) / COUNT(day)",
        "COUNT_IF(paid IS NULL) / COUNT(paid)",
        "COUNT_IF(paid IS NOT DISTINCT FROM 3) / COUNT(paid)",
        "COUNT_IF(paid > who) / COUNT(paid)",
        "COUNT_IF(paid > 3 OR open) / COUNT(paid)",
        "COUNT(*) / COUNT_IF(paid > 3)",
        "COUNT(CASE WHEN paid > 3 THEN day END) / COUNT(*)",  # which may be NULL
        "COUNT(CASE WHEN paid > 3 THEN 1 ELSE 2 END) / COUNT(*)",
        "SUM(paid) / COUNT(day)",
        "SUM(paid + 1) / COUNT(paid)",
        "CAST(COUNT_IF(paid > 3) AS INTEGER) / COUNT(*)",
        "COUNT(CASE town WHEN 'Bonn' THEN 1 END) / COUNT(*)",
        "COUNT_IF(paid > 3) * COUNT(*) / COUNT(*)",
        "COUNT(paid) / COUNT(day)",
        "SUM(paid) / COUNT(*) AS b, SUM(paid)",
        "COUNT(*) / SUM(paid)",
        "COUNT(paid + 1) / COUNT(*)",
        "COUNT_IF(paid > 3) / COUNT(*) AS b, COUNT_IF(paid > 3)",
    ],
)
def test_near_misses_of_a_share_stay_two_counts(visits, text):
    query = nt.from_sql(f"SELECT town, {text} AS a FROM visits GROUP BY town", visits, keys=["Bonn"])
    assert {type(one).__name__ for one in query.aggregates.values()} <= {"Count", "Sum"}


def test_a_bare_table_to_join_is_refused_in_words(visits):
    for bare in (pa.table({"name": ["Ulm"]}), "towns.csv"):
        with pytest.raises(ParameterError, match=r"must be public, or have a unit; write nt.public_table\("):
            nt.from_sql("SELECT COUNT(*) FROM visits JOIN towns ON town = name", visits, tables={"towns": bare})


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SUM(paid) / COUNT(*)", "paid"),
        ('SUM("paid") / COUNT(1)', "paid"),
        ("SUM(visits.paid) / NULLIF(COUNT(*), 0)", "paid"),
        ("(SUM((paid))) / COUNT(*)", "paid"),
        ("SUM(paid - 1) / COUNT(*)", "paid - 1"),
        ("SUM(LENGTH(town)) / COUNT(*)", "LENGTH(town)"),
        ("SUM(CASE WHEN paid > 3 THEN 2 ELSE 0 END) / COUNT(*)", "CASE WHEN paid > 3 THEN 2 ELSE 0 END"),
    ],
)
def test_a_sum_over_all_rows_is_the_mean_with_0_for_what_is_missing(visits, text, column):
    query = nt.from_sql(f"SELECT {text} AS a FROM visits", visits)
    assert query == visits.agg(a=nt.mean(column, fill=0))
    beside = nt.from_sql(f"SELECT {text} AS a, AVG({column}) AS b, COUNT(*) AS n FROM visits ORDER BY {text}", visits)
    assert list(beside.aggregates) == ["a", "b", "n"]


@pytest.mark.parametrize(
    ("text", "divided"),
    [
        ("SUM(paid) / SUM(who % 5) AS a", ["sum_paid", "sum_who % 5"]),
        ("ROUND(100.0 * SUM(paid) / NULLIF(SUM(who % 5), 0), 1) AS a", ["sum_paid", "sum_who % 5"]),
        ("CASE WHEN SUM(paid) > 0 THEN COUNT(*) / SUM(paid) END AS a", ["count", "sum_paid"]),
        ("1 - (SUM(paid) - COUNT(*)) / SUM(paid) AS a", ["count", "sum_paid"]),
        ("COUNT(*) / SUM(COUNT(*)) OVER () AS a", []),
        ("SUM(paid) / COUNT(*) AS a, SUM(paid) AS b", ["count"]),
        ("SUM(paid) / COUNT(day) AS a, COUNT(day) + 1 AS b", ["sum_paid"]),
        ("CASE WHEN COUNT(day) > 9 THEN SUM(paid) / COUNT(day) END AS a", ["sum_paid"]),
        ("SUM(paid) / COUNT(DISTINCT who) AS a", []),  # rows are lost, and people are not
        ("SUM(paid) / 7 AS a", []),
        ("SUM(paid) - COUNT(*) AS a", []),
        ("RANK() OVER (ORDER BY SUM(paid) / COUNT(day)) AS a", ["count_day", "sum_paid"]),
        (
            "CASE WHEN 0.0 < SUM(paid) AND NOT SUM(paid) IS NULL THEN COUNT(*) / SUM(paid) END AS a",
            ["count", "sum_paid"],
        ),
        ("SUM(paid) > 0 AS a", []),  # which is no quotient
        ("SUM(paid) / AVG(paid) AS a", []),  # which is a total
        ("SUM(paid) * SUM(paid) / COUNT(day) AS a", []),
        ("COUNT(*) / SUM(paid) > SUM(paid) AS a", ["count"]),
    ],
)
def test_what_is_asked_only_to_be_divided_is_known(visits, text, divided):
    query = nt.from_sql(f"SELECT town, {text} FROM visits GROUP BY town ORDER BY a", visits, keys=["Bonn"])
    assert list(query.after.divided) == divided
    for clause in ("HAVING SUM(paid) > 5", "ORDER BY SUM(paid)"):
        query = nt.from_sql(f"SELECT town, {text} FROM visits GROUP BY town {clause}", visits, keys=["Bonn"])
        assert list(query.after.divided) == [name for name in divided if name != "sum_paid"]


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("COUNT(*) AS n, 2 * n AS b", "COUNT(*) AS n, 2 * COUNT(*) AS b"),
        (
            "COUNT_IF(open) AS n, COUNT(*) AS b, n / b AS c",
            "COUNT_IF(open) AS n, COUNT(*) AS b, COUNT_IF(open) / COUNT(*) AS c",
        ),
        ("COUNT(*) + 1 AS n, 2 * n AS b", "COUNT(*) + 1 AS n, 2 * (COUNT(*) + 1) AS b"),
        ("COUNT(*) AS n, n / SUM(n) OVER () AS b", "COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS b"),
        (
            "COUNT(*) AS n, RANK() OVER (ORDER BY n DESC) AS b",
            "COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS b",
        ),
        ("COUNT(*) AS n, 2 * n AS b, b - n AS c", "COUNT(*) AS n, 2 * COUNT(*) AS b, (2 * COUNT(*)) - COUNT(*) AS c"),
        (
            "COUNT(*) AS n, n - LAG(n) OVER (ORDER BY t) AS b",
            "COUNT(*) AS n, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY upper(town)) AS b",
        ),
    ],
)
def test_earlier_columns_of_the_select_have_names(visits, short, long):
    one, other = (
        nt.from_sql(f"SELECT upper(town) AS t, {text} FROM visits GROUP BY t ORDER BY n", visits, keys=["BONN", "ULM"])
        for text in (short, long)
    )
    assert one == other


def test_where_reads_names_of_the_select_that_are_of_rows(visits):
    one, other = (
        nt.from_sql(f"SELECT year(day) AS y, COUNT(*) AS N, 2 * n AS b FROM visits WHERE {text} GROUP BY y", visits)
        for text in ("Y = 2024 AND paid > 3", "year(day) = 2024 AND paid > 3")
    )
    assert one == other
    assert one.groups.keys == ((2024,),)
    with pytest.raises(QueryError, match="HAVING n > 3"):
        nt.from_sql("SELECT COUNT(*) AS n FROM visits WHERE n > 3", visits)


def test_a_name_of_the_select_hides_no_column_and_none_before_it(visits):
    query = nt.from_sql("SELECT COUNT(*) AS paid, SUM(paid) AS c FROM visits", visits)
    assert query.aggregates["c"].column == "paid"
    with pytest.raises(QueryError, match="not understood"):
        nt.from_sql("SELECT 2 * n AS b, COUNT(*) AS n FROM visits", visits)


def test_a_share_keeps_the_name_that_its_ratio_has(visits):
    text = "COUNT(CASE WHEN paid > 3 THEN 1 END) / COUNT(*)"
    query = nt.from_sql(f"SELECT town, {text} FROM visits GROUP BY town HAVING {text} > 0.1", visits, keys=["Bonn"])
    assert (list(query.aggregates), query.after.having) == ([text], f'"{text}" > 0.1')


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT SUM(DISTINCT paid) FILTER (WHERE open) FROM visits", "which values are distinct"),
        ("SELECT SHARE(open) FILTER (WHERE open) FROM visits", "FILTER goes with"),
        (
            "SELECT to_char(day, 'YYYY-MM') AS m, COUNT(*) FROM visits GROUP BY m",
            "formats are made of",
        ),  # all said YYYY-MM
        ("SELECT SUM(paid) FILTER (WHERE 1 / 0 > paid) FROM visits", "other than 0"),
        ("SELECT SUM(paid) FILTER (WHERE secret) FROM visits", "secret"),
        ("SELECT * FROM visits", "is not understood"),
        ("SELECT town FROM visits GROUP BY town", "at least one statistic"),
        ("SELECT town, STRING_AGG(paid) FROM visits GROUP BY town", "is not understood"),
        ("SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 3)", "LIMIT outside"),
        ("SELECT COUNT(*) FROM other", "FROM must name"),
        ("SELECT COUNT(*) FROM private.people", "FROM must name"),
        ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", "FROM must name"),
        ("SELECT COUNT(*) FROM visits TABLESAMPLE 10%", "a sample of rows is no safer"),
        ("SELECT COUNT(*) FROM visits, visits v2", "no join condition"),
        (
            "SELECT COUNT(*) FROM visits, visits v2 WHERE visits.town = v2.town",
            "rows of two people would meet; write this.who = other.who",
        ),
        ("SELECT COUNT(*) FROM visits JOIN visits v2 USING (town)", "rows of two people would meet"),
        ("SELECT DISTINCT COUNT(*) FROM visits", "leave it out"),
        ("SELECT town, COUNT(*) FROM visits GROUP BY town WITH TOTALS", "not SQL|GROUP BY takes"),
        ("SELECT town, COUNT(*) FROM visits GROUP BY GROUPING SETS (town, ())", "need public keys"),
        ("SELECT town, COUNT(*) FROM visits GROUP BY town WITH ROLLUP", "or one of GROUPING SETS"),
        ("SELECT COUNT(*) FROM visits GROUP BY CUBE (town), ROLLUP (open)", "takes one of"),
        ("SELECT COUNT(*) FROM visits GROUP BY CUBE ((town, open), day)", "cannot be nested"),
        ("SELECT COUNT(*) FROM visits GROUP BY CUBE (a, b, c, d, e, f, g, h)", "too many grouping sets"),
        ("SELECT COUNT(*) FROM visits GROUP BY reverse(town)", "engines do not agree"),
        ("SELECT town, COUNT(*) FROM visits GROUP BY 3", "the SELECT has 2 columns"),
        ("SELECT COUNT(*) FROM visits GROUP BY town, town", "twice"),
        ("SELECT day AS town, COUNT(*) FROM visits GROUP BY town", "write GROUP BY day"),
        ("SELECT paid AS p, COUNT(*) FROM visits GROUP BY town", "is not understood"),
        ("SELECT SUM(paid * (SELECT age FROM visits)) FROM visits", "asked first in WHERE and beside"),
        ("SELECT LN(SUM(paid)) FROM visits", "is not understood"),
        ("SELECT SUM(SUM(paid)) FROM visits", "allowed are"),
        ("SELECT SUM(town) FROM visits", "must be a number"),
        ("SELECT SUM(day) FROM visits", r"clip\(date_diff\('day', DATE '2020-01-01', CAST\(day AS DATE\)\), 0, 3650\)"),
        ("SELECT SUM(paid * who) FROM visits", "who"),
        ("SELECT COUNT(*) OVER () FROM visits", "is not understood"),
        ("SELECT SUM(DISTINCT paid) FROM visits", "is not understood"),
        ("SELECT SUM(others.paid) FROM visits", "not a column of the tables"),
        ("SELECT SUM(1 / paid) FROM visits", "needs bounds"),
        ("SELECT COUNT(DISTINCT town, year) FROM visits", "DISTINCT takes one column"),
        ("SELECT COUNT(*) n, SUM(paid) n FROM visits", "names two"),
        ("SELECT COUNT(*) FROM visits WHERE paid IN (SELECT 1)", "public ones"),
        ("SELECT COUNT(*) FROM visits WHERE pg_sleep(paid)", "allowed are"),
        ("SELECT COUNT(*) FROM visits WHERE paid::TEXT = '1'", "no cast from number to text"),
        ("SELECT COUNT(*) FROM visits WHERE day > '1.1.2024'", "DATE '"),
        ("SELECT COUNT(*) FROM visits WHERE day > DATE 'tomorrow'", "no date"),
        ("SELECT COUNT(*) FROM visits; DROP TABLE visits", "DROP is refused: neartwin only reads"),
        ("DELETE FROM visits", "DELETE is refused: neartwin only reads"),
        ("COPY visits TO 'x.csv'", "COPY is refused: neartwin only reads"),
        ("SELECT COUNT(*) INTO x FROM visits", "private question"),
        ("SELECT COUNT(*) FROM visits UNION SELECT COUNT(*) FROM visits", "one SELECT.* add the answers up"),
        (
            "SELECT COUNT(*) FROM (SELECT who FROM visits INTERSECT SELECT who FROM visits) AS t",
            r"write WHERE \[NOT\] EXISTS",
        ),
        ("", "one SELECT"),
        ("SELECT COUNT(* FROM", "is not SQL"),
    ],
)
def test_unsupported_sql_is_refused(visits, text, says):
    with pytest.raises((QueryError, SchemaError), match=says):
        nt.from_sql(text, visits)


def test_sql_groups_by_expressions_and_by_names_of_them(visits):
    built = (
        visits.with_column("m", "month(day)")
        .with_column("size", "CASE WHEN paid > 5 THEN 'large' ELSE 'small' END")
        .group_by("m", "size")
        .agg(n=nt.count())
    )
    text = (
        "SELECT month(day) AS m, CASE WHEN paid > 5 THEN 'large' ELSE 'small' END AS size, COUNT(*) AS n FROM visits "
    )
    for groups in ("m, size", "MONTH(day), CASE WHEN paid > 5 THEN 'large' ELSE 'small' END"):
        assert nt.from_sql(text + "GROUP BY " + groups, visits) == built
    assert len(built.groups.keys) == 26  # a row without a day is in a group of its own
    unnamed = nt.from_sql("SELECT COUNT(*) AS n FROM visits GROUP BY month(day)", visits)
    assert unnamed.groups.columns == ("MONTH(day)",)
    renamed = nt.from_sql("SELECT town AS t, COUNT(*) AS n FROM visits GROUP BY town", visits, keys={"t": ["Ulm"]})
    assert renamed.groups.columns == ("t",)


def test_sql_sums_expressions(visits):
    text = "SELECT SUM(paid * 2 - 1) AS twice, AVG(CASE WHEN open THEN paid ELSE 0 END) AS typical FROM visits"
    twice = nt.sum("paid * 2 - 1")
    assert nt.from_sql(text, visits) == visits.agg(twice=twice, typical=nt.mean("CASE WHEN open THEN paid ELSE 0 END"))


def test_a_constant_where_a_condition_holds_is_within_it_and_0(visits):
    for value, ends in ((1, (0, 1)), (3, (0, 3)), (-2, (-2, 0))):
        asked = nt.from_sql(f"SELECT SUM(CASE WHEN open THEN {value} END) AS n FROM visits", visits)
        bounds = asked.aggregates["n"].value(visits.table).bounds
        assert (bounds.low, bounds.high) == ends
        with pytest.raises(QueryError, match="is constant"):
            nt.from_sql(f"SELECT SUM(CASE WHEN open THEN {value} ELSE {value} END) AS n FROM visits", visits)


def test_most_common_is_chosen_among_the_values_that_a_condition_lists(visits):
    text = "SELECT town FROM visits {}GROUP BY town ORDER BY COUNT(DISTINCT who) DESC LIMIT 1"
    where = "WHERE town IN ('Ulm', 'Bonn') "
    assert nt.from_sql(text.format(where), visits) == nt.from_sql(text.format(where), visits, keys=["Ulm", "Bonn"])
    with pytest.raises(QueryError, match="give them with keys="):
        nt.from_sql(text.format(""), visits)


def test_names_are_quoted_whatever_they_hold():
    connection = duckdb.connect()
    odd = 'a"; DROP TABLE t; --'
    connection.execute('CREATE TABLE "t\'s ""table""" AS SELECT 1 AS "who is", \'Ulm\' AS "a""; DROP TABLE t; --"')
    rows = nt.table(connection, table='t\'s "table"', unit="who is")
    query = rows.group_by(odd, keys=["Ulm", "'; DROP TABLE t"]).agg(n=nt.count())
    from neartwin.engines.duckdb import DuckdbEngine
    from neartwin.planning.planner import plan

    found = DuckdbEngine().aggregate(
        plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1, max_groups=1)).stage, salt=1
    )
    assert found.values["units"].tolist() == [1, 0]


@pytest.fixture(scope="module")
def wages():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE wages (who INTEGER, town TEXT, pay DOUBLE, age DOUBLE, hours DOUBLE)")
    bounds = {"pay": nt.bounds(0, 100), "age": nt.bounds(18, 65), "hours": nt.bounds(0, 80)}
    return nt.table(connection, table="wages", unit="who", columns=bounds)


EVERY = {
    "COUNT(*)": nt.count(),
    "COUNT(DISTINCT who)": nt.count_distinct_units(),
    "COUNT(DISTINCT town)": nt.count_distinct("town"),
    "COUNT(DISTINCT town) FILTER (WHERE age > 3)": nt.count_distinct("CASE WHEN age > 3 THEN town END"),
    "SUM(pay)": nt.sum("pay"),
    "AVG(pay)": nt.mean("pay"),
    "VAR_POP(pay)": nt.variance("pay"),
    "STDDEV_POP(pay)": nt.stddev("pay"),
    "COVAR_POP(pay, age)": nt.covariance("pay", "age"),
    "CORR(pay, age)": nt.correlation("pay", "age"),
    "REGR_SLOPE(pay, age)": nt.coefficient("pay", ["age"], "age"),
    "REGR_INTERCEPT(pay, age)": nt.coefficient("pay", ["age"]),
    "REGRESSION(pay, age, hours)": nt.regression("pay", ["age", "hours"]),
    "MEDIAN(pay)": nt.median("pay"),
    "QUANTILE_CONT(pay, 0.9)": nt.quantile("pay", "0.9"),
    "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY pay)": nt.quantile("pay", "0.9"),
    "QUANTILE_CONT(pay, [0.25, 0.5, 0.9])": nt.quantile("pay", ["0.25", "0.5", "0.9"]),
    "PERCENTILE_CONT([0.1, 0.9]) WITHIN GROUP (ORDER BY pay)": nt.quantile("pay", ["0.1", "0.9"]),
    "MIN(pay)": nt.minimum("pay"),
    "MAX(pay)": nt.maximum("pay"),
    "HISTOGRAM(pay, [0, 50, 100])": nt.histogram("pay", [0, 50, 100]),
}


@pytest.mark.parametrize("text", EVERY)
def test_every_statistic_has_a_sql_form_and_a_json_form_that_say_the_same(wages, text):
    built = wages.group_by("town", keys=["Ulm"]).agg(a=EVERY[text])
    assert nt.from_sql(f"SELECT town, {text} AS a FROM wages GROUP BY town", wages, keys=["Ulm"]) == built
    assert question_of(form_of(built), wages) == built


def test_every_statistic_that_has_a_verb_is_among_those_with_a_sql_form():
    spelled = ", ".join(SPELLINGS).format(unit="who")
    asked = [
        statistic_of(node, {"who"})[1] for node in sqlglot.parse_one(f"SELECT {spelled}", read="duckdb").expressions
    ]
    assert {one.verb for one in asked} | {"median"} == set(CONSTRUCTORS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT REGR_SLOPE(pay) FROM wages", "is not understood"),
        ("SELECT CORR(pay) FROM wages", "is not SQL"),
        ("SELECT SUM() FROM wages", "SUM"),
        ("SELECT REGR_SLOPE(pay, pay) FROM wages", "names a column twice"),
        ("SELECT REGRESSION(pay) FROM wages", "is not understood"),
        ("SELECT REGR_R2(pay, age) FROM wages", "is not understood"),
        ("SELECT REGR_SLOPE(pay, town) FROM wages", "must be a number"),
        ("SELECT REGRESSION(pay, age) AS fit FROM wages ORDER BY fit", "ORDER BY"),
    ],
)
def test_malformed_regression_is_refused(wages, text, says):
    with pytest.raises((QueryError, SchemaError), match=says):
        nt.from_sql(text, wages)


def test_columns_of_a_regression_can_be_ordered_by(wages):
    found = nt.from_sql(
        "SELECT town, REGRESSION(pay, age, hours) AS fit FROM wages GROUP BY town HAVING fit_age > 0 ORDER BY fit_intercept DESC",
        wages, keys=["Ulm"],
    )  # fmt: skip
    assert (found.after.having, found.after.order) == ("fit_age > 0", (("fit_intercept", True),))
