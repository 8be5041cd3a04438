"""Odometers: what a fully adaptive series has cost so far, when no cap was set beforehand.

A filter promises its cap, and the series may be stopped or read at any moment before it is reached. An odometer runs the
filters of a fixed ladder of caps at once, each twice the one before in every pool, and reports the lowest rung that covers
what was spent: everything answered until that rung is passed has that rung's guarantee. The ladder is fixed before the
first answer, which makes this a theorem (Feldman, Zrnic 2021, section 4; Whitehouse et al. 2023). Reporting the exact sum as a
guarantee would not be one, except of pure privacy, where the sum bounds the loss on every path.

The state is one whole number a pool: the thousandth answer costs what the first did.
"""

from dataclasses import dataclass
from fractions import Fraction

from neartwin.accounting.filters import Filter, filter_for
from neartwin.accounting.targets import Target
from neartwin.errors import PrivacyError

BY_PATH = "pure"  # the sum itself is a guarantee


@dataclass(frozen=True, slots=True)
class Odometer:
    """What a series of adaptively chosen spends has cost. first: the lowest rung; used: sums in the pools' units.

    >>> from neartwin.accounting.targets import gdp
    >>> read = odometer(gdp("0.5", "1e-9"))
    >>> for _ in range(10):
    ...     read = read.add(gdp("0.2"))
    >>> str(read.spent), str(read.promise)
    ('mu=0.632456', 'mu=0.707107, delta=2e-09')
    """

    first: Filter
    used: tuple[int, ...]

    def add(self, spend: Target) -> "Odometer":
        """The odometer after one more answer; call it before the answer is given. `PrivacyError` as for a filter."""
        price = self.first.price(spend)
        for pool, cap, more in zip(self.first.pools, self.first.caps, price, strict=True):
            if more and not cap:
                raise PrivacyError(
                    f"this odometer has no {pool.name} on any rung to pay {spend} with; start it with {pool.name} above 0"
                )
        return Odometer(self.first, tuple(sum(pair) for pair in zip(self.used, price, strict=True)))

    @property
    def spent(self) -> Target:
        """The sums themselves; a guarantee of pure privacy only."""
        return self.first.promise(self.used)

    @property
    def rung(self) -> int:
        """How often the first caps are doubled to cover what was spent."""
        most = 0
        for cap, used in zip(self.first.caps, self.used, strict=True):
            if used > cap:  # and cap > 0: `add` refuses a pool without a rung
                most = max(most, ((used + cap - 1) // cap - 1).bit_length())
        return most

    @property
    def promise(self) -> Target:
        """The guarantee of everything so far."""
        if self.first.kind == BY_PATH:
            return self.spent
        return self.first.promise(tuple(cap << self.rung for cap in self.first.caps))

    @property
    def amounts(self) -> dict[str, Fraction]:
        """What was spent by pool, exact."""
        return {pool.name: used * pool.unit for pool, used in zip(self.first.pools, self.used, strict=True)}


def odometer(first: Target) -> Odometer:
    """An odometer at 0 whose lowest rung is `first`; a pool that is 0 there can take nothing, on any rung.

    first: small enough to be the first report one would want; doubling then loses at most a factor 2 in the pool that fills
    fastest. The kind of target fixes the currency. Errors: `PrivacyError` for what opens no account.
    """
    ladder = filter_for(first)
    return Odometer(ladder, (0,) * len(ladder.caps))
