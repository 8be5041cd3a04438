"""The Laplace mechanism on a Poisson sample, both directions of add/remove, and replace-one.

Noise of scale 1, e = sensitivity/scale. The loss has two atoms and a ramp, whose quadrature errs by (S8). A ramp's transform
falls along a line by (S9), an atom's does not. Equations: docs/proofs/losses-sampled.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from neartwin import balls
from neartwin.checks import in_floats, sampling_rate
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.families.laplace import LaplacePair
from neartwin.losses.families.subsampled_gaussian import log_mixed
from neartwin.losses.summands.atoms import Layout, QuadratureSum, Weighted
from neartwin.losses.summands.base import Direction, MaximumLoss, Pair, Summand
from neartwin.losses.summands.closed_forms import half_line_delta, half_line_epsilon
from neartwin.losses.summands.rounding import ELEMENTARY, NoCertificateError, U

POINTS = 16
MOST_PANELS = 1 << 15
FEW = 32  # panels at which a bound is evaluated; the others lie between
RHO = np.array([1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0])


@cache
def legendre() -> tuple[FloatArray, FloatArray]:
    """Points and weights on [-1, 1]; NumPy's are within 8U and, relative, 256U (the tests measure)."""
    points, weights = np.polynomial.legendre.leggauss(POINTS)
    return points, weights


class SubsampledLaplaceSum(QuadratureSum):
    """`count` steps of one direction."""

    def __init__(self, rate: Fraction, q: Fraction, count: int, direction: Direction) -> None:
        """rate: e; q: the sampling probability, strictly between 0 and 1."""
        self.e, self.q, self.count = float(rate), float(q), count
        self.exact = (rate, q)
        self.direction: Direction = "replace" if direction == "replace_back" else direction
        self._goal = math.log(2.0**-58 / count)
        self.variation = min(count * self.q * (1 + 4 * U), 1.0)  # P and Q are equal unless the unit takes part
        self._found = Layout(-1.0, -1.0, 0.0, 0, 0.0, (0.0, 0.0), 0.0)  # the last
        values, errors = self.log_r(np.array([self.e, -self.e]))
        (high, low), (high_error, low_error) = self._ends = values.tolist(), errors.tolist()  # of log r
        end, error = {
            "remove": (high, high_error),
            "add": (-low, low_error),
            "replace": (high - low, high_error + low_error),
        }[self.direction]
        share = 0.5 if self.direction == "add" else 0.5 * math.exp(high - self.e)
        self._largest, self._largest_error = float(end), float(error) + 4 * U * float(end)
        self._share = math.log(share)
        log_mass = count * self._share
        mass = math.exp(log_mass) * (1 - 1e-10) if log_mass > -600 else 0.0
        most, least = (self._largest + sign * self._largest_error for sign in (1, -1))
        self.top = MaximumLoss(count * most * (1 + 4 * U), mass, count * least * (1 - 4 * U))
        # for each ramp in its own y in (0, e): power of r(y) apart from tilt, its tilt part, rest, rest tilt
        self._ramps: tuple[tuple[float, float, float, float], ...] = {
            "remove": ((1.0, 1.0, 0.0, 0.0),),
            "add": ((0.0, -1.0, 0.0, 0.0),),
            "replace": ((1.0, 1.0, 0.0, -low), (0.0, -1.0, low, low)),
        }[self.direction]

    def log_r(self, l: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log(1 - q + q e^l), and its error: l errs by 4U(|l| + e), q by U."""
        return log_mixed(l, 4 * U * (np.abs(l) + self.e), self.q)

    def _panel_error(self, tilt: float, reach: float, panels: int) -> float:
        """Log of (S8) for all panels of all ramps together over M(tilt), the best of a few ellipses; grows with reach."""
        w = self.e / (2 * panels)
        rho = RHO[w * (RHO - 1 / RHO) < math.pi / 2]
        theta = w * (rho - 1 / rho)
        shift = w * (rho + 1 / rho) / 2
        centre = w * (2 * np.arange(panels) + 1)[:, None]
        if panels > FEW:  # one of each group, its ellipse enlarged to hold those of all: every bound is monotone in x
            centre = centre[:: panels // FEW]
            shift = shift + w * (panels // FEW) * 2
        high, low = (np.minimum(2 * (centre + sign * shift) - self.e, 600.0) for sign in (1, -1))
        log_high = np.log1p(self.q * np.expm1(high))
        log_low = np.log1p(self.q * np.expm1(low)) + np.log(np.cos(theta / 2))
        grown = self.q * np.exp(high)
        turn = np.arctan2(grown * np.sin(theta), 1 - self.q + grown * np.cos(theta))
        factor = math.log(32 / 15 * w) - (2 * POINTS - 2) * np.log(rho) - np.log1p(-(rho**-2.0))
        total = np.full(len(rho), -math.inf)
        for power, tilted_law, rest, rest_tilt in self._ramps:
            a = power + tilted_law * tilt
            log = (
                factor
                + rest
                + tilt * rest_tilt
                - (centre - shift)
                + a * (log_high if a > 0 else log_low)
                + reach * turn
            )
            total = np.logaddexp(total, log.max(axis=0) + math.log(panels))
        # K(tilt) is at least 0 (Jensen), and at least what the atom of the largest loss says
        return float(total.min(initial=math.inf)) - max(0.0, self._share + tilt * self._largest) * (1 - 1e-12)

    def layout(self, low: float, high: float, reach: float) -> Layout:
        """A power of two of panels; half as many prove too little, at this reach as at any longer one."""
        if self._found.high == high and self._found.reach == reach:
            return self._found
        panels = 1
        if self._found.high == high and self._found.reach < reach:
            panels = round(2 * self.e / self._found.step)
        while (error := self._panel_error(high, reach, panels)) > self._goal:
            panels *= 2
            if panels > MOST_PANELS:
                raise NoCertificateError
        ends = (-self.e, self.e)
        size = POINTS * panels * len(self._ramps) + 2
        self._found = Layout(low, high, reach, size, 2 * self.e / panels, ends, error)
        return self._found

    def nodes(self, layout: Layout) -> tuple[FloatArray, Weighted]:
        """Both atoms and the panels."""
        panels = round(2 * self.e / layout.step)
        points, weights = legendre()
        w = self.e / (2 * panels)
        y = (w * (2 * np.arange(panels)[:, None] + 1) + w * points).ravel()
        log_weight = np.log(np.tile(weights * (0.5 * w), panels)) - y
        plus, error = self.log_r(2 * y - self.e)
        (top, low), (top_error, low_error) = self._ends
        half, far = math.log(0.5), math.log(0.5) - self.e
        law = {  # losses, log P-masses: below the ramp, above it, on it
            "remove": ([low, top, *plus], [half + low, far + top, *(log_weight + plus)]),
            "add": ([-low, -top, *(-plus)], [half, far, *log_weight]),
            "replace": (
                [low - top, top - low, *(plus - low), *(low - plus)],
                [far + low, far + top, *(log_weight + plus), *(log_weight + low)],
            ),
        }[self.direction]
        losses, log_masses = (np.array(part) for part in law)
        copies = 2 if self.direction == "replace" else 1
        errors = np.concatenate([[low_error + top_error] * 2, np.tile(error, copies)]) + low_error * (copies - 1)
        mass_error = 256 * U + 6 * ELEMENTARY + errors + 4 * U * (np.abs(log_masses) + self.e)
        law_here = Weighted(losses, log_masses, mass_error, errors)
        return losses, replace(law_here, outside=4 * math.exp(layout.log_error))

    def apart(self, tilt: float) -> tuple[float, float]:
        """(a, c): on the line of tilt the atoms have a transform of at most a M(tilt), the ramps of at most c M(tilt)/t."""
        tilted = self._nodes(tilt, 0.0).tilted(tilt)
        (top, low), _ = self._ends
        ramps, fall = 0.0, math.exp(-3 * self.e)
        for power, tilted_law, rest, rest_tilt in self._ramps:
            a = 1 + power + tilted_law * tilt
            first, last = math.exp(a * low - tilted.log_mgf), math.exp(a * top - tilted.log_mgf)
            variation = max(first, last) * (1 - fall) + abs(last - first)
            constant = math.exp(self.e + rest + tilt * rest_tilt) / (4 * self.q)
            ramps += constant * (first + last * fall + variation)
        atoms = float(tilted.shifted.weights[:2].sum())
        return atoms * (1 + 1e-9) + 4 * tilted.weighted.outside, ramps * (1 + 1e-9)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """Atoms keep their share, ramps fall like 1/t (S9)."""
        if t <= 0:
            return 0.0
        atoms, ramps = self.apart(tilt)
        return self.count * math.log(min(atoms + ramps / t, 1.0)) * (1 - 1e-12)

    # -- one step -----------------------------------------------------------------------------------------------------
    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """One step, by its half-line."""
        return half_line_delta(self._one_step, eps) if self.count == 1 else None

    def inverse(self, low_delta: float, high_delta: float) -> tuple[float, float] | None:
        """One step, by its half-line."""
        return half_line_epsilon(self._one_step, low_delta, high_delta, 1.01 * self.top.loss)

    def _one_step(self, eps: float) -> Any:
        """Delta of one step at one eps, a ball.

        The threshold x of {L > eps} has r(x) = e^{+-eps} = 1 - q + v, or r(|x|) = e^{|eps|} r(0) under replace. Beyond 0 and e no
        loss changes.
        """
        (e, q), level = map(balls.ball, self.exact), balls.ball(eps)
        if self.direction == "replace":
            v = abs(level).expm1() * (1 + q * (-e).expm1()) + q * (-e).exp()
        else:
            v = (level if self.direction == "remove" else -level).expm1() + q
        l = -e if v <= 0 else (v / q).log()
        if l >= e:
            return 0 if self.direction != "add" and eps > 0 else -level.expm1()
        if l <= -e and self.direction != "replace":
            return 0 if self.direction == "add" else -level.expm1()
        x = (e + l) / 2
        here, there = (-x).exp() / 2, (x - e).exp() / 2
        if self.direction == "remove":
            return q * (1 - there) - v * here
        if self.direction == "add":
            return level.exp() * (v * (1 - here) - q * there)
        away = (-x - e).exp() / 2  # of the record that became its opposite
        if eps >= 0:
            return q * (1 - there - level.exp() * away) - (1 - q) * level.expm1() * here
        return q * (1 - away - level.exp() * there) - (1 - q) * level.expm1() * (1 - here)


@dataclass(frozen=True, slots=True)
class SubsampledLaplacePair(Pair):
    """One step in one direction."""

    rate: Fraction
    q: Fraction
    direction: Direction

    def repeated(self, count: int) -> Summand:
        """The composition."""
        return SubsampledLaplaceSum(self.rate, self.q, count, self.direction)


@dataclass(frozen=True, slots=True, init=False)
class SubsampledLaplace(PrivacyLoss):
    """The Laplace mechanism on a Poisson sample: each unit takes part with probability `rate`, independently.

    epsilon: sensitivity over scale of the mechanism on the sample; under replace-one the unit moves from
    +sensitivity to -sensitivity. rate = 1 is the Laplace mechanism. Errors: `ParameterError`.

    >>> (1000 * SubsampledLaplace(epsilon=1, rate="0.01")).epsilon(1e-6).upper < 1.3
    True
    """

    epsilon: Fraction
    rate: Fraction

    def __init__(self, *, epsilon: Number, rate: Number) -> None:
        """epsilon, rate: exact; 0 < rate <= 1."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))
        if self.epsilon > 700:
            raise ParameterError("epsilon", float(self.epsilon), "must be at most 700: e^epsilon has no float beyond")
        object.__setattr__(self, "rate", sampling_rate(rate=rational(rate=rate)))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair of this direction; at rate 1 the plain mechanism (twice as far apart under replace-one)."""
        if self.rate == 1:
            return LaplacePair(2 * self.epsilon if direction.startswith("replace") else self.epsilon)
        return SubsampledLaplacePair(self.epsilon, self.rate, "replace" if direction == "replace_back" else direction)
