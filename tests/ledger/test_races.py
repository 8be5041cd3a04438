"""Many writers, in threads and in real processes: nobody wins twice, nothing is lost."""

import os
from fractions import Fraction

import pytest

from neartwin.accounting.budgets import pure
from neartwin.errors import BudgetError, LedgerError
from neartwin.ledger import Book, Stored, Ticket
from tests.ledger import writers
from tests.ledger.conftest import PEOPLE


def run_processes(count, work, place):
    """Start processes that begin at one moment; what each of them put on the queue."""
    start, results = writers.PROCESSES.Barrier(count), writers.PROCESSES.Queue()
    processes = [
        writers.PROCESSES.Process(target=work, args=(place, f"writer {n}", start, results)) for n in range(count)
    ]
    for process in processes:
        process.start()
    found = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return found


@pytest.mark.slow
def test_racing_processes_spend_exactly_the_last_of_a_budget(place):
    with Book(place) as ledger:
        account = ledger.open(PEOPLE, pure(2))
        won = run_processes(4, writers.spend_all, place)
        assert sum(won) == 20
        assert account.spent == {"epsilon": Fraction(2)}
        assert [entry.kind for entry in account.history()].count("reserve") == 20
        assert [entry.kind for entry in account.history()].count("refuse") == 4
        assert ledger.verify().whole


def test_racing_threads_spend_exactly_the_last_of_a_budget(ledger, account):
    won = []

    def spend(number):
        for count in range(4):
            account.reserve("plan", f"{number} {count}", pure("0.1"))
            won.append(number)

    raised = writers.in_threads(8, spend)
    assert len(won) == 10
    assert raised
    assert all(isinstance(error, BudgetError) for error in raised)
    assert account.remaining == {"epsilon": 0}
    assert ledger.verify().whole


def test_processes_that_make_the_same_ledger_at_once_make_one(place):
    positions = run_processes(4, writers.open_and_reserve, place)
    assert sorted(positions) == [3, 4, 5, 6]  # after one beginning and one opening
    with Book.existing(place) as ledger:
        assert ledger.account("purchases").spent == {"epsilon": Fraction(4, 10)}
        assert ledger.verify().whole


@pytest.mark.slow
def test_openers_of_a_new_file_wait_for_the_one_that_turns_its_log_on(tmp_path):
    """SQLite does not wait there by itself: without it, six openers fail in one round of five."""
    for count in range(20):
        raised = writers.in_threads(6, lambda _, place=tmp_path / f"{count}.db": Book(place).close())
        assert not raised


def test_concurrent_equal_plans_are_paid_and_later_ones_are_free(place):
    with Book(place) as ledger:
        account = ledger.open(PEOPLE, pure(1))
        answers = run_processes(4, writers.ask_the_same, place)
        paid = [document for own, document in answers if own]
        assert account.spent == {"epsilon": len(paid) * Fraction(1, 10)}
        assert 1 <= len(paid) == len(set(paid))
        assert {document for _, document in answers} == set(paid)
        before = account.spent
        first = account.reserve("plan", "monday", pure("0.1"))
        assert isinstance(first, Stored)
        assert first.position == min(entry.position for entry in account.history() if entry.kind == "settle")
        assert account.spent == before


def test_a_request_sent_again_under_its_key_never_pays_twice(account):
    ticket = account.reserve("plan", "monday", pure("0.1"), key="request 7")
    with pytest.raises(LedgerError, match="still running, or was lost"):
        account.reserve("plan", "monday", pure("0.1"), key="request 7")
    for other in (
        ("another plan", "monday", pure("0.1")),
        ("plan", "tuesday", pure("0.1")),
        ("plan", "monday", pure("0.2")),
    ):
        with pytest.raises(LedgerError, match="used for another request"):
            account.reserve(*other, key="request 7")
    assert account.spent == {"epsilon": Fraction(1, 10)}
    stored = account.settle(ticket, b"answer")
    assert account.reserve("plan", "monday", pure("0.1"), key="request 7") == stored
    assert account.spent == {"epsilon": Fraction(1, 10)}
    assert isinstance(account.reserve("plan", "tuesday", pure("0.1"), key="request 8"), Ticket)


def test_key_of_a_failed_request_is_used_up_and_of_a_refused_one_is_not(ledger, account):
    account.fail(account.reserve("plan", "monday", pure("0.1"), key="request 7"))
    with pytest.raises(LedgerError, match="pay again under a new key"):
        account.reserve("plan", "monday", pure("0.1"), key="request 7")
    with pytest.raises(BudgetError):
        account.reserve("plan", "tuesday", pure("1.5"), key="request 8")
    ledger.raise_cap("purchases", pure(2))
    assert isinstance(account.reserve("plan", "tuesday", pure("1.5"), key="request 8"), Ticket)


def test_keyed_requests_sent_at_once_pay_once(account):
    got = []
    raised = writers.in_threads(
        6, lambda _: got.append(account.reserve("plan", "monday", pure("0.1"), key="request 7"))
    )
    assert len(got) == 1
    assert len(raised) == 5
    assert all(isinstance(error, LedgerError) and "still running" in str(error) for error in raised)
    assert account.spent == {"epsilon": Fraction(1, 10)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # that a fork may find threads
def test_forked_process_spends_from_the_account_on_own_connections(ledger, account):
    child = os.fork()
    if child == 0:
        try:
            account.reserve("plan", "child", pure("0.5"))
        except BaseException:  # noqa: BLE001 - the child must end here whatever happens
            os._exit(1)
        os._exit(0)
    account.reserve("plan", "parent", pure("0.25"))
    assert os.waitpid(child, 0)[1] == 0
    assert account.remaining == {"epsilon": Fraction(1, 4)}
    assert ledger.verify().whole
