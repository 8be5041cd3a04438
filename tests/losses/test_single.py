"""One step and one line, at hostile points: the stated errors hold against mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import FinitePair, Gaussian, Laplace, SubsampledGaussian, SubsampledLaplace


def one_step(mu, q, order, eps):
    """The hockey-stick of one subsampled Gaussian step by its half-line, in mpmath."""
    mu, q, eps = mp.mpf(mu), mp.mpf(q), mp.mpf(eps)
    l = eps if order == "remove" else -eps
    if mp.expm1(l) <= -q:
        return -mp.expm1(eps) if order == "remove" else mp.mpf(0)
    u = (mp.log1p(mp.expm1(l) / q) + mu**2 / 2) / mu
    if order == "remove":
        return (1 - q) * mp.ncdf(-u) + q * mp.ncdf(mu - u) - mp.exp(eps) * mp.ncdf(-u)
    return mp.ncdf(u) - mp.exp(eps) * ((1 - q) * mp.ncdf(u) + q * mp.ncdf(u - mu))


@pytest.mark.parametrize("order", ["remove", "add"])
@pytest.mark.parametrize(
    ("mu", "q"), [("1", "0.01"), ("0.05", "0.5"), ("6", "0.000001"), ("30", "0.25"), ("45", "0.9")]
)
def test_single_step_contains_its_truth_at_every_scale_of_epsilon(mu, q, order):
    whole = 1 * SubsampledGaussian(mu=mu, rate=q)
    top = -float(mp.log1p(-mp.mpf(q)))
    places = [
        -3.0,
        -top * 1.0000001,
        -1e-9,
        0.0,
        1e-12,
        0.3 * top,
        top * (1 - 1e-9),
        top * 1.1,
        0.7,
        20.0,
        300.0,
        690.0,
        708.0,
        712.0,
        900.0,
    ]
    eps = np.array(places)
    found = whole.delta(eps, direction=order)
    with mp.workdps(600):
        for e, low, high in zip(places, found.lower, found.upper, strict=True):
            exact = one_step(mu, q, order, e)
            assert low <= exact <= high, e
            assert high - low <= 1e-9 * high + 2e-11 or e > 650 or abs(abs(e) - top) < 1e-6 * top, e


@pytest.mark.slow
@pytest.mark.parametrize("order", ["remove", "add", "replace"])
@pytest.mark.parametrize(("e", "q", "delta"), [("1", "0.01", 1e-4), ("100", "1e-9", 1e-10), ("0.001", "0.5", 1e-5)])
def test_one_sampled_laplace_step_meets_the_integral_of_its_densities(e, q, delta, order):
    found = (1 * SubsampledLaplace(epsilon=e, rate=q)).epsilon(delta, direction=order)
    assert found.method == "closed form"
    assert found.width <= 1e-13 * found.upper
    with mp.workdps(60):
        e, q = mp.mpf(e), mp.mpf(q)

        def mixed(x, centre):
            return (1 - q) * mp.exp(-abs(x)) / 2 + q * mp.exp(-abs(x - centre)) / 2

        def above(x, eps):
            p = mp.exp(-abs(x)) / 2 if order == "add" else mixed(x, e)
            other = {"remove": 0, "add": e, "replace": -e}[order]
            return p - mp.exp(eps) * (mixed(x, other) if other else mp.exp(-abs(x)) / 2)

        for end, sign in ((mp.mpf(found.lower), 1), (mp.mpf(found.upper), -1)):
            side = -1 if order == "add" else 1
            low, high = (mp.mpf(0), e)[::side]  # the sign changes between them
            for _ in range(150):
                middle = (low + high) / 2
                low, high = (low, middle) if above(middle, end) > 0 else (middle, high)
            kink = (low + high) / 2
            # beyond lies e^-100 of P
            places = [kink, *(x for x in (mp.mpf(0), e, *range(-100, 201, 10)) if side * x > side * kink)]
            exact = side * mp.quad(lambda x, end=end: above(x, end), sorted(places, key=lambda x: side * x))
            assert sign * (exact - mp.mpf(delta)) >= -(mp.mpf(10) ** -25) * delta, (end, exact)
            assert abs(exact - mp.mpf(delta)) < mp.mpf(10) ** -9 * delta


@pytest.mark.parametrize("e", ["0.000000001", "0.4", "7", "45"])
@pytest.mark.parametrize("lam", [1e-6, 0.3, 2.4999, 30.0, 1e5])
def test_the_line_of_laplace_errs_by_no_more_than_it_says(e, lam):
    part = (1 * Laplace(epsilon=e)).sides("remove")[0].upper.summands[0]
    scale = 1 / float(e)
    t = np.array([0.0, 1e-9, 1e-3, 0.5, 3.0, 40.0, 1e4]) * scale
    line, error = part.log_mgf_ratio(lam, t)

    def mgf(s):
        x = mp.mpf(e)
        return (mp.exp(s * x) * (1 + s) + mp.exp(-(1 + s) * x) * s) / (1 + 2 * s)

    with mp.workdps(60):
        for one, bound, at in zip(line, error, t, strict=True):
            exact = mgf(mp.mpc(lam, float(at))) / mgf(mp.mpf(lam))
            off = abs(exact / mp.exp(mp.mpc(complex(one))) - 1)
            assert off <= mp.expm1(mp.mpf(float(bound))) + mp.mpf(10) ** -40, (at, off, bound)
            assert bound < 1e-6 or at > 1e3 * scale


@pytest.mark.parametrize("order", ["remove", "add", "replace"])
@pytest.mark.parametrize(
    "factor", [lambda q: SubsampledGaussian(mu=8, rate=q), lambda q: SubsampledLaplace(epsilon=8, rate=q)]
)
def test_delta_that_covers_every_sample_is_free_and_a_smaller_one_is_not(order, factor):
    for q, count in (("1e-300", 3), ("1e-9", 7), ("0.01", 4)):
        whole = count * factor(q)
        taken = count * float(q)  # more than the probability that the unit takes part at all
        assert whole.epsilon(taken * (1 + 1e-9), direction=order).upper == 0
    assert (1 * factor("0.01")).epsilon(
        0.0095, direction=order
    ).lower > 0  # so little noise that who takes part is seen


@pytest.mark.parametrize("count", [4000, 5000, 5150, 5200, 5250, 5300, 6000, 100_000])
def test_gaussians_with_a_second_tail_beyond_floats_are_narrow_too(count):
    """e^eps is above 1e280 and what it multiplies below 1e-300: between the two, a few digits were left of it."""
    found = (count * Gaussian(mu="0.3829")).epsilon("4.9e-27")
    assert found.width <= 1e-12 * found.upper
    with mp.workdps(40):
        mu = mp.sqrt(count) * mp.mpf("0.3829")

        def delta(eps):
            far = [mp.erfc((eps / mu + side * mu / 2) / mp.sqrt(2)) / 2 for side in (-1, 1)]
            return far[0] - mp.exp(eps) * far[1]

        assert delta(mp.mpf(found.upper)) <= mp.mpf("4.9e-27") <= delta(mp.mpf(found.lower))


def test_seldom_far_moved_step_contains_its_truth_despite_cancellation():
    mu, rate, delta = 20, "1e-9", "9.9999998e-10"
    found = (1 * SubsampledGaussian(mu=mu, rate=rate)).epsilon(delta, direction="remove")
    with mp.workdps(60):
        q = mp.mpf(rate)

        def true_delta(eps):
            u = mp.log((mp.exp(eps) - 1 + q) / q) / mu + mp.mpf(mu) / 2
            return (1 - q - mp.exp(eps)) * mp.ncdf(-u) + q * mp.ncdf(mu - u)

        assert true_delta(mp.mpf(found.lower)) >= mp.mpf(delta) >= true_delta(mp.mpf(found.upper))
    assert 68.29 < found.lower <= found.upper < 68.30


@pytest.mark.parametrize("count", [1, 10])
def test_a_delta_below_every_float_is_no_promise_of_none(count):
    steps = count * SubsampledGaussian(mu=1, rate="0.01")
    found = steps.delta(np.array([300.0, 2000.0]))
    assert np.all(found.lower == 0)
    assert np.all(found.upper == math.ulp(0.0))
    assert steps.delta(300.0, direction="add").upper == 0  # no loss is greater than count log 1/0.99
    assert steps.delta(0.999 * count * -math.log1p(-0.01), direction="add").upper > 0


def test_delta_of_a_negative_epsilon_holds_where_all_may_be_revealed():
    found = (2 * FinitePair(p=("1/2", "1/2"), q=(1, 0))).delta(-2.0, direction="remove")
    assert found.lower <= -float(mp.expm1(-2)) <= found.upper  # P(reveals) + P(other) - e^eps
    assert found.upper - found.lower < 1e-12
