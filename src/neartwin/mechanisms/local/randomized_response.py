"""Randomized response: each person answers for themselves, and tells the truth only more often than not.

The client reports the true one of k answers with odds e^epsilon against each other one. So it is epsilon-DP for any change of
that person's answer, with no trust in the collector. The server undoes the bias. Warner 1965; Kairouz, Bonawitz, Ramage 2016.
Among all eps-local protocols it is best where e^epsilon is large against k. For many answers see `bits.py`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.errors import ParameterError
from neartwin.exact import WholeNumbers
from neartwin.losses import Composition
from neartwin.losses import RandomizedResponse as ResponseLoss
from neartwin.mechanisms.local.frequencies import Frequencies, LocalResponse, debiased


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
