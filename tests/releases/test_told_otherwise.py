"""One person told otherwise: a second account for a file of a glob, and private rows declared public."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.errors import LedgerError, PrivacyError


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
