import copy
import math
import os
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from neartwin import noise
from neartwin.errors import ParameterError, PrivacyError
from neartwin.mechanisms.noise_laws import DiscreteLaplaceLaw
from neartwin.mechanisms.selection.sparse_vector import AboveThreshold

REACH = 160
X = np.arange(-REACH, REACH + 1)


def at_least(law, away):
    """P(noise >= away) on the lattice."""
    tail = np.array([law.beyond(int(t)) / 2 for t in range(3 * REACH)])  # P(noise > t), t >= 0
    positive = tail[np.clip(away - 1, 0, 3 * REACH - 1)]
    return np.where(away > 0, positive, 1 - tail[np.clip(-away, 0, 3 * REACH - 1)])


def chance(plan, answers, threshold=0, gap=None):
    """P(every answer but the last is below, the last above), or above with exactly this gap; summed over the threshold."""
    mass, law = DiscreteLaplaceLaw(plan.threshold_scale).pmf(X), DiscreteLaplaceLaw(plan.answer_scale)
    product = mass.copy()
    for answer in answers[:-1]:
        product = product * (1 - at_least(law, threshold + X - answer))
    away = threshold + X - answers[-1]
    last = at_least(law, away) if gap is None else law.pmf(away + gap)
    return float((product * last).sum())


ANSWERS = [[-9, -9, -9, 9], [0, 0, 0, 0], [3, -2, 5, 1], [9, 9, 9, -9]]


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("gap", [None, 0, 3])
def test_a_session_is_private_between_neighbours_gap_included(monotone, gap):
    plan = AboveThreshold.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=monotone)
    moves = [[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 1]] if monotone else [[1, 1, 1, -1], [-1, -1, -1, 1], [1, -1, 1, -1]]
    worst = 0.0
    for answers in ANSWERS:
        for move in moves:
            other = [a + m for a, m in zip(answers, move, strict=True)]
            worst = max(worst, abs(math.log(chance(plan, answers, gap=gap) / chance(plan, other, gap=gap))))
    assert plan.epsilon == 1
    assert worst <= 1 + 1e-9


def transcript(plan, answers, told):
    """P(this transcript): None for below, else the gap of an answer above; a sum over the threshold's noise."""
    mass, law = DiscreteLaplaceLaw(plan.threshold_scale).pmf(X), DiscreteLaplaceLaw(plan.answer_scale)
    product = mass.copy()
    for answer, gap in zip(answers, told, strict=True):
        away = X - answer
        product = product * (1 - at_least(law, away) if gap is None else law.pmf(away + gap))
    return float(product.sum())


TOLD = [[None, 0, None, 0], [0, None, 2, None, 5], [None] * 6 + [0, 0], [1, 1]]


def worst_of_transcripts(plan, monotone):
    worst = 0.0
    for told in TOLD:
        here = [0 if gap is None else 1 for gap in told]
        apart = [1 if gap is None else -1 for gap in told]
        for move in (
            [1] * len(told),
            [1 if gap is None else 0 for gap in told],
            [0 if gap is None else 1 for gap in told],
        ) + (() if monotone else (apart, [-m for m in apart])):
            there = [a + m for a, m in zip(here, move, strict=True)]
            worst = max(worst, abs(math.log(transcript(plan, here, told) / transcript(plan, there, told))))
    return worst


@pytest.mark.parametrize("monotone", [True, False])
def test_session_of_several_above_is_private_and_with_noise_for_one_is_not(monotone):
    plan = AboveThreshold.for_several(epsilon=Fraction(1), sensitivity=1, monotone=monotone, most_above=2)
    assert plan.epsilon == 1
    assert 0.6 < worst_of_transcripts(plan, monotone) <= 1 + 1e-9
    wrong = AboveThreshold.calibrated(
        epsilon=Fraction(1), sensitivity=1, monotone=monotone
    )  # the noise for one "above"
    assert worst_of_transcripts(wrong, monotone) > 1.2
    assert replace(wrong, most_above=2).epsilon == Fraction(3, 2)  # and its price says so


def test_a_session_ends_with_its_last_above():
    plan = AboveThreshold.for_several(epsilon=Fraction(500), sensitivity=1, monotone=False, most_above=3)
    session = plan.start(threshold=100)
    told = [session.ask(answer) is not None for answer in (0, 200, 0, 300, 0, 400)]
    assert told == [False, True, False, True, False, True]
    assert (session.left, session.is_over) == (0, True)
    with pytest.raises(PrivacyError, match="over"):
        session.ask(0)
    with pytest.raises(ParameterError):
        AboveThreshold.for_several(epsilon=Fraction(1), sensitivity=1, monotone=False, most_above=0)


def test_the_share_of_the_threshold_is_the_best_one_for_a_comparison():
    plan = AboveThreshold.for_several(epsilon=Fraction(1), sensitivity=1, monotone=False, most_above=10)
    half = AboveThreshold(
        threshold_scale=Fraction(2), answer_scale=Fraction(40), sensitivity=1, monotone=False, most_above=10
    )
    assert half.epsilon == plan.epsilon
    spread = {each: float(each.threshold_scale**2 + each.answer_scale**2) for each in (plan, half)}
    assert spread[plan] < 0.4 * spread[half]
    for other in (Fraction(7, 8), Fraction(9, 8)):  # a little more or less on the threshold is no better
        shifted = plan.threshold_scale * other
        rest = 20 / (1 - 1 / shifted)
        assert float(shifted**2 + rest**2) > spread[plan]


def test_above_threshold_scales_follow_the_theorem():
    general, monotone = (
        AboveThreshold.calibrated(epsilon=Fraction(1), sensitivity=3, monotone=m) for m in (False, True)
    )
    assert (general.threshold_scale, general.answer_scale) == (6, 12)
    assert (monotone.threshold_scale, monotone.answer_scale) == (6, 6)


def test_monotone_noise_is_refuted_for_answers_that_move_apart():
    plan = AboveThreshold.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=True)
    loss = math.log(chance(plan, [-30] * 40 + [30]) / chance(plan, [-31] * 40 + [31]))
    apart = [0] * 40 + [0], [1] * 40 + [-1]
    worst = max(abs(loss), abs(math.log(chance(plan, apart[0]) / chance(plan, apart[1]))))
    assert worst > 1.02


def broken_no_answer_noise(answers, said, epsilon):
    """Stoddard, Chen, Machanavajjhala 2014: the threshold alone is noised."""
    mass = DiscreteLaplaceLaw(Fraction(2) / epsilon).pmf(X)
    inside = np.ones(X.size, bool)
    for answer, above in zip(answers, said, strict=True):
        inside &= (answer >= X) == above
    return float(mass[inside].sum())


def broken_unbounded_count(answers, said, epsilon):
    """Chen, Xiao, Zhang, Xu 2015: any number of "above" with noise that does not grow with it."""
    half = Fraction(2) / epsilon
    law, product = DiscreteLaplaceLaw(half), DiscreteLaplaceLaw(half).pmf(X)
    for answer, above in zip(answers, said, strict=True):
        up = at_least(law, X - answer)
        product = product * (up if above else 1 - up)
    return float(product.sum())


def broken_release_of_answer(answers, values, epsilon):
    """Dwork, Roth lecture notes, and Hardt 2011: "above" comes with the very noisy answer that was compared."""
    mass, law = DiscreteLaplaceLaw(Fraction(2) / epsilon).pmf(X), DiscreteLaplaceLaw(Fraction(2) / epsilon)
    product = mass.copy()
    for answer, value in zip(answers, values, strict=True):
        if value is None:
            product = product * (1 - at_least(law, X - answer))
        else:
            product = product * np.where(value >= X, law.pmf(np.array([value - answer])), 0.0)
    return float(product.sum())


def broken_noise_too_small(answers, said, epsilon):
    """Lee, Clifton 2014: noise for one "above" used for c of them."""
    threshold, each = Fraction(4) / epsilon, Fraction(4, 3) / epsilon
    law, product = DiscreteLaplaceLaw(each), DiscreteLaplaceLaw(threshold).pmf(X)
    for answer, above in zip(answers, said, strict=True):
        up = at_least(law, X - answer)
        product = product * (up if above else 1 - up)
    return float(product.sum())


def test_the_four_published_broken_variants_are_refuted():
    epsilon = Fraction(1)
    # one answer rises and one falls: without answer noise the pair (below, above) becomes impossible
    possible = broken_no_answer_noise([0, 1], [False, True], epsilon)
    assert possible > 0
    assert broken_no_answer_noise([1, 0], [False, True], epsilon) == 0
    many = 20
    said = [False] * many + [True] * many
    there, back = [0] * many + [1] * many, [1] * many + [0] * many
    loss = math.log(broken_unbounded_count(there, said, epsilon) / broken_unbounded_count(back, said, epsilon))
    assert loss > 3
    # "below" forty times, then the released value 0 proves the noisy threshold to be at most 0
    values = [None] * 40 + [0]
    loss = math.log(
        broken_release_of_answer([0] * 40 + [-1], values, epsilon)
        / broken_release_of_answer([1] * 40 + [0], values, epsilon)
    )
    assert abs(loss) > 3
    said = [False] * 30 + [True] * 3
    loss = math.log(
        broken_noise_too_small([0] * 30 + [1] * 3, said, epsilon)
        / broken_noise_too_small([1] * 30 + [0] * 3, said, epsilon)
    )
    assert loss > 1.5


@pytest.mark.slow
def test_a_session_says_what_its_law_says():
    plan = AboveThreshold.calibrated(epsilon=Fraction(2), sensitivity=1, monotone=False)
    source, answers = noise.ScriptedSource(b"session"), [-3, -2, 0, 2]
    stopped = []
    for _ in range(3000):
        session = plan.start(threshold=0, source=source)
        stopped.append(next((i for i, answer in enumerate(answers) if session.ask(answer) is not None), 4))
    seen = np.bincount(stopped, minlength=5)[:4] / 3000
    expected = np.array([chance(plan, answers[: i + 1]) for i in range(4)])
    assert np.abs(seen - expected).max() < 0.04
    shifted = np.array([chance(plan, [a + 3 for a in answers[: i + 1]]) for i in range(4)])
    assert np.abs(seen - shifted).max() > 0.04


def over():
    session = AboveThreshold.calibrated(epsilon=Fraction(50), sensitivity=1, monotone=False).start(threshold=100)
    assert session.ask(0) is None
    assert not session.is_over
    assert session.ask(200) == pytest.approx(100, abs=10)
    assert session.is_over
    return session


def test_a_session_cannot_be_used_again():
    session = over()
    for reuse in (
        lambda: session.ask(0),
        lambda: copy.copy(session),
        lambda: copy.deepcopy(session),
        lambda: pickle.dumps(session),
    ):
        with pytest.raises(PrivacyError):
            reuse()


def test_a_session_does_not_survive_a_fork():
    session = AboveThreshold.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=False).start(threshold=100)
    child = os.fork()
    if child == 0:
        try:
            session.ask(0)
        except PrivacyError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert session.ask(-10_000) is None  # the parent's session goes on


def test_the_error_bar_holds_for_all_answers_together():
    plan = AboveThreshold.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=False)
    width, source = plan.half_width(0.9, 20), noise.ScriptedSource(b"width")
    wrong = 0
    for _ in range(400):
        session = plan.start(threshold=0, source=source)
        for _ in range(20):
            if session.ask(-width - 1) is not None:
                wrong += 1
                break
    assert wrong / 400 <= 0.1 + 0.06
