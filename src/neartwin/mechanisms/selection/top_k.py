"""The k best candidates, in order, by peeling.

Peeling runs permute-and-flip k times without replacement: k choices of epsilon/k each. Where the account composes better than by
sums, it is priced as k uses.
"""

from dataclasses import dataclass
from fractions import Fraction

from neartwin import noise
from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.exact import WholeNumbers
from neartwin.losses import Composition
from neartwin.mechanisms.selection.exponential import PermuteAndFlip


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
