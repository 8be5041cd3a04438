"""What an account promises, on one writer."""

import os
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from sqlalchemy import event

from neartwin.accounting import prices
from neartwin.accounting.budgets import approx, gdp, pure, zcdp
from neartwin.errors import BudgetError, LedgerError, ParameterError, PrivacyError
from neartwin.ledger import Book, Population, Stored, Ticket
from tests.ledger.conftest import PEOPLE


def test_ten_spends_of_a_tenth_fill_a_budget_of_one_exactly(account):
    for day in range(10):
        assert isinstance(account.reserve("plan", f"day {day}", pure("0.1")), Ticket)
    assert account.spent == {"epsilon": Fraction(1)}
    assert account.remaining == {"epsilon": Fraction(0)}
    with pytest.raises(BudgetError):
        account.reserve("plan", "day 10", pure(Fraction(1, 10**12)))


def test_a_price_is_rounded_up_to_a_whole_unit(account):
    for day in range(3):
        ticket = account.reserve("plan", f"day {day}", pure("1/3")) if day < 2 else None
    assert ticket is None
    with pytest.raises(BudgetError):  # three rounded thirds are more than one
        account.reserve("plan", "day 2", pure("1/3"))
    account.reserve("plan", "day 2", pure(account.remaining["epsilon"]))
    assert account.remaining == {"epsilon": 0}


def test_refusal_spends_nothing_names_amounts_and_remedies_and_is_recorded(account):
    account.reserve("plan", "monday", pure("0.75"))
    with pytest.raises(BudgetError) as caught:
        account.reserve("plan", "tuesday", pure("0.5"), "count by region")
    refusal = caught.value
    assert (refusal.requested, refusal.remaining) == (Fraction(1, 2), Fraction(1, 4))
    assert "requested epsilon 0.5, remaining 0.25, difference 0.25" in str(refusal)
    assert len(refusal.remedies) == 2
    assert account.spent == {"epsilon": Fraction(3, 4)}
    last = account.history()[-1]
    assert (last.kind, last.state, last.pool, last.price) == (
        "refuse",
        "refused",
        "epsilon",
        {"epsilon": Fraction(1, 2)},
    )
    assert last.description == "count by region"
    assert isinstance(account.reserve("plan", "tuesday", pure("0.25")), Ticket)  # what is left may still be spent


def test_each_pool_refuses_by_itself(ledger):
    account = ledger.open(PEOPLE, approx(1, "1e-6"))
    account.reserve("plan", "monday", approx("0.5", "1e-6"))
    with pytest.raises(BudgetError) as caught:
        account.reserve("plan", "tuesday", approx("0.1", "1e-9"))
    assert caught.value.pool == "delta"
    account.reserve("plan", "tuesday", pure("0.5"))
    assert account.remaining == {"epsilon": 0, "delta": 0}


def test_a_pure_account_cannot_pay_a_delta(account):
    with pytest.raises(PrivacyError):
        account.reserve("plan", "monday", approx("0.1", "1e-9"))
    assert account.spent == {"epsilon": 0}


def test_plan_is_free_again_exactly_on_its_own_snapshot(account):
    ticket = account.reserve("plan", "monday", pure("0.25"))
    settled = account.settle(ticket, b"the release")
    again = account.reserve("plan", "monday", pure("0.25"))
    assert again == settled
    assert isinstance(again, Stored)
    assert (again.document, again.price) == (b"the release", {"epsilon": Fraction(1, 4)})
    assert account.spent == {"epsilon": Fraction(1, 4)}
    for plan, snapshot in (("plan", "tuesday"), ("another plan", "monday")):
        assert isinstance(account.reserve(plan, snapshot, pure("0.25")), Ticket)
    assert account.spent == {"epsilon": Fraction(3, 4)}


def test_an_answer_once_stored_stays_the_answer(account):
    early, late = (account.reserve("plan", "monday", pure("0.25")) for _ in range(2))
    account.settle(late, b"settled first")
    assert account.reserve("plan", "monday", pure("0.25")).document == b"settled first"
    account.settle(early, b"settled second")
    assert account.reserve("plan", "monday", pure("0.25")).document == b"settled first"


def test_a_ticket_of_another_account_or_made_up_settles_nothing(ledger, account):
    ticket = account.reserve("plan", "monday", pure("0.25"))
    other = ledger.open(Population(name="visits", unit="id", relation="add_remove"), pure(1))
    forged = [
        (other, ticket),
        (account, replace(ticket, position=ticket.position + 1)),
        (account, replace(ticket, position=2)),
        (account, replace(ticket, hash="0" * 64)),
        (account, replace(ticket, plan_digest="another plan")),
        (account, replace(ticket, price={"epsilon": Fraction(1, 8)})),
        (account, replace(ticket, account="visits")),
    ]
    for holder, made_up in forged:
        for close in (lambda h=holder, t=made_up: h.settle(t, b""), lambda h=holder, t=made_up: h.fail(t)):
            with pytest.raises(LedgerError):
                close()
    account.settle(ticket, b"the true one")


def test_a_ticket_settles_once(account):
    ticket = account.reserve("plan", "monday", pure("0.25"))
    account.settle(ticket, b"first draw")
    for close in (lambda: account.settle(ticket, b"second draw"), lambda: account.fail(ticket)):
        with pytest.raises(LedgerError, match="settled by record"):
            close()
    assert account.reserve("plan", "monday", pure("0.25")).document == b"first draw"


def test_a_failed_run_keeps_its_price_and_its_ticket_is_dead(account):
    ticket = account.reserve("plan", "monday", pure("0.25"))
    account.fail(ticket)
    assert account.spent == {"epsilon": Fraction(1, 4)}
    with pytest.raises(LedgerError, match="failed by record"):
        account.settle(ticket, b"late")
    assert isinstance(account.reserve("plan", "monday", pure("0.25")), Ticket)
    assert account.spent == {"epsilon": Fraction(1, 2)}
    assert [entry.state for entry in account.history() if entry.kind == "reserve"] == ["failed", "reserved"]


def test_opening_again_gives_the_same_account_and_other_terms_are_refused(ledger, account):
    account.reserve("plan", "monday", pure("0.25"))
    assert ledger.open(PEOPLE, pure("1.0")).spent == account.spent
    changed = {
        "unit": Population(name="purchases", unit="order_id", relation="add_remove", source=PEOPLE.source),
        "relation": Population(name="purchases", unit="customer_id", relation="replace_one", source=PEOPLE.source),
    }
    for term, population in changed.items():
        with pytest.raises(LedgerError, match=f"registered with {term}"):
            ledger.open(population, pure(1))
    for target in (pure(2), approx(1, "1e-6")):
        with pytest.raises(LedgerError, match="has an account already"):
            ledger.open(PEOPLE, target)


def test_open_account_keeps_its_terms_if_opened_without_a_budget(ledger, account):
    account.reserve("plan", "monday", pure("0.25"))
    ledger.raise_cap("purchases", pure("1.5"), "board decision 7")
    again = ledger.open(PEOPLE)
    assert (again.caps, again.spent) == ({"epsilon": Fraction(3, 2)}, {"epsilon": Fraction(1, 4)})
    with pytest.raises(LedgerError, match="registered with unit"):
        ledger.open(Population(name="purchases", unit="order_id", relation="add_remove", source=PEOPLE.source))
    with pytest.raises(LedgerError, match="has no account 'orders': give the whole budget"):
        ledger.open(Population(name="orders", unit="customer_id", relation="add_remove"))


def test_source_has_one_account_also_after_a_refresh(ledger):
    ledger.open(PEOPLE, pure(1)).reserve("plan", "monday", pure("0.25"))
    renamed = Population(name="orders", unit="customer_id", relation="add_remove", source=PEOPLE.source)
    with pytest.raises(LedgerError, match="belongs to population 'purchases'"):
        ledger.open(renamed, pure(1))
    refreshed = Population(
        name="purchases", unit="customer_id", relation="add_remove", source="duckdb:purchases2.parquet"
    )
    assert ledger.open(refreshed, pure(1)).remaining == {"epsilon": Fraction(3, 4)}
    stolen = Population(name="orders", unit="customer_id", relation="add_remove", source=refreshed.source)
    with pytest.raises(LedgerError, match="belongs to population 'purchases'"):
        ledger.open(stolen, pure(1))
    for name in ("frames", "more frames"):  # what has no lasting source cannot be told apart by it
        ledger.open(Population(name=name, unit="id", relation="add_remove"), pure(1))
    assert [account.name for account in ledger.accounts()] == ["purchases", "frames", "more frames"]


def test_a_cap_is_raised_on_record_and_never_lowered(ledger, account):
    account.reserve("plan", "monday", pure(1))
    ledger.raise_cap("purchases", pure("1.5"), "board decision 7")
    assert (account.caps, account.remaining) == ({"epsilon": Fraction(3, 2)}, {"epsilon": Fraction(1, 2)})
    assert account.history()[-1].description == "board decision 7"
    for target in (pure("1.2"), pure("1.5"), approx(2, "1e-6")):
        with pytest.raises(LedgerError):
            ledger.raise_cap("purchases", target)
    assert account.filter.caps == (1_500_000_000_000,)
    with pytest.raises(LedgerError, match="has an account already"):
        ledger.open(PEOPLE, pure(1))
    assert ledger.open(PEOPLE, pure("1.5")).name == "purchases"


def test_a_ledger_is_read_back_as_it_was(place):
    with Book(place) as first:
        account = first.open(PEOPLE, pure(1))
        ticket = account.reserve("plan", "monday", pure("0.25"))
        head = first.head()
    with Book.existing(place) as second:
        account = second.account("purchases")
        assert second.head() == head
        assert account.population == PEOPLE
        account.settle(ticket, b"after a restart")
        assert second.verify(head).whole
    with pytest.raises(LedgerError, match="closed"):
        account.spent  # noqa: B018
    with Book.existing(place) as third, pytest.raises(LedgerError, match="no account 'sales'"):
        third.account("sales")


def test_a_new_ledger_can_be_read_by_its_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        with Book(tmp_path / "budget.db") as ledger:
            ledger.open(PEOPLE, pure(1))
            for file in tmp_path.iterdir():
                assert file.stat().st_mode & 0o777 == 0o600, file
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a\x00b"},
        {"name": "a\nb"},
        {"unit": ""},
        {"relation": "add"},
        {"source": "x" * 4001},
        {"name": None},
    ],
)
def test_a_population_is_named_in_printable_words(wrong):
    right = {"name": "purchases", "unit": "id", "relation": "replace_one"}
    Population(**right)
    with pytest.raises(ParameterError):
        Population(**(right | wrong))


def test_reservation_takes_as_many_steps_after_hundreds_of_records(tmp_path):
    steps = [0]

    def count():
        steps[0] += 1

    with Book(tmp_path / "budget.db") as ledger:
        account = ledger.open(PEOPLE, pure(1))
        event.listen(ledger._database._engine, "checkout", lambda c, *_: c.set_progress_handler(count, 1))
        event.listen(ledger._database._engine, "checkout", lambda c, *_: c.execute("PRAGMA synchronous=OFF"))
        taken = {}
        for number in range(310):
            steps[0] = 0
            ticket = account.reserve("plan", str(number), pure("0.001"), key=f"request {number}")
            account.settle(ticket, b"answer")
            taken[number] = steps[0]
        assert 0 < taken[300] == taken[10]
        steps[0] = 0
        account.history()
        assert steps[0] > 10 * taken[10]  # what grows with the records is seen to grow


@pytest.mark.slow
def test_query_1000_sends_the_statements_of_query_2(tmp_path):
    """A price that the engine must fit, mu of a zCDP bound, is fitted once in a session."""
    sent, opened = [], []

    def traced(connection, *_):
        connection.execute("PRAGMA synchronous=OFF")
        connection.set_trace_callback(lambda text: sent.append(re.sub(r"'[^']*'|\b\d+\b", "?", text)))
        opened[:] = [connection]

    with Book(tmp_path / "budget.db") as ledger:
        account = ledger.open(PEOPLE, gdp(1000, "1e-6"))
        event.listen(ledger._database._engine, "checkout", traced)
        prices._fitted.cache_clear()
        taken = {}
        for number in range(1, 1001):
            sent.clear()
            before = opened[0].total_changes if opened else 0
            account.settle(account.reserve(f"plan {number}", "monday", zcdp("0.0001")), b"answer")
            taken[number] = (tuple(sent), opened[0].total_changes - before)
        assert len(taken[2][0]) > taken[2][1] >= 6  # what is read, and at least six rows that change
        assert taken[1000] == taken[2]
        assert prices._fitted.cache_info().misses == 1


def test_a_history_of_any_length_is_one_query(tmp_path):
    sent = []
    with Book(tmp_path / "budget.db") as ledger:
        account = ledger.open(PEOPLE, pure(1))
        event.listen(ledger._database._engine, "checkout", lambda c, *_: c.set_trace_callback(sent.append))
        for number in range(20):
            ticket = account.reserve("plan", str(number), pure("0.001"))
            if number % 2:
                account.settle(ticket, b"answer")
        sent.clear()
        states = [entry.state for entry in account.history() if entry.kind == "reserve"]
        assert [text for text in sent if text.startswith("SELECT")] == sent[1:-1]  # between BEGIN and its end
        assert (len(sent), states) == (3, ["reserved", "settled"] * 10)
        with ledger._database.write() as page:
            page.connection.exec_driver_sql("DELETE FROM neartwin_reservation WHERE state = 'settled'")
        with pytest.raises(LedgerError, match="is missing from its index"):
            account.history()
