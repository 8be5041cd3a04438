"""Finite pairs against brute force over all events and against mpmath; laws every divergence obeys."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from neartwin.divergences import (
    discrete_laplace_pair,
    finite_pair,
    k_ary_response_pair,
    laplace_pair,
    randomized_response_pair,
)
from neartwin.divergences.finite import FinitePair
from neartwin.errors import ParameterError
from tests.oracles.laws import finite_approximate_max, finite_hockey_stick, finite_renyi, holds

weights = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=6)
ORDERS = [Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(10001, 10000), Fraction(2), Fraction(7)]


def laws(cells):
    """Two laws from pairs of weights."""
    p, q = [c[0] for c in cells], [c[1] for c in cells]
    assume(sum(p) > 0 and sum(q) > 0)
    return [Fraction(x, sum(p)) for x in p], [Fraction(x, sum(q)) for x in q]


@settings(max_examples=80, deadline=None)
@given(weights, st.sampled_from([Fraction(-2), Fraction(-1, 3), Fraction(0), Fraction(1, 2), Fraction(3)]))
def test_hockey_stick_is_the_best_event_of_all(cells, epsilon):
    P, Q = laws(cells)
    assert holds(finite_pair(P, Q).hockey_stick(epsilon), finite_hockey_stick(P, Q, epsilon))


@settings(max_examples=80, deadline=None)
@given(weights, st.fractions(0, 1, max_denominator=24))
def test_approximate_max_divergence_is_the_best_event_of_all(cells, delta):
    P, Q = laws(cells)
    found = finite_pair(P, Q).approximate_max_divergence(delta)
    assert holds(found, finite_approximate_max(P, Q, delta), within=1e-13) or abs(found.upper) < 1e-15
    # the route for arrays of delta reaches the same value by a certified root
    root = finite_pair(P, Q).approximate_max_divergence(np.array([float(delta)]))
    if float(delta) == delta:
        assert root.lower[0] <= found.upper
        assert found.lower <= root.upper[0]


@settings(max_examples=60, deadline=None)
@given(weights, st.sampled_from(ORDERS))
def test_renyi_agrees_with_forty_digits(cells, order):
    P, Q = laws(cells)
    found = finite_pair(P, Q).renyi(order)
    exact = finite_renyi(P, Q, order)
    assert holds(found, exact) or abs(exact) < 1e-30
    assert found.lower == found.upper or found.width <= 1e-13 * max(1, found.upper)


@settings(max_examples=60, deadline=None)
@given(weights)
def test_every_divergence_shrinks_when_outcomes_are_merged(cells):
    P, Q = laws([*cells, (3, 2), (1, 5)])
    merged = finite_pair([P[0] + P[-1], *P[1:-1]], [Q[0] + Q[-1], *Q[1:-1]])
    whole = finite_pair(P, Q)
    for ask in (
        lambda pair: pair.kl(),
        lambda pair: pair.max_divergence(),
        lambda pair: pair.total_variation(),
        lambda pair: pair.hockey_stick("0.3"),
        lambda pair: pair.renyi(3),
        lambda pair: pair.approximate_max_divergence("0.05"),
    ):
        assert ask(merged).lower <= ask(whole).upper + 1e-15


@settings(max_examples=40, deadline=None)
@given(weights)
def test_orders_rise_and_the_ends_are_kl_and_max(cells):
    P, Q = laws(cells)
    pair = finite_pair(P, Q)
    values = [pair.renyi(order) for order in (*ORDERS, 50, float("inf"))]
    assert all(a.lower <= b.upper for a, b in pairwise(values))
    assert values[2].lower <= pair.kl().upper
    assert values[-1].upper == pair.max_divergence().upper


@settings(max_examples=40, deadline=None)
@given(weights)
def test_reversal_obeys_the_mirror_law_of_hockey_sticks(cells):
    # H_{e^e}(P||Q) = 1 - e^e + e^e H_{e^-e}(Q||P)
    P, Q = laws(cells)
    pair = finite_pair(P, Q)
    for epsilon in (0.0, 0.7, -1.3):
        left = pair.hockey_stick(epsilon).upper
        right = 1 - np.exp(epsilon) + np.exp(epsilon) * pair.reversed().hockey_stick(-epsilon).upper
        assert left == pytest.approx(right, abs=1e-13)


def test_kl_is_zero_only_for_equal_laws_and_is_not_symmetric():
    P, Q = ["0.5", "0.3", "0.2"], ["0.2", "0.5", "0.3"]
    assert finite_pair(P, P).kl().upper == 0
    assert finite_pair(P, Q).kl().lower > 0
    assert finite_pair(P, Q).kl().lower > finite_pair(Q, P).kl().upper


def test_kl_breaks_the_triangle_inequality():
    far, middle, near = ["0.5", "0.5"], ["0.25", "0.75"], ["0.1", "0.9"]
    direct = finite_pair(far, near).kl().lower
    detour = finite_pair(far, middle).kl().upper + finite_pair(middle, near).kl().upper
    assert direct > detour


def test_missing_support_is_infinite_and_a_zero_probability_is_not():
    lost = finite_pair(["0.5", "0.5", 0], ["0.5", 0, "0.5"])
    assert lost.kl().lower == lost.max_divergence().lower == lost.renyi(2).lower == np.inf
    assert lost.renyi("0.5").upper < np.inf
    assert finite_pair([1, 0], ["0.5", "0.5"]).kl().upper < 0.7
    apart = finite_pair([1, 0], [0, 1])
    assert apart.renyi("0.5").lower == np.inf
    assert apart.hockey_stick(1e300).lower == pytest.approx(1, abs=1e-15)
    assert apart.hockey_stick(np.inf).upper == pytest.approx(1, abs=1e-15)


def test_the_zero_over_zero_event_of_definition_3_6_is_left_out():
    # P(S) = delta and Q(S) = 0: the text's fraction is 0/0; the supremum is over P(S) > delta
    P, Q = ["0.1", "0.9"], [0, 1]
    assert finite_pair(P, Q).approximate_max_divergence("0.1").upper == pytest.approx(np.log(0.9))
    assert finite_pair(P, Q).approximate_max_divergence("0.099").lower == np.inf
    assert finite_pair(P, Q).approximate_max_divergence(1).upper == -np.inf
    assert finite_pair(P, Q).approximate_max_divergence(2).upper == -np.inf


@pytest.mark.parametrize(
    ("P", "Q"),
    [
        (["0.5", "0.6"], ["0.5", "0.5"]),
        (["0.5", "0.5"], ["0.5", "0.25", "0.25"]),
        (["1.5", "-0.5"], ["0.5", "0.5"]),
        ([], []),
        (["0.5", "0.5"], [float("nan"), 1]),
        (np.array([0.5, 0.5 + 1e-8]), np.array([0.5, 0.5])),
    ],
)
def test_malformed_law_is_refused(P, Q):
    with pytest.raises(ParameterError):
        finite_pair(P, Q)


def test_a_law_that_misses_one_by_rounding_is_taken():
    assert finite_pair(np.array([0.5, 0.5 + 1e-12]), np.array([0.5, 0.5])).kl().upper < 1e-11


def test_a_batch_of_pairs_is_answered_as_each_pair():
    rng = np.random.default_rng(7)
    P, Q = rng.dirichlet(np.ones(5), size=6), rng.dirichlet(np.ones(5), size=6)
    batch = finite_pair(P, Q)
    for i in range(6):
        one = finite_pair(P[i], Q[i])
        for ask in (lambda x: x.kl(), lambda x: x.renyi(2.5), lambda x: x.hockey_stick("0.2")):
            assert ask(batch).lower[i] <= ask(one).upper
            assert ask(one).lower <= ask(batch).upper[i]


@pytest.mark.parametrize("epsilon", ["0.000001", "0.3", "1", "8", "60"])
def test_randomized_response_by_its_closed_forms(epsilon):
    import mpmath as mp

    with mp.workdps(60):
        e = mp.mpf(epsilon)
        pair = randomized_response_pair(epsilon)
        assert holds(pair.kl(), e * mp.tanh(e / 2), within=1e-13)
        assert holds(pair.total_variation(), mp.tanh(e / 2), within=1e-13)
        for a in (mp.mpf("0.5"), mp.mpf(2), mp.mpf(30)):
            exact = mp.log(mp.cosh((a - mp.mpf("0.5")) * e) / mp.cosh(e / 2)) / (a - 1)
            assert holds(pair.renyi(float(a)), exact, within=1e-12)


def test_discrete_laplace_agrees_with_its_law_on_a_long_range():
    epsilon, sensitivity = Fraction(3, 2), 4
    x = np.arange(-400, 405)
    law = np.exp(-float(epsilon) / sensitivity * np.abs(x))
    shifted = np.exp(-float(epsilon) / sensitivity * np.abs(x - sensitivity))
    long = finite_pair(law / law.sum(), shifted / shifted.sum())
    short = discrete_laplace_pair(epsilon=epsilon, sensitivity=sensitivity)
    for ask in (lambda p: p.kl(), lambda p: p.renyi(5), lambda p: p.hockey_stick("0.4"), lambda p: p.max_divergence()):
        assert ask(short).upper == pytest.approx(ask(long).upper, rel=1e-11)
    # as the steps shrink it becomes the continuous Laplace
    fine = discrete_laplace_pair(epsilon=1, sensitivity=400)
    assert fine.kl().upper == pytest.approx(laplace_pair(distance=1).kl().upper, rel=1e-4)


def test_k_ary_response_against_its_full_table():
    k, e = 5, 0.8
    p, q = np.exp(e) / (np.exp(e) + k - 1), 1 / (np.exp(e) + k - 1)
    table = finite_pair(np.array([p, q, q, q, q]), np.array([q, p, q, q, q]))
    for ask in (lambda x: x.kl(), lambda x: x.renyi(3), lambda x: x.hockey_stick("0.3")):
        assert ask(k_ary_response_pair(epsilon="0.8", outcomes=k)).upper == pytest.approx(ask(table).upper, rel=1e-12)
    two = k_ary_response_pair(epsilon=1, outcomes=2).kl()
    assert two.upper == pytest.approx(randomized_response_pair(1).kl().upper, rel=1e-13)


def test_pairs_are_frozen():
    pair = randomized_response_pair(1)
    assert isinstance(pair, FinitePair)
    with pytest.raises(AttributeError):
        pair.at = 1


def test_many_deltas_against_one_pair_agree_with_each_alone():
    pair = finite_pair(["0.5", "0.2", "0.3", "0"], ["0.25", "0.3", "0.4", "0.05"])
    deltas = np.array([0.0, 0.1, 0.25, 0.4999, 0.7, 0.999, 1.0])
    found = pair.approximate_max_divergence(deltas)
    for low, high, delta in zip(found.lower, found.upper, deltas, strict=True):
        alone = pair.approximate_max_divergence(Fraction(float(delta)))
        assert low <= alone.upper
        assert alone.lower <= high
        assert low == high or high - low <= 1e-14 / (1 - delta)  # 1 - delta is what a prefix leaves
    response = randomized_response_pair(1)
    at = response.approximate_max_divergence(np.array([1e-5, 0.3, 0.9]))
    assert np.all(response.hockey_stick(at.upper).lower <= [1e-5, 0.3, 0.9])
    assert np.all(response.hockey_stick(at.lower).upper >= [1e-5, 0.3, 0.9])
