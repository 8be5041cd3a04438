"""Error bars of sums and means from noisy totals and numbers of values. Arithmetic only, no data.

The bar of a mean holds every mean that the noisy numbers leave possible. Fieller 1954. With m the exact mean, T = m N, so
T' - m N' is the noise X - m Y alone, whatever T and N are. For each m let t(m) be such that P(|X - m Y| <= t(m)) >= the
confidence. It rises with |m|, and is taken at the farther end of each of a few cells. The union bound serves where it is less, or
where no law of the pair is known.

The set of all m with |T' - m N'| <= t(m) holds the exact mean with at least that confidence. The bar is the least interval
around it. If no mean within the bounds fits, the bar is t over N' around the nearest one. That is as rare as a bar that fails.

A sum of values less a centre c is T + c N, with T = sum of x - c and N their number. The mean of the same values needs N anyway,
and |x - c| is at most half as large as |x|. So both statistics are closer than with T = sum of x.

A share of T true rows among T and F false ones is m with T' - m (T' + F') = (1 - m) X - m Y, X and Y the noises of T' and F'.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neartwin.exact import FloatArray
from neartwin.mechanisms.noise_laws import Law
from neartwin.mechanisms.noise_sums import half_width_of_two, half_widths_of_sums

_CELLS = 16  # of the column's range


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


def thresholds(laws: tuple[Law, Law], parts: tuple[int, int], ends: tuple[int, int], confidence: float) -> Thresholds:
    """The thresholds for the noise of a total and of a number of values.

    Args:
        laws: The law of the total, and of the number.
        parts: The parts of a step and of a value, in which they are counted.
        ends: The least and largest value, in steps around the centre.
        confidence: The probability with which noise stays within t.
    """
    edges = np.linspace(*ends, _CELLS + 1)
    sizes = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
    weights = np.stack([np.full(_CELLS, 1 / parts[0]), sizes / parts[1]])
    return Thresholds(edges, half_widths_of_sums(laws, weights, confidence))


def share_thresholds(law: Law, parts: int, confidence: float) -> Thresholds:
    """The thresholds for the noise of true rows and of false rows: (1 - m) X - m Y at a share m.

    Args:
        law: The law of both.
        parts: The parts of a row, in which they are counted.
        confidence: The probability with which noise stays within t.
    """
    edges = np.linspace(0, 1, _CELLS + 1)
    weights = np.stack([1 - edges[:-1], edges[1:]]) / parts
    return Thresholds(edges, half_widths_of_sums((law, law), weights, confidence))


def mean_values(totals: FloatArray, counts: FloatArray, ends: tuple[int, int]) -> FloatArray:
    """Noisy means within the ends; their middle if too few values are seen.

    Args:
        totals: (groups,) noisy totals.
        counts: (groups,) noisy numbers of values.
        ends: The least and largest value, in steps around the centre.

    Returns:
        (groups,) means, in steps around the centre.
    """
    values = np.where(counts >= 1, totals / np.maximum(counts, 1), sum(ends) / 2)
    return np.clip(values, *ends)


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


def sum_half_width(laws: tuple[Law, Law], parts: tuple[int, int], centre: int, confidence: float) -> Fraction:
    """The half-width of T + c N, in steps.

    Args:
        laws: The laws of the total and of the number.
        parts: Parts of a step and of a value, in which they are counted.
        centre: c, in steps.
        confidence: The confidence of the bar.

    Returns:
        The half-width.
    """
    return Fraction(half_width_of_two(laws[0], 1 / parts[0], laws[1], abs(centre) / parts[1], confidence))
