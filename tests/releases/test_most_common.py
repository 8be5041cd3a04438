"""The k most common values: chosen in order, paid in any currency, with counts of fresh noise, from Python and SQL."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.accounting.budgets import Approx, Pure
from neartwin.errors import ParameterError, PrivacyError, QueryError
from neartwin.mechanisms.additive import DiscreteLaplace
from neartwin.planning.planner import plan
from neartwin.queries.wire.parse import form_of, question_of

ILLS = ["gout", "cold", "flu", "measles", "mumps"]
SPENDS = [nt.pure(1), nt.approx(1, "1e-6"), nt.zcdp("0.3", "1e-7"), nt.rdp(8, 1), nt.gdp("0.7")]


@pytest.fixture
def rows():
    ill = ["flu"] * 3000 + ["cold"] * 2000 + ["gout"] * 1000 + ["measles"] * 10
    return nt.table(
        pa.table({"who": [*range(3000), *range(2000), *range(1000), *range(10)], "ill": ill}), unit="who", name="v"
    )


def test_the_winners_come_in_order_and_their_counts_have_bars(rows, tmp_path):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(2))
        alone = account.release(account.plan(rows.most_common("ill", among=ILLS, k=3), spend=nt.pure(1)))
        assert alone.keys == (("flu",), ("cold",), ("gout",))
        assert alone.statistics == ()
        both = account.release(account.plan(rows.most_common("ill", among=ILLS, k=2, counted=True), spend=nt.pure(1)))
        assert both.keys == (("flu",), ("cold",))
        count = both["count"]
        assert all(abs(value - true) < 100 for value, true in zip(count.values, (3000, 2000), strict=True))
        assert all(
            high - value == value - low > 0
            for low, value, high in zip(count.lower, count.values, count.upper, strict=True)
        )
        assert account.remaining == {"epsilon": 0}


@pytest.mark.parametrize("spend", SPENDS, ids=str)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("counted", [False, True])
def test_choices_and_counts_cost_at_most_the_spend(spend, neighbours, counted):
    table = nt.table(pa.table({"who": [1], "ill": ["flu"]}), unit="who", name="v", neighbours=neighbours)
    made = plan(table.most_common("ill", among=ILLS, k=4, counted=counted), spend=spend)
    whole = made.losses()
    eps = np.array([0.05, 0.2, 0.5, 0.9])
    if isinstance(made.price, Pure):
        assert whole.pure().upper <= float(spend.epsilon) * (1 + 1e-12)
    elif isinstance(made.price, Approx):
        assert whole.epsilon(spend.delta).lower <= float(spend.epsilon) * (1 + 1e-9)
        assert made.price.delta <= spend.delta
    elif hasattr(spend, "mu"):
        from neartwin.losses import Gaussian

        assert (whole.delta(eps).lower <= Gaussian(mu=spend.mu).__mul__(1).delta(eps).upper + 1e-12).all()
    else:
        rho = spend.rho if hasattr(spend, "rho") else spend.epsilon / spend.order
        assert whole.renyi(8.0).lower <= 8 * float(rho) * (1 + 1e-6)
    moves = 1 if neighbours == "add_remove" else 2
    assert (
        made.mechanism.each.scale * made.mechanism.each.epsilon == moves
    )  # the near miss: a factor 2 is forgotten or doubled


def test_many_choices_compose_exactly_at_a_delta_and_few_leave_it_unspent(rows):
    spend, values = nt.approx(1, "1e-6"), [f"v{i}" for i in range(200)]
    few = plan(rows.most_common("ill", among=values, k=2), spend=spend)
    many = plan(rows.most_common("ill", among=values, k=100), spend=spend)
    assert (few.price, few.mechanism.each.epsilon) == (nt.pure(1), Fraction(1, 2))
    assert many.price == spend
    assert many.mechanism.each.epsilon > Fraction(1, 100) * Fraction(3, 2)
    one_more = (100 * many.mechanism.each.losses()).epsilon(spend.delta)
    assert one_more.upper <= 1


def test_counts_are_paid_for_all_winners_a_unit_may_be_in(rows):
    made = plan(rows.most_common("ill", among=ILLS, k=3, counted=True), spend=nt.pure(1))
    assert isinstance(made.counts.mechanism, DiscreteLaplace)
    assert made.counts.mechanism.scale == 3 / Fraction(1, 2)
    assert made.mechanism.each.epsilon == Fraction(1, 6)


def test_sql_for_winners_alone_is_a_choice_and_with_counts_a_question(rows):
    text = "SELECT ill FROM v GROUP BY ill ORDER BY COUNT(DISTINCT who) DESC LIMIT 2"
    assert nt.from_sql(text, rows, keys=ILLS) == rows.most_common("ill", among=ILLS, k=2)
    assert nt.from_sql(text, rows, keys={"ill": ILLS}) == rows.most_common("ill", among=ILLS, k=2)
    counted = nt.from_sql(text.replace("SELECT ill", "SELECT ill, COUNT(DISTINCT who)"), rows, keys=ILLS)
    assert counted.after.limit == 2
    for wrong, says in (
        (text.replace(" DESC", ""), "at least one statistic"),
        (text.replace(" LIMIT 2", ""), "at least one statistic"),
        (text.replace("COUNT(DISTINCT who)", "COUNT(*)"), "most units"),
        (text.replace("ORDER", "HAVING COUNT(*) > 3 ORDER"), "released counts"),
        (text.replace("LIMIT 2", "LIMIT 9"), "at most the number"),
    ):
        with pytest.raises((QueryError, ParameterError), match=says):
            nt.from_sql(wrong, rows, keys=ILLS)
    with pytest.raises(QueryError, match="public ones"):
        nt.from_sql(text, rows)


def test_a_form_keeps_k_and_counts(rows):
    asked = rows.most_common("ill", among=ILLS, k=3, counted=True)
    assert question_of(form_of(asked), rows) == asked
    for wrong in ({"k": "3"}, {"k": 0}, {"k": 6}, {"counted": 1}, {"more": 1}):
        with pytest.raises((QueryError, ParameterError)):
            question_of({"most_common": {"column": "ill", "among": ILLS} | wrong}, rows)


def test_spend_that_no_choice_fits_is_refused(rows):
    with pytest.raises(PrivacyError, match="spend pure"):
        plan(rows.most_common("ill", among=ILLS), spend=nt.advantage("0.1"))


def test_computed_column_has_own_values_to_choose_among(tmp_path):
    day = pa.array(np.arange("2026-03-01", "2026-04-30", dtype="datetime64[D]"))
    rows = nt.table(pa.table({"who": range(60), "day": day}), unit="who", name="v")
    text = "SELECT month(day) AS m FROM v GROUP BY m ORDER BY COUNT(DISTINCT who) DESC LIMIT 2"
    with nt.open_ledger(tmp_path / "budget.db") as book:
        assert book.open(rows, nt.pure(10**6)).sql(text, spend=nt.pure(10**6)).keys == ((3,), (4,))
    assert nt.from_sql(text, rows).among == (*((month,) for month in range(1, 13)), (None,))
    with pytest.raises(QueryError, match="give them with keys="):
        nt.from_sql(text.replace("month(day)", "year(day)"), rows)  # which years there are is not known
