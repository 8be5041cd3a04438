"""Lemmas 3.17, 3.18 and 3.19 with their witnesses, on random pairs and at their corrections."""

from fractions import Fraction
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from neartwin.divergences import discrete_laplace_pair, finite_pair, randomized_response_pair
from neartwin.divergences.theorems import (
    azuma_tail,
    azuma_threshold,
    jeffreys,
    kl_bound_dwork_roth,
    kl_bound_tight,
    kl_chain,
    nearby_law,
    nearby_pair,
    response_loss_tail,
)
from neartwin.errors import ParameterError
from tests.oracles.laws import holds

cells = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=6).filter(
    lambda c: sum(x for x, _ in c) > 0 and sum(y for _, y in c) > 0
)
epsilons = st.sampled_from([Fraction(0), Fraction(1, 10), Fraction(2, 5), Fraction(3, 2)])


def pair_of(weights):
    p, q = [c[0] for c in weights], [c[1] for c in weights]
    return finite_pair([Fraction(x, sum(p)) for x in p], [Fraction(y, sum(q)) for y in q])


def distance(law, other):
    return 0.5 * float(np.abs(law.upper - other.upper).sum())


@settings(max_examples=80, deadline=None)
@given(cells, epsilons)
def test_part_one_witness_is_a_law_below_the_roof_at_the_least_distance(weights, epsilon):
    pair = pair_of(weights)
    near = nearby_law(pair, epsilon)
    middle, (P, Q) = near.law.upper, pair.probabilities()
    assert middle.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(middle <= np.exp(float(epsilon)) * Q.upper + 1e-12)
    assert distance(near.law, P) == pytest.approx(near.distance.upper, abs=1e-12)
    assert near.distance.upper == pytest.approx(pair.hockey_stick(epsilon).upper, abs=1e-14)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(cells, epsilons)
def test_part_two_witnesses_are_close_in_both_directions(weights, epsilon):
    pair = pair_of(weights)
    near = nearby_pair(pair, epsilon)
    first, second = ((law.lower + law.upper) / 2 for law in (near.first, near.second))
    assert first.sum() == pytest.approx(1, abs=1e-12)
    assert second.sum() == pytest.approx(1, abs=1e-12)
    odds = np.exp(float(epsilon))
    assert np.all(first <= odds * second + 1e-12)
    assert np.all(second <= odds * first + 1e-12)
    P, Q = pair.probabilities()
    assert max(distance(near.first, P), distance(near.second, Q)) <= near.distance.upper + 1e-12
    worst = max(pair.hockey_stick(epsilon).upper, pair.reversed().hockey_stick(epsilon).upper)
    assert near.distance.upper == pytest.approx(worst / (1 + odds), abs=1e-13)


def least_distance_by_linear_programming(pair, epsilon):
    """Min t with laws Y', Z' within t of Y and Z in total variation, close in both directions."""
    (P, Q), odds = pair.probabilities(), np.exp(epsilon)
    m = len(P.upper)
    eye, zero, none = np.eye(m), np.zeros((m, m)), np.zeros((m, 1))
    # variables: Y', Z', a >= (Y' - Y)_+, b >= (Z' - Z)_+, t
    rows = [
        np.hstack([eye, -odds * eye, zero, zero, none]),
        np.hstack([-odds * eye, eye, zero, zero, none]),
        np.hstack([eye, zero, -eye, zero, none]),
        np.hstack([zero, eye, zero, -eye, none]),
        np.hstack([np.zeros((1, 2 * m)), np.ones((1, m)), np.zeros((1, m)), [[-1]]]),
        np.hstack([np.zeros((1, 3 * m)), np.ones((1, m)), [[-1]]]),
    ]
    limits = np.concatenate([np.zeros(2 * m), P.upper, Q.upper, [0, 0]])
    sums = np.vstack([np.r_[np.ones(m), np.zeros(3 * m + 1)], np.r_[np.zeros(m), np.ones(m), np.zeros(2 * m + 1)]])
    goal = np.r_[np.zeros(4 * m), 1]
    return linprog(goal, A_ub=np.vstack(rows), b_ub=limits, A_eq=sums, b_eq=[1, 1]).fun


def test_part_two_distance_is_the_least_there_is():
    rng = np.random.default_rng(3)
    for _ in range(12):
        pair = finite_pair(rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4)))
        assert nearby_pair(pair, "0.3").distance.upper == pytest.approx(
            least_distance_by_linear_programming(pair, 0.3), abs=1e-9
        )


def test_the_printed_part_two_is_refuted_and_the_corrected_one_is_not():
    # delta = 0, Y = (1, 0), Z = (1/2, 1/2), epsilon = ln 2: one direction holds for Y' = Y, Z' = Z, the other cannot
    pair = finite_pair([1, 0], ["0.5", "0.5"])
    assert pair.max_divergence().upper == pytest.approx(np.log(2))
    assert pair.reversed().max_divergence().lower == np.inf
    assert nearby_pair(pair, "0.6931471805599454").distance.lower > 0.1
    near = nearby_pair(pair, "0.6931471805599454")
    both = near.first.lower > 0
    assert np.log(near.second.lower[both] / near.first.upper[both]).max() < 0.7


def test_lemma_3_17_needs_a_non_negative_epsilon():
    with pytest.raises(ParameterError):
        nearby_law(finite_pair(["0.5", "0.5"], ["0.5", "0.5"]), "-0.1")


@settings(max_examples=60, deadline=None)
@given(cells)
def test_every_step_of_lemma_3_18_holds(weights):
    pair = pair_of([(x + 1, y + 1) for x, y in weights])
    epsilon = max(pair.max_divergence().upper, pair.reversed().max_divergence().upper)
    chain = kl_chain(pair, np.asarray(epsilon))
    steps = [chain.kl, chain.jeffreys, chain.by_difference, chain.by_minimum, chain.bound]
    for left, right in pairwise(steps):
        assert left.lower <= right.upper + 1e-15
    assert chain.kl.lower <= kl_bound_tight(np.asarray(epsilon)).upper
    p, q = (law.upper for law in pair.probabilities())
    assert jeffreys(pair).upper == pytest.approx(float(((p - q) * np.log(p / q)).sum()), abs=1e-12)


def test_a_chain_with_too_small_an_epsilon_is_refused():
    with pytest.raises(ParameterError):
        kl_chain(randomized_response_pair(1), "0.9")


@pytest.mark.parametrize("epsilon", ["0.001", "0.5", "1", "4"])
def test_kl_bounds_stand_in_order_and_the_tight_one_is_attained(epsilon):
    tight, loose = kl_bound_tight(epsilon), kl_bound_dwork_roth(epsilon)
    assert tight.upper < loose.lower
    for attained in (randomized_response_pair(epsilon).kl(), discrete_laplace_pair(epsilon=epsilon).kl()):
        assert attained.upper == pytest.approx(tight.upper, rel=1e-13)
    assert discrete_laplace_pair(epsilon=epsilon, sensitivity=3).kl().upper < tight.lower


@pytest.mark.parametrize(("epsilon", "count", "z"), [("0.1", 100, 2), ("0.5", 37, "0.3"), ("1", 400, 4), ("0.2", 9, 9)])
def test_exact_tail_of_responses_is_a_binomial_sum_below_azuma(epsilon, count, z):
    with mp.workdps(40):
        e, k = mp.mpf(epsilon), count
        p, threshold = 1 / (1 + mp.exp(-e)), k * e * mp.tanh(e / 2) + mp.mpf(z) * mp.sqrt(k) * e
        exact = mp.fsum(
            mp.binomial(k, i) * p ** (k - i) * (1 - p) ** i for i in range(k + 1) if (k - 2 * i) * e > threshold
        )
    found = response_loss_tail(epsilon=epsilon, count=count, z=z)
    assert holds(found, exact, within=1e-12)
    assert found.upper <= azuma_tail(z).lower


def test_azuma_threshold_and_the_wrong_constant():
    assert azuma_threshold(count=100, bound="0.1", drift="0.005", z=3).upper == pytest.approx(3.5, rel=1e-14)
    # e^{-z^2/8}, from |C - E C| <= 2A in the classical form, would be far weaker than the lemma
    assert azuma_tail(3).upper < np.exp(-9 / 8)
    with pytest.raises(ParameterError):
        azuma_tail(-1)
