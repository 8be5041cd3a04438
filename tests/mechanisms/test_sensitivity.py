"""Closed-form sensitivities equal brute force over every pair of neighbours of a small domain."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neartwin.errors import ParameterError
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.theorems import (
    Norm,
    are_neighbours,
    brute_force_sensitivity,
    count_sensitivity,
    database_distance,
    histogram_sensitivity,
    length,
    linear_sensitivity,
)

DOMAIN = ("a", "b", "c")
weights = st.lists(st.lists(st.integers(-4, 4), min_size=3, max_size=3), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(weights, st.sampled_from(Neighbours), st.sampled_from(Norm))
def test_linear_sensitivity_is_the_largest_change_there_is(table, neighbours, norm):
    def query(rows):
        return [sum(row[DOMAIN.index(r)] for r in rows) for row in table]

    brute = brute_force_sensitivity(query, DOMAIN, size=2, neighbours=neighbours, norm=norm)
    assert linear_sensitivity(table, neighbours, norm=norm) == brute


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("norm", list(Norm))
def test_histogram_sensitivity_by_brute_force(neighbours, norm):
    def histogram(rows):
        return [rows.count(bin_) for bin_ in DOMAIN]

    brute = brute_force_sensitivity(histogram, DOMAIN, size=3, neighbours=neighbours, norm=norm)
    assert histogram_sensitivity(neighbours, norm=norm) == brute


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_counting_queries_may_all_move_together(neighbours):
    everyone = tuple(range(4))

    def counts(rows):
        return [sum(row == "all" for row in rows) for _ in everyone]

    brute = brute_force_sensitivity(counts, ("all", "nobody"), size=2, neighbours=neighbours)
    assert count_sensitivity(4) == brute == 4
    assert count_sensitivity(4, norm=Norm.LINF) == 1


def test_fractions_need_a_public_number_of_records():
    assert linear_sensitivity([[0, 1]], Neighbours.REPLACE_ONE, records=50) == Fraction(1, 50)
    with pytest.raises(ParameterError, match="private under add/remove"):
        linear_sensitivity([[0, 1]], Neighbours.ADD_REMOVE, records=50)

    def mean(rows):
        return [Fraction(sum(rows), len(rows))]

    assert brute_force_sensitivity(mean, (0, 1), size=1, neighbours=Neighbours.REPLACE_ONE) == 1


def test_a_mean_with_a_private_number_of_records_is_not_one_over_n():
    def mean(rows):
        return [Fraction(sum(rows), len(rows))] if rows else [Fraction(0)]

    assert brute_force_sensitivity(mean, (0, 1), size=5, neighbours=Neighbours.ADD_REMOVE) == 1


def test_an_irrational_norm_is_rounded_up_and_only_just():
    for vector in ([1, 1], [Fraction(2, 7), 3], [10**12, 1]):
        square = sum(Fraction(x) ** 2 for x in vector)
        found = length([Fraction(x) for x in vector], Norm.L2)
        assert found**2 >= square
        assert (found * (1 - Fraction(1, 10**15))) ** 2 < square


def test_distance_and_neighbours():
    assert database_distance("aab", "abc") == 2
    assert are_neighbours("aab", "ab", Neighbours.ADD_REMOVE)
    assert not are_neighbours("aab", "aab", Neighbours.ADD_REMOVE)
    assert not are_neighbours("aab", "abc", Neighbours.ADD_REMOVE)
    assert are_neighbours("aab", "abc", Neighbours.REPLACE_ONE)
    assert not are_neighbours("aab", "ab", Neighbours.REPLACE_ONE)
