"""Subsampled Gaussian Renyi: the finite sum, the certified quadrature and mpmath agree; remove dominates add."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from neartwin.balls import bounds
from neartwin.divergences import gaussian_pair, subsampled_gaussian_renyi
from neartwin.divergences.subsampled_gaussian import by_quadrature as by_trapezoid
from neartwin.divergences.subsampled_gaussian import by_sum
from neartwin.errors import ParameterError


def by_quadrature(rate, sigma, order, *, direction="remove"):
    with mp.workdps(30):
        q, s, a = mp.mpf(rate), mp.mpf(sigma), mp.mpf(order)

        def density(x):
            return mp.exp(-x * x / (2 * s * s)) / (s * mp.sqrt(2 * mp.pi))

        def ratio(x):
            return 1 - q + q * mp.exp((2 * x - 1) / (2 * s * s))

        power = a if direction == "remove" else 1 - a
        cuts = [-40 * s, -15 * s, -8 * s, -3 * s, 0, 0.5, 1, a, a + 3 * s, a + 10 * s, a + 40 * s]
        return mp.log(mp.quad(lambda x: density(x) * ratio(x) ** power, sorted(set(cuts)))) / (a - 1)


@pytest.mark.parametrize(
    ("rate", "sigma", "order"),
    [("0.01", "4", "1.5"), ("0.2", "0.8", "3.7"), ("0.5", "2", "16"), ("0.001", "1", "1.01"), ("0.1", "0.5", "9.25")],
)
def test_agrees_with_quadrature_in_thirty_digits(rate, sigma, order):
    found = subsampled_gaussian_renyi(rate=rate, noise_multiplier=sigma, order=order)
    exact = by_quadrature(rate, sigma, order)
    assert abs(found.upper - exact) <= 1e-11 * exact
    assert found.width <= 1e-11 * found.upper


@pytest.mark.parametrize(("rate", "sigma", "order"), [("0.3", "1", "2"), ("0.05", "0.7", "4.5"), ("0.7", "3", "20")])
def test_removing_costs_at_least_what_adding_does(rate, sigma, order):
    add = by_quadrature(rate, sigma, order, direction="add")
    assert subsampled_gaussian_renyi(rate=rate, noise_multiplier=sigma, order=order).upper >= add


@pytest.mark.parametrize(
    ("rate", "sigma", "order"),
    [
        ("0.01", "4", 32),
        ("0.1", "0.7", 20),
        ("0.001", "5", 256),
        ("1e-4", "0.5", 64),
        ("0.5", "0.3", 300),
        ("1e-6", "100", 3),
    ],
)
def test_finite_sum_and_quadrature_overlap(rate, sigma, order):
    one, two = (bounds(way, Fraction(rate), Fraction(sigma), order) for way in (by_sum, by_trapezoid))
    assert max(one[0], two[0]) <= min(one[1], two[1])
    assert one[1] - one[0] <= 1e-15 * one[1]
    assert two[1] - two[0] <= 1e-15 * two[1]


def test_edges():
    def ask(**k):
        return subsampled_gaussian_renyi(**{"rate": "0.1", "noise_multiplier": 1, "order": 2} | k)

    assert ask(rate=0).upper == 0
    assert ask(rate=1, order=7).upper == pytest.approx(gaussian_pair(distance=1).renyi(7).upper, rel=1e-14)
    assert ask(order=np.inf).lower == np.inf
    values = ask(order=np.array([1.0, 1.0001, 1.5, 2.0, 2.0001, 30.0])).upper
    assert np.all(np.diff(values) > 0)
    assert ask().upper < ask(rate="0.11").lower < ask(rate="0.11", noise_multiplier="0.9").lower
    for bad in ({"rate": 2}, {"rate": -1}, {"noise_multiplier": 0}, {"order": "0.5"}):
        with pytest.raises(ParameterError):
            ask(**bad)
