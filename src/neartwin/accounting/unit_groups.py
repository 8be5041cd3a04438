"""Several units changed together: the promise for a group of k that follows from one unit's, and the inverse.

Pure: k epsilon; (epsilon, delta): k epsilon and delta (e^(k epsilon) - 1) / (e^epsilon - 1) (Dwork, Roth 2014, Thm 2.2;
Vadhan 2017, Lemma 2.2). rho-zCDP: k^2 rho (Bun, Steinke 2016, Prop 1.9). mu-GDP: k mu (Dong, Roth, Su 2022, Thm 2.14). A Renyi
promise at one order has no such rule. Here noise makes it that is zCDP with rho = epsilon / order, so it grows as rho does.
None of these holds with a pool of failure beside zCDP, Renyi or Gaussian privacy: that is refused.
"""

from fractions import Fraction

from neartwin.accounting.budgets import Approx, Budget, Gdp, Pure, Rdp, Zcdp
from neartwin.accounting.theorems import group_approximate
from neartwin.balls import ball, bounds
from neartwin.checks import integer
from neartwin.errors import PrivacyError

_ROOM = 1 - Fraction(1, 2**40)  # of a delta, for the rounding of `of_units`
_LEAST = 2.0**-512  # of the delta of a group, that one unit is left


def of_one(spend: Budget, units: int) -> Budget:
    """The promise to one unit under which several units changed together have at least this promise.

    Args:
        spend: The promise to all of them.
        units: The number of units, k.

    Returns:
        The promise to one.

    Raises:
        PrivacyError: No theorem for groups covers the currency.

    >>> print(of_one(Pure(Fraction(3)), 3), of_one(Zcdp(Fraction(1), Fraction(0)), 2), of_one(Gdp(Fraction(1), Fraction(0)), 4))
    epsilon=1 rho=0.25 mu=0.25
    """
    k = integer(at_least=1, group_size=units)
    if k == 1:
        return spend
    match spend:
        case Pure(epsilon=epsilon):
            return Pure(epsilon / k)
        case Approx(epsilon=epsilon, delta=delta):
            return Approx(epsilon / k, delta * _share(epsilon, k))
        case Zcdp(rho=rho, delta=delta):
            return Zcdp(rho / k**2, delta)
        case Rdp(order=order, epsilon=epsilon, delta=delta):
            return Rdp(order, epsilon / k**2, delta)
        case Gdp(mu=mu, delta=delta):
            return Gdp(mu / k, delta)
    raise PrivacyError(f"{spend} cannot be promised to {k} units together; spend pure, approx, zcdp or gdp")


def _share(epsilon: Fraction, k: int) -> Fraction:
    """(e^(epsilon / k) - 1) / (e^epsilon - 1), rounded down."""
    share = bounds(lambda: ball(epsilon / k).expm1() / ball(epsilon).expm1())[0]
    if not share >= _LEAST:
        raise PrivacyError(
            f"epsilon={float(epsilon):g} for {k} units together leaves one of them a delta of next to nothing, with which no "
            "unknown group is found; spend a smaller epsilon, or give public keys and spend pure(epsilon)"
        )
    return min(Fraction(1), Fraction(share) * _ROOM)


def of_units(price: Budget, units: int) -> Budget:
    """The promise to k units changed together, where one is charged this price; rounded up.

    Args:
        price: The charge of one unit.
        units: k, at least 1.

    Raises:
        PrivacyError: No theorem covers a group under this price.

    >>> print(of_units(Approx(Fraction(1, 2), Fraction(1, 10**6)), 3))
    epsilon=1.5, delta=5.367e-06
    """
    k = integer(at_least=1, group_size=units)
    if k == 1:
        return price
    match price:
        case Pure(epsilon=epsilon):
            return Pure(epsilon * k)
        case Approx(epsilon=epsilon, delta=delta):
            found = Fraction(float(group_approximate(epsilon=epsilon, delta=delta, size=k).delta.upper))
            if found < 1:
                return Approx(epsilon * k, found)
        case Zcdp(rho=rho, delta=delta) if not delta:
            return Zcdp(rho * k**2, delta)
        case Rdp(order=order, epsilon=epsilon, delta=delta) if not delta:
            return Rdp(order, epsilon * k**2, delta)
        case Gdp(mu=mu, delta=delta) if not delta:
            return Gdp(mu * k, delta)
    raise PrivacyError(
        f"{price} promises nothing to {k} units together: a delta beside it has no theorem for groups; give public keys, "
        "or spend approx(epsilon, delta)"
    )
