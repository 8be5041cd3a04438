"""The part of a sampled Gaussian's law that lies in a window: which nodes it needs, and what they leave out.

Tails of the part's density phi r^{1+lam} [r~^{-lam}] share, r and r~ of `subsampled_gaussian.py`. Below u <= 0, r^{1+lam} <= 1,
r~^{-lam} <= (1-q)^{-lam}, and a rising factor of the share is at most that at u, a falling one 1. Above, log r has a slope of
at most mu, -log r~ one that falls, and the logarithm of a falling factor one of at most -(u - c)_+/w^2, for -phi/Phi(-x) <= -x;
a rising one is at most 1. So the logarithm falls by d at least for each unit, d rising, and what lies beyond is at most the
value there times 1/d, and the sum over nodes at steps h <= 1 the value times 1 + 1/d.

For all lam in [low, high]: the loss rises in u, so what a sum over nodes leaves out below, relative to what it keeps, falls in
lam, and what it leaves out above rises; the one is bounded at low, the other at high.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.rounding import ELEMENTARY, U, gamma
from neartwin.losses.weighted import Weighted
from neartwin.losses.window import Window
from neartwin.special import log_ndtr, logsumexp


@dataclass(frozen=True, slots=True)
class Part:
    """A window on the law of one copy tilted by any lam in [low, high]; both: under replace-one."""

    window: Window
    mu: float
    q: float
    low: float
    high: float
    both: bool

    def ends(self, u: FloatArray, law: Weighted, log_goal: float) -> tuple[float, float]:
        """Where the bounds below and above fall below e^goal of the greatest density; law: over the density, at u."""
        share = self.window.log_share(u)[0]
        high = law.log_masses + self.high * law.losses
        least = float((law.log_masses + self.low * law.losses + share).max()) + log_goal
        most = float((high + share).max()) + log_goal
        first, last = np.flatnonzero(self.below(u) <= least), np.flatnonzero(self.above(u, high) > most)
        return float(u[first[-1]] if len(first) else u[0]), float(u[min(int(last[-1]) + 1, len(u) - 1)])

    def below(self, u: FloatArray) -> FloatArray:
        """Bounds on the logarithm of the part's density, tilted by low, summed or integrated below each u."""
        power = -self.low * math.log1p(-self.q) if self.both else 0.0
        left = np.where(u <= 0, log_ndtr(u) + power + self.window.sides(u)[0], np.inf)
        found: FloatArray = left + 1e-9 * (1 + np.abs(left))
        return found

    def above(self, u: FloatArray, log_density: FloatArray) -> FloatArray:
        """The same tilted by high above each u, given the whole law's density there."""
        mu, window = self.mu, self.window
        fall = u - (1 + self.high) * mu
        if self.both:
            odds = math.log(self.q) - np.maximum(mu * u + 0.5 * mu * mu, 0.0) - math.log1p(-self.q)
            fall = fall - self.high * mu * np.exp(odds)
        fall = fall + window.falls(u) - 1e-9 * (1 + np.abs(u))
        falling = window.sides(u)[1]
        right = np.where((fall > 0) & (u > 0), log_density + falling + np.log1p(1 / np.maximum(fall, 1e-300)), np.inf)
        found: FloatArray = right + 1e-9 * (1 + np.abs(right))
        return found

    def seen(self, u: FloatArray, law: Weighted) -> Weighted:
        """The part of a law on equal steps, given that it is there; what the nodes leave out is charged over its M(lam)."""
        log, error = self.window.log_share(u)
        part, own = law.log_masses + log, law.mass_error + error + U * np.abs(log)
        share = float(logsumexp(part))
        last = law.log_masses[-1:] + self.high * law.losses[-1:] - math.log(float(u[1] - u[0]))
        left = float(self.below(u[:1])[0]) - float(logsumexp(part + self.low * law.losses))
        right = float(self.above(u[-1:], last)[0]) - float(logsumexp(part + self.high * law.losses))
        over = np.logaddexp(left, right)
        conditional = part - share
        masses = np.exp(conditional)
        share_error = float(masses @ own) * 1.01 + gamma(len(u)) + 4 * ELEMENTARY + 2 * U * float(masses @ np.abs(part))
        return replace(
            law,
            log_masses=conditional,
            mass_error=own + 2 * U * abs(share),
            outside=law.outside + 4 * math.exp(min(float(over), 700.0)),
            log_share=(share, share_error),
        )
