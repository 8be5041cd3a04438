"""Roots are certified by signs: what cannot be certified is widened, to the bracket it started from if need be."""

import numpy as np

from neartwin.tradeoff.roots import decreasing_root


def solved(function, slope, error, low=0.0, high=4.0):
    """The certified ends around the root, for a constant bound on the error of the values."""

    def residual(x, _places):
        return function(x), np.full_like(x, slope), np.full_like(x, error)

    return decreasing_root(residual, np.array([low]), np.array([high]))


def test_the_ends_have_certain_signs():
    for error in (0.0, 1e-12, 1e-3):
        low, high = solved(lambda x: 2 - x**2, -2 * 2**0.5, error)
        assert 2 - low[0] ** 2 >= error
        assert 2 - high[0] ** 2 <= -error
        assert high[0] - low[0] <= 4 * error + 1e-14


def test_a_wrong_slope_widens_and_never_falsifies():
    low, high = solved(lambda x: 2 - x**2, -1e6, 1e-6)
    assert 2 - low[0] ** 2 >= 1e-6
    assert 2 - high[0] ** 2 <= -1e-6


def test_what_cannot_be_certified_keeps_the_bracket():
    low, high = solved(lambda x: 2 - x**2, -2.8, 100.0)
    assert (low[0], high[0]) == (0.0, 4.0)
