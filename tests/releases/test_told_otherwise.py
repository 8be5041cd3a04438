"""One person told otherwise: a second account for a file of a glob, and private rows declared public."""

import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.errors import LedgerError, PrivacyError, QueryError, SchemaError


@pytest.fixture
def place(tmp_path):
    for month in ("may", "june", "july"):
        pq.write_table(pa.table({"who": [1, 2], "town": ["Ulm", "Bonn"]}), tmp_path / f"v_{month}.parquet")
    return tmp_path


@pytest.mark.parametrize(("first", "second"), [("v_*", "v_may"), ("v_*", "v_ju*"), ("v_may", "v_*"), ("v_ju*", "v_*y")])
def test_a_file_of_several_belongs_to_one_population(place, first, second):
    with nt.open_ledger(place / "budget.db") as book:
        book.open(nt.table(place / f"{first}.parquet", unit="who", name="visits"), nt.pure(1))
        with pytest.raises(LedgerError, match="belongs to population 'visits'"):
            book.open(nt.table(place / f"{second}.parquet", unit="who", name="others"), nt.pure(1))
        assert [account.name for account in book.books.accounts()] == ["visits"]
        book.open(nt.table(place / f"{second}.parquet", unit="who", name="visits"))  # the near miss: the same people
        assert book.books.verify().whole


def test_a_folder_of_parquet_is_its_files_and_another_machine_is_named(place, monkeypatch):
    (place / "more").mkdir()
    (place / "v_may.parquet").rename(place / "more" / "v_may.parquet")
    rows = nt.table(place, unit="who", name="visits")
    assert [path.rpartition("/")[2] for path in rows.table.source.paths] == [
        "v_may.parquet",
        "v_july.parquet",
        "v_june.parquet",
    ]
    monkeypatch.setitem(sys.modules, "fsspec", None)  # as if it were not installed
    for remote in ("s3://bucket/v.parquet", "https://example.org/v.csv"):
        with pytest.raises(SchemaError, match=r"on another machine: pip install 'neartwin\[remote\]'"):
            nt.table(remote, unit="who", name="visits")


def test_a_hard_link_and_a_copy_are_their_file_and_other_rows_are_not(place):
    (place / "links").mkdir()
    (place / "links" / "l.parquet").hardlink_to(place / "v_may.parquet")
    (place / "copy.parquet").write_bytes((place / "v_may.parquet").read_bytes())
    people = nt.table(pa.table({"town": ["Ulm"], "id": [7]}), unit="id", name="people")
    asked, again = (
        people.join(nt.public_table(place / path, name="l"), on="town").agg(n=nt.count())
        for path in ("links/l.parquet", "copy.parquet")
    )
    with nt.open_ledger(place / "budget.db") as book:
        book.open(nt.table(place / "v_*.parquet", unit="who", name="visits"), nt.pure(1))
        for others in ("links", "links/l.parquet", "copy.parquet"):
            with pytest.raises(LedgerError, match="belongs to population 'visits'"):
                book.open(nt.table(place / others, unit="who", name="others"), nt.pure(1))
        account = book.open(people, nt.pure(1))
        for question in (asked, again):
            proposal = account.plan(question, spend=nt.pure("0.5"), limits=nt.limits(max_rows_per_group=1))
            with pytest.raises(PrivacyError, match="holds private rows of this ledger"):
                account.release(proposal)
        for same in ("links", "copy.parquet"):
            book.open(nt.table(place / same, unit="who", name="visits"))  # the same people
        pq.write_table(pq.read_table(place / "v_may.parquet").slice(1), place / "other.parquet")
        book.open(nt.table(place / "other.parquet", unit="who", name="others"), nt.pure(1))  # rows of its own
        assert book.books.verify().whole


@pytest.mark.parametrize("url", ["file://", "local://", "file://file://"])
def test_url_of_a_local_file_names_the_file(place, url):
    with nt.open_ledger(place / "budget.db") as book:
        book.open(nt.table(place / "v_may.parquet", unit="who", name="visits"), nt.pure(1))
        for files in ("v_may.parquet", "v_*.parquet"):
            with pytest.raises(LedgerError, match="belongs to population 'visits'"):
                book.open(nt.table(f"{url}{place / files}", unit="who", name="others"), nt.pure(1))
        book.open(nt.table(f"{url}{place / 'v_may.parquet'}", unit="who", name="visits"))  # the near miss


def test_a_private_file_is_no_public_table_of_another_account(place):
    people = nt.table(pa.table({"town": ["Ulm"], "id": [7]}), unit="id", name="people")
    with nt.open_ledger(place / "budget.db") as book:
        book.open(nt.table(place / "v_*.parquet", unit="who", name="visits"), nt.pure(1))
        account = book.open(people, nt.pure(1))
        for name, files in (("v_may", "v_may"), ("v_*", "v_*")):
            asked = people.join(nt.public_table(place / f"{files}.parquet", name=name), on="town")
            proposal = account.plan(
                asked.agg(n=nt.count()), spend=nt.pure("0.5"), limits=nt.limits(max_rows_per_group=1)
            )
            with pytest.raises(PrivacyError, match="holds private rows of this ledger"):
                account.release(proposal)
        pq.write_table(pa.table({"town": ["Ulm"]}), place / "towns.parquet")
        asked = people.join(nt.public_table(place / "towns.parquet"), on="town").agg(n=nt.count())
        account.release(account.plan(asked, spend=nt.pure("0.5"), limits=nt.limits(max_rows_per_group=1)))
        assert account.spent == {"epsilon": 1 / 2}


def of_visits(visit, place, **on):
    visits = nt.table(pa.table(visit), unit="who", name="visits", snapshot="s")
    bills = pa.table({"visit": [7, 7, 8], "ward": [1, 2, 2]})
    pq.write_table(bills, place / "bills.parquet")
    return visits, nt.table(place / "bills.parquet", unit=nt.owned_by(visits, **on))


VISITS = {"who": [1, 2, 3], "visit": [7, 8, 9], "ward": [1, 2, 2]}


@pytest.mark.parametrize("other", [{"on": "ward"}, {"on": ["visit", "ward"]}, {"on": {"ward": "visit"}}])
def test_the_owner_of_a_row_is_the_tables_and_not_the_questions(place, other):
    """By the asker's ON one row was one person's in one question and another's in the next, in one account."""
    visits, bills = of_visits(VISITS, place, on="visit")
    if "visit" not in other["on"] or isinstance(other["on"], dict):  # more columns beside it are a condition on rows
        with pytest.raises(QueryError, match="the unit with their visit, which is declared; join on that"):
            visits.join(bills, **other)
    for join in ("ON v.ward = b.ward", "USING (ward)"):
        with pytest.raises(QueryError, match="which is declared; join on that"):
            nt.from_sql(f"SELECT COUNT(*) FROM visits v JOIN bills b {join}", visits, tables={"bills": bills})
    declared = [visits.join(bills, on="visit", prefix="b_"), visits.join(bills, prefix="b_")]
    assert declared[0].table == declared[1].table  # the near miss
    terms = {"spend": nt.pure(10**6), "limits": nt.limits(max_rows_per_group=5)}
    with nt.open_ledger(place / "budget.db") as book:
        account = book.open(visits, nt.pure(10**9))
        more = "SELECT COUNT(*) AS n FROM visits v JOIN bills b ON v.visit = b.visit AND v.ward = b.ward"
        assert account.sql(more, tables={"bills": bills}, **terms)["n"].values == (
            2,
        )  # a condition, and no other owner
        answer = account.release(account.plan(declared[0].agg(n=nt.count()), **terms))
        assert answer["n"].values == (3,)
        assert account.release(account.plan(declared[1].agg(n=nt.count()), **terms)) == answer
        _, again = of_visits(VISITS, place, **other)
        asked = visits.join(again, prefix="b_").agg(n=nt.count())
        with pytest.raises(LedgerError, match="a second owner would tell one person's rows twice"):
            account.release(account.plan(asked, **terms))
        assert account.spent == {"epsilon": 2 * 10**6}
        assert book.books.verify().whole


def test_rows_of_one_file_have_one_owner_under_every_name(place):
    """A file of a glob, or a hard link, was the way to a second owner in one account."""
    visits, _ = of_visits(VISITS, place, on="visit")
    for number in range(2):
        pq.write_table(pa.table({"visit": [7, 8], "ward": [1, 2]}), place / f"b_{number}.parquet")
    (place / "link.parquet").hardlink_to(place / "b_0.parquet")
    terms = {"spend": nt.pure(1), "limits": nt.limits(max_rows_per_group=5)}

    def ask(files, on):
        bills = nt.table(place / f"{files}.parquet", unit=nt.owned_by(visits, on=on))
        return account.release(account.plan(visits.join(bills, prefix="b_").agg(n=nt.count()), **terms))

    with nt.open_ledger(place / "budget.db") as book:
        account = book.open(visits, nt.pure(10))
        ask("b_0", "visit")
        for files in ("b_*", "b_0", "link"):
            with pytest.raises(LedgerError, match=r"belong to the units of .*visit = visit.* a second owner"):
                ask(files, "ward")
            ask(files, "visit")  # the near miss
        with pytest.raises(LedgerError, match="a second owner"):
            ask("b_1", "ward")
        assert book.books.verify().whole


@pytest.mark.parametrize("owned_first", [True, False])
def test_rows_have_units_of_their_own_or_an_owner(place, owned_first):
    """A bill was the payer's in one question, and in the next the visitor's."""
    visits, _ = of_visits(VISITS, place, on="visit")
    pq.write_table(pa.table({"who": [1, 2], "visit": [8, 7]}), place / "bills.parquet")
    paid = nt.table(place / "bills.parquet", unit="who", name="visits")
    bills = nt.table(place / "bills.parquet", unit=nt.owned_by(visits, on="visit"))
    asked = [visits.join(other, on=key, prefix="b_") for other, key in ((paid, "who"), (bills, "visit"))]
    first, second = asked[::-1] if owned_first else asked
    with nt.open_ledger(place / "budget.db") as book:
        account = book.open(visits, nt.pure(10))
        plans = [
            account.plan(rows.agg(n=nt.count()), spend=nt.pure(1), limits=nt.limits(rows=2)) for rows in (first, second)
        ]
        account.release(plans[0])
        with pytest.raises(LedgerError, match="would tell one person's rows twice"):
            account.release(plans[1])
        assert account.spent == {"epsilon": 1}


def test_table_of_duckdb_is_one_under_any_capitals(place):
    with duckdb.connect(place / "clinic.duckdb") as connection:
        connection.execute("CREATE TABLE visits AS SELECT 1 AS who; CREATE TABLE others AS SELECT 1 AS who")
    with nt.open_ledger(place / "budget.db") as book:
        book.open(nt.table(place / "clinic.duckdb", table="Visits", unit="who", name="visits"), nt.pure(1))
        for table in ("visits", "VISITS"):
            with pytest.raises(LedgerError, match="belongs to population 'visits'"):
                book.open(nt.table(place / "clinic.duckdb", table=table, unit="who", name="others"), nt.pure(1))
        book.open(nt.table(place / "clinic.duckdb", table="others", unit="who"), nt.pure(1))  # the near miss


def test_folder_of_many_files_has_one_account(place):
    """The paths of 200 files were too long for a record, so a folder of Spark's had no account."""
    (place / "parts").mkdir()
    pq.write_table(pa.table({"who": [1, 2]}), place / "parts" / "0.parquet")
    for number in range(1, 200):
        (place / "parts" / f"{number}.parquet").write_bytes((place / "parts" / "0.parquet").read_bytes())
    (place / "parts" / "again.parquet").symlink_to(place / "parts" / "0.parquet")
    rows = nt.table(place / "parts", unit="who", name="visits")
    with nt.open_ledger(place / "budget.db") as book:
        account = book.open(rows, nt.pure(10**6))
        asked = account.plan(rows.agg(n=nt.count()), spend=nt.pure(10**5), limits=nt.limits(rows=900))
        assert round(account.release(asked)["n"].values[0]) == 400
        with pytest.raises(LedgerError, match="belongs to population 'visits'"):
            book.open(nt.table(place / "parts" / "7.parquet", unit="who", name="others"), nt.pure(1))
