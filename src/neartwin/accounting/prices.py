"""What a spend costs in each account's currency: implications with a proof, rounded up, and a refusal for the rest.

Each rule turns a spend into amounts by pool. The implications, all for both orders of the neighbours and every alpha:

- f_{eps,delta} = f_{eps,0} (x) f_{0,delta}: an (eps, delta) mechanism fails with probability delta, else is eps-private
  (Kairouz, Oh, Viswanath 2015, theorem 3.1), so its delta goes to the pool of failures in every currency;
- pure to zCDP: rho = eps tanh(eps/2), the Kullback-Leibler divergence of randomized response (`zcdp_of_pure`);
- pure to one Renyi order a: the divergence of randomized response, log((e^{a eps} + e^{(1-a) eps}) / (1 + e^eps)) / (a-1);
- pure to Gaussian: mu = 2 Phi^-1(e^eps / (1 + e^eps)). G_mu is convex, and f_{eps,0} is the two chords from (0, 1) over
  the kink (k, k), k = 1/(1 + e^eps), to (1, 0); so G_mu <= f_{eps,0} everywhere if and only if G_mu(k) <= k;
- Gaussian to zCDP: mu^2/2; to one order: a mu^2/2. zCDP to one order: a rho. A Renyi divergence grows with its order,
  so a higher order pays for a lower one;
- zCDP or one order to Gaussian, beside a delta: the curve bounds every delta(eps) (Canonne, Kamath, Steinke 2020, proposition 12)
  and the total variation, and mu is the least with delta(eps) <= delta + (1 - delta) delta_mu(eps) for all eps >= 0
  (`Composed.gdp`). No mu does so without a delta: one order says nothing of the far tail.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from neartwin.accounting.budgets import Advantage, Approx, Budget, Gdp, Mixed, Pure, Rdp, Zcdp
from neartwin.accounting.renyi import zcdp_of_pure
from neartwin.balls import ball, bounds, normal_quantile
from neartwin.errors import ParameterError, PrivacyError

if TYPE_CHECKING:
    from flint import arb

Amounts = Mapping[str, Fraction]
_LARGEST = Fraction(700)  # e^eps must be a float


def mu_of_pure(epsilon: Fraction) -> Fraction:
    """The least mu with G_mu below f_{epsilon,0}, rounded up: 2 Phi^-1(e^eps / (1 + e^eps)).

    >>> round(float(mu_of_pure(Fraction(1))), 9)
    1.232035385
    """
    _floats(epsilon)
    return Fraction(max(0.0, bounds(lambda: -2 * normal_quantile(1 / (1 + ball(epsilon).exp())))[1]))


def rho_of_pure(epsilon: Fraction) -> Fraction:
    """The least rho of every epsilon-private mechanism, rounded up."""
    return Fraction(zcdp_of_pure(epsilon).upper)


def renyi_of_pure(epsilon: Fraction, order: Fraction) -> Fraction:
    """The largest Renyi divergence of an epsilon-private mechanism at one order, rounded up; at most epsilon.

    log((e^{a e} + e^{(1-a) e}) / (1 + e^e)) / (a-1) = e + log((1 + e^{-(2a-1) e}) / (1 + e^{-e})) / (a-1).

    >>> round(float(renyi_of_pure(Fraction(1), Fraction(2))), 9)
    0.735325664
    """
    _floats(epsilon)

    def value() -> "arb":
        near, far = (-ball(epsilon)).exp(), (-ball((2 * order - 1) * epsilon)).exp()
        return ball(epsilon) + (far.log1p() - near.log1p()) / ball(order - 1)

    return min(Fraction(bounds(value)[1]), order * rho_of_pure(epsilon), epsilon)


def _floats(epsilon: Fraction) -> None:
    if epsilon > _LARGEST:
        raise ParameterError("epsilon", float(epsilon), "must be at most 700 to be priced in another currency")


def by_epsilon(spend: Budget) -> Amounts:
    """For accounts in pure or in basic (epsilon, delta) currency."""
    match spend:
        case Pure(epsilon=epsilon):
            return {"epsilon": epsilon}
        case Approx(epsilon=epsilon, delta=delta):
            return {"epsilon": epsilon, "delta": delta}
        case _:
            raise _none(spend, "epsilon", "spend approx(epsilon, delta), for instance `as_approx(whole, delta=...)`")


def by_rho(spend: Budget) -> Amounts:
    """For accounts in zCDP."""
    match spend:
        case Pure(epsilon=epsilon):
            return {"rho": rho_of_pure(epsilon)}
        case Approx(epsilon=epsilon, delta=delta):
            return {"rho": rho_of_pure(epsilon), "delta": delta}
        case Gdp(mu=mu, delta=delta):
            return {"rho": mu**2 / 2, "delta": delta}
        case Zcdp(rho=rho, delta=delta):
            return {"rho": rho, "delta": delta}
        case Mixed(epsilon=epsilon, mu=mu, delta=delta):
            return {"rho": (rho_of_pure(epsilon) if epsilon else 0) + mu**2 / 2, "delta": delta}
        case _:
            raise _none(spend, "rho", "spend pure, approx, gdp or zcdp, for instance `as_zcdp(whole)`")


def by_order(order: Fraction) -> Callable[[Budget], Amounts]:
    """For accounts in Renyi divergence at one order, fixed when the account was opened."""

    def owed(spend: Budget) -> Amounts:
        match spend:
            case Pure(epsilon=epsilon):
                return {"renyi": renyi_of_pure(epsilon, order)}
            case Approx(epsilon=epsilon, delta=delta):
                return {"renyi": renyi_of_pure(epsilon, order), "delta": delta}
            case Gdp(mu=mu, delta=delta):
                return {"renyi": order * mu**2 / 2, "delta": delta}
            case Zcdp(rho=rho, delta=delta):
                return {"renyi": order * rho, "delta": delta}
            case Rdp(order=other, epsilon=epsilon, delta=delta) if other >= order:
                return {"renyi": epsilon, "delta": delta}
            case Mixed(epsilon=epsilon, mu=mu, delta=delta):
                part = renyi_of_pure(epsilon, order) if epsilon else Fraction(0)
                return {"renyi": part + order * mu**2 / 2, "delta": delta}
            case Rdp():
                raise _none(spend, f"order {float(order):g}", "a lower order bounds no higher one; spend at this order")
            case _:
                raise _none(spend, f"order {float(order):g}", "spend for instance `as_rdp(whole, order=...)`")

    return owed


def by_mu(spend: Budget, spare: Fraction = Fraction(0)) -> Amounts:
    """For Gaussian accounts, in mu squared. spare: the delta that a fit to a Renyi bound charges beside the spend's own."""
    match spend:
        case Pure(epsilon=epsilon):
            return {"mu_squared": mu_of_pure(epsilon) ** 2}
        case Approx(epsilon=epsilon, delta=delta):
            return {"mu_squared": mu_of_pure(epsilon) ** 2, "delta": delta}
        case Gdp(mu=mu, delta=delta):
            return {"mu_squared": mu**2, "delta": delta}
        case Mixed(epsilon=epsilon, mu=mu, delta=delta):
            return {"mu_squared": (mu_of_pure(epsilon) ** 2 if epsilon else 0) + mu**2, "delta": delta}
        case Zcdp() | Rdp():
            return _fitted(spend, spare)
        case _:
            raise _none(spend, "mu", "spend for instance `as_gdp(whole, delta=...)`")


def by_three(spend: Budget, spare: Fraction = Fraction(0)) -> Amounts:
    """For accounts of three pools: each kind of plan pays in its own. spare: as for `by_mu`."""
    match spend:
        case Pure(epsilon=epsilon):
            return {"epsilon": epsilon}
        case Approx(epsilon=epsilon, delta=delta):
            return {"epsilon": epsilon, "delta": delta}
        case Gdp(mu=mu, delta=delta):
            return {"mu_squared": mu**2, "delta": delta}
        case Mixed(epsilon=epsilon, mu=mu, delta=delta):
            return {"epsilon": epsilon, "mu_squared": mu**2, "delta": delta}
        case Zcdp() | Rdp():
            return _fitted(spend, spare)
        case _:
            raise _none(spend, "three pools", "spend pure, approx or gdp, for instance `as_gdp(whole, delta=...)`")


@lru_cache(maxsize=256)
def _fitted(spend: Zcdp | Rdp, spare: Fraction) -> Amounts:
    """The least mu beside the spare delta that a Renyi bound implies.

    >>> found = _fitted(Zcdp(Fraction(1, 10), Fraction(0)), Fraction(1, 10**9))
    >>> bool(0.44 < float(found["mu_squared"]) ** 0.5 < 0.66)  # a Gaussian of that rho has mu = 0.447
    True
    """
    from neartwin.accounting.guarantee import whole_of

    if not spare:
        raise _none(
            spend, "mu", "Renyi bounds give a G_mu only beside a delta, and this account has none: open it with one"
        )
    found = whole_of(replace(spend, delta=Fraction(0))).gdp(spare).upper
    if not math.isfinite(found):
        raise _none(spend, "mu", "its bound is too weak; spend for instance `as_gdp(whole, delta=...)`")
    return {"mu_squared": Fraction(found) ** 2, "delta": spend.delta + spare}


def _none(spend: Budget, currency: str, remedy: str) -> PrivacyError:
    if isinstance(spend, Advantage):
        remedy = "an advantage opens an account; a plan spends in a currency that composes, such as gdp(mu)"
    return PrivacyError(f"no theorem prices {spend} in an account's {currency}; {remedy}")
