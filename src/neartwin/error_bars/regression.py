"""Proven bars of the coefficients of a least squares fit from noisy sums. Arithmetic only, no data.

The exact equations are A b = y with sums for entries, the noisy ones (A + E)(b + d) = y + e. Hence A d = e - E (b + d), and
for a wanted number l . b, with a the exact row l A^-1,

    l . d = a . (e - E b) - a . E d.

The first is one weighted sum of the noises, of known law for each a and b. The second is of second order. Some of the chance
to fail is for a box: all noises within half-widths of their own, |E| <= E', |e| <= e'. Then with R = (A + E)^-1 and M = |R|
E', of spectral radius below 1 (Rump 2010, Verification methods, sec. 10; by Perron-Frobenius),

    |d| <= D = (I - M)^-1 |R| (E' |b + d| + e'),   |A^-1| <= (I - M)^-1 |R|,   |A^-1 - R| <= M (I - M)^-1 |R|,

so that the weights are known well enough to bound them, and the rest is at most |l| |A^-1| E' D. In large groups both
corrections vanish beside the first term, which no bar can do without.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neartwin.error_bars.moment_noise import MomentSums
from neartwin.exact import FloatArray

_BOX = 0.2  # of what may fail, for the box
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class _Noises:
    """The share of each noise in E and e: (noises, k, k) and (noises, k), with their half-widths in the box (noises,)."""

    of_matrix: FloatArray
    of_right: FloatArray
    bars: FloatArray


def fitted(sums: MomentSums, combinations: FloatArray, failure: float) -> tuple[FloatArray, FloatArray]:
    """Combinations of coefficients, and their half-widths, infinite where none is proven.

    A bar is passed with probability at most `failure`. Where there is none, the value is a ridge estimate: the matrix made
    positive semidefinite, and the size of its bars added.

    Args:
        sums: The noisy sums.
        combinations: (n, k) weights of intercept and slopes, in the sums' units.
        failure: The probability.

    Returns:
        Values and half-widths, (groups, n) each.
    """
    noises = _noises(sums, failure * _BOX)
    matrices, rights = _equations(sums)
    found = [_solved(matrix, right, noises, combinations) for matrix, right in zip(matrices, rights, strict=True)]
    values = np.array([values for values, _, _ in found]).reshape(sums.groups, len(combinations))
    rest = np.array([rest for _, rest, _ in found]).reshape(sums.groups, len(combinations))
    weights = np.array([weights for _, _, weights in found]).reshape(sums.groups, len(combinations), len(noises.bars))
    names: list[object] = ["n", *range(len(sums.first)), *sums.second]
    bars = np.full(values.shape, np.inf)
    for i in range(len(combinations)):
        known = np.flatnonzero(np.isfinite(rest[:, i]))
        if known.size:
            shares = {name: weights[known, i, place] for place, name in enumerate(names)}
            first = sums.noise.reach(shares, known.size, failure * (1 - _BOX))
            bars[known, i] = (first + rest[known, i]) * (1 + _SLACK) + _SLACK * np.abs(values[known, i])
    return values, bars


def _solved(
    matrix: FloatArray, right: FloatArray, noises: _Noises, combinations: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Values (n,), what is of second order (n,), and at most how much each noise weighs (n, noises)."""
    box, right_box = (np.einsum("z,z...->...", noises.bars, np.abs(of)) for of in (noises.of_matrix, noises.of_right))
    size, count = len(right), len(noises.bars)
    try:
        inverse = np.linalg.inv(matrix)
        spread = np.abs(inverse) @ box
        if np.max(np.abs(np.linalg.eigvals(spread))) < 1 - 1e-9:
            grown = np.linalg.inv(np.eye(size) - spread)
            found, most = inverse @ right, grown @ np.abs(inverse)
            reach = most @ (box @ np.abs(found) + right_box)
            if np.all(np.isfinite(most)) and np.all(grown >= 0):
                row, off = combinations @ inverse, np.abs(combinations) @ spread @ most
                weights = _weights(row, off, found, reach, noises)
                return combinations @ found, np.abs(combinations) @ most @ box @ reach, weights
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    ridge = max(float(np.linalg.norm(box)), 1e-9)
    estimate: FloatArray = vectors @ ((vectors.T @ right) / (np.maximum(values, 0.0) + ridge))
    return combinations @ estimate, np.full(len(combinations), np.inf), np.zeros((len(combinations), count))


def _weights(row: FloatArray, off: FloatArray, found: FloatArray, reach: FloatArray, noises: _Noises) -> FloatArray:
    """|a . (e - E b)| by noise, at most: for a within `off` of `row` and b within `reach` of `found`."""
    seen = np.einsum("zij,j->zi", noises.of_matrix, found)
    middle = np.abs((noises.of_right - seen) @ row.T)
    size = np.abs(noises.of_matrix)
    moved = np.einsum("zij,j->zi", size, reach)
    far = np.abs(noises.of_right - seen) + moved
    return np.asarray((middle + moved @ np.abs(row.T) + far @ off.T).T)


def _noises(sums: MomentSums, failure: float) -> _Noises:
    noise = sums.noise
    size, count = len(noise.sums.operands), len(noise.laws)
    of_matrix, of_right = np.zeros((count, size, size)), np.zeros((count, size))
    target, *features = noise.sums.operands
    row_of: dict[int, int] = {place: i for i, place in enumerate(features, start=1)}
    of_matrix[0, 0, 0] = 1.0
    for place in range(len(noise.sums.columns)):
        if place == target:
            of_right[1 + place, 0] = 1.0
        else:
            i = row_of[place]
            of_matrix[1 + place, 0, i] = of_matrix[1 + place, i, 0] = 1.0
    for number, (one, other) in enumerate(noise.sums.pairs, start=1 + len(noise.sums.columns)):
        centre = noise.centres[one, other]
        if target in (one, other):
            i = row_of[other if one == target else one]
            of_right[number, i], of_right[0, i] = 1.0, centre
        else:
            i, j = row_of[one], row_of[other]
            of_matrix[number, i, j] = of_matrix[number, j, i] = 1.0
            of_matrix[0, i, j] = of_matrix[0, j, i] = centre
    bars = [law.half_width(1 - failure / count) * worth for law, worth in zip(noise.laws, noise.worth, strict=True)]
    return _Noises(of_matrix, of_right, np.array(bars, dtype=float))


def _equations(sums: MomentSums) -> tuple[FloatArray, FloatArray]:
    """(groups, k, k) and (groups, k): the normal equations of the noisy sums, the intercept first."""
    target, *features = sums.noise.sums.operands
    size = len(features) + 1
    matrix, right = np.zeros((sums.groups, size, size)), np.zeros((sums.groups, size))

    def second(one: int, other: int) -> FloatArray:
        return sums.second[min(one, other), max(one, other)]

    matrix[:, 0, 0], right[:, 0] = sums.number, sums.first[target]
    for i, feature in enumerate(features, start=1):
        matrix[:, 0, i] = matrix[:, i, 0] = sums.first[feature]
        right[:, i] = second(feature, target)
        for j, other in enumerate(features[:i], start=1):
            matrix[:, i, j] = matrix[:, j, i] = second(feature, other)
    return matrix, right


def slopes_of(sums: MomentSums, features: Sequence[int]) -> FloatArray:
    """The weights for intercept and slopes if columns are counted around centres.

    Args:
        sums: The noisy sums.
        features: The places of the features.

    Returns:
        (k, k) weights.
    """
    size = len(features) + 1
    combinations = np.eye(size)
    for i, place in enumerate(features, start=1):
        column = sums.noise.sums.columns[place]
        combinations[0, i] = -2 * column.centre / (column.high - column.low)
    return combinations
