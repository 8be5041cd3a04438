"""Parts of one account for analysts and projects: limits that hold, and that guarantee nothing by themselves."""

from fractions import Fraction

import pytest

from neartwin.accounting.budgets import approx, pure
from neartwin.errors import BudgetError, LedgerError, ParameterError
from neartwin.ledger import Book, Stored, Ticket
from tests.ledger import writers


def test_an_allotment_limits_its_holder_and_the_account_limits_all(ledger, account):
    account.allot("analyst:ada", pure("0.5"))
    account.allot("analyst:bob", pure("0.75"))  # together more than the account: its own cap rules
    account.reserve("plan", "1", pure("0.5"), payers=["analyst:ada"])
    with pytest.raises(BudgetError, match="the allotment of 'analyst:ada'") as caught:
        account.reserve("plan", "2", pure("0.1"), payers=["analyst:ada"])
    assert (caught.value.requested, caught.value.remaining) == (Fraction(1, 10), 0)
    assert len(caught.value.remedies) == 2
    with pytest.raises(BudgetError, match="raise the account's cap"):
        account.reserve("plan", "3", pure("0.6"), payers=["analyst:bob"])
    assert isinstance(account.reserve("plan", "3", pure("0.5"), payers=["analyst:bob"]), Ticket)
    left = {part.holder: part.remaining["epsilon"] for part in account.allotments()}
    assert left == {"analyst:ada": 0, "analyst:bob": Fraction(1, 4)}
    assert account.remaining == {"epsilon": 0}
    refused = [entry for entry in account.history() if entry.kind == "refuse"]
    assert [entry.payers for entry in refused] == [("analyst:ada",), ("analyst:bob",)]
    assert ledger.verify().whole


def test_a_plan_draws_on_its_analyst_and_its_project_together_or_on_none(account):
    account.allot("analyst:ada", pure("0.5"))
    account.allot("project:census", pure("0.2"))
    both = ("analyst:ada", "project:census")
    account.reserve("plan", "1", pure("0.2"), payers=both)
    with pytest.raises(BudgetError, match="project:census"):
        account.reserve("plan", "2", pure("0.1"), payers=both)
    spent = {part.holder: part.spent["epsilon"] for part in account.allotments()}
    assert spent == {"analyst:ada": Fraction(1, 5), "project:census": Fraction(1, 5)}
    account.reserve("plan", "2", pure("0.1"), payers=["analyst:ada", "analyst:ada"])  # named twice, paid once
    assert account.allotments()[0].spent == {"epsilon": Fraction(3, 10)}


def test_holder_without_allotment_spends_nothing_and_gets_stored_answers(account):
    with pytest.raises(LedgerError, match="'analyst:eve' has no allotment"):
        account.reserve("plan", "1", pure("0.1"), payers=["analyst:eve"])
    assert account.spent == {"epsilon": 0}
    account.settle(account.reserve("plan", "1", pure("0.1")), b"answer")
    assert isinstance(account.reserve("plan", "1", pure("0.1"), payers=["analyst:eve"]), Stored)


def test_a_first_allotment_leaves_the_one_that_stands(account):
    assert account.allot("ada", pure("0.5"), first=True).caps == {"epsilon": Fraction(1, 2)}
    records = len(account.history())
    assert account.allot("ada", pure("0.1"), first=True).caps == {"epsilon": Fraction(1, 2)}
    assert len(account.history()) == records
    assert account.allot("ada", pure("0.1")).caps == {"epsilon": Fraction(1, 10)}


def test_an_allotment_is_changed_on_record_but_not_below_what_was_spent(account):
    account.allot("analyst:ada", pure("0.5"))
    account.reserve("plan", "1", pure("0.25"), payers=["analyst:ada"])
    assert account.allot("analyst:ada", pure("0.75")).remaining == {"epsilon": Fraction(1, 2)}
    with pytest.raises(LedgerError, match=r"has spent epsilon=0\.25 already"):
        account.allot("analyst:ada", pure("0.2"))
    account.allot("analyst:ada", pure("0.25"))  # stops her
    with pytest.raises(BudgetError):
        account.reserve("plan", "2", pure("1e-9"), payers=["analyst:ada"])
    assert [entry.caps["epsilon"] for entry in account.history() if entry.kind == "allot"] == [
        Fraction(1, 2),
        Fraction(3, 4),
        Fraction(1, 4),
    ]


def test_an_allotment_is_of_the_accounts_own_kind_and_has_a_name(account):
    with pytest.raises(LedgerError, match="of kind 'basic', and the account of kind 'pure'"):
        account.allot("analyst:ada", approx("0.1", "1e-9"))
    with pytest.raises(ParameterError):
        account.allot("", pure("0.1"))


def test_threads_of_one_analyst_cannot_pass_her_allotment(ledger, account):
    account.allot("analyst:ada", pure("0.3"))
    won = []

    def spend(number):
        account.reserve("plan", str(number), pure("0.1"), payers=["analyst:ada"])
        won.append(number)

    raised = writers.in_threads(6, spend)
    assert len(won) == 3
    assert len(raised) == 3
    assert all(isinstance(error, BudgetError) for error in raised)
    assert ledger.verify().whole


def test_allotments_survive_in_the_file(place):
    from tests.ledger.conftest import PEOPLE

    with Book(place) as ledger:
        made = ledger.open(PEOPLE, pure(1)).allot("project:census", pure("0.5"))
    with Book.existing(place) as ledger:
        assert ledger.account("purchases").allotments() == (made,)
