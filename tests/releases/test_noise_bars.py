"""The bar of the noise alone, around what limits and clipping leave, beside the bar around all rows."""

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.releases.release import Release
from neartwin.releases.values import shown
from neartwin.report.page import charts, page

TOWNS, LIMIT, SPEND = list("abc"), 4, 1.0


@pytest.fixture(scope="module")
def visits():
    """3,000 units with 1 to 12 rows each in three towns, of which a limit of 4 takes many."""
    draw = np.random.default_rng(5)
    who = np.repeat(np.arange(3000), draw.integers(1, 13, 3000))
    return pa.table(
        {"who": who, "town": draw.choice(TOWNS, len(who), p=[0.6, 0.3, 0.1]), "paid": draw.gamma(2, 10, len(who))}
    )


@pytest.fixture
def asked(visits, tmp_path):
    """Releases of one statement, each at a price of its own, so that none is stored."""
    rows = nt.table(visits, unit="who", name="visits", columns={"paid": nt.bounds(0, 50)})
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.pure(1000))

        def releases(text, times=1, **more):
            limits = {"rows": LIMIT} | more
            spends = [nt.pure(f"{SPEND}000{k:02}") for k in range(times)]
            return [account.sql(text, spend=one, keys=TOWNS, limits=nt.limits(**limits)) for one in spends]

        yield releases


def bounded(visits):
    """Count and mean by town of rows that weigh min(1, 4/n), by NumPy: what the limit and the bounds leave."""
    who, town = (visits[name].to_numpy(zero_copy_only=False) for name in ("who", "town"))
    weight = np.minimum(1, LIMIT / np.bincount(who))[who]
    count = np.array([weight[town == one].sum() for one in TOWNS])
    paid = visits["paid"].to_numpy().clip(0, 50) * weight
    return count, np.array([paid[town == one].sum() for one in TOWNS]) / count


def test_bars_of_the_noise_hold_what_limits_leave_and_the_others_all_rows(asked, visits):
    """Each with its own confidence: 40 releases hold 120 bars of a count and of a mean, of which 95 % may be right."""
    truth, raw = (
        bounded(visits),
        np.array([(visits["town"].to_numpy(zero_copy_only=False) == one).sum() for one in TOWNS]),
    )
    inside, outside = np.zeros(2), 0
    for one in asked("SELECT town, COUNT(*) AS n, AVG(paid) AS m FROM visits GROUP BY town", 40):
        for place, statistic in enumerate(one.statistics):
            low, high = statistic.noise
            inside[place] += sum(a <= b <= c for a, b, c in zip(low, truth[place], high, strict=True))
            assert np.less_equal(statistic.lower, low).all()
            assert np.greater_equal(statistic.upper, high).all()
        outside += sum(low <= b for low, b in zip(one["n"].lower, raw, strict=True))
        assert not any(a <= b <= c for a, b, c in zip(*one["n"].noise[:1], raw, one["n"].noise[1], strict=True))
    assert (inside >= 104).all()  # 95 % of 120 but for a chance of 1e-4
    assert outside >= 104


def test_prints_and_charts_have_both_where_the_bar_is_much_longer(asked):
    (one,) = asked("SELECT town, COUNT(*) AS n FROM visits GROUP BY town")
    statistic = one["n"]
    low, high = statistic.noise
    value, wide = statistic.values[0], high[0] - statistic.values[0]
    assert shown(statistic, 0) == f"{value:,.0f} ± {wide:,.0f} ({statistic.lower[0]:,.0f} to {statistic.upper[0]:,.0f})"
    assert "± before a bar: noise alone" in str(one)
    assert page(one).count('class="bar noise"') == 3
    near = replace(statistic, lower=low, upper=tuple(1.2 * (b - a) + a for a, b in zip(low, high, strict=True)))
    assert "±" not in shown(near, 0)
    assert "bar noise" not in "".join(
        part for chart in charts(replace(one, statistics=(near,))) for part in chart.parts
    )
    beyond = replace(statistic, upper=(None,) * 3)
    assert shown(beyond, 0).startswith(f"{value:,.0f} ± {wide:,.0f} (at least ")
    assert shown(replace(beyond, noise=((None,) * 3, high)), 0).startswith(
        f"{value:,.4g} (at least ".replace("4g", "0f")
    )


@pytest.mark.parametrize("more", [{"loss_share": 0}, {"rows": 12}])
def test_without_a_measured_loss_there_is_one_bar(asked, more):
    (one,) = asked("SELECT town, COUNT(*) AS n FROM visits GROUP BY town", **more)
    measured = one.loss is not None and one.loss["rows"][1] != 0
    assert (one["n"].noise is not None) == measured
    assert ('"noise"' in one.to_json()) == measured


def test_documents_keep_both_and_read_those_without(asked):
    (one,) = asked(
        "SELECT town, COUNT(*) AS n, 1.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS part FROM visits GROUP BY town"
    )
    assert Release.from_json(one.to_json()) == one
    old = json.loads(one.to_json())
    for part in old["statistics"]:
        del part["noise"]
    assert Release.from_dict(old) == replace(one, statistics=tuple(replace(s, noise=None) for s in one.statistics))


def test_steps_on_a_release_have_the_bars_that_their_noise_alone_gives(asked):
    """A difference has the root of squares, a share is as without a measured loss, and chosen groups keep their own."""
    (one,) = asked(
        "SELECT town, COUNT(*) AS n, 1.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS part FROM visits GROUP BY town"
    )
    half = one["n"].noise[1][0] - one["n"].values[0]
    less = one.difference("a", "b")["n"]
    wide = less.noise[1][0] - less.values[0]
    assert math.hypot(half, half) - 2 <= wide <= math.hypot(half + 1, half + 1)
    assert less.upper[0] - less.values[0] > wide + 1000
    kept = one.having("n < 5000").order_by(("n", True))
    places = [one.keys.index(key) for key in kept.keys]
    assert len(places) < 3
    for name in ("n", "part"):
        assert kept[name].noise == tuple(tuple(side[place] for place in places) for side in one[name].noise)
    ends = zip(one["part"].lower, one["part"].noise[0], one["part"].noise[1], one["part"].upper, strict=True)
    assert all(a < b < c < d for a, b, c, d in ends)
    small = replace(one["n"], values=(-5.0, 1.0, 2.0), noise=((-9.0, -1.0, None), (-1.0, 3.0, None)))
    cut = replace(one, statistics=(small,)).non_negative("n")["n"]
    assert cut.noise == ((0, 0, 0), (0, 3.0, None))
