"""SQL as tools for charts write it, over data with a known truth, and SQL that is written to do harm."""

import re
import time
import tomllib
from numbers import Number
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

import neartwin as nt
from neartwin.errors import NeartwinError
from neartwin.queries.arithmetic import Arithmetic, Estimate
from neartwin.queries.sql.spelling import plain, trees
from neartwin.queries.wire.parse import question_of
from neartwin.releases.release import Release

STATEMENTS = tomllib.loads((Path(__file__).parent.parent / "fixtures" / "bi.toml").read_text())["statement"]
SURE = {"spend": nt.approx(10**9, "1e-6"), "limits": nt.limits(max_groups=130, max_rows_per_group=6)}


@pytest.fixture(scope="module")
def purchases():
    draw = np.random.default_rng(3)
    seconds = draw.integers(0, 86400 * 120, 6000).astype("timedelta64[s]")
    return pa.table(
        {
            "customer_id": np.arange(6000) % 1500,
            "cds": draw.integers(1, 5, 6000),
            "amount": draw.integers(0, 10001, 6000) / 100,
            "at": pa.array(np.datetime64("2024-01-01T00:00:00") + seconds, pa.timestamp("us")),
            "city": draw.choice(["Ulm", "Bonn", "Trier"], 6000),
        }
    )


@pytest.fixture(scope="module")
def account(tmp_path_factory, purchases):
    rows = nt.table(purchases, unit="customer_id", name="purchases", columns={"amount": nt.bounds(0, 100)})
    with nt.open_ledger(tmp_path_factory.mktemp("bi") / "budget.db") as book:
        yield book.open(rows, nt.approx(10**11, "1e-2"))


@pytest.mark.parametrize("statement", STATEMENTS, ids=[one["tool"] for one in STATEMENTS])
def test_statements_of_tools_are_read_as_they_are_written(account, statement):
    assert nt.from_sql(statement["sql"], account.rows, dialect=statement["dialect"]).aggregates


@pytest.mark.slow
@pytest.mark.parametrize("statement", STATEMENTS, ids=[one["tool"] for one in STATEMENTS])
def test_statements_of_tools_equal_their_own_answer_on_the_rows(account, purchases, statement):
    release = account.sql(statement["sql"], dialect=statement["dialect"], **SURE)
    names, truth = answered(statement, purchases)
    found = release.to_arrow().select(names)
    assert _texts(found.to_pylist()) == _texts(truth)
    for name in names:
        if isinstance(truth[0][name], Number):
            wanted = [float(row[name]) for row in sorted(truth, key=_text)]
            assert [row[name] for row in sorted(found.to_pylist(), key=_text)] == pytest.approx(wanted, rel=1e-4)


TRUTH = [  # what DuckDB alone cannot read
    ("TIMESTAMPTZ", "TIMESTAMP"), ("20240201", "2024-02-01"), ("SALES.PUBLIC.", ""),
    ("CAST(DATE_TRUNC('MONTH', purchases.\"AT\") AS TEXT)", "STRFTIME(purchases.at, '%Y-%m')"),
]  # fmt: skip


def answered(statement, purchases):
    """The columns and rows that DuckDB answers."""
    (text,) = sqlglot.transpile(statement["sql"], read=statement["dialect"], write="duckdb")
    for here, there in TRUTH:
        text = text.replace(here, there)
    database = duckdb.connect()
    database.register("given", purchases)
    database.execute("ATTACH ':memory:' AS shop; CREATE SCHEMA shop.sales; CREATE SCHEMA public; CREATE SCHEMA dbo")
    for place in ("purchases", "shop.sales.purchases", "public.purchases", "dbo.purchases"):
        database.execute(f"CREATE TABLE {place} AS FROM given")
    table = database.sql(text).to_arrow_table()
    return table.column_names, table.to_pylist()


def _text(row):
    """What names a row: its texts and moments, moments as their day."""
    return [str(value)[:10] for value in row.values() if not isinstance(value, Number)] or [
        str(float(next(iter(row.values()))))
    ]


def _texts(rows):
    return sorted(map(_text, rows))


FROM = "FROM purchases WHERE"
EQUAL = [
    ('SELECT "main"."purchases"."city" AS c, COUNT(*) FROM main.purchases GROUP BY 1',
     "SELECT city AS c, COUNT(*) FROM purchases GROUP BY c"),
    ("select CITY, Count(1) from PURCHASES group by all -- comment", "SELECT city, COUNT(*) FROM purchases GROUP BY city"),
    ("SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY amount DESC) FROM purchases",
     "SELECT QUANTILE_CONT(amount, 0.1) FROM purchases"),
    ('SELECT "CITY" AS "CITY", COUNT(*) AS n FROM purchases WHERE "CDS" > 2 GROUP BY 1 ORDER BY n',
     'SELECT city AS "CITY", COUNT(*) AS n FROM purchases WHERE cds > 2 GROUP BY city ORDER BY n'),
    ("SELECT city, SUM(one) AS n FROM (SELECT city, 1 AS one FROM purchases WHERE cds > 2) AS s GROUP BY city",
     "SELECT city, COUNT(*) AS n FROM purchases WHERE cds > 2 GROUP BY city"),
    (f"SELECT SUM(1) {FROM} 1 = 1 AND cds > 2", f"SELECT COUNT(*) {FROM} cds > 2"),
    (f"SELECT COUNT(*) {FROM} amount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01",
     f"SELECT COUNT(*) {FROM} amount BETWEEN 0.05 AND 0.07"),
    (f"SELECT COUNT(*) {FROM} at < DATE '2024-01-31' + INTERVAL '1' MONTH", f"SELECT COUNT(*) {FROM} at < DATE '2024-02-29'"),
    (f"SELECT COUNT(*) {FROM} at < TIMESTAMPTZ '2024-01-31 01:00:00+02'",
     f"SELECT COUNT(*) {FROM} at < TIMESTAMP '2024-01-30 23:00:00'"),
    ("SELECT city, 7 AS seven, COUNT(*) FROM purchases GROUP BY 1, 2",
     "SELECT city, COUNT(*), 7 AS seven FROM purchases GROUP BY city"),
    (("WITH a AS (SELECT city, COUNT(*) AS n, SUM(amount) AS s FROM purchases GROUP BY city), "
      "b AS (SELECT city, s / n AS each, n FROM a) SELECT city, each FROM b WHERE n > 5 ORDER BY each DESC LIMIT 2"),
     "SELECT city, SUM(amount) / COUNT(*) AS each FROM purchases GROUP BY city HAVING COUNT(*) > 5 ORDER BY 2 DESC LIMIT 2"),
    ("SELECT c, n, n / SUM(n) OVER () AS part FROM (SELECT city AS c, COUNT(*) AS n FROM purchases GROUP BY 1) t",
     "SELECT city AS c, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS part FROM purchases GROUP BY city"),
    ("SELECT APPROX_QUANTILE(amount, 0.5) FROM purchases", "SELECT QUANTILE_CONT(amount, 0.5) FROM purchases"),
    (("SELECT COUNT(*) FROM purchases p JOIN (SELECT customer_id, COUNT(*) AS n FROM purchases GROUP BY customer_id) t "
      "ON p.customer_id IS NOT DISTINCT FROM t.customer_id"),
     ("SELECT COUNT(*) FROM purchases p JOIN (SELECT customer_id, COUNT(*) AS n FROM purchases GROUP BY customer_id) t "
      "ON p.customer_id = t.customer_id")),
    ("SELECT city, avg(count(*)) over (order by city rows 6 preceding) AS m FROM purchases GROUP BY 1",
     "SELECT city, AVG(COUNT(*)) OVER (ORDER BY city ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS m FROM purchases GROUP BY 1"),
    ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM purchases",
     "SELECT QUANTILE_CONT(amount, 0.5) FROM purchases"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "meant"), EQUAL)
def test_spellings_of_one_question_are_one_plan_with_one_digest(account, written, meant):
    keys = None if "city" not in meant else ["Bonn", "Ulm"]
    found, wanted = (nt.from_sql(text, account.rows, keys=keys) for text in (written, meant))
    assert found.after == wanted.after
    limits = nt.limits(max_rows_per_group=1, max_groups=1)
    digests = [account.plan(one, spend=nt.pure(1), limits=limits).plan.digest for one in (found, wanted)]
    assert digests[0] == digests[1]
    assert question_of({"sql": written, "dialect": "duckdb"} | ({"keys": keys} if keys else {}), account.rows) == found


def test_a_name_that_a_subquery_gives_is_not_the_column_that_it_hides(account):
    inner = 'SELECT customer_id, MAX(cds) AS "CDS" FROM purchases GROUP BY 1'
    for table in ("s", "purchases"):
        text = f'SELECT {table}."CDS", COUNT(*) AS n FROM ({inner}) AS {table} GROUP BY 1'
        asked = nt.from_sql(text, account.rows)
        assert asked.table.per_unit is not None
        assert repr(asked) == "<Query of 'purchases' by CDS: n = count()>"


def test_an_interval_on_a_day_is_a_day_and_on_a_time_a_time():
    for written, meant in (
        ("DATE '2024-02-29' + INTERVAL '1' YEAR", "CAST('2025-02-28' AS DATE)"),
        ("TIMESTAMP '2024-02-29 00:00:00' - INTERVAL '24' HOUR", "CAST('2024-02-28 00:00:00' AS TIMESTAMP)"),
        ("DATE '9999-12-31' + INTERVAL '1' DAY", "CAST('9999-12-31' AS DATE) + INTERVAL '1' DAY"),
        ("99999999999 * 99999999999 * 99999999999", "99999999999 * 99999999999 * 99999999999"),
        ("1e308 * 10", "1e308 * 10"),
    ):
        (tree,) = trees(f"SELECT x FROM t WHERE x > {written}")
        assert plain(tree, {"t": ["x"]}).sql(dialect="duckdb") == f"SELECT x FROM t WHERE x > {meant}"


HOSTILE = {
    "parentheses": "SELECT COUNT(*) FROM purchases WHERE " + "(" * 9000 + "cds" + ")" * 9000 + " > 1",
    "a megabyte": "SELECT COUNT(*) FROM purchases WHERE city IN (" + ", ".join(["'Ulm'"] * 150_000) + ")",
    "a long sum": "SELECT " + "+".join(["COUNT(*)"] * 9000) + " FROM purchases",
    "long rows": "SELECT SUM(" + "+".join(["cds"] * 15000) + ") FROM purchases",
    "products": "SELECT COUNT(*) FROM purchases WHERE amount < " + "*".join(["9999999999999999999"] * 3000),
    "powers": "SELECT COUNT(*) FROM purchases WHERE amount < 9 ** 9 ** 9 ** 9 ** 9",
    "constants": "SELECT COUNT(*) FROM purchases WHERE " + " OR ".join(f"cds = {i} + 1" for i in range(5000)),
    "negations": "SELECT COUNT(*) FROM purchases WHERE " + "NOT " * 9000 + "cds > 1",
    "cases": "SELECT " + "CASE WHEN " * 3000 + "1" + " THEN 1 END" * 3000 + " FROM purchases",
    "subqueries": "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 500 + "purchases" + ")" * 500,
    "joins": "SELECT COUNT(*) FROM purchases " + " ".join(f"JOIN t{i} USING (cds)" for i in range(4000)),
    "unions": " UNION ALL ".join(["SELECT COUNT(*) FROM purchases"] * 1500),
    "doubling names": "WITH a0 AS (SELECT * FROM purchases), "
    + ", ".join(f"a{i + 1} AS (SELECT * FROM a{i} JOIN a{i} AS b USING (cds))" for i in range(40))
    + " SELECT COUNT(*) FROM a40",
    "quotes": "SELECT COUNT(*) FROM purchases WHERE city = '" + "'" * 50_000,
    "other quotes": 'SELECT "' * 5000 + "` [ $$ E'\\' $x$",
    "keywords": 'SELECT "select"."from" AS "where" FROM "group" GROUP BY "order"',
    "NUL": "SELECT COUNT(*) FROM purchases WHERE city = 'a\0b'",
    "groupings": "SELECT COUNT(*) FROM purchases GROUP BY CUBE (" + ", ".join(f"cds + {i}" for i in range(25)) + ")",
    "positions": "SELECT city, COUNT(*) FROM purchases GROUP BY 1" + "0" * 4000,
    "semicolons": ";" * 50_000,
    "a large pattern": "SELECT COUNT(*) FROM purchases WHERE regexp_matches(city, '" + "d{99}" * 15_000 + "')",
    "orders": "SELECT city, COUNT(*) FROM purchases GROUP BY city ORDER BY "
    + ", ".join(f"COUNT(*) / {i}" for i in range(1, 1500)),
    "filters": "SELECT city, COUNT(*) FROM purchases GROUP BY city HAVING "
    + " OR ".join(f"COUNT(*) / {i} > 2" for i in range(1, 900)),
    "conditions": "SELECT city, COUNT(*) FROM purchases GROUP BY city HAVING "
    + " OR ".join(f"COUNT(*) > {i}" for i in range(2000)),
    "some conditions": "SELECT city, COUNT(*) FROM purchases GROUP BY city HAVING "
    + " OR ".join(f"COUNT(*) > {i}" for i in range(700)),
    "rows in a list": f"SELECT COUNT(*) FROM purchases WHERE (cds, city) IN ({', '.join(f'({i}, 1)' for i in range(1500))})",
    "a long name": f'SELECT COUNT(*) FROM purchases GROUP BY "{"n" * 49_000}"',
    "a long table": f'SELECT COUNT(*) FROM purchases JOIN "{"n n" * 9000}" USING (cds)',
    "groups": "SELECT COUNT(*) FROM purchases GROUP BY " + ", ".join(f"cds + {i}" for i in range(2000)),
    "comparisons": "SELECT COUNT(*) FROM purchases WHERE " + " OR ".join(f"cds = {i}" for i in range(2400)),
    "an exponent": "SELECT COUNT(*) * 1e999 FROM purchases",
    "a macro": "SELECT COUNT(*) FROM purchases WHERE at > DATE '2024-01-01' + getenv('HOME')",
    "a file": "SELECT COUNT(*) + (SELECT 1 FROM read_text('/etc/passwd')) FROM purchases",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["duckdb", "tsql"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_sql_is_refused_in_a_second_before_anything_is_spent(account, text, dialect):
    before, begun = account.remaining, time.process_time()
    with pytest.raises(NeartwinError) as refused:
        account.sql(text, dialect=dialect, **SURE)
    assert time.process_time() - begun < 1
    assert account.remaining == before
    assert len(str(refused.value)) < 2000


CASES = [
    "CASE WHEN n > 0 THEN s / n END",
    "CASE WHEN n <> 0 THEN s / n ELSE 0 END",
    "CASE WHEN n >= 50 AND NOT s < 10 THEN 3 WHEN n > 2 OR s = 4 THEN 2 + s ELSE -n END",
    "CASE WHEN n = 0 AND NOT s IS NULL THEN 0 ELSE s / n END",
    "CASE WHEN 2 * n <= n + 7 THEN NULL ELSE n END",
    "1 + COALESCE(s / NULLIF(n, 0), -1)",
]


@pytest.mark.parametrize("text", CASES)
def test_bar_of_a_case_holds_its_value_anywhere_in_its_operands_bars(text):
    draw, half = np.random.default_rng(4), np.array([3.0, 3, 3, 3])
    middle = {"n": np.array([100.0, 2, 0, 7]), "s": np.array([900.0, 5, 4, 40])}
    found = Arithmetic.parse(text, ["n", "s"]).of({name: Estimate(v, v - half, v + half) for name, v in middle.items()})
    with duckdb.connect() as connection:
        for group in range(4):
            ends = {name: v[group] + np.append(draw.uniform(-3, 3, 400), [-3, 0, 3]) for name, v in middle.items()}
            points = pa.table({name: np.round(one, draw.integers(0, 3)) for name, one in ends.items()})
            connection.register("points", points)
            values = connection.sql(f"SELECT {text} AS v FROM points WHERE isfinite({text})").fetchnumpy()["v"]
            assert (found.low[group] <= values + 1e-9).all()
            assert (values - 1e-9 <= found.high[group]).all()
    assert np.isfinite(found.high - found.low)[0]  # the near miss: far from a border the bar is that of one branch
    assert (found.high - found.low)[0] < 10


BESIDE = [
    ("COALESCE(LAG(n) OVER (ORDER BY month, city DESC), -1)", None),
    ("COALESCE(n - LEAD(n, 2) OVER (PARTITION BY city ORDER BY month DESC), -1)", None),
    ("COALESCE(LAG(n) OVER (ORDER BY city NULLS FIRST, month), -1)", None),
    ("LAG(n, 2, 0) OVER (ORDER BY month, city DESC)", None),
    ("LEAD(n, 1, n) OVER (PARTITION BY city ORDER BY month) - n", None),
    ("FIRST_VALUE(n) OVER (PARTITION BY city ORDER BY month DESC)", None),
    ("n - LAST_VALUE(n) OVER (ORDER BY month, city ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING)", None),
    ("ROUND(1000 * n / FIRST_VALUE(n) OVER (PARTITION BY city ORDER BY month))", None),
    ("ROUND(12 * AVG(n) OVER ())", None),
    ("ROUND(1000 * n / AVG(n) OVER (PARTITION BY month))", None),
    ("ROUND(12 * AVG(n) OVER (ORDER BY month, city ROWS BETWEEN 2 PRECEDING AND CURRENT ROW))", None),
    (
        "ROUND(60 * AVG(n) OVER (PARTITION BY city ORDER BY month DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING))",
        None,
    ),
    ("COALESCE(AVG(n) OVER (ORDER BY month, city ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING), -1)", None),
    ("ROUND(60 * AVG(n) OVER (PARTITION BY month ORDER BY city))", None),
    ("SUM(n) OVER (PARTITION BY city ORDER BY month)", None),
    ("SUM(n) OVER (ORDER BY month, city RANGE UNBOUNDED PRECEDING)", None),
    ("SUM(n) OVER (ORDER BY month DESC, city DESC ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)", None),
    ("COALESCE(SUM(n) OVER (PARTITION BY city ORDER BY month ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING), -1)", None),
    ("SUM(n) OVER (ORDER BY month)", "groups are equal in it; write ROWS, or all of"),  # they share one sum
    ("AVG(n) OVER (PARTITION BY city ORDER BY city)", "groups are equal in it"),
    ("SUM(n) OVER (ORDER BY month, city RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)", "ROWS BETWEEN"),
    ("SUM(n) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", "ROWS BETWEEN"),
    ("AVG(n) OVER (ORDER BY n ROWS UNBOUNDED PRECEDING)", "one ORDER BY, of group columns"),
    ("AVG(n) OVER (ORDER BY month ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)", "ROWS BETWEEN"),
    ("LAST_VALUE(n) OVER (ORDER BY month)", "AND UNBOUNDED FOLLOWING"),
    ("FIRST_VALUE(n) OVER (ORDER BY month ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", "UNBOUNDED PRECEDING"),
    ("NTH_VALUE(n, 2) OVER (ORDER BY month)", "LAG(COUNT(*))"),
    ("LAG(n) OVER (ORDER BY n)", "one ORDER BY, of group columns"),
    ("LAG(n) OVER (ORDER BY month) - LAG(n) OVER (ORDER BY city)", "one ORDER BY"),
    ("LAG(n) OVER ()", "RANK(), LAG(x)"),
    ("LAG(n, -1) OVER (ORDER BY month)", "a number of groups"),
]


@pytest.mark.parametrize(("written", "says"), BESIDE)
def test_another_group_of_a_release_is_found_as_a_database_finds_it(account, purchases, monkeypatch, written, says):
    groups = "SELECT month(\"at\") AS month, NULLIF(city, 'Ulm') AS city, COUNT(*) AS n FROM purchases GROUP BY ALL"
    text = f"SELECT month, city, n, {written} AS it FROM ({groups}) AS t"
    if says is not None:
        with pytest.raises(NeartwinError, match=re.escape(says)):
            nt.from_sql(text, account.rows)
        return
    assert account.sql(text, **SURE)["it"].lower.count(None) == len(account.sql(text, **SURE)) * (" OVER " in written)
    monkeypatch.setattr(Release, "discovered", False)  # every group is found here
    release = account.sql(text, **SURE)
    with duckdb.connect() as connection:
        connection.register("purchases", purchases)
        truth = {(month, city): (n, it) for month, city, n, it in connection.sql(text).fetchall()}
    values = [release[name].values for name in ("n", "it")]
    found = dict(zip(release.keys, zip(*values, strict=True), strict=True))
    assert {key: tuple(map(round, pair)) for key, pair in found.items()} == truth
    bars = zip(release["it"].lower, release["it"].upper, strict=True)
    known = [
        low <= it <= high
        for (_, it), (low, high) in zip(map(truth.get, release.keys), bars, strict=True)
        if low is not None
    ]
    assert known
    assert all(known)


LABELLED = [
    ("SELECT 'all' AS label, COUNT(*) AS n FROM purchases", None),
    (
        "SELECT 'all' AS label, city, COUNT(*) AS n FROM purchases GROUP BY 1, 2 HAVING label = 'all' ORDER BY label, city DESC",
        None,
    ),
    (
        "SELECT label, n FROM (SELECT city, 'it''s' AS label, COUNT(*) AS n FROM purchases GROUP BY city) AS t ORDER BY n",
        None,
    ),
    ("SELECT 'all' AS city, COUNT(*) AS n FROM purchases GROUP BY city", "'all'"),  # which groups by the table's column
    ("SELECT 'all' || city AS label, COUNT(*) AS n FROM purchases", "beside statistics"),
    ("SELECT 'all' AS n, COUNT(*) AS n FROM purchases", "two columns"),
]


@pytest.mark.parametrize(("text", "says"), LABELLED)
def test_a_text_beside_statistics_is_a_column_of_the_answer_and_free(account, purchases, text, says):
    keys = ["Bonn", "Ulm", "Trier"] if "GROUP BY" in text else None
    if says is not None:
        with pytest.raises(NeartwinError, match=re.escape(says)):
            nt.from_sql(text, account.rows, keys=keys)
        return
    release = account.sql(text, keys=keys, **SURE)
    with duckdb.connect() as connection:
        connection.register("purchases", purchases)
        truth = connection.sql(text).to_arrow_table()
    found = release.to_arrow().select(truth.column_names).to_pylist()
    assert [{**row, "n": round(row["n"])} for row in found] == truth.to_pylist()
    before = account.remaining
    account.sql(text.replace("'all'", "'every'").replace("'it''s'", "'its'"), keys=keys, **SURE)
    assert account.remaining == before


def test_the_statements_that_stand_for_a_union_are_read(account):
    text = "SELECT 'some' AS step, COUNT(*) AS n FROM purchases WHERE cds > 2 UNION ALL SELECT 'all', COUNT(*) FROM purchases"
    with pytest.raises(NeartwinError, match="with a semicolon") as refused:
        nt.from_sql(text, account.rows)
    advice = re.search("write (.*?), with a semicolon", str(refused.value))[1]
    assert [one.after.computed[0][1] for one in nt.series_from_sql(advice, account.rows)] == ["'some'", "'all'"]


def test_bar_of_a_moving_mean_has_the_noise_and_the_loss_of_its_groups():
    values = np.array([40.0, 10, 20, 70])
    text = "AVG(n) OVER (ORDER BY day ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)"
    many = np.array([3, 4, 3, 2])
    for together, lost in ((True, np.ones(4)), (False, many)):
        column = Estimate(values, values - 3, values + 8, half=3.0, lost=5.0, together=together)
        found = Arithmetic.parse(text, ["n"], ["day"]).of({"n": column})
        assert found.values * many == pytest.approx([70, 140, 100, 90])
        assert found.low * many == pytest.approx(found.values * many - 3 * many**0.5)
        assert found.high * many == pytest.approx(found.values * many + 3 * many**0.5 + 5 * lost)
    shared = Arithmetic.parse(text, ["n"], ["day"]).of({"n": Estimate(values, values - 3, values + 3)})
    assert np.isinf(shared.high).all()  # the near miss: noise that groups share does not average out


def test_bar_of_a_difference_of_groups_is_the_box_of_both():
    column = Estimate(np.array([5.0, 9, 30]), np.array([4.0, 7, 27]), np.array([6.0, 10, 34]))
    found = Arithmetic.parse("n - LAG(n) OVER (ORDER BY day)", ["n"], ["day"]).of({"n": column})
    assert (found.low[1:].tolist(), found.high[1:].tolist()) == ([1, 17], [6, 27])
    assert found.low[0] == -np.inf
    assert len(found.events) == 2  # two bars of one column, each of which may fail


def test_conditions_that_are_no_conditions_are_refused():
    for text in ("CASE WHEN n THEN 1 END", "CASE n WHEN 1 THEN 2 END", "CASE WHEN n > 0 THEN 'many' END"):
        with pytest.raises(NeartwinError, match=r"not understood|no condition"):
            Arithmetic.parse(text, ["n"])


@pytest.mark.slow
def test_bars_of_arithmetic_hold_as_often_as_they_say():
    draw, groups, runs = np.random.default_rng(8), np.array([700.0, 300.0, 90.0]), 2000
    texts = {
        "100.0 * n / SUM(n) OVER ()": 100 * groups / groups.sum(),
        "n - 2 * n + SUM(n) OVER ()": groups.sum() - groups,
        "ROUND(n / 3, 1)": groups / 3,
        "AVG(n) OVER (ORDER BY g ROWS UNBOUNDED PRECEDING)": np.cumsum(groups) / [1, 2, 3],
        "n / (SUM(n) OVER () - n)": groups / (groups.sum() - groups),
    }
    held = dict.fromkeys(texts, 0.0)
    shorter = 0.0  # the near miss: bars of 0.6 of their length
    for _ in range(runs):
        noisy = groups + draw.normal(0, 10, 3)
        column = Estimate(noisy, noisy - 19.6, noisy + 19.6, half=19.6)
        for text, truth in texts.items():
            found = Arithmetic.parse(text, ["n"], ["g"]).of({"n": column})
            held[text] += ((found.low <= truth) & (truth <= found.high)).mean() / runs
        middle, half = (found.high + found.low) / 2, 0.3 * (found.high - found.low)
        shorter += (np.abs(truth - middle) <= half).mean() / runs
    assert all(0.935 < share < 0.965 for share in held.values()), held
    assert shorter < 0.85
