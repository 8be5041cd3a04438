"""What cannot be opened says why and what to do, and is left as it was."""

import os
import sqlite3
import subprocess
import sys

import pytest
import sqlalchemy as sa

from neartwin.accounting.budgets import pure
from neartwin.errors import LedgerError
from neartwin.ledger import Book
from neartwin.ledger.store import connect
from tests import postgres_server
from tests.ledger.conftest import PEOPLE


def refusal(where, opener=Book):
    with pytest.raises(LedgerError) as caught:
        opener(where)
    return str(caught.value)


def test_a_missing_directory_is_named_and_not_made(tmp_path):
    assert f"the directory {tmp_path / 'no'} does not exist" in refusal(tmp_path / "no" / "budget.db")
    assert not (tmp_path / "no").exists()


def test_a_directory_is_no_ledger(tmp_path):
    assert "is a directory" in refusal(tmp_path)


def test_looking_at_a_ledger_that_is_not_there_makes_none(tmp_path, postgres_place):
    assert "there is no ledger" in refusal(tmp_path / "budget.db", Book.existing)
    assert not (tmp_path / "budget.db").exists()
    assert "there is no ledger" in refusal(postgres_place, Book.existing)
    Book(postgres_place).close()
    Book.existing(postgres_place).close()


@pytest.mark.parametrize("content", [b"not a database at all, but long enough " * 100, b"customer_id,amount\n1,2\n"])
def test_another_kind_of_file_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "purchases.csv"
    path.write_bytes(content)
    assert "is no ledger" in refusal(path)
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customer (id)")
    connection.close()
    before = path.read_bytes()
    for opener in (Book, Book.existing):
        assert "another application's database" in refusal(path, opener)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_ledger_and_is_not_one_before(tmp_path):
    path = tmp_path / "budget.db"
    path.touch()
    assert "there is no ledger" in refusal(path, Book.existing)
    with Book(path) as ledger:
        assert ledger.verify().whole


def test_a_damaged_file_is_called_damaged(tmp_path):
    path = tmp_path / "budget.db"
    with Book(path) as ledger:
        account = ledger.open(PEOPLE, pure(1))
        for number in range(50):
            account.reserve("plan", str(number), pure("0.01"), "a description " * 20)
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"damaged|could not be used"), Book(path) as ledger:
        ledger.verify()


def test_a_ledger_of_a_newer_format_is_refused(ledger, place):
    with ledger._database._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE neartwin_ledger SET version = 2")
    assert "has format 2, this neartwin knows up to 1; install a newer neartwin" in refusal(place)


def test_a_record_of_a_newer_kind_is_not_guessed_at(ledger, account, sqlite_place):
    from tests.ledger.test_verify import by_hand, line_of, put_line, rewrite_from

    account.reserve("plan", "monday", pure("0.1"))
    with ledger._database._engine.connect() as connection:
        where = connection.engine.url.render_as_string(hide_password=False)
    with by_hand(where if "postgres" in where else sqlite_place) as connection:
        put_line(connection, 3, line_of(connection, 3).replace('"version":1', '"version":7'), rehash=True)
        rewrite_from(connection, 3)
    for question in (account.history, ledger.verify):
        with pytest.raises(LedgerError, match="version 7, which is unknown to this neartwin; install a newer one"):
            question()


@pytest.mark.parametrize("where", ["", ":memory:", "sqlite://", "sqlite:///:memory:"])
def test_a_ledger_in_memory_is_refused(where):
    assert "would lose the spent budget" in refusal(where)


def test_an_sqlite_url_is_the_same_ledger_as_its_path(tmp_path):
    with Book(tmp_path / "budget.db") as ledger, Book.existing(f"sqlite:///{tmp_path / 'budget.db'}") as same:
        assert same.head() == ledger.head()


def test_a_database_without_its_driver_or_of_another_kind_is_refused(monkeypatch):
    assert "cannot be stored in 'mysql'" in refusal("mysql://host/database")
    assert "cannot be read" in refusal("://")
    monkeypatch.setattr(connect, "find_spec", lambda _: None)
    assert 'pip install "neartwin[postgres]"' in refusal("postgresql://host/database")


def test_a_server_that_does_not_answer_is_named_without_its_password():
    pytest.importorskip("psycopg")
    message = refusal("postgresql://ada:secret@127.0.0.1:1/budget")
    assert "ada:***@127.0.0.1:1" in message
    assert "secret" not in message


@pytest.mark.slow
def test_a_server_that_may_forget_is_refused(postgres_url):
    folder = postgres_server.binaries()
    if folder is None:
        pytest.skip("needs a server of its own")
    with postgres_server.running(folder, fsync="off") as url:
        assert "fsync=off, so a power loss could undo spent budget" in refusal(url)
    Book(postgres_url).close()


def test_a_writer_that_waits_too_long_says_so(sqlite_place, monkeypatch):
    monkeypatch.setattr(connect, "PATIENCE", 0.1)
    with Book(sqlite_place) as ledger:
        account = ledger.open(PEOPLE, pure(1))
        other = sqlite3.connect(sqlite_place, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="another writer held the ledger"):
            account.reserve("plan", "monday", pure("0.1"))
        assert account.spent == {"epsilon": 0}  # reading waits for nobody
        other.close()
        account.reserve("plan", "monday", pure("0.1"))


def test_commit_syncs_the_disk(ledger):
    with ledger._database._engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            settings = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
            }
            assert settings == {"journal_mode": "wal", "synchronous": 2}
    with ledger._database.write() as page:
        if page.connection.dialect.name == "postgresql":
            page.connection.exec_driver_sql("SET synchronous_commit = off")
    with ledger._database.write() as page:
        if page.connection.dialect.name == "postgresql":
            assert page.connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


@pytest.mark.slow
def test_the_books_load_no_driver_of_another_database():
    code = (
        "import sys, neartwin.ledger; print([m for m in ('psycopg', 'duckdb', 'pandas', 'scipy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_tables_are_found_in_the_schema_of_the_connection(postgres_place):
    engine = sa.create_engine(sa.make_url(postgres_place).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA budget")
    engine.dispose()
    with Book(postgres_place + "?options=-csearch_path%3Dbudget") as one, Book(postgres_place) as other:
        assert one.head() != other.head()
