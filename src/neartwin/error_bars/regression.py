"""Proven bars of the coefficients of a least squares fit from noisy sums. Arithmetic only, no data.

The exact equations are A b = y with sums for entries, and the noisy ones have A' = A + E and y' = y + e. Coordinates are such
that the wanted number is one of them, t = b_p, and q are the others. With the exact coefficients g of feature p on the others
and w = (1, -g), w A is 0 in q. So w . (y - A b) = 0 gives w . (y' - A' b) = w . (e - E b): one weighted sum of the noises.
On the left w and b_q are unknown, but the noisy w' and b'(t), which solve the noisy equations in q, replace them:

    v' (t' - t) = w . (e - E b) - (E w)_q . A'_qq^-1 (e - E b)_q,   v' = w' A'_p,  t' the noisy estimate.

It is exact. Only the first term is of first order in the noise, and E enters it with t, as Fieller (1954) has it for a ratio.
The second is a product of two errors of the other coordinates. Some of the chance to fail is for an ellipsoid that holds all
noises together (`_noises`). In it, with K A'_qq K^T = 1 and the norms of K E_qq K^T, K (E w')_q and K (e - E b'(t))_q
at most r < 1, x and z,

    |K (E w)_q| <= x / (1 - r)   and   |K (e - E b)_q| <= z / (1 - r).

These also bound the distance of w and b from w' and b'(t), so that the weight of each noise is known well enough. All bounds
are affine in h = |t - t'|. So v' h exceeds their sum for every h beyond one at which it does, and that one is the half-width.

Rows that limits took only add to A. So coefficients of all rows are near those of the others, in the length that A gives:
(L12) of docs/proofs/lost-rows.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from neartwin.error_bars.moment_noise import MomentSums
from neartwin.exact import FloatArray
from neartwin.mechanisms.noise_laws import joint_half_axes

_TOGETHER = 0.2  # of what may fail, for the ellipsoid
_MOVED = 0.1  # of what may fail, for the length of a combination, and as much for residuals, where rows are lost
_GROWTH = 1.01  # of a half-width in the search for it, beside what its bound asks for
_MOST = 8  # times the bar of the first term at w' and b', beyond which a bar says nothing
_SLACK = 1e-9
_ONES = -1  # the place of the column of ones, whose coefficient is the intercept


@dataclass(frozen=True, slots=True)
class _Noises:
    """The share of each sum in A and y, and so of its noise in E and e: (sums, k, k) and (sums, k).

    The noises' half-axes together are (sums,).
    """

    of_matrix: FloatArray
    of_right: FloatArray
    axes: FloatArray


def fitted(sums: MomentSums, combinations: FloatArray, failure: float) -> tuple[FloatArray, FloatArray]:
    """Combinations of coefficients, and their half-widths, infinite where none is proven.

    A bar is passed with probability at most `failure`. Where there is none, no eigenvalue of the matrix counts for less than
    the root mean square size of its noise. Where all are larger, that changes no value: rows that limits took are no noise.

    Args:
        sums: The noisy sums.
        combinations: (k, k) weights of intercept and slopes, in the sums' units, with ones on the diagonal.
        failure: The probability.

    Returns:
        Values and half-widths, (groups, k) each.
    """
    noises = _noises(sums, failure * _TOGETHER)
    second = [total - sums.noise.centres[pair] * sums.number for pair, total in sums.second.items()]
    drawn = np.stack([sums.number, *sums.first, *second])
    matrices, rights = np.einsum("zij,zg->gij", noises.of_matrix, drawn), np.einsum("zi,zg->gi", noises.of_right, drawn)
    deviations = np.array([law.deviation for law in sums.noise.laws]) * sums.noise.worth
    size = np.sqrt(np.einsum("zij,z->ij", noises.of_matrix**2, deviations**2))
    eigenvalues, vectors = np.linalg.eigh(matrices)
    positive = np.flatnonzero(eigenvalues[:, 0] > _SLACK * eigenvalues[:, -1])
    turned = np.einsum("gji,gj->gi", vectors, rights) / np.maximum(eigenvalues, max(float(np.linalg.norm(size)), 1e-9))
    values = np.einsum("gij,gj->gi", vectors, turned) @ combinations.T
    bars, equations, lost = np.full(values.shape, np.inf), (matrices[positive], rights[positive]), sums.noise.lost[0]
    moved = _moved(sums, equations, noises, failure * _MOVED) if lost and len(positive) else 0.0
    for place in range(len(combinations)) if len(positive) else ():
        weights = _Weights.of(equations, noises, combinations[place], place)
        widths = _half_widths(sums, weights, failure * (1 - _TOGETHER - (2 * _MOVED if lost else 0)))
        widths += moved * weights.length(sums, failure * _MOVED) if lost else 0.0
        proven = np.isfinite(widths)
        values[positive[proven], place], bars[positive[proven], place] = weights.value[proven], widths[proven]
    return values, bars


def _reach(sums: MomentSums, weights: FloatArray, failure: float) -> FloatArray:
    """(n,) how far noises of these weights (n, noises) go without lost rows, but for this failure."""
    shares = dict(zip(["n", *range(len(sums.first)), *sums.second], weights.T, strict=True))
    return replace(sums.noise, lost=np.zeros(weights.shape[1])).reach(shares, len(weights), failure)


def _half_widths(sums: MomentSums, weights: "_Weights", failure: float) -> FloatArray:
    """(groups,) the half-width of one combination, for positive definite matrices. The ellipsoid's failure adds to it."""
    left, steps = np.flatnonzero(weights.inside < 1), np.zeros(len(weights.value))
    widths, limits = np.full((2, len(steps)), np.inf)

    if left.size:
        limits[left] = _MOST * _reach(sums, weights.start[left], failure) / weights.curvature[left]
    while left.size:
        each, second = weights.at(steps[left], left)
        most = (_reach(sums, each, failure) + second) / weights.curvature[left]
        done = most <= steps[left]
        widths[left[done]] = steps[left[done]]
        steps[left] = np.maximum(most, steps[left]) * _GROWTH
        left = left[~done & (steps[left] <= limits[left])]
    return np.asarray(widths * (1 + _SLACK) + _SLACK * np.abs(weights.value))


def _moved(sums: MomentSums, equations: tuple[FloatArray, FloatArray], noises: _Noises, failure: float) -> FloatArray:
    """(groups,) how far lost rows move a combination of length 1 at most: (L12) of docs/proofs/lost-rows.md."""
    root = np.linalg.inv(np.linalg.cholesky(equations[0]))
    inside = _norm(np.einsum("gij,zjk,glk->gzil", root, noises.of_matrix, root), noises)
    residual, *features = (max(map(abs, sums.limits(place))) for place in sums.noise.sums.operands)
    most, lost = np.array([1.0, *features]), sums.noise.lost[0]
    for place, wanted in enumerate(np.eye(most.size)):
        one = _Weights.of(equations, noises, wanted, place)
        residual = residual + most[place] * (np.abs(one.value) + _half_widths(sums, one, failure / most.size))
    s = np.minimum(np.linalg.norm(root, axis=1) @ most * np.sqrt(lost / np.maximum(1 - inside, _SLACK)), 1)
    return np.asarray(residual * np.sqrt(lost) * s / (1 + s**2))


def _norm(parts: FloatArray, noises: _Noises) -> FloatArray:
    """(groups,) the most that all noises together make of their parts (groups, noises, ...)."""
    return np.asarray(np.linalg.norm(parts.reshape(*parts.shape[:2], -1) * noises.axes[:, None], 2, axis=(1, 2)))


@dataclass(frozen=True, slots=True)
class _Weights:
    """At most how much each noise weighs in w . (e - E b), by the distance h of t from t'.

    Attributes:
        value: (groups,) t'.
        curvature: (groups,) v'.
        inside: (groups,) r, the norm of K E_qq K^T.
        start: (groups, noises) weights at w' and b'.
        slope: (groups, noises) their growth with h.
        of_w: (groups, noises) the length of K (E w')_q by noise.
        of_b: (groups, noises) the length of K (e - E b')_q by noise.
        of_both: (groups, noises) the norm of K E_qq K^T by noise.
        x: (groups,) the bound of |K (E w)_q|.
        z: (groups,) the bound of |K (e - E b)_q| at h = 0. It grows by x.
    """

    value: FloatArray
    curvature: FloatArray
    inside: FloatArray
    start: FloatArray
    slope: FloatArray
    of_w: FloatArray
    of_b: FloatArray
    of_both: FloatArray
    x: FloatArray
    z: FloatArray

    @classmethod
    def of(
        cls, equations: tuple[FloatArray, FloatArray], noises: _Noises, wanted: FloatArray, place: int
    ) -> "_Weights":
        """The weights of one combination.

        Args:
            equations: The noisy matrices and right sides.
            noises: The noises.
            wanted: (k,) the combination.
            place: p.
        """
        basis = np.eye(len(wanted))
        basis[place] = wanted
        turn = np.linalg.inv(basis)
        matrix, right = turn.T @ equations[0] @ turn, equations[1] @ turn
        of_matrix, of_right = turn.T @ noises.of_matrix @ turn, noises.of_right @ turn
        q = np.delete(np.arange(len(wanted)), place)
        inner, beside = matrix[:, q[:, None], q], matrix[:, q, place]
        root = np.linalg.inv(np.linalg.cholesky(inner))  # K
        found = np.linalg.solve(matrix, right[..., None])[..., 0]
        w = np.zeros(found.shape)
        w[:, place], w[:, q] = 1.0, -np.linalg.solve(inner, beside[..., None])[..., 0]
        by_w = np.einsum("zij,gj->gzi", of_matrix, w)
        by_b = of_right - np.einsum("zij,gj->gzi", of_matrix, found)
        k_w, k_b = (np.einsum("gij,gzj->gzi", root, part[..., q]) for part in (by_w, by_b))
        both = np.einsum("gij,zjk,glk->gzil", root, of_matrix[:, q[:, None], q], root)
        inside, x, z = (_norm(part, noises) for part in (both, k_w, k_b))
        rest = np.maximum(1 - inside, 1e-9)
        return cls(
            value=found[:, place],
            curvature=np.einsum("gi,gi->g", w, matrix[:, :, place]),
            inside=inside,
            start=np.abs(np.einsum("gi,gzi->gz", w, by_b)),
            slope=np.abs(np.einsum("gi,gzi->gz", w, by_w)),
            of_w=np.linalg.norm(k_w, axis=2),
            of_b=np.linalg.norm(k_b, axis=2),
            of_both=np.linalg.norm(both, axis=(2, 3)),
            x=x / rest,
            z=z / rest,
        )

    def length(self, sums: MomentSums, failure: float) -> FloatArray:
        """(groups,) the length of the combination at most: 1 / root of v for v = w A w, infinite where v may be 0.

        With w' the least of w A' w, v is at least v' - w E w.

        Args:
            sums: The noisy sums.
            failure: The probability.
        """
        x = self.x[:, None]
        v = self.curvature - _reach(sums, self.slope + 2 * x * self.of_w + x**2 * self.of_both, failure)
        some = (self.inside < 1) & (v > 0)
        return np.where(some, 1 / np.sqrt(np.where(some, v, 1.0)), np.inf)

    def at(self, h: FloatArray, groups: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """The weights (n, noises), and the bound of the second term (n,).

        Args:
            h: (n,) distances.
            groups: (n,) places of the groups.
        """
        h, x = h[:, None], self.x[groups, None]
        z = self.z[groups, None] + h * x
        of_w = self.of_w[groups]
        weights = self.start[groups] + h * self.slope[groups] + of_w * z
        weights += x * (self.of_b[groups] + h * of_w) + x * z * self.of_both[groups]
        return weights, (x * z)[:, 0]


def _noises(sums: MomentSums, failure: float) -> _Noises:
    noise = sums.noise
    size, count = len(noise.sums.operands), len(noise.laws)
    of_matrix, of_right = np.zeros((count, size, size)), np.zeros((count, size))
    target, *features = noise.sums.operands
    row_of: dict[int, int] = {_ONES: 0, **{place: i for i, place in enumerate(features, start=1)}}
    terms = [(_ONES, _ONES), *((_ONES, place) for place in range(len(noise.sums.columns))), *noise.sums.pairs]
    for number, (one, other) in enumerate(terms):
        for part, weight in ((0, noise.centres.get((one, other), 0.0)), (number, 1.0)):
            if target in (one, other):
                of_right[part, row_of[other if one == target else one]] = weight
            else:
                i, j = row_of[one], row_of[other]
                of_matrix[part, i, j] = of_matrix[part, j, i] = weight
    return _Noises(of_matrix, of_right, joint_half_axes(noise.laws, failure) * noise.worth)


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
