r"""Near the largest loss: exact sums over how many copies are off their own largest loss.

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
from neartwin.losses.answer import CLOSED, Answer
from neartwin.losses.inversion import ends
from neartwin.losses.loss import Peak
from neartwin.losses.rounding import ELEMENTARY, NoCertificateError, U
from neartwin.losses.total import Total

RELATIVE = 6 * ELEMENTARY


class Extremes:
    """The line of the sums above; valid at every eps, narrow near the largest loss."""

    def __init__(self, total: Total) -> None:
        """total: whose summands all have a peak, else `NoCertificateError`."""
        self.peaks: list[Peak] = []
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

    def ledger(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """What more than one copy off its top may add is the only error but rounding."""
        lower, upper = self.delta(eps)
        return lower, upper, {"two off the top": upper - lower}

    def middle(self, eps: float) -> tuple[float, float]:
        """Between the bounds, and its fall by a difference."""
        step = 1e-4 * max(self.low - eps, 1e-300)
        lower, upper = self.delta(np.array([eps - step, eps, eps + step]))
        values = 0.5 * (lower + upper)
        return float(values[1]), float((values[0] - values[2]) / (2 * step))


def by_extremes(total: Total, low_target: float, high_target: float) -> Answer:
    """Eps where delta meets the target, near the largest loss; `NoCertificateError` where no mass lies there."""
    line = Extremes(total)
    if not math.log(high_target) < line.log_mass:
        raise NoCertificateError
    share = high_target * math.exp(-line.log_mass)
    gap = -math.log1p(-share)  # with no copy off its top
    for _ in range(20):
        value, fall = line.middle(line.low - gap)
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
