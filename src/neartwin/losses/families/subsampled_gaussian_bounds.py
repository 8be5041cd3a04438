"""What one turn of the integration line costs the trapezoidal rule of a sampled Gaussian.

r, r~, q and mu are those of `subsampled_gaussian.py`.

r(u + iy) has modulus at most r(u), argument of the sign of y, at most theta = mu|y| in modulus, and at least cos(theta/2) r(u)
in modulus (a point of the segment from a to b e^{i theta}). So for theta < pi the integrand at u + iy is at most its value at
(u, tilt) times e^{y^2/2} e^{w|t|theta} cos(theta/2)^{-v}, with w = 1 (2 for replace) and v = tilt where a negative power occurs
(0 for remove). The trapezoidal rule of step h then errs by at most
    2 M(tilt) e^{y^2/2} e^{w|t|theta} cos(theta/2)^{-v} / (e^{2 pi y/h} - 1)            (Trefethen, Weideman 2014, 5.1).

Seldom sampled, a negative power turns much less. Write r(u+iy) = (1-q) w, w = 1 + k e^{i theta}, k = q e^{mu u - mu^2/2}/(1-q),
theta < pi/2, X = (1+k)^{-tilt} <= 1. In c = cos theta, log|w| is concave, so |w| >= (1+k)^c; and arg w <= tan(theta) log|w|, for
d arg w/d log|w| = sin(theta)/(c + k) and both are 0 at k = 0. Under add, with tilt' = c tilt - |t| sin(theta) >= 0,
    int phi |r(u+iy)^{-tilt-it}| <= (1-q)^{-tilt} E X^{tilt'/tilt} <= M(tilt) (E X)^{tilt'/tilt - 1}            (Jensen),
which stands for the last two factors; under replace, with r~ for r and the mean over phi r^{1+tilt}, (E X)^{c-1} for the last
one. E X >= (1-q)^tilt, by Jensen from E[1+k] <= 1/(1-q) (under replace: k falls and r^{1+tilt} rises in u); under add also
E X >= Phi(a) (1+k(a))^{-tilt} for every a, for X falls in u.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.summands.base import Direction
from neartwin.losses.summands.rounding import SMALLEST
from neartwin.special import log_ndtr

ANGLES = np.pi * np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97])
TURNS = np.array([0.2, 0.4, 0.6, 0.8])  # angles tried, as shares of the one that brings tilt' to 0
QUARTER = 0.5 * math.pi * (1 - 1e-12)
STRIPS = np.geomspace(0.25, 1.5, 8)  # strips tried, as shares of about the best
INSIDE = np.array([0.25, 0.5, 0.75, 0.9, 0.98])  # strips tried, as shares of the one that a quarter turn leaves
PLACES = np.linspace(-30.0, 3.0, 67)  # the a at which E X is bounded from below


@dataclass(frozen=True, slots=True)
class Strip:
    """One law of one direction: order is remove, add or replace."""

    mu: float
    q: float
    direction: Direction

    def negative(self, tilt: float) -> float:
        """The size of the negative power of r or r~."""
        return 0.0 if self.direction == "remove" else tilt

    def hidden(self, tilt: float) -> float:
        """An upper bound on -log E X, rising in tilt."""
        if self.direction == "remove":
            return 0.0
        found = -tilt * math.log1p(-self.q)
        if self.direction == "add" and found > 1:
            k = self.q / (1 - self.q) * np.exp(self.mu * PLACES - 0.5 * self.mu**2)
            found = min(found, float(np.min(tilt * np.log1p(k) - log_ndtr(PLACES))))
        return found * (1 + 1e-9)

    def log_grown(self, low: float, high: float, theta: FloatArray, t: float) -> FloatArray:
        """Log of what the integrand grows by at most, for |t| and every tilt in [low, high]; 1 - tilt'/tilt falls in tilt."""
        y = theta / self.mu
        turned = (2 if self.direction == "replace" else 1) * t * theta
        often = turned - self.negative(high) * np.log(np.cos(theta / 2))
        if self.direction == "add":
            share = 1 - np.cos(theta) + t * np.sin(theta) / max(low, SMALLEST)
            seldom = np.where(share <= 1, share * self.hidden(high), np.inf)
        else:
            seldom = turned + (1 - np.cos(theta)) * self.hidden(high)
        grown: FloatArray = np.minimum(often, np.where(theta < QUARTER, seldom, np.inf))
        return 0.5 * y * y + grown

    def step(self, low: float, high: float, t: float, log_goal: float) -> float:
        """The widest step whose error is below the goal for all of [low, high]; of so few bits that nodes are exact."""
        theta = np.append(ANGLES, math.atan2(low, t) * TURNS) if self.direction == "add" and low > 0 else ANGLES
        theta = np.minimum(theta, 40 * self.mu)
        cost = math.log(2) - log_goal + 0.01
        wide = float((2 * math.pi * theta / self.mu / (cost + self.log_grown(low, high, theta, t))).max())
        mantissa, exponent = math.frexp(wide)
        return math.ldexp(math.floor(mantissa * 64) / 64, exponent)

    def log_rule_error(self, step: float, tilt: float, theta: FloatArray) -> FloatArray:
        """Log of what the rule errs by in the integral of B(t), over M(tilt) e^{y^2/2}: the best of some strips eta.

        e^{-x} stands for 1/(e^x - 1); where that is less than a quarter too small, four times the bound proves nothing.
        """
        negative, hidden = self.negative(tilt), self.hidden(tilt)
        widest = 0.95 * (math.pi - theta)[:, None] / self.mu
        falls = np.array([negative / 4, min(negative / 4, hidden)]) * self.mu**2
        best = 2 * math.pi / step / (1 + falls)  # of e^{eta^2 (1 + fall)/2 - 2 pi eta/h}, small eta
        eta = np.append(np.multiply.outer(best, STRIPS), 2 * math.pi / step)
        # up to the quarter turn within which a seldom sampled law is bounded
        inside = (np.maximum(QUARTER - theta, 0.0) / self.mu)[:, None] * INSIDE
        eta = np.minimum(widest, np.hstack([np.broadcast_to(eta, (len(theta), len(eta))), inside]))
        turned = theta[:, None] + eta * self.mu
        seldom = np.where(turned < QUARTER, (1 - np.cos(turned)) * hidden, np.inf)
        strip = math.log(2) + 0.5 * eta * eta + np.minimum(-negative * np.log(np.cos(turned / 2)), seldom)
        least: FloatArray = np.min(strip - 2 * math.pi * eta / step, axis=1) + 1e-9
        return least
