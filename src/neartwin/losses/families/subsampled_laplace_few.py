r"""A few uses of the sampled Laplace mechanism: none and one loss on a ramp exactly, the contour for the rest.

With at most one loss on a ramp, delta is a finite sum (S10) of closed forms (S11). The rest is a measure, whose contour is cut
by (S12) and errs by (S13). Equations: docs/proofs/losses-sampled.md.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion import saddle
from neartwin.losses.inversion.contour import MOST_NODES, MOST_WORK, NOTHING, Contour, Rounding, find_alias, poles
from neartwin.losses.inversion.contour_search import CONTOUR, NARROW, Answer, by_line
from neartwin.losses.inversion.saddle import Saddle
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands import atoms
from neartwin.losses.summands.base import Direction, SpecialMethod
from neartwin.losses.summands.quadrature import Rule
from neartwin.losses.summands.rounding import ELEMENTARY, SMALLEST, ComplexArray, NoCertificateError, U, gamma

MOST_USES = 900  # 2^n is a float
ROUGH = 1e-6  # relative width in eps of the first line where delta is asked
LEVELS = (NARROW, 1e-7, ROUGH)  # relative widths in eps that are tried in turn
BLOCK = 1 << 18  # numbers a temporary matrix may hold
TwoAtoms = tuple[tuple[tuple[float, float], tuple[float, float]], float]


class RampLaw(Protocol):
    """Copies of a law of two atoms and ramps between them, as `SubsampledLaplaceSum`."""

    direction: Direction
    e: float
    q: float
    count: int

    def log_r(self, l: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log(1 - q + q e^l), and its error."""

    def two_atoms(self) -> TwoAtoms:
        """The largest and the least loss, the logarithms of their masses, and a bound on the error of each of the four."""

    def apart(self, tilt: float) -> tuple[float, float]:
        """(a, c): the atoms have a transform of at most a M(tilt), the ramps of at most c M(tilt)/t."""

    def rule(self, tilt: float, t: float) -> Rule:
        """A rule that reaches t."""


class FewOnRamps:
    """The part of the law with at most one loss on a ramp (S10): its share of delta."""

    def __init__(self, law: RampLaw) -> None:
        """law: of 2 to `MOST_USES` copies."""
        self.direction, self.e, self.q, n = law.direction, law.e, law.q, law.count
        ((high, low), (high_mass, low_mass)), error = law.two_atoms()
        (self.top, self.bottom), _ = (values.tolist() for values in law.log_r(np.array([self.e, -self.e])))
        self.high, self.mass = high, -0.5 * math.expm1(-self.e)
        self.moved = n * error + 8 * U * n * (abs(high) + abs(low)) + 4 * error  # of any loss
        self.error = n * (error + 8 * ELEMENTARY + 8 * U * self.e) + 1400 * ELEMENTARY + gamma(2 * n + 3)
        self.parts: list[tuple[FloatArray, FloatArray]] = []  # for each k: losses and weights
        for k in range(2):
            left = n - k
            j = np.arange(left + 1.0)
            ways = np.ones(left + 1)
            np.cumprod((left + 1 - j[1:]) / j[1:], out=ways[1:])
            exponent = np.log(ways) + (left - j) * high_mass + j * low_mass
            self.parts.append(((left - j) * high + j * low, math.comb(n, k) * np.exp(exponent)))

    def _rising(self, x: FloatArray) -> FloatArray:
        """g_1 of the ramp of `remove` (S11)."""
        gap = 0.5 * (self.e - np.log1p(np.expm1(np.clip(x, self.bottom, self.top)) / self.q))
        inside = 0.5 * self.q * np.square(np.expm1(-np.clip(gap, 0.0, self.e)))
        return np.where(x < self.bottom, -self.mass * np.expm1(np.minimum(x, 0.0)), np.where(x < self.top, inside, 0.0))

    def _falling(self, x: FloatArray) -> FloatArray:
        """g_1 of the ramp of `add` (S11)."""
        between = np.clip(x, -self.top, -self.bottom)
        y = np.clip(0.5 * (self.e + np.log1p(np.expm1(-between) / self.q)), 0.0, self.e)
        inside = 0.5 * self.q * np.exp(between - self.e + 2 * y) * np.square(np.expm1(-y))
        below = -self.mass * np.expm1(np.minimum(x, 0.0))
        return np.where(x < -self.top, below, np.where(x < -self.bottom, inside, 0.0))

    def _one(self, x: FloatArray) -> FloatArray:
        """g_1."""
        if self.direction == "remove":
            return self._rising(x)
        if self.direction == "add":
            return self._falling(x)
        return self._rising(x + self.bottom) + math.exp(self.bottom) * self._falling(x - self.bottom)

    def share(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Its part of delta at each eps, and the bound on the error; 1e-300 for what exponentials lose below every float."""
        rows = max(1, BLOCK // len(self.parts[0][0]))
        if len(eps) > rows:
            parts = [self.share(eps[i : i + rows]) for i in range(0, len(eps), rows)]
            return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
        shift = self.moved + 6 * U * np.abs(eps)
        value, loose = np.zeros((2, len(eps)))
        for k, (losses, weights) in enumerate(self.parts):
            x = np.subtract.outer(eps, losses)
            value += (self._one(x) if k else -np.expm1(np.minimum(x, 0.0))) @ weights
            mass = (x < k * self.high + shift[:, None]) @ (weights * (2 * self.mass if k else 1.0))
            loose += mass * (shift + (k * (16 + 4 * self.e)) * ELEMENTARY)
        return value, value * self.error + 1.01 * loose + 1e-300


@dataclass(frozen=True)
class FewAndRest:
    """A rule for every eps near its saddle: the exact share of few losses on ramps, and the contour of the rest."""

    few: FewOnRamps
    rest: Contour

    @property
    def nodes(self) -> int:
        """Those of the contour."""
        return self.rest.nodes

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds at each eps."""
        share, slack = self.few.share(eps)
        lower, upper = self.rest.delta(eps)
        lower = (np.maximum(share - slack, 0.0) + lower) * (1 - 4 * U)
        return lower, np.minimum((share + slack + upper) * (1 + 4 * U), 1.0)

    def bounds_with_errors(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """The bounds with their error terms."""
        _, _, errors = self.rest.bounds_with_errors(eps)
        errors["rounding"] = errors["rounding"] + self.few.share(eps)[1]
        return *self.delta(eps), errors

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """The sum and its fall, that of the few by a difference."""
        step = 1e-5 / (1 + self.rest.saddle.tilt)
        above, share, below = self.few.share(np.array([eps - step, eps, eps + step]))[0].tolist()
        value, fall = self.rest.point_estimate(eps)
        return share + value, (above - below) / (2 * step) + fall


def _log_cut(law: RampLaw, apart: tuple[float, float], far: float) -> float:
    """The logarithm of R(far)/(3 pi far) of (S12), rounded up."""
    n, y = law.count, apart[1] / (apart[0] * far)
    own = n * math.log(apart[0]) + math.log(math.comb(n, 2)) + 2 * math.log(y) + (n - 2) * math.log1p(y)
    own -= math.log(3 * math.pi * far)
    return own + 1e-11 * (1 + abs(own) + n * abs(math.log(apart[0])))


def _rest(law: RampLaw, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
    """The transform of two losses on ramps and more, over M(tilt)^n at each node, and the bound (S13) on its error."""
    n = law.count
    rule = law.rule(tilt, float(t[-1]))
    w, tilted = rule.weighted, rule.tilted_law
    one, one_error = atoms.line(w, tilted, t)
    power, whole = np.exp(n * one), np.exp(one)
    slack = np.abs(power) * (np.expm1(np.minimum(n * one_error, 700.0)) + 2 * ELEMENTARY + 4 * U * n * np.abs(one))
    whole_error = np.abs(whole) * (np.expm1(np.minimum(one_error, 700.0)) + 2 * ELEMENTARY + 4 * U * np.abs(one))
    losses, weights = w.losses[:2], tilted.shifted.weights[:2]
    most = abs(float((w.log_masses + tilt * w.losses).max()))
    rho = w.mass_error[:2] + tilt * w.loss_error[:2] + 3 * U * tilt * np.abs(losses) + 6 * ELEMENTARY
    rho = rho + 2 * U * np.abs(w.log_masses[:2]) + 4 * U * most + tilted.moved.bulk + 4 * w.outside
    turn = np.multiply.outer(t, losses)
    few: ComplexArray = np.cos(turn) @ weights + 1j * (np.sin(turn) @ weights)
    few_error = 1.01 * (float(weights @ rho) + t * float(weights @ (w.loss_error[:2] + 8 * U * np.abs(losses))))
    ramps = np.abs(whole - few)
    size = np.maximum(np.abs(few), SMALLEST)
    log_size, angle = np.log(size), np.arctan2(few.imag, few.real)
    grown = np.exp((n - 1) * log_size)
    first: ComplexArray = grown * (np.cos((n - 1) * angle) + 1j * np.sin((n - 1) * angle))
    result = first * (few + n * (whole - few))
    a = float(weights.sum()) + few_error
    moved = n * np.power(a, n - 1) * whole_error
    moved += n * (n - 1) * np.power(a, n - 2) * (ramps + whole_error + few_error) * few_error
    own = n * ELEMENTARY * (np.abs(log_size) + 4) + 8 * ELEMENTARY
    moved += grown * (np.abs(few) + n * ramps) * own + 8 * U * n * grown * (np.abs(whole) + np.abs(few))
    return power - result, slack + 1.01 * moved + 4 * U * (np.abs(power) + np.abs(result))


@np.errstate(all="ignore")
def build(law: RampLaw, total: SumOfLosses, at: Saddle, rtol: float) -> FewAndRest:
    """A rule whose alias and cut leave a wanted relative width in eps.

    Args:
        law: Copies of one law on ramps.
        total: The sum, of this law alone.
        at: The saddle.
        rtol: The width.

    Raises:
        NoCertificateError: The rule would be long.
    """
    tilt, (scale, scale_error), apart = at.tilt, total.log_mgf(at.tilt), law.apart(at.tilt)
    share = 0.02 * rtol * tilt * max(abs(at.eps), 1e-2 * at.deviation)
    log_goal = at.log_delta + math.log(min(max(share, 1e-13), 1e-6))
    alias = find_alias(total, at, log_goal)
    step = alias.step
    relative_goal, nodes = log_goal - scale + tilt * at.eps, 32
    while not _log_cut(law, apart, nodes * step) <= relative_goal:
        nodes = int(1.2 * nodes) + 1
        if nodes > MOST_NODES or total.work(tilt, nodes * step, nodes) > MOST_WORK:
            raise NoCertificateError
    t: FloatArray = step * np.arange(nodes + 1, dtype=float)
    terms, slack = _rest(law, tilt, t)
    weight, product = poles(tilt, t, step)
    size = np.abs(terms) * weight
    rounding = Rounding(
        float(weight @ slack) * 1.01 + float(size.sum()) * (gamma(len(t)) + 200 * U),  # two arguments of at most pi
        float(size @ t) * 1.72 * 2 * U * 1.01,
    )
    rest = Contour(
        saddle=at,
        step=step,
        t=t,
        size=size,
        angle=np.angle(terms) - np.angle(product),
        log_scale=scale,
        scale_error=scale_error,
        dip=None,
        rounding=rounding,
        dip_rounding=NOTHING,
        alias=alias,
        cut=math.exp(min(_log_cut(law, apart, nodes * step), 700.0)),
    )
    return FewAndRest(FewOnRamps(law), rest)


def special(law: RampLaw) -> SpecialMethod | None:
    """The method for a few uses alone; None for one use or many."""
    if not 2 <= law.count <= MOST_USES:
        return None

    def narrowest(total: SumOfLosses, at: Saddle, rtol: float = NARROW) -> tuple[str, FewAndRest]:
        del rtol
        for level in LEVELS:
            with contextlib.suppress(NoCertificateError):
                return CONTOUR, build(law, total, at, level)
        raise NoCertificateError

    def epsilon(total: SumOfLosses, low_target: float, high_target: float) -> Answer:
        return by_line(total, low_target, high_target, build=narrowest, levels=(NARROW,))

    def lines(total: SumOfLosses, eps: float, rtol: float) -> Iterator[tuple[FewAndRest, Saddle]]:
        at = saddle.for_eps(total, eps)
        yield build(law, total, at, ROUGH), at
        if rtol < ROUGH:
            yield narrowest(total, at)[1], at

    return SpecialMethod(epsilon, lines, mixes=False)
