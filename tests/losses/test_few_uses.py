"""Sampled Laplace noise a few times, whose two atoms keep the transform from falling: against truths copy by copy."""

from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import Pure, SubsampledGaussian, SubsampledLaplace, compose
from tests.oracles import steps


@pytest.mark.slow
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


@pytest.mark.parametrize("order", ["remove", "add", "replace"])
@pytest.mark.parametrize(("share", "width"), [("0.0009", 1e-6), ("1e-5", 1e-6), ("1e-9", 1e-9), ("1e-200", 1e-12)])
def test_a_delta_far_below_the_mass_of_the_greatest_loss_is_next_to_it(share, width, order):
    law = steps.Ramps(mp.mpf("0.139"), mp.mpf("0.0857"), order)
    whole = 3 * SubsampledLaplace(epsilon="0.139", rate="0.0857")
    total = whole.sides(order)[0].upper
    delta = float(mp.mpf(share) * total.top.mass)
    found = whole.epsilon(delta, direction=order)
    assert found.width <= width * found.upper
    slack = 1 + mp.mpf(1e-13) + mp.mpf(1e-15) * law.largest / (delta / total.top.mass)  # of neighbouring floats there
    assert law.delta(3, found.lower, 1) * slack >= delta
    assert law.delta(3, found.upper, 1) <= delta * slack
    # (K18), and with a tilt that it does not allow, which leaves out losses just below the greatest
    steep, allowed = 2e4, total.top.mass / delta - 1
    ends = [
        total.top.loss + mp.log1p(-delta / mp.exp(total.log_mgf_above(tilt) - tilt * total.top.loss))
        for tilt in (min(steep, allowed), steep)
    ]
    assert [law.delta(3, end, 1) > delta * slack for end in ends] == [False, allowed < steep / 2]


@pytest.mark.parametrize(("e", "count"), [("1e8", 1), ("1e10", 1), ("50", 10**7), ("600", 10**6)])
@pytest.mark.parametrize("delta", ["1e-8", "1e-6", "1e-5", "1e-4"])
def test_a_great_loss_that_is_known_to_rounding_alone_has_sound_ends(e, count, delta):
    """The next loss is 2e below, so that one atom is all there is."""
    found = (count * Pure(epsilon=e)).epsilon(delta)
    with mp.workdps(50):
        mass = (1 / (1 + mp.exp(-mp.mpf(e)))) ** count
        truth = count * mp.mpf(e) + mp.log1p(-mp.mpf(delta) / mass)
        assert found.lower <= truth <= found.upper


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


@pytest.mark.slow
def test_a_mix_with_seldom_sampled_gaussians_takes_their_ladder():
    whole = 1000 * SubsampledGaussian(mu=1, rate="1e-5") + 3 * SubsampledLaplace(epsilon=1, rate="0.1")
    alone = (3 * SubsampledLaplace(epsilon=1, rate="0.1")).epsilon(1e-6)
    found = whole.epsilon(1e-6)
    assert alone.upper < found.lower < 1.01 * alone.upper
    assert found.width <= 1e-8 * found.upper


@pytest.mark.slow
@pytest.mark.parametrize("before", ["epsilon", "delta", "pure", "coarse"])
def test_an_answer_is_the_same_whatever_was_asked_before(before):
    def whole():
        steps = (("0.002593", "0.3574", 1), ("0.001365", "0.259", 1), ("0.007703", "0.99767", 2))
        return compose({SubsampledLaplace(epsilon=e, rate=rate): count for e, rate, count in steps})

    asked, first = whole(), whole().epsilon("8e-7")
    earlier = {
        "epsilon": lambda: asked.epsilon("1.7e-6"),
        "delta": lambda: asked.delta([0.002, 0.009]),
        "pure": asked.pure,
        "coarse": lambda: asked.epsilon("8e-7", rtol=1e-3),
    }
    earlier[before]()
    assert asked.epsilon("8e-7") == first == asked.epsilon("8e-7")
