"""How far noise and a Poisson sample can be off together: against all samples of small tables, and against large ones' laws."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from neartwin.mechanisms.count_trees import CountTree, moments
from neartwin.mechanisms.laws import DiscreteGaussianLaw, GeometricLaw, RoundedGaussianLaw
from neartwin.mechanisms.ranks import Ranks
from neartwin.queries.sample_bars import SampleBars, units_of
from neartwin.queries.sample_noise import Noise, noise_of
from neartwin.queries.sample_ranks import Score, rank_reach
from neartwin.queries.sample_tails import Draws, _log_chance, farthest

NOISES = {
    "none": None,
    "laplace": GeometricLaw(Fraction(2)),
    "loud laplace": GeometricLaw(Fraction(40)),
    "normal": RoundedGaussianLaw(Fraction(16)),
}
MISS = 0.025


def beyond(law, values, chances, d):
    """P(X + D > d), summed over all values of both."""
    if law is None:
        return float(chances[values > d + 1e-9].sum())
    x = np.arange(-700, 701)
    tail = np.cumsum(law.pmf(x)[::-1])[::-1]  # P(X >= x)
    least = np.clip(np.floor(d - values + 1e-9).astype(int) + 1, -700, 701)
    return float(chances @ np.where(least > 700, 0.0, tail[np.minimum(least, 700) + 700]))


def all_samples(x, rate):
    kept = np.array(list(product([0, 1], repeat=len(x))))
    return (kept - rate) @ x, np.prod(np.where(kept, rate, 1 - rate), axis=1)


def noise(kind, weight=1.0):
    law = NOISES[kind]
    if law is None:
        return Noise(lambda _: 0.0, Draws())
    return noise_of([(law, weight)], lambda confidence: weight * law.half_width(confidence))


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_no_small_table_is_further_off_more_often_and_the_worst_one_is_if_the_bar_is_shorter(kind, rate):
    draw, passed = np.random.default_rng(5), []
    for units, sign in product((1, 4, 9), (1, -1)):
        tables = [np.full(units, 3.0), *(3 * draw.random(units) ** draw.choice([0.2, 1, 5]) for _ in range(6))]
        for x in tables:
            k = math.ceil(x.sum() / 3 - 1e-12)
            d = noise(kind).with_sample(rate, ((k, sign * 3.0),), MISS)
            found = all_samples(sign * x, rate)
            assert beyond(NOISES[kind], *found, d) <= MISS
            if x is tables[0]:
                passed.append(beyond(NOISES[kind], *found, d * 0.7))
    assert max(passed) > MISS


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("rate", [0.15, 0.6])
def test_no_small_table_of_two_kinds_of_rows_is_further_off_more_often(kind, rate):
    draw = np.random.default_rng(6)
    for units, (up, down) in product((3, 8), ((2.0, -2.0), (0.3, -2.7), (5.0, -1.0))):
        for _ in range(8):
            a = draw.integers(0, 3, units)
            b = draw.integers(0, 3 - a)  # at most two rows a unit
            k, m = (int(found) for found in units_of(np.array([a.sum(), b.sum()]) / 2))
            d = noise(kind).with_sample(rate, ((k, 2 * up), (m, 2 * down)), MISS)
            assert beyond(NOISES[kind], *all_samples(a * up + b * down, rate), d) <= MISS


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("rate", [0.2, 0.7])
def test_of_many_units_the_bar_is_hardly_longer_than_the_least_that_holds(kind, rate):
    law, units = NOISES[kind], 4000
    kept = np.arange(units + 1)
    values, chances = kept - units * rate, binom.pmf(kept, units, rate)
    d = noise(kind).with_sample(rate, ((units, 1.0),), MISS)
    least = next(step / 4 for step in range(4 * units) if beyond(law, values, chances, step / 4) <= MISS)
    assert beyond(law, values, chances, d) <= MISS
    assert d <= 1.2 * least + 1


@pytest.mark.parametrize("kind", ["laplace", "normal"])
def test_where_noise_is_most_of_the_error_the_bar_is_as_good_as_that_of_the_noise(kind):
    law = NOISES[kind]
    alone = law.half_width(1 - 2 * MISS)
    for units, times in ((0, 1.1), (1, 1.25)):
        d = noise(kind).with_sample(0.5, ((units, 1.0),) if units else (), MISS)
        assert alone - 1 < d < times * alone + 0.5


def test_a_discrete_laplace_variable_is_at_most_a_laplace_one_in_convex_order():
    y = np.linspace(0, 60, 2401)
    for scale in (0.05, 0.3, 1.0, 4.0):
        x = np.arange(-3000, 3001)
        excess = np.maximum(x[None, :] - y[:, None], 0) @ GeometricLaw(Fraction(scale)).pmf(x)
        assert (excess <= scale / 2 * np.exp(-y / scale) + 1e-12).all()
        assert (excess > (scale * 0.9) / 2 * np.exp(-y / (scale * 0.9)) + 1e-12).any() or scale < 1  # near miss


def test_chances_of_many_units_keep_their_digits():
    with mpmath.workdps(40):
        for n, q in (
            (10, 0.3),
            (10**5, 0.004),
            (10**6, 0.4),
            (10**9, 2e-7),
            (10**9, 0.2),
            (2**49, 1e-12),
            (2**49, 0.9),
        ):
            for z in (-6, -1, 0, 2, 6):
                i = min(max(0, math.floor(n * q + z * math.sqrt(n * q * (1 - q)))), n)
                p = mpmath.mpf(q)
                exact = mpmath.log(mpmath.binomial(n, i)) + i * mpmath.log(p) + (n - i) * mpmath.log(1 - p)
                assert abs(float(_log_chance(np.array([float(i)]), n, q)[0] - exact)) < 1e-6


def test_laws_that_are_not_known_are_left_to_their_bars():
    known, bar = GeometricLaw(Fraction(9)), GeometricLaw(Fraction(9)).half_width
    unknown = noise_of([(DiscreteGaussianLaw(Fraction(9)), 1.0)], bar)
    assert unknown.draws is None
    sums = ((500, 1.0),)
    apart, joint = (one.with_sample(0.3, sums, MISS) for one in (unknown, noise_of([(known, 1.0)], bar)))
    alone = farthest((Draws(),), 0.3, sums, MISS)[0]
    assert max(alone, bar(1 - 2 * MISS)) < joint < apart < alone + bar(1 - 2 * MISS * 0.3)


@pytest.mark.parametrize(
    "law", [GeometricLaw(Fraction(3)), RoundedGaussianLaw(Fraction(400))], ids=["laplace", "normal"]
)
@pytest.mark.parametrize("rank", [0.5, 0.9, 0.99])
def test_scores_of_ranks_reach_hardly_further_than_noise_and_sample_together_must(law, rank):
    ranks, rate, rows, most = Ranks(CountTree(512, 8), law), 0.3, 10**6, 4
    up, down = rank_reach(Score(ranks, rank, 1), np.array([float(rows)]), most=most, rate=rate, miss=0.05)
    noise = law.variance * moments(ranks.tree, rank)[0]
    sample = rate * (1 - rate) * most * rows * rank * (1 - rank)
    least = 1.96 * np.sqrt(sample + noise)
    for reach in (up[0], down[0]):
        assert (reach >= least).all()
        assert (reach <= 1.25 * least + 1).all()


def test_numbers_of_rows_are_never_more_than_the_bar_says_more_often():
    bars, law = SampleBars(0.3, 0.02), GeometricLaw(Fraction(5))
    draw, one = np.random.default_rng(3), noise_of([(law, 1.0)], law.half_width)
    for units, most in ((1, 1), (40, 1), (3000, 1), (3, 6), (700, 6)):
        x = np.arange(-400, 401)
        noisy = most * draw.binomial(units, 0.3, 20_000) + draw.choice(x, 20_000, p=law.pmf(x) / law.pmf(x).sum())
        high = bars.number(noisy.astype(float), one, most=most)
        assert (high < units * most).sum() <= binom.ppf(1 - 1e-10, 20_000, 0.02)
