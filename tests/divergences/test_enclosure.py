"""Outward rounding: exact arithmetic stays inside, and the trusted functions err less than they are trusted to."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erf, erfc, erfcx

from neartwin.divergences import (
    Enclosure,
    enclose,
    exp_excess,
    kl_excess,
    log_excess,
    log_fraction,
    log_sinhc,
    tanh_half,
)
from neartwin.divergences.enclosure import ULPS, blockwise
from neartwin.errors import ParameterError
from tests.oracles.laws import holds

floats = st.floats(-1e100, 1e100, allow_subnormal=True)


@given(floats, floats)
def test_arithmetic_contains_the_exact_result(x, y):
    a, b = Enclosure.of(x), Enclosure.of(y)
    exact = {"+": Fraction(x) + Fraction(y), "-": Fraction(x) - Fraction(y), "*": Fraction(x) * Fraction(y)}
    found = {"+": a + b, "-": a - b, "*": a * b}
    if abs(y) > 1e-100:
        exact["/"], found["/"] = Fraction(x) / Fraction(y), a / b
    for sign, value in exact.items():
        low, high = float(found[sign].lower), float(found[sign].upper)
        assert np.isinf(low) or Fraction(low) <= value, sign
        assert np.isinf(high) or value <= Fraction(high), sign


@given(st.lists(st.floats(-1e10, 1e10), min_size=1, max_size=40))
def test_sum_contains_the_exact_sum(values):
    total, exact = Enclosure.of(np.array(values)).sum(), sum(map(Fraction, values))
    assert Fraction(float(total.lower)) <= exact <= Fraction(float(total.upper))


def test_division_by_an_interval_that_holds_zero_says_nothing():
    found = Enclosure.of(1.0) / Enclosure(np.asarray(-1.0), np.asarray(1.0))
    assert found.lower == -np.inf
    assert found.upper == np.inf


def ulps_off(computed, exact, x):
    """The largest error of a float function over points, in units of 2^-52 relative."""
    worst = 0.0
    for value, point in zip(computed.tolist(), x.tolist(), strict=True):
        true = exact(mp.mpf(point))
        if abs(true) > 1e-300:
            worst = max(worst, float(abs((mp.mpf(value) - true) / true)) * 2**52)
    return worst


@pytest.mark.parametrize(
    ("name", "function", "exact", "low", "high"),
    [
        ("exp", np.exp, mp.exp, -700, 700),
        ("expm1", np.expm1, mp.expm1, -40, 700),
        ("expm1", np.expm1, mp.expm1, -1, 1),
        ("log", np.log, mp.log, 1e-300, 1e300),
        ("log", np.log, mp.log, 0.5, 2),
        ("log1p", np.log1p, mp.log1p, -0.999, 3),
        ("erfcx", erfcx, lambda y: mp.exp(y * y) * mp.erfc(y), 0, 30),
        ("erfc", erfc, mp.erfc, -6, 0.8),
        ("erf", erf, mp.erf, 0, 7),
    ],
)
def test_trusted_functions_err_at_most_half_of_what_they_are_trusted_to(name, function, exact, low, high):
    rng = np.random.default_rng(20260101)
    x = np.concatenate([rng.uniform(low, high, 600), np.geomspace(1e-12, 1, 60) * (high if high < 10 else 1)])
    with mp.workdps(40):
        assert ulps_off(function(x), exact, x) <= ULPS[name] / 2


@pytest.mark.parametrize("x", [-3.0, -0.51, -0.5, -1e-9, 0.0, 1e-200, 1e-9, 0.2, 0.25, 0.26, 0.5, 0.51, 1.0, 1.1, 30.0])
def test_second_order_functions_keep_their_digits(x):
    point = Enclosure.of(x)
    with mp.workdps(450):
        t = mp.mpf(x)
        exact = {"exp": (exp_excess(point), mp.expm1(t) - t), "kl": (kl_excess(point), t - 1 + mp.exp(-t))}
        if x > -1:
            exact["log"] = (log_excess(point), t - mp.log1p(t))
        if x >= 0:
            exact["sinhc"] = (log_sinhc(point), mp.log(mp.sinh(t) / t) if t else mp.mpf(0))
            exact["tanh"] = (tanh_half(point), mp.tanh(t / 2))
        for name, (found, value) in exact.items():
            assert holds(found.interval(""), value, within=2e-14), name


@pytest.mark.parametrize(
    "value", [Fraction(1, 10**400), Fraction(10**400 + 1, 10**400), Fraction(3, 7), Fraction(10**500)]
)
def test_logarithm_of_a_rational_of_any_size(value):
    with mp.workdps(500):
        exact = mp.log(mp.mpf(value.numerator) / value.denominator)
    assert holds(log_fraction(value).interval(""), exact, within=1e-14)


def test_decimal_scalars_are_read_as_the_decimals_they_print_as():
    assert enclose(epsilon=0.1).lower < enclose(epsilon=0.1).upper
    assert enclose(epsilon=0.5).lower == enclose(epsilon=0.5).upper == 0.5
    for bad in (float("nan"), np.array([1.0, np.nan]), "one", True, [1, [2, 3]]):
        with pytest.raises(ParameterError):
            enclose(epsilon=bad)


def test_long_arrays_are_answered_as_short_ones():
    x = np.linspace(-3, 3, 40_000).reshape(200, 200)
    whole = blockwise(lambda a, b: a * b, Enclosure.of(x), Enclosure.of(3.0))
    assert whole.shape == x.shape
    assert np.array_equal(whole.upper, (Enclosure.of(x) * Enclosure.of(3.0)).upper)
