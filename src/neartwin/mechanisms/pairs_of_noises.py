"""Error bars of a X + w Y for many weights w at once, where both noises are normal or both discrete Laplace. No data.

Normal noise is rounded to whole numbers: it is within 1/2 of a normal variable, so a X + w Y is within (a + w) / 2 of one with
variance a^2 v_X + w^2 v_Y. A discrete Laplace variable is the difference of two rounded-down exponential ones, so it is within
1 of a Laplace variable of its scale, and a X + w Y within a + w of a sum of two of scales p = a s_X and q = w s_Y, whose tail is
P(|.| > t) = (p^2 exp(-t/p) - q^2 exp(-t/q)) / (p^2 - q^2), by convolution.
"""

import math

import numpy as np
from scipy.special import ndtri

from neartwin.checks import open_probability
from neartwin.exact import FloatArray
from neartwin.mechanisms.laws import GeometricLaw, Law, RoundedGaussianLaw

_SLACK = 1 + 1e-9  # of rounding to doubles
_APART = 1e-6  # scales that are this close are taken for the larger one, twice
_HALVINGS = 60


def half_widths_of_pairs(first: Law, a: float, second: Law, weights: FloatArray, confidence: float) -> FloatArray:
    """(weights,) t with P(|a X + w Y| <= t) >= confidence, for each weight w >= 0; infinite for laws that are no such pair.

    >>> from fractions import Fraction
    >>> normal = RoundedGaussianLaw(Fraction(10**6))
    >>> half_widths_of_pairs(normal, 1.0, normal, np.array([0.0, 1.0]), 0.95).round()
    array([1960., 2773.])
    """
    miss = 1 - open_probability(confidence=confidence)
    match first, second:
        case RoundedGaussianLaw(), RoundedGaussianLaw():
            variances = a**2 * float(first.normal_variance) + weights**2 * float(second.normal_variance)
            found: FloatArray = -ndtri(miss / 2) * np.sqrt(variances) + (a + weights) / 2
        case GeometricLaw(), GeometricLaw():
            found = _of_laplaces(a * float(first.scale), weights * float(second.scale), miss) + a + weights
        case _:
            return np.full_like(weights, math.inf)
    return found * _SLACK


def _of_laplaces(p: float, q: FloatArray, miss: float) -> FloatArray:
    """The least t at which the tail is at most `miss`, rounded up: the upper end of a bisection."""
    large, small = np.maximum(p, q), np.minimum(p, q)
    close = large - small <= _APART * large
    low, high = np.zeros_like(q), large * 4 * (1 - math.log(miss))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        ratio = np.where(close, 0.5, small / large)  # any, where it is not used
        apart = (np.exp(-middle / large) - ratio**2 * np.exp(-middle / np.maximum(large * ratio, 1e-300))) / (
            1 - ratio**2
        )
        tail = np.where(close, np.exp(-middle / large) * (1 + middle / (2 * large)), apart)
        low, high = np.where(tail <= miss, low, middle), np.where(tail <= miss, middle, high)
    return high
