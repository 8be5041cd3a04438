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
from neartwin.losses.summands.rounding import SMALLEST, U

Profile = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
COARSE = 129
AROUND = 7  # points of the grid that are kept beside its ends, the highest in the middle
ROUNDS = 20
CLOSE = 1e-12
NARROW = 1e-11  # of 1 + |eps|; points this close are not told apart
FARTHEST = 680.0  # of eps, so that e^eps is a number; any finite set of x bounds T


def tradeoff(
    profile: Profile, alpha: FloatArray, span: tuple[float, float], revealed: tuple[float, float] = (0.0, 1.0)
) -> tuple[FloatArray, FloatArray]:
    """Bounds on T at each alpha.

    Args:
        profile: Certified delta at each eps.
        alpha: In [0, 1], (n,).
        span: Where the bend of delta lies.
        revealed: Bounds on the limit of delta as eps grows. T(0) is 1 less that limit.
    """
    grid = np.linspace(max(span[0], -FARTHEST), min(span[1], FARTHEST), COARSE)
    grid[[0, -1]] = max(grid[0] - 30, -FARTHEST), min(grid[-1] + 30, FARTHEST)  # a failure bends delta outside
    floor, roof = _heights(grid[None], *profile(grid), alpha)
    lower = np.maximum(floor.max(axis=1), np.where(alpha == 0, 1 - revealed[1], 0.0))
    upper = np.minimum(_above(grid[None], floor, roof, alpha)[0].max(axis=1), np.minimum(1 - alpha, 1 - revealed[0]))
    near = np.clip(floor.argmax(axis=1) - AROUND // 2, 1, COARSE - AROUND - 1)[:, None] + np.arange(AROUND)
    near = np.pad(near, ((0, 0), (1, 1)), constant_values=(0, COARSE - 1))
    eps, floor, roof = grid[near], np.take_along_axis(floor, near, axis=1), np.take_along_axis(roof, near, axis=1)
    rows = np.arange(len(alpha))
    for _ in range(ROUNDS):
        above, meet = _above(eps, floor, roof, alpha[rows])
        lower[rows] = np.maximum(lower[rows], floor.max(axis=1))
        upper[rows] = np.minimum(upper[rows], above.max(axis=1))
        cell = above[:, 1:-1].argmax(axis=1)[:, None]
        ends = [np.take_along_axis(eps, cell + k, axis=1) for k in (0, 1)]
        wide = ends[1] - ends[0]
        inside = np.clip(np.take_along_axis(meet, cell, axis=1), ends[0] + 0.01 * wide, ends[1] - 0.01 * wide)
        top = np.clip(floor.argmax(axis=1), 1, eps.shape[1] - 2)[:, None]  # the best line, where the bound may not lead
        best, *beside = (np.take_along_axis(eps, top + k, axis=1) for k in (0, -1, 1))
        near = [0.6 * best + 0.4 * one for one in beside]
        more = np.concatenate([(ends[0] + inside) / 2, inside, (inside + ends[1]) / 2, *near], axis=1)
        still = np.flatnonzero((upper[rows] - lower[rows] > CLOSE) & (wide > NARROW * (1 + abs(inside)))[:, 0])
        if not len(still):
            break
        rows, more = rows[still], more[still]
        low, high = (part.reshape(more.shape) for part in profile(more.ravel()))
        added = (more, *_heights(more, low, high, alpha[rows]))
        order = np.argsort(np.concatenate([eps[still], more], axis=1), axis=1)
        eps, floor, roof = (
            np.take_along_axis(np.concatenate([old[still], new], axis=1), order, axis=1)
            for old, new in zip((eps, floor, roof), added, strict=True)
        )
    lower = np.clip(lower * (1 - 8 * U) - 8 * U, 0.0, 1 - alpha)
    upper = np.clip(upper * (1 + 8 * U) + 8 * U, lower, 1 - alpha)
    return lower, upper


def _heights(eps: FloatArray, low: FloatArray, high: FloatArray, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds on g at each eps, by those on delta: (n, k), or (1, k) for all alpha."""
    line = np.exp(eps) * alpha[:, None]
    slack = 40 * U * (1 + line)  # of e^eps too
    return 1 - high - line - slack, 1 - low - line + slack


@np.errstate(divide="ignore", invalid="ignore")
def _above(eps: FloatArray, floor: FloatArray, roof: FloatArray, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds on g from those at k rising eps.

    Returns:
        Bounds on all of g before the first, between each two, and behind the last, (n, k + 1), and the eps between each two at
            which the chords meet, (n, k - 1).
    """
    x = np.exp(eps)
    width = np.maximum(np.diff(x, axis=1), SMALLEST)  # two points may be one
    error = 1 + 40 * U * x[:, 1:] / width  # what x is wrong by, as a part of the width
    rise = np.maximum(roof[:, 1:] - floor[:, :-1], 0.0) / width * error  # the steepest that g may climb a chord
    fall = np.maximum(roof[:, :-1] - floor[:, 1:], 0.0) / width * error
    up = np.insert(rise[:, :-1], 0, np.inf, axis=1)  # of the chord before, where there is one
    down = np.append(fall[:, 1:], np.full((len(fall), 1), np.inf), axis=1)  # of the chord behind
    left, right, wide = roof[:, :-1], roof[:, 1:], width * error
    share = np.nan_to_num(1 / (1 + down / up), nan=1.0)  # flat chords bound at either end
    between = (1 - share) * left + share * right + wide / (1 / up + 1 / down)  # where the chords meet
    meet = np.clip(np.nan_to_num((right - left) / (up + down) + (1 - share) * wide), 0.0, width)
    before = roof[:, 0] + fall[:, 0] * x[:, 0] * error[:, 0]
    rest = np.maximum((1 + 40 * U) / alpha - x[:, -1], 0.0)  # inf where alpha is 0
    behind = roof[:, -1] + np.where(rise[:, -1] > 0, rise[:, -1] * rest, 0.0)
    return np.column_stack([before, between, behind]), np.log(x[:, :-1] + meet)
