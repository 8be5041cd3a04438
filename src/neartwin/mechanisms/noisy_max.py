"""Report noisy max on integers, with the gap to the runner-up for free.

Every integer score gets geometric noise of scale t; the largest noisy score wins, ties going to the first. With scores
of sensitivity D it is epsilon-DP at t = 2D / epsilon, and at t = D / epsilon where scores are monotone. So is the pair
(winner, its noisy lead over the runner-up). Proof by alignment: keep all other noise and shift the winner's by the change
that keeps its lead, at most 2D (monotone: at most D) steps of the lattice. Dwork, Roth 2014, Claim 3.9; Ding, Wang, Xiao,
Zhang, Kifer 2019.

Ties need care on a lattice. Think of candidate i as standing i infinitesimals lower; then no two are equal, and the lead
that is released is the real one rounded down: one less than the difference where the runner-up comes first in the list.
Rounding down commutes with whole shifts and keeps order, so the winner's noise still moves by at most 2D. The plain
difference would not be private: with many candidates before the winner, a lead of 0 has a loss near 2 epsilon.

The winner's own noisy *score* is not free: with m scores that all move by 1 and noise of scale 1/epsilon, the pair
(winner, noisy score) has a loss of m epsilon. `reused_value_loss` is that number; a score must be asked for with fresh
noise. One-sided noise is permute-and-flip (`choice.py`), whose gap is not released: the alignment above needs noise
without an edge.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from neartwin import noise
from neartwin.checks import integer, positive
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import Composed, Pure
from neartwin.mechanisms.scores import gaps_of
from neartwin.mechanisms.winners import geometric_noise_wins
from neartwin.tradeoff import TradeOff, epsilon_delta


class Lead(NamedTuple):
    """The winner and its noisy lead over the runner-up, in units of the score, rounded down as above; at least 0."""

    winner: int
    gap: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMax:
    """A private arg-max with its lead. scale: t, in units of the score. epsilon: the exact guarantee of both together."""

    scale: Fraction
    epsilon: Fraction

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, sensitivity: int, monotone: bool) -> "NoisyMax":
        """The least noise that is epsilon-DP. monotone: adding a unit never moves two scores in opposite directions."""
        integer(at_least=1, sensitivity=sensitivity)
        factor = 1 if monotone else 2
        return cls(scale=Fraction(factor * sensitivity) / positive(epsilon=epsilon), epsilon=epsilon)

    def curve(self) -> TradeOff:
        """The curve of its pure guarantee, f_{epsilon,0}, which no neighbours fall below."""
        return epsilon_delta(self.epsilon)

    def losses(self) -> Composed:
        """Its pure guarantee as a factor for composition."""
        return Composed.of(Pure(epsilon=self.epsilon))

    def choose(self, scores: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> int:
        """The index of the winner. scores: (n,), whole numbers, n at least 1."""
        return self._ranked(scores, 1, source)[0][0]

    def choose_with_lead(self, scores: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> Lead:
        """The winner and its lead, for the price of the winner. scores: (n,), whole numbers, n at least 2.

        The lead of a true best estimates the true gap, biased upward by the choice of the largest.
        """
        integer(at_least=2, candidates=scores.size)
        (winner, first), (runner_up, second) = self._ranked(scores, 2, source)
        return Lead(winner, first - second - (runner_up < winner))

    def _ranked(self, scores: WholeNumbers, count: int, source: noise.Source) -> list[tuple[int, int]]:
        noisy = -gaps_of(scores).astype(object) + noise.geometric(self.scale).draw(scores.shape, source=source)
        order = sorted(range(noisy.size), key=lambda i: (-noisy[i], i))
        return [(i, int(noisy[i])) for i in order[:count]]

    def pmf(self, scores: WholeNumbers) -> FloatArray:
        """Who wins with which probability. For tests and planning: it shows the scores."""
        return geometric_noise_wins(scores, self.scale)


def reused_value_loss(*, epsilon: Fraction, candidates: int) -> Fraction:
    """The pure loss of releasing the winner together with the noisy score that made it win, at noise scale 1/epsilon.

    All m scores move by 1. Given winner and value v, the density is p(v - c_r) times prod P(noise <= v - c_j), and as
    v falls each of the m factors changes by exp(epsilon): the loss is m epsilon, not epsilon.

    >>> reused_value_loss(epsilon=Fraction(2, 5), candidates=5)
    Fraction(2, 1)
    """
    return integer(at_least=1, candidates=candidates) * positive(epsilon=epsilon)
