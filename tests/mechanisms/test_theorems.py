"""Laplace accuracy against the law of the largest error, its inverses, and draws; randomized response exactly."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin.errors import ParameterError
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.theorems import (
    chebyshev_radius,
    counts_scale,
    failure_at_union_radius,
    histogram_radius,
    laplace_failure,
    laplace_mean_variance,
    laplace_radius,
    laplace_radius_exact,
    laplace_scale,
    laplace_tail,
    laplace_variance,
    response_mean,
    response_mean_variance,
)
from tests.oracles.laws import holds


def test_the_ten_thousand_names():
    # Example 3.3: 12.2, with probability 95 percent
    found = laplace_radius(count=10_000, sensitivity=1, epsilon=1, beta="0.05")
    with mp.workdps(30):
        assert holds(found, mp.log(200_000), within=1e-14)
        exact = -mp.log(1 - mp.mpf("0.95") ** mp.mpf("0.0001"))
        assert holds(laplace_radius_exact(count=10_000, sensitivity=1, epsilon=1, beta="0.05"), exact, within=1e-13)
    assert round(found.upper, 1) == 12.2


def test_fact_3_7_and_its_missing_condition():
    tails = laplace_tail(np.array([-3.0, 0.0, 2.0, 800.0]))
    assert tails.upper[:2].tolist() == [1, 1]
    assert tails.upper[2] == pytest.approx(np.exp(-2))
    assert 0 <= tails.upper[3] < 1e-300


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**6), st.floats(1e-3, 100), st.floats(1e-12, 1), st.floats(0.01, 50))
def test_the_failure_at_a_radius_returns_its_chance(count, epsilon, beta, sensitivity):
    e, b, s = np.asarray(epsilon), np.asarray(beta), np.asarray(sensitivity)
    radius = laplace_radius(count=count, sensitivity=s, epsilon=e, beta=b)
    exact = laplace_radius_exact(count=count, sensitivity=s, epsilon=e, beta=b)
    assert exact.lower <= radius.upper
    r = np.asarray(radius.upper)
    assert laplace_failure(count=count, radius=r, sensitivity=s, epsilon=e).upper == pytest.approx(beta, rel=1e-9)


def test_union_radius_fails_slightly_less_than_beta():
    share = failure_at_union_radius(count=10_000, beta="0.05")
    with mp.workdps(30):
        assert holds(share, 1 - (1 - mp.mpf("0.05") / 10_000) ** 10_000, within=1e-12)
    assert failure_at_union_radius(count=1, beta="0.05").upper == pytest.approx(0.05)


def test_draws_fail_as_often_as_the_exact_law_says_and_not_as_another():
    rng = np.random.default_rng(11)
    largest = np.abs(rng.laplace(scale=2.0, size=(20_000, 5))).max(axis=1)
    radius = laplace_radius_exact(count=5, sensitivity=2, epsilon=1, beta="0.1")
    sd = np.sqrt(0.1 * 0.9 / 20_000)
    assert abs(np.mean(largest >= radius.upper) - 0.1) < 6 * sd
    wrong = laplace_radius_exact(count=5, sensitivity="1.8", epsilon=1, beta="0.1")
    assert abs(np.mean(largest >= wrong.upper) - 0.1) > 6 * sd


def test_counts_and_histograms_pay_for_their_relation():
    assert counts_scale(queries=50, epsilon="1.1").upper == pytest.approx(45.45454545454545)
    add = histogram_radius(bins=100, epsilon=1, beta="0.05", neighbours=Neighbours.ADD_REMOVE)
    replace = histogram_radius(bins=100, epsilon=1, beta="0.05", neighbours=Neighbours.REPLACE_ONE)
    assert replace.upper == pytest.approx(2 * add.upper)
    assert replace.upper == pytest.approx(2 * np.log(2000))
    assert laplace_scale(sensitivity=3, epsilon=2).upper == 1.5
    assert laplace_variance(sensitivity=3, epsilon=2).upper == pytest.approx(4.5)


def test_response_variance_equals_that_of_debiased_bits():
    # Var of (b(1+t) - t)/(1-t) with t = e^-eps and b a bit with Pr[b = true] = 1/(1+t): the same for both true bits
    e = 0.7
    t = np.exp(-e)
    p = 1 / (1 + t)
    per_bit = p * (1 - p) * ((1 + t) / (1 - t)) ** 2
    assert response_mean_variance(epsilon="0.7", records=250).upper == pytest.approx(per_bit / 250, rel=1e-12)
    assert response_mean_variance(epsilon=800, records=1).upper < 1e-300


def test_the_debiased_mean_is_unbiased_for_every_data_set():
    epsilon = Fraction(1)
    p = 1 / (1 + np.exp(-1.0))
    for bits in ([0, 0, 1], [1, 1, 1], [0, 0, 0]):
        mean = 0.0
        for flips in np.ndindex(2, 2, 2):
            answers = np.bitwise_xor(bits, flips)
            mean += np.prod(np.where(np.array(flips) == 0, p, 1 - p)) * response_mean(answers, epsilon=epsilon)
        assert mean == pytest.approx(np.mean(bits), abs=1e-12)
    with pytest.raises(ParameterError):
        response_mean(np.array([0, 2]), epsilon=1)


def test_laplace_beats_randomized_response_by_the_root_of_n():
    ratios = []
    for n in (100, 10_000):
        laplace = chebyshev_radius(variance=np.asarray(laplace_mean_variance(epsilon=1, records=n).upper), beta="0.05")
        response = chebyshev_radius(
            variance=np.asarray(response_mean_variance(epsilon=1, records=n).upper), beta="0.05"
        )
        ratios.append(response.upper / laplace.upper)
    assert ratios[0] > 1
    assert ratios[1] / ratios[0] == pytest.approx(10, rel=1e-9)


@pytest.mark.parametrize("bad", [{"count": 0}, {"beta": 0}, {"beta": 2}, {"epsilon": 0}, {"sensitivity": -1}])
def test_meaningless_theorem_arguments_are_refused(bad):
    with pytest.raises(ParameterError):
        laplace_radius(**{"count": 3, "sensitivity": 1, "epsilon": 1, "beta": "0.1"} | bad)
