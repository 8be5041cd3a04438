"""Finite pairs against the linear program's vertices, and polygons against what makes them curves."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin import tradeoff as c
from neartwin.errors import ParameterError
from tests.oracles import tradeoff as oracle

masses = st.lists(st.integers(0, 6), min_size=2, max_size=5).filter(any)


@st.composite
def pairs(draw):
    p = draw(masses)
    q = draw(st.lists(st.integers(0, 6), min_size=len(p), max_size=len(p)).filter(any))
    return [Fraction(x, sum(p)) for x in p], [Fraction(x, sum(q)) for x in q]


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(pairs(), st.fractions(0, 1, max_denominator=40))
def test_beta_is_the_best_of_all_randomised_tests(pair, alpha):
    curve, truth = c.finite_pair(*pair), oracle.neyman_pearson(*pair, alpha)
    found = curve.beta(alpha)
    assert found.lower <= float(truth) * (1 + 1e-15)
    assert found.upper >= float(truth) * (1 - 1e-15)
    assert found.width <= 2e-14


@pytest.mark.parametrize("epsilon", np.linspace(0.01, 2, 40).tolist())
def test_delta_holds_where_a_ratio_is_the_rounded_exponential(epsilon):
    ratio = Fraction(math.exp(epsilon))
    P, Q = [Fraction(1, 10), Fraction(9, 10)], [ratio / 10, 1 - ratio / 10]
    truth = oracle.hockey_stick(Q, P, mp.exp(mp.mpf(epsilon)))
    found = c.finite_pair(P, Q).delta(np.array(epsilon))
    assert found.lower <= truth <= found.upper


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(pairs(), st.floats(-3, 3))
def test_delta_is_the_hockey_stick_of_q_from_p(pair, epsilon):
    P, Q = pair
    truth = oracle.hockey_stick(Q, P, mp.exp(mp.mpf(epsilon)))
    found = c.finite_pair(P, Q).delta(np.array(epsilon))
    assert found.lower <= truth <= found.upper
    other = oracle.hockey_stick(P, Q, mp.exp(mp.mpf(epsilon)))
    turned = c.finite_pair(P, Q).inverse().delta(np.array(epsilon))
    assert turned.lower <= other <= turned.upper


def test_outcomes_of_q_alone_are_rejected_for_nothing():
    curve = c.finite_pair([0, "0.6", "0.4"], ["0.3", "0.5", "0.2"])
    assert curve.beta(0).lower <= 0.7 <= curve.beta(0).upper
    assert curve.power(0).upper < 0.3000001
    assert c.finite_pair([1, 0], [0, 1]).beta(0).upper == 0


@pytest.mark.parametrize("epsilon", ["0.1", "1", "9", "40"])
@pytest.mark.parametrize("k", [2, 3, 50])
def test_randomized_response_is_its_pair(epsilon, k, holds):
    e = mp.exp(oracle.num(epsilon))
    p, q = e / (e + k - 1), 1 / (e + k - 1)
    for alpha in ("1e-20", "0.2", "0.5", "0.9"):
        a = oracle.num(alpha)
        # reject the answer that Q favours, then the k - 2 that say nothing, then the rest
        if a <= q:
            truth = 1 - a / q * p
        elif a <= q * (k - 1):
            truth = 1 - p - (a - q)
        else:
            truth = (1 - a) / p * q
        holds(c.randomized_response(epsilon, k).beta(alpha), truth, 1e-12)
    if k == 2:
        direct = c.epsilon_delta(epsilon).beta(np.linspace(0, 1, 11))
        assert np.allclose(c.randomized_response(epsilon).beta(np.linspace(0, 1, 11)).lower, direct.lower, atol=1e-13)


@pytest.mark.parametrize(("epsilon", "n"), [("0.1", 1), ("0.1", 100), ("2", 7), ("0.01", 400)])
@pytest.mark.parametrize("alpha", ["1e-18", "0.01", "0.37", "0.8"])
def test_powers_of_randomized_response_walk_the_binomial(epsilon, n, alpha, holds):
    holds(c.randomized_response_power(epsilon, n).beta(alpha), oracle.binomial_beta(epsilon, n, alpha), 2e-11)


def test_a_million_factors_stay_certified():
    found = c.randomized_response_power("0.001", 10**6).beta("0.1")
    gaussian = c.gaussian(1).beta("0.1")
    assert found.width < 1e-8
    assert abs(found.lower - gaussian.lower) < 1e-3


@pytest.mark.parametrize(
    ("P", "Q"), [(["0.5", "0.6"], ["0.5", "0.5"]), (["0.5", "0.5"], ["1"]), (["1.5", "-0.5"], ["0.5", "0.5"])]
)
def test_vectors_that_are_no_laws_are_refused(P, Q):
    with pytest.raises(ParameterError):
        c.finite_pair(P, Q)
    assert c.finite_pair(np.full(3, 1 / 3), np.full(3, 1 / 3)).beta(0).upper > 0.99


@pytest.mark.parametrize(
    ("alphas", "betas", "word"),
    [
        ([0, "0.5", 1], [1, "0.6", 0], "convex"),
        ([0, "0.5", 1], ["0.4", "0.45", 0], "increase"),
        ([0, 1], [1, "0.1"], "(1, 0)"),
        ([0, "0.5", "0.4", 1], [1, "0.2", "0.1", 0], "must increase"),
        ([0, "0.5", "0.5", 1], [1, "0.75", "0.75", 0], "must increase"),
    ],
)
def test_polygons_that_are_no_tradeoffs_are_refused_with_the_condition(alphas, betas, word):
    with pytest.raises(ParameterError, match=word.replace("(", "\\(").replace(")", "\\)")):
        c.polygon(alphas, betas)


def test_a_polygon_passes_through_its_knots():
    curve = c.polygon([0, "0.1", "0.4", 1], ["0.9", "0.5", "0.1", 0])
    for alpha, beta in (("0", 0.9), ("0.1", 0.5), ("0.25", 0.3), ("0.4", 0.1), ("0.7", 0.05)):
        assert curve.beta(alpha).lower - 1e-15 <= beta <= curve.beta(alpha).upper + 1e-15


def test_outcomes_of_q_alone_are_lost_at_every_epsilon():
    curve = c.finite_pair([0, "0.6", "0.4"], ["0.3", "0.5", "0.2"])
    for epsilon in (5, 700, 800, 10**6):
        found = curve.delta(epsilon)
        assert found.lower <= 0.3 <= found.upper
        assert found.width < 1e-12
