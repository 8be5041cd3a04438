"""Attack risk and its inverses, the classical formula, shuffling, and integer noise."""

import mpmath as mp
import numpy as np
import pytest

from neartwin import tradeoff as c
from neartwin.errors import ParameterError
from neartwin.tradeoff import classical
from tests.oracles import tradeoff as oracle

CURVES = [
    (c.gaussian(1), 2001),
    (c.laplace(2), 2001),
    (c.epsilon_delta(1, "0.05"), 2001),
    (c.subsampled(c.gaussian(2), "0.3"), 251),  # 2 ms a point, but smooth
]


@pytest.mark.parametrize(("curve", "points"), CURVES)
def test_risks_are_read_off_the_curve(curve, points):
    fpr = np.linspace(0, 1, points)
    power = c.tpr_at(curve, fpr)
    best = np.max(power.lower - fpr)
    assert abs(c.advantage(curve).upper - best) < 1e-5
    assert np.all(c.reconstruction_success(curve, fpr).upper == power.upper)


def test_inverses_return_to_the_risk():
    for mu in ("0.01", "0.5", "3"):
        curve, exact = c.gaussian(mu), float(oracle.num(mu))
        reached = [
            c.mu_of_advantage(c.advantage(curve).lower),
            c.mu_of_tpr(c.tpr_at(curve, "0.01").lower, "0.01"),
            c.mu_of_tpr(c.reconstruction_success(curve, "0.001").lower, "0.001"),
        ]
        for found in reached:
            assert abs(found.lower - exact) < 1e-10
            assert abs(found.upper - exact) < 1e-10
    # the safe side keeps the promise
    safe = c.mu_of_tpr("0.2", "0.05").lower
    assert c.tpr_at(c.gaussian(repr(float(safe))), "0.05").lower <= 0.2


def test_impossible_risks_are_refused():
    for call in (lambda: c.mu_of_tpr("0.01", "0.02"), lambda: c.mu_of_advantage(1)):
        with pytest.raises(ParameterError):
            call()


def test_the_classical_formula_keeps_to_its_theorem():
    for epsilon, delta in (("0.99", "1e-3"), ("0.1", "1e-12"), ("0.5", "0.2")):
        assert classical.classical_sigma(epsilon, delta).lower >= c.sigma_of(epsilon, delta).upper
        assert classical.classical_holds(epsilon, delta)
    for epsilon in (1, "1.5", 20):
        with pytest.raises(ParameterError, match="below 1"):
            classical.classical_sigma(epsilon, "1e-5")
    assert not classical.classical_holds(20, "1e-5")


@pytest.mark.parametrize(
    ("delta", "limit"), [("1e-5", 8.419771301536), ("1e-3", 7.463474370115), ("1e-10", 9.849873987255)]
)
def test_classical_formula_fails_at_known_places(delta, limit):
    found = classical.classical_limit(delta)
    assert abs(found.lower - limit) < 1e-9
    assert abs(found.upper - limit) < 1e-9
    assert classical.classical_holds(repr(found.lower * 0.999), delta)
    assert not classical.classical_holds(repr(found.upper * 1.001), delta)


def test_the_shuffled_pair_agrees_with_its_double_sum():
    e0, n = mp.mpf(1), 40
    rate, truth = mp.exp(-e0), 1 / (1 + mp.exp(-e0))
    P, Q = {}, {}
    for count in range(n):
        for a in range(count + 1):
            mass = mp.binomial(n - 1, count) * rate**count * (1 - rate) ** (n - 1 - count)
            mass *= mp.binomial(count, a) / mp.mpf(2) ** count
            for one in (0, 1):
                chance = truth if one else 1 - truth
                P[a + one, count - a + 1 - one] = P.get((a + one, count - a + 1 - one), 0) + mass * chance
                Q[a + 1 - one, count - a + one] = Q.get((a + 1 - one, count - a + one), 0) + mass * chance
    for epsilon in ("0", "0.1", "0.4", "0.8"):
        factor = mp.exp(oracle.num(epsilon))
        exact = sum(max(P[key] - factor * Q.get(key, 0), mp.mpf(0)) for key in P)
        found = c.shuffle_delta(1, n, epsilon)
        assert found.lower <= exact <= found.upper
        assert found.width < 1e-9
    assert c.shuffle_delta(1, n, 1).upper < 1e-14


def shuffled_delta(local, n, epsilon):
    """The pair's delta, its double sum with 60 digits beyond those that cancel."""
    with mp.workdps(60 + int(float(local))):
        e0, growth = oracle.num(local), mp.exp(oracle.num(epsilon))
        rate, truth, whole = mp.exp(-e0), 1 / (1 + mp.exp(-e0)), mp.mpf(0)
        win, loss = truth - growth * (1 - truth), growth * truth - (1 - truth)
        for count in range(n):
            mass = mp.binomial(n - 1, count) * rate**count * (1 - rate) ** (n - 1 - count) / mp.mpf(2) ** count
            for a in range(count + 2):
                before, here = (mp.binomial(count, one) if one >= 0 else mp.mpf(0) for one in (a - 1, a))
                whole += mass * max(win * before - loss * here, mp.mpf(0))
        return +whole


@pytest.mark.parametrize(
    ("local", "people", "epsilon"),
    [
        ("36.7365", 5, "36.369135"),  # was 0, on both sides
        ("15", 5, "14"),  # above was below the truth by 1e-11 of it
        ("36", 40, "35.999964"),  # a thousand times too much, below too
        ("40", 5, "39"),  # a division by zero
        ("250", 3, "249.5"),
        ("800", 4, "799.9"),  # beyond the floats
        ("1e-9", 10, "9e-10"),
        ("1e-20", 6, "3e-21"),
        ("2", 30, "0"),
        ("5", 30, "4.9999999999"),
        ("0.3", 1, "0.1"),
    ],
)
def test_the_shuffled_pair_keeps_its_digits_at_every_local_epsilon(local, people, epsilon):
    exact = shuffled_delta(local, people, epsilon)
    found = c.shuffle_delta(local, people, epsilon)
    assert found.lower <= exact <= found.upper
    assert found.width <= 1e-9 * found.upper


@pytest.mark.parametrize(
    ("epsilon", "people", "delta"), [("1", 10_000, "1e-6"), ("0.5", 2000, "1e-4"), ("3", 10**6, "1e-8")]
)
def test_shuffling_costs_no_more_than_its_closed_form(epsilon, people, delta):
    known = oracle.shuffled_epsilon(epsilon, people, delta)
    assert 0 < c.shuffle_delta(epsilon, people, str(known)).upper <= float(delta)


@pytest.mark.parametrize(("epsilon", "reach"), [("1", 1), ("0.5", 3), ("3", 4)])
def test_discrete_laplace_is_its_two_laws(epsilon, reach):
    a = float(mp.exp(-oracle.num(epsilon) / reach))
    x = np.arange(-400, 401 + reach)
    P, Q = a ** np.abs(x) * (1 - a) / (1 + a), a ** np.abs(x - reach) * (1 - a) / (1 + a)
    grid = np.linspace(-4, 4, 33)
    direct = [np.sum(np.maximum(Q - np.exp(e) * P, 0)) for e in grid]
    assert np.allclose(c.discrete_laplace(epsilon, reach).delta(grid).lower, direct, atol=1e-12)
    alpha = np.linspace(0, 1, 21)
    gap = c.discrete_laplace(epsilon, reach).beta(alpha).lower - c.epsilon_delta(epsilon).beta(alpha).lower
    assert np.all(gap >= -1e-13)
    assert (np.max(gap) < 1e-13) == (reach == 1)
