"""The trade-off function of a composition, and an attacker's gain, all from certified values of delta(eps).

T(alpha) = sup_x 1 - delta(log x) - x alpha, and delta is convex in x = e^eps. Every finite set of x gives a lower
bound.

Upper bound: g(x) = 1 - delta - x alpha is concave. A chord of a concave function, prolonged beyond its ends, stays
above it. So between two neighbours g lies below the chord of the two points before them and below that of the two after
them. Before the first point it lies below the chord of the first two, down to x = 0. Behind the last it lies below the
chord of the last two, up to x = 1 / alpha, where it is at most 0. The slope of a chord takes g at its upper bound at
one end and at its lower bound at the other. So any points give a bound. It is close where some are near the peak.
"""

from __future__ import annotations

from collections.abc import Callable

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
    x = np.exp(grid)[None]
    floor, roof = _heights(x, *profile(grid), alpha)
    lower, upper = np.maximum(floor.max(axis=1), 0.0), np.minimum(_above(x, floor, roof, alpha)[0], 1 - alpha)
    centre, step = grid[floor.argmax(axis=1)], np.full(len(alpha), grid[1] - grid[0])
    kink = centre.copy()
    for _ in range(ROUNDS):
        open_ = np.flatnonzero((upper - lower > CLOSE) & (step > CLOSE))
        if not len(open_):
            break
        points = centre[open_, None] + step[open_, None] * np.array([-1.5, -0.5, 0.5, 1.5, 0.0, 0.0])
        points[:, 5] = kink[open_]
        x = np.exp(points)
        low, high = (part.reshape(points.shape) for part in profile(points.ravel()))
        floor, roof = _heights(x, low, high, alpha[open_])
        most, crossings = _above(x[:, :4], floor[:, :4], roof[:, :4], alpha[open_])
        lower[open_], upper[open_] = np.maximum(lower[open_], floor.max(axis=1)), np.minimum(upper[open_], most)
        values = -0.5 * (low + high) - x * alpha[open_, None]
        best = values.argmax(axis=1)
        inside = (floor[:, 1] >= roof[:, 0]) & (floor[:, 2] >= roof[:, 3])
        # a kink stays the best point, or as good; a parabola shows a smooth peak
        smooth = inside & (values[:, 5] < values.max(axis=1))
        centre[open_] = np.where(smooth, _vertex(points, values, step[open_]), points[np.arange(len(points)), best])
        centre = np.clip(centre, -FARTHEST, FARTHEST)
        kink[open_] = np.where(inside, np.log(crossings[:, 0]), centre[open_])
        step[open_] = np.where(inside, step[open_] / 6, step[open_])
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


def _heights(x: FloatArray, low: FloatArray, high: FloatArray, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds on g at each x, by those on delta: (n, k), or (1, k) for all alpha."""
    line = x * alpha[:, None]
    slack = 40 * U * (1 + line)  # of x = e^eps too
    return 1 - high - line - slack, 1 - low - line + slack


def _above(x: FloatArray, floor: FloatArray, roof: FloatArray, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A bound on g at all x from that at k rising ones, (n,), and where the chords meet between inner ones, (n, k - 3)."""
    width = np.diff(x, axis=1)
    error = 1 + 40 * U * x[:, 1:] / width  # what x is wrong by, as a part of the width
    rise = np.maximum(roof[:, 1:] - floor[:, :-1], 0.0) / width * error  # the steepest that g may climb a chord
    fall = np.maximum(roof[:, :-1] - floor[:, 1:], 0.0) / width * error
    up, down, left, right, wide = rise[:, :-2], fall[:, 2:], roof[:, 1:-2], roof[:, 2:-1], (width * error)[:, 1:-1]
    both = np.where(up + down > 0, up + down, 1.0)
    meet = np.clip((right - left + down * wide) / both, 0.0, wide)
    # the greater of two lines is above the point where they cross, wherever it is taken
    middle = np.maximum(left + up * meet, right + down * (wide - meet)).max(axis=1)
    before = roof[:, 0] + fall[:, 0] * x[:, 0] * error[:, 0]
    first = roof[:, 1] + fall[:, 1] * width[:, 0] * error[:, 0]
    last = roof[:, -2] + rise[:, -2] * width[:, -1] * error[:, -1]
    rest = np.maximum((1 + 40 * U) / alpha - x[:, -1], 0.0)  # inf where alpha is 0
    behind = roof[:, -1] + np.where(rise[:, -1] > 0, rise[:, -1] * rest, 0.0)
    return np.maximum.reduce([middle, before, first, last, behind]), x[:, 1:-2] + meet
