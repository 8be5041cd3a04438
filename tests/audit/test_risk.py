"""Risks in words are what the curves say, bound the attackers they speak of, and can be inverted."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from neartwin.audit.claims import advantage_of, claim_approx, claim_gdp, claim_pure, largest_parameter, power_at, risks
from neartwin.errors import ParameterError


def lopsided(fpr):
    """T of a fair coin's side against a certain one: rejects for nothing, so f(0) < 1; not symmetric."""
    return np.maximum(0, 0.7 - 0.7 * fpr)


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        (claim_pure(1).floor, math.tanh(0.5)),
        (claim_pure(Fraction(1, 10)).floor, math.tanh(0.05)),
        (claim_gdp(2).floor, 0.68268949213708590),
        (claim_gdp("0.5").floor, 2 * special.ndtr(0.25) - 1),
        (claim_approx(1, "0.1").floor, 0.1 + 0.9 * math.tanh(0.5)),
        (claim_pure(0).floor, 0.0),
        (lopsided, 0.3),
    ],
)
def test_advantage_is_the_closed_form_and_never_below_it(curve, expected):
    assert expected <= advantage_of(curve) <= expected + 1e-9


def test_published_rows_of_the_risk_table_hold():
    # epsilon: advantage, caught at 1 % false alarms
    for epsilon, advantage, caught in ((0.1, 0.05, 0.011), (1, 0.462, 0.027), (2, 0.762, 0.074), (4, 0.964, 0.546)):
        curve = claim_pure(epsilon).floor
        assert advantage_of(curve) == pytest.approx(advantage, abs=5e-4)
        assert float(power_at(curve, 0.01)[0]) == pytest.approx(caught, abs=5e-4)
    assert float(power_at(claim_gdp(1).floor, 0.01)[0]) == pytest.approx(0.092362248073693936, abs=1e-11)


def test_no_attacker_on_randomized_response_does_better_than_the_words_say():
    curve = claim_pure(1).floor
    keep = special.expit(1.0)
    by_name = {row.name: row for row in risks(curve, population=1_000)}
    assert by_name["membership"].at_most == pytest.approx(keep)  # and the attacker who believes the answer reaches it
    prior = by_name["a secret guessed blindly one time in 10"]
    # ten equally likely secrets, answered by ten-ary randomized response at epsilon 1: the best guess
    assert math.e / (math.e + 9) <= prior.at_most
    single = by_name["singling out"]
    assert single.blindly == 1e-3
    assert single.at_most == pytest.approx(math.e / 1e3)


def test_words_hold_the_numbers_of_their_row():
    for row in risks(claim_gdp(1).floor):
        assert row.blindly <= row.at_most <= 1
        assert row.words.endswith(".")
    assert "69.2 %" in risks(claim_gdp(1).floor)[0].words


@pytest.mark.parametrize("family", [claim_gdp, claim_pure])
def test_parameter_for_a_risk_keeps_it_and_a_larger_one_does_not(family):
    measures = (advantage_of, lambda curve: float(power_at(curve, 0.01)[0]))
    for measure, wanted in zip(measures, (0.2, 0.05), strict=True):
        found = largest_parameter(lambda t: family(t).floor, measure, at_most=wanted)
        assert measure(family(found).floor) <= wanted
        assert measure(family(found * 1.001).floor) > wanted


def test_risks_refuse_what_no_release_can_keep():
    with pytest.raises(ParameterError):
        largest_parameter(lambda t: claim_gdp(t).floor, lambda c: float(power_at(c, 0.5)[0]), at_most=0.4)
    with pytest.raises(ParameterError):
        power_at(claim_gdp(1).floor, 1.5)
    with pytest.raises(ParameterError):
        risks(claim_gdp(1).floor, population=0)
