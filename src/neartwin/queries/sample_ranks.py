"""How far the noisy score of a rank, of a sample of a table's units, can be from 0 at the table's quantile. Arithmetic only.

The score of rank p at a place is (1 - p) (values below) - p (the rest): at the start of the cell of the table's quantile it is
below 0 over the table, at its end it is not. Let A values of N be below the start, A <= p N, in at most C rows a unit. The
sample's score is no less where so many of the rest are left out that the table's is 0; then it is an error of mean 0, of at most
p N values of 1 - p and (1 - p) N of -p: with noise it is as far as `neartwin.queries.sample_tails` says. Likewise at the end.

Noise is that of the nodes that the score is a sum of: at most so many more of each kind that few mixtures are left, which makes
it no smaller. As elsewhere (`neartwin.mechanisms.ranks`) half a step of the score stands for its lattice.
"""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from neartwin.exact import FloatArray
from neartwin.mechanisms.laws import GeometricLaw
from neartwin.mechanisms.ranks import Ranks
from neartwin.queries.sample_bars import SampleBars, each_pair, units_of
from neartwin.queries.sample_sums import COUNT
from neartwin.queries.sample_tails import Draws, Noise, Sums, farthest

Reach = tuple[FloatArray, FloatArray]
_RATIO = 1.2  # of numbers of nodes
_SHARE = 0.9  # of what may fail, for noise whose bar stands alone


def table_reach(ranks: Ranks, rank: float, counted: FloatArray, bars: SampleBars, *, most: int, parts: int) -> Reach:
    """`rank_reach` where noisy numbers of the sample's values are known, (groups,) in rows; both ends fail with `bars.miss`."""
    noise = Noise(lambda confidence: float(ranks.bars(1.0, confidence)[0]) / parts)
    rows = bars.part(COUNT).number(counted, noise, most=most)
    return rank_reach(ranks, rank, rows, most=most, rate=bars.rate, miss=(1 - COUNT) * bars.miss, parts=parts)


def rank_reach(
    ranks: Ranks, rank: float, rows: FloatArray, *, most: int, rate: float, miss: float, parts: int
) -> Reach:
    """(groups, cells + 1) twice: what the score may be above 0 at the start of the quantile's cell, and below it at its end.

    Each is passed with probability at most half of `miss`. rows: (groups,) at most so many in the table, `most` a unit. parts: of
    a row, in which scores and noise are.
    """
    below, above = units_of(rank * rows / most), units_of((1 - rank) * rows / most)
    draws, kind = _mixtures(ranks, rank, parts)
    alone = np.asarray(ranks.bars(rank, 1 - _SHARE * miss))
    lattice = max(rank, 1 - rank) / 2 * min(1.0, 1 / max(ranks.law.variance, 1.0))

    def of(start: bool, low: int, high: int) -> FloatArray:  # noqa: FBT001 - which of two ends
        ends = (low, most * (1 - rank)), (high, -most * rank)
        sums: Sums = ends if start else tuple((units, -size) for units, size in ends)
        joint = np.array(farthest(draws, rate, sums, miss / 2)) * parts + lattice
        (sampled,) = farthest((Draws(),), rate, sums, (1 - _SHARE) * miss / 2)
        return np.minimum(joint[kind], alone + sampled * parts)

    return each_pair(below, above, partial(of, True)), each_pair(below, above, partial(of, False))


def _mixtures(ranks: Ranks, rank: float, parts: int) -> tuple[tuple[Draws, ...], NDArray[np.int64]]:
    """Noises in rows that those of the places are at most, and which is whose; (places,)."""
    of_below, of_rest = (_rounded_up(nodes) for nodes in ranks.tree.sizes())
    if isinstance(ranks.law, GeometricLaw):
        pairs, kind = np.unique(np.stack([of_below, of_rest]), axis=1, return_inverse=True)
        scale = float(ranks.law.scale) / parts
        sizes = (1 - rank) * scale, rank * scale
        made = [Draws(tuple((s, int(n)) for s, n in zip(sizes, pair, strict=True) if n)) for pair in pairs.T]
        return tuple(made), kind.reshape(-1)
    squares, kind = np.unique((1 - rank) ** 2 * of_below + rank**2 * of_rest, return_inverse=True)
    spreads = np.sqrt(squares * ranks.law.variance) / parts
    return tuple(Draws(((float(one), 1),), normal=True) if one else Draws() for one in spreads), kind.reshape(-1)


def _rounded_up(nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    steps = [0, 1]
    while steps[-1] < nodes.max(initial=0):
        steps.append(max(steps[-1] + 1, math.floor(steps[-1] * _RATIO)))
    return np.array(steps)[np.searchsorted(steps, nodes)]
