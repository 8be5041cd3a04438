"""The accountants that users know, on the same usage as `cost`: Renyi DP on a grid of orders, and the moments accountant.

Both forget everything about a mechanism but its Renyi curve. Both need the whole fixed before its first answer.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from neartwin.accounting.renyi import DEFAULT_ORDERS, RdpCurve, RdpEpsilon, grid_of
from neartwin.accounting.usage import AnyUsage, cost
from neartwin.errors import PrivacyError
from neartwin.exact import Interval, Number, rational

INTEGER_ORDERS = tuple(float(order) for order in range(2, 65))


def rdp_accountant(
    usage: AnyUsage, *, orders: Sequence[float] = DEFAULT_ORDERS, neighbours: str = "add_remove"
) -> RdpCurve:
    """The Renyi curve of the composition on a grid of orders, those at which it is finite. Mironov 2017.

    `rdp_epsilon` converts it and warns at the grid's edge; the curve's own methods do not.

    Args:
        usage: The mechanisms and how they meet people.
        orders: The grid, increasing.
        neighbours: "add_remove" or "replace_one".

    Returns:
        The curve.
    """
    total = cost(usage, neighbours=neighbours)
    grid = grid_of(orders)
    values = [total.renyi(order) for order in grid]
    finite = [(order, value) for order, value in zip(grid, values, strict=True) if np.isfinite(value.upper)]
    if not finite:
        raise PrivacyError(
            "no order has a finite Renyi divergence: everything may be revealed; use the numerical accountant"
        )
    lower, upper = np.array([v.lower for _, v in finite]), np.array([v.upper for _, v in finite])
    return RdpCurve(tuple(order for order, _ in finite), Interval(lower, upper, "Renyi divergences of the losses"))


def rdp_epsilon(curve: RdpCurve, delta: Number) -> RdpEpsilon:
    """The least epsilon over the grid of orders, by the better conversion. A `UserWarning` says that the best order is the
    grid's edge.

    Args:
        curve: The Renyi curve on its grid of orders.
        delta: The delta, in (0, 1).

    Returns:
        The epsilon and its order.

    >>> from neartwin.accounting.usage import repeated
    >>> from neartwin.losses import Gaussian
    >>> found = rdp_epsilon(rdp_accountant(repeated(Gaussian(mu="0.05"), 1000)), "1e-6")
    >>> bool(8.306225 < found.epsilon.upper < 8.9)
    True
    """
    return _warned(curve.epsilon(rational(delta=delta)))


def moments_accountant(usage: AnyUsage, delta: Number, *, neighbours: str = "add_remove") -> RdpEpsilon:
    """The moments accountant of Abadi et al. 2016: log moments at whole orders, and the first conversion.

    Args:
        usage: The mechanisms and how they meet people.
        delta: In (0, 1).
        neighbours: "add_remove" or "replace_one".

    Returns:
        The epsilon, with its order.
    """
    curve = rdp_accountant(usage, orders=INTEGER_ORDERS, neighbours=neighbours)
    return _warned(curve.epsilon_mironov(rational(delta=delta)))


def _warned(epsilon: RdpEpsilon) -> RdpEpsilon:
    if epsilon.at_edge:
        warnings.warn(
            f"the best order, {epsilon.order:g}, is the edge of the grid: epsilon is valid, a wider grid probably gives less",
            stacklevel=3,
        )
    return epsilon
