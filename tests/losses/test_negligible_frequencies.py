"""Long lines of many kinds of Laplace noise: what is not computed is proved to be quiet."""

import mpmath as mp
import numpy as np
import pytest

from neartwin.losses import Gaussian, Laplace, RandomizedResponse, compose
from neartwin.losses.families.laplace import LaplaceSum
from neartwin.losses.inversion import contour
from neartwin.losses.inversion.total import Saddle

RATES = np.random.default_rng(3).uniform(0.005, 0.06, 90).round(4)
LAM = 5.0


def many(*more):
    return compose([*(Laplace(epsilon=f"{rate:.4f}") for rate in RATES), *more])


def log_modulus(rates, counts, lam, t):
    """Log |M(lam + it)/M(lam)| of Laplace noise, in mpmath."""
    found = mp.mpf(0)
    for rate, count in zip(rates, counts, strict=True):
        e = mp.mpf(repr(float(rate)))

        def mgf(s, e=e):
            return ((1 + s) * mp.exp(s * e) + s * mp.exp(-(1 + s) * e)) / (1 + 2 * s)

        found += int(count) * mp.log(abs(mgf(mp.mpc(lam, t)) / mgf(mp.mpf(lam))))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("width", [0.0, 0.7, 3.0])
def test_a_quiet_frequency_is_no_louder_than_its_bound_anywhere_near(width):
    rng = np.random.default_rng(8)
    counts = rng.integers(1, 4, len(RATES)).astype(float)
    law, t = LaplaceSum(RATES, counts), np.sort(rng.uniform(3, 4000, 12))
    bound = law.log_modulus_bound(LAM, t, width, np.full(len(t), -1e9))
    careless = law.log_modulus_bound(LAM, t, 0.0, np.full(len(t), -1e9))
    refuted = 0
    for at, most, alone in zip(t, bound, careless, strict=True):
        for near in at + np.linspace(-width, width, 9):
            truth = log_modulus(RATES, counts, LAM, near)
            assert truth <= most
            refuted += truth > alone
    assert np.median(bound) < -4
    assert (refuted > 0) == (width > 0)  # a bound at the middle alone would be wrong beside it


def test_a_bound_that_is_enough_may_stop_there():
    law, t = LaplaceSum(RATES, np.ones(len(RATES))), np.array([500.0, 900.0])
    whole = law.log_modulus_bound(LAM, t, 0.0, np.full(2, -1e9))
    part = law.log_modulus_bound(LAM, t, 0.0, np.full(2, -0.5))
    assert np.all(whole <= part)
    assert np.all(part <= np.maximum(whole, -0.5))


def lines(monkeypatch, within):
    """The same line with and without the quick look."""
    found = []
    for least in (contour.MANY, 1 << 40):
        monkeypatch.setattr(contour, "MANY", least)
        total = many(Laplace(epsilon="0.07")).sides("remove")[0].upper
        at = Saddle.for_delta(total, 1e-6)
        found.append(contour.build(total, at, np.sqrt(within * at.eps / (at.tilt + 1)), tolerance=1e-8))
    return found


def test_few_frequencies_give_what_all_of_them_give(monkeypatch):
    asked, line = [], LaplaceSum.log_mgf_ratio
    monkeypatch.setattr(LaplaceSum, "log_mgf_ratio", lambda self, lam, t: asked.append(len(t)) or line(self, lam, t))
    quick, whole = lines(monkeypatch, 1e-6)
    assert 100 * asked[0] < asked[1]
    eps = quick.saddle.eps + np.linspace(-0.1, 0.1, 5)
    for one, other in zip(quick.delta(eps), whole.delta(eps), strict=True):
        assert np.allclose(one, other, rtol=1e-7, atol=0)
    assert quick.cut >= whole.cut


def test_silence_that_is_not_proved_misses_the_truth(monkeypatch):
    quick, whole = lines(monkeypatch, 1e-6)
    monkeypatch.setattr(contour, "MANY", 64)
    monkeypatch.setattr(LaplaceSum, "log_modulus_bound", lambda *asked: np.full(len(asked[2]), -1e3))
    total = many(Laplace(epsilon="0.07")).sides("remove")[0].upper
    deaf = contour.build(
        total, quick.saddle, np.sqrt(1e-6 * quick.saddle.eps / (quick.saddle.tilt + 1)), tolerance=1e-8
    )
    eps = np.array([quick.saddle.eps])
    (low,), (high,) = whole.delta(eps)
    assert not (deaf.delta(eps)[0][0] <= low and high <= deaf.delta(eps)[1][0])


def test_a_law_without_a_quick_bound_keeps_all_frequencies():
    total = many(3 * RandomizedResponse(epsilon="0.3", answers=3)).sides("remove")[0].upper

    def kernel(t):
        return 1 / np.square(t + LAM)

    every, lost = contour.significant_frequencies(total, LAM, 0.5, 5000, kernel, log_goal=-30.0)
    assert len(every) == 5001
    assert lost == 0
    few, lost = contour.significant_frequencies(
        many(Gaussian(mu="0.01")).sides("remove")[0].upper, LAM, 0.5, 5000, kernel, log_goal=-30.0
    )
    assert len(few) < 200
    assert 0 < lost < np.exp(-30.0)
