"""Quantiles of sums of Laplace variables: against closed forms, partial fractions and NumPy's draws."""

import numpy as np
import pytest

from neartwin.mechanisms.linear.ranks import Ranks, best_tree
from neartwin.mechanisms.noise_laws import DiscreteLaplaceLaw, laplace_quantiles

MISSES = [0.25, 0.1, 0.05, 0.025, 1e-3, 1e-6, 1e-12]


def tail(scales, t):
    """P(sum > t) of one variable of each scale, all different: partial fractions of the product of 1 / (1 - b^2 z^2)."""
    shares = [np.prod([b**2 / (b**2 - other**2) for other in scales if other != b]) for b in scales]
    return sum(share * np.exp(-t / b) for share, b in zip(shares, scales, strict=True)) / 2


@pytest.mark.parametrize("miss", MISSES)
@pytest.mark.parametrize("scales", [[1.0], [5.0], [1.0, 2.0], [1.0, 1.5, 4.0], [3.0, 0.01]], ids=str)
def test_laplace_sum_quantile_has_the_stated_tail(scales, miss):
    (found,) = laplace_quantiles(np.array([scales]), np.ones((1, len(scales))), miss)
    assert tail(scales, found) <= miss < tail(scales, found * 0.999)


@pytest.mark.parametrize("miss", MISSES)
def test_two_alike_have_their_closed_form(miss):
    (found,) = laplace_quantiles(np.array([[2.0]]), np.array([[2.0]]), miss)
    t = found / 2
    assert np.exp(-t) * (1 + t / 2) / 2 <= miss < np.exp(-t * 0.999) * (1 + t * 0.999 / 2) / 2


@pytest.mark.parametrize("numbers", [[2, 7, 40], [0, 50, 0], [1, 0, 300]], ids=str)
@pytest.mark.parametrize("miss", [0.25, 0.025, 0.001])
def test_sums_of_many_are_passed_as_often_as_asked(numbers, miss):
    scales, draws = np.array([1.0, 0.3, 0.05]), 400_000
    source = np.random.default_rng(numbers)
    total = np.zeros(draws)
    for scale, number in zip(scales, numbers, strict=True):
        total += scale * (source.standard_gamma(number, draws) - source.standard_gamma(number, draws))  # number 0 is 0
    (found,) = laplace_quantiles(scales[None], np.array([numbers], dtype=float), miss)
    off = 6.2 * np.sqrt(draws * miss * (1 - miss))
    assert abs((total > found).sum() - draws * miss) <= off
    if miss > 0.01:  # the near miss
        assert abs((total > 0.97 * found).sum() - draws * miss) > off


@pytest.mark.parametrize("miss", [0.25, 0.05, 0.025, 0.005, 5e-4, 5e-6])
@pytest.mark.parametrize("spread", [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0])
@pytest.mark.parametrize("number", [12, 50, 200, 2000, 20_000])
def test_one_large_variable_beside_many_small_ones_has_the_stated_tail(number, spread, miss):
    """Gil-Pelaez on the real axis, where nothing is bent. A line that bends more had misses of 0.0126 in place of 0.01."""
    small = spread / np.sqrt(2 * number)
    (found,) = laplace_quantiles(np.array([[1.0, small]]), np.array([[1.0, number]]), miss)
    u = (np.arange(400_000) + 0.5) * 1e-3 / spread

    def passed(t):
        transform = np.exp(-number * np.log1p((small * u) ** 2)) / (1 + u**2)
        return 0.5 - float((np.sin(u * t) * transform / u).sum()) * 1e-3 / spread / np.pi

    assert passed(found) <= miss * (1 + 1e-9) + 1e-13 < passed(found * 0.998)


def test_empty_laplace_sum_is_0_and_rows_are_independent():
    scales, numbers = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 9.0]])
    assert laplace_quantiles(scales, numbers, 0.025) == pytest.approx([0, np.log(20), 3 * np.log(20)], rel=1e-3)


@pytest.mark.parametrize(
    ("cells", "rank", "confidence"), [(10_001, 0.25, 0.95), (50_000, 0.9, 0.9999), (65_536, 1.0, 0.5)]
)
def test_bars_of_fine_grids_by_the_shape_of_the_sum_are_no_shorter(cells, rank, confidence):
    tree, law = best_tree(cells, 1.0), DiscreteLaplaceLaw(10)
    places = np.unique(np.random.default_rng(cells).integers(0, cells + 1, 1500))
    exact = float(law.scale) * laplace_quantiles(*tree.weights(rank, places), (1 - confidence) / 2)
    found = Ranks(tree, law).bars(rank, confidence)[places] - Ranks.half_step(rank)
    assert np.all(found >= exact * (1 - 1e-4))
    assert np.all(found <= exact * 1.02 + 1e-9)
    assert found[exact > 0].mean() < 1.01 * exact[exact > 0].mean()
