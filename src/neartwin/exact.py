"""Exact parameters in, certified intervals out.

A number that decides privacy is a `Fraction`. A number that a reader relies on is an `Interval`, whose ends are rounded
outward. Neither is ever a bare float.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from numbers import Rational
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from neartwin.errors import ParameterError

FloatArray = NDArray[np.float64]
WholeNumbers = NDArray[Any]  # int64, or Python integers where 64 bits may not hold
End = TypeVar("End", float, FloatArray)
T_co = TypeVar("T_co", covariant=True)
Number = int | float | str | Fraction | Decimal
SHORT = 40  # letters of a number whose value is remembered


def rational(**named: Number) -> Fraction:
    """The exact value of a caller's number. A float stands for the decimal that it prints as.

    `0.1` means one tenth, not the nearest binary fraction. So ten spends of 0.1 fill a budget of 1 to the last digit.

    Args:
        named: One number by its name.

    Raises:
        ParameterError: The value is no finite number.

    >>> rational(epsilon=0.1), rational(delta="1e-6"), rational(share="1/3")
    (Fraction(1, 10), Fraction(1, 1000000), Fraction(1, 3))
    """
    ((name, value),) = named.items()
    try:
        if type(value) is str:  # the usual case, without a walk through the numeric tower
            return _written(value) if len(value) <= SHORT else Fraction(value)
        if isinstance(value, bool) or getattr(value, "ndim", False):  # NumPy < 2.4 makes floats of arrays of one
            raise TypeError  # noqa: TRY301 - one handler words every refusal
        if isinstance(value, Rational):
            return Fraction(int(value.numerator), int(value.denominator))  # of NumPy they would wrap
        if isinstance(value, str | Decimal):
            return Fraction(value)
        return Fraction(Decimal(float.__repr__(float(value))))
    except (ValueError, TypeError, ZeroDivisionError, OverflowError, InvalidOperation):
        raise ParameterError(name, value, "must be a finite number", remedy='for instance 0.5 or "1/3"') from None


@lru_cache(maxsize=1024)
def _written(text: str) -> Fraction:
    """The value of a short text. It is cached, because the same texts recur."""
    return Fraction(text)


def float_below(value: Fraction) -> float:
    """The largest float that is not above the value (rounding toward minus infinity).

    >>> Fraction(float_below(Fraction(1, 10))) <= Fraction(1, 10) < Fraction(float_above(Fraction(1, 10)))
    True
    """
    return floats_around(value)[0]


def float_above(value: Fraction) -> float:
    """The smallest float that is not below the value (rounding toward plus infinity)."""
    return floats_around(value)[1]


def floats_around(value: Fraction) -> tuple[float, float]:
    """The pair (float_below(value), float_above(value))."""
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
        return (math.nextafter(nearest, 0), nearest) if value > 0 else (nearest, math.nextafter(nearest, 0))
    top, bottom = nearest.as_integer_ratio()
    off = top * value.denominator - value.numerator * bottom
    below = math.nextafter(nearest, -math.inf) if off > 0 else nearest
    return below, math.nextafter(nearest, math.inf) if off < 0 else nearest


def root_above(value: Fraction, bits: int = 64) -> Fraction:
    """An upper bound of the square root, too large by at most 2**-bits. It is exact if the root is rational.

    Args:
        value: The value, not negative.
        bits: The precision.

    Returns:
        The bound.

    >>> root_above(Fraction(9, 4)), root_above(Fraction(2)) > Fraction("1.4142135623730950488")
    (Fraction(3, 2), True)
    """
    top, bottom = isqrt(value.numerator), isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return Fraction(top, bottom)
    bits += max(0, value.denominator.bit_length() - value.numerator.bit_length()) // 2  # digits of small values too
    return Fraction(isqrt((value.numerator << 2 * bits) // value.denominator) + 1, 1 << bits)


def root_below(value: Fraction, bits: int = 64) -> Fraction:
    """A lower bound of the square root, too small by at most 2**-bits. It is exact if the root is rational.

    Args:
        value: The value, not negative.
        bits: The precision.

    Returns:
        The bound.
    """
    above = root_above(value, bits)
    bits += max(0, value.denominator.bit_length() - value.numerator.bit_length()) // 2
    return above if above * above == value else max(Fraction(0), above - Fraction(1, 1 << bits))


@dataclass(frozen=True, slots=True)
class Estimate(Generic[T_co]):
    """A value without a theorem. It is no `Interval` and no number, so no function that needs a guarantee takes it.

    Attributes:
        value: The estimate, a number or a curve.
        method: The method of the estimate.
        error: The known facts about its error, in words.

    >>> Estimate(1.0, method="central limit").value
    1.0
    >>> float(Estimate(1.0, method="central limit"))
    Traceback (most recent call last):
    TypeError: float() argument must be a string or a real number, not 'Estimate'
    """

    value: T_co
    method: str
    error: str = "unknown"


@dataclass(frozen=True, slots=True)
class Interval(Generic[End]):
    """A number in [lower, upper], ends included. For arrays this holds elementwise.

    Attributes:
        lower: The lower end, a float or a float array. Infinities are allowed, and NaN is refused.
        upper: The upper end, of the same shape.
        method: The method that certified the interval.

    Raises:
        ParameterError: The lower end exceeds the upper one, or an end is NaN.

    >>> Interval(0.25, 0.5).width
    0.25
    >>> 0.3 in Interval(0.25, 0.5)
    True
    >>> Interval(1.0, 0.5)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: lower=1.0 must not exceed upper=0.5
    """

    lower: End
    upper: End
    method: str = ""

    def __post_init__(self) -> None:
        scalar = type(self.lower) is float is type(self.upper)
        if not (
            self.lower <= self.upper if scalar else np.all(np.less_equal(self.lower, self.upper))
        ):  # false for NaN too
            raise ParameterError("lower", self.lower, f"must not exceed upper={self.upper!r}")

    @property
    def width(self) -> End:
        """The length, upper - lower; 0 where both ends are the same infinity."""
        if isinstance(self.lower, np.ndarray):
            same = np.equal(self.lower, self.upper)
            return np.where(same, 0.0, np.subtract(self.upper, np.where(same, 0.0, self.lower)))
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    def __contains__(self, value: float) -> bool:
        return bool(np.all(np.less_equal(self.lower, value) & np.less_equal(value, self.upper)))


def halved(holds: Callable[[float], bool], low: float, high: float, rounds: int) -> tuple[float, float]:
    """A bracket around the place where a property ends, by bisection.

    Args:
        holds: The property, which holds at the lower end and not at the upper.
        low: The lower end.
        high: The upper end.
        rounds: The number of halvings.

    Returns:
        The last number at which it was seen to hold, and the first at which it was not.

    >>> halved(lambda x: x * x < 2, 1.0, 2.0, 3)
    (1.375, 1.5)
    """
    for _ in range(rounds):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
