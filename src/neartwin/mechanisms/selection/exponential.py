"""The exponential mechanism: a candidate with probability in proportion to exp(score / t).

It is (R/t)-bounded range, where R is the most by which the *range* of score changes can grow between neighbours:
2D in general, D for monotone scores of sensitivity D. Bounded range composes better than pure epsilon (epsilon^2 / 8 zCDP);
that is its one advantage over permute-and-flip. McSherry, Talwar 2007; Dong, Durfee, Rogers 2020; Cesar, Rogers 2021.
"""

from dataclasses import dataclass
from fractions import Fraction

from neartwin import noise
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import BoundedRange, Composition
from neartwin.mechanisms.selection.noisy_max import gumbel_noise_wins
from neartwin.mechanisms.selection.scores import ScoreSelection, exact_choice, small_gaps_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialMechanism(ScoreSelection):
    """A private arg-max whose epsilon is also its bounded range, the quantity that composes.

    Attributes:
        scale: t, in units of the score.
        epsilon: The bounded range, and the pure guarantee.
    """

    @property
    def rho(self) -> Fraction:
        """Its zCDP parameter, epsilon^2 / 8. Cesar, Rogers 2021, Lemma 3.2."""
        return self.epsilon**2 / 8

    def losses(self) -> Composition:
        """Its bounded range as a factor: composes better than its epsilon alone."""
        return Composition.of(BoundedRange(epsilon=self.epsilon))

    def choose(self, scores: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> int:
        """The index of the winner. scores: (n,), whole numbers, n at least 1."""
        gaps = small_gaps_of(scores)
        return exact_choice([1] * len(gaps), gaps, self.scale, source=source)

    def pmf(self, scores: WholeNumbers) -> FloatArray:
        """Who wins with which probability, exactly but for rounding. For tests and planning: it shows the scores."""
        return gumbel_noise_wins(scores, self.scale)
