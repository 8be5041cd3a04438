"""Continual counting by a binary tree: a noisy running total after every step, for a stream of known length.

Step t's total is a sum of at most floor(log2 n) + 1 dyadic intervals, each with its own noise. One step is in at most
L = floor(log2 n) + 1 intervals. So a unit that changes one step by at most D changes all intervals by L D in absolute sum and by
sqrt(L) D in length, under either relation. Dwork, Naor, Pitassi, Rothblum 2010; Chan, Shi, Song 2011.

Each answer is out as soon as its step is in, and the stream may depend on earlier answers. Every interval has noise of its own,
so this is adaptive composition of at most L uses. Their L1 changes or squared lengths add up to the same bound.
"""

import os
import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn, final

import numpy as np

from neartwin import noise
from neartwin.checks import integer
from neartwin.errors import ParameterError, PrivacyError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.mechanisms.adding import Change, PostProcessed
from neartwin.mechanisms.additive import DiscreteLaplace, Gaussian


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
