"""An account: the budget of one population, spent before data is read and never given back."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from itertools import starmap
from typing import Any, cast

from neartwin.accounting.budgets import Budget
from neartwin.accounting.filters import Filter
from neartwin.checks import text
from neartwin.errors import BudgetError, LedgerError, ParameterError, PrivacyError
from neartwin.ledger import records
from neartwin.ledger.records import Record
from neartwin.ledger.store import AccountRow, Database, Reading, ReservationRow, Writing, ask_digest
from neartwin.ledger.values import Allotment, Entry, Population, Rule, Stored, Ticket, vector
from neartwin.tables.files import bytes_of

_OWNED = ", owned by "
_UNITLESS = ", rows of another table's units"  # beside the place of owned rows
_CHECKED = ", every value checked"
_NAMES = {"reason": "description", "what": "description", "holders": "payers"}  # of parts that an entry calls otherwise


def entry(record: Record, hash_: str, state: str | None, rule: Rule) -> Entry:
    """One record of an account, as a reader sees it.

    Args:
        record: The record.
        hash_: Its hash.
        state: The state of the reservation that it made, or None.
        rule: The account's rule.

    Returns:
        The entry.
    """
    event = record.event
    parts = {_NAMES.get(part.name, part.name): getattr(event, part.name) for part in fields(event)}
    shown: dict[str, Any] = {name: part for name, part in parts.items() if name in Entry.__dataclass_fields__}
    shown |= {name: rule.amounts(shown[name]) for name in shown.keys() & {"caps", "price"}}
    match event:
        case records.Reserved():
            if state is None:
                raise LedgerError(f"reservation {record.position} is missing from its index; verify the ledger")
            shown["state"] = state
        case records.Refused():
            shown["state"] = "refused"
        case records.Allotted(holder=holder):
            shown["payers"] = (holder,)
    kind, account = records.kind_of(event), shown.pop("account", "")
    return Entry(position=record.position, hash=hash_, kind=kind, time=record.time, account=account, **shown)


Check = Callable[[Reading], object]
DOCUMENT_BYTES = 64 * 2**20  # a larger release belongs in a table of the engine, with its digest in the document


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The budget of one population in one ledger; `Book.open` and `Book.account` return it.

    Its filter's rule at the account's caps is its guarantee. It holds for every unit of the population, against anyone
    who sees all its releases. Amounts are read from the ledger at each use, because other writers spend too.

    Attributes:
        population: The people that the account protects.
        rule: The rule of composition.
        database: The ledger's database.
    """

    population: Population
    rule: Rule
    database: Database = field(repr=False)

    @property
    def name(self) -> str:
        """The population's name, which is the account's."""
        return self.population.name

    @property
    def filter(self) -> Filter:
        """The rule of composition with the caps of this moment."""
        return self.rule.filter(self._row().caps)

    @property
    def caps(self) -> dict[str, Fraction]:
        """The whole budget, by pool, exact."""
        return self.rule.amounts(self._row().caps)

    @property
    def spent(self) -> dict[str, Fraction]:
        """The amount spent, by pool, exact. It counts every reservation, whether settled, failed or lost."""
        return self.rule.amounts(self._row().spent)

    @property
    def remaining(self) -> dict[str, Fraction]:
        """The amount left, by pool, exact."""
        return self._left(self._row())

    def _left(self, row: AccountRow) -> dict[str, Fraction]:
        return self._allotment("", row).remaining

    def claim(self, *places: str) -> None:
        """Register more places of this population's rows.

        Args:
            *places: The places.

        Raises:
            LedgerError: A place belongs to another population.
        """
        with self.database.write() as page:
            claimed(page, self.name, [text(source=place, at_least=1, at_most=4000) for place in places])

    def own(self, places: Iterable[str], owner: str) -> None:
        """Register places of this population's rows without a unit, and remember their owner. It stays for good.

        Args:
            places: The places of the rows, or their name.
            owner: The owner in words.

        Raises:
            LedgerError: The rows have another owner or units of their own, or belong to another population.
        """
        with self.database.write() as page:
            told = {place: text(source=f"{place}{_OWNED}{owner}", at_least=1, at_most=4000) for place in places}
            new = {place: words for place, words in told.items() if page.owner_of(words) is None}
            known = refuse_taken(page, self.name, new)
            for place, words in new.items():
                account, other = _known(known, place)
                if account and other != owner:
                    raise LedgerError(
                        f"the rows of {place!r} belong to the units of {other or 'a column of their own'}, and not of {owner}; a "
                        "second owner would tell one person's rows twice"
                    )
                for source in (place, f"{place}{_UNITLESS}", words):
                    if page.owner_of(source) is None:
                        page.append(records.Sourced(account=self.name, source=source))

    def checked(self, snapshot: str) -> None:
        """Remember that the owner read every value of a snapshot, like a place of its own.

        Args:
            snapshot: The name of the snapshot.
        """
        self.claim(f"{self.name} {snapshot}{_CHECKED}")

    def require_public(self, places: Iterable[str]) -> None:
        """Refuse places that the ledger knows as private.

        Args:
            places: Places of rows that were declared public.

        Raises:
            PrivacyError: A place belongs to a population.
        """
        with self.database.read() as page:
            known = _registered(page)
        for place in places:
            if _known(known, place)[0]:
                raise PrivacyError(
                    f"{place!r} holds private rows of this ledger, and is no public table; give public rows"
                )

    def price(self, spend: Budget) -> records.Price:
        """The price of a spend, in whole units of the account's pools, rounded up. Nothing is spent.

        Args:
            spend: The spend, in any currency.

        Returns:
            Whole numbers by pool.

        Raises:
            PrivacyError: The account's rule cannot express the spend.
        """
        return self.rule.price(spend, self._row().caps if self.rule.fits(spend) else None)

    def reserve(
        self,
        plan_digest: str,
        snapshot: str,
        spend: Budget,
        description: str = "",
        *,
        payers: Iterable[str] = (),
        key: str = "",
    ) -> Ticket | Stored:
        """Spend a plan's price before its data is read, or return the answer that was paid for already.

        The price is on disk when this returns. If the plan was settled on the same snapshot, it returns `Stored` at no
        cost. Without a key, two callers of one plan at one moment both pay, and both may run.

        Args:
            plan_digest: The digest of the plan.
            snapshot: The name of the snapshot.
            spend: The price, in any currency that the account's rule can express.
            description: The question in words, for the record.
            payers: Holders whose allotments pay beside the account, such as ("analyst:ada", "project:census").
            key: An idempotency key. A request sent again under its key never pays twice.

        Returns:
            A ticket to run the plan once, or the stored answer.

        Raises:
            BudgetError: The price does not fit. Nothing is spent, and the refusal is recorded.
            PrivacyError: The account's rule cannot express the price.
            LedgerError: A holder has no allotment, or the key was used before. An error of the database itself may come
                after the price was written. It is safe to ask again: at worst the price is paid twice.
        """
        owned = tuple(dict.fromkeys(payers))
        request = records.Reserved(
            account=self.name,
            plan_digest=text(plan_digest=plan_digest, at_least=1, at_most=200),
            snapshot=text(snapshot=snapshot, at_least=1, at_most=4000),
            description=text(description=" ".join(description.split()), at_least=0, at_most=4000),
            price=self.price(spend),
            holders=tuple(text(holder=holder, at_least=1, at_most=200) for holder in owned),
            key=text(key=key, at_least=0, at_most=200),
        )
        with self.database.write() as page:
            done = self._answer(page, request)
            if done is not None:
                return done
            row = page.account(self.name)
            refusal = self._refusal(page, row, request)
            if refusal is None:
                record, hash_ = page.append(request)
            checked = page.owner_of(f"{self.name} {request.snapshot}{_CHECKED}") is not None
        if refusal is not None:
            raise refusal
        ticket = self._ticket(record.position, hash_, request)
        return replace(ticket, before=self._left(row), caps=self.rule.amounts(row.caps), checked=checked)

    def settle(self, ticket: Ticket, document: bytes) -> Stored:
        """Store a ticket's release with its record, in one transaction. Serve nothing before this has returned.

        Args:
            ticket: An open ticket of this account.
            document: At most 64 MiB. A larger release is written elsewhere, and the document holds its digest and
                place.

        Returns:
            The stored release.

        Raises:
            ParameterError: The document is not bytes.
            LedgerError: The ticket was settled or failed before, or is not of this account's history.
        """
        if not isinstance(document, bytes | bytearray | memoryview):
            raise ParameterError("document", type(document).__name__, "must be bytes")
        content = bytes(document)
        if len(content) > DOCUMENT_BYTES:
            raise LedgerError(
                f"a document has at most {DOCUMENT_BYTES} bytes, this one has {len(content)}; write the release "
                "elsewhere, and settle its digest and place"
            )
        with self.database.write() as page:
            request = self._reserved(page, ticket)
            event = records.Settled(
                account=self.name, reserved=ticket.position, digest=records.digest(content), size=len(content)
            )
            record, hash_ = page.append(event)
            page.store(record.position, content)
        return self._stored(record, hash_, request, content)

    def fail(self, ticket: Ticket) -> None:
        """Record that a ticket's run failed. Its budget stays spent, and it can no longer be settled.

        Args:
            ticket: An open ticket of this account.

        Raises:
            LedgerError: The ticket is not open, or is not of this account's history.
        """
        with self.database.write() as page:
            self._reserved(page, ticket)
            page.append(records.Failed(account=self.name, reserved=ticket.position))

    def answer(self, position: int) -> Stored:
        """The release of the reservation at a position, or of the record that settled it.

        Args:
            position: The position of either record.

        Returns:
            The stored release.

        Raises:
            LedgerError: This account has no answer there.
        """
        with self.database.read() as page:
            row = page.reservation(position) or page.closed_by(position)
            if row is None or row.account != self.name or row.state != "settled":
                raise LedgerError(f"account {self.name!r} has no release at record {position}; its history lists them")
            return self._read_stored(page, row)

    def answered(self, plan_digest: str, snapshot: str) -> int | None:
        """The reservation whose answer is served to a plan at no cost.

        Args:
            plan_digest: The digest of the plan.
            snapshot: The name of the snapshot.

        Returns:
            The position of its record, or None for a plan that must be paid.
        """
        with self.database.read() as page:
            row = page.answered(ask_digest(self.name, plan_digest, snapshot))
        return None if row is None else row.position

    def allot(
        self, holder: str, target: Budget, *, by: str = "", check: Check = lambda _: None, first: bool = False
    ) -> Allotment:
        """Set the most that one holder may spend of this account. A new amount replaces the old; the amount spent stays.

        Args:
            holder: The name of the holder.
            target: The limit, of the account's own kind. The amount spent so far stops a holder.
            by: The curator, for a record of the act, or "".
            check: Called first, in the same transaction. Its error changes nothing.
            first: Whether an allotment that stands already stays as it is.

        Returns:
            The allotment.

        Raises:
            LedgerError: The limit is of another kind, or below the amount that the holder has spent.
        """
        text(holder=holder, at_least=1, at_most=200)
        caps = self.rule.caps(target)
        with self.database.write() as page:
            check(page)
            row = page.allotment(self.name, holder)
            if first and row is not None:
                return self._allotment(holder, row)
            if row is not None and any(cap < used for (_, cap), (_, used) in zip(caps, row.spent, strict=True)):
                used_up = self.rule.written(row.spent)
                raise LedgerError(
                    f"{holder!r} has spent {used_up} already; allot at least that amount, which stops further spending"
                )
            page.append(records.Allotted(account=self.name, holder=holder, caps=caps))
            if by:
                body = records.canonical({"dataset": self.name, "holder": holder, "target": str(target)})
                page.append(records.Acted(account=self.name, who=by, what="allot", body=body))
            spent = row.spent if row is not None else self.rule.named((0,) * len(caps))
        return self._allotment(holder, AccountRow(caps=caps, spent=spent))

    def allotments(self) -> tuple[Allotment, ...]:
        """All allotments, in the order of their holders."""
        with self.database.read() as page:
            return tuple(starmap(self._allotment, page.allotments(self.name).items()))

    def allotment(self, holder: str) -> Allotment | None:
        """The allotment of one holder, or None."""
        with self.database.read() as page:
            row = page.allotment(self.name, holder)
        return None if row is None else self._allotment(holder, row)

    def history(self) -> tuple[Entry, ...]:
        """Every record of this account, oldest first."""
        return tuple(self.newest())[::-1]

    def newest(self, before: int | None = None, holders: AbstractSet[str] | None = None) -> Iterator[Entry]:
        """Yield the records of this account, newest first, as far as they are wanted.

        Args:
            before: Only records below this position, or None for all.
            holders: Only the allotments of these holders and what they paid, or None for all.

        Yields:
            The records.
        """
        with self.database.read() as page:
            for record, hash_, state, closed in page.newest(self.name, before, holders):
                shown = entry(record, hash_, state, self.rule)
                paid = shown if closed is None else entry(closed, "", "", self.rule)
                if holders is None or holders & set(paid.payers):
                    yield shown

    def _row(self) -> AccountRow:
        with self.database.read() as page:
            return page.account(self.name)

    def _answer(self, page: Reading, request: records.Reserved) -> Stored | None:
        """What was paid for already, or None when this must be paid; `LedgerError` for a key that cannot be used."""
        row = page.reservation_with_key(self.name, request.key) if request.key else None
        if row is not None:
            event = page.record(row.position)[0].event  # whose words may be those of an older neartwin
            if event != replace(request, description=getattr(event, "description", "")):
                raise LedgerError(f"key {request.key!r} was used for another request; use a new key for a new request")
            if row.state == "reserved":
                raise LedgerError(
                    f"the request with key {request.key!r} is still running, or was lost together with its budget; "
                    "ask again later, or pay again under a new key"
                )
            if row.state == "failed":
                raise LedgerError(
                    f"the request with key {request.key!r} failed and its budget stays spent; pay again under a new key"
                )
        else:
            row = page.answered(ask_digest(self.name, request.plan_digest, request.snapshot))
        return None if row is None else self._read_stored(page, row)

    def _refusal(self, page: Writing, row: AccountRow, request: records.Reserved) -> BudgetError | None:
        """Why the price does not fit, recorded; None when it fits."""
        holder = ""
        price = vector(request.price)
        try:
            self.rule.filter(row.caps).check(vector(row.spent), price)
            for holder in request.holders:
                allotted = page.allotment(self.name, holder)
                if allotted is None:
                    raise LedgerError(f"{holder!r} has no allotment of account {self.name!r}; ask the curator for one")
                self.rule.filter(allotted.caps).check(vector(allotted.spent), price)
        except BudgetError as refusal:
            asked: dict[str, Any] = {part.name: getattr(request, part.name, "") for part in fields(records.Refused)}
            page.append(records.Refused(**asked | {"pool": refusal.pool, "holder": holder}))
            return _of_holder(refusal, holder) if holder else refusal
        return None

    def _reserved(self, page: Reading, ticket: Ticket) -> records.Reserved:
        """The open reservation a ticket stands for."""
        row = page.reservation(ticket.position)
        if row is None or row.account != self.name or ticket.account != self.name:
            raise LedgerError(f"account {self.name!r} has no reservation {ticket.position}; reserve before you settle")
        record, hash_ = page.record(ticket.position)
        request = record.event
        if not isinstance(request, records.Reserved) or ticket != self._ticket(ticket.position, hash_, request):
            raise LedgerError(
                f"the ticket of reservation {ticket.position} does not match its record: it is from another ledger, or "
                "from a history that was rolled back"
            )
        if row.state != "reserved":
            raise LedgerError(f"reservation {ticket.position} was {row.state} by record {row.closed}; reserve anew")
        return request

    def _ticket(self, position: int, hash_: str, request: records.Reserved) -> Ticket:
        return Ticket(
            account=self.name,
            position=position,
            hash=hash_,
            plan_digest=request.plan_digest,
            snapshot=request.snapshot,
            price=self.rule.amounts(request.price),
        )

    def _read_stored(self, page: Reading, row: ReservationRow) -> Stored:
        request = page.record(row.position)[0].event
        record, hash_ = page.record(row.closed or 0)
        event, content = record.event, page.document(record.position)
        if not isinstance(event, records.Settled) or not isinstance(request, records.Reserved) or content is None:
            raise LedgerError(f"the release of reservation {row.position} is missing; verify the ledger")
        if records.digest(content) != event.digest:
            raise LedgerError(f"the release stored with record {record.position} was changed; verify the ledger")
        return self._stored(record, hash_, request, content)

    def _stored(self, record: Record, hash_: str, request: records.Reserved, content: bytes) -> Stored:
        event = cast("records.Settled", record.event)
        return Stored(
            position=record.position,
            hash=hash_,
            reserved=event.reserved,
            time=record.time,
            payers=request.holders,
            price=self.rule.amounts(request.price),
            digest=event.digest,
            document=content,
        )

    def _allotment(self, holder: str, row: AccountRow) -> Allotment:
        return Allotment(
            account=self.name, holder=holder, caps=self.rule.amounts(row.caps), spent=self.rule.amounts(row.spent)
        )


def _of_holder(refusal: BudgetError, holder: str) -> BudgetError:
    return BudgetError(
        refusal.pool,
        refusal.requested,
        refusal.remaining,
        (
            f"spend at most what the allotment of {holder!r} has left, {float(refusal.remaining):.15g}",
            f"ask the curator to raise the allotment of {holder!r}",
        ),
    )


def claimed(page: Writing, name: str, places: Iterable[str]) -> None:
    """Add places to a population, unless it has them already.

    Args:
        page: A write transaction.
        name: The population.
        places: The places of its rows.

    Raises:
        LedgerError: A place belongs to another population, or its rows to the units of another table.
    """
    distinct = dict.fromkeys(places)
    new = [one for one in distinct if page.owner_of(one) != name or page.owner_of(f"{one}{_UNITLESS}")]
    known = refuse_taken(page, name, new)
    for place in new:
        if _known(known, place)[1]:
            raise LedgerError(
                f"the rows of {place!r} belong to the units of another table; units of their own would tell one person's "
                "rows twice"
            )
        page.append(records.Sourced(account=name, source=place))


def _registered(page: Reading) -> dict[object, tuple[str, str]]:
    """The account of each place and of all copies of its file, with their owner in words, or "" for units of their own."""
    found: dict[object, tuple[str, str]] = {}
    for account, source in page.sources():
        where, _, owner = source.partition(_OWNED)
        kind, _, paths = where.partition(":")
        for place in dict.fromkeys((where, *(f"{kind}:{path}" for path in paths.split("|")))):
            for key in (place, bytes_of(place)):
                if found.get(key, (account,))[0] == account:
                    found[key] = (account, owner)
    found.pop((), None)
    return found


def _known(registered: Mapping[object, tuple[str, str]], place: str) -> tuple[str, str]:
    return registered.get(place) or registered.get(bytes_of(place)) or ("", "")


def refuse_taken(page: Reading, name: str, places: Iterable[str]) -> dict[object, tuple[str, str]]:
    """Refuse places that belong to another population.

    Args:
        page: A transaction.
        name: The population.
        places: The places of its rows.

    Returns:
        The account of each registered place and of its copies, with the owner of its rows in words.

    Raises:
        LedgerError: A place belongs to another population.
    """
    found: dict[object, tuple[str, str]] = {}
    for place in places:
        found = found or _registered(page)
        if (owner := _known(found, place)[0]) not in {"", name}:
            raise LedgerError(
                f"the source {place!r} belongs to population {owner!r}, or is a copy of a file that does; its people have one "
                f"budget, so open population {owner!r} and not {name!r}"
            )
    return found
