"""The records read from the first to the last, by their meaning alone.

The sums of a replay share no code with the index that reservations are checked against, so an index that went wrong, or
was changed by hand, cannot hide.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from neartwin.ledger import codec
from neartwin.ledger.codec import Price, Record
from neartwin.ledger.store import AccountRow, Reading, ReservationRow, ask_digest


@dataclass(slots=True)
class _Purse:
    """Caps and spent of an account or an allotment so far."""

    caps: dict[str, int]
    spent: dict[str, int]

    @classmethod
    def empty(cls, caps: Price) -> "_Purse":
        return cls(dict(caps), {pool: 0 for pool, _ in caps})

    def pays(self, price: Price) -> bool:
        """Add the price; whether it was one of these pools and still fits."""
        fits = [pool for pool, _ in price] == list(self.caps)
        for pool, amount in price:
            self.spent[pool] = self.spent.get(pool, 0) + amount
            fits = fits and amount >= 0 and self.spent[pool] <= self.caps[pool]
        return fits

    def differs(self, row: AccountRow) -> bool:
        return (dict(row.caps), dict(row.spent)) != (self.caps, self.spent)


@dataclass(slots=True)
class Replay:
    """The state that the records read so far add up to; `broken` says which rule a record breaks, or ""."""

    opened: dict[str, int] = field(default_factory=dict)
    purses: dict[str, _Purse] = field(default_factory=dict)
    allotted: dict[tuple[str, str], _Purse] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    reservations: dict[int, ReservationRow] = field(default_factory=dict)
    asks: dict[str, int] = field(default_factory=dict)  # settled asks, to the reservation settled first
    keys: set[tuple[str, str]] = field(default_factory=set)
    documents: dict[int, tuple[str, int]] = field(default_factory=dict)
    _asked: dict[int, str] = field(default_factory=dict)

    def broken(self, record: Record) -> str:
        """Take the next record in; the rule it breaks, in words, or "" when the ledger could have written it."""
        event, position = record.event, record.position
        if isinstance(event, codec.Begun):
            return "" if position == 1 else "a ledger begins once"
        if position == 1:
            return "the first record must begin the ledger"
        if isinstance(event, codec.Opened):
            return self._open(position, event)
        if isinstance(event, codec.Acted):
            return ""
        if event.account not in self.purses:
            return f"no account {event.account!r} was opened"
        match event:
            case codec.Sourced(account=account, source=source):
                return self._source(account, source)
            case codec.Raised(account=account, caps=caps):
                return self._raise(account, caps)
            case codec.Allotted():
                return self._allot(event)
            case codec.Reserved():
                return self._reserve(position, event)
            case codec.Refused():
                return ""
            case codec.Settled() | codec.Failed():
                return self._close(position, event)

    def _open(self, position: int, event: codec.Opened) -> str:
        if event.account in self.purses:
            return f"account {event.account!r} was opened before"
        self.opened[event.account] = position
        self.purses[event.account] = _Purse.empty(event.caps)
        if [name for name, _ in event.pools] != [name for name, _ in event.caps] or any(
            cap < 0 for _, cap in event.caps
        ):
            return "caps that are not of its pools"
        return self._source(event.account, event.source) if event.source else ""

    def _source(self, account: str, source: str) -> str:
        before = self.sources.setdefault(source, account)
        return "" if before == account else f"the source belongs to {before!r}"

    def _raise(self, account: str, caps: Price) -> str:
        purse = self.purses[account]
        raised = list(dict(caps)) == list(purse.caps) and all(cap >= purse.caps[pool] for pool, cap in caps)
        purse.caps = dict(caps)
        return "" if raised else "a raise that lowers a cap"

    def _allot(self, event: codec.Allotted) -> str:
        purse = self.allotted.setdefault((event.account, event.holder), _Purse.empty(event.caps))
        purse.caps = dict(event.caps)
        same = list(purse.caps) == list(self.purses[event.account].caps)
        enough = same and all(0 <= purse.spent[pool] <= cap for pool, cap in event.caps)
        return "" if enough else "it allots less than was spent, or in other pools"

    def _reserve(self, position: int, event: codec.Reserved) -> str:
        faults = [] if self.purses[event.account].pays(event.price) else ["it spends more than the account had left"]
        for holder in event.holders:
            purse = self.allotted.get((event.account, holder))
            if purse is None or not purse.pays(event.price):
                faults.append(f"it spends more than {holder!r} had left")
        if event.key and (event.account, event.key) in self.keys:
            faults.append("its key was used before")
        self.keys.add((event.account, event.key))
        self._asked[position] = ask_digest(event.account, event.plan_digest, event.snapshot)
        self.reservations[position] = ReservationRow(
            position=position, account=event.account, key=event.key or None, state="reserved", closed=None
        )
        return "; ".join(faults)

    def _close(self, position: int, event: codec.Settled | codec.Failed) -> str:
        row = self.reservations.get(event.reserved)
        if row is None or row.account != event.account or row.state != "reserved":
            return f"there is no open reservation {event.reserved} to close"
        state = "failed"
        if isinstance(event, codec.Settled):
            state = "settled"
            self.documents[position] = (event.digest, event.size)
            self.asks.setdefault(self._asked[event.reserved], event.reserved)
        self.reservations[event.reserved] = ReservationRow(
            position=row.position, account=row.account, key=row.key, state=state, closed=position
        )
        return ""

    def disagreements(self, page: Reading) -> Iterator[tuple[int, str]]:
        """Where the index says other than the records: a position (0 for none) and what differs."""
        names = page.account_names()
        if set(names) != set(self.opened):
            yield 0, "the index lists other accounts than the records"
        for name in set(names) & set(self.opened):
            if page.opened(name) != self.opened[name] or self.purses[name].differs(page.account(name)):
                yield self.opened[name], f"the index of account {name!r} says other than its records"
            rows: Mapping[str, AccountRow] = page.allotments(name)
            known = {holder: purse for (account, holder), purse in self.allotted.items() if account == name}
            if set(rows) != set(known) or any(known[holder].differs(row) for holder, row in rows.items()):
                yield self.opened[name], f"the index of the allotments of {name!r} says other than its records"
            expected = {position: row for position, row in self.reservations.items() if row.account == name}
            if page.reservations(name) != expected:
                yield self.opened[name], f"the index of the reservations of {name!r} says other than its records"
        if any(page.owner_of(source) != account for source, account in self.sources.items()):
            yield 0, "the index of sources says other than the records"
        for ask, position in self.asks.items():
            row = page.answered(ask)
            if row is None or row.position != position:
                yield position, f"the index does not find the answer paid for by record {position}"
