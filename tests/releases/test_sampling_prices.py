"""What a sampled plan costs, against quadratures of the sampled densities and closed forms."""

import math
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import neartwin as nt
from neartwin.queries.planner import plan
from tests.releases.test_sampling import counted, visits

RATES = [Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]


def inner_epsilon(made):
    """Of all statistics on a sample that is known, from their noise: the epsilons of a fixed vector add up."""
    return math.fsum(one.sensitivity.l1 / float(one.mechanism.scale) for one in made.measures.values())


def inner_mu(made):
    return math.sqrt(
        math.fsum(one.sensitivity.l2_squared / float(one.mechanism.variance) for one in made.measures.values())
    )


def tails(mu, rate, epsilon):
    """delta(epsilon) of a sampled Gaussian in both orders, by the trapezoidal rule on its densities."""
    u = np.linspace(-9 - mu, 9 + 2 * mu, 40_001)
    kept = (1 - rate) + rate * np.exp(mu * u - mu * mu / 2)
    density = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    step = u[1] - u[0]
    remove, add = np.maximum(kept - math.exp(epsilon), 0), np.maximum(1 - math.exp(epsilon) * kept, 0)
    return float(density @ remove) * step, float(density @ add) * step


def delta_of_normal(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
def test_a_pure_price_is_that_of_all_statistics_on_one_sample(rate, epsilon):
    made = plan(counted(), spend=nt.pure(epsilon), rows_per_group=2, groups_per_unit=2, sampling_rate=rate)
    q, whole = float(rate), inner_epsilon(made)
    price = math.log1p(q * math.expm1(whole))
    assert made.price == nt.pure(epsilon)
    assert 0.9999 * float(epsilon) < price <= float(epsilon) * (1 + 1e-9)
    # the near miss: each statistic amplified by itself and added up would allow less noise than the whole needs
    parts = [one.sensitivity.l1 / float(one.mechanism.scale) for one in made.measures.values()]
    assert math.fsum(math.log1p(q * math.expm1(part)) for part in parts) < 0.999 * price or rate > Fraction(1, 2)


@pytest.mark.parametrize("rate", RATES)
def test_an_approximate_price_is_certified_against_the_sampled_densities(rate):
    spend = nt.approx(1, "1e-4")
    made = plan(counted(), spend=spend, rows_per_group=30, groups_per_unit=2, sampling_rate=rate)
    if "variance" in {field.name for field in fields(next(iter(made.measures.values())).mechanism)}:
        remove, add = tails(inner_mu(made), float(rate), 1.0)
        assert add <= remove <= 1e-4 * (1 + 1e-6)
        assert tails(inner_mu(made) * 1.02, float(rate), 1.0)[0] > 1e-4
    else:
        assert math.log1p(float(rate) * math.expm1(inner_epsilon(made))) <= 1 + 1e-9
    assert made.price in {spend, nt.pure(1)}


@pytest.mark.parametrize(
    ("rate", "spend"),
    [
        (Fraction(1, 10), nt.gdp("0.5", "1e-5")),
        (Fraction(1, 2), nt.gdp(2, "1e-5")),
        pytest.param(Fraction(9, 10), nt.gdp("0.1", "1e-6"), marks=pytest.mark.slow),
        pytest.param(Fraction(1, 10), nt.gdp("0.1", "1e-6"), marks=pytest.mark.slow),
        pytest.param(Fraction(1, 50), nt.gdp("0.5", "1e-4"), marks=pytest.mark.slow),
    ],
)
def test_a_gaussian_price_lies_below_the_sampled_curve_at_every_epsilon(rate, spend):
    made = plan(counted(), spend=spend, rows_per_group=2, groups_per_unit=2, sampling_rate=rate)
    assert made.price == spend
    mu, delta = float(spend.mu), float(spend.delta)
    largest = max(inner_mu(made), mu)

    def excess(inner):
        """The most by which the sampled profile passes the promised one, in units of the latter."""
        found = []
        for epsilon in np.linspace(0, 6 * max(mu, 0.3), 30):
            promised = delta + (1 - delta) * delta_of_normal(mu, epsilon)
            found.append(max(tails(inner, float(rate), epsilon)) / promised)
        return max(found)

    assert excess(largest) <= 1 + 1e-5
    assert excess(largest * 1.01) > 1 + 1e-4  # and it is the most that it could be


@pytest.mark.parametrize("order", [2, 8])
def test_a_price_at_one_renyi_order_is_certified_by_quadrature(order):
    rate, spend = 0.1, nt.rdp(order, "0.05")
    made = plan(counted(), spend=spend, rows_per_group=2, groups_per_unit=2, sampling_rate="0.1")
    assert made.price == spend

    def divergence(mu):
        def powered(u):
            return norm.pdf(u) * ((1 - rate) + rate * math.exp(mu * u - mu * mu / 2)) ** order

        return math.log(quad(powered, -12, 12 + order * mu, limit=400)[0]) / (order - 1)

    assert divergence(inner_mu(made)) <= 0.05 * (1 + 1e-6)
    assert divergence(inner_mu(made) * 1.01) > 0.05


def test_discovery_of_groups_pays_with_its_part_of_the_delta():
    query = visits().group_by("town").agg(n=nt.count_units())
    made = plan(query, spend=nt.approx(1, "1e-5"), groups_per_unit=1, sampling_rate="0.1")
    assert made.price == nt.approx(1, "1e-5")
    assert made.sampled.told == nt.approx(made.sampled.told.epsilon, "1e-4")
    normal = plan(query, spend=nt.gdp("0.5", "1e-5"), groups_per_unit=1, sampling_rate="0.1")
    assert normal.sampled.told.delta == Fraction(1, 200_000)  # a half for failures, a half for the fit
    assert normal.price == nt.gdp("0.5", "1e-5")
