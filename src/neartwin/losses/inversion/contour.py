"""The contour: delta(eps) = (1/2pi) int M(s) e^{-s eps} k(s) dt along s = tilt + it, by the trapezoidal rule.

The loss is never discretised (K1). Two smooth kernels enclose (1 - e^{-x})_+ (K2). The true delta lies in
[S_lower - alias - cut - rounding, S_upper + cut + rounding] (K3): aliases (K4), cut (K5) and rounding (K6) are bounded, and
terms too small to matter are never computed (K8). Equations (K1) to (K16): docs/proofs/losses-contour.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion.total import Saddle, SumOfLosses, log_c
from neartwin.losses.summands import rounding
from neartwin.losses.summands.rounding import ELEMENTARY, SMALLEST, ComplexArray, NoCertificateError, U, few_bits, gamma
from neartwin.special import ndtr

SMALLER, LARGER = (0.5, 0.25, 0.1, 0.03), (2.0, 4.0)  # further gaps tried, as shares of a Gaussian's best
GAPS = np.geomspace(0.01, 8.0, 30)  # those compared where K is known roughly
GENEROUS = 1.4  # a period so much longer than a Gaussian's is good enough
MANY = 1024  # nodes from which a quick look pays
TURNS = (1.2, 0.4, 0.0)  # how far the fastest atoms may turn between nodes that are judged together, ever fewer
TOLERANCE = 1e-13  # wanted relative size of alias and cut
FEW = 64
BEYOND, LEAST_GROWTH, BLIND, MOST_GROWTH = 1.05, 1.25, 1.6, 16.0  # of the nodes, from one look at the tail to the next
SHORT = 256  # nodes of which none is worth dropping
LONG = 1 << 14  # terms at all eps, from which products of turns are quicker
MOST_NODES = 1 << 18
MOST_WORK = 1 << 24  # exponentials in one line
SMOOTH = 4  # times as many of both where smooth kernels must stand for the decay that nearly atomic losses lack


Curve = Callable[[FloatArray], FloatArray]
Bounds = tuple[FloatArray, FloatArray]  # on delta


class Alias(NamedTuple):
    """The line's neighbours mW away (K4), bounded by Chernoff at one s above tilt and one below."""

    tilt: float
    step: float  # between frequencies, of so few bits that its multiples are exact
    period: float
    top: float
    above: tuple[float, float]  # (s, log of c(s) M(s) / (e^{(s-tilt)W} - 1))
    below: tuple[float, float]

    def log_bound(self, eps: FloatArray) -> FloatArray:
        """Log of the bound at each eps."""
        right = np.where(eps + self.period * (1 - 4 * U) >= self.top, -np.inf, self.above[1] - self.above[0] * eps)
        return np.logaddexp(right, self.below[1] - self.below[0] * eps) + 1e-12


def _shortest(
    total: SumOfLosses, saddle: Saddle, log_goal: float, gap: float, enough: float, *, rough: Curve | None
) -> tuple[float, float, float]:
    """The shortest period (K7) found over gaps of one sign, with its s and log c(s) M(s); the first that is good enough.

    The period is a convex function of the gap over the gap: it falls, then rises. So a search ends where it rises. Where K is
    known roughly, the first that is proved is good enough, from the best by that on.
    """
    tilt = saddle.tilt
    best = (math.inf, tilt, 0.0)
    ranked: Iterable[Sequence[float]] = ((1.0,), SMALLER, LARGER)
    if rough is not None:
        near = np.maximum(tilt + GAPS * gap, SMALLEST)
        logs = rough(near) - near * (saddle.eps + np.log1p(1 / near)) - np.log1p(near) - log_goal
        ranked, enough = GAPS[np.argsort(logs / np.abs(near - tilt)), None].tolist(), 1 / SMALLEST
    for shares in ranked:
        for share in shares:
            s = max(tilt + share * gap, 0.0)
            log = sum(total.coarser.log_mgf(s)) + log_c(s) if s > 0 else 0.0  # c(s) M(s), rounded up
            period = (log - s * saddle.eps - log_goal + 0.7) / abs(s - tilt)
            if not (period < best[0] or best[0] == math.inf):
                break
            if math.isfinite(period):
                best = (period, s, log)
            if best[0] <= enough:
                return best
        if share != shares[0]:  # it fell this way, so it rises the other way
            break
    return best


def find_alias(total: SumOfLosses, saddle: Saddle, log_goal: float, rough: Curve | None = None) -> Alias:
    """The shortest period found whose aliases at saddle.eps stay below the goal.

    Args:
        total: The sum.
        saddle: Its saddle.
        log_goal: Logarithm of what they may add to delta.
        rough: About K at any tilts, where that is at hand and K itself is slow.
    """
    tilt, deviation, eps = saddle.tilt, saddle.deviation, saddle.eps
    gap = math.sqrt(2 * max(total.log_mgf(tilt)[0] - tilt * eps - log_goal, 2.0)) / deviation
    if not math.isfinite(gap):
        raise NoCertificateError
    room = (total.top.loss - eps) * (1 + 1e-6)
    enough = GENEROUS * gap * deviation**2
    left, below, log_below = _shortest(total, saddle, log_goal, -min(gap, 0.9 * tilt), enough, rough=rough)
    right, above, log_above = _shortest(total, saddle, log_goal, gap, max(left, enough), rough=rough)
    period = max(min(right, room), left, 2 * deviation) * (1 + 1e-9)
    if not 0 < period < math.inf:
        raise NoCertificateError
    bounds = []
    for s, log in ((above, log_above), (below, log_below)):
        far = abs(s - tilt) * period
        over = log - far - math.log(-math.expm1(-far)) + 1e-13 * (1 + abs(log) + far) if far > 0 else math.inf
        bounds.append((s, over))
    step = few_bits(2 * math.pi / period, 24)
    return Alias(tilt, step, 2 * math.pi / step * (1 - 4 * U), total.top.loss, bounds[0], bounds[1])


def guess_alias(total: SumOfLosses, saddle: Saddle, log_goal: float) -> Alias:
    """A Gaussian's period, with no bound on what aliases add. They only add, so the line still bounds delta from above (K4).

    Args:
        total: The sum.
        saddle: Its saddle.
        log_goal: Logarithm of what they may add to delta.
    """
    need = max(total.log_mgf(saddle.tilt)[0] - saddle.tilt * saddle.eps - log_goal, 2.0)
    step = few_bits(2 * math.pi / (math.sqrt(2 * need) * saddle.deviation), 24)
    if not 0 < step < math.inf:  # no period serves
        raise NoCertificateError
    return Alias(saddle.tilt, step, 2 * math.pi / step, math.inf, (saddle.tilt, math.inf), (saddle.tilt, math.inf))


def significant_frequencies(
    total: SumOfLosses, tilt: float, step: float, nodes: int, kernel: Curve, *, log_goal: float
) -> tuple[FloatArray, float]:
    """The frequencies whose terms may matter, 0 among them, and the sum of the moduli of all others, rounded up.

    Args:
        total: The sum.
        tilt: The line's tilt.
        step: Between the nodes.
        nodes: The number of nodes above 0.
        kernel: A bound on the modulus of the term at each frequency where |M(s)| = M(tilt), falling in it.
        log_goal: The logarithm of what may be lost.
    """
    if nodes < MANY or total.fastest_frequency == 0:
        return np.arange(nodes + 1.0) * step, 0.0
    every = np.arange(nodes + 1)
    lost, kept = 0.0, every
    share = max(log_goal, -600.0) - math.log(20 * len(every))
    for turn in TURNS:
        each = max(1, int(turn / (step * total.fastest_frequency)))
        block = kept // each
        first = each * block[np.append(True, np.diff(block) > 0)]
        t: FloatArray = step * first.astype(float)
        size = kernel(t)
        half = 0.5 * (each - 1) * step
        bound = total.log_modulus_bound(tilt, t + half, half, share - np.log(np.maximum(size, SMALLEST)))
        if bound is None:
            return step * every.astype(float), 0.0
        significant = bound + np.log(size) > share
        significant[0] = True
        lost += each * float(np.exp(bound[~significant]) @ size[~significant]) * 1.01
        kept = (first[significant, None] + np.arange(each)).ravel()
        if each == 1:
            break
    return step * kept[kept <= nodes].astype(float), lost


class Rounding(NamedTuple):
    """The rounding of a sum of terms, over e^{log_scale}: at eps 0, and more for each unit of |eps|."""

    fixed: float
    per_eps: float

    @classmethod
    def of(cls, size: FloatArray, error: FloatArray, t: FloatArray) -> Rounding:
        """The rounding of terms with known errors.

        Args:
            size: Moduli of the terms, (frequencies,).
            error: Relative error of each, as the argument of expm1.
            t: Their frequencies.
        """
        grown = np.expm1(error)
        per_eps = float((size + size * grown) @ t)
        summed = min(gamma(len(t)), 2 * rounding.blocked(len(t)))  # by blocks, or a table's columns and rows
        return cls(float(size @ (grown + summed)) * (1 + 1e-9), per_eps * 1.72 * 2 * U * 1.01)


NOTHING = Rounding(0.0, 0.0)


class ContourRule(ABC):
    """Certified bounds on delta near one epsilon, whatever the kernel of the quadrature."""

    @property
    def nodes(self) -> int:
        """How many frequencies it has; a formula counts as one."""
        return 1

    @property
    def smooth(self) -> bool:
        """Whether it has two kernels, which blur delta."""
        return False

    @abstractmethod
    def bounds(self, eps: FloatArray) -> Bounds:
        """Lower and upper bounds on the finite part of delta at each eps."""

    @abstractmethod
    def point_estimate(self, eps: float) -> tuple[float, float]:
        """Delta and minus its slope, uncertified."""

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The bounds; 0 and 1 where a line far from its saddle proves nothing."""
        with np.errstate(over="ignore", invalid="ignore"):
            lower, upper = self.bounds(eps)
        return np.nan_to_num(lower, nan=0.0), np.nan_to_num(upper, nan=1.0)


@dataclass(eq=False)
class Contour(ContourRule):
    """One line, ready to answer every eps near its saddle; not to be changed. Sums are relative to e^{log_scale}."""

    saddle: Saddle
    step: float  # every t is a multiple of it, exactly
    t: FloatArray
    size: FloatArray  # modulus of M(s)/M(tilt) k(s) at t, times the weight of the rule
    angle: FloatArray  # its argument
    log_scale: float  # K(tilt), its error in scale_error
    scale_error: float
    dip: ComplexArray | None  # the lower kernel over the upper, minus 1: -C gamma^2 s(s+1), as a factor
    rounding: Rounding
    dip_rounding: Rounding
    alias: Alias
    cut: float

    @property
    def nodes(self) -> int:
        """How many frequencies."""
        return len(self.t)

    @property
    def smooth(self) -> bool:
        """Whether the lower kernel is another."""
        return self.dip is not None

    def bounds(self, eps: FloatArray) -> Bounds:
        """The bounds (K3)."""
        scale = np.exp(np.minimum(self.log_scale - self.saddle.tilt * eps, 700.0))
        scale_error = self.scale_error + 4 * U * (abs(self.log_scale) + self.saddle.tilt * np.abs(eps)) + 32 * U
        # S of the upper kernel, and what the lower one adds to it (K2)
        (s_upper, dip), products = self._sums(eps)
        # nothing is known where the angle of the longest frequency errs by more than 1
        reach = np.where(2 * U * np.abs(eps) * float(self.t[-1]) <= 1, np.abs(eps), np.inf)
        rounding = self.rounding.fixed + reach * self.rounding.per_eps + products
        rounding_below = rounding
        if self.dip is not None:
            rounding_below = rounding + self.dip_rounding.fixed + reach * self.dip_rounding.per_eps
        alias = np.exp(np.minimum(self.alias.log_bound(eps), 700.0))
        upper = (s_upper + rounding + self.cut) * scale * (1 + np.expm1(scale_error))
        low = s_upper + np.minimum(dip, 0.0) - rounding_below - self.cut
        lower = np.maximum(np.maximum(low, 0.0) * scale * (1 - scale_error) - alias, 0.0)  # the error may be above 1
        return lower, np.minimum(np.maximum(upper, 0.0), 1.0)

    @cached_property
    def _tables(self) -> tuple[list[ComplexArray], float] | None:
        """Terms of both kernels at every multiple of the step, (rows, columns), and the error of their sums by products of turns.

        None where most multiples have none. The turns of e^{i angle}, of columns and of rows err by 4 ELEMENTARY together, and
        their products by 12U; shorter sums err by less than is charged for one sum of all, and eps t by U.
        """
        k = np.rint(self.t / self.step).astype(np.int64)
        few = math.isqrt(int(k[-1])) + 1
        if len(k) < MANY or few * few > 4 * len(k):
            return None
        plain = self.size * (np.cos(self.angle) + 1j * np.sin(self.angle))
        tables: list[ComplexArray] = []
        most = 0.0
        for terms in (plain,) if self.dip is None else (plain, plain * self.dip):
            table: ComplexArray = np.zeros(few * few, dtype=np.complex128)
            table[k] = terms
            tables.append(table.reshape(few, few))
            most += float(np.abs(terms).sum())
        return tables, 6 * ELEMENTARY * most

    def _sums(self, eps: FloatArray) -> tuple[list[FloatArray], float]:
        """Real parts of the two sums of terms at each eps, (2, n), and what their own way adds to the rounding.

        A long line is summed by columns and then by rows: e^{-i eps t} is a product of two turns.
        """
        if len(eps) * len(self.t) > LONG and self._tables is not None:
            tables, error = self._tables
            steps = self.step * np.arange(len(tables[0]), dtype=float)
            fine, coarse = (np.multiply.outer(eps, one) for one in (steps, len(steps) * steps))
            fine, coarse = np.cos(fine) - 1j * np.sin(fine), np.cos(coarse) - 1j * np.sin(coarse)
            result = [(np.einsum("ej,ij->ei", fine, table) * coarse).sum(axis=1).real for table in tables]
            return [*result, np.zeros(len(eps))][:2], error
        turned = self.angle - np.multiply.outer(eps, self.t)
        cosine, starts = np.cos(turned), np.arange(0, len(self.t), rounding.block(len(self.t)))
        every = [cosine * self.size]
        if self.dip is not None:
            every.append(every[0] * self.dip.real - np.sin(turned) * (self.size * self.dip.imag))
        result = [np.add.reduceat(terms, starts, axis=1).sum(axis=1) for terms in every]
        return [*result, np.zeros(len(eps))][:2], 0.0

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """S between the kernels and -dS/deps, uncertified; for Newton."""
        turned = self.angle - eps * self.t
        real, imaginary = np.cos(turned) * self.size, np.sin(turned) * self.size
        if self.dip is not None:
            half = 1 + 0.5 * self.dip
            real, imaginary = real * half.real - imaginary * half.imag, real * half.imag + imaginary * half.real
        scale = math.exp(min(self.log_scale - self.saddle.tilt * eps, 700.0))
        value = float(real.sum())
        return value * scale, (self.saddle.tilt * value - float(imaginary @ self.t)) * scale


def _length(
    total: SumOfLosses, saddle: Saddle, step: float, *, mu2: float, ratio: float, log_goal: float, share: float
) -> tuple[int, float]:
    """How many nodes bring the cut below the goal, both over e^{K - tilt eps}, and the logarithm of the cut then.

    The terms fall about like e^{-c t^p}, 1 <= p <= 2: each look tells how far the next one goes, and two looks tell p.
    `NoCertificateError` where the line would cost more than the share of the budget.
    """
    tilt = saddle.tilt
    spread = step**2 * (saddle.deviation**2 + mu2 + (0.0 if mu2 else 1 / tilt**2))
    nodes = max(4, math.ceil(1.05 * math.sqrt(2 * max(-log_goal, 1.0) / spread)))
    nodes = math.ceil(1.3 * nodes) if nodes < FEW else nodes  # where a node costs less than a second look at the tail
    looked, fell, power = 0, 0.0, 2.0
    while True:
        while True:
            work = total.work(tilt, nodes * step, nodes) if nodes > SHORT else 0
            over = max(nodes / MOST_NODES, work / MOST_WORK) / share
            if over <= 1:
                break
            nodes = int(0.99 * nodes / over)
            if nodes < LEAST_GROWTH * looked or not looked:
                raise NoCertificateError
        t = nodes * step
        own = 0.5 * mu2 * (tilt * (tilt + 1) - t * t) + math.log1p(ratio) - math.log(math.pi * t)
        tail = 0.0 if own < log_goal - 1e-9 else sum(part.log_tail(tilt, t, math.inf) for part in total.summands)
        cut = own + tail + 1e-12 * (1 + abs(own) + abs(tail))
        if not cut > log_goal:
            return nodes, cut
        fall = 0.5 * mu2 * t * t - tail
        if fall > fell > 0:
            power = min(max(math.log(fall / fell) / math.log(nodes / looked), 1.0), 2.0)
        growth = ((cut - log_goal + fall) / fall) ** (1 / power) if fall > 0 else BLIND
        looked, fell = nodes, fall
        nodes = math.ceil(nodes * min(max(BEYOND * growth, LEAST_GROWTH), MOST_GROWTH))


@np.errstate(all="ignore")  # what overflows is no number, and no number proves nothing
def build(
    total: SumOfLosses,
    saddle: Saddle,
    width: float,
    *,
    tolerance: float = TOLERANCE,
    share: float = 1,
    aliases: Callable[[SumOfLosses, Saddle, float], Alias] = find_alias,
) -> Contour:
    """A certified line, alias and cut within the tolerance.

    Args:
        total: The sum.
        saddle: Its saddle.
        width: The smooth kernels' width; 0 for the plain one.
        tolerance: Relative to delta.
        share: How many times the usual budget it may take.
        aliases: How the period is found, with the bound on the aliases.

    Raises:
        NoCertificateError: The line would be longer.
    """
    tilt = saddle.tilt
    scale, scale_error = total.log_mgf(tilt)
    if not math.isfinite(scale):
        raise NoCertificateError
    log_goal = saddle.log_delta + math.log(tolerance)
    relative_goal = log_goal - scale + tilt * saddle.eps  # of a term over e^{K - tilt eps}
    alias = aliases(total, saddle, log_goal)
    step = alias.step
    mu2, ratio = width * width, 1.0
    if width:
        ratio += (width / 2) * float(ndtr(width / 2)) * math.sqrt(2 * math.pi) * math.exp(mu2 / 8) * (1 + 1e-13)
    nodes, cut = _length(
        total, saddle, step, mu2=mu2, ratio=ratio, log_goal=relative_goal, share=SMOOTH * share if width else share
    )

    def kernel(t: FloatArray) -> FloatArray:
        poles = 2 / (np.hypot(t, tilt) * np.hypot(t, tilt + 1))
        result: FloatArray = np.exp(0.5 * mu2 * (tilt * (tilt + 1) - t * t)) * (poles + ratio * mu2)
        return result * (step / math.pi * (1 + 1e-9))

    t, negligible = significant_frequencies(total, tilt, step, nodes, kernel, log_goal=relative_goal)
    ratio_log, error = total.log_mgf_ratio(tilt, t)
    real, angle = ratio_log.real, ratio_log.imag
    # s(s+1), of which tilt(tilt+1) - t^2 errs by 4U of both: no more than 4U |s(s+1)|
    product: ComplexArray = (tilt * (tilt + 1) - t * t) + 1j * (t * (2 * tilt + 1))
    shares: FloatArray = (step / math.pi) / np.sqrt(np.square(product.real) + np.square(product.imag))
    shares[0] *= 0.5
    real = real + (0.5 * mu2) * product.real if width else real
    size = np.exp(real) * shares
    angle = angle - np.angle(product)
    dip: ComplexArray | None = None
    if width:
        angle += (0.5 * mu2) * product.imag
        error += 8 * U * mu2 * np.abs(product)
        dip = -ratio * mu2 * product
    # of the poles, of the exponential and of the angle (K6)
    error = error + 2 * U * np.abs(angle) + 8 * U * (math.log(nodes * step + tilt + 2) + 12)
    # a term that may be e^LARGEST times as great as a float tells is bounded by its logarithm
    if error.max() > rounding.LARGEST:
        size = np.maximum(size, np.exp(real + error - rounding.LARGEST) * shares)
        error = np.minimum(error, rounding.LARGEST)
    dropped = negligible
    if len(t) > SHORT:
        most = size * np.exp(error) * (2 if dip is None else 2 + np.abs(dip))
        kept = most >= 0.1 * math.exp(max(relative_goal, -600.0)) / len(t)
        kept[0] = True
        dropped += float(most[~kept].sum()) * 1.01
        t, size, angle, error = t[kept], size[kept], angle[kept], error[kept]
        dip = None if dip is None else dip[kept]
    return Contour(
        saddle=saddle,
        step=step,
        t=t,
        size=size,
        angle=angle,
        log_scale=scale,
        scale_error=scale_error,
        dip=dip,
        rounding=Rounding.of(size, error, t),
        dip_rounding=NOTHING if dip is None else Rounding.of(size * np.abs(dip), error, t),
        alias=alias,
        cut=math.exp(min(cut, 700.0)) + dropped,
    )
