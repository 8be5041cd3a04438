"""Bars of means in groups of every size: they hold as often as they say, and are never wider than by the union bound."""

import numpy as np
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.error_bars.sums_means import Thresholds, mean_bounds
from neartwin.planning.planner import plan
from tests.queries.test_sensitivity import empty_table

SPENDS = [nt.pure("1/2"), nt.gdp("1/3"), nt.zcdp("1/20")]
DRAWS = 4000
FAIR = 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / DRAWS)  # passed by chance once in 1e9


class Asked:
    """A mean from the ends of its bounds or, where missing values are filled, from a total around the middle and the rows."""

    def __init__(self, spend, fill=None):
        query = empty_table("add_remove").agg(m=nt.mean("paid", 0, 100, 1, fill=fill))
        self.made = plan(query, spend=spend, limits=nt.limits(max_rows_per_group=2))
        statistic = self.made.query.aggregates["m"]
        self.column, *others = statistic._totals(self.made.context)
        self.names, self.read = statistic._read(self.made.context)
        self.falling = bool(others)
        assert self.falling is (fill is None)

    def drawn(self, n, mean, tag):
        """Noisy totals and numbers of a group with n values of this mean, in steps around the centre, and the exact mean."""
        source = noise.ScriptedSource(tag)
        exact = n * (mean - self.column.centre), n * (100 - mean) if self.falling else n
        first, second = (
            self.made.measures[name].mechanism.noisy(
                np.full(DRAWS, value * self.made.stage.parts.get(name, 1), dtype=np.int64), source=source
            ).astype(float)
            for name, value in zip(self.names, exact, strict=True)
        )  # fmt: skip
        pairs = self.read.total, self.read.number
        return *(first * float(a) + second * float(b) for a, b in pairs), mean - self.column.centre

    def box(self, totals, counts):
        """The union bound for the total and the number, within the bounds."""
        number = float(self.read.half_width(None, 0.975))
        total = sum(
            float(weight) * self.made.measures[name].mechanism.half_width(0.975)
            for name, weight in zip(self.names, self.read.total, strict=True)
        )
        ends = [np.clip(end, *self.read.ends) for end in ratio_bounds(totals, counts, total, number)]
        inside = (self.read.ends[0] * counts < totals) & (totals < self.read.ends[1] * counts)
        # where the number may be 0 the box alone knows that there is a value, and where none fits it has no width
        return ends, (counts - number >= 1) & inside


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
@pytest.mark.parametrize(("n", "fill"), [(1, None), (10, 0), (30, None), (100, 0), (1000, None), (1000, 0)])
@pytest.mark.parametrize("mean", [0, 50, 70])
def test_mean_bars_cover_at_every_size_within_the_union_bound(spend, n, fill, mean):
    asked = Asked(spend, fill)
    totals, counts, exact = asked.drawn(n, mean, f"{spend} {n} {mean}".encode())
    told = asked.read.thresholds(0.95)
    low, high = mean_bounds(totals, counts, told)
    assert ((low <= exact + 1e-9) & (exact - 1e-9 <= high)).mean() >= FAIR
    box, sure = asked.box(totals, counts)
    assert (high - low <= (box[1] - box[0]) * (1 + 1e-9) + 1e-9)[sure].all()
    if n == 1000 and mean > 0:  # at an end of the range most bars hold it
        short = Thresholds(told.edges, told.reach * 0.75)  # the near miss
        low, high = mean_bounds(totals, counts, short)
        assert ((low <= exact) & (exact <= high)).mean() < FAIR


@pytest.mark.parametrize("spend", SPENDS, ids=str)
def test_the_preview_says_how_wide_bars_are_at_most(spend):
    asked = Asked(spend)
    (expected,) = asked.made.expected_errors()
    for n, most in expected.by_size:
        # near an end of the bounds, where bars are widest
        totals, counts, _ = asked.drawn(n, 95, f"preview {n}".encode())
        low, high = mean_bounds(totals, counts, asked.read.thresholds(0.95))
        inner = (totals + 0.5 * (high - low) * counts < asked.read.ends[1] * counts) & (
            counts > 0
        )  # not cut at the end
        wide = 0.5 * (high - low)[inner]
        if n >= 10_000:
            assert inner.all()
            assert 0.85 * most < np.median(wide)
        assert (wide <= most * (1 + 1e-9)).mean() >= 0.96


def test_bars_in_small_groups_are_far_narrower_than_by_the_union_bound():
    for spend in SPENDS:
        asked = Asked(spend)
        n = int(2.5 * float(asked.read.half_width(None, 0.975)))
        totals, counts, _ = asked.drawn(n, 50, b"small")
        low, high = mean_bounds(totals, counts, asked.read.thresholds(0.95))
        box, _ = asked.box(totals, counts)
        assert np.median(high - low) < 0.75 * np.median(box[1] - box[0])


@pytest.mark.parametrize(("spend", "most"), list(zip(SPENDS, [0.75, 1.0, 1.0], strict=True)), ids=str)
def test_bars_from_both_ends_are_narrower_at_the_price_of_a_total(spend, most):
    """With normal noise both are as wide: two totals of length 1 are a rotation of a total and a number at half the price."""
    new, old = (Asked(spend, fill).made.expected_errors()[0].by_size[-1][1] for fill in (None, 0))
    assert 0.7 * old < new < most * old


def test_mean_bar_without_a_fitting_mean_surrounds_the_nearest():
    told = Thresholds(np.array([-10.0, 0.0, 10.0]), np.array([5.0, 5.0]))
    totals, counts = np.array([500.0, -3.0, 50.0, 30.0]), np.array([10.0, 0.0, 0.0, -10.0])
    low, high = mean_bounds(totals, counts, told)
    assert low.tolist() == [9.5, -10, 5, -3.5]
    assert high.tolist() == [10, 10, 10, -2.5]
