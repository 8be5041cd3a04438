"""Fresh randomness from the system and many draws: `make slow`."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from neartwin.mechanisms import (
    AboveThreshold,
    ExponentialMechanism,
    HadamardResponse,
    Neighbours,
    NoisyMax,
    OptimalSelection,
    PermuteAndFlip,
    Quantiles,
    RandomizedResponse,
)
from tests.mechanisms.test_above_threshold import chance
from tests.mechanisms.test_local import hadamard_law, response_law

pytestmark = pytest.mark.slow
ONE = Fraction(1)
PEOPLE = 2_000_000


def fits(seen, law):
    return bool(chisquare(seen, np.asarray(law) / np.sum(law) * np.sum(seen)).pvalue > 1e-9)


@pytest.mark.parametrize("kind", [PermuteAndFlip, ExponentialMechanism, NoisyMax])
def test_winners(kind):
    scores = np.array([12, 11, 9, 0])
    right, wrong = (kind(scale=scale, epsilon=ONE) for scale in (Fraction(2), Fraction(17, 8)))
    seen = np.bincount([right.choose(scores) for _ in range(200_000)], minlength=4)
    assert fits(seen, right.pmf(scores))
    assert not fits(seen, wrong.pmf(scores))


def test_local_reports():
    for epsilon, fit in ((ONE, True), (Fraction(51, 50), False)):
        response, law = (RandomizedResponse(epsilon=e, answers=4) for e in (ONE, epsilon))
        seen = np.bincount(response.report(np.full(PEOPLE, 2)), minlength=4)
        assert fits(seen, response_law(law, 2)) is fit
        right, law = (HadamardResponse(epsilon=e, answers=5) for e in (ONE, epsilon))
        reports = right.report(np.full(PEOPLE, 3))
        seen = np.bincount(reports.rows * 2 + ~reports.signs, minlength=2 * right.order)
        assert fits(seen, hadamard_law(law, 3)) is fit


def test_kept_groups():
    selection = OptimalSelection(epsilon=ONE, delta=Fraction(1, 1000))
    kept = selection.keeps(np.full(PEOPLE, 6)).sum()
    for units, fit in ((6, True), (7, False)):
        p = float(selection.keep_probability(units))
        assert fits([kept, PEOPLE - kept], [p, 1 - p]) is fit


def test_sessions_and_quantiles():
    plan, answers = AboveThreshold.calibrated(epsilon=2 * ONE, sensitivity=1, monotone=False), [-3, -2, 0, 2]
    stopped = []
    for _ in range(30_000):
        session = plan.start(threshold=0)
        stopped.append(next((i for i, answer in enumerate(answers) if session.ask(answer) is not None), 4))
    law = [chance(plan, answers[: i + 1]) for i in range(4)]
    assert fits(np.bincount(stopped, minlength=5), [*law, 1 - sum(law)])
    median = Quantiles.at("1/2", epsilon=3 * ONE, low=0, high=6, neighbours=Neighbours.ADD_REMOVE)
    values = np.array([0, 2, 2, 5, 6])
    assert fits(np.bincount([median.choose(values)[0] for _ in range(30_000)], minlength=7), median.pmf(values))
