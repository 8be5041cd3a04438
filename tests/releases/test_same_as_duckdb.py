"""Statements without noise say what DuckDB says of the same rows: of groups that HAVING leaves out, NULL, wide keys, names."""

import duckdb
import openpyxl
import pytest

import neartwin as nt
from neartwin.errors import NeartwinError

KEYS = [0, 1, 2, 3, 4, 5, 12]
ROWS = """
    SELECT range AS who, [0, 1, 2, 3, 4, 5, 12][1 + (hash(range) % 7)::INT] AS floors, 1 + (hash(range + 5) % 89)::INT AS fee,
      CASE WHEN range % 11 = 0 THEN NULL ELSE TIMESTAMP '2024-03-01' + to_hours((range % 24)::INT) END AS seen,
      CASE WHEN range % 2 = 0 THEN 18446744073709551615 ELSE 7 END::UBIGINT AS wide,
      ['x' || chr(11) || 'y', 'ok'][1 + range % 2] AS odd
    FROM range(900)
"""
SUMS = "SELECT floors, SUM(fee) AS n FROM permits GROUP BY floors"
EARLY = [
    "SELECT floors, SUM(COUNT(*)) OVER (ORDER BY floors) AS a FROM permits GROUP BY floors HAVING floors > 2",
    "SELECT floors, SUM(COUNT(*)) OVER (ORDER BY floors DESC) AS a FROM permits GROUP BY floors HAVING floors > 2",
    "SELECT floors, SUM(SUM(fee)) OVER (ORDER BY floors) AS a FROM permits GROUP BY floors HAVING floors IN (1, 3, 5)",
    "SELECT floors, SUM(COUNT(*)) OVER (ORDER BY floors ROWS 1 PRECEDING) AS a FROM permits GROUP BY floors HAVING floors > 2",
    "SELECT floors, SUM(COUNT(*)) OVER (ORDER BY floors) AS a FROM permits GROUP BY floors HAVING COUNT(*) > 125.5",
    f"SELECT floors, SUM(n) OVER (ORDER BY floors) AS a FROM ({SUMS}) AS t WHERE floors IN (1, 3, 5)",
    "SELECT floors, SUM(COUNT(*)) OVER (ORDER BY floors) AS a FROM permits GROUP BY floors QUALIFY floors > 2 AND a > 600",
    "SELECT floors, SUM(COUNT(*)) OVER (ORDER BY floors) AS a FROM permits GROUP BY floors",
]


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as made:
        made.execute(f"CREATE TABLE permits AS {ROWS}")
        yield made


@pytest.fixture(scope="module")
def account(connection, tmp_path_factory):
    rows = nt.table(connection, table="permits", unit="who", columns={"fee": nt.bounds(0, 100, 1)})
    with nt.open_ledger(tmp_path_factory.mktemp("permits") / "budget.db") as book:
        yield book.open(rows, nt.approx(10**9, "1e-2"))


@pytest.mark.parametrize("text", EARLY)
def test_a_window_adds_up_the_groups_that_having_keeps(account, connection, text):
    release = account.sql(text, keys=KEYS, spend=nt.pure(10**5))
    found = {(*key, round(value)) for key, value in zip(release.keys, release["a"].values, strict=True)}
    assert found == set(connection.execute(text).fetchall())


def test_no_time_is_neither_before_noon_nor_after(account, connection):
    text = "SELECT strftime(seen, '%p') AS half, COUNT(*) AS n FROM permits GROUP BY half"
    release = account.sql(text, spend=nt.approx(10**5, "1e-4"))
    found = {(*key, round(value)) for key, value in zip(release.keys, release["n"].values, strict=True)}
    assert found == set(connection.execute(text).fetchall())


def test_a_key_beyond_64_bits_fails_no_release_and_no_file(account, connection, tmp_path):
    text = "SELECT wide, COUNT(*) AS n, MEDIAN(fee) AS m FROM permits GROUP BY wide"
    release = account.sql(text, spend=nt.approx(10**5, "1e-4"))
    assert dict(zip(release.keys, map(round, release["n"].values), strict=True)) == {(7,): 450, (None,): 450}
    assert release.to_arrow()["wide"].to_pylist() == [key for (key,) in release.keys]
    plan = account.plan(nt.from_sql(text, account.rows), spend=nt.approx(10**5, "1e-5"))
    account.release_to_parquet(plan, tmp_path / "wide.parquet")
    assert set(connection.execute(f"SELECT wide FROM '{tmp_path}/wide.parquet'").fetchall()) == {(7,), (None,)}


def test_a_letter_that_no_spreadsheet_has_fails_no_file(account, tmp_path):
    release = account.sql("SELECT odd, COUNT(*) AS n FROM permits GROUP BY odd", spend=nt.approx(10**5, "1e-4"))
    sheet = openpyxl.load_workbook(release.write(tmp_path / "odd.xlsx"))["release"]
    assert {row[0] for row in sheet.iter_rows(min_row=2, values_only=True)} == {"x\ufffdy", "ok"}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT MIN(fee) AS n_lower, AVG(fee) AS n FROM permits",
        "SELECT floors AS n_upper, COUNT(*) AS n FROM permits GROUP BY floors",
        "SELECT COUNT(*) AS n, 2 * COUNT(*) AS n_upper FROM permits",
    ],
)
def test_the_name_of_an_end_of_a_bar_is_in_use(account, text):
    before = account.remaining
    with pytest.raises(NeartwinError, match=r"in use|is a column of the rows too|names two columns"):
        account.sql(text, spend=nt.approx(1, "1e-6"))
    assert account.remaining == before
