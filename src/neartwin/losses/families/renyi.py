"""Factors known by a Renyi curve alone: zCDP and lists of RDP orders. Upper end only; the lower end is unknown (0).

Nothing but the curve is used, through the best conversion (chernoff.py). Composition adds the curves (Mironov 2017,
proposition 1); an approximate guarantee's delta composes as a probability of revealing all.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from neartwin.checks import in_floats, non_negative, several
from neartwin.errors import ParameterError
from neartwin.exact import Number, float_above, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.summands.base import Direction, Pair, RenyiCurve
from neartwin.losses.summands.rounding import U


@dataclass(frozen=True, slots=True)
class Linear(RenyiCurve):
    """D_order <= xi + rho order."""

    rho: Fraction
    xi: Fraction

    def renyi(self, order: float) -> float:
        """The line, rounded up."""
        return (float_above(self.xi) + float_above(self.rho) * order) * (1 + 4 * U)


@dataclass(frozen=True, slots=True)
class Listed(RenyiCurve):
    """D at a list of orders; between them s D_{1+s} is convex in s, beyond the last nothing is known.

    K(s) = s D_{1+s} is convex with K(0) = 0, so a chord between two known orders bounds it from above.

    Attributes:
        places: Each s, from 0 on.
        heights: K there, rounded up.
    """

    places: tuple[float, ...]
    heights: tuple[float, ...]

    @classmethod
    def of(cls, orders: Iterable[Fraction], values: Iterable[Fraction]) -> Listed:
        """The curve of divergences at orders.

        Args:
            orders: Orders above 1, rising.
            values: The divergences.
        """
        known = [(float(a - 1), float_above((a - 1) * d)) for a, d in zip(orders, values, strict=True)]
        return cls(*((0.0, *part) for part in zip(*known, strict=True)))

    def renyi(self, order: float) -> float:
        """The chord of K at s = order - 1, over s; rounded up."""
        s, j = order - 1, bisect_left(self.places, order - 1, lo=1)
        if j == len(self.places):
            return math.inf
        (left, right), (low, high) = self.places[j - 1 : j + 1], self.heights[j - 1 : j + 1]
        return (low + (high - low) * (s - left) / (right - left)) / s * (1 + 32 * U) + 32 * U * high / s


@dataclass(frozen=True, slots=True, init=False)
class ZeroConcentrated(PrivacyLoss):
    """Any (xi, rho)-zCDP mechanism: D_order <= xi + rho order for every order above 1. Bun, Steinke 2016.

    Errors: `ParameterError` unless rho is positive and xi is not negative.

    >>> eps = (1 * ZeroConcentrated(rho="0.1")).epsilon(1e-6)
    >>> eps.lower, round(eps.upper, 6)
    (0.0, 2.141939)
    """

    rho: Fraction
    xi: Fraction

    def __init__(self, *, rho: Number, xi: Number = 0) -> None:
        """rho: the slope of the Renyi curve; xi: its value at order 0."""
        object.__setattr__(self, "rho", in_floats(rho=rational(rho=rho)))
        object.__setattr__(self, "xi", non_negative(xi=rational(xi=xi)))

    def dominating_pair(self, direction: Direction) -> Pair | None:
        """No pair is known."""
        return None

    def renyi(self, direction: Direction) -> RenyiCurve:
        """The line, equal in every direction."""
        return Linear(self.rho, self.xi)

    def stated_rho(self) -> Fraction | None:
        """Its parameter, where no xi stands beside."""
        return None if self.xi else self.rho


@dataclass(frozen=True, slots=True, init=False)
class Renyi(PrivacyLoss):
    """Any mechanism with these Renyi divergences: pairs (order, divergence), orders above 1 and increasing.

    Errors: `ParameterError`. Mironov 2017.

    >>> (2 * Renyi(curve=((2, "0.1"), (8, "0.5")))).epsilon(1e-6).upper > 0
    True
    """

    orders: tuple[Fraction, ...]
    values: tuple[Fraction, ...]

    def __init__(self, *, curve: tuple[tuple[Number, Number], ...]) -> None:
        """curve: (order, upper bound on the divergence)."""
        knots: list[tuple[Any, ...]] = [several(curve=knot) for knot in several(curve=curve)]
        if any(len(knot) != 2 for knot in knots):
            raise ParameterError("curve", curve, "must list pairs (order, divergence)")
        orders = tuple(rational(order=order) for order, _ in knots)
        values = tuple(rational(divergence=value) for _, value in knots)
        rising = all(x < y for x, y in pairwise(orders))
        if not orders or orders[0] <= 1 or not rising:
            raise ParameterError("curve", curve, "must list increasing orders above 1")
        if any(value < 0 for value in values):
            raise ParameterError("curve", curve, "must list divergences that are not negative")
        object.__setattr__(self, "orders", orders)
        object.__setattr__(self, "values", values)

    def dominating_pair(self, direction: Direction) -> Pair | None:
        """No pair is known."""
        return None

    def renyi(self, direction: Direction) -> RenyiCurve:
        """The chord bound in every direction."""
        return Listed.of(self.orders, self.values)
