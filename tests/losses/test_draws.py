"""Laplace noise repeated: few draws exactly, the rest on the contour; each part against its own truth, and the whole."""

import math

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import Gaussian, Laplace, draws, saddle
from neartwin.losses.laplace import LaplacePair
from neartwin.losses.rounding import NoCertificateError
from tests.oracles import compositions as truth

JOBS = [(2, "1", 0.3), (3, "0.5", 1.1), (5, "0.1", 0.21), (12, "2", 9.0), (30, "0.02", 0.3), (60, "0.3", 4.0)]


def share(e, n, k, eps):
    """What exactly k draws add to delta(eps), in mpmath: atoms enumerated, draws integrated between their kinks."""
    e, eps, found = mp.mpf(e), mp.mpf(eps), mp.mpf(0)
    for j in range(n - k + 1):
        weight = mp.binomial(n, k) * mp.binomial(n - k, j) * mp.mpf(2) ** (k - n) * mp.exp(-j * e)
        found += weight * drawn(e, k, eps - (n - k - 2 * j) * e)
    return found


def drawn(e, k, x):
    """E[(1 - e^{x - V})_+] over the sum of k draws, by quadrature."""
    if k == 0:
        return max(0, 1 - mp.exp(x))
    low = max(x, -k * e)
    if low >= k * e:
        return mp.mpf(0)
    kinks = [low, *([mp.mpf(0)] if k == 2 and low < 0 else []), k * e]
    return mp.quad(lambda v: mp.exp((v - k * e) / 2) / 4**k * (2 * e - abs(v)) ** (k - 1) * (1 - mp.exp(x - v)), kinks)


@pytest.mark.parametrize(("n", "e", "eps"), [(2, "1", 0.3), (4, "0.5", -3.0), (9, "0.1", 0.21), (12, "3", 30.0)])
def test_the_share_of_few_draws_is_its_integral(n, e, eps):
    few = draws.Few(float(e), n)
    for at in (eps, eps * 1.07, n * float(e) - 1e-3, n * float(e) + 1e-9):
        value, slack = few.share(np.array([at]))
        exact = sum(share(float(e), n, k, at) for k in range(3))
        assert abs(value[0] - exact) <= slack[0]
        assert slack[0] <= 1e-8 * exact + 1e-14


@pytest.mark.parametrize(("n", "e", "eps"), JOBS)
def test_few_draws_and_the_rest_hold_the_residue_sum(n, e, eps):
    total = (n * Laplace(epsilon=e)).side("remove").upper
    at = saddle.for_eps(total, eps)
    line = draws.build(total, at, 1e-9)
    points = eps + np.array([0.0, 0.3, -0.2]) * at.deviation
    low, high = line.delta(points)
    for one, lower, upper in zip(points, low, high, strict=True):
        exact = truth.laplace(e, n, one)
        assert lower <= exact <= upper
    assert high[0] - low[0] < 1e-7 * high[0]


def test_without_its_error_terms_a_coarse_line_would_exclude_the_truth():
    n, e, eps = 30, "0.02", 0.3
    total = (n * Laplace(epsilon=e)).side("remove").upper
    line = draws.build(total, saddle.for_eps(total, eps), 1e-3)
    low, high, parts = line.ledger(np.array([eps]))
    exact = truth.laplace(e, n, eps)
    assert low[0] <= exact <= high[0]
    alone = line.few.share(np.array([eps]))[0][0]
    assert alone < 0.999 * exact  # the rest is needed
    middle, _ = line.middle(eps)
    assert abs(middle - exact) > parts["rounding"][0]  # so are aliases and cut: rounding alone would not hold it
    assert abs(middle - exact) <= parts["aliasing"][0] + parts["frequency cut"][0] + parts["rounding"][0]


@pytest.mark.parametrize("delta", ["1e-3", "1e-15", "1e-30"])
def test_the_default_width_holds_the_truth(delta):
    found = (60 * Laplace(epsilon="0.1")).epsilon(delta)
    assert found.width <= 1e-8 * found.upper
    assert truth.laplace("0.1", 60, found.lower) >= mp.mpf(delta)
    assert truth.laplace("0.1", 60, found.upper) <= mp.mpf(delta)


def test_the_wider_question_holds_the_narrower():
    whole = 100 * Laplace(epsilon="0.1")
    wide, fine = whole.epsilon("1e-6", within=1e-5), (100 * Laplace(epsilon="0.1")).epsilon("1e-6", within=1e-10)
    assert wide.lower <= fine.lower <= 4.692667414680190 <= fine.upper <= wide.upper
    assert fine.width < 1e-10 * fine.upper


@pytest.mark.parametrize("parts", [[LaplacePair(1)], [LaplacePair(1), LaplacePair(2)]])
def test_other_laws_take_other_lines(parts):
    total = sum((3 * Laplace(epsilon=pair.rate) for pair in parts), 1 * Gaussian(mu=1)).side("remove").upper
    with pytest.raises(NoCertificateError):
        draws.build(total, saddle.for_eps(total, 1.0), 1e-8)
    single = (901 * Laplace(epsilon="0.1")).side("remove").upper
    with pytest.raises(NoCertificateError):
        draws.build(single, saddle.for_eps(single, 1.0), 1e-8)


def test_the_ramp_is_exact_where_its_two_forms_meet():
    for h in (1e-8, 0.3, 0.999999, 1.0, 1.000001, 7.0):
        y = mp.mpf(h) / 2
        exact = mp.exp(-y) * (mp.sinh(y) - y) / 2
        assert math.isclose(draws._ramp(np.array([h]))[0], float(exact), rel_tol=2e-14)
    assert draws._ramp(np.array([-1.0, 0.0])).tolist() == [0.0, 0.0]
