"""A promise in any currency says what an attacker can reach, never too little."""

import math

import mpmath
import pytest

from neartwin.accounting.budgets import advantage, approx, gdp, mixed, pure, rdp, zcdp
from neartwin.accounting.guarantee import Guarantee, whole_of
from neartwin.errors import ParameterError, PrivacyError


def told(target, neighbours="add_remove"):
    return Guarantee.of(target, unit="id", neighbours=neighbours)


def test_the_advantage_of_each_currency_is_its_closed_form_rounded_up():
    normal = float(mpmath.erf(0.5 / mpmath.sqrt(2)))
    cases = {
        pure(1): math.tanh(0.5),
        approx(1, "0.01"): (math.e - 1 + 0.02) / (math.e + 1),
        gdp(1): normal,
        gdp(1, "0.01"): 0.01 + 0.99 * normal,
    }
    for target, value in cases.items():
        assert value <= told(target).advantage <= value * (1 + 1e-9)


def test_promises_by_renyi_divergence_cover_the_gaussian_that_has_them():
    normal = float(mpmath.erf(0.5 / mpmath.sqrt(2)))  # of mu = 1, which is 1/2-zCDP, and (8, 4)-RDP
    assert normal < told(zcdp("0.5")).advantage < 0.63
    assert normal < told(rdp(8, 4)).advantage < 1
    assert normal < told(mixed("0.0001", 1)).advantage < normal + 1e-3
    assert told(advantage("0.3")).advantage >= 0.3


def test_the_words_name_the_relation_and_round_up():
    assert told(pure("0.5")).describe().endswith("can get to at most 62.25 % by looking at this.")
    assert "which of two sets of values one id has" in told(gdp(1), "replace_one").describe()
    assert str(told(gdp("0.2", "1e-9"))) == "mu = 0.2, delta = 1e-09 for adding or removing one id"
    assert told(approx("0.5", "1e-6")).symbols == "ε = 0.5, δ = 1e-06"


def test_the_curve_of_a_promise_is_certified_and_an_advantage_has_none():
    assert 4.886554117462212 in whole_of(gdp(1)).epsilon("1e-6")
    assert whole_of(pure(1)).pure().upper >= 1
    with pytest.raises(PrivacyError, match="no whole curve"):
        whole_of(advantage("0.3"))


@pytest.mark.parametrize(
    "bad",
    [
        lambda: zcdp(0),
        lambda: gdp(-1),
        lambda: gdp(1, 1),
        lambda: gdp("nan"),
        lambda: rdp(1, 1),
        lambda: rdp("0.5", 1),
        lambda: mixed(0, 0),
        lambda: mixed(-1, 1),
        lambda: advantage(1),
        lambda: advantage("0.1", "0.1"),
        lambda: zcdp(1, "-1e-9"),
        lambda: zcdp(True),
    ],
)
def test_a_target_outside_its_range_is_refused(bad):
    with pytest.raises(ParameterError):
        bad()
