"""The sentence that each mechanism states, *this law has these losses*, against exact finite laws and in both orders."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from neartwin import losses
from neartwin.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Staircase
from neartwin.mechanisms.linear.matrix import Histogram, MatrixMechanism, PrefixTree, intervals_tree, of_histogram
from neartwin.mechanisms.local import HadamardResponse, RandomizedResponse, Rappor
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.selection.exponential import ExponentialMechanism, PeeledTop, PermuteAndFlip
from neartwin.mechanisms.selection.noisy_max import NoisyMax
from neartwin.mechanisms.selection.quantiles import Quantiles
from neartwin.mechanisms.selection.sparse_vector import AboveThreshold
from neartwin.mechanisms.selection.thresholds import GaussianThreshold, OptimalSelection, UnitThreshold
from tests.mechanisms.test_above_threshold import chance
from tests.mechanisms.test_local import bits_law, hadamard_law, response_law
from tests.mechanisms.test_partition import outcome_law
from tests.oracles import pairs

pytestmark = pytest.mark.sweep

ALPHAS = np.concatenate([np.geomspace(1e-9, 1e-2, 15), np.linspace(0.02, 0.98, 25)])
X = np.arange(-300, 301)
ADD, REPLACE = Neighbours
ONE = Fraction(1)


def room(claim, P, Q):
    """The least of exact beta less claimed beta over both orders: negative where the claim is false; and the most."""
    claimed = (1 * claim).tradeoff(ALPHAS).lower
    gaps = [pairs.beta(a, b, ALPHAS) - claimed for a, b in ((P, Q), (Q, P))]
    return min(gap.min() for gap in gaps), max(gap.max() for gap in gaps)


def by(law, shift):
    return law.pmf(X), law.pmf(X - shift)


def product(*laws):
    result = np.ones(1)
    for law in laws:
        result = np.multiply.outer(result, law).ravel()
    return result


def small(law, shift, reach=24):
    x = np.arange(-reach, reach + 1)
    return law.pmf(x - shift)


ADDITIVE = {
    "geometric": (DiscreteLaplace(scale=Fraction(3), sensitivity=4), 4),
    "geometric, one step": (DiscreteLaplace(scale=Fraction(3, 2), sensitivity=1), 1),
    "laplace": (Laplace(scale=Fraction(5), sensitivity=4), 4),
    "gaussian": (Gaussian(variance=Fraction(12), l2_squared=9), 3),
    "narrow gaussian": (Gaussian(variance=Fraction(1, 2), l2_squared=1), 1),
    "discrete gaussian": (DiscreteGaussian(variance=Fraction(12), l2_squared=9), 3),
    "narrow discrete gaussian": (DiscreteGaussian(variance=Fraction(1, 8), l2_squared=1), 1),
    "staircase": (Staircase(epsilon=ONE, sensitivity=5, step=2), 5),
}
EXACT = {"geometric": 1e-9, "geometric, one step": 1e-9, "laplace": 0.03, "gaussian": 0.03}


@pytest.mark.parametrize("name", ADDITIVE)
def test_added_noise_has_its_losses_and_half_the_noise_has_not(name):
    mechanism, shift = ADDITIVE[name]
    least, most = room(mechanism.losses(), *by(mechanism.law, shift))
    assert least >= -1e-12
    assert most <= EXACT.get(name, 0.7)
    for less in range(1, shift):
        assert room(mechanism.losses(), *by(mechanism.law, less))[0] >= -1e-12
    if name.endswith("discrete gaussian"):
        wrong = DiscreteGaussian(variance=mechanism.variance / 4, l2_squared=mechanism.l2_squared)
    elif "gaussian" in name:
        wrong = Gaussian(variance=mechanism.variance / 4, l2_squared=mechanism.l2_squared)
    elif name == "staircase":
        wrong = Staircase(epsilon=2 * ONE, sensitivity=5, step=2)
    else:
        wrong = type(mechanism)(scale=mechanism.scale / 2, sensitivity=mechanism.sensitivity)
    assert room(mechanism.losses(), *by(wrong.law, shift))[0] < -1e-3


@pytest.mark.parametrize("name", ["geometric", "laplace", "gaussian"])
def test_vectors_have_the_losses_of_their_sensitivity(name):
    mechanism, _ = ADDITIVE[name]
    moves = [(4, 0), (3, 1), (2, -2)] if name != "gaussian" else [(3, 0), (2, 2), (-2, 1)]
    for a, b in moves:
        P = product(small(mechanism.law, 0), small(mechanism.law, 0))
        Q = product(small(mechanism.law, a), small(mechanism.law, b))
        assert room(mechanism.losses(), P, Q)[0] >= -2e-3  # what the two truncated tails hold
    a, b = (3, 3) if name != "gaussian" else (4, 3)
    assert room(mechanism.losses(), P, product(small(mechanism.law, a), small(mechanism.law, b)))[0] < -1e-2


@pytest.mark.slow
def test_large_sensitivities_are_cut_into_legs_on_the_safe_side():
    fine = DiscreteLaplace(scale=Fraction(4000), sensitivity=4000)
    for sensitivity in (4097, 5000, 8191, 10**9 + 7):
        mechanism = DiscreteLaplace(scale=Fraction(sensitivity), sensitivity=sensitivity)
        epsilon, legs = mechanism.legs()
        assert legs <= 4096
        assert 1 <= epsilon <= 1 + Fraction(1, 2000)
    for legs in (10, 400, 4000):  # fewer legs are lower, everywhere, and not by much
        assert fine.legs(legs) == (1, legs)
        coarse = DiscreteLaplace(scale=Fraction(legs), sensitivity=legs).losses()
        gap = fine.losses().tradeoff(ALPHAS).upper - coarse.tradeoff(ALPHAS).lower
        assert gap.min() >= -1e-12
        assert gap.max() <= 1 / legs


def test_gaussian_for_an_approximate_target_is_safe_and_tight():
    for epsilon, delta in (
        (ONE, Fraction(1, 10**5)),
        (10 * ONE, Fraction(1, 10**9)),
        (Fraction(1, 10), Fraction(1, 100)),
    ):
        made = Gaussian.for_approx(epsilon=epsilon, delta=delta, l2_squared=7)
        assert float(made.losses().delta(float(epsilon)).upper) <= float(delta) * (1 + 1e-9)
        slightly = Gaussian(variance=made.variance * Fraction(999, 1000), l2_squared=7)
        assert float(slightly.losses().delta(float(epsilon)).lower) > float(delta)


@pytest.mark.parametrize("kind", [PermuteAndFlip, ExponentialMechanism, NoisyMax])
@pytest.mark.parametrize("monotone", [True, False])
def test_selections_have_their_losses(kind, monotone):
    mechanism = kind.calibrated(epsilon=ONE, sensitivity=1, monotone=monotone)
    for scores in ([5, 5, 5], [7, 4, 0], [3, 2, 2]):
        here = mechanism.pmf(np.array(scores))
        for other in pairs.neighbours_of_scores(scores, 1, monotone=monotone):
            assert room(mechanism.losses(), here, mechanism.pmf(other))[0] >= -1e-9
    wrong = kind.calibrated(epsilon=3 * ONE, sensitivity=1, monotone=monotone)
    move = [1, 0, 0] if monotone else [1, -1, -1]
    assert room(mechanism.losses(), wrong.pmf(np.array([5, 5, 5])), wrong.pmf(np.array([5, 5, 5]) + move))[0] < -1e-3


def test_sessions_have_their_losses_over_all_transcripts():
    plan = AboveThreshold.calibrated(epsilon=ONE, sensitivity=1, monotone=False)

    def law(answers):
        stops = [chance(plan, answers[: i + 1]) for i in range(len(answers))]
        return np.array([*stops, 1 - sum(stops)])

    worst = 1.0
    for answers in itertools.product((-3, 2), repeat=3):
        for move in ((1, 1, -1), (-1, -1, 1), (1, -1, 1), (1, 1, 1)):
            other = [a + m for a, m in zip(answers, move, strict=True)]
            worst = min(worst, room(plan.losses(), law(list(answers)), law(other))[0])
    assert worst >= -1e-9
    assert room(losses.Pure(epsilon="0.2"), law([0, 0, 0]), law([1, 1, -1]))[0] < -1e-2


@pytest.mark.parametrize("kind", [UnitThreshold, GaussianThreshold, OptimalSelection])
@pytest.mark.parametrize("relation", list(Neighbours))
def test_partition_selection_has_its_losses(kind, relation):
    delta = Fraction(1, 1000)
    groups = 1 if relation is ADD else 2
    if kind is UnitThreshold:
        mechanism = kind.calibrated(epsilon=ONE, delta=delta, sensitivity=groups, groups_per_unit=1)
    elif kind is GaussianThreshold:
        mechanism = kind.calibrated(mu=ONE, delta=delta, l2_squared=groups, groups_per_unit=1)
    else:
        mechanism = kind(epsilon=ONE / groups, delta=delta / groups)
    one = mechanism.losses() if kind is not OptimalSelection else losses.Approx(epsilon=ONE, delta=delta)
    keep = mechanism if kind is not OptimalSelection else _Floats(mechanism)
    for units in (0, 1, 4, 7, 9):
        moved = [(units, units + 1)] if relation is ADD else [(units, units + 1), (8, 7)]
        P, Q = (outcome_law(keep, [pair[side] for pair in moved]) for side in (0, 1))
        assert room(one, P, Q)[0] >= -1e-9
    pure = 1 * losses.Pure(epsilon=1)
    P, Q = outcome_law(keep, [0]), outcome_law(keep, [1])
    assert pairs.largest_loss(P, Q) == math.inf
    assert pure.delta(1.0).upper < pairs.delta(Q, P, 1.0)  # without its failure mass the claim is false


class _Floats:
    def __init__(self, selection):
        self.keep_probability = selection.keep_probabilities


def test_local_protocols_have_exactly_their_losses():
    epsilon = Fraction(3, 2)
    response = RandomizedResponse(epsilon=epsilon, answers=4)
    hadamard = HadamardResponse(epsilon=epsilon, answers=5)
    rappor = Rappor(lasting="1/2", on="3/4", off="1/4", hashes=1)
    yes, no = (float(p) for p in rappor.chances)
    cases = [
        (response.losses(), response_law(response, 0), response_law(response, 1)),
        (hadamard.losses(), hadamard_law(hadamard, 0), hadamard_law(hadamard, 3)),
        (rappor.losses(), *(bits_law(yes, no, a, 3) for a in (0, 1))),
    ]
    for claim, P, Q in cases:
        least, most = room(claim, P, Q)
        assert least >= -1e-12
        assert most <= 1e-5
    assert room(hadamard.losses(), *cases[0][1:])[0] < -1e-3  # and these are different losses


def test_quantiles_histograms_and_two_parts_have_their_losses():
    median = Quantiles.at("1/2", epsilon=ONE, low=0, high=6, neighbours=ADD)
    for values in ([3], [0, 0, 6], [2, 2, 3, 6]):
        for more in (0, 3, 6):
            P, Q = (median.pmf(np.array(table)) for table in (values, [*values, more]))
            assert room(median.losses(), P, Q)[0] >= -1e-12
    for relation, moves in ((ADD, (1,)), (REPLACE, (1, -1))):
        histogram = Histogram.calibrated(epsilon=ONE, categories=("a", "b"), neighbours=relation)
        assert histogram.each.sensitivity == of_histogram(relation).l1
        law = histogram.each.law
        P, Q = (product(*(small(law, m * on, 40) for m in moves)) for on in (0, 1))
        least, _ = room(histogram.losses(), P, Q)
        assert least >= -1e-7
    total, count = (DiscreteLaplace.calibrated(epsilon=ONE / 2, sensitivity=size) for size in (2, 1))
    P = product(small(total.law, 0, 60), small(count.law, 0, 40))
    Q = product(small(total.law, 2, 60), small(count.law, 1, 40))
    least, most = room(total.losses() + count.losses(), P, Q)
    assert least >= -1e-7
    assert most < 0.01


@pytest.mark.parametrize("relation", list(Neighbours))
def test_a_tree_of_counts_has_its_losses_in_exact_two_step_instances(relation):
    """Two steps: the tree's noisy counts of step 1, step 2 and both; a unit moves one step, or leaves one for the other."""
    moved = (1, 0, 1) if relation is ADD else (1, -1, 0)
    per_unit = 1 if relation is ADD else 2
    tree = PrefixTree.pure(epsilon=ONE, steps=2, steps_per_unit=per_unit)
    assert sum(abs(m) for m in moved) <= tree.each.sensitivity
    law = tree.each.law
    P, Q = (product(*(small(law, m * on, 20) for m in moved)) for on in (0, 1))
    assert room(tree.losses(), P, Q)[0] >= -1e-2 / per_unit  # truncated at 20
    strategy = intervals_tree(2)
    made = MatrixMechanism.for_gdp(strategy, strategy, mu=ONE, neighbours=relation)
    P, Q = (product(*(small(made.each.law, m * on, 12) for m in moved)) for on in (0, 1))
    assert room(made.losses(), P, Q)[0] >= -1e-6


def test_top_choices_have_their_losses():
    peeled = PeeledTop.calibrated(epsilon=ONE, sensitivity=1, monotone=True, count=2)

    def law(scores):
        first = peeled.each.pmf(scores)
        chances = []
        for i in range(3):
            rest = [j for j in range(3) if j != i]
            chances += list(first[i] * peeled.each.pmf(scores[rest]))
        return np.array(chances)

    for scores in ([5, 5, 5], [7, 4, 0], [3, 2, 2]):
        for other in pairs.neighbours_of_scores(scores, 1, monotone=True):
            assert room(peeled.losses(), law(np.array(scores)), law(other))[0] >= -1e-9


def test_half_silent_reports_compose_to_the_law_of_their_outcomes():
    """Ten people, or ten reports: losses epsilon (i - j) with i, j, 10 - i - j outcomes of each kind, summed one by one."""
    truth = 1 / (1 + math.exp(-1))
    mechanism = HadamardResponse(epsilon=ONE, answers=3)
    ten = 10 * mechanism.losses()
    for epsilon in (0.0, 1.0, 2.5, 6.0):
        exact = sum(
            math.comb(10, i) * math.comb(10 - i, j) * (truth / 2) ** i * ((1 - truth) / 2) ** j * 0.5 ** (10 - i - j)
            * max(0.0, -math.expm1(epsilon - (i - j)))
            for i in range(11) for j in range(11 - i)
        )  # fmt: skip
        found = ten.delta(epsilon)
        assert found.lower - 1e-12 <= exact <= found.upper + 1e-12
        assert found.width < 1e-9
        assert ten.delta(epsilon).upper < (10 * losses.Pure(epsilon=1)).delta(epsilon).lower  # pure epsilon says less
    assert mechanism.losses().pure().upper == pytest.approx(1, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("l2_squared", [1, 2, 5, 16])
def test_discrete_gaussian_losses_hold_every_change_of_whole_numbers(l2_squared):
    mechanism = DiscreteGaussian(variance=Fraction(3), l2_squared=l2_squared)
    x = np.arange(-40, 41)
    mass = np.exp(-(x**2) / 6.0)
    nearest = math.inf
    for change in itertools.product(range(5), repeat=2):  # two coordinates: all that fit, by sums over all outcomes
        if 0 < sum(step * step for step in change) <= l2_squared:
            P = np.multiply.outer(mass, mass)
            Q = np.multiply.outer(*(np.exp(-((x - step) ** 2) / 6.0) for step in change))
            P, Q = P / P.sum(), Q / np.exp(-(x**2) / 6.0).sum() ** 2
            least = room(mechanism.losses(), P.ravel(), Q.ravel())[0]
            assert least >= -1e-9
            nearest = min(nearest, least)
    if l2_squared <= 2:  # nothing is given away: two coordinates hold the worst change
        assert nearest < 1e-6


@pytest.mark.slow
def test_losses_that_know_less_or_more_than_epsilon_stay_safe():
    exponential = ExponentialMechanism.calibrated(epsilon=ONE, sensitivity=1, monotone=False)
    assert (10 * exponential.losses()).epsilon(1e-6).upper < 10 * 0.9
    peeled = PeeledTop.calibrated(epsilon=ONE, sensitivity=1, monotone=True, count=4)
    assert peeled.losses().epsilon(1e-4).upper <= 1 + 1e-9
    vector = DiscreteGaussian(variance=Fraction(12), l2_squared=9)
    assert vector.losses() == losses.compose([losses.ZeroConcentrated(rho=vector.rho)])
    one = 1 * losses.DiscreteGaussian(sigma2=vector.variance, sensitivity=3)
    assert one.delta(1.0).upper <= vector.losses().delta(1.0).upper


@pytest.mark.parametrize(
    ("square", "epsilon", "moved"), [("4", "0.5", 1), ("0.3", "2", 1), ("50", "-1", 3), ("9", "8", 2)]
)
def test_discrete_gaussian_delta_is_the_hockey_stick(square, epsilon, moved):
    s, e = mp.mpf(square), mp.mpf(epsilon)
    reach = int(45 * s**0.5) + 60
    weight = {x: mp.exp(-(mp.mpf(x) ** 2) / (2 * s)) for x in range(-reach - moved, reach + moved + 1)}
    total = sum(weight.values())
    exact = sum(max(weight[x] - mp.exp(e) * weight[x + moved], mp.mpf(0)) / total for x in range(-reach, reach + 1))
    found = (1 * losses.DiscreteGaussian(sigma2=Fraction(square), sensitivity=moved)).delta(float(epsilon))
    assert found.lower <= exact <= found.upper <= found.lower * (1 + 1e-11)
