"""Private selection: the best of a random number of runs, at the worst score and the worst test of its outcome.

Let r be the ratio of an outcome of one run, and w the derivative of the generating function of the number of runs. Then

    delta(eps) = int max over l of [r w(P(l <= ratio < r)) - e^eps w(Q(l <= ratio < r))]_+ dQ(r),                  (T13)

where outcomes of ratios from l to r are ranked before that of ratio r. The best l is found by bisection (T14). The laws of a
run come from its profile, above and below it: docs/proofs/training.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from neartwin.balls import ball, root
from neartwin.checks import made_of
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, rational
from neartwin.losses.composition import Composition, PrivacyLoss
from neartwin.losses.directions import DirectedComposition
from neartwin.losses.families.renyi import Listed
from neartwin.losses.inversion import methods
from neartwin.losses.inversion.methods import Lines
from neartwin.losses.summands.atoms import AtomicSum
from neartwin.losses.summands.base import UNBOUNDED, Direction, MaximumLoss, Pair, RenyiCurve, Summand
from neartwin.losses.summands.profiles import FINEST, IntArray, Outcomes, Profile, Sampled, Two, law, sampled
from neartwin.losses.summands.rounding import SMALLEST, ComplexArray, NoCertificateError, U, gamma, up

STEEP = 8.0  # a power of eps by which delta falls, from which on its width is that of eps
FAR = 600.0  # a loss beyond which all is revealed
TOLERANCE, ROUGH, MOST = 4e-7, 1e-3, 10**9  # of a run's law; runs
NO_LOSS = Sampled(np.array([-1.0, 0.0, 1.0]), np.zeros(3), np.zeros(3))
FEW, MANY, BLOCK = 256, 16, 1 << 21  # parts of an outcome that are tried; eps for which they are; numbers at once
LITTLE = 1e-10  # of delta, that no outcome is looked at for
ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(11, 64), *(64 * 2 ** (x / 4) for x in range(25)))


class Runs(NamedTuple):
    """How often a mechanism runs: w(x) = mean (1 + odds u)^-power at u = 1 - x, or mean e^(-mean u).

    Attributes:
        mean: The expected number of runs.
        power: 1 + eta of the truncated negative binomial law; infinite for Poisson's.
        odds: (1 - gamma)/gamma.
    """

    mean: float
    power: float
    odds: float

    def exponent(self, u: FloatArray) -> FloatArray:
        """Minus log w, but for the mean."""
        return self.mean * u if math.isinf(self.power) else self.power * np.log1p(self.odds * u)

    def steepness(self, u: FloatArray) -> FloatArray:
        """The derivative of log w by x."""
        if math.isinf(self.power):
            return np.full_like(u, self.mean)
        return self.power * self.odds / (1 + self.odds * u)

    def integral(self, u: float) -> float:
        """The integral of w from 1 - u to 1."""
        if math.isinf(self.power):
            return -math.expm1(-self.mean * u) / self.mean
        x, eta = math.log1p(self.odds * u), self.power - 1
        return (-math.expm1(-eta * x) / eta if eta else x) / self.odds


class Best(NamedTuple):
    """The best run, of outcomes of one run.

    Attributes:
        runs: How many runs.
        one: The outcomes, cut.
        ratio: The ratio of each, (n,).
        slack: The relative error of sums of masses, and of functions of them but for their exponent.
        below: The P-mass and the Q-mass of all ratios below each outcome, and below none, (2, n + 1).
        beyond: The masses of all ratios above it, (2, n).
    """

    runs: Runs
    one: Outcomes
    ratio: FloatArray
    slack: float
    below: FloatArray
    beyond: FloatArray

    @classmethod
    def of(cls, runs: Runs, one: Outcomes, fine: float) -> Best:
        """The best of runs with some outcomes.

        Args:
            runs: How many runs.
            one: The outcomes of one run.
            fine: The most that log w changes within a piece of an outcome, or little less.
        """
        parts = np.full(len(one.p), 2)
        while parts.max() > 1:  # by steps, so that pieces are small where w is steep and not elsewhere
            each = []
            for mass, first, last in ((one.p, 0.0, one.revealed), (one.q, one.hidden, 0.0)):
                u = np.minimum(first + np.cumsum(mass) - mass, last + np.cumsum(mass[::-1])[::-1] - mass)
                each.append(np.ceil(mass * runs.steepness(u) / (1 + runs.exponent(u) / 8) / fine))
            parts = np.minimum(np.maximum(*each), 4).clip(1).astype(int)
            one = one._replace(p=np.repeat(one.p / parts, parts), q=np.repeat(one.q / parts, parts))
        masses = np.array([one.p, one.q])
        below = np.cumsum(np.insert(masses, 0, [0.0, one.hidden], axis=1), axis=1)
        beyond = np.cumsum(np.append(masses, [[one.revealed], [0.0]], axis=1)[:, ::-1], axis=1)[:, ::-1][:, 1:]
        return cls(runs, one, one.p / one.q, 64 * U + 2 * gamma(len(one.p)), below, beyond)

    def unranked(self, row: IntArray, place: IntArray, own: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """The P-mass and the Q-mass that are not ranked before a piece of an outcome.

        Args:
            row: The outcome.
            place: The first outcome that is ranked before it.
            own: The share of the outcome that is not.
        """
        u, v = (self.below[k][place] + (self.beyond[k][row] + own * (self.one.p, self.one.q)[k][row]) for k in (0, 1))
        return u, v

    def place(self, eps: FloatArray | float, row: IntArray, own: FloatArray | float) -> IntArray:
        """The first outcome that is best ranked before a piece (T14): all from here on gain more than they lose.

        Args:
            eps: At least 0, in a shape that fits.
            row: The outcome.
            own: The share of the outcome that is not ranked before it.
        """
        low, high = np.zeros(np.broadcast_shapes(np.shape(eps), np.shape(row)), dtype=int), row
        while np.any(low < high):
            middle = (low + high) // 2
            u, v = self.unranked(row, middle, own)
            turn = np.log(self.ratio[middle] * self.runs.steepness(u) / self.runs.steepness(v))
            gain = np.log(self.ratio[row]) + self.runs.exponent(v) - self.runs.exponent(u) - eps
            worse = (turn < 0) & (turn + gain < 0)
            low, high = np.where(worse, middle + 1, low), np.where(worse, high, middle)
        return low

    def value(self, eps: FloatArray | float, row: IntArray, place: IntArray, own: FloatArray | float) -> FloatArray:
        """The gain, loss and error of pieces of outcomes, over the mean; and how far gain and loss bend, (5, n).

        Args:
            eps: At least 0, in a shape that fits.
            row: The outcome.
            place: The first outcome that is ranked before it.
            own: The share of the outcome that is not ranked before the piece.
        """
        u, v = self.unranked(row, place, own)
        x, y = self.runs.exponent(u), self.runs.exponent(v)
        gain, loss = self.ratio[row] * np.exp(-x), np.exp(eps - y)
        bends = (np.square(self.runs.steepness(one)) * (1 + 1 / self.runs.power) for one in (u, v))
        return np.array([gain, loss, self.slack * (gain * (1 + x) + loss * (1 + y)), *bends])

    def most(self, eps: FloatArray | float, row: IntArray, own: FloatArray | float) -> FloatArray:
        """The most that pieces of outcomes add to delta, over the mean and from above.

        Args:
            eps: At least 0, in a shape that fits.
            row: The outcome.
            own: The share of the outcome that is not ranked before the piece.
        """
        place = self.place(eps, row, own)
        before = np.maximum(place - 1, 0)
        one, other = (self.value(eps, row, k, own) for k in (before, place))  # between them it is greatest
        bend = np.maximum(one[1] * one[4] - other[0] * other[3] * np.square(self.ratio[before]), 0.0)
        known = (gain - loss + error for gain, loss, error, *_ in (one, other))
        return np.asarray(np.maximum(*known) + np.square(self.one.q[before]) * bend / 8)

    def above(self, eps: FloatArray) -> FloatArray:
        """A bound from above on delta at each eps.

        Args:
            eps: At least 0, (m,).
        """
        rows = np.arange(np.searchsorted(self.ratio, 1.0), len(self.ratio))  # no other outcome adds anything
        low, high = (np.maximum(self.most(eps[:, None], rows, own), 0.0) for own in (1.0, 0.0))
        total = 0.5 * (low + high) @ self.one.q[rows]
        for i, first in enumerate(np.argmax(high > 0, axis=1) if len(rows) and len(eps) <= MANY else ()):
            shares = np.linspace(0.0, 1.0, FEW)  # a part of the first outcome adds nothing
            nothing = np.append(self.most(eps[i], np.full(FEW - 1, rows[first]), shares[:-1]) <= 0, True)
            total[i] -= 0.5 * (1 - shares[np.argmax(nothing)]) * high[i, first] * self.one.q[rows[first]]
        sure = self.runs.integral(self.one.revealed)
        return np.minimum(self.runs.mean * (total + sure) * (1 + self.slack), 1.0)

    def under(self, eps: FloatArray) -> FloatArray:
        """Delta of one score and one test at each eps, from below.

        Args:
            eps: At least 0, (m,).
        """
        rows, each = np.arange(np.searchsorted(self.ratio, 1.0), len(self.ratio)), eps[:, None]
        place = self.place(each, rows, 0.0)
        tested = np.cumsum(self.least(each, rows, place, 0.0) > 0, axis=1) > 0
        start = len(self.ratio) - tested.sum(axis=1)
        place = np.minimum.accumulate(np.where(tested, np.minimum(place, start[:, None]), start[:, None]), axis=1)
        adds = np.maximum(self.least(each, rows, np.minimum(place, rows), 0.5), 0.0) * tested
        middles = (np.arange(FEW) + 0.5) / FEW  # of the first outcome perhaps a part
        for i, row in enumerate(start if len(eps) <= MANY else ()):
            if row < len(self.ratio):
                parts = self.least(eps[i], np.full(FEW, row), np.full(FEW, place[i, row - rows[0]]), middles)
                adds[i, row - rows[0]] = np.maximum(parts, 0.0).mean()
        sure = self.runs.integral(self.one.revealed)
        return np.asarray(self.runs.mean * (adds @ self.one.q[rows] + sure) * (1 - self.slack))

    def least(self, eps: FloatArray | float, row: IntArray, place: IntArray, own: FloatArray | float) -> FloatArray:
        """A bound from below on what pieces add, over the mean.

        Args:
            eps: At least 0, in a shape that fits.
            row: The outcome.
            place: The first outcome that is ranked before it.
            own: The share of the outcome that is not ranked before the piece.
        """
        return np.asarray(np.subtract.reduce(self.value(eps, row, place, own)[:3]))  # gain - loss - error


def profiles(side: DirectedComposition, sure: float, *, above: bool) -> Profile:
    """The profile of one run without what is surely revealed.

    Args:
        side: One direction of a run.
        sure: The probability with which it surely reveals all.
        above: Whether bounds from below may be those of another mechanism at each eps.
    """
    lines: Lines = {}

    def bounds(eps: FloatArray) -> Two:
        low, high, _ = side.delta(eps, lines=lines)
        if not above and side.profile_below is not side.lower:
            low = np.zeros(len(eps)) if side.lower is None else methods.delta(side.lower, eps)[0]
        return np.maximum(low - sure, 0.0), np.maximum(high - sure, SMALLEST)

    return bounds


@lru_cache(maxsize=16)  # both sides of both directions look at the same
def seen(run: Composition, direction: Direction, floor: float, tolerance: float, *, above: bool) -> Sampled | None:
    """The profile of a run without what is surely revealed; None where it does not end.

    Args:
        run: The run.
        direction: Which data set P is the law of.
        floor: A delta that is not looked into.
        tolerance: The width of its profile.
        above: Whether bounds from below may be those of another mechanism at each eps.
    """
    side = DirectedComposition.of(run.uses, direction)
    sure = 0.0 if side.lower is None else side.lower.infinity[0]
    beyond = min(side.delta(np.array([FAR]))[1][0] * (1 + 1e-6) + floor, 1.0)
    top = side.upper.top if side.complete and side.upper is not None else UNBOUNDED
    reach = min(side.epsilon(beyond, beyond).upper, top.least * (1 - FINEST) or math.inf)
    if not reach < FAR:
        return None
    return sampled(profiles(side, sure, above=above), max(reach, FINEST), tolerance) if reach > 0 else NO_LOSS


@lru_cache(maxsize=32)  # every eps asks for the same
def outcomes(run: Composition, direction: Direction, floor: float, tolerance: float, *, above: bool) -> Outcomes | None:
    """A law on one side of a run; None where nothing but 1 lies above.

    Args:
        run: The run.
        direction: Which data set P is the law of.
        floor: A delta that is not looked into.
        tolerance: The width of its profile.
        above: Whether it bounds from above.
    """
    side, both = DirectedComposition.of(run.uses, direction), []
    sides = side, side.reverse
    for one in sides:
        found = seen(run, one.direction, floor, tolerance, above=above or one.profile_below is one.lower)
        if found is None:
            return None
        top = one.upper.top.loss if one.complete and one.upper is not None else math.inf
        if above and found.eps[-1] < top < FAR and found is not NO_LOSS:
            found = Sampled(*(np.append(x, y) for x, y in zip(found, (top, 0.0, 0.0), strict=True)))
        both.append(found)
    return law(both, [0.0 if one.lower is None else one.lower.infinity[0] for one in sides], above=above)


@lru_cache(maxsize=16)
def best(pair: SelectionPair, floor: float, tolerance: float) -> Best | None:
    """The best run of a pair; None where nothing but 1 lies above.

    Args:
        pair: The pair.
        floor: A delta of one run that is not looked into.
        tolerance: The width of the law of one run.
    """
    one = outcomes(pair.selection.run, pair.direction, floor, tolerance, above=pair.above)
    return None if one is None else Best.of(pair.selection.runs, one, 1.6 * math.sqrt(tolerance))


class WorstScores(Summand):
    """One selection alone: delta of the worst score at each eps."""

    has_closed_form = True

    def __init__(self, pair: SelectionPair) -> None:
        """pair: with the side that is bounded."""
        self.pair, self.top = pair, pair.top

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """Those of a normal loss of about the same epsilon."""
        return 0.0, 0.0, (self.inverse(1e-6, 1e-6)[self.pair.above] / 6) ** 2

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """Unknown: Renyi divergences are bounded by a curve."""
        return math.inf, 0.0

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Unknown."""
        raise NoCertificateError

    def delta(self, eps: FloatArray) -> Two:
        """The bound of its side, as both ends; it looks into lesser deltas of one run until they cannot matter."""
        found, left = np.full(len(eps), float(self.pair.above)), np.arange(len(eps))
        for floor in (1e-30, 1e-100, 1e-290):
            law = best(self.pair, floor, TOLERANCE if len(eps) <= MANY else ROUGH)
            if law is None:
                break
            for some in np.array_split(left, 1 + len(left) * len(law.ratio) // BLOCK):
                found[some] = (law.above if self.pair.above else law.under)(np.maximum(eps[some], 0.0))
            left = left[found[left] <= floor * law.runs.mean / LITTLE]
        return found, found

    def inverse(self, low_delta: float, high_delta: float) -> tuple[float, float]:
        """The bound of its side, and what is trivial on the other; from a rough law's."""
        from scipy.optimize import brentq

        above, target = self.pair.above, low_delta if self.pair.above else high_delta
        floor = 10.0 ** max(math.floor(math.log10(target * LITTLE / self.pair.selection.runs.mean)), -305)
        rough, about, steep = best(self.pair, floor, ROUGH), 1e-9, 0.0

        def gap(eps: float, law: Best) -> float:
            return math.log(max(float((law.above if above else law.under)(np.array([eps]))[0]), 1e-320) / target)

        if rough is not None and gap(0.0, rough) > 0 > gap(FAR, rough):
            about = max(float(brentq(gap, 0.0, FAR, args=(rough,))), about)
            steep = (gap(about, rough) - gap(1.01 * about, rough)) / 0.01
        fine = best(self.pair, floor, TOLERANCE / (1 if steep > STEEP else 8))
        if rough is None or fine is None or gap(FAR, rough) >= 0:
            return math.inf if fine is not None and not above and gap(math.inf, fine) >= 0 else 0.0, math.inf
        if gap(0.0, fine) <= 0:
            return 0.0, 0.0 if above else math.inf
        near = [(about * (1 - width), about * (1 + width)) for width in (1e-4, 1e-2)]
        ends = next((two for two in near if gap(two[0], fine) > 0 > gap(two[1], fine)), (0.0, FAR))
        eps = float(brentq(gap, *ends, args=(fine,), xtol=1e-10 * about))
        step = 1e-10 * about
        while (gap(eps, fine) > 0) is above:
            eps, step = max(eps + step if above else eps - step, 0.0), 4 * step
        return (0.0, eps) if above else (eps, math.inf)


@dataclass(frozen=True, slots=True)
class SelectionPair(Pair):
    """A selection in one direction, of runs above or below their class."""

    envelopes: ClassVar[float] = 1
    selection: PrivateSelection
    direction: Direction
    above: bool

    @property
    def top(self) -> MaximumLoss:
        """The largest loss of one, by those of a run and of its neighbour."""
        side = DirectedComposition.of(self.selection.run.uses, self.direction)
        known = [one.upper if one.complete else None for one in (side, side.reverse)]
        ends = [math.inf if one is None or one.infinity[1] > 0 else one.top.loss for one in known]
        runs = self.selection.runs
        turned = min(runs.power * ends[1] if ends[1] else 0.0, float(runs.steepness(np.zeros(1))[0]))
        return MaximumLoss((ends[0] + turned) * (1 + 64 * U), 0.0, 0.0)

    def repeated(self, count: int) -> Summand:
        """The worst scores together from above; from below a score that says nothing, whose best run is a run, or none."""
        run, runs = 1 * self.selection if self.above else self.selection.run, self.selection.runs
        one = outcomes(run, self.direction, 1e-30, ROUGH, above=self.above)
        one = one or Outcomes(np.ones(1), np.ones(1), float(self.above), 0.0)
        none = math.exp(-runs.mean) if math.isinf(runs.power) and not self.above else 0.0
        p, q = (np.append(mass * (1 - none), none or []) for mass in (one.p, one.q))
        some = one._replace(p=p, q=q, revealed=one.revealed * (1 - none))
        ends = some.revealed * (1 - 64 * U), some.revealed * (1 + 64 * U)
        result = AtomicSum(some.weighted(), count, infinity=ends)
        result.top = MaximumLoss(count * self.top.loss, 0.0, 0.0)
        return result

    @classmethod
    def merged(cls, uses: Sequence[tuple[SelectionPair, int]]) -> list[Summand]:
        """The worst score at each eps, of one selection alone."""
        return [WorstScores(uses[0][0])]


@lru_cache(maxsize=16)
def renyi_curve(run: Composition, runs: Runs, direction: Direction) -> Listed | None:
    """Renyi divergences of a selection, from above (T7).

    Args:
        run: One run.
        runs: How often the mechanism runs.
        direction: Which data set P is the law of.
    """
    side, orders = DirectedComposition.of(run.uses, direction), np.array(ORDERS)

    def divergences(one: DirectedComposition) -> FloatArray:
        return np.array([up(one.renyi(order).upper) for order in ORDERS])

    if math.isinf(runs.power):
        fixed = runs.mean * side.reverse.delta(np.log1p(1 / (orders - 1)) * (1 - 1e-12))[1]
    else:
        fixed = runs.power * ((1 - 1 / orders) * divergences(side.reverse) + math.log1p(runs.odds) / orders).min()
    values = (divergences(side) + math.log(runs.mean) / (orders - 1) + fixed) * (1 + 1e-11)
    kept = values < math.inf
    known = (map(Fraction, some[kept].tolist()) for some in (orders, values))
    return Listed.of(*known) if kept.any() else None


@dataclass(frozen=True, slots=True, init=False)
class PrivateSelection(PrivacyLoss):
    """The best of a random number of runs by any score, such as a search for hyperparameters.

    An interval here covers all scores: none exceeds the upper end. One reaches the lower, if a run is no class of mechanisms.
    Several selections, and those beside other mechanisms, are bounded by the worst scores from above, and by one run from below.

    Source:
        Papernot, Steinke 2022 for the laws of the number of runs and for Renyi divergences.

    >>> from neartwin.losses import Gaussian
    >>> search = (1 * PrivateSelection(run=1 * Gaussian(mu="0.5"), mean=10)).epsilon("1e-6")
    >>> round(search.upper, 5), search.width < 1e-6 * search.upper
    (3.25632, True)
    """

    run: Composition
    runs: Runs

    def __init__(self, *, run: Composition, mean: Number, shape: Number | None = 1) -> None:
        """One selection.

        Args:
            run: One run.
            mean: The expected number of runs, above 1.
            shape: eta of the truncated negative binomial law: 1 is geometric, 0 logarithmic. None is Poisson.

        Raises:
            ParameterError: A parameter is out of bounds.
        """
        expected, eta = rational(mean=mean), None if shape is None else rational(shape=shape)
        if not 1 < expected <= MOST:
            raise ParameterError("mean", mean, "must be above 1, and at most 10^9")
        if not 0 <= (eta or 0) <= MOST:
            raise ParameterError("shape", shape, "must lie from 0 to 10^9")
        object.__setattr__(self, "run", made_of(Composition, "a composition", run=run))
        if eta is None:
            object.__setattr__(self, "runs", Runs(float(expected), math.inf, 0.0))
            return

        def missed(x: float) -> Any:
            """The mean less f(x), which rises: eta (e^x - 1)/(1 - e^{-eta x}), and (e^x - 1)/x for eta = 0; x = log(1/gamma)."""
            y = ball(x)
            return ball(expected) - y.expm1() * (ball(eta) / -(-ball(eta) * y).expm1() if eta else 1 / y)

        odds = math.expm1(root(missed, 1e-12, 2 * math.log(float(expected)) + 1)[1])
        object.__setattr__(self, "runs", Runs(float(expected), 1 + float(eta), odds))

    def dominating_pair(self, direction: Direction) -> SelectionPair:
        """Above all scores."""
        side = DirectedComposition.of(self.run.uses, direction)
        return SelectionPair(self, "remove" if side.reverse is side else direction, above=True)

    def attained_pair(self, direction: Direction) -> SelectionPair:
        """A score that says nothing, or the worst at each eps."""
        return replace(self.dominating_pair(direction), above=False)

    def renyi(self, direction: Direction) -> RenyiCurve | None:
        """A bound by Renyi divergences of one run."""
        return renyi_curve(self.run, self.runs, direction)
