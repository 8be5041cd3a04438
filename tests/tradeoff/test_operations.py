"""Inverse, symmetrisation, maximum, failure mass, groups, and the order of curves."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from neartwin import tradeoff as c
from neartwin.errors import ParameterError
from neartwin.tradeoff.operations import Group, Inverse

ALPHA = np.linspace(0, 1, 41)
PAIR = c.finite_pair(["0.5", "0.3", "0.2"], ["0.1", "0.3", "0.6"])


def test_symmetrised_curve_is_the_larger_of_itself_and_its_inverse():
    whole = c.symmetrised(PAIR)
    by_hand = np.maximum(PAIR.beta(ALPHA).lower, PAIR.inverse().beta(ALPHA).lower)
    assert np.allclose(whole.beta(ALPHA).lower, by_hand, atol=1e-14)
    assert np.max(by_hand - PAIR.beta(ALPHA).lower) > 0.05
    turned = whole.inverse().beta(ALPHA)
    assert np.allclose(turned.lower, whole.beta(ALPHA).lower, atol=1e-13)


@pytest.mark.parametrize("curve", [c.gaussian(1), c.epsilon_delta(1, "0.1"), c.laplace("0.5")])
def test_bisection_finds_the_inverse_that_closed_forms_have(curve):
    found, truth = Inverse(curve).beta(ALPHA), curve.beta(ALPHA)
    assert np.all(found.lower <= truth.upper)
    assert np.all(found.upper >= truth.lower)
    assert np.max(found.width) < 1e-12


def test_the_maximum_of_lower_bounds_is_attained_and_its_delta_is_the_hull():
    first, second = c.epsilon_delta(1), c.epsilon_delta("0.1", "0.3")
    both = c.maximum(first, second)
    assert np.all(both.beta(ALPHA).lower == np.maximum(first.beta(ALPHA).lower, second.beta(ALPHA).lower))
    # the same polygon by its corners, in exact arithmetic over its lines
    epsilon = np.linspace(-2, 2, 21)
    truth = c.from_profile([1, "0.1"], [0, "0.3"]).delta(epsilon)
    found = both.delta(epsilon)
    assert np.all(found.lower <= truth.upper + 1e-9)
    assert np.all(truth.lower <= found.upper + 1e-9)
    assert np.max(found.width) < 1e-3


@pytest.mark.parametrize("epsilon", [-0.5, -1.0, -1.5, -3.0, -20.0])
@pytest.mark.parametrize("little", ["1e-4", "1e-2", "0.2"])
def test_the_delta_of_a_group_below_0_is_that_of_its_corners(epsilon, little):
    """The curve reaches 0 before alpha = 1, between two points that are known of it."""
    rest = 1 - Fraction(little)
    one = c.finite_pair([0, rest, 1 - rest], ["0.3", "0.7", 0])  # beta falls from 0.7 to 0 at alpha = rest
    at_0 = rest * (1 - Fraction(little) / Fraction("0.7"))  # where 1 - beta is rest
    truth = c.polygon([0, at_0, 1], [Fraction("0.7") * (1 - Fraction("0.3") / rest), 0, 0]).delta(epsilon)
    found = c.group(one, 2).delta(epsilon)
    assert found.lower <= truth.upper
    assert truth.lower <= found.upper
    assert found.upper - truth.upper < 1e-9


@pytest.mark.parametrize(("epsilon", "delta", "k"), [("0.5", 0, 4), ("0.02", 0, 100), ("0.5", "0.01", 3), (3, 0, 2)])
def test_the_group_curve_is_the_iterate(epsilon, delta, k, holds):
    with mp.workdps(40):
        e, d = mp.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator, mp.mpf(str(delta))
        for alpha in ("0", "1e-200", "0.1", "0.5", "0.93"):
            x = mp.mpf(alpha)
            for _ in range(k):
                x = 1 - max(mp.mpf(0), 1 - d - mp.exp(e) * x, mp.exp(-e) * (1 - d - x))
            holds(c.group(c.epsilon_delta(epsilon, delta), k).beta(alpha), 1 - x, 1e-11)


@pytest.mark.slow
def test_group_laws():
    assert c.group(c.gaussian("0.4"), 3) == c.gaussian("1.2")
    assert c.group(c.laplace("0.4"), 3) == c.laplace("1.2")
    for curve in (c.gaussian("0.4"), c.laplace("0.4")):  # the closed forms against the iterate itself
        found, truth = Group(curve, 3).beta(ALPHA), c.group(curve, 3).beta(ALPHA)
        assert np.all(found.lower <= truth.upper)
        assert np.all(found.upper >= truth.lower)
        assert np.max(found.width) < 1e-12
    six, two_three = c.group(PAIR, 6).beta(ALPHA), c.group(c.group(PAIR, 2), 3).beta(ALPHA)
    assert np.allclose(six.lower, two_three.lower, atol=1e-12)
    assert c.group(PAIR, 1) is PAIR
    with pytest.raises(ParameterError):
        c.group(PAIR, 0)
    # better than k epsilon: the group of f_{1/2,0} lies above f_{2,0}
    assert c.excess(c.epsilon_delta(2), c.group(c.epsilon_delta("0.5"), 4), 512).upper < 1e-4
    assert c.excess(c.group(c.epsilon_delta("0.5"), 4), c.epsilon_delta(2), 512).lower > 0.05


def test_the_group_curve_of_small_steps_tends_to_laplace():
    limit = c.laplace(2).beta(ALPHA).lower
    gaps = [np.max(np.abs(c.group(c.epsilon_delta(Fraction(2, k)), k).beta(ALPHA).lower - limit)) for k in (2, 8, 32)]
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]


def test_failure_mass_scales_the_curve_and_joins():
    leaky = c.with_failure(c.gaussian(1), "0.02")
    inner = c.gaussian(1).beta(ALPHA[:39] / 0.98).lower
    assert np.allclose(leaky.beta(ALPHA[:39]).lower, 0.98 * inner, atol=1e-13)
    assert leaky.beta(np.array([0.98, 0.99, 1.0])).upper.max() < 1e-6
    assert c.with_failure(leaky, "0.5") == c.with_failure(c.gaussian(1), "0.51")
    assert c.with_failure(c.epsilon_delta(1), "0.1") == c.epsilon_delta(1, "0.1")
    assert c.with_failure(c.gaussian(1), 1).beta(0).upper < 1e-14
    # as a product of finite pairs
    pair = c.finite_pair(["0.9", "0.1", 0], [0, "0.1", "0.9"])
    assert pair.beta(0).upper < 0.1000001


@pytest.mark.slow
def test_domination_is_decided_with_a_witness_or_a_proof():
    assert c.excess(c.gaussian(1), c.gaussian("0.5"), 1024).upper < 1e-5
    assert c.excess(c.gaussian("0.5"), c.gaussian(1), 1024).lower > 0.1
    crossing = c.epsilon_delta(1), c.gaussian("0.9")
    assert c.excess(*crossing).lower > 0.01
    assert c.excess(*reversed(crossing)).lower > 0.01
    with pytest.raises(ParameterError):
        c.maximum()
