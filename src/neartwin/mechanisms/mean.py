"""The mean of bounded values: a noisy total over a noisy count, with an interval for their ratio.

Under add/remove nobody knows n, so both are noised; the total is taken around the middle of the bounds, which halves its
sensitivity. Under replace-one with every unit surely in the data n is public and the total alone is noised, with
sensitivity high - low. The interval: total and count each lie in their own interval with the square root of the wanted
confidence, independent noise makes both hold together, and the ratio of two intervals is an interval (Fieller without
its approximation). Clipping bias is not in it.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from neartwin import noise
from neartwin.checks import open_probability, positive
from neartwin.errors import ParameterError
from neartwin.exact import Interval, WholeNumbers
from neartwin.losses import Composed
from neartwin.mechanisms.adding import clipped_whole
from neartwin.mechanisms.geometric import Geometric
from neartwin.tradeoff import TradeOff, compose


class MeanRelease(NamedTuple):
    """A noisy mean and an interval that holds the mean of the clipped values with the stated confidence."""

    mean: float
    interval: Interval[float]


def ratio_interval(total: Interval[float], count: Interval[float], *, low: float, high: float) -> Interval[float]:
    """All ratios t / c with t in `total` and c in `count`, c >= 1, clipped to the public [low, high].

    >>> ratio_interval(Interval(80.0, 120.0), Interval(8.0, 10.0), low=0, high=100)
    Interval(lower=8.0, upper=15.0, method='ratio of intervals')
    >>> ratio_interval(Interval(-1.0, 1.0), Interval(-3.0, 0.5), low=0, high=100)  # nothing is known
    Interval(lower=0, upper=100, method='ratio of intervals')
    """
    if count.upper < 1:
        return Interval(low, high, "ratio of intervals")
    fewest, most = max(count.lower, 1.0), count.upper
    ends = [t / c for t in (total.lower, total.upper) for c in (fewest, most)]
    lower, upper = (min(max(end, low), high) for end in (min(ends), max(ends)))
    return Interval(lower, upper, "ratio of intervals")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedMean:
    """The mean of whole numbers in [low, high], add/remove, one value a unit. Epsilon is shared by total and count."""

    low: int
    high: int
    total: Geometric
    count: Geometric

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, low: int, high: int) -> "BoundedMean":
        """Half of epsilon each."""
        if not -(2**62) < low < high < 2**62:
            raise ParameterError("low", low, f"must be below high={high}, both within 2**62 steps")
        half = positive(epsilon=epsilon) / 2
        centre = (low + high) // 2
        reach = max(high - centre, centre - low)
        return cls(
            low=low,
            high=high,
            total=Geometric.calibrated(epsilon=half, sensitivity=reach),
            count=Geometric.calibrated(epsilon=half, sensitivity=1),
        )

    @property
    def epsilon(self) -> Fraction:
        """The exact guarantee of both numbers together."""
        return self.total.epsilon + self.count.epsilon

    def curve(self) -> TradeOff:
        """That of total and count together."""
        return compose(self.total.curve(), self.count.curve())

    def losses(self) -> Composed:
        """Total and count, one by one."""
        return self.total.losses() + self.count.losses()

    def release(
        self, values: WholeNumbers, *, confidence: float = 0.95, source: noise.Source = noise.SYSTEM
    ) -> MeanRelease:
        """The mean and its interval. values: (n,) whole numbers, clipped to the bounds; n stays private."""
        open_probability(confidence=confidence)
        centre = (self.low + self.high) // 2
        around = clipped_whole(values, self.low, self.high) - centre
        safe = around.size * max(self.high - centre, centre - self.low) < 2**62
        summed = int(around.sum()) if safe else sum(around.tolist())
        exact = np.array([summed, around.size], dtype=object)
        total = int(self.total.noisy(exact[:1], source=source)[0])
        count = int(self.count.noisy(exact[1:], source=source)[0])
        each = math.sqrt(confidence) * (1 + 1e-15)
        a, b = self.total.half_width(each), self.count.half_width(each)
        interval = ratio_interval(
            Interval(float(total - a), float(total + a)),
            Interval(float(count - b), float(count + b)),
            low=float(self.low - centre),
            high=float(self.high - centre),
        )
        mean = min(max(total / max(count, 1), self.low - centre), self.high - centre)
        return MeanRelease(mean + centre, Interval(interval.lower + centre, interval.upper + centre, interval.method))
