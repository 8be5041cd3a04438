"""The reads and writes of one transaction. Only this module turns events into changes of the index tables.

All tables but `record` and `document` are an index: a function of the records. The transaction that appends a record
also updates the index. So a reservation costs the same after a thousand records as after one.
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import assert_never

import sqlalchemy as sa

from neartwin.errors import LedgerError
from neartwin.ledger import records
from neartwin.ledger.records import Event, Price, Record
from neartwin.ledger.store import schema, statements
from neartwin.ledger.values import Act, Head


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """An account or an allotment in the index.

    Attributes:
        caps: The whole budget, in whole units by pool.
        spent: The amount spent, in whole units by pool.
    """

    caps: Price
    spent: Price


@dataclass(frozen=True, slots=True)
class ReservationRow:
    """A reservation in the index, in the order of `statements.RESERVATIONS`.

    Attributes:
        position: The position of its record.
        account: The name of the account.
        key: The idempotency key, or None.
        state: "reserved", "settled" or "failed".
        closed: The position of the record that settled or failed it, or None.
    """

    position: int
    account: str
    key: str | None
    state: str
    closed: int | None


def ask_digest(account: str, plan_digest: str, snapshot: str) -> str:
    """The index key of one plan on one snapshot of one population.

    Args:
        account: The name of the account.
        plan_digest: The digest of the plan.
        snapshot: The digest of the data's state.

    Returns:
        64 hexadecimal digits.
    """
    return records.digest(records.canonical([account, plan_digest, snapshot]))


def _pack(price: Price) -> str:
    return records.canonical([[pool, str(amount)] for pool, amount in price])


def _unpack(packed: str) -> Price:
    try:
        return tuple((pool, int(amount)) for pool, amount in json.loads(packed))
    except (ValueError, TypeError):
        raise LedgerError("an index of amounts was changed and cannot be read; verify the ledger") from None


def add(left: Price, right: Price) -> Price:
    """The sum of two price vectors of one set of pools.

    Args:
        left: One price.
        right: The other price.

    Returns:
        The sum, by pool.
    """
    return tuple((pool, here + there) for (pool, here), (_, there) in zip(left, right, strict=True))


_PAGE = 1_000  # records in memory at a time
_OF_ACCOUNTS = sa.select(schema.record.c.position, schema.record.c.line, schema.record.c.hash)
_WITH_STATES = _OF_ACCOUNTS.add_columns(schema.reservation.c.state).outerjoin(
    schema.reservation, schema.reservation.c.position == schema.record.c.position
)


class Reading:
    """The ledger in one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        """A connection inside a transaction, which the caller ends. Tables of another room change in it too."""
        self.connection = connection

    def head(self) -> Head:
        """The newest record's position and hash, as indexed."""
        row = statements.HEAD.row(self.connection)
        if row is None:
            raise LedgerError("the ledger lost its first row; restore it from an archive")
        return Head(*row)

    def record(self, position: int) -> tuple[Record, str]:
        """The record at a position, and its hash."""
        row = statements.RECORD.row(self.connection, its_position=position)
        if row is None:
            raise LedgerError(f"record {position} is missing; verify the ledger")
        line, hash_ = row
        return self._readable(position, line), hash_

    def newest(
        self, account: str, before: int | None, names: Iterable[str] | None = None
    ) -> Iterator[tuple[Record, str, str | None, Record | None]]:
        """Yield the records of one account with their hashes and the states of reservations, newest first.

        A thousand at a time are in memory. With `names`, a record that closes a reservation comes with that reservation's record.

        Args:
            account: The name of the account.
            before: Only records below this position, or None for all.
            names: At least the records that have one of these texts, and those that close one of them; None for all.

        Yields:
            The records.
        """
        here, closing, paid = schema.record.c, schema.reservation.alias().c, schema.record.alias().c
        # as an expression, because SQLite would find all records of the account by its index, and sort them
        mine = _WITH_STATES.where(here.account.concat("") == account).order_by(here.position.desc()).limit(_PAGE)
        if names is not None:
            texts = [records.canonical(name) for name in names]
            mine = mine.add_columns(paid.position.label("of"), paid.line.label("paid"))
            mine = mine.outerjoin(closing.closed.table, closing.closed == here.position)
            mine = mine.outerjoin(paid.line.table, paid.position == closing.position)
            mine = mine.where(
                sa.or_(*(line.contains(text, autoescape=True) for line in (here.line, paid.line) for text in texts))
            )
        while rows := self.connection.execute(mine if before is None else mine.where(here.position < before)).all():
            for row in rows:
                closed = self._readable(row.of, row.paid) if names is not None and row.of is not None else None
                yield self._readable(row.position, row.line), row.hash, row.state, closed
            if len(rows) < _PAGE:
                return
            before = rows[-1].position

    def lines(self) -> Iterator[tuple[int, str, str, str]]:
        """Yield every record as it lies, with a thousand at a time in memory.

        Yields:
            Position, account as indexed, line and hash.
        """
        table, last = schema.record, -(2**63)
        columns = sa.select(table.c.position, table.c.account, table.c.line, table.c.hash)
        while True:
            selection = columns.where(table.c.position > last).order_by(table.c.position).limit(_PAGE)
            rows = self.connection.execute(selection).all()
            if not rows:
                return
            for row in rows:
                yield row.position, row.account, row.line, row.hash
            last = rows[-1].position

    def acts(self, account: str | None = None, *, before: int | None = None, most: int | None = None) -> Iterator[Act]:
        """The acts in order.

        Args:
            account: The account that they are about, or None for all.
            before: Only records below this position, or None for all.
            most: Only the newest of them, at most this many; None for all.

        Returns:
            The acts, oldest first.
        """
        here = schema.record.c
        # A quotation mark inside a text is written with a backslash, so only acts match.
        marked = here.line.like('%"kind":"act"%')
        mine = sa.true() if account is None else here.account == account
        older = sa.true() if before is None else here.position < before
        newest = _OF_ACCOUNTS.where(marked, mine, older).order_by(here.position.desc()).limit(most).subquery()
        for row in self.connection.execute(sa.select(newest).order_by(newest.c.position)):
            record = self._readable(row.position, row.line)
            if isinstance(done := record.event, records.Acted):
                parts = {"account": done.account, "who": done.who, "what": done.what, "body": done.body}
                yield Act(position=row.position, hash=row.hash, time=done.happened or record.time, **parts)

    def sources(self) -> Iterator[tuple[str, str]]:
        """Each account with a source of it, in the order of the records."""
        position, line = schema.record.c.position, schema.record.c.line
        marked = sa.or_(*(line.like(f'%"kind":"{kind}"%') for kind in ("open", "source")))
        for row in self.connection.execute(sa.select(position, line).where(marked).order_by(position)):
            event = self._readable(row.position, row.line).event
            if isinstance(event, records.Opened | records.Sourced):
                yield event.account, event.source

    def document(self, position: int) -> bytes | None:
        """The document that the record at this position settled."""
        row = statements.DOCUMENT.row(self.connection, its_position=position)
        return None if row is None else bytes(row[0])

    def document_positions(self) -> tuple[int, ...]:
        """The positions of all documents."""
        return tuple(self.connection.execute(sa.select(schema.document.c.position)).scalars())

    def opened(self, name: str) -> int | None:
        """The position of the record that opened an account, or None where there is none."""
        row = statements.OPENED.row(self.connection, its_name=name)
        return None if row is None else int(row[0])

    def account_names(self) -> tuple[str, ...]:
        """All accounts, in the order of their opening."""
        rows = self.connection.execute(sa.select(schema.account.c.name).order_by(schema.account.c.opened))
        return tuple(rows.scalars())

    def account(self, name: str) -> AccountRow:
        """The index row of an account that is known to exist."""
        row = statements.ACCOUNT.row(self.connection, its_name=name)
        if row is None:
            raise LedgerError(f"account {name!r} is missing; verify the ledger")
        return _amounts(row)

    def owner_of(self, source: str) -> str | None:
        """The account that a source belongs to."""
        row = statements.OWNER.row(self.connection, its_digest=records.digest(records.canonical(source)))
        return None if row is None else str(row[0])

    def allotments(self, account: str) -> dict[str, AccountRow]:
        """All allotments of an account, by holder."""
        table = schema.allotment
        rows = self.connection.execute(sa.select(table).where(table.c.account == account).order_by(table.c.holder))
        return {row.holder: _amounts((row.caps, row.spent)) for row in rows}

    def allotment(self, account: str, holder: str) -> AccountRow | None:
        """The allotment of one holder.

        Args:
            account: The name of the account.
            holder: The holder.

        Returns:
            The row, or None.
        """
        row = statements.ALLOTMENT.row(self.connection, its_name=account, its_holder=holder)
        return None if row is None else _amounts(row)

    def reservation(self, position: int) -> ReservationRow | None:
        """The reservation made by the record at a position."""
        return self._one_reservation(statements.RESERVED_AT, its_position=position)

    def closed_by(self, position: int) -> ReservationRow | None:
        """The reservation that the record at a position settled or failed."""
        return self._one_reservation(statements.CLOSED_AT, its_position=position)

    def reservation_with_key(self, account: str, key: str) -> ReservationRow | None:
        """The reservation with an idempotency key.

        Args:
            account: The name of the account.
            key: The key.

        Returns:
            The row, or None.
        """
        return self._one_reservation(statements.RESERVED_WITH_KEY, its_name=account, its_key=key)

    def answered(self, ask: str) -> ReservationRow | None:
        """The reservation of a plan on a snapshot that was settled first. Its answer stays the plan's answer."""
        return self._one_reservation(statements.ANSWERED, its_ask=ask)

    def reservations(self, account: str) -> dict[int, ReservationRow]:
        """Every reservation of an account, by position."""
        here = schema.reservation.c
        selection = statements.RESERVATIONS.where(here.account == account).order_by(here.position)
        return {row.position: ReservationRow(*row) for row in self.connection.execute(selection)}

    def _one_reservation(self, statement: statements.Statement, **named: object) -> ReservationRow | None:
        row = statement.row(self.connection, **named)
        return None if row is None else ReservationRow(*row)

    def _readable(self, position: int, line: str) -> Record:
        try:
            return records.read(line)
        except ValueError:
            raise LedgerError(f"record {position} was changed and cannot be read; verify the ledger") from None


def _amounts(row: Sequence[str]) -> AccountRow:
    caps, spent = row
    return AccountRow(caps=_unpack(caps), spent=_unpack(spent))


class Writing(Reading):
    """A transaction that holds the ledger alone and may append."""

    def begin_chain(self) -> None:
        """Append the first record, which gives the ledger its random name."""
        self._append(0, records.NO_HASH, records.Begun(ledger=secrets.token_hex(16)))

    def append(self, event: Event) -> tuple[Record, str]:
        """Chain an event to the head and update the index.

        Args:
            event: The event.

        Returns:
            The record and its hash.
        """
        head = self.head()
        return self._append(head.position, head.hash, event)

    def store(self, position: int, content: bytes) -> None:
        """Store the document of a settlement.

        Args:
            position: The position of the settling record.
            content: The document.
        """
        statements.ADD_DOCUMENT.rows(self.connection, position=position, content=content)

    def _append(self, position: int, previous: str, event: Event) -> tuple[Record, str]:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        record = Record(position=position + 1, previous=previous, time=now, event=event)
        return record, self.take(record)

    def take(self, record: Record) -> str:
        """Add a record as it is. The caller has checked its place in the chain.

        Args:
            record: The record.

        Returns:
            Its hash.
        """
        line = records.write(record)
        hash_ = records.digest(line)
        account = "" if isinstance(record.event, records.Begun) else record.event.account
        statements.ADD_RECORD.rows(self.connection, position=record.position, account=account, line=line, hash=hash_)
        statements.MOVE_HEAD.rows(self.connection, its_position=record.position, its_hash=hash_)
        self._index(record.position, record.event)
        return hash_

    def _index(self, position: int, event: Event) -> None:
        match event:
            case records.Begun() | records.Refused() | records.Acted():
                pass
            case records.Opened(account=name, source=source, caps=caps):
                nothing = tuple((pool, 0) for pool, _ in caps)
                self.connection.execute(
                    sa.insert(schema.account).values(name=name, opened=position, caps=_pack(caps), spent=_pack(nothing))
                )
                if source:
                    self._index_source(name, source)
            case records.Sourced(account=name, source=source):
                self._index_source(name, source)
            case records.Raised(account=name, caps=caps):
                self.connection.execute(
                    sa.update(schema.account).where(schema.account.c.name == name).values(caps=_pack(caps))
                )
            case records.Allotted(account=name, holder=holder, caps=caps):
                self._index_allotment(name, holder, caps)
            case records.Reserved():
                self._index_reserved(position, event)
            case records.Settled(reserved=reserved):
                self._close(reserved, "settled", position)
            case records.Failed(reserved=reserved):
                self._close(reserved, "failed", position)
            case _:
                assert_never(event)

    def _index_source(self, name: str, source: str) -> None:
        digest = records.digest(records.canonical(source))
        self.connection.execute(sa.insert(schema.source).values(digest=digest, account=name))

    def _index_allotment(self, account: str, holder: str, caps: Price) -> None:
        table = schema.allotment
        if self.allotment(account, holder) is None:
            nothing = _pack(tuple((pool, 0) for pool, _ in caps))
            self.connection.execute(
                sa.insert(table).values(account=account, holder=holder, caps=_pack(caps), spent=nothing)
            )
        else:
            here = (table.c.account == account, table.c.holder == holder)
            self.connection.execute(sa.update(table).where(*here).values(caps=_pack(caps)))

    def _index_reserved(self, position: int, event: records.Reserved) -> None:
        spent = _pack(add(self.account(event.account).spent, event.price))
        statements.SPEND.rows(self.connection, its_name=event.account, its_sum=spent)
        for holder in event.holders:
            allotted = self.allotment(event.account, holder)
            if allotted is None:
                raise LedgerError(f"{holder!r} has no allotment of account {event.account!r}")
            spent = _pack(add(allotted.spent, event.price))
            statements.SPEND_ALLOTTED.rows(self.connection, its_name=event.account, its_holder=holder, its_sum=spent)
        statements.ADD_RESERVATION.rows(
            self.connection,
            position=position,
            account=event.account,
            ask=ask_digest(event.account, event.plan_digest, event.snapshot),
            key=event.key or None,
            state="reserved",
            closed=None,
        )

    def _close(self, reserved: int, state: str, position: int) -> None:
        statements.CLOSE.rows(self.connection, its_reservation=reserved, its_state=state, its_position=position)
