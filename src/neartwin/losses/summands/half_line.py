"""One step of a mechanism whose loss is monotone in one real answer u: the hockey-stick by its half-line.

{L > eps} is a half-line, so delta(eps) = P(half-line) - e^eps Q(half-line), a formula in balls with exact parameters.
Whatever else has its delta as a ball is inverted alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from neartwin import balls
from neartwin.exact import FloatArray

Step = Callable[[float], Any]  # delta at one eps, a ball, or an exact 0
Bracket = tuple[float, float]  # lower, upper


def half_line_delta(step: Step, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds on delta at each eps, floats that are neighbours.

    Args:
        step: Delta at one eps.
        eps: Finite, (n,).
    """
    result = np.array([balls.bounds(step, one) for one in eps.tolist()]).reshape(-1, 2)
    return np.clip(result[:, 0], 0.0, 1.0), np.clip(result[:, 1], 0.0, 1.0)


def half_line_epsilon(step: Step, low_delta: float, high_delta: float, most: float, least: float = 0) -> Bracket | None:
    """Bounds on the eps from `least` on at which delta lies between two floats.

    Args:
        step: Delta at one eps.
        low_delta: Least value of the wanted delta.
        high_delta: Largest value of the wanted delta.
        most: An eps that is known to be no less; infinite where none is a float, and nothing is returned.
        least: An eps that is known to be no greater.

    Returns:
        (lower, upper).
    """
    if not math.isfinite(most):
        return None

    def excess(eps: float, target: float) -> Any:
        ratio = balls.ball(step(eps)) / balls.ball(target)
        return ratio.log() if ratio > 0 else ratio - 1  # finite while the sign is open, so that more bits are tried

    lower, upper = balls.root(lambda eps: excess(eps, high_delta), least, most)
    if low_delta < high_delta:
        upper = balls.root(lambda eps: excess(eps, low_delta), least, most, upper)[1]
    return lower, upper
