"""Ranks from a tree of noisy counts: quantiles of many groups, all ranks from one release.

The values of a group are counted in `cells` cells in a row. Level after level cuts each node into at most `branching` children,
down to single cells; every node of every level but the root is released with noise of its own. The count left of a
cell is a sum of at most (branching - 1) nodes a level, and so is the count from it on: disjoint nodes, so their noises are
independent. A row is in one node a level, so a unit of C rows changes all levels together by levels * C in absolute sum and
levels * C^2 in squared length. Hay, Rastogi, Miklau, Suciu 2010, sec. 4 (their tree, without its least squares); Qardaji,
Yang, Li 2013 for the branching.

With bars of n nodes that grow like the root of n, the best branching is near 16 for discrete Laplace noise, whose scale grows
like the number of levels, and near 8 for normal noise, whose deviation grows like its root. A tree of one level is the
histogram of single cells: the best where there are few.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer, open_probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.mechanisms.laws import GeometricLaw, Law
from neartwin.special import ndtri

_BRANCHINGS = (*range(2, 33), 48, 64, 128)


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
        found = [1]
        while found[-1] * self.branching < self.cells:
            found.append(found[-1] * self.branching)
        return tuple(reversed(found))

    @property
    def levels(self) -> int:
        """How often a row is counted."""
        return len(self.widths)

    def nodes(self, counts: WholeNumbers) -> list[WholeNumbers]:
        """Exact counts of each level's nodes. counts: (groups, cells) whole numbers; result: (groups, nodes) a level."""
        return [np.add.reduceat(counts, np.arange(0, self.cells, width), axis=1) for width in self.widths]

    def split(self, nodes: Sequence[WholeNumbers]) -> tuple[FloatArray, FloatArray]:
        """(groups, cells + 1) twice: the count of cells below each place, and of those from it on, place = 0, ..., cells."""
        below, rest = (np.zeros((nodes[0].shape[0], self.cells + 1)) for _ in range(2))
        for level, (first, middle, last) in enumerate(self._spans()):
            sums = np.concatenate(
                [np.zeros((nodes[level].shape[0], 1)), np.cumsum(nodes[level], axis=1, dtype=np.float64)], axis=1
            )
            below += sums[:, middle] - sums[:, first]
            rest += sums[:, last] - sums[:, np.minimum(middle + (level < self.levels - 1), last)]
        return below, rest

    def sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(cells + 1,) twice: of how many nodes the two counts of `split` are sums."""
        spans = self._spans()
        below = sum((middle - first for first, middle, _ in spans), np.zeros(self.cells + 1, dtype=np.int64))
        rest = np.zeros(self.cells + 1, dtype=np.int64)
        for level, (_, middle, last) in enumerate(spans):
            rest += last - np.minimum(middle + (level < self.levels - 1), last)
        return below, rest

    def _spans(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
        """For each level and place: the first node of its parent, the node that holds it, and the end of its parent."""
        place = np.arange(self.cells + 1)
        spans = []
        for level, width in enumerate(self.widths):
            count = -(-self.cells // width)
            middle = np.minimum(place // width, count)
            if level == 0:
                first, last = np.zeros_like(place), np.full_like(place, count)
            else:
                first = np.minimum(place // self.widths[level - 1] * self.branching, count)
                last = np.minimum(first + self.branching, count)
            spans.append((first, middle, last))
        return spans


def best_tree(cells: int, power: float) -> CountTree:
    """The branching with the least error of a median, for noise whose deviation grows like levels ** power.

    >>> best_tree(1000, 1.0).levels, best_tree(1000, 0.5).levels, best_tree(8, 1.0).levels
    (2, 4, 1)
    """
    options = [CountTree(cells, min(b, max(2, cells))) for b in _BRANCHINGS if b <= cells] or [CountTree(cells, 2)]
    if cells <= 512:
        options.append(CountTree(cells, max(2, cells)))

    def error(tree: CountTree) -> float:
        below, rest = tree.sizes()
        return math.sqrt(float((below + rest).mean())) * float(tree.levels**power)

    return min(options, key=error)


@dataclass(frozen=True, slots=True)
class Ranks:
    """Noisy ranks of a tree. rank: 0 < rank < 1; law: of a node's noise.

    A group's score at a place is (1 - rank) * (count below) - rank * (count from there on): it rises from left to right,
    and the quantile is the first cell at whose end it is not negative.
    """

    tree: CountTree
    law: Law

    def bars(self, rank: float, confidence: float) -> FloatArray:
        """(cells + 1,) one-sided bars of the noisy score: either side is passed with probability (1 - confidence) / 2.

        An estimate, by the first Cornish-Fisher term, which for one Laplace variable is 2 % too long at 95 % and less for sums;
        where noise is about a step, half a step of the score is added for its lattice.
        """
        z = float(ndtri((1 + open_probability(confidence=confidence)) / 2))
        below, rest = self.tree.sizes()
        one, variance = self.law.variance, (1 - rank) ** 2 * below + rank**2 * rest
        excess = 3.0 if isinstance(self.law, GeometricLaw) else 0.0
        fourth = excess * ((1 - rank) ** 4 * below + rank**4 * rest)
        kurtosis = np.divide(fourth, variance**2, out=np.zeros_like(variance), where=variance > 0)
        bars: FloatArray = np.sqrt(one * variance) * (z + (z**3 - 3 * z) * kurtosis / 24)
        return bars + max(rank, 1 - rank) / 2 * min(1.0, 1 / max(one, 1.0))

    def quantile(
        self,
        split: tuple[FloatArray, FloatArray],
        rank: float,
        confidence: float,
        *,
        reach: tuple[FloatArray, FloatArray] | None = None,
    ) -> tuple[FloatArray, ...]:
        """(groups,) three times: the cell of the quantile, and the first and last cell of its confidence interval.

        split: noisy. The interval holds every cell c whose score, at its start and at its end, the noise does not exclude: for
        the true cell the score is below 0 at its start and not below 0 at its end, so it is left out with probability at most
        1 - confidence. reach: (groups, cells + 1) twice, in place of the bars where not noise alone moves scores: how far above 0
        the noisy score of the true cell may be at its start, and how far below at its end.
        """
        if not 0 < rank < 1:
            raise ParameterError("rank", rank, "must lie strictly between 0 and 1", remedy="see minimum and maximum")
        below, rest = split
        score = (1 - rank) * below - rank * rest
        risen = np.maximum.accumulate(score, axis=1)
        falling = np.minimum.accumulate(score[:, ::-1], axis=1)[:, ::-1]
        smooth = risen + falling  # twice a monotone score
        cell = _first(smooth[:, 1:] >= 0)
        bars = self.bars(rank, confidence)[None, :]
        up, down = (bars, bars) if reach is None else reach
        possible = (score[:, 1:] >= -down[:, 1:]) & (score[:, :-1] <= up[:, :-1])
        first, last = _first(possible), self.tree.cells - 1 - _first(possible[:, ::-1])
        empty = ~possible.any(axis=1)
        first, last = np.where(empty, cell, first), np.where(empty, cell, last)
        return cell.astype(float), np.minimum(first, cell).astype(float), np.maximum(last, cell).astype(float)

    def largest(self, split: tuple[FloatArray, FloatArray], confidence: float) -> FloatArray:
        """(groups,) the last cell such that some row certainly lies in it or beyond, -1 where not even the first is certain.

        "No row from cell c on" is tested for c = 0, 1, ... until it is not refuted. The true ones follow each other, so the first
        of them is refuted, and the answer too large, with probability at most 1 - confidence.
        """
        z_both = 2 * open_probability(confidence=confidence) - 1  # one-sided at `confidence`
        _, rest = split
        refuted = rest[:, :-1] > self.bars(1.0, max(z_both, 1e-9))[:-1]
        return _first(~np.concatenate([refuted, np.zeros((refuted.shape[0], 1), dtype=bool)], axis=1)).astype(float) - 1

    def smallest(self, split: tuple[FloatArray, FloatArray], confidence: float) -> FloatArray:
        """(groups,) the first cell such that some row certainly lies in it or before; `cells` where none is certain."""
        z_both = 2 * open_probability(confidence=confidence) - 1
        below, _ = split
        refuted = (below[:, 1:] > self.bars(0.0, max(z_both, 1e-9))[1:])[:, ::-1]
        stopped = _first(~np.concatenate([refuted, np.zeros((refuted.shape[0], 1), dtype=bool)], axis=1))
        return (self.tree.cells - stopped).astype(float)


def _first(true: NDArray[np.bool_]) -> NDArray[np.intp]:
    """(groups,) the first true place of each row, the last place where there is none."""
    found = np.argmax(true, axis=1)
    result: NDArray[np.intp] = np.where(true.any(axis=1), found, true.shape[1] - 1)
    return result
