"""An opened data directory: the ledger, the store beside it, and the tables that were registered; and the tasks on it.

A task turns one question from its JSON form into a plan, a preview or a release, in a worker process. Task and outcome are JSON:
`{"do": "plan", "dataset": ..., "question": ..., "spend": ..., "holders": ...}` gives `{"done": ...}` or `{"refused": ...,
"status": ...}`.
"""

import os
from collections.abc import Callable, Mapping, Sized
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Self

import neartwin.ledger as records
from neartwin.accounting.budgets import Budget, budget_of, parts_of
from neartwin.errors import AccessError, LedgerError, NeartwinError, ParameterError, QueryError, SchemaError
from neartwin.ledger import anchors
from neartwin.ledger.wishes import CONSOLE
from neartwin.planning.limits import Limits
from neartwin.planning.pilots import with_private_range
from neartwin.queries.query import Query, Rows, TopK, completed, table_of
from neartwin.queries.sql.joins import Others
from neartwin.queries.wire.parse import form_of, question_of
from neartwin.queries.wire.postprocess import after_form
from neartwin.releases.accounts import Account, Ledger, Proposal, SeriesProposal
from neartwin.releases.accounts import check as owner_check
from neartwin.releases.certificates import Certificate, OwnerKey, certify
from neartwin.releases.release import answer_text, release_in
from neartwin.releases.run import snapshot_of
from neartwin.statistics.clipping import read_range
from neartwin.tables.joins import OtherTable
from neartwin.tables.sources import places_of
from neartwin.web import tokens
from neartwin.web.datasets import Dataset, Rule, keys_in
from neartwin.web.errors import UnexpectedError, as_dict, status_of
from neartwin.web.policy import check, rule_for, unknown
from neartwin.web.store import Store, integrity
from neartwin.web.store.store import requests_in

Tables = Mapping[str, Rows | OtherTable]
Json = dict[str, Any]
DECLARED = "declared"  # instead of keys: the public keys of the data set
MOST_CELLS = 250_000  # of one question: planning lists every one, and a stored answer has 64 MiB


class DataDirectory(AbstractContextManager["DataDirectory"]):
    """A service's data directory, a context manager. Any number of processes may have it open.

    Attributes:
        place: The directory, readable by its owner alone.
        files: The folder in it whose files a curator may register by name over HTTP.
        ledger_place: The ledger's file in the directory, or a postgresql:// URL.
        ledger: The opened ledger.
        store: The service's tables in the ledger's database.
    """

    def __init__(self, place: str | os.PathLike[str], ledger: str = "") -> None:
        """Open the directory, and make missing parts.

        Args:
            place: The directory.
            ledger: A postgresql:// URL, or "" for a SQLite file in the directory.

        Raises:
            LedgerError: The directory cannot be made.
        """
        self.place = Path(place).absolute()
        self.files = self.place / "data"
        try:
            self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.files.mkdir(mode=0o700, exist_ok=True)
        except OSError as fault:
            raise LedgerError(f"the directory {self.place} cannot be made: {fault.strerror}") from None
        self.ledger_place = ledger or str(self.place / "budget.db")
        self.ledger = Ledger(self.ledger_place)
        self.store = Store(self.ledger_place)
        self._tables: dict[str, tuple[Dataset, Rows, Tables]] = {}

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database connections."""
        self.store.close()
        self.ledger.close()

    @property
    def books(self) -> records.Book:
        """The ledger's records."""
        return self.ledger.books

    @property
    def owner_key(self) -> Path:
        """The file of the private key that signs certificates: a copy of the one that the database keeps for all hosts."""
        path = self.place / ("owner.key" if "://" in self.ledger_place else "budget.db.key")

        def own() -> str:
            OwnerKey.at(path)  # which makes it at first use
            return path.read_text(encoding="ascii")

        pem = self.store.signing_key(own)
        if not path.exists() or path.read_text(encoding="ascii") != pem:
            OwnerKey.put(path, pem.encode())
        return path

    def backup(self, path: str | os.PathLike[str]) -> records.Head:
        """Write the ledger and the service's tables to a new file, verified, as they are at one moment.

        Args:
            path: The new file. It holds the signing key and the registrations' places.

        Returns:
            The head, to be kept elsewhere.
        """
        _ = self.owner_key  # which the database keeps from its first use on
        return self.books.export(path, integrity.rows)

    @property
    def head_file(self) -> str:
        """The file in the directory that keeps a head of the ledger, outside its database."""
        return str(self.place / ("ledger.head" if "://" in self.ledger_place else "budget.db.head"))

    @classmethod
    def restored(cls, archive: str | os.PathLike[str], place: str | os.PathLike[str], ledger: str = "") -> Self:
        """A new service from a backup, all of it or nothing.

        Args:
            archive: The file of the backup.
            place: The new directory.
            ledger: As for `DataDirectory`; the kind of database may be another one.

        Raises:
            LedgerError: The backup is not whole, or there is a ledger in that place already.
        """
        folder = Path(place).absolute()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        records.Book.restored(archive, ledger or folder / "budget.db", integrity.put).close()
        opened = cls(place, ledger)
        _ = opened.owner_key  # its file beside the ledger, for commands that sign
        return opened

    def first_token(self) -> str:
        """The text of a first curator's token, to be shown once. It is "" if there was a curator already."""
        there = any(one.role == "curator" for one in self.store.tokens())
        return "" if there else self.mint("curator", "curator", by=CONSOLE)[1]

    def mint(self, name: str, role: str, *, by: str, project: str = "", days: int = 90) -> tuple[tokens.Token, str]:
        """Make a token and store its hash.

        Args:
            name: The owner's name.
            role: "curator", "analyst", "auditor" or "agent".
            by: The curator who makes it, for the record.
            project: The owner's project, or "".
            days: The days until it expires.

        Returns:
            The token, and its text that is shown once.
        """
        token, token_hash, token_text = tokens.new_token(name, role, project=project, days=days)
        self.store.add_token(token, token_hash, by=by)
        return token, token_text

    def dataset(self, name: str) -> Dataset:
        """A registered data set.

        Raises:
            AccessError: Status 404 for a name that is not registered.
        """
        registered = self.store.dataset(name) if name.isprintable() else None  # a database stores no other
        if registered is None:
            raise unknown(name)
        return registered

    def rows(self, dataset: Dataset) -> Rows:
        """The rows of a data set. Its schema is read once for each registration.

        Raises:
            AccessError: Status 503. The table cannot be read now.
        """
        return self._opened(dataset)[0]

    def tables(self, dataset: Dataset) -> Tables:
        """The tables that may be joined to a data set, by their names in SQL."""
        return self._opened(dataset)[1]

    def _opened(self, dataset: Dataset) -> tuple[Rows, Tables]:
        known = self._tables.get(dataset.name)
        if known is not None and known[0] == dataset:
            return known[1:]
        try:
            rows, tables = dataset.rows(), dataset.others()
        except Exception:  # noqa: BLE001 - whatever it is, its text may name the place
            raise unreadable(dataset.name) from None
        self._tables[dataset.name] = (dataset, rows, tables)
        return rows, tables

    def account(self, dataset: Dataset) -> Account:
        """The budget of a data set's people, with its table."""
        return Account(self.books.account(dataset.name), self.rows(dataset).table)

    def register(self, dataset: Dataset, *, by: str) -> None:
        """Open the account of a data set and add the data set. The table is opened first, so a wrong one changes nothing.

        Args:
            dataset: The data set.
            by: The curator who registers it, for the record.

        Raises:
            LedgerError: The name is registered already.
            SchemaError: A declared column is missing, or a value cannot be read.
            ParameterError: A rule's amount could never be paid.
        """
        if self.store.dataset(dataset.name) is not None:
            raise LedgerError(f"data set {dataset.name!r} is registered already; change its policy, or give a name")
        rows, tables = dataset.rows(refresh=None), dataset.others(refresh=None)
        _known_columns(dataset, rows, tables)
        _require_readable(rows)
        people = self.ledger.open(rows, dataset.budget).book  # to whom private rows, wherever they lie, are charged
        people.checked(snapshot_of(people, [rows.table]))
        for side in dataset.tables:
            places = places_of(table_of(tables[side.name]).source)
            if (owner := getattr(tables[side.name], "owner", None)) is not None:
                people.own(places, str(owner))
            elif side.kind != "public":
                people.claim(*places)
        self.store.register(dataset, by=by)

    def file(self, name: str) -> Path:
        """The path of a file of the folder `files`, by its bare name.

        Raises:
            ParameterError: The folder has no such file.
        """
        if name not in {entry.name for entry in self.files.iterdir() if entry.is_file()}:
            raise ParameterError("file", name, "is not in the service's folder data", remedy="put the file there first")
        return self.files / name

    def checked_policy(self, name: str, policy: tuple[Rule, ...]) -> Dataset:
        """The data set with other rules, checked and not stored.

        Raises:
            SchemaError: A rule names a missing column.
            ParameterError: A rule's amount could never be paid.
        """
        changed = replace(self.dataset(name), policy=policy)
        _known_columns(changed, self.rows(changed), self.tables(changed))
        return changed

    def set_policy(self, name: str, policy: tuple[Rule, ...], *, by: str, instead_of: Dataset | None = None) -> Dataset:
        """Replace the rules of a data set.

        Args:
            name: The data set.
            policy: The new rules, in order.
            by: The curator who changes them, for the record.
            instead_of: The data set that the curator saw, or None for any.

        Raises:
            LedgerError: The data set is no longer `instead_of`.
        """
        changed = self.checked_policy(name, policy)
        self.store.change(changed, "policy", by=by, instead_of=instead_of)
        return changed

    def refresh(self, name: str, *, by: str) -> Dataset:
        """Declare that a data set's tables changed: they are read again, and a question that was asked before pays anew.

        Args:
            name: The data set.
            by: The curator who declares it, for the record.

        Raises:
            SchemaError: A table cannot be read.
        """
        standing = self.dataset(name)
        changed = replace(standing, snapshot=standing.snapshot + 1)
        rows = changed.rows(refresh=True)
        changed.others(refresh=True)
        _require_readable(rows)
        self.store.change(changed, "refresh", by=by, instead_of=standing)
        account = self.books.account(name)
        account.checked(snapshot_of(account, [rows.table]))
        return changed

    def policy_columns(self, dataset: Dataset) -> list[str]:
        """The columns that a rule of a data set may name."""
        return [*self.rows(dataset).table.schema, *_columns_of(self.tables(dataset))]

    def allot(self, name: str, holder: str, target: Budget, *, by: str, answers: int = 0) -> records.Allotment:
        """Set the amount that one holder may spend of a data set.

        Args:
            name: The data set.
            holder: "analyst:NAME", "agent:NAME" or "project:NAME".
            target: The amount.
            by: The curator who sets it, for the record.
            answers: The position of the request that this approves, or 0.

        Raises:
            AccessError: Status 409. The request was answered meanwhile.
            ParameterError: The holder is none of these.
        """
        if holder.partition(":")[0] not in {"analyst", "agent", "project"} or not holder.partition(":")[2]:
            raise ParameterError("holder", holder, "must be analyst:NAME, agent:NAME or project:NAME")
        known = self.dataset(name).name
        check = partial(requests_in, dataset=known, position=answers)
        return self.books.account(known).allot(holder, target, by=by, check=check)

    def certificate(self, account: records.Account, position: int, part: int = 1) -> Certificate:
        """The signed certificate of a release, with the present head of the ledger.

        Args:
            account: The account that paid for the release.
            position: The position of the record that paid for it or settled it.
            part: The number of the question in a series, from 1.
        """
        return certify(release_in(account.answer(position).document, part), self.books, key=self.owner_key)

    def verify(self, head: records.Head | None = None) -> records.Verdict:
        """Verify all records, and compare data sets, policies and tokens with the recorded acts.

        Args:
            head: A head that was kept elsewhere, which finds a rollback; None for the one in `head_file`.
        """
        return self.books.verify(head or anchors.kept(self.head_file), integrity.faults)


def unreadable(dataset: str) -> AccessError:
    """The refusal of questions to a data set that cannot be read. It says no place and no cause."""
    return AccessError(
        503, "dataset", dataset, "cannot be read now", remedy="tell the curator; paid answers stay readable"
    )


def ensure_allotments(account: records.Account, rule: Rule, holder: str) -> None:
    """Give a person without an allotment what the rule gives at first. An agent has what a curator gave it."""
    first = rule.first_allotment(holder)
    if first is not None and account.allotment(holder) is None:
        account.allot(holder, first, first=True)  # a curator may have set another one meanwhile


def _require_readable(rows: Rows) -> None:
    if not rows.table.typed and (faults := owner_check(rows)):
        columns = ", ".join(fault.partition(":")[0] for fault in faults)
        raise SchemaError(f"values of {columns} cannot be read; on the service's machine `neartwin check` says why")


def _columns_of(tables: Tables) -> list[str]:
    return [f"{name}.{column}" for name, other in tables.items() for column in table_of(other).schema]


def _known_columns(dataset: Dataset, rows: Rows, tables: Tables) -> None:
    theirs = _columns_of(tables)
    named_columns: Mapping[str, list[str]] = {
        "keys": list(dataset.keys),
        "columns": [name for rule in dataset.policy for name in rule.columns or ()],
        "group_columns": [name for rule in dataset.policy for name in rule.group_columns or ()],
    }
    for what, names in named_columns.items():
        for name in names:
            if name not in theirs:
                rows.table.has(name, what)
    for rule in dataset.policy:
        _payable(dataset, rule)


def _payable(dataset: Dataset, rule: Rule) -> None:
    """Refuse a rule's amount that could never be paid, because it would refuse every release."""
    from neartwin.accounting.filters import filter_for

    own = filter_for(dataset.budget)
    if rule.allotment is not None and filter_for(rule.allotment).kind != own.kind:
        requirement = f"must be of the budget's own kind, as {dataset.budget} is"
        raise ParameterError("allotment", str(rule.allotment), requirement)
    if rule.max_spend is not None:
        try:
            own.price(rule.max_spend)
        except NeartwinError as refusal:
            raise ParameterError("max_spend", str(rule.max_spend), f"must be payable: {refusal}") from None


def outcome(directory: DataDirectory, task: Mapping[str, Any]) -> Json:
    """Run a task.

    Args:
        directory: The opened data directory.
        task: The task, as JSON data.

    Returns:
        The result or the refusal, as JSON data. An unexpected exception becomes a uniform refusal.
    """
    try:
        return {"done": _DOERS[task["do"]](directory, task)}
    except NeartwinError as refusal:
        return {"refused": as_dict(refusal), "status": status_of(refusal)}
    except MemoryError:
        raise  # the process ends, as one that is killed for its memory: both have one end
    except Exception:  # noqa: BLE001 - unexpected, and its text may hold a value
        return {"refused": as_dict(UnexpectedError()), "status": 500}


def _planned(directory: DataDirectory, task: Mapping[str, Any]) -> Json:
    proposal = _proposal(directory, task)[0]
    tables = directory.tables(directory.dataset(task["dataset"]))
    preview = proposal.preview()
    plans = [proposal.plan] if isinstance(proposal, Proposal) else proposal.plan.parts
    forms = [form_of(plan.query, tables) for plan in plans]
    return {
        "question": forms[0],
        **({"questions": forms} if len(forms) > 1 else {}),
        "digest": proposal.plan.digest,
        "price": parts_of(proposal.price),
        "explanation": asdict(proposal.explain()),
        "before": {pool: str(amount) for pool, amount in preview.before.items()},
        "after": {pool: str(amount) for pool, amount in preview.after.items()},
        "affordable": preview.affordable,
        "errors": [
            asdict(error) | {"half_width": None if error.half_width is None else str(error.half_width)}
            for error in preview.errors
        ],
        "says": str(preview),
        "stored": _stored(proposal),
        "shown_after": _after(proposal),
    }


def _stored(proposal: Proposal | SeriesProposal) -> int | None:
    """The position of the answer that is served at no cost. A table that cannot be read has none."""
    with suppress(NeartwinError):
        return None if isinstance(proposal, SeriesProposal) else proposal.account.stored(proposal)
    return None


def _released(directory: DataDirectory, task: Mapping[str, Any]) -> Json:
    proposal, rule = _proposal(directory, task)
    if "digest" in task and task["digest"] != proposal.plan.digest:
        changed = "is of an earlier question: it changed since"
        raise ParameterError("preview", task["digest"][:16], changed, remedy="preview it again")
    if task.get("full") and _stored(proposal) is None:
        raise no_room()
    account, holders = proposal.account, task["holders"]
    ensure_allotments(account.book, rule, holders[0])
    kind, _, name = holders[0].partition(":")
    payment: Json = {"payers": holders, "key": f"{name}/{task['key']}" if task["key"] else ""}
    begun = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        if isinstance(proposal, SeriesProposal):
            position = account.release_series(proposal, **payment)[0].provenance.position
        else:
            position = account.release(proposal, **payment).provenance.position
    except SchemaError:  # of a file that vanished or changed since it was opened, whose place is nobody's business
        raise unreadable(task["dataset"]) from None
    stored = account.book.answer(position)
    if kind == "analyst" and holders[0] not in stored.payers:  # agents have no history
        directory.store.serve(name, account.book.name, position)
    answer = {"answer": answer_text(position, stored.document), "kept": len(stored.document) * (stored.time > begun)}
    return answer | {"dataset": task["dataset"], "position": position, "after": _after(proposal)}


def no_room() -> AccessError:
    """The refusal of a new answer to an analyst whose answers take all the room that there is for one analyst."""
    rule = "may take 1 GiB at once, and 1 MiB a minute afterwards"
    return AccessError(429, "answers", "too many", rule, remedy="ask later; what was answered already is free")


def _after(proposal: Proposal | SeriesProposal) -> Json:
    """The question's free post-processing. The stored release is without it."""
    query = proposal.plan.query if isinstance(proposal, Proposal) else None
    return after_form(query.after) if isinstance(query, Query) else {}


_DOERS: Mapping[str, Callable[[DataDirectory, Mapping[str, Any]], Json]]
_DOERS = {"plan": _planned, "release": _released, "nothing": lambda *_: {}}


def _proposal(directory: DataDirectory, task: Mapping[str, Any]) -> tuple[Proposal | SeriesProposal, Rule]:
    dataset = directory.dataset(task["dataset"])
    rule = rule_for(dataset, task["holders"]) if task["holders"] else Rule()
    account, tables = directory.account(dataset), directory.tables(dataset)
    clip = read_range(task.get("private_range"))
    arguments: Json = {
        "spend": budget_of(task["spend"], "spend"),
        "limits": Limits.from_dict(task.get("limits") or {}),
        "importance": task.get("importance") or None,
        "group_size": task.get("group_size") or 1,
    }

    def query(form: Mapping[str, Any]) -> Query | TopK:
        return with_private_range(question_from(dataset, account.rows, form, tables), clip)

    proposal: Proposal | SeriesProposal
    if isinstance(asked := task["question"], list):
        proposal = account.plan_series(list(map(query, asked)), **arguments)
    else:
        proposal = account.plan(query(asked), **arguments)
    check(dataset, rule, proposal.plan, account.book, tables)
    return proposal, rule


def question_from(dataset: Dataset, rows: Rows, form: Mapping[str, Any], tables: Others) -> Query | TopK:
    """Read the question of a form.

    Args:
        dataset: The data set.
        rows: Its rows.
        form: The wire form. Its keys may be "declared", for the data set's own, or texts by column, as typed on a page.
        tables: The tables that the question may join, by name.

    Raises:
        QueryError: A column has no declared keys, or the form is no question.
    """
    keys = form.get("keys")
    if keys != DECLARED and (not isinstance(keys, Mapping) or "most_common" in form):
        return question_of(form, rows, tables)
    chosen = partial(_chosen_keys, dataset, keys, tables)
    return question_of({**form, "keys": None}, rows, tables, keys=chosen)


def _chosen_keys(dataset: Dataset, keys: Any, tables: Others, grouped: Rows, columns: list[str]) -> Json | None:
    """The keys of these columns of grouped rows: those that a form gives or the data set declares."""
    if isinstance(keys, Mapping):
        kinds = grouped.table.schema
        own = {name: keys_in(one, kinds.get(name)) if isinstance(one, str) else one for name, one in keys.items()}
    else:
        declared = dataset.declared_keys(grouped.table, tables)
        own = {column: list(declared[column]) for column in columns if column in declared}
    known = completed(own, grouped.table, columns, grouped.conditions)
    missing = [column for column in columns if column not in known]
    if missing and keys == DECLARED:
        raise QueryError(f"keys='declared': {missing[0]!r} has no declared keys; give keys, or null to discover them")
    if (cells := prod(len(values) for values in known.values() if isinstance(values, Sized))) > MOST_CELLS:
        rule = f"must have at most {MOST_CELLS:,} cells"  # before anything lists them
        raise ParameterError("keys", f"{cells:,} cells", rule, remedy="give fewer keys, or group by fewer columns")
    return own if keys != DECLARED else {column: list(known[column]) for column in columns} or None
