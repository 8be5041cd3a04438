"""The pair of laws an attacker must tell apart, and what can be asked of it.

P is the law of the answer on a data set, Q on its neighbour; L = ln dP/dQ is the privacy loss. Every answer is an
`Interval` that contains the exact value, rounded outward: floats for scalar arguments, arrays for array arguments.
"""

from typing import Protocol, runtime_checkable

from neartwin.divergences.enclosure import Certified, Enclosure, Numeric, enclose
from neartwin.errors import ParameterError


@runtime_checkable
class Pair(Protocol):
    """Two laws on one space. The divergences are those of P from Q; `reversed` gives those of Q from P."""

    def kl(self) -> Certified:
        """KL divergence E_P[L], in nats; infinite where P charges what Q does not. Dwork and Roth 2014, Def. 3.5."""
        ...

    def max_divergence(self) -> Certified:
        """The essential supremum of L under P. Def. 3.6; a supremum, not a maximum, for densities."""
        ...

    def approximate_max_divergence(self, delta: Numeric) -> Certified:
        """inf{e real : H_{e^e}(P||Q) <= delta}, Def. 3.6 with its supremum over P(S) > delta.

        delta: at least 0. May be negative, at least ln(1 - delta); minus infinity for delta >= 1. Never clamped.
        """
        ...

    def total_variation(self) -> Certified:
        """sup_S |P(S) - Q(S)|, the hockey-stick divergence at epsilon 0."""
        ...

    def hockey_stick(self, epsilon: Numeric) -> Certified:
        """sup_S P(S) - e^epsilon Q(S), for every real epsilon and both infinities. Decreasing in epsilon."""
        ...

    def renyi(self, order: Numeric) -> Certified:
        """Renyi divergence of any order > 0: KL at 1, the max divergence at infinity. Increasing in the order."""
        ...

    def reversed(self) -> "Pair":
        """The same pair with P and Q exchanged."""
        ...


def read_order(order: Numeric) -> Enclosure:
    """Renyi orders: above 0, infinity included."""
    read = enclose(order=order)
    if not (read.lower > 0).all():
        raise ParameterError("order", order, "must be above 0", remedy="order 1 is KL, order inf is max divergence")
    return read


def read_delta(delta: Numeric) -> Enclosure:
    """Deltas: at least 0; those of 1 and more are taken, for they have an answer."""
    read = enclose(delta=delta)
    if not (read.lower >= 0).all():
        raise ParameterError("delta", delta, "must not be negative")
    return read
