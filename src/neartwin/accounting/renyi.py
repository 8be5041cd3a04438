"""Renyi differential privacy: curves over a grid of orders, their composition, and conversion to (epsilon, delta).

A mechanism is (a, r)-RDP if the Renyi divergence of order a between neighbours is at most r, in nats. Proposition 1 of
Mironov 2017: for one order fixed in advance, r adds up under adaptive composition.

Zero-concentrated DP: Renyi divergence of order a at most rho a, for every a > 1; and what it converts to and from.

Bun and Steinke 2016. Composition adds rho, also when chosen adaptively.

Bounded range: the privacy loss lies in an interval of length epsilon, whose place is not known.

The exponential mechanism with weights e^(epsilon u / (2 D)) has epsilon-bounded range (e^(epsilon u / D) if the scores
are monotone). It implies epsilon-DP, and much less loss on average. The worst pairs have two losses, t and t - epsilon,
for t in [0, epsilon]. Dong, Durfee, Rogers 2020; Cesar, Rogers 2021.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from flint import arb

from neartwin import domains
from neartwin.balls import Certified, Exact, Numeric, ball, bounds, each, elementwise, hull, root
from neartwin.checks import finite, integer, made_of, several
from neartwin.divergences.theorems import tight_kl
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import Interval, float_above, rational
from neartwin.losses.families.bounded_range import worst_renyi

DEFAULT_ORDERS = (
    *(1 + x / 10 for x in range(1, 100)),
    *(float(x) for x in range(11, 64)),
    *(64.0 * 2 ** (x / 4) for x in range(25)),
)


@dataclass(frozen=True, slots=True, eq=False)
class RdpCurve:
    """Upper bounds on the Renyi divergence at each of a grid of orders.

    Attributes:
        orders: Increasing, all at least 1. Order 1 is the KL divergence, which converts to no epsilon.
        rdp: An interval of one value an order, whose upper end is the guarantee.
    """

    orders: tuple[float, ...]
    rdp: Certified

    def __post_init__(self) -> None:
        for order in several(orders=self.orders):
            finite(orders=order)  # type: ignore[type-var]
        made_of(Interval, "an Interval of arrays", rdp=self.rdp)
        rising = all(a < b for a, b in pairwise(self.orders))
        if not self.orders or not rising or not self.orders[0] >= 1:
            raise ParameterError("orders", self.orders, "must be increasing and all at least 1")
        if np.shape(self.rdp.upper) != (len(self.orders),):
            raise ParameterError("rdp", self.rdp, f"must hold one value an order, {len(self.orders)}")

    def times(self, count: int) -> "RdpCurve":
        """The curve of several of these, composed.

        Args:
            count: The number of uses.

        Returns:
            The curve.

        >>> from neartwin.divergences import laplace_pair
        >>> rdp_curve(laplace_pair(distance=1).renyi, orders=(2.0,)).times(3).rdp.upper
        array([1.857...])
        """
        k = integer(at_least=0, count=count)
        return RdpCurve(self.orders, combined(lambda r: k * ball(r) if k else 0, self.rdp, method=self.rdp.method))

    def epsilon(self, delta: Numeric) -> "RdpEpsilon":
        """The least epsilon over the orders, by the conversion of Canonne, Kamath and Steinke.

        Args:
            delta: In (0, 1).

        Returns:
            The epsilon, with its order.
        """
        return self._least(rdp_to_epsilon, delta)

    def epsilon_mironov(self, delta: Numeric) -> "RdpEpsilon":
        """The least epsilon over the orders, by the first and looser conversion.

        Args:
            delta: In (0, 1).

        Returns:
            The epsilon, with its order.
        """
        return self._least(rdp_to_epsilon_mironov, delta)

    def _least(self, convert: Callable[..., Certified], delta: Any) -> "RdpEpsilon":
        if np.ndim(delta) != 0:
            raise ParameterError("delta", delta, "must be one number")
        first = int(self.orders[0] == 1)  # order 1 bounds no tail
        if first == len(self.orders):
            raise PrivacyError("order 1 alone, the KL divergence, gives no epsilon; add orders above 1")
        orders, rdp = self.orders[first:], Interval(self.rdp.lower[first:], self.rdp.upper[first:])
        all_ = convert(rdp=rdp, order=np.asarray(orders), delta=delta)
        best = int(np.argmin(all_.upper))
        edge = best in (0, len(orders) - 1) and len(orders) > 1 and all_.upper[best] > 0
        value = Interval(float(np.min(all_.lower)), float(all_.upper[best]), all_.method)
        return RdpEpsilon(value, orders[best], at_edge=bool(edge))


@dataclass(frozen=True, slots=True)
class RdpEpsilon:
    """The converted epsilon, the order that gave it, and whether that order is the first or last of the grid.

    at_edge: a wider grid would probably give a smaller epsilon; the one here is valid all the same.
    """

    epsilon: Certified
    order: float
    at_edge: bool


def grid_of(orders: Sequence[float]) -> tuple[float, ...]:
    """The orders as floats, each rounded up: a Renyi divergence grows with its order. Whether they rise `RdpCurve` checks."""
    return tuple(float_above(rational(orders=order)) for order in several(orders=orders))  # type: ignore[arg-type]


def rdp_curve(renyi: Callable[[Any], Certified], *, orders: Sequence[float] = DEFAULT_ORDERS) -> RdpCurve:
    """The curve of a Renyi divergence on a grid of orders.

    Args:
        renyi: The divergence at an order, for instance `laplace_pair(distance=1).renyi`.
        orders: The grid, increasing.

    Returns:
        The curve.
    """
    grid = grid_of(orders)
    if not callable(renyi):
        raise ParameterError("renyi", renyi, "must be a function of the order")
    return RdpCurve(grid, renyi(np.asarray(grid)))


def compose_rdp(curves: Sequence[RdpCurve]) -> RdpCurve:
    """The sum at each order: Mironov 2017, Proposition 1.

    It holds for adaptively chosen mechanisms if each curve was fixed in advance and holds for every earlier output.

    Args:
        curves: Curves on one grid of orders.

    Returns:
        The curve.

    Raises:
        ParameterError: There is no curve, or grids differ.
    """
    curves = [made_of(RdpCurve, "RdpCurves", curves=curve) for curve in several(curves=curves)]
    if not curves:
        raise ParameterError("curves", (), "must hold at least one curve")
    for curve in curves:
        if curve.orders != curves[0].orders:
            raise ParameterError("curves", curve.orders, "must share one grid of orders: RDP adds up at one order only")

    def total(*parts: float) -> arb:
        return sum(map(ball, parts), ball(0))

    return RdpCurve(curves[0].orders, combined(total, *(curve.rdp for curve in curves), method="RDP composition"))


def combined(formula: Callable[..., Any], *intervals: Certified, method: str) -> Certified:
    """An increasing formula of intervals of arrays, elementwise.

    Args:
        formula: The formula, increasing in each argument.
        intervals: The intervals.
        method: The name of the method, for the result.

    Returns:
        The interval from the formula at the lower ends to the formula at the upper ends.
    """
    ends = [
        np.asarray(end, dtype=object) if np.ndim(end) else end for one in intervals for end in (one.lower, one.upper)
    ]

    def both(*point: float) -> tuple[float, float]:
        return bounds(formula, *point[0::2])[0], bounds(formula, *point[1::2])[1]

    return each(both, *ends, method=method)


def rdp_to_epsilon(*, rdp: Any, order: Numeric, delta: Numeric) -> Certified:
    """The value r + ln((a-1)/a) - (ln delta + ln a)/(a-1), at least 0: the better conversion to (epsilon, delta)-DP.

    Args:
        rdp: r, a number, an array or an interval.
        order: a > 1; infinity is allowed.
        delta: In (0, 1).

    Returns:
        The epsilon, certified.

    Source:
        Canonne, Kamath, Steinke 2020, Proposition 12 (Balle et al. 2020, Theorem 21).

    >>> rdp_to_epsilon(rdp="0.5", order=10, delta="1e-5").upper
    1.41801063...
    """

    def value(r: Exact, a: Exact, d: Exact) -> arb | Exact:
        if math.inf in (r, a):
            return r
        return ball(r) + (-1 / ball(a)).log1p() - (ball(d).log() + ball(a).log()) / (ball(a) - 1)

    return _converted(value, rdp, order, delta, method="RDP to DP, Canonne-Kamath-Steinke")


def rdp_to_epsilon_mironov(*, rdp: Any, order: Numeric, delta: Numeric) -> Certified:
    """The value r + ln(1/delta)/(a-1), never better than `rdp_to_epsilon`. Mironov 2017, Proposition 3.

    Args:
        rdp: r, a number, an array or an interval.
        order: a > 1.
        delta: In (0, 1).

    Returns:
        The epsilon, certified.

    >>> rdp_to_epsilon_mironov(rdp="0.5", order=10, delta="1e-5").upper
    1.77921394...
    """

    def value(r: Exact, a: Exact, d: Exact) -> arb | Exact:
        return r if math.inf in (r, a) else ball(r) - ball(d).log() / (ball(a) - 1)

    return _converted(value, rdp, order, delta, method="RDP to DP, Mironov Proposition 3")


def _converted(value: Callable[..., Any], rdp: Any, order: Numeric, delta: Numeric, *, method: str) -> Certified:
    def ends(low: Exact, high: Exact, a: Exact, d: Exact) -> tuple[float, float]:
        both = bounds(value, high, a, d)
        return (both[0] if low == high else bounds(value, low, a, d)[0]), both[1]

    return each(ends, *_read(rdp, order, delta), method=method, least=0)


def _read(rdp: Any, order: Numeric, delta: Numeric) -> tuple[Any, Any, Any, Any]:
    """Both ends of r, the order, delta."""
    ends = (rdp.lower, rdp.upper) if isinstance(rdp, Interval) else (rdp, rdp)
    low, high = (domains.NOT_NEGATIVE(rdp=end) for end in ends)
    return low, high, domains.ABOVE_ONE(order=order), domains.OPEN_SHARE(delta=delta)


_NOTHING = 1e-290  # a rho below which the best order is beyond the floats
_FAR = 1e140


def zcdp_to_epsilon(*, rho: Numeric, delta: Numeric) -> Certified:
    """The least of rho a + ln((a-1)/a) - (ln delta + ln a)/(a-1) over a > 1, or 0 if that is negative.

    The minimum is at (a-1)^2 rho = ln(1 / (a delta)). Canonne, Kamath, Steinke 2020, Corollary 13.

    Args:
        rho: At least 0.
        delta: In (0, 1).

    Returns:
        The epsilon, certified.

    >>> zcdp_to_epsilon(rho="0.1", delta="1e-6").upper
    2.14193892...
    """
    method = "zCDP to DP, optimal order"
    return each(
        _least_epsilon, domains.FINITE_NOT_NEGATIVE(rho=rho), domains.OPEN_SHARE(delta=delta), method=method, least=0
    )


def _least_epsilon(rho: Exact, delta: Exact) -> tuple[float, float]:
    if rho == 0:
        return 0.0, 0.0
    if rho < _NOTHING:
        return 0.0, max(0.0, bounds(lambda u: _epsilon_at(ball(u), rho, delta), _FAR)[1])

    def slope(u: float) -> arb:
        """With u = a - 1: ln(1/delta) - ln(1 + u) - rho u^2, which falls through 0 at the best order."""
        return -ball(delta).log() - ball(u).log1p() - ball(rho) * ball(u) ** 2

    top = bounds(lambda r, d: (-ball(d).log() / ball(r)).sqrt(), rho, delta)[1]
    low, high = root(slope, 0.0, top)
    # any order gives an upper bound; over a ball that holds the best one the value is a lower bound too
    upper = bounds(lambda: _epsilon_at(ball(high), rho, delta))[1]
    return min(bounds(lambda: _epsilon_at(hull(low, high), rho, delta))[0], upper), upper


def _epsilon_at(u: arb, rho: Exact, delta: Exact) -> arb:
    """The epsilon of order 1 + u."""
    return ball(rho) * (1 + u) - (1 / u).log1p() - (ball(delta).log() + u.log1p()) / u


def zcdp_to_epsilon_bun_steinke(*, rho: Numeric, delta: Numeric) -> Certified:
    """The value rho + 2 sqrt(rho ln(1/delta)), never better than `zcdp_to_epsilon`. Bun, Steinke 2016, Prop. 1.3.

    Args:
        rho: At least 0.
        delta: In (0, 1).

    Returns:
        The epsilon, certified.

    >>> zcdp_to_epsilon_bun_steinke(rho="0.1", delta="1e-6").upper
    2.45078800...
    """
    return elementwise(
        lambda r, d: ball(r) + 2 * (-ball(r) * ball(d).log()).sqrt(),
        domains.FINITE_NOT_NEGATIVE(rho=rho),
        domains.OPEN_SHARE(delta=delta),
        method="Bun-Steinke Proposition 1.3",
    )


def zcdp_of_pure(epsilon: Numeric) -> Certified:
    """The value epsilon tanh(epsilon/2): the least rho of all epsilon-DP mechanisms, attained by randomized response.

    The first bound was epsilon^2 / 2.

    Args:
        epsilon: At least 0.

    Returns:
        The rho, certified.

    Source:
        Harrison and Manurangsi 2025.

    >>> zcdp_of_pure(1).upper
    0.46211715...
    """
    e = domains.FINITE_NOT_NEGATIVE(epsilon=epsilon)
    return elementwise(tight_kl, e, method="tight zCDP of pure differential privacy")


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
