"""How far the noisy score of a rank, of a sample of a table's units, can be from 0 at the table's quantile. Arithmetic only.

The score of rank p at a place is (1 - p) (values below) - p (the rest): at the start of the cell of the table's quantile it is
below 0 over the table, at its end it is not. Let A values of N be below the start, A <= p N, in at most C rows a unit. The
sample's score is no less where so many of the rest are left out that the table's is 0; then it is an error of mean 0, of at most
p N values of 1 - p and (1 - p) N of -p: with noise it is as far as `neartwin.queries.sample_tails` says. Likewise at the end.

Noise is that of the nodes that the score is made from, of places with about the same variance taken together as what is no
smaller than any of theirs. As elsewhere (`neartwin.mechanisms.ranks`) half a step of the score stands for its lattice.
"""

import math
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neartwin.exact import FloatArray
from neartwin.mechanisms.count_trees import moments
from neartwin.mechanisms.laws import GeometricLaw
from neartwin.mechanisms.ranks import Ranks, Reach
from neartwin.queries.sample_bars import SampleBars, each_pair, units_of
from neartwin.queries.sample_noise import Noise
from neartwin.queries.sample_sums import COUNT
from neartwin.queries.sample_tails import Draws, Sums, farthest

Ends = tuple[FloatArray, FloatArray]
_RATIO, _FINE = 1.05, 1.03  # of variances of places that are taken together, and of weights of nodes
_NOTHING, _LEAST = 1e-12, 1e-3  # of variances and weights
_SHARE = 0.9  # of what may fail, for noise whose bar stands alone


def table_reach(ranks: Ranks, rank: float, counted: FloatArray, bars: SampleBars, *, most: int, parts: int) -> Reach:
    """`rank_reach` where noisy numbers of the sample's values are known, (groups,) in rows; all ends fail with `bars.miss`."""
    noise = Noise(lambda confidence: float(ranks.bars(1.0, confidence)[0]) / parts)
    rows, left = bars.part(COUNT).number(counted, noise, most=most), (1 - COUNT) * bars.miss

    def reach(share: float, width: int) -> Ends:
        score = Score(ranks, rank, parts, width)
        return rank_reach(score, rows, most=most, rate=bars.rate, miss=share * left)

    return reach


class Score(NamedTuple):
    """Which score is looked at: of a rank, in parts of a row, at the ends of nodes of a width."""

    ranks: Ranks
    rank: float
    parts: int
    width: int = 1


def rank_reach(score: Score, rows: FloatArray, *, most: int, rate: float, miss: float) -> Ends:
    """(groups, cells + 1) twice: what the score may be above 0 at the start of the quantile's cell, and below it at its end.

    Each is passed with probability at most half of `miss`; infinite where the score is not looked at. rows: (groups,) at most so
    many in the table, `most` a unit.
    """
    ranks, rank, parts, _ = score
    below, above = units_of(rank * rows / most), units_of((1 - rank) * rows / most)
    draws, kind, ends = _mixtures(score)
    alone = ranks.bars(rank, 1 - _SHARE * miss, score.width)[ends]

    def of(start: bool, low: int, high: int) -> FloatArray:  # noqa: FBT001 - which of two ends
        sides = (low, most * (1 - rank)), (high, -most * rank)
        sums: Sums = sides if start else tuple((units, -size) for units, size in sides)
        joint = np.array(farthest(draws, rate, sums, miss / 2)) * parts + ranks.half_step(rank)
        (sampled,) = farthest((Draws(),), rate, sums, (1 - _SHARE) * miss / 2)
        found = np.full(ranks.tree.cells + 1, np.inf)
        found[ends] = np.minimum(joint[kind], alone + sampled * parts)
        return found

    return each_pair(below, above, partial(of, True)), each_pair(below, above, partial(of, False))


@lru_cache(maxsize=256)
def _mixtures(score: Score) -> tuple[tuple[Draws, ...], NDArray[np.int64], NDArray[np.int64]]:
    """Noises in rows that those at some ends are at most, which is whose, and the ends; both (ends,)."""
    ranks, rank, parts, width = score
    cells = ranks.tree.cells
    ends = np.minimum(np.arange(0, cells + width, width), cells)
    squares = moments(ranks.tree, rank)[0][ends]
    steps = np.ceil(np.log(np.maximum(squares, _NOTHING)) / math.log(_RATIO) - 1e-9).astype(np.int64)
    kinds, kind = np.unique(np.where(squares < _NOTHING, steps.min() - 1, steps), return_inverse=True)
    if isinstance(ranks.law, GeometricLaw):
        scale = float(ranks.law.scale) / parts
        made = [_at_most(ranks, rank, ends[kind == one], scale) for one in range(len(kinds))]
        return tuple(made), kind, ends
    found = [squares[kind == one].max() for one in range(len(kinds))]
    spreads = [math.sqrt(float(one) * ranks.variance) / parts for one in found]
    return tuple(Draws(((one, 1),), normal=True) if one else Draws() for one in spreads), kind, ends


def _at_most(ranks: Ranks, rank: float, places: NDArray[np.int64], scale: float) -> Draws:
    """Laplace draws that those of each place are at most in convex order: as many as large, for every size.

    One by one in order of size each is no smaller than any place's, and a sum grows with each of its sizes.
    """
    weights, numbers = ranks.tree.weights(rank, places)
    steps = np.ceil(np.log(np.maximum(np.abs(weights), _LEAST)) / math.log(_FINE) - 1e-9).astype(np.int64)
    steps, numbers = np.where(numbers > 0, steps, steps.min()), np.where(np.abs(weights) > 0, numbers, 0.0)
    sizes = np.arange(steps.max(), steps.min() - 1, -1)
    many = np.zeros((len(places), len(sizes)))
    np.add.at(many, (np.arange(len(places))[:, None], steps.max() - steps), numbers)
    as_large = np.cumsum(many, axis=1).max(axis=0)
    each = np.diff(as_large, prepend=0.0)
    return Draws(tuple((scale * _FINE ** int(size), int(n)) for size, n in zip(sizes, each, strict=True) if n))
