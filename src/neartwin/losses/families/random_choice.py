"""Choices at random: of one mechanism among several, in public, and of the one step among several that a record is in.

A public choice does not depend on data. The losses are mixed: M(s) = Σ w_k M_k(s), and delta(eps) = Σ w_k delta_k(eps) of one
use. Equation (K16): docs/proofs/losses-contour.md.

In random allocation, or balls in bins, the step of a record is secret. Under Q the likelihood ratio of T steps is the mean R of
T ratios Y = exp(mu x - mu^2/2), x normal. Delta is a mean under Q of a convex function of R, in both directions. So laws above
and below R in convex order bound it, composed too. Y is put on finitely many values, and so is each sum. All between two nodes
goes to the nodes for the law above, and to its mean for the law below. Equations (T9) to (T12): docs/proofs/training.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from neartwin.balls import all_bounds, ball, normal_cdf
from neartwin.checks import integer, positive, several
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, rational
from neartwin.losses.composition import PrivacyLoss
from neartwin.losses.summands.atoms import AtomicSum, Weighted
from neartwin.losses.summands.base import Direction, MaximumLoss, Pair, Summand, no_replacement
from neartwin.losses.summands.rounding import ELEMENTARY, ComplexArray, NoCertificateError, U, log_one_plus

LEAST_WEIGHT = Fraction(1, 10**300)


class ChoiceSum(Summand):
    """`count` uses; each part is one use of one option, none of which may reveal all."""

    def __init__(self, parts: Sequence[Any], weights: Sequence[float], count: int) -> None:
        """weights: rounded to the nearest floats."""
        self.parts, self.weights, self.count = parts, np.array(weights), count
        highest = max(part.top.loss for part in parts)
        least = max(part.top.least for part in parts)
        self.top = MaximumLoss(count * highest * (1 + 4 * U), 0.0, count * least * (1 - 4 * U))
        self.variation = min(
            count * sum(w * part.variation for w, part in zip(weights, parts, strict=True)) * (1 + 1e-12), 1.0
        )
        self.ladder = parts[0].ladder if all(part.ladder is parts[0].ladder for part in parts) else None

    @property
    def choices(self) -> list[tuple[float, Any]]:
        """Those of all parts."""
        logs = zip(np.log(self.weights).tolist(), self.parts, strict=True)
        return [(log + own, one) for log, part in logs for own, one in part.choices]

    def log_mgf_by_panels(self, tilt: float) -> float:
        """Where the parts are slices, the mean of their own upper bounds."""
        each = np.array([part.log_mgf_by_panels(tilt) for part in self.parts])
        return float(np.logaddexp.reduce(each + np.log(self.weights)))

    def _shares(self, tilt: float) -> tuple[float, FloatArray, float, FloatArray]:
        """K of one use and its error; the options' shares of M(tilt) and their relative errors."""
        values, errors = np.array([part.log_mgf(tilt) for part in self.parts]).T
        if not np.all(np.isfinite(values)):
            raise NoCertificateError
        exponents = values + np.log(self.weights)
        top = float(exponents.max())
        shares = np.exp(exponents - top)
        shares /= shares.sum()
        if values.max() < 1 and values.min() > -1:
            value = math.log1p(float(self.weights @ np.expm1(values)))
            lost = 2 * (ELEMENTARY + (len(values) + 4) * U) * float(self.weights @ np.abs(np.expm1(values)))
        else:
            value = top + math.log(float(np.exp(exponents - top).sum()))
            lost = 4 * ELEMENTARY + (len(values) + 8) * U + 4 * U * abs(top)
        moved = errors + 8 * U * (np.abs(values) + np.abs(exponents)) + 4 * ELEMENTARY
        relative = moved + float(shares @ moved) + (len(values) + 4) * U
        return value, shares, 1.01 * (float(shares @ errors) + lost) + 2 * ELEMENTARY * abs(value), 1.01 * relative

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Those of a mixture, uncertified."""
        known = np.array([part.cumulants(tilt) for part in self.parts])
        share = np.exp(known[:, 0] - known[:, 0].max()) * self.weights
        share /= share.sum()
        mean = float(share @ known[:, 1])
        variance = float(share @ (known[:, 2] + np.square(known[:, 1] - mean)))
        return self.log_mgf(tilt)[0], self.count * mean, self.count * variance

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """Count times one use."""
        try:
            value, _, error, _ = self._shares(tilt)
        except NoCertificateError:
            return math.inf, 0.0
        return self.count * value, self.count * error * (1 + 4 * U) + 2 * U * self.count * abs(value)

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Log of 1 + Σ share (ratio - 1), (K16)."""
        _, shares, _, relative = self._shares(tilt)
        x, y, error = np.zeros((3, len(t)))
        for part, share, own in zip(self.parts, shares.tolist(), relative.tolist(), strict=True):
            log, slack = part.log_mgf_ratio(tilt, t)
            grown, half = np.expm1(log.real), np.sin(0.5 * log.imag)
            turn = 2 * half * half
            up = (1 + grown) * np.sin(log.imag)
            x += share * (grown - (1 + grown) * turn)
            y += share * up
            size = np.abs(grown) + (1 + grown) * turn + np.abs(up)
            error += share * ((1 + grown) * np.expm1(np.minimum(slack, 700.0)) + size * (own + 8 * ELEMENTARY))
        one, bound = log_one_plus(x, y, 1.01 * error + (len(self.parts) + 2) * U * (np.abs(x) + np.abs(y)))
        return self.count * one, self.count * bound + 2 * U * self.count * np.abs(one)

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """The parts' own."""
        return sum(part.work(tilt, t, frequencies) for part in self.parts)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """The mean of the parts' bounds."""
        _, shares, _, relative = self._shares(tilt)
        tails = [part.log_tail(tilt, t, until) for part in self.parts]
        whole = sum(
            s * (1 + r) * math.exp(tail) for s, r, tail in zip(shares.tolist(), relative.tolist(), tails, strict=True)
        )
        return min(self.count * math.log(whole * (1 + 64 * U)), 0.0) if whole > 0 else 0.0

    def zcdp_tail(self, s: float) -> float:
        """Renyi divergence of a mixture is at most the greatest."""
        return float(self.count * max(part.zcdp_tail(s) for part in self.parts) * (1 + 8 * U))

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """One use: the mean of the parts' own."""
        known = [one for one in (part.delta(eps) for part in self.parts) if one is not None]
        if self.count > 1 or len(known) < len(self.parts):
            return None
        # added one by one, for a product of matrices rounds by its shape
        lower, upper = sum(w * np.array(one) for w, one in zip(self.weights.tolist(), known, strict=True))
        slack = 8 * len(known) * U
        return lower * (1 - slack), np.minimum(upper * (1 + slack), 1.0)


@dataclass(frozen=True, slots=True)
class ChoicePair(Pair):
    """Pairs with their probabilities."""

    options: tuple[tuple[Pair, Fraction], ...]

    def repeated(self, count: int) -> Summand:
        """The composition."""
        pairs, weights = zip(*self.options, strict=True)
        return ChoiceSum([pair.repeated(1) for pair in pairs], list(map(float, weights)), count)


@dataclass(frozen=True, slots=True, init=False)
class PublicChoice(PrivacyLoss):
    """One of several mechanisms, by a public coin that depends on no data.

    >>> from neartwin.losses import Gaussian, SubsampledGaussian
    >>> one = PublicChoice(options=(Gaussian(mu=1), SubsampledGaussian(mu=1, rate="0.1")), weights=("0.01", "0.99"))
    >>> (100 * SubsampledGaussian(mu=1, rate="0.1")).epsilon(1e-5).upper < (100 * one).epsilon(1e-5).lower
    True
    """

    options: tuple[PrivacyLoss, ...]
    weights: tuple[Fraction, ...]

    def __init__(self, *, options: Sequence[PrivacyLoss], weights: Sequence[Number]) -> None:
        """Options with their probabilities.

        Args:
            options: Mechanisms that have a pair, none of which reveals all with a positive probability.
            weights: One probability each, above 0; they sum to 1 exactly.

        Raises:
            ParameterError: A number is out of bounds, or an option is no such mechanism.
        """
        masses = tuple(rational(weights=one) for one in several(weights=weights))  # type: ignore[arg-type]
        chosen = tuple(several(options=options))
        if len(chosen) != len(masses) or not chosen:
            raise ParameterError("options", options, "must be as many as the weights, and at least one")
        if sum(masses) != 1 or any(mass < LEAST_WEIGHT for mass in masses):
            raise ParameterError("weights", weights, "must be above 0 and sum to 1 exactly", remedy="write fractions")
        for one in chosen:
            pair = one.dominating_pair("remove") if isinstance(one, PrivacyLoss) else None
            if pair is None or any(pair.repeated(1).log_finite):
                raise ParameterError("options", one, "must be a mechanism with a pair that reveals nothing for sure")
        object.__setattr__(self, "options", chosen)
        object.__setattr__(self, "weights", masses)

    def dominating_pair(self, direction: Direction) -> Pair | None:
        """The mixture of the options' pairs."""
        return _mixed([one.dominating_pair(direction) for one in self.options], self.weights)

    def attained_pair(self, direction: Direction) -> Pair | None:
        """Likewise."""
        return _mixed([one.attained_pair(direction) for one in self.options], self.weights)


def _mixed(pairs: Sequence[Pair | None], weights: Sequence[Fraction]) -> Pair | None:
    known = [(pair, weight) for pair, weight in zip(pairs, weights, strict=True) if pair is not None]
    return ChoicePair(tuple(known)) if len(known) == len(pairs) else None


NODES = 2300  # of the law of one sum
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
