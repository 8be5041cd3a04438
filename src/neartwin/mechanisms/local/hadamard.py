"""Hadamard response: one bit a person for a domain of thousands of answers.

Let K be a power of two above the number of answers. Each person draws a public uniform row j of a K x K Hadamard matrix. The
person sends the sign H[j, v + 1] of their answer v through binary randomized response. Column 0, all ones, is not used. The
server sums the signs by row and transforms back in K log K. With g = (e^epsilon + 1) / (e^epsilon - 1) the estimate of every
share is unbiased with variance at most g^2 / n, whatever the number of answers. Acharya, Sun, Zhang 2019; Bassily, Nissim,
Stemmer, Thakurta 2017.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, WholeNumbers
from neartwin.losses import Composition, SilentResponse
from neartwin.mechanisms.local.frequencies import Frequencies, LocalResponse, debiased
from neartwin.mechanisms.local.randomized_response import RandomizedResponse, known_answers


class HadamardReports(NamedTuple):
    """rows: (n,) which row each person drew; signs: (n,) booleans, True for +1. Both are public."""

    rows: NDArray[np.int64]
    signs: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class HadamardResponse(LocalResponse):
    """epsilon: the exact local guarantee. answers: how many there are."""

    @property
    def order(self) -> int:
        """K, the least power of two above the number of answers."""
        return 1 << self.answers.bit_length()

    @property
    def gain(self) -> float:
        """The g above, coth(epsilon / 2): what a sign must be multiplied by to undo the flips."""
        return 1 / math.tanh(float(self.epsilon) / 2)

    def losses(self) -> Composition:
        """The privacy loss as a factor for composition."""
        return Composition.of(SilentResponse(epsilon=self.epsilon))

    def report(self, answers: WholeNumbers, *, source: noise.Source = noise.SYSTEM) -> HadamardReports:
        """The client: a public row and one noisy sign for each true answer. The row does not depend on the answer.

        Args:
            answers: (people,) true answers in 0, ..., k - 1.
            source: The source of randomness.

        Returns:
            The reports.
        """
        truth = known_answers(answers, self.answers)
        rows = noise.uniform_below(self.order, truth.size, source=source)
        plus = (np.bitwise_count(rows & (truth + 1)) % 2 == 0).astype(np.int64)
        flips = RandomizedResponse(epsilon=self.epsilon, answers=2)
        return HadamardReports(rows, flips.report(plus, source=source) == 1)

    def estimate(self, reports: HadamardReports, *, confidence: float = 0.95) -> Frequencies:
        """The server: unbiased shares with intervals, by a fast transform.

        For one answer each person's sign times H[j, v + 1] is a coin. It is True with probability e^eps/(1 + e^eps) if the
        answer is v, and 1/2 otherwise, since distinct columns are orthogonal. Intervals as in `frequencies.py`.

        Args:
            reports: The reports of all people.
            confidence: The confidence of each interval.
        """
        rows, signs = np.asarray(reports.rows), np.asarray(reports.signs)
        n = integer(at_least=1, people=rows.size)
        if ((rows < 0) | (rows >= self.order)).any():
            raise ParameterError("rows", rows.dtype, f"must lie in 0, ..., {self.order - 1}")
        sums = np.bincount(rows, weights=np.where(signs, 1.0, -1.0), minlength=self.order).astype(np.float64)
        agreement = transform(sums)[1 : self.answers + 1]  # agreeing reports minus disagreeing ones, a whole number
        yes = 1 / (1 + math.exp(-float(self.epsilon)))
        return debiased(np.rint((agreement + n) / 2).astype(np.int64), n, yes=yes, no=0.5, confidence=confidence)


def transform(values: FloatArray) -> FloatArray:
    """The Walsh-Hadamard transform, (K,) to (K,), exact for whole numbers below 2^53.

    >>> transform(np.array([1.0, 2.0, 3.0, 4.0]))
    array([10., -2., -4.,  0.])
    """
    result = np.array(values, dtype=np.float64)
    half = 1
    while half < result.size:
        pairs = result.reshape(-1, 2, half)
        result = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        half *= 2
    return result
