"""The matrix mechanism: many linear queries W x through a better-chosen set of queries A x.

Noise goes on the strategy's answers y = A x + z; the workload's are R y with R A = W, which is post-processing: floats do no
harm there. Query i then errs by (R z)_i, of variance s2 |R_i|^2, known before anything is released. Li, Miklau, Hay,
McGregor, Rastogi 2015. The Gaussian noise is rounded to whole numbers, which adds to an error at most |R_i|_1 / 2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, open_probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import Composed
from neartwin.mechanisms.batches import of_linear
from neartwin.mechanisms.change import Change
from neartwin.mechanisms.gaussian import Gaussian
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.special import ndtri
from neartwin.tradeoff import TradeOff

Table = NDArray[np.int64]


def identity(cells: int) -> Table:
    """Ask for each cell alone: the histogram."""
    return np.eye(integer(at_least=1, cells=cells), dtype=np.int64)


def intervals_tree(cells: int) -> Table:
    """Ask for the dyadic intervals that lie within the range: each cell is in at most floor(log2 n) + 1 of them."""
    n = integer(at_least=1, cells=cells)
    rows = []
    for level in range(n.bit_length()):
        for start in range(0, n - (1 << level) + 1, 1 << level):
            row = np.zeros(n, dtype=np.int64)
            row[start : start + (1 << level)] = 1
            rows.append(row)
    return np.array(rows)


def eigen_design(workload: NDArray[Any], *, bits: int = 10) -> Table:
    """A symmetric A with A^T A = (W^T W)^(1/2), rounded to whole multiples of its largest entry over 2^bits.

    Of all A it has the least |W A^-1| |A| in Frobenius norms: the total squared error, if all columns of A had one length.
    Small eigenvalues are lifted, so that A is invertible. Li, Miklau 2013.
    """
    table = np.asarray(workload, dtype=np.float64)
    return eigen_of_gram(table.T @ table, bits=bits)


def eigen_of_gram(gram: FloatArray, *, bits: int) -> Table:
    """The same for a workload of which W^T W is known, (cells, cells)."""
    values, vectors = np.linalg.eigh(gram)
    floor = values.max() * 1e-9
    root = (vectors * np.maximum(values, floor) ** 0.25) @ vectors.T
    result: Table = np.rint(root * (2**bits / np.abs(root).max())).astype(np.int64)
    return result


@dataclass(frozen=True, slots=True, eq=False)
class MatrixMechanism:
    """Answers `workload` through `strategy`, both (queries, cells) of whole numbers. each: the noise on
    the strategy's answers.
    """

    workload: NDArray[Any]
    strategy: Table
    each: Gaussian
    reconstruction: FloatArray

    @classmethod
    def for_gdp(
        cls, workload: NDArray[Any], strategy: Table, *, mu: Fraction, neighbours: Neighbours
    ) -> "MatrixMechanism":
        """mu-GDP for one unit in one cell. Refused where the strategy does not determine the workload.

        >>> prefixes = np.tril(np.ones((64, 64), dtype=np.int64))
        >>> plain, tree = (
        ...     MatrixMechanism.for_gdp(prefixes, A, mu=Fraction(1), neighbours=Neighbours.ADD_REMOVE)
        ...     for A in (prefixes, intervals_tree(64))
        ... )
        >>> bool(tree.deviations.max() < plain.deviations.max())
        True
        """
        change: Change = of_linear(strategy, neighbours)
        wanted = np.asarray(workload, dtype=np.float64)
        back = wanted @ np.linalg.pinv(strategy.astype(np.float64))
        gap = float(np.abs(back @ strategy - wanted).max(initial=0.0))
        if gap > 1e-7 * max(1.0, float(np.abs(wanted).max(initial=0.0))):
            raise ParameterError("strategy", strategy.shape, "must determine every query of the workload")
        return cls(workload, strategy, Gaussian.for_gdp(mu=mu, l2_squared=change.l2_squared), back)

    @classmethod
    def best_for_gdp(
        cls,
        workload: NDArray[Any],
        *,
        mu: Fraction,
        neighbours: Neighbours,
        judged_by: Callable[[FloatArray], float] = lambda deviations: float(np.square(deviations).sum()),
    ) -> "MatrixMechanism":
        """The best of four strategies: identity, the workload, dyadic intervals, eigen design. Reads no data.

        judged_by: the price of the queries' standard deviations; by default their total squared error.
        """
        cells = workload.shape[1]
        strategies = [identity(cells), intervals_tree(cells), eigen_design(workload)]
        if np.asarray(workload).dtype.kind in "iu":
            strategies.append(np.asarray(workload, dtype=np.int64))
        made = [cls.for_gdp(workload, each, mu=mu, neighbours=neighbours) for each in strategies]
        return min(made, key=lambda one: judged_by(one.deviations))

    def curve(self) -> TradeOff:
        """G_mu: the answers are post-processing."""
        return self.each.curve()

    def losses(self) -> Composed:
        """The same as a factor for composition."""
        return self.each.losses()

    @property
    def deviations(self) -> FloatArray:
        """(queries,) the standard deviation of each answer's error, exact but for rounding in floats."""
        size: FloatArray = np.sqrt(np.square(self.reconstruction).sum(axis=1) * self.each.law.variance)
        return size

    def half_widths(self, confidence: float) -> FloatArray:
        """(queries,) each answer is within this of the truth with this probability: normal quantile plus rounding."""
        z = float(ndtri((1 + open_probability(confidence=confidence)) / 2))
        normal = np.sqrt(np.square(self.reconstruction).sum(axis=1)) * math.sqrt(float(self.each.variance))
        result: FloatArray = (z * normal + np.abs(self.reconstruction).sum(axis=1) / 2) * (1 + 1e-9)
        return result

    def release(self, cells: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> FloatArray:
        """(queries,) noisy answers, unbiased. cells: (cells,) exact counts."""
        exact = self.strategy.astype(object) @ np.asarray(cells).astype(object)
        noisy = self.each.noisy(np.asarray(exact), source=source)
        result: FloatArray = self.reconstruction @ noisy.astype(np.float64)
        return result
