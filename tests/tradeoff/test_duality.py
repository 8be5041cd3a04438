"""Profiles as curves, validity with the violated condition named, and pairs made from curves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin import tradeoff as c
from neartwin.errors import ParameterError
from neartwin.tradeoff.polygons import polygon_above

ALPHA = np.linspace(0, 1, 201)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 0.5)), min_size=1, max_size=6))
def test_a_profile_is_the_supremum_of_its_statements(statements):
    epsilon, delta = (np.array(column) for column in zip(*statements, strict=True))
    curve = c.from_profile(epsilon, delta)
    best = np.max([c.epsilon_delta(repr(e), repr(d)).beta(ALPHA).lower for e, d in statements], axis=0)
    found = curve.beta(ALPHA)
    assert np.all(found.lower <= best + 1e-12)
    assert np.allclose(found.lower, best, atol=1e-12)


@pytest.mark.parametrize("curve", [c.gaussian("0.7"), c.laplace(1), c.epsilon_delta("0.4", "0.02")])
def test_curve_to_profile_and_back(curve):
    epsilon = np.linspace(0, 6, 3001)
    back = c.from_profile(epsilon, curve.delta(epsilon).upper)
    gap = curve.beta(ALPHA).lower - back.beta(ALPHA).lower
    assert np.all(gap >= -1e-14)
    assert np.max(gap) < 1e-6


def test_more_statements_never_weaken_and_fewer_never_strengthen():
    epsilon = np.linspace(0, 4, 9)
    delta = c.gaussian(1).delta(epsilon).upper
    whole, half = c.from_profile(epsilon, delta), c.from_profile(epsilon[::2], delta[::2])
    assert np.all(whole.beta(ALPHA).lower >= half.beta(ALPHA).lower - 1e-13)
    assert np.max(whole.beta(ALPHA).lower - half.beta(ALPHA).lower) > 1e-3


@pytest.mark.parametrize(("epsilon", "delta"), [([-1.0], [0.1]), ([1.0], [1.5]), ([1.0, 2.0], [0.1])])
def test_profiles_that_say_nothing_sensible_are_refused(epsilon, delta):
    with pytest.raises(ParameterError):
        c.from_profile(np.array(epsilon), np.array(delta))


BROKEN = {
    "at most 1 - alpha": lambda a: np.sqrt(1 - a),
    "non-increasing": lambda a: np.maximum(0, np.where(a < 0.5, 0.2 - a, 0.3 * (1 - a))),
    "convex": lambda a: np.where(a < 0.5, 0.5 * (1 - a), np.maximum(0, 0.5 * (1 - a) - 0.2)),
    "continuous": lambda a: np.where(a <= 0, 1.0, 0.4 * (1 - a)),
    "values in [0, 1]": lambda a: 0.5 - a,
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_violated_condition_is_named(name):
    assert name in c.violations(BROKEN[name])


@pytest.mark.parametrize("curve", [c.gaussian(1), c.laplace(3), c.epsilon_delta(1, "0.1"), c.randomized_response(1, 5)])
def test_tradeoff_functions_pass(curve):
    assert c.violations(lambda a: curve.beta(a).lower) == ()


@pytest.mark.parametrize("curve", [c.gaussian(1), c.epsilon_delta("0.5", "0.2"), c.poisson(c.laplace(1), "0.3")])
def test_the_witness_pair_has_the_curve(curve):
    pair = c.witness_pair(curve)
    points = np.linspace(0, 1, 11)
    cdf = pair.cdf_Q(points)
    # the test that rejects above 1 - a: type I error a, type II error Q[X <= 1 - a]
    assert np.allclose(cdf.lower[:-1], curve.beta(1 - points[:-1]).lower)
    assert cdf.upper[-1] == 1
    # no other test does better: seen through cells, Neyman-Pearson finds the curve itself
    seen = polygon_above(pair.curve, np.linspace(1, 0, 2001))
    gap = seen.beta(ALPHA).upper - curve.beta(ALPHA).lower
    assert np.all(gap >= -1e-13)
    assert np.max(gap) < 2e-3
