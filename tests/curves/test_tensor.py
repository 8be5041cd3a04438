"""Composition: its laws, its exact cases against direct sums, and its brackets against what is known."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from neartwin import curves as c
from neartwin.curves.polygons import bracket, polygon_above, polygon_below
from neartwin.curves.tensor import Between, _multiplied, thinned_above, thinned_below
from tests.curves.test_finite import pairs
from tests.oracles import curves as oracle

ALPHA = np.linspace(0, 1, 101)
SEVERAL = [c.gaussian("0.6"), c.laplace("0.5"), c.epsilon_delta("0.3", "0.01"), c.randomized_response(1, 4)]


def same(first, second, room=1e-12):
    a, b = first.beta(ALPHA), second.beta(ALPHA)
    return bool(np.all(a.lower <= b.upper + room) and np.all(b.lower <= a.upper + room))


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
    assert c.compose_power(c.gaussian("0.5"), 4) == c.gaussian(1)


def test_failure_masses_compose_and_stand_apart():
    assert c.compose(c.epsilon_delta(0, "0.1"), c.epsilon_delta(0, "0.5")) == c.epsilon_delta(0, "0.55")
    parts = c.compose(c.epsilon_delta("0.5", "0.1")), c.compose(c.epsilon_delta("0.5"), c.epsilon_delta(0, "0.1"))
    assert parts[0] == parts[1] == c.epsilon_delta("0.5", "0.1")
    found = c.compose_power(c.epsilon_delta("0.1", "0.001"), 100)
    assert found.failure == 1 - Fraction(999, 1000) ** 100


@pytest.mark.parametrize("curve", SEVERAL)
def test_identity_is_the_unit(curve):
    assert same(c.compose(curve, c.identity()), curve)
    assert same(c.compose(c.identity(), curve), curve)


def test_composition_is_commutative_and_associative():
    a, b, d = SEVERAL[0], SEVERAL[1], SEVERAL[3]
    assert same(c.compose(a, b, size=128), c.compose(b, a, size=128))
    assert same(c.compose(c.compose(a, b, size=128), d, size=128), c.compose(a, c.compose(b, d, size=128), size=128))


def test_composition_is_monotone_and_turns_with_its_factors():
    pair = c.finite_pair(["0.5", "0.3", "0.2"], ["0.1", "0.3", "0.6"])
    low, high = c.compose(pair, c.epsilon_delta(1)), c.compose(pair, c.epsilon_delta("0.5"))
    assert np.all(low.beta(ALPHA).lower <= high.beta(ALPHA).upper)
    assert np.max(high.beta(ALPHA).lower - low.beta(ALPHA).upper) > 0.02
    turned = c.compose(pair.inverse(), c.epsilon_delta(1))
    assert same(c.compose(pair, c.epsilon_delta(1)).inverse(), turned)


def test_brackets_hold_the_truth_and_shrink_quadratically():
    truth = c.gaussian(1).beta(ALPHA)
    widths = []
    for size in (64, 128, 256):
        part = Between(*bracket(c.gaussian("0.6"), size))
        other = Between(*bracket(c.gaussian("0.8"), size))
        found = _multiplied(part, other, size).beta(ALPHA)
        assert np.all(found.lower <= truth.lower)
        assert np.all(truth.upper <= found.upper)
        widths.append(np.max(found.width))
    assert widths[0] > 3 * widths[1] > 9 * widths[2]


def test_thinning_stays_on_its_side():
    whole = c.randomized_response_power("0.1", 2000)
    low, high = thinned_below(whole, 40), thinned_above(whole, 40)
    assert max(low.P.size, high.P.size) <= 45
    assert np.all(low.beta(ALPHA).lower <= whole.beta(ALPHA).lower)
    assert np.all(high.beta(ALPHA).upper >= whole.beta(ALPHA).upper)
    assert np.max(high.beta(ALPHA).upper - low.beta(ALPHA).lower) < 1e-2


@pytest.mark.parametrize(
    ("shift", "n", "epsilon"), [("1", 2, "0.5"), ("0.5", 10, "1"), ("3", 4, "-2"), ("0.1", 40, "3")]
)
def test_laplace_powers_agree_with_the_residue_sum(shift, n, epsilon, holds):
    if Fraction(epsilon) < 0:
        truth = 1 - mp.exp(oracle.num(epsilon)) * (1 - oracle.laplace_power_delta(shift, epsilon.strip("-"), n))
    else:
        truth = oracle.laplace_power_delta(shift, epsilon, n)
    holds(c.laplace_power(shift, n).delta(epsilon), truth, 1e-11)


def test_laplace_powers_reach_the_far_tail(holds):
    for epsilon, truth in (("7.52596146707955", 1e-15), ("9.86957880271671", 1e-30)):
        found = c.laplace_power("0.1", 100).delta(epsilon)
        exact = oracle.laplace_power_delta("0.1", epsilon, 100)
        assert abs(exact / truth - 1) < 1e-9
        holds(found, exact, 1e-11)
        assert c.laplace_power("0.1", 100).delta(10).upper < 1e-320


@pytest.mark.parametrize("alpha", ["1e-30", "0.001", "0.1", "0.25", "0.6", "0.99"])
def test_laplace_powers_meet_their_own_dual(alpha):
    """f(a) = sup_e 1 - delta(e) - e^e a: no line lies above it, and the best one touches."""
    curve = c.laplace_power("0.7", 5)
    beta = curve.beta(alpha)
    epsilon = np.linspace(-3.6, 3.6, 721)
    lines = 1 - curve.delta(epsilon).upper - np.exp(epsilon) * float(alpha)
    assert lines.max() <= beta.upper + 1e-13
    assert lines.max() >= beta.lower - 8e-5 * float(alpha) ** 0.5
    assert beta.width < 1e-12


def test_one_factor_is_the_laplace_curve_itself():
    found, truth = c.laplace_power("0.8", 1), c.laplace("0.8")
    assert same(found, truth, 1e-13)
    epsilon = np.linspace(-1, 1, 21)
    assert np.allclose(found.delta(epsilon).lower, truth.delta(epsilon).lower, atol=1e-13)


@pytest.mark.slow
def test_many_brackets_hold_the_exact_power_of_laplace():
    exact = c.compose_power(c.laplace("0.4"), 8).beta(ALPHA)
    part = Between(*bracket(c.laplace("0.4"), 512))
    for _ in range(3):
        part = _multiplied(part, part, 512)
    found = part.beta(ALPHA)
    assert np.all(found.lower <= exact.upper)
    assert np.all(exact.lower <= found.upper)
    assert np.max(found.width) < 2e-4


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
