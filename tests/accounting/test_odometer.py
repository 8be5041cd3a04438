"""An odometer reports a rung that was fixed beforehand, and its thousandth answer costs what its first did."""

import gc
import sys
from fractions import Fraction

import pytest

from neartwin.accounting.budgets import approx, gdp, mixed, pure, rdp, zcdp
from neartwin.accounting.filters import odometer
from neartwin.errors import PrivacyError


def work(action):
    """How many function calls and returns an action makes at least: a collection or a first call may add to one run."""
    return min(calls(action) for _ in range(5))


def calls(action):
    counted = 0

    def count(*_):
        nonlocal counted
        counted += 1

    gc.disable()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return counted


@pytest.mark.parametrize(
    ("first", "spend"),
    [
        (pure("0.1"), pure("0.01")),
        (approx("0.1", "1e-9"), approx("0.01", "1e-12")),
        (zcdp("0.1", "1e-9"), gdp("0.01")),
        (rdp(8, "0.1"), zcdp("0.001")),
        (gdp("0.1", "1e-9"), pure("0.01")),
        (mixed("0.1", "0.1"), gdp("0.01")),
    ],
    ids=str,
)
def test_the_thousandth_answer_costs_what_the_first_did(first, spend):
    read = odometer(first).add(spend)
    early = work(lambda: (read.add(spend), read.promise))
    for _ in range(1000):
        read = read.add(spend)
    late = work(lambda: (read.add(spend), read.promise))
    assert late <= early + 16  # a pool above its first rung asks for its doublings; nothing is walked
    assert all(used == 1001 * once for used, once in zip(read.used, first_price(first, spend), strict=True))


def first_price(first, spend):
    return odometer(first).add(spend).used


def test_the_promise_is_the_lowest_rung_that_covers_what_was_spent():
    read = odometer(zcdp("0.1", "1e-9"))
    assert read.promise == zcdp("0.1", "1e-9")
    for total, rung in (("0.1", 0), ("0.2", 1), ("0.3", 2), ("0.4", 2), ("0.5", 3)):
        read = read.add(zcdp("0.1"))
        assert read.amounts["rho"] == Fraction(total)
        assert read.rung == rung
        assert read.promise == zcdp(Fraction(1, 10) * 2**rung, Fraction(2**rung, 10**9))
    full = odometer(zcdp("0.1", "1e-9")).add(zcdp("1e-15", "1.000000001e-9"))
    assert full.rung == 1  # one unit above the first rung, in the other pool


def test_only_pure_privacy_is_told_to_the_unit():
    assert odometer(pure("0.1")).add(pure("0.3")).promise == pure("0.3")
    assert odometer(approx("0.1", "1e-9")).add(approx("0.3", "1e-10")).promise == approx("0.4", "4e-9")


def test_a_pool_without_a_rung_takes_nothing():
    with pytest.raises(PrivacyError, match="no delta on any rung"):
        odometer(gdp("0.1")).add(gdp("0.1", "1e-12"))
    with pytest.raises(PrivacyError, match="no theorem"):
        odometer(gdp("0.1")).add(zcdp("0.1"))
