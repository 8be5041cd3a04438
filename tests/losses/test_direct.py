"""Direct convolution keeps the digits of the rarest sums, and its bounds their sides."""

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import FinitePair, Laplace, SubsampledGaussian
from neartwin.losses.inversion import convolution, discretization, lattice, saddle
from tests.oracles import compositions as truth


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_it_agrees_with_the_lattice_line_where_that_is_sharp(count):
    total = (count * Laplace(epsilon="0.3")).sides("remove")[0].upper
    for side, law in (
        ("above", discretization.rounded_above(total, 2.0**-6, 1e-3)),
        ("below", discretization.rounded_below(total, 2.0**-6, 1e-3, 1.0, 1.0)),
    ):
        eps = np.array([0.1 * count**0.5])
        low, high = convolution.build(law.total, 1e-3, above=side == "above").delta(eps)
        other = lattice.build(law.total, saddle.for_eps(law.total, float(eps[0]))).delta(eps)
        assert low[0] <= other[1][0] * (1 + 1e-9)
        assert other[0][0] <= high[0] * (1 + 1e-9)
        assert high[0] - low[0] <= 1e-4 * high[0]
        assert abs(high[0] - other[1][0]) < 1e-6 * high[0]  # sunk and infinite mass are slight


@pytest.mark.parametrize("delta", [1e-15, 1e-28])
def test_a_rare_great_loss_decides(delta):
    """One answer in 10^7 tells much: 30 copies, a binomial sum, far below what floating point can subtract."""
    rare = FinitePair(p=("9999999/10000000", "1/10000000"), q=("9999999999/10000000000", "1/10000000000"))
    total = (30 * rare).sides("remove")[0].upper
    high, low, p = mp.log(1000), mp.log(mp.mpf(9999999000) / 9999999999), mp.mpf(1) / 10**7
    step = 2.0**-6
    above = discretization.rounded_above(total, step, delta)
    upper = convolution.epsilon(above.total, delta * float(np.exp(-above.log_scale)), above=True)
    below = discretization.rounded_below(total, step, delta, upper.slope, upper.upper)
    lower = convolution.epsilon(below.total, delta * float(np.exp(-below.log_scale)), above=False)
    assert truth.two_atoms(high, low, p, 30, upper.upper + above.shift) <= delta * (1 + 1e-9)
    assert truth.two_atoms(high, low, p, 30, lower.lower - below.shift) >= delta * (1 - 1e-9)
    assert upper.upper - lower.lower < 0.05 * upper.upper


def test_two_rarely_sampled_steps_have_a_narrow_answer_at_a_tiny_delta():
    found = (2 * SubsampledGaussian(mu="0.9359", rate="0.0001406")).epsilon("5.2e-19", direction="remove")
    assert found.method == "contour"
    assert found.width < 1e-8 * found.upper
    with mp.workdps(30):
        mu, q = mp.mpf("0.9359"), mp.mpf("0.0001406")

    def one(eps):
        if mp.expm1(eps) <= -q:  # the loss of every answer is above
            return -mp.expm1(eps)
        edge = (mp.log1p(mp.expm1(eps) / q) + mu**2 / 2) / mu
        return (1 - q) * mp.ncdf(-edge) + q * mp.ncdf(mu - edge) - mp.exp(eps) * mp.ncdf(-edge)

    def two(eps):
        ratio = lambda u: 1 - q + q * mp.exp(mu * u - mu**2 / 2)  # noqa: E731
        edge = (mp.log1p(mp.expm1(mp.mpf(eps) + q) / q) + mu**2 / 2) / mu
        knots = [-13, -4, 0, 3, 6, edge - 1, edge - 0.1, edge - 0.001, edge, edge + 0.01, edge + 1, edge + 8]
        return mp.quad(lambda u: mp.npdf(u) * ratio(u) * one(eps - mp.log(ratio(u))), knots)

    with mp.workdps(30):
        assert two(found.lower) >= mp.mpf("5.2e-19")
        assert two(found.upper) <= mp.mpf("5.2e-19")
