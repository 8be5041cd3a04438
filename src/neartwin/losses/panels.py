r"""What one copy of a seldom sampled Gaussian's law weighs off the real line, by panels of which the worst end is taken.

k = q z/(1-q), z = e^{mu u - mu^2/2}, so that r = (1-q)(1 + k); k~(u) = k(-u), r~ likewise. At u + iy, 0 <= theta = mu y < pi/2,
    |1 + k e^{i theta}| rises in k, and so does alpha = arg(1 + k e^{i theta}) <= tan(theta) log|1 + k e^{i theta}|,
since d arg/d log|.| = sin(theta)/(cos(theta) + k); |phi(u + iy)| = e^{y^2/2} phi(u); and log|1 + k e^{i theta}| - log(1 + k) =
log(1 - D)/2, D = 4k sin^2(theta/2)/(1+k)^2, which rises up to k = 1 and falls from there. Every factor is monotone in u, or rises
and then falls, so that its ends bound it on a panel; what lies beyond the panels is bounded by the slopes there.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.special import log_ndtr

LEFT = -16.0  # where panels begin
FINE = 24  # panels for each unit of u, and of mu u
SHARES = np.geomspace(3e-4, 0.8, 11)  # of the widest angle that a share's steepness leaves
BEYOND = math.log(3e5)  # of the last share's exponent, where panels end
MOST = 700.0


class Share(NamedTuple):
    """The share e^{-E}, E = e^{p}, p = x - e^{-x}, x = steep (u - place), at the panels' edges and off the line.

    height: E, (edges,); modulus: |E|, (angles, edges); less: the least Re E and rise: the most of E - Re E, or 0, on each panel,
    (angles, panels).
    """

    height: FloatArray
    modulus: FloatArray
    less: FloatArray
    rise: FloatArray


def log_height(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P = x - e^{-x}, and e^{-x}, both kept within floats."""
    back = np.exp(np.minimum(-x, MOST))
    return np.minimum(x - back, MOST), back


class Panels:
    """Of one law under remove or replace, up to a share that ends at `top`; arrays over edges are (m,)."""

    def __init__(self, mu: float, q: float, steep: float, top: float, *, both: bool) -> None:
        """both: replace-one; steep: of all shares, more than mu."""
        self.mu, self.q, self.steep, self.top, self.both = mu, q, steep, top, both
        self.width = 1.0 / (FINE * max(1.0, mu))
        count = math.ceil((top + BEYOND / steep - LEFT) / self.width)
        self.edges: FloatArray = LEFT + self.width * np.arange(count + 1, dtype=float)
        odds, x = q / (1 - q), mu * self.edges - 0.5 * mu * mu
        self.k: FloatArray = odds * np.exp(np.minimum(x, MOST))
        self.k_back: FloatArray = odds * np.exp(np.minimum(-mu * self.edges - 0.5 * mu * mu, MOST)) if both else 0.0 * x
        self.angles: FloatArray = 0.5 * math.pi * min(1.0, mu / steep) * SHARES
        self._shares: dict[float, Share] = {}

    def share(self, place: float) -> Share:
        """Of the share that ends at this place.

        Off the line p = x - cos(psi) e^{-x} + i (psi + sin(psi) e^{-x}), psi = steep y: |E| rises with u, and Re E = E e^b
        cos(a), where b = (1 - cos(psi)) e^{-x} and the argument a fall.
        """
        if place not in self._shares:
            x = self.steep * (self.edges - place)
            log, back = log_height(x)
            psi = (self.steep / self.mu) * self.angles[:, None]
            lost = 2 * np.square(np.sin(0.5 * psi)) * back
            modulus = np.exp(np.minimum(log + lost, MOST))
            turn = np.minimum(psi + np.sin(psi) * back, math.pi)[:, :-1]
            height, near = np.exp(log), turn < 0.5 * math.pi
            least = np.where(near, np.cos(turn), 0.0)
            less = np.where(near, modulus[:, :-1] * least, -modulus[:, 1:])
            own = np.where(
                near, height[1:] * (1 - np.exp(np.minimum(lost[:, 1:], MOST)) * least), height[1:] + modulus[:, 1:]
            )
            self._shares[place] = Share(height, modulus, less, np.maximum(own, 0.0))
        return self._shares[place]

    @cached_property
    def normal(self) -> tuple[FloatArray, FloatArray]:
        """Log of the least and of the greatest density of the noise on each panel, times its width."""
        ends = -0.5 * np.square(self.edges) + math.log(self.width / math.sqrt(2 * math.pi))
        low, high = np.minimum(ends[:-1], ends[1:]), np.maximum(ends[:-1], ends[1:])
        return low, np.where((self.edges[:-1] < 0) & (self.edges[1:] > 0), high + self.width**2, high)

    @cached_property
    def logs(self) -> tuple[FloatArray, FloatArray]:
        """Log r and log r~ at the edges."""
        least = math.log1p(-self.q)
        return least + np.log1p(self.k), least + np.log1p(self.k_back)

    def _turned(self, k: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log|1 + k e^{i theta}| - log(1 + k) at the edges and its least between two, and alpha at the edges, (angles, ...)."""
        half, (sine, cosine) = np.sin(0.5 * self.angles)[:, None], (np.sin(self.angles), np.cos(self.angles))

        def log(k: FloatArray) -> FloatArray:
            found: FloatArray = 0.5 * np.log1p(-4 * half * half * k / np.square(1 + k))
            return found

        near_one = np.clip(1.0, np.minimum(k[:-1], k[1:]), np.maximum(k[:-1], k[1:]))
        return log(k), log(near_one), np.arctan2(np.multiply.outer(sine, k), 1 + np.multiply.outer(cosine, k))

    @cached_property
    def forth(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of r."""
        return self._turned(self.k)

    @cached_property
    def back(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of r~."""
        return self._turned(self.k_back)

    def weights(self, lam: float) -> tuple[FloatArray, FloatArray]:
        """Log of the least and of the greatest integral of phi r^{1+lam} r~^{-lam} over each panel; 0 < lam."""
        (plus, minus), (low, high) = self.logs, self.normal
        if not self.both:
            return low + (1 + lam) * plus[:-1], high + (1 + lam) * plus[1:]
        return low + (1 + lam) * plus[:-1] - lam * minus[:-1], high + (1 + lam) * plus[1:] - lam * minus[1:]

    def growth(self, lam: float, t: float) -> FloatArray:
        """Log of the most that the law grows by at u + iy, (angles, panels), the factor e^{y^2/2} apart.

        t < 0: where its turns lift it; t > 0: where they sink it.
        """
        change, _, turn = self.forth
        found = (1 + lam) * np.maximum(change[:, :-1], change[:, 1:]) - t * (turn[:, :-1] if t > 0 else turn[:, 1:])
        if self.both:
            _, least, turn = self.back
            found += -lam * least - t * (turn[:, 1:] if t > 0 else turn[:, :-1])
        return found

    def below(self, lam: float, t: float) -> FloatArray:
        """Log of a bound on the integral of the law's modulus, and on a sum over steps, below the first panel, (angles,)."""
        start = float(log_ndtr(LEFT + 1 / FINE)) + 0.5 * np.square(self.angles / self.mu)
        grown = max(-t, 0.0)
        found = start + grown * self.forth[2][:, 0]
        if self.both:
            power = lam - grown * np.tan(self.angles)
            here = self.logs[1][0] - math.log1p(-self.q) + self.back[0][:, 0]  # log|1 + k~ e^{i theta}|
            found = np.where(power >= 0, found - power * here - lam * math.log1p(-self.q), np.inf)
        return found

    def above(self, lam: float, t: float, place: float) -> FloatArray:
        """The same above the last panel, with the share that ends at this place, (angles,).

        There Re E and its slope are at least 0.99 cos(psi) times |E| and steep |E|; |1 + k e^{i theta}| >= max(1, k), so that all
        else that rises has a slope of at most mu ((1+lam+|t|) min(k, 1) + (lam+|t|) min(k~, 1)), where k rises like e^{mu u}.
        """
        last, grown = float(self.edges[-1]), max(-t, 0.0)
        height = (
            math.exp(min(self.steep * (last - place) - 1.0, MOST)) * np.cos((self.steep / self.mu) * self.angles) * 0.99
        )
        rise = self.mu * ((1 + lam + abs(t)) * min(self.k[-1], 1.0) + (lam + abs(t)) * min(self.k_back[-1], 1.0))
        log = (1 + lam) * self.logs[0][-1] + grown * self.forth[2][:, -1] - height - 0.5 * last * last
        if self.both:
            log = log - lam * math.log1p(-self.q) + grown * self.back[2][:, -1]
        log = log + 0.5 * np.square(self.angles / self.mu) + math.log(1 / FINE + 1 / last)
        return np.where(self.steep * height >= rise, log, np.inf)
