"""Exponentials with proved bounds: certified integers, and floats for the clear cases.

A certified number is a pair (lo, hi) of integers with lo <= 2**bits * value <= hi, by integer arithmetic alone. The
precision is an argument, so an undecided caller asks again with more bits.

The float functions settle most draws, with a proved error. They use only +, -, *, / and comparisons, which IEEE 754
rounds correctly. No library function's accuracy is trusted.
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Bounds = tuple[int, int]
_GUARD = 64  # bits beyond the asked precision, so that the result is tight; the bounds hold whatever it is


def exp_neg(y: Fraction, bits: int) -> Bounds:
    """Integers around 2**bits * exp(-y), at most 2 apart.

    exp(-y) = exp(-z)**(2**s) with z = y / 2**s < 2**-7. For z < 1 the Taylor series alternates and its terms fall. The
    error is therefore at most the first omitted term. The s squarings that follow round outward.

    Args:
        y: A rational, y >= 0.
        bits: The precision.

    Returns:
        The lower and the upper integer.

    >>> exp_neg(Fraction(1), 20), 2**20 * 0.36787944117
    ((385749, 385750), 385749.55...)
    """
    if y == 0:
        return 1 << bits, 1 << bits
    if y > bits:
        return 0, 1  # e > 2
    work = bits + _GUARD
    halvings = max(0, y.numerator.bit_length() - y.denominator.bit_length() + 1) + 7
    z_lo = (y.numerator << work) // (y.denominator << halvings)
    z_hi = z_lo + 1
    term_lo = term_hi = 1 << work
    lo = hi = k = 0
    while term_hi > 1:
        lo, hi = (lo + term_lo, hi + term_hi) if k % 2 == 0 else (lo - term_hi, hi - term_lo)
        k += 1
        term_lo = ((term_lo * z_lo) >> work) // k
        term_hi = (((term_hi * z_hi) >> work) + k) // k  # at least ceil(product / k)
    lo, hi = lo - term_hi, hi + term_hi
    for _ in range(halvings):
        lo, hi = (lo * lo) >> work, ((hi * hi) >> work) + 1
    return lo >> _GUARD, (hi >> _GUARD) + 1


def log2_floor(x: Fraction) -> int:
    """The integer k with 2**k <= x < 2**(k+1).

    Args:
        x: A rational, x > 0.

    Returns:
        The exponent k.

    >>> log2_floor(Fraction(8)), log2_floor(Fraction(799, 100)), log2_floor(Fraction(1, 1000))
    (3, 2, -10)
    """
    k = x.numerator.bit_length() - x.denominator.bit_length()
    return k if x >= Fraction(2) ** k else k - 1


F64 = NDArray[np.float64]


def loss(y: F64) -> F64:
    """1 - exp(-y) in floats, with relative error below 2**-49.

    It is Horner's form of y (1 - y/2 (1 - y/3 (... (1 - y/12)))). The omitted terms are below y**12 / 13! < 2**-56 of
    the value. Each nested factor lies in (0, 1]. So one level adds at most 3 half-ulps of 1 and passes on at most y/k
    of the level below. The sum over levels is below 2**-51, and the outermost factor is at least 7/8.

    Args:
        y: Any shape, 0 <= y <= 1/4.

    Returns:
        The values, in the shape of y.

    >>> loss(np.array([0.0, 2.0**-30, 0.25])) / -np.expm1(-np.array([1.0, 2.0**-30, 0.25]))
    array([0., 1., 1.])
    """
    s = 1.0 - y / 12.0
    for k in range(11, 1, -1):
        s = 1.0 - y / k * s
    return y * s


@lru_cache(maxsize=1)
def _powers() -> F64:
    """exp(-n / 32) for n = 0, ..., 2048, each within 2**-53 of its value, from certified integers."""
    return np.array([exp_neg(Fraction(n, 32), 160)[0] / (1 << 160) for n in range(64 * 32 + 1)])


def exp_floats(x: F64) -> F64:
    """exp(-x) in floats, with absolute error below 2**-50.

    exp(-x) = exp(-n/32) (1 - loss(x - n/32)) with n = floor(32 x). Both 32 x and x - n/32 are exact. From x = 64 on the
    result is 0.

    Args:
        x: Any shape, x >= 0 or NaN.

    Returns:
        The values, in the shape of x; NaN for NaN.

    >>> exp_floats(np.array([0.0, 1.0, 1e9])) - np.exp([-0.0, -1.0, -1e9])
    array([0., 0., 0.])
    """
    near = np.minimum(x, 64.0)
    whole = np.floor(np.where(np.isnan(near), 0.0, near) * 32.0)
    value = _powers()[whole.astype(np.int64)] * (1.0 - loss(near - whole / 32.0))
    return np.where(near == 64.0, 0.0, value)
