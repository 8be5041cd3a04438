"""The exponential mechanism: a candidate with probability in proportion to exp(score / t).

It is (R/t)-bounded range, where R is the most by which the *range* of score changes can grow between neighbours:
2D in general, D for monotone scores of sensitivity D. Bounded range composes better than pure epsilon (epsilon^2 / 8 zCDP);
that is its one advantage over permute-and-flip. McSherry, Talwar 2007; Dong, Durfee, Rogers 2020; Cesar, Rogers 2021.

Permute-and-flip: which candidate has the largest score, as report noisy max with one-sided exponential noise.

Visit the candidates in random order; accept candidate r with probability exp(-(q* - q_r) / t), where q* is the best score.
The best always accepts, so one pass suffices. With scores of sensitivity D this is epsilon-DP at t = 2D / epsilon, and at
t = D / epsilon where scores are monotone: adding a unit moves all of them one way. McKenna, Sheldon 2020, Thm 1 and
Prop 4; the same law as noisy max with exponential noise: Ding, Kifer, Steinke 2021. Its expected error is never above that
of the exponential mechanism with the same epsilon.

Peeling gives the k best candidates, in order. It runs permute-and-flip k times without replacement: k choices of epsilon/k
each. Where the account composes better than by sums, it is priced as k uses.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin import noise
from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import BoundedRange, Composition
from neartwin.mechanisms.selection.noisy_max import (
    ScoreSelection,
    exact_choice,
    exponential_noise_wins,
    gaps_of,
    gumbel_noise_wins,
    small_gaps_of,
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PermuteAndFlip(ScoreSelection):
    """A private arg-max with an expected error never above that of the exponential mechanism.

    Attributes:
        scale: t, in units of the score.
        epsilon: The exact guarantee.
    """

    def choose(self, scores: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> int:
        """The index of the winner. scores: (n,), whole numbers, n at least 1."""
        gaps = gaps_of(scores)
        order = noise.permutation(len(gaps), source=source)
        accepted = noise.bernoulli_exp(gaps[order], over=self.scale, source=source)
        return int(order[int(np.argmax(accepted))])

    def pmf(self, scores: WholeNumbers) -> FloatArray:
        """Who wins with which probability, exactly but for rounding. For tests and planning: it shows the scores."""
        return exponential_noise_wins(scores, self.scale)

    def half_width(self, confidence: float, candidates: int) -> float:
        """The largest gap of the winner's score to the best, with probability at least `confidence`.

        P(gap >= g) <= n exp(-g / t) for n candidates: a union over those that far behind, each at most exp(-g / t).

        Args:
            confidence: The confidence, in (0, 1).
            candidates: n.

        Returns:
            g, in units of the score.
        """
        n = integer(at_least=1, candidates=candidates)
        return float(self.scale) * float(np.log(n / (1 - confidence))) * (1 + 1e-12)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeeledTop:
    """`count` uses of one permute-and-flip, each on what is left. Whole price: count * each.epsilon."""

    each: PermuteAndFlip
    count: int

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, sensitivity: int, monotone: bool, count: int) -> "PeeledTop":
        """The mechanism that shares epsilon equally among k choices.

        Args:
            epsilon: The pure-DP parameter of all choices together.
            sensitivity: D, the most that one unit changes a score.
            monotone: Whether one unit moves all scores in one direction.
            count: k.

        Returns:
            The mechanism.
        """
        share = positive(epsilon=epsilon) / integer(at_least=1, count=count)
        return cls(
            each=PermuteAndFlip.calibrated(epsilon=share, sensitivity=sensitivity, monotone=monotone), count=count
        )

    @property
    def epsilon(self) -> Fraction:
        """The pure guarantee of all choices together."""
        return self.count * self.each.epsilon

    def losses(self) -> Composition:
        """`count` choices, one by one."""
        return self.count * self.each.losses()

    def choose(self, scores: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> list[int]:
        """Choose k candidates one after the other.

        Args:
            scores: (n,) whole numbers, n at least k.
            source: The source of randomness.

        Returns:
            The indices of the winners, best first.
        """
        if scores.size < self.count:
            raise ParameterError("count", self.count, f"must be at most the number of candidates, {scores.size}")
        left = list(range(scores.size))
        return [left.pop(self.each.choose(scores[left], source=source)) for _ in range(self.count)]
