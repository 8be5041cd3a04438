"""Filters and odometers: the sums of an account, and the point where it must refuse, under fully adaptive composition.

A filter is a fixed list of *pools*. Every price is a vector of whole numbers, one a pool, rounded up to the pool's unit.
Prices add, and the account refuses a price that would lift any pool above its cap. Only rules with a proof for adaptively chosen
plans are here. Optimal and numerical composition have none, so they have no place in a ledger across plans.

Sources. pure and basic: Rogers, Roth, Ullman, Vadhan 2016. zCDP with its pool: Whitehouse, Ramdas, Rogers, Wu 2023, theorem 1.
One Renyi order: Feldman, Zrnic 2021, theorem 3.1. Gaussian: Smith, Thakurta 2022. The pool of failures, the three pools and
the odometer: (F1), (F2) and (F8) of docs/proofs/filters.md.

An odometer tells the cost of a series so far, when no cap was set beforehand. It runs the filters of a fixed ladder of caps,
each twice the one before in every pool. It reports the lowest rung that covers the spends. Its state is one whole number
a pool: the thousandth answer costs as much time as the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import assert_never

from neartwin.accounting.budgets import Advantage, Approx, Budget, Gdp, Mixed, Pure, Rdp, Zcdp
from neartwin.errors import BudgetError, PrivacyError
from neartwin.exact import root_above


@dataclass(frozen=True, slots=True)
class Pool:
    """One additive quantity of a filter: its name, and the size of one ledger unit (exact)."""

    name: str
    unit: Fraction


EPSILON = Pool("epsilon", Fraction(1, 10**12))
DELTA = Pool("delta", Fraction(1, 10**18))
RHO = Pool("rho", Fraction(1, 10**15))
RENYI = Pool("renyi", Fraction(1, 10**15))
MU_SQUARED = Pool("mu_squared", Fraction(1, 10**15))


@dataclass(frozen=True, slots=True)
class Filter:
    """A rule of adaptive composition with its caps.

    Attributes:
        kind: The rule's name, kept in the ledger for ever. "pure" sums epsilon. "basic" sums epsilon and delta. "zcdp" sums rho
            and delta. "rdp(a)" sums the divergence of order a and delta. "gdp" sums mu squared and delta. "three pools" sums
            epsilon, mu squared and delta.
        pools: The quantities that add up.
        caps: One cap a pool, in its units, rounded down: an account never allows more than its target.
    """

    kind: str
    pools: tuple[Pool, ...]
    caps: tuple[int, ...]

    def price(self, spend: Budget) -> tuple[int, ...]:
        """The spend in this filter's pools, each rounded up to a whole number of units.

        Errors: `PrivacyError` where no theorem turns the spend into this filter's currency.

        >>> from neartwin.accounting.budgets import approx, gdp, pure, zcdp
        >>> filter_for(approx(1, "1e-6")).price(pure("1/3"))
        (333333333334, 0)
        >>> filter_for(zcdp(1)).price(gdp("0.1"))
        (5000000000000, 0)
        >>> filter_for(pure(1)).price(approx("0.1", "1e-6"))
        Traceback (most recent call last):
        neartwin.errors.PrivacyError: a pure account has no delta to pay delta=1e-06 with; ...
        """
        owed = _owed(self, spend)
        known = {pool.name for pool in self.pools}
        for name, amount in owed.items():
            if name not in known and amount > 0:
                raise PrivacyError(
                    f"a {self.kind} account has no {name} to pay {name}={float(amount):g} with; give public keys, "
                    "or open the account with approx(epsilon, delta)"
                )
        return tuple(ceil(owed.get(pool.name, Fraction(0)) / pool.unit) for pool in self.pools)

    def check(self, spent: tuple[int, ...], price: tuple[int, ...]) -> None:
        """Refuse a price that does not fit beside the spent budget.

        Args:
            spent: The spent amounts, by pool.
            price: The price, by pool.

        Raises:
            BudgetError: The price does not fit.
        """
        for pool, cap, used, more in zip(self.pools, self.caps, spent, price, strict=True):
            if used + more > cap:
                raise BudgetError(
                    pool.name,
                    more * pool.unit,
                    (cap - used) * pool.unit,
                    (
                        f"spend at most the remaining {float((cap - used) * pool.unit):.15g}",
                        "ask the curator to raise the account's cap",
                    ),
                )

    def promise(self, amounts: tuple[int, ...]) -> Budget:
        """The guarantee of amounts together: at the caps, or for the spending so far.

        Args:
            amounts: Whole numbers, in the pools' units.

        Returns:
            The guarantee.

        >>> from neartwin.accounting.budgets import gdp
        >>> account = filter_for(gdp(1, "1e-6"))
        >>> str(account.promise(account.caps)), str(account.promise((90000000000000, 0)))
        ('mu=1, delta=1e-06', 'mu=0.3')
        """
        owed = {pool.name: amount * pool.unit for pool, amount in zip(self.pools, amounts, strict=True)}
        delta = owed.get("delta", Fraction(0))
        match _family(self.kind):
            case "pure":
                return Pure(owed["epsilon"])
            case "basic":
                return Approx(owed["epsilon"], delta)
            case "zcdp":
                return Zcdp(owed["rho"], delta)
            case "gdp":
                return Gdp(root_above(owed["mu_squared"]), delta)
            case "rdp":
                return Rdp(_order(self.kind), owed["renyi"], delta)
            case "three pools":
                return Mixed(owed["epsilon"], root_above(owed["mu_squared"]), delta)
            case _:
                raise _unknown(self.kind)


def filter_for(target: Budget) -> Filter:
    """The filter of an account opened with this target.

    Errors: `PrivacyError` for what is no target, a composed whole for instance.

    >>> from neartwin.accounting.budgets import advantage, pure, rdp
    >>> filter_for(pure(1)).caps
    (1000000000000,)
    >>> filter_for(rdp("5/2", 1)).kind
    'rdp(5/2)'
    >>> str(filter_for(advantage("0.3")).promise(filter_for(advantage("0.3")).caps))
    'mu=0.770641'
    """
    match target:
        case Pure(epsilon=epsilon):
            return _capped("pure", {EPSILON: epsilon})
        case Approx(epsilon=epsilon, delta=delta):
            return _capped("basic", {EPSILON: epsilon, DELTA: delta})
        case Zcdp(rho=rho, delta=delta):
            return _capped("zcdp", {RHO: rho, DELTA: delta})
        case Rdp(order=order, epsilon=epsilon, delta=delta):
            return _capped(f"rdp({order})", {RENYI: epsilon, DELTA: delta})
        case Gdp(mu=mu, delta=delta):
            return _capped("gdp", {MU_SQUARED: mu**2, DELTA: delta})
        case Mixed(epsilon=epsilon, mu=mu, delta=delta):
            return _capped("three pools", {EPSILON: epsilon, MU_SQUARED: mu**2, DELTA: delta})
        case Advantage():
            from neartwin.tradeoff.gaussian_dp import mu_of_advantage

            # the largest mu with delta + (1 - delta)(2 Phi(mu/2) - 1) <= a, rounded down
            most = mu_of_advantage((target.value - target.delta) / (1 - target.delta)).lower
            return _capped("gdp", {MU_SQUARED: Fraction(float(most)) ** 2, DELTA: target.delta})
        case _ if not isinstance(target, Budget):  # a caller without a type checker
            raise PrivacyError(
                f"{target!r} opens no account: plans are chosen after earlier answers are seen, and no theorem composes "
                "those numerically or optimally; open with pure, approx, zcdp, rdp, gdp, mixed or advantage"
            )
        case _:
            assert_never(target)


def _capped(kind: str, caps: dict[Pool, Fraction]) -> Filter:
    return Filter(kind, tuple(caps), tuple(amount // pool.unit for pool, amount in caps.items()))


def _family(kind: str) -> str:
    return kind.partition("(")[0]


def _order(kind: str) -> Fraction:
    return Fraction(kind.removeprefix("rdp(").removesuffix(")"))


def _owed(account: Filter, spend: Budget) -> Mapping[str, Fraction]:
    from neartwin.accounting import prices  # theorems and their numerics, which opening a ledger does without

    match _family(account.kind):
        case "pure" | "basic":
            return prices.by_epsilon(spend)
        case "zcdp":
            return prices.by_rho(spend)
        case "gdp":
            return prices.by_mu(spend, _spare(account))
        case "rdp":
            return prices.by_order(_order(account.kind))(spend)
        case "three pools":
            return prices.by_three(spend, _spare(account))
        case _:
            raise _unknown(account.kind)


def _spare(account: Filter) -> Fraction:
    """What a fit of a Renyi bound may charge to the pool of failures: a thousandth of all of it."""
    return (
        sum(
            (cap * pool.unit for pool, cap in zip(account.pools, account.caps, strict=True) if pool == DELTA),
            Fraction(0),
        )
        / 1000
    )


def _unknown(kind: str) -> PrivacyError:
    return PrivacyError(
        f"no theorem composes plans that are chosen adaptively by the rule {kind!r}; optimal and numerical composition need "
        "parameters fixed in advance: announce the series as one plan, or take pure, basic, zcdp, rdp, gdp or three pools"
    )


BY_PATH = "pure"  # the sum itself is a guarantee


@dataclass(frozen=True, slots=True)
class Odometer:
    """The cost of a series of adaptively chosen spends.

    Attributes:
        first: The lowest rung.
        used: Sums in the pools' units.

    >>> from neartwin.accounting.budgets import gdp
    >>> read = odometer(gdp("0.5", "1e-9"))
    >>> for _ in range(10):
    ...     read = read.add(gdp("0.2"))
    >>> str(read.spent), str(read.promise)
    ('mu=0.632456', 'mu=0.707107, delta=2e-09')
    """

    first: Filter
    used: tuple[int, ...]

    def add(self, spend: Budget) -> "Odometer":
        """The odometer after one more answer; call it before the answer is given. `PrivacyError` as for a filter."""
        price = self.first.price(spend)
        for pool, cap, more in zip(self.first.pools, self.first.caps, price, strict=True):
            if more and not cap:
                raise PrivacyError(
                    f"this odometer has no {pool.name} on any rung to pay {spend} with; start it with {pool.name} above 0"
                )
        return Odometer(self.first, tuple(sum(pair) for pair in zip(self.used, price, strict=True)))

    @property
    def spent(self) -> Budget:
        """The sums themselves; a guarantee of pure privacy only."""
        return self.first.promise(self.used)

    @property
    def rung(self) -> int:
        """How often the first caps are doubled to cover what was spent."""
        pairs = zip(self.first.caps, self.used, strict=True)  # above a cap of 0 is none: `add` refuses it
        return max((((used + cap - 1) // cap - 1).bit_length() for cap, used in pairs if used > cap), default=0)

    @property
    def promise(self) -> Budget:
        """The guarantee of everything so far."""
        if self.first.kind == BY_PATH:
            return self.spent
        return self.first.promise(tuple(cap << self.rung for cap in self.first.caps))

    @property
    def amounts(self) -> dict[str, Fraction]:
        """The spends by pool, exact."""
        return {pool.name: used * pool.unit for pool, used in zip(self.first.pools, self.used, strict=True)}


def odometer(first: Budget) -> Odometer:
    """An odometer at 0 whose lowest rung is `first`; a pool that is 0 there can take nothing, on any rung.

    first: small enough to be the first report one would want; doubling then loses at most a factor 2 in the pool that fills
    fastest. The kind of target fixes the currency. Errors: `PrivacyError` for what opens no account.
    """
    ladder = filter_for(first)
    return Odometer(ladder, (0,) * len(ladder.caps))
