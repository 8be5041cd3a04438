"""Windows over growing data: tumbling ones are groups, sliding ones are questions about the same people, and all are paid."""

from datetime import date, timedelta
from fractions import Fraction

import pyarrow as pa

import neartwin as nt

FIRST = date(2024, 1, 1)  # a Monday
SPEND = nt.gdp(200)  # noise far below one row's share of a window


def visits(days, snapshot):
    """Three people, each with one row a day."""
    rows = [{"who": who, "at": FIRST + timedelta(days=day)} for day in range(days) for who in "abc"]
    return nt.table(pa.Table.from_pylist(rows), unit="who", name="visits", snapshot=snapshot)


def test_tumbling_windows_are_groups_whose_keys_are_public(tmp_path):
    rows = visits(17, "monday")
    weeks = [FIRST + timedelta(weeks=week) for week in range(4)]
    query = rows.group_by(nt.date_part("week start", "at"), keys=weeks).agg(n=nt.count())
    with nt.open_ledger(tmp_path / "budget.db") as book:
        release = book.open(rows, SPEND)
        answer = release.release(release.plan(query, spend=SPEND, limits=nt.limits(max_rows_per_group=7, max_groups=4)))
    assert [key[0] for key in answer.keys] == weeks
    for value, truth in zip(answer["n"].values, (21, 21, 9, 0), strict=True):
        assert abs(value - truth) <= 1  # deviation 0.07: beyond 20 deviations otherwise


def test_sliding_windows_share_people_so_their_prices_add_up(tmp_path):
    rows = visits(17, "monday")
    windows = [(FIRST + timedelta(days=start), FIRST + timedelta(days=start + 7)) for start in (0, 3, 6)]
    asked = [
        rows.where(f"at >= DATE '{low}' AND at < DATE '{high}'").agg(**{f"n{i}": nt.count()})
        for i, (low, high) in enumerate(windows)
    ]
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.gdp(400))
        series = account.plan_series(asked, spend=SPEND, limits=nt.limits(max_rows_per_group=7, loss_share=0))
        answers = account.release_series(series)
        assert account.spent["mu_squared"] == 200**2
    for i, answer in enumerate(answers):
        assert abs(answer[f"n{i}"].values[0] - 21) <= 1
    squares = [part.measures["rows"].mechanism.mu_squared for part in series.plan.parts]
    assert Fraction(999, 1000) * 200**2 < sum(squares) <= 200**2  # near miss: three times the spend if each had it all
    assert len({part.digest for part in series.plan.parts}) == 3


def test_a_grown_table_is_charged_to_the_account_of_its_people_again(tmp_path):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        for days, snapshot, spent in ((7, "one", 1), (7, "one", 1), (14, "two", 2)):
            rows = visits(days, snapshot)
            account = book.open(rows, nt.pure(5))
            account.release(
                account.plan(rows.agg(n=nt.count()), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=7))
            )
            assert account.spent == {"epsilon": spent}  # the same state is answered again for nothing
