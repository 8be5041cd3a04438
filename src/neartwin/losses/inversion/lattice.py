"""The contour for losses on a lattice start + h Z: one period of frequencies holds everything (K9).

Randomized response, (eps, delta) pairs and everything else on a lattice compose exactly here. Errors are aliases (K4),
rounding (K6) and the middle of the period where it is skipped (K10). Where two atoms at logarithms make the lattice, (K11)
moves eps by `lattice_error`. Equations: docs/proofs/losses-contour.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion import contour
from neartwin.losses.inversion.contour import TOLERANCE, Alias, Bounds, ContourRule
from neartwin.losses.inversion.total import Saddle, SumOfLosses
from neartwin.losses.summands.base import Lattice
from neartwin.losses.summands.rounding import ELEMENTARY, ComplexArray, NoCertificateError, U, gamma, moved_by


def one_minus_exp(s: ComplexArray, step: float) -> ComplexArray:
    """1 - e^{-s step}, each part without cancellation.

    Args:
        s: Points of the line, (frequencies,).
        step: The lattice's step.
    """
    x, y = s.real * step, s.imag * step
    versine = 2 * np.square(np.sin(0.5 * y))
    decay = np.exp(-x)
    result: ComplexArray = (-np.expm1(-x) + decay * versine) + 1j * (decay * np.sin(y))
    return result


@dataclass(frozen=True)
class Periodic(ContourRule):
    """Half a period of frequencies, ready to answer every eps near its saddle."""

    saddle: Saddle
    lattice: Lattice
    t: FloatArray
    weight: FloatArray
    log_line: ComplexArray
    line_error: FloatArray
    poles: ComplexArray  # 1/(1 - e^{-sh}) and 1/(1 - e^{-(s+1)h}), (2, nodes)
    log_scale: float
    scale_error: float
    alias: Alias
    cut: float
    lattice_error: float

    @property
    def nodes(self) -> int:
        """How many frequencies."""
        return len(self.t)

    def _next(self, eps: FloatArray) -> FloatArray:
        """The first lattice point above each eps, correctly rounded."""
        start, step = self.lattice
        points = [start + step * (math.floor((Fraction(float(e)) - start) / step) + 1) for e in eps]
        return np.array([float(point) for point in points])

    def _sums(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """The two sums, their errors together, and the scale e^{K - tilt l}, with its relative error."""
        tilt, point = self.saddle.tilt, self._next(eps)
        below = np.exp(np.minimum(eps - point, 0.0))
        turn = np.multiply.outer(point, self.t)
        one = np.exp(self.log_line - 1j * turn) * self.weight
        own = self.line_error + 40 * U + 12 * U * np.abs(turn) + 2 * U * np.abs(self.log_line.imag)
        # below errs relatively by the rounding of eps - point, which is absolute in its exponent
        shift = 4 * U * (np.abs(eps) + np.abs(point))
        size = np.abs(one)
        moved = moved_by(self.log_line.real, own) * self.weight + size * (gamma(len(self.t)) + 2 * ELEMENTARY)
        error = moved @ np.abs(self.poles[0]) + below * ((moved + size * shift[:, None]) @ np.abs(self.poles[1]))
        high = (one * self.poles[0]).real.sum(axis=1)
        low = (one * self.poles[1]).real.sum(axis=1) * below
        log_scale = self.log_scale - tilt * point
        scale_error = self.scale_error + 6 * U * (abs(self.log_scale) + tilt * np.abs(point)) + 32 * U
        return high, low, error, log_scale, scale_error

    def bounds(self, eps: FloatArray) -> Bounds:
        """The bounds."""
        if not self.lattice_error:
            return self._bounds(eps)
        low, _ = self._bounds(np.nextafter(eps + self.lattice_error, np.inf))
        _, high = self._bounds(np.nextafter(eps - self.lattice_error, -np.inf))
        return low, high

    def _bounds(self, eps: FloatArray) -> Bounds:
        high, low, error, log_scale, scale_error = self._sums(eps)
        scale = np.exp(np.minimum(log_scale, 700.0))
        alias = np.exp(np.minimum(self.alias.log_bound(eps), 700.0))
        value = high - low
        upper = (value + error + self.cut) * scale * (1 + np.expm1(scale_error))
        lower = np.maximum(np.maximum(value - error - self.cut, 0.0) * scale * (1 - scale_error) - alias, 0.0)
        return lower, np.minimum(np.maximum(upper, 0.0), 1.0)

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """Delta and -d delta/d eps, uncertified."""
        high, low, _, log_scale, _ = self._sums(np.array([eps]))
        scale = math.exp(min(float(log_scale[0]), 700.0))
        return float(high[0] - low[0]) * scale, float(low[0]) * scale


@np.errstate(all="ignore")  # what overflows is no number, and no number proves nothing
def build(total: SumOfLosses, saddle: Saddle) -> Periodic:
    """A certified period.

    Args:
        total: The sum.
        saddle: Its saddle.

    Raises:
        NoCertificateError: The losses share no lattice, or one too fine.
    """
    lattice = total.lattice
    if lattice is None:
        raise NoCertificateError
    tilt, step = saddle.tilt, float(lattice.step)
    scale, scale_error = total.log_mgf(tilt)
    if not math.isfinite(scale):
        raise NoCertificateError
    wide = saddle._replace(deviation=max(saddle.deviation, step))
    log_goal = saddle.log_delta + math.log(TOLERANCE)
    alias = contour.find_alias(total, wide, log_goal)
    size = math.ceil(alias.period / step) + 1
    size += size % 2
    half = size // 2
    grow = -math.log(-math.expm1(-tilt * step)) - math.log(-math.expm1(-(tilt + 1) * step)) + 1.0
    frequency, relative_goal = 2 * math.pi / (size * step), log_goal - scale + tilt * saddle.eps
    nodes, cut = _cut(total, tilt, frequency, half, relative_goal - grow)
    if nodes > contour.MOST_NODES:
        raise NoCertificateError

    def poles(t: FloatArray) -> ComplexArray:
        return 1 / one_minus_exp(np.array([[tilt], [tilt + 1]]) + 1j * t, step)

    def kernel(t: FloatArray) -> FloatArray:  # falling, for sin(th/2) rises to the middle of the period
        result: FloatArray = np.add.reduce(np.abs(poles(t))) * (2 / size * (1 + 1e-9))
        return result

    t, negligible = contour.significant_frequencies(total, tilt, frequency, nodes, kernel, log_goal=relative_goal)
    k = np.rint(t / frequency)
    line, error = total.log_mgf_ratio(tilt, t)
    return Periodic(
        saddle=saddle,
        lattice=lattice,
        t=t,
        weight=np.where((k == 0) | (k == half), 1.0, 2.0) / size,
        log_line=line,
        line_error=error,
        poles=poles(t),
        log_scale=scale,
        scale_error=scale_error,
        alias=alias._replace(period=size * step * (1 - 8 * U)),
        cut=(math.exp(cut + grow) if nodes < half else 0.0) + negligible,
        lattice_error=total.lattice_error,
    )


def _cut(total: SumOfLosses, tilt: float, frequency: float, half: int, log_goal: float) -> tuple[int, float]:
    """How many nodes suffice, and the log of B(T) at the last."""
    until = frequency * half * (1 + 8 * U)
    nodes = 16
    while nodes < half:
        tail = sum(part.log_tail(tilt, nodes * frequency, until) for part in total.summands)
        if tail < log_goal:
            return nodes, tail
        nodes = int(nodes * 1.3)
    return half, -math.inf
