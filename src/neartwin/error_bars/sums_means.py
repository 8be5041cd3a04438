"""How far the noisy total of a mean can be from the mean times the noisy number of values. Arithmetic only, no data.

With m the exact mean, T = m N, so the noisy T' - m N' is the noise X - m Y alone, whatever T and N are. For each m let t(m) be
such that P(|X - m Y| <= t(m)) >= the confidence; it rises with |m|, and is taken at the farther end of each of a few cells. It
is never more than by the union bound, which is taken where it is less, or no law of the pair is known.

Error bars of a mean: the means that the noisy total and the noisy number of values do not speak against. Fieller 1954.

The set of all m with |T' - m N'| <= t(m) holds the exact mean with at least the probability
that t is for, and the bar is the least interval around it. Where no mean within the bounds fits, which is as rare as a bar that
misses, the bar is t over N' around the nearest one.

How far a sum can be from the exact one: the noise of its total and, where values are counted around a middle, their number's.

With values x less a centre c, T = sum of x - c and N = how many, the sum is T + c N. Where a mean of the same values is asked
too, N is measured anyway, and |x - c| is at most half as large as |x|: both statistics are closer than with T = sum of x.
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
    """edges: (cells + 1,) of means, in steps around the column's centre. reach: (cells,) t of each cell."""

    edges: FloatArray
    reach: FloatArray


def thresholds(laws: tuple[Law, Law], parts: tuple[int, int], ends: tuple[int, int], confidence: float) -> Thresholds:
    """Of the noise of a total and of a number of values.

    Args:
        laws: Of the total, and of the number.
        parts: Of a step and of a value, in which they are counted.
        ends: The least and largest value, in steps around the centre.
        confidence: Of t.
    """
    edges = np.linspace(*ends, _CELLS + 1)
    far = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
    weights = np.stack([np.full(_CELLS, 1 / parts[0]), far / parts[1]])
    return Thresholds(edges, half_widths_of_sums(laws, weights, confidence))


def mean_values(totals: FloatArray, counts: FloatArray, ends: tuple[int, int]) -> FloatArray:
    """(groups,) noisy means within the ends; their middle where too few values are seen."""
    values = np.where(counts >= 1, totals / np.maximum(counts, 1), sum(ends) / 2)
    return np.clip(values, *ends)


def mean_bounds(totals: FloatArray, counts: FloatArray, told: Thresholds) -> tuple[FloatArray, FloatArray]:
    """(groups,) twice: the least and largest mean that is not spoken against.

    >>> one = Thresholds(np.array([-10.0, 0.0, 10.0]), np.array([5.0, 5.0]))
    >>> mean_bounds(np.array([20.0, 500.0]), np.array([10.0, 10.0]), one)
    (array([1.5, 9.5]), array([ 2.5, 10. ]))
    """
    least, most = np.full(totals.shape, np.inf), np.full(totals.shape, -np.inf)
    some = np.where(counts == 0, 1.0, counts)
    for low, high, reach in zip(told.edges[:-1], told.edges[1:], told.reach, strict=True):
        ends = (totals - reach) / some, (totals + reach) / some
        first, last = np.minimum(*ends), np.maximum(*ends)
        first, last = np.where(counts == 0, low, first), np.where(counts == 0, high, last)
        first, last = np.maximum(first, low), np.minimum(last, high)
        fits = (first <= last) & ((counts != 0) | (np.abs(totals) <= reach))
        least, most = np.where(fits, np.minimum(least, first), least), np.where(fits, np.maximum(most, last), most)
    none, ends = least > most, (told.edges[0], told.edges[-1])
    nearest, off = np.clip(totals / some, *ends), told.reach.max() / np.maximum(np.abs(counts), 1.0)
    least, most = np.where(none, nearest - off, least), np.where(none, nearest + off, most)
    return np.clip(least, *ends), np.clip(most, *ends)


def sum_half_width(laws: tuple[Law, Law], parts: tuple[int, int], centre: int, confidence: float) -> Fraction:
    """Of T + c N, in steps. laws, parts: of the total and of the number, as for `thresholds`."""
    return Fraction(half_width_of_two(laws[0], 1 / parts[0], laws[1], abs(centre) / parts[1], confidence))
