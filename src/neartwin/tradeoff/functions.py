"""What a trade-off function is, and the two views of it that every curve offers.

f = T(P, Q): f(alpha) is the least type II error of a test that tells P (the null) from Q with type I error at most
alpha. A function on [0, 1] is one exactly if it is convex, continuous, non-increasing and at most 1 - alpha
(Dong, Roth, Su 2022, Prop. 2.2); f(0) < 1 is possible, by outcomes that Q alone can produce.

Its dual is delta(epsilon) = 1 + f*(-e^epsilon) = sup_alpha 1 - f(alpha) - e^epsilon alpha for every real epsilon, the
hockey-stick divergence of Q from P; and f(alpha) = sup_epsilon 1 - delta(epsilon) - e^epsilon alpha. A symmetric f
(f = its inverse) bounds both orders of a pair. Where f = T(M(S), M(S')), delta is the one with which M(S') exceeds
M(S); that of the opposite order is `inverse().delta`.
"""

from typing import Protocol

from neartwin.exact import FloatArray, Interval
from neartwin.tradeoff.twofold import Argument


class TradeOff(Protocol):
    """A trade-off function: a frozen value. Every number it gives is an interval that holds the exact one.

    symmetric: whether the curve is its own inverse, so that it speaks for both orders of a pair.
    """

    @property
    def symmetric(self) -> bool:
        """True where T(P, Q) = T(Q, P) is known by construction."""
        ...

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The least type II error at each type I error in [0, 1]; a guarantee rests on `lower`."""
        ...

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """1 - beta, the largest true positive rate at each false positive rate, accurate where it is tiny."""
        ...

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """The least delta at each real epsilon, 1 + f*(-e^epsilon); a guarantee rests on `upper`."""
        ...

    def inverse(self) -> "TradeOff":
        """T(Q, P), alpha -> inf of t with f(t) <= alpha."""
        ...
