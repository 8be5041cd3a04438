"""What a ledger takes and gives back: frozen values with no database behind them.

Amounts are exact `Fraction`s in each pool's own unit, by pool name. Plan digests, snapshots and documents are opaque
here: the ledger compares them and stores them, and reads nothing in them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from neartwin.checks import integer, one_of, text
from neartwin.errors import ParameterError

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
    holders: tuple[str, ...] = ()
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
