"""Verdicts against brute force over all events, exact at the boundary, with an event that shows each violation."""

from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin.divergences import finite_pair, randomized_response_pair
from neartwin.divergences.theorems import family_verdict, verdict
from neartwin.errors import ParameterError
from tests.oracles.laws import finite_hockey_stick

cells = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5).filter(
    lambda c: sum(x for x, _ in c) > 0 and sum(y for _, y in c) > 0
)


@settings(max_examples=100, deadline=None)
@given(cells, st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1)]), st.fractions(0, 1, max_denominator=12))
def test_verdict_follows_the_best_event_which_proves_it(weights, epsilon, delta):
    p, q = [c[0] for c in weights], [c[1] for c in weights]
    P, Q = [Fraction(x, sum(p)) for x in p], [Fraction(y, sum(q)) for y in q]
    found = verdict(finite_pair(P, Q), epsilon=epsilon, delta=delta)
    worst = max(finite_hockey_stick(P, Q, epsilon), finite_hockey_stick(Q, P, epsilon))
    with mp.workdps(60):
        gap = worst - mp.mpf(delta.numerator) / delta.denominator
    if abs(gap) > 1e-30:
        assert bool(found) == (gap < 0)
    first, second = (P, Q) if found.direction == "P over Q" else (Q, P)
    if not found:
        mass, other = sum(first[i] for i in found.event), sum(second[i] for i in found.event)
        assert mass > delta
        assert (
            other == 0
            or epsilon == 0
            or mp.log(
                mp.mpf((mass - delta).numerator)
                * Fraction(other).denominator
                / ((mass - delta).denominator * Fraction(other).numerator)
            )
            > mp.mpf(epsilon.numerator) / epsilon.denominator
        )
        assert found.excess.upper > 0


def test_the_boundary_is_decided_exactly():
    law = finite_pair(["0.75", "0.25"], ["0.25", "0.75"])
    # ln 3 = 1.09861228866810969139...
    assert verdict(law, epsilon="1.0986122886681096914")
    assert not verdict(law, epsilon="1.0986122886681096913")
    # with epsilon 0 the excess 0.5 is rational: delta may equal it
    assert verdict(law, epsilon=0, delta="0.5")
    assert not verdict(law, epsilon=0, delta="0.4999999999999999999999")


def test_both_directions_count():
    # the text's Remark 3.1 loses an "and": this pair is fine one way only
    one_way = finite_pair([1, 0], ["0.5", "0.5"])
    found = verdict(one_way, epsilon="0.7")
    assert not found
    assert found.direction == "Q over P"
    assert found.event == (1,)


def test_a_family_is_as_private_as_its_worst_pair():
    same = finite_pair(["0.5", "0.5"], ["0.5", "0.5"])
    near, far = finite_pair(["0.6", "0.4"], ["0.4", "0.6"]), finite_pair(["0.9", "0.1"], ["0.1", "0.9"])
    assert family_verdict([same, near], epsilon="0.5")
    assert family_verdict([same, near], epsilon="0.1", delta="0.2").pair == 1
    assert family_verdict([same, far, near], epsilon="0.5").pair == 1
    with pytest.raises(ParameterError):
        family_verdict([], epsilon=1)


def test_a_response_known_by_its_epsilon_is_private_at_it_and_not_below():
    assert verdict(randomized_response_pair(1), epsilon=1)
    below = verdict(randomized_response_pair(1), epsilon="0.999")
    assert not below
    assert below.certain
