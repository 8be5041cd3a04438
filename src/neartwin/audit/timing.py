"""Timing: does the time of a call follow the noise it drew?

Jin, McMurtry, Rubinstein and Ohrimenko 2022: if it does, the wall clock tells the noise, and the answer follows.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neartwin.checks import integer
from neartwin.exact import FloatArray


@dataclass(frozen=True, slots=True)
class TimingFinding:
    """Rank correlation between |noise| and time over `calls` calls, in [-1, 1], with a permutation p-value.

    p_value: the share of shuffled pairings, the real one among them, with as large an absolute correlation; small means
    that time follows noise on this machine. A large one proves nothing beyond `calls` calls.
    """

    correlation: float
    p_value: float
    calls: int


def time_follows_noise(
    draw: Callable[[], float], *, calls: int = 2_000, shuffles: int = 999, seed: int = 0
) -> TimingFinding:
    """Time single calls of `draw`, which returns the noise it drew, and correlate.

    Times are those of this process and this machine, load included. The seed fixes the shuffles alone.
    """
    integer(calls=calls, at_least=10)
    noise, elapsed = np.empty(calls), np.empty(calls)
    for i in range(calls):
        before = time.perf_counter_ns()
        drawn = draw()
        elapsed[i] = time.perf_counter_ns() - before
        noise[i] = abs(drawn)
    return correlated(noise, elapsed, shuffles=shuffles, seed=seed)


def correlated(noise: FloatArray, elapsed: FloatArray, *, shuffles: int = 999, seed: int = 0) -> TimingFinding:
    """Spearman's rank correlation, ties sharing their mean rank, and its permutation p-value.

    >>> correlated(np.arange(20.0), np.arange(20.0) ** 2).correlation
    1.0
    """
    integer(shuffles=shuffles, at_least=1)
    first, second = _standard(_ranks(noise)), _standard(_ranks(elapsed))
    real = float(first @ second)
    rng = np.random.default_rng(seed)
    as_large = sum(abs(float(first @ rng.permutation(second))) >= abs(real) for _ in range(shuffles))
    return TimingFinding(round(real, 12), (1 + as_large) / (1 + shuffles), len(first))


def _ranks(values: FloatArray) -> FloatArray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place], np.float64)


def _standard(ranks: FloatArray) -> FloatArray:
    centred = ranks - ranks.mean()
    length = float(np.sqrt(centred @ centred))
    return np.asarray(centred / length if length > 0 else centred)
