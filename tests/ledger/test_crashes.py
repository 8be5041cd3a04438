"""Real processes killed at the worst moment lose budget, never privacy, and never a record that was acknowledged."""

import random
import time
from fractions import Fraction

import pytest
import sqlalchemy as sa

from neartwin.accounting.budgets import pure
from neartwin.errors import LedgerError
from neartwin.ledger import Book, Stored, Ticket
from tests.ledger import writers
from tests.ledger.conftest import PEOPLE


@pytest.mark.slow
def test_kill_between_reserve_and_settle_keeps_the_price_and_no_answer(place):
    with Book(place) as ledger:
        account = ledger.open(PEOPLE, pure(1))
        ours, theirs = writers.PROCESSES.Pipe()
        process = writers.PROCESSES.Process(target=writers.reserve_and_hang, args=(place, theirs))
        process.start()
        ticket = ours.recv()
        process.kill()
        process.join()
        assert account.spent == {"epsilon": Fraction(1, 4)}
        assert [one.state for one in account.history() if one.position == ticket.position] == ["reserved"]
        assert ledger.verify().whole
        again = account.reserve("plan", "monday", pure("0.25"))
        assert isinstance(again, Ticket)  # there is no answer to serve, so it is paid anew
        assert account.spent == {"epsilon": Fraction(1, 2)}
        account.settle(again, b"second run")
        account.fail(ticket)  # the curator closes what was lost; its price stays
        assert account.spent == {"epsilon": Fraction(1, 2)}
        assert account.reserve("plan", "monday", pure("0.25")).document == b"second run"


def killed_at_random(place, acknowledged, rounds):
    """Kill three writers in mid-work, some rounds; nothing that they noted may be missing afterwards."""
    with Book(place) as ledger:
        account = ledger.open(PEOPLE, pure(1000))
        for number in range(rounds):
            processes = [
                writers.PROCESSES.Process(target=writers.hammer, args=(place, f"{number} {who}", acknowledged))
                for who in range(3)
            ]
            size = acknowledged.stat().st_size if acknowledged.exists() else 0
            for process in processes:
                process.start()
            while not acknowledged.exists() or acknowledged.stat().st_size <= size + 200:
                time.sleep(0.01)
            time.sleep(random.random() / 5)
            for process in processes:
                process.kill()
                process.join()
        assert ledger.verify().whole
        history = account.history()
        reserved = {entry.position: entry for entry in history if entry.kind == "reserve"}
        settled = {entry.position: entry.reserved for entry in history if entry.kind == "settle"}
        noted = [line.split() for line in acknowledged.read_text(encoding="ascii").splitlines()]
        assert {int(position) for word, position in noted if word == "reserved"} <= set(reserved)
        assert {int(position) for word, position in noted if word == "settled"} <= set(settled)
        assert account.spent == {"epsilon": len(reserved) * Fraction(1, 10**6)}
        assert {position for position, entry in reserved.items() if entry.state == "settled"} == set(settled.values())
        for entry in list(reserved.values())[-20:]:
            answer = account.reserve("plan", entry.snapshot, pure("1e-6"))
            assert isinstance(answer, Stored) == (entry.state == "settled")
            if isinstance(answer, Stored):
                assert answer.document == str(entry.position).encode() * 20_000


@pytest.mark.slow
def test_writers_killed_at_random_lose_no_acknowledged_record_and_no_sum(place, tmp_path):
    killed_at_random(place, tmp_path / "acknowledged", rounds=2)


@pytest.mark.slow
def test_killed_writers_lose_no_acknowledged_record_and_no_sum(place, tmp_path):
    killed_at_random(place, tmp_path / "acknowledged", rounds=20)


def test_a_database_that_ends_our_connections_loses_nothing(postgres_place):
    with Book(postgres_place) as ledger:
        account = ledger.open(PEOPLE, pure(1))
        ticket = account.reserve("plan", "monday", pure("0.25"))
        other = sa.create_engine(sa.make_url(postgres_place).set(drivername="postgresql+psycopg"))
        with other.connect() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        other.dispose()
        account.settle(ticket, b"after the break")
        assert account.spent == {"epsilon": Fraction(1, 4)}
        assert ledger.verify().whole


def test_a_write_that_fails_in_the_middle_leaves_nothing_behind(ledger, account, monkeypatch):
    ticket = account.reserve("plan", "monday", pure("0.25"))
    head = ledger.head()

    def broken(*_):
        raise OSError("the disk is gone")

    monkeypatch.setattr("neartwin.ledger.store.Writing.store", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        account.settle(ticket, b"half written")
    monkeypatch.undo()
    assert ledger.head() == head
    assert [one.state for one in account.history() if one.position == ticket.position] == ["reserved"]
    with pytest.raises(LedgerError, match="at most 67108864 bytes"):
        account.settle(ticket, bytes(64 * 2**20 + 1))
    assert account.settle(ticket, b"whole").document == b"whole"
