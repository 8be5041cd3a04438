"""Closed forms: one summand whose delta is a formula, asked for delta or, by a root or a bisection, for eps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion.contour import Bounds
from neartwin.losses.inversion.contour_search import CLOSED, Answer, ends
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.rounding import NoCertificateError

Booleans = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
SHARES, ROUNDS = np.arange(1, 32) / 32, 14  # of a bracket, places asked at once; 32^14 = 2^70


def closed_form(total: SumOfLosses, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """The closed form of the finite part, if the sum is one summand that has it.

    Args:
        total: The sum.
        eps: Finite, (n,).
    """
    result = total.summands[0].delta(eps) if len(total.summands) == 1 else None
    if result is None:
        return None
    beyond = eps >= total.top.loss
    return np.where(beyond, 0.0, result[0]), np.where(beyond, 0.0, result[1])


def by_closed_form(total: SumOfLosses, low_target: float, high_target: float) -> Answer:
    """A root or a bisection between two eps that bracket, then the certified ends.

    Args:
        total: A sum whose delta is a formula.
        low_target: Delta at the lower end is at least this.
        high_target: Delta at the upper end is at most this.
    """
    formula = total.summands[0].inverse(high_target, low_target)
    if formula is not None:
        return Answer(formula[0], formula[1], CLOSED, formula[2])

    def bounds(eps: FloatArray) -> Bounds:
        result = closed_form(total, eps)
        if result is None:
            raise NoCertificateError
        return *result, {"rounding": (result[1] - result[0]) / 2}

    guess = total.summands[0].root(high_target)
    if guess is not None:
        lower, upper, errors = ends(bounds, *guess, low_target, high_target)
        if math.isfinite(lower) and math.isfinite(upper):
            return Answer(lower, upper, CLOSED, errors)

    def more(eps: FloatArray | float) -> Booleans:
        return bounds(np.atleast_1d(eps))[0] >= low_target

    def not_less(eps: FloatArray | float) -> Booleans:
        return bounds(np.atleast_1d(eps))[1] > high_target

    low, high = -1.0, 1.0
    while not_less(high) and high < 1e12:
        low, high = high, 2 * high
    while not more(low) and low > -1e3:
        low = low / 2 if low > 1 else min(-1.0, 2 * low)
    lower, upper = _last(low, high, more)[0], _last(low, high, not_less)[1]
    rounding = float(bounds(np.array([upper]))[2]["rounding"][0])
    return Answer(lower, math.inf if not_less(upper) else upper, CLOSED, {"rounding": rounding})


def _last(low: float, high: float, holds: Callable[[FloatArray], Booleans]) -> tuple[float, float]:
    """Neighbouring floats or nearly, the first of which holds and the second not.

    Args:
        low: Where it holds.
        high: Where it does not.
        holds: Whether it does at each eps.
    """
    for _ in range(ROUNDS):
        places = np.append(low + (high - low) * SHARES, high)
        first = int(np.argmin(np.append(holds(places[:-1]), False)))  # that does not hold
        low, high = float(np.append(low, places)[first]), float(places[first])
    return low, high
