"""Tests and their errors, the Neyman-Pearson test, post-processing, adaptive chains, and f-DP of finite mechanisms."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin import tradeoff as c
from neartwin.errors import ParameterError
from neartwin.tradeoff import attackers
from tests.oracles import tradeoff as oracle
from tests.tradeoff.test_finite import masses, pairs

ALPHA = np.linspace(0, 1, 41)


@settings(max_examples=60, deadline=None)
@given(pairs(), st.lists(st.fractions(0, 1, max_denominator=8), min_size=5, max_size=5))
def test_no_test_beats_one_minus_total_variation(pair, chances):
    P, Q = pair
    tv = sum((abs(p - q) for p, q in zip(P, Q, strict=True)), Fraction(0)) / 2
    errors = attackers.errors_of(chances[: len(P)], P, Q)
    assert errors.alpha + errors.beta >= 1 - tv
    sharp = attackers.errors_of([Fraction(q > p) for p, q in zip(P, Q, strict=True)], P, Q)
    assert sharp.alpha + sharp.beta == 1 - tv


@settings(max_examples=80, deadline=None)
@given(pairs(), st.fractions(0, 1, max_denominator=30))
def test_the_neyman_pearson_test_reaches_the_curve(pair, alpha):
    errors = attackers.errors_of(attackers.best_test(*pair, alpha), *pair)
    assert errors.alpha <= alpha
    assert errors.beta == oracle.neyman_pearson(*pair, alpha)


@settings(max_examples=30, deadline=None)
@given(pairs(), st.lists(masses, min_size=5, max_size=5))
def test_post_processing_never_lowers_a_curve(pair, rows):
    P, Q = pair
    width = min(len(row) for row in rows)
    channel = [[Fraction(1 + x, sum(row[:width]) + width) for x in row[:width]] for row in rows[: len(P)]]
    before, after = c.finite_pair(P, Q).beta(ALPHA), attackers.post_process(channel, P, Q).beta(ALPHA)
    assert np.all(after.upper >= before.lower - 1e-13)


def test_adaptive_chain_obeys_composition_and_a_product_attains_it():
    first = (["0.6", "0.4"], ["0.4", "0.6"])
    weak, strong = (["0.55", "0.45"], ["0.45", "0.55"]), (["0.7", "0.3"], ["0.3", "0.7"])
    bound = c.compose(c.finite_pair(*first), c.finite_pair(*strong)).beta(ALPHA)
    adaptive = attackers.adaptive_chain(*first, [weak, strong]).beta(ALPHA)
    assert np.all(adaptive.upper >= bound.lower - 1e-13)
    assert np.max(adaptive.lower - bound.upper) > 0.01
    equal = attackers.adaptive_chain(*first, [strong, strong]).beta(ALPHA)
    assert np.allclose(equal.lower, bound.lower, atol=1e-13)
    with pytest.raises(ParameterError):
        attackers.adaptive_chain(*first, [weak])


def test_f_dp_asks_both_orders():
    # T(P, Q) alone lies above f, its inverse does not
    P, Q = ["0.5", "0.5", 0], ["0.25", "0.5", "0.25"]
    f = c.finite_pair(P, Q)
    assert c.excess(f, f).upper < 1e-12
    assert attackers.worst_excess([(P, Q)], f).lower > 0.05
    assert attackers.worst_excess([(P, Q)], c.epsilon_delta(1, "0.3")).upper < 1e-12


def test_sizes_must_fit():
    for call in (
        lambda: attackers.errors_of([1], ["0.5", "0.5"], ["0.5", "0.5"]),
        lambda: attackers.best_test([1], ["0.5", "0.5"], 0),
        lambda: attackers.post_process([[1]], ["0.5", "0.5"], ["0.5", "0.5"]),
        lambda: attackers.worst_excess([], c.gaussian(1)),
    ):
        with pytest.raises(ParameterError):
            call()
