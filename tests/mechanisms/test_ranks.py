"""Ranks from a tree of noisy counts: exact without noise, within their bars with it, and never out of order."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from neartwin.mechanisms.linear.count_trees import CountTree, moments
from neartwin.mechanisms.linear.ranks import Ranks, best_tree
from neartwin.mechanisms.noise_laws import DiscreteLaplaceLaw, RoundedGaussianLaw


def exact_quantile(values, rank):
    """The least value with at least a share `rank` of all at or below it."""
    ordered = np.sort(values)
    return ordered[max(0, int(np.ceil(rank * len(ordered))) - 1)]


@pytest.mark.parametrize("rank", [0.25, 0.5, 0.75, 0.99])
def test_quantile_and_ends_without_noise_are_exact(rank):
    draw = np.random.default_rng(3)
    values = draw.gamma(2.0, 10.0, (20, 128)).astype(int).clip(0, 199)
    counts = np.array([np.bincount(row, minlength=200) for row in values])
    ranks = Ranks(CountTree(200, 6), DiscreteLaplaceLaw(Fraction(1, 100)))
    split = ranks.tree.split(ranks.tree.nodes(counts))
    cell, first, last = ranks.quantile(split, rank, 0.95)
    assert cell.tolist() == [exact_quantile(row, rank) for row in values]
    assert (first <= cell).all()
    assert (cell <= last).all()
    assert ranks.largest(split, 0.95).tolist() == values.max(axis=1).tolist()
    assert ranks.smallest(split, 0.95).tolist() == values.min(axis=1).tolist()


def noisy_nodes(tree, counts, law, draw):
    """NumPy's noise of the same law: this test must not believe our sampler."""
    nodes = tree.nodes(counts)
    if isinstance(law, DiscreteLaplaceLaw):
        rate = -np.expm1(-1 / float(law.scale))
        return [n + draw.geometric(rate, n.shape) - draw.geometric(rate, n.shape) for n in nodes]
    return [n + np.rint(draw.normal(0, float(law.normal_variance) ** 0.5, n.shape)) for n in nodes]


LAWS = [
    DiscreteLaplaceLaw(Fraction(8)),
    DiscreteLaplaceLaw(Fraction(1, 2)),
    RoundedGaussianLaw(Fraction(100)),
    RoundedGaussianLaw(Fraction(1, 5)),
]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("rank", [0.1, 0.5, 0.95])
def test_quantile_bars_cover_as_stated_and_shorter_ones_do_not(law, rank):
    draw = np.random.default_rng(11)
    values = draw.gamma(2.0, 40.0, 5000).astype(int).clip(0, 299)
    repeats, tree = 1500, best_tree(300, 0.5)
    counts = np.tile(np.bincount(values, minlength=300), (repeats, 1))
    split = tree.split(noisy_nodes(tree, counts, law, draw))
    true = exact_quantile(values, rank)

    def held(given):
        _, first, last = Ranks(tree, given).quantile(split, rank, 0.95)
        return ((first <= true) & (true <= last)).mean(), (last - first).mean()

    share, width = held(law)
    assert share >= 0.95 - 5 * np.sqrt(0.95 * 0.05 / repeats)
    if law.variance > 50:  # where noise is small, a cell holds more rows than it hides
        smaller = type(law)(Fraction(1, 1000))
        assert held(smaller)[0] < 0.9  # the near miss
        assert width < 40
        score = (1 - rank) * split[0] - rank * split[1]
        spread, bars = score.std(axis=0), Ranks(tree, law).bars(rank, 0.95)
        assert (np.abs(bars / (1.96 * spread) - 1) < 0.15).all()  # not needlessly wide


@pytest.mark.parametrize("law", [DiscreteLaplaceLaw(Fraction(8)), RoundedGaussianLaw(Fraction(100))], ids=str)
def test_certain_ends_cover_as_stated(law):
    draw = np.random.default_rng(12)
    values = draw.normal(150, 20, 4000).astype(int).clip(0, 299)
    repeats, tree = 1500, best_tree(300, 0.5)
    split = tree.split(noisy_nodes(tree, np.tile(np.bincount(values, minlength=300), (repeats, 1)), law, draw))
    ranks = Ranks(tree, law)
    for found, true, sign in (
        (ranks.largest(split, 0.95), values.max(), 1),
        (ranks.smallest(split, 0.95), values.min(), -1),
    ):
        assert (sign * found <= sign * true).mean() >= 0.95 - 5 * np.sqrt(0.95 * 0.05 / repeats)
        assert abs(found.mean() - true) < 60


def test_quantiles_of_rising_ranks_never_fall_and_empty_groups_have_no_bar():
    law, tree = DiscreteLaplaceLaw(Fraction(5)), best_tree(200, 1.0)
    draw = np.random.default_rng(13)
    counts = np.array([np.bincount(draw.integers(0, 200, size), minlength=200) for size in (0, 20, 2000)] * 50)
    split = tree.split(noisy_nodes(tree, counts, law, draw))
    ranks = Ranks(tree, law)
    last = np.zeros(150)
    for rank in (0.05, 0.25, 0.5, 0.75, 0.95):
        cell, first, end = ranks.quantile(split, rank, 0.95)
        full = counts.sum(axis=1) == 2000
        assert (cell >= last)[full].all()
        assert ((end - first)[counts.sum(axis=1) == 0] > 150).mean() > 0.5
        last = cell


@pytest.mark.parametrize("cells", [2, 20, 300, 5000])
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_the_branching_is_the_best_of_all(cells, power):
    def error(branching):
        tree = CountTree(cells, branching)
        return np.sqrt(moments(tree, 0.5)[0].mean()) * tree.levels**power

    best = error(best_tree(cells, power).branching)
    assert best <= min(error(b) for b in range(3, max(4, min(cells, 60) + 1))) * 1.02
    assert best <= error(2) * 1.03


QUIET = [DiscreteLaplaceLaw(Fraction(s)) for s in ("1/2", "1", "4")] + [
    RoundedGaussianLaw(Fraction(s)) for s in ("1/20", "1", "5")
]


@pytest.mark.parametrize("law", QUIET, ids=str)
def test_bars_of_noise_of_a_few_steps_cover_as_stated(law):
    """Of every place, however few steps there are: a score below 0 is so by a step, and noise comes in steps."""
    draw, many, passed = np.random.default_rng(14), 50_000, 0
    for tree in (CountTree(1, 2), CountTree(5, 5), CountTree(12, 3)):
        noise = noisy_nodes(tree, np.zeros((many, tree.cells), dtype=int), law, draw)
        below, rest = tree.split(noise)
        for (rank, step), confidence in product(((0.5, 2), (0.9, 10), (0.99, 100)), (0.5, 0.8, 0.95, 0.99)):
            score, ranks = (1 - rank) * below - rank * rest, Ranks(tree, law)
            bars, most = ranks.bars(rank, confidence), binom.ppf(1 - 1e-10, many, (1 - confidence) / 2)
            assert ((score > bars + 1 / step - 1e-9).sum(axis=0) <= most).all(), (tree, rank, confidence)
            assert ((-score > bars + 1e-9).sum(axis=0) <= most).all(), (tree, rank, confidence)
            passed += ((-score > bars - ranks.half_step(rank) + 1e-9).sum(axis=0) > most).sum()
    assert passed  # the near miss: bars without half a step
