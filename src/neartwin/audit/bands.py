"""A whole-curve band: how well an attacker does at every false-alarm rate at once, with confidence, against a claim.

One score, learned on other runs, at several thresholds fixed on other runs: each threshold's two rates get
Clopper-Pearson bounds at an equal share of the failure probability, so that all hold together. The mechanism's true
trade-off curve lies on or below the lower convex hull of these points and (0, 1), (1, 0), as it is convex.
"""

from dataclasses import dataclass

import numpy as np

from neartwin.audit.claims import Claim, refutes
from neartwin.audit.features import seen
from neartwin.audit.game import at_least, thresholds_of
from neartwin.audit.playing import Transcript
from neartwin.audit.proportions import lower_bound, upper_bound
from neartwin.audit.scores import Score, learned
from neartwin.checks import integer, open_probability
from neartwin.exact import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBand:
    """Points that the true trade-off curve, of right against left, does not lie above; all together with `confidence`.

    fpr, fnr: (n,), fpr increasing from 0 to 1, fnr decreasing from 1 to 0: the knots of a convex curve.
    """

    fpr: FloatArray
    fnr: FloatArray
    confidence: float
    score: Score

    def ceiling(self, fpr: FloatArray) -> FloatArray:
        """An upper bound on the true curve at any false-alarm rates; (n,) to (n,)."""
        return np.asarray(np.interp(fpr, self.fpr, self.fnr))

    def reached(self, claim: Claim) -> float:
        """The strongest lower bound on the claim's number, over all knots."""
        return float(np.max(claim.reached(self.fpr, self.fnr)))

    def refutes(self, claim: Claim) -> bool:
        """Whether some knot lies below the claimed curve."""
        return refutes(claim, self.reached(claim))

    def delta_reached(self, epsilon: FloatArray) -> FloatArray:
        """A lower bound on delta at each epsilon, of any sign: max over knots of 1 - fnr - e^epsilon fpr."""
        gain = (1 - self.fnr)[:, None] - np.exp(np.asarray(epsilon))[None, :] * self.fpr[:, None]
        return np.asarray(np.maximum(gain.max(axis=0), 0.0))


def band(transcript: Transcript, *, thresholds: int = 40, confidence: float = 0.95, swapped: bool = False) -> ErrorBand:
    """The band from runs already made; half of them choose the score and its thresholds, half are counted.

    swapped: play the right input as the null. The score is the one with the least total error over all thresholds.

    >>> from neartwin.audit.claims import claim_gdp
    >>> from neartwin.audit.twins import Twins
    >>> rng = np.random.default_rng(7)
    >>> runs = Transcript(Twins(0, 1), rng.normal(0, 1, 8000).round(3), rng.normal(1, 1, 8000).round(3))
    >>> found = band(runs)
    >>> found.refutes(claim_gdp(1)), found.refutes(claim_gdp("0.8"))
    (False, True)
    """
    open_probability(confidence=confidence)
    integer(thresholds=thresholds, at_least=1)
    sides = Transcript(transcript.twins, transcript.right, transcript.left) if swapped else transcript
    teach, choose, count = sides.split(0.25, 0.25)
    score, cuts = _chosen(teach, choose, thresholds)
    null, other = score(seen(count.left)), score(seen(count.right))
    share = 1 - (1 - confidence) / (2 * len(cuts))
    alarms = upper_bound(at_least(null, cuts), len(null), confidence=share)
    misses = 1 - lower_bound(at_least(other, cuts), len(other), confidence=share)
    fpr, fnr = _hull(np.concatenate([[0.0, 1.0], alarms]), np.concatenate([[1.0, 0.0], misses]))
    return ErrorBand(fpr=fpr, fnr=fnr, confidence=confidence, score=score)


def _chosen(teach: Transcript, choose: Transcript, thresholds: int) -> tuple[Score, FloatArray]:
    left, right = seen(choose.left), seen(choose.right)
    best: tuple[float, Score, FloatArray] | None = None
    for score in learned(seen(teach.left), seen(teach.right)):
        null, other = score(left), score(right)
        every = np.unique(np.concatenate([null, other]))
        fpr, fnr = at_least(null, every) / len(null), 1 - at_least(other, every) / len(other)
        area = float(np.trapezoid(np.append(0.0, fnr[::-1]), np.append(0.0, fpr[::-1])))
        if best is None or area < best[0]:
            best = area, score, thresholds_of(np.concatenate([null, other]), thresholds)
    assert best is not None  # noqa: S101 - `learned` always returns scores
    return best[1], best[2]


def _hull(fpr: FloatArray, fnr: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lower convex hull of points from (0, 1) to (1, 0), by the monotone chain."""
    order = np.lexsort((fnr, fpr))
    chain: list[tuple[float, float]] = []
    for x, y in zip(fpr[order].tolist(), fnr[order].tolist(), strict=True):
        if chain and x == chain[-1][0]:
            continue  # the lowest point of this abscissa came first
        while len(chain) > 1 and _turns_up(chain[-2], chain[-1], (x, y)):
            chain.pop()
        chain.append((x, y))
    knots = np.array(chain)
    return knots[:, 0], knots[:, 1]


def _turns_up(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])
