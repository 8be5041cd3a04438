"""Arithmetic of spends. Epsilon, delta, rho and mu squared add up; each function keeps the currency."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from neartwin.accounting.budgets import Approx, Budget, Gdp, Pure, Rdp, Zcdp
from neartwin.checks import positive
from neartwin.errors import PrivacyError
from neartwin.exact import root_above, root_below
from neartwin.tradeoff import mu_of

NO_DELTA = Fraction(0)


def delta_of(spend: Budget) -> Fraction:
    """The delta of a spend.

    Args:
        spend: The spend.

    Returns:
        The delta; 0 if it has none.
    """
    return getattr(spend, "delta", NO_DELTA)


def without_delta(spend: Budget) -> Budget:
    """The spend of noise that cannot fail: zCDP, RDP and GDP need no delta for it.

    Args:
        spend: The spend.

    Returns:
        The spend with delta 0; pure and approximate spends are unchanged.
    """
    return replace(spend, delta=NO_DELTA) if isinstance(spend, Zcdp | Rdp | Gdp) else spend


def share_of(spend: Budget, share: Fraction, *, delta: Fraction) -> Budget:
    """A share of a spend, with a given delta. Shares compose adaptively to the spend.

    Args:
        spend: The spend.
        share: The share of epsilon, rho or mu squared.
        delta: The delta of the share.

    Returns:
        The share; mu is rounded down.

    Raises:
        PrivacyError: The currency does not add up.

    >>> share_of(Zcdp(Fraction(1, 2), Fraction(0)), Fraction(1, 4), delta=Fraction(0))
    nt.zcdp(rho='0.125')
    """
    match spend:
        case Pure(epsilon=epsilon):
            return Pure(epsilon * share)
        case Approx(epsilon=epsilon):
            return Approx(epsilon * share, delta) if delta else Pure(epsilon * share)
        case Zcdp(rho=rho):
            return Zcdp(rho * share, delta)
        case Rdp(order=order, epsilon=epsilon):
            return Rdp(order, epsilon * share, delta)
        case Gdp(mu=mu):
            return Gdp(root_below(mu**2 * share), delta)
    raise PrivacyError(f"a plan cannot spend {spend}; spend pure, approx, zcdp, rdp or gdp")


def split_budget(spend: Budget, share: Fraction) -> tuple[Budget, Budget]:
    """Split a spend into two that compose to it adaptively.

    Args:
        spend: The spend.
        share: The first part's share of epsilon, rho or mu squared.

    Returns:
        The first part, without a delta, and the rest with the whole delta.

    Raises:
        PrivacyError: The currency does not add up.

    >>> split_budget(Approx(Fraction(1), Fraction(1, 10**6)), Fraction(1, 4))
    (nt.pure(epsilon='0.25'), nt.approx(epsilon='0.75', delta='0.000001'))
    """
    return share_of(spend, share, delta=NO_DELTA), share_of(spend, 1 - share, delta=delta_of(spend))


def total_of(prices: Sequence[Budget], spend: Budget) -> Budget:
    """The sum of prices of one currency. mu is rounded up, but not above the mu of the spend.

    Args:
        prices: The prices, at least one.
        spend: The spend of which the prices are shares.

    Returns:
        The sum.
    """
    delta = sum(map(delta_of, prices), NO_DELTA)
    match prices[0]:
        case Zcdp():
            return Zcdp(sum((price.rho for price in prices if isinstance(price, Zcdp)), NO_DELTA), delta)
        case Rdp(order=order):
            return Rdp(order, sum((price.epsilon for price in prices if isinstance(price, Rdp)), NO_DELTA), delta)
        case Gdp():
            squared = sum((price.mu**2 for price in prices if isinstance(price, Gdp)), NO_DELTA)
            mu = root_above(squared)
            return Gdp(min(mu, spend.mu) if isinstance(spend, Gdp) and squared <= spend.mu**2 else mu, delta)
    epsilon = sum((price.epsilon for price in prices if isinstance(price, Pure | Approx)), NO_DELTA)
    return Approx(epsilon, delta) if delta else Pure(epsilon)


def gdp_of(spend: Approx, *, discovers: bool) -> Gdp:
    """The Gaussian privacy G_mu (x) f_{0,d} within an (epsilon, delta) spend.

    Args:
        spend: The spend.
        discovers: Whether groups are discovered, for which d is half of delta. The rest of delta covers G_mu's tail.

    Returns:
        mu, rounded down, and d.
    """
    failure = spend.delta / 2 if discovers else NO_DELTA
    mu = Fraction(float(mu_of(spend.epsilon, (spend.delta - failure) / (1 - failure)).lower))
    return Gdp(positive(mu=mu), failure)


def mu_squared_of(spend: Budget) -> Fraction:
    """The mu^2 for normal noise within a spend, exact.

    Args:
        spend: The spend.

    Returns:
        mu^2.

    Raises:
        PrivacyError: The spend is pure or approximate privacy.
    """
    match spend:
        case Gdp(mu=mu):
            return mu**2
        case Zcdp(rho=rho):
            return 2 * rho
        case Rdp(order=order, epsilon=epsilon):
            return 2 * epsilon / order
    raise PrivacyError(f"{spend} cannot pay for normal noise; spend zcdp(rho), rdp(order, epsilon) or gdp(mu)")
