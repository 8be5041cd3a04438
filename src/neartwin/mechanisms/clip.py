"""Norm clipping on the grid: a real vector becomes a whole vector whose length is surely within the bound.

Scale down to the bound, truncate toward zero to whole steps, then check the integer squared norm, which is exact. Half-up
rounding after the clip would not do: with 10,000 entries of 0.5 it turns a norm of 50 steps into 100. Truncation never
lengthens; the check covers the last bits of the floating-point scaling. A vector that fails it becomes zero.
"""

import math
from fractions import Fraction
from math import floor

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import integer, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, rational

_LARGEST = 2**31  # steps; entries are squared in two halves of 16 bits, whose sums fit 64 bits up to 2**30 dimensions


def clipped_rows(vectors: FloatArray, *, step: Number, l2_bound: Number) -> NDArray[np.int64]:
    """Each row scaled to Euclidean length at most l2_bound and truncated toward zero to whole steps.

    vectors: (rows, dimensions), any floats; a row with a NaN or infinity becomes zero. Result: int64 steps with
    sum of squares <= floor((l2_bound / step)^2), exactly, so one row changes a sum by at most that much (add/remove).

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
    whole = np.trunc(np.where(long[:, None], scaled, within)).astype(np.int64)
    nudged = np.trunc(np.where(long[:, None], scaled, within) * (1 - 1e-12)).astype(np.int64)
    whole = np.where(_fits(whole, most)[:, None], whole, nudged)
    return np.where(_fits(whole, most)[:, None], whole, 0)


def squared_bound(*, step: Number, l2_bound: Number) -> int:
    """The largest whole number of squared steps within the bound: floor((l2_bound / step)^2)."""
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
