r"""Several terms of a law in parts as one measure: all numbers of great copies that want about the same tilt share one line.

A term is a product of powers of the parts' transforms, prod_i M_i(s)^{k_i}, in so many ways; a sum of terms is a measure again,
and `contour.py` holds for it word by word. At s = lam + it, with p_k the shares of the terms in M(lam),

    M(s)/M(lam) = sum_k p_k e^{sum_i k_i log(M_i(s)/M_i(lam))}.

Errors. The parts' logarithms have E_i, so a term's factor errs relatively by expm1(sum k_i E_i), its share by the errors of K_k
and of K; exponentials, products and the sum by what is written below, all relative to moduli, of which the terms' shares are
bounds. |M_i(lam + it')/M_i(lam)| <= B_i for all t' >= t makes sum p_k prod B_i^{k_i} a bound for the whole.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from neartwin.exact import FloatArray
from neartwin.losses.loss import Summand
from neartwin.losses.rounding import ELEMENTARY, ComplexArray, U, gamma, log_within

NEAR = 0.5  # of the logarithm of a term's moduli: what a common line may cost
BLOCK = 1 << 18  # numbers a temporary matrix may hold


class Pieces(NamedTuple):
    """What terms are made of: summands, as many copies of each as are common to all that is said of it below."""

    parts: tuple[Summand, ...]
    copies: FloatArray  # (parts,): of each summand


class Group(Summand):
    """A sum of terms: the k-th is in `ways[k]` ways the product of powers `counts[k]` of single copies of the parts."""

    def __init__(self, pieces: Pieces, counts: FloatArray, log_ways: FloatArray) -> None:
        """counts: (terms, parts), whole numbers; log_ways: (terms,), within 4U of themselves."""
        heard = np.flatnonzero(counts.any(axis=0))
        self.parts_of = [pieces.parts[int(i)] for i in heard]
        self.powers: FloatArray = counts[:, heard] / pieces.copies[heard]  # of the summands as they are, within U
        self.log_ways = log_ways

    def _shares(self, lam: float) -> tuple[FloatArray, float, float, float]:
        """Log p_k of each term, K, its error, and that of the shares: two terms err alike in what they have in common."""
        found = [part.log_mgf(lam) for part in self.parts_of]
        values, errors = np.array([one for one, _ in found]), np.array([error for _, error in found])
        each, error = self.powers @ values + self.log_ways, self.powers @ errors
        size = float((self.powers @ np.abs(values) + np.abs(self.log_ways)).max())
        top = float(each.max())
        whole = top + math.log(float(np.exp(each - top).sum()))
        rounding = (len(values) + 8) * U * (size + abs(top) + abs(whole)) + 4 * ELEMENTARY + gamma(len(each))
        apart = float(np.ptp(self.powers, axis=0) @ errors) * 1.01 + 2 * rounding
        return each - whole, whole, float(error.max()) + rounding, apart

    def cumulants(self, lam: float) -> tuple[float, float, float]:
        """Of the mixture."""
        k, k1, k2 = np.array([part.cumulants(lam) for part in self.parts_of]).T
        each, means = self.powers @ k + self.log_ways, self.powers @ k1
        top = float(each.max())
        shares = np.exp(each - top)
        whole = float(shares.sum())
        shares /= whole
        mean = float(shares @ means)
        return top + math.log(whole), mean, float(shares @ (self.powers @ k2 + np.square(means - mean)))

    def log_mgf(self, lam: float) -> tuple[float, float]:
        """All terms together."""
        _, value, error, _ = self._shares(lam)
        return (value, error) if math.isfinite(value) else (math.inf, 0.0)

    def log_mgf_roughly_above(self, s: float) -> float:
        """By the parts' own rough bounds."""
        values = np.array([part.log_mgf_roughly_above(s) for part in self.parts_of])
        each = self.powers @ values + self.log_ways
        size = float((self.powers @ np.abs(values) + np.abs(self.log_ways)).max())
        top = float(each.max())
        if not math.isfinite(top):
            return math.inf
        return top + math.log(float(np.exp(each - top).sum())) + (len(values) + 64) * U * (size + abs(top) + 1)

    def line(self, lam: float, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """One integral of each part serves every term."""
        shares, _, _, apart = self._shares(lam)
        values, errors = (np.array(found) for found in zip(*[part.line(lam, t) for part in self.parts_of], strict=True))
        rows = max(1, BLOCK // len(shares))
        blocks = [slice(start, start + rows) for start in range(0, len(t), rows)]
        each = [self._logs(shares, apart, values[:, part], errors[:, part]) for part in blocks]
        return np.concatenate([log for log, _ in each]), np.concatenate([bound for _, bound in each])

    def _logs(
        self, shares: FloatArray, slack: float, values: ComplexArray, errors: FloatArray
    ) -> tuple[ComplexArray, FloatArray]:
        """The logarithm of the sum and the bound on its error, from those of the parts; slack: of the shares."""
        each = np.exp(self.powers @ values + shares[:, None])
        moved = self.powers @ errors + (len(values) + 4) * U * (
            self.powers @ (np.abs(values.real) + np.abs(values.imag))
        )
        moved += slack + 4 * ELEMENTARY + gamma(len(shares))
        moduli, found = np.abs(each), each.sum(axis=0)
        error = (moduli * np.expm1(np.minimum(moved, 700.0))).sum(axis=0) * (1 + 1e-9) + 4 * U * moduli.sum(axis=0)
        log, bound = log_within(found, error)
        return log, bound + ELEMENTARY * (1 + np.abs(log.real) + np.abs(log.imag))

    def log_tail(self, lam: float, t: float, until: float) -> float:
        """By the parts' own tails."""
        shares, _, _, slack = self._shares(lam)
        tails = np.array([part.log_tail(lam, t, until) for part in self.parts_of])
        each = self.powers @ tails + shares
        top = float(each.max())
        whole = top + math.log(float(np.exp(each - top).sum()))
        return min(whole + slack + 64 * U * (1 + abs(whole)), 0.0) if math.isfinite(whole) else 0.0

    def work(self, lam: float, t: float, frequencies: int) -> int:
        """Of the parts and of the terms."""
        return sum(part.work(lam, t, frequencies) for part in self.parts_of) + frequencies * len(self.log_ways)


def shared(logs: FloatArray) -> list[tuple[int, list[int]]]:
    """Which terms share the line of which lam, few lines in all. logs: (terms, lams), of a term's moduli there."""
    fits = logs <= logs.min(axis=1, keepdims=True) + NEAR
    left, found = np.ones(len(logs), dtype=bool), []
    while left.any():
        covered = fits[left].sum(axis=0)
        j = int(np.flatnonzero(covered == covered.max())[-1])  # of a small tilt the period is long
        group = np.flatnonzero(fits[:, j] & left)
        found.append((j, [int(i) for i in group]))
        left[group] = False
    return found
