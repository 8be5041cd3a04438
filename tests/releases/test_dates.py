"""MIN and MAX of dates, times and texts: released as dates and texts, alike from Python, SQL and JSON."""

import json
from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.errors import NeartwinError, QueryError, SchemaError
from neartwin.planning.planner import plan
from neartwin.queries.wire.parse import form_of, question_of
from neartwin.tables.types import ColumnType, PublicKeys, json_object

DAYS = [date(2020, 3, 1) + timedelta(days=7 * i) for i in range(200)]
ROWS = pa.table({
    "who": range(200), "day": DAYS, "at": [datetime(day.year, day.month, day.day, 13) for day in DAYS],  # noqa: DTZ001 - UTC
    "town": ["Ulm" if i % 2 else "Bonn" for i in range(200)], "open": [True] * 200,
})  # fmt: skip
VISITS = nt.table(ROWS, unit=nt.ROW, name="visits")  # rows weigh alike, so that little noise is none
RANGE = """SELECT MIN("visits"."at") AS "TEMP(lower)(at)", MAX("visits"."at") AS "TEMP(upper)(at)", COUNT(1) AS "__measure__0"
FROM "public"."visits" "visits" HAVING (COUNT(1) > 0)"""


@pytest.fixture
def account(tmp_path):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        yield book.open(VISITS, nt.pure(10**9))


def test_a_document_is_json_with_sorted_names_whatever_its_keys_are():
    keys = [('a", "b', 1, True), ("\\ü\n€", -(2**63), None), (None, 0, False), ("keys", 2, True)]
    body = {"z": [1.5, None, -0.0, 1e300], "keys": keys, "group": {"b": "]", "a": ()}, "ü": "x"}
    assert json_object(body | {"keys": PublicKeys(keys)}) == json.dumps(body, sort_keys=True) == json_object(body)
    days, written = PublicKeys([(DAYS[0], 1)]), [[{"date": "2020-03-01"}, 1]]
    assert json_object(body | {"keys": days}) == json.dumps(body | {"keys": written}, sort_keys=True)
    assert json_object({"keys": days}) != json.dumps({"keys": [["2020-03-01", 1]]})


@pytest.mark.slow
def test_dates_and_texts_come_back_as_they_are(account):
    text = "SELECT town, MIN(day) AS a, MAX(at) AS b, MIN(town) AS c, MEDIAN(day) AS m FROM visits GROUP BY town ORDER BY a DESC"
    release = account.sql(text, spend=nt.pure(10**7), keys=["Bonn", "Ulm"])
    assert release.to_arrow().schema.field("a_upper").type == release.to_arrow().schema.field("b").type == pa.date32()
    first, last = release.to_arrow().to_pylist()
    assert (first["town"], first["a"], first["b"], first["c"]) == ("Ulm", DAYS[1], DAYS[-1], "Ul")
    assert (last["town"], last["a"], last["b"], last["c"]) == ("Bonn", DAYS[0], DAYS[-2], "Bo")
    assert abs(first["m"] - DAYS[100]) <= timedelta(days=14)
    assert first["a_lower"] == date(1900, 1, 1)
    assert first["a_upper"] == DAYS[1]
    assert "2020-03-08 (1900-01-01 to 2020-03-08)" in str(release)
    assert "Ul ('' to Ul)" in str(release)  # the least of all texts is empty
    assert nt.Release.from_json(release.to_json()) == release
    assert "2020-03-08" in release.to_csv()
    kept = account.sql(text.replace("ORDER", "HAVING MIN(day) > DATE '2020-03-05' ORDER"), spend=nt.pure(10**7),
                       keys=["Bonn", "Ulm"])  # fmt: skip
    assert kept.keys == (("Ulm",),)


def test_python_sql_and_json_ask_one_question():
    built = VISITS.agg(first=nt.minimum("day"))
    written = nt.from_sql("SELECT MIN(day) AS first FROM visits", VISITS)
    assert built == written == question_of(json.loads(json.dumps(form_of(built))), VISITS)
    digests = {plan(one, spend=nt.pure(1)).digest for one in (built, written)}
    bounded = VISITS.agg(first=nt.minimum("day", "2020-01-01", date(2024, 12, 31)))
    assert question_of(json.loads(json.dumps(form_of(bounded))), VISITS) == bounded
    assert len(digests) == 1
    assert plan(bounded, spend=nt.pure(1)).digest not in digests
    assert built.released == {"first": ColumnType.DATE}
    tree, wide = (next(iter(plan(one, spend=nt.pure(1)).context.trees.values())) for one in (bounded, built))
    assert (tree.cells, wide.cells) == (1827, 65_535)


def test_the_range_of_a_filter_is_read_as_tableau_writes_it(account):
    release = account.sql(RANGE, spend=nt.pure(10**7), dialect="postgres")
    assert [release.to_arrow()[name][0].as_py() for name in release.to_arrow().column_names[:6:3]] == [
        DAYS[0],
        DAYS[-1],
    ]


def test_a_noisy_date_stands_in_a_condition(account):
    text = "SELECT COUNT(*) AS n FROM visits WHERE day > (SELECT MAX(day) FROM visits) - INTERVAL '69' DAY"
    release = account.sql(text, spend=nt.pure(10**7))
    assert release["n"].values == (10,)
    assert any(f"is {DAYS[-1]}" in note for note in release.notes)
    same = VISITS.where("day > ($1) - INTERVAL '69' DAY", VISITS.agg(max_day=nt.maximum("day"))).agg(n=nt.count())
    assert same == nt.from_sql(text, VISITS)


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda: VISITS.agg(n=nt.sum("day")), SchemaError, "is date, but must be a number"),
        (lambda: VISITS.agg(n=nt.interquartile_range("day")), SchemaError, "must be a number"),
        (lambda: VISITS.agg(n=nt.minimum("open", 0, 1)).agg, AttributeError, "agg"),
        (lambda: VISITS.agg(n=nt.minimum("day", "2020-02-31", "2024-01-01")), QueryError, "is no day"),
        (lambda: VISITS.agg(n=nt.minimum("gone")), SchemaError, "not in the table"),
        (lambda: nt.from_sql("SELECT MAX(day) - MIN(day) AS d FROM visits", VISITS), QueryError, "is no statistic"),
        (lambda: nt.from_sql("SELECT COUNT(*) FROM visits WHERE town = (SELECT MIN(town) FROM visits)", VISITS),
         NeartwinError, "compares"),
    ],
)  # fmt: skip
def test_what_has_no_date_is_refused(ask, error, says):
    with pytest.raises(error, match=says):
        ask()


def test_a_written_table_has_no_dates(account, tmp_path):
    asked = VISITS.group_by("town", keys=["Bonn", "Ulm"]).agg(first=nt.minimum("day"))
    with pytest.raises(QueryError, match="dates and texts are not for a written table"):
        account.release_to_parquet(account.plan(asked, spend=nt.pure(1)), tmp_path / "a.parquet")
    assert account.spent == {"epsilon": 0}


MINUTES = "DATE_DIFF('minute', began, ended)"


@pytest.mark.parametrize("text", [
    f"SELECT AVG({MINUTES}) AS m, SUM({MINUTES}) AS s FROM stays WHERE {MINUTES} BETWEEN 0 AND 60",
    f"""SELECT AVG({MINUTES}) FILTER (WHERE {MINUTES} BETWEEN 0 AND 60) AS m,
    SUM(CASE WHEN {MINUTES} BETWEEN 0 AND 60 THEN {MINUTES} END) AS s FROM stays""",
    f"SELECT AVG(n) AS m, SUM(n) AS s FROM (SELECT *, {MINUTES} AS n FROM stays) AS t WHERE n >= 0 AND 60 >= n",
    f"SELECT AVG(COALESCE({MINUTES}, 0)) AS m, SUM(LEAST({MINUTES}, 70) * 1.0) AS s FROM stays WHERE {MINUTES} BETWEEN 0 AND 60",
])  # fmt: skip
def test_a_duration_is_bounded_by_its_condition_and_never_by_the_calendar(tmp_path, text):
    began = [datetime(2024, 3, 1 + i % 28, i % 24) for i in range(4_000)]  # noqa: DTZ001 - UTC
    length = [i * 7 % 90 for i in range(4_000)]
    ended = [start + timedelta(minutes=n) for start, n in zip(began, length, strict=True)]
    stays = nt.table(pa.table({"began": began, "ended": ended}), unit=nt.ROW, name="stays")
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(stays, nt.pure(9))
        release = account.sql(text, spend=nt.pure(2))
        short = [n for n in length if n <= 60]
        (row,) = release.to_arrow().to_pylist()
        assert row["m"] == pytest.approx(sum(short) / len(short), abs=1)
        assert row["s"] == pytest.approx(sum(short), rel=0.05)
        assert "changes values" not in str(release)  # nothing is clipped that the condition leaves
        with pytest.raises(QueryError, match=r"needs bounds.*write clip\(.*bound it in WHERE"):
            account.sql(f"SELECT AVG({MINUTES}) AS m FROM stays", spend=nt.pure(2))
        with pytest.raises(QueryError, match="needs bounds"):
            account.sql(f"SELECT MEDIAN({MINUTES}) AS m FROM stays WHERE {MINUTES} >= 0", spend=nt.pure(2))
