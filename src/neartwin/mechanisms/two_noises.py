"""The error bar of a sum of two independent noises, each times a number of its own. Arithmetic only, no data.

For independent X and Y on the whole numbers and x_0 = 0 < x_1 < ..., with both laws symmetric,

    P(|a X + b Y| > t) <= G_0 + sum over i >= 1 of P(|X| > x_i) (G_i - G_(i-1)),
    G_i = the most over j <= i of  P(b Y > t - a x_(j+1)) + P(b Y > t + a x_j),  and 1 beyond the last,

for G_i bounds P(|a x + b Y| > t) for every x in (x_i, x_(i+1)], and the sum is by parts. No normal law is assumed.
"""

import math
from functools import lru_cache

import numpy as np

from neartwin.checks import open_probability
from neartwin.exact import FloatArray
from neartwin.mechanisms.laws import Law

_CELLS = 128  # of the first noise's size
_HALVINGS = 12
_SLACK = 1e-12  # of numbers that are rounded to doubles


@lru_cache(maxsize=256)
def half_width_of_two(first: Law, a: float, second: Law, b: float, confidence: float) -> float:
    """A t with P(|a X + b Y| <= t) >= confidence, about one part in fifty above the least. a, b: above 0.

    >>> from fractions import Fraction
    >>> from neartwin.mechanisms.laws import RoundedGaussianLaw
    >>> three, four = (RoundedGaussianLaw(Fraction(1000 * size) ** 2) for size in (3, 4))
    >>> round(half_width_of_two(three, 1.0, four, 1.0, 0.95) / 1000)  # the bar of one of deviation 5 is 9.8
    10
    """
    allowed = 1 - open_probability(confidence=confidence)
    far = max(first.half_width(1 - allowed / 1000), 1)
    x = np.unique(np.ceil(np.linspace(0, far, _CELLS + 1)))
    sizes = x, np.array([first.beyond(int(one)) for one in x])  # P(|X| > x_i)
    each = (1 + confidence) / 2
    high = a * first.half_width(each) + b * second.half_width(each)  # by the union bound
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _tail(sizes, a, second, b, middle) <= allowed else (middle, high)
    return high


def _tail(sizes: tuple[FloatArray, FloatArray], a: float, second: Law, b: float, t: float) -> float:
    """P(|a X + b Y| > t), or a bound not below it. sizes: x_i, and P(|X| > x_i)."""
    x, beyond = sizes
    near = [_above(second, (t - a * float(one)) / b) for one in x[1:]]
    away = [_above(second, (t + a * float(one)) / b) for one in x[:-1]]
    given = np.append(np.maximum.accumulate(np.minimum(np.array(near) + away, 1.0)), 1.0)
    return float(given[0] + beyond[1:] @ np.diff(given))


def _above(law: Law, s: float) -> float:
    """P(Y > s), or a bound not below it: tails are themselves bounds, good to one part in a hundred."""
    s -= abs(s) * _SLACK
    if s >= 0:
        return law.beyond(math.floor(s)) / 2
    return 1 - law.beyond(math.ceil(-s) - 1) * 0.99 / 2
