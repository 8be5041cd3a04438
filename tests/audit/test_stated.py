"""A claim made from a promise is that promise: never below what a private mechanism does, and refuted by one that is not."""

from fractions import Fraction

import numpy as np
import pytest

from neartwin import losses, tradeoff
from neartwin.accounting.budgets import advantage, approx, gdp, mixed, pure, rdp, zcdp
from neartwin.accounting.guarantee import Guarantee
from neartwin.audit.claims import EpsilonDelta, GaussianPrivacy, advantage_of, claim_gdp, claim_of, claim_pure, risks
from neartwin.audit.game import examine
from neartwin.audit.neighbouring_inputs import Twins
from neartwin.audit.runs import Transcript
from neartwin.mechanisms.additive import DiscreteLaplace, Gaussian

RATES = np.concatenate([[0.0], np.geomspace(1e-9, 1, 400)])
# a promise beside the floor of a mechanism that keeps it exactly
KEPT = {
    "pure": (pure(1), claim_pure(1).floor, 1e-9),
    "approximate": (approx(1, "1e-3"), EpsilonDelta(1.0, 1e-3).floor, 1e-9),
    "Gaussian": (gdp(1), claim_gdp(1).floor, 1e-9),
    "Gaussian with failures": (gdp(1, "1e-3"), lambda a: 0.999 * claim_gdp(1).floor(np.minimum(a / 0.999, 1)), 1e-5),
    "concentrated": (zcdp("0.5"), claim_gdp(1).floor, 0.18),
    "concentrated with failures": (zcdp("0.5", "1e-3"), lambda a: 0.999 * claim_gdp(1).floor(np.minimum(a / 0.999, 1)), 0.18),
    "Renyi": (rdp(4, 2), claim_gdp(1).floor, 0.46),
    "three pools": (
        mixed(1, 1),
        lambda a: losses.compose([losses.RandomizedResponse(epsilon=1), losses.Gaussian(mu=1)]).tradeoff(a).upper,
        1e-4,
    ),
    "advantage": (advantage("0.38292492254802624"), claim_gdp(1).floor, 0.39),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_floor_of_a_promise_lies_just_below_a_mechanism_that_keeps_it(name):
    promise, floor, near = KEPT[name]
    claim = claim_of(Guarantee.of(promise, unit="who", neighbours="add_remove"))
    found, truth = claim.floor(RATES), floor(RATES)
    assert np.all(found <= truth + 1e-12)
    assert np.max(truth - found) < near
    assert np.array_equal(claim_of(promise).floor(RATES), found)


@pytest.mark.parametrize("name", KEPT)
def test_the_floor_of_a_promise_is_a_trade_off_curve(name):
    floor = claim_of(KEPT[name][0]).floor
    grid = np.linspace(0, 1, 501)
    values = floor(grid)
    assert np.all((values >= 0) & (values <= 1 - grid + 1e-12))
    assert np.all(np.diff(values) <= 1e-12)
    assert np.all(np.diff(values, 2) >= -1e-11)
    # both orders of the inputs: what is refuted one way is refuted the other way
    assert np.all(floor(values) <= grid + 2e-3)


def normals(mu, runs=40_000):
    rng = np.random.default_rng(3)
    return Transcript(Twins(0, 1), rng.normal(0, 1, runs).round(2), rng.normal(mu, 1, runs).round(2))


@pytest.mark.parametrize(
    "stated",
    [
        zcdp("0.5"),
        gdp(1, "1e-4"),
        Guarantee.of(gdp(1), unit="who", neighbours="add_remove"),
        tradeoff.gaussian(1),
        Gaussian.for_gdp(mu=Fraction(1), l2_squared=9).losses(),
        1 * losses.Gaussian(mu=1),
        4 * losses.Gaussian(mu="0.5"),
    ],
    ids=str,
)
def test_promise_is_refuted_exactly_for_a_mechanism_that_breaks_it(stated):
    assert not examine(normals(1), claim_of(stated)).refuted
    assert examine(normals(2), claim_of(stated)).refuted


def test_promises_with_a_number_of_their_own_are_audited_in_it():
    assert claim_of(gdp(1)) == GaussianPrivacy(1.0)
    assert claim_of(pure(1)) == EpsilonDelta(1.0, 0.0)
    assert claim_of(advantage("0.25")) == EpsilonDelta(0.0, 0.25)


def test_a_mechanisms_own_losses_are_a_claim_that_its_epsilon_bounds():
    claim = claim_of(DiscreteLaplace.calibrated(epsilon=Fraction(1), sensitivity=3).losses())
    assert np.all(claim.floor(RATES) >= claim_pure(1).floor(RATES) - 1e-12)
    assert np.max(claim.floor(RATES) - claim_pure(1).floor(RATES)) > 0.01  # tighter than its epsilon


@pytest.mark.parametrize("name", KEPT)
def test_risks_of_a_guarantee_are_no_more_than_its_own_advantage(name):
    guarantee = Guarantee.of(KEPT[name][0], unit="who", neighbours="add_remove")
    floor = claim_of(guarantee).floor
    assert advantage_of(floor) <= guarantee.advantage + 1e-8
    assert risks(floor)[0].at_most <= guarantee.best_guess + 1e-8
