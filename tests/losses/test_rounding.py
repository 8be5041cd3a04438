"""The two assumptions of the room, measured; and the logarithm that every line takes."""

import mpmath as mp
import numpy as np
import pytest
from scipy.special import erfcx, log_ndtr, ndtr

from neartwin.losses.families.laplace import POINTS, legendre
from neartwin.losses.summands.rounding import ELEMENTARY, U, log_one_plus, wrong_primitives

mp.mp.dps = 40

FUNCTIONS = {
    "exp": (np.exp, mp.exp, (-700, 700)),
    "expm1": (np.expm1, mp.expm1, (-30, 700)),
    "log": (np.log, mp.log, (1e-300, 1e300)),
    "log1p": (np.log1p, mp.log1p, (-0.999, 1e5)),
    "sin": (np.sin, mp.sin, (-1e6, 1e6)),
    "cos": (np.cos, mp.cos, (-1e6, 1e6)),
    "arctan": (np.arctan, mp.atan, (-1e6, 1e6)),
    "ndtr": (ndtr, mp.ncdf, (-8, 8)),
    "erfcx": (erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), (-2, 500)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_elementary_functions_err_by_less_than_is_charged(name):
    ours, truth, (low, high) = FUNCTIONS[name]
    rng = np.random.default_rng(7)
    x = rng.uniform(low, high, 300)
    x = np.concatenate([x, x * 10.0 ** rng.uniform(-12, 0, 300)])
    x = x[(x > low) & (x < high) & (x != 0)]
    values = ours(x)
    allowed = np.full(len(x), ELEMENTARY)
    if name == "ndtr":
        allowed += 2 * U * x * x  # it squares its argument inside an exponential
    errors = [abs(mp.mpf(v) - truth(mp.mpf(a))) / abs(truth(mp.mpf(a))) for a, v in zip(x, values, strict=True)]
    assert all(error <= most for error, most in zip(errors, allowed, strict=True))
    assert max(errors) > U / 4  # and the charge is not a hundred times too much


def test_the_first_import_tells_functions_that_err_by_more_than_is_charged():
    assert wrong_primitives() == []
    rough = {"exp": lambda x: np.exp(x) * (1 + 1e-14), "sin": lambda x: np.sin(x) + 1e-20, "log": np.log}
    assert wrong_primitives(rough) == ["exp", "sin"]


def test_the_logarithm_of_a_share_errs_by_less_than_is_charged():
    x = np.concatenate([np.linspace(-40, 12, 300), np.geomspace(1e-9, 9, 100), -np.geomspace(1e-9, 300, 100)])
    truth = [mp.log(mp.ncdf(mp.mpf(one))) for one in x]
    errors = [abs(mp.mpf(v) - one) / (1 + abs(one)) for v, one in zip(log_ndtr(x), truth, strict=True)]
    assert U / 4 < max(errors) <= ELEMENTARY


def test_legendre_nodes_are_as_accurate_as_charged():
    points, weights = legendre()
    for x, w in zip(points, weights, strict=True):
        root = mp.findroot(lambda y: mp.legendre(POINTS, y), mp.mpf(x))
        slope = mp.diff(lambda y: mp.legendre(POINTS, y), root)
        weight = 2 / ((1 - root**2) * slope**2)
        assert abs(mp.mpf(x) - root) <= 8 * U
        assert abs(mp.mpf(w) - weight) <= 256 * U * weight


def test_log_one_plus_bounds_powers_and_would_not_without_its_error_term():
    rng = np.random.default_rng(3)
    x, y = rng.normal(0, 0.7, 400), rng.normal(0, 0.7, 400)
    x[:100], y[:100] = x[:100] * 1e-9, y[:100] * 1e-6
    moved_x, moved_y = x * (1 + 1e-9), y * (1 - 1e-9)  # the truth, some way off what was computed
    error = np.hypot(moved_x - x, moved_y - y) * (1 + 1e-12)
    value, bound = log_one_plus(x, y, error)
    _, bare = log_one_plus(x, y, np.zeros_like(error))
    n, broken = 1000, 0
    for j in range(400):
        truth = mp.mpc(1 + mp.mpf(moved_x[j]), mp.mpf(moved_y[j]))
        ratio = mp.exp(n * mp.log(truth)) / mp.exp(n * mp.mpc(value[j]))
        assert abs(ratio - 1) <= mp.expm1(n * mp.mpf(bound[j]))
        broken += abs(ratio - 1) > mp.expm1(n * mp.mpf(bare[j]))
    assert broken > 200
