"""Local protocols: each person answers for themselves, and nobody needs to trust the collector.

Under randomized response a person tells the truth only more often than not. The client reports the true one of k answers
with odds e^epsilon against each other one. So it is epsilon-DP for any change of that person's answer. The server undoes the
bias. Warner 1965; Kairouz, Bonawitz, Ramage 2016. Among all eps-local protocols it is best where e^epsilon is large against
k. For many answers there are reports of bits.

The bias is undone alike for all of them, with intervals for the shares. A person with a property supports it with
probability p, any other with probability q < p. Then (support / n - q) / (p - q) is unbiased for the share, whatever the
population.

The interval is exact in coverage. For a share s the support is a sum of n independent coins of mean s p + (1 - s) q. Beyond
one from the mean, its tails are at most those of a binomial with that mean (Hoeffding 1956). So a Clopper-Pearson interval
for the mean covers, if it is widened by one report on each side.

Reports of bits: Hadamard response, one bit a person for thousands of answers, and RAPPOR, one bit for each answer.

Let K be a power of two above the number of answers. Each person draws a public uniform row j of a K x K Hadamard matrix. The
person sends the sign H[j, v + 1] of their answer v through binary randomized response. Column 0, all ones, is not used. The
server sums the signs by row and transforms back in K log K. With g = (e^epsilon + 1) / (e^epsilon - 1) the estimate of every
share is unbiased with variance at most g^2 / n, whatever the number of answers. Acharya, Sun, Zhang 2019; Bassily, Nissim,
Stemmer, Thakurta 2017.

Under RAPPOR each person sends a vector of bits, every one flipped at random in two layers. Two people with different answers
differ in two bits for each hash. Erlingsson, Pihur, Korolova 2014.

Shuffling: local reports whose senders nobody knows are far more private together than each alone.

n people run one epsilon_0-local protocol; a trusted shuffler forwards the reports in uniformly random order. Against whoever
sees the shuffled reports the whole is (epsilon, delta)-DP under replace-one, with epsilon much below epsilon_0. The delta
is that of one pair of laws that dominates every such protocol (Feldman, McMillan, Talwar 2021, Thm 3.2), evaluated with
certified ends in `tradeoff.shuffle_delta`. The local guarantee epsilon_0 holds besides, against the shuffler too.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.balls import ball, root
from neartwin.checks import integer, open_probability, positive
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Interval, Number, WholeNumbers, float_above, rational
from neartwin.losses import Composition, FinitePair, SilentResponse
from neartwin.losses import RandomizedResponse as ResponseLoss
from neartwin.special import betaincinv
from neartwin.tradeoff import shuffle_delta


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
        answer is v, and 1/2 otherwise, since distinct columns are orthogonal. Intervals as for randomized response.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffled:
    """Reports of `people` people, each local_epsilon-DP alone. Relation: replace-one."""

    local_epsilon: Fraction
    people: int

    def __post_init__(self) -> None:
        positive(local_epsilon=self.local_epsilon)
        integer(at_least=2, people=self.people)

    def delta(self, epsilon: Fraction) -> float:
        """A delta that holds with this epsilon, rounded up; 0 from the local epsilon on."""
        if epsilon >= self.local_epsilon:
            return 0.0
        return float(np.max(shuffle_delta(self.local_epsilon, self.people, epsilon).upper))

    def epsilon(self, delta: Fraction) -> float:
        """The least epsilon that holds with this delta by `delta`, never above the local one.

        >>> Shuffled(local_epsilon=Fraction(1), people=10_000).epsilon(Fraction(1, 10**6)) < 0.1
        True
        """
        target = float(open_probability(delta=delta)) * (1 - 1e-12)
        return root(lambda e: ball(self.delta(Fraction(e)) - target), 0.0, float_above(self.local_epsilon))[1]

    def shuffle(self, reports: NDArray[Any], *, source: noise.Source = noise.SYSTEM) -> NDArray[Any]:
        """The shuffler: the reports in uniformly random order.

        Args:
            reports: The reports, one a row.
            source: The source of randomness.

        Returns:
            The shuffled reports.

        Raises:
            ParameterError: Their number is not the priced one.
        """
        if len(reports) < self.people:
            raise ParameterError(
                "people", self.people, "must not exceed the number of reports", remedy="price what came in"
            )
        return reports[noise.permutation(len(reports), source=source)]
