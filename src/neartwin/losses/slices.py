r"""A slice of a seldom sampled Gaussian's law, between two smooth edges that no tilt climbs over.

Seldom sampled, a loss is about q(z - 1), z lognormal: tilted by e^{lam L} it rises like e^{lam q z} over every edge of a
Gaussian's shape. A share a_c(u) = e^{-E}, E = e^p, p = x - e^{-x}, x = v(u - c), v > mu, falls faster above c, and 1 - a_c <= E
falls as fast below it. What reaches above one edge, b, but not above the next, c > b, is

    a_c - a_b = a_c (1 - e^{-w}),    w = E_b - E_c >= 0, which rises with u:

log w = p_b + log(1 - e^{-g}), g = p_b - p_c >= v(c - b), p_b' = v(1 + e^{-x_b}) and g' = -v e^{-x_b}(e^{v(c-b)} - 1), so that the
second term falls by less than v e^{-x_b} where v(c - b) >= 1.

At u + iy (`panels.py` has Re E and |E|) |a_c| = e^{-Re E_c}, and |a_c - a_b| is at most |a_c| |w| e^{|w|}, |w| <= |E_b| + |E_c|,
and at most |a_c| + |a_b|. The trapezoidal rule of step h errs by at most 2N/(e^{2 pi y/h} - 1), N the integral of the modulus
along that line (Trefethen, Weideman 2014, theorem 5.1). With the turns to the other side the same integral bounds
|M(lam + it')| for all t' >= t, for they only sink it.

Its ratio to M(lam) is 1 + sum of (mass of a panel)(growth - 1)/M: what many copies need errs relative to what turning changes.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses import atoms
from neartwin.losses.loss import Order
from neartwin.losses.panels import MOST, Panels, log_height
from neartwin.losses.quadrature import REACH, QuadratureSum
from neartwin.losses.rounding import ELEMENTARY, SMALLEST, ComplexArray, NoCertificateError, U, gamma
from neartwin.losses.subsampled_gaussian import SubsampledGaussianSum
from neartwin.losses.weighted import Weighted

DEEP = 1000.0  # log of what no float feels
LOW = -20.0  # log w below which 1 - e^{-w} = w e^{-w/2}, to w^2
HALF, FARTHEST, NOTHING = 0.5, 14.0, 1e-40  # of a share's logarithm; of u; of what is further
FEW = 100  # copies that a share may err by what its sum does
SLACK = 1e-11  # relative, of all that panels add up


class Edges(NamedTuple):
    """The slice between two edges; below is -inf where it is all that does not reach above the other."""

    below: float
    above: float


def _log_filled(log_w: FloatArray) -> FloatArray:
    """Log (1 - e^{-w})."""
    found: FloatArray = np.where(
        log_w < LOW, log_w - 0.5 * np.exp(np.minimum(log_w, LOW)), np.log(-np.expm1(-np.exp(np.maximum(log_w, LOW))))
    )
    return found


def _running(first: float, logs: FloatArray) -> FloatArray:
    """Logs of running sums, those of what is slight beside the whole perhaps as much as e^{-MOST} of it."""
    every = np.append(first, logs)
    top = float(every.max())
    found: FloatArray = np.log(np.cumsum(np.exp(np.maximum(every - top, -MOST)))) + top
    return found


class SlicedSum(QuadratureSum):
    """So many copies of a slice, under remove or replace."""

    def __init__(
        self, exact: tuple[Fraction, Fraction], order: Order, count: int, panels: Panels, slice_: Edges
    ) -> None:
        """exact: mu and the rate; panels: of the same law, up to an edge no lower than the slice's."""
        self.count, self.copies, self.panels, self.slice = count, count, panels, slice_
        self._law = SubsampledGaussianSum(*exact, 1, order).law
        self._goal = math.log(2.0**-58 / count)
        self._rules = {}
        self._found: dict[tuple[float, float], tuple[float, float, float]] = {}
        self._weights: dict[float, tuple[FloatArray, FloatArray, float, float]] = {}
        self._share = panels.share(slice_.above)
        self._lower = panels.share(slice_.below) if slice_.below > -math.inf else None
        self._depth = self._log_depth(panels.edges)

    def _log_depth(self, u: FloatArray) -> FloatArray | None:
        """Log w at each place; None where there is no lower edge."""
        steep, (low, high) = self.panels.steep, self.slice
        if low == -math.inf:
            return None
        (log, _), (_, back) = log_height(steep * (u - low)), log_height(steep * (u - high))
        gap = steep * (high - low) - back * math.expm1(-steep * (high - low))
        found: FloatArray = log + np.log(-np.expm1(-gap))
        return found

    def log_share(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The logarithm of the share at each u, and its error.

        P errs by 1 + e^{-x} times as much as x, and w e^{-w} <= 1 - e^{-w}.
        """
        steep, (low, high) = self.panels.steep, self.slice
        log, back = log_height(steep * (u - high))
        height = np.exp(log)
        value, error = -height, height * self._moved(u, high, back)
        depth = self._log_depth(u)
        if depth is None:
            return value, error
        more = _log_filled(depth)
        error += self._moved(u, low, log_height(steep * (u - low))[1]) + 4 * ELEMENTARY * (1 + np.abs(more))
        return value + more, error + U * np.abs(value)

    def _moved(self, u: FloatArray, place: float, back: FloatArray) -> FloatArray:
        """The error of p, with that of e^p."""
        x_error = 4 * U * self.panels.steep * (np.abs(u) + abs(place))
        found: FloatArray = 1.01 * (1 + back) * (x_error + 2 * ELEMENTARY) + 2 * ELEMENTARY
        return found

    def _masses(self, lam: float) -> tuple[FloatArray, FloatArray, float, float]:
        """Log of the least and the greatest mass of each panel at this tilt, and of their sums, rounded down and up."""
        if lam not in self._weights:
            low, high = self.panels.weights(lam)
            low, high = low - self._share.height[1:], high - self._share.height[:-1]
            if self._depth is not None:
                filled = _log_filled(self._depth)
                low, high = low + filled[:-1], high + filled[1:]
            below, above = self._outside(lam, 0.0)
            outside = np.logaddexp(below[0], above[0])
            most = float(np.logaddexp(np.logaddexp.reduce(high), outside))
            self._weights = {lam: (low, high, float(np.logaddexp.reduce(low)) - SLACK, most + SLACK)}
        return self._weights[lam]

    def _outside(self, lam: float, t: float) -> tuple[FloatArray, FloatArray]:
        """Below and above the panels."""
        below, above = self.panels.below(lam, t), self.panels.above(lam, t, self.slice.above)
        first = self._share.modulus[:, 1]
        if self._lower is None:
            return below + first, above
        w = first + self._lower.modulus[:, 1]
        return below + np.minimum(np.log(np.maximum(w, SMALLEST)) + w, math.log(2) + w), above + math.log(2)

    @cached_property
    def _own(self) -> FloatArray:
        """Log of the most that the share may be off the line over e^{-E}, a's modulus over e^{-E} apart, (angles, panels)."""
        if self._lower is None:
            return self._share.rise
        w = self._share.modulus[:, 1:] + self._lower.modulus[:, 1:]
        together = np.logaddexp(0.0, self._share.modulus[:, 1:] - self._lower.less)
        found: FloatArray = self._share.rise + np.minimum(np.log(np.maximum(w, SMALLEST)) + w, together)
        return found

    @np.errstate(all="ignore")
    def turned(self, lam: float, t: float) -> FloatArray:
        """Log of the integral of the modulus at u + iy over M(lam), for each angle; t < 0: turns lift it, t > 0: they sink it."""
        low, high, least, most = self._masses(lam)
        grown = self.panels.growth(lam, t) + self._own
        outside: FloatArray = np.exp(np.minimum(np.logaddexp(*self._outside(lam, t)) - least, MOST))
        plain = high if self._lower is None else self.panels.weights(lam)[1] - self._share.height[:-1]
        whole = np.exp(np.minimum(plain - least + grown, MOST)).sum(axis=1) * (1 + SLACK)
        found: FloatArray = np.log(np.maximum(whole + outside, SMALLEST))
        if self._lower is None:  # nearer to 1 than panels know the whole
            up, down = np.exp(high - least), np.exp(low - most)
            change = np.expm1(np.minimum(grown, 1.0)) * np.where(grown > 0, up, down)
            far = grown >= 1
            change[far] = np.exp(np.minimum((high - least + grown)[far], MOST))
            near = change.sum(axis=1) + SLACK * np.abs(change).sum(axis=1)
            found = np.minimum(found, np.log1p(np.maximum(near + outside, -1 + SLACK)))
        found = found + 0.5 * np.square(self.panels.angles / self.panels.mu) * (1 + SLACK)
        return np.where(np.isnan(found), np.inf, found)

    def _rule_of(self, lam: float, reach: float) -> tuple[float, float, float]:
        """The step, of few bits so that nodes are exact, and the ends of the nodes."""
        if (lam, reach) not in self._found:
            panels = self.panels
            cost = self.turned(lam, -reach) + math.log(2) - self._goal + 0.01
            wide = float((2 * math.pi * panels.angles / panels.mu / np.maximum(cost, 1.0)).max())
            if not wide > 0:
                raise NoCertificateError
            mantissa, exponent = math.frexp(min(wide, panels.width))
            step = math.ldexp(math.floor(mantissa * 64) / 64, exponent)
            _, high, least, _ = self._masses(lam)
            below, above = (float(one[0]) for one in self._outside(lam, 0.0))
            goal = least + self._goal - math.log(2)  # a panel has at most 1 + width/step nodes, step <= width
            left = np.flatnonzero(_running(below, high) <= goal)
            right = np.flatnonzero(_running(above, high[::-1]) <= goal)
            if not (len(left) and len(right)):
                raise NoCertificateError
            u = panels.edges
            self._found[lam, reach] = step, float(u[left[-1]]), float(u[len(u) - 1 - right[-1]])
        return self._found[lam, reach]

    def size(self, low: float, high: float, reach: float) -> int:
        """Of the rule."""
        del low
        step, left, right = self._rule_of(high, reach)
        return math.ceil((right - left) / step)

    def work(self, lam: float, t: float, frequencies: int) -> int:
        """By the nodes of a rule that reaches so far or up to twice."""
        return frequencies * self.size(lam, lam, 2.0 ** math.ceil(math.log2(max(t, REACH))))

    def nodes(self, low: float, high: float, reach: float) -> tuple[FloatArray, Weighted]:
        """Equal steps between the ends; low and high are one lam."""
        del low
        step, left, right = self._rule_of(high, reach)
        u: FloatArray = step * np.arange(math.floor(left / step), math.ceil(right / step) + 1, dtype=float)
        law = self._law(u, step)
        log, error = self.log_share(u)
        part = law.log_masses + log
        heard = part > part.max() - DEEP
        own = (law.mass_error + error + U * np.abs(log))[heard]
        share, share_error = self._whole(u[heard], step, part[heard], own)
        return u[heard], Weighted(
            law.losses[heard],
            part[heard] - share,
            own + 2 * U * abs(share) + share_error,
            law.loss_error[heard],
            outside=4 * math.exp(self._goal),
            log_share=(share, share_error),
        )

    def _whole(self, u: FloatArray, step: float, part: FloatArray, own: FloatArray) -> tuple[float, float]:
        """Log of the sum over the nodes, and its error: by what is not there where that is less, for all nodes add up to 1.

        The rule errs in phi by 2 e^{-2 pi^2/step^2}, step <= 1/24, and beyond FARTHEST deviations nothing is left.
        """
        share = float(np.logaddexp.reduce(part))
        if self._lower is None and share > -HALF and self.count > FEW:
            last = math.ceil((FARTHEST + self.panels.mu) / step)
            every: FloatArray = step * np.arange(-last, last + 1, dtype=float)
            law, (log, error) = self._law(every, step), self.log_share(every)
            rest = np.where((every >= u[0]) & (every <= u[-1]), -np.expm1(log), 1.0)
            lacks = np.exp(law.log_masses) * rest
            # 1 - e^{-E} errs by E's error, E e^{-E} <= 1 - e^{-E}
            size = float(lacks.sum())
            moved = float(lacks @ (law.mass_error + 4 * ELEMENTARY)) + size * gamma(len(every))
            moved += float((np.exp(law.log_masses + log) * error)[rest < 1].sum())
            return math.log1p(-size), 1.01 * moved / (1 - size) + 2 * ELEMENTARY * size + NOTHING
        masses = np.exp(part - share)
        error_of_sum = float(masses @ own) * 1.01 + gamma(len(u)) + 4 * ELEMENTARY
        return share, error_of_sum + 2 * U * float(masses @ np.abs(part))

    def line(self, lam: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """By products of turns: there are few nodes beside the turns, and many copies want all their digits."""
        rule, n = self.rule(lam, float(t.max(initial=0.0))), self.count
        found = atoms.line_by_products(rule.weighted, rule.tilt, t)
        if found is None:
            return super().line(lam, t)
        return n * found[0], n * found[1] + 2 * U * n * np.abs(found[0])

    def cumulants(self, lam: float) -> tuple[float, float, float]:
        """On nodes that prove more."""
        rule, n = self.rule(lam, 0.0), self.count
        return n * (rule.tilt.log_mgf + rule.weighted.log_share[0]), n * rule.tilt.mean, n * rule.tilt.variance

    def log_tail(self, lam: float, t: float, until: float) -> float:
        """Count times that of one copy, by the best angle."""
        del until
        return self.count * min(float(self.turned(lam, t).min()), 0.0) * (1 - 1e-12) if t > 0 else 0.0
