"""The ledger: its populations and their budgets, verification, and archives.

An archive is a whole ledger as JSON lines: records exactly as they lie, documents beside them, the head at the end.

```
{"archive":"neartwin ledger","version":1}
{"body":{...},"kind":"begin","position":1,...}      a record: these bytes are what its hash is made of
{"content":"...base64...","document":4}             the release that record 4 settled
{"row":{...},"table":"neartwin_token"}              in a backup of a service: a row of its own tables
{"digest":"9f...","head":"12:ab...","rows":7}       the last line: the newest record, and the digest of all rows
```

An archive of a ledger alone has no rows, and its last line has the head alone.
"""

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from neartwin.accounting.budgets import Budget, parts_of
from neartwin.accounting.filters import filter_for
from neartwin.checks import text
from neartwin.errors import LedgerError
from neartwin.ledger import anchors, records
from neartwin.ledger.account import Account, claimed, refuse_taken
from neartwin.ledger.store import Database, Reading, Writing
from neartwin.ledger.values import Act, Head, Population, Rule
from neartwin.ledger.verify import Chain, Fault, Replay, Verdict, verified
from neartwin.ledger.wishes import CONSOLE, Wish, agreed, refusal, standing

_FIRST = {"archive": "neartwin ledger", "version": 1}
TableRow = dict[str, Any]  # the name of a "table", and a "row" of it, by column
ReadRows = Callable[[Reading], Iterable[TableRow]]
FindFaults = Callable[[Reading], Iterable[Fault]]
PutRows = Callable[[Writing, list[TableRow]], None]
PathLike = str | os.PathLike[str]


def lines(page: Reading, rows: Iterable[TableRow] = ()) -> Iterator[str]:
    """Yield the lines of an archive, without line ends.

    Args:
        page: A transaction.
        rows: The rows of other tables in the same transaction.

    Yields:
        The lines in order.

    Raises:
        LedgerError: The ledger is not whole.
    """
    verdict = verified(page, None)
    if not verdict.whole:
        raise LedgerError(f"the ledger fails verification and cannot be archived: {verdict}")
    yield records.canonical(_FIRST)
    documents = set(page.document_positions())
    for position, _, line, _ in page.lines():
        yield line
        if position in documents:
            content = base64.b64encode(page.document(position) or b"").decode("ascii")
            yield records.canonical({"document": position, "content": content})
    count, digest = 0, hashlib.sha256()
    for count, row in enumerate(rows, start=1):  # noqa: B007 - it is needed after the last row
        line = records.canonical(row)
        digest.update(line.encode())
        yield line
    ending: dict[str, object] = {"rows": count, "digest": digest.hexdigest()} if count else {}
    yield records.canonical(ending | {"head": str(verdict.head)})


def save(page: Reading, path: Path, rows: Iterable[TableRow] = ()) -> None:
    """Write an archive to a new file that its owner alone can read. The file is on disk when this returns.

    Args:
        page: A transaction.
        path: The new file.
        rows: The rows of other tables in the same transaction.

    Raises:
        LedgerError: The file exists or cannot be made, or the ledger is not whole.
    """
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise LedgerError(f"{path} exists, and an archive is never overwritten; give a new name") from None
    except OSError as fault:
        raise LedgerError(f"the archive {path} cannot be made: {fault.strerror}; choose another place") from None
    try:
        with os.fdopen(handle, "w", encoding="ascii", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines(page, rows))
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink()
        raise


def fill(page: Writing, archived: Iterable[str]) -> list[TableRow]:
    """Put an archive's records and documents into an empty ledger.

    Args:
        page: A write transaction.
        archived: The lines of the archive.

    Returns:
        The rows of other tables.

    Raises:
        LedgerError: The archive is cut off or was changed.
    """
    chain, replay, head = Chain(), Replay(), None
    rows: list[TableRow] = []
    digest, ending = hashlib.sha256(), dict[str, Any]()
    numbered = enumerate(archived, start=1)
    if json.loads(next(numbered, (0, "null"))[1]) != _FIRST:
        raise LedgerError("this is not an archive of a ledger, or is from a newer neartwin; install a newer one")
    for number, line in numbered:
        text = line.rstrip("\n")
        parts = json.loads(text)
        if head is not None:
            raise LedgerError(f"line {number} of the archive stands after its end")
        if "head" in parts:
            head, ending = Head.parse(parts["head"]), parts
        elif "row" in parts:
            rows.append(parts)
            digest.update(text.encode())
        elif "document" in parts:
            page.store(parts["document"], base64.b64decode(parts["content"], validate=True))
        else:
            _take(page, chain, replay, text)
    if head is None:
        raise LedgerError("the archive is incomplete: its last line, with the head, is missing; copy it again")
    if head.position != chain.position:
        raise LedgerError(f"the archive must have {head.position} records, and has {chain.position}; copy it again")
    if ending.get("rows", 0) != len(rows) or (rows and ending["digest"] != digest.hexdigest()):
        raise LedgerError("the rows of the service were changed or cut off in the archive; copy it again")
    verdict = verified(page, head)
    if not verdict.whole:
        raise LedgerError(f"the archive fails verification: {verdict}")
    return rows


def _take(page: Writing, chain: Chain, replay: Replay, line: str) -> None:
    record = chain.take(chain.position + 1, line, records.digest(line))
    if record is None or chain.faults:
        raise LedgerError(f"the archive fails verification: {chain.faults[0]}")
    if reason := replay.broken(record):
        raise LedgerError(f"the archive fails verification: record {record.position} breaks a rule: {reason}")
    page.take(record)


class Book(AbstractContextManager["Book"]):
    """A durable budget in one SQLite file, or in a PostgreSQL database.

    Any number of processes and threads may hold it open. Each write waits for its turn, and is on disk when the call
    returns. A SQLite ledger must lie on a disk of this machine, not on a network file system.

    Args:
        where: A path, or a URL such as postgresql://user@host/database. The first use makes the ledger; its owner alone
            can read its file.

    >>> from neartwin.accounting.budgets import pure
    >>> people = Population(name="purchases", unit="customer_id", relation="add_remove")
    >>> with Book(getfixture("tmp_path") / "budget.db") as ledger:
    ...     account = ledger.open(people, pure(1))
    ...     ticket = account.reserve("digest of the plan", "monday", pure("0.25"))
    ...     stored = account.settle(ticket, b"the release")
    ...     account.remaining
    {'epsilon': Fraction(3, 4)}
    """

    def __init__(self, where: PathLike, *, start: Callable[[Writing], None] | None = Writing.begin_chain) -> None:
        """Open the ledger, or `start` a new one where there is none. With None there must be one."""
        self._database = Database(where, start=start)
        self._accounts: dict[str, Account] = {}  # an account is opened once, for good

    @classmethod
    def existing(cls, where: PathLike) -> Self:
        """Open a ledger that exists already.

        Args:
            where: A path or URL, as for `Book`.

        Returns:
            The ledger.

        Raises:
            LedgerError: There is no ledger.
        """
        return cls(where, start=None)

    @classmethod
    def restored(cls, archive: PathLike, where: PathLike, put: PutRows | None = None) -> Self:
        """A new ledger with the records and documents of an archive.

        `verify(head)` on it detects an archive older than the newest head kept elsewhere.

        Args:
            archive: The file of the archive.
            where: The new place, as for `Book`.
            put: Puts the rows of other tables into the same transaction, or None for an archive without any.

        Returns:
            The ledger.

        Raises:
            LedgerError: The archive is not whole, or there is a ledger in that place already.
        """
        taken: list[Path] = []

        def start(page: Writing) -> None:
            with Path(archive).open(encoding="ascii") as file:
                rows = fill(page, file)
            if put is not None:
                put(page, rows)
            elif rows:
                raise LedgerError("this is the backup of a whole service; write neartwin restore BACKUP --data NEW")
            taken.append(Path(archive))

        try:
            ledger = cls(where, start=start)
        except (ValueError, KeyError, TypeError, OSError) as fault:
            raise LedgerError(f"the archive {os.fspath(archive)} cannot be read: {fault}") from None
        if not taken:
            ledger.close()
            raise LedgerError(f"there is a ledger in {ledger.place} already; restore into a new place")
        return ledger

    @property
    def place(self) -> str:
        """The file's path, or the URL without its password."""
        return self._database.place

    def __repr__(self) -> str:
        return f"Book({self.place!r})"

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the database back. Accounts of a closed ledger refuse every question."""
        self._database.close()

    def open(self, population: Population, target: Budget | None = None) -> Account:
        """The account of a population. The first call registers the population; later calls return its account.

        A new source of a registered population is a refreshed copy of the same people. It is added, and charged to the
        same account.

        Args:
            population: The people, their unit and relation, and the place of their rows.
            target: The whole budget. None stands for the present terms of an account that is open already.

        Returns:
            The account.

        Raises:
            LedgerError: The population is registered with another unit or relation. Or its account has another rule or
                other caps, or its source belongs to another population. Or there is neither an account nor a budget.
        """
        terms = None if target is None else filter_for(target)
        places = [place for place in (population.source, *population.parts) if place]
        with self._database.write() as page:
            opened = _opening(page, population.name)
            if opened is None:
                if terms is None:
                    raise LedgerError(
                        f"the ledger has no account {population.name!r}: give the whole budget of its people, for all "
                        "questions together; write nt.pure(epsilon=1), or --budget epsilon=1 in a terminal"
                    )
                refuse_taken(page, population.name, places)
                rule = Rule.of(terms)
                opened = records.Opened(
                    account=population.name,
                    unit=population.unit,
                    relation=population.relation,
                    source=population.source,
                    rule=terms.kind,
                    pools=tuple((pool.name, pool.unit) for pool in terms.pools),
                    caps=rule.named(terms.caps),
                )
                page.append(opened)
            else:
                self._check_terms(page, opened, population, target)
            claimed(page, population.name, places)
        return self._account(opened, population.source)

    def account(self, name: str) -> Account:
        """The account of a registered population.

        Args:
            name: The name of the population.

        Returns:
            The account.

        Raises:
            LedgerError: There is none.
        """
        if name not in self._accounts:
            with self._database.read() as page:
                opened = _opening(page, name)
                if opened is None:
                    known = ", ".join(map(repr, page.account_names())) or "none"
                    raise LedgerError(f"the ledger has no account {name!r}; it has {known}")
            self._accounts[name] = self._account(opened, opened.source)
        return self._accounts[name]

    def accounts(self) -> tuple[Account, ...]:
        """All accounts, in the order of their opening."""
        with self._database.read() as page:
            names = page.account_names()
        return tuple(map(self.account, names))

    def raise_cap(self, name: str, target: Budget, reason: str = "", *, by: str = "") -> Account:
        """Raise an account's caps, and record it permanently with its reason.

        The account's guarantee becomes the weaker one of the new caps, for all its releases. Caps are never lowered,
        because the old promise still bounds the spending so far.

        Args:
            name: The name of the account.
            target: The new caps, of the account's own kind.
            reason: The reason, for the record.
            by: The curator, for a record of the act, or "".

        Returns:
            The account.

        Raises:
            LedgerError: No cap rises, or one falls.
            AccessError: Status 428. Two people are needed. It is recorded as a wish, and another one must do the same.
        """
        text(reason=reason, at_least=0, at_most=4000)
        account = self.account(name)
        caps = account.rule.caps(target)
        with self._database.write() as page:
            present = page.account(name).caps
            if any(new < old for (_, new), (_, old) in zip(caps, present, strict=True)) or caps == present:
                raise LedgerError(
                    f"account {name!r} has caps {account.rule.written(present)}; they can only be raised, "
                    f"which {target} does not do"
                )
            exact = ", ".join(f"{part}={amount}" for part, amount in parts_of(target).items())
            act: dict[str, object] = {"dataset": name, "target": exact, "reason": reason}
            may = agreed(page, by or CONSOLE, "cap", act)
            if may:
                page.append(records.Raised(account=name, caps=caps, reason=reason))
            if may and by:
                page.append(records.Acted(account=name, who=by, what="cap", body=records.canonical(act)))
        if not may:
            raise refusal("cap")
        return account

    def need_two_people(self, *, by: str) -> None:
        """Need two people for what weakens a promise, from now on. `by` is the person, for the record."""
        with self._database.write() as page:
            if not standing(page).needed:
                page.append(records.Acted(account="", who=by, what="two people", body=records.canonical({})))

    def wishes(self) -> tuple[Wish, ...]:
        """The acts that wait for a second person, oldest first."""
        with self._database.read() as page:
            return standing(page).waiting

    def acts(
        self, account: str | None = None, *, before: int | None = None, most: int | None = None
    ) -> tuple[Act, ...]:
        """The acts that the chain has, oldest first.

        Args:
            account: The account that they are about, or None for all.
            before: Only records below this position, or None for all.
            most: Only the newest of them, at most this many; None for all.

        Returns:
            The acts.
        """
        with self._database.read() as page:
            return tuple(page.acts(account, before=before, most=most))

    def head(self) -> Head:
        """The newest record's position and hash. Kept elsewhere, it later proves a change or a rollback."""
        with self._database.read() as page:
            return page.head()

    def check_writable(self) -> None:
        """Take and give back the right to write.

        Raises:
            LedgerError: The database is away, full or read-only.
        """
        with self._database.write():
            pass

    def verify(self, head: Head | None = None, also: FindFaults = lambda _: ()) -> Verdict:
        """Check the records, and report every change, removal and reordering.

        A ledger put back to an older state is whole, and so is one rewritten from some record on. Only a head kept
        elsewhere reveals them.

        Args:
            head: A head that was kept elsewhere, such as in a certificate, or None.
            also: Finds the faults of other tables of the database, in the same transaction.

        Returns:
            The verdict, with all faults.
        """
        with self._database.read() as page:
            verdict = verified(page, head)
            return replace(verdict, faults=(*verdict.faults, *also(page)))

    def export(self, path: PathLike, rows: ReadRows = lambda _: ()) -> Head:
        """Write the whole ledger as JSON lines to a new file, verified.

        Args:
            path: The new file.
            rows: Reads the rows of other tables of the database, which go into the file, in the same transaction.

        Returns:
            The head, to be kept elsewhere.

        Raises:
            LedgerError: The file exists or cannot be made, or the ledger is not whole.
        """
        with self._database.read() as page:
            save(page, Path(path), rows(page))
            return page.head()

    def anchor(self, place: str) -> Head:
        """Keep the newest head elsewhere, unless the head that is kept there speaks against this ledger.

        Args:
            place: A file, the URL of a web server that takes PUT, or git: and a folder of a Git repository.

        Returns:
            The head.

        Raises:
            LedgerError: The kept head is not in this history, or the place cannot be used.
        """
        known = anchors.kept(place)
        with self._database.read() as page:
            head = page.head()
            if known is not None and (known.position > head.position or page.record(known.position)[1] != known.hash):
                raise LedgerError(
                    f"the head kept at {place} is {known}, which this ledger does not have: it was rolled back or restored "
                    "from an older backup; verify it, and remove the kept head once you accept what is lost"
                )
        if known != head:
            anchors.keep(head, place)
        return head

    def _account(self, opened: records.Opened, source: str) -> Account:
        population = Population(name=opened.account, unit=opened.unit, relation=opened.relation, source=source)
        return Account(population=population, rule=Rule.of(opened), database=self._database)

    def _check_terms(
        self, page: Reading, opened: records.Opened, population: Population, target: Budget | None
    ) -> None:
        for term in ("unit", "relation"):
            before, now = getattr(opened, term), getattr(population, term)
            if before != now:
                raise LedgerError(
                    f"population {population.name!r} is registered with {term} {before!r}, not {now!r}; "
                    "a second account for the same people would spend their budget twice"
                )
        if target is None:
            return
        rule, terms, present = Rule.of(opened), filter_for(target), page.account(population.name).caps
        if Rule.of(terms) != rule or rule.named(terms.caps) != present:
            raise LedgerError(
                f"population {population.name!r} has an account already, of kind {rule.kind!r} with caps "
                f"{rule.written(present)}; {target} is another. Open it without a budget to take its own terms, or have "
                "a curator raise its caps"
            )


def _opening(page: Reading, name: str) -> records.Opened | None:
    position = page.opened(name)
    if position is None:
        return None
    event = page.record(position)[0].event
    if not isinstance(event, records.Opened) or event.account != name:
        raise LedgerError(f"record {position} no longer opens account {name!r}; verify the ledger")
    return event
