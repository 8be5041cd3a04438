"""Randomized response and what it dominates: pure eps, (eps, delta), k-ary response, and response that is silent half the
time.

Binary randomized response dominates every eps-DP mechanism. After a coin of bias delta that reveals all, it dominates
every (eps, delta)-DP mechanism (Kairouz, Oh, Viswanath 2015, theorem 3.1). Losses are exactly -eps, 0, eps. Repeated, eps(delta)
and delta(eps) follow from their binomial law without a search (S14), up to rounding (S15): docs/proofs/losses-sampled.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from typing import ClassVar, NamedTuple

import numpy as np

from neartwin.checks import in_floats, integer, non_negative, open_probability
from neartwin.exact import FloatArray, Number, float_above, float_below, rational
from neartwin.losses.composition import PrivacyLoss, PureLoss
from neartwin.losses.inversion.total import Batch
from neartwin.losses.summands.atoms import AtomicSum, Weighted
from neartwin.losses.summands.base import Direction, Lattice, Pair, Summand
from neartwin.losses.summands.rounding import ELEMENTARY, SMALLEST, ComplexArray, U, gamma, log_one_plus

MOST_COPIES, MOST_LOG = 900, 690.0
BLOCK = 1 << 19  # numbers a temporary matrix may hold
LARGEST = 600.0  # of an exponent


class Law(NamedTuple):
    """P_k, its partial sums A_m, the sums B_m of Q_k (S14), and the relative error (S15) of each."""

    masses: FloatArray
    a: FloatArray
    b: FloatArray
    error: float


class TwoSidedSum(AtomicSum):
    """Copies of a law with the two losses e > 0 and -e in the ratio e^e; few enough for a sum over how many are turned."""

    has_closed_form = True

    def __init__(self, epsilon: Fraction, count: int, infinity: tuple[float, float]) -> None:
        """epsilon: e, exact; infinity: bounds on P(L = inf) of one copy."""
        self.epsilon, self.e = epsilon, float(epsilon)
        log_whole = math.log1p(math.exp(-self.e))
        losses = np.array([self.e, -self.e])
        logs = np.array([-log_whole, -self.e - log_whole])
        mass_error = np.full(2, 4 * ELEMENTARY + 4 * U * self.e)
        lattice = Lattice(epsilon, 2 * epsilon)
        super().__init__(
            Weighted(losses, logs, mass_error, U * np.abs(losses)), count, infinity=infinity, lattice=lattice
        )

    @cached_property
    def law(self) -> Law:
        """The binomial law."""
        n, e = self.count, self.e
        k = np.arange(n + 1.0)
        ways = np.ones(n + 1)
        np.cumprod((n + 1 - k[1:]) / k[1:], out=ways[1:])
        decay = np.exp(k * -e)
        masses = ways * decay
        p, q = np.cumsum(masses), np.cumsum(ways * decay[::-1])
        whole = float(p[-1])
        error = 2 * ((2 * n + 2 * n * e + 2) * U + ELEMENTARY + gamma(n + 1)) * 1.01 + 4 * U
        return Law(masses / whole, p / whole, q / whole, error)

    @np.errstate(all="ignore")
    def inverse(self, low_delta: float, high_delta: float) -> tuple[float, float]:
        """The maximum over m."""
        _, a, b, error = self.law
        least = (a * (1 - error) - high_delta) * ((1 - 4 * U) / (1 + error))
        most = (a * (1 + error) - low_delta) * ((1 + 4 * U) / (1 - error))
        lower, upper = (float(np.log(np.maximum(top, 0.0) / b).max()) for top in (least, most))
        slack = 2 * ELEMENTARY * (1 + abs(upper))
        return lower - slack, upper + slack

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The sum over losses above eps, every term a product of positive numbers; a loss errs by 3U of itself."""
        n, e = self.count, self.e
        losses = (n - 2 * np.arange(n + 1.0)) * e
        rows = max(1, BLOCK // (n + 1))
        parts = [self._some(eps[i : i + rows], losses) for i in range(0, max(len(eps), 1), rows)]
        value, moved = (np.concatenate(column) for column in zip(*parts, strict=True))
        slack = value * (self.law.error + 3 * ELEMENTARY) + moved
        return np.maximum(value - slack, 0.0), np.minimum(value + slack, 1.0)

    def _some(self, eps: FloatArray, losses: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The sum at a few eps, and what the errors of the exponents do to it: at most themselves, for masses up to there."""
        value = -np.expm1(np.minimum(np.subtract.outer(eps, losses), 0.0)) @ self.law.masses
        above = np.searchsorted(-losses, -eps * (1 - 4 * U * np.sign(eps)), side="right")
        reach = self.law.a[np.minimum(above, len(losses) - 1)]
        return value, reach * (6 * U * (np.abs(eps) + float(losses[0])))


class ResponseBatch(Batch):
    """Responses of many kinds: losses e, 0 and -e, where P names one answer, another one or none of both (K15)."""

    def __init__(self, counts: Mapping[ResponsePair, int]) -> None:
        """counts: how often each kind stands."""
        e, others = np.array([[float(pair.epsilon), float(pair.others)] for pair in counts]).T
        small = np.exp(-e)
        whole = 1 + small + others * small
        self.masses = np.array([1 / whole, others * small / whole, small / whole])
        self.log_whole, self.mass_error = np.log(whole), 4 * ELEMENTARY + 4 * U * e
        n = np.array([float(count) for count in counts.values()])
        super().__init__(e, n, -self.log_whole * (1 + 2 * ELEMENTARY) - self.mass_error)
        self.null = not e.any()
        each = [Lattice(n * pair.epsilon, pair.epsilon * (1 if pair.others else 2)) for pair, n in counts.items()]
        self.lattice = reduce(Lattice.plus, each)
        if any(pair.delta for pair in counts):
            above, below = np.array([[float_above(pair.delta), max(float_below(pair.delta), 0.0)] for pair in counts]).T
            with np.errstate(divide="ignore"):  # a delta that rounds to 1
                low, high = (float(n @ np.log1p(-end)) for end in (above, below))
            self.log_finite = low * (1 + (len(e) + 64) * U), high * (1 - (len(e) + 64) * U)

    def each(self, tilt: float) -> tuple[FloatArray, FloatArray]:
        """M - 1 = p (e^x - 1)(1 - e^{-x-e}), x = tilt e, for the mass of -e is p e^{-e}: no digit is lost, however small e.

        Each of the three errs relatively, p by `mass_error`, e^x - 1 by (1 + x) 2U and its own. K errs by (M - 1)/M of that, and
        by the logarithm's error. Beyond the floats it is the logarithm of 1 + p e^x.
        """
        x, near = tilt * self.e, tilt * self.e < LARGEST
        more = self.masses[0] * np.expm1(np.minimum(x, LARGEST)) * -np.expm1(-(1 + tilt) * self.e)
        value = np.where(near, np.log1p(more), np.logaddexp(0.0, x - self.log_whole))
        relative = self.mass_error + 3 * ELEMENTARY + 4 * U * x + np.where(near, 0.0, 2 * ELEMENTARY * self.log_whole)
        return value, relative * -np.expm1(-value) * 1.01 + 2 * ELEMENTARY * value + SMALLEST

    def _tilted(self, tilt: float) -> tuple[FloatArray, FloatArray]:
        """Masses of the three losses (3, kinds), tilted, and the relative error of those of each kind."""
        k, error = self.each(tilt)
        x = tilt * self.e
        moved = self.mass_error + error + ELEMENTARY + 4 * U * (x + k + 1)
        return self.masses * np.exp(np.array([x - k, -k, -x - k])), moved

    def turned(self, tilt: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Log of 1 + w (e^{ite} - 1) + v (e^{-ite} - 1), w and v the tilted masses of e and -e (K15).

        The sine, the cosine and their products err by 3 ELEMENTARY of the turns, and the angle te by 8U of itself.
        """
        (w, _, v), moved = self._tilted(tilt)
        half = t * (0.5 * self.e)
        sine = np.sin(half)
        error = (w + v) * ((moved + 3 * ELEMENTARY) * np.minimum(2 * half, 2.0) + 16 * U * half)
        return log_one_plus(-2 * (w + v) * sine * sine, 2 * (w - v) * sine * np.cos(half), error)

    def turning(self, tilt: float, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """The outer two losses, or both against the middle one: |ratio|^2 = 1 - 4wv sin^2(te) - 4z(w+v) sin^2(te/2)."""
        (w, z, v), moved = self._tilted(tilt)
        outer, inner = 4 * w * v, 4 * z * (w + v)
        c = np.maximum(outer, inner) * np.maximum(1 - 3 * moved, 0.0)
        return np.where(outer > inner, self.e, 0.5 * self.e), c, np.zeros(len(t)), 0.0

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """From the tilted masses; the variance is e^2 times ((w+v)z + 4wv), for the three masses sum to 1."""
        (w, z, v), _ = self._tilted(tilt)
        variance = np.square(self.e) * ((w + v) * z + 4 * w * v)
        return self.log_mgf(tilt)[0], float(self.n @ (self.e * (w - v))), float(self.n @ variance)

    def delta(self, eps: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Where nothing is said but what reveals all."""
        value = -np.expm1(np.minimum(eps, 0.0))
        return (value * (1 - ELEMENTARY), value * (1 + ELEMENTARY)) if self.null else None


NONE = Fraction(0)


@dataclass(frozen=True, slots=True)
class ResponsePair(Pair):
    """Losses eps, -eps and, with `others` further answers, 0; infinite with probability delta. Symmetric."""

    merges: ClassVar[float] = 64  # fewer are quicker one by one

    epsilon: Fraction
    delta: Fraction
    others: int

    def revealed(self) -> Fraction:
        """Its parameter."""
        return self.delta

    def repeated(self, count: int) -> Summand:
        """Masses e^eps, 1 and others over their sum: errors of eps (U eps), exp and the division."""
        e = float(self.epsilon)
        infinity = (max(float_below(self.delta), 0.0), float_above(self.delta)) if self.delta else (0.0, 0.0)
        # sums that neither under- nor overflow, and whose rounding is below 1e-10 of any eps but the smallest
        fits = (
            e >= 1e-5 * math.sqrt(count) and count <= MOST_COPIES and count * (e + math.log1p(math.exp(-e))) < MOST_LOG
        )
        if fits and not self.others:
            return TwoSidedSum(self.epsilon, count, infinity)
        small = math.exp(-e)
        whole = 1 + small + self.others * small
        masses = (1 / whole, self.others * small / whole) if e else (0.0, 1.0)
        return three_losses(self.epsilon, masses, count, infinity, error=4 * ELEMENTARY + 4 * U * e)

    @classmethod
    def merged(cls, uses: Sequence[tuple[ResponsePair, int]]) -> list[Summand]:
        """One batch."""
        return [ResponseBatch(dict(uses))]


@dataclass(frozen=True, slots=True, init=False)
class Pure(PureLoss):
    """Any eps-DP mechanism, as its worst case, binary randomized response.

    Errors: `ParameterError` unless epsilon is finite and positive. Kairouz, Oh, Viswanath 2015.

    >>> 1.0 in (10 * Pure(epsilon="0.1")).pure()
    True
    """

    epsilon: Fraction

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction."""
        return ResponsePair(self.epsilon, NONE, 0)


@dataclass(frozen=True, slots=True, init=False)
class Approx(PrivacyLoss):
    """Any (eps, delta)-DP mechanism, as its worst case.

    Errors: `ParameterError` unless epsilon is finite, not negative and 0 <= delta < 1. Kairouz, Oh, Viswanath 2015.

    >>> 6.571974667452005 in (200 * Approx(epsilon="0.1", delta="1e-8")).epsilon(1e-5)
    True
    """

    both_ways: ClassVar[bool] = True
    epsilon: Fraction
    delta: Fraction

    def __init__(self, *, epsilon: Number, delta: Number) -> None:
        """epsilon, delta: the guarantee of one use."""
        size = non_negative(epsilon=rational(epsilon=epsilon))
        object.__setattr__(self, "epsilon", in_floats(epsilon=size) if size else size)
        share = rational(delta=delta)
        object.__setattr__(self, "delta", open_probability(delta=share) if share else share)

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction."""
        return ResponsePair(self.epsilon, self.delta, 0)

    def stated_pure(self) -> Fraction | None:
        """Its parameter, where no delta stands beside."""
        return None if self.delta else self.epsilon


@dataclass(frozen=True, slots=True, init=False)
class RandomizedResponse(PureLoss):
    """The true one of k answers with odds e^eps against each other one.

    Errors: `ParameterError` unless epsilon is positive and answers is at least 2. Warner 1965; Kairouz et al. 2016.

    >>> (20 * RandomizedResponse(epsilon="0.3", answers=4)).epsilon(1e-6).width < 1e-9
    True
    """

    epsilon: Fraction
    answers: int

    def __init__(self, *, epsilon: Number, answers: int = 2) -> None:
        """epsilon: log of the odds; answers: how many there are."""
        object.__setattr__(self, "epsilon", in_floats(epsilon=rational(epsilon=epsilon)))
        object.__setattr__(self, "answers", in_floats(answers=integer(at_least=2, answers=answers)))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction: P names one answer, Q another, the rest have ratio 1."""
        return ResponsePair(self.epsilon, NONE, self.answers - 2)


@dataclass(frozen=True, slots=True, init=False)
class Leak(PrivacyLoss):
    """With probability delta everything is revealed, otherwise nothing: (0, delta).

    Errors: `ParameterError` unless 0 < delta < 1.

    >>> 0.75 in (2 * Leak(delta="0.5")).delta(1.0)
    True
    """

    both_ways: ClassVar[bool] = True
    delta: Fraction

    def __init__(self, *, delta: Number) -> None:
        """delta: the probability of revealing all."""
        object.__setattr__(self, "delta", open_probability(delta=rational(delta=delta)))

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction."""
        return ResponsePair(NONE, self.delta, 0)


@dataclass(frozen=True, slots=True)
class SilentPair(Pair):
    """Losses eps, 0 and -eps of masses t/2, 1/2 and (1 - t)/2, t = 1 / (1 + e^-eps). Symmetric."""

    epsilon: Fraction

    def repeated(self, count: int) -> Summand:
        """Masses e^eps, e^eps + 1 and 1 over twice their sum: errors of eps (U eps), exp and the division."""
        e = float(self.epsilon)
        small = math.exp(-e)
        return three_losses(self.epsilon, (1 / (2 + 2 * small), 0.5), count, error=4 * ELEMENTARY + 4 * U * e)


def three_losses(
    epsilon: Fraction,
    masses: tuple[float, float],
    count: int,
    infinity: tuple[float, float] = (0.0, 0.0),
    *,
    error: float,
) -> AtomicSum:
    """So many copies of the losses epsilon, 0 and -epsilon.

    Args:
        epsilon: The greatest loss.
        masses: Those of the first two, given a finite loss; one may be 0. That of the last is e^-epsilon of the first.
        count: The number of copies.
        infinity: Bounds on the probability that one copy reveals all.
        error: A bound on the relative error of the masses.
    """
    e = float(epsilon)
    some = np.flatnonzero([*masses, masses[0]])
    losses = np.array([e, 0.0, -e])[some]
    logs = np.log(np.array([*masses, masses[0]])[some]) + np.minimum(losses, 0.0)  # e^-e may be beyond the floats
    weighted = Weighted(losses, logs, np.full(len(some), error), U * np.abs(losses))
    step = epsilon if masses[1] > 0 else 2 * epsilon
    return AtomicSum(weighted, count, infinity=infinity, lattice=Lattice(epsilon, step))


@dataclass(frozen=True, slots=True, init=False)
class SilentResponse(PureLoss):
    """Binary randomized response that says nothing half of the time: optimised unary encoding, Hadamard response.

    Errors: `ParameterError` unless epsilon is positive. Wang, Blocki, Li, Jha 2017; Acharya, Sun, Zhang 2019.

    >>> (1 * SilentResponse(epsilon=1)).delta(0.0).upper  # half of tanh(1/2)
    0.231058578630...
    """

    epsilon: Fraction

    def dominating_pair(self, direction: Direction) -> Pair:
        """The pair, equal in every direction."""
        return SilentPair(self.epsilon)
