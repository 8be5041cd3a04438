import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from neartwin import noise
from neartwin.errors import ParameterError
from neartwin.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Staircase
from tests.oracles import pairs

X = np.arange(-600, 601)
EPSILONS = (-0.5, 0.0, 0.2, 0.5, 1.0, 2.0)


def shifted(law, by):
    return law.pmf(X), law.pmf(X - by)


def gaussian_delta(mu, epsilon):
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)


def laplace_delta(e, epsilon):
    if epsilon >= e:
        return 0.0
    return 1 - math.exp(epsilon) if epsilon <= -e else 1 - math.exp((epsilon - e) / 2)


@pytest.mark.parametrize("make", [DiscreteLaplace, Laplace])
def test_pure_noise_has_its_epsilon_and_half_its_scale_does_not(make):
    epsilon, sensitivity = Fraction(3, 4), 3
    mechanism = make.calibrated(epsilon=epsilon, sensitivity=sensitivity)
    P, Q = shifted(mechanism.law, sensitivity)
    tight = pairs.largest_loss(P[300:901], Q[300:901])
    assert tight <= float(epsilon) * (1 + 1e-9)
    assert tight >= float(epsilon) * (1 - 1e-6)
    wrong = make(scale=mechanism.scale / 2, sensitivity=sensitivity)
    P, Q = shifted(wrong.law, sensitivity)
    assert pairs.largest_loss(P[450:751], Q[450:751]) > 1.9 * float(epsilon)


@pytest.mark.parametrize("make", [DiscreteLaplace, Laplace])
def test_all_of_the_l1_change_in_one_coordinate_is_the_worst(make):
    """Every split of a change of 4 over two coordinates is harder to tell, at every epsilon."""
    mechanism = make(scale=Fraction(5, 2), sensitivity=4)
    x = np.arange(-60, 61)
    whole = [pairs.delta(mechanism.law.pmf(x), mechanism.law.pmf(x - 4), e) for e in EPSILONS]
    for a in (1, 2, 3):
        P = np.multiply.outer(mechanism.law.pmf(x), mechanism.law.pmf(x))
        Q = np.multiply.outer(mechanism.law.pmf(x - a), mechanism.law.pmf(x - (4 - a)))
        split = [pairs.delta(P, Q, e) for e in EPSILONS]
        assert all(s <= w + 1e-9 for s, w in zip(split, whole, strict=True))
        assert split[1] < whole[1] - 1e-3


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(20)])
def test_rounded_laplace_keeps_the_curve_of_the_real_mechanism(scale):
    mechanism = Laplace(scale=scale, sensitivity=2)
    P, Q = shifted(mechanism.law, 2)
    for e in EPSILONS:
        assert pairs.delta(P, Q, e) <= laplace_delta(float(mechanism.epsilon), e) + 1e-12
    P, Q = shifted(Laplace(scale=scale / 2, sensitivity=2).law, 2)
    assert pairs.delta(P, Q, 0.2 / float(scale)) > laplace_delta(float(mechanism.epsilon), 0.2 / float(scale))


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(2), Fraction(100)])
def test_rounded_gaussian_keeps_the_curve_of_the_real_mechanism(variance):
    for squared, by in ((1, 1), (4, 2)):
        mechanism = Gaussian(variance=variance, l2_squared=squared)
        mu = math.sqrt(float(mechanism.mu_squared))
        P, Q = shifted(mechanism.law, by)
        for e in EPSILONS:
            assert pairs.delta(P, Q, e) <= gaussian_delta(mu, e) + 1e-12
        assert any(pairs.delta(P, Q, e) > gaussian_delta(mu * 0.8, e) for e in EPSILONS) or variance < 1


def test_rounded_gaussian_vectors_keep_the_curve_in_two_dimensions():
    mechanism = Gaussian(variance=Fraction(2), l2_squared=5)
    x = np.arange(-25, 26)
    P = np.multiply.outer(mechanism.law.pmf(x), mechanism.law.pmf(x))
    Q = np.multiply.outer(mechanism.law.pmf(x - 1), mechanism.law.pmf(x - 2))
    mu = math.sqrt(float(mechanism.mu_squared))
    assert all(pairs.delta(P, Q, e) <= gaussian_delta(mu, e) + 1e-12 for e in EPSILONS)


def test_discrete_gaussian_is_zcdp_and_not_gdp():
    mechanism = DiscreteGaussian(variance=Fraction(1, 8), l2_squared=1)
    x = np.arange(-60, 61)
    for order in (1.1, 2.0, 5.0, 20.0):
        exponents = -4 * (order * x**2 + (1 - order) * (x - 1) ** 2) - math.log(np.exp(-4.0 * x * x).sum())
        renyi = logsumexp(exponents) / (order - 1)
        assert renyi <= order * float(mechanism.rho) * (1 + 1e-9)
        assert renyi > order * 0.45 * float(mechanism.rho)
    P, Q = (mechanism.law.pmf(x), mechanism.law.pmf(x - 1))
    mu = math.sqrt(1 / 0.125)
    gaps = [pairs.delta(P, Q, e) - gaussian_delta(mu, e) for e in np.linspace(0, 8, 200)]
    assert max(gaps) > 1e-3  # its trade-off falls below the Gaussian one: the rounded Gaussian's never does


@pytest.mark.parametrize("sensitivity", [1, 4, 9])
def test_staircase_is_pure_at_its_sensitivity_and_beats_geometric_noise(sensitivity):
    epsilon = Fraction(2)
    mechanism = Staircase.calibrated(epsilon=epsilon, sensitivity=sensitivity)
    losses = [pairs.largest_loss(*(p[300:901] for p in shifted(mechanism.law, by))) for by in range(1, sensitivity + 2)]
    assert max(losses[:-1]) <= 2 + 1e-9
    assert losses[-1] > 2 + 1e-3  # one step further it is not
    variances = [
        Staircase(epsilon=epsilon, sensitivity=sensitivity, step=step).law.variance
        for step in range(1, sensitivity + 1)
    ]
    assert mechanism.law.variance == pytest.approx(min(variances))
    rival = DiscreteLaplace.calibrated(epsilon=epsilon, sensitivity=sensitivity).law.variance
    assert mechanism.law.variance < rival if sensitivity > 1 else mechanism.law.variance == pytest.approx(rival)


def test_calibration_is_exact():
    assert DiscreteLaplace.calibrated(epsilon=Fraction(1, 3), sensitivity=7).epsilon == Fraction(1, 3)
    assert Laplace.calibrated(epsilon=Fraction(1, 3), sensitivity=7).epsilon == Fraction(1, 3)
    assert Gaussian.for_gdp(mu=Fraction(1, 3), l2_squared=7).mu_squared == Fraction(1, 9)
    assert Gaussian.for_gdp(mu=Fraction(1, 3), l2_squared=7).mu == Fraction(1, 3)
    assert Gaussian.for_zcdp(rho=Fraction(1, 3), l2_squared=7).rho == Fraction(1, 3)
    assert DiscreteGaussian.for_zcdp(rho=Fraction(1, 3), l2_squared=7).rho == Fraction(1, 3)
    irrational = Gaussian(variance=Fraction(2), l2_squared=1)
    assert irrational.mu**2 > irrational.mu_squared


def test_noise_is_added_without_wrapping_round():
    mechanism = DiscreteLaplace(scale=Fraction(3), sensitivity=1)
    for value in (2**62, -(2**63), 2**63 - 1):
        noisy = mechanism.noisy(np.array([value], dtype=np.int64), source=noise.ScriptedSource(b"wide"))
        assert abs(int(noisy[0]) - value) < 1000
    wide = mechanism.noisy(np.array([10**30], dtype=object), source=noise.ScriptedSource(b"wide"))
    assert abs(int(wide[0]) - 10**30) < 1000
    with pytest.raises(ParameterError):
        mechanism.noisy(np.array([0.5]))


@pytest.mark.parametrize(
    "mechanism",
    [
        DiscreteLaplace(scale=Fraction(4), sensitivity=1),
        Laplace(scale=Fraction(4), sensitivity=1),
        Gaussian(variance=Fraction(9), l2_squared=1),
        DiscreteGaussian(variance=Fraction(9), l2_squared=1),
        Staircase(epsilon=Fraction(1), sensitivity=4, step=2),
    ],
)
def test_a_mechanism_adds_its_own_law(mechanism):
    values = np.full((100, 100), 1000, dtype=np.int64)
    noisy = mechanism.noisy(values, source=noise.ScriptedSource(b"own law")) - 1000
    assert noisy.shape == values.shape
    for factor, fits in ((1, True), (2, False)):
        t = mechanism.half_width(0.9) * factor
        inside = float((abs(noisy) <= t).mean())
        expected = 1 - mechanism.law.beyond(mechanism.half_width(0.9))
        assert (abs(inside - expected) < 0.015) is fits


def test_non_positive_parameters_are_refused():
    bad = itertools.product([Fraction(0), Fraction(-1)], [1]), itertools.product([Fraction(1)], [0, -3])
    for scale, sensitivity in itertools.chain(*bad):
        for make in (DiscreteLaplace, Laplace):
            with pytest.raises(ParameterError):
                make(scale=scale, sensitivity=sensitivity)
        with pytest.raises(ParameterError):
            Gaussian(variance=scale, l2_squared=sensitivity)
