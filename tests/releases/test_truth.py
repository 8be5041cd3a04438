"""Answers against the raw truth, as an analyst asks: a fixed part of bench/bench_truth.py, held to what it says today.

What was asked for stands in the docstring of the benchmark, and what is measured in docs/truth.md. Randomness is fresh, so each
threshold has room: a fair answer passes it but once in a million.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import neartwin as nt
from tests.real_tables import MISSING

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=f"the data are in {', '.join(MISSING)}")]
FILE = Path(__file__).parents[2] / "bench" / "bench_truth.py"
SEEDS = 20
NOISY = {"correlation", "regression"}  # of heavy columns, at epsilon 1
SMALL = {"count, found"}  # most of its groups are too small to be found, which counts as an error of all of them
COUNTS = ["count", "count, found", "histogram", "by period"]


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_truth", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answers(bench, table, *kinds):
    """What is measured of each kind at epsilon 1, where nothing is said of limits."""
    with bench.opened(table, SEEDS) as opened:
        return {kind: opened.chosen(kind, nt.approx(1, bench.DELTA), SEEDS) for kind in kinds or bench.QUESTIONS}


def least(held):
    """Coverage, with five deviations of its mean over releases."""
    shares = [np.mean(one) for one in held]
    return np.mean(shares) + 5 * max(np.std(shares, ddof=1), 0.05) / np.sqrt(len(shares))


def test_bars_hold_the_raw_truth_where_a_person_has_one_row(bench):
    for kind, found in answers(bench, "wages").items():
        assert least(found.held) >= 0.95, (kind, found.coverage)
        assert found.typical <= 0.02, (kind, found.typical)
        assert kind in NOISY or found.width <= 4, (kind, found.width)
        assert kind in NOISY or not found.open, kind


def test_answers_are_near_the_raw_truth_where_people_have_many_rows(bench):
    for kind, found in answers(bench, "purchases").items():
        assert kind in NOISY | SMALL or found.typical <= 0.15, (kind, found.typical)
        assert kind in NOISY or not found.open, kind
        if kind in {"share", "ratio"}:
            assert found.typical <= 0.04, (kind, found.typical)


def test_a_share_is_as_near_as_its_ratio_or_nearer(bench):
    found = answers(bench, "patients", "share", "ratio")
    assert found["share"].rms <= 1.5 * found["ratio"].rms
    assert found["share"].typical <= 0.05


def test_chosen_limits_are_little_worse_than_the_best_in_hindsight(bench):
    """The median of regrets may be 1.5 from 4,000 units on. On these it is 1.7 to 2, losses measured."""
    spend, regrets = nt.approx(1, bench.DELTA), []
    with bench.opened("pupils", SEEDS) as opened:
        for kind in ["count", "sum", "share", "histogram", "by period"]:
            best, chosen = opened.best(kind, spend, 5), opened.chosen(kind, spend, SEEDS)
            regrets.append(chosen.rms / best.rms)
            assert chosen.typical <= 0.1 or best.typical > 0.05, kind
            assert chosen.rms <= 10 * best.rms or chosen.typical <= 0.2, kind
    assert np.median(regrets) <= 3


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


@pytest.mark.parametrize("table", ["lognormal", "ratings"])
def test_bars_hold_the_raw_truth_where_limits_cut(bench, table):
    for kind, one in answers(bench, table).items():
        assert kind in NOISY or least(one.held) >= 0.95, (kind, one.coverage)
        assert kind not in COUNTS or one.width <= 4, (kind, one.width)


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
