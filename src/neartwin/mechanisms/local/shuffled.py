"""Shuffling: local reports whose senders nobody knows are far more private together than each alone.

n people run one epsilon_0-local protocol; a trusted shuffler forwards the reports in uniformly random order. Against whoever
sees the shuffled reports the whole is (epsilon, delta)-DP under replace-one, with epsilon much below epsilon_0. The delta
is that of one pair of laws that dominates every such protocol (Feldman, McMillan, Talwar 2021, Thm 3.2), evaluated with
certified ends in `tradeoff.shuffle_delta`. The local guarantee epsilon_0 holds besides, against the shuffler too.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neartwin import noise
from neartwin.balls import ball, root
from neartwin.checks import integer, open_probability, positive
from neartwin.errors import ParameterError
from neartwin.tradeoff import shuffle_delta


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
        return root(lambda e: ball(self.delta(Fraction(e)) - target), 0.0, float(self.local_epsilon))[1]

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
