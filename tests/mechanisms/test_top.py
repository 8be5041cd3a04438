import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from neartwin import noise
from neartwin.errors import ParameterError
from neartwin.mechanisms.selection.top_k import JointTop, PeeledTop
from tests.oracles import pairs


def joint_law(scores, count, scale):
    """Over all ordered tuples, by the definition: exp(-max_i (c_(i) - c_{s_i}) / scale)."""
    best = np.sort(scores)[::-1]
    tuples = list(itertools.permutations(range(len(scores)), count))
    losses = np.array([max(best[i] - scores[s[i]] for i in range(count)) for s in tuples])
    weight = np.exp(-losses / float(scale))
    return tuples, weight / weight.sum()


def test_joint_top_has_the_exponential_law_of_tuples_and_not_of_peeling():
    scores, mechanism = np.array([9, 7, 7, 2]), JointTop(scale=Fraction(2), epsilon=Fraction(1), count=2)
    tuples, law = joint_law(scores, 2, mechanism.scale)
    source = noise.ScriptedSource(b"joint")
    drawn = [tuple(mechanism.choose(scores, source=source)) for _ in range(1500)]
    seen = np.array([drawn.count(each) for each in tuples])
    assert seen.sum() == 1500
    assert chisquare(seen, law * 1500).pvalue > 1e-9
    peeled = PeeledTop.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=True, count=2)
    other = [tuple(peeled.choose(scores, source=source)) for _ in range(1500)]
    assert chisquare([other.count(each) for each in tuples], law * 1500).pvalue < 1e-9


@pytest.mark.parametrize("monotone", [True, False])
def test_joint_top_is_private_between_all_neighbours(monotone):
    mechanism = JointTop.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=monotone, count=2)
    worst = 0.0
    for scores in (np.array([5, 5, 5]), np.array([7, 4, 0]), np.array([3, 2, 2])):
        law = joint_law(scores, 2, mechanism.scale)[1]
        for other in pairs.neighbours_of_scores(scores, 1, monotone=monotone):
            worst = max(worst, pairs.largest_loss(law, joint_law(other, 2, mechanism.scale)[1]))
    assert worst <= 1 + 1e-9


def test_half_the_joint_scale_is_refuted():
    scale = JointTop.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=False, count=2).scale / 2
    worst = max(
        pairs.largest_loss(joint_law(np.array([9, 5, 0]), 2, scale)[1], joint_law(other, 2, scale)[1])
        for other in pairs.neighbours_of_scores([9, 5, 0], 1, monotone=False)
    )
    assert worst > 1.05


def test_peeling_shares_its_epsilon_and_names_each_candidate_once():
    mechanism = PeeledTop.calibrated(epsilon=Fraction(6), sensitivity=1, monotone=True, count=3)
    assert (mechanism.each.epsilon, mechanism.epsilon) == (2, 6)
    scores = np.array([100, 300, 200, 0])
    assert mechanism.choose(scores) == [1, 2, 0]
    with pytest.raises(ParameterError):
        mechanism.choose(np.array([1, 2]))
    with pytest.raises(ParameterError):
        JointTop.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=True, count=3).choose(np.array([1, 2]))
