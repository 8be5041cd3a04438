"""Estimates carry the name of their limit, and nothing that asks for a guarantee takes one."""

from fractions import Fraction

import pytest

from neartwin.accounting.budgets import approx, gdp, pure
from neartwin.accounting.guarantee import Guarantee
from neartwin.errors import ParameterError
from neartwin.exact import Estimate, Interval
from neartwin.losses import Gaussian
from neartwin.tradeoff.central_limit import dpsgd_mu_poisson

GUESS = dpsgd_mu_poisson("0.004", 3515, "1.3")


@pytest.mark.parametrize("take", [pure, gdp, lambda value: approx(value, "1e-6"), lambda value: Gaussian(mu=value)])
def test_nothing_that_asks_for_a_guarantee_takes_an_estimate(take):
    assert isinstance(GUESS, Estimate)
    assert GUESS.method
    assert not isinstance(GUESS, Interval)
    assert not hasattr(GUESS, "upper")
    with pytest.raises(ParameterError):
        take(GUESS)
    assert take(Fraction(1, 2)) is not None  # the same door takes a number


def test_a_promise_made_of_an_estimate_is_refused():
    with pytest.raises(ParameterError, match="must be a target"):
        Guarantee.of(GUESS, unit="id", neighbours="add_remove")
    assert Guarantee.of(pure(1), unit="id", neighbours="add_remove").advantage > 0
