"""Sums over many frequencies in an arithmetic progression, for many eps: two short tables of turns instead of a cosine a term.

Re sum_j c_j e^{-i eps t_j} with t_j = j step, j = a B + b: the turns e^{-i eps step B a} and e^{-i eps step b} are computed
for A + B numbers, and the sum over b is a product of real matrices.

Rounding, against the exact sum for the exact c_j: c_j itself errs by 20 U of its modulus; each turn by 16 U and U |eps| times
its own frequency, for step j is exact, so both by 32 U + U |eps| t_j; their products by 6 U; the real sums over b by
1.5 gamma(2 B) and over a by 1.5 gamma(2 A) of the sum of moduli. In all at most (3 (A + B) + 72) U + U |eps| t_j of each modulus.
`Rounding` charges gamma(K) for K terms and 2 U |eps| t_j, so that it covers this wherever 3 (A + B) + 72 <= K: `table` makes no
table elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.rounding import ComplexArray

FEWEST = 1024  # terms; below, cosines are as quick
_CHUNK = 256  # eps at a time


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """step: between frequencies. real, imaginary: of the terms of each sum, (sums, A, B)."""

    step: float
    real: FloatArray
    imaginary: FloatArray

    def sums(self, eps: FloatArray) -> list[FloatArray]:
        """The real part of each sum at each eps; (n,) in, (n,) out."""
        parts = [self._few(eps[i : i + _CHUNK]) for i in range(0, max(1, len(eps)), _CHUNK)]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def _few(self, eps: FloatArray) -> list[FloatArray]:
        rows, columns = self.real.shape[1:]
        fine = np.multiply.outer(self.step * np.arange(columns, dtype=float), eps)
        coarse = np.multiply.outer(self.step * columns * np.arange(rows, dtype=float), eps)
        cosine, sine = np.cos(fine), np.sin(fine)
        turn, turned = np.cos(coarse), np.sin(coarse)
        found = []
        for real, imaginary in zip(self.real, self.imaginary, strict=True):
            across = real @ cosine + imaginary @ sine
            along = imaginary @ cosine - real @ sine
            found.append((across * turn + along * turned).sum(axis=0))
        return found


def table(step: float, t: FloatArray, terms: Sequence[ComplexArray]) -> Table | None:
    """A table of the sums of each of `terms` over the frequencies t, multiples of step; None where it would not pay or not prove.

    step has so few bits that its products with all the whole numbers used are exact.
    """
    if len(t) < FEWEST:
        return None
    index = np.rint(t / step).astype(np.int64)
    columns = math.isqrt(int(index[-1])) + 1
    rows = int(index[-1]) // columns + 1
    if 3 * (rows + columns) + 72 > len(t):
        return None
    dense = np.zeros((len(terms), rows * columns), dtype=np.complex128)
    dense[:, index] = np.stack(terms)
    shaped = dense.reshape(len(terms), rows, columns)
    return Table(step, np.ascontiguousarray(shaped.real), np.ascontiguousarray(shaped.imag))
