"""The matrix mechanism: many linear queries W x through a better-chosen set of queries A x.

Noise goes on the strategy's answers y = A x + z; the workload's are R y with R A = W, which is post-processing: floats do no
harm there. Query i then errs by (R z)_i, of variance s2 |R_i|^2, known before anything is released. Li, Miklau, Hay,
McGregor, Rastogi 2015. The Gaussian noise is rounded to whole numbers, which adds to an error at most |R_i|_1 / 2.

Batches of counts and linear queries: how much one unit can change all answers together.

Here a unit is one row of a histogram over declared cells, or has none: x counts the units in each cell. Adding a unit adds
a unit vector e_j to x; replacing one adds e_i - e_j, or one of the two alone where a unit may lie in no cell. A batch of
linear queries W x then changes by a column of W, or by a difference of two.

Continual counting by a binary tree: a noisy running total after every step, for a stream of known length. Step t's total is
a sum of at most floor(log2 n) + 1 dyadic intervals, each with its own noise. One step is in at most L = floor(log2 n) + 1
intervals. So a unit that changes one step by at most D changes all intervals by L D in absolute sum and by sqrt(L) D in length,
under either relation. Dwork, Naor, Pitassi, Rothblum 2010; Chan, Shi, Song 2011.

Each answer is out as soon as its step is in, and the stream may depend on earlier answers. Every interval has noise of its own,
so this is adaptive composition of at most L uses. Their L1 changes or squared lengths add up to the same bound.
"""

import math
import os
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NoReturn, final

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, open_probability
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.mechanisms.additive import Change, DiscreteLaplace, Gaussian, PostProcessed
from neartwin.mechanisms.neighbours import Neighbours

_MOST_PAIRS = 1 << 26  # the most compared entries; for more, sums bound the differences


def of_counts(number: int, neighbours: Neighbours) -> Change:
    """The sensitivity of counting queries fixed in advance, which may overlap. Each moves by at most 1 under either
    relation.

    Args:
        number: The number of queries.
        neighbours: The neighbour relation.

    Returns:
        The sensitivity in all norms.

    >>> of_counts(7, Neighbours.ADD_REMOVE).l1
    7
    """
    del neighbours  # a replaced unit leaves some counts and enters others: still at most 1 each
    return Change(linf=1, cells=integer(at_least=1, number=number))


def of_histogram(neighbours: Neighbours) -> Change:
    """The change of a histogram of disjoint cells: one cell by 1, or two cells by 1 each.

    >>> of_histogram(Neighbours.REPLACE_ONE)
    Change(l1=2, l2_squared=2, linf=1, cells=2)
    """
    return Change(linf=1, cells=1 if neighbours is Neighbours.ADD_REMOVE else 2)


def of_linear(weights: NDArray[Any], neighbours: Neighbours) -> Change:
    """The exact sensitivity of W x. Very large W are bounded by sums instead of differences.

    Args:
        weights: W, whole numbers, (queries, cells).
        neighbours: The neighbour relation.

    Returns:
        The sensitivity in all norms.

    Raises:
        ParameterError: The weights are no table of whole numbers, or all are 0.

    >>> of_linear(np.array([[1, 1, 0], [0, 1, -1]]), Neighbours.ADD_REMOVE)
    Change(l1=2, l2_squared=2, linf=1, cells=2)
    """
    table = np.asarray(weights)
    if table.ndim != 2 or not table.size or table.dtype.kind not in "iu":
        raise ParameterError("weights", table.dtype, "must be a (queries, cells) table of whole numbers")
    columns = table.astype(np.int64).T
    most = int(np.abs(columns).max())
    if most == 0:
        raise ParameterError("weights", most, "must not all be zero: what nobody can change needs no noise")
    if most >= 2**20:
        columns = columns.astype(object)
    moves = [columns]
    if neighbours is Neighbours.REPLACE_ONE:
        if len(columns) ** 2 * columns.shape[1] > _MOST_PAIRS:
            one = _largest(columns)
            return Change(l1=2 * one.l1, l2_squared=4 * one.l2_squared, linf=2 * one.linf)
        moves += [column - columns[i + 1 :] for i, column in enumerate(columns[:-1])]
    changes = [_largest(part) for part in moves]
    return Change(
        l1=max(c.l1 for c in changes),
        l2_squared=max(c.l2_squared for c in changes),
        linf=max(c.linf for c in changes),
        cells=max(c.cells for c in changes),
    )


def _largest(rows: NDArray[Any]) -> Change:
    """The largest of each norm over the rows; rows of zeros count as a change of 1, which only adds noise."""
    size = abs(rows)
    return Change(
        l1=max(1, int(size.sum(axis=1).max())),
        l2_squared=max(1, int((rows * rows).sum(axis=1).max())),
        linf=max(1, int(size.max())),
        cells=max(1, int((rows != 0).sum(axis=1).max())),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram(PostProcessed):
    """Noisy counts of declared, disjoint categories. Values that are in none of them count nowhere."""

    categories: tuple[Any, ...]
    each: DiscreteLaplace

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, categories: tuple[Any, ...], neighbours: Neighbours) -> "Histogram":
        """The epsilon-DP histogram for one row a unit.

        The scale of the discrete Laplace noise is 1/epsilon under add/remove, and 2/epsilon under replace-one.

        Args:
            epsilon: The pure-DP parameter.
            categories: The public categories, without repetition.
            neighbours: The neighbour relation.

        Returns:
            The mechanism.

        Raises:
            ParameterError: A category is repeated, or there is none.
        """
        if len(set(categories)) != len(categories) or not categories:
            raise ParameterError("categories", categories, "must be distinct, at least one")
        change = of_histogram(neighbours)
        return cls(categories=categories, each=DiscreteLaplace.calibrated(epsilon=epsilon, sensitivity=change.l1))

    def release(self, values: list[Any], *, source: noise.Source = noise.SYSTEM) -> dict[Any, int]:
        """A noisy count for every category, empty ones included.

        Args:
            values: The values; those outside the categories are left out.
            source: The source of randomness.

        Returns:
            The noisy counts by category.

        >>> release = Histogram.calibrated(
        ...     epsilon=Fraction(1000), categories=("a", "b"), neighbours=Neighbours.ADD_REMOVE
        ... ).release(["a", "a", "z"])
        >>> release
        {'a': 2, 'b': 0}
        """
        place = {category: i for i, category in enumerate(self.categories)}
        exact = np.zeros(len(place), dtype=np.int64)
        for value in values:
            if isinstance(value, Hashable) and value in place:
                exact[place[value]] += 1
        noisy = self.each.noisy(exact, source=source)
        return dict(zip(self.categories, (int(v) for v in noisy), strict=True))

    def half_width(self, confidence: float) -> int:
        """Every category's count is within this of the truth, with this probability: exact for independent noise."""
        return self.each.half_width(confidence, len(self.categories))


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

    It has the least |W A^-1| |A| in Frobenius norms of all A. That is the total squared error if all columns of A have
    one length. Small eigenvalues are raised, so that A is invertible.

    Args:
        workload: W, (queries, cells).
        bits: The precision.

    Returns:
        A, (cells, cells).

    Source:
        Li, Miklau 2013.
    """
    table = np.asarray(workload, dtype=np.float64)
    return eigen_of_gram(table.T @ table, bits=bits)


def eigen_of_gram(gram: FloatArray, *, bits: int) -> Table:
    """The eigen design of a workload with a known W^T W.

    Args:
        gram: W^T W, (cells, cells).
        bits: The precision.

    Returns:
        A, (cells, cells).
    """
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.maximum(values, values.max() * 1e-9) ** 0.25) @ vectors.T
    return np.asarray(np.rint(root * (2**bits / np.abs(root).max())).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class MatrixMechanism(PostProcessed):
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
        """The mechanism that is mu-GDP for one unit in one cell.

        Args:
            workload: W, (queries, cells).
            strategy: A, whole numbers, (measured, cells).
            mu: The GDP parameter.
            neighbours: The neighbour relation.

        Returns:
            The mechanism.

        Raises:
            ParameterError: The strategy does not determine the workload.

        >>> prefixes = np.tril(np.ones((64, 64), dtype=np.int64))
        >>> plain, tree = (
        ...     MatrixMechanism.for_gdp(prefixes, A, mu=Fraction(1), neighbours=Neighbours.ADD_REMOVE)
        ...     for A in (prefixes, intervals_tree(64))
        ... )
        >>> bool(tree.deviations.max() < plain.deviations.max())
        True
        """
        change: Change = of_linear(strategy, neighbours)
        queries = np.asarray(workload, dtype=np.float64)
        back = queries @ np.linalg.pinv(strategy.astype(np.float64))
        gap = float(np.abs(back @ strategy - queries).max(initial=0.0))
        if gap > 1e-7 * max(1.0, float(np.abs(queries).max(initial=0.0))):
            raise ParameterError("strategy", strategy.shape, "must determine every query of the workload")
        return cls(workload, strategy, Gaussian.for_gdp(mu=mu, l2_squared=change.l2_squared), back)

    @classmethod
    def best_for_gdp(cls, workload: NDArray[Any], *, mu: Fraction, neighbours: Neighbours) -> "MatrixMechanism":
        """The best of four strategies: identity, the workload, dyadic intervals, eigen design. Reads no data.

        Args:
            workload: W, (queries, cells).
            mu: The GDP parameter.
            neighbours: The neighbour relation.

        Returns:
            The mechanism with the least total squared error.
        """
        cells = workload.shape[1]
        strategies = [identity(cells), intervals_tree(cells), eigen_design(workload)]
        if np.asarray(workload).dtype.kind in "iu":
            strategies.append(np.asarray(workload, dtype=np.int64))
        candidates = [cls.for_gdp(workload, each, mu=mu, neighbours=neighbours) for each in strategies]
        return min(candidates, key=lambda one: float(np.square(one.deviations).sum()))

    @property
    def deviations(self) -> FloatArray:
        """(queries,) the standard deviation of each answer's error, exact but for rounding in floats."""
        return np.asarray(np.sqrt(np.square(self.reconstruction).sum(axis=1) * self.each.law.variance))

    def half_widths(self, confidence: float) -> FloatArray:
        """(queries,) each answer is within this of the truth with this probability: normal quantile plus rounding."""
        z = NormalDist().inv_cdf((1 + open_probability(confidence=confidence)) / 2)
        normal = np.sqrt(np.square(self.reconstruction).sum(axis=1)) * math.sqrt(float(self.each.variance))
        return np.asarray((z * normal + np.abs(self.reconstruction).sum(axis=1) / 2) * (1 + 1e-9))

    def release(self, cells: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> FloatArray:
        """The noisy answers, unbiased.

        Args:
            cells: (cells,) exact counts.
            source: The source of randomness.

        Returns:
            (queries,) answers.
        """
        exact = self.strategy.astype(object) @ np.asarray(cells).astype(object)
        noisy = self.each.noisy(np.asarray(exact), source=source)
        return self.reconstruction @ noisy.astype(np.float64)


def intervals_change(*, steps: int, sensitivity: int = 1, steps_per_unit: int = 1) -> Change:
    """The largest change of the counts of all dyadic intervals by one unit.

    L1 is m L D. The squared length is at most m^2 L D^2, because the upper intervals may hold all m steps.

    Args:
        steps: The length of the stream.
        sensitivity: D, the largest change of one step.
        steps_per_unit: m, the most steps of one unit (under replace-one, the most steps that change).

    Returns:
        The change in all norms.

    >>> intervals_change(steps=1024).l2_squared
    11
    """
    levels = integer(at_least=1, steps=steps).bit_length()
    m, d = integer(at_least=1, steps_per_unit=steps_per_unit), integer(at_least=1, sensitivity=sensitivity)
    return Change(l1=m * levels * d, l2_squared=m * m * levels * d * d, linf=m * d)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTree(PostProcessed):
    """Running totals over `steps` steps. each: the noise of one interval."""

    steps: int
    each: DiscreteLaplace | Gaussian

    @classmethod
    def pure(cls, *, epsilon: Fraction, steps: int, sensitivity: int = 1, steps_per_unit: int = 1) -> "PrefixTree":
        """The tree that is epsilon-DP for the whole stream, by discrete Laplace noise.

        Args:
            epsilon: The pure-DP parameter.
            steps: The length of the stream.
            sensitivity: The largest change of one step by one unit.
            steps_per_unit: The most steps of one unit.

        Returns:
            The mechanism.
        """
        change = intervals_change(steps=steps, sensitivity=sensitivity, steps_per_unit=steps_per_unit)
        return cls(steps=steps, each=DiscreteLaplace.calibrated(epsilon=epsilon, sensitivity=change.l1))

    @classmethod
    def for_gdp(cls, *, mu: Fraction, steps: int, sensitivity: int = 1, steps_per_unit: int = 1) -> "PrefixTree":
        """The tree that is mu-GDP for the whole stream, by Gaussian noise.

        Args:
            mu: The GDP parameter.
            steps: The length of the stream.
            sensitivity: The largest change of one step by one unit.
            steps_per_unit: The most steps of one unit.

        Returns:
            The mechanism.
        """
        change = intervals_change(steps=steps, sensitivity=sensitivity, steps_per_unit=steps_per_unit)
        return cls(steps=steps, each=Gaussian.for_gdp(mu=mu, l2_squared=change.l2_squared))

    @property
    def deviations(self) -> FloatArray:
        """(steps,) the standard deviation of each total: as many intervals as t has ones in binary."""
        ones = np.array([t.bit_count() for t in range(1, self.steps + 1)])
        return np.sqrt(ones * self.each.law.variance)

    def start(self, *, source: noise.Source = noise.SYSTEM) -> "RunningTotal":
        """A stream, to be fed step by step."""
        return RunningTotal(self, source)

    def release(self, increments: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> list[int]:
        """All noisy totals of a finished stream.

        Args:
            increments: (n,) whole numbers, n at most `steps`.
            source: The source of randomness.

        Returns:
            The n totals, unbiased.
        """
        stream = self.start(source=source)
        return [stream.add(int(step)) for step in np.asarray(increments).tolist()]


@final
class RunningTotal:
    """One run of a `PrefixTree`. Holds exact partial sums and secret noise: cannot be copied, pickled or forked."""

    __slots__ = ("_lock", "_pid", "_source", "_stack", "_taken", "plan")

    def __init__(self, plan: PrefixTree, source: noise.Source) -> None:
        self.plan, self._source, self._pid = plan, source, os.getpid()
        self._stack: list[tuple[int, int, int]] = []  # level, exact sum, noisy sum of a finished interval
        self._taken, self._lock = 0, threading.Lock()

    def add(self, increment: int) -> int:
        """Take one step and return the noisy total so far."""
        if os.getpid() != self._pid:
            raise PrivacyError("a running total does not survive a fork: both copies would go on with the same noise")
        with self._lock:
            return self._add(int(increment))

    def _add(self, increment: int) -> int:
        if self._taken >= self.plan.steps:
            raise ParameterError("steps", self.plan.steps, "are all taken", remedy="plan a longer stream")
        self._taken += 1
        level, exact = 0, increment
        while self._stack and self._stack[-1][0] == level:
            exact += self._stack.pop()[1]
            level += 1
        noisy = int(self.plan.each.noisy(np.array([exact], dtype=object), source=self._source)[0])
        self._stack.append((level, exact, noisy))
        return sum(node[2] for node in self._stack)

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("a running total holds private sums and secret noise, and must not be copied")


def root_coefficients(steps: int) -> FloatArray:
    """binom(2k, k) / 4^k for k = 0, ..., steps - 1: the first column of the square root of the matrix of prefix sums.

    They are the Taylor coefficients of (1 - z)^(-1/2). Fichtenberger, Henzinger, Upadhyay 2023.
    """
    k = np.arange(1, integer(at_least=1, steps=steps))
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
