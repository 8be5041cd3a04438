"""Bars of variances, covariances, correlations and regressions: they hold as often as they say, and are hardly too wide."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.error_bars import moment_noise, regression
from neartwin.error_bars.moment_noise import MomentNoise, MomentSums, half_of
from neartwin.error_bars.moments import correlation_ends, covariance_ends, mean_ends, variance_ends
from neartwin.error_bars.regression import fitted, slopes_of
from neartwin.planning.planner import plan
from neartwin.statistics.base import GROUP_SIZES
from tests.releases.test_moments import ASKED, people, table_of

pytestmark = pytest.mark.sweep

DRAWS = 800
SPENDS = [nt.pure("1/2"), nt.gdp("1/3"), nt.zcdp("1/20")]
FAIR = 0.95 - 6.2 * np.sqrt(0.95 * 0.05 / DRAWS)  # passed by chance once in 1e9


def told(spend, size, tag):
    """Truth, values and ends of each statistic over so many releases of one group."""
    made = plan(table_of(people(size)).agg(**ASKED), spend=spend, limits=nt.limits(max_rows_per_group=1))
    exact = DuckdbEngine().aggregate(made.stage, salt=1).values
    source = noise.ScriptedSource(tag)
    noisy = {
        name: one.mechanism.noisy(np.repeat(exact[name], DRAWS), source=source) for name, one in made.measures.items()
    }
    truth = {one.name: one.values[0] for one in made.estimates(exact, {})}
    return {
        one.name: (truth[one.name], np.array(one.values), filled(one.lower, -np.inf), filled(one.upper, np.inf))
        for one in made.estimates(noisy, {})
    }


def filled(ends, infinite):
    return np.array([infinite if end is None else end for end in ends])


@pytest.mark.slow
@pytest.mark.parametrize("spend", SPENDS, ids=str)
@pytest.mark.parametrize("size", [40, 1500, 60_000])
def test_moment_bars_cover_as_stated_in_small_and_large_groups(spend, size):
    for name, (truth, values, low, high) in told(spend, size, f"{spend} {size}".encode()).items():
        assert ((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean() >= FAIR, name
        assert ((low <= values) & (values <= high)).all(), name
        if size == 60_000:
            ideal = np.quantile(np.abs(values - truth), 0.95)
            assert np.median(high - low) / 2 < 1.25 * ideal, name
            middle = (low + high) / 2
            near_miss = np.abs(truth - middle) <= (high - low) / 4
            assert near_miss.mean() < FAIR, name


@pytest.mark.parametrize("spend", SPENDS, ids=str)
def test_the_preview_says_how_wide_bars_are_in_such_groups(spend):
    """Groups with the means and spreads that the preview supposes, released with noise."""
    made = plan(table_of(people(40)).agg(**ASKED), spend=spend, limits=nt.limits(max_rows_per_group=1))
    place, size = 4, GROUP_SIZES[4]
    source, noisy = noise.ScriptedSource(b"preview"), {}
    for aggregate in made.query.aggregates.values():
        sums = aggregate.sums(made.query.table)
        half = [half_of(sums, one) for one in range(len(sums.columns))]
        exact = {f"total:{sums.first(i).name}": size * h / 4 for i, h in enumerate(half)}
        for i, j in sums.pairs:
            exact[f"total:{sums.second(i, j).name}"] = size * (
                half[i] * half[j] * (1 / 16 + (i == j) / 4) - sums.second(i, j).centre
            )
        exact |= {name: size for name in made.measures if not name.startswith("total")}
        for name, value in exact.items():
            if name not in noisy:
                whole = np.full(60, round(value * made.measures[name].parts), dtype=np.int64)
                noisy[name] = made.measures[name].mechanism.noisy(whole, source=source)
    expected = {error.name: error.by_size[place] for error in made.expected_errors()}
    for one in made.estimates(noisy, {}):
        assert expected[one.name][0] == size
        found = np.median(np.array(one.upper) - np.array(one.lower)) / 2
        assert found == pytest.approx(expected[one.name][1], rel=0.12), one.name


def sums_of(made, statistic, draw, bars, shares=None):
    """Sums of some rows in units of the columns' half-widths, and the same with noise: shares of bars, by default any."""
    noise_of = statistic.noise(made.context)
    columns = len(noise_of.sums.columns)
    rows = draw.uniform(-1, 1, (columns, int(draw.integers(2, 40)))) * draw.choice([0.05, 1.0]) * 0.9
    off = (draw.uniform(-1, 1, len(bars)) if shares is None else shares) * bars
    number = np.array([rows.shape[1] + off[0]], dtype=float)
    first = tuple(np.array([rows[i].sum() + off[1 + i]]) for i in range(columns))
    second = {
        (i, j): np.array([(rows[i] * rows[j]).sum() + off[1 + columns + k] + noise_of.centres[i, j] * off[0]])
        for k, (i, j) in enumerate(noise_of.sums.pairs)
    }
    return rows, MomentSums(noise_of, number, first, second), off


def test_moment_bars_hold_whenever_all_noise_is_within_its_bars(monkeypatch):
    """The sets themselves, without their laws: t is the sum of all bars, which no noise within them passes."""
    made = plan(table_of(people(40)).agg(**ASKED), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1))
    draw = np.random.default_rng(7)
    for _ in range(100):
        bars = draw.choice([0.0, 0.02, 0.4, 6.0], 6)
        with monkeypatch.context() as patched:

            def reach(self, weights, groups, miss, bars=bars):
                order = ["n", *range(len(self.sums.columns)), *self.sums.pairs]
                found = sum(abs(weights[name]) * bars[k] for k, name in enumerate(order) if name in weights)
                return np.broadcast_to(found, (groups,)).astype(float)

            patched.setattr(MomentNoise, "reach", reach)
            rows, sums, _ = sums_of(made, ASKED["r"], draw, bars)
            x, y = rows
            for (low, high), truth in [
                (mean_ends(sums, 0, 0.05), x.mean()),
                (variance_ends(sums, 1, 0.05), y.var()),
                (covariance_ends(sums, 0.05), np.cov(x, y, bias=True)[0, 1]),
                (correlation_ends(sums, 0.05), np.corrcoef(x, y)[0, 1]),
            ]:
                assert low[0] - 1e-9 <= truth <= high[0] + 1e-9


@pytest.mark.slow
def test_bars_of_coefficients_hold_within_an_ellipsoid_of_noises(monkeypatch):
    """The sets themselves, without their laws: t is the most that noises of the ellipsoid can weigh."""
    made = plan(table_of(people(40)).agg(**ASKED), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1))
    draw, proven, missed = np.random.default_rng(9), 0, 0
    noise_of = ASKED["fit"].noise(made.context)
    names = ["n", *range(len(noise_of.sums.columns)), *noise_of.sums.pairs]

    def reach(self, weights, groups, failure):
        found = np.sqrt(sum((weights[name] * axis) ** 2 for name, axis in zip(names, held["axes"], strict=True)))
        return np.broadcast_to(found, (groups,))

    at, held = regression._Weights.at, {}
    monkeypatch.setattr(MomentNoise, "reach", reach)
    monkeypatch.setattr(regression, "joint_half_axes", lambda *_: held["axes"] / noise_of.worth)

    def first_order(self, h, groups):
        weights, second = at(self, 0 * h, groups)
        return weights, 0 * second

    for _ in range(250):
        held["axes"] = draw.choice([0.001, 0.02, 0.3], len(names))
        way = draw.normal(size=len(names))
        rows, sums, _ = sums_of(made, ASKED["fit"], draw, held["axes"], way / np.linalg.norm(way))
        target, *features = sums.noise.sums.operands
        design = np.column_stack([np.ones(rows.shape[1]), *(rows[i] for i in features)])
        if np.linalg.matrix_rank(design) < 3:
            continue
        asked = slopes_of(sums, features)
        exact = asked @ np.linalg.lstsq(design, rows[target], rcond=None)[0]
        values, bars = fitted(sums, asked, 0.05)
        proven += np.isfinite(bars).sum()
        assert (np.abs(values[0] - exact) <= bars[0] + 1e-7 * (1 + np.abs(values[0]))).all()
        with monkeypatch.context() as alone:
            alone.setattr(regression._Weights, "at", first_order)
            values, bars = fitted(sums, asked, 0.05)
            missed += (np.abs(values[0] - exact) > bars[0] + 1e-7 * (1 + np.abs(values[0]))).sum()
    assert proven > 100
    assert missed > 0


def kept_of(rows, kept, noise_of):
    """The sums of rows with weights, in units of the columns' half-widths."""
    second = {(i, j): np.array([(kept * rows[i] * rows[j]).sum()]) for i, j in noise_of.sums.pairs}
    return MomentSums(noise_of, kept.sum(keepdims=True), tuple(np.array([(kept * row).sum()]) for row in rows), second)


@pytest.mark.slow
def test_moment_bars_hold_all_rows_while_lost_ones_are_within_their_end(monkeypatch):
    """Without noise and with hardly a bar of it: so a bar misses only if it does not reach around the lost rows."""
    monkeypatch.setattr(moment_noise, "half_widths_of_sums", lambda _, weights, __: abs(weights).sum(axis=0))
    made = plan(table_of(people(40)).agg(**ASKED), spend=nt.pure(10**6), limits=nt.limits(max_rows_per_group=1))
    draw, found, blind, proven = np.random.default_rng(11), [], [], 0
    for _ in range(40):
        size = int(draw.integers(20, 400))
        lost = np.where(draw.random(size) < draw.choice([0.01, 0.1, 0.4]), draw.random(size), 0.0)
        rows = draw.uniform(-1, 1, (3, size)) * draw.choice([0.2, 1.0])
        rows[:, lost > 0] = np.sign(rows[:, lost > 0])  # they lie apart from the others
        for most, held in ((int(np.ceil(lost.sum())), found), (0, blind)):
            context = replace(made.context, lost=most)
            two, fit = (kept_of(rows[:n], 1 - lost, ASKED[name].noise(context)) for n, name in ((2, "r"), (3, "fit")))
            x, y = rows[:2]
            bars = [
                (*mean_ends(two, 0, 0.05), x.mean()),
                (*variance_ends(two, 1, 0.05), y.var()),
                (*covariance_ends(two, 0.05), np.cov(x, y, bias=True)[0, 1]),
                (*correlation_ends(two, 0.05), np.corrcoef(x, y)[0, 1]),
            ]
            target, *features = fit.noise.sums.operands
            asked = slopes_of(fit, features)
            design = np.column_stack([np.ones(size), *(rows[i] for i in features)])
            exact = asked @ np.linalg.lstsq(design, rows[target], rcond=None)[0]
            values, widths = fitted(fit, asked, 0.05)
            bars += zip(values.T - widths.T, values.T + widths.T, exact, strict=True)
            proven += np.isfinite(widths).sum() * (most > 0)
            held.append([low[0] - 1e-9 <= truth <= high[0] + 1e-9 for low, high, truth in bars])
    assert np.all(found)
    assert proven > 10
    assert (np.mean(blind, axis=0) < 0.9).all()  # the near miss: nothing is lost


HEAVY = {"y": nt.bounds(0, 300), "a": nt.bounds(0, 200), "b": nt.bounds(0, 200), "c": nt.bounds(0, 200)}


@pytest.mark.parametrize("spend", [nt.pure(1), nt.gdp(1)], ids=str)
@pytest.mark.parametrize(
    ("size", "cap", "features"),
    [(200_000, 64, "a"), (20_000, 1, "ab"), pytest.param(400_000, 1, "abc", marks=pytest.mark.slow)],
)
def test_bars_of_coefficients_are_at_most_3_times_what_the_errors_warrant(spend, size, cap, features):
    """Around the coefficients of the weighted rows, from numpy; (200,000, 64) is of 4,000 people with many rows each."""
    draw = np.random.default_rng(3)
    who = np.arange(size) if cap == 1 else np.minimum((draw.pareto(1.2, size) * 200).astype(int), 3999)
    a, b, c = draw.normal(70, 40, (3, size))
    rows = {"who": who, "a": a, "b": 0.6 * a + 0.4 * b, "c": 0.6 * b + 0.4 * c}
    rows = {name: np.clip(part, 0, 200) if name != "who" else part for name, part in rows.items()}
    rows["y"] = np.clip(sum(rows[name] for name in features) / 2 + draw.normal(0, 10, size), 0, 300)
    table = nt.table(pa.table(rows), unit="who", name="people", columns=HEAVY)
    made = plan(
        table.agg(fit=nt.regression("y", list(features))), spend=spend, limits=nt.limits(max_rows_per_group=cap)
    )
    exact = DuckdbEngine().aggregate(made.stage, salt=1).values
    source = noise.ScriptedSource(f"{size} {spend}".encode())
    noisy = {
        name: one.mechanism.noisy(np.repeat(exact[name], DRAWS), source=source) for name, one in made.measures.items()
    }
    _, place, many = np.unique(who, return_inverse=True, return_counts=True)
    design = np.column_stack([np.ones(size), *(rows[name] for name in features)])
    weighted = design * np.minimum(1, cap / many)[place, None]
    truths = np.linalg.solve(weighted.T @ design, weighted.T @ rows["y"])
    for one, truth in zip(made.estimates(noisy, {}), truths, strict=True):
        widths = filled(one.upper, np.inf) - one.values
        off = np.abs(np.array(one.values) - truth)
        assert (off <= widths + 1e-3 * (1 + abs(truth))).mean() >= FAIR, (
            one.name
        )  # and the rounding of the columns' grid
        assert np.median(widths) <= 3 * np.quantile(off, 0.95), one.name
        assert (off <= widths / 4).mean() < FAIR, one.name


@pytest.mark.parametrize("lost", [0, 7])
def test_moment_without_information_has_no_proven_bar(lost):
    made = plan(table_of(people(40)).agg(**ASKED), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1))
    for statistic in (ASKED["r"], ASKED["fit"]):
        noise_of = statistic.noise(replace(made.context, lost=lost))
        none, columns = np.array([0.0, -50.0]), len(noise_of.sums.columns)
        sums = MomentSums(noise_of, none, (none,) * columns, dict.fromkeys(noise_of.sums.pairs, none))
        if statistic is ASKED["fit"]:
            values, bars = fitted(sums, slopes_of(sums, noise_of.sums.operands[1:]), 0.05)
            assert np.isfinite(values).all()
            assert np.isinf(bars).all()
        else:
            assert [end.tolist() for end in correlation_ends(sums, 0.05)] == [[-1, -1], [1, 1]]
            assert [end.tolist() for end in variance_ends(sums, 0, 0.05)] == [[0, 0], [1, 1]]


def test_rows_that_limits_took_lengthen_bars_and_move_no_value():
    """They grow with the root of their number. A near miss: a ridge for lost rows, which moves every coefficient to 0."""
    spend, limits = nt.pure(1), nt.limits(max_rows_per_group=1)
    made = plan(table_of(people(1500)).agg(fit=ASKED["fit"]), spend=spend, limits=limits)
    exact = DuckdbEngine().aggregate(made.stage, salt=1).values
    many = (0, 10**4, 10**6, 10**8)
    found = [replace(made, context=replace(made.context, lost=lost)).estimates(exact, {}) for lost in many]
    for estimates in zip(*found, strict=True):
        assert len({tuple(one.values) for one in estimates}) == 1
        width, *grown = (one.upper[0] - one.values[0] for one in estimates)
        assert 0 < width < grown[0]
        assert np.diff(grown)[1] / np.diff(grown)[0] == pytest.approx(10, rel=1e-3)


@pytest.mark.slow
def test_lost_rows_move_coefficients_by_no_more_than_is_said():
    """(L12), by least squares over all rows: it is nearly reached. A near miss: a twentieth less.

    In half of the tables one row is lost, far from a narrow feature and a target that are 0 in many rows.
    """
    made = plan(
        table_of(people(40)).agg(fit=ASKED["fit"]), spend=nt.pure(10**9), limits=nt.limits(max_rows_per_group=1)
    )
    draw, ratios = np.random.default_rng(4), []
    for _ in range(400):
        apart = draw.random() < 0.5
        lost = np.repeat([0.0, 1.0], [draw.integers(6, 40), 1 if apart else draw.integers(1, 30)])
        spread = [[0.02], [0.001], [10.0]] if apart else draw.uniform(0.02, 0.6, (3, 1))
        middle = 0.0 if apart else draw.uniform(-0.9, 0.9, (3, 1))
        rows = np.clip(draw.normal(middle, spread, (3, lost.size)), -1, 1)
        rows[:, lost > 0] = draw.choice([-1.0, 1.0], (3, 1)) if draw.random() < 0.5 else np.sign(rows[:, lost > 0])
        weights = np.where(lost > 0, 1.0, 10**5 if apart else 1.0)
        fit = kept_of(rows, weights * (1 - lost), ASKED["fit"].noise(replace(made.context, lost=int(lost.sum()))))
        target, *features = fit.noise.sums.operands
        asked = slopes_of(fit, features)
        values, widths = fitted(fit, asked, 0.05)
        design = np.column_stack([np.ones(lost.size), *(rows[i] for i in features)])
        root = np.sqrt(weights)
        exact = asked @ np.linalg.lstsq(design * root[:, None], rows[target] * root, rcond=None)[0]
        ratios.extend(abs(exact - values[0]) / widths[0])
    assert 0.95 < max(ratios) <= 1
