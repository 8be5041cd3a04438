"""The accountants that users know, on the same usage as `cost`: Renyi DP on a grid of orders, and so the moments accountant.

Both forget everything about a mechanism but its Renyi curve. Both need the whole fixed before its first answer.
"""

from collections.abc import Sequence

import numpy as np

from neartwin.accounting.renyi import DEFAULT_ORDERS, RdpCurve, grid_of
from neartwin.accounting.usage import AnyUsage, cost
from neartwin.errors import PrivacyError
from neartwin.exact import Interval


def rdp_accountant(
    usage: AnyUsage, *, orders: Sequence[float] = DEFAULT_ORDERS, neighbours: str = "add_remove"
) -> RdpCurve:
    """The Renyi curve of the composition on a grid of orders, those at which it is finite. Mironov 2017.

    Its `epsilon` converts it by the better conversion and says whether the best order is at the grid's edge. The moments
    accountant is whole orders and `epsilon_mironov`.

    Args:
        usage: The mechanisms and how they meet people.
        orders: The grid, increasing.
        neighbours: "add_remove" or "replace_one".

    Returns:
        The curve.

    >>> from neartwin.accounting.usage import repeated
    >>> from neartwin.losses import Gaussian
    >>> found = rdp_accountant(repeated(Gaussian(mu="0.05"), 1000)).epsilon("1e-6")
    >>> found.at_edge
    False
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
