"""What a plan will cost and how far off it will be, before anything is spent."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import neartwin.ledger as books
from neartwin.accounting.budgets import Budget
from neartwin.statistics.base import ExpectedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a plan will cost and how far off it will be. Free: it follows from the plan and the account, not from rows.

    before, after: what the account has left, by pool, exact. affordable: whether the account can pay now.
    """

    price: Budget
    before: dict[str, Fraction]
    after: dict[str, Fraction]
    errors: tuple[ExpectedError, ...]

    @property
    def affordable(self) -> bool:
        """Whether every pool stays at 0 or above."""
        return all(amount >= 0 for amount in self.after.values())

    def __str__(self) -> str:
        left = ", ".join(
            f"{pool} {float(amount):.6g} -> {float(self.after[pool]):.6g}"
            for pool, amount in self.before.items()
            if amount or self.after[pool]
        )
        lines = [f"costs {self.price}", f"budget left: {left}" + ("" if self.affordable else "  (not enough)")]
        lines += [f"{error.name}: {error.says} ({error.confidence:.0%})" for error in self.errors]
        return "\n".join(lines)


def preview_of(book: books.Account, price: Budget, errors: Iterable[ExpectedError]) -> Preview:
    """The preview of a price against what is left in an account now."""
    before, amounts = book.remaining, book.rule.amounts(book.price(price))
    after = {pool: left - amounts[pool] for pool, left in before.items()}
    return Preview(price=price, before=before, after=after, errors=tuple(errors))
