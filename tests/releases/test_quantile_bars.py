"""Bars of quantiles hold as often as they say, of whatever values, and are hardly wider than they must be."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import neartwin as nt
from neartwin import noise
from neartwin.planning.planner import plan

RANKS = ["0.1", "0.25", "0.5", "0.9", "0.99"]
SPENDS = [nt.pure("1/2"), nt.zcdp("1/50")]
NEIGHBOURS = ["add_remove", "replace_one"]
DRAWS = 400


def uniform(draw, cells):
    return draw.integers(0, cells, 4000)


def heavy_tailed(draw, cells):
    return np.minimum(cells - 1, draw.pareto(1.2, 4000) * cells / 50).astype(int)


def bell(draw, cells):
    return draw.normal(cells / 2, cells / 12, 20_000).astype(int).clip(0, cells - 1)


def ties(draw, cells):
    return draw.choice([cells // 10, cells * 2 // 5, cells * 5 // 12, cells * 4 // 5], 4000, p=[0.3, 0.3, 0.3, 0.1])


def few(draw, cells):
    return draw.integers(0, cells, 60)


def one_in_doubt(_, cells):
    """The median is one value between many: only there is the score next to 0, at the start of its cell and at the end."""
    middle = cells // 2
    return np.repeat([middle - 1, middle, middle + 1], [3000, 1, 3000])


def edge(_, cells):
    """The median is where many values begin; one fewer there, and it would be anywhere in the gap before."""
    return np.repeat([cells // 5, cells // 2], [3000, 3001])


VALUES = [uniform, heavy_tailed, bell, ties, few, one_in_doubt, edge]


def true_quantile(values, rank):
    """The least value with at least that share of all at or below it."""
    return np.sort(values)[max(1, int(np.ceil(float(rank) * len(values) - 1e-9))) - 1]


def released(values, cells, spend, neighbours, source, *, draws=DRAWS):
    """Value and ends of each rank, (draws,), from the noise of a plan; values are grid points."""
    rows = nt.table(pa.table({"who": ["a"], "paid": [1]}), unit="who", name="v", neighbours=neighbours)
    asked = rows.agg(m=nt.quantile("paid", RANKS, 0, cells - 1, 1))
    made = plan(asked, spend=spend, limits=nt.limits(max_rows_per_group=5))
    ((name, split),) = made.splits.items()
    assert split.tree.cells == cells
    leaves = np.tile(np.bincount(values, minlength=cells) * split.stage.split_parts, (draws, 1))
    mechanism = made.measures[name].mechanism
    trees = {name: [mechanism.noisy(level, source=source) for level in split.tree.nodes(leaves)]}
    found = made.estimates({}, trees)
    return {
        rank: [np.array(part) for part in (s.values, s.lower, s.upper)] for rank, s in zip(RANKS, found, strict=True)
    }


def failed(low, high, truth):
    return ((low > truth) | (truth > high)).sum()


def least_width(estimates, truth):
    """Points in the shortest interval about the estimate, the same for all, that would hold the truth in 95 of 100 releases."""
    off = np.sort(estimates - truth)
    held = int(np.ceil(0.95 * len(off)))
    return (off[held - 1 :] - off[: len(off) - held + 1]).min() + 1


def check(values, cells, spend, neighbours, source, *, draws=DRAWS):
    """The widths over the least ones of all ranks, after all have held."""
    ratios = {}
    for rank, (value, low, high) in released(values, cells, spend, neighbours, source, draws=draws).items():
        truth = true_quantile(values, rank)
        assert failed(low, high, truth) <= binom.ppf(1 - 1e-10, draws, 0.05), rank
        ratios[rank] = ((high - low).mean() + 1) / least_width(value, truth)
    return ratios


@pytest.mark.parametrize("spend", SPENDS, ids=str)
@pytest.mark.parametrize("values", [uniform, heavy_tailed, ties, few], ids=lambda it: it.__name__)
def test_bars_hold_over_hundreds_of_releases(values, spend):
    check(
        values(np.random.default_rng(5), 101), 101, spend, "add_remove", noise.ScriptedSource(values.__name__.encode())
    )


@pytest.mark.parametrize(
    ("cells", "draws", "most", "widest"),
    [
        (101, DRAWS, 1.6, 2.4),
        (1000, DRAWS, 1.9, 2.4),
        pytest.param(101, 8 * DRAWS, 1.4, 1.5, marks=pytest.mark.slow),
        pytest.param(1000, 8 * DRAWS, 1.65, 1.9, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("spend", SPENDS, ids=str)
def test_quantile_bars_of_even_values_are_nearly_tight(cells, draws, most, widest, spend):
    """On average over ranks; where all cells are alike, a bar is wider by what it must hold for values that are not.

    The ends lie six standard deviations or more above the mean of eight scripts at so many draws.
    """
    source = noise.ScriptedSource(f"even {cells}".encode())
    ratios = check(uniform(np.random.default_rng(5), cells), cells, spend, "add_remove", source, draws=draws)
    assert np.exp(np.mean(np.log(list(ratios.values())))) <= most
    assert max(ratios.values()) <= widest


@pytest.mark.parametrize("spend", SPENDS, ids=str)
@pytest.mark.parametrize("cells", [30, 101])
@pytest.mark.parametrize("values", [one_in_doubt, edge], ids=lambda it: it.__name__)
def test_bars_that_are_a_third_shorter_would_not_hold(monkeypatch, values, cells, spend):
    """Where noise on either side decides, or on one side of a gap, a bar holds its rate and hardly more."""
    from neartwin.mechanisms.linear.ranks import Ranks

    bars, draws, fails = Ranks.bars, 4000, []
    for cut in (1.0, 2 / 3):
        monkeypatch.setattr(Ranks, "bars", lambda *asked, cut=cut: cut * bars(*asked))
        source = noise.ScriptedSource(values.__name__.encode())
        _, low, high = released(values(None, cells), cells, spend, "add_remove", source, draws=draws)["0.5"]
        fails.append(failed(low, high, cells // 2))
    assert fails[0] <= binom.ppf(1 - 1e-10, draws, 0.05) < fails[1]


@pytest.mark.parametrize(("paid", "step", "ends"), [(1.0, 10, 5), (1, 10, 5), (1, 5, 2), (1, 1, 0)])
def test_bars_hold_quantiles_of_values_that_are_not_grid_points(paid, step, ends):
    """A grid of step s moves a value by up to s / 2, whole numbers by a whole number: the bar of exact counts is that long."""
    draw = np.random.default_rng(7)
    rows = nt.table(pa.table({"who": ["a"], "paid": [paid]}), unit="who", name="v")
    asked = rows.agg(m=nt.quantile("paid", RANKS, 0, 1000, step), spread=nt.interquartile_range("paid", 0, 1000, step))
    made = plan(asked, spend=nt.pure(10**9), limits=nt.limits(max_rows_per_group=1))
    ((name, split),) = made.splits.items()
    values = draw.integers(300, 700, 401) if isinstance(paid, int) else draw.uniform(300, 700, 401)
    counts = np.bincount(np.rint(values / step).astype(int), minlength=split.tree.cells) * split.stage.split_parts
    found = made.estimates({}, {name: split.tree.nodes(counts[None, :])})
    truths = [true_quantile(values, rank) for rank in RANKS]
    for one, truth in zip(found, [*truths, true_quantile(values, 0.75) - true_quantile(values, 0.25)], strict=True):
        width = ends * (2 if one.name == "spread" else 1)
        assert (one.values[0] - one.lower[0], one.upper[0] - one.values[0]) == (width, width), one.name
        assert abs(truth - one.values[0]) <= width, one.name
    if step == 10:  # a near miss: the bar of the rounded values
        assert any(abs(truth - one.values[0]) > 1 for one, truth in zip(found, truths, strict=False))


@pytest.mark.slow
@pytest.mark.parametrize("cells", [30, 101, 1000])
@pytest.mark.parametrize("values", VALUES, ids=lambda it: it.__name__)
def test_bars_hold_of_all_values_spends_and_neighbours(values, cells):
    for (spend, neighbours), seed in product(product(SPENDS, NEIGHBOURS), range(3)):
        check(values(np.random.default_rng(seed), cells), cells, spend, neighbours, noise.SYSTEM)
