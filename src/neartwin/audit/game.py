"""The game: run a mechanism on neighbouring inputs, learn an event, and test the claim on fresh runs.

Three disjoint parts of the runs do three things. The first teaches scores. The second chooses score, threshold and order of the
inputs. The third is counted once. So the final bound pays for one event only.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from neartwin.audit.claims import Claim
from neartwin.audit.confidence import Event, Finding, lower_bound, upper_bound
from neartwin.audit.likelihood_scores import learned, seen
from neartwin.audit.neighbouring_inputs import Twins
from neartwin.audit.runs import Mechanism, Transcript, play
from neartwin.checks import integer, open_probability
from neartwin.errors import ParameterError
from neartwin.exact import FloatArray

_THRESHOLDS = 64


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
