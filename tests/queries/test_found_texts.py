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


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("SELECT COUNT(*) AS n FROM claims WHERE \"Größe\" = 'NaN'::DOUBLE", "x > 1e308"),
        ("SELECT COUNT(*) AS n FROM claims WHERE \"Größe\" < '-Infinity'::FLOAT", "x > 1e308"),
        ('SELECT COUNT(*) AS "\ud800" FROM claims', "is not SQL"),
        ('SELECT DISTINCT "order", COUNT(*) AS n FROM claims GROUP BY 1', "leave it out"),
    ],
    ids=["NaN", "infinity", "half a character", "distinct"],
)
def test_texts_without_an_answer_are_refused_before_they_spend(account, text, remedy):
    before = account.remaining
    with pytest.raises(QueryError, match=remedy):
        account.sql(text, **SURE)
    assert account.remaining == before
