"""The values of a ledger's interface: frozen, with no database behind them.

Amounts are exact `Fraction`s in each pool's own unit, by pool name. The ledger stores and compares plan digests,
snapshots and documents, and reads nothing in them. `Rule` is an account's filter as the ledger stores it: a kind, named
pools, and vectors of whole numbers that add.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from textwrap import shorten

from neartwin.accounting.budgets import Budget, Rdp, Zcdp
from neartwin.accounting.filters import Filter, Pool, filter_for
from neartwin.checks import integer, one_of, text
from neartwin.errors import LedgerError, ParameterError
from neartwin.interactive import aligned, html_table, shown_as_text
from neartwin.ledger.records import Opened, Price

Amounts = Mapping[str, Fraction]
RELATIONS = ("add_remove", "replace_one")
_HASH_LETTERS = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The people that an account protects. One population has one account, whatever file or table shows it today.

    Attributes:
        name: The name of the population and of its account.
        unit: The column that names a person, or the caller's own name for rows as units.
        relation: The neighbour relation, "add_remove" or "replace_one".
        source: The place of the rows, or "" if there is no lasting place. A source belongs to one population
            permanently.
        parts: The single files of a source of several. Each belongs to the population, like the source.

    >>> Population(name="purchases", unit="customer_id", relation="add or remove")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: relation='add or remove' must be one of 'add_remove', 'replace_one'
    """

    name: str
    unit: str
    relation: str
    source: str = ""
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        text(name=self.name, at_least=1, at_most=200)
        text(unit=self.unit, at_least=1, at_most=200)
        one_of(RELATIONS, relation=self.relation)
        for source in (self.source, *self.parts):
            text(source=source, at_least=0, at_most=4000)


@dataclass(frozen=True, slots=True)
class Head:
    """The newest record's position and hash. Whoever keeps it can later prove a rollback.

    Attributes:
        position: The position; the first record has 1.
        hash: 64 hexadecimal digits.

    >>> Head.parse(str(Head(2, "ab" * 32))) == Head(2, "ab" * 32)
    True
    >>> Head.parse("2:xyz")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: hash='xyz' must be 64 hexadecimal digits; copy the whole head, position:hash
    """

    position: int
    hash: str

    def __post_init__(self) -> None:
        integer(at_least=1, position=self.position)
        if len(self.hash) != 64 or not _HASH_LETTERS.issuperset(self.hash):
            remedy = "copy the whole head, position:hash"
            raise ParameterError("hash", self.hash, "must be 64 hexadecimal digits", remedy=remedy)

    def __str__(self) -> str:
        return f"{self.position}:{self.hash}"

    @classmethod
    def parse(cls, written: str) -> "Head":
        """The head that `str` wrote.

        Args:
            written: The text position:hash.

        Returns:
            The head.

        Raises:
            ParameterError: The text is no head.
        """
        position, _, digest = written.strip().partition(":")
        if not (position.isascii() and position.isdigit() and len(position) < 20):
            raise ParameterError("head", written[:100], "must be position:hash", remedy="copy the whole head")
        return cls(int(position), digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The right to run one plan on one snapshot once. Its price is already spent, durably.

    Attributes:
        account: The name of the account.
        position: The position of the reservation's record.
        hash: The hash of that record. A ticket from a history that was rolled back fits no record.
        plan_digest: The digest of the plan.
        snapshot: The name of the snapshot.
        price: The price, by pool.
        before: The amounts left before the price, read in the same transaction. Empty for a ticket that was looked up.
        caps: The account's caps in that transaction. Empty for a ticket that was looked up.
        checked: Whether the owner read every value of the snapshot before, as `Account.check` records.
    """

    account: str
    position: int
    hash: str
    plan_digest: str
    snapshot: str
    price: Amounts = field(hash=False)
    before: Amounts = field(default_factory=dict, hash=False, compare=False)
    caps: Amounts = field(default_factory=dict, hash=False, compare=False)
    checked: bool = field(default=False, hash=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A release that was paid for and settled. Serving it again is free.

    Attributes:
        position: The position of the record that settled it.
        hash: The hash of that record.
        reserved: The position of the reservation that paid.
        time: UTC, ISO 8601.
        payers: The holders whose allotments paid.
        price: Its price at the time, by pool.
        digest: The SHA-256 of the document.
        document: The stored bytes.
    """

    position: int
    hash: str
    reserved: int
    time: str
    payers: tuple[str, ...]
    price: Amounts = field(hash=False)
    digest: str
    document: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """A part of an account that limits one holder, such as "analyst:ada" or "project:census".

    An allotment limits and guarantees nothing. Allotments may add up to more than the account, whose own cap rules over
    all of them.

    Attributes:
        account: The name of the account.
        holder: The name of the holder.
        caps: The most that the holder may spend, by pool.
        spent: The amount that the holder has spent, by pool.
    """

    account: str
    holder: str
    caps: Amounts = field(hash=False)
    spent: Amounts = field(hash=False)

    @property
    def remaining(self) -> dict[str, Fraction]:
        """The amount that the holder may still spend, by pool, if the account has it."""
        return {pool: cap - self.spent[pool] for pool, cap in self.caps.items()}


@shown_as_text
@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record as a reader sees it. Fields without a use for the kind are empty.

    Attributes:
        position: The position of the record, which alone gives the order.
        hash: Its hash.
        kind: "open", "source", "raise", "allot", "reserve", "refuse", "settle", "fail" or "act".
        time: UTC, ISO 8601, from this machine's clock.
        account: The name of the account.
        state: "reserved", "settled" or "failed" for a reservation; "refused" for a refusal.
        price: The price of a reservation or refusal, by pool.
        caps: The new caps of an opening, raise or allotment, by pool.
        plan_digest: The digest of the plan.
        snapshot: The name of the snapshot.
        description: The question in words, or the act of a curator.
        payers: The holders whose allotments paid.
        pool: The pool that refused.
        source: The place of the rows.
        reserved: The position of the reservation that a settle or fail closes, else 0.
        who: The person who acted.
    """

    position: int
    hash: str
    kind: str
    time: str
    account: str
    state: str = ""
    price: Amounts = field(default_factory=dict, hash=False)
    caps: Amounts = field(default_factory=dict, hash=False)
    plan_digest: str = ""
    snapshot: str = ""
    description: str = ""
    payers: tuple[str, ...] = ()
    pool: str = ""
    source: str = ""
    reserved: int = 0
    who: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The parts that a line shows."""
        amounts = ", ".join(f"{pool} {amount}" for pool, amount in (self.price or self.caps).items())
        what = self.description or self.source or (f"record {self.reserved}" if self.reserved else "")
        return (f"record {self.position}", self.time[:19], self.kind, self.account, what, amounts, self.state)

    def __str__(self) -> str:
        return " | ".join(filter(None, self.cells))


class History(tuple[Entry, ...]):
    """Records of an account, oldest first. A table shows the newest 60."""

    __slots__ = ()

    def _lines(self) -> list[tuple[str, ...]]:
        header = ("", "when (UTC)", "kind", "account", "question or place", "amounts", "state")
        return [header, *(tuple(shorten(cell, 60) for cell in entry.cells) for entry in self[-60:])]

    def __repr__(self) -> str:
        return "\n".join(aligned(self._lines(), 7))

    def _repr_html_(self) -> str:
        return html_table(self._lines(), 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """An act of a curator, as the chain of records has it.

    Attributes:
        position: The position of the record.
        hash: Its hash.
        time: UTC, ISO 8601.
        account: The account that the act is about, or "".
        who: The person who acted.
        what: The kind of act.
        body: JSON, without places and secrets.
    """

    position: int
    hash: str
    time: str
    account: str
    who: str
    what: str
    body: str


@dataclass(frozen=True, slots=True)
class Rule:
    """An account's rule of composition without its caps. It never changes; curators may raise the caps.

    Attributes:
        kind: The name of the rule.
        pools: The pools, each with the exact size of one unit.

    >>> from neartwin.accounting.budgets import pure
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
        """The amounts of a vector with the names of their pools.

        Args:
            amounts: The whole numbers, in the order of the pools.

        Returns:
            The price.
        """
        return tuple((pool.name, amount) for pool, amount in zip(self.pools, amounts, strict=True))

    def amounts(self, price: Price) -> dict[str, Fraction]:
        """A vector in the pools' own units, exact, by pool."""
        return {pool.name: amount * pool.unit for pool, (_, amount) in zip(self.pools, price, strict=True)}

    def price(self, spend: Budget, caps: Price | None = None) -> Price:
        """The price of a spend, rounded up.

        Args:
            spend: The spend.
            caps: The account's caps. A spend for which `fits` is true sets aside a part of their delta.

        Returns:
            Whole numbers by pool.

        Raises:
            LedgerError: The price would give budget back, or is 0.
            PrivacyError: The rule cannot express the spend.
        """
        owed = self.filter(caps or self.named((0,) * len(self.pools))).price(spend)
        if not all(type(amount) is int and amount >= 0 for amount in owed) or not any(owed):
            raise LedgerError(f"the price {owed!r} of {spend} must have whole numbers of at least 0, not all 0")
        return self.named(owed)

    def fits(self, spend: Budget) -> bool:
        """Whether the price of this spend depends on the caps: Renyi bounds in Gaussian accounts."""
        return isinstance(spend, Zcdp | Rdp) and self.kind in ("gdp", "three pools")

    def caps(self, target: Budget) -> Price:
        """A budget as caps, rounded down.

        Args:
            target: The budget.

        Returns:
            Whole numbers by pool.

        Raises:
            LedgerError: The budget has another rule.
        """
        terms = filter_for(target)
        if Rule.of(terms) != self:
            raise LedgerError(
                f"{target} is of kind {terms.kind!r}, and the account of kind {self.kind!r}; give a budget of the account's kind"
            )
        return self.named(terms.caps)

    def written(self, price: Price) -> str:
        """The amounts as text for an error: "epsilon=0.5, delta=1e-06".

        Args:
            price: The amounts.

        Returns:
            The text.
        """
        return ", ".join(f"{pool}={float(amount):g}" for pool, amount in self.amounts(price).items())


def vector(price: Price) -> tuple[int, ...]:
    """The whole numbers of a price, without their names."""
    return tuple(amount for _, amount in price)
