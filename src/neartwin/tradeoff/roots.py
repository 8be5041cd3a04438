"""One root of each of many monotone functions at once: Newton kept inside a bracket, then a certificate by signs.

A root is accepted only with two points on either side of it whose signs are certain, error bounds included; so a
failure of Newton's method can widen the answer and can never falsify it.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from neartwin.exact import FloatArray

Places = NDArray[np.intp]

# points, their places in the whole array -> (value, slope, bound on the error of the value), elementwise
Residual = Callable[[FloatArray, Places], tuple[FloatArray, FloatArray, FloatArray]]


def decreasing_root(residual: Residual, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two points around the root of a decreasing function: certainly positive at the first, negative at the second.

    low, high: (n,), with the root between them; they are returned where no closer points could be certified. Only the
    points that still move are evaluated again.
    """
    root, low, high = high.copy(), low.copy(), high.copy()
    floor, ceiling = low.copy(), high.copy()
    open_places = np.arange(root.size)
    for _ in range(200):
        point = root[open_places]
        value, slope, error = residual(point, open_places)
        low[open_places] = np.where(value >= 0, point, low[open_places])
        high[open_places] = np.where(value < 0, point, high[open_places])
        left, right = low[open_places], high[open_places]
        with np.errstate(all="ignore"):
            step = point - value / slope
        inside = np.isfinite(step) & (step > left) & (step < right)
        following = np.where(inside, step, 0.5 * (left + right))
        moving = (np.abs(following - point) > 4e-16 * np.abs(point)) & (np.abs(value) > error)
        root[open_places[moving]] = following[moving]
        open_places = open_places[moving]
        if not open_places.size:
            break
    return _certified(residual, root, floor, ceiling)


def _certified(
    residual: Residual, point: FloatArray, floor: FloatArray, ceiling: FloatArray
) -> tuple[FloatArray, FloatArray]:
    everywhere = np.arange(point.size)
    value, slope, error = residual(point, everywhere)
    with np.errstate(all="ignore"):
        width = (np.abs(value) + 1.25 * error) / np.abs(slope)
    least = 4e-16 * np.abs(point) + 1e-320
    width = np.where(np.isfinite(width), np.maximum(width, least), least)
    below = _sure(residual, point, -width, floor, 1.0)
    above = _sure(residual, point, width, ceiling, -1.0)
    return below, above


def _sure(residual: Residual, point: FloatArray, step: FloatArray, end: FloatArray, sign: float) -> FloatArray:
    """The first of point + step, point + 2 step, point + 4 step, ... with the sign for certain, and else the end."""
    found, step = end.copy(), step.copy()
    waiting = np.arange(point.size)
    for _ in range(60):
        tried = point[waiting] + step[waiting]
        tried = np.maximum(tried, end[waiting]) if sign > 0 else np.minimum(tried, end[waiting])
        value, _, error = residual(tried, waiting)
        sure = (sign * value >= error) | (tried == end[waiting])
        found[waiting[sure]] = tried[sure]
        waiting = waiting[~sure]
        if not waiting.size:
            break
        step[waiting] *= 2
    return found
