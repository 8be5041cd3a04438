"""Closed forms: one summand whose delta is a formula, asked for delta or, by a root or a bisection, for eps.

Near the largest loss: exact sums over how many copies are off their own largest loss.

Let copies i = 1, ..., N have largest losses l_i, each an atom of mass m_i, T = sum l_i, M = prod m_i and g = T - eps >= 0. A sum
above eps leaves every L_i above l_i - g. With w_i = P(l_i - g < L_i < l_i) and b_i = E[(1 - e^{l_i - g - L_i})_+; L_i < l_i],

    no copy off its top   M (1 - e^{-g})
    one copy              sum_i (M/m_i) b_i          the others at their tops ask L_i > l_i - g;  0 <= b_i <= w_i (1 - e^{-g})
    two or more           between 0 and M (1 - e^{-g}) (e^x - 1 - x), x = sum_i w_i/m_i:

the probability that exactly the copies of a set S are off and the sum is above eps is at most M prod_S w_i/m_i, these sum to
M prod (1 + w_i/m_i) <= M e^x over all S, and 1 - e^{eps - L} <= 1 - e^{-g}. The error is third order in g: deltas far below M
have eps to the last digits, where no contour can follow a density so near to an atom.

Rounding: T lies in [`low`, `high`], g between eps's distances to both, and every term grows with g; M errs by the stated error
of its logarithm, b_i and w_i are rounded outward by the families; e^x - 1 - x <= x^2 e^x / 2; RELATIVE covers the dozen products.
"""

from __future__ import annotations

import math

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion.answer import CLOSED, Answer
from neartwin.losses.inversion.root import ends, invert
from neartwin.losses.inversion.saddle import Saddle
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.base import MaximumAtom
from neartwin.losses.summands.rounding import ELEMENTARY, NoCertificateError, U


def closed_form(total: SumOfLosses, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """The closed form of the finite part, where the whole is one summand that has it."""
    found = total.summands[0].delta(eps) if len(total.summands) == 1 else None
    if found is None:
        return None
    beyond = eps >= total.top.loss
    return np.where(beyond, 0.0, found[0]), np.where(beyond, 0.0, found[1])


class Closed:
    """A closed form dressed as a line, for Newton and the certified ends."""

    def __init__(self, total: SumOfLosses) -> None:
        """total: whose delta is a formula."""
        self.total = total

    @property
    def nodes(self) -> int:
        """None is needed."""
        return 1

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The formula."""
        found = closed_form(self.total, eps)
        if found is None:
            raise NoCertificateError
        return found

    def bounds_with_errors(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """The formula errs by rounding alone."""
        lower, upper = self.delta(eps)
        return lower, upper, {"rounding": (upper - lower) / 2}

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """By a difference."""
        step = 1e-6 * (abs(eps) + 1e-3)
        lower, upper = self.delta(np.array([eps - step, eps, eps + step]))
        values = 0.5 * (lower + upper)
        return float(values[1]), float((values[0] - values[2]) / (2 * step))


def by_closed_form(total: SumOfLosses, low_target: float, high_target: float) -> Answer:
    """A root or a bisection between two eps that bracket, then the certified ends."""
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
    (lower, upper, errors), _, _ = invert(line, at, low_target, high_target)
    if not math.isfinite(upper):
        lower, upper = low, _least_above(line, low, top, high_target)
    return Answer(lower, upper, CLOSED, errors)


def _least_above(line: Closed, low: float, high: float, target: float) -> float:
    """About the least eps whose delta is certainly at most the target, by bisection; inf where not even `high` is one."""
    if line.delta(np.array([high]))[1][0] > target:
        return math.inf
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if line.delta(np.array([middle]))[1][0] <= target else (middle, high)
    return high


RELATIVE = 6 * ELEMENTARY


class Extremes:
    """The line of the sums above; valid at every eps, narrow near the largest loss."""

    def __init__(self, total: SumOfLosses) -> None:
        """total: whose summands all have a peak, else `NoCertificateError`."""
        self.peaks: list[MaximumAtom] = []
        for part in total.summands:
            found = part.peaks()
            if not found:
                raise NoCertificateError
            self.peaks += found
        self.high = total.top.loss
        slack = sum(peak.copies * peak.loss_error for peak in self.peaks)
        size = sum(peak.copies * abs(peak.loss) for peak in self.peaks)
        exact = math.fsum(peak.copies * peak.loss for peak in self.peaks)
        self.low = min(exact - slack * (1 + 8 * U) - 4 * U * (size + abs(exact)), self.high)
        self.log_mass = math.fsum(peak.copies * peak.log_mass for peak in self.peaks)
        self.mass_error = sum(peak.copies * (peak.log_error + 2 * U * abs(peak.log_mass)) for peak in self.peaks)
        if not self.log_mass > -690:
            raise NoCertificateError

    @property
    def nodes(self) -> int:
        """None is needed."""
        return 1

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on the finite part of delta at each eps."""
        far, near = (np.maximum(end - eps, 0.0) * (1 + side * U) for end, side in ((self.high, 1), (self.low, -1)))
        most, least = -np.expm1(-far), -np.expm1(-near)
        one_low, one_high, x = np.zeros((3, len(eps)))
        for peak in self.peaks:
            over = peak.copies * math.exp(-peak.log_mass)  # times n/m
            x += over * peak.within(far)
            one_low += over * peak.beside(near)[0]
            one_high += over * np.minimum(peak.beside(far)[1], peak.within(far) * most)
        more = most * np.where(x < 600, 0.5 * np.square(x) * np.exp(np.minimum(x, 600.0)), np.inf)
        mass = math.exp(self.log_mass)
        lower = mass * (least + one_low) * (1 - self.mass_error - RELATIVE)
        upper = mass * (most + one_high + more) * (1 + np.expm1(self.mass_error) + RELATIVE)
        return np.maximum(lower, 0.0), np.where(upper < 1, upper, 1.0)

    def bounds_with_errors(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """What more than one copy off its top may add is the only error but rounding."""
        lower, upper = self.delta(eps)
        return lower, upper, {"two off the top": upper - lower}

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """Between the bounds, and its fall by a difference."""
        step = 1e-4 * max(self.low - eps, 1e-300)
        lower, upper = self.delta(np.array([eps - step, eps, eps + step]))
        values = 0.5 * (lower + upper)
        return float(values[1]), float((values[0] - values[2]) / (2 * step))


def by_extremes(total: SumOfLosses, low_target: float, high_target: float) -> Answer:
    """Eps where delta meets the target, near the largest loss; `NoCertificateError` where no mass lies there."""
    line = Extremes(total)
    if not math.log(high_target) < line.log_mass:
        raise NoCertificateError
    share = high_target * math.exp(-line.log_mass)
    gap = -math.log1p(-share)  # with no copy off its top
    for _ in range(20):
        value, fall = line.point_estimate(line.low - gap)
        if not (value > 0 and fall > 0 and math.isfinite(value)):
            raise NoCertificateError
        gap, last = min(max(gap - (value - high_target) / fall, 0.5 * gap), 2 * gap), gap
        if abs(gap - last) < 1e-13 * gap:
            break
    eps = line.low - gap
    slope = fall / value
    lower, upper, errors = ends(line, eps, slope, low_target, high_target)
    if not math.isfinite(upper):
        raise NoCertificateError
    return Answer(lower, upper, CLOSED, errors)
