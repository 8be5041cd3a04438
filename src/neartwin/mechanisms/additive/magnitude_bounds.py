"""Bounds for a column when none are public: a private dyadic histogram of magnitudes.

Each whole number falls into one bin: 0, or sign and k for 2^k <= |x| < 2^(k+1). The noisy histogram is epsilon-DP. A bin counts
as occupied when its noisy count reaches a threshold. All empty bins together reach it with probability at most 1 - confidence
(half of that, for noise is symmetric). The bounds are the outer edges of the outermost occupied bins. Karwa, Vadhan 2018; Wilson
et al. 2020.

Values beyond these bounds will be clipped, and that bias is unknown: an error bar after such clipping covers the noise only.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin import noise
from neartwin.checks import integer, open_probability
from neartwin.errors import ParameterError
from neartwin.exact import WholeNumbers
from neartwin.mechanisms.adding import PostProcessed, clipped_whole
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.mechanisms.neighbours import Neighbours

_MOST_BITS = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class MagnitudeBounds(PostProcessed):
    """A private search for the bounds of a column.

    Attributes:
        each: The noise of the histogram.
        bits: Magnitudes are below 2^bits.
        threshold: The least noisy count of a bin that counts as occupied.
    """

    each: DiscreteLaplace
    bits: int
    threshold: int

    @classmethod
    def calibrated(
        cls, *, epsilon: Fraction, bits: int, neighbours: Neighbours, rows_per_unit: int = 1, confidence: float = 0.999
    ) -> "MagnitudeBounds":
        """The epsilon-DP search. One unit changes rows_per_unit counts under add/remove, and twice as many under
        replace-one.

        Args:
            epsilon: The pure-DP parameter.
            bits: Magnitudes are clipped to below 2^bits; at most 62.
            neighbours: The neighbour relation.
            rows_per_unit: The most rows of one unit.
            confidence: The probability that no empty bin counts as occupied.

        Returns:
            The search.

        Raises:
            ParameterError: An argument is out of its range.
        """
        rows = integer(at_least=1, rows_per_unit=rows_per_unit)
        counts = DiscreteLaplace.calibrated(
            epsilon=epsilon, sensitivity=rows if neighbours is Neighbours.ADD_REMOVE else 2 * rows
        )
        if integer(at_least=1, bits=bits) > _MOST_BITS:
            raise ParameterError("bits", bits, f"must be at most {_MOST_BITS}")
        bins = 2 * bits + 1
        open_probability(confidence=confidence)
        return cls(each=counts, bits=bits, threshold=counts.half_width(confidence, bins) + 1)

    def find(self, values: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> tuple[int, int] | None:
        """Bounds that contain all occupied bins.

        Args:
            values: (n,) whole numbers.
            source: The source of randomness.

        Returns:
            (low, high), or None if no bin counts as occupied.
        """
        top = 2**self.bits - 1
        clipped = clipped_whole(values, -top, top)
        # the powers of two are exact integers: place k holds 2^(k-1) <= |x| < 2^k
        sizes = np.searchsorted(2 ** np.arange(self.bits, dtype=np.int64), np.abs(clipped), side="right")
        histogram = np.bincount(self.bits + np.sign(clipped) * sizes, minlength=2 * self.bits + 1)
        seen = np.flatnonzero(self.each.noisy(histogram, source=source) >= self.threshold)
        return (self._edges(int(seen[0]))[0], self._edges(int(seen[-1]))[1]) if seen.size else None

    def _edges(self, place: int) -> tuple[int, int]:
        """The least and the largest value of a bin; bins run from the most negative to the most positive."""
        size = abs(place - self.bits)
        if size == 0:
            return 0, 0
        inner, outer = 2 ** (size - 1), 2**size - 1
        return (inner, outer) if place > self.bits else (-outer, -inner)
