import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from neartwin import noise
from neartwin.errors import ParameterError
from neartwin.mechanisms.local import RandomizedResponse, Shuffled
from tests.oracles import pairs


def histogram_law(answers, response):
    """The law of the shuffled reports of binary response: how many said 1."""
    law = np.ones(1)
    for answer in answers:
        p = response.truth if answer else response.lie
        law = np.convolve(law, [1 - p, p])
    return law


def test_shuffled_binary_response_is_within_its_delta_for_all_neighbours():
    epsilon0, n = Fraction(1), 60
    response, shuffled = RandomizedResponse(epsilon=epsilon0, answers=2), Shuffled(local_epsilon=epsilon0, people=n)
    for ones, epsilon in itertools.product(
        (0, 20, 40), (Fraction(1, 20), Fraction(1, 5), Fraction(1, 2), Fraction(9, 10))
    ):
        rest = [1] * ones + [0] * (n - 1 - ones)
        P, Q = (histogram_law([own, *rest], response) for own in (0, 1))
        exact = max(pairs.delta(P, Q, float(epsilon)), pairs.delta(Q, P, float(epsilon)))
        assert exact <= shuffled.delta(epsilon)
    P, Q = (histogram_law([own] + [0] * (n - 1), response) for own in (0, 1))
    many = Shuffled(local_epsilon=epsilon0, people=100 * n)
    assert pairs.delta(P, Q, 0.05) > many.delta(Fraction(1, 20))  # the price of more people is not theirs


def test_a_little_delta_has_the_local_guarantee_and_not_a_float_below_it():
    alone = Shuffled(local_epsilon=Fraction(1, 3), people=2)  # its delta is 6e-18 at the float below 1/3
    assert Fraction(alone.epsilon(Fraction(1, 10**30))) >= Fraction(1, 3)


def test_shuffling_amplifies_and_never_beyond_the_local_guarantee():
    delta = Fraction(1, 10**6)
    epsilons = [Shuffled(local_epsilon=Fraction(1), people=n).epsilon(delta) for n in (2, 100, 10_000)]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[0] <= 1
    closed = math.log(1 + math.tanh(0.5) * (8 * math.sqrt(math.e * math.log(4e6)) / 100 + 8 * math.e / 10_000))
    assert epsilons[2] < closed / 2
    shuffled = Shuffled(local_epsilon=Fraction(1), people=10_000)
    assert shuffled.delta(Fraction(epsilons[2])) <= float(delta)
    assert shuffled.delta(Fraction(epsilons[2]) * Fraction(99, 100)) > float(delta)
    assert shuffled.delta(Fraction(1)) == 0


def test_the_shuffler_keeps_the_reports_and_loses_their_order():
    shuffled, reports = Shuffled(local_epsilon=Fraction(1), people=500), np.arange(500)
    mixed = shuffled.shuffle(reports, source=noise.ScriptedSource(b"shuffle"))
    assert sorted(mixed) == list(reports)
    assert abs(np.corrcoef(mixed, reports)[0, 1]) < 0.2
    with pytest.raises(ParameterError):
        shuffled.shuffle(reports[:-1])
