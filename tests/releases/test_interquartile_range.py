"""The interquartile range: what it is, what it costs, and bars that hold as often as they say."""

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.planning.planner import plan
from neartwin.queries.wire.parse import form_of, question_of

DRAWS = 400
FAIR = 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / DRAWS)  # passed by chance once in 1e9


@pytest.fixture
def visits():
    return nt.table(pa.table({"who": [1], "paid": [5]}), unit="who", name="visits", columns={"paid": nt.bounds(0, 100)})


def released(made, values, copies, source):
    """Copies of a group of these values, on a grid of 100 cells of 1, as a release would have them."""
    ((name, split),) = made.splits.items()
    measure = made.measures[name]
    leaves = np.tile(np.bincount(values, minlength=split.tree.cells) * measure.parts, (copies, 1)).astype(np.int64)
    noisy = [measure.mechanism.noisy(level, source=source) for level in split.tree.nodes(leaves)]
    return made.estimates({}, {name: noisy})


def test_sql_json_and_python_ask_the_same(visits):
    asked = visits.agg(spread=nt.interquartile_range("paid"))
    assert nt.from_sql("SELECT IQR(paid) AS spread FROM visits", visits) == asked
    assert question_of(form_of(asked), visits) == asked
    assert question_of({"statistics": {"spread": {"ask": "interquartile_range", "column": "paid"}}}, visits) == asked


def test_interquartile_range_costs_one_quantile(visits):
    both = {"median": nt.median("paid"), "spread": nt.interquartile_range("paid")}
    plans = [
        plan(visits.agg(**one), spend=nt.gdp(1), limits=nt.limits(max_rows_per_group=1))
        for one in ({"median": both["median"]}, both)
    ]
    assert plans[0].measures == plans[1].measures


@pytest.mark.parametrize("spend", [nt.pure("1/2"), nt.zcdp("1/50")], ids=str)
@pytest.mark.parametrize("kind", ["uniform", "bell", "one value", "few"])
def test_interquartile_bars_cover_as_stated_within_the_range(visits, spend, kind):
    draw = np.random.default_rng(3)
    values = {
        "uniform": draw.integers(0, 100, 4000),
        "bell": draw.normal(50, 8, 4000).astype(int).clip(0, 99),
        "one value": np.full(4000, 40),
        "few": draw.integers(0, 100, 60),
    }[kind]
    made = plan(
        visits.agg(spread=nt.interquartile_range("paid", 0, 99, 1)), spend=spend, limits=nt.limits(max_rows_per_group=1)
    )
    (found,) = released(made, values, DRAWS, noise.ScriptedSource(f"{spend} {kind}".encode()))
    ordered = np.sort(values)
    truth = ordered[len(values) * 3 // 4 - 1] - ordered[len(values) // 4 - 1]
    low, value, high = map(np.array, (found.lower, found.values, found.upper))
    assert ((low <= truth) & (truth <= high)).mean() >= FAIR
    assert ((low <= value) & (value <= high)).all()
    assert low.min() >= 0
    if kind == "uniform":
        assert np.median(high - low) < 40
        middle, width = (low + high) / 2, (high - low) / 8  # a near miss: a quarter of the bar
        assert ((middle - width <= truth) & (truth <= middle + width)).mean() < FAIR


def test_the_preview_says_its_error_in_rows(visits):
    made = plan(
        visits.agg(spread=nt.interquartile_range("paid")), spend=nt.gdp(1), limits=nt.limits(max_rows_per_group=1)
    )
    (error,) = made.expected_errors()
    assert error.says.startswith("each quartile at most")
    assert error.by_size[-1][1] < 0.05


@pytest.mark.parametrize(("high", "warned"), [(100, True), (200, True), (3000, False)])
def test_a_quartile_at_a_clip_bound_is_named_in_the_headline(tmp_path, high, warned):
    paid = np.random.default_rng(1).lognormal(5, 1, 4000)  # quartiles of 75 and 290
    rows = nt.table(pa.table({"who": range(4000), "paid": paid}), unit="who", name="visits")
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10))
        query = rows.agg(spread=nt.interquartile_range("paid", 50, high))
        release = account.release(account.plan(query, spend=nt.pure(5), limits=nt.limits(max_rows_per_group=1)))
    assert ("lie at a bound" in release.headline) is warned


def test_bounds_of_dates_are_dates_in_words(tmp_path):
    days = np.datetime64("2079-06-01") + np.arange(2000) % 4
    rows = nt.table(pa.table({"who": range(2000), "day": pa.array(days)}), unit="who", name="visits")
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(10))
        release = account.sql("SELECT MAX(day) AS last FROM visits", spend=nt.pure(5))
    assert "[1900-01-01, 2079-06-05]" in release.headline
