"""The promise of a release or an account, as a value and in words that a person can bet on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, assert_never

from neartwin.accounting.budgets import Advantage, Approx, Budget, Gdp, Mixed, Pure, Rdp, Zcdp
from neartwin.errors import ParameterError, PrivacyError
from neartwin.interactive import shown_as_text

if TYPE_CHECKING:
    from neartwin.losses import Composition

_SYMBOLS = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ", "order": "order", "advantage": "advantage"}
_KINDS: dict[str, type[Budget]] = {"zcdp": Zcdp, "rdp": Rdp, "gdp": Gdp, "three pools": Mixed, "advantage": Advantage}
_UNCHECKED = (
    " This does not cover a failure: no check of these data is on record, and a value that cannot be read would have made"
    " the release fail."
)


@shown_as_text
@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """An upper bound on what anyone can tell apart.

    Attributes:
        promise: The promise in the currency it was paid in, exact.
        unit: The unit of privacy.
        neighbours: "add_remove" or "replace_one".
        units: The number of units that may change together.
        unchecked: Whether an unreadable value could have made the release fail, because no check of the data is on record.
    """

    promise: Budget
    unit: str
    neighbours: str
    units: int = 1
    unchecked: bool = False

    @classmethod
    def of(cls, price: Budget, *, unit: str, neighbours: str, units: int = 1, unchecked: bool = False) -> "Guarantee":
        """The guarantee that a price buys.

        Args:
            price: The price.
            unit: The unit of privacy.
            neighbours: The neighbour relation.
            units: The number of units that it protects together.
            unchecked: Whether an unreadable value could make the release fail.

        Returns:
            The guarantee.

        Raises:
            ParameterError: The price is no budget, an estimate for instance.
        """
        if not isinstance(price, Budget):
            raise ParameterError("price", price, "must be a target", remedy='for instance gdp(1) or approx(1, "1e-6")')
        return cls(promise=price, unit=unit, neighbours=neighbours, units=units, unchecked=unchecked)

    def whole(self) -> "Composition":
        """The promise as its worst case: certified delta(eps), eps(delta), T(alpha), advantage and odds come from it.

        >>> from neartwin.accounting.budgets import gdp
        >>> promised = Guarantee.of(gdp(1), unit="id", neighbours="add_remove").whole()
        >>> 4.886554117462212 in promised.epsilon("1e-6")
        True
        """
        return whole_of(self.promise)

    @property
    def advantage(self) -> float:
        """Upper bound on an attacker's true positive rate less false positive rate, total variation.

        It is delta + (1 - delta) a. For pure privacy a = tanh(eps/2) (Wasserman, Zhou 2010; Kairouz, Oh, Viswanath 2015). For
        mu-GDP a = 2 Phi(mu/2) - 1. For a Renyi curve it is the least of its conversion and of sqrt(1 - e^-KL) (Bretagnolle,
        Huber 1979). The KL divergence is at most that of any order.
        """
        if isinstance(self.promise, Advantage):
            return min(1.0, math.nextafter(float(self.promise.value), math.inf))
        value = self.whole().advantage().upper
        if isinstance(self.promise, Zcdp | Rdp):  # each bounds the KL divergence too
            divergence = self.promise.rho if isinstance(self.promise, Zcdp) else self.promise.epsilon
            by_kl = math.sqrt(-math.expm1(-float(divergence) * (1 + 1e-12))) * (1 + 1e-12)
            delta = float(self.delta)
            value = min(value, delta * (1 + 1e-12) + (1 - delta) * by_kl * (1 + 1e-12))
        return min(1.0, math.nextafter(value, math.inf))

    @property
    def best_guess(self) -> float:
        """Upper bound on how often someone who starts at 50 % can be right: (1 + advantage) / 2.

        >>> from neartwin.accounting.budgets import pure
        >>> round(Guarantee.of(pure(1), unit="id", neighbours="add_remove").best_guess, 4)
        0.7311
        """
        return min(1.0, math.nextafter((1 + self.advantage) / 2, math.inf))

    @property
    def delta(self) -> Fraction:
        """The probability with which everything may be revealed; 0 where the currency has none."""
        return self.promise.parts.get("delta", Fraction(0))

    @property
    def protected(self) -> str:
        """The word for one unit in a sentence."""
        return "row" if self.unit == "(each row)" else self.unit

    @property
    def symbols(self) -> str:
        """The promise in letters: "ε = 0.5, δ = 1e-06", "μ = 0.2"."""
        return ", ".join(f"{_SYMBOLS[name]} = {float(value):.4g}" for name, value in self.promise.parts.items())

    def describe(self) -> str:
        """The guarantee as a sentence, its percentage rounded up."""
        percent = min(100.0, math.ceil(self.best_guess * 10_000) / 100)
        what, several = self.protected, self.units > 1
        if self.neighbours == "replace_one":
            bet = f"which of two sets of values {f'up to {self.units} {what} together have' if several else f'one {what} has'}"
        else:
            bet = f"whether {f'up to {self.units} {what} together are' if several else f'one {what} is'} in the data"
        return (
            f"Someone betting on {bet}, who starts at 50 % and knows everything else, can get to at most {percent:g} % "
            f"by looking at this.{_UNCHECKED * self.unchecked}"
        )

    def __str__(self) -> str:
        amounts = ", ".join(f"{name} = {float(value):g}" for name, value in self.promise.parts.items())
        relation = "adding or removing" if self.neighbours == "add_remove" else "replacing"
        whom = f"up to {self.units} {self.protected} together" if self.units > 1 else f"one {self.protected}"
        return f"{amounts} for {relation} {whom}"

    def as_dict(self) -> dict[str, str]:
        """As text that `from_dict` reads back; pure and (epsilon, delta) promises have no "kind"."""
        scope = {"unit": self.unit, "neighbours": self.neighbours}
        scope |= {"units": str(self.units)} if self.units > 1 else {}
        scope |= {"unchecked": "true"} if self.unchecked else {}
        if isinstance(self.promise, Pure | Approx):
            return {"epsilon": str(self.promise.epsilon), "delta": str(self.delta)} | scope
        kind = next(name for name, kind_of in _KINDS.items() if kind_of is type(self.promise))
        amounts = {field.name: str(getattr(self.promise, field.name)) for field in fields(self.promise)}
        return {"kind": kind} | amounts | scope

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> "Guarantee":
        """The guarantee that `as_dict` wrote.

        >>> from neartwin.accounting.budgets import gdp
        >>> one = Guarantee.of(gdp("0.1", "1e-9"), unit="id", neighbours="replace_one")
        >>> Guarantee.from_dict(one.as_dict()) == one
        True
        """
        parts = dict(written)
        scope: dict[str, Any] = {"unit": str(parts.pop("unit")), "neighbours": str(parts.pop("neighbours"))}
        scope |= {"units": int(parts.pop("units"))} if "units" in parts else {}
        scope |= {"unchecked": parts.pop("unchecked") == "true"} if "unchecked" in parts else {}
        kind = parts.pop("kind", None)
        amounts = {name: Fraction(value) for name, value in parts.items()}
        if kind is not None:
            return cls(promise=_KINDS[kind](**amounts), **scope)
        promise = Approx(**amounts) if amounts["delta"] else Pure(amounts["epsilon"])
        return cls(promise=promise, **scope)


def whole_of(promise: Budget) -> "Composition":
    """The worst mechanism of a promise, as the certified engine takes it.

    Errors: `PrivacyError` for an advantage alone, which bounds one number of the curve and not the curve.
    """
    from neartwin import losses

    delta = Fraction(0) if isinstance(promise, Pure) else promise.delta
    parts: list[losses.Composition]
    match promise:
        case Pure(epsilon=epsilon) | Approx(epsilon=epsilon):
            parts = [1 * losses.Approx(epsilon=epsilon, delta=delta)]
            delta = Fraction(0)
        case Zcdp(rho=rho):
            parts = [1 * losses.ZeroConcentrated(rho=rho)] if rho else []
        case Rdp(order=order, epsilon=epsilon):
            parts = [1 * losses.Renyi(curve=((order, epsilon),))]
        case Gdp(mu=mu):
            parts = [1 * losses.Gaussian(mu=mu)] if mu else []
        case Mixed(epsilon=epsilon, mu=mu):
            parts = [1 * losses.Pure(epsilon=epsilon)] if epsilon else []
            parts += [1 * losses.Gaussian(mu=mu)] if mu else []
        case Advantage():
            raise PrivacyError(
                "an advantage bounds no whole curve; open an account with it and read the account's promise"
            )
        case _:
            assert_never(promise)
    if delta:
        parts.append(1 * losses.Leak(delta=delta))
    return losses.compose(parts or [losses.Approx(epsilon=0, delta=0)])
