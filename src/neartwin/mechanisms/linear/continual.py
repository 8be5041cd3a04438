"""Continual counting by a binary tree: a noisy running total after every step, for a stream of known length.

Step t's total is a sum of at most floor(log2 n) + 1 dyadic intervals, each with its own noise. One step is in at most
L = floor(log2 n) + 1 intervals. So a unit that changes one step by at most D changes all intervals by L D in absolute sum and by
sqrt(L) D in length, under either relation. Dwork, Naor, Pitassi, Rothblum 2010; Chan, Shi, Song 2011.

Each answer is out as soon as its step is in, and the stream may depend on earlier answers. Every interval has noise of its own,
so this is adaptive composition of at most L uses. Their L1 changes or squared lengths add up to the same bound.

Continual counting by the square root of the prefix-sum matrix: the best known error for Gaussian noise.

The matrix of all prefix sums is C C with C lower-triangular Toeplitz, C_k = binom(2k, k) / 4^k. Release y = C' x + z, where C'
is C rounded to a grid, so that y is exact on the grid. The totals are B y with B = prefix C'^-1, which is post-processing. Rows
of B and columns of C both have squared length near (ln n)/pi + 1. So the worst error grows like ln n / pi, against ln n / ln 2
squared-rooted for the tree. Fichtenberger, Henzinger, Upadhyay 2023.
"""

import os
import threading
from dataclasses import dataclass
from fractions import Fraction
from math import fsum
from typing import NoReturn, final

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.mechanisms.adding import PostProcessed
from neartwin.mechanisms.additive.discrete_laplace import DiscreteLaplace
from neartwin.mechanisms.additive.gaussian import Gaussian
from neartwin.mechanisms.norm_bounds import Change


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


_GRID_BITS = 20  # C' = C to 6 digits, which adds less than 0.001 % to the error
_LONGEST = 1 << 16


def root_coefficients(steps: int) -> FloatArray:
    """binom(2k, k) / 4^k for k = 0, ..., steps - 1: the Taylor coefficients of (1 - z)^(-1/2)."""
    k = np.arange(1, integer(at_least=1, steps=steps))
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def root_norm_squared(steps: int) -> float:
    """The sum of (binom(2k, k) / 4^k)^2 over k < steps: squared length of C's longest column and of its longest row.

    With exact C it is also the worst query's standard deviation for one unit of noise at sensitivity 1.

    >>> round(root_norm_squared(1024), 12)
    3.272554150273
    """
    return fsum(np.square(root_coefficients(steps)).tolist())


@dataclass(frozen=True, slots=True, eq=False)
class PrefixRoot(PostProcessed):
    """Running totals over `steps` steps. coefficients: 2^20 C', whole numbers; each: the noise on the grid of 2^-20."""

    steps: int
    coefficients: NDArray[np.int64]
    each: Gaussian

    @classmethod
    def for_gdp(cls, *, mu: Fraction, steps: int, sensitivity: int = 1) -> "PrefixRoot":
        """The square root that is mu-GDP for a unit that changes one step, under either relation.

        The column of the first step is the longest; its squared length is summed exactly.

        Args:
            mu: The GDP parameter.
            steps: The length of the stream.
            sensitivity: The largest change of one step by one unit.

        Returns:
            The mechanism.

        Raises:
            ParameterError: The stream is longer than the mechanism allows.
        """
        if integer(at_least=1, steps=steps) > _LONGEST:
            raise ParameterError("steps", steps, f"must be at most {_LONGEST}")
        coefficients = np.rint(root_coefficients(steps) * 2**_GRID_BITS).astype(np.int64)
        squared = sum(c * c for c in coefficients.tolist()) * integer(at_least=1, sensitivity=sensitivity) ** 2
        return cls(steps, coefficients, Gaussian.for_gdp(mu=mu, l2_squared=squared))

    @property
    def _back(self) -> FloatArray:
        """The Taylor coefficients of (1 / (1 - z)) / C'(z): the first column of B, on the grid's scale."""
        c = self.coefficients.astype(np.float64)
        inverse = np.zeros(self.steps)
        inverse[0] = 1 / c[0]
        for k in range(1, self.steps):
            inverse[k] = -(c[k:0:-1] @ inverse[:k]) / c[0]
        return np.cumsum(inverse)

    @property
    def deviations(self) -> FloatArray:
        """(steps,) the standard deviation of each total."""
        return np.sqrt(np.cumsum(np.square(self._back)) * self.each.law.variance)

    def release(self, increments: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> FloatArray:
        """(n,) all noisy totals of a finished stream, unbiased. increments: (n,) whole numbers, n at most `steps`."""
        steps = np.asarray(increments)
        if steps.size > self.steps:
            raise ParameterError("steps", self.steps, f"must be at least the {steps.size} increments given")
        x, c = steps.astype(object), self.coefficients.astype(object)
        exact = np.array([int((c[: t + 1][::-1] * x[: t + 1]).sum()) for t in range(steps.size)], dtype=object)
        y = self.each.noisy(exact, source=source).astype(np.float64)
        return np.convolve(y, self._back)[: steps.size]
