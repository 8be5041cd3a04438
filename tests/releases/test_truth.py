"""Answers against the raw truth, as an analyst asks: a fixed part of bench/bench_truth.py, held to what was asked for.

What was asked for stands in the docstring of the benchmark, and what is measured in docs/truth.md. Randomness is fresh, so each
threshold has room: a fair answer passes it but once in a million.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import neartwin as nt
from neartwin.planning import limit_choice
from tests.real_tables import MISSING

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=f"the data are in {', '.join(MISSING)}")]
BENCH = Path(__file__).parents[2] / "bench"
SEEDS = 20
MORE = {"ratings": 60, "lognormal": 60, "patients": 160}  # whose bars vary the most; where errors are compared
NOISY = {"correlation", "regression"}  # of heavy columns, at epsilon 1
SMALL = {"count, found"}  # most of its groups are too small to be found, which counts as an error of all of them
COUNTS = ["count", "count, found", "histogram", "by period"]
TABLES = ("wages", "purchases", "ratings", "lognormal")  # of 61,395, 23,570, 2,972 and 20,000 units


def loaded(name):
    """A benchmark, as a module."""
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def bench():
    return loaded("bench_truth")


def answers(bench, table, *kinds):
    """What is measured of each kind at epsilon 1, where nothing is said of limits."""
    seeds = MORE.get(table, SEEDS)
    with bench.opened(table, seeds) as opened:
        return {kind: opened.chosen(kind, nt.approx(1, bench.DELTA), seeds) for kind in kinds or bench.QUESTIONS}


@pytest.fixture(scope="module")
def asked(bench):
    """All kinds of questions of each table."""
    return {table: answers(bench, table) for table in TABLES}


def least(held):
    """Coverage, with five deviations of its mean over releases."""
    shares = [np.mean(one) for one in held]
    return np.mean(shares) + 5 * max(np.std(shares, ddof=1), 0.05) / np.sqrt(len(shares))


def test_bars_hold_the_raw_truth_of_each_kind_and_table(asked):
    """Each passes by five deviations, and four fifths of them the one-sided test at 1 %, clustered by release."""
    found = {(table, kind): one for table, kinds in asked.items() for kind, one in kinds.items()}
    for name, one in found.items():
        assert least(one.held) >= 0.95, (name, one.coverage)
    assert np.mean([one.covers for one in found.values()]) >= 0.8


def test_bars_are_closed_and_about_three_times_as_long_as_the_error(asked):
    """The median may be 3; so few releases leave the 95 % quantile of an error uncertain by a quarter."""
    for table, kinds in asked.items():
        for kind in kinds.keys() - NOISY:
            assert not kinds[kind].open or table == "ratings", (table, kind)  # the others have 4,000 units or more
            assert kind not in COUNTS or kinds[kind].width <= 4, (table, kind, kinds[kind].width)
        widths = [kinds[kind].width for kind in kinds.keys() - NOISY]
        assert np.nanmedian(widths) <= 3.8, (table, widths)


def test_answers_are_near_the_raw_truth(asked):
    for kind, found in asked["wages"].items():
        assert found.typical <= 0.02, (kind, found.typical)
    for kind, found in asked["purchases"].items():
        assert kind in NOISY | SMALL or found.typical <= 0.15, (kind, found.typical)
        assert kind not in {"share", "ratio"} or found.typical <= 0.04, (kind, found.typical)


def test_a_share_is_as_near_as_its_ratio_or_nearer(bench):
    """But for the worst release of each, whose limit may have been chosen badly."""
    found = answers(bench, "patients", "share", "ratio")
    share, ratio = (
        np.mean(sorted(np.square(np.array(release, dtype=float)).mean() for release in found[kind].errors)[:-1])
        for kind in ("share", "ratio")
    )
    assert share <= 1.5**2 * ratio
    assert found["share"].typical <= 0.05


def counted(bench, table, column):
    """(units, groups) the rows of each unit in each group."""
    rows = bench.TABLES[table]().rows
    unit, group = (np.unique(rows[name].astype(str), return_inverse=True)[1] for name in ("unit", column))
    counts = np.zeros((unit.max() + 1, group.max() + 1), dtype=np.int64)
    np.add.at(counts, (unit, group), 1)
    return counts


REGRETS = {1_000: 1.9, 4_000: 1.5, 20_000: 1.3}  # the most that a median may be
OF_SIZE = {1_000: ("players",), 4_000: ("women", "patients"), 20_000: ("purchases", "pizzas")}


def regrets(bench, limits, units, laws):
    """Exact errors of counts at chosen limits, over those of the best fixed one, and over a typical group; of real ones first."""
    made = [counts for groups in (5, 20) for _, counts in limits.drawn(units, groups, laws)]
    real = [counted(bench, table, column) for table in OF_SIZE[units] for column in "gt"]
    return np.array([
        limits.regret(counts, spend, range(counts.shape[1]))
        for counts in real + made
        for epsilon in ("0.5", "1", "3")
        for spend in (nt.pure(epsilon), nt.gdp(round(float(epsilon) * limits.MU, 6)))
    ])  # fmt: skip


@pytest.mark.parametrize("units", REGRETS)
def test_limits_of_counts_are_little_worse_than_the_best_in_hindsight(bench, units, monkeypatch):
    limits = loaded("bench_limits")
    ratio, share = regrets(bench, limits, units, limits.SIZES).T
    assert np.median(ratio) <= REGRETS[units]
    assert np.median(ratio[: 12 * len(OF_SIZE[units])]) <= max(REGRETS[units], 1.4)  # of real tables
    assert np.mean((ratio <= 2) | (share <= 0.05)) >= 0.95
    assert not ((ratio > 10) & (share > 0.2)).any()
    if units == 4_000:  # near miss: limits beyond everybody cost less than their noise
        monkeypatch.setattr(limit_choice, "_STEEPER", 1.0)
        monkeypatch.setattr(limit_choice, "_FIRST", 1.0)
        monkeypatch.setattr(limit_choice, "_FURTHER", 1.0)
        assert np.median(regrets(bench, limits, units, {})[:, 0]) > REGRETS[units]


def test_chosen_limits_of_each_kind_are_little_worse_than_the_best(bench):
    """With bars that hold what they take, which the best fixed limit has not."""
    spend, found = nt.approx(1, bench.DELTA), []
    with bench.opened("pupils", SEEDS) as opened:
        for kind in ["count", "sum", "share", "histogram", "by period"]:
            best, chosen = opened.best(kind, spend, 5), opened.chosen(kind, spend, SEEDS)
            found.append(chosen.rms / best.rms)
            assert chosen.typical <= 0.1 or best.typical > 0.05, kind  # useful where the best is within 5 %
            assert chosen.rms <= 10 * best.rms or chosen.typical <= 0.2, kind
    assert np.median(found) <= 3  # of so few releases; five tables have 1.5


@pytest.mark.parametrize("many", [20, 20_000])
def test_the_bar_against_peers_holds_where_nine_tenths_are_as_near(bench, many):
    """But for what chance does: with few errors a ratio of 1.3 may be 1, and with many it is not."""
    far = 100 if many == 20 else 1.3  # surely above 1.2
    draw = np.random.default_rng(5)
    for above, holds in ((0, True), (1, True), (2, False), (4, False)):
        assert bench.beaten([(far, many)] * above + [(0.9, many)] * (20 - above))[1] is holds, above
    assert bench.beaten([(1.3, many)] * 20)[1] is (many == 20)
    ours, theirs = draw.laplace(size=(2, 40, many))  # alike noise
    alike = np.sqrt((ours**2).mean(axis=1) / (theirs**2).mean(axis=1))
    assert bench.beaten([(one, many) for one in alike])[1]
    assert bench.beaten([(1.3 * one, many) for one in alike])[1] is False or many == 20


def test_a_fault_in_an_answer_is_seen(bench):
    """The near miss: a limit of one row loses two thirds of the rows. A bar holds where that is measured, and only there."""
    spend, limits = nt.approx(1, bench.DELTA), {"rows": 1, "max_groups": 5}
    found = []
    for share in ({}, {"loss_share": 0}):  # the same question, so in other books
        with bench.opened("purchases", SEEDS) as opened:
            found.append(opened.asked("count", spend, nt.limits(**limits, **share), SEEDS))
    assert least(found[0].held) >= 0.95
    assert found[1].coverage < 0.5
    assert found[0].typical > 0.3


def lost_rows(frame, bounds):
    """(units,) the rows that a unit loses to these bounds, rounded up."""
    counts = frame.rows.groupby(["unit", "g"]).size()
    rows = counts.groupby("unit").sum().to_numpy()
    length = rows if "rows" in bounds else np.sqrt((counts**2).groupby("unit").sum().to_numpy())
    limit = float(bounds.get("rows") or bounds["norm"])
    return np.ceil(rows * (1 - np.minimum(1, limit / length)) - 1e-6)


def test_a_release_says_truly_what_its_limits_took(bench):
    """Each statement fails with 0.05 at most: 15 of 40 once in two billion runs. The near miss halves the limits."""
    spend, failures = nt.approx(1, bench.DELTA), {1: 0, 2: 0}
    for table in ("lognormal", "ratings"):
        with bench.opened(table, SEEDS) as opened:
            query = bench.QUESTIONS["count"].ask(opened.frame, opened.rows)
            for account in opened.accounts:
                release = account.release(account.plan(query, spend=spend), engine=opened.engine)
                said = release.loss
                bounds = {one["what"]: one["value"] for one in release.provenance.method["bounds"]}
                bounds = {name: float(value) for name, value in bounds.items() if name in {"rows", "norm"}}
                for part in failures:
                    lost = lost_rows(opened.frame, {name: value / part for name, value in bounds.items()})
                    low, high = said["rows"]
                    failures[part] += not (
                        np.mean(lost > 0) <= said["cut_at_most"]
                        and np.sum(lost > said["each"]) <= said["beyond"]
                        and low <= lost.sum()
                        and (high is None or lost[lost <= said["each"]].sum() <= high)
                    )
    assert failures[1] < 15 < failures[2]


def test_lower_ends_of_counts_hold_where_few_have_most_of_the_rows(bench):
    for kind, one in answers(bench, "pareto", *COUNTS).items():
        assert least(one.reached) >= 0.95, kind
    limits = nt.limits(rows=16, max_groups=12, loss_share=0)
    with bench.opened("pareto", SEEDS) as opened:
        blind = opened.asked("by period", nt.approx(1, bench.DELTA), limits, SEEDS)
    assert blind.coverage < 0.95  # upper ends cannot, and are not open where nothing is measured


def test_bars_hold_what_clipping_takes_of_a_sum_which_is_said_first(bench):
    spend = nt.approx(1, bench.DELTA)
    with bench.opened("insured", SEEDS) as opened:
        values = opened.frame.rows.query("v < 0 or v > 1000")["unit"].nunique() / opened.frame.units
        found, query = opened.chosen("sum", spend, SEEDS), bench.QUESTIONS["sum"].ask(opened.frame, opened.rows)
        ends = []
        for account in opened.accounts[:SEEDS]:
            release = account.release(account.plan(query, spend=spend), engine=opened.engine)
            assert "Clipping v to [0, 1,000] changes values of " in release.headline
            ends.append(release.loss["clipped"]["cut_at_most"])
    assert sum(end < values for end in ends) <= 5  # each with 0.015 at most: six of twenty once in two million runs
    assert values < np.median(ends) < 3 * values
    assert least(found.held) >= 0.95
