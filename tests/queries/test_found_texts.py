"""Texts whose answers were once not the rows' own, over rows with NULL in every column, against DuckDB's answer."""

import duckdb
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.errors import QueryError

pytestmark = pytest.mark.sweep
NOTES = ["", "Foo bar", "straße", None, "a-b-c", "100%"]
SURE = {"spend": nt.approx(10**11, "1e-6"), "limits": nt.limits(max_groups=8, max_rows_per_group=20)}


@pytest.fixture(scope="module")
def claims():
    return pa.table(
        {
            "Member ID": [i % 40 for i in range(400)],
            "order": pa.array([None if i % 5 == 0 else i % 4 for i in range(400)], pa.int32()),
            "Größe": [None if i % 7 == 0 else float("nan") if i % 7 == 1 else float(i % 10) for i in range(400)],
            "note": [NOTES[i % 6] for i in range(400)],
            "day": pa.array([None if i % 9 == 0 else 19700 + i for i in range(400)], pa.int32()).cast(pa.date32()),
        }
    )


@pytest.fixture(scope="module")
def account(tmp_path_factory, claims):
    rows = nt.table(claims, unit="Member ID", name="claims")
    with nt.open_ledger(tmp_path_factory.mktemp("found") / "budget.db") as book:
        yield book.open(rows, nt.approx(10**14, "1e-2"))


BY_ORDER = 'SELECT "order", COUNT(*) AS n FROM claims GROUP BY 1 ORDER BY 1'
STUFFED = (
    "SELECT CASE WHEN length(note) >= {0} THEN left(note, {0} - 1) || 'ZZ' || substr(note, {1}) END AS s, COUNT(*) AS n"
)
LENGTHS = "SELECT {} AS s, COUNT(*) AS n FROM claims WHERE note > 'G' GROUP BY 1 ORDER BY 1"
FOUND = [  # the dialect, the text, and what it means in DuckDB
    ("duckdb", f"{BY_ORDER} NULLS FIRST", f"{BY_ORDER} NULLS FIRST"),
    ("duckdb", f"{BY_ORDER} DESC", f"{BY_ORDER} DESC NULLS LAST"),
    ("postgres", f"{BY_ORDER} DESC LIMIT 2", f"{BY_ORDER} DESC NULLS FIRST LIMIT 2"),
    ("mysql", BY_ORDER.replace('"', "`") + " LIMIT 2", f"{BY_ORDER} NULLS FIRST LIMIT 2"),
    ("tsql", "SELECT STUFF([note], 2, 1, 'ZZ') AS s, COUNT(*) AS n FROM claims GROUP BY STUFF([note], 2, 1, 'ZZ') ORDER BY 1",
     f"{STUFFED.format(2, 3)} FROM claims GROUP BY 1 ORDER BY 1 NULLS FIRST"),
    ("tsql", "SELECT STUFF([note], 6, 2, 'ZZ') AS s, COUNT(*) AS n FROM claims GROUP BY STUFF([note], 6, 2, 'ZZ') ORDER BY 1",
     f"{STUFFED.format(6, 8)} FROM claims GROUP BY 1 ORDER BY 1 NULLS FIRST"),
    ("snowflake", f"{BY_ORDER} NULLS LAST FETCH NEXT 2 ROWS ONLY", f"{BY_ORDER} LIMIT 2"),
    ("duckdb", f"{BY_ORDER} OFFSET 1 ROWS FETCH FIRST 2 ROWS ONLY", f"{BY_ORDER} LIMIT 2 OFFSET 1"),
    ("postgres", 'SELECT "order" > 1 AS s, COUNT(*) AS n FROM claims GROUP BY ("order" > 1) ORDER BY 1',
     'SELECT "order" > 1 AS s, COUNT(*) AS n FROM claims GROUP BY 1 ORDER BY 1'),
    ("mysql", LENGTHS.format("CHAR_LENGTH(note)"), LENGTHS.format("length(note)")),
    ("mysql", LENGTHS.format("LENGTH(note)"), LENGTHS.format("strlen(note)")),
    ("duckdb", *[(
        'SELECT COUNT(*) AS n FROM claims AS c JOIN (SELECT "Member ID", MIN(day) AS first FROM claims WHERE "order" = 3 '
        'GROUP BY 1) AS t ON c."Member ID" = t."Member ID" AND c.day > t.first'
    )] * 2),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "written", "meant"), FOUND)
def test_texts_answer_as_their_dialect_means_them(account, claims, dialect, written, meant):
    found = account.sql(written, dialect=dialect, **SURE).to_arrow()
    rows = [tuple(round(one) if isinstance(one, float) else one for one in row.values()) for row in found.to_pylist()]
    width = 1 + ("GROUP" in meant and " AS t " not in meant)
    database = duckdb.connect()
    database.register("claims", claims)
    assert [row[:width] for row in rows] == database.sql(meant).fetchall()


OF_NULL = [  # rows with NULL are a group of computed groups, as of columns
    """SELECT CASE WHEN "order" = 1 THEN 'one' WHEN "order" < 3 THEN 'few' END AS s, COUNT(*) AS n FROM claims
    GROUP BY 1 ORDER BY 1""",
    "SELECT EXTRACT(dow FROM day) AS s, COUNT(*) AS n FROM claims GROUP BY 1 ORDER BY n DESC, 1 LIMIT 3",
    "SELECT month(day) AS s, COUNT(*) AS n FROM claims WHERE month(day) < 9 OR day IS NULL GROUP BY 1 HAVING n > 0 ORDER BY 1",
    "SELECT quarter(day) AS s, COUNT(*) AS n FROM claims WHERE day > DATE '2024-02-01' GROUP BY 1 HAVING n > 0 ORDER BY 1",
    'SELECT "order" > 1 AS s, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS n FROM claims GROUP BY 1 ORDER BY 1',
    """SELECT NULLIF("order", 2) > 0 AS s, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY NULLIF("order", 2) > 0 NULLS FIRST) AS n
    FROM claims GROUP BY 1 ORDER BY 1 NULLS LAST LIMIT 2""",
    "SELECT month(day) AS s, SUM(COUNT(*)) OVER (ORDER BY month(day)) AS n FROM claims GROUP BY 1 ORDER BY 1",
    """SELECT CASE WHEN m > 9 THEN 'many' WHEN last > DATE '2024-12-01' THEN 'late' END AS s, COUNT(*) AS n FROM (SELECT
    "Member ID", COUNT(day) AS m, MAX(day) AS last FROM claims WHERE "order" = 3 GROUP BY 1) AS t
    GROUP BY 1 HAVING COUNT(*) > 0 ORDER BY 1""",
]


@pytest.mark.parametrize("text", OF_NULL)
def test_computed_groups_have_the_group_of_null_that_sql_shows(account, claims, text):
    limits = nt.limits(max_groups=13, max_rows_per_group=20)
    found = account.sql(text, **SURE | {"limits": limits}).to_arrow().select(["s", "n"]).to_pylist()
    database = duckdb.connect()
    database.register("claims", claims)
    truth = database.sql(text).fetchall()
    assert [row["s"] for row in found] == [group for group, _ in truth]
    shares = "100.0" in text
    assert all(abs(row["n"] - (n or 0)) < (1e-3 if shares else 0.5) for row, (_, n) in zip(found, truth, strict=True))


def test_an_answer_says_which_rows_its_keys_leave_out(account):
    for text, keys, said in [
        (BY_ORDER, [0, 1, 2], "another order than the keys, or with NULL where that is no key"),
        ("SELECT month(day) AS s, COUNT(*) AS n FROM claims GROUP BY 1", [1, 2], "another s than the keys"),
        ("SELECT month(day) AS s, COUNT(*) AS n FROM claims GROUP BY 1", None, ""),
        ("SELECT note AS s, COUNT(*) AS n FROM claims WHERE note IN ('', '100%') GROUP BY 1", None, ""),
    ]:
        notes = " ".join(account.sql(text, keys=keys, **SURE).notes)
        assert said in notes
        assert ("in no group" in notes) is bool(said)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("SELECT COUNT(*) AS n FROM claims WHERE \"Größe\" = 'NaN'::DOUBLE", "x > 1e308"),
        ("SELECT COUNT(*) AS n FROM claims WHERE \"Größe\" < '-Infinity'::FLOAT", "x > 1e308"),
        ('SELECT COUNT(*) AS "\ud800" FROM claims', "is not SQL"),
        ('SELECT DISTINCT "order", COUNT(*) AS n FROM claims GROUP BY 1', "leave it out"),
        (f"{BY_ORDER} FETCH FIRST 2 ROWS WITH TIES", "without WITH TIES"),
    ],
    ids=["NaN", "infinity", "half a character", "distinct", "ties"],
)
def test_texts_without_an_answer_are_refused_before_they_spend(account, text, remedy):
    before = account.remaining
    with pytest.raises(QueryError, match=remedy):
        account.sql(text, **SURE)
    assert account.remaining == before
