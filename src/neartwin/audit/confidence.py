"""Bounds on the probability of an event from how often it was seen (Clopper-Pearson), and the finding of an audit.

The bounds are valid for every number of runs and every true probability: no normal approximation. Clopper and Pearson 1934.
A finding is a claim refuted by these inputs and this event, or not refuted and how far the attacker got.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neartwin import special
from neartwin.audit.claims import Claim, refutes
from neartwin.audit.likelihood_scores import Score, seen
from neartwin.audit.neighbouring_inputs import Twins
from neartwin.audit.runs import Outputs, Transcript
from neartwin.checks import open_probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, rational

_SLACK = 5e-13  # covers the error of the incomplete beta function's inverse


def failure_of(confidence: Number) -> float:
    """1 - confidence, taken exactly from the decimals that were written.

    >>> failure_of(0.975)
    0.025
    """
    return float(1 - open_probability(confidence=rational(confidence=confidence)))


def lower_bound(hits: ArrayLike, runs: ArrayLike, *, confidence: Number) -> FloatArray:
    """A lower bound on a probability, wrong with probability at most 1 - confidence. Rounded down.

    Only the hits are random: a binomial draw of `runs` independent trials.

    Args:
        hits: Whole numbers, 0 <= hits <= runs.
        runs: Whole numbers, at least 1, broadcast with hits.
        confidence: The one-sided confidence, in (0, 1).

    Returns:
        Bounds of the broadcast shape.

    Source:
        Clopper, Pearson 1934.

    >>> float(lower_bound(95, 100, confidence=0.975))
    0.887165088894...
    >>> float(lower_bound(0, 100, confidence=0.975))
    0.0
    """
    seen, tried = _counts(hits, runs)
    failure = failure_of(confidence)
    some = np.maximum(seen, 1)
    bound = special.betaincinv(some, tried - some + 1, failure) * (1 - _SLACK)
    return np.asarray(np.where(seen == 0, 0.0, bound))


def upper_bound(hits: ArrayLike, runs: ArrayLike, *, confidence: Number) -> FloatArray:
    """An upper bound on a probability, wrong with probability at most 1 - confidence. Rounded up, never above 1.

    Args:
        hits: Whole numbers, 0 <= hits <= runs.
        runs: Whole numbers, at least 1, broadcast with hits.
        confidence: The one-sided confidence, in (0, 1).

    Returns:
        Bounds of the broadcast shape.

    Source:
        Clopper, Pearson 1934.

    >>> float(upper_bound(3, 1000, confidence=0.975))
    0.00874202323848...
    >>> float(upper_bound(100, 100, confidence=0.975))
    1.0
    """
    seen, tried = _counts(hits, runs)
    failure = failure_of(confidence)
    some = np.minimum(seen, tried - 1)
    bound = special.betainccinv(some + 1, tried - some, failure) * (1 + _SLACK)
    return np.asarray(np.where(seen == tried, 1.0, np.minimum(bound, 1.0)))


def _counts(hits: ArrayLike, runs: ArrayLike) -> tuple[FloatArray, FloatArray]:
    seen, tried = np.broadcast_arrays(np.asarray(hits, np.float64), np.asarray(runs, np.float64))
    if not np.all((seen == np.floor(seen)) & (tried == np.floor(tried))):
        raise ParameterError("hits", hits, "and runs must be whole numbers")
    if not np.all((tried >= 1) & (seen >= 0) & (seen <= tried)):
        raise ParameterError("hits", hits, f"must lie between 0 and runs={runs!r}, and runs be at least 1")
    return seen, tried


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

    The event was fixed on other runs than those counted here. `reached` is a lower bound, with probability at least `confidence`
    over the counted runs, on the number of the claim (`claim.unit`).

    Attributes:
        claim: The claim.
        event: The event.
        swapped: Whether the event is likelier on the left.
        hits: How often it happened, left and right.
        runs: The number of runs, left and right.
        confidence: The confidence of `reached`.
        samples: The counted outputs, from which `recount` gives the four counts again.
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
