"""Bars of means of large sampled tables are hardly wider than they must be, and hold at every confidence and mean."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import neartwin as nt
from neartwin import noise
from neartwin.queries.expected import expected_errors
from neartwin.queries.planner import plan
from neartwin.releases.statistics import statistics_of

TABLE = nt.table(pa.table({"who": ["a"], "paid": [1.0]}), unit="who", name="v")
SPENDS = {"laplace": nt.pure(1), "loud": nt.pure("1/20"), "normal": nt.gdp("1/2", "1e-6")}


def planned(rate, spend, rows):
    return plan(TABLE.agg(m=nt.mean("paid", 0, 100)), spend=spend, rows_per_group=rows, sampling_rate=str(rate))


def released(made, kept, rows, confidence, seed):
    """Values, lower and upper. kept: (2, draws) units of the sample with that many rows at 100 and at 0."""
    source, noisy = noise.ScriptedSource(seed.encode()), {}
    for name, measure in made.measures.items():
        found = rows * (5000 * (kept[0] - kept[1]) if name.startswith("total") else kept.sum(axis=0))
        noisy[name] = measure.mechanism.noisy(found * measure.parts, source=source)
    (one,) = statistics_of(made, noisy, {}, confidence)
    return tuple(np.array(part) for part in (one.values, one.lower, one.upper))


@pytest.mark.parametrize("spend", SPENDS)
@pytest.mark.parametrize(("rate", "rows"), [(0.5, 1), (0.1, 1), (0.5, 10)])
def test_the_worst_table_fails_them_seldom_enough_and_would_fail_shorter_ones_too_often(rate, rows, spend):
    units, draws = 80_000, 20_000
    kept = np.random.default_rng([rows, len(spend)]).binomial(units // 2, rate, (2, draws))
    made = planned(rate, SPENDS[spend], rows)
    values, low, high = released(made, kept, rows, 0.95, f"{spend} {rate}")
    assert ((low > 50) | (high < 50)).sum() <= binom.ppf(1 - 1e-10, draws, 0.05)
    least = np.quantile(np.abs(values - 50), 0.95)
    assert np.median(high - low) / 2 <= 1.12 * least
    middle, short = (low + high) / 2, 0.85 * (high - low) / 2
    assert (np.abs(middle - 50) > short).sum() > binom.ppf(1 - 1e-10, draws, 0.05)


@pytest.mark.parametrize(("confidence", "rate"), [(0.5, 0.5), (0.9, 0.02)])
@pytest.mark.parametrize("units", [3, 60, 60_000])
def test_they_hold_at_every_confidence_and_mean(units, rate, confidence):
    draws, draw = 300, np.random.default_rng([units, int(100 * confidence)])
    for rows, share, spend in (
        (1, 0.5, nt.pure(2)),
        (1, 0.98, nt.pure("1/5")),
        (4, 0.05, nt.gdp(1, "1e-6")),
        (1, 1, nt.pure(3)),
    ):
        most = round(share * units)
        kept = draw.binomial([[most], [units - most]], rate, (2, draws))
        values, low, high = released(planned(rate, spend, rows), kept, rows, confidence, f"{units} {share}")
        truth = 100 * most / units
        missed = ((low > truth + 1e-9) | (high < truth - 1e-9)).sum()
        assert missed <= binom.ppf(1 - 1e-10, draws, 1 - confidence), (rows, share)
        assert ((low <= values) & (values <= high)).all()
        assert ((low >= 0) & (high <= 100)).all()


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_means_near_a_bound_have_narrower_bars(share):
    units, rate, draws = 100_000, 0.5, 4000
    kept = np.random.default_rng(1).binomial([[round(share * units)], [round((1 - share) * units)]], rate, (2, draws))
    values, low, high = released(planned(rate, nt.pure(1), 1), kept, 1, 0.95, "near")
    least = np.quantile(np.abs(values - 100 * share), 0.95)
    assert np.median(high - low) / 2 <= 1.35 * least


def test_the_preview_is_the_bar_of_a_release_at_that_size():
    for rate, rows in ((0.5, 1), (0.1, 5)):
        made = planned(rate, nt.pure(1000), rows)
        (error,) = expected_errors(made)
        for size, expected in error.by_size[2:]:
            kept = np.full((2, 3), round(rate * size / rows / 2))
            _, low, high = released(made, kept, rows, 0.95, "preview")
            assert np.median(high - low) / 2 == pytest.approx(expected, rel=0.02)
