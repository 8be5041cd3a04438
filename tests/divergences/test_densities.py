"""Brackets from declared structure contain the closed forms and shrink; estimates are of another type."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import ndtr

from neartwin.divergences import Pair, gaussian_pair, laplace_pair
from neartwin.divergences.densities import (
    Estimate,
    ExponentialTail,
    SmoothPiece,
    estimate_kl,
    estimate_renyi,
    monotone_pair,
    smooth_kl,
    smooth_renyi,
)
from neartwin.errors import ParameterError
from neartwin.exact import Interval


def laplace_cdf(x):
    return np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0)), 1 - 0.5 * np.exp(-np.maximum(x, 0)))


def laplace_cells(cells):
    """Lap(0, 1) against Lap(1.5, 1)."""
    mass = lambda a, b: laplace_cdf(b) - laplace_cdf(a)  # noqa: E731
    return monotone_pair(
        edges=[-np.inf, *np.linspace(0, 1.5, cells + 1), np.inf],
        mass_p=mass,
        mass_q=lambda a, b: mass(a - 1.5, b - 1.5),
        loss=lambda x: np.clip(1.5 - 2 * x, -1.5, 1.5),
        rounding=1e-13,
    )


def gaussian_cells(cells):
    """N(0, 1) against N(0.7, 1)."""

    def mass(a, b):
        return np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))

    return monotone_pair(
        edges=[-np.inf, *np.linspace(-9, 9.7, cells + 1), np.inf],
        mass_p=mass,
        mass_q=lambda a, b: mass(a - 0.7, b - 0.7),
        loss=lambda x: 0.7 * 0.35 - 0.7 * x,
        rounding=1e-12,
    )


QUESTIONS = [
    lambda pair: pair.total_variation(),
    lambda pair: pair.hockey_stick(0.6),
    lambda pair: pair.hockey_stick(-0.4),
    lambda pair: pair.approximate_max_divergence(0.05),
    lambda pair: pair.approximate_max_divergence(0.9),
]


@pytest.mark.parametrize("ask", [*QUESTIONS, lambda p: p.kl(), lambda p: p.renyi(3), lambda p: p.renyi(0.4)])
def test_cells_bracket_the_laplace_pair_and_shrink_fourfold(ask):
    true = ask(laplace_pair(distance="1.5"))
    coarse, fine = ask(laplace_cells(40)), ask(laplace_cells(80))
    for found in (coarse, fine):
        assert found.lower <= true.upper
        assert true.lower <= found.upper
    assert fine.width < 0.5 * coarse.width + 1e-9
    assert fine.width < 2e-3


@pytest.mark.parametrize("ask", [*QUESTIONS[:4], pytest.param(QUESTIONS[4], marks=pytest.mark.slow)])
def test_cells_bracket_the_gaussian_pair_in_both_directions(ask):
    true = ask(gaussian_pair(distance="0.7"))
    for found in (ask(gaussian_cells(400)), ask(gaussian_cells(400).reversed())):
        assert found.lower <= true.upper
        assert true.lower <= found.upper
        assert found.width < 2e-3


def test_unbounded_loss_has_a_finite_lower_kl_and_no_upper_one():
    found = gaussian_cells(100).kl()
    assert found.upper == np.inf
    assert found.lower == pytest.approx(0.245, rel=0.01)
    assert isinstance(gaussian_cells(4), Pair)
    assert gaussian_cells(100).max_divergence().upper == np.inf
    assert laplace_cells(30).max_divergence().upper == pytest.approx(1.5)


def smooth_gaussian(mu):
    """N(0, 1) against N(mu, 1) on [-10, 10 + mu] in panels of 2, with exponential tails."""
    edges, rho = np.arange(-14.0, 15.0, 2.0), 4.0
    half, rise = (rho + 1 / rho) / 2, (rho - 1 / rho) / 2  # of the ellipse, for a half length of 1
    pieces = [
        SmoothPiece(
            low=a,
            high=b,
            log_p=lambda x: -0.5 * x * x - 0.5 * math.log(2 * math.pi),
            loss=lambda x: mu * mu / 2 - mu * x,
            ellipse=rho,
            # Re z^2 = x^2 - y^2 with |y| <= rise and |x| at least this
            log_bound=0.5 * rise**2 - 0.5 * max(0.0, abs((a + b) / 2) - half) ** 2,
            loss_bound=mu * mu / 2 + mu * (abs((a + b) / 2) + half + rise),
            rounding=2e-14,
        )
        for a, b in pairwise(edges)
    ]
    tail = ExponentialTail(log_p=-0.5 * 14**2, rate=14.0, loss=mu * mu / 2 + 14 * mu, slope=mu)
    return pieces, (tail, tail)


def test_quadrature_of_smooth_pieces_is_certified_and_narrow():
    pieces, tails = smooth_gaussian(0.8)
    true = gaussian_pair(distance="0.8")
    found = smooth_kl(pieces=pieces, tails=tails)
    assert found.lower <= true.kl().upper
    assert true.kl().lower <= found.upper
    assert found.width < 1e-8
    for order in (0.5, 2.0, 5.0):
        found = smooth_renyi(pieces=pieces, tails=tails, order=order)
        assert found.lower <= true.renyi(order).upper
        assert true.renyi(order).lower <= found.upper
        assert found.width < 1e-4  # the product of the two declared bounds grows with the order
    wrong = gaussian_pair(distance="0.81").renyi(2)
    assert wrong.lower > smooth_renyi(pieces=pieces, tails=tails, order=2).upper


def test_a_loss_that_outgrows_the_tail_is_infinite():
    pieces, _ = smooth_gaussian(0.8)
    slow = ExponentialTail(log_p=-10.0, rate=1.0, loss=0.0, slope=1.0)
    assert smooth_renyi(pieces=pieces, tails=[slow], order=2.5).upper == np.inf
    assert smooth_renyi(pieces=pieces, tails=[slow], order=1.5).upper < np.inf


def test_estimates_are_near_and_are_no_guarantee():
    p, q = (lambda x, m=m: math.exp(-((x - m) ** 2) / 2) / math.sqrt(2 * math.pi) for m in (0.0, 1.0))
    found = estimate_kl(p, q, low=-20, high=20)
    assert found.value == pytest.approx(0.5)
    assert estimate_renyi(p, q, order=2.0, low=-20, high=20).value == pytest.approx(1.0)
    assert isinstance(found, Estimate)
    assert not isinstance(found, Interval)
    assert not hasattr(found, "upper")


def test_undeclared_or_wrong_structure_is_refused():
    mass = lambda a, b: laplace_cdf(b) - laplace_cdf(a)  # noqa: E731
    good = {"edges": [-np.inf, 0.0, np.inf], "mass_p": mass, "mass_q": mass, "loss": lambda x: 0 * np.clip(x, -1, 1)}
    assert monotone_pair(**good).kl().upper < 1e-12
    for bad in ({"edges": [0.0, 0.0]}, {"mass_p": lambda a, b: 0.4 * mass(a, b)}, {"loss": lambda x: x * np.nan}):
        with pytest.raises(ParameterError):
            monotone_pair(**good | bad)
    with pytest.raises(ParameterError):
        smooth_renyi(pieces=[], tails=[], order=2)
    with pytest.raises(ParameterError):
        smooth_renyi(pieces=smooth_gaussian(1)[0], tails=[], order=1)


def test_tails_that_carry_mass_are_counted():
    # Lap(0, 1) against Lap(1.5, 1) cut where it bends: both tails hold most of P
    middle = SmoothPiece(
        low=0.0,
        high=1.5,
        log_p=lambda x: -x - math.log(2),
        loss=lambda x: 1.5 - 2 * x,
        ellipse=3.0,
        log_bound=0.75 * (3 + 1 / 3) / 2 - 0.75 - math.log(2),
        loss_bound=1.5 * (3 + 1 / 3),
    )
    tails = [
        ExponentialTail(log_p=-math.log(2), rate=1.0, loss=1.5),
        ExponentialTail(log_p=-1.5 - math.log(2), rate=1.0, loss=1.5),
    ]
    true = laplace_pair(distance="1.5")
    for found, exact in (
        (smooth_kl(pieces=[middle], tails=tails), true.kl()),
        (smooth_renyi(pieces=[middle], tails=tails, order=2.5), true.renyi("2.5")),
    ):
        assert found.lower <= exact.upper
        assert exact.lower <= found.upper
    bare = smooth_kl(pieces=[middle], tails=[])
    assert bare.upper < true.kl().lower
    short = [ExponentialTail(log_p=-3.0, rate=1.0, loss=1.5)]
    assert smooth_renyi(pieces=[middle], tails=short, order=2.5).upper < true.renyi("2.5").lower
