"""The game: run a mechanism on neighbouring inputs, learn an event, and test the claim on runs not yet looked at.

Three disjoint parts of the runs do three things: the first teaches scores, the second chooses score, threshold and
order of the inputs, the third is counted once. So the final bound pays for one event only.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from neartwin.audit.claims import Claim
from neartwin.audit.features import seen
from neartwin.audit.finding import Event, Finding
from neartwin.audit.playing import Mechanism, Transcript, play
from neartwin.audit.proportions import lower_bound, upper_bound
from neartwin.audit.scores import learned
from neartwin.audit.twins import Twins
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

    mechanism: any callable from one input to one output, or `Batched`. Each pair of inputs is played with `search_runs`
    runs a side; the pair where the attacker got furthest is played anew with `runs` runs a side, of which a quarter
    teaches, a quarter chooses and half is counted. With one pair there is no search. Sources: Ding et al. 2018, Bichsel
    et al. 2021, Clopper and Pearson 1934.

    >>> from neartwin.audit.claims import claim_pure
    >>> from neartwin.audit.twins import known
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
        worths = [_searched_worth(mechanism, claim, pair, search_runs, confidence) for pair in candidates]
        best = candidates[int(np.argmax(worths))]
    return examine(play(mechanism, best, runs=runs, workers=workers), claim, confidence=confidence)


def _searched_worth(mechanism: Mechanism, claim: Claim, twins: Twins, runs: int, confidence: float) -> float:
    teach, choose = play(mechanism, twins, runs=runs).split(0.5)
    return _chosen(teach, choose, claim, confidence).worth


def examine(transcript: Transcript, claim: Claim, *, confidence: float = 0.999) -> Finding:
    """The finding from runs already made, by whatever job made them: a quarter teaches, a quarter chooses, half counts.

    The runs must be independent and in no order that depends on their outputs.
    """
    teach, choose, count = transcript.split(0.25, 0.25)
    choice = _chosen(teach, choose, claim, confidence)
    return measured(count, claim, choice.event, swapped=choice.swapped, confidence=confidence)


def measured(transcript: Transcript, claim: Claim, event: Event, *, swapped: bool, confidence: float) -> Finding:
    """The finding for an event fixed before these runs were looked at; swapped: the event is likelier on the left."""
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


def thresholds_of(scores: FloatArray, most: int = _THRESHOLDS) -> FloatArray:
    """At most `most` thresholds among these scores, evenly in rank, the distinct ones if they are few."""
    values = np.unique(scores)
    if len(values) <= most:
        return values
    return np.unique(np.quantile(scores, np.arange(1, most + 1) / (most + 1), method="lower"))


def at_least(scores: FloatArray, thresholds: FloatArray) -> FloatArray:
    """How many scores are at or above each threshold."""
    ordered = np.sort(scores)
    return (len(ordered) - np.searchsorted(ordered, thresholds, side="left")).astype(np.float64)
