"""The price of a spend in each account's currency: implications with a proof, rounded up, and a refusal for the rest.

Each rule turns the parts of a spend into amounts by pool. The rules are (F3) to (F7) of docs/proofs/filters.md; they hold for
both directions of the neighbours and at every alpha.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from fractions import Fraction
from functools import lru_cache

from neartwin.accounting.budgets import Advantage, Budget, Rdp, Zcdp
from neartwin.accounting.renyi import zcdp_of_pure
from neartwin.balls import ball, bounds, normal_quantile
from neartwin.divergences.finite import randomized_response_pair
from neartwin.errors import ParameterError, PrivacyError

Amounts = Mapping[str, Fraction]
Rules = Mapping[str, Callable[[Fraction], Fraction]]  # from a part of a spend to an amount in the account's currency
_POOLS = {"epsilon": "epsilon", "mu": "mu_squared"}
_LARGEST = Fraction(700)  # e^eps must be a float


def mu_of_pure(epsilon: Fraction) -> Fraction:
    """The least mu with G_mu below f_{epsilon,0}, rounded up: 2 Phi^-1(e^eps / (1 + e^eps)).

    >>> round(float(mu_of_pure(Fraction(1))), 9)
    1.232035385
    """
    _floats(epsilon)
    return Fraction(max(0.0, bounds(lambda: -2 * normal_quantile(1 / (1 + ball(epsilon).exp())))[1]))


def mu_of_bounded_range(epsilon: Fraction) -> Fraction:
    """The least mu with G_mu below the curve of every mechanism of bounded range epsilon, rounded up.

    It is the mu of epsilon / 2, for log-likelihood ratios in [-epsilon / 2, epsilon / 2] are the worst: (M13) of
    docs/proofs/mechanisms.md.

    >>> round(float(mu_of_bounded_range(Fraction(2))), 9)
    1.232035385
    """
    return mu_of_pure(epsilon / 2)


def rho_of_pure(epsilon: Fraction) -> Fraction:
    """The least rho of every epsilon-private mechanism, rounded up."""
    return Fraction(zcdp_of_pure(epsilon).upper)


def renyi_of_pure(epsilon: Fraction, order: Fraction) -> Fraction:
    """The largest Renyi divergence of an epsilon-private mechanism at one order, rounded up; at most epsilon.

    log((e^{a e} + e^{(1-a) e}) / (1 + e^e)) / (a-1) = e + log((1 + e^{-(2a-1) e}) / (1 + e^{-e})) / (a-1).

    Args:
        epsilon: The pure-DP parameter.
        order: a, above 1.

    Returns:
        An upper bound.

    >>> round(float(renyi_of_pure(Fraction(1), Fraction(2))), 9)
    0.735325664
    """
    _floats(epsilon)
    worst = Fraction(randomized_response_pair(epsilon).renyi(order).upper)
    return min(worst, order * rho_of_pure(epsilon), epsilon)


def _floats(epsilon: Fraction) -> None:
    if epsilon > _LARGEST:
        raise ParameterError("epsilon", float(epsilon), "must be at most 700 to be priced in another currency")


def by_epsilon(spend: Budget) -> Amounts:
    """The amounts for an account in pure or in basic (epsilon, delta) currency."""
    return _amounts(spend, "epsilon", {"epsilon": _itself}, "write spend=nt.pure(epsilon='0.5')")


def by_rho(spend: Budget) -> Amounts:
    """The amounts for a zCDP account."""
    rules: Rules = {"epsilon": rho_of_pure, "mu": lambda mu: mu**2 / 2, "rho": _itself}
    return _amounts(
        spend, "rho", rules, "spend pure, approx, gdp or zcdp, for instance `as_zcdp(composition)`", pool="rho"
    )


def by_order(order: Fraction) -> Callable[[Budget], Amounts]:
    """The amounts for an account in Renyi divergence at one order, fixed when the account was opened."""
    name = f"order {float(order):g}"
    rules: Rules = {
        "epsilon": lambda epsilon: renyi_of_pure(epsilon, order),
        "mu": lambda mu: order * mu**2 / 2,
        "rho": lambda rho: order * rho,
    }

    def owed(spend: Budget) -> Amounts:
        if not isinstance(spend, Rdp):
            return _amounts(spend, name, rules, "spend for instance `as_rdp(composition, order=...)`", pool="renyi")
        if spend.order < order:
            raise _refusal(spend, name, "a lower order bounds no higher one; spend at this order")
        return {"renyi": spend.epsilon, "delta": spend.delta}

    return owed


def by_mu(spend: Budget, spare: Fraction = Fraction(0)) -> Amounts:
    """The amounts for a Gaussian account, in mu squared.

    Args:
        spend: The spend to be paid.
        spare: The delta that a fit to a Renyi bound charges beside the spend's own.
    """
    if isinstance(spend, Zcdp | Rdp):
        return _fitted(spend, spare)
    rules: Rules = {"epsilon": lambda epsilon: mu_of_pure(epsilon) ** 2, "mu": _squared}
    return _amounts(spend, "mu", rules, "spend for instance `as_gdp(composition, delta=...)`", pool="mu_squared")


def by_three(spend: Budget, spare: Fraction = Fraction(0)) -> Amounts:
    """The amounts for an account of three pools: each kind of plan pays in its own.

    Args:
        spend: The spend.
        spare: The probability set aside for a conversion, as for `by_mu`.

    Returns:
        The amounts by pool.

    Raises:
        PrivacyError: No theorem converts the spend.
    """
    if isinstance(spend, Zcdp | Rdp):
        return _fitted(spend, spare)
    remedy = "spend pure, approx or gdp, for instance `as_gdp(composition, delta=...)`"
    return _amounts(spend, "three pools", {"epsilon": _itself, "mu": _squared}, remedy)


def _itself(amount: Fraction) -> Fraction:
    return amount


def _squared(mu: Fraction) -> Fraction:
    return mu**2


def _amounts(spend: Budget, currency: str, rules: Rules, remedy: str, *, pool: str = "") -> Amounts:
    """Each part of a spend by its rule, summed into one pool, or into a pool for each part; a delta goes to the failures."""
    owed: dict[str, Fraction] = {}
    for part in fields(spend):
        amount: Fraction = getattr(spend, part.name)
        if part.name == "delta":
            owed["delta"] = amount
        elif part.name not in rules:
            raise _refusal(spend, currency, remedy)
        else:
            name = pool or _POOLS[part.name]
            owed[name] = owed.get(name, Fraction(0)) + (rules[part.name](amount) if amount else 0)
    return owed


@lru_cache(maxsize=256)
def _fitted(spend: Zcdp | Rdp, spare: Fraction) -> Amounts:
    """The least mu beside the spare delta that a Renyi bound implies.

    >>> found = _fitted(Zcdp(Fraction(1, 10), Fraction(0)), Fraction(1, 10**9))
    >>> bool(0.44 < float(found["mu_squared"]) ** 0.5 < 0.66)  # a Gaussian of that rho has mu = 0.447
    True
    """
    from neartwin.accounting.guarantee import whole_of

    if not spare:
        raise _refusal(
            spend, "mu", "Renyi bounds give a G_mu only beside a delta, and this account has none: open it with one"
        )
    mu = whole_of(replace(spend, delta=Fraction(0))).gdp(spare).upper
    if not math.isfinite(mu):
        raise _refusal(spend, "mu", "its bound is too weak; spend for instance `as_gdp(composition, delta=...)`")
    return {"mu_squared": Fraction(mu) ** 2, "delta": spend.delta + spare}


def _refusal(spend: Budget, currency: str, remedy: str) -> PrivacyError:
    if isinstance(spend, Advantage):
        remedy = "an advantage opens an account; a plan spends in a currency that composes, such as gdp(mu)"
    return PrivacyError(f"no theorem prices {spend} in an account's {currency}; {remedy}")
