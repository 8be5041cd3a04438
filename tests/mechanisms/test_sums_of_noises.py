"""Bars of weighted sums of noises: never too short by convolution of the laws themselves, and hardly longer than need be."""

from fractions import Fraction

import numpy as np
import pytest

from neartwin.mechanisms.noise_laws import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    RoundedGaussianLaw,
    RoundedLaplaceLaw,
    half_widths_of_sums,
    joint_half_axes,
    laplace_quantiles,
)

SIZE = 400


def tails(laws, weights):
    """P(|sum| > t) for t = 0, 1, ... by convolution of the laws on the whole numbers."""
    x, spread = np.arange(-SIZE, SIZE + 1), np.ones(1)
    for law, weight in zip(laws, weights, strict=True):
        wide = np.zeros(2 * SIZE * weight + 1)
        np.add.at(wide, (x + SIZE) * weight, law.pmf(x))
        spread = np.convolve(spread, wide)
    distance = np.abs(np.arange(len(spread)) - len(spread) // 2)
    at = np.bincount(distance, spread)
    return 1 - np.cumsum(at)


def of(*scales, law=DiscreteLaplaceLaw):
    return [law(Fraction(scale)) for scale in scales]


@pytest.mark.parametrize(
    "laws",
    [
        of(40, 3),
        of("1/2", "1/2"),
        of(7, 7),
        of(7, 7, 7),
        of(30, 12, 5, 5),
        of(9, 9, 9, 9, 9, 9),
        of(900, 4, law=RoundedGaussianLaw),
        of("1/4", "1/4", law=RoundedGaussianLaw),
        of(100, 400, 30, law=RoundedGaussianLaw),
        of(900, 4, law=DiscreteGaussianLaw),
        of(1, 1, 1, law=DiscreteGaussianLaw),
        [RoundedGaussianLaw(Fraction(100)), DiscreteGaussianLaw(Fraction(90))],
    ],
)
@pytest.mark.parametrize("times", [(1, 1, 1, 1, 1, 1), (1, 0, 2, 1, 3, 1), (1, 5, 1, 2, 0, 1)])
def test_bar_of_a_sum_is_never_too_short_and_nearly_tight(laws, times):
    weights = times[: len(laws)]
    beyond = tails(laws, weights)
    for confidence in (0.9, 0.95, 0.999):
        found = float(half_widths_of_sums(laws, np.array(weights, dtype=float)[:, None], confidence)[0])
        assert beyond[int(found)] <= 1 - confidence + 1e-9
        off = 2 * sum(weights)  # of rounding to whole numbers
        longer = 1.06 if len(laws) > 3 else 1.03
        assert beyond[max(int(found / longer - off), 0)] > 1 - confidence or found / longer - off < 0


@pytest.mark.parametrize("scale", ["1/3", "1", "10/3"])
@pytest.mark.parametrize("confidence", [0.9, 0.98, 0.999])
def test_bar_of_many_little_noises_has_no_whole_number_for_each(scale, confidence):
    laws = of(*[scale] * 13)
    beyond, found = tails(laws, [1] * 13), float(half_widths_of_sums(laws, np.ones((13, 1)), confidence)[0])
    assert beyond[int(found)] <= 1 - confidence + 1e-9
    exact = int(np.argmax(beyond <= 1 - confidence))
    assert found <= 1.25 * exact + 2


def test_near_miss_the_laplace_bar_at_the_whole_failure_is_too_short():
    alone = float(laplace_quantiles(np.array([[0.5]]), np.ones((1, 1)), 0.07)[0])
    assert tails(of("1/2"), (1,))[int(alone)] > 0.14 + 0.09
    halved = float(laplace_quantiles(np.array([[0.5]]), np.ones((1, 1)), 0.035)[0])
    assert tails(of("1/2"), (1,))[int(halved)] <= 0.14


def test_signs_and_silent_noises_do_not_matter_and_columns_are_apart():
    laws = of(40, 3, 11)
    weights = np.array([[1.0, -1.0, 0.0], [2.0, 2.0, 0.0], [-0.5, 0.5, 0.0]])
    found = half_widths_of_sums(laws, weights, 0.95)
    assert found[0] == found[1] > found[2] == 0
    assert found[0] == half_widths_of_sums(laws, weights[:, :1], 0.95)[0]


def test_laws_that_are_not_known_together_get_the_union_bound():
    weights = np.ones((2, 1))
    for laws in (
        [DiscreteGaussianLaw(Fraction(9)), DiscreteLaplaceLaw(Fraction(2))],
        of("1/2", "1/2", law=DiscreteGaussianLaw),
        [RoundedLaplaceLaw(Fraction(3)), RoundedLaplaceLaw(Fraction(4))],
    ):
        assert half_widths_of_sums(laws, weights, 0.95)[0] == sum(law.half_width(0.975) for law in laws)


def test_near_miss_a_bar_for_one_noise_is_too_short_for_two():
    laws = of(30, 30)
    alone = float(half_widths_of_sums(laws[:1], np.ones((1, 1)), 0.95)[0])
    assert tails(laws, (1, 1))[int(alone)] > 0.1


@pytest.mark.parametrize(
    ("laws", "most"),
    [
        (of(400, 30, 1000), 1.06),
        (of(*[50] * 12), 1.06),
        (of(10**6, 400, law=RoundedGaussianLaw), 1.06),
        (of(*[900] * 9, law=DiscreteGaussianLaw), 1.1),
        ([RoundedLaplaceLaw(Fraction(300)), RoundedGaussianLaw(Fraction(400))], 2),
    ],
)
@pytest.mark.parametrize("failure", [0.2, 0.01])
def test_an_ellipsoid_holds_all_noises_as_often_as_stated_and_hardly_more(laws, most, failure):
    draw, draws = np.random.default_rng(5), 100_000
    drawn = []
    for law in laws:
        size = law.half_width(1 - 1e-9)
        x = np.arange(-size, size + 1)
        chances = law.pmf(x)
        drawn.append(draw.choice(x, draws, p=chances / chances.sum()))
    lengths = np.sqrt((np.array(drawn).T / joint_half_axes(laws, failure)) ** 2 @ np.ones(len(laws)))
    off = 6 * np.sqrt(failure / draws)
    assert (lengths > 1).mean() <= failure + off
    assert (lengths > 1 / most).mean() > failure - off  # a near miss: the same ellipsoid, shorter


@pytest.mark.parametrize(
    "law", [DiscreteLaplaceLaw(Fraction(100)), RoundedGaussianLaw(Fraction(100)), DiscreteGaussianLaw(Fraction(100))]
)
def test_bars_for_rare_failures_grow_and_never_fall_below_one_noise(law):
    """An ellipsoid of half-axes 0 stood below 1e-9, and discrete Gaussians had no bar at all."""
    rare = [1e-6, 1e-7, 1e-8, 1.1e-9, 1e-9, 1e-12, 1e-15]
    axes = [joint_half_axes([law] * 3, failure)[0] for failure in rare]
    widths = [half_widths_of_sums([law] * 3, np.ones((3, 1)), 1 - failure)[0] for failure in rare]
    for found in (axes, widths):
        assert found == sorted(found)
        assert all(bar >= law.reach(2 * failure) for bar, failure in zip(found, rare, strict=True))
    assert half_widths_of_sums([law] * 2, np.ones((2, 1)), 1 - 2**-53)[0] > widths[-1] / 3
