"""A filter as the ledger keeps it: a kind, named pools, and vectors of whole numbers that add."""

from dataclasses import dataclass
from fractions import Fraction

from neartwin.accounting.filters import Filter, Pool, filter_for
from neartwin.accounting.targets import Rdp, Target, Zcdp
from neartwin.errors import LedgerError
from neartwin.ledger.codec import Opened, Price


@dataclass(frozen=True, slots=True)
class Rule:
    """An account's rule of composition without its caps, which curators raise. It never changes.

    >>> from neartwin.accounting.targets import pure
    >>> rule = Rule.of(filter_for(pure(1)))
    >>> rule.amounts(rule.price(pure("0.25")))
    {'epsilon': Fraction(1, 4)}
    """

    kind: str
    pools: tuple[Pool, ...]

    @classmethod
    def of(cls, written: Filter | Opened) -> "Rule":
        """The rule of a filter, or of the record that opened an account."""
        if isinstance(written, Filter):
            return cls(written.kind, written.pools)
        return cls(written.rule, tuple(Pool(name, unit) for name, unit in written.pools))

    def filter(self, caps: Price) -> Filter:
        """The filter with these caps."""
        return Filter(self.kind, self.pools, vector(caps))

    def named(self, amounts: tuple[int, ...]) -> Price:
        """A vector with its pools' names."""
        return tuple((pool.name, amount) for pool, amount in zip(self.pools, amounts, strict=True))

    def amounts(self, price: Price) -> dict[str, Fraction]:
        """A vector in the pools' own units, exact."""
        return {pool.name: amount * pool.unit for pool, (_, amount) in zip(self.pools, price, strict=True)}

    def price(self, spend: Target, caps: Price | None = None) -> Price:
        """What a spend costs, rounded up; whatever the filter says, a price never gives budget back.

        caps: the account's, which a spend that must be fitted, `fits`, sets a part of the delta aside from.
        """
        owed = self.filter(caps or self.named((0,) * len(self.pools))).price(spend)
        if not all(type(amount) is int and amount >= 0 for amount in owed) or not any(owed):
            raise LedgerError(f"the price {owed!r} of {spend} is none: whole numbers, not below 0 and not all 0")
        return self.named(owed)

    def fits(self, spend: Target) -> bool:
        """Whether the price of this spend depends on the caps: Renyi bounds in Gaussian accounts."""
        return isinstance(spend, Zcdp | Rdp) and self.kind in ("gdp", "three pools")

    def caps(self, target: Target) -> Price:
        """A target as caps, rounded down; `LedgerError` for a target of another rule."""
        wanted = filter_for(target)
        if Rule.of(wanted) != self:
            raise LedgerError(
                f"{target} is of kind {wanted.kind!r}, the account of kind {self.kind!r}; give one of its kind"
            )
        return self.named(wanted.caps)

    def written(self, price: Price) -> str:
        """A vector for a reader of an error: "epsilon=0.5, delta=1e-06"."""
        return ", ".join(f"{pool}={float(amount):g}" for pool, amount in self.amounts(price).items())


def vector(price: Price) -> tuple[int, ...]:
    """The whole numbers of a price, without their names."""
    return tuple(amount for _, amount in price)
