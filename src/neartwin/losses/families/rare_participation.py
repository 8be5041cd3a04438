"""Seldom sampled Gaussians: the law by the highest rung that a copy reached, one line for each rung.

The law is a sum of positive terms (L2), each with a line of its own tilt. Terms that cannot matter are bounded by
Chernoff, and those above the last rung by (L5). Equations (L1) to (L6): docs/proofs/losses-ladder.md.

For (L5), Q_i <= phi, or (1-q) phi(u) + q phi(u + mu), and 1 - a <= min(1, E). For every m, E <= (m/e)^m
e^{v(1+m)(u-c)}. With w = v(1+m) its integral against phi below c is e^{w^2/2 - wc} Phi(c-w). Both fall in c. For eps <
0 the rest adds (1 - e^eps) times the mass of Q more, at most c(s) e^{-s eps} of it for every s > 0. Given a finite
loss, Q has more mass than 1 perhaps, and TV is 1.

Rounding of a term on its line: log A^n and log G have their own errors, so x errs by dx = |x| expm1(of both). Then (1 +
x)^n - 1 = expm1(y) errs by three amounts, all over its value at tilt: n (1 + |x| + dx)^{n-1} dx, the rounding of y
times |e^y|, and 4 ELEMENTARY of |expm1(Re y)| + |y|.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from neartwin.exact import FloatArray, halved
from neartwin.losses.families import rare_slices
from neartwin.losses.families.random_choice import ChoiceSum
from neartwin.losses.inversion import contour
from neartwin.losses.inversion.contour import Bounds, Contour, ContourRule
from neartwin.losses.inversion.contour_search import CONTOUR, NO_LINE, Answer, invert, narrow
from neartwin.losses.inversion.total import Saddle, SumOfLosses, log_c
from neartwin.losses.summands.base import SpecialMethod, Summand
from neartwin.losses.summands.rounding import (
    ELEMENTARY,
    SMALLEST,
    ComplexArray,
    NoCertificateError,
    U,
    log_one_plus,
    log_within,
    moved_by,
)
from neartwin.special import log_ndtr

LARGEST = 500.0  # of y, which is about how many copies are above the lower edge
VANISHING, LEAST_SUM = math.exp(1 - LARGEST), 1e-100  # more than any x below e^-LARGEST; the least y beside such


Cumulants = tuple[FloatArray, FloatArray, FloatArray]


def together(parts: Sequence[tuple[int, Cumulants, Cumulants]]) -> Cumulants:
    """K, K', K'' of the difference.

    parts: of each law the count, and K, K', K'' of all its copies below the lower edge and of one copy of the slice.
    """
    k, mean, variance, y, y1, y2 = (np.zeros(np.shape(parts[0][1][0])) for _ in range(6))
    for n, below, own in parts:
        x, apart = np.exp(own[0] - below[0] / n), own[1] - below[1] / n
        k, mean, variance = k + below[0], mean + below[1], variance + below[2]
        y = y + n * np.log1p(x)
        y1 = y1 + n * x * apart / (1 + x)
        y2 = y2 + n * x * (apart * apart / (1 + x) + own[2] - below[2] / n) / (1 + x)
    less = -np.expm1(-y)
    rise, bend = 1 / less, -np.exp(-y) / (less * less)
    return k + y + np.log(less), mean + rise * y1, variance + bend * y1 * y1 + rise * y2


class Reached(Summand):
    """The copies of all laws up to their higher edges, at least one of them above its lower one."""

    def __init__(self, parts: Sequence[tuple[int, Any, Any]]) -> None:
        """parts: of each law the count, so many copies below the lower edge, and one copy of the slice."""
        self.parts_of_laws = parts

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """The cumulants of the difference."""
        k, k1, k2 = together(
            [(n, below.cumulants(tilt), slice_.cumulants(tilt)) for n, below, slice_ in self.parts_of_laws]
        )
        return float(k), float(k1), float(k2)

    def _at(self, tilt: float) -> tuple[float, float, list[tuple[float, float]]]:
        """The sum of log A^n and its error, and of each law x and its relative error."""
        whole, slack, result = 0.0, 0.0, []
        for n, below, slice_ in self.parts_of_laws:
            log, error = below.log_mgf(tilt)
            whole, slack = whole + log, slack + error + 2 * U * (abs(whole) + abs(log))
            # x is between 0 and e^-LARGEST: `_difference`, `line` and `log_tail` charge that
            if slice_.log_mgf_by_panels(tilt) - (log - error) / n < -LARGEST:
                result.append((0.0, 0.0))
                continue
            own, more = slice_.log_mgf(tilt)
            gap = own - log / n
            if not -2 * LARGEST < gap < LARGEST:
                raise NoCertificateError
            moved = more + error / n + 4 * U * (abs(own) + abs(log / n)) + 2 * ELEMENTARY
            result.append((math.exp(gap), math.expm1(moved)))
        return whole, slack, result

    def _difference(self, result: list[tuple[float, float]]) -> tuple[float, float]:
        """The product of all (1 + x)^n, less 1, and its relative error.

        Its error is that of x times 1 + y (L4).
        """
        y = sum(n * math.log1p(x) for (n, _, _), (x, _) in zip(self.parts_of_laws, result, strict=True))
        if not LEAST_SUM < y < LARGEST:
            raise NoCertificateError
        relative = max(one for _, one in result) + sum(n for n, _, _ in self.parts_of_laws) * VANISHING / y
        return math.expm1(y), 1.01 * ((1 + y) * (relative + (2 + len(result)) * ELEMENTARY) + 2 * ELEMENTARY)

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """The logarithm for the difference, with its error."""
        log, error, each = self._at(tilt)
        value, own = self._difference(each)
        result = log + math.log(value)
        return result, error + 1.01 * own + 4 * U * (abs(log) + abs(result) + 1)

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """The product of all A^n times the difference, over its value at tilt."""
        _, _, each = self._at(tilt)
        whole, own = self._difference(each)
        real, imaginary, bound, size, error = np.zeros((5, len(t)))
        still: ComplexArray = np.zeros(len(t), dtype=np.complex128)
        for (n, below_n, slice_), (x0, relative) in zip(self.parts_of_laws, each, strict=True):
            below, below_error = below_n.log_mgf_ratio(tilt, t)
            still, error, size = still + below, error + below_error, size + np.abs(below)
            if x0 == 0:
                off = np.exp(np.log(VANISHING) - below.real / n + below_error / n)
                bound += n * off / np.maximum(1 - off, 0.0)
                continue
            part, part_error = slice_.log_mgf_ratio(tilt, t)
            gap: ComplexArray = part - below / n
            moved = part_error + below_error / n + 4 * U * (np.abs(part) + np.abs(below / n)) + 2 * ELEMENTARY
            turned: ComplexArray = np.exp(gap)
            off = x0 * (moved_by(gap.real, moved) * (1 + relative) + np.abs(turned) * relative)
            grown_by, one_bound = log_one_plus(x0 * turned.real, x0 * turned.imag, off)
            one_real, one_imaginary = grown_by.real, grown_by.imag
            real, imaginary, bound = real + n * one_real, imaginary + n * one_imaginary, bound + n * one_bound
            bound += 2 * U * len(each) * n * (np.abs(one_real) + np.abs(one_imaginary))
        half = np.sin(0.5 * imaginary)
        rise, grown = np.expm1(real), np.exp(real)
        value: ComplexArray = (rise * np.cos(imaginary) - 2 * half * half) + 1j * (grown * np.sin(imaginary))
        slack = moved_by(real, bound) * 1.01
        slack += 4 * ELEMENTARY * (np.abs(rise) + 2 * half * half + grown * np.abs(np.sin(imaginary)))
        slack += 4 * U * grown * np.abs(imaginary)
        log, result = log_within(value / whole, slack / whole + np.abs(value / whole) * own)
        own_log = np.abs(log.real) + np.abs(log.imag) + len(each) * size
        return log + still, result + error + (ELEMENTARY + 4 * U) * (1 + own_log)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """The tail, from the parts' own tails."""
        _, _, each = self._at(tilt)
        y = still = 0.0
        for (n, below_n, slice_), (x0, relative) in zip(self.parts_of_laws, each, strict=True):
            below = below_n.log_tail(tilt, t, until)
            part = slice_.log_tail(tilt, t, until) if x0 else 0.0
            more = math.log(x0 or VANISHING) + relative + part - below / n
            if more > LARGEST:
                return 0.0
            y, still = y + n * math.log1p(math.exp(more)), still + below
        value, own = self._difference(each)
        top = y + math.log(-math.expm1(-y)) if y > 0 else -math.inf
        result = still + top - math.log(value) + own + 64 * U * (1 + abs(still) + abs(y)) * len(each)
        return min(result, 0.0)

    def work(self, tilt: float, t: float, frequencies: int) -> int:
        """The work of all parts, and of the difference itself."""
        parts = sum(int(one.work(tilt, t, frequencies)) for _, *both in self.parts_of_laws for one in both)
        return parts + DIFFERENCE * frequencies


MOST_LAWS = 250  # each keeps 2 MB of panels and takes 0.06 s
STEEPNESS = 3.0  # of the shares, over mu
# m of the bounds on what lies above the last rung
POWERS = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
RATIO = 8.0  # of two neighbouring rungs' losses
LOWEST, LEFTMOST = 0.05, -1.0  # of z at a rung, of the rung itself
HIGHEST, RISE, PLACES = 40.0, 2.0, 1 / 8  # of the rungs, and further in mu u, for slight mu have gentle edges
NEGLIGIBLE = 5e-12  # of delta: what is above the last rung may add, and what all terms without a line
LEAST_TILT, MOST_TILT, GRID = 1e-4, 500.0, 48  # of tilts, over one over the loss at a rung
STEEP = 8.0  # the same: a law of which the best tilt is less has no far hump
DIFFERENCE = 1000  # exponentials that a frequency of a term costs beside its parts
TOLERANCE, SHARE, SHORT = 1e-11, 2.0, 1 / 16
NEAR = 0.5  # of the logarithm of a line's moduli: what a shorter period may cost
ENOUGH = 1e-9  # relative width from which no line is built anew
GUESSES, AGAIN, OFF = 60, 4, 0.05
MOST_PLACES = 1 << 16  # of a law
BELOW, LEAST = 10.0, -600.0  # of log delta: a first guess under the estimate at one saddle; what is asked at all


class Rung(NamedTuple):
    """A term's K, K', K'' (3, tilts), uncertified, at its tilts; alone: the same of all that does not reach above its edge."""

    tilts: FloatArray
    reached: FloatArray
    alone: FloatArray
    loss: float  # at the edge, over the least


def tilted(logs: FloatArray, losses: FloatArray) -> FloatArray:
    """K, K', K'' of one copy, (3, tilts), of tilted log masses.

    Args:
        logs: Logarithms of the tilted masses, (tilts, places).
        losses: At the places, (places,).
    """
    k = rare_slices.logsumexp(logs, axis=1)
    weights = np.exp(logs - k[:, None])
    mean = weights @ losses
    return np.array([k, mean, np.maximum(weights @ np.square(losses) - mean * mean, 0.0)])


def log_moduli(tilts: FloatArray, k: FloatArray, variance: FloatArray, eps: float) -> FloatArray:
    """Log of about the integral of the moduli on the line of each tilt, uncertified; infinity where it is no number.

    Args:
        tilts: Above 0, (tilts,).
        k: K at the tilts, (..., tilts).
        variance: K'' at the tilts, (..., tilts).
        eps: The epsilon asked about.
    """
    spread = variance + 1 / tilts**2 + 1 / (1 + tilts) ** 2
    result: FloatArray = k - tilts * eps - np.log(tilts) - np.log1p(tilts) - 0.5 * np.log(2 * math.pi * spread)
    return np.where(np.isfinite(result), result, np.inf)


def at_saddles(tilts: FloatArray, cumulants_there: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eps and log delta at the saddles of all tilts, uncertified.

    Args:
        tilts: Above 0, (tilts,).
        cumulants_there: K, K', K'', (3, tilts).
    """
    k, mean, variance = cumulants_there
    eps = mean - 1 / tilts - 1 / (1 + tilts)
    return eps, log_moduli(tilts, k, variance, 0.0) - tilts * eps


@dataclass(frozen=True)
class SeparateLines(ContourRule):
    """The lines of the terms that matter, and Chernoff for the rest: log c(s) M(s) and s, (rests,)."""

    parts: tuple[Contour, ...]
    log_rest: FloatArray
    s_rest: FloatArray

    @property
    def nodes(self) -> int:
        """The number of nodes of all lines."""
        return sum(part.nodes for part in self.parts)

    def bounds(self, eps: FloatArray) -> Bounds:
        """The bounds of all lines together; a line that proves nothing far from its saddle gives 0 and 1."""
        each = [part.bounds(eps) for part in self.parts]
        more = 1 + (len(each) + 8) * U
        rest = np.exp(np.minimum(self.log_rest - np.multiply.outer(eps, self.s_rest), 700.0)).sum(axis=1) * (1 + 1e-9)
        lower = np.sum([np.nan_to_num(low, nan=0.0) for low, _ in each], axis=0) + np.zeros(len(eps))
        upper = np.sum([np.nan_to_num(high, nan=1.0) for _, high in each], axis=0) + rest
        return lower / more, np.minimum(upper * more, 1.0)

    def point_estimate(self, eps: float) -> tuple[float, float]:
        """Delta and -d delta/d eps, uncertified."""
        both = [part.point_estimate(eps) for part in self.parts]
        return sum(one[0] for one in both), sum(one[1] for one in both)


def log_beyond(steep: float, place: float) -> float:
    """Log of a bound on the integral of phi min(1, E), E of the share that ends at this place.

    Args:
        steep: The share's steepness.
        place: The u where it ends.
    """
    m = POWERS
    fixed = np.where(m > 0, m * (np.log(np.maximum(m, SMALLEST)) - 1), 0.0)
    v = steep * (1 + m)
    low = float((fixed + 0.5 * v * v - v * place + log_ndtr(place - v)).min())
    return float(np.logaddexp(low, log_ndtr(-place))) + 1e-10 * (1 + abs(low))


@dataclass(frozen=True)
class Ladder:
    """The seldom sampled laws, and all others as they are, for questions about deltas from log_delta."""

    laws: tuple[Any, ...]
    others: tuple[Summand, ...]
    variation: float
    log_mass: float  # of Q given a finite loss, at most
    log_delta: float

    @classmethod
    def of(cls, total: SumOfLosses, log_delta: float) -> Ladder:
        """The ladder of a sum.

        Args:
            total: The sum.
            log_delta: Logarithm of the least delta that will be asked about.

        Raises:
            NoCertificateError: No law is a sampled Gaussian whose losses may be great, or too many are.
        """
        every = [law for one in total.summands for law in one.laws]
        laws: tuple[Any, ...] = tuple(one for one in every if one.ladder is LADDER)
        if not 0 < len(laws) <= MOST_LAWS:
            raise NoCertificateError
        others = tuple(one for one in every if one.ladder is not LADDER)
        infinity = total.infinity[1]
        variation = min(sum(one.variation for one in total.summands) * (1 + 1e-12), 1.0) if infinity == 0 else 1.0
        return cls(laws, others, variation, -math.log1p(-infinity) * (1 + 1e-12), log_delta)

    def place(self, law: rare_slices.SeldomSampled, log_odds: float) -> float:
        """The edge u of a law at a rung, where one of its k_j is k; rungs are at one k for all laws.

        Args:
            law: The law.
            log_odds: The logarithm of k.
        """
        return float(((log_odds - law.odds) / law.shifts + 0.5 * law.shifts).min())

    def never(self, log_odds: float) -> tuple[float, float]:
        """Log of what is added above this edge at eps >= 0, and of the mass of Q there."""
        added = mass = -math.inf
        for log_weight, law in self.options:
            steep, place = STEEPNESS * law.mu, self.place(law, log_odds)
            moved = np.array([log_beyond(steep, place - shift) for shift in law.shifts.tolist()])
            own = float(rare_slices.logsumexp(law.odds + moved))
            beyond, copies = log_beyond(steep, place), log_weight + 1e-11
            added = float(np.logaddexp(added, copies + np.logaddexp(own, beyond + math.log(self.variation))))
            mass = float(np.logaddexp(mass, copies + beyond))
        return added + 1e-12, mass + 1e-12 + self.log_mass

    @cached_property
    def top(self) -> float:
        """The logarithm of k at the last rung."""
        lowest = min(
            float(rare_slices.logsumexp(rare_slices.log_odds_at(law, np.ones(1)))[0]) for _, law in self.options
        )
        step = min(law.mu for _, law in self.options) * PLACES
        count = int((HIGHEST * max(law.mu for _, law in self.options) + RISE) / step)
        goal = self.log_delta + math.log(NEGLIGIBLE)
        i = bisect.bisect_left(range(count), True, key=lambda i: self.never(lowest + i * step)[0] < goal)
        if i == count:
            raise NoCertificateError
        return lowest + i * step

    @cached_property
    def places(self) -> FloatArray:
        """The logarithms of k at the rungs, from below: one ratio of the losses log(1 + k) from rung to rung.

        No law has all its copies below the lowest.
        """
        lowest = max(
            max(
                float(rare_slices.logsumexp(law.odds)) + math.log(LOWEST),
                float(rare_slices.logsumexp(rare_slices.log_odds_at(law, np.full(1, LEFTMOST)))[0]),
            )
            for _, law in self.options
        )
        least, most = (float(np.logaddexp(0.0, end)) for end in (lowest, self.top))
        count = max(math.ceil(math.log(most / least) / math.log(RATIO)), 1)
        losses = most * RATIO ** -np.arange(count, dtype=float)[::-1]
        return np.append(np.log(np.expm1(losses[:-1])), self.top)

    @cached_property
    def options(self) -> list[tuple[float, rare_slices.SeldomSampled]]:
        """All options of all laws, each with the logarithm of how many copies are of it on average."""
        return [(math.log(law.count) + weight, one) for law in self.laws for weight, one in law.choices]

    @cached_property
    def panels(self) -> list[list[rare_slices.Panels]]:
        """The panels of each law's options."""
        return [
            [rare_slices.Panels(one, STEEPNESS * one.mu, self.place(one, self.top)) for _, one in law.choices]
            for law in self.laws
        ]

    @cached_property
    def rungs(self) -> list[Rung]:
        """All, at tilts about one over the losses there."""
        shown = []
        for law in self.laws:
            options = []
            for weight, one in law.choices:
                steep = STEEPNESS * one.mu
                last, step = max(self.place(one, self.top) + 12 / steep, 12.0), min(1 / 8, 0.5 / steep)
                if last > MOST_PLACES * step:
                    raise NoCertificateError
                u = np.arange(-12.0, last, step)
                atoms = one.law(u, float(u[1] - u[0]))
                options.append((one, steep, u, atoms.log_masses + weight, atoms.losses))
            masses, at = (np.concatenate([one[i] for one in options]) for i in (3, 4))
            shown.append((law.count, options, masses, at))

        def heights(options: list[tuple[Any, ...]], log_odds: float) -> FloatArray:
            each = [
                np.exp(rare_slices.log_height(steep * (u - self.place(one, log_odds)))[0])
                for one, steep, u, *_ in options
            ]
            return np.concatenate(each)

        others_deviation = math.sqrt(sum(one.cumulants(1.0)[2] for one in self.others))
        result = []
        for j, log_odds in enumerate(self.places.tolist()):
            loss = math.log1p(math.exp(log_odds))
            tilts = np.geomspace(LEAST_TILT / (loss + others_deviation), MOST_TILT / loss, GRID)
            each = [np.array([one.cumulants(tilt) for tilt in tilts.tolist()]).T for one in self.others]
            others = sum(each, np.zeros((3, GRID)))
            alone, parts = others, []
            for n, options, masses, at in shown:
                logs, height = masses + np.multiply.outer(tilts, at), heights(options, log_odds)
                alone = alone + tilted(logs - height, at) * n
                if j:
                    lower = heights(options, float(self.places[j - 1]))
                    share = np.log(np.maximum(-np.expm1(height - lower), 1e-300)) - height
                    below = tilted(logs - lower, at) * n
                    parts.append((n, tuple(below), tuple(tilted(logs + share, at))))
            reached = np.array(together(parts)) + others if j else alone
            result.append(Rung(tilts, reached, alone, loss))
        return result

    def log_delta_at(self, eps: float) -> float:
        """About log delta, by the estimates at the terms' saddles; infinity where no tilt of a term has one."""
        each = [float(np.fmin.reduce(log - tilts * (eps - at), initial=np.inf)) for at, log, tilts in self.curves]
        return float(rare_slices.logsumexp(np.array(each)))

    @cached_property
    def curves(self) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        """Eps and log delta at the saddles of each term's tilts, and the tilts; of those that leave the range of floats none."""
        result = [(*at_saddles(rung.tilts, rung.reached), rung.tilts) for rung in self.rungs]
        return [(eps[known], log[known], tilts[known]) for eps, log, tilts in result for known in [np.isfinite(log)]]

    def guess(self) -> float:
        """About where delta is met."""
        most = 2 * sum(float(np.fmax.reduce(eps, initial=0.0)) for eps, _, _ in self.curves)
        return halved(lambda eps: self.log_delta_at(eps) > self.log_delta, 0.0, most, GUESSES)[1]

    def first(self, eps: float) -> int:
        """The highest rung below which no far hump is seen."""
        result = 0
        for j, rung in enumerate(self.rungs):
            size = log_moduli(rung.tilts, rung.alone[0], rung.alone[2], eps)
            best = int(np.nanargmin(size))
            if rung.tilts[best] * rung.loss <= STEEP or size[best] < self.log_delta + math.log(NEGLIGIBLE) - 10:
                result = j
        return result

    def term(self, j: int, first: int) -> SumOfLosses:
        """All that reached this rung and no higher one.

        Args:
            j: The rung.
            first: The lowest rung; its term holds all that lies below.
        """

        def slice_of(i: int, count: int, low: float, high: float) -> Any:
            law = self.laws[i]
            edges = [
                rare_slices.Edges(*(self.place(one, k) if k > -math.inf else k for k in (low, high)))
                for _, one in law.choices
            ]
            each, own = zip(law.choices, self.panels[i], edges, strict=True), count if len(edges) == 1 else 1
            parts = [rare_slices.SlicedSum(one, own, panels, edge) for (_, one), panels, edge in each]
            return parts[0] if len(parts) == 1 else ChoiceSum(parts, [math.exp(log) for log, _ in law.choices], count)

        above, every = float(self.places[j]), range(len(self.laws))
        if j == first:
            whole: list[Summand] = [slice_of(i, self.laws[i].count, -math.inf, above) for i in every]
            return SumOfLosses([*whole, *self.others])
        below = float(self.places[j - 1])
        parts = [
            (self.laws[i].count, slice_of(i, self.laws[i].count, -math.inf, below), slice_of(i, 1, below, above))
            for i in every
        ]
        alone = len(parts) == 1 and parts[0][0] == 1
        return SumOfLosses([parts[0][2] if alone else Reached(parts), *self.others])

    def slight(self, j: int, first: int, eps: float) -> tuple[float, float] | None:
        """Chernoff's bound on a term, as log c(s) M(s) and s, if it is slight beside delta.

        Args:
            j: The rung of the term.
            first: The lowest rung.
            eps: The epsilon asked about.
        """
        rung, goal = self.rungs[j], self.log_delta + math.log(NEGLIGIBLE / len(self.rungs))
        k = (rung.alone if j == first else rung.reached)[0]
        bound = np.where(np.isnan(k), np.inf, k - rung.tilts * eps - np.log1p(rung.tilts) - 1)
        i = int(np.argmax(bound < goal - 1))  # the least such tilt, for beyond it K may be too great to be known
        if not bound[i] < goal:
            return None
        tilt = float(rung.tilts[i])
        log = self.term(j, first).log_mgf_above(tilt) + log_c(tilt)
        return (log, tilt) if log - tilt * eps < goal else None

    def contour(self, j: int, first: int, eps: float, share: float) -> Contour:
        """The line of one term: at its saddle, or as far from 0 as costs little more.

        Args:
            j: The rung of the term.
            first: The lowest rung.
            eps: The epsilon asked about.
            share: How many times the usual budget the line may take.
        """
        rung, total = self.rungs[j], self.term(j, first)
        k, _, variance = rung.alone if j == first else rung.reached
        size = log_moduli(rung.tilts, k, variance, eps)
        best = np.flatnonzero(size <= np.min(size) + (0.0 if j == first else NEAR))[-1]
        at = Saddle(float(rung.tilts[best]), eps, math.sqrt(max(float(variance[best]), 1e-300)), self.log_delta)
        known = np.where(np.isfinite(k), k, np.inf)
        aliases = partial(contour.find_alias, rough=lambda s: np.interp(s, rung.tilts, known, left=0.0, right=np.inf))
        return contour.build(total, at, 0.0, tolerance=TOLERANCE, share=share, aliases=aliases)

    def line(self, eps: float) -> tuple[SeparateLines, Saddle]:
        """The lines for questions near this eps: the first of the highest rung from which it is short."""
        highest = self.first(eps)
        charge, mass = self.never(self.top)
        rests: list[tuple[float, float]] = [(charge, 0.0)]
        parts: list[Contour] = []

        def add(j: int, first: int, share: float) -> None:
            slight = self.slight(j, first, eps)
            if slight is None:
                parts.append(self.contour(j, first, eps, share))
            else:
                rests.append(slight)

        for first, share in itertools.chain(
            ((j, SHORT) for j in range(highest, -1, -1)), ((highest, SHARE), (0, SHARE))
        ):
            with contextlib.suppress(*NO_LINE):
                add(first, first, share)
                break
        else:
            raise NoCertificateError
        for j in range(first + 1, len(self.rungs)):
            add(j, first, SHARE)
        if not parts:
            raise NoCertificateError
        at = parts[int(np.argmax([part.point_estimate(eps)[0] for part in parts]))].saddle
        rest = np.array([*rests, (mass + log_c(at.tilt), at.tilt)])
        return SeparateLines(tuple(parts), rest[:, 0], rest[:, 1]), at


@np.errstate(all="ignore")
def by_ladder(total: SumOfLosses, low_target: float, high_target: float) -> Answer:
    """Bounds on the eps where delta meets the target.

    Args:
        total: The sum.
        low_target: Delta at the lower end is at least this.
        high_target: Delta at the upper end is at most this.

    Raises:
        NoCertificateError: No law is a sampled Gaussian, or no line is short enough.
    """
    ladder = Ladder.of(total, math.log(high_target))
    eps, best = ladder.guess(), None
    for _ in range(AGAIN):
        line, at = ladder.line(eps)
        result, middle = invert(line, at, low_target, high_target)
        best = result if best is None or result.upper - result.lower < best.upper - best.lower else best
        if narrow(result.lower, result.upper, ENOUGH) or not OFF < at.tilt * abs(middle - eps) < math.inf:
            break
        if middle <= 0:
            line, at = ladder.line(0.0)
            if line.delta(np.zeros(1))[1][0] <= low_target:
                return Answer(0.0, 0.0, CONTOUR)
        eps = middle
    if best is None or not math.isfinite(best.upper):
        raise NoCertificateError
    return best


@np.errstate(all="ignore")
def at_eps(total: SumOfLosses, eps: float) -> Iterator[tuple[str, SeparateLines, Saddle]]:
    """The one line for questions near this eps, named, and about how far it serves.

    Args:
        total: The sum.
        eps: The epsilon asked about.

    Raises:
        NoCertificateError: No law is a sampled Gaussian, or no line is short enough.
    """
    ladder = Ladder.of(total, Saddle.for_eps(total, eps).log_delta - BELOW)
    log_delta = ladder.log_delta_at(eps)
    if not log_delta > LEAST:
        raise NoCertificateError
    if not abs(log_delta - ladder.log_delta) < 2 * BELOW:  # far humps lift the estimate of the whole
        ladder = Ladder.of(total, log_delta)
    yield CONTOUR, *ladder.line(eps)


LADDER = SpecialMethod(by_ladder, at_eps)
