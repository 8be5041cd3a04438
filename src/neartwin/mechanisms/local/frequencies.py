"""Undoing the bias of local reports: unbiased shares and intervals for them.

A person with a property supports it with probability p, any other with probability q < p. Then (support / n - q) / (p - q) is
unbiased for the share, whatever the population.

The interval is exact in coverage. For a share s the support is a sum of n independent coins of mean s p + (1 - s) q. Beyond one
from the mean, its tails are at most those of a binomial with that mean (Hoeffding 1956). So a Clopper-Pearson interval for the
mean covers, if it is widened by one report on each side.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from neartwin.checks import integer, open_probability, positive
from neartwin.exact import FloatArray, Interval, WholeNumbers
from neartwin.losses import Composition
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
