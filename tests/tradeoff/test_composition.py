"""Composition: its laws, and its exact cases against direct sums and against the composition of losses."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from neartwin import losses
from neartwin import tradeoff as c
from neartwin.errors import ParameterError
from neartwin.tradeoff.operations import MOST_OUTCOMES
from neartwin.tradeoff.polygons import polygon_above, polygon_below
from tests.oracles import tradeoff as oracle
from tests.tradeoff.test_finite import pairs

ALPHA = np.linspace(0, 1, 101)
SEVERAL = [c.gaussian("0.6"), c.laplace("0.5"), c.epsilon_delta("0.3", "0.01"), c.randomized_response(1, 4)]


def same(first, second, room=1e-12):
    a, b = first.beta(ALPHA), second.beta(ALPHA)
    return bool(np.all(a.lower <= b.upper + room) and np.all(b.lower <= a.upper + room))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(pairs(), pairs(), st.fractions(0, 1, max_denominator=20))
def test_the_product_of_finite_pairs_is_the_curve_of_the_product_laws(first, second, alpha):
    P = [a * b for a in first[0] for b in second[0]]
    Q = [a * b for a in first[1] for b in second[1]]
    found = c.compose(c.finite_pair(*first), c.finite_pair(*second)).beta(alpha)
    truth = c.finite_pair(P, Q).beta(alpha)
    assert found.lower <= truth.upper + 1e-13
    assert truth.lower <= found.upper + 1e-13
    assert found.width < 1e-12


def test_gaussians_add_their_squares():
    assert c.compose(c.gaussian("0.3"), c.gaussian("0.4"), c.gaussian("1.2")) == c.gaussian("1.3")
    assert c.compose(*[c.gaussian("0.5")] * 4) == c.gaussian(1)


def test_failure_masses_compose_and_stand_apart():
    assert c.compose(c.epsilon_delta(0, "0.1"), c.epsilon_delta(0, "0.5")) == c.epsilon_delta(0, "0.55")
    parts = c.compose(c.epsilon_delta("0.5", "0.1")), c.compose(c.epsilon_delta("0.5"), c.epsilon_delta(0, "0.1"))
    assert parts[0] == parts[1] == c.epsilon_delta("0.5", "0.1")
    found = c.compose(*[c.epsilon_delta("0.1", "0.001")] * 100)
    assert found.failure == 1 - Fraction(999, 1000) ** 100


@pytest.mark.parametrize("curve", SEVERAL)
def test_identity_is_the_unit(curve):
    assert same(c.compose(curve, c.identity()), curve)
    assert same(c.compose(c.identity(), curve), curve)


def test_composition_is_commutative_and_associative():
    a, b, d = c.finite_pair(["0.5", "0.3", "0.2"], ["0.1", "0.3", "0.6"]), SEVERAL[2], SEVERAL[3]
    assert same(c.compose(a, b), c.compose(b, a))
    assert same(c.compose(c.compose(a, b), d), c.compose(a, c.compose(b, d)))
    assert not same(c.compose(a, b), c.compose(a, d), 1e-3)


def test_composition_is_monotone_and_turns_with_its_factors():
    pair = c.finite_pair(["0.5", "0.3", "0.2"], ["0.1", "0.3", "0.6"])
    low, high = c.compose(pair, c.epsilon_delta(1)), c.compose(pair, c.epsilon_delta("0.5"))
    assert np.all(low.beta(ALPHA).lower <= high.beta(ALPHA).upper)
    assert np.max(high.beta(ALPHA).lower - low.beta(ALPHA).upper) > 0.02
    turned = c.compose(pair.inverse(), c.epsilon_delta(1))
    assert same(c.compose(pair, c.epsilon_delta(1)).inverse(), turned)


def test_composition_agrees_with_the_losses_of_the_same_mechanisms():
    """Two independent ways: outcomes multiplied here, characteristic functions there."""
    found = c.compose(*[c.epsilon_delta("0.3", "0.01")] * 20, c.randomized_response(1, 4))
    whole = 20 * losses.Approx(epsilon="0.3", delta="0.01") + losses.RandomizedResponse(epsilon=1, answers=4)
    alpha, epsilon = np.array([0.01, 0.2, 0.6]), np.array([-0.5, 0.0, 1.5])
    # a chord between knots is known to the losses less well than delta
    for mine, other, width in (
        (found.beta(alpha), whole.tradeoff(alpha), 1e-5),
        (found.delta(epsilon), whole.delta(epsilon), 1e-10),
    ):
        assert np.all(mine.lower <= other.upper)
        assert np.all(other.lower <= mine.upper)
        assert np.max(mine.width) < 1e-10
        assert np.max(other.width) < width


@pytest.mark.parametrize(
    "factors",
    [
        [c.gaussian(1), c.laplace(1)],
        [c.laplace(1), c.laplace(1)],
        [c.gaussian(1), c.epsilon_delta(1)],
        [c.maximum(c.gaussian(1), c.epsilon_delta(1)), c.gaussian(1)],
    ],
)
def test_products_without_a_closed_form_name_the_room_that_bounds_them(factors):
    with pytest.raises(ParameterError, match=r"neartwin\.losses\.compose"):
        c.compose(*factors)
    for one in factors:
        assert c.compose(one, c.identity()) == one


@pytest.mark.parametrize(
    ("shift", "n", "epsilon"), [("1", 2, "0.5"), ("0.5", 10, "1"), ("3", 4, "-2"), ("0.1", 40, "3")]
)
def test_laplace_losses_agree_with_the_residue_sum(shift, n, epsilon, holds):
    truth = oracle.laplace_power_delta(shift, epsilon.strip("-"), n)
    if Fraction(epsilon) < 0:
        truth = 1 - mp.exp(oracle.num(epsilon)) * (1 - truth)
    holds((n * losses.Laplace(epsilon=shift)).delta(float(epsilon)), truth, 1e-12)


def test_products_of_too_many_outcomes_are_refused():
    pair = c.discrete_laplace(1, 2047)
    assert c.compose(pair, c.discrete_laplace(1, 200)).P.size == 2048 * 201
    assert MOST_OUTCOMES < 2048 * 2049
    with pytest.raises(ParameterError, match="outcomes"):
        c.compose(pair, c.discrete_laplace(1, 2048))


def test_support_lines_touch_the_curve_and_never_cross_it():
    curve, losses = c.gaussian(1), np.array([-2.0, -0.5, 0.0, 1.0, 3.0])
    low = polygon_below(curve, losses)
    touching = ndtr(-losses - 0.5)  # the type I error at which the slope of G_1 is -e^epsilon
    exact = curve.beta(touching)
    found = low.beta(touching)
    assert np.all(found.upper <= exact.upper + 1e-14)
    assert np.all(found.lower >= exact.lower - 1e-13)
    high = polygon_above(curve, touching).beta(touching)
    assert np.all(high.upper >= exact.lower)
    assert np.all(high.upper <= exact.upper + 1e-13)
