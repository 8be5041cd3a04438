"""A ledger against a model of a dozen lines: whatever is asked in whatever order, the sums and the answers agree."""

import tempfile
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin.accounting.budgets import Approx, approx
from neartwin.errors import BudgetError, LedgerError
from neartwin.ledger import Book, Stored, Ticket
from tests.ledger.conftest import PEOPLE

PRICES = st.builds(
    Approx,
    epsilon=st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(3, 4)),
    delta=st.fractions(min_value=Fraction(1, 10**18), max_value=Fraction(1, 2 * 10**6)),
)
NUMBER = st.integers(min_value=0, max_value=3)
STEPS = st.one_of(
    st.tuples(st.just("ask"), NUMBER, NUMBER, PRICES),
    st.tuples(st.just("settle"), NUMBER),
    st.tuples(st.just("fail"), NUMBER),
    st.tuples(st.just("raise"), st.integers(min_value=1, max_value=3)),
    st.tuples(st.just("reopen")),
)


def up(amount, digits):
    """Rounded up to a whole number of 10^-digits, in another way than the ledger's."""
    whole = amount.numerator * 10**digits // amount.denominator
    return whole + (Fraction(whole, 10**digits) != amount)


class Model:
    """Two sums, two caps, the tickets that are open and the answers that were paid for."""

    def __init__(self):
        self.caps, self.spent, self.open, self.answers = [10**12, 10**12], [0, 0], [], {}

    def ask(self, plan, snapshot, price):
        if (plan, snapshot) in self.answers:
            return "stored"
        more = [self.spent[0] + up(price.epsilon, 12), self.spent[1] + up(price.delta, 18)]
        if any(sum_ > cap for sum_, cap in zip(more, self.caps, strict=True)):
            return "refused"
        self.spent = more
        return "ticket"


@settings(max_examples=25, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_a_ledger_agrees_with_its_model(steps):
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Book(f"{folder}/budget.db")
        account = ledger.open(PEOPLE, approx(1, "1e-6"))
        for number, step in enumerate(steps):
            match step:
                case ("ask", plan, snapshot, price):
                    expected = model.ask(plan, snapshot, price)
                    try:
                        got = account.reserve(f"plan {plan}", f"day {snapshot}", price)
                    except BudgetError:
                        got = None
                    assert {Ticket: "ticket", Stored: "stored", type(None): "refused"}[type(got)] == expected
                    if isinstance(got, Stored):
                        assert got.document == model.answers[plan, snapshot]
                    elif got is not None:
                        model.open.append((got, plan, snapshot))
                case ("settle", which) if model.open:
                    ticket, plan, snapshot = model.open.pop(which % len(model.open))
                    document = str(number).encode()
                    account.settle(ticket, document)
                    # of two answers that were both paid for, the one settled first is served again
                    model.answers.setdefault((plan, snapshot), document)
                case ("fail", which) if model.open:
                    account.fail(model.open.pop(which % len(model.open))[0])
                case ("raise", factor):
                    caps = [factor * 10**12, factor * 10**12]
                    try:
                        ledger.raise_cap("purchases", approx(factor, Fraction(factor, 10**6)))
                    except LedgerError:
                        assert caps[0] <= model.caps[0]
                    else:
                        model.caps = caps
                case ("reopen",):
                    ledger.close()
                    ledger = Book.existing(f"{folder}/budget.db")
                    account = ledger.account("purchases")
            assert account.spent == {
                "epsilon": Fraction(model.spent[0], 10**12),
                "delta": Fraction(model.spent[1], 10**18),
            }
        running = [one.position for one in account.history() if one.state == "reserved"]
        assert running == sorted(entry[0].position for entry in model.open)
        assert ledger.verify().whole, ledger.verify()
        ledger.close()
