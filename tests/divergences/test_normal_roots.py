"""The fast roots of the Gaussian profile: proven where they answer, silent where they cannot prove it."""

import mpmath as mp
import numpy as np
import pytest

from neartwin import tradeoff as c
from neartwin.divergences import gaussian_pair
from neartwin.divergences import normal_roots as roots
from tests.oracles import tradeoff as oracle

RNG = np.random.default_rng(20)
MUS = np.concatenate([10 ** RNG.uniform(-6, 2, 60), RNG.uniform(0.1, 3, 60)])
DELTAS = np.concatenate([RNG.uniform(0, 1, 40), 10 ** RNG.uniform(-290, 0, 40), 1 - 10 ** RNG.uniform(-15, 0, 40)])
NOTHING = np.zeros(1)


def holds_epsilon(mu, lower, upper, delta):
    return oracle.gaussian_delta(mu, upper) <= mp.mpf(delta) <= oracle.gaussian_delta(mu, lower)


def test_every_epsilon_that_is_given_holds_the_truth_and_hardly_any_is_left_out():
    deltas = RNG.permutation(DELTAS)
    lower, upper = roots.epsilon_roots(MUS, NOTHING, deltas, 1 - deltas)
    given = np.isfinite(lower)
    assert given.mean() > 0.95
    for mu, low, high, delta in zip(MUS[given], lower[given], upper[given], deltas[given], strict=True):
        assert holds_epsilon(mu, low, high, delta), (mu, delta)
        assert high - low <= 6e-13 * (abs(high) + mu)
        # near miss: as much again to one side and the root is outside
        assert not holds_epsilon(mu, high + 3 * (high - low), high + 4 * (high - low), delta)


def test_every_mu_that_is_given_holds_the_truth_and_hardly_any_is_left_out():
    epsilons = np.concatenate([10 ** RNG.uniform(-6, 2.5, 60), RNG.uniform(0, 5, 60)])
    deltas = RNG.permutation(np.concatenate([RNG.uniform(0, 1, 60), 10 ** RNG.uniform(-290, 0, 60)]))
    lower, upper = roots.mu_roots(epsilons, deltas, 1 - deltas, NOTHING)
    given = np.isfinite(lower)
    assert given.mean() > 0.95
    for epsilon, low, high, delta in zip(epsilons[given], lower[given], upper[given], deltas[given], strict=True):
        assert oracle.gaussian_delta(low, epsilon) <= mp.mpf(delta) <= oracle.gaussian_delta(high, epsilon)
        assert high - low <= 6e-13 * high


@pytest.mark.parametrize("epsilon", [-0.01, -0.7, -5.0, -12.0])
def test_mu_at_a_negative_epsilon_holds_the_truth(epsilon):
    floor = -np.expm1(epsilon)
    deltas = floor + (1 - floor) * np.array([1e-5, 1e-3, 0.2, 0.5, 0.9])
    found = c.mu_of(np.array(epsilon), deltas)
    for low, high, delta in zip(found.lower, found.upper, deltas, strict=True):
        assert oracle.gaussian_delta(low, epsilon) <= mp.mpf(float(delta)) <= oracle.gaussian_delta(high, epsilon)


@pytest.mark.parametrize("shift", [-8.0, -0.5, -1e-3, 1e-6, 0.02, 1.0, 30.0])
def test_a_wrong_start_gives_a_valid_answer_or_none(shift):
    mu = np.array([0.7])
    delta = np.array([1e-200, 1e-9, 1e-3, 0.2])
    target = np.log(delta)
    start = roots._upper_quantile(target) + 0.35 + shift
    with np.errstate(all="ignore"):
        parts = (mu, NOTHING, *roots._goal(target, delta))
        centre, radius = roots._polished(roots._reading_delta, start, 1.0, *parts)
    for at, room, wanted in zip(centre * 0.7, radius * 0.7, delta, strict=True):
        assert np.isnan(at) or holds_epsilon(0.7, at - room, at + room, wanted)
    assert abs(shift) > 1e-3 or np.isfinite(centre).all()


def test_the_lemma_refuses_what_bends_too_fast_and_what_is_not_known_well():
    def reading(x, _ratio, k, error):
        return x - x**3, 1 - 3 * x**2, -6 * x / (1 - 3 * x**2), k, error  # roots at -1, 0 and 1

    start, far = np.array([1e-3, 0.05]), np.array([0.9, 0.57])
    for begin in (start, far):
        centre, radius = roots._polished(reading, begin, 1.0, np.full(2, 40.0), np.full(2, 1e-15))
        for at, room in zip(centre, radius, strict=True):
            assert np.isnan(at) or min(abs(at - one) for one in (-1, 0, 1)) <= room
    assert np.isnan(roots._polished(reading, start, 1.0, np.full(2, 1e15), np.full(2, 1e-15))[0]).all()
    assert np.isnan(roots._polished(reading, start, 1.0, np.full(2, 40.0), np.full(2, 1e-10))[0]).all()


def test_the_series_for_close_normals_is_as_good_as_its_proof():
    for m, mu in [(-0.1, 0.1), (0.0, 0.12), (0.4, 1e-5), (1.0, 0.08), (6.0, 0.03), (36.0, 0.0065), (36.0, 1e-7)]:
        mean, right = roots._narrow(np.array([m]), np.array([mu]), roots.mills)
        with mp.workdps(60):
            a, b = mp.mpf(m) - mp.mpf(mu) / 2, mp.mpf(m) + mp.mpf(mu) / 2
            ratio = [mp.ncdf(-x) / mp.npdf(x) for x in (a, b)]
            truth = (ratio[0] - ratio[1]) / mp.mpf(mu)
            assert abs(mp.mpf(float(mean[0])) - truth) <= 24 * roots.UNIT
            assert abs(mp.mpf(float(right[0])) / ratio[1] - 1) < 1e-13


def test_mills_ratio_is_trusted_no_further_than_it_holds():
    points = np.concatenate([np.linspace(-1, 12, 300), np.geomspace(12, 1e4, 50)])
    for x, exact, rough in zip(points, roots.mills(points), roots.rough_mills(points), strict=True):
        with mp.workdps(40):
            truth = mp.ncdf(-mp.mpf(x)) / mp.npdf(mp.mpf(x)) if x < 30 else mp.mpf(0)
            if not truth:
                y = mp.mpf(x) / mp.sqrt(2)
                truth = mp.sqrt(mp.pi / 2) * mp.erfc(y) * mp.exp(y * y)
            assert abs(mp.mpf(exact) / truth - 1) < 0.5 * roots.TRUST * roots.UNIT
            assert abs(mp.mpf(rough) / truth - 1) < 5e-6


def test_pairs_give_the_same_roots_for_enclosed_arguments():
    found = gaussian_pair(distance="0.1", sigma="0.3").approximate_max_divergence(["1e-5", "0.3", "0.9"])
    for low, high, delta in zip(found.lower, found.upper, ("1e-5", "0.3", "0.9"), strict=True):
        with mp.workdps(120):
            mu = mp.mpf(1) / 3
            assert oracle.gaussian_delta(mu, high) <= oracle.num(delta) <= oracle.gaussian_delta(mu, low)
        assert high - low < 1e-12
    grid = gaussian_pair(distance=np.array([[0.5], [2.0]])).approximate_max_divergence(np.array([0.1, 1e-8, 0.0, 1.0]))
    assert grid.lower.shape == (2, 4)
    assert np.isposinf(grid.lower[:, 2]).all()
    assert np.isneginf(grid.upper[:, 3]).all()
