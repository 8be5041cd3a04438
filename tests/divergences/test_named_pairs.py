"""Laplace and Gaussian closed forms against quadrature and mpmath, at edges and far out in the tails."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin.divergences import Pair, gaussian_pair, kl_normal, laplace_pair, renyi_normal
from neartwin.errors import ParameterError
from tests.oracles.laws import gaussian, gaussian_hockey_stick, hockey_stick, holds, laplace, renyi


@pytest.mark.parametrize("order", ["0.3", "0.5", "0.55", "1", "1.5", "2", "9"])
@pytest.mark.parametrize("d", ["0.25", "3"])
def test_laplace_renyi_by_quadrature(d, order):
    with mp.workdps(30):
        D = mp.mpf(d)
        exact = renyi(laplace(0, 1), laplace(D, 1), mp.mpf(order), [-mp.inf, 0, D, mp.inf])
    assert holds(laplace_pair(distance=d).renyi(order), exact, within=1e-12)


@pytest.mark.parametrize("order", ["0.01", "0.5", "0.999", "1.001", "2", "64", "100000"])
@pytest.mark.parametrize("d", ["1e-6", "0.01", "1", "50", "5000"])
def test_laplace_renyi_by_its_formula_in_many_digits(d, order):
    with mp.workdps(60):
        D, a = mp.mpf(d), mp.mpf(order)
        if a == mp.mpf("0.5"):
            exact = -2 * mp.log(mp.exp(-D / 2) * (1 + D / 2))
        else:
            exact = mp.log(a / (2 * a - 1) * mp.exp((a - 1) * D) + (a - 1) / (2 * a - 1) * mp.exp(-a * D)) / (a - 1)
        assert holds(laplace_pair(distance=d).renyi(order), exact)


@pytest.mark.parametrize("epsilon", ["-3", "-2", "-0.5", "0", "0.7", "1.999", "2", "5"])
def test_laplace_hockey_stick_by_quadrature(epsilon):
    with mp.workdps(30):
        e, D = mp.mpf(epsilon), mp.mpf(2)
        switch = (D - e) / 2  # where the loss falls through epsilon
        pieces = sorted({-mp.inf, mp.mpf(0), D, mp.inf} | ({switch} if 0 < switch < D else set()))
        exact = hockey_stick(laplace(0, 1), laplace(D, 1), e, pieces)
        found = laplace_pair(distance=2).hockey_stick(epsilon)
    assert abs(mp.mpf(found.upper) - exact) < 1e-14


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 30), st.floats(0, 0.999))
def test_laplace_approximate_max_is_where_the_hockey_stick_crosses_delta(d, delta):
    pair = laplace_pair(distance=np.asarray(d))
    at = pair.approximate_max_divergence(np.asarray(delta))
    assert pair.hockey_stick(np.asarray(at.upper) + 1e-12).lower <= delta
    assert pair.hockey_stick(np.asarray(at.lower) - 1e-9).upper >= delta


@pytest.mark.parametrize("mu", ["0.001", "0.1", "1", "6", "40"])
@pytest.mark.parametrize("epsilon", ["-4", "-0.01", "0", "0.0001", "0.5", "3", "40", "700"])
def test_gaussian_hockey_stick_in_many_digits(mu, epsilon):
    with mp.workdps(60):
        exact = gaussian_hockey_stick(mu, epsilon)
    found = gaussian_pair(distance=mu).hockey_stick(epsilon)
    assert mp.mpf(found.lower) <= exact <= mp.mpf(found.upper)
    if exact > 1e-290:
        size = 1 + float(mu) / 2 + abs(float(epsilon)) / float(mu)
        assert found.width <= 5e-14 * size**2 * (20 + size / float(mu)) * found.upper


@pytest.mark.parametrize("mu", ["0.01", "1", "12"])
@pytest.mark.parametrize("delta", ["1e-300", "1e-60", "1e-5", "0.1", "0.5", "0.99"])
def test_gaussian_approximate_max_brackets_the_root(mu, delta):
    found = gaussian_pair(distance=mu).approximate_max_divergence(delta)
    with mp.workdps(60):
        assert gaussian_hockey_stick(mu, found.lower) >= mp.mpf(delta) >= gaussian_hockey_stick(mu, found.upper)
    assert found.width <= 1e-10 * max(1, abs(found.upper))


def test_total_variation_and_edges_of_the_gaussian():
    with mp.workdps(40):
        for mu in ("1e-9", "0.3", "2", "30"):
            exact = mp.erf(mp.mpf(mu) / mp.sqrt(8))
            assert holds(gaussian_pair(distance=mu).total_variation(), exact, within=1e-14)
    same = gaussian_pair(distance=0)
    assert same.max_divergence().upper == same.kl().upper == same.renyi(np.inf).upper == 0
    assert same.approximate_max_divergence("0.5").upper == pytest.approx(np.log(0.5))
    apart = gaussian_pair(distance=1)
    assert apart.max_divergence().lower == apart.renyi(np.inf).lower == np.inf
    assert apart.approximate_max_divergence(0).lower == np.inf
    assert apart.approximate_max_divergence(1).upper == -np.inf
    assert apart.hockey_stick(np.array([-np.inf, np.inf])).upper.tolist() == [1.0, 0.0]


def test_approximate_max_may_be_negative_and_never_passes_its_floor():
    for pair in (laplace_pair(distance=1), gaussian_pair(distance=1)):
        found = pair.approximate_max_divergence("0.8")
        assert found.upper < 0
        assert found.upper >= np.log(0.2)


@pytest.mark.parametrize("order", ["0.4", "1", "1.2", "3"])
def test_normals_of_different_variance_by_quadrature(order):
    with mp.workdps(30):
        p, q = gaussian(mp.mpf("0.3"), mp.mpf("1.2")), gaussian(mp.mpf("-0.5"), mp.mpf("1.1"))
        exact = renyi(p, q, mp.mpf(order), [-mp.inf, -20, -8, -3, 0, 3, 8, 20, mp.inf])
    found = renyi_normal(mean="0.3", sigma="1.2", other_mean="-0.5", other_sigma="1.1", order=order)
    assert abs(found.upper - exact) <= 1e-12 * exact


def test_normals_of_nearly_equal_variance_keep_their_digits():
    with mp.workdps(60):
        r = (1 + mp.mpf("1e-7")) ** 2
        exact = (r - 1 - mp.log(r)) / 2
    found = kl_normal(mean=0, sigma="1.0000001", other_mean=0, other_sigma=1)
    assert holds(found, exact, within=1e-12)


def test_too_wide_a_first_law_is_infinite():
    # s*^2 = a s2^2 + (1 - a) s1^2 <= 0
    assert renyi_normal(mean=0, sigma=2, other_mean=0, other_sigma=1, order=2).lower == np.inf
    assert renyi_normal(mean=0, sigma=2, other_mean=0, other_sigma=1, order="1.3").upper < np.inf


@pytest.mark.parametrize("make", [laplace_pair, lambda **k: gaussian_pair(distance=k["distance"], sigma=k["scale"])])
def test_parameters_without_meaning_are_refused(make):
    assert isinstance(make(distance=1, scale=1), Pair)
    for scale in (0, -1):
        with pytest.raises(ParameterError):
            make(distance=1, scale=scale)
    with pytest.raises(ParameterError):
        make(distance=1, scale=1).renyi(0)
    with pytest.raises(ParameterError):
        make(distance=1, scale=1).approximate_max_divergence(-0.1)
    with pytest.raises(ParameterError):
        make(distance=float("inf"), scale=1)


def test_the_sign_of_a_distance_does_not_matter():
    assert gaussian_pair(distance=-2).kl().upper == gaussian_pair(distance=2).kl().upper
    assert laplace_pair(distance=-2).kl().upper == laplace_pair(distance=2).kl().upper
    assert isinstance(gaussian_pair(distance=1).reversed(), Pair)
