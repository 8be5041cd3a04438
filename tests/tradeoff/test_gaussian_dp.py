"""Gaussian DP against 60-digit arithmetic, from the middle to the last representable tail."""

import time
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin import tradeoff as c
from neartwin.errors import ParameterError
from tests.oracles import tradeoff as oracle

PLACES = [
    ("1", "1"), ("0.1", "0.5"), ("0.5", "0.01"), ("0.51", "0.01"), ("1e-3", "0.03"), ("1e-6", "1e-7"), ("1e-6", "3e-5"),
    ("1", "37"), ("2", "70"), ("0.25", "9.2"), ("0.1", "3.7"), ("3", "-2"), ("1", "-1e-3"), ("0.01", "-5"), ("20", "1"),
    ("20", "-30"), ("30", "700"), ("100", "8000"), ("7", "24.5"), ("1", "0"), ("1e-5", "0"),
]  # fmt: skip


@pytest.mark.parametrize(("mu", "epsilon"), PLACES)
def test_delta_agrees_with_sixty_digits_everywhere(mu, epsilon, holds):
    truth = oracle.gaussian_delta(mu, epsilon)
    holds(c.delta_of(mu, epsilon), truth, 2e-12)
    if truth > mp.mpf("1e-3"):
        assert not c.delta_of(mu, epsilon).lower <= truth * (1 + mp.mpf("1e-9")) <= c.delta_of(mu, epsilon).upper


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-4, 40), st.floats(-36, 37))
def test_delta_holds_the_truth_at_random_places(mu, z):
    epsilon = mu * (z + mu / 2)
    if not -400 < epsilon < 900:
        return
    found = c.delta_of(np.array(mu), np.array(epsilon))
    assert found.lower <= oracle.gaussian_delta(mu, epsilon) <= found.upper


@pytest.mark.parametrize("delta", ["1e-300", "1e-200", "1e-18", "1e-5", "0.3", "0.5", "0.9", "0.999999"])
@pytest.mark.parametrize("mu", ["0.001", "0.3", "1", "5", "30"])
def test_epsilon_is_certified_by_delta_on_both_sides(mu, delta):
    found = c.epsilon_of(mu, delta)
    assert found.width <= 1e-10 * max(1.0, abs(found.upper))
    wanted = oracle.num(delta)
    assert oracle.gaussian_delta(mu, found.upper) <= wanted <= oracle.gaussian_delta(mu, found.lower)


@pytest.mark.parametrize("delta", ["1e-300", "1e-30", "1e-6", "0.2", "0.7"])
@pytest.mark.parametrize("epsilon", ["1e-6", "0", "0.5", "8", "400", "-0.1"])
def test_mu_and_sigma_are_on_the_safe_side(epsilon, delta):
    if epsilon == "-0.1" and delta not in {"0.2", "0.7"}:
        with pytest.raises(ParameterError):
            c.mu_of(epsilon, delta)
        return
    found = c.mu_of(epsilon, delta)
    wanted = oracle.num(delta)
    assert oracle.gaussian_delta(found.lower, epsilon) <= wanted <= oracle.gaussian_delta(found.upper, epsilon)
    assert found.width <= 1e-11 * found.upper
    sigma = c.sigma_of(epsilon, delta, "2.5")
    safe = oracle.gaussian_delta(oracle.num("2.5") / oracle.num(sigma.upper), epsilon)
    unsafe = oracle.gaussian_delta(oracle.num("2.5") / (oracle.num(sigma.lower) * (1 - mp.mpf("1e-10"))), epsilon)
    assert safe <= wanted < unsafe


def test_epsilon_may_be_negative_and_ends_are_infinite():
    assert c.epsilon_of(1, "0.5").upper < 0
    assert c.epsilon_of(1, 0).lower == np.inf
    assert c.epsilon_of(1, 1).upper == -np.inf
    assert abs(c.epsilon_of(0, "0.3").upper - float(mp.log("0.7"))) < 1e-15
    assert c.delta_of(0, np.array([0.0, 2.0])).upper.max() == 0


def test_decimal_arguments_are_read_exactly():
    # the nearest float is another epsilon, and its delta another number by far more than the bracket's width
    mu, epsilon = 10**6, "500030000000.1"
    written, binary = c.delta_of(mu, epsilon), c.delta_of(np.array(float(mu)), np.array(float(epsilon)))
    truth = oracle.gaussian_delta(mu, Fraction(epsilon))
    assert written.lower <= truth <= written.upper
    assert not binary.lower <= truth <= binary.upper


@pytest.mark.parametrize("bad", ["nan", float("inf"), None, True])
def test_bad_numbers_are_refused(bad):
    for call in (c.delta_of, c.epsilon_of):
        with pytest.raises(ParameterError):
            call(bad, "0.1")
    with pytest.raises(ParameterError):
        c.delta_of(-1, 1)
    with pytest.raises(ParameterError):
        c.epsilon_of(1, "1.5")


def test_shapes_are_broadcast():
    epsilon = np.linspace(-3, 30, 401)
    whole = c.delta_of(1, epsilon)
    assert whole.lower.shape == (401,)
    for i in (0, 163, 400):
        one = c.delta_of(1, epsilon[i : i + 1])
        assert one.lower[0] == whole.lower[i]
    assert c.delta_of(np.ones((3, 1)), np.ones((1, 4))).upper.shape == (3, 4)
    assert c.delta_of(np.ones(0), np.ones(0)).upper.shape == (0,)


def test_ten_thousand_conversions_take_about_a_second():
    """Five times the promise on a quiet machine: processor time of 500 of each, ten times over."""
    rng = np.random.default_rng(4)
    mu, delta = np.exp(rng.uniform(-4, 2, 500)), 10 ** rng.uniform(-12, -2, 500)
    start = time.process_time()
    epsilon = c.epsilon_of(mu, delta)
    found = c.mu_of(epsilon.upper, delta)
    took = time.process_time() - start
    assert np.all(found.upper >= mu * (1 - 1e-10))
    assert np.all(found.lower <= mu * (1 + 1e-10))
    assert took < 0.5


def test_the_normal_curve_keeps_its_digits_in_both_tails():
    for mu, alpha in [
        ("1", "1e-300"),
        ("0.5", "1e-10"),
        ("2", "0.3"),
        ("1e-9", "0.5"),
        ("3", "0.9"),
        ("1", "0.99999999999999999"),
    ]:
        with mp.workdps(60):
            z = oracle.quantile(alpha)
            truth = mp.ncdf(-z - oracle.num(mu)), mp.ncdf(z + oracle.num(mu))
        found = c.gaussian(mu).beta(alpha), c.gaussian(mu).power(alpha)
        for interval, exact in zip(found, truth, strict=True):
            assert interval.lower <= exact <= interval.upper
            assert interval.upper - interval.lower <= 5e-16 * interval.upper
            assert not interval.lower <= exact * (1 + mp.mpf("1e-15")) <= interval.upper
