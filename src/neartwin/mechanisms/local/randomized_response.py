"""Randomized response: each person answers for themselves, and tells the truth only more often than not.

The client reports the true one of k answers with odds e^epsilon against each other one. So it is epsilon-DP for any change of
that person's answer, with no trust in the collector. The server undoes the bias. Warner 1965; Kairouz, Bonawitz, Ramage 2016.
Among all eps-local protocols it is best where e^epsilon is large against k. For many answers see `bits.py`.

Undoing the bias of local reports: unbiased shares and intervals for them.

A person with a property supports it with probability p, any other with probability q < p. Then (support / n - q) / (p - q) is
unbiased for the share, whatever the population.

The interval is exact in coverage. For a share s the support is a sum of n independent coins of mean s p + (1 - s) q. Beyond one
from the mean, its tails are at most those of a binomial with that mean (Hoeffding 1956). So a Clopper-Pearson interval for the
mean covers, if it is widened by one report on each side.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, open_probability, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, WholeNumbers
from neartwin.losses import Composition
from neartwin.losses import RandomizedResponse as ResponseLoss
from neartwin.special import betaincinv


class Frequencies(NamedTuple):
    """shares: (k,) unbiased estimates, which may lie outside [0, 1]. intervals: for each share, within [0, 1], at the
    confidence asked, one by one. deviations: (k,) the estimates' standard deviations at the estimated shares.
    """

    shares: FloatArray
    intervals: Interval[FloatArray]
    deviations: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResponse(ABC):
    """Each person's answer, randomised by the person.

    Attributes:
        epsilon: The exact local guarantee, above 0.
        answers: k, the number of possible answers, at least 2.
    """

    epsilon: Fraction
    answers: int

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        integer(at_least=2, answers=self.answers)

    @abstractmethod
    def losses(self) -> Composition:
        """The privacy loss as a factor for composition."""


def debiased(support: WholeNumbers, people: int, *, yes: float, no: float, confidence: float = 0.95) -> Frequencies:
    """Unbiased shares from local reports, and their intervals.

    Args:
        support: (k,) numbers of reports that support each property.
        people: The number of reports, n.
        yes: p, the probability of support from a person with the property; above q.
        no: q, the probability of support from a person without it.
        confidence: The confidence of each interval.

    Returns:
        The shares and their intervals.
    """
    n = integer(at_least=1, people=people)
    tail = (1 - open_probability(confidence=confidence)) / 2
    counts = np.asarray(support, dtype=np.float64)
    shares = (counts / n - no) / (yes - no)
    low, high = np.maximum(counts - 1, 0), np.minimum(counts + 1, n)
    with np.errstate(invalid="ignore"):
        lower = np.where(low > 0, betaincinv(low, n - low + 1, tail), 0.0)
        upper = np.where(high < n, betaincinv(high + 1, n - high, 1 - tail), 1.0)
    ends = [np.clip((end - no) / (yes - no), 0.0, 1.0) for end in (lower * (1 - 1e-12), upper * (1 + 1e-12))]
    inside = np.clip(shares, 0.0, 1.0)
    variance = (inside * yes * (1 - yes) + (1 - inside) * no * (1 - no)) / n
    deviations: FloatArray = np.sqrt(variance) / (yes - no)
    return Frequencies(shares, Interval(ends[0], ends[1], "Clopper-Pearson, Hoeffding 1956"), deviations)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(LocalResponse):
    """k-ary response. epsilon: log of the odds, the exact local guarantee. answers: k, at least 2."""

    @property
    def truth(self) -> float:
        """P(the report is the truth) = e^epsilon / (e^epsilon + k - 1)."""
        return 1 / (1 + (self.answers - 1) * math.exp(-float(self.epsilon)))

    @property
    def lie(self) -> float:
        """P(the report is one given other answer)."""
        return math.exp(-float(self.epsilon)) * self.truth

    def losses(self) -> Composition:
        """The privacy loss as a factor for composition."""
        return Composition.of(ResponseLoss(epsilon=self.epsilon, answers=self.answers))

    def report(self, answers: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> NDArray[np.int64]:
        """The client: one report for each true answer. Each person runs it once, on their own answer.

        Draw a uniform answer. Keep it surely if it is the truth, and with probability e^-epsilon otherwise; else draw
        again. The number of draws does not depend on the truth, and the law is exact.

        Args:
            answers: (people,) true answers in 0, ..., k - 1.
            source: The source of randomness.

        Returns:
            (people,) reports in 0, ..., k - 1.
        """
        truth = known_answers(answers, self.answers)
        reports = np.empty(truth.size, dtype=np.int64)
        waiting = np.arange(truth.size)
        while waiting.size:
            drawn = noise.uniform_below(self.answers, waiting.size, source=source)
            accepted = (drawn == truth[waiting]) | noise.bernoulli_exp(self.epsilon, waiting.size, source=source)
            reports[waiting[accepted]] = drawn[accepted]
            waiting = waiting[~accepted]
        return reports

    def estimate(self, reports: WholeNumbers, *, confidence: float = 0.95) -> Frequencies:
        """The server: the share of each answer, unbiased, with intervals for the share among those who reported."""
        counts = np.bincount(known_answers(reports, self.answers), minlength=self.answers)
        return debiased(counts, np.asarray(reports).size, yes=self.truth, no=self.lie, confidence=confidence)


def known_answers(answers: WholeNumbers, count: int) -> NDArray[np.int64]:
    """Answers as int64. The error names no answer, because answers are private.

    Args:
        answers: (people,) whole numbers.
        count: k, the number of possible answers.

    Returns:
        (people,) answers in 0, ..., k - 1.

    Raises:
        ParameterError: An answer is no whole number in 0, ..., k - 1.
    """
    values = np.asarray(answers)
    if values.dtype.kind not in "iu" or values.ndim != 1 or ((values < 0) | (values >= count)).any():
        raise ParameterError(
            "answers", values.dtype, f"must be whole numbers from 0 to {count - 1}, one for each person"
        )
    return values.astype(np.int64)
