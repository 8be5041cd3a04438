"""Values of a release: one statistic of every group with its bar, where it comes from, and what a plan of one will cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeVar

import neartwin.ledger as books
from neartwin.accounting.budgets import Budget
from neartwin.errors import ParameterError
from neartwin.interactive import at_a_prompt, shown_as_text, suggested
from neartwin.statistics.base import ExpectedError
from neartwin.tables.types import ColumnType, Key, of_code

_SHOWN, _FINEST = 5, 2**52
_LONGER = 1.25  # times the bar of the noise alone, from which on both are shown


@at_a_prompt("statistic")
@shown_as_text
@dataclass(frozen=True, slots=True, kw_only=True)
class Statistic:
    """One statistic of every group: values with error bars.

    Each bar alone holds with probability at least the release's confidence, or its own confidence if it has one. It holds
    the bounded statistic, and what limits and clipping took as far as that was measured. A bar of the noise alone, where it is
    another, is as sure.

    Attributes:
        name: The name of the column.
        what: The statistic in words.
        values: The values, (groups,); NaN where SQL has NULL, as in a difference to the group before the first.
        lower: The lower ends of the bars, (groups,); None where nothing bounds a bar.
        upper: The upper ends of the bars, (groups,); None where nothing bounds a bar.
        confidence: The confidence of the bars; None for the release's, where bars are as drawn.
        kind: The type that values and ends stand for: a date is its days since 1970-01-01.
        noise: The lower and the upper ends of the bars of the noise alone, around the bounded statistic; None if no bar is
            longer than these.
    """

    name: str
    what: str
    values: tuple[float, ...]
    lower: tuple[float | None, ...]
    upper: tuple[float | None, ...]
    confidence: float | None = None
    kind: ColumnType = ColumnType.NUMBER
    noise: tuple[tuple[float | None, ...], tuple[float | None, ...]] | None = None

    @property
    def within_limits(self) -> "Statistic":
        """The statistic with the bars of the noise alone."""
        return self if self.noise is None else replace(self, lower=self.noise[0], upper=self.noise[1], noise=None)

    def meant(self, values: Sequence[float | None]) -> list[Any]:
        """Values or ends as dates, texts or numbers; None for NaN."""
        return [None if value is None or math.isnan(value) else of_code(self.kind, value) for value in values]

    def half_widths(self) -> list[float]:
        """Half of the bars' lengths, (groups,), infinite for open bars."""
        ends = zip(self.lower, self.upper, strict=True)
        return [math.inf if low is None or high is None else (high - low) / 2 for low, high in ends]

    def __str__(self) -> str:
        first = ", ".join(shown(self, place) for place in range(len(self.values))[:_SHOWN])
        more = ", ..." * (len(self.values) > _SHOWN)
        return f"{self.name} = {self.what} of {len(self.values):,} groups: {first}{more}"


def noise_bar(statistic: Statistic, place: int) -> tuple[float, ...]:
    """The ends of the bar of the noise alone; none where it is open, or the bar is hardly longer.

    Args:
        statistic: The statistic.
        place: The place of the group.
    """
    low, high, near = statistic.lower[place], statistic.upper[place], [one[place] for one in statistic.noise or ()]
    known = tuple(end for end in near if end is not None)
    longer = low is None or high is None or (len(known) == 2 and high - low > _LONGER * (known[1] - known[0]))
    return known if len(known) == 2 and longer else ()


def shown(statistic: Statistic, place: int) -> str:
    """A value with its bar: `12,345 ± 67`, or `3.2 (2.9 to 3.4)` if the bar is not symmetric.

    Where what limits and clipping took makes it much longer, ± is of the noise alone, and the bar stands behind it.

    Args:
        statistic: The statistic.
        place: The place of the group.

    Returns:
        The text.

    >>> shown(Statistic(name="n", what="count()", values=(1200,), lower=(1190,), upper=(1210,)), 0)
    '1,200 ± 10'
    >>> shown(Statistic(name="n", what="count()", values=(7,), lower=(0,), upper=(17,)), 0)
    '7 (0 to 17)'
    >>> noise = ((1190,), (1210,))
    >>> shown(Statistic(name="n", what="count()", values=(1200,), lower=(1190,), upper=(1310,), noise=noise), 0)
    '1,200 ± 10 (1,190 to 1,310)'
    """
    value, low, high = statistic.values[place], statistic.lower[place], statistic.upper[place]
    if statistic.kind is not ColumnType.NUMBER:
        return "{} ({} to {})".format(*(one or "''" for one in statistic.meant([value, low, high])))
    if math.isnan(value):
        return "(none)"
    whole = isinstance(value, int)
    if near := noise_bar(statistic, place):
        return f"{_bar(value, *near, whole=whole, even=True)} ({_ends(low, high, whole=whole)})"
    if low is None or high is None:
        return f"{_number(value, None)} ({_ends(low, high, whole=whole)})"
    return _bar(value, low, high, whole=whole)


def _bar(value: float, low: float, high: float, *, whole: bool, even: bool = False) -> str:
    """A value with its bar. The wider side is a valid bar, which stands where both are nearly even, or are to be."""
    digits = 0 if whole else _digits(high - low, max(abs(low), abs(high)))
    uneven = abs((high - value) - (value - low))
    even |= uneven <= 1e-9 * max(1.0, high - low) or (digits is not None and uneven <= 1.000001 * 10.0**-digits)
    wider = max(high - value, value - low)
    return f"{_number(value, digits)} {f'± {_number(wider, digits)}' if even else f'({_ends(low, high, whole=whole)})'}"


def _ends(low: float | None, high: float | None, *, whole: bool) -> str:
    if low is None or high is None:
        known = [f"at {word} {_number(end, None)}" for word, end in (("least", low), ("most", high)) if end is not None]
        return ", ".join(known) or "no bar is proven"
    digits = 0 if whole else _digits(high - low, max(abs(low), abs(high)))
    return f"{_number(low, digits)} to {_number(high, digits)}"


def _digits(width: float, largest: float) -> int | None:
    """How many decimals the width of a bar lets mean anything; None for four digits of the value, where these are as fine."""
    if width >= 0.1 or width <= largest / _FINEST:
        return 0 if width >= 20 else 1 if width >= 2 else 2 if width >= 0.1 else None
    return 1 - math.floor(math.log10(width / 2)) if 10 ** math.floor(math.log10(largest)) / 1000 > width / 2 else None


def _number(value: float, digits: int | None) -> str:
    return f"{value:,.4g}" if digits is None and abs(value) < 1000 else f"{value:,.{digits or 0}f}"


@shown_as_text
@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a release comes from: enough to judge it, nothing private.

    method: what was asked, bounds, mechanisms and expected errors as data; empty in documents older than certificates.
    """

    population: str
    snapshot: str
    plan: str
    explanation: str
    created: str
    version: str
    account: str
    position: int
    budget_before: Mapping[str, str]
    budget_after: Mapping[str, str]
    cap: Mapping[str, str]
    method: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        left = ", ".join(f"{pool} {before} -> {self.budget_after[pool]}" for pool, before in self.budget_before.items())
        made = f"asked of {self.population!r}, snapshot {self.snapshot}, at {self.created} with neartwin {self.version}"
        return f"{self.explanation}\n\n{made}\nrecord {self.position} of the account {self.account!r}: {left}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsTable:
    """Noisy statistics by group, already public, for post-processing.

    Attributes:
        group_columns: Names of the group columns.
        keys: The groups, in their public order, or sorted if they were discovered.
        statistics: One for each column, with (groups,) values.
        confidence: The confidence of every bar without its own.
        notes: Notes for the reader, one sentence or two each.
        provenance: The origin, with all facts needed to judge it.
        loss: The measured loss to limits; None where that was not measured.
    """

    group_columns: tuple[str, ...]
    keys: tuple[Key, ...]
    statistics: tuple[Statistic, ...]
    confidence: float
    notes: tuple[str, ...]
    provenance: Provenance
    loss: Mapping[str, Any] | None = None

    @property
    def discovered(self) -> bool:
        """Whether the groups were found, so that small ones are missing."""
        return "discovered" in str(self.provenance.method.get("question", {}).get("keys"))

    @property
    def asked_first(self) -> tuple[Statistic, ...]:
        """The numbers of questions that were asked first, $1, $2, ...: each is the same in all groups."""
        found = list[Statistic]()
        for i, (kind, *numbers) in enumerate(self.provenance.method.get("asked_first", ()), 1):
            values, lower, upper = ((number,) * len(self) for number in numbers)
            found.append(
                Statistic(name=f"${i}", what=f"${i}", values=values, lower=lower, upper=upper, kind=ColumnType(kind))
            )
        return tuple(found)

    def __getitem__(self, name: str) -> Statistic:
        """A statistic by name."""
        found = {one.name: one for one in (*self.statistics, *self.asked_first)}
        if name in found:
            return found[name]
        near = suggested(str(name), found) or next(iter(found), "")
        remedy = "write release.keys" if name in self.group_columns else f"write {near!r}"
        raise ParameterError("name", name, "must be one of " + ", ".join(found), remedy=remedy)

    def own_noise(self, name: str) -> float:
        """The half-width of a statistic's noise, by the method: infinite where groups share it or none is known.

        Args:
            name: The statistic.
        """
        method = self.provenance.method
        widths = [one["half_width"] for one in method.get("errors", ()) if one["name"] == name]
        shared = {"margins", "workload"} & set(method.get("question", ()))
        return math.inf if shared or not widths or widths[0] is None else float(Fraction(widths[0]))

    def __len__(self) -> int:
        return len(self.keys)


AnyTable = TypeVar("AnyTable", bound=StatisticsTable)


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
