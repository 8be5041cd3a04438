"""Random allocation against integration over the noise, a long convolution, and the schemes that it lies between."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from neartwin.accounting import training
from neartwin.accounting.usage import cost
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import Gaussian, Laplace, RandomAllocation
from neartwin.losses.families import random_choice
from tests.oracles.allocation import convolved, delta

FEW = 300  # nodes, for quick answers


@pytest.fixture
def few_nodes(monkeypatch):
    monkeypatch.setattr(random_choice, "NODES", FEW)
    random_choice.ratio.cache_clear()
    yield
    random_choice.ratio.cache_clear()


@pytest.mark.parametrize(("mu", "steps"), [("1", 2), ("0.3", 3), ("2", 2), ("5", 2)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_a_few_steps_cost_what_integration_over_their_noise_says(mu, steps, direction, few_nodes):
    whole = 1 * RandomAllocation(mu=mu, steps=steps)
    other = 1 * RandomAllocation(mu=Fraction(mu) * Fraction(41, 40), steps=steps)
    for eps in (0.1, 0.4):
        truth = delta(float(mu), steps, 1, eps, direction)
        found = whole.delta(eps, direction=direction)
        assert found.lower * (1 - 1e-15) <= truth <= found.upper * (1 + 1e-15)
        assert found.width < 0.03 * truth
        assert truth not in other.delta(eps, direction=direction)  # a fortieth more is told apart


def test_laws_above_and_below_differ_from_the_truth_to_their_sides(few_nodes):
    """Means under Q of convex functions of R: the truth between the two laws, and neither law on the other's side."""
    truth = delta(1.0, 3, 1, 0.2, "remove")
    low, high = (random_choice.ratio(Fraction(1), 3, above=above) for above in (False, True))
    at_low, at_high = (
        float(law.masses @ np.maximum(law.values / 3 - math.exp(0.2), 0.0)) + law.beyond / 3 for law in (low, high)
    )
    assert at_low < truth * (1 - 1e-6) < truth * (1 + 1e-6) < at_high
    for law in (low, high):
        assert law.masses.sum() + law.nothing == pytest.approx(1, abs=1e-12)
        assert law.masses @ law.values + law.beyond == pytest.approx(3, rel=1e-12)


def test_one_step_is_the_gaussian_mechanism(few_nodes):
    for mu in ("0.5", "3"):
        found = (1 * RandomAllocation(mu=mu, steps=1)).epsilon("1e-6")
        truth = (1 * Gaussian(mu=mu)).epsilon("1e-6")
        assert found.lower <= truth.lower <= truth.upper <= found.upper < 1.01 * truth.upper


def test_the_least_and_the_greatest_distance_are_narrow_too(few_nodes):
    for mu, steps in (("1e-6", 1), ("1e-6", 2), ("20", 1), ("20", 2)):
        found = (1 * RandomAllocation(mu=mu, steps=steps)).epsilon("1e-12", direction="remove")
        assert 0 < found.width < 0.01 * found.upper
    masses = random_choice.one(Fraction(1, 10**6), above=False).masses
    assert masses.min() > 0
    assert masses.sum() == pytest.approx(1, abs=1e-12)


def test_several_participations_are_bounded_by_blocks_above_alone(few_nodes):
    drawn = RandomAllocation(mu=1, steps=32, participations=3)
    blocks = RandomAllocation(mu=1, steps=10).dominating_pair("add")
    assert drawn.dominating_pair("add") == replace(blocks, blocks=3)
    assert drawn.attained_pair("add") is None
    assert (3 * drawn).pure().upper == math.inf


def test_bad_allocations_are_refused(few_nodes):
    for bad in ({"mu": 0}, {"mu": 21}, {"mu": "1e-7"}, {"steps": 0}, {"participations": 5}, {"steps": 10**6 + 1}):
        with pytest.raises(ParameterError):
            RandomAllocation(**{"mu": 1, "steps": 4} | bad)
    with pytest.raises(PrivacyError, match="replace"):
        (1 * RandomAllocation(mu=1, steps=4)).epsilon("1e-5", direction="replace")


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "steps", "epochs"), [("1", 2, 2), ("0.5", 4, 1), ("0.7", 1, 4)])
def test_composed_steps_cost_what_integration_over_their_noise_says(mu, steps, epochs):
    for direction in ("remove", "add"):
        found = (epochs * RandomAllocation(mu=mu, steps=steps)).epsilon("1e-3", direction=direction)
        first, last = (delta(float(mu), steps, epochs, eps, direction) for eps in (found.upper, found.lower))
        assert first <= 1e-3 <= last
        assert found.width < 1e-3 * found.upper
        assert delta(float(mu), steps, epochs, found.upper * 0.998, direction) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "steps"), [("1", 64), ("0.5", 100), ("1.3", 16)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_many_steps_cost_what_one_long_convolution_says(mu, steps, direction):
    whole = 1 * RandomAllocation(mu=mu, steps=steps)
    for at in ("1e-2", "1e-5"):
        found = whole.epsilon(at, direction=direction)
        about = (convolved(float(mu), steps, float(eps), direction, step=0.01) for eps in (found.lower, found.upper))
        first, last = about
        assert last * (1 - 2e-3) <= float(at) <= first * (1 + 2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mu", "steps", "epochs", "goal"),
    [
        ("1", 100, 1, "1e-6"),
        ("1", 100, 100, "1e-6"),
        ("0.5", 1000, 10, "1e-6"),
        ("2", 30, 1, "1e-6"),
        ("0.7", 10_000, 5, "1e-6"),
        ("5", 50, 1, "1e-6"),
        ("0.1", 50, 40, "1e-6"),
        ("1.43", 936, 1, "1e-3"),
        ("1.11", 1723, 1, "1e-8"),
        ("2", 10_000, 1, "1e-3"),
    ],
)
def test_allocations_are_known_to_a_thousandth(mu, steps, epochs, goal):
    found = (epochs * RandomAllocation(mu=mu, steps=steps)).epsilon(goal)
    assert 0 < found.width <= 1e-3 * found.upper
    assert found.upper < (epochs * Gaussian(mu=mu)).epsilon(goal).lower


@pytest.mark.parametrize("above", [False, True])
def test_rounding_of_a_joined_law_is_within_its_bound(few_nodes, monkeypatch, above):
    """Masses of single cells against the same numbers added up exactly, at a block that several rows fill."""
    monkeypatch.setattr(random_choice, "BLOCK", 5 * FEW)
    one = random_choice.one(Fraction(1), above=above)
    law = random_choice.joined(one, one, 1.0, above=above)
    value, weight = np.add.outer(one.values, one.values).ravel(), np.outer(one.masses, one.masses).ravel()
    heavy = weight * (1 + value) > random_choice.FAINT
    value, weight = value[heavy], weight[heavy]
    ends = random_choice.nodes(1.0, 2)
    cell = np.searchsorted(ends, value, side="right")
    exact = {place: math.fsum(weight[cell == place]) for place in np.unique(cell)}
    if above:  # its masses are split between the ends of cells, so hold them all together
        assert abs(math.fsum(law.masses) + law.nothing - math.fsum(weight)) <= law.mass_error * math.fsum(weight)
        return
    found = np.array(list(exact.values()))
    off = np.abs(law.masses / found[found > 0] - 1)
    assert off.max() <= law.mass_error - 2 * one.mass_error < 1e-12
    single = np.bincount(cell, weight.astype(np.float32))[list(exact)]  # the near miss
    assert np.abs(single / found - 1).max() > law.mass_error


@pytest.mark.slow
def test_allocation_joins_others_and_costs_less_than_poisson_batches():
    run = training.random_allocation(noise_multiplier=1, steps=100, epochs=20)
    poisson = training.poisson_batches(noise_multiplier=1, rate="0.01", steps=2000)
    fresh, drawn = (cost(one).epsilon("1e-5") for one in (run, poisson))
    kept = cost(training.balls_in_bins(noise_multiplier=1, steps=100, epochs=20)).epsilon("1e-5")
    assert fresh.upper < drawn.lower < kept.lower
    more = (20 * RandomAllocation(mu=1, steps=100) + 3 * Laplace(epsilon="0.1")).epsilon("1e-5")
    assert fresh.upper < more.lower < more.upper < fresh.upper + 0.3


@pytest.mark.slow
def test_an_end_of_epsilon_is_proved_where_it_was_found():
    """Asked again alone, its last digits differ, and the upper end of the first of these was lost."""
    whole = 1 * RandomAllocation(mu=1, steps=100)
    for goal in ("1e-6", *(f"{1 + k / 1000}e-6" for k in range(1, 60))):
        found = whole.epsilon(goal, direction="remove")
        assert 0 < found.width <= 1e-3 * found.upper, goal
