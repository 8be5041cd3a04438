"""The geometric mechanism (discrete Laplace): integer noise of mass proportional to e^{-a|x|}, integer sensitivity D.

P is centred at 0, Q at D: the loss is a(D - 2x) for 0 <= x <= D, and +-aD beyond, so D + 1 atoms on a lattice of
step 2a. With r = e^{-a}: mass of x inside (1-r)/(1+r) r^x, of x <= 0 it is 1/(1+r), of x >= D it is r^D/(1+r).
Ghosh, Roughgarden, Sundararajan 2012.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from neartwin.checks import in_floats, integer
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational
from neartwin.losses.atoms import AtomicSum
from neartwin.losses.loss import Factor, Lattice, Order, Pair, Summand
from neartwin.losses.rounding import ELEMENTARY, U
from neartwin.losses.weighted import Weighted

MOST_ATOMS = 1 << 20


@dataclass(frozen=True, slots=True)
class GeometricPair(Pair):
    """Rate a per unit and sensitivity D; the same law in both orders."""

    rate: Fraction
    sensitivity: int

    def repeated(self, count: int) -> Summand:
        """Logarithms of the masses, each of a few elementary terms."""
        a, d = float(self.rate), self.sensitivity
        x = np.arange(d + 1, dtype=float)
        inside = math.log(-math.expm1(-a)) - math.log1p(math.exp(-a)) - a * x
        inside[0] = -math.log1p(math.exp(-a))
        inside[-1] = -a * d - math.log1p(math.exp(-a))
        error = 4 * ELEMENTARY * (1 + np.abs(inside)) + 4 * U * a * x
        losses = a * (d - 2 * x)
        weighted = Weighted(losses, inside, error, 3 * U * np.abs(losses))
        return AtomicSum(weighted, count, lattice=Lattice(self.rate * d, 2 * self.rate))


@dataclass(frozen=True, slots=True, init=False)
class Geometric(Factor):
    """The geometric mechanism at epsilon = sensitivity * rate, integer answers.

    Errors: `ParameterError` unless epsilon is positive and sensitivity a whole number, at least 1.

    >>> (100 * Geometric(epsilon="0.1", sensitivity=3)).epsilon(1e-6).method
    'lattice'
    """

    both_ways: ClassVar[bool] = True
    epsilon: Fraction
    sensitivity: int

    def __init__(self, *, epsilon: Number, sensitivity: int = 1) -> None:
        """epsilon: the pure guarantee; sensitivity: the most one unit moves the integer answer."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))
        object.__setattr__(self, "sensitivity", integer(at_least=1, sensitivity=sensitivity))
        if sensitivity > MOST_ATOMS:
            raise ParameterError(
                "sensitivity", sensitivity, f"must not exceed {MOST_ATOMS}", remedy="take a larger step of the grid"
            )

    def above(self, order: Order) -> Pair:
        """The same pair in every order."""
        del order
        return GeometricPair(self.epsilon / self.sensitivity, self.sensitivity)

    def stated_pure(self) -> Fraction | None:
        """Its parameter."""
        return self.epsilon
