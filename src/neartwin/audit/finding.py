"""What an audit found: the claim, refuted by these inputs and this event, or not refuted and how far it got."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neartwin.audit.claims import Claim, refutes
from neartwin.audit.features import seen
from neartwin.audit.playing import Outputs, Transcript
from neartwin.audit.proportions import lower_bound, upper_bound
from neartwin.audit.scores import Score
from neartwin.audit.twins import Twins


@dataclass(frozen=True, slots=True)
class Event:
    """A set of outputs: those whose score is at least the threshold."""

    score: Score
    threshold: float

    def holds(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Which of these outputs lie in the set; (n,)."""
        return self.score(seen(outputs)) >= self.threshold

    def __str__(self) -> str:
        return f"{self.score} >= {self.threshold:.6g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of playing one game against one claim.

    The event was fixed on other runs than those counted here. `reached` is a lower bound, with probability at least
    `confidence` over the counted runs, on the number that the claim speaks of (`claim.unit`); `samples` are the counted
    outputs, from which `recount` gives the four counts again.
    """

    claim: Claim
    event: Event
    swapped: bool  # the event is likelier on the left
    hits: tuple[int, int]  # left, right
    runs: tuple[int, int]  # left, right
    confidence: float
    samples: Transcript

    @property
    def twins(self) -> Twins:
        """The two inputs that were played."""
        return self.samples.twins

    @property
    def rates(self) -> tuple[float, float]:
        """Upper bounds on false-alarm and miss rates, jointly valid at the stated confidence."""
        null, other = (1, 0) if self.swapped else (0, 1)
        half = (1 + self.confidence) / 2
        return (
            float(upper_bound(self.hits[null], self.runs[null], confidence=half)),
            1 - float(lower_bound(self.hits[other], self.runs[other], confidence=half)),
        )

    @property
    def reached(self) -> float:
        """The lower bound on the claim's number."""
        fpr, fnr = self.rates
        return float(self.claim.reached(np.array(fpr), np.array(fnr)))

    @property
    def refuted(self) -> bool:
        """Whether the claim is false, at the stated confidence."""
        return refutes(self.claim, self.reached)

    def recount(self) -> tuple[int, int]:
        """The hits, counted again from the samples."""
        left, right = (int(self.event.holds(side).sum()) for side in (self.samples.left, self.samples.right))
        return left, right

    def __str__(self) -> str:
        verdict = "refuted" if self.refuted else "not refuted"
        left, right = (f"{hit} of {run}" for hit, run in zip(self.hits, self.runs, strict=True))
        return (
            f"{self.claim}: {verdict} at confidence {self.confidence:g}; "
            f"{self.claim.unit} is at least {self.reached:.4g}\n"
            f"  inputs: {self.twins.why}\n"
            f"  event: {self.event}; seen {left} times on the left, {right} on the right"
        )
