"""Quantiles of bounded whole numbers by the exponential mechanism, one or several at once.

Every grid point v in [low, high] is a candidate. With L values below v, G above it, n in all and the wanted rank q = a/b, its
loss is max(0, b L - a n, b G - (b - a) n). That is b times the number of values on the wrong side, 0 at every true quantile. One
row added or removed moves a loss by at most max(a, b - a), one replaced by at most b. All points between two neighbouring
data values share a loss. So the choice is over at most 2n + 1 runs of points, weighted by their number. Smith 2011.

Several quantiles: find the middle one, split the rows at it, go on in both halves (Kaplan, Schnapp, Stemmer 2022). A row lies in
one part of each level, so a level costs as much as one quantile, and m quantiles take log2(m) + 1 levels.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, WholeNumbers, rational
from neartwin.losses import Composition, Pure
from neartwin.mechanisms.additive import clipped_whole
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.selection.noisy_max import exact_choice

_LARGEST = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """Grid points with one loss: the first of each run, how many, and their common loss."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    losses: NDArray[np.int64]


def _runs(values: WholeNumbers, low: int, high: int, rank: Fraction) -> _Runs:
    """The runs of [low, high], in order. Values are clipped into it."""
    rows = np.sort(clipped_whole(values, low, high))
    points = np.unique(rows)
    starts = np.concatenate([[low], points, points + 1]).astype(np.int64)
    starts = np.unique(starts[starts <= high])
    lengths = np.diff(np.concatenate([starts, [high + 1]]))
    below = np.searchsorted(rows, starts, side="left")
    above = rows.size - np.searchsorted(rows, starts, side="right")
    a, b = rank.numerator, rank.denominator
    losses = np.maximum(0, np.maximum(b * below - a * rows.size, b * above - (b - a) * rows.size))
    return _Runs(starts=starts, lengths=lengths.astype(np.int64), losses=losses.astype(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Private quantiles. ranks: increasing, each in [0, 1]; low, high: public bounds, whole numbers, ends included.

    epsilon: the exact pure guarantee of all together, for units with at most rows_per_unit rows.
    """

    epsilon: Fraction
    ranks: tuple[Fraction, ...]
    low: int
    high: int
    neighbours: Neighbours
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        integer(at_least=1, rows_per_unit=self.rows_per_unit)
        if not -_LARGEST <= self.low <= self.high <= _LARGEST:
            raise ParameterError("low", self.low, f"must not exceed high={self.high}, both within 2**53 steps")
        rising = all(a < b for a, b in zip(self.ranks[:-1], self.ranks[1:], strict=True))
        if not self.ranks or not rising or not 0 <= self.ranks[0] <= self.ranks[-1] <= 1:
            raise ParameterError("ranks", self.ranks, "must increase within [0, 1], at least one")
        if any(rank.denominator > 2**20 for rank in self.ranks):
            raise ParameterError("ranks", self.ranks, "must have denominators of at most 2**20")

    @classmethod
    def at(
        cls, *ranks: Number, epsilon: Fraction, low: int, high: int, neighbours: Neighbours, rows_per_unit: int = 1
    ) -> "Quantiles":
        """The mechanism for ranks as a caller writes them.

        Args:
            ranks: The ranks, in (0, 1), such as "1/2".
            epsilon: The pure-DP parameter of all quantiles together.
            low: The lower bound of the values.
            high: The upper bound of the values.
            neighbours: The neighbour relation.
            rows_per_unit: The most rows of one unit.

        Returns:
            The mechanism.

        >>> Quantiles.at("1/2", epsilon=Fraction(1), low=0, high=9, neighbours=Neighbours.ADD_REMOVE).levels
        1
        """
        exact = tuple(rational(rank=rank) for rank in ranks)
        return cls(epsilon=epsilon, ranks=exact, low=low, high=high, neighbours=neighbours, rows_per_unit=rows_per_unit)

    @property
    def levels(self) -> int:
        """How often a row is used."""
        return len(self.ranks).bit_length()

    def scale(self, rank: Fraction) -> Fraction:
        """The exponential mechanism's scale for one rank, in units of its loss.

        Alone and under replace-one: 2 b C / share. With further levels a replaced row leaves one part and enters another: two
        moves of max(a, b - a) each, which is never less than one of b.
        """
        a, b = rank.numerator, rank.denominator
        share = self.epsilon / self.levels
        one_row = max(a, b - a)
        replaced = b if self.levels == 1 else 2 * one_row
        moves = one_row if self.neighbours is Neighbours.ADD_REMOVE else replaced
        return 2 * self.rows_per_unit * moves / share

    def losses(self) -> Composition:
        """Its pure guarantee as a factor for composition."""
        return Composition.of(Pure(epsilon=self.epsilon))

    def choose(self, values: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> list[int]:
        """One private value for each rank, in ascending order.

        Args:
            values: (n,) whole numbers, n may be 0.
            source: The source of randomness.

        Returns:
            The values.
        """
        return self._split(values, self.ranks, (self.low, self.high), source)

    def _split(
        self, values: WholeNumbers, ranks: tuple[Fraction, ...], ends: tuple[int, int], source: noise.Source
    ) -> list[int]:
        if not ranks:
            return []
        middle = len(ranks) // 2
        rank, (low, high) = ranks[middle], ends
        runs = _runs(values, low, high, rank)
        losses = runs.losses - runs.losses.min()
        run = exact_choice(runs.lengths.tolist(), losses, self.scale(rank), source=source)
        value = int(runs.starts[run]) + int(noise.uniform_below(int(runs.lengths[run]), source=source))
        clipped = clipped_whole(values, low, high)
        left = tuple(_near(each / rank) for each in ranks[:middle])
        right = tuple(_near((each - rank) / (1 - rank)) for each in ranks[middle + 1 :])
        return [
            *self._split(clipped[clipped <= value], left, (low, value), source),
            value,
            *self._split(clipped[clipped > value], right, (value, high), source),
        ]

    def pmf(self, values: WholeNumbers) -> FloatArray:
        """(high - low + 1,) chances of every grid point, for a single rank and small ranges: what is drawn, in floats."""
        integer(at_least=1, ranks=2 - len(self.ranks))
        runs = _runs(values, self.low, self.high, self.ranks[0])
        weight = np.exp(-(runs.losses - runs.losses.min()) / float(self.scale(self.ranks[0])))
        chances = np.repeat(weight, runs.lengths)
        return np.asarray(chances / chances.sum())


def _near(rank: Fraction) -> Fraction:
    """A rank within a part; denominators kept small, since they only say what is looked for, not what is paid."""
    return min(max(rank.limit_denominator(2**20), Fraction(1, 2**20)), 1 - Fraction(1, 2**20))
