"""The geometric mechanism (discrete Laplace): integer noise of mass proportional to e^{-a|x|}, integer sensitivity D.

P is centred at 0, Q at D: the loss is a(D - 2x) for 0 <= x <= D, and +-aD beyond, so D + 1 atoms on a lattice of
step 2a. With r = e^{-a}: mass of x inside (1-r)/(1+r) r^x, of x <= 0 it is 1/(1+r), of x >= D it is r^D/(1+r).
Ghosh, Roughgarden, Sundararajan 2012.

The staircase mechanism: integer noise of steps, the least expected error of all pure-epsilon noise for one number.

At its worst shift, the whole sensitivity, the loss is epsilon, 0 or -epsilon: `curves/discrete.py` has the masses, and the proof
that smaller shifts say less. The losses of 0 make it gentler than epsilon-DP alone. Geng, Kairouz, Oh, Viswanath 2015.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin.checks import in_floats, integer
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational
from neartwin.losses.composition import PureLoss
from neartwin.losses.families.randomized_response import ResponsePair, three_losses
from neartwin.losses.summands.atoms import AtomicSum, Weighted
from neartwin.losses.summands.base import Direction, Lattice, Pair, Summand
from neartwin.losses.summands.rounding import ELEMENTARY, U
from neartwin.tradeoff.finite import staircase_masses

MOST_ATOMS = 1 << 20


@dataclass(frozen=True, slots=True)
class GeometricPair(Pair):
    """Rate a per unit and sensitivity D; the same law in both directions."""

    rate: Fraction
    sensitivity: int

    def law(self) -> Weighted:
        """One use: logarithms of the masses, each of a few elementary terms."""
        a, d = float(self.rate), self.sensitivity
        x = np.arange(d + 1, dtype=float)
        inside = math.log(-math.expm1(-a)) - math.log1p(math.exp(-a)) - a * x
        inside[0] = -math.log1p(math.exp(-a))
        inside[-1] = -a * d - math.log1p(math.exp(-a))
        error = 4 * ELEMENTARY * (1 + np.abs(inside)) + 4 * U * a * x
        losses = a * (d - 2 * x)
        return Weighted(losses, inside, error, 3 * U * np.abs(losses))

    def repeated(self, count: int) -> Summand:
        """Its composition, on a lattice."""
        return AtomicSum(self.law(), count, lattice=Lattice(self.rate * self.sensitivity, 2 * self.rate))


@dataclass(frozen=True, slots=True, init=False)
class Geometric(PureLoss):
    """The geometric mechanism at epsilon = sensitivity * rate, integer answers.

    Errors: `ParameterError` unless epsilon is positive and sensitivity a whole number, at least 1.

    >>> (100 * Geometric(epsilon="0.1", sensitivity=3)).epsilon(1e-6).method
    'lattice'
    """

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

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction."""
        return GeometricPair(self.epsilon / self.sensitivity, self.sensitivity)


@dataclass(frozen=True, slots=True)
class StaircasePair(Pair):
    """Losses epsilon, 0 and -epsilon. Symmetric."""

    epsilon: Fraction
    sensitivity: int
    step: int

    def repeated(self, count: int) -> Summand:
        """The masses of `staircase_masses`, with its error."""
        masses = staircase_masses(self.epsilon, self.sensitivity, self.step)
        return three_losses(self.epsilon, masses, count, error=(64 + 4 * float(self.epsilon)) * U)


@dataclass(frozen=True, slots=True, init=False)
class Staircase(PureLoss):
    """Staircase noise for one number.

    Errors: `ParameterError` unless epsilon is positive, sensitivity and step are whole numbers and 1 <= step <= sensitivity.
    Geng, Kairouz, Oh, Viswanath 2015.

    >>> (1 * Staircase(epsilon=1, sensitivity=5, step=2)).delta(0.0).upper
    0.423566614996...
    """

    epsilon: Fraction
    sensitivity: int
    step: int

    def __init__(self, *, epsilon: Number, sensitivity: int, step: int) -> None:
        """epsilon: the pure guarantee; sensitivity: D, the most one unit moves the answer; step: r, of the upper steps."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))
        distance = in_floats(sensitivity=integer(at_least=1, sensitivity=sensitivity))
        object.__setattr__(self, "sensitivity", distance)
        object.__setattr__(self, "step", integer(at_least=1, step=step))
        if step > distance:
            raise ParameterError("step", step, f"must be at most the sensitivity, {distance}")

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction; binary response if no point of the noise is silent."""
        if self.sensitivity == 2 * self.step - 1:
            return ResponsePair(self.epsilon, Fraction(0), 0)
        return StaircasePair(self.epsilon, self.sensitivity, self.step)
