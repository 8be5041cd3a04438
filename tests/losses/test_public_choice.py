"""A public choice among mechanisms, against the sum over how often each was chosen."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from neartwin.accounting import training
from neartwin.accounting.usage import cost
from neartwin.errors import ParameterError
from neartwin.losses import (
    BoundedRange,
    Gaussian,
    Laplace,
    Leak,
    PublicChoice,
    SubsampledGaussian,
    SubsampledLaplace,
    ZeroConcentrated,
    compose,
)

OPTIONS = (SubsampledGaussian(mu=1, rate="0.5"), Gaussian(mu="0.5"))
CHOICE = PublicChoice(options=OPTIONS, weights=("0.2", "0.8"))


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_uses_cost_the_mean_over_how_often_each_was_chosen(count, direction):
    for eps in (0.1, 2.0):
        low = high = 0.0
        for first in range(count + 1):
            uses = {one: times for one, times in zip(OPTIONS, (first, count - first), strict=True) if times}
            known, weight = (
                compose(uses).delta(eps, direction=direction),
                comb(count, first) * 0.2**first * 0.8 ** (count - first),
            )
            low, high = low + weight * known.lower, high + weight * known.upper
        found = (count * CHOICE).delta(eps, direction=direction)
        assert found.lower <= high * (1 + 1e-12)
        assert found.upper >= low * (1 - 1e-12)
        assert found.width <= 1e-5 * found.upper


@pytest.mark.parametrize(
    ("options", "share", "count"),
    [
        ((SubsampledGaussian(mu="0.6", rate="0.003"), SubsampledGaussian(mu="1.2", rate="0.01")), "0.02", 12),
        pytest.param(
            (SubsampledGaussian(mu="0.3", rate="1e-4"), SubsampledGaussian(mu=3, rate="1e-6")),
            "0.5",
            3,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_seldom_sampled_options_are_taken_by_rungs(options, share, count):
    rare = Fraction(share)
    choice = PublicChoice(options=options, weights=(1 - rare, rare))
    inner = PublicChoice(options=options[::-1], weights=(rare, 1 - rare))
    nested = PublicChoice(options=(choice, inner), weights=("1/4", "3/4"))  # the same once more
    found = (count * choice).epsilon("1e-11")
    assert found.width <= 1e-9 * found.upper
    again = (count * nested).epsilon("1e-11")
    assert again.lower <= found.upper
    assert found.lower <= again.upper <= found.upper * (1 + 1e-9)

    def delta(eps, weight):
        low = high = 0.0
        for first in range(count + 1):
            uses = {one: n for one, n in zip(options, (first, count - first), strict=True) if n}
            known, mass = (
                compose(uses).delta(eps),
                comb(count, first) * (1 - weight) ** first * weight ** (count - first),
            )
            low, high = low + float(mass) * known.lower, high + float(mass) * known.upper
        return low, high

    assert delta(found.lower, rare)[1] >= 1e-11 * (1 - 1e-9)
    assert delta(found.upper, rare)[0] <= 1e-11 * (1 + 1e-9)
    near = [delta(end, weight) for end, weight in ((found.lower, rare * (1 - Fraction(1, 10**4))), (found.upper, rare))]
    assert near[0][1] < 1e-11  # a share that is a little less is told apart
    assert near[1][0] > 1e-11 * (1 - 1e-6)


@pytest.mark.parametrize("steps", [22, pytest.param(515, marks=pytest.mark.slow)])
def test_truncated_batches_are_known_within_a_millionth_at_a_small_delta(steps):
    run = training.truncated_batches(noise_multiplier="1.6", rate="0.0011", largest=21, records=5941, steps=steps)
    found, plain = cost(run).epsilon("3e-12"), (steps * SubsampledGaussian(mu="0.625", rate="0.0011")).epsilon("3e-12")
    assert found.width <= 1e-9 * found.upper
    assert found.lower > plain.upper


def test_one_epsilon_asked_alone_has_the_delta_that_it_has_among_others():
    sampled = [SubsampledLaplace(epsilon=Fraction(k, 3), rate="0.1") for k in range(1, 10)]
    one = 1 * PublicChoice(options=sampled, weights=[Fraction(k, 45) for k in range(1, 10)])
    eps = np.linspace(0.01, 2, 40)
    for end in ("lower", "upper"):
        assert getattr(one.delta(eps), end).tolist() == [getattr(one.delta(float(e)), end) for e in eps]


@pytest.mark.slow
def test_a_choice_among_equals_is_no_choice_and_has_their_renyi():
    same = PublicChoice(options=(Gaussian(mu=1), Gaussian(mu=1)), weights=("0.3", "0.7"))
    assert (9 * same).epsilon("1e-6").upper == pytest.approx((9 * Gaussian(mu=1)).epsilon("1e-6").upper, rel=1e-9)
    assert (4 * same).renyi(1.0).upper == pytest.approx(2.0, rel=1e-7)
    assert (4 * same).renyi(3.0).upper == pytest.approx(6.0, rel=1e-9)
    bounded = 3 * PublicChoice(options=(BoundedRange(epsilon=1), Laplace(epsilon=2)), weights=("1/2", "1/2"))
    assert bounded.pure().upper == pytest.approx(6, rel=1e-14)


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        (OPTIONS, ("0.2", "0.9")),
        (OPTIONS, ("1", "0")),
        (OPTIONS, ("1",)),
        ((), ()),
        ((Leak(delta="0.1"), Gaussian(mu=1)), ("1/2", "1/2")),
        ((ZeroConcentrated(rho=1), Gaussian(mu=1)), ("1/2", "1/2")),
        (("Gaussian",), (1,)),
    ],
)
def test_what_is_no_public_choice_is_refused(options, weights):
    with pytest.raises(ParameterError):
        PublicChoice(options=options, weights=weights)
