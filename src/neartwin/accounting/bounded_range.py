"""Bounded range: the privacy loss lies in an interval of length epsilon, whose place is not known.

The exponential mechanism with weights e^(epsilon u / (2 D)) has epsilon-bounded range (e^(epsilon u / D) if the scores
are monotone). It implies epsilon-DP, and much less loss on average. The worst pairs have two losses, t and t - epsilon,
for t in [0, epsilon]. Dong, Durfee, Rogers 2020; Cesar, Rogers 2021.
"""

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from neartwin import domains
from neartwin.balls import Certified, Exact, Numeric, ball, elementwise

if TYPE_CHECKING:
    from flint import arb


def bounded_range_rdp(*, epsilon: Numeric, order: Numeric) -> Certified:
    """The largest Renyi divergence of any epsilon-bounded-range pair, at orders of at least 1.

    With s(x) = ln(sinh(x)/x) it is [a s(a e/2) - (a-1) s((a-1) e/2) - s(e/2)] / (a-1), the maximum over t in closed
    form. At order 1 it is e/(e^e - 1) - 1 - ln(e/(e^e - 1)). It increases in the order, up to epsilon.

    Args:
        epsilon: The range.
        order: At least 1.

    Returns:
        The divergence, certified.

    >>> bounded_range_rdp(epsilon=1, order=1).upper
    0.12330156...
    """
    e, a = domains.FINITE_NOT_NEGATIVE(epsilon=epsilon), domains.AT_LEAST_ONE(order=order)
    return elementwise(_renyi, e, a, method="bounded range, worst pair", least=0)


def _renyi(epsilon: Exact, order: Exact) -> "arb | Exact":
    if epsilon == 0 or order == math.inf:
        return epsilon
    e = ball(epsilon)
    if order == 1:
        # m - 1 - ln m with m = e / (e^e - 1), of which e^-e is taken out of the logarithm
        return e / e.expm1() - 1 - (e / -(-e).expm1()).log() + e
    a = Fraction(order)
    # s(x) = x + g(2x) with g(y) = ln((1 - e^-y) / y), and the linear parts add up to (a - 1) e
    whole, most = ball(a) * _g(ball(a * Fraction(epsilon))), ball(a - 1) * _g(ball((a - 1) * Fraction(epsilon)))
    return e + (whole - most - _g(e)) / ball(a - 1)


def _g(y: "arb") -> "arb":
    return (-(-y).expm1() / y).log()


def zcdp_of_bounded_range(epsilon: Numeric) -> Certified:
    """epsilon^2 / 8. Cesar and Rogers 2021, Lemma 3.2.

    Args:
        epsilon: The range.

    Returns:
        The rho, certified.

    >>> zcdp_of_bounded_range(1).upper
    0.125
    """
    return elementwise(
        lambda e: ball(e) ** 2 / 8, domains.FINITE_NOT_NEGATIVE(epsilon=epsilon), method="zCDP of bounded range"
    )
