"""What a ledger takes and gives back: frozen values with no database behind them.

Amounts are exact `Fraction`s in each pool's own unit, by pool name. Plan digests, snapshots and documents are opaque
here: the ledger compares them and stores them, and reads nothing in them.

A filter as the ledger keeps it: a kind, named pools, and vectors of whole numbers that add.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from neartwin.accounting.budgets import Budget, Rdp, Zcdp
from neartwin.accounting.filters import Filter, Pool, filter_for
from neartwin.checks import integer, one_of, text
from neartwin.errors import LedgerError, ParameterError
from neartwin.ledger.records import Opened, Price

Amounts = Mapping[str, Fraction]
RELATIONS = ("add_remove", "replace_one")
_HASH_LETTERS = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The people an account protects: one account a population, whatever file or table shows them today.

    unit: the column that names a person (or a name of the caller's own for rows as units). relation: what neighbours
    are, "add_remove" or "replace_one". source: where the people were read from, or "" when there is no lasting place;
    a source belongs to one population for ever.

    >>> Population(name="purchases", unit="customer_id", relation="add or remove")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: relation='add or remove' must be one of 'add_remove', 'replace_one'
    """

    name: str
    unit: str
    relation: str
    source: str = ""

    def __post_init__(self) -> None:
        text(name=self.name, at_least=1, at_most=200)
        text(unit=self.unit, at_least=1, at_most=200)
        one_of(RELATIONS, relation=self.relation)
        text(source=self.source, at_least=0, at_most=4000)


@dataclass(frozen=True, slots=True)
class Head:
    """The newest record's position (the first is 1) and hash: whoever keeps it can later prove a rollback.

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
        """The head that `str` wrote."""
        position, _, digest = written.strip().partition(":")
        if not (position.isascii() and position.isdigit()):
            raise ParameterError("head", written, "must be position:hash", remedy="copy the whole head")
        return cls(int(position), digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The right to run one plan on one snapshot once: its price is already spent, durably.

    position, hash: of the reservation's record; a ticket from a history that was rolled back fits no record. before, caps: what
    the account had left, and had in all, when the price was taken, in the same transaction, whoever else spends; empty for a
    ticket that was found again.
    """

    account: str
    position: int
    hash: str
    plan_digest: str
    snapshot: str
    price: Amounts = field(hash=False)
    before: Amounts = field(default_factory=dict, hash=False, compare=False)
    caps: Amounts = field(default_factory=dict, hash=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A release that was paid for and settled: served again for nothing.

    position, hash: of the record that settled it. reserved: the position of the reservation that paid.
    price: what it cost then. document: the bytes that were stored. digest: their SHA-256. time: UTC, ISO 8601.
    """

    account: str
    position: int
    hash: str
    reserved: int
    time: str
    plan_digest: str
    snapshot: str
    price: Amounts = field(hash=False)
    digest: str
    document: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """A part of an account set aside as a limit for one holder, such as "analyst:ada" or "project:census".

    An allotment limits, it guarantees nothing: allotments may add up to more than the account, whose own cap rules
    over all of them.
    """

    account: str
    holder: str
    caps: Amounts = field(hash=False)
    spent: Amounts = field(hash=False)

    @property
    def remaining(self) -> dict[str, Fraction]:
        """What the holder may still spend, if the account has it."""
        return {pool: cap - self.spent[pool] for pool, cap in self.caps.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record as a reader sees it; fields that a kind has no use for are empty.

    kind: "open", "source", "raise", "allot", "reserve", "refuse", "settle", "fail" or "act". time: UTC, ISO 8601, from this
    machine's clock; order is by position alone. state: of a reservation, "reserved", "settled" or "failed"; "refused"
    for a refusal. price: of a reservation or refusal. caps: the new ones of an opening, raise or allotment.
    reserved: the position of the reservation that a settle or fail closes, else 0. pool: which one refused. who: of an act,
    who did it; its description is what.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What somebody in charge did, as it stands in the chain of records.

    account: which one it is about, or "". body: JSON, without places and secrets. time: UTC, ISO 8601.
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
    """An account's rule of composition without its caps, which curators raise. It never changes.

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
        """A vector with its pools' names."""
        return tuple((pool.name, amount) for pool, amount in zip(self.pools, amounts, strict=True))

    def amounts(self, price: Price) -> dict[str, Fraction]:
        """A vector in the pools' own units, exact."""
        return {pool.name: amount * pool.unit for pool, (_, amount) in zip(self.pools, price, strict=True)}

    def price(self, spend: Budget, caps: Price | None = None) -> Price:
        """What a spend costs, rounded up; whatever the filter says, a price never gives budget back.

        caps: the account's, which a spend that must be fitted, `fits`, sets a part of the delta aside from.
        """
        owed = self.filter(caps or self.named((0,) * len(self.pools))).price(spend)
        if not all(type(amount) is int and amount >= 0 for amount in owed) or not any(owed):
            raise LedgerError(f"the price {owed!r} of {spend} is none: whole numbers, not below 0 and not all 0")
        return self.named(owed)

    def fits(self, spend: Budget) -> bool:
        """Whether the price of this spend depends on the caps: Renyi bounds in Gaussian accounts."""
        return isinstance(spend, Zcdp | Rdp) and self.kind in ("gdp", "three pools")

    def caps(self, target: Budget) -> Price:
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
