"""Brackets from declared structure contain the closed forms and shrink."""

import numpy as np
import pytest
from scipy.special import ndtr

from neartwin.divergences import Pair, gaussian_pair, laplace_pair
from neartwin.divergences.densities import monotone_pair
from neartwin.errors import ParameterError


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


def test_undeclared_or_wrong_structure_is_refused():
    mass = lambda a, b: laplace_cdf(b) - laplace_cdf(a)  # noqa: E731
    good = {"edges": [-np.inf, 0.0, np.inf], "mass_p": mass, "mass_q": mass, "loss": lambda x: 0 * np.clip(x, -1, 1)}
    assert monotone_pair(**good).kl().upper < 1e-12
    for bad in ({"edges": [0.0, 0.0]}, {"mass_p": lambda a, b: 0.4 * mass(a, b)}, {"loss": lambda x: x * np.nan}):
        with pytest.raises(ParameterError):
            monotone_pair(**good | bad)
