"""Bounded range, the guarantee of the exponential mechanism: sup L - inf L <= e for each pair of neighbours.

Two-point pairs with losses t and t - e, 0 <= t <= e, are the extreme ones (Dong, Durfee, Rogers 2020). The supremum of
their profiles on [-e, e] is

    delta(eps) = (1 - e^{(eps-e)/2})^2 / (1 - e^{-e}).

It is itself the profile of a pair: P has density e^{(l-e)/2} / (2(1 - e^{-e})) of the loss l on (-e, e). That pair
dominates every e-bounded-range mechanism, so its composition is an upper bound, adaptive choice included. With w = (s +
1/2)e,

    M(s) = [sinh(w)/w] / [sinh(e/2)/(e/2)].

Adaptive uses have an optimum, for one range delta_n(eps) = max over t of E_P delta_{n-1}(eps - L), L of the two-point
pair of t. `optimum` bounds it on lattices of eps (M15, M16, M20), for up to a thousand uses, or for fewer of several ranges, in
the worst order. Beside fixed pairs two laws have its profile, but for little (M17, M18): docs/proofs/mechanisms.md.

Groups of thousands of uses are fixed pairs above (M19). For wide ranges the Renyi curve is then the better bound, the
supremum over t of the two-point pair.
From below, t = e/2 is randomized response of e/2, one mechanism of the class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import product
from typing import Any, ClassVar

import numpy as np

from neartwin import balls
from neartwin.exact import FloatArray, float_above, float_below
from neartwin.losses.composition import PureLoss
from neartwin.losses.families.randomized_response import NONE, ResponsePair
from neartwin.losses.summands.atoms import AtomicSum, Weighted
from neartwin.losses.summands.base import Direction, MaximumLoss, Pair, RenyiCurve, Summand
from neartwin.losses.summands.closed_forms import half_line_delta
from neartwin.losses.summands.profiles import IntArray, Sampled, Two, law
from neartwin.losses.summands.rounding import ELEMENTARY, SMALLEST, ComplexArray, U, log_within


def log_sinhc(x: FloatArray, y: FloatArray) -> tuple[ComplexArray, FloatArray]:
    """Log of sinh(w)/w for w = x + iy, and its error bound as of `log_one_plus`.

    It is w + log((1 - e^{-2w})/(2w)). Both parts of 1 - e^{-2w} are sums of numbers of one sign, each within 3 ELEMENTARY;
    the turn errs by 8U|y|, which moves e^{-2w} by 16U|y| of it.

    Args:
        x: Real parts, above 0.
        y: Imaginary parts.
    """
    w, decay = x + 1j * y, np.exp(-2 * x)
    value = (-np.expm1(-2 * x) + 2 * decay * np.square(np.sin(y)) + 1j * (decay * np.sin(2 * y))) / (2 * w)
    slack = (6 * ELEMENTARY + 16 * U) * np.abs(value) + 16 * U * y * decay / np.abs(w)
    log, error = log_within(value, slack)
    return log + w, error + 2 * ELEMENTARY * np.abs(log) + 8 * U * np.abs(w)


WORK, MANY, BLOCK = 1 << 27, 1 << 22, 1 << 13  # maxima over t for one optimum, also of more than TOGETHER, and at once
FEWEST, FINE, MOST = 8, 1 << 10, 1 << 14  # steps of a range: at least; for n uses FINE + MOST/n at most
WIDEST, LEAST = 50.0, 70.0  # the widest range; minus the logarithm of a delta that no one asks about
LEVEL = 1e-12  # a fall over two ranges that is none
HIGHEST = 600  # of losses whose exponentials are floats
TOGETHER, GROUP = 1000, 250  # uses of one optimum; of more, groups are fixed pairs (M19)
STATES = 4096  # of several ranges with an optimum together


def places(delta: FloatArray, m: int, step: float, count: int) -> tuple[IntArray, IntArray]:
    """The first and the last multiple between which the best z = eps - t lies, for the multiples eps from 0 on (M20).

    Args:
        delta: At multiples of the step from -e on.
        m: Steps of a range.
        step: The step.
        count: The number of multiples.
    """
    steps, width, whole = count + m - 1, math.expm1(step), math.exp(m * step)
    fall, cells, eps = delta[: steps + m] - delta[1 : steps + m + 1], np.arange(steps), np.arange(m, steps + 1)
    first, last, inner = fall[:steps], fall[m:], width * (delta[1 : steps + 1] - delta[m : steps + m])
    mass, moment = first - last / whole, first * (1 + width) - last + inner
    mean = np.clip(moment / (np.maximum(mass, 0.0) + SMALLEST), 1 + width, whole)
    centre = cells + m - np.log(mean) / step
    size = np.abs(first) + np.abs(last) + np.abs(inner)  # roundings may rise
    off = 0.01 + 16 * U * size / (np.maximum(np.minimum(mass, moment), 0.0) + SMALLEST) / width
    right = np.maximum.accumulate(np.minimum(centre + 2 + off, cells + m + 1))
    left = np.minimum.accumulate(np.maximum(centre - off, cells)[::-1])[::-1]
    counts = (np.bincount(end.astype(int), minlength=steps + m + 2) for end in (np.floor(right) + 1, np.ceil(left)))
    low, high = (np.cumsum(each)[m : steps + 1] for each in counts)
    low = np.clip(low, eps - m, eps - 1)
    return low, np.clip(np.maximum(high, low + 1), eps - m + 1, eps)


def greatest(shares: Sequence[FloatArray], deltas: Two, step: float, count: int) -> Two:
    """Bounds from below and above on the greatest mean over all t at the multiples eps from 0 on.

    Args:
        shares: The mass at each multiple t from 0 to e under P, the rest of which is at t - e; for below and above.
        deltas: For both, at multiples of the step from -e on, never rising.
        step: The step above.
        count: The number of multiples.
    """
    m, (_, delta) = len(shares[0]) - 1, deltas
    first, last = places(delta, m, step, count)
    level = delta[:count] - delta[2 * m : 2 * m + count] <= LEVEL * delta[:count]
    last = np.where(level, first + 1, last)
    falls = [one[:-m] - one[m:] for one in deltas]

    def mean(side: int, z: Any, t: Any) -> Any:
        return deltas[side].take(z + m) + shares[side].take(t) * falls[side].take(z)

    c = delta[:-m] + falls[1] / math.expm1(m * step)
    bends = 1.01 * math.expm1(step) * (np.maximum(c[:-1] - c[1:], 0.0) + 8 * U * c[:-1]) + SMALLEST  # 4g of (M16)
    least, most = np.empty(count), np.zeros(count)
    for start in range(0, count, BLOCK):
        row: Any = np.arange(start, min(start + BLOCK, count))
        z, until = first[row], last[row]
        t = row + m - z
        least[row], ahead = mean(0, z, t), mean(1, z, t)
        while len(row):
            bend, here, z, t = bends.take(z), ahead, z + 1, t - 1
            ahead = mean(1, z, t)
            gap = ahead - here
            share = np.clip(0.5 + 0.5 * gap / bend, 0.0, 1.0)
            bound = here + share * (gap + (1 - share) * bend)
            least[row] = np.maximum(least[row], mean(0, z, t))
            most[row] = np.maximum(most[row], bound)
            further = z < until
            if not further.all():
                row, z, t, ahead, until = (each[further] for each in (row, z, t, ahead, until))
    return least, np.minimum(np.where(level, delta[:count], most), 1.0)


Uses = tuple[tuple[Fraction, int], ...]  # ranges, each with its count


def states_of(uses: Uses) -> int:
    """How many uses of each range may be left, in how many ways."""
    return math.prod(count + 1 for _, count in uses)


@lru_cache(maxsize=8)  # both ends of an interval ask for it
def optimum(uses: Uses, work: int) -> tuple[tuple[float, FloatArray], ...] | None:
    """Bounds from below of all uses but one, of each range, and from above of all; None where they cost too much.

    delta(-eps) = 1 - e^{-eps} + e^{-eps} delta(eps), for the class is its own mirror image. The step divides every range.

    Args:
        uses: Adaptive uses, in any order.
        work: Maxima over t, at most.

    Returns:
        For each of the two a step, and bounds on delta at its multiples from minus the greatest range on. Then those of all
            uses from below.
    """
    whole = math.lcm(*(e.denominator for e, _ in uses))
    unit = Fraction(math.gcd(*(int(e * whole) for e, _ in uses)), whole)
    parts, sizes = [int(e / unit) for e, _ in uses], np.array([float(e) for e, _ in uses])
    if states_of(uses) > 1 << 16 or max(sizes) > WIDEST:
        return None
    states = sorted(product(*(range(count + 1) for _, count in uses)), key=sum)[1:]
    left = np.array(states)
    squares = left @ np.square(sizes)
    reach = np.minimum(left @ sizes, squares / 8 + np.sqrt(0.5 * LEAST * squares)) / max(sizes)  # over the greatest
    wanted = (FINE + MOST // sum(states[-1])) * max(sizes) * math.sqrt(sum(states[-1]) / squares[-1])  # steps of it
    each = int(min(work / float(reach.sum() * len(uses)), wanted * (1 + 8 * U))) // max(parts)
    places, most = [part * each for part in parts], max(parts) * each
    if most < FEWEST:
        return None
    steps = float_below(unit / each), float_above(unit / each)
    last = np.ceil(most * reach).astype(int)
    multiples = np.arange(-most, last[-1] + most + 1)
    ends = [np.arange(most + 1.0) * step for step in steps]
    shares = [[np.expm1(t[: m + 1] - t[m]) / math.expm1(-t[m]) for t in ends] for m in places]
    known = {(0,) * len(uses): tuple(-np.expm1(np.minimum(multiples * step, 0.0)) for step in steps)}
    for state, n in zip(states, last.tolist(), strict=True):
        now = np.zeros(len(multiples)), np.zeros(len(multiples))
        for k, m in enumerate(places):
            before = known.get((*state[:k], state[k] - 1, *state[k + 1 :]))
            if before is not None:
                found = greatest(shares[k], (before[0][most - m :], before[1][most - m :]), steps[1], n + 1)
                for side, one in zip(now, found, strict=True):
                    np.maximum(side[most : most + n + 1], one, out=side[most : most + n + 1])
        now[1][most + n :] = now[1][most + n]
        for side, t in zip(now, ends, strict=True):
            side[:most] = -np.expm1(-t[:0:-1]) + np.exp(-t[:0:-1]) * side[2 * most : most : -1]
        known = {one: deltas for one, deltas in known.items() if sum(one) >= sum(state) - 1} | {state: now}
    slack = 4096 * U * (sum(states[-1]) + 2)  # sums of products of positive numbers
    low, high = known.pop(states[-1])
    below = np.array([known[*(n - (k == j) for j, n in enumerate(states[-1])),][0] for k in range(len(uses))])
    return (steps[0], below * (1 - slack)), (steps[1], high * (1 + slack)), (steps[0], low * (1 - slack))


def greatest_loss(uses: Uses) -> float:
    """The sum of all ranges."""
    return float(sum(e * count for e, count in uses))


def law_of_uses(uses: Uses, *, above: bool, work: int = WORK) -> Weighted | None:
    """The law of a pair whose profile bounds the optimum on one side (M17); None where that is not known.

    Args:
        uses: Adaptive uses.
        above: Whether it bounds from above.
        work: As for `optimum`.
    """
    top = greatest_loss(uses) * (1 + 2 * U)
    known = optimum(uses, work) if top <= HIGHEST else None
    if known is None:
        return None
    (step, low), (_, high) = known[2], known[1]
    m = round(float(max(uses)[0]) / step)
    last = min(len(low) - 1 - 2 * m, math.floor(top / step - 0.5))
    high = high[m - 2 : m + last + 1]  # at multiples of a step that is longer by rounding
    high = high[1:] + 8 * U * (last + 1) * math.exp(step) * -np.diff(high)
    eps = np.append(step * np.arange(-1.0, last + 1), top)
    side = Sampled(eps, np.append(low[m - 1 : m + last + 1], 0.0), np.append(high, 0.0))
    found = law((side, side), (0.0, 0.0), above=above)
    return None if found is None else found.weighted()


def one_use(e: Fraction, eps: float) -> Any:
    """The worst delta of one use, a ball.

    Args:
        e: The range.
        eps: Finite.
    """
    if abs(eps) >= e:
        return 0 if eps > 0 else -balls.ball(eps).expm1()
    return ((balls.ball(eps) - balls.ball(e)) / 2).expm1() ** 2 / -balls.ball(-e).expm1()


def optimal_delta(uses: Uses, eps: FloatArray, *, above: bool) -> tuple[FloatArray, FloatArray] | None:
    """One side of the optimum at each eps, as both ends from above, else with what the largest loss says; of one use both.

    Args:
        uses: Adaptive uses.
        eps: Finite, (n,).
        above: Whether it bounds from above.
    """
    total, most = sum(count for _, count in uses), float(max(uses)[0])
    if total == 1:
        return half_line_delta(partial(one_use, uses[0][0]), eps)
    known = optimum(uses, WORK if total <= TOGETHER else MANY)
    if known is None:
        return None
    step, delta = known[above]
    zero, away = round(most / step), 8 * U * (np.abs(eps) + most)
    if above:  # it is convex in e^eps
        places = np.minimum((eps - away) / step + zero, len(delta) - 1)
        j = np.clip(places.astype(int), 0, len(delta) - 2)
        share = np.expm1((places - j) * step) / math.expm1(step)
        bound = np.where(places < 0, 1.0, np.minimum((1 - share) * delta[j] + share * delta[j + 1], 1.0))
        return bound, bound
    # some first use leaves a multiple of the step; delta(eps) >= delta(0) for eps < 0
    places, bound = (np.maximum(eps, 0.0) + away) / step + zero, np.zeros(len(eps))
    for (e, _), later in zip(uses, delta, strict=True):
        m = round(float(e) / step)
        j = np.clip(places.astype(int), zero, len(later) - m - 1)[:, None] - np.arange(m)
        t = np.clip((places[:, None] - j) * step, 0.0, m * step)
        share = np.expm1(t - m * step) / math.expm1(-m * step)
        found = (share * later[j] + (1 - share) * later[j + m]).max(axis=1)
        bound = np.maximum(bound, np.where(abs(places - j[:, 0]) <= 1, found, 0.0))
    return bound, np.where(eps < greatest_loss(uses) * (1 + 8 * U), 1.0, 0.0)


class BoundedRangeSum(Summand):
    """`count` copies of the dominating pair, or as many adaptive uses."""

    def __init__(self, e: Fraction, count: int) -> None:
        """e: the range."""
        self.range, self.e, self.count = e, float(e), count
        self.top = MaximumLoss(count * self.e * (1 + 8 * U), 0.0, count * self.e * (1 - 8 * U))
        self._zero = log_sinhc(np.array([self.e / 2]), np.zeros(1))

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """From log(sinh w / w): e(coth w - 1/w), e^2(1/w^2 - 1/sinh^2 w)."""
        w = (tilt + 0.5) * self.e
        value, _ = self.log_mgf(tilt)
        if w < 1e-2:
            return value, self.count * self.e * w / 3, self.count * self.e**2 / 3
        mean, variance = 1 / math.tanh(w) - 1 / w, 1 / w**2 - 1 / math.sinh(min(w, 300.0)) ** 2
        return value, self.count * self.e * mean, self.count * self.e**2 * variance

    def log_mgf(self, tilt: float) -> tuple[float, float]:
        """A difference of two logarithms."""
        here, error = log_sinhc(np.array([(tilt + 0.5) * self.e]), np.zeros(1))
        value = float(here[0].real - self._zero[0][0].real)
        slack = float(error[0] + self._zero[1][0]) + 8 * U * (abs(float(here[0].real)) + (tilt + 0.5) * self.e)
        return self.count * value, self.count * slack

    def log_mgf_ratio(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Log M(s) - log M(tilt)."""
        x = np.full(len(t), (tilt + 0.5) * self.e)
        value, error = log_sinhc(x, t * self.e)
        here, here_error = log_sinhc(x[:1], np.zeros(1))
        moved = 8 * U * (x + t * self.e)  # of w, through a logarithmic derivative coth w - 1/w of modulus below 2
        total = self.count * (value - here[0])
        return total, self.count * (error + here_error[0] + 2 * moved) + 2 * U * np.abs(total)

    def log_tail(self, tilt: float, t: float, until: float) -> float:
        """|sinh(w + iy)| <= cosh w, so the ratio is at most coth(w) w / |w + iy|, falling in t."""
        w = (tilt + 0.5) * self.e
        ratio = w / math.tanh(w) / math.hypot(w, t * self.e)
        return self.count * math.log(min(ratio * (1 + 1e-13), 1.0)) * (1 - 1e-12)

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """An upper bound, of one use the profile itself."""
        return optimal_delta(((self.range, self.count),), eps, above=True)


class UsesTogether(AtomicSum):
    """Adaptive uses beside fixed pairs: a law whose profile bounds the optimum on one side."""

    def __init__(self, uses: Uses, law: Weighted, *, above: bool) -> None:
        """law: of `law_of_uses`."""
        super().__init__(law, 1)
        self._alone, top = partial(optimal_delta, uses, above=above), greatest_loss(uses)
        self.top = MaximumLoss(top * (1 + 8 * U), 0.0, top * (1 - 8 * U))

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Alone: the optimum itself."""
        return self._alone(eps)

    def root(self, delta: float) -> None:
        """None: that of the law is not the optimum's."""


@dataclass(frozen=True, slots=True)
class BoundedRangePair(Pair):
    """A pair above the class of range e, or uses of it; each its own mirror image."""

    envelopes: ClassVar[float] = math.inf
    e: Fraction
    above: bool

    def repeated(self, count: int) -> Summand:
        """Copies of the dominating pair, or of randomized response of e/2, a member of the class."""
        return BoundedRangeSum(self.e, count) if self.above else ResponsePair(self.e / 2, NONE, 0).repeated(count)

    @classmethod
    def merged(cls, uses: Sequence[tuple[BoundedRangePair, int]]) -> list[Summand]:
        """The optimum of the ranges whose uses weigh most, as far as they are few, and all others as fixed pairs (M18)."""
        first, *others = sorted(uses, key=lambda use: use[0].e ** 2 * use[1], reverse=True)
        pair, count = first
        groups, work = 1, WORK
        if count > TOGETHER:
            groups, work = (count // GROUP, MANY // 8) if pair.above else (1, MANY)
        together: Uses = ((pair.e, count // groups),)
        left: list[tuple[BoundedRangePair, int]] = []
        for other, n in others:
            more = (*together, (other.e, n))
            few = groups == 1 and states_of(more) <= STATES and optimum(more, work) is not None
            together, left = (more, left) if few else (together, [*left, (other, n)])
        law = law_of_uses(together, above=pair.above, work=work) if len(together) > 1 or count > 1 else None
        if law is None:
            one, left = pair.repeated(count) if count > 1 else BoundedRangeSum(pair.e, 1), others
        else:
            one = AtomicSum(law, groups) if groups > 1 else UsesTogether(together, law, above=pair.above)
            left.append((pair, count % groups))
        return [one, *(other.repeated(n) for other, n in left if n)]


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

    # a g(a e) of s(x) = x + g(2x), g(y) = ln((1 - e^-y)/y); the linear parts add up to e
    def part(times: Fraction) -> Any:
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

    def dominating_pair(self, direction: Direction) -> Pair:
        """The dominating pair."""
        return BoundedRangePair(self.epsilon, above=True)

    def attained_pair(self, direction: Direction) -> Pair:
        """Mechanisms of the class."""
        return BoundedRangePair(self.epsilon, above=False)

    def renyi(self, direction: Direction) -> RenyiCurve:
        """The better bound for many uses."""
        return BoundedRangeCurve(self.epsilon)
