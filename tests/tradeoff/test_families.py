"""Closed families against definitions, and the two views of every curve against each other."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin import tradeoff as c
from neartwin.errors import ParameterError
from neartwin.tradeoff.polygons import delta_by_points
from tests.oracles import tradeoff as oracle

pytestmark = pytest.mark.sweep

PAIR = c.finite_pair(["0.5", "0.3", "0.2"], ["0.1", "0.3", "0.6"])
CURVES = {
    "identity": c.identity(),
    "pure": c.epsilon_delta(1),
    "approximate": c.epsilon_delta("0.7", "0.05"),
    "steep": c.epsilon_delta(25, "1e-9"),
    "gaussian": c.gaussian("1.3"),
    "far gaussian": c.gaussian(9),
    "laplace": c.laplace(2),
    "four answers": c.randomized_response(1, 4),
    "binomial": c.randomized_response_power("0.3", 30),
    "pair": PAIR,
    "pair turned": PAIR.inverse(),
    "maximum": c.maximum(c.epsilon_delta(1), c.gaussian("0.9")),
    "symmetrised": c.symmetrised(PAIR),
    "failure": c.with_failure(c.gaussian(1), "0.02"),
    "group": c.group(c.epsilon_delta("0.5", "0.01"), 3),
    "sample": c.subsampled(c.gaussian("1.8"), "0.25"),
    "poisson": c.poisson(c.gaussian(1), "0.1"),
    "poisson turned": c.poisson(c.gaussian(1), "0.1").inverse(),
    "product": c.compose(PAIR, c.epsilon_delta("0.5", "0.01"), c.randomized_response(1, 4)),
}
ALPHA = np.concatenate(([0.0, 1e-300, 1e-12], np.linspace(0.001, 0.999, 33), [1 - 1e-12, 1.0]))
EPSILON = np.linspace(-4, 4, 33)
named = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())


@named
def test_every_curve_is_a_tradeoff_function(curve):
    beta = curve.beta(ALPHA)
    room = beta.width + 1e-13
    assert np.all(beta.lower <= 1 - ALPHA + 1e-15)
    assert beta.upper[-1] <= 1e-15 + beta.width[-1]
    assert np.all(np.diff(beta.lower) <= room[1:] + room[:-1])
    share = (ALPHA[2:] - ALPHA[1:-1]) / (ALPHA[2:] - ALPHA[:-2])
    chord = share * beta.upper[:-2] + (1 - share) * beta.upper[2:]
    assert np.all(beta.lower[1:-1] <= chord + 1e-13)


@pytest.mark.slow
@named
def test_beta_and_delta_are_dual(curve):
    """Every line 1 - delta - e^epsilon a lies below the curve, and the best of many lines touches it."""
    beta, delta = curve.beta(ALPHA), curve.delta(EPSILON)
    lines = 1 - delta.lower[:, None] - np.exp(EPSILON)[:, None] * ALPHA
    assert np.all(lines.T - beta.upper[:, None] <= np.maximum(delta.width, 0) + 1e-12)
    # the other way: the supremum over a fine grid of alphas reaches delta from below
    back = delta_by_points(curve, EPSILON, 1024)
    assert np.all(back.lower <= delta.upper + 1e-12)
    assert np.all(delta.lower <= back.upper + 1e-12)
    assert np.all(np.diff(delta.lower) <= delta.width[1:] + 1e-13)


@named
def test_power_is_one_minus_beta_and_exact_where_it_is_tiny(curve):
    beta, power = curve.beta(ALPHA), curve.power(ALPHA)
    assert np.all(power.lower <= 1 - beta.lower + 1e-12)
    assert np.all(power.upper >= 1 - beta.upper - 1e-12)
    assert np.all(power.upper >= ALPHA * (1 - 1e-12))


@named
def test_the_inverse_is_the_mirror_image(curve):
    turned = curve.inverse()
    inner = ALPHA[3:-3]
    beta = curve.beta(inner)
    # f^-1(f(a)) <= a, with equality where f falls strictly
    assert np.all(turned.beta(np.minimum(beta.upper + 1e-13, 1.0)).lower <= inner + 1e-12)
    mirrored = 1 - np.exp(EPSILON) * (1 - curve.delta(-EPSILON).upper)
    assert np.all(np.abs(turned.delta(EPSILON).upper - mirrored) <= 1e-9 + 200 * np.max(curve.delta(EPSILON).width))
    if curve.symmetric:
        assert np.allclose(turned.beta(inner).lower, beta.lower, atol=1e-12 + np.max(beta.width))
    again = turned.inverse()
    assert np.allclose(again.beta(inner).lower, beta.lower, atol=1e-12 + np.max(beta.width))


@pytest.mark.parametrize("alpha", ["1e-300", "1e-9", "0.05", "0.5", "0.73", "0.999999999999999999999"])
@pytest.mark.parametrize("mu", ["0.01", "1", "6"])
def test_gaussian_and_laplace_agree_with_sixty_digits(alpha, mu, holds):
    holds(c.gaussian(mu).beta(alpha), oracle.gaussian_beta(mu, alpha), 1e-11)
    if alpha != "1e-300":
        holds(c.laplace(mu).beta(alpha), oracle.laplace_beta(mu, alpha), 1e-11)


def test_power_keeps_its_digits_at_tiny_levels(holds):
    holds(c.gaussian(1).power("1e-300"), mp.ncdf(oracle.quantile("1e-300") + 1), 1e-11)
    holds(c.epsilon_delta(1).power("1e-300"), mp.e * mp.mpf("1e-300"), 1e-14)
    holds(c.laplace(1).power("1e-300"), mp.e * mp.mpf("1e-300"), 1e-14)
    holds(c.randomized_response_power("0.1", 100).power("1e-300"), mp.exp(10) * mp.mpf("1e-300"), 1e-11)


def test_ends_are_exact():
    for curve in (c.gaussian(3), c.laplace(2), c.identity()):
        assert curve.beta(np.array([0.0, 1.0])).upper.tolist() == [1.0, 0.0]
    assert c.gaussian(0).beta("0.25").lower <= 0.75 <= c.gaussian(0).beta("0.25").upper
    assert c.epsilon_delta(1, "0.1").beta("0.95").upper == 0


@settings(max_examples=40, deadline=None)
@given(st.fractions(0, 4), st.fractions(0, "1/2"), st.fractions(0, 1))
def test_f_epsilon_delta_is_its_formula(epsilon, delta, alpha):
    with mp.workdps(40):
        growth = mp.exp(oracle.num(epsilon))
        d, a = oracle.num(delta), oracle.num(alpha)
        truth = max(mp.mpf(0), 1 - d - growth * a, (1 - d - a) / growth)
    found = c.epsilon_delta(epsilon, delta).beta(alpha)
    assert found.lower <= truth <= found.upper
    assert found.width <= 1e-13


@settings(max_examples=25, deadline=None)
@given(st.fractions(0, 3), st.fractions(0, 3))
def test_gaussians_are_ordered_by_mu(first, second):
    least, most = sorted((first, second))
    assert np.all(c.gaussian(most).beta(ALPHA).lower <= c.gaussian(least).beta(ALPHA).upper)


def test_a_gaussian_mechanism_has_the_curve_of_its_ratio():
    assert c.gaussian_mechanism(sensitivity=2, sigma=5) == c.gaussian("0.4")
    for bad in ({"sensitivity": 1, "sigma": 0}, {"sensitivity": -1, "sigma": 1}):
        with pytest.raises(ParameterError):
            c.gaussian_mechanism(**bad)


@pytest.mark.parametrize("bad", ["-0.1", "1.0000001", 2, "nan"])
def test_alpha_outside_the_unit_interval_is_refused(bad):
    for curve in CURVES.values():
        with pytest.raises(ParameterError):
            curve.beta(bad)


def test_parameters_outside_their_range_are_refused():
    for call in (lambda: c.gaussian(-1), lambda: c.laplace("-0.1"), lambda: c.epsilon_delta(-1)):
        with pytest.raises(ParameterError):
            call()
    for delta in ("-0.1", "1.1"):
        with pytest.raises(ParameterError):
            c.epsilon_delta(1, delta)


def test_epsilons_beyond_the_range_of_floats_keep_their_ends():
    for curve in (c.epsilon_delta(800), c.randomized_response(800), c.laplace(800), c.discrete_laplace(800)):
        assert curve.beta(0).lower > 1 - 1e-11
        # e^-800/(4a), the middle piece of the Laplace curve, is 9e-49
        assert curve.beta("1e-300").upper < (1e-48 if curve == c.laplace(800) else 1e-300)
        assert curve.beta(1).upper == 0


def test_digits_are_kept_next_to_one(holds):
    alpha = "0.999999999999"
    holds(c.identity().beta(alpha), mp.mpf("1e-12"), 1e-13)
    holds(c.randomized_response_power("0.2", 50).beta(alpha), oracle.binomial_beta("0.2", 50, alpha), 1e-11)
    x = mp.mpf(alpha)
    for _ in range(6):
        x = 1 - max(1 - mp.exp(mp.mpf("0.7")) * x, (1 - x) / mp.exp(mp.mpf("0.7")))
    holds(c.group(c.epsilon_delta("0.7"), 6).beta(alpha), 1 - x, 1e-12)
