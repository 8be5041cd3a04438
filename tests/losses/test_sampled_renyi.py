"""Renyi divergences of the subsampled Gaussian: a finite sum and a quadrature in many digits; removing dominates adding."""

import mpmath as mp
import numpy as np
import pytest

from neartwin.errors import ParameterError
from neartwin.losses import SubsampledGaussian


def by_sum(rate, mu, order):
    """Mironov, Talwar, Zhang 2019, section 3.3: the mean of (1 - q + q e^{mu x - mu^2/2})^order by the binomial theorem."""
    with mp.workdps(60):
        q, m = mp.mpf(rate), mp.mpf(mu)
        parts = (
            mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.expm1(k * (k - 1) * m * m / 2)
            for k in range(order + 1)
        )
        return mp.log1p(mp.fsum(parts)) / (order - 1)


def by_quadrature(rate, mu, order, *, direction="remove"):
    with mp.workdps(30):
        q, m, a = mp.mpf(rate), mp.mpf(mu), mp.mpf(order)
        power = a if direction == "remove" else 1 - a
        cuts = sorted({-40, -15, -8, -3, 0, 1, a * m, a * m + 3, a * m + 10, a * m + 40})
        inside = lambda x: mp.npdf(x) * (1 - q + q * mp.exp(m * x - m * m / 2)) ** power  # noqa: E731
        return mp.log(mp.quad(inside, cuts)) / (a - 1)


@pytest.mark.parametrize(
    ("rate", "mu", "order"),
    [("0.01", "0.25", 32), ("0.1", "1.5", 20), ("0.001", "0.2", 256), ("1e-4", 2, 64), ("0.5", 3, 300), ("0.9", 4, 3)],
)
def test_agrees_with_the_finite_sum(rate, mu, order):
    found = (1 * SubsampledGaussian(mu=mu, rate=rate)).renyi(order)
    assert by_sum(rate, mu, order) in found
    assert found.width <= 1e-9 * found.upper


@pytest.mark.parametrize(
    ("rate", "mu", "order"),
    [("0.01", "0.25", "1.5"), ("0.2", "1.25", "3.7"), ("0.5", "0.5", "16.5"), ("0.001", "1", "1.01")],
)
def test_agrees_with_quadrature_in_thirty_digits(rate, mu, order):
    one = 1 * SubsampledGaussian(mu=mu, rate=rate)
    for direction in ("remove", "add"):
        assert by_quadrature(rate, mu, float(order), direction=direction) in one.renyi(
            float(order), direction=direction
        )
    assert one.renyi(float(order)) == one.renyi(float(order), direction="remove")


def test_edges():
    def ask(order=2, **k):
        return (1 * SubsampledGaussian(**{"rate": "0.1", "mu": 1} | k)).renyi(order)

    values = [ask(order).upper for order in (1.0, 1.0001, 1.5, 2.0, 2.0001, 30.0)]
    assert np.all(np.diff(values) > 0)
    assert ask().upper < ask(rate="0.11").lower < ask(rate="0.11", mu="1.2").lower
    for bad in ({"rate": 2}, {"rate": 0}, {"mu": -1}, {"order": 0.5}, {"order": np.inf}):
        with pytest.raises(ParameterError):
            ask(**bad)
