"""Random allocation, or balls in bins: a record takes part in one of several Gaussian steps, drawn at random and in secret.

Under Q the likelihood ratio of T steps is the mean R of T ratios Y = exp(mu x - mu^2/2), x normal. Delta is a mean under Q
of a convex function of R, in both directions. So laws above and below R in convex order bound it, composed too. Y is put on
finitely many values, and so is each sum. All between two nodes goes to the nodes for the law above, and to its mean for the
law below. Equations (T9) to (T12): docs/proofs/training.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from neartwin.balls import all_bounds, ball, normal_cdf
from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.summands.atoms import AtomicSum, Weighted
from neartwin.losses.summands.base import Direction, Pair, Summand, no_replacement
from neartwin.losses.summands.rounding import ELEMENTARY, U

NODES = 1900  # of the law of one sum
REACH = 11.5  # deviations of the noise that nodes reach; beyond is a probability of 1e-30
FAINT = 1e-40  # a pair of values of no more probability, under Q and under P, is put at 0 and at infinity
LEAST = 1e-300  # a mass below it is raised to it above, and left out below
LEAST_MU, MOST_MU, MOST_STEPS = Fraction(1, 10**6), 20, 10**6
BLOCK = 1 << 17  # numbers a temporary matrix may hold
BINS = 32  # of a cell: the more, the fewer masses are added up one by one


class Ratios(NamedTuple):
    """A law under Q of the sum of some ratios.

    Attributes:
        steps: The number of ratios, the mean of their sum.
        values: Rising, above 0, (n,).
        masses: Their Q-masses, (n,).
        nothing: The Q-mass that the law above has at 0, and the law below leaves out, at most.
        beyond: The part of the mean that the law above has at infinity, and the law below leaves out, at most.
        mass_error: Relative, of each mass.
        value_error: Relative, of each value.
    """

    steps: int
    values: FloatArray
    masses: FloatArray
    nothing: float
    beyond: float
    mass_error: float
    value_error: float


def nodes(mu: float, steps: int) -> FloatArray:
    """Where the law of a sum has values, (NODES,): close about the mean, and in ratio far from it. They decide the width alone.

    Args:
        mu: Distance of one step.
        steps: The number of ratios in the sum.
    """
    far = mu * REACH + 0.5 * mu * mu
    deviation = math.sqrt(steps * math.expm1(mu * mu))
    away = REACH * min(2 * deviation, math.sqrt(steps) * math.exp(0.5 * mu * mu))
    low, high = max(steps * math.exp(-far), steps - away), steps + 2 * (REACH * deviation + math.expm1(far))
    first, last = (math.asinh((end - steps) / deviation) for end in (low, high))
    about = steps + deviation * np.sinh(np.linspace(first, last, 20 * NODES))
    fine: FloatArray = np.union1d(about.clip(low, high), np.geomspace(low, high, 20 * NODES))
    place = np.arcsinh((fine - steps) / deviation) + (0.05 + 0.45 / steps) * np.log(fine)
    return np.interp(np.linspace(place[0], place[-1], NODES), place, fine)


def one(mu: Fraction, *, above: bool) -> Ratios:
    """The law of one ratio, in balls (T10).

    Args:
        mu: Distance of one step.
        above: Whether the law is above in convex order.
    """
    y = nodes(float(mu), 1)

    def cells(distance: Fraction) -> list[Any]:
        """The mass between two nodes each, of a normal law so far from 0: a difference of the smaller tails."""
        shift = ball(mu) / 2 - ball(distance)
        places = [ball(float(value)).log() / ball(mu) + shift for value in y]
        tails = [(ball(0), ball(1)), *((normal_cdf(place), normal_cdf(-place)) for place in places), (ball(1), ball(0))]
        return [b[0] - a[0] if b[0] < a[1] else a[1] - b[1] for a, b in pairwise(tails)]

    def parts() -> list[Any]:
        q, p = cells(Fraction(0)), cells(mu)
        if not above:
            return [*(mean / mass for mean, mass in zip(p, q, strict=True)), *q]
        values = [ball(0), *(ball(float(value)) for value in y)]
        up = [
            (mean - mass * low) / (high - low)
            for mean, mass, (low, high) in zip(p, q, pairwise(values), strict=False)  # not the last cell, without end
        ]
        down = [mass - risen for mass, risen in zip(q, up, strict=False)]
        masses = [risen + fallen for risen, fallen in zip(up, [*down[1:], q[-1]], strict=True)]
        return [*masses, p[-1] - q[-1] * values[-1], down[0]]

    low, high = np.array(all_bounds(parts), dtype=float).T
    if above:
        beyond, nothing = high[len(y) :].tolist()
        return Ratios(1, y, np.maximum(high[: len(y)], LEAST), nothing, beyond, 4 * U, 0.0)
    values, masses = low.reshape(2, -1)
    normal = masses > LEAST
    return Ratios(1, values[normal], masses[normal], FAINT, FAINT, 4 * U, 4 * U)


def joined(x: Ratios, y: Ratios, mu: float, *, above: bool) -> Ratios:
    """The law of the sum of two independent sums (T11).

    Args:
        x: The law of one.
        y: The law of the other.
        mu: Distance of one step.
        above: Whether the law is above in convex order.
    """
    steps = x.steps + y.steps
    ends = nodes(mu, steps)
    starts, widths = np.append(0.0, ends), np.append(np.diff(ends, prepend=0.0), np.inf)
    parts = np.zeros((3, len(starts) * BINS))
    rows, crowd = max(1, BLOCK // len(y.values)), 8
    for start in range(0, len(x.values), rows):
        some = slice(start, start + rows)
        value, weight = np.add.outer(x.values[some], y.values).ravel(), np.outer(x.masses[some], y.masses).ravel()
        heavy = weight * (1 + value) > FAINT
        value, weight = value[heavy], weight[heavy]
        cell = np.searchsorted(ends, value, side="right")
        bins = cell * BINS + np.arange(len(cell)) % BINS
        for place, factor in enumerate(
            (1.0, value - starts[cell], np.append(ends, math.inf)[cell] - value)[: 2 + above]
        ):
            parts[place] += np.bincount(bins, weight * factor, parts.shape[1])
        crowd = max(crowd, int(np.bincount(bins, minlength=1).max()))
    mass, rise, fall = parts.reshape(3, -1, BINS).sum(axis=2)
    sums = (crowd + len(x.values) // rows + BINS + 8) * U
    mass_error, value_error = x.mass_error + y.mass_error + sums, max(x.value_error, y.value_error) + U
    faint = len(x.values) * len(y.values) * FAINT
    nothing = x.nothing + y.nothing + faint
    beyond = x.beyond + y.beyond + x.nothing * y.steps + y.nothing * x.steps + faint
    if not above:
        full = mass > 0
        offset = rise[full] / mass[full]
        mean = starts[full] + offset
        value_error += 4 * U + 2 * sums * float((offset / mean).max())
        return Ratios(steps, mean, mass[full], nothing, beyond, mass_error, value_error)
    up, down = rise[:-1] / widths[:-1], fall[:-1] / widths[:-1]
    masses = up + np.append(down[1:], mass[-1])
    full = masses > 0
    nothing, beyond = nothing + float(down[0]), beyond + float(rise[-1])
    return Ratios(steps, ends[full], masses[full], nothing, beyond, mass_error + 4 * U, value_error)


@lru_cache(maxsize=64)  # two sums a halving; both directions ask for the law above and the law below
def ratio(mu: Fraction, steps: int, *, above: bool) -> Ratios:
    """The law of the sum of all steps, by halving.

    Args:
        mu: Distance of one step.
        steps: Their number.
        above: Whether the law is above in convex order.
    """
    if steps == 1:
        return one(mu, above=above)
    half = ratio(mu, steps // 2, above=above)
    return joined(half, ratio(mu, steps - steps // 2, above=above), float(mu), above=above)


@dataclass(frozen=True, slots=True)
class AllocationPair(Pair):
    """Blocks of steps, one drawn in each, in one direction: a finite pair that dominates them, or one that they dominate."""

    mu: Fraction
    steps: int
    blocks: int
    direction: Direction
    above: bool

    def repeated(self, count: int) -> Summand:
        """Losses log R under R Q, or -log R under Q. Masses left out by the law below may be at infinity (T11)."""
        law = ratio(self.mu, self.steps, above=self.above)
        ratios, masses, revealed = law.values / self.steps, law.masses, law.nothing
        loss = -np.log(ratios)
        if self.direction == "remove":
            loss, masses, revealed = -loss, masses * ratios, law.beyond / self.steps
        revealed *= 1.1  # rounding and the errors of masses
        whole = float(masses.sum())
        logs = np.log(masses / whole)
        wrong = 1.1 * (law.mass_error + law.value_error + abs(whole - 1) + revealed + 8 * U)
        error = law.value_error + 4 * U + ELEMENTARY * np.abs(loss)
        weighted = Weighted(loss, logs, wrong + 2 * ELEMENTARY + 2 * U * np.abs(logs), error)
        return AtomicSum(weighted, count * self.blocks, infinity=(0.0, revealed))


@dataclass(frozen=True, slots=True, init=False)
class RandomAllocation(PrivacyLoss):
    """Gaussian steps of which a record takes part in one, drawn uniformly and in secret; under add/remove.

    Steps may choose by earlier answers. An epoch of balls in bins is one use, and epochs with fresh draws compose. Several
    participations have an upper bound alone: as many blocks of steps, with one participation in each.

    Source:
        Chua et al. 2025, Balls-and-Bins Sampling for DP-SGD, for the pair; Feldman, Shenfeld 2025 for the blocks.

    >>> cost = (10 * RandomAllocation(mu=1, steps=16)).epsilon("1e-6")
    >>> 5.4085 in cost, cost.width < 1e-3 * cost.upper
    (True, True)
    """

    mu: Fraction
    steps: int
    participations: int

    def __init__(self, *, mu: Number, steps: int, participations: int = 1) -> None:
        """One allocation.

        Args:
            mu: How far one record moves the answer of its step, in standard deviations of the noise; 1e-6 to 20.
            steps: The number of steps, at most 10^6.
            participations: The number of steps that a record takes part in.

        Raises:
            ParameterError: A parameter is out of bounds.
        """
        object.__setattr__(self, "mu", positive(mu=rational(mu=mu)))
        object.__setattr__(self, "steps", integer(at_least=1, steps=steps))
        object.__setattr__(self, "participations", integer(at_least=1, participations=participations))
        if not LEAST_MU <= self.mu <= MOST_MU:
            raise ParameterError("mu", mu, f"must lie from 1e-6 to {MOST_MU}")
        if not participations <= steps <= MOST_STEPS:
            raise ParameterError("steps", steps, "must lie from the number of participations to 10^6")

    def dominating_pair(self, direction: Direction) -> AllocationPair:
        """The law above in convex order."""
        if direction.startswith("replace"):
            raise no_replacement()
        return AllocationPair(self.mu, self.steps // self.participations, self.participations, direction, above=True)

    def attained_pair(self, direction: Direction) -> Pair | None:
        """The law below, of one participation."""
        return replace(self.dominating_pair(direction), above=False) if self.participations == 1 else None
