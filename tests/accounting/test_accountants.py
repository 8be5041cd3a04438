"""Each accountant bounds the truth, in the order theory says, and gives its published or closed number."""

import math

import numpy as np
import pytest

from neartwin.accounting.accountants import (
    advanced_accountant,
    basic_accountant,
    gdp_accountant,
    moments_accountant,
    numerical_accountant,
    optimal_accountant,
    rdp_accountant,
    rdp_epsilon,
    zcdp_accountant,
)
from neartwin.accounting.usage import parallel, repeated, sequential
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import Approx, Gaussian, Laplace, Leak, Pure, SubsampledGaussian

LAPLACES = repeated(Laplace(epsilon="0.1"), 100)


def test_accountant_with_more_knowledge_states_a_smaller_loss():
    delta = "1e-6"
    numerical = numerical_accountant(LAPLACES).epsilon(delta)
    optimal = optimal_accountant(LAPLACES).epsilon(delta).upper
    advanced = advanced_accountant(LAPLACES, slack="0.999e-6").epsilon(delta).upper
    basic = basic_accountant(LAPLACES).pure().upper
    zcdp, rdp = (
        zcdp_accountant(LAPLACES).epsilon(delta).upper,
        rdp_epsilon(rdp_accountant(LAPLACES), delta).epsilon.upper,
    )
    assert 4.692667414680189 in numerical
    assert numerical.upper < optimal < advanced < basic
    assert numerical.upper < rdp <= zcdp * (1 + 1e-6) < advanced
    assert basic == pytest.approx(10, rel=1e-9)


def test_advanced_and_basic_composition_of_a_mix_are_their_closed_forms():
    mix = sequential(
        repeated(Approx(epsilon="0.1", delta="1e-8"), 50), repeated(Pure(epsilon="0.05"), 200), Leak(delta="1e-7")
    )
    (factor,) = advanced_accountant(mix, slack="1e-6").cases[0].uses
    squares, mean = 50 * 0.01 + 200 * 0.0025, 50 * 0.1 * math.tanh(0.05) + 200 * 0.05 * math.tanh(0.025)
    assert float(factor.epsilon) == pytest.approx(mean + math.sqrt(2 * math.log(1e6) * squares), rel=1e-12)
    assert float(factor.delta) == pytest.approx(50e-8 + 1e-7 + 1e-6, rel=1e-12)
    (factor,) = basic_accountant(mix).cases[0].uses
    assert (float(factor.epsilon), float(factor.delta)) == (15.0, pytest.approx(6e-7, rel=1e-12))
    (factor,) = advanced_accountant(repeated(Pure(epsilon=1), 2), slack="1e-6").cases[0].uses
    assert (factor.epsilon, factor.delta) == (2, 0)  # basic is better, and needs no slack


def test_published_numbers_of_the_moments_accountant_come_out():
    """TF-privacy's tests: 60,000 examples in batches of 150, sigma 1.3, 15 epochs, delta 1e-5."""
    steps = repeated(SubsampledGaussian(mu="10/13", rate="0.0025"), 6000)
    curve = rdp_accountant(steps, orders=range(2, 65))
    found = rdp_epsilon(curve, "1e-5")
    assert found.epsilon.upper == pytest.approx(0.7242234026109595, rel=1e-6)
    assert found.order == 19
    assert moments_accountant(steps, "1e-5").epsilon.upper > found.epsilon.upper
    truth = numerical_accountant(steps).epsilon("1e-5")
    assert truth.upper < found.epsilon.upper


def test_an_order_at_the_edge_of_its_grid_warns_and_one_inside_does_not():
    steps = repeated(Gaussian(mu="0.05"), 1000)
    with pytest.warns(UserWarning, match="edge of the grid"):
        at_edge = rdp_epsilon(rdp_accountant(steps, orders=(1.5, 2.0, 2.5)), "1e-6")
    assert at_edge.epsilon.upper > rdp_epsilon(rdp_accountant(steps), "1e-6").epsilon.upper > 8.306225049954728


def test_gaussian_accountant_is_exact_for_gaussians_and_above_others():
    steps = repeated(SubsampledGaussian(mu=1, rate="0.05"), 100)
    fitted, truth = gdp_accountant(steps, delta="1e-8"), numerical_accountant(steps)
    for eps in np.linspace(0, 6, 13):
        assert fitted.delta(eps).upper >= truth.delta(eps).lower
    exact = gdp_accountant(repeated(Gaussian(mu="0.5"), 4))
    assert 4.886554117462212 in exact.epsilon("1e-6")


def test_accountants_take_the_worst_of_disjoint_parts():
    parts = parallel(repeated(Pure(epsilon="0.1"), 10), Pure(epsilon="0.5"))
    assert basic_accountant(parts).pure().upper == pytest.approx(1, rel=1e-9)
    assert basic_accountant(parts, neighbours="replace_one").pure().upper == pytest.approx(1.5, rel=1e-9)


def test_accountant_refuses_what_it_cannot_state():
    for ask in (
        lambda: basic_accountant(Gaussian(mu=1)),
        lambda: optimal_accountant(SubsampledGaussian(mu=1, rate="0.1")),
        lambda: zcdp_accountant(Leak(delta="1e-9")),
        lambda: rdp_accountant(Leak(delta="1e-9")),
        lambda: gdp_accountant(SubsampledGaussian(mu=1, rate="0.1")),
    ):
        with pytest.raises(PrivacyError):
            ask()
    with pytest.raises(ParameterError):
        basic_accountant(repeated(Approx(epsilon=1, delta="0.1"), 10))
    with pytest.raises(ParameterError):
        advanced_accountant(LAPLACES, slack=0)
