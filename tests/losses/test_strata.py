"""The oracles of the strata agree with each other where their methods have nothing in common, and see a billionth."""

import math
from functools import partial

import mpmath as mp
import pytest

from tests.losses.strata import bells_of_a_sample, lattice, twice
from tests.oracles import compositions, lines, steps, sums


def close(one, other, share):
    return abs(one - other) <= share * abs(one)


@pytest.mark.parametrize(("count", "eps"), [(3, 2.5), (45, 12)])
def test_residues_and_steps_agree_on_laplace(count, eps):
    one = mp.mpf(1)
    truth = compositions.laplace(one, count, eps)
    assert close(truth, steps.Ramps(one, one, "remove").delta(count, eps, 2), 1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["remove", "add", "replace"])
def test_steps_and_lines_agree_on_sampled_laplace(order):
    e, q = mp.mpf(1), mp.mpf(1) / 10
    stepped = steps.Ramps(e, q, order).delta(150, 2.5, 1)
    assert close(stepped, lines.delta(lines.SampledLaplace(e, q, order), 150, 2.5, 1), 1e-9)
    assert not close(stepped, lines.delta(lines.SampledLaplace(e, q, order), 150, 2.5 + 1e-8, 1), 1e-9)


@pytest.mark.slow
def test_steps_keep_draws_whose_probability_is_below_the_least_float():
    e, one, count, eps = mp.mpf("0.00314"), mp.mpf(1), 43_695, 3.3241537508875707  # 0.00157^110 < 1e-308
    stepped = steps.Ramps(e, one, "remove").delta(count, eps, 1)
    assert close(stepped, lines.delta(lines.SampledLaplace(e, one, "remove"), count, eps, 1), 1e-14)
    assert steps.short(steps.long(mp.mpf("1e-600")) * 2) == pytest.approx(mp.mpf("2e-600"), rel=1e-18, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["remove", "add"])
def test_steps_and_lines_agree_on_sampled_gaussians(order):
    mu, q = mp.mpf(1), mp.mpf(1) / 5
    stepped = steps.Tails(mu, q, order, 30, 1e-6).delta(2.5, 1)
    assert close(stepped, lines.delta(lines.SampledGaussian(mu, q, order), 30, 2.5, 1), 1e-9)


# mu, rate, direction, count, eps and delta about there: of the first, a higher degree alone told a fifth of the error
FEW_STEPS = (
    (mp.mpf("1.086"), mp.mpf("0.01151"), "add", 21, 0.2127449659391085, 1e-17),
    (mp.mpf("0.8"), mp.mpf("0.02"), "add", 22, 0.35, 1e-19),
    (mp.mpf("0.4887"), mp.mpf("0.05328"), "add", 30, 0.7, 1e-11),
    (mp.mpf("0.4162"), mp.mpf("0.02632"), "remove", 5, 0.3, 1e-11),
    (mp.mpf("0.9632"), mp.mpf("0.07363"), "remove", 30, 9.0, 1e-17),
)
BLUNT = 2e-11  # what the power of a transform has lost


@pytest.mark.slow
@pytest.mark.parametrize("case", FEW_STEPS)
def test_steps_err_by_no_more_than_they_say_and_say_little(case):
    *law, eps, least = case
    value, error = bells_of_a_sample(*law, least)(eps)
    truth = steps.by_fourier(*law, eps)
    assert abs(value - truth) <= error + BLUNT * truth
    assert error <= 1e-10 * value


@pytest.mark.slow
def test_panels_too_wide_are_seen_and_told():
    *law, eps, least = FEW_STEPS[0]
    wide = steps.Tails(*law, least)
    value, stated = twice(lambda eps, fine: wide.delta(eps, fine - 1))(eps)
    off = abs(value - steps.by_fourier(*law, eps))
    assert 1e-7 * value < off <= stated <= 3 * off


def test_circles_and_convolutions_agree():
    masses, start, step = [mp.mpf(x) / 10 for x in (5, 0, 2, 3)], -mp.mpf(1) / 3, mp.mpf(1) / 4
    for count, eps in ((1, 0.1), (9, 0.8), (40, 3.0)):
        assert close(
            sums.on_lattice(masses, start, step, count, eps), lines.on_circle(masses, start, step, count, eps, 1), 1e-25
        )


def test_a_lattice_keeps_a_leak_that_is_lost_beside_one():
    leak, e, count = mp.mpf("1.598e-40"), mp.mpf(9) / 8, 300
    high = mp.exp(e) / (1 + mp.exp(e))

    def oracle(eps, leak):
        return lattice([1 - high, high], -e, 2 * e, count, leak)(eps)[0]

    with mp.workdps(100):
        leaked = 1 - (1 - leak) ** count  # a fifth of what 300 draws alike of probability 1e-37 make
        both = leaked + (1 - leaked) * high**count * -mp.expm1(-2 * e)
    for truth, eps in ((leaked, count * e), (both, (count - 2) * e)):
        assert close(truth, oracle(eps, leak), 1e-15)
        assert not close(truth, oracle(eps, leak * (1 + mp.mpf("1e-9"))), 1e-12)


@pytest.mark.slow
def test_lines_follow_every_return_of_atoms_until_the_gaussians_end_it():
    e, count, mu, eps = mp.mpf("0.479"), 9353, 2 * mp.mpf("0.03345"), 1462.9581048553894
    high = mp.exp(e) / (1 + mp.exp(e))
    law = lines.Atoms([(e, high), (-e, 1 - high)])
    with mp.workdps(60):
        truth, ups = mp.mpf(0), math.floor((eps / float(e) + count) / 2)
        for k in range(ups - 10, ups + 300):
            mass = mp.binomial(count, k) * high**k * (1 - high) ** (count - k)
            truth += mass * compositions.gaussian(mu, eps - (2 * k - count) * e)
    assert close(truth, lines.delta(law, count, eps, 1, mu**2), 1e-12)


def test_an_oracle_tells_what_its_resolution_costs():
    rough = twice(lambda eps, fine: mp.exp(-eps) + mp.mpf(10) ** (-6 * fine))
    assert rough(1.0)[1] >= 1e-6


def test_an_oracle_says_nothing_where_its_digits_end():
    e, q = mp.mpf(5477) / 10_000, mp.mpf(129) / 5000
    oracle = twice(partial(steps.Ramps(e, q, "add").delta, 2))
    top = -2 * mp.log(1 - q + q * mp.exp(-e))
    with pytest.raises(ArithmeticError, match="nearer to an atom"):
        oracle(0.021880087878230724)
    assert oracle(float(top) * (1 - 1e-6))[0] > 0
