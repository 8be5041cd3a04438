"""Ranks from a tree of noisy counts: quantiles of many groups, all ranks from one release.

The values of a group are counted in a `neartwin.mechanisms.linear.count_trees.CountTree`. Its noisy nodes give the counts
left and right of every place by least squares. A row is in one node a level. So a unit of C rows changes all levels together
by levels * C in absolute sum and levels * C^2 in squared length. Hay, Rastogi, Miklau, Suciu 2010, sec. 4.

The best branching is near 10 for discrete Laplace noise, whose scale grows like the number of levels. It is small for normal
noise, whose deviation grows like its root (Qardaji, Yang, Li 2013). A tree of one level is the histogram of single cells: the
best for few cells.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import open_probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray
from neartwin.mechanisms.linear.count_trees import CountTree, moments
from neartwin.mechanisms.noise_laws import Law, laplace_quantiles

_BRANCHINGS = (*range(3, 33), 48, 64, 128)  # 2 would shorten bars by up to 3 %, with many more nodes than cells
_TYPICAL = 1025  # places that represent all of them
_ALONE, _KINDS = 2048, 256  # ends with bars of their own, and shapes for the sums of all other ends
_SHAPED = 1e-3, 4e-4  # bounds the differences between sums of one shape; the second times the squared normal quantile
_SURE = 0.25  # the largest failure of one side: bars below 50 % confidence are those at 50 %
_OF_CELL = 0.75  # the share of the failure probability for the ends of the cell itself


def best_tree(cells: int, power: float) -> CountTree:
    """The tree with the branching of the least error of a median.

    Args:
        cells: The number of cells.
        power: The deviation of a node's noise grows like levels ** power: 1 for Laplace noise, 1/2 for normal noise.

    Returns:
        The tree.

    >>> best_tree(1000, 1.0).levels, best_tree(1000, 0.5).levels, best_tree(8, 1.0).levels
    (3, 5, 1)
    """
    options = [CountTree(cells, min(b, max(2, cells))) for b in _BRANCHINGS if b <= cells] or [CountTree(cells, 2)]
    if cells <= 512:
        options.append(CountTree(cells, max(2, cells)))

    def error(tree: CountTree) -> float:
        return typical_weight(tree, 0.5) * float(tree.levels**power)

    return min(options, key=error)


def typical_weight(tree: CountTree, rank: float) -> float:
    """The deviation of a rank's score, typical over the places, in deviations of one node.

    Args:
        tree: The tree.
        rank: The rank, in (0, 1).

    Returns:
        The root of the mean squared deviation.
    """
    return math.sqrt(float(moments(tree, rank, _TYPICAL)[0].mean()))


def looks(tree: CountTree) -> tuple[tuple[int, float], ...]:
    """The nodes at whose ends a cell's score is tested, and the failure probability of each test.

    Scores rise. A true score below 0 at the start of a cell is below 0 at the start of every node that holds the cell.
    If it is not below 0 at the cell's end, it is not at their ends. So the interval misses the true cell with
    probability at most the sum over all tests, whatever the other cells do. There is less noise at the ends of wide
    nodes. Testing them prevents one lucky cell from stretching the interval if many cells are in doubt.

    Args:
        tree: The tree.

    Returns:
        Pairs of a width of nodes and its share of the failure probability.

    >>> looks(CountTree(cells=100, branching=10))
    ((1, 0.75), (10, 0.25))
    """
    if tree.levels == 1:
        return ((1, 1.0),)
    wider = tree.widths[:-1]
    return ((1, _OF_CELL), *((width, (1 - _OF_CELL) / len(wider)) for width in wider))


@lru_cache(maxsize=64)
def _laplace_bars(tree: CountTree, rank: float, failure: float, width: int) -> FloatArray:
    """(cells + 1,) what the noise of a score passes with probability `failure`, in scales of a node's Laplace noise.

    At the ends of nodes of this width; nothing is excluded elsewhere. Of many ends, those whose sums are alike in shape (the
    fourth moment over the square of the second) have the longest bar of three of them, in deviations, and a little more.
    """
    ends, half_widths = np.minimum(np.arange(0, tree.cells + width, width), tree.cells), np.full(tree.cells + 1, np.inf)
    second, fourth = (one[ends] for one in moments(tree, rank))
    order = np.argsort(fourth / np.maximum(second, 1e-150) ** 2)
    alike, alone = order[:-_ALONE], order[-_ALONE:]
    half_widths[ends[alone]] = laplace_quantiles(*tree.weights(rank, ends[alone]), failure)
    if len(alike):
        kinds = np.array_split(alike, min(_KINDS, len(alike)))
        some = np.array([(one[0], one[len(one) // 2], one[-1]) for one in kinds])
        bars = laplace_quantiles(*tree.weights(rank, ends[some.ravel()]), failure).reshape(some.shape)
        more = 1 + _SHAPED[0] + _SHAPED[1] * NormalDist().inv_cdf(failure) ** 2
        longest = (bars / np.sqrt(np.maximum(second[some], 1e-150))).max(axis=1) * more
        half_widths[ends[alike]] = np.repeat(longest, [len(one) for one in kinds]) * np.sqrt(second[alike])
    half_widths.flags.writeable = False
    return half_widths


@dataclass(frozen=True, slots=True)
class Ranks:
    """Noisy ranks of a tree.

    A group's score at a place is (1 - rank) * (count below) - rank * (count from there on). It rises from left to right, and the
    quantile is the first cell at whose end it is not negative.

    Attributes:
        tree: The tree of counts.
        law: The law of a node's noise.
        lost: The most rows that limits took, in parts of a count.
    """

    tree: CountTree
    law: Law
    lost: float = 0

    def bars(self, rank: float, confidence: float, width: int = 1) -> FloatArray:
        """(cells + 1,) one-sided bars of the noisy score: either side is passed with probability (1 - confidence) / 2.

        For discrete Laplace noise it is the quantile of Laplace variables of its scale. For other noise it is that of normal
        ones of its variance, the greater of before and after rounding. Half a step of the score is added for its lattice.

        Args:
            rank: Between 0 and 1.
            confidence: The probability that neither side is passed.
            width: The width of the nodes at whose ends bars are wanted. Elsewhere they may be infinite.
        """
        failure = min((1 - open_probability(confidence=confidence)) / 2, _SURE)
        scale = self.law.laplace_scale
        if scale is None:
            bars = -NormalDist().inv_cdf(failure) * np.sqrt(moments(self.tree, rank)[0] * self.variance)
        else:
            bars = scale * _laplace_bars(self.tree, rank, failure, width)
        return bars + self.half_step(rank)

    @property
    def variance(self) -> float:
        """The variance of a normal variable in place of a node's noise."""
        normal = self.law.near_normal
        return self.law.variance if normal is None else max(self.law.variance, normal.variance)

    @staticmethod
    def half_step(rank: float) -> float:
        """Half of the most that one step of a node's noise moves a score."""
        return max(rank, 1 - rank) / 2

    def quantile(self, split: tuple[FloatArray, FloatArray], rank: float, confidence: float) -> tuple[FloatArray, ...]:
        """(groups,) three times: the cell of the quantile, and the first and last cell of its confidence interval.

        The interval holds every cell that noise and lost rows do not exclude: (L4) of docs/proofs/lost-rows.md.
        It tests a cell's score at its start and end, and at those
        of the nodes that it is in: see `looks`.

        Args:
            split: Noisy counts left and right of each place.
            rank: Strictly between 0 and 1.
            confidence: The probability with which the interval holds the quantile.
        """
        if not 0 < rank < 1:
            raise ParameterError("rank", rank, "must lie strictly between 0 and 1", remedy="see minimum and maximum")
        below, rest = split
        score = (1 - rank) * below - rank * rest
        if not len(score):  # 0 groups
            return np.zeros(0), np.zeros(0), np.zeros(0)
        risen = np.maximum.accumulate(score, axis=1)
        falling = np.minimum.accumulate(score[:, ::-1], axis=1)[:, ::-1]
        smooth = risen + falling  # twice a monotone score
        cell = _first(smooth[:, 1:] >= 0)
        place, possible = np.arange(self.tree.cells), np.ones((len(score), self.tree.cells), dtype=bool)
        failure = 1 - open_probability(confidence=confidence)
        for width, share in looks(self.tree):
            bars = self.bars(rank, 1 - share * failure, width)
            possible &= (score <= bars + rank * self.lost)[:, place // width * width]
            possible &= (score >= -bars - (1 - rank) * self.lost)[
                :, np.minimum((place // width + 1) * width, self.tree.cells)
            ]
        first, last = _first(possible), self.tree.cells - 1 - _first(possible[:, ::-1])
        empty = ~possible.any(axis=1)
        first, last = np.where(empty, cell, first), np.where(empty, cell, last)
        return cell.astype(float), np.minimum(first, cell).astype(float), np.maximum(last, cell).astype(float)

    def largest(self, split: tuple[FloatArray, FloatArray], confidence: float) -> FloatArray:
        """The last cell such that some row certainly lies in it or beyond.

        "No row from cell c on" is tested for c = 0, 1, ... until a test accepts it. The true hypotheses are
        consecutive. So the first of them is rejected, and the answer too large, with probability at most 1 -
        confidence.

        Args:
            split: The noisy counts left and right of each place.
            confidence: The confidence.

        Returns:
            (groups,) cells, -1 if not even the first is certain.
        """
        return self._certain(split[1][:, :-1], 1.0, slice(None, -1), confidence) - 1

    def smallest(self, split: tuple[FloatArray, FloatArray], confidence: float) -> FloatArray:
        """The first cell such that some row certainly lies in it or before.

        Args:
            split: The noisy counts left and right of each place.
            confidence: The confidence.

        Returns:
            (groups,) cells, `cells` if none is certain.
        """
        return self.tree.cells - self._certain(split[0][:, :0:-1], 0.0, slice(None, 0, -1), confidence)

    def _certain(self, counts: FloatArray, rank: float, places: slice, confidence: float) -> FloatArray:
        """(groups,) how many counts in a row pass the bar at their place, which noise alone does at `confidence`."""
        both = 2 * open_probability(confidence=confidence) - 1  # one-sided at `confidence`
        refuted = counts > self.bars(rank, max(both, 1e-9))[places]
        return np.asarray(np.logical_and.accumulate(refuted, axis=1).sum(axis=1), dtype=float)


def _first(true: NDArray[np.bool_]) -> NDArray[np.intp]:
    """(groups,) the first true place of each row, the last place where there is none."""
    return np.asarray(np.where(true.any(axis=1), np.argmax(true, axis=1), true.shape[1] - 1))
