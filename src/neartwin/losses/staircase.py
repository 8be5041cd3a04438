"""The staircase mechanism: integer noise of steps, the least expected error of all pure-epsilon noise for one number.

At its worst shift, the whole sensitivity, the loss is epsilon, 0 or -epsilon: `curves/discrete.py` has the masses, and the proof
that smaller shifts say less. The losses of 0 make it gentler than epsilon-DP alone. Geng, Kairouz, Oh, Viswanath 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from neartwin.checks import in_floats, integer
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational
from neartwin.losses.loss import Factor, Order, Pair, Summand
from neartwin.losses.response import ResponsePair, three_losses
from neartwin.losses.rounding import U
from neartwin.tradeoff.finite import staircase_masses


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
class Staircase(Factor):
    """Staircase noise for one number.

    Errors: `ParameterError` unless epsilon is positive, sensitivity and step are whole numbers and 1 <= step <= sensitivity.
    Geng, Kairouz, Oh, Viswanath 2015.

    >>> 0.42356661499637246 in (1 * Staircase(epsilon=1, sensitivity=5, step=2)).delta(0.0).outward(100)
    True
    """

    both_ways: ClassVar[bool] = True
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

    def above(self, order: Order) -> Pair:
        """The same pair in every order; binary response where no point of the noise is silent."""
        del order
        if self.sensitivity == 2 * self.step - 1:
            return ResponsePair(self.epsilon, Fraction(0), 0)
        return StaircasePair(self.epsilon, self.sensitivity, self.step)

    def stated_pure(self) -> Fraction | None:
        """Its parameter."""
        return self.epsilon
