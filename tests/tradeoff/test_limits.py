"""Moments, the Berry-Esseen bracket with its conditions, and estimates that cannot pass as guarantees."""

import mpmath as mp
import numpy as np
import pytest

from neartwin import losses
from neartwin import tradeoff as c
from neartwin.errors import ParameterError
from neartwin.exact import Interval
from neartwin.tradeoff import central_limit
from tests.oracles import tradeoff as oracle

NAMES = ("kl", "kappa2", "kappa3", "centred3", "variance")


def laplace_truth(shift):
    d = mp.mpf(shift)
    law = [(d, mp.mpf(1) / 2), (-d, mp.exp(-d) / 2)]

    def mean(g, *cuts):
        points = sorted({-d, d, *cuts})
        return sum(w * g(x) for x, w in law) + mp.quad(lambda x: g(x) * mp.exp((x - d) / 2) / 4, points)

    kl = mean(lambda x: x)
    third, centred = mean(lambda x: abs(x) ** 3, mp.mpf(0)), mean(lambda x: abs(x - kl) ** 3, kl)
    return [kl, mean(lambda x: x**2), third, centred, mean(lambda x: (x - kl) ** 2)]


@pytest.mark.parametrize("shift", ["0.001", "0.3", "1", "5", "30"])
def test_laplace_moments(shift, holds):
    found = central_limit.moments(c.laplace(shift))
    for name, truth in zip(NAMES, laplace_truth(shift), strict=True):
        holds(getattr(found, name), truth, 1e-11)
    d = mp.mpf(shift)
    holds(found.kl, d + mp.exp(-d) - 1, 1e-11)
    holds(found.kappa2, d**2 - 2 * d + 4 - mp.exp(-d) * (2 * d + 4), 1e-11)


@pytest.mark.parametrize("epsilon", ["0.01", "1", "6", "40"])
def test_pure_moments(epsilon, holds):
    with mp.workdps(80):  # 1 - t^2 cancels
        e = oracle.num(epsilon)
        t = mp.tanh(e / 2)
        truth = (e * t, e**2, e**3, e**3 * (1 - t**4), e**2 * (1 - t**2))
    for name, value in zip(NAMES, truth, strict=True):
        holds(getattr(central_limit.moments(c.epsilon_delta(epsilon)), name), value, 1e-11)


@pytest.mark.parametrize("mu", ["0.01", "1", "4"])
def test_gaussian_moments(mu, holds):
    m = oracle.num(mu)

    def mean(g, *cuts):
        law = lambda x: g(x) * mp.npdf(x, m**2 / 2, m)  # noqa: E731
        return mp.quad(law, [m**2 / 2 - 40 * m, *sorted(cuts), m**2 / 2 + 40 * m])

    found = central_limit.moments(c.gaussian(mu))
    holds(found.kl, m**2 / 2, 1e-11)
    holds(found.kappa2, mean(lambda x: x**2, m**2 / 2), 1e-11)
    holds(found.kappa3, mean(lambda x: abs(x) ** 3, mp.mpf(0), m**2 / 2), 1e-11)
    holds(found.centred3, mean(lambda x: abs(x - m**2 / 2) ** 3, m**2 / 2), 1e-11)


def test_moments_need_f_of_0_to_be_1():
    with pytest.raises(ParameterError, match="factor"):
        central_limit.moments(c.epsilon_delta(1, "0.01"))


def test_moments_of_other_curves_are_refused():
    with pytest.raises(ParameterError, match="pure, Gaussian or Laplace"):
        central_limit.moments(c.randomized_response(1, 3))


def exact_power(curve, n, alpha):
    if isinstance(curve, c.Laplace):
        return (n * losses.Laplace(epsilon=curve.shift)).tradeoff(alpha)
    return c.compose(*[curve] * n).beta(alpha)


@pytest.mark.parametrize(("curve", "n"), [(c.epsilon_delta("0.1"), 100), (c.laplace("0.2"), 60)])
def test_the_bracket_holds_the_exact_composition(curve, n):
    factors = [(central_limit.moments(curve), n)]
    gamma = central_limit.normalised(factors).gamma.upper
    alpha = np.linspace(gamma + 1e-9, 1 - gamma - 1e-9, 15 if isinstance(curve, c.EpsilonDelta) else 4)
    found, exact = central_limit.berry_esseen(factors, alpha), exact_power(curve, n, alpha)
    assert np.all(found.lower <= exact.lower)
    assert np.all(exact.upper <= found.upper)
    estimate = central_limit.clt(factors).value.beta(alpha)
    assert np.max(np.abs(estimate.lower - exact.lower)) < gamma


def test_the_theorems_conditions_are_enforced():
    few, many = (
        [(central_limit.moments(c.epsilon_delta("0.1")), 1)],
        [(central_limit.moments(c.epsilon_delta("0.1")), 100)],
    )
    with pytest.raises(ParameterError, match="gamma"):
        central_limit.berry_esseen(few, "0.5")
    for alpha in ("0.05", "0.95"):
        with pytest.raises(ParameterError, match="alpha"):
            central_limit.berry_esseen(many, alpha)
    assert central_limit.berry_esseen(many, "0.06").upper <= 0.94 + 1e-12


def test_an_estimate_is_no_interval_and_no_number():
    estimate = central_limit.dpsgd_mu_poisson("0.01", 1000, 1)
    assert not isinstance(estimate, Interval)
    assert not hasattr(estimate, "lower")
    with pytest.raises(TypeError):
        float(estimate)
    for call in (c.delta_of, c.epsilon_of):
        with pytest.raises(ParameterError):
            call(estimate, "0.1")


def test_the_poisson_limit_is_approached():
    gaps = []
    alpha = np.linspace(0.05, 0.9, 12)
    limit = central_limit.poisson_limit(1, "0.1").value.beta(alpha).lower
    for n in (16, 256, 4096):
        curve = c.epsilon_delta(1 / oracle.Fraction(int(n**0.5)), oracle.Fraction(1, 10 * n))
        gaps.append(np.max(np.abs(c.compose(*[curve] * n).beta(alpha).lower - limit)))
    assert gaps[0] > 4 * gaps[1] > 16 * gaps[2]
    assert gaps[2] < 1e-3


def test_the_limit_of_a_triangular_array():
    # f_{eps,0} with eps = 1/sqrt(n): sum kl -> 1/2, sum kappa2 -> 1, so G_1
    assert central_limit.limit_gaussian("0.5", 1).value == c.gaussian(1)


def test_dpsgd_estimates_match_high_precision():
    q, steps, s = mp.mpf("0.004"), mp.mpf(3000), mp.mpf("25")
    poisson = q * mp.sqrt(steps) * mp.sqrt(mp.expm1(1 / s**2))
    inner = mp.exp(1 / s**2) * mp.ncdf(1.5 / s) + 3 * mp.ncdf(-0.5 / s) - 2
    assert abs(central_limit.dpsgd_mu_poisson("0.004", 3000, 25).value / poisson - 1) < 1e-14
    assert (
        abs(central_limit.dpsgd_mu_uniform("0.004", 3000, 25).value / (mp.sqrt(2 * inner) * q * mp.sqrt(steps)) - 1)
        < 1e-12
    )


def test_dpsgd_estimates_take_arrays():
    rates, steps = np.array([[0.001], [0.02]]), np.array([1.0, 100, 10_000])
    for estimate in (central_limit.dpsgd_mu_poisson, central_limit.dpsgd_mu_uniform):
        found = estimate(rates, steps, 2).value
        assert found.shape == (2, 3)
        alone = [[estimate(rate, step, 2).value for step in steps] for rate in rates[:, 0]]
        np.testing.assert_allclose(found, alone, rtol=1e-12)
        with pytest.raises(ParameterError, match="sigma"):
            estimate("0.1", 10, np.array([1.0, 0.001]))
