"""Closed forms: one summand whose delta is a formula, asked for delta or, by a root or a bisection, for eps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion.contour import ContourRule
from neartwin.losses.inversion.contour_search import CLOSED, Answer, ends, invert
from neartwin.losses.inversion.saddle import Saddle
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.rounding import NoCertificateError


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


@dataclass(frozen=True)
class Closed(ContourRule):
    """A closed form dressed as a line, for Newton and the certified ends."""

    total: SumOfLosses

    def bounds_with_errors(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """The formula errs by rounding alone."""
        result = closed_form(self.total, eps)
        if result is None:
            raise NoCertificateError
        return *result, {"rounding": (result[1] - result[0]) / 2}

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """The formula, and its slope from a difference."""
        step = 1e-6 * (abs(eps) + 1e-3)
        lower, upper = self.delta(np.array([eps - step, eps, eps + step]))
        values = 0.5 * (lower + upper)
        return float(values[1]), float((values[0] - values[2]) / (2 * step))


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
    line = Closed(total)
    guess = total.summands[0].root(high_target)
    if guess is not None:
        lower, upper, errors = ends(line, *guess, low_target, high_target)
        if math.isfinite(lower) and math.isfinite(upper):
            return Answer(lower, upper, CLOSED, errors)
    low, high = -1.0, 1.0
    while line.delta(np.array([high]))[1][0] > high_target and high < 1e12:
        low, high = high, 2 * high
    while line.delta(np.array([low]))[0][0] < low_target and low > -1e3:
        low = low / 2 if low > 1 else min(-1.0, 2 * low)
    top = high
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if line.delta(np.array([middle]))[0][0] >= low_target else (low, middle)
    at = Saddle(2 / (high - low), 0.5 * (low + high), (high - low) / 2, math.log(high_target))
    answer, _ = invert(line, at, low_target, high_target, name=CLOSED)
    if math.isfinite(answer.upper):
        return answer
    return answer._replace(lower=low, upper=_least_above(line, low, top, high_target))


def _least_above(line: Closed, low: float, high: float, target: float) -> float:
    """About the least eps whose delta is certainly at most the target, by bisection; inf where not even `high` is one."""
    if line.delta(np.array([high]))[1][0] > target:
        return math.inf
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if line.delta(np.array([middle]))[1][0] <= target else (middle, high)
    return high
