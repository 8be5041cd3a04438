"""Basic composition and group privacy, in every currency.

Basic composition holds for adaptively chosen mechanisms whose parameters are fixed in advance; as a filter also for
parameters chosen on the way (sums only).
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from neartwin.accounting.bound import Bound, exactly, read_all, read_delta, read_epsilon
from neartwin.accounting.rdp import RdpCurve, combined
from neartwin.balls import ball, elementwise
from neartwin.checks import integer, made_of
from neartwin.errors import ParameterError
from neartwin.exact import Interval, Number


def basic_composition(*, epsilons: Sequence[Number], deltas: Sequence[Number] = ()) -> Bound:
    """(sum of epsilon, sum of delta): Dwork and Roth 2014, Theorem 3.16. Exact sums; no deltas means all 0.

    >>> basic_composition(epsilons=["0.1", "0.25", "0.65"]).epsilon.upper
    1.0
    """
    eps = read_all(epsilons, read_epsilon, "epsilons")
    dels = read_all(deltas, read_delta, "deltas") or (Fraction(0),) * len(eps)
    if len(dels) != len(eps):
        raise ParameterError("deltas", deltas, f"must be as many as epsilons, {len(eps)}")
    return Bound(
        exactly(sum(eps, Fraction(0))), exactly(sum(dels, Fraction(0))), "basic composition, Dwork-Roth Theorem 3.16"
    )


def each_share(*, epsilon_total: Number, count: int) -> Fraction:
    """The epsilon each of count mechanisms may spend under basic composition: total / count, exact.

    >>> each_share(epsilon_total=1, count=50)
    Fraction(1, 50)
    """
    return read_epsilon(epsilon_total=epsilon_total) / integer(at_least=1, count=count)


def group_privacy(*, epsilon: Number, size: int) -> Fraction:
    """The value k epsilon: what epsilon-DP gives a group of k people. Dwork and Roth 2014, Theorem 2.2."""
    return read_epsilon(epsilon=epsilon) * integer(at_least=1, size=size)


def group_approximate(*, epsilon: Number, delta: Number, size: int) -> Bound:
    """(k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)): what (epsilon, delta)-DP gives a group of k people.

    Vadhan 2017, Lemma 2.2, summed exactly. The delta is not clamped: above 1 it promises nothing.

    >>> group_approximate(epsilon="0.5", delta="1e-6", size=3).delta.upper
    5.36700309...e-06
    """
    e, d = read_epsilon(epsilon=epsilon), read_delta(delta=delta)
    k = integer(at_least=1, size=size)
    if e == 0:
        return Bound(exactly(e), exactly(d * k), "group privacy")
    if d == 0:
        return Bound(exactly(e * k), exactly(d), "group privacy")
    value = elementwise(lambda: ball(d) * ball(e * k).expm1() / ball(e).expm1(), method="group privacy")
    return Bound(exactly(e * k), value, "group privacy")


def group_zcdp(*, rho: Number, size: int) -> Fraction:
    """k^2 rho: what rho-zCDP gives a group of k people. Bun and Steinke 2016, Proposition 1.9.

    >>> group_zcdp(rho="0.02", size=3)
    Fraction(9, 50)
    """
    return read_epsilon(rho=rho) * integer(at_least=1, size=size) ** 2


MOST_DOUBLINGS = 300


def group_rdp(curve: RdpCurve, *, doublings: int) -> RdpCurve:
    """(order / 2^c, 3^c epsilon) for a group of 2^c people, at the orders of at least 2^(c+1).

    Mironov 2017, Proposition 2. doublings: c.
    """
    c, curve = integer(at_least=0, doublings=doublings), made_of(RdpCurve, "an RdpCurve", curve=curve)
    if c > MOST_DOUBLINGS:
        raise ParameterError(
            "doublings", doublings, f"must not exceed {MOST_DOUBLINGS}: no order of a grid is so large"
        )
    keep = np.asarray(curve.orders) >= 2.0 ** (c + 1)
    if c == 0:
        return curve
    if not np.any(keep):
        raise ParameterError("curve", curve.orders, f"must hold an order of at least {2 ** (c + 1)}")
    orders = tuple(order / 2**c for order, held in zip(curve.orders, keep, strict=True) if held)
    kept = Interval(curve.rdp.lower[keep], curve.rdp.upper[keep])
    return RdpCurve(orders, combined(lambda r: 3**c * ball(r), kept, method="Mironov Proposition 2"))
