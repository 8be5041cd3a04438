"""Discovering groups privately: keep a group if its noisy number of distinct units reaches a threshold.

A group that exists in both neighbours is an ordinary noisy count. A group that one unit alone brings in has count 1 in one
table and does not exist in the other: it is kept with probability p = P(1 + X >= threshold). One unit brings in at most k
groups, so some such group is kept with probability at most 1 - (1 - p)^k, which delta covers: docs/mechanisms/partition.md
has the proof for both relations. Korolova et al. 2009; Desfontaines, Voss, Gipson, Mandayam 2022, sec. 2.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, open_probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import Composed, Leak
from neartwin.mechanisms.gaussian import Gaussian
from neartwin.mechanisms.geometric import Geometric
from neartwin.noise.bounds import exp_neg
from neartwin.special import erfc
from neartwin.tradeoff import TradeOff, with_failure

_LEAST = 1e-290  # below, floats lose digits
_SLACK = 1e-9  # relative: erfc, log and the float arithmetic here err by less than 1e-13


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitThreshold:
    """Keep the groups with at least `threshold` units after noise. delta: the probability that is charged, an upper bound."""

    counts: Geometric
    threshold: int
    delta: Fraction

    @classmethod
    def calibrated(
        cls, *, epsilon: Fraction, delta: Fraction, sensitivity: int, groups_per_unit: int
    ) -> "UnitThreshold":
        """The least threshold whose false keeps have total probability at most delta, certified by integers.

        sensitivity: L1, of the unit counts over all groups. groups_per_unit: the most groups that one unit can bring in.
        P(1 + X >= T) = r^(T-1) / (1 + r) for T >= 2 with r = exp(-1/scale); k times that is at most delta.

        >>> UnitThreshold.calibrated(
        ...     epsilon=Fraction(1), delta=Fraction(1, 10**5), sensitivity=1, groups_per_unit=1
        ... ).threshold
        13
        """
        open_probability(delta=delta)
        integer(at_least=1, groups_per_unit=groups_per_unit)
        counts = Geometric.calibrated(epsilon=epsilon, sensitivity=sensitivity)
        scale = float(counts.scale)
        logarithm = math.log(groups_per_unit) - math.log(delta.numerator) + math.log(delta.denominator)
        logarithm -= math.log1p(math.exp(-1 / scale))
        threshold = max(2, math.ceil(scale * logarithm * (1 - 1e-12)))
        bits = 256 + math.ceil(groups_per_unit / delta).bit_length()
        while groups_per_unit * false_keep(counts.scale, threshold, bits) > delta:
            threshold += 1
        return cls(counts=counts, threshold=threshold, delta=delta)

    def curve(self) -> TradeOff:
        """That of the counts, with the failure mass delta: whatever a unit's own groups could give away."""
        return with_failure(self.counts.curve(), self.delta)

    def losses(self) -> Composed:
        """That of the counts, and a leak of probability delta."""
        return self.counts.losses() + Leak(delta=self.delta)

    def keeps(self, units: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> NDArray[np.bool_]:
        """Which groups are kept. units: distinct units of every group that has any; fresh noise on each."""
        kept: NDArray[np.bool_] = self.counts.noisy(units, source=source) >= self.threshold
        return kept.astype(np.bool_)

    def keep_probability(self, units: WholeNumbers) -> FloatArray:
        """The chance that a group with this many units is kept."""
        rate = 1 / float(self.counts.scale)
        away = (self.threshold - np.asarray(units)).astype(np.float64)
        tail = np.exp(-np.abs(np.where(away > 0, away, away - 1)) * rate) / (1 + math.exp(-rate))
        return np.where(away > 0, tail, 1 - tail)


def false_keep(scale: Fraction, threshold: int, bits: int) -> Fraction:
    """P(1 + X >= threshold), rounded up by less than 2**-bits, for geometric noise and a threshold of at least 2."""
    _, high = exp_neg((threshold - 1) / scale, bits)
    low, _ = exp_neg(1 / scale, bits)
    return Fraction(high, (1 << bits) + low)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianThreshold:
    """The same with rounded normal noise: for accounts in GDP or zCDP, and for many groups a unit.

    The unit counts are mu-GDP with l2_squared = groups that one unit touches; delta is on top.
    """

    counts: Gaussian
    threshold: int
    delta: Fraction

    @classmethod
    def calibrated(cls, *, mu: Fraction, delta: Fraction, l2_squared: int, groups_per_unit: int) -> "GaussianThreshold":
        """The least threshold with k P(1 + round(Y) >= T) <= delta, where P(round(Y) >= m) = P(Y >= m - 1/2)."""
        open_probability(delta=delta)
        integer(at_least=1, groups_per_unit=groups_per_unit)
        counts = Gaussian.for_gdp(mu=mu, l2_squared=l2_squared)
        allowed = float(delta / groups_per_unit) * (1 - _SLACK)
        if allowed < _LEAST:
            raise ParameterError("delta", delta, f"must be at least {_LEAST} for each group of a unit")
        low, high = 1, 4
        while _normal_tail(high, counts.variance) > allowed:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _normal_tail(middle, counts.variance) <= allowed else (middle, high)
        return cls(counts=counts, threshold=high, delta=delta)

    def curve(self) -> TradeOff:
        """That of the counts, with the failure mass delta: whatever a unit's own groups could give away."""
        return with_failure(self.counts.curve(), self.delta)

    def losses(self) -> Composed:
        """That of the counts, and a leak of probability delta."""
        return self.counts.losses() + Leak(delta=self.delta)

    def keeps(self, units: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> NDArray[np.bool_]:
        """Which groups are kept. units: distinct units of every group that has any; fresh noise on each."""
        kept: NDArray[np.bool_] = self.counts.noisy(units, source=source) >= self.threshold
        return kept.astype(np.bool_)

    def keep_probability(self, units: WholeNumbers) -> FloatArray:
        """The chance that a group with this many units is kept."""
        away = self.threshold - np.asarray(units) - 0.5
        result: FloatArray = erfc(away / math.sqrt(2 * float(self.counts.variance))) / 2
        return result


def _normal_tail(threshold: int, variance: Fraction) -> float:
    return float(erfc((threshold - 1.5) / math.sqrt(2 * float(variance)))) / 2
