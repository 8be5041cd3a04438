"""The cost and the expected errors of a plan, before anything is spent."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import neartwin.ledger as books
from neartwin.accounting.budgets import Budget
from neartwin.interactive import shown_as_text
from neartwin.statistics.base import ExpectedError


@shown_as_text
@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The cost and the expected errors of a plan. It follows from the plan and the account, not from rows, so it is free.

    Attributes:
        price: The price.
        before: The budget left now, by pool, exact.
        after: The budget left after the release, by pool, exact.
        errors: The expected error of each statistic.
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
    """The preview of a price against the budget left in an account now.

    Args:
        book: The account in the ledger.
        price: The price.
        errors: The expected errors.

    Returns:
        The preview.
    """
    before, amounts = book.remaining, book.rule.amounts(book.price(price))
    after = {pool: left - amounts[pool] for pool, left in before.items()}
    return Preview(price=price, before=before, after=after, errors=tuple(errors))
