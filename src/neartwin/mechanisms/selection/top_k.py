"""The k best candidates, in order: by peeling, or as one joint choice.

Peeling runs permute-and-flip k times without replacement: k choices of epsilon/k each. Where the account composes better than by
sums, it is priced as k uses. The joint mechanism is the exponential mechanism over all ordered k-tuples with
loss(s) = max_i (c_(i) - c_{s_i}), the worst shortfall against the true i-th best. Its sensitivity is that of one choice, so its
noise does not grow with k. Gillenwater, Joseph, Munoz, Ribero 2022.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.exact import WholeNumbers
from neartwin.losses import BoundedRange, Composition
from neartwin.mechanisms.selection.permute_and_flip import PermuteAndFlip
from neartwin.mechanisms.selection.scores import exact_choice, small_gaps_of
from neartwin.tradeoff import TradeOff, epsilon_delta


def _enough(scores: WholeNumbers, count: int) -> None:
    if scores.size < count:
        raise ParameterError("count", count, f"must be at most the number of candidates, {scores.size}")


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

    def curve(self) -> TradeOff:
        """The curve of its pure guarantee, f_{epsilon,0}, which no neighbours fall below."""
        return epsilon_delta(self.epsilon)

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
        _enough(scores, self.count)
        left = list(range(scores.size))
        return [left.pop(self.each.choose(scores[left], source=source)) for _ in range(self.count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JointTop:
    """One exponential mechanism over ordered tuples. scale: t, in units of the score; epsilon: the pure guarantee."""

    scale: Fraction
    epsilon: Fraction
    count: int

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, sensitivity: int, monotone: bool, count: int) -> "JointTop":
        """The mechanism of scale t = 2 s / epsilon, with s the sensitivity of a tuple's loss.

        s is D if scores are monotone: c_(i) and c_{s_i} each rise by 0 to D, so their difference moves by at most D.
        Otherwise each moves by up to D either way, and s is 2D. The losses of tuples are never monotone, hence the
        factor 2.

        Args:
            epsilon: The pure-DP parameter.
            sensitivity: D, the most that one unit changes a score.
            monotone: Whether one unit moves all scores in one direction.
            count: k.

        Returns:
            The mechanism.
        """
        integer(at_least=1, sensitivity=sensitivity)
        moves = sensitivity if monotone else 2 * sensitivity
        scale = Fraction(2 * moves) / positive(epsilon=epsilon)
        return cls(scale=scale, epsilon=epsilon, count=integer(at_least=1, count=count))

    def curve(self) -> TradeOff:
        """The curve of its pure guarantee, f_{epsilon,0}, which no neighbours fall below."""
        return epsilon_delta(self.epsilon)

    def losses(self) -> Composition:
        """Its bounded range as a factor for composition."""
        return Composition.of(BoundedRange(epsilon=self.epsilon))

    def choose(self, scores: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> list[int]:
        """Choose k candidates jointly.

        exp(-loss/t) is in proportion to the sum of exp(-tau/t) over all whole tau >= loss. So draw tau with weight
        N(tau) exp(-tau/t), N(tau) the number of tuples of loss at most tau, then one of those uniformly.

        Args:
            scores: (n,) whole numbers, n at least k.
            source: The source of randomness.

        Returns:
            The indices of the winners, best first.
        """
        _enough(scores, self.count)
        gaps = small_gaps_of(scores)
        order = np.argsort(gaps, kind="stable")
        ranked = gaps[order]  # ascending: the first `count` are the best
        tau = self._draw_limit(ranked, source)
        chosen: list[int] = []
        for i in range(self.count):
            within = int(np.searchsorted(ranked, ranked[i] + tau, side="right"))
            # the sets {gap <= ranked[i] + tau} are nested, so i of its places are taken
            free = [j for j in range(within) if j not in chosen]
            chosen.append(free[noise.uniform_below(len(free), source=source)])
        return [int(order[j]) for j in chosen]

    def _draw_limit(self, ranked: NDArray[np.int64], source: noise.Source) -> int:
        """tau; N is constant between the whole numbers at which some gap enters some place."""
        starts = np.unique(np.maximum(ranked[None, :] - ranked[: self.count, None], 0))
        tuples = [self._tuples(ranked, int(start)) for start in starts]
        # run [a, b): N (e^{-a/t} - e^{-b/t}) / (1 - e^{-1/t}); telescoped: N(a) - N(previous) at a, all tau >= a
        risen = [now - before for before, now in zip([0, *tuples[:-1]], tuples, strict=True)]
        ranks = [i for i, rise in enumerate(risen) if rise > 0]
        start = starts[ranks][exact_choice([risen[i] for i in ranks], starts[ranks], self.scale, source=source)]
        return int(start) + int(noise.one_sided_geometric(self.scale).draw(source=source))

    def _tuples(self, ranked: NDArray[np.int64], tau: int) -> int:
        """N(tau): the product over places i of how many are within reach, less the i places that are taken."""
        product = 1
        for i in range(self.count):
            product *= int(np.searchsorted(ranked, ranked[i] + tau, side="right")) - i
        return product
