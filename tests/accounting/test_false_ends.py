"""Ends that were false: groups and samples of fixed batches, and lower ends of cut batches at small deltas."""

import time
from fractions import Fraction
from itertools import combinations
from math import comb

import mpmath
import numpy as np
import pytest

from neartwin.accounting import training
from neartwin.accounting.usage import cost, for_group, subsample
from neartwin.errors import PrivacyError
from neartwin.losses import Gaussian, Laplace, Leak

BATCHES = {
    "fixed": lambda: training.fixed_batches(noise_multiplier="0.1", batch=2, records=4, steps=1),
    "without": lambda: training.without_replacement(Gaussian(mu=10), batch=2, records=4),
    "pure": lambda: training.without_replacement(Laplace(epsilon="0.1"), batch=2, records=4),
    "replaced": lambda: training.with_replacement(Laplace(epsilon="0.1"), batch=2, records=4),
    "bands": lambda: training.banded_factorization(noise_multiplier=1, rate="0.1", bands=4, steps=10),
    "cut": lambda: training.truncated_batches(noise_multiplier=1, rate="0.1", largest=12, records=100, steps=3),
    "seldom": lambda: training.truncated_batches(noise_multiplier=1, rate="0.01", largest=50, records=100, steps=3),
}


@pytest.mark.parametrize("name", BATCHES)
def test_groups_and_samples_of_batches_of_a_fixed_size_are_refused(name):
    """They had the price of Poisson batches: an advantage of 3/4 for two of four records, where it is 5/6."""
    met = [{0, 1} & set(batch) for batch in combinations(range(4), 2)]
    assert np.mean([bool(some) for some in met]) == pytest.approx(5 / 6)  # with next to no noise each of these is seen
    both = training.fixed_batches(noise_multiplier="0.1", batch=2, records=4, steps=1, group=2)
    assert pytest.approx(cost(both).advantage().upper, abs=1e-6) == 5 / 6
    for asked in (for_group(BATCHES[name](), 2), subsample(BATCHES[name](), "0.5")):
        with pytest.raises(PrivacyError, match="draw Poisson batches"):
            cost(asked)
    assert cost(BATCHES[name]()).advantage().upper < 1
    poisson = training.poisson_batches(noise_multiplier="0.1", rate="0.5", steps=1)
    assert pytest.approx(cost(for_group(poisson, 2)).advantage().upper, abs=1e-6) == 0.75  # which is right there


def sampled(mu, rate, eps):
    """Deltas of a sampled Gaussian, remove and add, from both tails."""
    at = (mpmath.log((mpmath.exp(eps) - 1 + rate) / rate) + mu * mu / 2) / mu
    removed = rate * mpmath.ncdf(mu - at) - (mpmath.exp(eps) - 1 + rate) * mpmath.ncdf(-at)
    left = mpmath.exp(-eps) - 1 + rate
    if left <= 0:
        return removed, mpmath.mpf(0)
    at = (mpmath.log(left / rate) + mu * mu / 2) / mu
    return removed, (1 - mpmath.exp(eps) * (1 - rate)) * mpmath.ncdf(at) - mpmath.exp(eps) * rate * mpmath.ncdf(at - mu)


@pytest.mark.parametrize(
    ("rate", "largest", "records"),
    [("0.3", 1, 2), ("0.9", 1, 5), ("0.9", 1, 20), ("0.5", 10, 100), ("0.999", 3, 60), ("0.2", 30, 40), ("0.1", 3, 40)],
)
@pytest.mark.parametrize(("mu", "eps"), [("0.2", 1), ("1", "0.5"), ("1", 3), ("1", "0.001")])
def test_one_cut_batch_is_known_on_both_sides(rate, largest, records, mu, eps):
    """(T8) in fractions and mpmath. Where batches are nearly always cut it was an error, and a float's width was a leak."""
    q, m = Fraction(rate), records
    many = [comb(m - 1, k) * q**k * (1 - q) ** (m - 1 - k) for k in range(m)]
    t = sum(many[largest:])
    kept = sum(w * q * largest / (k + 1) for k, w in enumerate(many) if k >= largest) / t
    run = cost(
        training.truncated_batches(noise_multiplier=1 / Fraction(mu), rate=rate, largest=largest, records=m, steps=1)
    )
    with mpmath.workdps(60):
        part, step, goal = mpmath.mpf(t.numerator) / t.denominator, mpmath.mpf(mu), mpmath.mpf(eps)
        rates = [mpmath.mpf(one.numerator) / one.denominator for one in (q, kept)]
        both = zip(sampled(step, rates[0], goal), sampled(2 * step, rates[1], goal), strict=True)
        truth = max((1 - part) * a + part * b for a, b in both)
        found = run.delta(float(Fraction(eps)))
        assert found.lower <= truth * (1 + mpmath.mpf(10) ** -13)
        assert found.upper >= truth * (1 - mpmath.mpf(10) ** -13)
        assert found.width <= 1e-6 * found.upper


@pytest.mark.parametrize(
    ("batches", "delta", "truth"),
    [
        (("0.01", 100, 10_000, 10**5), "1e-12", 1.5798),  # was infinite, on both sides
        (("0.01", 100, 10_000, 10**5), "1e-10", 1.4113),  # 1.4158
        (("0.004", 256, 60_000, 14_000), "1e-12", 0.17765),  # 0.17978
        (("0.004", 256, 60_000, 14_000), "1e-6", 0.10337),
    ],
)
def test_many_cut_batches_cost_what_a_fine_grid_says(batches, delta, truth):
    rate, largest, records, steps = batches
    run = training.truncated_batches(noise_multiplier=20, rate=rate, largest=largest, records=records, steps=steps)
    found = cost(run).epsilon(delta)
    assert found.width <= 1e-6 * found.upper
    assert found.upper == pytest.approx(truth, rel=1e-4)


def test_a_leak_that_only_bounds_is_in_no_lower_end():
    for attained in (True, False):
        found = (3 * Leak(delta="0.1", attained=attained) + Gaussian(mu=1)).delta(2.0)
        assert (found.lower > 0.27) is attained
        assert 0.271 < found.upper < 0.3
    many = training.fixed_batches(noise_multiplier=1, batch=5000, records=10_000, steps=100, replacement=True)
    assert cost(many).delta(900.0).lower < 1e-18  # more draws than are told apart


@pytest.mark.parametrize(("batch", "records"), [(65_536, 10**7), (10**17, 10**18)])
def test_great_batches_with_replacement_take_no_longer(batch, records):
    """Powers of exact fractions took 10 seconds, or for ever."""
    start = time.process_time()
    run = training.fixed_batches(noise_multiplier=1, batch=batch, records=records, steps=10, replacement=True)
    assert cost(run).epsilon("1e-6").width < 1e-5
    assert time.process_time() - start < 9
    few = training.fixed_batches(noise_multiplier=1, batch=63, records=1000, steps=10, replacement=True)
    more = training.fixed_batches(noise_multiplier=1, batch=64, records=1000, steps=10, replacement=True)
    assert cost(few).epsilon("1e-6").upper < cost(more).epsilon("1e-6").upper < 1.02 * cost(few).epsilon("1e-6").upper
