"""Bars of counts, sums and quantiles of a sampled table hold as often as they say, and are hardly wider than they must be."""

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
STEPS = 100  # a unit of money
SPENDS = {
    "loud": nt.pure("1/50"),
    "alike": nt.pure("1/10"),
    "normal": nt.gdp("1/20", "1e-6"),
    "quiet": nt.gdp(3, "1e-6"),
}


def released(asked, rows, exact, *, rate, spend, seed):
    """Value, lower and upper of the first statistic. exact: by the first word of a measure's name, (draws,) of the sample."""
    made = plan(TABLE.agg(**asked), spend=spend, rows_per_group=rows, sampling_rate=str(rate))
    source, noisy = noise.ScriptedSource(f"{seed} {rate} {spend}".encode()), {}
    for name, measure in made.measures.items():
        found = np.asarray(exact[name.partition(":")[0]]).astype(np.int64) * measure.parts
        noisy[name] = measure.mechanism.noisy(found, source=source)
    one = statistics_of(made, noisy, {}, 0.95)[0]
    return made, tuple(np.array(part) for part in (one.values, one.lower, one.upper))


def holds(low, high, truth):
    return ((low > truth) | (truth > high)).sum() <= binom.ppf(1 - 1e-10, len(low), 0.05)


UNITS, DRAWS = 20_000, 3000
WORST = {  # every unit counts for the most that it can: what is asked, rows a unit, and the truth
    "units": ({"n": nt.count_units()}, 1, UNITS),
    "rows": ({"n": nt.count()}, 3, 3 * UNITS),
    "sum": ({"s": nt.sum("paid", 0, 10)}, 2, 20 * UNITS),
    "debts": ({"s": nt.sum("paid", -10, 0)}, 2, -20 * UNITS),
    "both signs": ({"s": nt.sum("paid", -10, 10), "n": nt.count()}, 2, 0),
}


@pytest.mark.parametrize("rate", [0.2, 0.6])
@pytest.mark.parametrize("spend", SPENDS)
@pytest.mark.parametrize("case", WORST)
def test_bars_of_large_tables_are_hardly_wider_than_the_errors_of_the_worst_one(case, spend, rate):
    asked, rows, truth = WORST[case]
    draw = np.random.default_rng([len(case), len(spend)])
    kept = draw.binomial(UNITS // 2, rate, (2, DRAWS))
    of = kept[0] - kept[1] if case == "both signs" else kept.sum(axis=0)
    size = 10 * rows * STEPS * (-1 if case == "debts" else 1)
    exact = {"units": kept.sum(axis=0), "rows": rows * kept.sum(axis=0), "total": of * size}
    _, (values, low, high) = released(asked, rows, exact, rate=rate, spend=SPENDS[spend], seed=case)
    assert holds(low, high, truth)
    least = np.quantile(np.abs(values - truth), 0.95)
    assert np.median(high - low) / 2 <= 1.16 * least
    middle, third = (low + high) / 2, (high - low) / 2 / 1.6
    assert not holds(middle - third, middle + third, truth)  # near miss


HEAVY = {  # rows of each unit, at most 40, and the value of its rows
    "nobody": (np.zeros(0, dtype=int), 5.0),
    "one light": (np.ones(1, dtype=int), 5.0),
    "one heavy": (np.full(1, 40), 10.0),
    "one heavy among light": (np.array([40] + [1] * 50), 10.0),
    "a long tail": (np.minimum(40, np.ceil(1.4 ** np.arange(1, 200) ** 0.6)).astype(int), 7.0),
    "small values": (np.full(300, 40), 0.01),
}


@pytest.mark.parametrize(("rate", "spend"), [(0.05, "alike"), (0.5, "quiet"), (0.9, "alike")])
@pytest.mark.parametrize("population", HEAVY)
def test_bars_hold_in_small_and_heavy_tailed_groups_too(population, spend, rate):
    rows, value = HEAVY[population]
    draws = 600
    kept = np.random.default_rng([len(population), len(spend)]).random((draws, len(rows))) < rate
    sign = np.where(np.arange(len(rows)) % 3, 1, -1)
    steps = round(value * STEPS)
    for asked, total in (
        ({"n": nt.count()}, rows),
        ({"n": nt.count_units()}, np.ones_like(rows)),
        ({"s": nt.sum("paid", 0, 10)}, rows * steps),
        ({"s": nt.sum("paid", -10, 10), "n": nt.count()}, sign * rows * steps),
        ({"s": nt.sum("paid", -10, 3), "n": nt.count()}, -rows * steps),
    ):
        exact = {"units": kept.sum(axis=1), "rows": kept @ rows, "total": kept @ total}
        truth = total.sum() / (STEPS if "s" in asked else 1)
        _, (_, low, high) = released(asked, 40, exact, rate=rate, spend=SPENDS[spend], seed=population)
        assert holds(low, high, truth), asked


def test_the_preview_says_how_wide_they_are():
    for case, (asked, rows, _) in WORST.items():
        kept = np.full(5, round(0.3 * 10_000 / rows))
        of = 0 if case == "both signs" else kept * rows * 10 * STEPS * (-1 if case == "debts" else 1)
        exact = {"units": kept, "rows": rows * kept, "total": of + 0 * kept}
        made, (_, low, high) = released(asked, rows, exact, rate=0.3, spend=nt.pure(1000), seed=1)
        error = next(one for one in expected_errors(made) if one.name in asked)
        assert np.median(high - low) / 2 == pytest.approx(dict(error.by_size)[10_000], rel=0.03), case


PLACES = {  # 64 cells: where the values of a unit are, at most 3 rows each
    "even": lambda draw, units: draw.integers(0, 64, units),
    "ties": lambda draw, units: draw.choice([3, 40], units, p=[0.5, 0.5]),
    "one cell": lambda _, units: np.full(units, 17),
    "far": lambda draw, units: np.minimum(63, draw.geometric(0.3, units) ** 2),
}


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("spend", [nt.pure("1/2"), nt.gdp(3, "1e-6")], ids=["loud", "quiet"])
@pytest.mark.parametrize("units", [9, 1500])
def test_bars_of_quantiles_hold_over_noise_and_sample(places, spend, units):
    draws, rate = 800, 0.3
    draw = np.random.default_rng([len(places), units])
    cell, rows = PLACES[places](draw, units), draw.integers(1, 4, units)
    whole = np.repeat(cell, rows)
    asked = {"m": nt.quantile("paid", [0.5, 0.9], 0, 64, 1)}
    made = plan(TABLE.agg(**asked), spend=spend, rows_per_group=3, sampling_rate=str(rate))
    ((name, split),) = made.splits.items()
    kept = (draw.random((draws, units)) < rate).astype(np.int64)
    leaves = kept @ (np.eye(split.tree.cells, dtype=np.int64)[cell] * rows[:, None]) * split.stage.parts
    source = noise.ScriptedSource(f"{places} {units}".encode())
    trees = {name: [made.measures[name].mechanism.noisy(level, source=source) for level in split.tree.nodes(leaves)]}
    for one, rank in zip(statistics_of(made, {}, trees, 0.95), (0.5, 0.9), strict=True):
        truth = np.sort(whole)[int(np.ceil(rank * len(whole))) - 1]
        low, high = np.array(one.lower), np.array(one.upper)
        assert holds(low, high, truth), rank
