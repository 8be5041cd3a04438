"""Calibration returns a value that meets its target, next to one that does not, and the published numbers."""

import math
from fractions import Fraction

import pytest

from neartwin.accounting.budgets import advantage, approx, gdp, mixed, pure, rdp, zcdp
from neartwin.accounting.calibration import largest_rate, least_noise, most_uses
from neartwin.accounting.training import banded_factorization
from neartwin.accounting.usage import cost, repeated
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import Gaussian, Laplace, Leak, Pure, SubsampledGaussian


def gaussian(sigma):
    return Gaussian(mu=1 / sigma)


@pytest.mark.parametrize(
    ("spend", "target", "least"),
    [
        (gaussian, approx(1, "1e-5"), 3.7306316348159418),  # Balle, Wang 2018
        (gaussian, approx("0.5", "1e-5"), 7.0318266755824914),
        (gaussian, approx(10, "1e-5"), 0.49988861970900851),
        (gaussian, approx(1, "0.7876007413603845"), 1 / 3),  # dp_accounting's test
        (gaussian, approx(1, "1e-15"), None),
        (gaussian, zcdp("0.5"), 1.0),  # exact, as the fits of Gaussians are
        (gaussian, rdp(8, 1), 2.0),
        (gaussian, gdp("0.25"), 4.0),
        (gaussian, advantage("0.38292492254802621"), 1.0),
        (lambda b: 10 * Laplace(epsilon=21 / b), pure(3), 70.0),  # dp_accounting's test
        (lambda s: SubsampledGaussian(mu=1 / s, rate="0.01"), approx(1, "1e-5"), 0.673792892460),  # one step, exact
    ],
)
def test_the_least_noise_is_the_known_one_on_its_safe_side(spend, target, least):
    found = least_noise(spend, target, tolerance="1e-7")
    met = cost(spend(found.value))
    assert met == found.cost
    if least is not None:
        assert least * (1 - 1e-12) <= found.value <= least * (1 + 3e-7)
    assert found.beyond < found.value <= found.beyond * (1 + Fraction(2, 10**7))
    assert found.trials < 60
    if hasattr(target, "delta") and hasattr(target, "epsilon") and not hasattr(target, "order"):
        assert met.epsilon(target.delta).upper <= target.epsilon
        assert cost(spend(found.beyond)).epsilon(target.delta).upper > target.epsilon


@pytest.mark.slow
def test_a_mix_and_a_gaussian_price_with_its_pool_are_calibrated_too():
    found = least_noise(
        lambda b: 20 * Laplace(epsilon=1 / b) + 5 * Gaussian(mu=1 / b), approx(2, "1e-6"), tolerance="1e-6"
    )
    assert found.cost.epsilon("1e-6").upper <= 2 < cost(found.cost.cases[0]).epsilon("1e-6").upper * (1 + 1e-5)
    priced = least_noise(lambda s: 50 * SubsampledGaussian(mu=1 / s, rate="0.1"), gdp("0.5", "1e-7"), tolerance="0.01")
    assert priced.cost.gdp("1e-7").upper <= 0.5 < priced.cost.gdp("1e-7").upper * 1.05


def test_the_most_uses_are_one_below_too_many():
    for target in (approx(8.5, "1e-6"), zcdp("1.26"), advantage("0.9")):
        found = most_uses(Gaussian(mu="0.05"), target)
        assert found.beyond == found.value + 1
    assert most_uses(Gaussian(mu="0.05"), zcdp("1.26")).value == 1008
    assert most_uses(Pure(epsilon="0.1"), pure("0.999")).value == 9
    assert most_uses(Gaussian(mu="0.05"), gdp(1)).value == 400


def test_largest_rate_meets_its_target_and_is_1_if_all_may_take_part():
    def steps(rate):
        return repeated(SubsampledGaussian(mu=1, rate=rate), 1000)

    found = largest_rate(steps, approx(2, "1e-5"), tolerance="1e-4")
    assert cost(steps(found.value)).epsilon("1e-5").upper <= 2 < cost(steps(found.beyond)).epsilon("1e-5").upper
    assert found.value < found.beyond <= found.value * Fraction(10002, 10000)
    free = largest_rate(lambda rate: SubsampledGaussian(mu="0.1", rate=rate), approx(5, "1e-5"))
    assert (free.value, free.beyond) == (1, None)


def test_largest_rate_goes_up_to_what_the_loader_allows():
    def bands(rate):
        return banded_factorization(noise_multiplier=1, rate=rate, bands=8, steps=800)

    found = largest_rate(bands, approx(3, "1e-5"), tolerance="1e-4", most="1/8")
    assert cost(bands(found.value)).epsilon("1e-5").upper <= 3 < cost(bands(found.beyond)).epsilon("1e-5").upper
    free = largest_rate(bands, approx(300, "1e-5"), most="0.12")
    assert (free.value, free.beyond) == (Fraction("0.12"), None)
    for wrong in (0, "1.5", 1):
        with pytest.raises(ParameterError, match=r"most|bands=8 times the rate 1"):
            largest_rate(bands, approx(3, "1e-5"), most=wrong)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: least_noise(lambda s: repeated(SubsampledGaussian(mu=1 / s, rate="0.01"), 10_000), approx(3, "1e-5")),
        lambda: least_noise(lambda s: 50 * Laplace(epsilon=1 / s) + 50 * Gaussian(mu=2 / s), approx(2, "1e-6")),
        lambda: least_noise(gaussian, approx("0.1", "1e-5"), tolerance="1e-9"),
        lambda: largest_rate(lambda q: repeated(SubsampledGaussian(mu=1, rate=q), 10_000), approx(3, "1e-5")),
        lambda: most_uses(Laplace(epsilon="0.01"), approx(3, "1e-5")),
    ],
)
def test_a_search_asks_the_engine_a_few_times(ask):
    found = ask()
    assert found.trials <= 9
    assert found.cost.epsilon("1e-5").width < 1e-6


def test_impossible_calibration_is_refused_and_ends():
    for ask in (
        lambda: least_noise(lambda s: Gaussian(mu=1 / s), pure(1)),
        lambda: least_noise(lambda s: Gaussian(mu=1 / s) + Leak(delta="1e-3"), approx(1, "1e-6")),
        lambda: most_uses(Pure(epsilon=1), pure("0.5")),
        lambda: largest_rate(lambda q: SubsampledGaussian(mu=1, rate=q) + Leak(delta="1e-3"), approx(1, "1e-6")),
        lambda: least_noise(gaussian, mixed(1, 0)),
        lambda: least_noise(lambda s: gaussian(s) + Leak(delta="1e-5"), zcdp(1, "1e-6")),
    ):
        with pytest.raises(PrivacyError):
            ask()
    with pytest.raises(ParameterError):
        least_noise(gaussian, approx(1, "1e-5"), tolerance=0)
    assert math.isinf(cost(Gaussian(mu=1)).pure().upper)
