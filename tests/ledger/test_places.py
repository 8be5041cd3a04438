"""A ledger knows each registered file under every name: what a person's rows are told by once is charged to one account."""

import os
import shutil

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.errors import LedgerError
from neartwin.ledger import account as places


def parquet(place, *who):
    pq.write_table(pa.table({"who": list(who), "visit": list(who)}), place)
    return place


@pytest.fixture
def ledger(tmp_path):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        yield book


def test_table_of_a_database_file_is_one_place_behind_a_connection_too(tmp_path, ledger):
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("CREATE TABLE Visits AS SELECT 1 AS who; CREATE TABLE others AS SELECT 1 AS who")
    ledger.open(nt.table(tmp_path / "x.duckdb", table="Visits", unit="who", name="visits"), nt.pure(1))
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as connection:
        for table in ("Visits", "visits"):
            with pytest.raises(LedgerError, match="belongs to population 'visits'"):
                ledger.open(nt.table(connection, table=table, unit="who", name="second"), nt.pure(1))
        ledger.open(nt.table(connection, table="others", unit="who", name="others"), nt.pure(1))
        ledger.open(nt.table(connection, table="Visits", unit="who", name="visits"), nt.pure(1))
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE visits AS SELECT 1 AS who")
        ledger.open(nt.table(connection, table="visits", unit="who", name="of memory"), nt.pure(1))


def test_files_are_registered_in_steps_that_grow_with_their_number(tmp_path, ledger, monkeypatch):
    """A thousand took 66 s, and each looked at all others."""
    looked, known = [], places.bytes_of
    monkeypatch.setattr(places, "bytes_of", lambda place: looked.append(place) or known(place))
    for number in range(30):
        parquet(tmp_path / f"{number}.parquet", number, 1000)
    ledger.open(nt.table(tmp_path / "*.parquet", unit="who", name="visits"), nt.pure(1))
    assert 30 <= len(looked) < 10 * 30
    for make in (shutil.copy, os.link, os.symlink):
        make(tmp_path / "7.parquet", tmp_path / "again.parquet")
        with pytest.raises(LedgerError, match="belongs to population 'visits'"):
            ledger.open(nt.table(tmp_path / "again.parquet", unit="who", name="second"), nt.pure(1))
        (tmp_path / "again.parquet").unlink()
    ledger.open(nt.table(parquet(tmp_path / "new.parquet", 7, 2000), unit="who", name="second"), nt.pure(1))
