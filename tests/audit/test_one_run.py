"""The one-run bounds: exact against brute force, valid in simulation, and the greedy extreme is the true extreme."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import special
from scipy.optimize import linprog

from neartwin.audit.claims import claim_approx, claim_gdp, claim_pure
from neartwin.audit.one_run import one_run_curve_pvalue, one_run_epsilon, one_run_parameter, one_run_pvalue
from neartwin.errors import ParameterError


def brute_pvalue(correct, guesses, canaries, epsilon, delta):
    with mpmath.workdps(40):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        mass = [mpmath.binomial(guesses, i) * p**i * (1 - p) ** (guesses - i) for i in range(guesses + 1)]
        worst = max((mpmath.fsum(mass[max(correct - i, 0) : correct]) / i for i in range(1, canaries + 1)), default=0)
        beta = mpmath.fsum(mass[correct:])
        found = beta + 2 * canaries * mpmath.mpf(delta) * worst
        return min(1, found if found <= 0.5 or not delta else max(found, beta + canaries * delta * (1 - p)))


@pytest.mark.parametrize("epsilon", [0, 0.3, 2.0])
@pytest.mark.parametrize("delta", [0, 1e-6, 1e-3])
@pytest.mark.parametrize(
    ("correct", "guesses", "canaries"), [(0, 5, 9), (5, 5, 5), (3, 20, 100), (17, 20, 30), (60, 90, 90)]
)
def test_pvalue_is_the_theorem_in_high_precision(correct, guesses, canaries, epsilon, delta):
    expected = brute_pvalue(correct, guesses, canaries, epsilon, delta)
    assert one_run_pvalue(correct, guesses, canaries, epsilon=epsilon, delta=delta) == pytest.approx(
        float(expected), rel=1e-11
    )


@pytest.mark.parametrize(("canaries", "delta"), [(3, "1/10"), (3, "1/50"), (4, "1/20"), (5, "1/100")])
def test_failures_may_come_where_the_guesses_fall_short(canaries, delta):
    """All answers but the complement are a little likelier: an exact law, whose privacy and guesses are counted."""
    answers, delta = 2**canaries, Fraction(delta)
    least = (1 - (answers - 1) * delta) / answers  # and delta more for the others
    law = {y: least + delta * any(y) for y in itertools.product((0, 1), repeat=canaries)}  # of the bits that are right
    assert sum(law.values()) == 1
    assert min(law.values()) >= 0
    for flipped in range(canaries):  # a neighbour's law is the same about its own bits
        other = {tuple(bit ^ (i == flipped) for i, bit in enumerate(y)): chance for y, chance in law.items()}
        assert sum(max(chance - other[y], 0) for y, chance in law.items()) == delta
    right = float(1 - law[(0,) * canaries])
    assert right <= one_run_pvalue(1, canaries, canaries, epsilon=0.0, delta=float(delta))
    half = 0.5**canaries
    assert right > (1 - half) + 2 * canaries * float(delta) * half  # a near miss: the theorem's own number


def linear_extreme(correct, guesses, canaries, lines):
    """The largest Pr[>= correct] over all laws whose every upper tail obeys each line of the curve's power: an LP.

    lines: (intercept, slope) pairs whose minimum is 1 - f. The variables are the chances of 0..guesses right guesses.
    """
    rows, limits = [], []
    for level in range(1, guesses + 1):
        right = np.array([i / canaries if i >= level else 0 for i in range(guesses + 1)])
        wrong = np.array([(guesses - i) / canaries if i >= level - 1 else 0 for i in range(guesses + 1)])
        for intercept, slope in lines:
            rows.append(right - slope * wrong)
            limits.append(intercept)
    goal = -(np.arange(guesses + 1) >= correct).astype(float)
    total = np.ones((1, guesses + 1))
    return -linprog(goal, A_ub=np.array(rows), b_ub=limits, A_eq=total, b_eq=[1], bounds=(0, None)).fun


@pytest.mark.parametrize(("correct", "guesses", "canaries"), [(6, 8, 8), (8, 8, 20), (9, 12, 30), (1, 5, 5)])
@pytest.mark.parametrize("delta", [0, 0.01])
def test_the_greedy_extreme_is_the_optimum_of_a_linear_programme(correct, guesses, canaries, delta):
    claim = claim_approx("0.8", str(delta))
    e = math.exp(0.8)
    lines = [(delta, e), (1 - (1 - delta) / e, 1 / e), (1, 0)]  # 1 - f_{eps,delta} as a minimum of lines
    expected = linear_extreme(correct, guesses, canaries, lines)
    found = one_run_curve_pvalue(correct, guesses, canaries, curve=claim.floor)
    assert expected - 1e-9 <= found <= expected * 1.02 + 1e-3  # never below; the curve's grid costs a little


def randomized(rng, canaries, epsilon, games):
    """Each canary's bit through randomized response: right guesses a game, the extreme of pure privacy."""
    return rng.binomial(canaries, special.expit(epsilon), games)


def test_pvalues_of_a_true_claim_are_small_as_seldom_as_stated():
    rng = np.random.default_rng(3)
    counts = randomized(rng, 60, 1.0, 4_000)
    for level in (0.05, 0.3):
        for pvalue in (
            lambda v: one_run_pvalue(v, 60, 60, epsilon=1.0),
            lambda v: one_run_curve_pvalue(v, 60, 60, curve=claim_pure(1).floor),
        ):
            values = {v: pvalue(int(v)) for v in np.unique(counts)}
            share = np.mean([values[v] <= level for v in counts])
            assert share <= level + 3 * math.sqrt(level / 4_000)
    tight = {v: one_run_pvalue(int(v), 60, 60, epsilon=0.8) for v in np.unique(counts)}
    assert np.mean([tight[v] <= 0.05 for v in counts]) > 0.1  # a false claim is found


def test_curve_pvalues_hold_for_gaussian_canaries_with_abstentions():
    rng = np.random.default_rng(4)
    canaries, guesses, mu = 200, 40, 1.0
    small, known = 0, {}
    for _ in range(400):
        bits = rng.integers(0, 2, canaries)
        seen = bits * mu + rng.normal(0, 1, canaries) - mu / 2
        sure = np.argsort(-np.abs(seen))[:guesses]  # abstain on the rest
        correct = int(np.sum((seen[sure] > 0) == bits[sure]))
        if correct not in known:
            known[correct] = one_run_curve_pvalue(correct, guesses, canaries, curve=claim_gdp(mu).floor)
        small += known[correct] <= 0.1
    assert small <= 0.1 * 400 + 3 * math.sqrt(0.09 * 400)


def test_one_run_bounds_grow_with_right_guesses_below_the_perfect_score():
    bounds = [one_run_epsilon(correct, 100, 100) for correct in (40, 60, 80, 100)]
    assert bounds[0] == 0
    assert bounds == sorted(bounds)
    assert bounds[3] < math.log(100 / -math.log(0.95)) + 0.1
    assert one_run_epsilon(80, 100, 100, delta=1e-3) < bounds[2]
    gaussian = [one_run_parameter(correct, 100, 100, family=claim_gdp) for correct in (40, 70, 95)]
    assert gaussian[0] == 0 < gaussian[1] < gaussian[2]


def test_gaussian_curve_sharpens_the_one_run_bounds_of_epsilon_and_delta():
    # many canaries, few and good guesses: the (epsilon, delta) bound of the same mechanism is far weaker
    guesses, canaries = 1_000, 100_000
    mu = one_run_parameter(950, guesses, canaries, family=claim_gdp, confidence=0.95)
    epsilon = one_run_epsilon(950, guesses, canaries, delta=1e-5, confidence=0.95)
    delta = special.ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * special.ndtr(-epsilon / mu - mu / 2)
    assert delta > 1e-5  # the mu that the curve reached is not (epsilon, 1e-5)-private: it has refuted more


def test_one_run_refuses_impossible_counts():
    for correct, guesses, canaries in ((5, 4, 10), (1, 11, 10), (-1, 4, 4), (0, 0, 4)):
        with pytest.raises(ParameterError):
            one_run_pvalue(correct, guesses, canaries, epsilon=1.0)
