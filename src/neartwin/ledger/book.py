"""The ledger: which populations are registered, with what budget, and whether its records are whole."""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from neartwin.accounting.filters import filter_for
from neartwin.accounting.targets import Target
from neartwin.checks import text
from neartwin.errors import LedgerError
from neartwin.ledger import codec
from neartwin.ledger.account import Account, claimed, refuse_taken
from neartwin.ledger.archive import fill, save
from neartwin.ledger.rule import Rule
from neartwin.ledger.store import Database, Reading, Writing
from neartwin.ledger.values import Act, Head, Population
from neartwin.ledger.verify import Verdict, verified


class Ledger:
    """A durable budget in one SQLite file, or in a PostgreSQL database.

    where: a path, or a URL such as postgresql://user@host/database; the ledger is made at first use, its file readable
    by its owner alone. Any number of processes and threads may hold it open; each write waits for its turn, and is on
    disk when the call returns. A SQLite ledger must lie on a disk of this machine, not on a network file system.

    >>> from neartwin.accounting.targets import pure
    >>> people = Population(name="purchases", unit="customer_id", relation="add_remove")
    >>> with Ledger(getfixture("tmp_path") / "budget.db") as ledger:
    ...     account = ledger.open(people, pure(1))
    ...     ticket = account.reserve("digest of the plan", "monday", pure("0.25"))
    ...     stored = account.settle(ticket, b"the release")
    ...     account.remaining
    {'epsilon': Fraction(3, 4)}
    """

    def __init__(self, where: str | os.PathLike[str]) -> None:
        """Open the ledger, or make a new one where there is none."""
        self._database = Database(where, start=Writing.begin_chain)

    @classmethod
    def existing(cls, where: str | os.PathLike[str]) -> Self:
        """Open a ledger that is there already; `LedgerError` instead of a new one where there is none."""
        ledger = cls.__new__(cls)
        ledger._database = Database(where, start=None)  # noqa: SLF001 - its own class
        return ledger

    @classmethod
    def restored(cls, archive: str | os.PathLike[str], where: str | os.PathLike[str]) -> Self:
        """A new ledger with the records and documents of an archive; `LedgerError` when they are not whole.

        What is older than the newest head kept elsewhere is found by `verify(head)` on the restored ledger.
        """
        taken: list[Path] = []

        def start(page: Writing) -> None:
            with Path(archive).open(encoding="ascii") as file:
                fill(page, file)
            taken.append(Path(archive))

        ledger = cls.__new__(cls)
        try:
            ledger._database = Database(where, start=start)  # noqa: SLF001 - its own class
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
        return f"Ledger({self.place!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the database back. Accounts of a closed ledger refuse every question."""
        self._database.close()

    def open(self, population: Population, target: Target) -> Account:
        """The account of a population: registered and opened at first use, the same account after that.

        Raises `LedgerError` when the population is registered with another unit or relation, when its account has
        another rule or other caps, and when its source belongs to another population. A new source of a registered
        population is a refreshed copy of the same people: it is added, and charged to the same account.
        """
        wanted = filter_for(target)
        with self._database.write() as page:
            opened = _opening(page, population.name)
            if opened is None:
                if population.source:
                    refuse_taken(page, population.name, population.source)
                rule = Rule.of(wanted)
                event = codec.Opened(
                    account=population.name,
                    unit=population.unit,
                    relation=population.relation,
                    source=population.source,
                    rule=wanted.kind,
                    pools=tuple((pool.name, pool.unit) for pool in wanted.pools),
                    caps=rule.named(wanted.caps),
                )
                page.append(event)
                return self._account(event, population.source)
            self._check_terms(page, opened, population, target)
            if population.source:
                claimed(page, population.name, population.source)
        return self._account(opened, population.source)

    def account(self, name: str) -> Account:
        """The account of a registered population; `LedgerError` when there is none."""
        with self._database.read() as page:
            opened = _opening(page, name)
            if opened is None:
                known = ", ".join(map(repr, page.account_names())) or "none"
                raise LedgerError(f"the ledger has no account {name!r}; it has {known}")
        return self._account(opened, opened.source)

    def accounts(self) -> tuple[Account, ...]:
        """All accounts, in the order of their opening."""
        with self._database.read() as page:
            opened = [_opening(page, name) for name in page.account_names()]
        return tuple(self._account(event, event.source) for event in opened if event is not None)

    def raise_cap(self, name: str, target: Target, reason: str = "", *, by: str = "") -> Account:
        """Lift an account's caps: a curator's act, recorded for ever with its reason; by: whose, or "".

        The guarantee of the account becomes the weaker one of the new caps, for all its releases. Caps are never
        lowered: what was promised stays the bound of what was spent. `LedgerError` for a cap below the present one.
        """
        text(reason=reason, at_least=0, at_most=4000)
        account = self.account(name)
        caps = account.rule.caps(target)
        with self._database.write() as page:
            present = page.account(name).caps
            if any(new < old for (_, new), (_, old) in zip(caps, present, strict=True)) or caps == present:
                raise LedgerError(
                    f"account {name!r} has caps {account.rule.written(present)}; they can only be raised, "
                    f"{target} does not"
                )
            page.append(codec.Raised(account=name, caps=caps, reason=reason))
            if by:
                body = codec.canonical({"dataset": name, "target": str(target), "reason": reason})
                page.append(codec.Acted(account=name, who=by, what="cap", body=body))
        return account

    def acts(self) -> tuple[Act, ...]:
        """What people in charge did, oldest first, as the chain has it."""
        with self._database.read() as page:
            return tuple(
                Act(
                    position=record.position,
                    hash=made,
                    time=event.happened or record.time,
                    account=event.account,
                    who=event.who,
                    what=event.what,
                    body=event.body,
                )
                for record, made in page.acts()
                if isinstance(event := record.event, codec.Acted)
            )

    def head(self) -> Head:
        """The newest record's position and hash. Kept elsewhere, it later proves what was changed or rolled back."""
        with self._database.read() as page:
            return page.head()

    def verify(self, head: Head | None = None) -> Verdict:
        """Whether the records are whole, and what was changed, removed or reordered where they are not.

        head: one that was kept elsewhere, such as in a certificate. Without it, a ledger put back to an older state as
        a whole, or written anew from some record on, looks whole: only a head kept outside can tell.
        """
        with self._database.read() as page:
            return verified(page, head)

    def export(self, path: str | os.PathLike[str]) -> Head:
        """Write the whole ledger as JSON lines to a new file, verified; its head, to be kept elsewhere."""
        with self._database.read() as page:
            save(page, Path(path))
            return page.head()

    def _account(self, opened: codec.Opened, source: str) -> Account:
        population = Population(name=opened.account, unit=opened.unit, relation=opened.relation, source=source)
        return Account(population=population, rule=Rule.of(opened), database=self._database)

    def _check_terms(self, page: Reading, opened: codec.Opened, population: Population, target: Target) -> None:
        for term in ("unit", "relation"):
            before, now = getattr(opened, term), getattr(population, term)
            if before != now:
                raise LedgerError(
                    f"population {population.name!r} is registered with {term} {before!r}, not {now!r}; "
                    "a second account for the same people would spend their budget twice"
                )
        rule, wanted, present = Rule.of(opened), filter_for(target), page.account(population.name).caps
        if Rule.of(wanted) != rule or rule.named(wanted.caps) != present:
            raise LedgerError(
                f"population {population.name!r} has an account already, of kind {rule.kind!r} with caps "
                f"{rule.written(present)}; {target} is another. Open it with its own terms, take "
                f"ledger.account({population.name!r}), or have a curator raise its caps with ledger.raise_cap"
            )


def _opening(page: Reading, name: str) -> codec.Opened | None:
    position = page.opened(name)
    if position is None:
        return None
    event = page.record(position)[0].event
    if not isinstance(event, codec.Opened) or event.account != name:
        raise LedgerError(f"record {position} no longer opens account {name!r}; verify the ledger")
    return event
