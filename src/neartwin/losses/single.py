"""One step of a mechanism whose loss is monotone in one real answer u: the hockey-stick by its half-line.

{L > eps} is a half-line from its threshold, so delta(eps) = P(half-line) - e^eps Q(half-line). With a <= threshold
<= b: the value at any point is a lower bound (a test like any other), and P(beyond a) - e^eps Q(beyond b) an upper
one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.rounding import ELEMENTARY, U

HALVINGS = 64
Loss = Callable[[FloatArray], tuple[FloatArray, FloatArray]]  # the loss at u and a bound on its error
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
    width = 1e-15 * (1 + np.abs(low))
    for _ in range(2 * HALVINGS):
        a, b = np.maximum(low - width, -big), np.minimum(high + width, big)
        (loss_a, slack_a), (loss_b, slack_b) = loss(a), loss(b)
        proved = (rising * (loss_a - eps) < -slack_a) | (a <= -big)
        proved &= (rising * (loss_b - eps) > slack_b) | (b >= big)
        if np.all(proved):
            break
        width = np.where(proved, width, 2 * width)
    return np.where(a <= -big, -np.inf, a), np.where(b >= big, np.inf, b)


def half_line_delta(
    loss: Loss, beyond: Beyond, eps: FloatArray, rising: float, big: FloatArray, *, guess: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Bounds on delta at each eps; rising = 1 where the loss grows with u, -1 where it falls."""
    a, b = threshold(loss, eps, rising, big, guess)
    near, far = (a, b) if rising > 0 else (b, a)
    p_far, q_far, wobble = beyond(far)
    p_near, _, wobble_near = beyond(near)
    odds = np.exp(np.minimum(eps, 709.0)) * (q_far > 0)
    error = (p_near + odds * q_far) * (np.maximum(wobble, wobble_near) + 2 * ELEMENTARY + 2 * U * np.abs(eps))
    floor = -np.expm1(np.minimum(eps, 0.0)) * (1 - 2 * ELEMENTARY)
    lower = np.maximum(p_far - odds * q_far - error, floor)
    return lower, np.minimum(np.maximum(p_near - odds * q_far + error, lower), 1.0)
