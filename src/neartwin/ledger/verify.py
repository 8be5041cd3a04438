"""Whether a ledger's records are whole: the chain, the documents, and a replay that shares no code with the index.

Found without help: a line changed, removed, moved or put in; a document changed or removed; an index that says other
than the records. Found with a head kept elsewhere: a ledger put back to an older state, or written anew from some
record on, which is whole in itself and which nobody can tell without such a head.
"""

from dataclasses import dataclass, field

from neartwin.errors import LedgerError
from neartwin.ledger import codec
from neartwin.ledger.codec import NO_HASH, Record
from neartwin.ledger.replay import Replay
from neartwin.ledger.store import Reading
from neartwin.ledger.values import Head


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing found wrong.

    kind: "changed", "removed", "moved", "document", "index", "rule" (a record that a ledger would never have written,
    such as an overspend), "rollback", or "service" (a data set, policy or token that is other than the acts made it).
    position: of the record, or 0 for the ledger as a whole.
    """

    kind: str
    position: int
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `verify` found. head: the newest record's, to be kept elsewhere; faults: none when all is whole."""

    head: Head
    faults: tuple[Fault, ...]

    @property
    def whole(self) -> bool:
        """True when nothing wrong was found."""
        return not self.faults

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults)) or f"whole: {self.head.position} records, head {self.head}"


@dataclass(slots=True)
class Chain:
    """A walk along lines, one after another: which links hold."""

    position: int = 0
    faults: list[Fault] = field(default_factory=list)
    _previous: str | None = NO_HASH  # what the next line must name; None after a break, where nothing can be demanded

    def take(self, position: int, line: str, written_hash: str) -> Record | None:
        """The next line's record, or None where it cannot be believed."""
        if position > self.position + 1:
            gone = f"{self.position + 1}" if position == self.position + 2 else f"{self.position + 1} to {position - 1}"
            self._fault("removed", self.position + 1, f"record {gone} is missing")
            self._previous = None
        self.position = position
        previous, self._previous = self._previous, written_hash
        if codec.digest(line) != written_hash:
            self._fault("changed", position, f"record {position} was changed: its line does not have its hash")
            return None
        try:
            record = codec.read_strictly(line)
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


def verified(page: Reading, kept: Head | None) -> Verdict:
    """Walk the whole ledger once. kept: a head from elsewhere that must be in this history."""
    chain, replay, head = Chain(), Replay(), page.head()
    rules: list[Fault] = []
    at_kept = None
    for position, account, line, written_hash in page.lines():
        record = chain.take(position, line, written_hash)
        if kept is not None and position == kept.position:
            at_kept = codec.digest(line)
        if record is None:
            continue
        if reason := replay.broken(record):
            rules.append(Fault("rule", position, f"record {position} breaks a rule: {reason}"))
        if account != ("" if isinstance(record.event, codec.Begun) else record.event.account):
            rules.append(Fault("index", position, f"record {position} is indexed under another account"))
    chain.end(head)
    faults = list(chain.faults)
    if not faults:  # sums over a broken chain would only repeat the fault in other words
        faults += rules
        faults += _index(page, replay)
    faults += _documents(page, replay)
    if kept is not None and at_kept != kept.hash:
        faults.append(_rollback(kept, chain.position, at_kept))
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
        elif len(content) != size or codec.digest(content) != digest:
            faults.append(Fault("document", position, f"the release of record {position} was changed"))
    return faults


def _rollback(kept: Head, last: int, found: str | None) -> Fault:
    if found is None and kept.position > last:
        return Fault(
            "rollback",
            last,
            f"the ledger ends at record {last}, but had {kept.position} when the head was kept: it was rolled back or "
            f"restored from a backup, and forgot what records {last + 1} to {kept.position} spent",
        )
    return Fault(
        "rollback",
        kept.position,
        f"record {kept.position} is another than the head kept elsewhere says: the ledger was restored from a backup "
        "and went on, or was written anew, or the head is of another ledger",
    )
