"""The bar of two noises together, against their exact convolution: it holds, and one a little shorter does not."""

from fractions import Fraction

import numpy as np
import pytest

from neartwin.mechanisms.noise_laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, RoundedGaussianLaw
from neartwin.mechanisms.noise_sums import half_width_of_two

LAWS = {
    "laplace": DiscreteLaplaceLaw(Fraction(30)),
    "short": DiscreteLaplaceLaw(Fraction(1, 2)),
    "normal": RoundedGaussianLaw(Fraction(900)),
    "discrete": DiscreteGaussianLaw(Fraction(400)),
}


def exact(first, a, second, b, t):
    """P(|a X + b Y| <= t), summed over all pairs."""
    x = np.arange(-900, 901)
    return float((first.pmf(x)[:, None] * second.pmf(x)[None, :])[np.abs(a * x[:, None] + b * x[None, :]) <= t].sum())


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 7.5), (0.25, 3.0)], ids=str)
@pytest.mark.parametrize(
    ("first", "second"), [("laplace", "laplace"), ("normal", "laplace"), ("discrete", "normal"), ("laplace", "short")]
)
def test_the_bar_of_two_noises_holds_and_a_shorter_one_does_not(first, second, weights, confidence):
    laws, (a, b) = (LAWS[first], LAWS[second]), weights
    bar = half_width_of_two(laws[0], a, laws[1], b, confidence)
    assert exact(laws[0], a, laws[1], b, bar) >= confidence
    assert exact(laws[0], a, laws[1], b, 0.93 * bar - max(a, b)) < confidence
