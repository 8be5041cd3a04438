"""Optimal composition against exact sums in many digits, brute force over signs, and its own brackets."""

from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin.accounting.theorems import advanced_composition
from neartwin.errors import ParameterError
from neartwin.losses import Approx
from tests.oracles.kov import kov_delta, kov_epsilon, kov_mixed_delta, kov_mixed_epsilon
from tests.oracles.laws import holds


def exact_delta(epsilon, delta, count, total):
    with mp.workdps(60):
        e, d, g = mp.mpf(epsilon), mp.mpf(delta), mp.mpf(total)
        p, term, sum_ = 1 / (1 + mp.exp(-e)), None, mp.mpf(0)
        for i in range(count + 1):
            loss = (count - 2 * i) * e
            if loss <= g:
                break
            term = p**count if term is None else term * (count - i + 1) / i * mp.exp(-e)
            sum_ += term * (1 - mp.exp(g - loss))
        kept = (1 - d) ** count
        return (1 - kept) + kept * sum_


@pytest.mark.parametrize(
    ("epsilon", "delta", "count", "total"),
    [
        ("0.1", "0", 100, "2"),
        ("0.1", "1e-8", 200, "3"),
        ("1", "0", 1, "0.5"),
        ("1", "0.25", 1, "1"),
        ("0.5", "0", 7, "0"),
        ("0.01", "0", 20000, "40"),
        ("2", "1e-9", 15, "29.9"),
        ("0.1", "0", 5, "0.5"),
    ],
)
def test_equal_parameters_by_sixty_digits(epsilon, delta, count, total):
    found = kov_delta(epsilon=epsilon, delta=delta, count=count, epsilon_total=total)
    assert holds(found, exact_delta(epsilon, delta, count, total)) or found.upper < 1e-14
    assert found.width <= 1e-10 * found.upper + 1e-300


@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_steps_at_a_delta_of_1e_minus_300(count):
    found = kov_epsilon(epsilon="0.1", count=count, delta_total="1e-300")
    assert found.width < 1e-9
    above, below = (exact_delta("0.1", "0", count, end) for end in (found.lower, found.upper))
    assert above >= mp.mpf("1e-300") >= below


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.fractions(Fraction(1, 50), 2, max_denominator=50), st.floats(-12, -0.5))
def test_epsilon_and_delta_are_inverse(count, epsilon, power):
    delta = 10.0**power
    found = kov_epsilon(epsilon=epsilon, count=count, delta_total=delta)
    assert kov_delta(epsilon=epsilon, count=count, epsilon_total=Fraction(found.upper)).upper <= delta * (1 + 1e-11)
    if found.lower > 0:
        assert kov_delta(epsilon=epsilon, count=count, epsilon_total=Fraction(found.lower)).lower >= delta * (1 - 1e-11)


def test_edges_of_the_inverse():
    assert kov_epsilon(epsilon="0.5", count=1, delta="0.1", delta_total="0.1").upper == 0.5
    assert kov_epsilon(epsilon="0.5", count=2, delta="0.1", delta_total="0.1899").lower == np.inf
    assert kov_epsilon(epsilon="0.5", count=2, delta="0.1", delta_total="0.19").upper == 1
    assert kov_epsilon(epsilon="0.5", count=3, delta_total=0).upper == 1.5
    assert kov_epsilon(epsilon="0.5", count=3, delta_total="0.999").upper < 1e-10
    for bad in ({"epsilon": -1}, {"count": 0}, {"delta_total": 2}, {"count": 2.5}):
        with pytest.raises(ParameterError):
            kov_epsilon(**{"epsilon": "0.5", "count": 3, "delta_total": "0.1"} | bad)


def test_vectorised_over_the_total():
    totals = np.array([[0.0, 1.0], [2.0, 20.0]])
    found = kov_delta(epsilon="0.1", count=100, epsilon_total=totals)
    assert found.upper.shape == (2, 2)
    assert np.all(np.diff(found.upper.ravel()) < 0)
    assert found.upper[1, 0] == pytest.approx(0.020140178428191532, rel=1e-13)


def by_all_signs(epsilons, deltas, total):
    with mp.workdps(40):
        sum_, kept = mp.mpf(0), mp.mpf(1)
        for d in deltas:
            kept *= 1 - mp.mpf(d)
        for signs in product((1, -1), repeat=len(epsilons)):
            loss = mp.fsum(s * mp.mpf(e) for s, e in zip(signs, epsilons, strict=True))
            mass = mp.fprod(1 / (1 + mp.exp(-s * mp.mpf(e))) for s, e in zip(signs, epsilons, strict=True))
            sum_ += mass * max(0, 1 - mp.exp(mp.mpf(total) - loss))
        return 1 - kept * (1 - sum_)


def test_different_parameters_by_all_signs():
    epsilons, deltas = ["0.1", "0.2", "0.35", "0.5", "0.03", "1"], ["0", "1e-6", "0", "1e-5", "0.001", "0"]
    for total in ("0", "0.6", "1.7"):
        found = kov_mixed_delta(epsilons=epsilons, deltas=deltas, epsilon_total=total)
        assert holds(found, by_all_signs(epsilons, deltas, total), within=1e-12)


def test_parameters_too_different_for_a_sum_are_refused():
    epsilons = [str(round(0.03 + 0.017 * i, 3)) for i in range(14)]
    assert kov_mixed_delta(epsilons=epsilons[:9], deltas=["0"] * 9, epsilon_total="0.2").upper < 1
    with pytest.raises(ParameterError, match="compose"):
        kov_mixed_delta(epsilons=epsilons, deltas=["0"] * 14, epsilon_total="0.2")


def test_the_mixed_bracket_agrees_with_equal_parameters_beyond_all_signs():
    one = kov_epsilon(epsilon="0.07", count=60, delta="1e-9", delta_total="1e-6")
    many = kov_mixed_epsilon(epsilons=["0.07"] * 60, deltas=["1e-9"] * 60, delta_total="1e-6")
    assert many.lower <= one.upper
    assert one.lower <= many.upper
    assert many.width < 1e-4


def test_optimal_composition_is_never_worse_than_the_theorem():
    for slack in ("1e-9", "1e-3"):
        bound = advanced_composition(epsilon="0.1", count=50, slack=slack).epsilon.upper
        assert kov_epsilon(epsilon="0.1", count=50, delta_total=slack).upper <= bound


def test_mixed_edges():
    assert kov_mixed_epsilon(epsilons=["0.5", "0.25"], deltas=[0, 0], delta_total=0).upper == 0.75
    assert kov_mixed_epsilon(epsilons=["0.5", "0.25"], deltas=["0.1", 0], delta_total="0.05").lower == np.inf
    for bad in ({"deltas": [0]}, {"epsilons": [], "deltas": []}, {"epsilons": [-1, 1]}):
        with pytest.raises(ParameterError):
            kov_mixed_epsilon(**{"epsilons": ["0.5", "0.25"], "deltas": [0, 0], "delta_total": "0.1"} | bad)


@pytest.mark.parametrize(("epsilon", "delta", "count", "total"), [("0.1", "1e-8", 200, "1e-5"), ("1", 0, 7, "1e-9")])
def test_the_binomial_sum_and_the_lattice_of_the_engine_agree(epsilon, delta, count, total):
    """Two routes without common arithmetic; a little more or less of a mechanism is told apart."""
    ours = kov_epsilon(epsilon=epsilon, delta=delta, count=count, delta_total=total)
    engine = (count * Approx(epsilon=epsilon, delta=delta)).epsilon(total)
    assert ours.lower <= engine.upper
    assert engine.lower <= ours.upper
    more = ((count + 1) * Approx(epsilon=epsilon, delta=delta)).epsilon(total)
    assert more.lower > ours.upper
