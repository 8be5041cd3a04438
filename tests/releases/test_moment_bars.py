"""Bars of variances, covariances, correlations and regressions: they hold as often as they say, and are hardly too wide."""

import numpy as np
import pytest

import neartwin as nt
from neartwin import noise
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.error_bars.moment_noise import MomentNoise, MomentSums, half_of
from neartwin.error_bars.moments import correlation_ends, covariance_ends, mean_ends, variance_ends
from neartwin.error_bars.regression import _noises, _solved, fitted, slopes_of
from neartwin.planning.planner import plan
from neartwin.statistics.base import GROUP_SIZES
from tests.releases.test_moments import ASKED, people, table_of

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
        one.name: (truth[one.name], *map(np.array, (one.values, one.lower, one.upper)))
        for one in made.estimates(noisy, {})
    }


@pytest.mark.parametrize("spend", SPENDS, ids=str)
@pytest.mark.parametrize("size", [40, 1500, 60_000])
def test_moment_bars_cover_as_stated_in_small_and_large_groups(spend, size):
    for name, (truth, values, low, high) in told(spend, size, f"{spend} {size}".encode()).items():
        assert ((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean() >= FAIR, name
        assert ((low <= values) & (values <= high)).all(), name
        if size == 60_000:
            ideal = np.quantile(np.abs(values - truth), 0.95)
            slack = 1.5 if name.startswith("fit") and spend == SPENDS[0] else 1.25
            assert np.median(high - low) / 2 < slack * ideal, name
            middle = (low + high) / 2
            near_miss = np.abs(truth - middle) <= (high - low) / 4
            assert near_miss.mean() < FAIR, name


@pytest.mark.parametrize("spend", SPENDS, ids=str)
def test_the_preview_says_how_wide_bars_are_in_such_groups(spend):
    """Groups with the means and spreads that the preview supposes, released with noise."""
    made = plan(table_of(people(40)).agg(**ASKED), spend=spend, limits=nt.limits(max_rows_per_group=1))
    place, size = 4, GROUP_SIZES[4]
    source, noisy = noise.ScriptedSource(b"preview"), {}
    for aggregate in made.outputs.values():
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


def sums_of(made, statistic, draw, bars):
    """Sums of some rows in units of the columns' half-widths, and the same with noise within bars; what is exact of each kind."""
    noise_of = statistic.noise(made.context)
    columns = len(noise_of.sums.columns)
    rows = draw.uniform(-1, 1, (columns, int(draw.integers(2, 40)))) * draw.choice([0.05, 1.0]) * 0.9
    off = [draw.uniform(-1, 1) * bar for bar in bars]
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


def test_coefficient_errs_by_its_weighted_noises_to_first_order():
    made = plan(table_of(people(40)).agg(**ASKED), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1))
    draw, proven = np.random.default_rng(9), 0
    for _ in range(400):
        bars = draw.choice([0.0, 0.001, 0.02, 0.3], 9)
        rows, sums, off = sums_of(made, ASKED["fit"], draw, bars)
        target, *features = sums.noise.sums.operands
        noises = _noises(sums, 0.05)
        boxed = type(noises)(noises.of_matrix, noises.of_right, np.array(bars[: len(noises.bars)]))
        design = np.column_stack([np.ones(rows.shape[1]), *(rows[i] for i in features)])
        if np.linalg.matrix_rank(design) < 3:
            continue
        exact = np.linalg.lstsq(design, rows[target], rcond=None)[0]
        asked = slopes_of(sums, features)
        from neartwin.error_bars.regression import _equations

        matrix, right = (part[0] for part in _equations(sums))
        values, rest, weights = _solved(matrix, right, boxed, asked)
        if not np.isfinite(rest).all():
            continue
        proven += 1
        size = np.abs(np.array(off[: len(bars)]))[: weights.shape[1]]
        assert (np.abs(values - asked @ exact) <= weights @ size + rest + 1e-7 * (1 + np.abs(values))).all()
    assert proven > 100


def test_moment_without_information_has_no_proven_bar():
    made = plan(table_of(people(40)).agg(**ASKED), spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1))
    for statistic in (ASKED["r"], ASKED["fit"]):
        noise_of = statistic.noise(made.context)
        none, columns = np.array([0.0, -50.0]), len(noise_of.sums.columns)
        sums = MomentSums(noise_of, none, (none,) * columns, dict.fromkeys(noise_of.sums.pairs, none))
        if statistic is ASKED["fit"]:
            values, bars = fitted(sums, slopes_of(sums, noise_of.sums.operands[1:]), 0.05)
            assert np.isfinite(values).all()
            assert np.isinf(bars).all()
        else:
            assert [end.tolist() for end in correlation_ends(sums, 0.05)] == [[-1, -1], [1, 1]]
            assert [end.tolist() for end in variance_ends(sums, 0, 0.05)] == [[0, 0], [1, 1]]
