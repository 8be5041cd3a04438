"""The game: run a mechanism on neighbouring inputs, learn an event, and test the claim on fresh runs.

Three disjoint parts of the runs do three things. The first teaches scores. The second chooses score, threshold and order of the
inputs. The third is counted once. So the final bound pays for one event only.

The bounds on the probability of an event, from how often it was seen, are those of Clopper and Pearson (1934). They are valid for
every number of runs and every true probability: no normal approximation. A finding is a claim refuted by these inputs and this
event, or not refuted and how far the attacker got.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from neartwin import special
from neartwin.audit.claims import Claim, refutes
from neartwin.audit.likelihood_scores import Score, learned, seen
from neartwin.audit.neighbouring_inputs import Twins
from neartwin.audit.runs import Mechanism, Outputs, Transcript, play
from neartwin.checks import integer, open_probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray, Number, rational

_THRESHOLDS = 64
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


@dataclass(frozen=True, slots=True)
class _Choice:
    worth: float
    event: Event
    swapped: bool


def audit(
    mechanism: Mechanism,
    claim: Claim,
    twins: Iterable[Twins],
    *,
    runs: int = 40_000,
    search_runs: int = 2_000,
    confidence: float = 0.999,
    workers: int = 1,
) -> Finding:
    """Try to refute the claim; the strongest attempt as a finding.

    Each pair of inputs is played with `search_runs` runs a side. The best pair for the attacker is played anew with `runs` runs
    a side: a quarter teaches, a quarter chooses and half is counted. With one pair there is no search. Sources: Ding et al.
    2018, Bichsel et al. 2021, Clopper and Pearson 1934.

    Args:
        mechanism: A callable from one input to one output, or `Batched`.
        claim: The claim.
        twins: Pairs of neighbouring inputs, at least one.
        runs: Runs a side of the final game, at least 8.
        search_runs: Runs a side of the search, at least 8.
        confidence: The confidence of the finding.
        workers: Processes that run side by side.

    Raises:
        ParameterError: There is no pair of inputs.

    >>> from neartwin.audit.claims import claim_pure
    >>> from neartwin.audit.neighbouring_inputs import known
    >>> leak = audit(lambda bit: bit, claim_pure(1), known((0, 1)), runs=200)
    >>> leak.refuted, leak.hits in ((0, 100), (100, 0)) or leak.hits
    (True, True)
    """
    open_probability(confidence=confidence)
    integer(runs=runs, at_least=8)
    candidates = list(twins)
    if not candidates:
        raise ParameterError("twins", candidates, "must hold at least one pair of inputs")
    best = candidates[0]
    if len(candidates) > 1:
        integer(search_runs=search_runs, at_least=8)
        halves = (play(mechanism, pair, runs=search_runs).split(0.5) for pair in candidates)
        worths = [_chosen(teach, choose, claim, confidence).worth for teach, choose in halves]
        best = candidates[int(np.argmax(worths))]
    return examine(play(mechanism, best, runs=runs, workers=workers), claim, confidence=confidence)


def examine(transcript: Transcript, claim: Claim, *, confidence: float = 0.999) -> Finding:
    """The finding from a transcript: a quarter of the runs teaches the attacker, a quarter chooses its event, half counts.

    Args:
        transcript: Independent runs, in no order that depends on their outputs.
        claim: The claim.
        confidence: The confidence of the finding.

    Returns:
        The finding.
    """
    teach, choose, count = transcript.split(0.25, 0.25)
    choice = _chosen(teach, choose, claim, confidence)
    return measured(count, claim, choice.event, swapped=choice.swapped, confidence=confidence)


def measured(transcript: Transcript, claim: Claim, event: Event, *, swapped: bool, confidence: float) -> Finding:
    """The finding for an event that was fixed before these runs were seen.

    Args:
        transcript: The runs.
        claim: The claim.
        event: The event.
        swapped: Whether the event is likelier on the left.
        confidence: The confidence of the finding.

    Returns:
        The finding.
    """
    return Finding(
        claim=claim,
        event=event,
        swapped=swapped,
        hits=(int(event.holds(transcript.left).sum()), int(event.holds(transcript.right).sum())),
        runs=(len(transcript.left), len(transcript.right)),
        confidence=confidence,
        samples=transcript,
    )


def _chosen(teach: Transcript, choose: Transcript, claim: Claim, confidence: float) -> _Choice:
    scores = learned(seen(teach.left), seen(teach.right))
    left, right = seen(choose.left), seen(choose.right)
    # as cautious as if every candidate were counted at once, so that rare events do not win by luck
    cautious = 1 - (1 - confidence) / (2 * _THRESHOLDS * len(scores))
    best: _Choice | None = None
    for score, swapped in itertools.product(scores, (False, True)):
        directed = score.turned() if swapped else score
        null, other = (right, left) if swapped else (left, right)
        worths, thresholds = _worths(directed(null), directed(other), claim, cautious)
        at = int(np.argmax(worths))
        if best is None or worths[at] > best.worth:
            best = _Choice(float(worths[at]), Event(directed, float(thresholds[at])), swapped)
    assert best is not None  # noqa: S101 - `learned` always returns scores
    return best


def _worths(null: FloatArray, other: FloatArray, claim: Claim, confidence: float) -> tuple[FloatArray, FloatArray]:
    """The bound that each threshold would reach on these runs, cautious as the final one is."""
    thresholds = thresholds_of(np.concatenate([null, other]))
    half = (1 + confidence) / 2
    false_alarms = upper_bound(at_least(null, thresholds), len(null), confidence=half)
    misses = 1 - lower_bound(at_least(other, thresholds), len(other), confidence=half)
    return claim.reached(false_alarms, misses), thresholds


def thresholds_of(scores: FloatArray) -> FloatArray:
    """Thresholds among these scores, evenly in rank; all distinct scores if they are few.

    Args:
        scores: (n,) scores.

    Returns:
        The thresholds, ascending.
    """
    values = np.unique(scores)
    if len(values) <= _THRESHOLDS:
        return values
    return np.unique(np.quantile(scores, np.arange(1, _THRESHOLDS + 1) / (_THRESHOLDS + 1), method="lower"))


def at_least(scores: FloatArray, thresholds: FloatArray) -> FloatArray:
    """The number of scores at or above each threshold.

    Args:
        scores: (n,) scores.
        thresholds: (k,) thresholds.

    Returns:
        (k,) numbers.
    """
    ordered = np.sort(scores)
    return (len(ordered) - np.searchsorted(ordered, thresholds, side="left")).astype(np.float64)
