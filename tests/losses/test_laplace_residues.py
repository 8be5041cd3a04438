"""A few Laplace mechanisms by residues: against an oracle of one rate, and against quadrature for several."""

from fractions import Fraction
from itertools import pairwise, product

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import Gaussian, Laplace
from neartwin.losses.families.laplace import MOST_KINKS, MOST_USES, ResidueSum
from tests.oracles import compositions as truth

POINTS, WEIGHTS = np.polynomial.legendre.leggauss(24)


def by_quadrature(rates, eps):
    """Delta of one use of each rate: the last by its formula, the others by their atoms and densities."""
    rate, *others = rates
    if not others:
        return 0.0 if eps >= rate else -np.expm1((eps - rate) / 2 if eps > -rate else eps)
    kinks = [eps - sum(ends) for ends in product(*([-other, other] for other in others))]
    edges = sorted({-rate, rate, *(kink for kink in kinks if -rate < kink < rate)})
    density = 0.0
    for low, high in pairwise(edges):
        for point, weight in zip(POINTS, WEIGHTS, strict=True):
            loss = (low + high) / 2 + point * (high - low) / 2
            density += weight * (high - low) / 2 * np.exp((loss - rate) / 2) / 4 * by_quadrature(others, eps - loss)
    return by_quadrature(others, eps - rate) / 2 + np.exp(-rate) / 2 * by_quadrature(others, eps + rate) + density


@pytest.mark.parametrize(
    ("n", "rate", "eps"),
    [
        (1, "2", 0.3),
        (2, "1", -1.5),
        (3, "0.5", 1.1),
        (12, "2", 9.0),
        (60, "0.3", 4.0),
        (80, "0.02", 0.3),
        (9, "30", 200.0),
    ],
)
def test_one_rate_holds_the_oracle_to_the_last_digit(n, rate, eps):
    residues = ResidueSum([Fraction(rate)], [n])
    for at in (eps, 0.0, 0.9 * n * float(rate), -0.4 * n * float(rate)):
        low, high = residues.delta(np.array([at]))
        exact = truth.laplace(rate, n, at) if at >= 0 else 1 - mp.exp(at) * (1 - truth.laplace(rate, n, -at))
        assert low[0] <= exact <= high[0]
        assert high[0] - low[0] <= 3e-16 * high[0]


@pytest.mark.parametrize("rates", [("0.7", "0.2"), ("0.5", "0.25"), ("1", "1"), ("3", "0.01")])
@pytest.mark.parametrize("eps", [0.0, 0.1, -0.4, 0.5, 0.75])
def test_two_rates_hold_their_quadrature_and_no_other(rates, eps):
    exact = by_quadrature([float(rate) for rate in rates], eps)
    found = (Laplace(epsilon=rates[0]) + Laplace(epsilon=rates[1])).delta(eps)
    assert found.lower * (1 - 1e-12) <= exact <= found.upper * (1 + 1e-12)  # of the quadrature
    near = (Laplace(epsilon=Fraction(rates[0]) * (1 + Fraction(1, 10**9))) + Laplace(epsilon=rates[1])).delta(eps)
    assert near.lower > found.upper


def test_three_rates_hold_their_quadrature():
    rates, eps = ("0.4", "0.3", "0.15"), 0.2
    exact = by_quadrature([float(rate) for rate in rates], eps)
    found = sum((Laplace(epsilon=rate) for rate in rates[1:]), 1 * Laplace(epsilon=rates[0])).delta(eps)
    assert abs(found.upper - exact) < 1e-10 * exact


def test_a_kink_more_or_less_is_seen():
    whole = ResidueSum([Fraction(1, 2)], [6])
    at = np.array([0.5])
    low, high = whole.delta(at)
    assert low[0] <= truth.laplace("0.5", 6, 0.5) <= high[0]
    for change in (-1, 1):
        whole._polynomials.clear()
        place = whole._polynomial
        whole._polynomial = lambda cell, change=change, place=place: place(cell + change)
        lower, upper = whole.delta(at)
        assert upper[0] < low[0] or lower[0] > high[0]
        whole._polynomial = place


@pytest.mark.parametrize("delta", ["1e-3", "1e-15", "1e-30", "1e-290"])
def test_epsilon_is_met_narrowly_up_to_the_largest_loss(delta):
    for n, rate in ((60, "0.1"), (3, "20")):
        found = (n * Laplace(epsilon=rate)).epsilon(delta)
        assert truth.laplace(rate, n, found.lower) >= mp.mpf(delta)
        assert truth.laplace(rate, n, found.upper) <= mp.mpf(delta)
        assert found.width <= 4e-14 * found.upper  # a few floats below the largest loss


def test_other_sums_take_other_routes():
    assert (3 * Laplace(epsilon=1)).epsilon(1e-6).method == "closed form"
    assert (3 * Laplace(epsilon=1) + Gaussian(mu=1)).epsilon(1e-6).method == "contour"
    assert not ResidueSum.serves([MOST_USES + 1])
    assert not ResidueSum.serves([2] * 6)
    assert MOST_KINKS < 3**6
    assert (300 * Laplace(epsilon="0.1")).epsilon(1e-6).method == "contour"
