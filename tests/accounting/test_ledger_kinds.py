"""An account of each kind opens, spends to the last unit, refuses the next, and is the same after reopening."""

from fractions import Fraction

import pytest

from neartwin.accounting.budgets import advantage, approx, gdp, mixed, pure, rdp, zcdp
from neartwin.accounting.guarantee import Guarantee
from neartwin.errors import BudgetError, LedgerError, PrivacyError
from neartwin.ledger import Book, Population, Ticket

KINDS = [
    (pure(1), pure("0.25"), pure(2), zcdp("0.1")),
    (approx(1, "1e-6"), approx("0.1", "2.5e-7"), approx(2, "2e-6"), gdp("0.1")),
    (zcdp("0.5", "1e-6"), gdp("0.5", "1e-8"), zcdp(1, "1e-6"), rdp(2, "0.1")),
    (rdp(4, 2), gdp("0.5"), rdp(4, 3), rdp(3, "0.1")),
    (gdp(1, "1e-6"), gdp("0.5", "1e-7"), gdp(2, "1e-6"), advantage("0.1")),
    (mixed(1, 1, "1e-6"), mixed("0.1", "0.5"), mixed(1, 2, "1e-6"), advantage("0.1")),
]


def population(name):
    return Population(name=name, unit="id", relation="replace_one")


@pytest.mark.parametrize(("opened", "spend", "raised", "refused"), KINDS, ids=str)
def test_every_kind_of_account_opens_spends_and_refuses(tmp_path, opened, spend, raised, refused):
    place = tmp_path / "budget.db"
    with Book(place) as book:
        account = book.open(population("p"), opened)
        for n in range(4):
            assert isinstance(account.reserve(f"plan {n}", "monday", spend), Ticket)
        with pytest.raises(BudgetError):
            account.reserve("one more", "monday", spend)
        with pytest.raises(PrivacyError, match="no theorem"):
            account.reserve("another currency", "monday", refused)
    with Book.existing(place) as book:
        again = book.open(population("p"), opened)  # rebuilt from its record
        assert again.filter.promise(again.filter.caps) == opened
        with pytest.raises(LedgerError):
            book.open(population("p"), raised)
        book.raise_cap("p", raised, "more")
        account = book.account("p")
        account.reserve("one more", "monday", spend)
        assert book.verify().faults == ()
        told = Guarantee.of(account.filter.promise(account.filter.caps), unit="id", neighbours="replace_one")
        assert 0.5 < told.best_guess < 1
        assert Guarantee.from_dict(told.as_dict()) == told


def test_an_order_fixed_at_opening_is_not_changed_later(tmp_path):
    with Book(tmp_path / "budget.db") as book:
        book.open(population("p"), rdp(4, 2))
        with pytest.raises(LedgerError, match="kind"):
            book.raise_cap("p", rdp(5, 9), "another order")
        with pytest.raises(LedgerError):
            book.open(population("p"), rdp(5, 2))


def test_advantage_account_takes_gaussian_and_pure_plans_up_to_its_cap(tmp_path):
    with Book(tmp_path / "budget.db") as book:
        account = book.open(population("p"), advantage("0.3"))
        account.reserve("a", "monday", pure("0.1"))
        account.reserve("b", "monday", gdp("0.5"))
        with pytest.raises(BudgetError):
            account.reserve("c", "monday", gdp("0.6"))
        with pytest.raises(BudgetError):  # no pool for failures was asked for
            account.reserve("d", "monday", approx("0.01", "1e-9"))
        promised = Guarantee.of(account.filter.promise(account.filter.caps), unit="id", neighbours="replace_one")
        assert 0.2999 < promised.advantage < 0.3 + 1e-9
        assert account.spent["mu_squared"] < Fraction(594, 1000)


@pytest.mark.parametrize("opened", [gdp(1, "1e-6"), mixed(0, 1, "1e-6")], ids=str)
def test_gaussian_account_prices_a_zcdp_plan_and_refuses_it_without_delta(tmp_path, opened):
    with Book(tmp_path / "budget.db") as book:
        account = book.open(population("p"), opened)
        account.reserve("a", "monday", zcdp("0.05"))
        price = account.filter.price(zcdp("0.05"))
        assert (
            tuple(amount / pool.unit for amount, pool in zip(account.spent.values(), account.filter.pools, strict=True))
            == price
        )
        assert account.spent["delta"] == Fraction(1, 10**9)  # a thousandth of the account's, set aside by the fit
        bare = book.open(population("q"), gdp(1))
        with pytest.raises(PrivacyError, match="no theorem"):
            bare.reserve("a", "monday", zcdp("0.05"))
