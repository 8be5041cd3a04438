"""Reports of bits: Hadamard response, one bit a person for thousands of answers, and RAPPOR, one bit for each answer.

Let K be a power of two above the number of answers. Each person draws a public uniform row j of a K x K Hadamard matrix. The
person sends the sign H[j, v + 1] of their answer v through binary randomized response. Column 0, all ones, is not used. The
server sums the signs by row and transforms back in K log K. With g = (e^epsilon + 1) / (e^epsilon - 1) the estimate of every
share is unbiased with variance at most g^2 / n, whatever the number of answers. Acharya, Sun, Zhang 2019; Bassily, Nissim,
Stemmer, Thakurta 2017.

Under RAPPOR each person sends a vector of bits, every one flipped at random in two layers. Two people with different answers
differ in two bits for each hash. Erlingsson, Pihur, Korolova 2014.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.checks import integer, open_probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, WholeNumbers, rational
from neartwin.losses import Composition, FinitePair, SilentResponse
from neartwin.mechanisms.local.randomized_response import (
    Frequencies,
    LocalResponse,
    RandomizedResponse,
    debiased,
    known_answers,
)

Bits = NDArray[np.bool_]


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


@dataclass(frozen=True, slots=True, init=False)
class Rappor:
    """RAPPOR with a lasting and a fresh layer of noise. Erlingsson, Pihur, Korolova 2014, Thm 1 and 2.

    lasting (f): each of a person's bits is kept for ever as 1 or 0 with probability f/2 each, true otherwise. Each report
    then says 1 with probability `on` where the kept bit is 1 and `off` where it is 0. hashes (h): how many bits a person's
    answer sets. All rational, and drawn exactly.
    """

    lasting: Fraction
    on: Fraction
    off: Fraction
    hashes: int

    def __init__(self, *, lasting: Number, on: Number, off: Number, hashes: int = 1) -> None:
        """All probabilities strictly between 0 and 1, `on` above `off`."""
        object.__setattr__(self, "lasting", open_probability(lasting=rational(lasting=lasting)))
        object.__setattr__(self, "on", open_probability(on=rational(on=on)))
        object.__setattr__(self, "off", open_probability(off=rational(off=off)))
        object.__setattr__(self, "hashes", integer(at_least=1, hashes=hashes))
        if self.on <= self.off:
            raise ParameterError("on", on, f"must be above off={off}")

    @property
    def lasting_epsilon(self) -> float:
        """epsilon_inf = 2h ln((1 - f/2) / (f/2)): of all reports a person will ever send about one answer.

        >>> round(Rappor(lasting="0.5", on="0.75", off="0.5", hashes=2).lasting_epsilon, 12)
        4.394449154672
        """
        return 2 * self.hashes * math.log((1 - self.lasting / 2) / (self.lasting / 2))

    @property
    def chances(self) -> tuple[Fraction, Fraction]:
        """P(a report says 1 | bit 1) and P(... | bit 0), both layers together: q* and p* of the paper."""
        f = self.lasting
        return f / 2 * (self.off + self.on) + (1 - f) * self.on, f / 2 * (self.off + self.on) + (1 - f) * self.off

    @property
    def single_epsilon(self) -> float:
        """epsilon_1 = h ln(q*(1 - p*) / (p*(1 - q*))): of one report.

        Two answers that share no bit differ in 2h bits: h of them multiply the odds by q*/p*, h by (1 - p*)/(1 - q*).

        >>> round(Rappor(lasting="0.5", on="0.75", off="0.5", hashes=2).single_epsilon, 12)
        1.074285864167
        """
        yes, no = self.chances
        return self.hashes * math.log(yes * (1 - no) / (no * (1 - yes)))

    def losses(self) -> Composition:
        """The privacy loss of one report as a factor for composition."""
        return Composition.of(FinitePair(p=self._pair[0], q=self._pair[1]))

    @property
    def _pair(self) -> tuple[list[Fraction], list[Fraction]]:
        """The masses of (h bits that are on here, h that are on there), counted, under both answers."""
        h = self.hashes
        on, off = ([comb(h, k) * p**k * (1 - p) ** (h - k) for k in range(h + 1)] for p in self.chances)
        here = [a * b for a in on for b in off]
        return here, [a * b for a in off for b in on]

    def keep(self, bits: Bits, *, source: noise.Source = noise.SYSTEM) -> Bits:
        """The lasting layer. The client runs it once for each person and answer, and stores the result.

        Args:
            bits: True bits, any shape.
            source: The source of randomness.

        Returns:
            The lasting bits, of the same shape.
        """
        replaced = noise.bernoulli(self.lasting, bits.shape, source=source)
        return np.where(replaced, noise.bernoulli(Fraction(1, 2), bits.shape, source=source), bits)

    def report(self, lasting: Bits, *, source: noise.Source = noise.SYSTEM) -> Bits:
        """The fresh layer. The client runs it for each report, on the stored bits.

        Args:
            lasting: The lasting bits, any shape.
            source: The source of randomness.

        Returns:
            The reported bits, of the same shape.
        """
        on = noise.bernoulli(self.on, lasting.shape, source=source)
        return np.where(lasting, on, noise.bernoulli(self.off, lasting.shape, source=source))

    def estimate(self, reports: Bits, *, confidence: float = 0.95) -> Frequencies:
        """The server: the share of people whose true bit is set, for each bit. reports: (people, bits), one a person."""
        yes, no = (float(chance) for chance in self.chances)
        return debiased(reports.sum(axis=0), len(reports), yes=yes, no=no, confidence=confidence)
