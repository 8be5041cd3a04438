"""Verification of a ledger: the chain, the documents, and a replay of the records.

Verification alone finds a line that was changed, removed, moved or inserted, and a document that was changed or
removed. It also finds an index that disagrees with the records. The replay reads the records from first to last and
shares no code with the index. So an index that went wrong, or was changed by hand, cannot hide.

Two changes leave a whole ledger: an older state put back, and all records from some point on rewritten. Only a head
kept elsewhere reveals them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from neartwin.errors import LedgerError
from neartwin.ledger import records
from neartwin.ledger.records import NO_HASH, Price, Record
from neartwin.ledger.store import AccountRow, Reading, ReservationRow, ask_digest
from neartwin.ledger.values import Head
from neartwin.ledger.wishes import CONSOLE


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
    """The state after the records read so far.

    Attributes:
        opened: The positions of the opening records, by account.
        purses: Caps and spending, by account.
        allotted: Caps and spending, by account and holder.
        sources: The account of each source.
        reservations: The reservations, by position.
        asks: The reservation that was settled first, by digest of account, plan and snapshot.
        keys: Account and idempotency key of every reservation.
        documents: Digest and size, by position of the settling record.
    """

    opened: dict[str, int] = field(default_factory=dict)
    purses: dict[str, _Purse] = field(default_factory=dict)
    allotted: dict[tuple[str, str], _Purse] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    reservations: dict[int, ReservationRow] = field(default_factory=dict)
    asks: dict[str, int] = field(default_factory=dict)  # settled asks, to the reservation settled first
    keys: set[tuple[str, str]] = field(default_factory=set)
    documents: dict[int, tuple[str, int]] = field(default_factory=dict)
    _requests: dict[int, str] = field(default_factory=dict)
    _wishes: dict[int, records.Acted] = field(default_factory=dict)
    _curators: set[str] = field(default_factory=set)
    _agreed: tuple[int, str] | None = None  # the position of what two people agreed to, and its data set or name
    _two: bool = False

    def broken(self, record: Record) -> str:
        """Take in the next record.

        Args:
            record: The next record.

        Returns:
            The rule that it breaks, in words, or "" if a ledger could have written it.
        """
        event, position = record.event, record.position
        if isinstance(event, records.Begun):
            return "" if position == 1 else "a ledger begins once"
        if position == 1:
            return "the first record must begin the ledger"
        if isinstance(event, records.Opened):
            return self._open(position, event)
        if isinstance(event, records.Acted):
            return self._act(position, event)
        if event.account not in self.purses:
            return f"no account {event.account!r} was opened"
        match event:
            case records.Sourced(account=account, source=source):
                return self._source(account, source)
            case records.Raised(account=account, caps=caps):
                return self._raise(account, caps) or self._consent(position, account)
            case records.Allotted():
                return self._allot(event)
            case records.Reserved():
                return self._reserve(position, event)
            case records.Refused():
                return ""
            case records.Settled() | records.Failed():
                return self._close(position, event)

    def _act(self, position: int, event: records.Acted) -> str:
        body = json.loads(event.body) if event.what in {"agree", "token"} else {}
        if event.what == "two people":
            self._two = True
        elif event.what == "wish":
            self._wishes[position] = event
        elif event.what == "agree":
            first = self._wishes.pop(body["wish"], event)
            said = json.loads(first.body) if first.who != event.who else {}
            self._agreed = position + 1, said.get("dataset") or said.get("name", "")
        elif body.get("role") == "curator":
            alone = event.who == CONSOLE or event.who in self._curators & {body["name"]}  # renewed by a sign-in server
            self._curators.add(body["name"])
            return "" if alone else self._consent(position, body["name"])
        return ""

    def _consent(self, position: int, whom: str) -> str:
        return "it needs two people" if self._two and self._agreed != (position, whom) else ""

    def _open(self, position: int, event: records.Opened) -> str:
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

    def _allot(self, event: records.Allotted) -> str:
        purse = self.allotted.setdefault((event.account, event.holder), _Purse.empty(event.caps))
        purse.caps = dict(event.caps)
        same = list(purse.caps) == list(self.purses[event.account].caps)
        enough = same and all(0 <= purse.spent[pool] <= cap for pool, cap in event.caps)
        return "" if enough else "it allots less than was spent, or in other pools"

    def _reserve(self, position: int, event: records.Reserved) -> str:
        faults = [] if self.purses[event.account].pays(event.price) else ["it spends more than the account had left"]
        for holder in event.holders:
            purse = self.allotted.get((event.account, holder))
            if purse is None or not purse.pays(event.price):
                faults.append(f"it spends more than {holder!r} had left")
        if event.key and (event.account, event.key) in self.keys:
            faults.append("its key was used before")
        self.keys.add((event.account, event.key))
        self._requests[position] = ask_digest(event.account, event.plan_digest, event.snapshot)
        self.reservations[position] = ReservationRow(
            position=position, account=event.account, key=event.key or None, state="reserved", closed=None
        )
        return "; ".join(faults)

    def _close(self, position: int, event: records.Settled | records.Failed) -> str:
        row = self.reservations.get(event.reserved)
        if row is None or row.account != event.account or row.state != "reserved":
            return f"there is no open reservation {event.reserved} to close"
        state = "failed"
        if isinstance(event, records.Settled):
            state = "settled"
            self.documents[position] = (event.digest, event.size)
            self.asks.setdefault(self._requests[event.reserved], event.reserved)
        self.reservations[event.reserved] = replace(row, state=state, closed=position)
        return ""

    def disagreements(self, page: Reading) -> Iterator[tuple[int, str]]:
        """Yield the disagreements of the index with the records.

        Args:
            page: A transaction.

        Yields:
            A position (0 for none) and the difference in words.
        """
        names = page.account_names()
        if set(names) != set(self.opened):
            yield 0, "the index lists other accounts than the records"
        for name in set(names) & set(self.opened):
            if page.opened(name) != self.opened[name] or self.purses[name].differs(page.account(name)):
                yield self.opened[name], f"the index of account {name!r} disagrees with its records"
            rows: Mapping[str, AccountRow] = page.allotments(name)
            known = {holder: purse for (account, holder), purse in self.allotted.items() if account == name}
            if set(rows) != set(known) or any(known[holder].differs(row) for holder, row in rows.items()):
                yield self.opened[name], f"the index of the allotments of {name!r} disagrees with its records"
            expected = {position: row for position, row in self.reservations.items() if row.account == name}
            if page.reservations(name) != expected:
                yield self.opened[name], f"the index of the reservations of {name!r} disagrees with its records"
        if any(page.owner_of(source) != account for source, account in self.sources.items()):
            yield 0, "the index of sources disagrees with the records"
        for ask, position in self.asks.items():
            row = page.answered(ask)
            if row is None or row.position != position:
                yield position, f"the index does not find the answer paid for by record {position}"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a ledger.

    Attributes:
        kind: "changed", "removed", "moved", "document", "index", "rule", "rollback" or "service". A "rule" fault is a
            record that a ledger would never write, such as an overspend. A "service" fault is a data set, policy or
            token that differs from the acts.
        position: The position of the record, or 0 for the ledger as a whole.
        message: The fault in words.
    """

    kind: str
    position: int
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of `verify`.

    Attributes:
        head: The newest record's head, to be kept elsewhere.
        faults: All faults; none if the ledger is whole.
    """

    head: Head
    faults: tuple[Fault, ...]

    @property
    def whole(self) -> bool:
        """True if there is no fault."""
        return not self.faults

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults)) or f"whole: {self.head.position} records, head {self.head}"


@dataclass(slots=True)
class Chain:
    """A walk along the lines that checks each link.

    Attributes:
        position: The position of the last line.
        faults: The faults so far.
    """

    position: int = 0
    faults: list[Fault] = field(default_factory=list)
    _previous: str | None = NO_HASH  # what the next line must name; None after a break, where nothing can be demanded

    def take(self, position: int, line: str, written_hash: str) -> Record | None:
        """Take in the next line.

        Args:
            position: Its position.
            line: The line.
            written_hash: The hash stored beside it.

        Returns:
            The record, or None if the line cannot be trusted.
        """
        if position > self.position + 1:
            gone = f"{self.position + 1}" if position == self.position + 2 else f"{self.position + 1} to {position - 1}"
            self._fault("removed", self.position + 1, f"record {gone} is missing")
            self._previous = None
        self.position = position
        previous, self._previous = self._previous, written_hash
        if records.digest(line) != written_hash:
            self._fault("changed", position, f"record {position} was changed: its line does not have its hash")
            return None
        try:
            record = records.read_strictly(line)
        except ValueError:
            self._fault("changed", position, f"record {position} was changed: it is no record a ledger writes")
            return None
        if record.position != position:
            self._fault(
                "moved", position, f"at position {position} stands the record that was written as {record.position}"
            )
            self._previous = None
            return None
        if previous is not None and record.previous != previous:
            before = position - 1
            self._fault(
                "changed",
                before,
                f"record {before} was changed and its hash made anew: record {position} names another",
            )
        return record

    def end(self, head: Head) -> None:
        """Compare the last line with the head that the ledger itself keeps."""
        if head.position > self.position:
            self._fault(
                "removed",
                self.position + 1,
                f"the newest records, from {self.position + 1} to {head.position}, are missing",
            )
        elif head.position < self.position:
            self._fault("index", head.position, f"the ledger's head stands at {head.position}, its records go on")
        elif self._previous is not None and self._previous != head.hash:
            self._fault("changed", self.position, f"the newest record, {self.position}, is not the one written last")

    def _fault(self, kind: str, position: int, message: str) -> None:
        self.faults.append(Fault(kind, position, message))


def verified(page: Reading, known_head: Head | None) -> Verdict:
    """Verify the whole ledger in one pass.

    Args:
        page: A transaction.
        known_head: A head from elsewhere that must be in this history, or None.

    Returns:
        The verdict.
    """
    chain, replay, head = Chain(), Replay(), page.head()
    rules: list[Fault] = []
    at_kept = None
    for position, account, line, written_hash in page.lines():
        record = chain.take(position, line, written_hash)
        if known_head is not None and position == known_head.position:
            at_kept = records.digest(line)
        if record is None:
            continue
        if reason := replay.broken(record):
            rules.append(Fault("rule", position, f"record {position} breaks a rule: {reason}"))
        if account != ("" if isinstance(record.event, records.Begun) else record.event.account):
            rules.append(Fault("index", position, f"record {position} is indexed under another account"))
    chain.end(head)
    faults = list(chain.faults)
    if not faults:  # sums over a broken chain would only repeat the fault in other words
        faults += rules
        faults += _index(page, replay)
    faults += _documents(page, replay)
    if known_head is not None and at_kept != known_head.hash:
        faults.append(_rollback(known_head, chain.position, at_kept))
    return Verdict(head, tuple(faults))


def _index(page: Reading, replay: Replay) -> list[Fault]:
    try:
        return [Fault("index", position, message) for position, message in replay.disagreements(page)]
    except LedgerError as unreadable:
        return [Fault("index", 0, str(unreadable))]


def _documents(page: Reading, replay: Replay) -> list[Fault]:
    faults = [
        Fault("document", position, f"a release lies at record {position}, which settles none")
        for position in sorted(set(page.document_positions()) - set(replay.documents))
    ]
    for position, (digest, size) in replay.documents.items():
        content = page.document(position)
        if content is None:
            faults.append(Fault("document", position, f"the release of record {position} is missing"))
        elif len(content) != size or records.digest(content) != digest:
            faults.append(Fault("document", position, f"the release of record {position} was changed"))
    return faults


def _rollback(head: Head, last: int, actual: str | None) -> Fault:
    if actual is None and head.position > last:
        return Fault(
            "rollback",
            last,
            f"the ledger ends at record {last}, but had {head.position} when the head was kept: it was rolled back or "
            f"restored from a backup, and forgot what records {last + 1} to {head.position} spent",
        )
    return Fault(
        "rollback",
        head.position,
        f"record {head.position} differs from the head kept elsewhere: the ledger was restored from a backup "
        "and continued, or was rewritten, or the head belongs to another ledger",
    )
