"""Composition and group theorems against exact finite mechanisms, their own inverses and each other."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin.accounting import (
    advanced_composition,
    advanced_composition_classical,
    advanced_epsilon_each,
    basic_composition,
    each_share,
    filter_bound,
    group_approximate,
    group_privacy,
    group_zcdp,
)
from neartwin.divergences import finite_pair, gaussian_pair, laplace_pair, randomized_response_pair
from neartwin.errors import ParameterError
from neartwin.tradeoff import amplified_epsilon
from tests.oracles.kov import kov_epsilon


def test_basic_composition_adds_exactly():
    found = basic_composition(epsilons=["0.1"] * 10, deltas=["1e-7"] * 10)
    assert (found.epsilon.lower, found.epsilon.upper) == (1.0, 1.0)
    assert found.delta.upper == pytest.approx(1e-6)
    assert each_share(epsilon_total=1, count=10) == Fraction(1, 10)
    with pytest.raises(ParameterError):
        basic_composition(epsilons=[1, 1], deltas=[0])
    with pytest.raises(ParameterError):
        basic_composition(epsilons=[-1])


def test_basic_composition_is_attained_by_two_responses():
    first, second = randomized_response_pair("0.3"), randomized_response_pair("0.7")
    (p, q), (r, s) = ([law.upper for law in pair.probabilities()] for pair in (first, second))
    P, Q = np.outer(p, r).ravel(), np.outer(q, s).ravel()
    total = basic_composition(epsilons=["0.3", "0.7"]).epsilon
    assert finite_pair(P, Q).max_divergence().upper == pytest.approx(total.upper, rel=1e-14)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_group_privacy_holds_along_a_chain_of_neighbours(size):
    # a mechanism on sizes 0..k: an (epsilon, delta) step at each neighbour, and the ends compared
    epsilon, delta = Fraction(1, 2), Fraction(1, 50)
    bound = group_approximate(epsilon=epsilon, delta=delta, size=size)
    assert bound.epsilon.upper == float(group_privacy(epsilon=epsilon, size=size))
    with mp.workdps(30):
        e, d = mp.mpf("0.5"), mp.mpf("0.02")
        exact = mp.fsum(d * mp.exp(i * e) for i in range(size))
        assert bound.delta.lower <= exact <= bound.delta.upper
    assert group_approximate(epsilon=0, delta=delta, size=size).delta.upper == pytest.approx(size * 0.02)


def test_group_bounds_cover_the_shift_by_k():
    for k in (1, 2, 4):
        assert gaussian_pair(distance=k).kl().upper <= float(group_zcdp(rho="0.5", size=k)) + 1e-12
        assert laplace_pair(distance=k).max_divergence().upper <= group_privacy(epsilon=1, size=k)


def test_theorem_3_20_in_many_digits_and_in_order():
    with mp.workdps(40):
        e, k, s = mp.mpf("0.1"), 100, mp.mpf("1e-6")
        root = e * mp.sqrt(2 * k * mp.log(1 / s))
        classical, tight = root + k * e * mp.expm1(e), root + k * e * mp.tanh(e / 2)
    found = advanced_composition(epsilon="0.1", delta="1e-9", count=100, slack="1e-6")
    old = advanced_composition_classical(epsilon="0.1", delta="1e-9", count=100, slack="1e-6")
    assert found.epsilon.lower <= tight <= found.epsilon.upper < old.epsilon.lower <= classical <= old.epsilon.upper
    assert found.delta.upper == pytest.approx(1.1e-6, rel=1e-15)
    assert Fraction(found.delta.upper) >= Fraction(11, 10**7)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 300), st.fractions(Fraction(1, 100), 1, max_denominator=100))
def test_advanced_composition_covers_the_optimum(count, epsilon):
    bound = advanced_composition(epsilon=epsilon, count=count, slack="1e-5").epsilon.upper
    optimum = kov_epsilon(epsilon=epsilon, count=count, delta_total="1e-5")
    assert min(bound, float(epsilon) * count * (1 + 1e-15)) >= optimum.lower


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 1000), st.floats(0.01, 20))
def test_the_inverse_of_advanced_composition_spends_no_more(count, total):
    each = advanced_epsilon_each(epsilon_total=total, count=count, slack="1e-6")
    spent = advanced_composition(epsilon=Fraction(each.lower), count=count, slack="1e-6").epsilon.upper
    assert spent <= total * (1 + 1e-13)
    more = advanced_composition(epsilon=Fraction(each.upper) * Fraction("1.000001"), count=count, slack="1e-6")
    assert more.epsilon.lower > total


def test_advanced_composition_refuses_a_slack_of_nothing_and_of_all():
    for slack in (0, 1):
        with pytest.raises(ParameterError):
            advanced_composition(epsilon="0.1", count=3, slack=slack)


def test_filter_bound_lies_close_above_advanced_composition():
    # sum e^2/2 against sum e tanh(e/2)
    adaptive = filter_bound(epsilons=["0.1"] * 100, slack="1e-6").epsilon
    fixed = advanced_composition(epsilon="0.1", count=100, slack="1e-6").epsilon
    assert fixed.upper < adaptive.lower < fixed.upper * 1.001


def test_amplification_by_sampling_is_exact_for_randomized_response():
    # a response on a q-sample, with the empty sample answering like the other bit
    q = 0.2
    base = randomized_response_pair(1)
    P, Q = (law.upper for law in base.probabilities())
    mixed = finite_pair(q * P + (1 - q) * Q, Q)
    found = amplified_epsilon(epsilon=1, rate="0.2")
    assert mixed.max_divergence().upper == pytest.approx(found.upper, rel=1e-14)
    assert amplified_epsilon(epsilon=1, rate="0.19").upper < mixed.max_divergence().lower
    assert amplified_epsilon(epsilon=1, rate=1).upper == pytest.approx(1)
    for rate in (-1, 2):
        with pytest.raises(ParameterError):
            amplified_epsilon(epsilon=1, rate=rate)


def test_conversions_of_an_array_equal_single_ones():
    epsilons = np.linspace(0, 5, 10_000)
    found = amplified_epsilon(epsilon=epsilons, rate="0.01")
    assert found.upper.shape == epsilons.shape
    assert np.allclose(found.upper, np.log1p(0.01 * np.expm1(epsilons)), rtol=1e-15, atol=0)
    for place in (0, 17, 9_999):
        alone = amplified_epsilon(epsilon=Fraction(float(epsilons[place])), rate="0.01")
        assert (found.lower[place], found.upper[place]) == (alone.lower, alone.upper)
