"""A slice of a seldom sampled Gaussian's law, between two smooth edges that no tilt climbs over.

Seldom sampled, a loss is about q(z - 1), z lognormal. Tilted by e^{tilt L} it rises like e^{tilt q z} over every edge of a
Gaussian's shape. A share (L1) falls faster above its edge. Off the real line the worst end of a panel bounds the likelihood
ratio (S6) and the shares (S7). The trapezoidal rule errs by (L6). A slice's ratio to M(tilt) is 1 + sum of (mass of a panel)
(growth - 1)/M. Its error is relative to the change by turning, as many copies need it. Equations:
docs/proofs/losses-ladder.md and losses-sampled.md.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.summands import atoms
from neartwin.losses.summands.atoms import Layout, QuadratureSum, Weighted
from neartwin.losses.summands.base import Direction
from neartwin.losses.summands.rounding import ELEMENTARY, SMALLEST, NoCertificateError, U, few_bits, gamma
from neartwin.special import log_ndtr

LEFT = -16.0  # where panels begin
FINE = 16  # panels for each unit of u, and of mu u
SHARES = np.geomspace(3e-4, 0.8, 6)  # of the widest angle that a share's steepness leaves
NEARLY = 1.05  # 1/cos(a)^{1/2} for the widest angle a between two terms of r, which is below 0.42
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


def log_odds_at(law: SeldomSampled, u: FloatArray) -> FloatArray:
    """Log of the odds that the answer moved by each distance, (shifts, n).

    Args:
        law: The law.
        u: The answers, (n,).
    """
    return law.odds[:, None] + np.multiply.outer(law.shifts, u) - 0.5 * np.square(law.shifts)[:, None]


class Panels:
    """The panels of one law under remove or replace, up to a share that ends at `top`; arrays over edges are (m,)."""

    def __init__(self, law: SeldomSampled, steep: float, top: float) -> None:
        """steep: of all shares, more than mu."""
        self.law, self.mu, self.q, self.steep, self.top, self.both = law, law.mu, law.q, steep, top, law.turns == 2
        self.width = 1.0 / (FINE * max(1.0, self.mu))
        count = math.ceil((top + BEYOND / steep - LEFT) / self.width)
        self.edges: FloatArray = LEFT + self.width * np.arange(count + 1, dtype=float)
        each, back = (np.exp(np.minimum(log_odds_at(law, sign * self.edges), MOST)) for sign in (1.0, -1.0))
        self.each, self.each_back = each, back if self.both else 0.0 * back
        self.k, self.k_back = self.each.sum(axis=0), self.each_back.sum(axis=0)
        self.angles: FloatArray = 0.5 * math.pi * min(1.0, self.mu / steep) * SHARES
        self._shares: dict[float, Share] = {}

    def share(self, place: float) -> Share:
        """The share that ends at this place.

        Off the line p = x - cos(psi) e^{-x} + i (psi + sin(psi) e^{-x}), psi = steep y. |E| rises with u. Re E = E e^b
        cos(a), where b = (1 - cos(psi)) e^{-x} and the argument a fall.
        """
        if place not in self._shares:
            log, back = log_height(self.steep * (self.edges - place))
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

    def log_modulus(self, place: float) -> FloatArray:
        """Log |E| of the share that ends at this place, at the second edge, (angles,)."""
        log, back = log_height(self.steep * (self.edges[1] - place))
        return log + 2 * np.square(np.sin((0.5 * self.steep / self.mu) * self.angles)) * back

    @cached_property
    def normal(self) -> tuple[FloatArray, FloatArray]:
        """Log of the least and of the greatest density of the noise on each panel, times its width."""
        ends = -0.5 * np.square(self.edges) + math.log(self.width / math.sqrt(2 * math.pi))
        low, high = np.minimum(ends[:-1], ends[1:]), np.maximum(ends[:-1], ends[1:])
        return low, np.where((self.edges[:-1] < 0) & (self.edges[1:] > 0), high + self.width**2, high)

    @cached_property
    def logs(self) -> tuple[FloatArray, FloatArray]:
        """Log r and log r~ at the edges; 0 for r~ under remove."""
        least = math.log1p(-self.q)
        return least + np.log1p(self.k), self.both * least + np.log1p(self.k_back)

    def _turned(self, each: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The most and the least of log|1 + sum k_j e^{i theta_j}| - log(1 + k) on panels, and alpha at edges, (angles, ...)."""
        theta = np.multiply.outer(self.angles, np.append(0.0, self.law.shifts) / self.mu)
        apart = np.square(np.sin(0.5 * (theta[:, :, None] - theta[:, None, :])))
        terms = np.vstack([np.ones_like(self.edges), each])
        low, high = np.minimum(terms[:, :-1], terms[:, 1:]), np.maximum(terms[:, :-1], terms[:, 1:])
        less, more = (
            2 * np.einsum("tij,in,jn->tn", apart, shares, shares, optimize=True)
            for shares in (low / high.sum(axis=0), high / low.sum(axis=0))
        )
        turn = np.arctan2(np.sin(theta) @ terms, np.cos(theta) @ terms)
        return 0.5 * np.log1p(-less), 0.5 * np.log1p(-np.minimum(more, 0.5)), turn

    @cached_property
    def forth(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The bounds for r."""
        return self._turned(self.each)

    @cached_property
    def back(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The bounds for r~."""
        return self._turned(self.each_back)

    def weights(self, tilt: float) -> tuple[FloatArray, FloatArray]:
        """Log of the least and of the greatest integral of phi r^{1+tilt} r~^{-tilt} over each panel; 0 < tilt."""
        (plus, minus), (low, high) = self.logs, self.normal
        return low + (1 + tilt) * plus[:-1] - tilt * minus[:-1], high + (1 + tilt) * plus[1:] - tilt * minus[1:]

    def growth(self, tilt: float, t: float) -> FloatArray:
        """Log of the most that the law grows by at u + iy, (angles, panels), the factor e^{y^2/2} apart.

        Args:
            tilt: Above 0.
            t: Below 0 where its turns lift the law; above 0 where they sink it.
        """
        change, _, turn = self.forth
        result = (1 + tilt) * change - t * (turn[:, :-1] if t > 0 else turn[:, 1:])
        if self.both:
            _, least, turn = self.back
            result += -tilt * least - t * (turn[:, 1:] if t > 0 else turn[:, :-1])
        return result

    def below(self, tilt: float, t: float) -> FloatArray:
        """Log of a bound on the integral of the law's modulus, and on a sum over steps, below the first panel, (angles,).

        Args:
            tilt: Above 0.
            t: As of `growth`.
        """
        start = float(log_ndtr(LEFT + 1 / FINE)) + 0.5 * np.square(self.angles / self.mu)
        grown = max(-t, 0.0)
        result = start + grown * self.forth[2][:, 0]
        if self.both:
            power = tilt - grown * np.tan(self.angles)
            here = self.logs[1][0] - math.log1p(-self.q) + self.back[1][:, 0]  # log|1 + k~ e^{i theta}|
            result = np.where(power >= 0, result - power * here - tilt * math.log1p(-self.q), np.inf)
        return result

    def above(self, tilt: float, t: float, place: float) -> FloatArray:
        """Log of such a bound above the last panel, with the share that ends at a place, (angles,).

        There Re E and its slope are at least 0.99 cos(psi) times |E| and steep |E|. |W| >= max(1, k/NEARLY) of (S6).
        So all else that rises has a slope of at most mu ((1+tilt+|t|) min(k, NEARLY) + (tilt+|t|) min(k~, NEARLY)),
        where k rises like e^{mu u} at most.

        Args:
            tilt: Above 0.
            t: As of `growth`.
            place: The u where the share ends.
        """
        last, grown = float(self.edges[-1]), max(-t, 0.0)
        height = (
            math.exp(min(self.steep * (last - place) - 1.0, MOST)) * np.cos((self.steep / self.mu) * self.angles) * 0.99
        )
        rise = self.mu * (
            (1 + tilt + abs(t)) * min(self.k[-1], NEARLY) + (tilt + abs(t)) * min(self.k_back[-1], NEARLY)
        )
        log = (1 + tilt) * self.logs[0][-1] + grown * self.forth[2][:, -1] - height - 0.5 * last * last
        if self.both:
            log = log - tilt * math.log1p(-self.q) + grown * self.back[2][:, -1]
        log = log + 0.5 * np.square(self.angles / self.mu) + math.log(1 / FINE + 1 / last)
        return np.where(self.steep * height >= rise, log, np.inf)


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
    return np.where(
        log_w < LOW, log_w - 0.5 * np.exp(np.minimum(log_w, LOW)), np.log(-np.expm1(-np.exp(np.maximum(log_w, LOW))))
    )


def logsumexp(logs: FloatArray, axis: int = 0) -> FloatArray:
    """The logarithm of a sum, for an array with few infinities. It omits the checks that cost SciPy most of its time.

    Args:
        logs: Logarithms of the terms.
        axis: The axis that is summed.
    """
    top = np.maximum(logs.max(axis=axis, keepdims=True), -1e300)
    least = np.squeeze(top, axis)
    result: FloatArray = np.where(np.isposinf(least), least, np.log(np.exp(logs - top).sum(axis=axis)) + least)
    return result


def _running(first: float, logs: FloatArray) -> FloatArray:
    """Logs of running sums, those of what is slight beside the whole perhaps as much as e^{-MOST} of it."""
    every = np.append(first, logs)
    top = float(every.max())
    result: FloatArray = np.log(np.cumsum(np.exp(np.maximum(every - top, -MOST)))) + top
    return result


class SeldomSampled(Protocol):
    """A seldom sampled law as slices and rungs use it.

    Attributes:
        mu: Sensitivity over the standard deviation of the noise, the greatest if there are several.
        q: Probability that the answer moves.
        shifts: Distances that it may move by, over the same deviation, (shifts,).
        odds: Log of their probabilities over 1 - q, (shifts,).
        count: Copies of the law.
        variation: Upper bound on the total variation of all copies.
        turns: 2 where the loss has a turn on either side, under replace, else 1.
    """

    mu: float
    q: float
    shifts: FloatArray
    odds: FloatArray
    count: int
    variation: float
    turns: int
    direction: Direction

    def law(self, u: FloatArray, step: float) -> Weighted:
        """Losses and P-masses of one copy at nodes.

        Args:
            u: The nodes, (nodes,).
            step: Their distance.
        """


class SlicedSum(QuadratureSum):
    """So many copies of a slice, under remove or replace."""

    def __init__(self, law: SeldomSampled, count: int, panels: Panels, slice_: Edges) -> None:
        """law: that is sliced; panels: of the same law, up to an edge no lower than the slice's."""
        self.count, self.panels, self.slice = count, panels, slice_
        self._law = law.law
        self._goal = math.log(2.0**-58 / count)
        self._found: dict[tuple[float, float], Layout] = {}
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
        return log + np.log(-np.expm1(-gap))

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
        return 1.01 * (1 + back) * (x_error + 2 * ELEMENTARY) + 2 * ELEMENTARY

    def _masses(self, tilt: float) -> tuple[FloatArray, FloatArray, float, float]:
        """Log of the least and the greatest mass of each panel at this tilt, and of their sums, rounded down and up."""
        if tilt not in self._weights:
            low, high = self.panels.weights(tilt)
            low, high = low - self._share.height[1:], high - self._share.height[:-1]
            if self._depth is not None:
                filled = _log_filled(self._depth)
                low, high = low + filled[:-1], high + filled[1:]
            below, above = self._outside(tilt, 0.0)
            most = float(np.logaddexp(np.logaddexp.reduce(high), np.logaddexp(below[0], above[0])))
            self._weights = {tilt: (low, high, float(np.logaddexp.reduce(low)) - SLACK, most + SLACK)}
        return self._weights[tilt]

    def log_mgf_by_panels(self, tilt: float) -> float:
        """An upper bound on log M(tilt) of one copy, without a rule; where a slice is so slight that it has none, too."""
        return self._masses(tilt)[3]

    def _outside(self, tilt: float, t: float) -> tuple[FloatArray, FloatArray]:
        """Below and above the panels."""
        below, above = self.panels.below(tilt, t), self.panels.above(tilt, t, self.slice.above)
        first = self._share.modulus[:, 1]
        if self._lower is None:
            return below + first, above
        w = first + self._lower.modulus[:, 1]
        # a slice far up weighs less here than any float
        log_w = np.logaddexp(*(self.panels.log_modulus(place) for place in self.slice))
        return below + np.minimum(log_w + w, math.log(2) + w), above + math.log(2)

    @cached_property
    def _own(self) -> FloatArray:
        """Log of the most that the share may be off the line over e^{-E}, a's modulus over e^{-E} apart, (angles, panels)."""
        if self._lower is None:
            return self._share.rise
        w = self._share.modulus[:, 1:] + self._lower.modulus[:, 1:]
        together = np.logaddexp(0.0, self._share.modulus[:, 1:] - self._lower.less)
        return self._share.rise + np.minimum(np.log(np.maximum(w, SMALLEST)) + w, together)

    @np.errstate(all="ignore")
    def turned(self, tilt: float, t: float) -> FloatArray:
        """Log of the integral of the modulus at u + iy over M(tilt) at each angle.

        Args:
            tilt: Above 0.
            t: Below 0 where turns lift the law; above 0 where they sink it.
        """
        low, high, least, most = self._masses(tilt)
        grown = self.panels.growth(tilt, t) + self._own
        outside: FloatArray = np.logaddexp(*self._outside(tilt, t)) - least
        plain = high if self._lower is None else self.panels.weights(tilt)[1] - self._share.height[:-1]
        # in logarithms: the turns of a far line lift the modulus beyond all floats
        result: FloatArray = np.logaddexp(logsumexp(plain - least + grown, axis=1) + SLACK, outside)
        if self._lower is None:  # nearer to 1 than panels know the whole
            up, down = np.exp(high - least), np.exp(low - most)
            change = np.expm1(grown) * np.where(grown > 0, up, down)  # inf proves nothing
            near = change.sum(axis=1) + SLACK * np.abs(change).sum(axis=1)
            result = np.fmin(result, np.log1p(np.maximum(near + np.exp(outside), -1 + SLACK)))
        result = result + 0.5 * np.square(self.panels.angles / self.panels.mu) * (1 + SLACK)
        return np.where(np.isnan(result), np.inf, result)

    def layout(self, low: float, high: float, reach: float) -> Layout:
        """Equal steps, of few bits so that nodes are exact; low and high are one tilt."""
        tilt = high
        if (tilt, reach) not in self._found:
            panels = self.panels
            cost = self.turned(tilt, -reach) + math.log(2) - self._goal + 0.01
            wide = float((2 * math.pi * panels.angles / panels.mu / np.maximum(cost, 1.0)).max())
            if not wide > 0:
                raise NoCertificateError
            step = few_bits(min(wide, panels.width), 6)
            _, masses, least, _ = self._masses(tilt)
            below, above = (float(one[0]) for one in self._outside(tilt, 0.0))
            goal = least + self._goal - math.log(2)  # a panel has at most 1 + width/step nodes, step <= width
            left = np.flatnonzero(_running(below, masses) <= goal)
            right = np.flatnonzero(_running(above, masses[::-1]) <= goal)
            if not (len(left) and len(right)):
                raise NoCertificateError
            u = panels.edges
            ends = float(u[left[-1]]), float(u[len(u) - 1 - right[-1]])
            size = math.ceil((ends[1] - ends[0]) / step)
            self._found[tilt, reach] = Layout(tilt, tilt, reach, size, step, ends, self._goal)
        return self._found[tilt, reach]

    def nodes(self, layout: Layout) -> tuple[FloatArray, Weighted]:
        """Equal steps between the ends."""
        u, step = layout.places(), layout.step
        law = self._law(u, step)
        log, error = self.log_share(u)
        part = law.log_masses + log
        significant = part > part.max() - DEEP
        own = (law.mass_error + error + U * np.abs(log))[significant]
        share, share_error = self._whole(u[significant], step, part[significant], own)
        return u[significant], Weighted(
            law.losses[significant],
            part[significant] - share,
            own + 2 * U * abs(share) + share_error,
            law.loss_error[significant],
            outside=4 * math.exp(layout.log_error),
            log_share=(share, share_error),
        )

    def _whole(self, u: FloatArray, step: float, part: FloatArray, own: FloatArray) -> tuple[float, float]:
        """Log of the sum over the nodes, and its error: by what is not there where that is less, for all nodes add up to 1.

        The rule errs in phi by 2 e^{-2 pi^2/step^2}, step <= 1/16, and beyond FARTHEST deviations nothing is left.
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

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """On nodes that prove more."""
        law, n = self._nodes(tilt, 0.0).weighted, self.count
        k, mean, variance = atoms.rough_cumulants(law.losses, law.log_masses, tilt, n)
        return k + n * law.log_share[0], mean, variance

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """Count times that of one copy, by the best angle."""
        return self.count * min(float(self.turned(tilt, t).min()), 0.0) * (1 - 1e-12) if t > 0 else 0.0
