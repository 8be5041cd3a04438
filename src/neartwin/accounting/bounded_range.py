"""Bounded range: the privacy loss lies in an interval of length epsilon, whose place is not known.

The exponential mechanism with weights e^(epsilon u / (2 D)) has epsilon-bounded range (e^(epsilon u / D) if the scores
are monotone). It implies epsilon-DP, and much less loss on average. The worst pairs have two losses, t and t - epsilon,
for t in [0, epsilon]. Dong, Durfee, Rogers 2020; Cesar, Rogers 2021.
"""

from neartwin import domains
from neartwin.balls import Certified, Numeric, ball, elementwise
from neartwin.losses.families.bounded_range import worst_renyi


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
    return elementwise(worst_renyi, e, a, method="bounded range, worst pair", least=0)


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
