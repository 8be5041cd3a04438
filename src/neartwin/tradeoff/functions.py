"""Trade-off functions: their definition, the two views that every curve offers, and the reading and rounding of numbers.

f = T(P, Q): f(alpha) is the least type II error of a test that tells P (the null) from Q with type I error at most
alpha. A function on [0, 1] is one exactly if it is convex, continuous, non-increasing and at most 1 - alpha
(Dong, Roth, Su 2022, Prop. 2.2). f(0) < 1 is possible, by outcomes that Q alone can produce.

Its dual is delta(epsilon) = 1 + f*(-e^epsilon) = sup_alpha 1 - f(alpha) - e^epsilon alpha for every real epsilon, the
hockey-stick divergence of Q from P; and f(alpha) = sup_epsilon 1 - delta(epsilon) - e^epsilon alpha. A symmetric f
(f = its inverse) bounds both orders of a pair. Where f = T(M(S), M(S')), delta is the one with which M(S') exceeds
M(S); that of the opposite order is `inverse().delta`.

Closed forms are evaluated with balls (`neartwin.balls`) at the exact arguments. Laws on finitely many outcomes are float
arrays with a bound on the relative error of their masses.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, Self

import numpy as np

from neartwin import domains
from neartwin.balls import Formula, Numeric, elementwise, read
from neartwin.exact import FloatArray, Interval

Argument = Numeric
UNIT = 2.0**-53  # the relative error of one rounding
TINY = 5e-324


class TradeOff(Protocol):
    """A trade-off function: a frozen value. Every number it gives is an interval that holds the exact one.

    symmetric: whether the curve is its own inverse, so that it speaks for both orders of a pair.
    """

    @property
    def symmetric(self) -> bool:
        """True where T(P, Q) = T(Q, P) is known by construction."""

    def beta(self, alpha: Argument) -> Interval[FloatArray]:
        """The least type II error at each type I error. A guarantee rests on `lower`.

        Args:
            alpha: Type I errors in [0, 1], any shape.

        Returns:
            An interval of the shape of alpha.
        """

    def power(self, alpha: Argument) -> Interval[FloatArray]:
        """1 - beta, the largest true positive rate at each false positive rate, accurate where it is tiny.

        Args:
            alpha: False positive rates in [0, 1], any shape.

        Returns:
            An interval of the shape of alpha.
        """

    def delta(self, epsilon: Argument) -> Interval[FloatArray]:
        """The least delta at each real epsilon, 1 + f*(-e^epsilon). A guarantee rests on `upper`.

        Args:
            epsilon: Real numbers, any shape.

        Returns:
            An interval of the shape of epsilon.
        """

    def inverse(self) -> "TradeOff":
        """T(Q, P), alpha -> inf of t with f(t) <= alpha."""


class SymmetricCurve:
    """A curve that is its own inverse."""

    __slots__ = ()

    @property
    def symmetric(self) -> bool:
        """Yes."""
        return True

    def inverse(self) -> Self:
        """The curve itself."""
        return self


@dataclass(frozen=True, slots=True)
class DerivedCurve:
    """A curve made of another, and symmetric where that is."""

    of: TradeOff

    @property
    def symmetric(self) -> bool:
        """As the curve it is made of."""
        return self.of.symmetric


finite = domains.FINITE  # read a caller's number exactly, or an array as one of exact numbers
levels = domains.UNIT_INTERVAL  # probabilities


def as_floats(exact: Any) -> FloatArray:
    """The nearest floats of exact numbers."""
    return np.asarray(exact, dtype=np.float64)


def complement(exact: Any) -> Any:
    """1 - alpha, exactly, of a probability or an array of them."""
    return np.frompyfunc(lambda alpha: 1 - Fraction(alpha), 1, 1)(exact)


def closed_form(formula: Formula, *arguments: Any, method: str = "closed form") -> Interval[FloatArray]:
    """A probability by its formula in balls, at each place of exact arguments.

    Args:
        formula: The formula of the arguments.
        arguments: Exact numbers or arrays, which are broadcast.
        method: The name of the method, for the result.

    Returns:
        Bounds of the broadcast shape.
    """
    return elementwise(formula, *arguments, method=method, least=0.0, most=1.0)


def mapped(formula: Formula, interval: Interval[FloatArray], *arguments: Any, method: str) -> Interval[FloatArray]:
    """A probability that rises with a number in an interval: its formula at both ends, rounded outward.

    Args:
        formula: The formula of the number as a float, then of the arguments.
        interval: The interval of the number.
        arguments: Exact numbers or arrays, which are broadcast.
        method: The name of the method, for the result.

    Returns:
        Bounds of the broadcast shape.
    """
    low, high = (elementwise(formula, read(end=end), *arguments, method=method) for end in ends(interval))
    return clipped(low.lower, high.upper, method)


def certified(lower: FloatArray, upper: FloatArray, method: str) -> Interval[FloatArray]:
    """The interval of two arrays of ends; of two floats if the arguments were single numbers.

    Args:
        lower: The lower ends.
        upper: The upper ends.
        method: The name of the method, for the result.

    Returns:
        The interval.
    """
    low: Any = np.asarray(lower, dtype=np.float64)
    high: Any = np.asarray(upper, dtype=np.float64)
    if low.ndim == 0:
        low, high = float(low), float(high)
    return Interval(low, high, method)


def ends(interval: Interval[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Both ends as arrays."""
    return np.asarray(interval.lower), np.asarray(interval.upper)


def clipped(lower: FloatArray, upper: FloatArray, method: str) -> Interval[FloatArray]:
    """The interval of two arrays of ends, cut to [0, 1].

    Args:
        lower: The lower ends.
        upper: The upper ends.
        method: The name of the method, for the result.

    Returns:
        The interval.
    """
    return certified(np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0), method)
