"""Float attacks: what floating-point numbers betray that real numbers would not.

Mironov 2012: a float Laplace sampler reaches only some floats around its centre; an output that one centre can reach
and the other cannot tells them apart for certain. Casacuberta, Shoemate, Vadhan and Wagaman 2022: a float sum may move
by far more than its sensitivity, through rounding that repeats or through the order of rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neartwin.checks import positive
from neartwin.exact import FloatArray

_ULP = 2.0**-53


def naive_laplace(centre: float, scale: float, runs: int, rng: np.random.Generator) -> FloatArray:
    """The textbook sampler that this attack breaks: centre -/+ scale * log(u), u a multiple of 2^-53 in (0, 1]."""
    uniform = (rng.integers(0, 2**53, runs) + 1) * _ULP
    sign = rng.choice([-1.0, 1.0], runs)
    return np.asarray(centre + sign * (scale * np.log(uniform)))


def reachable(outputs: FloatArray, centre: float, scale: float, *, tries: int = 4) -> NDArray[np.bool_]:
    """Whether the textbook sampler around this centre can give each output, bit for bit; (n,).

    Inverts the sampler and tries the `tries` nearest uniforms on either side. A "no" for the true centre happens only
    where more uniforms than that share the rounding, deep in the small noise. Mironov 2012, section 4.

    >>> rng = np.random.default_rng(3)
    >>> drawn = naive_laplace(0.0, 1.0, 10_000, rng)
    >>> from_zero, from_one = reachable(drawn, 0.0, 1.0), reachable(drawn, 1.0, 1.0)
    >>> bool(np.mean(from_zero) > 0.99), bool(np.mean(from_one) < 0.9)
    (True, True)
    """
    positive(scale=scale)
    targets = np.asarray(outputs, np.float64)
    noise = np.abs(targets - centre)
    near = np.rint(np.exp(-noise / scale) / _ULP)
    found = np.zeros(targets.shape, bool)
    for shift in range(-tries, tries + 1):
        # among large uniforms neighbours in u are one float apart in noise; among small ones many floats apart
        uniform = np.clip(near + shift, 1, 2.0**53) * _ULP
        step = scale * np.log(uniform)
        found |= (centre + step == targets) | (centre - step == targets)
    return found


@dataclass(frozen=True, slots=True)
class SumTwins:
    """Two lists of numbers within [-bound, bound] that differ in one person's number, replaced."""

    left: FloatArray
    right: FloatArray
    bound: float


def repeated_rounding_twins(mantissa_bits: int = 24, drift: int = 20_000) -> SumTwins:
    """Neighbours (one value replaced) on which a running float sum differs by about `drift`, its sensitivity aside.

    mantissa_bits: 24 for float32, 53 for float64. The left list climbs to 2^b + 2, where floats are 2 apart and
    subtracting 3/4 is rounded away; the right one to 2^b, below which each 3/4 counts as 1. Casacuberta et al. 2022,
    section 5.

    >>> twins = repeated_rounding_twins()
    >>> running = [float(np.cumsum(side, dtype=np.float32)[-1]) for side in (twins.left, twins.right)]
    >>> running[0] - running[1] > 2 * twins.bound
    True
    """
    bound = 2.0 ** (mantissa_bits // 2)
    climb = np.full(2 ** (mantissa_bits - mantissa_bits // 2), bound)
    fall = np.full(drift, -0.75)
    return SumTwins(np.concatenate([climb, [2.0], fall]), np.concatenate([climb, [0.0], fall]), bound)


def sum_excess(total: Callable[[FloatArray], float], twins: SumTwins) -> float:
    """By how much a summation moves between the twins beyond the declared sensitivity 2 * bound; at most 0 is sound.

    >>> import math
    >>> sum_excess(math.fsum, repeated_rounding_twins()) <= 0
    True
    """
    return abs(float(total(twins.left)) - float(total(twins.right))) - 2 * twins.bound


def order_spread(
    total: Callable[[FloatArray], float], values: Sequence[float], *, seed: int, orders: int = 20
) -> float:
    """The largest difference between sums of the same rows in different orders; any is a leak where order is free.

    Sorted up, sorted down, and `orders` random permutations.

    >>> order_spread(sum, [2.0**53, 1.0, 1.0, -(2.0**53)], seed=1) > 0
    True
    >>> import math
    >>> order_spread(math.fsum, [2.0**53, 1.0, 1.0, -(2.0**53)], seed=1)
    0.0
    """
    rng = np.random.default_rng(seed)
    rows = np.asarray(values, np.float64)
    tried = [np.sort(rows), np.sort(rows)[::-1]] + [rng.permutation(rows) for _ in range(orders)]
    sums = [float(total(order)) for order in tried]
    return max(sums) - min(sums)
