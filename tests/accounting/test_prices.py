"""Prices hold as implications between curves, checked by brute force; near misses and what has no theorem are refused."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from neartwin.accounting import prices
from neartwin.accounting.budgets import advantage, approx, gdp, mixed, pure, rdp, zcdp
from neartwin.accounting.calibration import as_approx, as_gdp, as_pure, as_rdp, as_zcdp
from neartwin.accounting.filters import Filter, filter_for
from neartwin.errors import BudgetError, PrivacyError
from neartwin.losses import Gaussian, Laplace, Leak, SubsampledGaussian

EPSILONS = [Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(3), Fraction(40)]


def beta_of_pure(epsilon, alpha):
    e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
    return max(1 - mpmath.exp(e) * alpha, mpmath.exp(-e) * (1 - alpha), 0)


def beta_of_gauss(mu, alpha):
    m = mpmath.mpf(mu.numerator) / mu.denominator
    return mpmath.ncdf(-mpmath.sqrt(2) * mpmath.erfinv(2 * alpha - 1) - m)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_price_of_pure_privacy_covers_its_curve_and_less_does_not(epsilon):
    with mpmath.workdps(60):
        mu = prices.mu_of_pure(epsilon)
        kink = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator))
        alphas = [mpmath.mpf(10) ** -k for k in range(1, 25)] + [kink, 1 - kink, kink / 2, (1 + kink) / 2]
        alphas += [1 - a for a in alphas]
        assert all(beta_of_gauss(mu, a) <= beta_of_pure(epsilon, a) for a in alphas)
        less = mu * (1 - Fraction(1, 10**6))
        assert any(beta_of_gauss(less, a) > beta_of_pure(epsilon, a) for a in alphas)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("order", [Fraction(101, 100), Fraction(2), Fraction(33)])
def test_the_renyi_and_zcdp_prices_bound_randomized_response_and_tightly(epsilon, order):
    with mpmath.workdps(60):
        e, a = (mpmath.mpf(x.numerator) / x.denominator for x in (epsilon, order))
        p, q = 1 / (1 + mpmath.exp(-e)), 1 / (1 + mpmath.exp(e))
        true = mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
        price = prices.renyi_of_pure(epsilon, order)
        given = mpmath.mpf(price.numerator) / price.denominator
        assert true <= given <= true * (1 + mpmath.mpf(10) ** -6 * (1 + 10**4 * (epsilon < 1)))
        rho = prices.rho_of_pure(epsilon)
        assert true <= a * mpmath.mpf(rho.numerator) / rho.denominator
        kl = (p - q) * e
        assert kl <= mpmath.mpf(rho.numerator) / rho.denominator <= kl * (1 + mpmath.mpf(10) ** -12)


def test_each_account_prices_what_a_theorem_covers_to_the_unit():
    unit = Fraction(1, 10**15)
    assert filter_for(zcdp(1, "1e-6")).price(gdp("0.2", "1e-9")) == (Fraction(1, 50) / unit, 10**9)
    assert filter_for(zcdp(1, "1e-6")).price(zcdp("1/3")) == (333333333333334, 0)
    assert filter_for(rdp(4, 1)).price(zcdp("0.1")) == (Fraction(4, 10) / unit, 0)
    assert filter_for(rdp(4, 1)).price(rdp(5, "0.25")) == (Fraction(1, 4) / unit, 0)
    assert filter_for(rdp(4, 1)).price(gdp("0.5")) == (Fraction(1, 2) / unit, 0)
    assert filter_for(gdp(1)).price(gdp("0.1")) == (Fraction(1, 100) / unit, 0)
    both = filter_for(mixed(1, 1, "1e-6"))
    assert both.price(pure("0.5")) == (5 * 10**11, 0, 0)
    assert both.price(gdp("0.5", "1e-7")) == (0, Fraction(1, 4) / unit, 10**11)
    assert both.price(approx("0.5", "1e-7")) == (5 * 10**11, 0, 10**11)
    ratio = float(filter_for(gdp(1)).price(pure("0.01"))[0] * unit) / 0.01**2
    assert ratio == pytest.approx(np.pi / 2, rel=1e-4)  # pure noise fits a Gaussian account badly


@pytest.mark.parametrize("epsilon", ["0", "0.3"])
def test_pure_and_normal_noise_cost_the_sum_of_both_in_one_currency(epsilon):
    """Each adds up under its own theorem: rho, the divergence of one order, mu squared. Nothing pure costs nothing."""
    spend, alone = mixed(epsilon, "0.7", "1e-8"), pure("0.3")
    parts = {
        zcdp(9, "1e-6"): (Fraction(49, 200), prices.rho_of_pure(Fraction(3, 10))),
        rdp(5, 9, "1e-6"): (5 * Fraction(49, 200), prices.renyi_of_pure(Fraction(3, 10), Fraction(5))),
        gdp(9, "1e-6"): (Fraction(49, 100), prices.mu_of_pure(Fraction(3, 10)) ** 2),
    }
    for target, (normal, laplace) in parts.items():
        account = filter_for(target)
        unit = account.pools[0].unit
        expected = normal + (laplace if epsilon != "0" else 0)
        paid, failures = account.price(spend)
        assert 0 <= paid * unit - expected < unit
        assert failures == account.price(gdp("0.7", "1e-8"))[1] > 0
        if epsilon == "0":
            assert paid == account.price(gdp("0.7"))[0]
        else:
            assert paid <= account.price(gdp("0.7"))[0] + account.price(alone)[0] <= paid + 1


@pytest.mark.parametrize(
    ("account", "spend"),
    [
        (pure(1), zcdp("0.1")),
        (pure(1), gdp("0.1")),
        (approx(1, "1e-6"), gdp("0.1")),
        (approx(1, "1e-6"), rdp(2, "0.1")),
        (zcdp(1), rdp(2, "0.1")),
        (rdp(4, 1), rdp("3.99", "0.1")),
        (gdp(1), zcdp("0.1")),
        (gdp(1), rdp(4, "0.1")),
        (gdp(1), rdp(8, "0.1")),
        (mixed(1, 1), zcdp("0.1")),
        (gdp(1), advantage("0.1")),
        (zcdp(1), advantage("0.1")),
    ],
)
def test_unpriced_spend_is_refused_with_a_remedy(account, spend):
    with pytest.raises(PrivacyError, match=r"no theorem prices .*; "):
        filter_for(account).price(spend)


def test_rules_without_an_adaptive_theorem_open_no_account():
    with pytest.raises(PrivacyError, match="no theorem composes those"):
        filter_for(100 * Laplace(epsilon="0.1"))
    for kind in ("optimal", "pld", "advanced"):
        with pytest.raises(PrivacyError, match="need parameters fixed in advance"):
            Filter(kind, (), ()).price(pure(1))


@pytest.mark.parametrize("delta", ["0", "0.05"])
@pytest.mark.parametrize("value", ["0.01", "0.3", "0.95"])
def test_advantage_account_has_its_advantage_and_no_more(value, delta):
    if float(delta) >= float(value):
        return
    opened = filter_for(advantage(value, delta))
    kept = opened.promise(opened.caps)
    with mpmath.workdps(40):
        mu, d = mpmath.mpf(kept.mu.numerator) / kept.mu.denominator, mpmath.mpf(delta)
        true = d + (1 - d) * mpmath.erf(mu / 2 / mpmath.sqrt(2))
        assert mpmath.mpf(value) * (1 - mpmath.mpf(10) ** -7) < true <= mpmath.mpf(value) * (1 + mpmath.mpf(10) ** -15)


def test_a_filter_refuses_the_first_unit_above_a_cap_in_every_pool():
    for target in (pure(1), approx(1, "1e-6"), zcdp(1, "1e-6"), rdp(3, 1, "1e-6"), gdp(1, "1e-6"), mixed(1, 1, "1e-6")):
        rule = filter_for(target)
        rule.check((0,) * len(rule.caps), rule.caps)
        for place in range(len(rule.caps)):
            more = tuple(cap + (i == place) for i, cap in enumerate(rule.caps))
            with pytest.raises(BudgetError) as refused:
                rule.check((0,) * len(rule.caps), more)
            assert refused.value.pool == rule.pools[place].name


def test_fitted_gaussian_price_covers_both_directions_and_composes():
    whole = 100 * SubsampledGaussian(mu=1, rate="0.05")
    fit = as_gdp(whole, delta="1e-8")
    alone, two = 1 * Gaussian(mu=fit.mu) + Leak(delta=fit.delta), 2 * Gaussian(mu=fit.mu) + 2 * Leak(delta=fit.delta)
    eps = np.linspace(0, 8, 33)
    for direction in ("add", "remove"):
        assert (whole.delta(eps, direction=direction).lower <= alone.delta(eps).upper).all()
        assert ((2 * whole).delta(eps, direction=direction).lower <= two.delta(eps).upper).all()
    less = 1 * Gaussian(mu=fit.mu * Fraction(99, 100)) + Leak(delta=fit.delta)
    assert (whole.delta(eps).lower > less.delta(eps).upper).any()


def test_fits_of_known_compositions_are_known_and_infinite_ones_refused():
    whole = 10 * Laplace(epsilon="0.1")
    assert as_pure(whole).epsilon == pytest.approx(1, rel=1e-9)
    assert as_pure(whole).epsilon >= 1
    assert float(as_zcdp(whole).rho) == pytest.approx(10 * (0.1 + np.exp(-0.1) - 1), rel=1e-3)
    order_two = 10 * np.log(2 / 3 * np.exp(0.1) + 1 / 3 * np.exp(-0.2))
    assert float(as_rdp(whole, order=2).epsilon) == pytest.approx(order_two, rel=1e-12)
    assert as_approx(2 * Gaussian(mu="0.01"), delta="0.5").epsilon > 0  # a price is never nothing
    for refused in (
        lambda: as_pure(1 * Gaussian(mu=1)),
        lambda: as_zcdp(whole + Leak(delta="1e-9")),
        lambda: as_rdp(whole + Leak(delta="1e-9"), order=2),
        lambda: as_gdp(whole + SubsampledGaussian(mu=1, rate="0.1")),
        lambda: as_gdp(whole + Leak(delta="1e-3"), delta="1e-6"),
        lambda: as_approx(whole + Leak(delta="1e-3"), delta="1e-6"),
    ):
        with pytest.raises(PrivacyError):
            refused()


@pytest.mark.parametrize("spend", [zcdp("0.1"), zcdp("0.1", "1e-8"), rdp(8, "0.8")], ids=str)
@pytest.mark.parametrize("target", [gdp(1, "1e-6"), mixed(1, 1, "1e-6")], ids=str)
def test_renyi_bound_has_a_price_in_mu_and_a_thousandth_of_delta(spend, target):
    """Delta + (1 - delta) delta_mu lies above the best conversion of the bound at every eps, so above every mechanism's curve."""
    account = filter_for(target)
    owed = dict(zip((pool.name for pool in account.pools), account.price(spend), strict=True))
    mu = (owed["mu_squared"] / 1e15) ** 0.5
    spare = owed["delta"] / 1e18 - float(spend.delta)
    assert spare == pytest.approx(1e-9)
    orders = 1 + np.geomspace(1e-3, 1e5 if hasattr(spend, "rho") else 7, 4000)
    divergences = 0.1 * orders if hasattr(spend, "rho") else np.full(len(orders), 0.8)  # no lower order has more
    for eps in np.linspace(0.0, 8.0, 33):
        best = np.min((orders - 1) * (divergences - eps) + orders * np.log1p(-1 / orders) - np.log(orders - 1))
        variation = np.sqrt(divergences[0] / 2)
        bound = min(np.exp(best), variation * (1 + 1e-3))
        phi = [float(mpmath.ncdf(x)) for x in (mu / 2 - eps / mu, -mu / 2 - eps / mu)]
        assert bound <= (spare + phi[0] - np.exp(eps) * phi[1]) * (1 + 1e-3) + 1e-12
    assert 0.447 < mu < (0.7 if hasattr(spend, "rho") else 1.6)


@pytest.mark.parametrize("epsilon", EPSILONS[:-1])
def test_gaussian_price_of_bounded_range_covers_two_points_tightly(epsilon):
    with mpmath.workdps(60):
        mu = prices.mu_of_bounded_range(epsilon)
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        worst = mpmath.mpf(0)
        for k in range(1, 200):  # log-likelihood ratios u and u - epsilon
            u = e * k / 200
            p = mpmath.expm1(e - u) / (mpmath.exp(e - u) - mpmath.exp(-u))
            q = p * mpmath.exp(-u)
            assert abs(mpmath.log(p / (1 - p)) - mpmath.log(q / (1 - q)) - e) < mpmath.mpf(10) ** -45  # (M11)
            p, q = (mpmath.sqrt(2) * mpmath.erfinv(2 * x - 1) for x in (p, q))
            worst = max(worst, p - q)
        given = mpmath.mpf(mu.numerator) / mu.denominator
        assert worst <= given <= worst * (1 + mpmath.mpf(10) ** -9)
        assert prices.mu_of_bounded_range(epsilon) < prices.mu_of_pure(epsilon)
