"""Sampled Laplace noise a few times: none or one draw exactly, the rest on the contour; each against truths of its own."""

from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import Gaussian, SubsampledGaussian, SubsampledLaplace
from neartwin.losses.families import subsampled_laplace_few
from neartwin.losses.inversion import contour, saddle
from neartwin.losses.summands.rounding import NoCertificateError
from tests.oracles import steps

exact = mp.mpf  # of decimal strings, at the precision in force

ORDERS = ("remove", "add", "replace")
JOBS = [
    (2, "1", "0.01", 0.6),
    (3, "1", "0.01", 0.97),
    (7, "2", "0.3", 0.5),
    (15, "1", "0.01", 0.4),
    (60, "0.3", "0.2", 0.3),
]


def whole_of(n, e, q, order):
    return (n * SubsampledLaplace(epsilon=e, rate=q)).sides(order)[0].upper


def built(total, at, rtol):
    return subsampled_laplace_few.build(total.summands[0], total, at, rtol)


def ramps(e, q, order):
    """(density under P, loss) of each ramp as functions of y in (0, e), in mpmath."""
    low = mp.log(1 - q + q * mp.exp(-e))

    def log_r(y):
        return mp.log(1 - q + q * mp.exp(2 * y - e))

    rising = lambda y: mp.exp(log_r(y) - y) / 2  # noqa: E731
    return {
        "remove": [(rising, log_r)],
        "add": [(lambda y: mp.exp(-y) / 2, lambda y: -log_r(y))],
        "replace": [
            (rising, lambda y: log_r(y) - low),
            (lambda y: mp.exp(low - y) / 2, lambda y: low - log_r(y)),
        ],
    }[order]


def drawn(e, q, order, x):
    """E[(1 - e^{x - V})_+] over one draw, by quadrature on both sides of its kink."""
    found = mp.mpf(0)
    for density, loss in ramps(e, q, order):
        wanted = mp.exp(loss(mp.mpf(0)) - x) - 1, mp.exp(loss(e) - x) - 1
        cuts = [mp.mpf(0), e]
        if wanted[0] * wanted[1] < 0:
            cuts.insert(1, mp.findroot(lambda y, f=loss: f(y) - x, (mp.mpf(0), e), solver="anderson"))
        found += mp.quad(lambda y, d=density, f=loss: d(y) * max(mp.mpf(0), 1 - mp.exp(x - f(y))), cuts)
    return found


def share(e, q, order, n, eps):
    """What none and one draw add to delta(eps): atoms enumerated."""
    high, low = mp.log(1 - q + q * mp.exp(e)), mp.log(1 - q + q * mp.exp(-e))
    half = mp.mpf(1) / 2
    top, p, bottom, other = {
        "remove": (high, half * mp.exp(high - e), low, half * mp.exp(low)),
        "add": (-low, half, -high, half * mp.exp(-e)),
        "replace": (high - low, half * mp.exp(high - e), low - high, half * mp.exp(low - e)),
    }[order]
    found = mp.mpf(0)
    for k in range(2):
        for j in range(n - k + 1):
            weight = mp.binomial(n, k) * mp.binomial(n - k, j) * p ** (n - k - j) * other**j
            x = eps - (n - k - j) * top - j * bottom
            found += weight * (drawn(e, q, order, x) if k else max(mp.mpf(0), 1 - mp.exp(x)))
    return found


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("n", "e", "q"), [(2, "1", "0.01"), (5, "3", "0.4"), (4, "0.02", "0.9")])
def test_the_share_of_none_and_one_draw_is_its_integral(order, n, e, q):
    total = whole_of(n, e, q, order)
    few = subsampled_laplace_few.FewOnRamps(total.summands[0])
    with mp.workdps(30):
        for place in (-0.4, 0.3, 0.8, 0.999):
            eps = place * total.top.loss
            value, slack = few.share(np.array([eps]))
            truth = share(exact(e), exact(q), order, n, mp.mpf(eps))
            assert abs(value[0] - truth) <= slack[0]
            assert slack[0] <= 1e-11 * truth + 2e-13
            off, _ = few.share(np.array([eps - 1e-6 * total.top.loss]))
            assert abs(off[0] - truth) > slack[0]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("n", "e", "q", "place"), JOBS)
def test_few_draws_and_the_rest_hold_the_truth_copy_by_copy(order, n, e, q, place):
    total = whole_of(n, e, q, order)
    eps = place * total.top.loss
    line = built(total, saddle.for_eps(total, eps), 1e-6)
    low, high = line.delta(np.array([eps]))
    truth = steps.Ramps(exact(e), exact(q), order).delta(n, eps, 2)
    assert low[0] <= truth * (1 + mp.mpf(1e-15))
    assert truth * (1 - mp.mpf(1e-15)) <= high[0]
    assert high[0] - low[0] < 1e-5 * high[0]
    off = steps.Ramps(exact(e), exact(q), order).delta(n, eps + 1e-4 * total.top.loss, 2)
    assert not low[0] <= off <= high[0]


def test_without_the_rest_the_truth_would_be_missed():
    total = whole_of(15, "1", "0.01", "remove")
    eps = 0.4 * total.top.loss
    line = built(total, saddle.for_eps(total, eps), 1e-9)
    value, slack = line.few.share(np.array([eps]))
    assert value[0] + slack[0] < 0.9 * line.delta(np.array([eps]))[0][0]


@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-15", "1e-30"])
@pytest.mark.parametrize("n", [3, 15])
def test_few_uses_hold_the_truth_at_the_default_width(n, delta):
    whole = n * SubsampledLaplace(epsilon=1, rate="0.05")
    found = whole.epsilon(delta, direction="remove")
    assert 0 < found.width <= 1e-7 * found.upper
    law = steps.Ramps(mp.mpf(1), mp.mpf(1) / 20, "remove")
    slack = 1 + mp.mpf(1e-14)
    assert law.delta(n, found.lower, 2) * slack >= mp.mpf(delta)
    assert law.delta(n, found.upper, 2) <= mp.mpf(delta) * slack


def test_a_finer_delta_lies_inside_a_coarser_one():
    """The plain contour that serves the coarser is finer than the coarse line of few uses."""
    eps = np.array([8.038513907931232])
    found = []
    for rtol in (1e-3, 1e-6, 1e-7, 1e-8, 1e-9):
        side = (52 * SubsampledLaplace(epsilon="1.34", rate="0.2551")).sides("add")[0]
        lower, upper, _ = side.delta(eps, rtol)
        found.append((lower[0], upper[0]))
    for coarse, fine in pairwise(found):
        assert coarse[0] <= fine[0] <= fine[1] <= coarse[1]
    assert found[-1] != found[0]


def test_three_uses_ask_few_frequencies():
    total = whole_of(3, "1", "0.01", "remove")
    at = saddle.for_delta(total, 1e-6)
    assert built(total, at, 1e-8).nodes < 3000
    with pytest.raises(NoCertificateError):
        contour.build(total, at, 0.0)  # the transform of atoms alone never falls


def test_other_laws_take_other_lines():
    few = 3 * SubsampledLaplace(epsilon=1, rate="0.1")
    assert few.sides("remove")[0].upper.ladder is not None
    for whole in (
        few + Gaussian(mu=1),
        few + SubsampledLaplace(epsilon=1, rate="0.2"),
        901 * SubsampledLaplace(epsilon=1, rate="0.1"),
    ):
        assert whole.sides("remove")[0].upper.ladder is None


@pytest.mark.slow
def test_a_mix_with_seldom_sampled_gaussians_takes_their_ladder():
    whole = 1000 * SubsampledGaussian(mu=1, rate="1e-5") + 3 * SubsampledLaplace(epsilon=1, rate="0.1")
    alone = (3 * SubsampledLaplace(epsilon=1, rate="0.1")).epsilon(1e-6)
    found = whole.epsilon(1e-6)
    assert alone.upper < found.lower < 1.01 * alone.upper
    assert found.width <= 1e-8 * found.upper
