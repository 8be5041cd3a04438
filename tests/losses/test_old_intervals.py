"""Certified numbers of old code: new ones contain the truth that both know of, and are no wider."""

import math
from fractions import Fraction

import pytest

from tests.fixtures import told
from tests.fixtures.numbers import CONVERSIONS, FAMILIES, SELDOM, VIEWS, found, key

ASKED = [
    asked for asked in told("intervals") if asked.get("convert", "price") in CONVERSIONS
]  # two conversions are gone
RARE = Fraction(1, 100)  # a rate of participation below which a law is seldom sampled


def seldom_beside_another(asked):
    """Whether a seldom sampled law stands beside any other."""
    uses = asked.get("uses", [])
    rare = [family in SELDOM and Fraction(parameters["rate"]) < RARE for family, parameters, _ in uses]
    return any(rare) and len(uses) > 1


def fault(asked, ends):
    """What is wrong with an answer beside the old one; "" for nothing."""
    room = 1e-4 if seldom_beside_another(asked) else 1e-5
    bounded = "group" in asked and any(family == "pure" for family, *_ in asked["uses"])
    old = [[float.fromhex(end) for end in pair] for pair in asked["ends"]]
    if len(ends) != len(old):
        return "another number of answers"
    for (lower, upper), (known_lower, known_upper) in zip(ends, old, strict=True):
        if lower == upper and known_lower == known_upper:  # a bound on one side, or exact
            if abs(lower - known_lower) > room * abs(known_lower):
                return f"{lower} is not {known_lower}"
            continue
        if lower == known_upper == 0 and upper <= math.ulp(
            0.0
        ):  # an old delta of 0 below the largest loss promised too much
            continue
        if not (lower <= known_upper and known_lower <= upper):
            return f"[{lower}, {upper}] does not meet [{known_lower}, {known_upper}]"
        # old lower ends took a bound on groups for a mechanism
        least = max(lower, known_lower) if bounded else lower
        width, known = upper - least, known_upper - known_lower
        if width > max(room * abs(upper), known * (1 + 1e-9)):
            return f"[{lower}, {upper}] is wider than [{known_lower}, {known_upper}]"
    return ""


def faults(some):
    return [(key(asked), wrong) for asked in some if (wrong := fault(asked, found(asked)))]


@pytest.mark.slow
def test_quick_certified_numbers_meet_the_old_ones_and_are_no_wider():
    quick = [asked for asked in ASKED if "slow" not in asked]
    assert len(quick) >= 350
    assert not faults(quick)


@pytest.mark.slow
def test_all_certified_numbers_meet_the_old_ones_and_are_no_wider():
    assert len(ASKED) >= 500
    assert not faults(ASKED)


def test_the_old_numbers_are_of_every_family_view_and_conversion():
    assert {family for asked in ASKED for family, *_ in asked.get("uses", [])} == set(FAMILIES)
    assert {asked["view"] for asked in ASKED if "view" in asked} == set(VIEWS)
    assert {asked["convert"] for asked in ASKED if "convert" in asked} == set(CONVERSIONS)
    assert sum("group" in asked for asked in ASKED) >= 30


@pytest.mark.parametrize("place", [0, 100, 200, 300])
def test_a_number_beside_or_wider_than_an_old_one_is_a_fault(place):
    asked = [one for one in ASKED if "view" in one and float.fromhex(one["ends"][0][1]) > 0][place % 250]
    ends = [tuple(map(float.fromhex, pair)) for pair in asked["ends"]]
    (lower, upper), *others = ends
    assert not fault(asked, ends)
    assert "does not meet" in fault(asked, [(upper * 1.001, upper * 1.002), *others])
    assert "wider" in fault(asked, [(lower * 0.9 - 1e-3, upper * 1.2), *others])
