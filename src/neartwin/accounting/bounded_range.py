"""Bounded range: the privacy loss lies in an interval of length epsilon, whose place is not known.

The exponential mechanism with weights e^(epsilon u / (2 D)) has epsilon-bounded range (e^(epsilon u / D) if the scores
are monotone). It implies epsilon-DP, and much less loss on average. The worst pairs have two losses, t and t - epsilon,
for t in [0, epsilon]. Dong, Durfee, Rogers 2020; Cesar, Rogers 2021.
"""

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from neartwin import domains
from neartwin.accounting.bounds import read_epsilon
from neartwin.balls import Certified, Exact, Numeric, ball, binomial_cdf, bounds, elementwise
from neartwin.checks import integer
from neartwin.errors import ParameterError
from neartwin.exact import Interval, Number

if TYPE_CHECKING:
    from flint import arb

MOST_PLACES = 1_000


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


def bounded_range_delta(*, epsilon: Number, count: int, epsilon_total: Number) -> Certified:
    """The least delta at which *non-adaptive* epsilon-bounded-range mechanisms are (epsilon_total, .)-DP together.

    Adaptive ones are strictly worse: for those use `zcdp_of_bounded_range`. The worst place t of the range is one of
    count + 1 candidates.

    Args:
        epsilon: The range of each mechanism.
        count: The number of mechanisms.
        epsilon_total: The epsilon of all together.

    Returns:
        The delta, certified.

    Raises:
        ParameterError: There are too many mechanisms.

    Source:
        Dong, Durfee, Rogers 2020, Theorem 3.

    >>> bounded_range_delta(epsilon=1, count=2, epsilon_total=1).upper
    0.05700532...
    """
    e, total = read_epsilon(epsilon=epsilon), read_epsilon(epsilon_total=epsilon_total)
    k = integer(at_least=1, count=count)
    if k > MOST_PLACES:
        raise ParameterError(
            "count",
            count,
            f"must not exceed {MOST_PLACES}: every one has a place of its own",
            remedy="use zcdp_of_bounded_range",
        )
    method = "bounded range, optimal non-adaptive composition"
    if e == 0:
        return Interval(0.0, 0.0, method)
    places = {min(max((total + (i + 1) * e) / (k + 1), Fraction(0)), e) for i in range(k + 1)}
    values = [bounds(bounded_range_delta_at, e, k, total, place) for place in places]
    return Interval(max(0.0, *(low for low, _ in values)), max(0.0, *(high for _, high in values)), method)


def bounded_range_delta_at(epsilon: Fraction, count: int, epsilon_total: Fraction, place: Fraction) -> "arb | Exact":
    """The hockey-stick divergence of several pairs with losses t and t - epsilon, at one place t.

    Args:
        epsilon: The range of each loss.
        count: The number of pairs.
        epsilon_total: The epsilon of the divergence.
        place: t, in [0, epsilon].

    Returns:
        The divergence, enclosed.
    """
    if place in (0, epsilon):
        return 0  # one loss only, and that is 0
    # i times the smaller loss make count t - i epsilon; of P and Q, each the probability of the smaller one
    last = min(math.ceil((count * place - epsilon_total) / epsilon) - 1, count)
    width = -(-ball(epsilon)).expm1()
    P, Q = (ball(place - epsilon).exp() - (-ball(epsilon)).exp()) / width, -(-ball(place)).expm1() / width
    return binomial_cdf(count, last, P) - ball(epsilon_total).exp() * binomial_cdf(count, last, Q)
