"""Trees of counts over cells in a row: all counts left and right of a place from all noisy nodes at once, by least squares.

The values of a group are counted in `cells` cells. Level after level cuts each node into `branching` children, down to single
cells. Every node of every level but the root is released with independent noise of one law. Estimates are linear in the noisy
nodes, so their error is a known sum of weight times noise.

*Estimates* (Hay, Rastogi, Miklau, Suciu 2010, sec. 4.2). Upwards, a node's count is z = u y + (1 - u) (its children's z), y its
own noisy count. With s = branching u' for the children's u', u = s / (1 + s), and 1 for a leaf. This u is the variance of z in
units of a node's. Downwards, h = z for the first nodes. The excess of a parent's h over its children's z is shared evenly among
them. Parents are then the sums of their children, and each h is the unbiased linear estimate with the least variance, where all
nodes are full. Cells beyond the last are empty for certain: their nodes are 0 and have no noise, so sums stay unbiased.

*Weights.* At place x and rank r the score is (1 - r) (cells below x) - r (the others). Let F be the share of a node's cells that
lie below x. The score's weight on z is F - r for a first node, and F - F' + (1 - u) w for one whose parent has F' and w. Its
weight on y is u times that. Left of the way down to x, F is 1, and right of it 0. Below such a node only 1 - u counts, level by
level, so a place has few different weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer
from neartwin.exact import FloatArray, WholeNumbers


@dataclass(frozen=True, slots=True)
class CountTree:
    """Where nodes begin and end. cells: at least 1; branching: at least 2.

    >>> CountTree(cells=1000, branching=10).widths
    (100, 10, 1)
    """

    cells: int
    branching: int

    def __post_init__(self) -> None:
        integer(at_least=1, cells=self.cells)
        integer(at_least=2, branching=self.branching)

    @property
    def widths(self) -> tuple[int, ...]:
        """Cells of a node, level by level, the widest first and 1 last."""
        widths = [1]
        while widths[-1] * self.branching < self.cells:
            widths.append(widths[-1] * self.branching)
        return tuple(reversed(widths))

    @property
    def levels(self) -> int:
        """How often a row is counted."""
        return len(self.widths)

    def nodes(self, counts: WholeNumbers) -> list[WholeNumbers]:
        """Exact counts of each level's nodes. counts: (groups, cells) whole numbers; result: (groups, nodes) a level."""
        return [np.add.reduceat(counts, np.arange(0, self.cells, width), axis=1) for width in self.widths]

    def split(self, nodes: Sequence[WholeNumbers]) -> tuple[FloatArray, FloatArray]:
        """The counts left and right of each place 0, ..., cells, by least squares.

        They are exact where nodes are exact, and the two add up to the same at every place.

        Args:
            nodes: The noisy nodes of each level, (groups, nodes).

        Returns:
            (groups, cells + 1) the count below each place, and (groups, cells + 1) the count from it on.
        """
        shares, groups = self._shares(), nodes[0].shape[0]
        first = nodes[0].shape[1]
        own = []
        for level, noisy in enumerate(nodes):
            full = np.zeros((groups, first * self.branching**level))
            full[:, : noisy.shape[1]] = noisy
            own.append(full)
        sums: list[FloatArray] = []
        for level in reversed(range(self.levels - 1)):
            parents = groups, first * self.branching**level, self.branching  # also for 0 groups
            sums.append(own[level + 1].reshape(parents).sum(axis=2))
            own[level] = sums[-1] + shares[level] * (own[level] - sums[-1])
        for level, total in enumerate(reversed(sums)):
            over = (own[level] - total) / self.branching
            own[level + 1] += np.repeat(over, self.branching, axis=1)
        rising = np.concatenate([np.zeros((groups, 1)), np.cumsum(own[-1], axis=1)], axis=1)
        below: FloatArray = rising[:, : self.cells + 1]
        return below, rising[:, -1:] - below

    def weights(self, rank: float, places: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        """The weights of noises in the score at some places, and the number of nodes with each.

        Args:
            rank: The rank, in (0, 1).
            places: (places,) places from 0 to `cells`.

        Returns:
            (places, kinds) weights, and (places, kinds) numbers of nodes.
        """
        widths, u = self.widths, self._shares()
        parent, before = np.zeros(len(places)), np.full(len(places), rank)  # (1 - u) w of the parent, and its F
        ended, start = np.full(len(places), self.cells), np.zeros_like(places)
        weights, numbers = [], []
        for level, width in enumerate(widths):
            node = places // width
            share = (places - node * width) / width
            on_way = share - before + parent
            weights.append(u[level] * on_way)
            numbers.append((node * width < ended).astype(float))
            for part, left, right in (
                (1 - before + parent, start, node * width),
                (parent - before, (node + 1) * width, ended),
            ):
                down = part
                for below in range(level, self.levels):
                    weights.append(u[below] * down)
                    numbers.append(np.maximum(-(-right // widths[below]) - left // widths[below], 0).astype(float))
                    down = (1 - u[below]) * down
            parent, before = (1 - u[level]) * on_way, share
            start, ended = node * width, np.minimum((node + 1) * width, ended)
        return np.stack(weights, axis=1), np.stack(numbers, axis=1)

    def _shares(self) -> FloatArray:
        """(levels,) u: the share of a node's own count in z."""
        shares = [1.0]
        for _ in range(self.levels - 1):
            s = self.branching * shares[-1]
            shares.append(s / (1 + s))
        return np.array(shares[::-1])


@lru_cache(maxsize=64)
def moments(tree: CountTree, rank: float, places: int | None = None) -> tuple[FloatArray, FloatArray]:
    """The sums of squares and of fourth powers of the weights in the score.

    Args:
        tree: The tree.
        rank: The rank, in (0, 1).
        places: The number of evenly spaced places of 0, ..., cells; None for all.

    Returns:
        (places,) sums of squares, and (places,) sums of fourth powers.

    >>> second, fourth = moments(CountTree(cells=4, branching=4), 0.5)
    >>> print(second, fourth)
    [1. 1. 1. 1. 1.] [0.25 0.25 0.25 0.25 0.25]
    """
    if places is None or places > tree.cells:
        chosen = np.arange(tree.cells + 1)
    else:
        chosen = np.linspace(0, tree.cells, places).round().astype(np.int64)
    sums = []
    for part in np.array_split(chosen, -(-len(chosen) // 4096)):
        weights, numbers = tree.weights(rank, part)
        squares = weights**2
        sums.append(((numbers * squares).sum(axis=1), (numbers * squares**2).sum(axis=1)))
    second, fourth = (np.concatenate(one) for one in zip(*sums, strict=True))
    second.flags.writeable = fourth.flags.writeable = False
    return second, fourth
