"""One step of a mechanism whose loss is monotone in one real answer u: the hockey-stick by its half-line.

{L > eps} is a half-line from its threshold, so delta(eps) = P(half-line) - e^eps Q(half-line). With a <= threshold
<= b: the value at any point is a lower bound (a test like any other), and P(beyond a) - e^eps Q(beyond b) an upper
one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.summands.rounding import ELEMENTARY, U

HALVINGS = 64
LARGEST = 709.0  # eps whose exponential is a float; beyond, Q of the half-line is below every float and tells nothing
FARTHER = (0.25, 1.0, 4.0, 16.0)
LOST = 4.5e-308  # what a tail may lose below the smallest normal float
Loss = Callable[[FloatArray], tuple[FloatArray, FloatArray]]  # the loss at u and a bound on its error
Guess = Callable[[FloatArray], FloatArray]  # about where the loss is eps
Beyond = Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]  # P, Q beyond u, and their relative error


def threshold(
    loss: Loss, eps: FloatArray, rising: float, big: FloatArray, guess: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """A <= threshold <= b for each eps, from a guess or by bisection, then widened until proved.

    The loss's own error bound proves both sides. An end at `big` becomes infinite: all or nothing lies beyond. A guess
    that is no number says that the threshold is at minus infinity.
    """
    if guess is not None:
        low = high = np.clip(np.where(np.isnan(guess), -big, guess), -big, big)
    else:
        low, high = -big, big.copy()
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            above = rising * (loss(middle)[0] - eps) > 0
            low, high = np.where(above, low, middle), np.where(above, middle, high)
    a, b = _proved(loss, eps, low, -rising, -big), _proved(loss, eps, high, rising, big)
    return np.where(a <= -big, -np.inf, a), np.where(b >= big, np.inf, b)


def _proved(loss: Loss, eps: FloatArray, start: FloatArray, rising: float, end: FloatArray) -> FloatArray:
    """From each start toward its end, until the loss is proved to lie on that side of eps; the end itself needs no proof."""
    found, width, left = end.copy(), 1e-15 * (1 + np.abs(start)), np.arange(len(eps))
    for _ in range(2 * HALVINGS):
        at = start[left] + np.sign(end[left]) * width[left]
        at = np.where(end[left] > 0, np.minimum(at, end[left]), np.maximum(at, end[left]))
        value, slack = loss(at)
        proved = rising * (value - eps[left]) > slack
        found[left[proved]] = at[proved]
        left = left[~proved & (at != end[left])]
        if not len(left):
            break
        width[left] *= 2
    return found


def half_line_delta(
    loss: Loss, beyond: Beyond, eps: FloatArray, rising: float, big: FloatArray, *, guess: Guess | None = None
) -> tuple[FloatArray, FloatArray]:
    """Bounds on delta at each eps; rising = 1 where the loss grows with u, -1 where it falls.

    Where e^eps is no float, the lower one is max_t (1 - e^{-t}) P(L > eps + t), for e^eps Q <= e^{-t} P of L > eps + t.
    """
    a, b = threshold(loss, eps, rising, big, guess and guess(eps))
    near, far = (a, b) if rising > 0 else (b, a)
    p_far, q_far, wobble = beyond(far)
    p_near, _, wobble_near = beyond(near)
    odds = np.exp(np.minimum(eps, LARGEST))
    error = np.maximum(wobble, wobble_near) + 2 * ELEMENTARY + 2 * U * np.abs(eps)
    surely = odds * np.maximum(q_far * (1 - error) - LOST, 0.0)
    floor = -np.expm1(np.minimum(eps, 0.0)) * (1 - 2 * ELEMENTARY)
    near_eps = p_far * (1 - error) - odds * q_far * (1 + error) - LOST * (1 + odds)
    lower = np.maximum(np.where(eps < LARGEST, near_eps, 0.0), floor)
    for t in FARTHER if np.any(eps >= LARGEST) else ():
        a, b = threshold(loss, eps + t, rising, big, guess and guess(eps + t))
        tail, _, wobble_tail = beyond(b if rising > 0 else a)
        there = -math.expm1(-t) * tail * (1 - np.minimum(wobble_tail + 4 * ELEMENTARY, 1.0)) - LOST
        lower = np.where(eps >= LARGEST, np.maximum(lower, there), lower)
    return lower, np.minimum(np.maximum(p_near * (1 + error) + LOST - surely, lower), 1.0)
