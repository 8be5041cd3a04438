"""What was changed, removed, moved or rolled back is found and named; what is whole is called whole."""

import re
import shutil
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from neartwin.accounting.budgets import approx, pure
from neartwin.errors import BudgetError, LedgerError, ParameterError
from neartwin.ledger import Book, Head, Population
from neartwin.ledger.records import digest
from tests.ledger.conftest import PEOPLE


def tell_a_story(ledger):
    """Eleven records of every kind: 1 begin, 2 open, 3 reserve, 4 settle, 5 reserve, 6 fail, 7 refuse, 8 raise, ..."""
    account = ledger.open(PEOPLE, pure(1))
    account.settle(account.reserve("plan", "monday", pure("0.25")), b"the release")
    account.fail(account.reserve("plan", "tuesday", pure("0.25")))
    with pytest.raises(BudgetError):
        account.reserve("plan", "wednesday", pure("0.75"))
    ledger.raise_cap("purchases", pure(2), "board decision 7")
    account.allot("analyst:ada", pure("0.5"))
    ledger.open(Population(name="purchases", unit="customer_id", relation="add_remove", source="duckdb:new"), pure(2))
    account.reserve("plan", "wednesday", pure("0.5"), payers=["analyst:ada"])
    return account


@contextmanager
def by_hand(place):
    """A connection of someone who goes past the ledger and knows how to drop its triggers."""
    url = sa.make_url(place) if "://" in place else sa.URL.create("sqlite", database=place)
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg") if "://" in place else url)
    with engine.begin() as connection:
        for table in ("record", "document"):
            if connection.dialect.name == "sqlite":
                for verb in ("update", "delete"):
                    connection.exec_driver_sql(f"DROP TRIGGER neartwin_{table}_no_{verb}")
            else:
                connection.exec_driver_sql(f"DROP TRIGGER neartwin_{table}_append_only ON neartwin_{table}")
        yield connection
    engine.dispose()


def line_of(connection, position):
    return connection.execute(
        sa.text("SELECT line FROM neartwin_record WHERE position = :p"), {"p": position}
    ).scalar_one()


def put_line(connection, position, line, *, rehash):
    connection.execute(sa.text("UPDATE neartwin_record SET line = :l WHERE position = :p"), {"l": line, "p": position})
    if rehash:
        values = {"h": digest(line), "p": position}
        connection.execute(sa.text("UPDATE neartwin_record SET hash = :h WHERE position = :p"), values)


def cheaper(connection, position, *, rehash):
    """Make a reservation look as if it had cost a tenth."""
    before = line_of(connection, position)
    after = re.sub(r'"price":\[\["epsilon","(\d+)0"\]\]', r'"price":[["epsilon","\1"]]', before)
    assert before != after
    put_line(connection, position, after, rehash=rehash)


def rewrite_from(connection, position):
    """Chain everything from a position on anew, head included: a forger with all the time in the world."""
    last = connection.execute(sa.text("SELECT max(position) FROM neartwin_record")).scalar_one()
    previous = digest(line_of(connection, position - 1))
    for place in range(position, last + 1):
        line = re.sub(r'"previous":"[0-9a-f]{64}"', f'"previous":"{previous}"', line_of(connection, place))
        put_line(connection, place, line, rehash=True)
        previous = digest(line)
    connection.execute(sa.text("UPDATE neartwin_ledger SET hash = :h"), {"h": previous})


def swap(connection, left, right):
    for before, after in ((left, -1), (right, left), (-1, right)):
        values = {"b": before, "a": after}
        connection.execute(sa.text("UPDATE neartwin_record SET position = :a WHERE position = :b"), values)


def put_in_after_the_last(connection):
    connection.exec_driver_sql(
        "INSERT INTO neartwin_record (position, account, line, hash) "
        "SELECT position + 1, account, line, hash FROM neartwin_record WHERE position = 11"
    )


def sql(text):
    return lambda connection: connection.exec_driver_sql(text)


TAMPERINGS = {
    "a price made smaller": (lambda c: cheaper(c, 5, rehash=False), "changed", 5),
    "a price made smaller and hashed anew": (lambda c: cheaper(c, 5, rehash=True), "changed", 5),
    "the newest record changed and hashed anew": (lambda c: cheaper(c, 11, rehash=True), "changed", 11),
    "a record that is no record": (lambda c: put_line(c, 6, "{}", rehash=True), "changed", 6),
    "a record in other letters": (
        lambda c: put_line(c, 6, line_of(c, 6).replace(":", ": "), rehash=True),
        "changed",
        6,
    ),
    "a record removed": (sql("DELETE FROM neartwin_record WHERE position = 5"), "removed", 5),
    "three records removed": (sql("DELETE FROM neartwin_record WHERE position IN (5, 6, 7)"), "removed", 5),
    "the first record removed": (sql("DELETE FROM neartwin_record WHERE position = 1"), "removed", 1),
    "the newest record removed": (sql("DELETE FROM neartwin_record WHERE position = 11"), "removed", 11),
    "two records swapped": (lambda c: swap(c, 5, 7), "moved", 5),
    "the last record repeated": (put_in_after_the_last, "moved", 12),
    "the sum made smaller": (sql("""UPDATE neartwin_account SET spent = '[["epsilon","0"]]'"""), "index", 2),
    "a sum that is no number": (sql("UPDATE neartwin_account SET spent = 'nothing'"), "index", 0),
    "the cap made larger": (sql("""UPDATE neartwin_account SET caps = '[["epsilon","9999999999999"]]'"""), "index", 2),
    "an allotment made larger": (
        sql("""UPDATE neartwin_allotment SET caps = '[["epsilon","9999999999999"]]'"""),
        "index",
        2,
    ),
    "a reservation made open again": (
        sql("UPDATE neartwin_reservation SET state = 'reserved' WHERE position = 3"),
        "index",
        2,
    ),
    "a reservation forgotten": (sql("DELETE FROM neartwin_reservation WHERE position = 5"), "index", 2),
    "an answer given to another question": (
        sql("UPDATE neartwin_reservation SET ask = 'x' WHERE position = 3"),
        "index",
        3,
    ),
    "a source forgotten": (sql("DELETE FROM neartwin_source"), "index", 0),
    "a record hidden from its account": (
        sql("UPDATE neartwin_record SET account = 'x' WHERE position = 5"),
        "index",
        5,
    ),
    "a release changed": (
        lambda c: c.execute(sa.text("UPDATE neartwin_document SET content = :c"), {"c": b"another"}),
        "document",
        4,
    ),
    "a release removed": (sql("DELETE FROM neartwin_document"), "document", 4),
    "a release put in": (
        lambda c: c.execute(sa.text("INSERT INTO neartwin_document VALUES (6, :c)"), {"c": b"another"}),
        "document",
        6,
    ),
    "the head put back": (sql("UPDATE neartwin_ledger SET position = 10"), "index", 10),
    "the head of another chain": (sql(f"UPDATE neartwin_ledger SET hash = '{'0' * 64}'"), "changed", 11),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_each_tampering_is_found_and_named(sqlite_place, name):
    tamper, kind, position = TAMPERINGS[name]
    with Book(sqlite_place) as ledger:
        tell_a_story(ledger)
        assert ledger.verify().whole
        assert ledger.head().position == 11
    with by_hand(sqlite_place) as connection:
        tamper(connection)
    with Book.existing(sqlite_place) as ledger:
        verdict = ledger.verify()
        assert (kind, position) in {(fault.kind, fault.position) for fault in verdict.faults}, verdict
        assert not verdict.whole


@pytest.mark.parametrize(
    "name",
    ["a price made smaller", "a record removed", "the sum made smaller", "a release changed", "two records swapped"],
)
def test_tampering_is_found_on_postgresql_too(postgres_place, name):
    tamper, kind, position = TAMPERINGS[name]
    with Book(postgres_place) as ledger:
        tell_a_story(ledger)
        assert ledger.verify(ledger.head()).whole
    with by_hand(postgres_place) as connection:
        tamper(connection)
    with Book.existing(postgres_place) as ledger:
        assert (kind, position) in {(fault.kind, fault.position) for fault in ledger.verify().faults}


def test_rewritten_history_verifies_alone_and_fails_against_a_kept_head(sqlite_place):
    with Book(sqlite_place) as ledger:
        tell_a_story(ledger)
        early, late = Head(4, ledger.account("purchases").history()[2].hash), ledger.head()
    with by_hand(sqlite_place) as connection:
        put_line(connection, 8, line_of(connection, 8).replace("decision 7", "decision 8"), rehash=True)
        rewrite_from(connection, 9)
    with Book.existing(sqlite_place) as ledger:
        assert ledger.verify().whole  # nobody can tell without a head
        assert ledger.verify(early).whole  # the part up to it is as it was
        (fault,) = ledger.verify(late).faults
        assert (fault.kind, fault.position) == ("rollback", 11)


@pytest.mark.parametrize("position", ["", "x", "-1", "0", "²", "9" * 5_000])
def test_what_is_no_position_makes_no_head(position):
    with pytest.raises(ParameterError):
        Head.parse(f"{position}:{'ab' * 32}")


def test_a_forged_overspend_breaks_a_rule_even_when_all_hashes_are_right(sqlite_place):
    with Book(sqlite_place) as ledger:
        tell_a_story(ledger)
    with by_hand(sqlite_place) as connection:
        line = line_of(connection, 5).replace(
            '"price":[["epsilon","250000000000"]]', '"price":[["epsilon","1250000000000"]]'
        )
        put_line(connection, 5, line, rehash=True)
        rewrite_from(connection, 6)
    with Book.existing(sqlite_place) as ledger:
        assert ("rule", 5) in {(fault.kind, fault.position) for fault in ledger.verify().faults}


def test_restored_backup_fails_against_the_newest_head_then_and_later(tmp_path):
    place, backup = str(tmp_path / "budget.db"), str(tmp_path / "backup.db")
    with Book(place) as ledger:
        account = ledger.open(PEOPLE, pure(1))
        account.reserve("plan", "monday", pure("0.25"))
        old = ledger.head()
    shutil.copy(place, backup)
    with Book(place) as ledger:
        lost = ledger.account("purchases").reserve("plan", "tuesday", pure("0.25"))
        kept = ledger.head()
        assert ledger.verify(kept).whole
    with Book(backup) as ledger:
        assert ledger.verify().whole
        assert ledger.verify(old).whole
        (fault,) = ledger.verify(kept).faults
        assert fault.kind == "rollback"
        assert "ends at record 3, but had 4" in fault.message
        account = ledger.account("purchases")
        account.reserve("plan", "wednesday", pure("0.25"))
        account.reserve("plan", "thursday", pure("0.25"))
        assert ledger.verify().whole
        (fault,) = ledger.verify(kept).faults
        assert (fault.kind, fault.position) == ("rollback", 4)
        with pytest.raises(LedgerError, match="rolled back"):
            account.settle(lost, b"paid for in a history that is gone")


def test_records_are_neither_changed_nor_removed_by_accident(ledger, place):
    tell_a_story(ledger)
    engine = ledger._database._engine
    for statement in (
        "UPDATE neartwin_record SET line = ''",
        "DELETE FROM neartwin_record WHERE position = 11",
        "DELETE FROM neartwin_document",
        "UPDATE neartwin_document SET position = 9",
    ):
        with pytest.raises(sa.exc.DBAPIError, match="never changed or removed"), engine.begin() as connection:
            connection.exec_driver_sql(statement)
    assert ledger.verify().whole


def test_a_changed_release_is_never_served(sqlite_place):
    with Book(sqlite_place) as ledger:
        tell_a_story(ledger)
    with by_hand(sqlite_place) as connection:
        connection.execute(sa.text("UPDATE neartwin_document SET content = :c"), {"c": b"another"})
    with Book.existing(sqlite_place) as ledger, pytest.raises(LedgerError, match="was changed"):
        ledger.account("purchases").reserve("plan", "monday", pure("0.25"))


def test_heads_of_two_ledgers_are_never_alike(tmp_path):
    heads = set()
    for name in ("one.db", "two.db"):
        with Book(tmp_path / name) as ledger:
            heads.add(ledger.head())
    assert len(heads) == 2
    with Book(tmp_path / "one.db") as ledger:
        assert sorted(ledger.verify(head).whole for head in heads) == [False, True]


def test_a_ledger_of_several_pools_is_replayed_pool_by_pool(ledger):
    account = ledger.open(PEOPLE, approx(1, "1e-6"))
    account.settle(account.reserve("plan", "monday", approx("0.25", "1e-7")), b"")
    account.reserve("plan", "tuesday", pure("0.25"))
    assert ledger.verify().whole
    assert str(ledger.verify()).startswith("whole: 5 records, head 5:")


def test_an_index_that_was_changed_by_hand_pays_nothing_and_lists_nothing(sqlite_place):
    with Book(sqlite_place) as ledger:
        tell_a_story(ledger)
    with by_hand(sqlite_place) as connection:
        connection.exec_driver_sql("UPDATE neartwin_account SET spent = 'nothing'")
        connection.exec_driver_sql("DELETE FROM neartwin_reservation WHERE position = 5")
    with Book.existing(sqlite_place) as ledger:
        account = ledger.account("purchases")
        for question in (
            lambda: account.spent,
            account.history,
            lambda: account.reserve("plan", "friday", pure("0.1")),
        ):
            with pytest.raises(LedgerError, match="verify the ledger"):
                question()
