"""Quick guesses of eps(delta), labelled as such: central limit, Edgeworth, saddle point. No theorem stands behind any of
them.

The loss L under P has the cumulants k1, k2, k3. Write z = (L - k1)/sqrt k2 and phi for the standard density.

- The central limit takes L ~ N(k1, k2). The DP-SGD budgets published so lie below the truth.
- Edgeworth takes the density phi(z) (1 + k3/(6 k2^1.5) (z^3 - 3z)), which may be negative in the tails.
- The saddle point takes the formula below at its saddle s.

    delta(eps) ~ e^{K(s) - s eps} / (s (s+1) sqrt(2 pi (K''(s) + 1/s^2 + 1/(s+1)^2)))

Sommer, Meiser, Mohammadi 2019; Wang et al. 2022 (Edgeworth); Alghamdi et al. 2023 (saddle point).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from neartwin.checks import made_of, open_probability
from neartwin.exact import Estimate, FloatArray, Number, rational
from neartwin.losses.composition import Composition
from neartwin.losses.inversion import saddle
from neartwin.losses.inversion.total import SumOfLosses

SMALL = 1e-4  # in units of the inverse deviation: where the derivatives at 0 are taken
REACH, CELLS = 40.0, 8001


def central_limit(composition: Composition, delta: Number) -> Estimate[float]:
    """Eps at delta as if the loss were normal; the larger of both directions. It may promise too much.

    Args:
        composition: The composition.
        delta: Strictly between 0 and 1.

    >>> from neartwin.losses import Gaussian
    >>> round(central_limit(4 * Gaussian(mu="0.5"), "1e-6").value, 3)  # a Gaussian's loss is normal
    4.887
    """
    return _greatest(composition, delta, lambda total, target: _solved(total, target, skew=False), "central limit")


def edgeworth(composition: Composition, delta: Number) -> Estimate[float]:
    """Eps at delta with the skewness of the loss; the larger of both directions. It may promise too much.

    Args:
        composition: The composition.
        delta: Strictly between 0 and 1.
    """
    return _greatest(
        composition, delta, lambda total, target: _solved(total, target, skew=True), "Edgeworth, first order"
    )


def saddle_point(composition: Composition, delta: Number) -> Estimate[float]:
    """Eps at delta by the saddle point of the moment generating function; the larger of both directions.

    Args:
        composition: The composition.
        delta: Strictly between 0 and 1.

    >>> from neartwin.losses import Laplace
    >>> abs(saddle_point(100 * Laplace(epsilon="0.1"), "1e-6").value - 4.692667) < 0.01
    True
    """
    return _greatest(
        composition, delta, lambda total, target: max(saddle.for_delta(total, target, 1e-9).eps, 0.0), "saddle point"
    )


def _greatest(
    composition: Composition, delta: Number, guess: Callable[[SumOfLosses, float], float], method: str
) -> Estimate[float]:
    composition = made_of(Composition, "a composition, such as 100 * Laplace(epsilon=0.1)", composition=composition)
    target = float(open_probability(delta=rational(delta=delta)))
    result = 0.0
    with np.errstate(all="ignore"):
        for side in composition.sides(None):
            if side.upper is None or not side.complete:
                return Estimate(math.inf, method, "nothing is known of a factor but its Renyi curve")
            rest = (target - side.upper.infinity[1]) / (1 - side.upper.infinity[1])
            result = max(result, guess(side.upper, rest) if rest > 0 else math.inf)
    return Estimate(result, method, "no bound; may lie below the truth")


def _solved(total: SumOfLosses, target: float, *, skew: bool) -> float:
    """Bisection of delta(eps) = sum of (1 - e^{eps - l})_+ over the approximate density."""
    deviation = math.sqrt(max(total.cumulants(1e-3)[2], 1e-300))
    step = SMALL / deviation
    (_, mean, variance), (_, _, ahead) = total.cumulants(step), total.cumulants(3 * step)
    third = (ahead - variance) / (2 * step)
    mean, deviation = mean - variance * step, math.sqrt(max(variance, 1e-300))
    z: FloatArray = np.linspace(-REACH, REACH, CELLS)
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    if skew:
        density = density * (1 + third / (6 * deviation**3) * (z**3 - 3 * z))
    loss = mean + deviation * z
    low, high = 0.0, max(mean + REACH * deviation, 0.0)
    if float(density @ np.maximum(-np.expm1(-loss), 0.0)) <= target:
        return 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        over = float(density @ np.maximum(-np.expm1(middle - loss), 0.0)) > target
        low, high = (middle, high) if over else (low, middle)
    return high
