"""Scores of candidates as gaps to the best one: the only form in which a selection reads them.

An exact choice has probability in proportion to weight times exp(-penalty). One uniform number, drawn bit by bit, is compared
with the cumulative sum. Floats settle nearly every draw, with a margin far beyond their errors. Integer intervals settle draws
within the margin, with more bits until the choice is certain.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import Composition, Pure
from neartwin.mechanisms.adding import clipped_whole
from neartwin.noise import SYSTEM, Source
from neartwin.noise.exponentials import exp_neg

# Scores are clipped here where gaps must fit 64 bits: clipping stretches no change and turns none round.
_LARGEST = 2**61


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSelection(ABC):
    """A private arg-max of whole scores, one for each candidate.

    Attributes:
        scale: t, in units of the score.
        epsilon: The pure guarantee.
    """

    scale: Fraction
    epsilon: Fraction

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, sensitivity: int, monotone: bool) -> Self:
        """The least noise that is epsilon-DP: t = D / epsilon for monotone scores, 2D / epsilon for others.

        Args:
            epsilon: The guarantee, above 0.
            sensitivity: D, the most that one unit moves a score.
            monotone: Whether a unit never moves two scores in opposite directions. Counts under add/remove are
                monotone; under replace-one those of units above each of several limits are.
        """
        integer(at_least=1, sensitivity=sensitivity)
        factor = 1 if monotone else 2
        return cls(scale=Fraction(factor * sensitivity) / positive(epsilon=epsilon), epsilon=epsilon)

    def losses(self) -> Composition:
        """The pure guarantee as a factor for composition."""
        return Composition.of(Pure(epsilon=self.epsilon))

    @abstractmethod
    def choose(self, scores: WholeNumbers, *, source: Source = SYSTEM) -> int:
        """Choose a candidate with fresh randomness.

        Args:
            scores: (n,) whole numbers, n at least 1.
            source: The source of randomness.

        Returns:
            The index of the winner.
        """

    @abstractmethod
    def pmf(self, scores: WholeNumbers) -> FloatArray:
        """Who wins with which probability. For tests and planning: it shows the scores."""


def gaps_of(scores: WholeNumbers) -> WholeNumbers:
    """The gap best - score for each candidate: int64, or Python integers where they do not fit.

    >>> gaps_of(np.array([3, 10, 10]))
    array([7, 0, 0])
    """
    if scores.ndim != 1 or not scores.size or scores.dtype.kind not in "iuO":
        raise ParameterError("scores", f"{scores.dtype}{scores.shape}", "must be whole numbers, one for each candidate")
    values = scores.tolist()
    best = max(values)
    gaps = [best - value for value in values]
    return np.array(gaps, dtype=np.int64 if max(gaps) < 2**63 else object)


def small_gaps_of(scores: WholeNumbers) -> NDArray[np.int64]:
    """The gaps after clipping the scores to 2**61 in size, always int64.

    >>> small_gaps_of(np.array([10**30, 0], dtype=object)).tolist() == [0, 2**61]
    True
    """
    gaps_of(scores)
    clipped = clipped_whole(scores, -_LARGEST, _LARGEST)
    return np.asarray(clipped.max() - clipped)


_FLOAT_BITS = 52
_LEAST_SCALE = Fraction(1, 10**250)
_LARGEST_LOG = 2.0**16  # so that the logarithm's own rounding stays below 2**-36
_MARGIN = 2.0**-30  # relative to the sum; exp and the cumulative sum of up to 2**20 terms err by less than 2**-31


def exact_choice(
    weights: Sequence[int], penalties: NDArray[np.int64], scale: Fraction, *, source: Source, margin: float = _MARGIN
) -> int:
    """Choose an index with probability in exact proportion to weights[i] * exp(-penalties[i] / scale).

    Args:
        weights: (n,) positive whole numbers of any size.
        penalties: (n,) int64, not negative. The least is 0, so that floats do not underflow.
        scale: The scale of penalties.
        source: The source of randomness.
        margin: The distance from a boundary within which floats do not decide. Tests widen it to force the exact path.

    Returns:
        The index.

    Raises:
        ParameterError: There is nothing to choose from, or not one weight for each penalty.
    """
    if not len(weights) or len(weights) != len(penalties):
        raise ParameterError(
            "weights", len(weights), f"must be one for each of the {len(penalties)} penalties, at least one"
        )
    u = source.bits(_FLOAT_BITS)
    if len(weights) <= 1 << 20 and _LEAST_SCALE < scale < 1 / _LEAST_SCALE:
        logs = np.array([math.log(weight) for weight in weights]) - penalties / float(scale)
        ends = np.cumsum(np.exp(logs - logs.max()))
        place, room = u * 2.0**-_FLOAT_BITS * ends[-1], (margin + 2.0**-_FLOAT_BITS) * ends[-1]
        index = int(np.searchsorted(ends, place, side="right"))
        if index < len(ends) and abs(logs.max()) < _LARGEST_LOG:
            clear_below = index == 0 or place - ends[index - 1] > room
            if clear_below and (ends[index] - place > room or index == len(ends) - 1):
                return index
    return _exactly(weights, penalties, scale, u, source)


def _exactly(weights: Sequence[int], penalties: NDArray[np.int64], scale: Fraction, u: int, source: Source) -> int:
    known = _FLOAT_BITS
    while True:
        bits = known + 64
        falls = {penalty: exp_neg(penalty / scale, bits) for penalty in set(penalties.tolist())}
        lows, highs = [0], [0]
        for weight, penalty in zip(weights, penalties.tolist(), strict=True):
            low, high = falls[penalty]
            lows.append(lows[-1] + int(weight) * low)
            highs.append(highs[-1] + int(weight) * high)
        for i in range(len(weights)):
            # u / 2^known <= U < (u + 1) / 2^known, and the sum lies in [lows[-1], highs[-1]]
            if u * lows[-1] >= highs[i] << known and (u + 1) * highs[-1] <= lows[i + 1] << known:
                return i
        u, known = (u << 64) | source.bits(64), known + 64
