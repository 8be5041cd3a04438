"""The mean of bounded values: a noisy total over a noisy count, with an interval for their ratio.

Under add/remove nobody knows n, so both are noised. The total is taken around the middle of the bounds, which halves its
sensitivity. Under replace-one with every unit surely in the data, n is public. Then the total alone is noised, with sensitivity
high - low.

Total and count each lie in their own interval with the square root of the wanted confidence. Independent noise makes both hold
together, and the ratio of two intervals is an interval (Fieller without its approximation). Clipping bias is not in it.

Norm clipping on the grid: a real vector becomes a whole vector whose length is surely within the bound. Scale down to the bound,
truncate toward zero to whole steps, then check the integer squared norm, which is exact. Half-up rounding after the clip would
not do: with 10,000 entries of 0.5 it turns a norm of 50 steps into 100. Truncation never lengthens; the check covers the last
bits of the floating-point scaling. A vector that fails it becomes zero.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, open_probability, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, WholeNumbers, rational
from neartwin.losses import Composition
from neartwin.mechanisms.adding import clipped_whole
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.tradeoff import TradeOff, compose


class MeanRelease(NamedTuple):
    """A noisy mean and an interval that holds the mean of the clipped values with the stated confidence."""

    mean: float
    interval: Interval[float]


def ratio_interval(total: Interval[float], count: Interval[float], *, low: float, high: float) -> Interval[float]:
    """All ratios t / c with t in `total` and c in `count`, c >= 1, clipped to public bounds.

    Args:
        total: The interval of t.
        count: The interval of c.
        low: The lower bound of a ratio.
        high: The upper bound of a ratio.

    Returns:
        The interval.

    >>> ratio_interval(Interval(80.0, 120.0), Interval(8.0, 10.0), low=0, high=100)
    Interval(lower=8.0, upper=15.0, method='ratio of intervals')
    >>> ratio_interval(Interval(-1.0, 1.0), Interval(-3.0, 0.5), low=0, high=100)  # no information
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
    """The mean of whole numbers in [low, high] under add/remove, one value a unit.

    Attributes:
        low: The lower bound, in steps.
        high: The upper bound, in steps.
        total: The noise of the total.
        count: The noise of the count.
    """

    low: int
    high: int
    total: DiscreteLaplace
    count: DiscreteLaplace

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, low: int, high: int) -> "BoundedMean":
        """The epsilon-DP mean, with half of epsilon for the total and half for the count.

        Args:
            epsilon: The pure-DP parameter.
            low: The lower bound, in steps.
            high: The upper bound, in steps.

        Returns:
            The mechanism.

        Raises:
            ParameterError: The bounds are not in order, or beyond 2**62 steps.
        """
        if not -(2**62) < low < high < 2**62:
            raise ParameterError("low", low, f"must be below high={high}, both within 2**62 steps")
        half = positive(epsilon=epsilon) / 2
        centre = (low + high) // 2
        reach = max(high - centre, centre - low)
        return cls(
            low=low,
            high=high,
            total=DiscreteLaplace.calibrated(epsilon=half, sensitivity=reach),
            count=DiscreteLaplace.calibrated(epsilon=half, sensitivity=1),
        )

    @property
    def epsilon(self) -> Fraction:
        """The exact guarantee of both numbers together."""
        return self.total.epsilon + self.count.epsilon

    def curve(self) -> TradeOff:
        """The trade-off of total and count together."""
        return compose(self.total.curve(), self.count.curve())

    def losses(self) -> Composition:
        """The privacy loss of total and count, for composition."""
        return self.total.losses() + self.count.losses()

    def release(
        self, values: WholeNumbers, *, confidence: float = 0.95, source: noise.Source = noise.SYSTEM
    ) -> MeanRelease:
        """The noisy mean and its interval.

        Args:
            values: (n,) whole numbers, clipped to the bounds; n stays private.
            confidence: The confidence of the interval.
            source: The source of randomness.

        Returns:
            The mean and the interval, in steps.
        """
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


_LARGEST = 2**31  # steps; entries are squared in two halves of 16 bits, whose sums fit 64 bits up to 2**30 dimensions


def clipped_rows(vectors: FloatArray, *, step: Number, l2_bound: Number) -> NDArray[np.int64]:
    """Each row scaled to Euclidean length at most l2_bound and truncated toward zero to whole steps.

    One row changes a sum by at most the bound (add/remove), exactly.

    Args:
        vectors: (rows, dimensions) floats; a row with a NaN or infinity becomes zero.
        step: The step of the grid.
        l2_bound: The largest length, in the unit of the vectors.

    Returns:
        (rows, dimensions) int64 steps with sum of squares <= floor((l2_bound / step)^2).

    Raises:
        ParameterError: The bound is below one step, or at least 2**31 steps.

    >>> clipped_rows(np.array([[3.0, 4.0], [30.0, 40.0]]), step=1, l2_bound=5)
    array([[3, 4], [3, 4]])
    """
    g = positive(step=rational(step=step))
    most = squared_bound(step=g, l2_bound=l2_bound)
    integer(at_least=1, squared_bound=most)
    if most >= _LARGEST**2:
        raise ParameterError("l2_bound", l2_bound, "must be below 2**31 steps", remedy="take a larger step")
    table = np.asarray(vectors, dtype=np.float64)
    sound = np.asarray(np.isfinite(table).all(axis=1))
    safe = np.where(sound[:, None], table, 0.0)
    largest = np.abs(safe).max(axis=1, initial=0.0)
    way = safe / np.where(largest > 0, largest, 1.0)[:, None]  # entries in [-1, 1]: squares do not overflow
    length = np.sqrt(np.square(way).sum(axis=1))
    root = math.sqrt(most)
    with np.errstate(over="ignore"):
        long = length * (largest / float(g)) > root
    scaled = way * (root / np.where(length > 0, length, 1.0))[:, None]
    within = np.where(long[:, None], 0.0, safe) / float(g)
    steps = np.trunc(np.where(long[:, None], scaled, within)).astype(np.int64)
    nudged = np.trunc(np.where(long[:, None], scaled, within) * (1 - 1e-12)).astype(np.int64)
    steps = np.where(_fits(steps, most)[:, None], steps, nudged)
    return np.where(_fits(steps, most)[:, None], steps, 0)


def squared_bound(*, step: Number, l2_bound: Number) -> int:
    """The largest whole number of squared steps within the bound: floor((l2_bound / step)^2).

    Args:
        step: The step of the grid.
        l2_bound: The largest length.

    Returns:
        The whole number.
    """
    ratio: Fraction = positive(l2_bound=rational(l2_bound=l2_bound)) / positive(step=rational(step=step))
    return floor(ratio * ratio)


def _fits(rows: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """Whether the exact squared norm is within the bound. Entries beyond it fail before they are squared."""
    root = int(np.ceil(np.sqrt(float(most)))) + 1
    small = np.asarray((np.abs(rows) <= root).all(axis=1))
    high, low = np.divmod(np.where(small[:, None], np.abs(rows), 0), 1 << 16)
    parts = (high * high).sum(axis=1), (high * low).sum(axis=1), (low * low).sum(axis=1)
    exact = [(int(a) << 32) + (int(b) << 17) + int(c) for a, b, c in zip(*parts, strict=True)]
    within: NDArray[np.bool_] = np.array([norm <= most for norm in exact], dtype=bool)
    return np.asarray(small & within, dtype=np.bool_)
