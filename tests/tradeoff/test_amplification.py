"""Sampling: the operator C_p by its definition, and Poisson sampling by numerical integration, both directions."""

import mpmath as mp
import numpy as np
import pytest

from neartwin import tradeoff as c
from neartwin.errors import ParameterError
from tests.oracles import tradeoff as oracle

ALPHA = np.linspace(0.0, 1.0, 201)


def biconjugate_of_the_minimum(curve, p):
    """min{f_p, f_p^-1}** on a fine grid: the definition, by the lower convex hull of points."""
    grid = np.concatenate(([0.0], np.geomspace(1e-9, 1e-3, 400), np.linspace(1e-3, 1, 20_001)))
    beta = p * curve.beta(grid).lower + (1 - p) * (1 - grid)
    points = np.concatenate((np.stack((grid, beta)), np.stack((beta, grid))), axis=1)
    points = points[:, np.lexsort((points[1], points[0]))]
    kept = []
    for x, y in points.T:
        while len(kept) > 1 and (kept[-1][1] - kept[-2][1]) * (x - kept[-1][0]) >= (y - kept[-1][1]) * (
            kept[-1][0] - kept[-2][0]
        ):
            kept.pop()
        kept.append((x, y))
    hull = np.array(kept)
    return np.interp(ALPHA, hull[:, 0], hull[:, 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("curve", "p"), [(c.gaussian("1.8"), "0.25"), (c.epsilon_delta(1, "0.01"), "0.2"), (c.laplace(2), "0.5")]
)
def test_c_p_is_the_biconjugate_of_the_minimum(curve, p):
    found = c.subsampled(curve, p).beta(ALPHA)
    assert np.max(np.abs(found.lower - biconjugate_of_the_minimum(curve, float(p)))) < 1e-5
    assert np.max(found.width) < 1e-12


@pytest.mark.parametrize(("p", "epsilon", "delta"), [("0.2", "1", "0.01"), ("0.7", "3", "0.1"), ("0.01", "0.4", 0)])
def test_c_p_of_f_epsilon_delta_is_its_closed_form(p, epsilon, delta):
    q, e, d = (float(oracle.num(str(x))) for x in (p, epsilon, delta))
    inner = np.log(1 - q + q * np.exp(e))
    formula = np.maximum(
        c.epsilon_delta(repr(float(inner)), repr(float(q * d))).beta(ALPHA).lower,
        1 - q * (np.exp(e) - 1 + 2 * d) / (1 + np.exp(e)) - ALPHA,
    )
    assert np.allclose(c.subsampled(c.epsilon_delta(epsilon, delta), p).beta(ALPHA).lower, formula, atol=2e-14)


def test_ends_of_the_rate():
    assert c.subsampled(c.gaussian(1), 1) == c.gaussian(1)
    none = c.subsampled(c.gaussian(1), 0).beta(ALPHA)
    assert np.allclose(none.lower, 1 - ALPHA, atol=1e-14)
    with pytest.raises(ParameterError):
        c.subsampled(c.gaussian(1), "1.5")


@pytest.mark.parametrize("epsilon", ["-3", "-0.1053605156578263", "-0.02", "0", "0.0953", "0.5", "4", "12"])
@pytest.mark.parametrize("sigma", ["1", "0.4"])
def test_both_directions_of_poisson_sampling_agree_with_integrals(epsilon, sigma, holds):
    q, m, factor = mp.mpf("0.1"), 1 / oracle.num(sigma), mp.exp(oracle.num(epsilon))
    mixed = c.poisson(c.gaussian(1 / oracle.Fraction(sigma)), "0.1")

    def crossing(sign):
        # where the mixture's density is the factor (or its inverse) times the plain one
        inner = (factor**sign - (1 - q)) / q
        return mp.log(inner) / m + m / 2 if inner > 0 else -mp.inf

    tail = lambda x, mean: mp.ncdf(mean - x) if x != -mp.inf else mp.mpf(1)  # noqa: E731
    x = crossing(1)
    remove = (1 - q) * tail(x, 0) + q * tail(x, m) - factor * tail(x, 0)
    holds(mixed.delta(epsilon), remove, 2e-11)
    x = crossing(-1)
    below = lambda x, mean: 1 - tail(x, mean)  # noqa: E731
    add = below(x, 0) - factor * ((1 - q) * below(x, 0) + q * below(x, m))
    found = mixed.inverse().delta(epsilon)
    assert found.lower <= max(add, 0) + mp.mpf("1e-40")
    assert max(add, 0) <= found.upper


def test_amplification_of_arrays_contains_its_truth_however_large_epsilon():
    epsilon, rate = np.array([0, 1e-9, 0.5, 30, 699, 701, 5000.0])[:, None], np.array([0, 1e-300, 1e-9, 0.3, 1.0])
    found = c.amplified_epsilon(epsilon, rate)
    with mp.workdps(60):
        for i, e in enumerate(epsilon[:, 0]):
            for j, q in enumerate(rate):
                true = mp.log1p(mp.mpf(q) * mp.expm1(mp.mpf(e)))
                assert found.lower[i, j] <= true <= found.upper[i, j], (e, q)
                assert found.upper[i, j] - found.lower[i, j] <= 1e-11 * max(true, 1e-9 if e <= 700 else 1)
    with pytest.raises(ParameterError, match="epsilon"):
        c.amplified_epsilon(np.array([1.0, -1.0]), "0.1")


def test_remove_is_the_worse_direction_of_the_subsampled_gaussian():
    mixed = c.poisson(c.gaussian(1), "0.01")
    epsilon = np.linspace(0.01, 2, 20)
    assert np.all(mixed.delta(epsilon).lower >= mixed.inverse().delta(epsilon).upper)


def test_sampling_amplifies_pure_privacy():
    for epsilon, rate in (("1", "0.01"), ("3", "0.5"), ("0.1", "1")):
        inner = c.amplified_epsilon(epsilon, rate)
        mixed = c.poisson(c.epsilon_delta(epsilon), rate)
        for curve in (mixed, mixed.inverse()):
            assert curve.delta(np.array(inner.upper)).lower <= 1e-15
        assert mixed.delta(np.array(inner.lower * 0.99)).lower > 0
