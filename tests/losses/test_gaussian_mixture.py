"""Mixtures of Gaussians against direct integration, brute force over groups, and another library."""

import math
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest

from neartwin.accounting.usage import cost, for_group, repeated, subsample
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import Gaussian, GaussianMixture, SubsampledGaussian
from neartwin.losses.families.gaussian import GaussianMixtureSum, Strip
from tests.oracles.sums import exact

PAIRS = GaussianMixture(distances=(0, 1, 2), weights=("0.81", "0.18", "0.01"))
APART = GaussianMixture(distances=("1/2", 2), weights=("0.9", "0.1"))


def ratio(law, u):
    return mp.fsum(exact(w) * mp.exp(exact(s) * u - exact(s) ** 2 / 2) for s, w in law)


def one_step(law, eps, direction):
    """Delta of one step: the tails of both laws beyond the place where their ratio is e^eps or e^-eps."""
    goal = eps if direction == "remove" else -eps
    least = law[0]
    if goal <= mp.log(exact(least[1])) and least[0] == 0:
        return mp.mpf(0) if direction == "add" else 1 - mp.exp(eps)
    low, high = mp.mpf(-40), mp.mpf(80)
    for _ in range(100):
        u = (low + high) / 2
        low, high = (u, high) if ratio(law, u) < mp.exp(goal) else (low, u)
    mixed = mp.fsum(exact(w) * mp.ncdf(exact(s) - u) for s, w in law)
    if direction == "remove":
        return mixed - mp.exp(eps) * mp.ncdf(-u)
    return mp.ncdf(u) - mp.exp(eps) * (1 - mixed)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [PAIRS, APART], ids=["with 0", "without"])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_one_step_is_what_the_tails_of_both_laws_say(factor, direction):
    with mp.workdps(30):
        for delta in ("1e-3", "1e-9"):
            found = (1 * factor).epsilon(delta, direction=direction)
            assert found.width <= 1e-6
            assert one_step(factor.law, mp.mpf(found.upper), direction) <= mp.mpf(delta)
            assert found.lower == 0 or one_step(factor.law, mp.mpf(found.lower), direction) >= mp.mpf(delta)


SELDOM_STILL = [
    *(((0, mu), (w, 1 - Fraction(w)), d) for mu, w, d in ((14, "1e-15", "0.3"), ("0.005", "8e-25", "1e-5"))),
    *(((0, 30, 31, 32), (w, "0.7", "0.2", Fraction(1, 10) - Fraction(w)), "0.3") for w in ("1e-30", "1e-60", "1e-120")),
    *(
        (
            [k * Fraction(mu) for k in range(g + 1)],
            [math.comb(g, k) * q**k * (1 - q) ** (g - k) for k in range(g + 1)],
            d,
        )
        for mu, q, g, d in (
            ("1.24", Fraction("0.9999"), 5, "1e-5"),
            ("0.7", Fraction("0.9"), 20, "0.3"),
            ("1", Fraction("0.999999"), 3, "1e-30"),
        )
    ),
]


@pytest.mark.parametrize(("distances", "weights", "delta"), SELDOM_STILL)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_unit_that_hardly_ever_stays_out_is_priced_by_that(distances, weights, delta, direction):
    """Where all other terms of r are tiny, r is that weight: 1 + sum w (e^x - 1) would leave nothing of it."""
    factor = GaussianMixture(distances=distances, weights=weights)
    with mp.workdps(200):
        found = (1 * factor).epsilon(delta, direction=direction)
        assert found.width <= 1e-6 * found.upper
        assert one_step(factor.law, mp.mpf(found.upper), direction) <= mp.mpf(delta)
        assert one_step(factor.law, mp.mpf(found.lower), direction) >= mp.mpf(delta)


def test_a_sample_of_nearly_all_is_the_mixture_of_two():
    for rate in (1 - Fraction(1, 10**7), 1 - Fraction(1, 10**15)):
        sampled, mixed = (
            SubsampledGaussian(mu=8, rate=rate),
            GaussianMixture(distances=(0, 8), weights=(1 - rate, rate)),
        )
        for direction in ("remove", "add"):
            found = (3 * sampled).epsilon("0.01", direction=direction)
            assert found == (3 * mixed).epsilon("0.01", direction=direction)
            assert found.width <= 1e-8 * found.upper
    rate = 1 - Fraction(1, 10**5)  # the pair of samples itself, a little further from 1
    mixed = GaussianMixture(distances=(0, "1e-30", 8), weights=((1 - rate) / 2, (1 - rate) / 2, rate))
    sampled, mixed = ((3 * one).epsilon("0.01") for one in (SubsampledGaussian(mu=8, rate=rate), mixed))
    assert abs(sampled.upper - mixed.upper) <= 1e-9 * mixed.upper


def test_a_group_beyond_the_mixtures_is_refused_by_its_size():
    for rate, size in (("1e-6", 60), ("0.1", 70)):
        with pytest.raises(ParameterError, match=f"size={size} must be below 64"):
            cost(for_group(3 * SubsampledGaussian(mu="0.7", rate=rate), size))


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_the_transform_and_its_decay_are_those_of_the_integral(direction):
    """The same integral on closer nodes further out, in 40 digits."""
    one = GaussianMixtureSum(PAIRS.law, 1, direction)

    def transform(s):
        step = mp.mpf(1) / 16
        power = 1 + s if direction == "remove" else -s
        return mp.fsum(
            step * mp.npdf(step * j) * mp.exp(power * mp.log(ratio(PAIRS.law, step * j))) for j in range(-200, 340)
        )

    with mp.workdps(25):
        for tilt in (0.7, 6.0):
            whole = transform(mp.mpf(tilt))
            value, error = one.log_mgf(tilt)
            assert abs(mp.log(whole) - value) <= error < 1e-10
            t = np.array([0.0, 2.0])
            line, slack = one.log_mgf_ratio(tilt, t)
            for at, log, bound in zip(t[1:], line[1:], slack[1:], strict=True):
                true = transform(mp.mpc(tilt, at)) / whole
                assert abs(true / mp.exp(mp.mpc(complex(log))) - 1) <= mp.expm1(float(bound))
                assert mp.log(abs(true)) <= one.log_tail(tilt, float(at), math.inf)
        assert one.log_tail(2.0, 50.0, math.inf) < -1


def test_a_group_is_the_mixture_over_who_of_it_takes_part():
    """Brute force over the subsets of three, each of the worst length."""
    q, mu = Fraction(1, 10), Fraction(1, 2)
    law = {}
    for who in product((0, 1), repeat=3):
        weight = math.prod((q if one else 1 - q for one in who), start=Fraction(1))
        law[sum(who) * mu] = law.get(sum(who) * mu, 0) + weight
    ours = cost(for_group(repeated(SubsampledGaussian(mu=mu, rate=q), 20), 3))
    known = (20 * GaussianMixture(distances=tuple(law), weights=tuple(law.values()))).epsilon("1e-6")
    assert ours.epsilon("1e-6").upper == known.upper
    alone = (20 * SubsampledGaussian(mu=mu, rate=q)).epsilon("1e-6").upper
    assert ours.epsilon("1e-6").lower > 1.5 * alone  # and no group for the price of one
    whole = cost(for_group(SubsampledGaussian(mu=mu, rate=1), 3)).epsilon("1e-6").upper
    assert whole == (1 * Gaussian(mu=3 * mu)).epsilon("1e-6").upper


def test_a_mixture_far_from_0_costs_between_the_gaussians_of_its_ends():
    far = GaussianMixture(distances=(5, 6, 9), weights=("0.5", "0.3", "0.2"))
    for count, delta in ((1, 1e-9), (600, 1e-10)):
        least, found, most = ((count * law).epsilon(delta) for law in (Gaussian(mu=5), far, Gaussian(mu=9)))
        assert least.upper < found.lower <= found.upper < most.lower
        assert found.width < 1e-9 * found.upper
    # the greatest ratio is far below 1, near it, and far above
    u = np.array([-300.0, -40.0, -3.0, 0.0, 2.0, 3.0, 20.0])
    with np.errstate(divide="ignore"):
        value, error = GaussianMixtureSum(far.law, 1, "remove").log_ratio(u)
    for i, place in enumerate(u):
        assert abs(value[i] - mp.log(ratio(far.law, mp.mpf(place)))) <= error[i] < 1e-12 * (1 + abs(value[i]))


def test_mixtures_of_two_are_the_sampled_gaussian_and_of_one_the_gaussian():
    assert (9 * GaussianMixture(distances=(0, 1), weights=("0.9", "0.1"))).epsilon("1e-6") == (
        9 * SubsampledGaussian(mu=1, rate="0.1")
    ).epsilon("1e-6")
    assert (9 * GaussianMixture(distances=(1, 1, 5), weights=("0.5", "0.5", 0))).epsilon("1e-6") == (
        9 * Gaussian(mu=1)
    ).epsilon("1e-6")
    sampled = cost(subsample(GaussianMixture(distances=(0, 1), weights=("0.9", "0.1")), "0.5")).epsilon("1e-6")
    assert sampled == cost(SubsampledGaussian(mu=1, rate="0.05")).epsilon("1e-6")


@pytest.mark.parametrize(
    ("mu", "weights"),
    [
        ((0, 1), ("0.9", "0.11")),
        ((0, 1), ("1.1", "-0.1")),
        ((0, -1), ("0.9", "0.1")),
        ((0, 1), (1,)),
        ((0, 0), ("0.5", "0.5")),
        ((0, 1), (1, 0)),
        ((), ()),
        (tuple(range(65)), ("1/65",) * 65),
    ],
)
def test_what_is_no_mixture_is_refused(mu, weights):
    with pytest.raises(ParameterError):
        GaussianMixture(distances=mu, weights=weights)
    with pytest.raises(PrivacyError, match="under replace-one depends on"):
        (1 * PAIRS).epsilon("1e-6", direction="replace")


@pytest.mark.parametrize(("tilt", "t", "theta"), [(5.0, 1e5, 0.3), (5.0, 1e4, 0.5)])
def test_the_rule_of_the_decay_errs_no_more_than_it_says_far_out(tilt, t, theta):
    """Strips beyond a quarter turn would claim a sixtieth of the error there."""
    mu, q, h = 1.0, 0.01, 0.6

    def decay(step):
        u = step * np.arange(-int(14 / step), int(14 / step) + 1)
        z = 1 - q + q * np.exp(mu * u - mu**2 / 2 + 1j * theta)
        return (
            step
            * np.sum(np.exp(-u * u / 2 + (1 + tilt) * np.log(np.abs(z)) - t * np.angle(z)))
            / math.sqrt(2 * math.pi)
        )

    u = np.arange(-900, 1400) / 64
    mgf = (
        np.sum(np.exp(-u * u / 2) * (1 - q + q * np.exp(mu * u - mu**2 / 2)) ** (1 + tilt))
        / math.sqrt(2 * math.pi)
        / 64
    )
    error = abs(decay(h) - decay(1 / 64)) / mgf
    claimed = math.exp(Strip(mu, q, "remove").log_rule_error(h, tilt, np.array([theta]))[0])
    assert 1e-10 < error <= claimed


RARE = (
    pytest.param(GaussianMixture(distances=(0, 1, 2), weights=("0.9998", "0.0001", "0.0001")), 1e-8),
    pytest.param(
        GaussianMixture(distances=(0, "0.7", "1.4", "2.1"), weights=("0.999997", "1e-6", "1e-6", "1e-6")),
        1e-7,
        marks=pytest.mark.slow,
    ),
)


@pytest.mark.parametrize(("factor", "delta"), RARE)
def test_an_answer_that_moves_seldom_has_a_narrow_interval_too(factor, delta):
    found = (1 * factor).epsilon(delta)
    with mp.workdps(30):
        low, high = (one_step(factor.law, mp.mpf(end), "remove") for end in (found.lower, found.upper))
        assert high <= mp.mpf(delta) <= low
        assert found.width <= 1e-6 * found.upper
        assert one_step(factor.law, mp.mpf(found.upper * (1 - 1e-6)), "remove") > delta  # so small a fault would show


def place(law, log):
    """Where the logarithm of the part of the ratio that moves is this, by Newton from the right, for it is convex."""
    u = min((log - mp.log(w)) / s + s / 2 for s, w in law)
    for _ in range(60):
        terms = [w * mp.exp(s * u - s * s / 2) for s, w in law]
        move = (
            (mp.log(mp.fsum(terms)) - log)
            * mp.fsum(terms)
            / mp.fsum(s * x for (s, _), x in zip(law, terms, strict=True))
        )
        u -= move
        if abs(move) < mp.mpf(10) ** -24:
            break
    return u


def rare_step(law, eps):
    """Delta of one step under remove, as of `one_step`."""
    (_, still), *moving = law
    if mp.expm1(eps) + 1 - still <= 0:
        return -mp.expm1(eps)
    u = place(moving, mp.log(mp.expm1(eps) + 1 - still))
    return still * mp.ncdf(-u) + mp.fsum(w * mp.ncdf(s - u) for s, w in moving) - mp.exp(eps) * mp.ncdf(-u)


@pytest.mark.slow
def test_two_rare_moves_hold_the_integral_over_the_first():
    factor, delta = RARE[0].values
    found = (2 * factor).epsilon(delta)
    with mp.workdps(28):
        law = [(exact(s), exact(w)) for s, w in factor.law]

        def two_steps(eps):
            kink = place(law[1:], mp.log(mp.exp(eps) / law[0][1] - law[0][1]))
            near = [kink + sign * mp.mpf(2) ** -k for k in range(-2, 20) for sign in (1, -1)]
            return mp.quad(
                lambda u: mp.npdf(u) * ratio(factor.law, u) * rare_step(law, eps - mp.log(ratio(factor.law, u))),
                sorted({*map(mp.mpf, (-11, -8, -6, -4, -2, 0)), *near, kink, kink + 8, kink + 16}),
            )

        low, high = two_steps(mp.mpf(found.lower)), two_steps(mp.mpf(found.upper))
    assert high <= delta <= low
    assert low - high < 1e-7 * delta  # so small a fault would show


@pytest.mark.slow
def test_compositions_lie_just_below_another_librarys_grid():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    for factor, count in ((PAIRS, 100), (APART, 10), (PAIRS, 7)):
        shifts, weights = ([float(x) for x in part] for part in zip(*factor.law, strict=True))
        theirs = pld.from_mixture_gaussian_mechanism(1.0, shifts, weights, value_discretization_interval=1e-3)
        found = (count * factor).epsilon("1e-5")
        assert found.width <= 1e-6
        assert found.lower <= theirs.self_compose(count).get_epsilon_for_delta(1e-5) <= found.upper * (1 + 1e-4)


@pytest.mark.slow
def test_groups_of_realistic_training_runs_have_narrow_intervals():
    for size, rate, mu, steps in (
        (2, "1/100", 1, 1000),
        (8, "1/100", 1, 1000),
        (3, "1/1000", "1/2", 100_000),
        (16, "1/256", "1/4", 5000),
        (2, "1/100000", 1, 10),
    ):
        found = cost(for_group(repeated(SubsampledGaussian(mu=mu, rate=rate), steps), size)).epsilon("1e-5")
        assert 0 < found.lower <= found.upper <= found.lower + 1e-6
