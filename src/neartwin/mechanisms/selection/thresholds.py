"""Discovering groups privately: keep a group if its noisy number of distinct units reaches a threshold.

A group that exists in both neighbours is an ordinary noisy count. A group that one unit alone brings in has count 1 in one table
and does not exist in the other. It is kept with probability p = P(1 + X >= threshold). One unit brings in at most k groups, so
some such group is kept with probability at most 1 - (1 - p)^k, which delta covers. docs/mechanisms/partition.md has the proof
for both relations. Korolova et al. 2009; Desfontaines, Voss, Gipson, Mandayam 2022, sec. 2.

Optimal discovery of groups: the keep probabilities that no (epsilon, delta)-DP rule of this kind can exceed.
pi_0 = 0 and pi_{n+1} = min(e^epsilon pi_n + delta, 1 - e^{-epsilon} (1 - pi_n - delta), 1), each group on its own.
Neighbouring counts n, n + 1 then satisfy all four (epsilon, delta) inequalities, with equality wherever possible.
Desfontaines, Voss, Gipson, Mandayam 2022, Thm 1. It releases the groups alone, not their counts.

The choice is exact. e^epsilon is replaced by a rational a just below it, and each pi_n is rounded down to 2^-256. That keeps the
inequalities for a and so for e^epsilon. Coins with these probabilities are exact.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, open_probability, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import Approx, Composition, Leak
from neartwin.mechanisms.additive import DiscreteLaplace, Gaussian
from neartwin.noise.exponentials import exp_neg

_LEAST = 1e-290  # below, floats lose digits
_SLACK = 1e-9  # relative: erfc, log and the float arithmetic here err by less than 1e-13


class Selection(ABC):
    """A private choice of groups by their numbers of distinct units."""

    __slots__ = ()

    @property
    @abstractmethod
    def record(self) -> list[object]:
        """Its words in digests, for ever."""

    @property
    @abstractmethod
    def samplers(self) -> tuple[noise.Sampler, ...]:
        """The samplers that `keeps_by` draws from, by place."""

    @property
    @abstractmethod
    def missed(self) -> float:
        """How many groups are missed in expectation, if there were one with each number of units from 1 on."""

    @abstractmethod
    def keeps_by(self, draw: Callable[[int], NDArray[np.int64]], units: WholeNumbers) -> NDArray[np.bool_]:
        """Which groups are kept, with given randomness.

        Args:
            draw: For a place in `samplers`, (groups,) numbers of its law.
            units: (groups,) distinct units of every group that has any, at least 1.
        """

    def keeps(self, units: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> NDArray[np.bool_]:
        """Select groups with fresh randomness.

        Args:
            units: (groups,) distinct units of every group that has any.
            source: The source of randomness.

        Returns:
            (groups,) whether each group is kept.
        """
        return self.keeps_by(lambda place: self.samplers[place].draw(np.shape(units), source=source), units)

    @abstractmethod
    def unit_losses(self, groups: int) -> Composition:
        """The privacy loss to a unit that can bring in or take away so many groups."""

    @property
    @abstractmethod
    def explanation(self) -> tuple[str, ...]:
        """How groups are kept, a line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold(Selection):
    """Keep the groups with at least `threshold` units after noise. delta: the probability that is charged, an upper bound."""

    counts: DiscreteLaplace | Gaussian
    threshold: int
    delta: Fraction

    def losses(self) -> Composition:
        """That of the counts, and a leak of probability delta."""
        return self.counts.losses() + Leak(delta=self.delta)

    @property
    def record(self) -> list[object]:
        """The law's words without its sensitivity, and the threshold."""
        return [*self.counts.record[:-1], self.threshold]

    @property
    def samplers(self) -> tuple[noise.Sampler, ...]:
        """The noise on units."""
        return (self.counts.sampler,)

    @property
    def missed(self) -> float:
        """E max(0, T - 1 - X) for symmetric noise X: T - 1, but for tails below delta."""
        return float(self.threshold - 1)

    def keep_probability(self, units: WholeNumbers) -> FloatArray:
        """The chance that a group with this many units is kept."""
        return np.asarray(np.vectorize(self.counts.law.at_least, otypes=[float])(self.threshold - np.asarray(units)))

    def keeps_by(self, draw: Callable[[int], NDArray[np.int64]], units: WholeNumbers) -> NDArray[np.bool_]:
        """Which groups are kept: fresh noise on each number of units."""
        passes: NDArray[np.bool_] = noise.add(units, draw(0)) >= self.threshold
        return passes.astype(np.bool_)

    def unit_losses(self, groups: int) -> Composition:
        """The loss of all groups together: the noise is scaled to them."""
        return self.losses()

    @property
    def explanation(self) -> tuple[str, ...]:
        """The threshold and its noise."""
        passing = f"groups that a unit is alone in pass with probability at most delta = {float(self.delta):g} together"
        return f"kept if units + noise >= {self.threshold}: {passing}", f"noise on units: {self.counts.describe()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitThreshold(Threshold):
    """A threshold with discrete Laplace noise."""

    counts: DiscreteLaplace

    @classmethod
    def calibrated(
        cls, *, epsilon: Fraction, delta: Fraction, sensitivity: int, groups_per_unit: int
    ) -> "UnitThreshold":
        """The least threshold whose false keeps have total probability at most delta, certified by integers.

        P(1 + X >= T) = r^(T-1) / (1 + r) for T >= 2 with r = exp(-1/scale); k times that is at most delta.

        Args:
            epsilon: The pure-DP parameter of the counts.
            delta: The probability of a false keep.
            sensitivity: The L1 sensitivity of the unit counts over all groups.
            groups_per_unit: k, the most groups that one unit brings in.

        Returns:
            The threshold.

        >>> UnitThreshold.calibrated(
        ...     epsilon=Fraction(1), delta=Fraction(1, 10**5), sensitivity=1, groups_per_unit=1
        ... ).threshold
        13
        """
        open_probability(delta=delta)
        integer(at_least=1, groups_per_unit=groups_per_unit)
        counts = DiscreteLaplace.calibrated(epsilon=epsilon, sensitivity=sensitivity)
        scale = float(counts.scale)
        logarithm = math.log(groups_per_unit) - math.log(delta.numerator) + math.log(delta.denominator)
        logarithm -= math.log1p(math.exp(-1 / scale))
        threshold = max(2, math.ceil(scale * logarithm * (1 - 1e-12)))
        bits = 256 + math.ceil(groups_per_unit / delta).bit_length()
        while groups_per_unit * false_keep(counts.scale, threshold, bits) > delta:
            threshold += 1
        return cls(counts=counts, threshold=threshold, delta=delta)


def false_keep(scale: Fraction, threshold: int, bits: int) -> Fraction:
    """P(1 + X >= threshold) for discrete Laplace noise, rounded up by less than 2**-bits.

    Args:
        scale: The scale of the noise.
        threshold: The threshold, at least 2.
        bits: The precision.

    Returns:
        An upper bound.
    """
    _, high = exp_neg((threshold - 1) / scale, bits)
    low, _ = exp_neg(1 / scale, bits)
    return Fraction(high, (1 << bits) + low)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianThreshold(Threshold):
    """A threshold with rounded normal noise: for accounts in GDP or zCDP, and for many groups a unit.

    The unit counts are mu-GDP with l2_squared = groups that one unit touches; delta is on top.
    """

    counts: Gaussian

    @classmethod
    def calibrated(cls, *, mu: Fraction, delta: Fraction, l2_squared: int, groups_per_unit: int) -> "GaussianThreshold":
        """The least threshold with k P(1 + round(Y) >= T) <= delta, where P(round(Y) >= m) = P(Y >= m - 1/2).

        Args:
            mu: The GDP parameter of the counts.
            delta: The probability of a false keep.
            l2_squared: The squared L2 sensitivity of the unit counts over all groups.
            groups_per_unit: k, the most groups that one unit brings in.

        Returns:
            The threshold.

        Raises:
            ParameterError: delta is too small for the number of groups.
        """
        open_probability(delta=delta)
        integer(at_least=1, groups_per_unit=groups_per_unit)
        counts = Gaussian.for_gdp(mu=mu, l2_squared=l2_squared)
        allowed = float(delta / groups_per_unit) * (1 - _SLACK)
        if allowed < _LEAST:
            raise ParameterError("delta", delta, f"must be at least {_LEAST} for each group of a unit")
        return cls(counts=counts, threshold=counts.law.reach(2 * allowed) + 2, delta=delta)


_BITS = 256
_ONE = 2**_BITS
_DIGITS = 5  # digits of a probability to base 2**63
_MOST = 1 << 20  # the most counts until pi is 1; more need an epsilon below about 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalSelection(Selection):
    """Keep probabilities for one group. A unit in k groups pays k such uses."""

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        open_probability(delta=self.delta)

    def losses(self) -> Composition:
        """Its guarantee as a factor: of one group."""
        return Composition.of(Approx(epsilon=self.epsilon, delta=self.delta))

    @property
    def record(self) -> list[object]:
        """Epsilon and delta of one group."""
        return ["optimal", str(self.epsilon), str(self.delta)]

    @property
    def samplers(self) -> tuple[noise.Sampler, ...]:
        """Uniform digits to base 2**63."""
        return (noise.sampler(noise.UniformBits()),) * _DIGITS

    @property
    def missed(self) -> float:
        """The sum of 1 - pi_n, in floats and closed form.

        With c = delta / (e^epsilon - 1), pi_n + c grows by e^epsilon while pi_n is at most (1 - delta) / (e^epsilon + 1), and
        once more; then 1 - pi_n + c falls by e^-epsilon down to c.
        """
        epsilon, delta = float(self.epsilon), float(self.delta)
        near = -math.expm1(-epsilon)
        log_c = math.log(delta / near) - epsilon
        c = math.exp(log_c)
        ups = 1 + math.floor(math.log1p((1 - delta) / delta * math.tanh(epsilon / 2)) / epsilon)
        top = math.exp(log_c + ups * epsilon)  # pi + c
        left = 1 + 2 * c - top  # 1 - pi + c
        downs = math.floor((math.log(left) - log_c) / epsilon)
        kept = -top * math.expm1(-ups * epsilon) / near - c * ups
        return ups - kept - left * math.exp(-epsilon) * math.expm1(-downs * epsilon) / near - c * downs

    def unit_losses(self, groups: int) -> Composition:
        """One use for each group."""
        return groups * self.losses()

    @property
    def explanation(self) -> tuple[str, ...]:
        """The keep probabilities and their price."""
        half = next(n for n in range(1, self.sure + 1) if 2 * self.keep_probability(n) >= 1)
        chances = f"a group of 1 with {float(self.delta):.3g}, of {half} with one half or more, of {self.sure} surely"
        price = f"each group of a unit costs epsilon {float(self.epsilon):g} and delta {float(self.delta):.3g}"
        return f"kept with the largest probabilities that privacy allows: {chances}", price

    @property
    def sure(self) -> int:
        """The least count that is always kept."""
        return len(_table(self.epsilon, self.delta)) - 1

    def keep_probability(self, units: int) -> Fraction:
        """pi_n, exactly the probability that is drawn.

        >>> round(float(OptimalSelection(epsilon=Fraction(1), delta=Fraction(1, 10**5)).keep_probability(14)), 12)
        0.967566653027
        """
        table = _table(self.epsilon, self.delta)
        return Fraction(table[min(integer(at_least=0, units=units), len(table) - 1)], _ONE)

    def keep_probabilities(self, units: WholeNumbers) -> FloatArray:
        """The keep probabilities of an array of numbers of units, in floats."""
        table = np.array([p / _ONE for p in _table(self.epsilon, self.delta)])
        return table[np.minimum(units, table.size - 1)]

    def keeps_by(self, draw: Callable[[int], NDArray[np.int64]], units: WholeNumbers) -> NDArray[np.bool_]:
        """Which groups are kept.

        A group is kept if its uniform number is below pi, digit by digit; further digits are asked for only on a tie.
        """
        counts = np.minimum(np.asarray(units), self.sure).astype(np.int64)
        passes: NDArray[np.bool_] = counts == self.sure
        open_ = counts < self.sure
        table = _table(self.epsilon, self.delta)
        scaled = [(pi << (63 * _DIGITS)) // _ONE for pi in table]
        for place in range(_DIGITS):
            if not open_.any():
                break
            shift = 63 * (_DIGITS - 1 - place)
            leading = np.array([(pi >> shift) & (2**63 - 1) for pi in scaled], dtype=np.int64)[counts]
            drawn = draw(place)
            passes |= open_ & (drawn < leading)
            open_ &= drawn == leading
        return passes


@lru_cache(maxsize=16)
def _table(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """pi_0, pi_1, ... until 1, in parts of 2^-_BITS."""
    _, high = exp_neg(epsilon, _BITS)
    share = delta.numerator * _ONE // delta.denominator  # delta, rounded down
    pi = [0]
    while pi[-1] < _ONE:
        if len(pi) > _MOST:
            raise ParameterError(
                "epsilon", epsilon, f"must reach certainty within {_MOST} units", remedy="take it larger"
            )
        up = pi[-1] * _ONE // high + share
        down = _ONE - (-(-max(0, _ONE - pi[-1] - share) * high // _ONE))
        pi.append(min(up, down, _ONE))
    return tuple(pi)
