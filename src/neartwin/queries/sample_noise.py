"""A noise as error bars of samples know it, and how far it and the error of a sample can be off together. Arithmetic only.

The least of two bounds holds, for each alone is decided by the table: `neartwin.queries.sample_tails` for any sample, and
`neartwin.queries.sample_normal` for large ones, whose error is about normal.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neartwin.mechanisms.laws import GeometricLaw, Law, RoundedGaussianLaw
from neartwin.queries.sample_normal import normal_reach, variance_of
from neartwin.queries.sample_tails import Draws, Sums, farthest
from neartwin.special import ndtri_of_one

_SHARES = (0.1, 0.5, 0.9)  # of what may fail, for noise whose law is not known
_QUIET = 0.1  # of the sample's variance: then the other bound is no less than it is for a normal variable


@dataclass(frozen=True, slots=True)
class Noise:
    """A noise by its bars, and, where its law is known, by draws: it is at most those in convex order, but for `shift`."""

    half_width: Callable[[float], float]
    draws: Draws | None = None
    shift: float = 0.0

    @property
    def variance(self) -> float:
        """Of the draws; 0 where no law is known."""
        return 0.0 if self.draws is None else self.draws.variance

    def with_sample(self, rate: float, sums: Sums, miss: float) -> float:
        """What the noise and D pass, P(noise + D > d) <= miss, for each D = sum (B_u - rate) x_u that is at most that of these
        sums in convex order and has no |x_u| above the largest there.
        """
        if self.draws is not None:
            return _together(self.draws, rate, sums, miss) + self.shift
        found = math.inf
        for share in _SHARES:
            sampled = _together(Draws(), rate, sums, (1 - share) * miss)
            found = min(found, self.half_width(1 - 2 * share * miss) + sampled)
        return found


def noise_of(parts: Sequence[tuple[Law, float]], half_width: Callable[[float], float]) -> Noise:
    """The noise that is the sum of weight times a draw, over these laws and weights."""
    parts = [(law, abs(weight)) for law, weight in parts if weight]
    scales = [(float(law.scale) * weight, 1) for law, weight in parts if isinstance(law, GeometricLaw)]
    if len(scales) == len(parts):
        first = parts[0][0] if parts else None
        alone = (
            1 / (1 + math.exp(-1 / float(first.scale))) if len(parts) == 1 and isinstance(first, GeometricLaw) else 1.0
        )
        return Noise(half_width, Draws(tuple(scales), from_zero=alone))
    squares = [float(law.normal_variance) * weight**2 for law, weight in parts if isinstance(law, RoundedGaussianLaw)]
    if len(squares) == len(parts):
        return Noise(half_width, Draws(((math.sqrt(sum(squares)), 1),), normal=True), sum(w for _, w in parts) / 2)
    return Noise(half_width)


def _together(draws: Draws, rate: float, sums: Sums, miss: float) -> float:
    large, sampled = normal_reach(draws, rate, sums, miss), variance_of(rate, sums)
    quantile = ndtri_of_one(miss)
    shortfall = math.exp(-quantile * quantile / 2) / (math.sqrt(2 * math.pi) * miss)  # of a normal variable
    if draws.variance < _QUIET * sampled and large < shortfall * math.sqrt(sampled):
        return large
    return min(large, farthest((draws,), rate, sums, miss)[0])
