"""Each accountant bounds the truth, in the order theory says, and gives its published or closed number."""

import pytest

from neartwin.accounting.usage import cost, rdp_accountant, repeated
from neartwin.errors import PrivacyError
from neartwin.losses import Gaussian, Leak, SubsampledGaussian


def test_published_numbers_of_the_moments_accountant_come_out():
    """TF-privacy's tests: 60,000 examples in batches of 150, sigma 1.3, 15 epochs, delta 1e-5."""
    steps = repeated(SubsampledGaussian(mu="10/13", rate="0.0025"), 6000)
    curve = rdp_accountant(steps, orders=range(2, 65))
    found = curve.epsilon("1e-5")
    assert found.epsilon.upper == pytest.approx(0.7242234026109595, rel=1e-6)
    assert found.order == 19
    assert curve.epsilon_mironov("1e-5").epsilon.upper > found.epsilon.upper
    truth = cost(steps).epsilon("1e-5")
    assert truth.upper < found.epsilon.upper


def test_an_order_at_the_edge_of_its_grid_says_so_and_one_inside_does_not():
    steps = repeated(Gaussian(mu="0.05"), 1000)
    edge, inside = (rdp_accountant(steps, **grid).epsilon("1e-6") for grid in ({"orders": (1.5, 2.0, 2.5)}, {}))
    assert (edge.at_edge, inside.at_edge) == (True, False)
    assert edge.epsilon.upper > inside.epsilon.upper > 8.306225049954728


def test_a_leak_has_no_order_with_a_finite_divergence():
    with pytest.raises(PrivacyError, match="no order has a finite Renyi divergence"):
        rdp_accountant(Leak(delta="1e-9"))
