"""Bars of means in groups of every size: they hold as often as they say, and are never wider than by the union bound."""

import numpy as np
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.error_bars import sums_means
from neartwin.error_bars.sums_means import Thresholds, mean_bounds
from neartwin.planning.planner import plan
from tests.queries.test_sensitivity import empty_table

SPENDS = [nt.pure("1/2"), nt.gdp("1/3"), nt.zcdp("1/20")]
DRAWS = 4000
FAIR = 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / DRAWS)  # passed by chance once in 1e9


def made_of(spend):
    query = empty_table("add_remove").agg(m=nt.mean("paid", 0, 100, 1))
    made = plan(query, spend=spend, limits=nt.limits(max_rows_per_group=2))
    context = made.context
    column = made.query.aggregates["m"].total_column(context)
    return made.measures[f"total:{column.name}"], made.measures[context.number(column)], column


def thresholds(total, number, column, confidence):
    laws = total.mechanism.law, number.mechanism.law
    return sums_means.thresholds(laws, (total.parts, number.parts), (column.low, column.high), confidence)


def drawn(measures, n, mean, tag):
    """Noisy totals and numbers of a group with n values of this mean, in steps around the centre."""
    source = noise.ScriptedSource(tag)
    exact = (round(n * mean), n)
    return [
        measure.mechanism.noisy(np.full(DRAWS, value * measure.parts, dtype=np.int64), source=source).astype(float)
        / measure.parts
        for measure, value in zip(measures, exact, strict=True)
    ], exact[0] / n


def ratio_bounds(totals, counts, a, b):
    """The union bound: extremes of t / n over |t - total| <= a, |n - count| <= b, n >= 1; infinite where there is no n."""
    few, many = np.maximum(1.0, counts - b), counts + b
    possible = many >= 1
    many = np.maximum(many, 1.0)
    low, high = totals - a, totals + a
    lower = np.where(low < 0, low / few, low / many)
    upper = np.where(high > 0, high / few, high / many)
    return np.where(possible, lower, -np.inf), np.where(possible, upper, np.inf)


@pytest.mark.parametrize("spend", SPENDS, ids=str)
@pytest.mark.parametrize("n", [1, 10, 30, 100, 1000])
@pytest.mark.parametrize("mean", [-50, 0, 20])
def test_mean_bars_cover_at_every_size_within_the_union_bound(spend, n, mean):
    total, number, column = made_of(spend)
    (totals, counts), exact = drawn((total, number), n, mean, f"{spend} {n} {mean}".encode())
    told = thresholds(total, number, column, 0.95)
    low, high = mean_bounds(totals, counts, told)
    assert ((low <= exact + 1e-9) & (exact - 1e-9 <= high)).mean() >= FAIR
    box = ratio_bounds(totals, counts, float(total.half_width(0.975)), float(number.half_width(0.975)))
    box = [np.clip(end, column.low, column.high) for end in box]
    # where the number may be 0 the box alone knows that there is a value, and where none fits it has no width
    sure = (counts - float(number.half_width(0.975)) >= 1) & (np.abs(totals) < 50 * np.abs(counts))
    assert (high - low <= (box[1] - box[0]) * (1 + 1e-9) + 1e-9)[sure].all()
    if n == 1000 and mean > -50:  # at an end of the range most bars hold it
        short = Thresholds(told.edges, told.reach * 0.75)  # the near miss
        low, high = mean_bounds(totals, counts, short)
        assert ((low <= exact) & (exact <= high)).mean() < FAIR


@pytest.mark.parametrize("spend", SPENDS, ids=str)
def test_the_preview_says_how_wide_bars_are_at_most(spend):
    made = plan(
        empty_table("add_remove").agg(m=nt.mean("paid", 0, 100, 1)), spend=spend, limits=nt.limits(max_rows_per_group=2)
    )
    (expected,) = made.expected_errors()
    total, number, column = made_of(spend)
    for n, most in expected.by_size:
        # near an end of the bounds, where bars are widest
        (totals, counts), _ = drawn((total, number), n, 45, f"preview {n}".encode())
        low, high = mean_bounds(totals, counts, thresholds(total, number, column, 0.95))
        inner = (totals + 0.5 * (high - low) * counts < column.high * counts) & (counts > 0)  # not cut at the end
        wide = 0.5 * (high - low)[inner]
        if n >= 10_000:
            assert inner.all()
            assert 0.85 * most < np.median(wide)
        assert (wide <= most * (1 + 1e-9)).mean() >= 0.96


def test_bars_in_small_groups_are_far_narrower_than_by_the_union_bound():
    for spend in SPENDS:
        total, number, column = made_of(spend)
        n = int(2.5 * float(number.half_width(0.975)))
        (totals, counts), _ = drawn((total, number), n, 0, b"small")
        low, high = mean_bounds(totals, counts, thresholds(total, number, column, 0.95))
        box = ratio_bounds(totals, counts, float(total.half_width(0.975)), float(number.half_width(0.975)))
        box = [np.clip(end, column.low, column.high) for end in box]
        assert np.median(high - low) < 0.75 * np.median(box[1] - box[0])


def test_mean_bar_without_a_fitting_mean_surrounds_the_nearest():
    told = Thresholds(np.array([-10.0, 0.0, 10.0]), np.array([5.0, 5.0]))
    totals, counts = np.array([500.0, -3.0, 50.0, 30.0]), np.array([10.0, 0.0, 0.0, -10.0])
    low, high = mean_bounds(totals, counts, told)
    assert low.tolist() == [9.5, -10, 5, -3.5]
    assert high.tolist() == [10, 10, 10, -2.5]
