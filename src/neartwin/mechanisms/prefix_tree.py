"""Continual counting by a binary tree: a noisy running total after every step, for a stream of known length.

Step t's total is a sum of at most floor(log2 n) + 1 dyadic intervals, each with its own noise. One step is in at most
L = floor(log2 n) + 1 intervals, so a unit that changes one step by at most D changes all intervals by L D in absolute sum
and by sqrt(L) D in length, under either relation. Dwork, Naor, Pitassi, Rothblum 2010; Chan, Shi, Song 2011. Each answer
is out as soon as its step is in, and the stream may depend on earlier answers: every interval has noise of its own, so
this is adaptive composition of at most L uses, whose L1 changes or squared lengths add up to the same bound.
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
from neartwin.losses import Composed
from neartwin.mechanisms.change import Change
from neartwin.mechanisms.gaussian import Gaussian
from neartwin.mechanisms.geometric import Geometric
from neartwin.tradeoff import TradeOff


def intervals_change(*, steps: int, sensitivity: int = 1, steps_per_unit: int = 1) -> Change:
    """How much one unit can change the counts of all dyadic intervals.

    sensitivity: the most it changes one step by; steps_per_unit: how many steps it may be in (under replace-one, how many
    change). L1 is m L D; the squared length at most m^2 L D^2, for the upper intervals may hold all m steps.

    >>> intervals_change(steps=1024).l2_squared
    11
    """
    levels = integer(at_least=1, steps=steps).bit_length()
    m, d = integer(at_least=1, steps_per_unit=steps_per_unit), integer(at_least=1, sensitivity=sensitivity)
    return Change(l1=m * levels * d, l2_squared=m * m * levels * d * d, linf=m * d)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTree:
    """Running totals over `steps` steps. each: the noise of one interval."""

    steps: int
    each: Geometric | Gaussian

    @classmethod
    def pure(cls, *, epsilon: Fraction, steps: int, sensitivity: int = 1, steps_per_unit: int = 1) -> "PrefixTree":
        """epsilon-DP for the whole stream, by geometric noise."""
        change = intervals_change(steps=steps, sensitivity=sensitivity, steps_per_unit=steps_per_unit)
        return cls(steps=steps, each=Geometric.calibrated(epsilon=epsilon, sensitivity=change.l1))

    @classmethod
    def for_gdp(cls, *, mu: Fraction, steps: int, sensitivity: int = 1, steps_per_unit: int = 1) -> "PrefixTree":
        """mu-GDP for the whole stream, by Gaussian noise."""
        change = intervals_change(steps=steps, sensitivity=sensitivity, steps_per_unit=steps_per_unit)
        return cls(steps=steps, each=Gaussian.for_gdp(mu=mu, l2_squared=change.l2_squared))

    def curve(self) -> TradeOff:
        """That of all intervals together: the totals are post-processing."""
        return self.each.curve()

    def losses(self) -> Composed:
        """The same as a factor for composition."""
        return self.each.losses()

    @property
    def deviations(self) -> FloatArray:
        """(steps,) the standard deviation of each total: as many intervals as t has ones in binary."""
        ones = np.array([t.bit_count() for t in range(1, self.steps + 1)])
        result: FloatArray = np.sqrt(ones * self.each.law.variance)
        return result

    def start(self, *, source: noise.Source = noise.SYSTEM) -> "RunningTotal":
        """A stream, to be fed step by step."""
        return RunningTotal(self, source)

    def release(self, increments: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> list[int]:
        """All noisy totals of a finished stream. increments: (n,) whole numbers, n at most `steps`."""
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

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()
