"""Exact verification: a finite mechanism passes at its epsilon and fails just below, with the set that shows it."""

from fractions import Fraction as F
from itertools import chain, combinations

import pytest

from neartwin.audit.verification import exact_law, exact_violation
from neartwin.errors import ParameterError

P = {"a": F(1, 2), "b": F(3, 10), "c": F(1, 5)}
Q = {"a": F(1, 5), "b": F(1, 2), "c": F(3, 10)}
LAWS = {"P": P, "Q": Q}


def brute_delta(left, right, ratio):
    """The largest P(S) - ratio Q(S) over all sets S."""
    sets = chain.from_iterable(combinations(left.keys() | right.keys(), n) for n in range(5))
    return max(sum((left.get(y, F(0)) - ratio * right.get(y, F(0)) for y in S), F(0)) for S in sets)


def test_the_certificate_is_the_worst_set_and_exact():
    # e^(2/5) lies in (1.4918246, 1.4918247): the deltas of the two orders bracket 0.2016 and 0.0516
    ratio = F(14918247, 10**7)
    needed = max(brute_delta(P, Q, ratio), brute_delta(Q, P, ratio))
    assert exact_violation(LAWS.get, [("P", "Q")], epsilon="0.4", delta=needed + F(1, 10**6)) is None
    found = exact_violation(LAWS.get, [("P", "Q")], epsilon="0.4", delta=needed - F(1, 10**6))
    assert found is not None
    assert (found.left, found.event) == ("P", ("a",))
    assert found.probability_left == F(1, 2)
    assert found.probability_right == F(1, 5)


def test_both_orders_are_tried():
    left, right = {"x": F(1)}, {"x": F(1, 2), "y": F(1, 2)}
    laws = {0: left, 1: right}
    found = exact_violation(laws.get, [(0, 1)], epsilon=1)  # P/Q is at most 2 one way, infinite the other
    assert (found.left, found.event, found.probability_right) == (1, ("y",), 0)


def flips(epsilon_ratio):
    return lambda bit: {bit: epsilon_ratio / (1 + epsilon_ratio), 1 - bit: 1 / (1 + epsilon_ratio)}


def test_comparison_with_e_to_the_epsilon_is_decided_where_floats_cannot():
    # 40 digits of e^(1/3), one unit in the last place down and up
    digits = F("1.395612425086089528628125319602586837597")
    ulp = F(1, 10**39)
    assert exact_violation(flips(digits - ulp), [(0, 1)], epsilon="1/3") is None
    assert exact_violation(flips(digits + 2 * ulp), [(0, 1)], epsilon="1/3") is not None


def test_randomized_response_passes_at_its_epsilon_and_fails_below():
    law = flips(F(27182818, 10**7))  # a ratio below e
    assert exact_violation(law, [(0, 1)], epsilon=1) is None
    assert exact_violation(law, [(0, 1)], epsilon="0.9999999") is not None


def test_a_law_that_is_no_law_is_refused():
    for law in ({0: F(1, 2)}, {0: F(3, 2), 1: F(-1, 2)}):
        with pytest.raises(ParameterError):
            exact_violation(lambda _, law=law: law, [(0, 1)], epsilon=1)


def test_a_program_becomes_its_exact_law_down_every_path():
    def two_stage(choose):
        first = choose([F(1, 2), F(0), F(1, 2)])
        return (first, choose([F(1, 3), F(2, 3)])) if first else ("stop",)

    assert exact_law(two_stage) == {("stop",): F(1, 2), (2, 0): F(1, 6), (2, 1): F(1, 3)}
    assert exact_law(lambda _choose: "always") == {"always": 1}


def test_sparse_vector_is_verified_exactly_and_its_broken_variant_refuted():
    noise = [F(1, 10), F(1, 5), F(2, 5), F(1, 5), F(1, 10)]  # on -2..2, ratio 2 from step to step

    def sparse(answers, refreshed):
        def program(choose):
            threshold = choose(noise)
            told = []
            for answer in answers:
                above = answer + (choose(noise) if refreshed else 2) >= threshold + 1
                told.append(above)
                if above and refreshed:
                    break
            return tuple(told)

        return exact_law(program)

    pairs = [((0, 0, 0), (1, 1, 1)), ((1, 0, 1), (0, 1, 0))]
    broken = exact_violation(lambda answers: sparse(answers, refreshed=False), pairs, epsilon=5)
    assert broken is not None
    assert broken.probability_right == 0  # the pattern itself betrays: no noise on the queries
    # truncated noise: what lies off the shared support is paid with delta
    assert exact_violation(lambda answers: sparse(answers, refreshed=True), pairs, epsilon=5, delta="0.5") is None


def test_enumeration_refuses_bad_weights_and_endless_programs():
    with pytest.raises(ParameterError):
        exact_law(lambda choose: choose([F(1, 2), F(1, 3)]))
    with pytest.raises(ParameterError):
        exact_law(lambda choose: tuple(choose([F(1, 2)] * 2) for _ in range(12)), most_paths=1_000)
