"""How far noise and a large Poisson sample can be off together: against exact laws of the worst tables and of others."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from neartwin.mechanisms.laws import GeometricLaw, RoundedGaussianLaw
from neartwin.queries.sample_noise import noise_of
from neartwin.queries.sample_normal import normal_reach
from neartwin.queries.sample_tails import Draws, farthest

NOISES = {
    "none": None,
    "laplace": GeometricLaw(Fraction(20)),
    "loud laplace": GeometricLaw(Fraction(60)),
    "normal": RoundedGaussianLaw(Fraction(900)),
}
REACH = 2200  # of noise that is added up


def of_noise(kind):
    law = NOISES[kind]
    return noise_of([] if law is None else [(law, 1.0)], lambda _: math.inf)


def passed(kind, sums, rate, d):
    """P(X + sum of c (Bin(k, rate) - k rate) > d), summed over all values that have a chance of 1e-13 or more."""
    values, chances = np.zeros(1), np.ones(1)
    for k, c in sums:
        kept = np.arange(binom.ppf(1e-13, k, rate), binom.ppf(1 - 1e-13, k, rate) + 1)
        values = np.add.outer(values, c * (kept - k * rate)).ravel()
        chances = np.multiply.outer(chances, binom.pmf(kept, k, rate)).ravel()
    law = NOISES[kind]
    if law is None:
        return float(chances[values > d + 1e-9].sum())
    x = np.arange(-REACH, REACH + 1)
    tail = np.cumsum(law.pmf(x)[::-1])[::-1]  # P(X >= x)
    least = np.clip(np.floor(d - values + 1e-9).astype(int) + 1, -REACH, REACH)
    return float(chances @ tail[least + REACH])


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize(("rate", "units"), [(0.1, 60_000), (0.5, 20_000), (0.8, 40_000)])
@pytest.mark.parametrize(("miss", "shorter"), [(0.25, 0.7), (0.025, 0.88), (0.01, 0.85)])
def test_the_worst_table_passes_it_no_more_often_and_would_if_it_were_shorter(kind, rate, units, miss, shorter):
    for sign in (1, -1):
        sums = ((units, sign * 1.0),)
        d = of_noise(kind).with_sample(rate, sums, miss)
        assert passed(kind, sums, rate, d) <= miss
        assert passed(kind, sums, rate, shorter * d) > miss
        if kind == "none" and miss > 0.02:  # and the other bound is further off
            assert d < 0.93 * farthest((Draws(),), rate, sums, miss)[0]


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("rate", [0.2, 0.6])
def test_no_table_with_less_in_it_passes_it_more_often(kind, rate):
    whole, miss = 20_000, 0.025
    d = normal_reach(of_noise(kind).draws, rate, ((whole, 1.0),), miss) + of_noise(kind).shift
    assert math.isfinite(d)
    for share in (0.001, 0.01, 0.1, 0.5, 0.9):
        most = int(whole * share)
        assert passed(kind, ((most, 1.0),), rate, d) <= miss
        assert passed(kind, ((most // 2, 1.0), (most // 2, -1.0)), rate, d) <= miss
        assert passed(kind, ((most, 1.0), (2 * (whole - most), -0.5)), rate, d) <= miss


def test_the_theorem_holds_and_half_its_constant_would_not_do_everywhere():
    needed = []
    for rate, units in ((0.5, 1001), (0.2, 3000), (0.02, 9000)):
        kept = np.arange(units + 1)
        deviation = math.sqrt(units * rate * (1 - rate))
        below = binom.cdf(kept, units, rate)
        normal = 0.5 * np.vectorize(math.erfc)(-(kept - units * rate) / deviation / math.sqrt(2))
        apart = np.abs(below - normal).max()
        error = (rate**2 + (1 - rate) ** 2) / deviation
        assert apart < 0.56 * error
        needed.append(apart / error)
    assert max(needed) > 0.28


def test_small_samples_are_left_to_the_other_bound():
    assert math.isinf(normal_reach(Draws(), 0.5, ((100, 1.0),), 0.025))
    assert math.isinf(normal_reach(Draws(), 0.5, (), 0.025))
    assert math.isinf(normal_reach(Draws(), 0.5, ((10**9, 0.0),), 0.025))
    few = ((100, 1.0),)
    for kind in NOISES:
        one = of_noise(kind)
        assert one.with_sample(0.5, few, 0.025) == farthest((one.draws,), 0.5, few, 0.025)[0] + one.shift
