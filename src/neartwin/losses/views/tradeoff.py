"""The trade-off function of a composition, and an attacker's gain, all from certified values of delta(eps).

T(alpha) = sup_x 1 - delta(log x) - x alpha, and delta is convex in x = e^eps. Every finite set of x gives a lower
bound.

Upper bound: g(x) = 1 - delta - x alpha is concave. Take a < b < c < d with g(b) >= g(a) and g(c) >= g(d) proved. The
maximum then lies in [a, d]. A chord of a concave function, prolonged beyond its ends, stays above it. On [b, c] g lies
below the lower of the chords through (a, b) and (c, d). On [a, b] it lies below the chord through (b, c), and on [c, d]
likewise. The bound of a chord takes g at its upper bound inside the prolonged segment, and at its lower bound at the
far end. And g(0) = 0. So where g is below 0 at the first point, it falls from there on. Before it, the chord through the
first two points stays above it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.summands.rounding import U

Profile = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
COARSE = 129
ROUNDS = 9
CLOSE = 1e-12
FARTHEST = 680.0  # of eps, so that e^eps is a number a step beyond it too; any finite set of x bounds T


def tradeoff(profile: Profile, alpha: FloatArray, span: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    """Bounds on T at each alpha.

    Args:
        profile: Certified delta at each eps.
        alpha: In [0, 1], (n,).
        span: Where the bend of delta lies.
    """
    grid = np.linspace(max(span[0], -FARTHEST), min(span[1], FARTHEST), COARSE)
    low, high = profile(grid)
    values = 1 - high - np.multiply.outer(alpha, np.exp(grid))
    best = values.argmax(axis=1)
    lower, centre = np.maximum(values[np.arange(len(alpha)), best], 0.0), grid[best]  # the best line of the grid
    x, slack = np.exp(grid[:2]), 40 * U * (1 + np.multiply.outer(np.exp(grid[:2]), alpha))
    first, second = 1 - low[0] - x[0] * alpha + slack[0], 1 - high[1] - x[1] * alpha - slack[1]
    steepest = np.maximum(first - second, 0.0) / (x[1] - x[0]) * (1 + 1e-6)
    upper = np.where(first < 0, np.clip(first + steepest * x[0], 0.0, 1 - alpha), 1 - alpha)
    kink, step = centre.copy(), np.full(len(alpha), grid[1] - grid[0])
    for _ in range(ROUNDS):
        open_ = np.flatnonzero(upper - lower > CLOSE)
        if not len(open_):
            break
        points = centre[open_, None] + step[open_, None] * np.array([-1.5, -0.5, 0.5, 1.5, 0.0, 0.0])
        points[:, 5] = kink[open_]
        low, high = (part.reshape(points.shape) for part in profile(points.ravel()))
        maximum = _bracket(np.exp(points), low, high, alpha[open_])
        lower[open_], upper[open_] = np.maximum(lower[open_], maximum.lower), np.minimum(upper[open_], maximum.upper)
        values = -0.5 * (low + high) - np.exp(points) * alpha[open_, None]
        best = values.argmax(axis=1)
        # a kink stays the best point, or as good; a parabola shows a smooth peak
        smooth = maximum.inside & (values[:, 5] < values.max(axis=1))
        centre[open_] = np.where(smooth, _vertex(points, values, step[open_]), points[np.arange(len(points)), best])
        kink[open_] = np.where(maximum.inside, np.log(maximum.peak), centre[open_])
        step[open_] = np.where(maximum.inside, step[open_] / 6, step[open_])
    lower = np.clip(lower * (1 - 8 * U) - 8 * U, 0.0, 1 - alpha)
    upper = np.clip(upper * (1 + 8 * U) + 8 * U, lower, 1 - alpha)
    return lower, upper


def _vertex(points: FloatArray, values: FloatArray, step: FloatArray) -> FloatArray:
    """Where the parabola through the best three of the four equal points peaks, within a step and a half of them."""
    j = np.clip(values[:, :4].argmax(axis=1), 1, 2)
    rows = np.arange(len(values))
    left, middle, right = values[rows, j - 1], values[rows, j], values[rows, j + 1]
    bend = left - 2 * middle + right
    move = np.where(bend < 0, 0.5 * (left - right) / np.where(bend < 0, bend, 1.0), 0.0)
    result: FloatArray = points[rows, j] + step * np.clip(move, -1.5, 1.5)
    return result


class Maximum(NamedTuple):
    """Bounds on T, whether the peak is proved to lie among the points, and where the chords put it."""

    lower: FloatArray
    upper: FloatArray
    inside: np.ndarray[tuple[int], np.dtype[np.bool_]]
    peak: FloatArray


def _bracket(x: FloatArray, low: FloatArray, high: FloatArray, alpha: FloatArray) -> Maximum:
    """Lower bound from all points, upper from the chords of the first four (1 where no peak is proved inside)."""
    slack = 40 * U * (1 + x * alpha[:, None])  # of x = e^eps too
    floor, roof = 1 - high - x * alpha[:, None] - slack, 1 - low - x * alpha[:, None] + slack
    a, b, c, d = (x[:, k] for k in range(4))
    inside = (floor[:, 1] >= roof[:, 0]) & (floor[:, 2] >= roof[:, 3])
    # widths are above 1e-8 x, so the rounding of x moves them by less than 1e-6 of themselves
    rise = (roof[:, 1] - floor[:, 0]) / (b - a) * (1 + 1e-6)  # steepest ascent into b
    fall = (roof[:, 2] - floor[:, 3]) / (d - c) * (1 + 1e-6)  # steepest descent out of c
    # the two prolonged chords meet in [b, c]
    meet = np.clip((roof[:, 2] - roof[:, 1] + fall * c + rise * b) / np.where(rise + fall > 0, rise + fall, 1.0), b, c)
    middle = np.minimum(roof[:, 1] + rise * (meet - b), roof[:, 2] + fall * (c - meet))
    middle = np.where(rise + fall > 0, middle, np.maximum(roof[:, 1], roof[:, 2]))
    middle = np.maximum(middle, np.maximum(floor[:, 1], floor[:, 2]))
    # The chord (b, c), prolonged to the left, rises at most so.
    back = np.maximum(roof[:, 1] - floor[:, 2], 0.0) / (c - b) * (1 + 1e-6)
    forth = np.maximum(roof[:, 2] - floor[:, 1], 0.0) / (c - b) * (1 + 1e-6)
    left = roof[:, 1] + back * (b - a)
    right = roof[:, 2] + forth * (d - c)
    most = np.maximum(middle, np.maximum(left, right)) * (1 + 8 * U)
    return Maximum(np.maximum(floor.max(axis=1), 0.0), np.where(inside, most, 1.0), inside, meet)
