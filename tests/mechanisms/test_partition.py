import math
from fractions import Fraction

import numpy as np
import pytest

from neartwin import noise
from neartwin.errors import ParameterError
from neartwin.mechanisms.selection.thresholds import GaussianThreshold, OptimalSelection, UnitThreshold
from tests.oracles import pairs

EPSILON, DELTA = Fraction(1), Fraction(1, 10**5)


def lowered(selection, by):
    return type(selection)(counts=selection.counts, threshold=selection.threshold - by, delta=selection.delta)


def make(kind, k):
    if kind is UnitThreshold:
        return kind.calibrated(epsilon=EPSILON, delta=DELTA, sensitivity=k, groups_per_unit=k)
    return kind.calibrated(mu=Fraction(1), delta=DELTA, l2_squared=k, groups_per_unit=k)


@pytest.mark.parametrize("k", [1, 3, 100])
@pytest.mark.parametrize("kind", [UnitThreshold, GaussianThreshold])
def test_threshold_keeps_groups_of_one_unit_within_delta_and_is_the_least(kind, k):
    selection = make(kind, k)
    alone = float(selection.keep_probability(np.array([1]))[0])
    assert k * alone <= float(DELTA) * (1 + 1e-12)
    assert k * float(lowered(selection, 1).keep_probability(np.array([1]))[0]) > float(DELTA)


@pytest.mark.parametrize("kind", [UnitThreshold, GaussianThreshold])
def test_keep_probabilities_follow_the_noise(kind):
    selection = make(kind, 1)
    x = np.arange(-300, 301)
    mass = selection.counts.law.pmf(x)
    for units in (1, 5, selection.threshold, 40):
        exact = mass[units + x >= selection.threshold].sum()
        assert selection.keep_probability(np.array([units]))[0] == pytest.approx(exact, rel=1e-9)


def outcome_law(selection, counts):
    """All keep patterns of independent groups; a group that does not exist is never kept."""
    law = np.ones(1)
    for units in counts:
        p = float(selection.keep_probability(np.array([units]))[0]) if units else 0.0
        law = np.multiply.outer(law, np.array([1 - p, p])).ravel()
    return law


@pytest.mark.parametrize(
    ("here", "there"), [([13, 1], [13, 0]), ([13, 1, 0], [13, 0, 1])], ids=["add/remove", "replace"]
)
def test_threshold_selection_is_private_with_its_delta_and_not_without(here, there):
    selection = make(UnitThreshold, 1)
    P, Q = outcome_law(selection, here), outcome_law(selection, there)
    for a, b in ((P, Q), (Q, P)):
        assert pairs.delta(a, b, 1.0) <= float(DELTA)
    assert pairs.largest_loss(P, Q) == math.inf  # a threshold without its delta is not private
    low = outcome_law(lowered(selection, 3), here), outcome_law(lowered(selection, 3), there)
    assert pairs.delta(*low, 1.0) > float(DELTA)


def test_a_count_that_moves_by_one_stays_within_epsilon():
    selection = make(UnitThreshold, 1)
    for units in range(1, 30):
        P, Q = outcome_law(selection, [units]), outcome_law(selection, [units + 1])
        assert pairs.largest_loss(P, Q) <= 1 + 1e-9


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 20), Fraction(4)])
def test_optimal_selection_is_exactly_private_and_tight_at_every_count(epsilon):
    """Rational arithmetic, against a rational e^epsilon above the truth; the slack is that of the rounding to 2^-256."""
    selection = OptimalSelection(epsilon=epsilon, delta=DELTA)
    growth = Fraction(math.exp(float(epsilon))) * (1 + Fraction(1, 10**12))
    shrink = Fraction(math.exp(float(epsilon))) * (1 - Fraction(1, 10**12))
    for n in range(selection.sure + 2):
        a, b = selection.keep_probability(n), selection.keep_probability(n + 1)
        for p, q in ((a, b), (b, a), (1 - a, 1 - b), (1 - b, 1 - a)):
            assert p <= growth * q + DELTA
        tight = b - shrink * a >= DELTA * (1 - Fraction(1, 10**9)) or (1 - a) - shrink * (1 - b) >= DELTA * Fraction(
            99, 100
        )
        assert tight or b == 1
    assert selection.keep_probability(0) == 0
    assert selection.keep_probability(selection.sure) == 1


def test_optimal_selection_follows_the_published_recursion():
    selection = OptimalSelection(epsilon=Fraction(1), delta=DELTA)
    pi, e, d = 0.0, math.e, 1e-5
    for n in range(20):
        assert float(selection.keep_probability(n)) == pytest.approx(pi, rel=1e-12)
        pi = min(e * pi + d, 1 - (1 - pi - d) / e, 1.0)


@pytest.mark.parametrize("epsilon", ["1/1000", "0.3", "2", "40", "900"])
@pytest.mark.parametrize("delta", ["1e-12", "1e-5", "0.4"])
def test_missed_groups_in_closed_form_are_those_of_the_table(epsilon, delta):
    selection = OptimalSelection(epsilon=Fraction(epsilon), delta=Fraction(delta))
    kept = selection.keep_probabilities(np.arange(1, selection.sure + 1))
    assert selection.missed == pytest.approx((1 - kept).sum(), rel=1e-9)


def test_optimal_selection_keeps_more_than_any_threshold():
    optimal, rival = OptimalSelection(epsilon=EPSILON, delta=DELTA), make(UnitThreshold, 1)
    units = np.arange(1, 40)
    assert (optimal.keep_probabilities(units) >= rival.keep_probability(units) - 1e-12).all()
    assert optimal.keep_probabilities(units)[11] > rival.keep_probability(units)[11] + 0.2  # 12 units: 0.76 against 0.5


def test_selection_keeps_groups_as_often_as_stated_for_their_count():
    for selection in (
        make(UnitThreshold, 1),
        make(GaussianThreshold, 1),
        OptimalSelection(epsilon=EPSILON, delta=DELTA),
    ):
        law = getattr(selection, "keep_probabilities", None) or selection.keep_probability
        middle = int(np.searchsorted(law(np.arange(40)), 0.4))
        units = np.array([1, middle - 1, middle, middle + 1, 500])
        drawn = selection.keeps(np.repeat(units, 4000), source=noise.ScriptedSource(b"kept"))
        kept = drawn.reshape(5, 4000).mean(axis=1)
        assert np.abs(kept - law(units)).max() < 0.04
        assert np.abs(kept - law(units + 1)).max() > 0.04


def test_a_delta_below_the_range_of_floats_is_certified_or_refused():
    tiny = Fraction(1, 10**400)
    made = UnitThreshold.calibrated(epsilon=EPSILON, delta=tiny, sensitivity=1, groups_per_unit=1)
    assert math.isclose(made.threshold, 400 * math.log(10), rel_tol=0.01)
    with pytest.raises(ParameterError):
        GaussianThreshold.calibrated(mu=Fraction(1), delta=tiny, l2_squared=1, groups_per_unit=1)
