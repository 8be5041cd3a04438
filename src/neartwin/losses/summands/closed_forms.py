"""One step of a mechanism whose loss is monotone in one real answer u: the hockey-stick by its half-line.

{L > eps} is a half-line, so delta(eps) = P(half-line) - e^eps Q(half-line), a formula in balls with exact parameters.
Whatever else has its delta as a ball is inverted alike.

And the delta of a Gaussian pair at an epsilon, with the rounding of its float arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from neartwin import balls
from neartwin.exact import FloatArray
from neartwin.losses.summands.rounding import ELEMENTARY, U
from neartwin.special import erfcx, ndtr

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


ROOT_HALF_PI = math.sqrt(math.pi / 2)


def gaussian_delta(mu: float, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds on Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), the hockey-stick of N(mu, 1) and N(0, 1).

    With a = eps/mu - mu/2, b = a + mu and Mills' ratio m: delta = phi(a)(m(a) - m(b)) because e^eps phi(b) = phi(a).

    Errors. The argument a errs by 4U(|eps|/mu + mu) =: da, so phi(a) by the factor |a|da + da^2. The logarithmic
    derivative of m lies in (-min(1, 1/a), 0) for a > 0, so m(a) errs by at most da; b likewise. For a < -1 it is
    Phi(-a) - e^eps Phi(-b) with the same errors. There |d log Phi(-a)/da| <= 1 for a <= 0 and <= b + 1 for b > 0, and
    eps errs by U|eps|.

    Args:
        mu: Above 0.
        eps: Finite, (n,).
    """
    a, b = eps / mu - mu / 2, eps / mu + mu / 2
    shift = 4 * U * (np.abs(eps) / mu + mu)
    far = a < -1
    if not far.any():
        return _bounds(*_beside(a, b, shift))
    x, y = np.where(far, 0.0, a), np.where(far, 0.0, b)
    near_value, near_error = _beside(x, y, shift)
    p = ndtr(np.where(far, -a, 0.0))
    with np.errstate(over="ignore"):
        q = np.exp(np.where(far, np.minimum(eps, 700.0), 0.0)) * ndtr(np.where(far, -b, 0.0))
    q_error = q * (3 * ELEMENTARY + 2 * U * np.abs(eps) + (np.maximum(b, 0) + 2) * shift + b * b * 2 * U)
    far_error = p * (2 * ELEMENTARY + 2 * shift) + q_error
    return _bounds(np.where(far, p - q, near_value), np.where(far, far_error, near_error))


def _beside(a: FloatArray, b: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
    """phi(a)(m(a) - m(b)) and its error, for a >= -1."""
    density = np.exp(-0.5 * a * a) / math.sqrt(2 * math.pi)
    m_a, m_b = ROOT_HALF_PI * erfcx(a / math.sqrt(2)), ROOT_HALF_PI * erfcx(b / math.sqrt(2))
    return density * (m_a - m_b), density * (m_a + m_b) * (3 * ELEMENTARY + (np.abs(a) + 2) * shift + a * a * 2 * U)


def _bounds(value: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    error = error + 1e-320
    return np.maximum(value - error, 0.0), np.minimum(value + error, 1.0)
