"""Counts left and right of a place: exact without noise, and with it by least squares, off by the weights that are stated."""

import numpy as np
import pytest

from neartwin.mechanisms.linear.count_trees import CountTree, moments

TREES = [(1, 2), (2, 2), (7, 2), (8, 2), (10, 3), (100, 10), (101, 10), (37, 37), (50, 7), (64, 4)]
FULL = [(1, 2), (8, 2), (100, 10), (37, 37), (64, 4), (81, 3)]
RANKS = [0.0, 0.1, 0.5, 0.99, 1.0]


def node_of_leaf(tree):
    """(nodes, cells) 1 where a node counts a cell, level by level: by its definition."""
    place = np.arange(tree.cells)
    return np.concatenate([place // width == np.arange(-(-tree.cells // width))[:, None] for width in tree.widths])


def by_level(tree, nodes):
    """(many, nodes) cut into levels."""
    return np.split(nodes, np.cumsum([-(-tree.cells // width) for width in tree.widths])[:-1], axis=1)


def score_weights(tree, rank):
    """(cells + 1, nodes) of what `split` makes of each node alone."""
    below, rest = tree.split(by_level(tree, np.eye(len(node_of_leaf(tree)))))
    return ((1 - rank) * below - rank * rest).T


@pytest.mark.parametrize(("cells", "branching"), TREES)
def test_counts_of_a_place_equal_sums_of_leaves(cells, branching):
    counts = np.random.default_rng(cells).integers(0, 9, (3, cells))
    tree = CountTree(cells, branching)
    below, rest = tree.split(tree.nodes(counts))
    rising = np.concatenate([np.zeros((3, 1)), np.cumsum(counts, axis=1)], axis=1)
    assert (below == rising).all()
    assert (rest == rising[:, -1:] - rising).all()


@pytest.mark.parametrize(("cells", "branching"), TREES)
def test_each_row_is_in_one_node_a_level(cells, branching):
    tree = CountTree(cells, branching)
    assert (node_of_leaf(tree).sum(axis=0) == tree.levels).all()
    counts = np.random.default_rng(cells).integers(0, 9, (1, cells))
    assert (np.concatenate(tree.nodes(counts), axis=1) == counts @ node_of_leaf(tree).T).all()


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize(("cells", "branching"), TREES)
def test_estimates_are_unbiased_and_weigh_noise_as_stated(cells, branching, rank):
    tree = CountTree(cells, branching)
    weights, true = score_weights(tree, rank), np.tri(cells + 1, cells, -1) - rank
    assert np.allclose(weights @ node_of_leaf(tree), true)  # whatever the cells hold
    second, fourth = moments(tree, rank)
    assert np.allclose(second, (weights**2).sum(axis=1))
    assert np.allclose(fourth, (weights**4).sum(axis=1))
    sizes, numbers = tree.weights(rank, np.arange(cells + 1))
    for place in range(cells + 1):
        told = np.repeat(np.abs(sizes[place]), numbers[place].astype(int))
        assert np.allclose(np.sort(told)[-len(weights[0]) :], np.sort(np.abs(weights[place])))
        assert len(told) == len(weights[0])  # each node has one weight


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize(("cells", "branching"), TREES)
def test_no_unbiased_estimate_from_the_same_nodes_has_less_noise(cells, branching, rank):
    """Gauss, Markov: the least squares of all nodes, by a solver; of trees that are not full, hardly."""
    tree = CountTree(cells, branching)
    true = np.tri(cells + 1, cells, -1) - rank
    best = ((true @ np.linalg.pinv(node_of_leaf(tree).astype(float))) ** 2).sum(axis=1)
    second = moments(tree, rank)[0]
    assert (second >= best - 1e-9).all()
    if (cells, branching) in FULL:
        assert np.allclose(second, best)
    else:
        assert second.mean() <= 1.5 * best.mean()
    if tree.levels > 1:  # the near miss: the least number of nodes that tile both sides, none of them used twice
        assert second.mean() < 0.95 * tiles(tree, rank).mean()


def tiles(tree, rank):
    """(cells + 1,) the variance of sums of whole nodes on either side of a place."""
    place, found = np.arange(tree.cells + 1), np.zeros(tree.cells + 1)
    outer = np.zeros_like(place), np.full_like(place, -(-tree.cells // tree.widths[0]) * tree.widths[0])
    for width in tree.widths:
        start, end = place // width * width, -(-place // width) * width
        found += ((1 - rank) ** 2 * (start - outer[0]) + rank**2 * (outer[1] - end)) / width
        outer = start, end
    return found
