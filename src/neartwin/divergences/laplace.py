"""The Laplace pair: Lap(0, b) against Lap(D, b), which only its ratio d = |D| / b describes.

Under P the loss is d with probability 1/2, -d with probability e^-d / 2, and has density e^((l - d) / 2) / 4 between.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from neartwin.divergences.enclosure import (
    Certified,
    Enclosure,
    Numeric,
    blockwise,
    by_place,
    enclose,
    exp,
    expm1,
    increasing,
    log1p,
    quotient,
    smaller,
    where,
)
from neartwin.divergences.pairs import read_delta, read_order
from neartwin.divergences.series import exp_excess, kl_excess, log_excess
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, rational


def laplace_pair(*, distance: Numeric, scale: Numeric = 1) -> "LaplacePair":
    """Lap(0, scale) against Lap(distance, scale).

    distance: how far apart the two true answers are, any sign; scale: b > 0, in the same unit. Arrays broadcast.

    >>> laplace_pair(distance=1).kl().upper
    0.36787944...
    """
    if not np.all(enclose(scale=scale).lower > 0):
        raise ParameterError("scale", scale, "must be positive")
    d = quotient(numerator=distance, denominator=scale, names=("distance", "scale"))
    if not np.all(np.isfinite(d.upper)):
        raise ParameterError("distance", distance, "must be finite")
    exact = None
    if isinstance(distance, (int, str, float, Fraction, Decimal)) and isinstance(
        scale, (int, str, float, Fraction, Decimal)
    ):
        exact = abs(rational(distance=distance) / rational(scale=scale))
    return LaplacePair(absolute(d), exact)


def absolute(x: Enclosure) -> Enclosure:
    """|x|."""
    inside = (x.lower <= 0) & (x.upper >= 0)
    low, high = np.abs(x.lower), np.abs(x.upper)
    return Enclosure(np.where(inside, 0.0, np.minimum(low, high)), np.maximum(low, high))


@dataclass(frozen=True, slots=True, eq=False)
class LaplacePair:
    """Made by `laplace_pair`; ratio: d >= 0, enclosed; exact: d where it is one rational.

    The pair is symmetric: `reversed` has the same divergences.
    """

    ratio: Enclosure
    exact: Fraction | None = None

    def kl(self) -> Certified:
        """It is d + e^-d - 1."""
        return kl_excess(self.ratio).interval("Laplace KL, closed form")

    def max_divergence(self) -> Certified:
        """It is d."""
        return self.ratio.interval("Laplace max divergence, closed form")

    def total_variation(self) -> Certified:
        """1 - e^(-d/2)."""
        return (-expm1(-0.5 * self.ratio)).interval("Laplace total variation, closed form")

    def hockey_stick(self, epsilon: Numeric) -> Certified:
        """1 - e^min(epsilon, (epsilon - d)/2), and 0 from epsilon = d on.

        >>> laplace_pair(distance=2, scale="0.8").hockey_stick(1.5).upper
        0.39346934...
        """
        if self.exact is not None and isinstance(epsilon, (int, str, float, Fraction, Decimal)):
            at = enclose(epsilon=epsilon)
            if np.isfinite(at.lower):
                gap = enclose(gap=rational(epsilon=epsilon) - self.exact)  # exactly 0 where epsilon is d
                return _below_one(smaller(at, 0.5 * gap)).interval("Laplace hockey-stick, closed form")
        value = blockwise(_hockey_stick, enclose(epsilon=epsilon), self.ratio)
        return value.interval("Laplace hockey-stick, closed form")

    def approximate_max_divergence(self, delta: Numeric) -> Certified:
        """ln(1 - delta) + max(0, d + ln(1 - delta)); minus infinity from delta = 1 on.

        >>> laplace_pair(distance=1).approximate_max_divergence(0.8).upper
        -1.60943791...
        """
        read = read_delta(delta)
        rest = log1p(-read.at_most(1))
        value = rest + (self.ratio + rest).at_least(0)
        return where(read.lower >= 1, -np.inf, value).interval("Laplace approximate max divergence, closed form")

    def renyi(self, order: Numeric) -> Certified:
        """ln[a/(2a-1) e^((a-1)d) + (a-1)/(2a-1) e^(-ad)] / (a - 1), with its limits at 1/2, 1 and infinity.

        >>> laplace_pair(distance=1).renyi(2).upper
        0.61912362...
        """
        return blockwise(_renyi, read_order(order), self.ratio).interval("Laplace Renyi, closed form")

    def reversed(self) -> "LaplacePair":
        """Itself: shifting the other way is the mirror image."""
        return self


def _hockey_stick(epsilon: Enclosure, d: Enclosure) -> Enclosure:
    with np.errstate(invalid="ignore"):
        value = _below_one(smaller(epsilon, 0.5 * (epsilon - d)))
    return where(epsilon.lower == np.inf, 0.0, where(epsilon.upper == -np.inf, 1.0, value))


def _below_one(exponent: Enclosure) -> Enclosure:
    return (-expm1(exponent)).at_least(0).at_most(1)


def _renyi(order: Enclosure, d: Enclosure) -> Enclosure:
    def at(point: FloatArray) -> Enclosure:
        with np.errstate(all="ignore"):
            one, endless = point == 1, np.isinf(point)
            low, below = point < 0.5, (point >= 0.5) & (point < 1)
            above = (point > 1) & ~endless
            short = above & ((d * Enclosure.of(point)).upper <= 1)
            works = ((one, _at_one), (endless, _at_infinity), (low, _mirrored), (below, _below_one_moment))
            value = by_place((*works, (short, _short), (above & ~short, _long)), Enclosure.of(point), d)
        # between 0 and the max divergence, whatever the rounding
        return Enclosure(np.maximum(value.lower, 0), np.minimum(value.upper, d.upper))

    return increasing(at, order)


# The logarithm of the moment E_P[e^((a-1)L)], divided by a - 1, order by order.


def _at_one(a: Enclosure, d: Enclosure) -> Enclosure:
    return kl_excess(d) + 0.0 * a


def _at_infinity(a: Enclosure, d: Enclosure) -> Enclosure:
    return where(np.isinf(a.lower), d, 0.0)


def _mirrored(a: Enclosure, d: Enclosure) -> Enclosure:
    """M_a = M_(1-a) for a symmetric pair: at most one of the two is below 1/2."""
    other = 1 - a
    return _log_moment_below(other, d) / (a - 1)


def _below_one_moment(a: Enclosure, d: Enclosure) -> Enclosure:
    return _log_moment_below(a, d) / (a - 1)


def _log_moment_below(a: Enclosure, d: Enclosure) -> Enclosure:
    """1/2 <= a < 1: ln M = -w + ln(1 + w m), m = (1 - e^-y)/y, of which -ln M is two terms that are not negative."""
    y, w = (2.0 * a - 1) * d, (1 - a) * d
    missing = where(y.lower > 0, exp_excess(-y) / where(y.lower > 0, y, 1.0), 0.0)  # 1 - m, between 0 and y/2
    missing = Enclosure(np.maximum(missing.lower, 0), np.where(y.lower > 0, missing.upper, 0.5 * y.upper))
    return -(log_excess(w.at_least(0) * (1 - missing)) + w.at_least(0) * missing)


def _short(a: Enclosure, d: Enclosure) -> Enclosure:
    """Above 1, with a d at most 1: both excesses are non-negative."""
    excess = (a * exp_excess((a - 1) * d) + (a - 1) * exp_excess(-a * d)) / (2.0 * a - 1)
    return log1p(excess) / (a - 1)


def _long(a: Enclosure, d: Enclosure) -> Enclosure:
    """The form d + [ln(1 + (a-1)/a e^-(2a-1)d) - ln(1 + (a-1)/a)] / (a - 1)."""
    share = (a - 1) / a
    return d + (log1p(share * exp(-((2.0 * a - 1) * d))) - log1p(share)) / (a - 1)
