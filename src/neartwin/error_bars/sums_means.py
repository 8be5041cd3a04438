"""Error bars of sums and means from noisy totals and numbers of values. Arithmetic only, no data.

The bar of a mean holds every mean that the noisy numbers leave possible. Fieller 1954. With m the exact mean, T = m N, so
T' - m N' is the noise X - m Y alone, whatever T and N are. For each m let t(m) be such that P(|X - m Y| <= t(m)) >= the
confidence. It rises with |m|, and is taken at the farther end of each of a few cells. The union bound serves where it is less, or
where no law of the pair is known.

The set of all m with |T' - m N'| <= t(m) holds the exact mean with at least that confidence. The bar is the least interval
around it. If no mean within the bounds fits, the bar is t over N' around the nearest one. That is as rare as a bar that fails.

Both T' and N' are weighted sums of two noisy numbers, and so is the noise of T' - m N'. The two are T and N themselves, or A,
the sum of v - low, and B, the sum of high - v. Then T = A around low and N = (A + B) / (high - low): (W17) of
docs/proofs/one-weight.md. For the share of a condition A counts true rows, B false ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from neartwin.exact import FloatArray
from neartwin.mechanisms.noise_laws import Law, half_widths_of_sums

_CELLS = 32  # of the range of means


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The largest deviation that noise explains, by cells of the mean.

    Attributes:
        edges: (cells + 1,) of means, in steps around the column's centre.
        reach: (cells,) t of each cell.
    """

    edges: FloatArray
    reach: FloatArray

    def with_lost(self, rows: float) -> "Thresholds":
        """The largest deviation that noise and lost rows explain: (L3) of docs/proofs/lost-rows.md.

        Args:
            rows: The most rows that may be lost, with values anywhere between the first and the last edge.
        """
        farthest = np.maximum(self.edges[1:] - self.edges[0], self.edges[-1] - self.edges[:-1])
        return Thresholds(self.edges, self.reach + rows * farthest)


@dataclass(frozen=True, slots=True)
class TotalAndNumber:
    """A total and a number of values, each a weighted sum of two noisy numbers.

    Attributes:
        laws: The laws of the two noises.
        total: The weights in the total, in steps around the centre.
        number: The weights in the number of values.
        ends: The least and largest value, in steps around the centre.
    """

    laws: tuple[Law, Law]
    total: tuple[Fraction, Fraction]
    number: tuple[Fraction, Fraction]
    ends: tuple[int, int]

    @classmethod
    def from_ends(cls, law: Law, parts: int, span: int = 1) -> Self:
        """From the rows at the upper end and at the lower one, each row shared between them.

        Args:
            law: The law of both noises.
            parts: The parts of a row in which they are counted.
            span: The distance of the ends, in steps.
        """
        row = Fraction(1, parts)
        return cls((law, law), (span * row, Fraction(0)), (row, row), (0, span))

    def thresholds(self, confidence: float) -> Thresholds:
        """The thresholds for means: the noise of T' - m N', at the end of each cell where it is more.

        Args:
            confidence: The probability with which noise stays within t.
        """
        edges = np.linspace(*self.ends, _CELLS + 1)
        total, number = (np.array(weights, dtype=float) for weights in (self.total, self.number))
        weights = np.abs(total[:, None] - np.outer(number, edges))
        reach = half_widths_of_sums(self.laws, np.maximum(weights[:, :-1], weights[:, 1:]), confidence)
        return Thresholds(edges, reach)

    def half_width(self, centre: int | None, confidence: float) -> Fraction:
        """The half-width of T + c N, a sum of values; of N alone without a centre.

        Args:
            centre: c, in steps.
            confidence: The confidence of the bar.
        """
        weights = np.array(self.number if centre is None else self.around(centre), dtype=float)
        return Fraction(float(half_widths_of_sums(self.laws, weights[:, None], confidence)[0]))

    def around(self, centre: int) -> tuple[Fraction, ...]:
        """The weights in T + c N. centre: c, in steps."""
        return tuple(t + centre * n for t, n in zip(self.total, self.number, strict=True))

    def means(self, noisy: Sequence[FloatArray], confidence: float, lost: float) -> tuple[FloatArray, ...]:
        """Noisy means with their bars.

        Args:
            noisy: The two noisy numbers, (groups,) each, in parts.
            confidence: The confidence of the bars.
            lost: The most rows that may be lost.

        Returns:
            (groups,) means, lower and upper ends, in steps around the centre, and numbers of values.
        """
        first, second = noisy
        totals, counts = (first * float(a) + second * float(b) for a, b in (self.total, self.number))
        lower, upper = mean_bounds(totals, counts, self.thresholds(confidence).with_lost(lost))
        # their middle if too few values are seen
        values = np.clip(np.where(counts >= 1, totals / np.maximum(counts, 1), sum(self.ends) / 2), *self.ends)
        return values, np.minimum(lower, values), np.maximum(upper, values), counts


def mean_bounds(totals: FloatArray, counts: FloatArray, limits: Thresholds) -> tuple[FloatArray, FloatArray]:
    """The least and largest mean that is consistent with the noisy numbers.

    Args:
        totals: (groups,) noisy totals.
        counts: (groups,) noisy numbers of values.
        limits: The half-widths.

    Returns:
        (groups,) lower and (groups,) upper ends.

    >>> one = Thresholds(np.array([-10.0, 0.0, 10.0]), np.array([5.0, 5.0]))
    >>> mean_bounds(np.array([20.0, 500.0]), np.array([10.0, 10.0]), one)
    (array([1.5, 9.5]), array([ 2.5, 10. ]))
    """
    least, most = np.full(totals.shape, np.inf), np.full(totals.shape, -np.inf)
    some = np.where(counts == 0, 1.0, counts)
    for low, high, reach in zip(limits.edges[:-1], limits.edges[1:], limits.reach, strict=True):
        ends = (totals - reach) / some, (totals + reach) / some
        first, last = np.minimum(*ends), np.maximum(*ends)
        first, last = np.where(counts == 0, low, first), np.where(counts == 0, high, last)
        first, last = np.maximum(first, low), np.minimum(last, high)
        fits = (first <= last) & ((counts != 0) | (np.abs(totals) <= reach))
        least, most = np.where(fits, np.minimum(least, first), least), np.where(fits, np.maximum(most, last), most)
    none, ends = least > most, (limits.edges[0], limits.edges[-1])
    nearest, off = np.clip(totals / some, *ends), limits.reach.max() / np.maximum(np.abs(counts), 1.0)
    least, most = np.where(none, nearest - off, least), np.where(none, nearest + off, most)
    return np.clip(least, *ends), np.clip(most, *ends)
