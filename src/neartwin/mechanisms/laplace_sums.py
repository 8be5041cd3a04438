"""Quantiles of sums of independent Laplace variables of many scales, for many sums at once. No data.

A Laplace variable of scale b has E e^(zX) = 1 / (1 - b^2 z^2) for |Re z| < 1 / b, so for a sum with K(z) = -sum log(1 - b^2 z^2)

    P(sum > t) = (1 / 2 pi i) integral of e^(K(z) - z t) / z dz,

upwards along any line between 0 and the first pole 1 / max b; all poles are on the real axis, so the line may be bent to the
right. Through the saddle, as steeply as it falls there, the trapezoidal rule with 12 points on one side is right to 3e-5 of P up
to P = 1/4 (Lugannani, Rice 1980 for the saddle; Trefethen, Weideman 2014 for the rule). One line does for every t nearby: the
quantile is found by Newton's steps in log P, which is concave in t.
"""

import numpy as np

from neartwin.exact import FloatArray
from neartwin.special import ndtri

_POINTS = 12
_STEP = 2 / 3  # in deviations at the saddle
_LEAST_BEND = 0.05
_HALVINGS = 12  # for a saddle; any line beside it is as right, if not as short
_NEWTON = 6
_SLACK = 1 + 3e-4


def laplace_quantiles(scales: FloatArray, numbers: FloatArray, miss: float) -> FloatArray:
    """(n,) t with P(sum > t) = miss. scales, numbers: (n, kinds), so many variables of each scale; 0 < miss <= 1/4.

    Rounded up by 3e-4, which is more than the rule is off.

    >>> laplace_quantiles(np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]]), 0.025).round(2)
    array([3.  , 6.55])
    """
    squares = np.where(numbers > 0, scales**2, 0.0)
    spread = np.sqrt(2 * (numbers * squares).sum(axis=1))
    some = spread > 0
    found = np.zeros(len(spread))
    if some.any():
        ones = squares[some] / spread[some, None] ** 2
        found[some] = spread[some] * _quantiles(ones, numbers[some], miss) * _SLACK
    return found


def _quantiles(squares: FloatArray, numbers: FloatArray, miss: float) -> FloatArray:
    """Of sums of variance 1."""
    z = -float(ndtri(miss))
    excess = 12 * (numbers * squares**2).sum(axis=1)
    t: FloatArray = np.maximum(z + (z**3 - 3 * z) * np.minimum(excess, 1.0) / 24, z / 2)  # Cornish, Fisher 1938
    saddle = _saddles(squares, numbers, t)
    q = squares * saddle[:, None] ** 2
    second = (numbers * 2 * squares * (1 + q) / (1 - q) ** 2).sum(axis=1) + 1 / saddle**2
    third = (numbers * 4 * squares**2 * (3 + q) / (1 - q) ** 3).sum(axis=1) * saddle - 2 / saddle**3
    unit = 1 / np.sqrt(second)
    bend = np.maximum(third / (6 * second), _LEAST_BEND / unit)
    y = unit[:, None] * _STEP * (np.arange(_POINTS) + 0.5)
    line, along = saddle[:, None] + 1j * y + bend[:, None] * y**2, 1j + 2 * bend[:, None] * y
    cumulants = np.zeros_like(line)
    for kind in range(squares.shape[1]):
        cumulants -= numbers[:, kind, None] * np.log(1 - squares[:, kind, None] * line**2)
    weights = along * (unit * _STEP / np.pi)[:, None]
    for _ in range(_NEWTON):
        density = np.exp(cumulants - line * t[:, None]) * weights
        tail = np.maximum((density / line).imag.sum(axis=1), 1e-300)
        t = t + np.log(tail / miss) * tail / np.maximum(density.imag.sum(axis=1), 1e-300)
    return t


def _saddles(squares: FloatArray, numbers: FloatArray, t: FloatArray) -> FloatArray:
    """(n,) where K(z) - z t - log z is least, between 0 and the first pole."""
    low, high = np.zeros(len(t)), 1 / np.sqrt(squares.max(axis=1))
    for _ in range(_HALVINGS):
        z = (low + high) / 2
        slope = (numbers * 2 * squares * z[:, None] / (1 - squares * z[:, None] ** 2)).sum(axis=1) - t - 1 / z
        low, high = np.where(slope < 0, z, low), np.where(slope < 0, high, z)
    found: FloatArray = (low + high) / 2
    return found
