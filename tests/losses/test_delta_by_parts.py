"""Deltas of seldom sampled Gaussians: lines of the law in parts beside an independent oracle, and what they may not say."""

from fractions import Fraction

import numpy as np
import pytest

from neartwin.losses import Laplace, SubsampledGaussian, contour, saddle
from neartwin.losses.humps import at_eps
from neartwin.losses.rounding import NoCertificateError
from tests.losses.strata import bells_of_a_sample
from tests.oracles.sums import exact

FEW = 5
RATE = Fraction(1, 1000)


@pytest.mark.parametrize("eps", [0.0, 0.007, 0.036, 0.25, 0.4])
def test_deltas_far_below_what_one_line_sees_are_narrow_and_hold_the_oracles_truth(eps):
    whole = FEW * SubsampledGaussian(mu=1, rate=RATE)
    found = whole.delta(eps, direction="remove")
    value, error = bells_of_a_sample(exact(Fraction(1)), exact(RATE), "remove", FEW, found.upper)(eps)
    assert found.width <= 1e-8 * found.upper
    assert found.lower <= value + error
    assert value - error <= found.upper


def test_one_line_alone_is_too_wide_there_and_a_law_that_does_not_divide_has_no_parts():
    (side,) = (FEW * SubsampledGaussian(mu=1, rate=RATE)).sides("remove")
    at = saddle.for_eps(side.upper, 0.25)
    low, high = contour.build(side.upper, at, 0.2 / (at.lam + 1)).delta(np.array([0.25]))
    assert high[0] - low[0] > 1e-5 * high[0]
    (other,) = (FEW * Laplace(epsilon=1)).sides("remove")
    with pytest.raises(NoCertificateError):
        at_eps(other.upper, saddle.for_eps(other.upper, 0.25))


def test_a_whole_curve_takes_a_few_lines_and_falls_everywhere():
    whole = 1000 * SubsampledGaussian(mu=1, rate=Fraction(1, 10_000))
    eps = np.linspace(0.0, 0.1, 60)
    found = whole.delta(eps, direction="remove")
    assert np.all(found.upper - found.lower <= 2e-7 * found.upper)
    assert np.all(np.diff(found.lower) < 0)
    one = whole.delta(float(eps[30]), direction="remove")
    assert one.lower <= found.upper[30]
    assert found.lower[30] <= one.upper
