"""Sums of lattice laws by direct convolution: all terms are positive, so the smallest probability keeps its digits.

A Fourier line errs relative to the bulk of the law. Where a rare great loss decides (a person seldom sampled, delta tiny), bulk
and tail are too far apart for any tilt to bring them together in floating point; powers are taken by squaring here.

Error ledger. Every probability of a convolution is a sum of at most N products of numbers not negative: relative errors add, plus
gamma(N). Above: mass beyond a ceiling counts as infinite, the lowest SUNK of it rises to the floor, and UNDERFLOW covers what the
products lose below the smallest float. Below: mass beyond a ceiling sinks to it, low mass and underflow vanish. All of that keeps
the law's side (cells.py). Losses are start + step * index, rounded once, which moves eps by SHIFT of its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.inversion import chernoff
from neartwin.losses.inversion.answer import LATTICE, Answer
from neartwin.losses.inversion.root import ends
from neartwin.losses.inversion.total import SumOfLosses
from neartwin.losses.summands.atoms import AtomicSum
from neartwin.losses.summands.rounding import ELEMENTARY, NoCertificateError, U, gamma

BUDGET = 3 << 30  # products in one power
SUNK = 1e-13  # of P, at each convolution
REST = 1e-6  # of delta, about what lies beyond the ceiling
UNDERFLOW = 1e-290
SHIFT = 8 * U
BLOCK = 1 << 20


@dataclass(frozen=True)
class Pmf:
    """P at consecutive lattice points from `first`, each within the relative error; `infinite` is an infinite loss."""

    first: int
    mass: FloatArray
    infinite: float
    relative: float


class _Sums:
    """Convolutions under one ceiling, for a bound from above or from below, within the budget."""

    def __init__(self, *, above: bool) -> None:
        self.above, self.left = above, float(BUDGET)

    def cut(self, one: Pmf, ceiling: int) -> Pmf:
        """The law with its ends taken in."""
        mass, first, infinite = one.mass, one.first, one.infinite
        last = ceiling - first + 1
        if last < 1:
            raise NoCertificateError
        if last < len(mass):
            over = float(mass[last:].sum())
            mass = mass[:last].copy()
            if self.above:
                infinite += over * (1 + one.relative + gamma(len(one.mass)))
            else:
                mass[-1] += over * (1 - gamma(len(one.mass)))
        low = int(np.searchsorted(np.cumsum(mass), SUNK))
        if 0 < low < len(mass):
            sunk = float(mass[: low + 1].sum())
            mass, first = mass[low:].copy(), first + low
            if self.above:
                mass[0] = sunk
        return Pmf(first, mass, infinite, one.relative + 2 * gamma(len(one.mass)))

    def add(self, one: Pmf, other: Pmf, ceiling: int) -> Pmf:
        """The law of the sum."""
        self.left -= len(one.mass) * len(other.mass)
        if self.left < 0:
            raise NoCertificateError
        infinite = one.infinite + other.infinite * (1 - one.infinite)
        if self.above:
            infinite += UNDERFLOW
        relative = one.relative + other.relative + gamma(min(len(one.mass), len(other.mass)))
        found = Pmf(one.first + other.first, np.convolve(one.mass, other.mass), infinite * (1 + 4 * U), relative)
        return self.cut(found, ceiling)

    def power(self, one: Pmf, count: int, ceiling: Callable[[int], int]) -> Pmf:
        """So many copies, by squaring; ceiling: of the sum of so many."""
        found, taken, copies = None, 0, 1
        square = self.cut(one, ceiling(1))
        while True:
            if count & 1:
                taken += copies
                found = square if found is None else self.add(found, square, ceiling(taken))
            count >>= 1
            if not count:
                return found if found is not None else square
            copies *= 2
            square = self.add(square, square, ceiling(copies))


def _base(part: AtomicSum, step: Fraction) -> tuple[Pmf, Fraction]:
    """One copy on consecutive points, and the loss at index 0."""
    if part.lattice is None or part.lattice.step != step:
        raise NoCertificateError
    start = part.lattice.start / part.count
    law = part.weighted
    index = np.rint((law.losses - float(start)) / float(step)).astype(np.int64)
    mass = np.zeros(int(index.max()) + 1)
    mass[index] = law.masses
    return Pmf(0, mass, 0.0, float(law.mass_error.max()) + 2 * ELEMENTARY + 1500 * U), start


def _low(base: Pmf, origin: float, step: float) -> float:
    """The loss below which a hundredth of one copy lies: about how far each later copy may pull a sum down."""
    return origin + step * int(np.searchsorted(np.cumsum(base.mass), 0.01))


def _ceiling(top: float, each: float) -> Callable[[int], int]:
    """The highest index kept of a sum of k copies."""
    return lambda k: math.ceil(top - k * each) + 1


@dataclass(frozen=True)
class Direct:
    """The law of the whole sum, ready to answer every eps below its ceiling."""

    losses: FloatArray
    law: Pmf
    above: bool

    @property
    def nodes(self) -> int:
        """How many points."""
        return len(self.losses)

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on delta of this law at each eps; only the end of the law's own side is of use."""
        rows = max(1, BLOCK // self.nodes)
        sign = -1.0 if self.above else 1.0
        moved = eps + sign * SHIFT * (np.abs(eps) + float(np.abs(self.losses).max()))
        parts = [
            -np.expm1(np.minimum(np.subtract.outer(moved[i : i + rows], self.losses), 0.0)) @ self.law.mass
            for i in range(0, len(eps), rows)
        ]
        value, error = np.concatenate(parts), self.law.relative + gamma(self.nodes) + 2 * ELEMENTARY
        return value * (1 - error), np.minimum(self.law.infinite + value * (1 + 1.01 * error), 1.0)

    def bounds_with_errors(self, eps: FloatArray) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """The same, with what rounding may do and what lies beyond the ceiling."""
        lower, upper = self.delta(eps)
        rest = np.full(len(eps), self.law.infinite)
        return lower, upper, {"rounding": np.maximum(upper - lower - rest, 0.0), "beyond the window": rest}

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """Delta and -d delta/d eps, uncertified."""
        gap = np.minimum(eps - self.losses, 0.0)
        part = np.where(gap < 0, np.exp(gap), 0.0)
        return float(-np.expm1(gap) @ self.law.mass), float(part @ self.law.mass)


def build(total: SumOfLosses, delta: float, *, above: bool) -> Direct:
    """The law of a sum of finite laws on one lattice, for deltas about this; `NoCertificateError` where it is too long."""
    lattice = total.lattice
    if lattice is None or not all(isinstance(part, AtomicSum) for part in total.summands):
        raise NoCertificateError
    high = chernoff.epsilon_above(total.log_mgf_above, REST * delta)
    sums, found, start, step = _Sums(above=above), None, Fraction(0), float(lattice.step)
    parts = [(part, *_base(part, lattice.step)) for part in total.summands if isinstance(part, AtomicSum)]
    drifts = [max(0.0, -_low(base, float(origin), step)) for _, base, origin in parts]
    later = sum(part.count * drift for (part, _, _), drift in zip(parts, drifts, strict=True))
    for (part, base, origin), drift in zip(parts, drifts, strict=True):
        one = sums.power(base, part.count, _ceiling((high + later) / step, (drift + float(origin)) / step))
        later -= part.count * drift
        start += part.count * origin
        found = one if found is None else sums.add(found, one, math.ceil((high + later - float(start)) / step) + 1)
    if found is None:
        raise NoCertificateError
    losses: FloatArray = float(start + lattice.step * found.first) + step * np.arange(len(found.mass), dtype=float)
    return Direct(losses, found, above)


def epsilon(total: SumOfLosses, target: float, *, above: bool) -> Answer:
    """Eps where this law's delta meets the target; only the end of the law's own side is of use."""
    line = build(total, target, above=above)
    mass, losses = line.law.mass, line.losses
    heavier = np.cumsum(mass[::-1])[::-1]
    scaled = np.cumsum((mass * np.exp(-(losses - losses[-1])))[::-1])[::-1]  # sum of p e^{last - l}
    rough = heavier - np.exp(losses - losses[-1]) * scaled + line.law.infinite
    j = int(np.searchsorted(-rough, -target))  # the first point with delta <= target
    if not 0 < j < len(mass):
        raise NoCertificateError
    eps = float(losses[-1] + math.log(max((heavier[j] + line.law.infinite - target) / scaled[j], 1e-300)))
    if not losses[j - 1] - 1e-9 <= eps <= losses[j] + 1e-9:
        eps = float(losses[j])
    slope = max(line.point_estimate(eps)[1], 1e-300) / target
    lower, upper, errors = ends(line, eps, slope, target, target)
    if not (math.isfinite(lower) and math.isfinite(upper)):
        raise NoCertificateError
    return Answer(lower, upper, LATTICE, errors, slope)
