"""Floating point with a proved error, for tests that settle most draws; whatever it cannot settle goes to integers.

Only +, -, *, / and comparisons, which IEEE 754 rounds correctly: no library function's accuracy is trusted.
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from neartwin.noise.bounds import exp_neg

F64 = NDArray[np.float64]


def loss(y: F64) -> F64:
    """1 - exp(-y) for 0 <= y <= 1/4, with relative error below 2**-49.

    Horner's form of y (1 - y/2 (1 - y/3 (... (1 - y/12)))). Left out: less than y**12 / 13! < 2**-56 of the value.
    Rounding: each of the nested factors lies in (0, 1], so one level adds at most 3 half-ulps of 1 and passes on at
    most y/k of the level below; the sum over levels is below 2**-51, and the outermost factor is at least 7/8.

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
    """exp(-x) for x >= 0, with absolute error below 2**-50; NaN gives NaN.

    exp(-x) = exp(-n/32) (1 - loss(x - n/32)) with n = floor(32 x), where 32 x and x - n/32 are exact; 0 from x = 64 on.

    >>> exp_floats(np.array([0.0, 1.0, 1e9])) - np.exp([-0.0, -1.0, -1e9])
    array([0., 0., 0.])
    """
    near = np.minimum(x, 64.0)
    whole = np.floor(np.where(np.isnan(near), 0.0, near) * 32.0)
    value = _powers()[whole.astype(np.int64)] * (1.0 - loss(near - whole / 32.0))
    return np.where(near == 64.0, 0.0, value)
