"""Numbers read without loss: an argument becomes a pair hi + lo of floats, about 106 bits, arrays elementwise.

The exponent of a Gaussian tail multiplies every rounding by up to 1,400 before a probability leaves the range of
floats. Two floats a number (Dekker 1971) keep that exponent exact where it matters; everything else stays one float.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, rational

Argument = Number | FloatArray | Sequence[Number]
Twofold = tuple[FloatArray, FloatArray]
UNIT = 2.0**-53  # the relative error of one rounding
TINY = 5e-324


def _parts(name: str, value: Number) -> tuple[float, float]:
    exact = rational(**{name: value})
    try:
        high = float(exact)
    except OverflowError:
        raise ParameterError(name, value, "must lie in the range of a float") from None
    return high, float(exact - Fraction(high))


def read(**named: Argument) -> Twofold:
    """An argument as hi + lo: rationals and decimals to 106 bits, float arrays as the binary values they hold.

    >>> high, low = read(epsilon="0.1")
    >>> float(high), float(low) != 0
    (0.1, True)
    """
    ((name, value),) = named.items()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        array = np.asarray(value, dtype=np.float64)
        if not np.all(np.isfinite(array)):
            raise ParameterError(name, value, "must hold finite numbers only")
        return array, np.zeros_like(array)
    if isinstance(value, int | float | str | Fraction | Decimal):
        high, low = _parts(name, value)
        return np.asarray(high), np.asarray(low)
    flat = np.asarray(value, dtype=object)
    pairs = [_parts(name, item) for item in flat.ravel()]
    both = np.array(pairs, dtype=np.float64).reshape(*flat.shape, 2)
    return both[..., 0], both[..., 1]


def levels(**named: Argument) -> Twofold:
    """A probability and its complement, each to the last bit: (alpha, 1 - alpha).

    >>> alpha, rest = levels(alpha="0.99999999999999999999")
    >>> float(alpha), float(rest)
    (1.0, 1e-20)
    """
    ((name, value),) = named.items()
    high, low = read(**named)
    rest = (1.0 - high) - low
    if np.any(high < 0) or np.any(rest < 0) or np.any(high > 1):
        raise ParameterError(name, value, "must lie in [0, 1]")
    return high, rest


def two_sum(a: FloatArray, b: FloatArray) -> Twofold:
    """The sum a + b exactly, as hi + lo."""
    total = a + b
    seen = total - a
    return total, (a - (total - seen)) + (b - seen)


def two_product(a: FloatArray, b: FloatArray) -> Twofold:
    """The product a * b exactly, as hi + lo; for magnitudes below 1e150."""
    product = a * b
    a_split, b_split = 134217729.0 * a, 134217729.0 * b
    a_high, b_high = a_split - (a_split - a), b_split - (b_split - b)
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def quotient(a: Twofold, b: Twofold) -> Twofold:
    """The quotient to about 100 bits."""
    first = a[0] / b[0]
    product, rest = two_product(first, b[0])
    second = (((a[0] - product) - rest) + a[1] - first * b[1]) / b[0]
    return two_sum(first, second)


def plus(a: Twofold, b: Twofold) -> Twofold:
    """The sum of two twofold numbers to about 100 bits."""
    total, rest = two_sum(a[0], b[0])
    return two_sum(total, rest + a[1] + b[1])


def times(a: Twofold, factor: float) -> Twofold:
    """A power of two times a twofold number, exactly."""
    return a[0] * factor, a[1] * factor


def certified(lower: FloatArray, upper: FloatArray, method: str) -> Interval[FloatArray]:
    """The interval of two arrays of ends; of two floats where the arguments were single numbers."""
    low: Any = np.asarray(lower, dtype=np.float64)
    high: Any = np.asarray(upper, dtype=np.float64)
    if low.ndim == 0:
        low, high = float(low), float(high)
    return Interval(low, high, method)


def ends(interval: Interval[FloatArray]) -> Twofold:
    """Both ends as arrays."""
    return np.asarray(interval.lower), np.asarray(interval.upper)


def clipped(lower: FloatArray, upper: FloatArray, method: str) -> Interval[FloatArray]:
    """The interval of two arrays of ends that are probabilities: cut to [0, 1]."""
    return certified(np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0), method)


def widened(value: FloatArray, relative: FloatArray | float, method: str) -> Interval[FloatArray]:
    """The interval of a probability with a bound on its relative error; a positive value may have underflowed."""
    room = value * relative + 4 * TINY
    lower = np.where(value >= 1, 1.0 - np.asarray(relative), value - room)
    return clipped(lower, value + room, method)


def exponential(x: Twofold) -> FloatArray:
    """e^x of a twofold number; relative error within 4 units."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.exp(x[0]) * (1 + x[1]))


def grown(factor: FloatArray, level: FloatArray, most: float) -> FloatArray:
    """Factor * level, cut at `most`; 0 at level 0 even where the factor is beyond the range of floats."""
    with np.errstate(over="ignore"):
        return np.where(level > 0, np.minimum(factor * np.maximum(level, TINY), most), 0.0)


def root(square: Fraction) -> Twofold:
    """The square root of a rational as hi + lo."""
    high = float(square) ** 0.5
    low = float(square - Fraction(high) ** 2) / (2 * high) if high else 0.0
    return np.asarray(high), np.asarray(low)
