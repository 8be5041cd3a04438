"""The oracles of the strata agree with each other where their methods have nothing in common, and see a billionth."""

import mpmath as mp
import pytest

from tests.losses.strata import twice
from tests.oracles import compositions, lines, steps, sums


def close(one, other, share):
    return abs(one - other) <= share * abs(one)


@pytest.mark.parametrize(("count", "eps"), [(3, 2.5), (45, 12)])
def test_residues_and_steps_agree_on_laplace(count, eps):
    one = mp.mpf(1)
    truth = compositions.laplace(one, count, eps)
    assert close(truth, steps.Ramps(one, one, "remove").delta(count, eps, 2), 1e-14)


@pytest.mark.parametrize("order", ["remove", "add", "replace"])
def test_steps_and_lines_agree_on_sampled_laplace(order):
    e, q = mp.mpf(1), mp.mpf(1) / 10
    stepped = steps.Ramps(e, q, order).delta(150, 2.5, 1)
    assert close(stepped, lines.delta(lines.SampledLaplace(e, q, order), 150, 2.5, 1), 1e-9)
    assert not close(stepped, lines.delta(lines.SampledLaplace(e, q, order), 150, 2.5 + 1e-8, 1), 1e-9)


@pytest.mark.parametrize("order", ["remove", "add"])
def test_steps_and_lines_agree_on_sampled_gaussians(order):
    mu, q = mp.mpf(1), mp.mpf(1) / 5
    stepped = steps.Tails(mu, q, order, 30, 1e-6).delta(2.5, 1)
    assert close(stepped, lines.delta(lines.SampledGaussian(mu, q, order), 30, 2.5, 1), 1e-9)


def test_circles_and_convolutions_agree():
    masses, start, step = [mp.mpf(x) / 10 for x in (5, 0, 2, 3)], -mp.mpf(1) / 3, mp.mpf(1) / 4
    for count, eps in ((1, 0.1), (9, 0.8), (40, 3.0)):
        assert close(
            sums.on_lattice(masses, start, step, count, eps), lines.on_circle(masses, start, step, count, eps, 1), 1e-25
        )


def test_an_oracle_tells_what_its_resolution_costs():
    rough = twice(lambda eps, fine: mp.exp(-eps) + mp.mpf(10) ** (-6 * fine))
    assert rough(1.0)[1] >= 1e-6
