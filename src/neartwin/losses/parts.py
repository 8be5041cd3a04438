"""The part of a sampled Gaussian's law that lies in a window: which nodes it needs, and what they leave out.

Tails of the part's density phi r^{1+lam} [r~^{-lam}] share, r and r~ of `subsampled_gaussian.py`. Below u <= 0, r^{1+lam} <= 1,
r~^{-lam} <= (1-q)^{-lam}, and a rising factor of the share is at most that at u, a falling one 1. Above, log r has a slope of
at most mu, -log r~ one that falls, and the logarithm of a falling factor one of at most -(u - c)_+/w^2, for -phi/Phi(-x) <= -x;
a rising one is at most 1. So the logarithm falls by d at least for each unit, d rising, and what lies beyond is at most the
value there times 1/d, and the sum over nodes at steps h <= 1 the value times 1 + 1/d.
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
    """A window on the law of one copy tilted by lam; both: under replace-one."""

    window: Window
    mu: float
    q: float
    lam: float
    both: bool

    def ends(self, u: FloatArray, law: Weighted, log_goal: float) -> tuple[float, float]:
        """Where the bounds of `tails` fall below e^goal of the greatest density; law: over the density, at u."""
        density = law.log_masses + self.lam * law.losses
        most = float((density + self.window.log_share(u)[0]).max()) + log_goal
        left, right = self.tails(u, density)
        first, last = np.flatnonzero(left <= most), np.flatnonzero(right > most)
        return float(u[first[-1]] if len(first) else u[0]), float(u[min(int(last[-1]) + 1, len(u) - 1)])

    def tails(self, u: FloatArray, log_density: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on the logarithm of the part's density, tilted, summed or integrated below and above each u."""
        mu, window = self.mu, self.window
        rising, falling = window.sides(u)
        power = -self.lam * math.log1p(-self.q) if self.both else 0.0
        left = np.where(u <= 0, log_ndtr(u) + power + rising, np.inf)
        fall = u - (1 + self.lam) * mu
        if self.both:
            odds = math.log(self.q) - np.maximum(mu * u + 0.5 * mu * mu, 0.0) - math.log1p(-self.q)
            fall = fall - self.lam * mu * np.exp(odds)
        fall = fall + window.falls(u) - 1e-9 * (1 + np.abs(u))
        right = np.where((fall > 0) & (u > 0), log_density + falling + np.log1p(1 / np.maximum(fall, 1e-300)), np.inf)
        return left + 1e-9 * (1 + np.abs(left)), right + 1e-9 * (1 + np.abs(right))

    def seen(self, u: FloatArray, law: Weighted) -> Weighted:
        """The part of a law on equal steps, given that it is there; what the nodes leave out is charged over its M(lam)."""
        log, error = self.window.log_share(u)
        part, own = law.log_masses + log, law.mass_error + error + U * np.abs(log)
        share = float(logsumexp(part))
        density = law.log_masses + self.lam * law.losses - math.log(float(u[1] - u[0]))
        left, right = self.tails(u[[0, -1]], density[[0, -1]])
        over = np.logaddexp(left[0], right[1]) - float(logsumexp(part + self.lam * law.losses))
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
