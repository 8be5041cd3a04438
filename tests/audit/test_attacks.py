"""The attacks win where theory says they must, and lose where it says they cannot win."""

import math
import time

import numpy as np
import pytest
from scipy import special

import neartwin as nt
from neartwin.audit.attacks import (
    averaged,
    correlated,
    differenced,
    naive_laplace,
    order_spread,
    reachable,
    repeated_rounding_twins,
    sum_excess,
    time_follows_noise,
    tracing_scores,
)
from neartwin.audit.reconstruction import (
    bounded_noise,
    every_subset,
    exhaustive,
    least_squares,
    linear_program,
    released,
    sweep,
    wrong_share,
)
from neartwin.errors import BudgetError, ParameterError
from tests.audit.controls import discrete_laplace

ATTACKERS = {"least squares": least_squares, "linear programme": linear_program}


@pytest.mark.parametrize("error", [0, 1, 2])
def test_exhaustive_attack_errs_in_at_most_four_times_the_error(error):
    rng = np.random.default_rng(error)
    people = 10
    subsets = every_subset(people)
    for _ in range(5):
        secret = rng.integers(0, 2, people)
        answers = subsets @ secret + rng.integers(-error, error + 1, len(subsets))
        found = exhaustive(subsets, answers.astype(float))
        assert np.sum(found != secret) <= 4 * error
        # and the found bits explain every answer as well as the truth does
        assert np.max(np.abs(subsets @ found - answers)) <= error


@pytest.mark.slow
@pytest.mark.parametrize("people", [49, 100])
def test_reconstruction_has_its_transition_at_the_root_of_n(people):
    root = math.sqrt(people)
    rows = sweep(
        bounded_noise, [0.15 * root, 0.3 * root, 8 * root, 40 * root], ATTACKERS, people=people, queries=5 * people
    )
    by_setting = {row.setting: [] for row in rows}
    for row in rows:
        assert row.error <= row.setting
        assert row.error_in_roots == pytest.approx(row.error / root)
        by_setting[row.setting].append(row.wrong)
    small, middle, large, huge = by_setting.values()
    assert max(small) == 0
    assert max(middle) <= 0.1
    assert min(large) > 0.2
    assert min(huge) > 0.3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spend", "floor"), [(nt.pure, lambda e: special.expit(-e)), (nt.gdp, lambda mu: special.ndtr(-mu / 2))]
)
def test_reconstruction_fails_against_releases_and_works_without_privacy(spend, floor):
    settings = [0.5, 3.0]
    rows = sweep(released(spend), [*settings, 1e6], ATTACKERS, people=40, queries=120, repeats=6)
    for setting in settings:
        for name in ATTACKERS:
            wrong = np.mean([row.wrong for row in rows if (row.attacker, row.setting) == (name, setting)])
            # 240 fair bits: eight deviations of a mean that is at least the theorem's floor
            assert wrong >= floor(setting) - 8 * math.sqrt(floor(setting) * (1 - floor(setting)) / 240)
            assert wrong > 0.02
    assert all(row.wrong == 0 and row.error == 0 for row in rows if row.setting == 1e6)


def test_linear_programme_survives_wild_answers_and_least_squares_does_not():
    rng = np.random.default_rng(7)
    secret = rng.integers(0, 2, 60)
    subsets = rng.integers(0, 2, (360, 60))
    answers = (subsets @ secret).astype(float)
    answers[:30] += 500
    assert wrong_share(secret, linear_program(subsets, answers)) == 0
    assert wrong_share(secret, least_squares(subsets, answers)) > 0.1


def test_attackers_refuse_answers_that_do_not_match_the_questions():
    for attack in (exhaustive, least_squares, linear_program):
        with pytest.raises(ParameterError):
            attack(every_subset(3), np.zeros(3))
    with pytest.raises(ParameterError):
        every_subset(21)


class Purse:
    """An account that answers until its budget is gone."""

    def __init__(self, answers):
        self.left = answers

    def __call__(self, value, scale, rng):
        if not self.left:
            from fractions import Fraction

            raise BudgetError("epsilon", Fraction(1), Fraction(0), ("ask less",))
        self.left -= 1
        return value + float(discrete_laplace(rng, scale, 1)[0])


def test_averaging_defeats_fresh_noise_and_not_a_budget_or_a_stored_answer():
    rng = np.random.default_rng(1)
    fresh = averaged(lambda: 1_000 + float(discrete_laplace(rng, 50, 1)[0]), times=10_000)
    assert abs(fresh.value - 1_000) < 4
    purse = Purse(5)
    capped = averaged(lambda: purse(1_000, 50, rng), times=10_000)
    assert (capped.answers, type(capped.refusal)) == (5, BudgetError)
    stored = 1_000 + float(discrete_laplace(rng, 50, 1)[0])
    assert averaged(lambda: stored, times=10_000).value == stored
    assert math.isnan(averaged(lambda: Purse(0)(0, 1, rng), times=3).value)


def test_differencing_reads_a_person_from_exact_answers_and_not_noisy_ones():
    rng = np.random.default_rng(2)
    salaries = dict(enumerate(rng.integers(20, 90, 50).tolist()))
    exact = differenced(lambda people: sum(salaries[p] for p in people), list(salaries), 7)
    assert exact.value == salaries[7]
    noise = lambda people: sum(salaries[p] for p in people) + float(discrete_laplace(rng, 180, 1)[0])  # noqa: E731
    errors = [abs(differenced(noise, list(salaries), 7).value - salaries[7]) for _ in range(200)]
    assert np.median(errors) > 90  # further off than the whole range of salaries
    purse = Purse(3)
    stopped = differenced(lambda people: purse(sum(salaries[p] for p in people), 1, rng), list(salaries), 7, times=9)
    assert (stopped.answers, type(stopped.refusal)) == (2, BudgetError)


def traced_means(rng, noise):
    frequencies = rng.uniform(0.1, 0.9, 4_000)
    members, strangers = (rng.random((60, 4_000)) < frequencies for _ in range(2))
    published = members.mean(axis=0) + noise(rng, 4_000)
    inside, outside = (tracing_scores(people, published, frequencies) for people in (members, strangers))
    cuts = np.concatenate([inside, outside])
    advantage = max(np.mean(inside >= cut) - np.mean(outside >= cut) for cut in cuts)
    return advantage, np.mean(inside[:, None] > outside)


def test_tracing_finds_members_in_exact_means_and_not_in_private_ones():
    rng = np.random.default_rng(3)
    advantage, _ = traced_means(rng, lambda _, n: np.zeros(n))
    assert advantage > 0.95
    # one person moves 4000 means by 1/60 each: mu = 1 in all needs noise sqrt(4000)/60 a mean
    mu = 1.0
    advantage, ahead = traced_means(rng, lambda rng, n: rng.normal(0, math.sqrt(n) / 60 / mu, n))
    assert advantage <= 2 * special.ndtr(mu / 2) - 1 + 0.25  # 60 against 60: the estimate itself is noisy
    assert ahead < 0.85
    by_hand = (0.9 - 0.5) * (1.0 - 0.5) + (0.1 - 0.2) * (1.0 - 0.2)
    assert tracing_scores(np.ones((1, 2)), np.array([0.9, 0.1]), np.array([0.5, 0.2])) == pytest.approx([by_hand])
    with pytest.raises(ParameterError):
        tracing_scores(np.zeros((3, 2)), np.zeros(3), np.zeros(2))


def test_float_attack_reads_naive_noise_and_not_noise_on_a_grid():
    rng = np.random.default_rng(5)
    naive = naive_laplace(0.0, 1.0, 20_000, rng)
    certain = lambda outputs: np.mean(reachable(outputs, 0.0, 1.0) & ~reachable(outputs, 1.0, 1.0))  # noqa: E731
    assert reachable(naive, 0.0, 1.0).mean() > 0.99
    assert certain(naive) > 0.2  # outputs that only the true centre can give
    assert certain(naive_laplace(1.0, 1.0, 20_000, rng)) < 0.001  # and the other centre hardly ever gives
    grid = discrete_laplace(rng, 2**20, 20_000) * 2.0**-20
    other = 1 + discrete_laplace(rng, 2**20, 20_000) * 2.0**-20
    assert certain(grid) < 1.1 * math.e * certain(other)  # no more than epsilon = 1 allows, either way
    assert certain(other) < 1.1 * math.e * certain(grid)
    # and every output is a grid point for either centre: the attack's event is empty
    assert np.all(grid * 2**20 == np.rint(grid * 2**20))
    assert np.all((grid - 1) * 2**20 == np.rint((grid - 1) * 2**20))


def test_float_sums_move_beyond_their_sensitivity_and_integer_sums_do_not():
    twins = repeated_rounding_twins()
    assert np.sum(twins.left != twins.right) == 1
    assert max(np.abs(twins.left).max(), np.abs(twins.right).max()) <= twins.bound
    running = lambda side: float(np.cumsum(side, dtype=np.float32)[-1])  # noqa: E731
    integers = lambda side: int(np.rint(side * 4).astype(np.int64).sum()) / 4  # noqa: E731
    assert sum_excess(running, twins) > twins.bound
    assert sum_excess(integers, twins) <= 0
    assert order_spread(sum, [1e16, 1.0, -1e16, 1.0], seed=1) >= 1
    assert order_spread(integers, [2.0**50, 1.0, -(2.0**50), 1.0], seed=1) == 0


@pytest.mark.slow  # a busy machine hides what it measures
def test_timing_attack_sees_time_that_follows_noise_and_none_that_does_not():
    rng = np.random.default_rng(6)
    noise = np.abs(rng.laplace(0, 1, 1_000))
    assert correlated(noise, 5 * noise + rng.normal(0, 1, 1_000)).p_value <= 0.002
    assert abs(correlated(noise, rng.normal(0, 1, 1_000)).correlation) < 0.15
    assert correlated(noise, rng.normal(0, 1, 1_000)).p_value > 0.01

    def loop():  # rejection by counting: the larger the noise, the longer the loop
        steps = int(rng.geometric(0.002))
        for _ in range(steps):
            time.perf_counter_ns()
        return steps

    assert time_follows_noise(loop, calls=300, shuffles=199).p_value <= 0.01


def test_rank_correlation_is_scipys_with_ties():
    from scipy import stats

    rng = np.random.default_rng(8)
    a, b = rng.integers(0, 6, 200).astype(float), rng.integers(0, 6, 200).astype(float)
    assert correlated(a, b).correlation == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-11)
