"""Estimates are near the truth, may promise too much, and nothing that asks for a guarantee takes one."""

from fractions import Fraction

import pytest

from neartwin.accounting.budgets import approx, gdp, pure
from neartwin.accounting.guarantee import Guarantee
from neartwin.errors import ParameterError
from neartwin.exact import Estimate, Interval
from neartwin.losses import Gaussian, Laplace, Renyi, SubsampledGaussian, central_limit, edgeworth, saddle_point

SGD = 3515 * SubsampledGaussian(mu="10/13", rate="256/60000")


def test_estimates_are_near_and_the_central_limit_of_dp_sgd_is_below():
    truth = SGD.epsilon("1e-5")
    guesses = [guess(SGD, "1e-5") for guess in (central_limit, edgeworth, saddle_point)]
    assert all(isinstance(guess, Estimate) and guess.method for guess in guesses)
    assert all(abs(guess.value - truth.upper) < 0.05 for guess in guesses)
    assert guesses[0].value < truth.lower - 0.02
    assert abs(guesses[1].value - truth.upper) < abs(guesses[0].value - truth.upper)  # skewness helps
    assert abs(central_limit(4 * Gaussian(mu="0.5"), "1e-6").value - 4.886554) < 1e-4
    assert abs(saddle_point(100 * Laplace(epsilon="0.1"), "1e-15").value - 7.525961) < 1e-2


def test_nothing_is_estimated_of_a_factor_known_by_its_renyi_curve_alone():
    only = 2 * Renyi(curve=((2, "0.1"), (4, "0.2")))
    assert all(guess(only, "1e-5").value == float("inf") for guess in (central_limit, edgeworth, saddle_point))


@pytest.mark.parametrize("take", [pure, gdp, lambda value: approx(value, "1e-6"), lambda value: Gaussian(mu=value)])
def test_nothing_that_asks_for_a_guarantee_takes_an_estimate(take):
    guess = central_limit(SGD, "1e-5")
    assert not isinstance(guess, Interval)
    assert not hasattr(guess, "upper")
    with pytest.raises(ParameterError):
        take(guess)
    assert take(Fraction(1, 2)) is not None  # the same door takes a number


def test_a_promise_made_of_an_estimate_is_refused():
    with pytest.raises(ParameterError, match="must be a target"):
        Guarantee.of(central_limit(SGD, "1e-5"), unit="id", neighbours="add_remove")
    assert Guarantee.of(pure(1), unit="id", neighbours="add_remove").advantage > 0
