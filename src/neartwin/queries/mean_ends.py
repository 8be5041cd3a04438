"""Error bars of a mean: the means that the noisy total and the noisy number of values do not speak against. Fieller 1954.

The set of all m with |T' - m N'| <= t(m), see `neartwin.queries.mean_bars`, holds the exact mean with at least the probability
that t is for, and the bar is the least interval around it. Where no mean within the bounds fits, which is as rare as a bar that
misses, the bar is t over N' around the nearest one.
"""

import numpy as np

from neartwin.exact import FloatArray
from neartwin.queries.mean_bars import Thresholds


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
