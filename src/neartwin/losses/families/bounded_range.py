"""Bounded range, the guarantee of the exponential mechanism: sup L - inf L <= e for each pair of neighbours.

Two-point pairs with losses t and t - e, 0 <= t <= e, are the extreme ones (Dong, Durfee, Rogers 2020). The supremum of
their profiles on [-e, e] is

    delta(eps) = (1 - e^{(eps-e)/2})^2 / (1 - e^{-e}).

Adaptive uses of one range have an optimum, delta_n(eps) = max over t of E_P delta_{n-1}(eps - L), L of the two-point
pair of t. `optimum` bounds it on lattices of eps (M15, M16), for up to some hundred uses. It is the profile of a pair too,
and beside other mechanisms that pair stands for the uses (M18): docs/proofs/mechanisms.md.

Renyi divergences have bounds of their own, the supremum over t of the two-point pair. From below, t = e/2 is randomized
response of e/2, one mechanism of the class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from neartwin import balls
from neartwin.checks import in_floats
from neartwin.exact import FloatArray, Number, float_above, float_below, rational
from neartwin.losses.composition import PureLoss
from neartwin.losses.families.randomized_response import ResponsePair
from neartwin.losses.summands.atoms import AtomicSum, Weighted
from neartwin.losses.summands.base import Direction, MaximumLoss, Pair, RenyiCurve, Summand
from neartwin.losses.summands.half_line import half_line_delta
from neartwin.losses.summands.rounding import ELEMENTARY, SMALLEST, U

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.intp]]
Two = tuple[FloatArray, FloatArray]


WORK, BLOCK = 1 << 22, 1 << 10  # maxima over t for one optimum, and at once
FEWEST, FINE, MOST = 8, 1 << 10, 1 << 14  # steps of a range: at least; for n uses FINE + MOST/n at most
WIDEST, LEAST = 50.0, 70.0  # the widest range; minus the logarithm of a delta that no one asks about
NODES, MOST_USES = 1 << 15, 1000  # places of a law's profile; adaptive uses of one law
FAINT = 1e-26  # a delta below which nothing is proved from below, where a profile is cut off
GROWTH, PARTS = 3, 4  # of intervals of t away from a guess; into which one is cut
NEARLY = 1 + 1e-10  # a bound that is no greater gains nothing


class Choices(NamedTuple):
    """The t that one use may choose: multiples of a step from 0 to e.

    Attributes:
        share: The mass at t under P, the rest of which is at t - e, (m + 1,).
        rise: e^t - 1, (m + 1,).
    """

    share: FloatArray
    rise: FloatArray

    def spread(self, delta: FloatArray, i: IntArray, j: IntArray) -> tuple[FloatArray, FloatArray]:
        """The mean of delta(eps - L) for the i-th eps from 0 and the j-th t, and the c of (M16) there.

        Args:
            delta: At multiples of the step from -e on.
            i: Places of eps.
            j: Places of t, in a shape that fits.
        """
        m = len(self.rise) - 1
        at = i + m - j
        high, low = delta.take(at, mode="clip"), delta.take(at + m, mode="clip")
        fall: FloatArray = high - low
        return low + self.share.take(j, mode="clip") * fall, high + fall / self.rise[-1]

    def between(self, width: IntArray, means: Two, c: Two) -> FloatArray:
        """A bound on the mean for all t between two (M16).

        Args:
            width: Steps from one to the other.
            means: At both.
            c: At both.
        """
        bend = (0.25 * 1.01) * self.rise.take(width, mode="clip") * (np.maximum(c[1] - c[0], 0.0) + 8 * U * c[1])
        gap = np.abs(means[1] - means[0])
        inside = 0.5 * (means[0] + means[1]) + bend + gap * gap / (16 * bend + SMALLEST)
        return np.where(gap < 4 * bend, inside, np.maximum(*means))

    def greatest(self, delta: FloatArray, i: IntArray, guess: IntArray) -> tuple[FloatArray, IntArray]:
        """A bound on the greatest mean over all t at each eps, and about the place of the best t.

        Intervals of t grow away from a guess. Those that may hold more than the rest does are cut, down to one step.

        Args:
            delta: At multiples of the step from -e on, never rising, convex in e^eps.
            i: Places of eps from 0, (n,).
            guess: Places of t, (n,).
        """
        m = len(self.rise) - 1
        side = GROWTH ** np.arange(math.ceil(math.log(m, GROWTH)) + 1)
        j = np.clip(guess + np.concatenate([-side[::-1], [0], side])[:, None], 0, m)
        (means, c), width = self.spread(delta, i, j), np.diff(j, axis=0)
        bound = self.between(width, (means[:-1], means[1:]), (c[:-1], c[1:]))
        most = np.where(width <= 1, bound, means[1:]).max(axis=0)
        best = j[means.argmax(axis=0), np.arange(len(i))]
        column, row = np.nonzero(bound > most * NEARLY)
        start, width = j[column, row], width[column, row]
        while len(row):
            part = -(-width // PARTS)[:, None]
            starts = np.minimum(start[:, None] + part * np.arange(PARTS), m)
            stop, start = np.minimum(starts + part, m).ravel(), starts.ravel()
            row, width = np.repeat(row, PARTS), stop - start
            (one, c), (other, further) = (self.spread(delta, i[row], end) for end in (start, stop))
            bound = self.between(width, (one, other), (c, further))
            np.maximum.at(most, row, np.where(width <= 1, bound, one))
            top = (width <= 1) & (bound >= most[row])
            best[row[top]] = start[top]
            wide = (width > 1) & (bound > most[row] * NEARLY)
            row, start, width = row[wide], start[wide], width[wide]
        return np.minimum(most * NEARLY, 1.0), best


class Profile(NamedTuple):
    """Bounds on delta at multiples of a step, from -e on."""

    step: float
    delta: FloatArray


@lru_cache(maxsize=8)  # both ends of an interval ask for it
def optimum(e: Fraction, count: int) -> tuple[Profile, Profile] | None:
    """Bounds from below and above; None where they cost too much or are too coarse.

    delta(-eps) = 1 - e^{-eps} + e^{-eps} delta(eps), for the class is its own mirror image.

    Args:
        e: The range.
        count: Adaptive uses.
    """
    size, uses = float(e), np.arange(1.0, min(count, 1 << 16) + 1)
    reach = np.minimum(uses, uses * (size / 8) + np.sqrt(0.5 * LEAST * uses))  # of eps, over e
    m = min(int(WORK / float(reach.sum())), FINE + MOST // count)
    if m < FEWEST or size > WIDEST:
        return None
    last = np.ceil(m * reach).astype(int)
    places, steps = np.arange(-m, last[-1] + m + 1), (float_below(e / m), float_above(e / m))
    lower, upper = (-np.expm1(np.minimum(places * step, 0.0)) for step in steps)
    ends = [np.arange(m + 1.0) * step for step in steps]
    below, above = (Choices(np.expm1(t - t[-1]) / math.expm1(-t[-1]), np.expm1(t)) for t in ends)
    guess = (np.arange(last[-1] + 1) + m) // 2
    for n in last.tolist():
        before, lower, now = lower, np.zeros(len(places)), np.empty(len(places))
        for start in range(0, n + 1, BLOCK):
            i = np.arange(start, min(start + BLOCK, n + 1))
            now[m + i], guess[i] = above.greatest(upper, i, np.minimum(guess[i], m))
            near = np.clip(guess[i] + np.arange(-2, 3)[:, None], 0, m)
            lower[m + i] = below.spread(before, i, near)[0].max(axis=0)
        now[m + n :], guess[n:] = now[m + n], guess[n]
        upper = now
        for side, t in ((lower, ends[0]), (upper, ends[1])):
            side[:m] = -np.expm1(-t[:0:-1]) + np.exp(-t[:0:-1]) * side[2 * m : m : -1]
    slack = 4096 * U * (count + 2)  # sums of products of positive numbers
    return Profile(steps[0], lower * (1 - slack)), Profile(steps[1], upper * (1 + slack))


def one_use(e: Fraction, eps: float) -> Any:
    """The worst delta of one use, a ball.

    Args:
        e: The range.
        eps: Finite.
    """
    if abs(eps) >= e:
        return 0 if eps > 0 else -balls.ball(eps).expm1()
    return ((balls.ball(eps) - balls.ball(e)) / 2).expm1() ** 2 / -balls.ball(-e).expm1()


def lowered(low: FloatArray, high: FloatArray, step: float) -> FloatArray:
    """The shares of the bounds from below, all but the last, whose chords delta is above (M19).

    Args:
        low: Lower bounds at multiples of the step from 0 on.
        high: Upper bounds there.
        step: The step.
    """
    grown, fallen = float(np.expm1(step)), -math.expm1(-step)
    before = np.append(fallen + math.exp(-step) * high[1], high[:-3])
    left, right = (low[:-2] - before) / fallen, (high[2:] - low[1:-1]) / (grown * math.exp(step))
    place = np.clip((low[1:-1] - right * grown - low[:-2]) / (left - right), 0.0, grown)
    least = np.minimum(low[:-2] + left * place, low[1:-1] + right * (place - grown))
    chord = low[:-2] + (low[1:-1] - low[:-2]) * (place / grown)
    share = np.clip(np.nan_to_num(least / chord), 0.0, 1 - 64 * U)
    shares: FloatArray = np.minimum(np.append(share, 0.0), np.append(1.0, share))
    return shares


def convex(places: FloatArray, delta: FloatArray) -> list[int]:
    """The corners of the greatest function below some values that is convex in e^eps.

    Args:
        places: Epsilons, ascending.
        delta: The values there.
    """
    kept: list[int] = []
    x, y = places.tolist(), delta.tolist()
    for i in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (y[a] - y[b]) * math.expm1(min(x[i] - x[b], 700.0)) > (y[b] - y[i]) * -math.expm1(x[a] - x[b]):
                break
            kept.pop()
        kept.append(i)
    return kept


@lru_cache(maxsize=8)
@np.errstate(all="ignore")
def profile_law(e: Fraction, count: int, *, above: bool) -> tuple[Weighted, Two] | None:
    """A pair whose profile is above that of the worst uses, or below it (M18, M19), and from 0 on; None where none is known.

    Args:
        e: The range.
        count: Adaptive uses.
        above: Whether the profile is above.
    """
    size, step = float(e), float_above(e / NODES)
    if count == 1:
        gone = np.expm1(np.minimum(np.arange(NODES + 1.0) * step - size, 0.0) / 2)
        one: FloatArray = gone * gone / -math.expm1(-size)
        low, high = one * (1 - 64 * NODES * U), one * (1 + 64 * NODES * U)
    elif (known := optimum(e, count)) is not None:
        m = round(size / known[above].step)
        stride = -(-(len(known[0].delta) - 2 * m) // NODES)
        low, high = (one.delta[m : len(one.delta) - m : stride] for one in known)
        step = known[above].step * stride
        if not above:  # at its own places, which are nearer to 0
            high = high + 16 * U * (1 + step) * np.arange(len(high)) * np.append(0.0, -np.diff(high))
    else:
        return None
    places: FloatArray = np.arange(float(len(low))) * step
    value = high
    if not above:
        value = low * np.append(lowered(low, high, step), 0.0)
        value = np.maximum(value - (FAINT if low[-1] else 0.0), 0.0)
    corners = convex(places, value)
    places, value = places[corners], value[corners]
    gaps, drop = np.diff(places), -np.diff(value)
    fallen, decay = -np.expm1(-gaps), np.exp(-gaps)
    masses = np.maximum(drop / fallen - np.append(drop[1:] / np.expm1(gaps[1:]), 0.0), 0.0)
    losses, beyond, profile = places[1:], 0.0, [0.0]
    if above and places[-1] < count * e:
        last = float_above(count * e)
        beyond, profile = float(value[-1]) / -math.expm1(places[-1] - last), [float(value[-1])]
        losses, masses = np.append(losses, last), np.append(masses, beyond)
    for j in range(len(gaps) - 1, -1, -1):
        beyond += masses[j]
        profile.append(fallen[j] * beyond + decay[j] * profile[-1])
    ratio, slack = value[value > 0] / np.array(profile[::-1])[value > 0], 64 * len(places) * U
    scale = ratio.max(initial=1.0) * (1 + slack) if above else ratio.min(initial=1.0) * (1 - slack)
    masses = scale * masses
    losses, masses = losses[masses > 0], masses[masses > 0]
    if above and math.fsum((masses * (1 + np.exp(-losses))).tolist()) >= 1:  # hardly any is left at 0, and not enough
        if count > 1:
            return None
        losses, masses = np.array([float_above(e)]), np.array([1 / (1 + math.exp(-size))])  # as for all e-DP
    mirrored = masses * np.exp(-losses)
    rest = max(1 - math.fsum([*masses.tolist(), *mirrored.tolist()]), SMALLEST)
    whole = np.append(np.append(mirrored[::-1], rest), masses)
    losses = np.append(np.append(-losses[::-1], 0.0), losses)
    law = Weighted(losses, np.log(whole), np.full(len(whole), 8 * ELEMENTARY), 8 * U * np.abs(losses), outside=16 * U)
    return law, (places, scale * np.array(profile[::-1]))


class RangeSum(AtomicSum):
    """Adaptive uses, alone by their optimum, and beside other mechanisms by a pair above or below them."""

    def __init__(self, e: Fraction, count: int, law: tuple[Weighted, Two], blocks: int) -> None:
        """Uses of one range.

        Args:
            e: The range.
            count: Adaptive uses.
            law: That of the uses of one block, and its profile.
            blocks: Their number.
        """
        super().__init__(law[0], blocks)
        self.range, self.uses, self.profile = e, count, law[1]
        self.top = MaximumLoss(float_above(count * e), 0.0, float_below(count * e))

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """The profile, of one use exact; in e^eps it is straight between its places."""
        if self.uses == 1 or self.count > 1:
            return half_line_delta(partial(one_use, self.range), eps) if self.uses == 1 else None
        places, delta = self.profile
        j = np.clip(np.searchsorted(places, eps, "right") - 1, 0, len(places) - 2)
        gap, drop = places[j + 1] - places[j], delta[j] - delta[j + 1]
        value = delta[j] - np.clip(np.expm1(eps - places[j]) / np.expm1(gap), 0.0, 1.0) * drop
        error = 64 * U * (len(delta) * delta[j] + eps / gap * drop)
        return np.maximum(value - error, 0.0), np.minimum(value + error, 1.0)


@dataclass(frozen=True, slots=True)
class BoundedRangePair(Pair):
    """A pair above the class of range e, its own mirror image."""

    e: Fraction

    def repeated(self, count: int) -> Summand:
        """Blocks of uses: blocks that do not know of each other's answers have a pair above them too."""
        blocks = -(-count // MOST_USES)
        law = profile_law(self.e, -(-count // blocks), above=True)
        if law is None:
            law, blocks = profile_law(self.e, 1, above=True), count
        assert law is not None  # noqa: S101 - one use has a closed form
        return RangeSum(self.e, count, law, blocks)


@dataclass(frozen=True, slots=True)
class WorstUsesPair(Pair):
    """Mechanisms of range e: responses of e/2 beside each other, and the worst uses where no other range is near."""

    merges: ClassVar[float] = 1

    e: Fraction

    def repeated(self, count: int) -> Summand:
        """Uses that know no answer."""
        return ResponsePair(self.e / 2, Fraction(0), 0).repeated(count)

    @classmethod
    def merged(cls, counts: Mapping[WorstUsesPair, int]) -> Summand:
        """Those of one range come last and know all answers (M18)."""
        if len(counts) > 1:
            return ResponsePair.merged({ResponsePair(pair.e / 2, Fraction(0), 0): n for pair, n in counts.items()})
        ((pair, count),) = counts.items()
        law = profile_law(pair.e, count, above=False)
        return pair.repeated(count) if law is None else RangeSum(pair.e, count, law, 1)


def worst_renyi(epsilon: balls.Exact, order: balls.Exact) -> Any:
    """The largest Renyi divergence of a pair of this range, a ball; at order 1 the limit.

    Args:
        epsilon: The range.
        order: At least 1.
    """
    if epsilon == 0 or order == math.inf:
        return epsilon
    e = balls.ball(epsilon)
    if order == 1:
        # m - 1 - ln m with m = e / (e^e - 1), of which e^-e is taken out of the logarithm
        return e / e.expm1() - 1 - (e / -(-e).expm1()).log() + e
    a = Fraction(order)

    def part(
        times: Fraction,
    ) -> Any:  # a g(a e) of s(x) = x + g(2x), g(y) = ln((1 - e^-y)/y); the linear parts add up to e
        y = balls.ball(times * Fraction(epsilon))
        return balls.ball(times) * (-(-y).expm1() / y).log()

    return e + (part(a) - part(a - 1) - part(Fraction(1))) / balls.ball(a - 1)


@dataclass(frozen=True, slots=True)
class BoundedRangeCurve(RenyiCurve):
    """The worst two-point pair at each order."""

    e: Fraction

    def renyi(self, order: float) -> float:
        """The maximum over t, rounded up."""
        return balls.bounds(worst_renyi, self.e, order)[1]


@dataclass(frozen=True, slots=True, init=False)
class BoundedRange(PureLoss):
    """Any mechanism of bounded range epsilon, such as the exponential mechanism with that total guarantee.

    An interval here covers the class: no mechanism of it exceeds the upper end, one of it reaches the lower.
    Errors: `ParameterError` unless epsilon is positive. Dong, Durfee, Rogers 2020.

    >>> choice = 1 * BoundedRange(epsilon=1)
    >>> choice.pure().upper <= 1 + 1e-12
    True
    """

    epsilon: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        """epsilon: the range of the loss."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The dominating pair."""
        return BoundedRangePair(self.epsilon)

    def attained_pair(self, direction: Direction) -> Pair:
        """Mechanisms of the class."""
        return WorstUsesPair(self.epsilon)

    def single_pair(self, direction: Direction) -> Pair:
        """The response."""
        return ResponsePair(self.epsilon / 2, Fraction(0), 0)

    def renyi(self, direction: Direction) -> RenyiCurve:
        """The better bound for many uses."""
        return BoundedRangeCurve(self.epsilon)
