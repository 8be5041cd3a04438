"""Special functions of a few numbers, which load no library: as near to 60 digits as those of arrays."""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.special

from neartwin import special

mp.mp.dps = 60
UNIT = 2.0**-53


def places(seed):
    rng = np.random.default_rng(seed)
    near = np.concatenate([rng.uniform(-26.6, 26.6, 400), rng.uniform(-2, 5, 300), 25 + rng.uniform(-1e-3, 1e-3, 50)])
    return np.concatenate([near, 10.0 ** rng.uniform(-20, 8, 200)])


def scaled(x):
    if x < 1000:
        return mp.exp(x * x) * mp.erfc(x)
    return (1 - 1 / (2 * x * x) + 3 / (4 * x**4)) / (x * mp.sqrt(mp.pi))


TRUTHS = {"erf": (mp.erf, (-6, 6)), "erfc": (mp.erfc, (-6, 26)), "erfcx": (scaled, (-27, 1e9))}


@pytest.mark.parametrize("name", TRUTHS)
def test_error_functions_of_one_number_err_by_half_of_what_is_charged(name):
    truth, (low, high) = TRUTHS[name]
    for x in places(1):
        if low < x < high:
            true = truth(mp.mpf(x))
            assert abs(mp.mpf(float(getattr(special, name)(float(x)))) - true) <= 8 * UNIT * abs(true), x


def test_normal_quantile_of_one_number_errs_by_half_of_what_is_charged():
    rng = np.random.default_rng(2)
    for p in [*10.0 ** rng.uniform(-300, -0.31, 400), *rng.uniform(0, 0.499, 300)]:
        z = mp.mpf(float(special.ndtri(float(p))))
        off = (mp.ncdf(z) - mp.mpf(p)) / mp.npdf(z)  # one step of Newton's, exact here
        assert abs(off) <= 8 * UNIT * abs(z), p


@pytest.mark.parametrize("name", ["erf", "erfc", "erfcx", "ndtri"])
def test_an_array_of_few_keeps_its_shape_and_edges_are_as_in_scipy(name):
    ours, its = getattr(special, name), getattr(scipy.special, name)
    for x in (0.0, 1.0, 0.3, -np.inf, np.inf, np.nan, -30.0, 2.0):
        np.testing.assert_allclose(ours(x), its(x), rtol=1e-14)
        assert isinstance(ours(x), np.float64)
        assert ours(np.full((1, 1), x)).shape == (1, 1)
    many = np.linspace(0.05, 0.95, 17)
    np.testing.assert_allclose(ours(many[:16]), its(many[:16]), rtol=1e-14)
    assert ours(many[:0]).shape == (0,)
    assert np.array_equal(ours(many), its(many))


def test_scaled_error_function_far_below_is_infinite_and_not_an_error():
    assert special.erfcx(-26.62) < math.inf
    assert special.erfcx(-26.63) == special.erfcx(-1e300) == math.inf
