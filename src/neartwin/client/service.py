"""A service for its analysts: its data sets, accounts, proposals and releases have the verbs of local ones.

```
account = nt.open_ledger("budget.db").open(nt.table("purchases.parquet", unit="customer_id"), nt.pure(1))   # local
account = nt.connect("https://house.example", token).open("purchases")                                     # served
```
The rest of a notebook stays: `account.rows`, `account.plan(...)`, `account.release(...)`.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from neartwin.accounting.budgets import Budget, budget_of, parts_of
from neartwin.client.http import HttpClient, raised
from neartwin.errors import LedgerError, QueryError
from neartwin.exact import Number, rational
from neartwin.interactive import Amounts, at_a_prompt
from neartwin.ledger import Entry, History
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.planning.explain import Explained
from neartwin.planning.limits import Limits
from neartwin.queries.query import Query, Rows, TopK, origins_of
from neartwin.queries.wire.parse import form_of
from neartwin.queries.wire.postprocess import after_read
from neartwin.releases.certificates import Certificate
from neartwin.releases.postprocess import shaped
from neartwin.releases.release import Release
from neartwin.releases.values import Preview
from neartwin.statistics.base import ExpectedError
from neartwin.tables.joins import OtherTable
from neartwin.tables.sources import ServedTable
from neartwin.tables.table import ROW, JoinKind, Owner, RowUnit, Table, bounds
from neartwin.tables.types import ColumnType

Json = dict[str, Any]
_WAIT = 30  # seconds that one request waits for a release
_EACH_ROW = "(each row)"


def connect(url: str, token: str, *, seconds: float = 60) -> "Service":
    """Connect to a service, as the token's owner. The token is sent to that address alone.

    Args:
        url: The address, http://host:port or https://host.
        token: The token from the curator.
        seconds: The longest wait for one answer.

    Returns:
        The service.

    Raises:
        ParameterError: The address or the token has another form.
        AccessError: The token is not valid, or nobody answers.

    >>> connect("ftp://house.example", "nt_1_2")
    Traceback (most recent call last):
    neartwin.errors.ParameterError: url='ftp://house.example' must be http://host:port or https://host
    """
    return Service(HttpClient(url, token, seconds))


@dataclass(frozen=True, slots=True)
class Service:
    """A service's data sets, within the curator's policy.

    Attributes:
        http: The connection.
    """

    http: HttpClient

    def datasets(self) -> tuple[str, ...]:
        """The names of the data sets that the token's owner may use."""
        return tuple(found["name"] for found in self.http.get("datasets"))

    def open(self, name: str) -> "ServedAccount":
        """The account of a data set, with its public schema."""
        body = self.http.get("datasets", name)
        return ServedAccount(self.http, _rows(self.http.address, body), _keys(body), *_tables(self.http.address, body))


@dataclass(frozen=True, slots=True)
class ServedProposal:
    """A plan by the service, with the account that would pay for it. Nothing is spent until it is released.

    Attributes:
        account: The account.
        price: The price of a release.
        digest: The digest of the plan, equal for plans that do the same.
    """

    account: "ServedAccount"
    price: Budget
    digest: str
    _ask: Json = field(repr=False)
    _explained: Explained = field(repr=False)

    def explain(self) -> Explained:
        """The plan as a tree, with the reason for every number."""
        return self._explained

    def preview(self) -> Preview:
        """Price, expected errors, and the budget after."""
        body = self.account.http.post("datasets", self.account.name, "plan", body=self._ask)
        return Preview(
            price=budget_of(body["price"], "price"),
            before=_amounts(body["before"]),
            after=_amounts(body["after"]),
            errors=tuple(_expected(error) for error in body["errors"]),
        )


@at_a_prompt("account")
@dataclass(frozen=True, slots=True)
class ServedAccount:
    """The budget of a data set that a service keeps.

    Attributes:
        http: The connection.
        rows: The rows. Each question starts here.
        keys: Declared public keys, by column.
        tables: Tables to join, as in `account.rows.join(account.tables["towns"], on="town")`.
        table_keys: Declared public keys of those tables, by table and column.
    """

    http: HttpClient
    rows: Rows
    keys: Mapping[str, tuple[object, ...]]
    tables: Mapping[str, Rows | OtherTable] = field(default_factory=dict)
    table_keys: Mapping[str, Mapping[str, tuple[object, ...]]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The data set's name."""
        return self.rows.table.name

    def declared_keys(self, rows: Rows) -> dict[str, tuple[object, ...]]:
        """The declared public keys of the columns of rows, with those of joined tables, by their names in the rows."""
        found, keys = origins_of(rows.table, self.tables), {**self.table_keys, "": self.keys}
        return {column: keys[name][own] for column, (name, own) in found.items() if own in keys.get(name, ())}

    @property
    def remaining(self) -> dict[str, Fraction]:
        """The amount that the analyst may still spend, by pool, exact: the least of the account's and the analyst's
        allotments.
        """
        return _amounts(self.http.get("datasets", self.name)["remaining"])

    @property
    def spent(self) -> dict[str, Fraction]:
        """The amount that all analysts have spent, by pool, exact."""
        return _amounts(self.http.get("datasets", self.name)["spent"])

    def plan(
        self,
        query: Query | TopK,
        *,
        spend: Budget,
        limits: Limits | None = None,
        importance: Mapping[str, Number] | None = None,
        group_size: int = 1,
    ) -> ServedProposal:
        """Have the service decide every step and the price of a release. It reads no row and spends nothing.

        Args:
            query: The question.
            spend: As for a local account.
            limits: As for a local account.
            importance: As for a local account.
            group_size: As for a local account.

        Returns:
            The plan, to be previewed and released.
        """
        return self.plan_series([query], spend=spend, limits=limits, importance=importance, group_size=group_size)

    def plan_series(
        self,
        queries: Sequence[Query | TopK],
        *,
        spend: Budget,
        limits: Limits | None = None,
        importance: Mapping[str, Number] | None = None,
        group_size: int = 1,
    ) -> ServedProposal:
        """Have the service plan several questions under one price. It reads no row and spends nothing.

        Args:
            queries: The questions.
            spend: As for a local account.
            limits: As for a local account.
            importance: As for a local account.
            group_size: As for a local account.

        Returns:
            The plans, to be previewed and released.

        Raises:
            QueryError: There is no question.
            LedgerError: A question is about another table.
        """
        if not queries:
            raise QueryError("a series needs at least one question")
        if any(query.table.source != self.rows.table.source for query in queries):
            raise LedgerError(f"this account belongs to {self.name!r}, and the question is about another table")
        forms = [form_of(query, self.tables) for query in queries]
        ask: Json = {"question": forms[0] if len(forms) == 1 else forms, "spend": parts_of(spend)}
        ask |= {"limits": limits.as_dict()} if limits is not None else {}
        weights = {name: str(rational(importance=part)) for name, part in (importance or {}).items()}
        ask |= {"importance": weights} if weights else {}
        ask |= {"group_size": group_size} if group_size != 1 else {}
        body = self.http.post("datasets", self.name, "plan", body=ask)
        return ServedProposal(self, budget_of(body["price"], "price"), body["digest"], ask, _tree(body["explanation"]))

    def release(self, proposal: ServedProposal, *, key: str = "") -> Release:
        """Pay, have the service query the data, and get the release. A repeated question costs nothing.

        Args:
            proposal: The plan.
            key: An idempotency key. A request sent again under its key never pays twice. The default is a fresh one, so
                that a broken connection can be tried again.

        Returns:
            The release.

        Raises:
            BudgetError: The price does not fit. Nothing is spent.
        """
        if isinstance(proposal._ask["question"], list):  # noqa: SLF001 - of this file
            raise QueryError("this is a series, which has several answers: ask for them with release_series")
        return self.release_series(proposal, key=key)[0]

    def release_series(self, proposal: ServedProposal, *, key: str = "") -> tuple[Release, ...]:
        """Pay once, and get the releases of all questions of a series.

        Args:
            proposal: The plans.
            key: An idempotency key, as for `release`.

        Returns:
            The releases, in the order of the questions.
        """
        if proposal.account.name != self.name:
            raise LedgerError(f"this account belongs to {self.name!r}, and the proposal to {proposal.account.name!r}")
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        body = proposal._ask | {"digest": proposal.digest}  # noqa: SLF001 - of this file
        job: Json = self.http.post("datasets", self.name, "releases", body=body, headers=headers, wait=_WAIT)
        while job["state"] != "done":
            job = self.http.get("jobs", job["job"], wait=_WAIT)
        if job.get("error"):
            raise raised(job["error"])
        asked, answers = proposal._ask["question"], job.get("releases") or [job["release"]]  # noqa: SLF001 - of this file
        forms = asked if isinstance(asked, list) else [asked]
        steps = [after_read(form.get("after", {})) for form in forms]
        return tuple(shaped(Release.from_dict(body), after) for body, after in zip(answers, steps, strict=True))

    def history(self) -> History:
        """The records that the analyst may see, oldest first."""
        found: list[Json] = []
        before: dict[str, int] = {}
        while older := self.http.get("datasets", self.name, "history", **before):
            found, before = [*older, *found], {"before": older[0]["position"]}
        return History(map(_entry, found))

    def answer(self, position: int, *, part: int = 1) -> Release:
        """A stored release, at no cost.

        Args:
            position: The position of its reservation.
            part: The number of the question in a series.

        Returns:
            The release.
        """
        return Release.from_dict(self.http.get("datasets", self.name, "releases", str(position), part=part)["release"])

    def certificate(self, release: Release) -> Certificate:
        """The signed certificate of a release; check it with `neartwin certificate verify` and the owner's key."""
        place = ("datasets", self.name, "releases", str(release.provenance.position))
        parts = [self.answer(release.provenance.position, part=n + 1) for n in range(self.http.get(*place)["parts"])]
        other = [(one.provenance.plan != release.provenance.plan, one != release) for one in parts]
        part = 1 + other.index(min(other))  # a release that was shaped is found by its plan
        return Certificate.from_json(self.http.send("GET", (*place, "certificate"), query={"part": part}))


def _rows(address: str, body: Json) -> Rows:
    unit = ROW if body["unit"] == _EACH_ROW else body["unit"]
    return Rows(_table(ServedTable(address, body["name"]), body, body["columns"], unit))


def _table(source: ServedTable, body: Json, columns: list[Json], unit: str | RowUnit) -> Table:
    """A table of the data set's units. body: the data set."""
    return Table(
        source=source,
        name=body["name"],
        unit=unit,
        neighbours=Neighbours(body["neighbours"]),
        declared=frozenset(),
        **_public(columns),
    )


def _public(columns: list[Json]) -> dict[str, Any]:
    """Types and declared bounds of columns."""
    return {
        "schema": MappingProxyType({column["name"]: ColumnType(column["type"]) for column in columns}),
        "columns": MappingProxyType({c["name"]: bounds(*c["bounds"]) for c in columns if c["bounds"]}),
    }


def _tables(
    address: str, body: Json
) -> tuple[Mapping[str, Rows | OtherTable], Mapping[str, Mapping[str, tuple[object, ...]]]]:
    """The tables to join, and their declared public keys, by name."""
    tables: dict[str, Rows | OtherTable] = {}
    for other in body.get("tables", ()):
        name, columns = other["name"], other["columns"]
        source = ServedTable(address, f"{body['name']}#{name}")
        if other["kind"] == "same_unit":
            tables[name] = Rows(_table(source, body, columns, other["unit"]))
        else:
            kind = JoinKind.PUBLIC if other["kind"] == "public" else JoinKind.OWNED
            people = ServedTable(address, body["name"])
            owner = Owner(name=body["name"], source=people, on=tuple(other["on"].items())) if other["on"] else None
            tables[name] = OtherTable(
                kind=kind, name=name, source=source, declared=frozenset(), owner=owner, **_public(columns)
            )
    return MappingProxyType(tables), MappingProxyType({other["name"]: _keys(other) for other in body.get("tables", ())})


def _keys(body: Json) -> Mapping[str, tuple[object, ...]]:
    declared = {c["name"]: (c["type"], c["keys"]) for c in body["columns"] if c["keys"] is not None}
    return MappingProxyType(
        {name: tuple(_key(kind, value) for value in keys) for name, (kind, keys) in declared.items()}
    )


def _key(kind: str, value: object) -> object:
    """A key from its JSON value. Dates come as text, because JSON has no dates."""
    return date.fromisoformat(value) if kind == ColumnType.DATE and isinstance(value, str) else value


def _amounts(body: Mapping[str, str]) -> dict[str, Fraction]:
    return Amounts({pool: Fraction(amount) for pool, amount in body.items()})


def _expected(body: Json) -> ExpectedError:
    half = body["half_width"]
    return ExpectedError(
        name=body["name"],
        confidence=body["confidence"],
        half_width=None if half is None else Fraction(half),
        by_size=tuple((int(size), error if error is None else float(error)) for size, error in body["by_size"]),
        says=body["says"],
    )


def _tree(body: Json) -> Explained:
    return Explained(body["line"], tuple(_tree(part) for part in body["under"]))


def _entry(body: Json) -> Entry:
    exact = {name: _amounts(body[name]) for name in ("price", "caps")}
    return Entry(**{**body, **exact, "payers": tuple(body["payers"])})
