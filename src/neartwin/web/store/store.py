"""Reads and writes the service's tables.

The transaction of a curator's act also chains the act into the ledger's records, with a digest of the changed row.
`integrity` compares the two, and so finds a policy or a token that was changed by hand.
"""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from neartwin.errors import AccessError, LedgerError, ParameterError
from neartwin.ledger import records, wishes
from neartwin.ledger.store import Database, Reading, Writing
from neartwin.ledger.store.schema import version
from neartwin.ledger.store.statements import Statement
from neartwin.web.datasets import Dataset
from neartwin.web.store import integrity, schema
from neartwin.web.tokens import Token

# what every request asks
_DATASET = Statement(sa.select(schema.dataset.c.body).where(schema.dataset.c.name == sa.bindparam("its_name")))
_TOKEN = Statement(sa.select(schema.token).where(schema.token.c.id == sa.bindparam("its_id")))
_NOW = {  # of the database, whose clock all hosts share
    "sqlite": "(julianday('now') - 2440587.5) * 86400",
    "postgresql": "CAST(extract(epoch FROM now()) AS double precision)",
}
_SERVED = sa.text("INSERT INTO neartwin_served VALUES (:analyst, :account, :position) ON CONFLICT DO NOTHING")
_DELAY = (
    "INSERT INTO neartwin_rate VALUES (:caller, {now} + :seconds) "
    "ON CONFLICT (caller) DO UPDATE SET full_at = neartwin_rate.full_at + :seconds"
)
_JOB_SECONDS = 3600  # that a job is remembered
_SESSIONS = 20  # of one token at a time; a new one ends the oldest


class Store:
    """The service's tables in an existing ledger's database. Any number of processes may have it open."""

    def __init__(self, where: str) -> None:
        """Open the database, and make the tables that are missing."""
        self._database = Database(where, start=None)
        with self._database.connection(writes=False) as connection:
            self._now = sa.literal_column(_NOW[connection.dialect.name], sa.Double)
            standing = version(connection, schema.VERSIONS)
        if standing != schema.HEAD:
            with self._database.write() as page:  # holds the ledger, so that one process alone does it
                schema.upgrade(page.connection, version(page.connection, schema.VERSIONS))

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def _rows(self, statement: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        with self._database.connection(writes=False) as connection:
            return connection.execute(statement).all()

    def _run(self, statement: sa.Executable, *, durable: bool = True) -> None:
        with self._database.connection(writes=True, durable=durable) as connection:
            connection.execute(statement)

    def datasets(self) -> tuple[Dataset, ...]:
        """All data sets, by name."""
        rows = self._rows(sa.select(schema.dataset.c.body).order_by(schema.dataset.c.name))
        return tuple(_registered(row.body) for row in rows)

    def dataset(self, name: str) -> Dataset | None:
        """A data set by name, or None."""
        with self._database.connection(writes=False) as connection:
            row = _DATASET.row(connection, its_name=name)
        return None if row is None else _registered(row[0])

    def register(self, dataset: Dataset, *, by: str) -> None:
        """Add a data set.

        Args:
            dataset: The data set.
            by: The curator, for the record.

        Raises:
            LedgerError: The name is taken.
        """
        here = sa.select(schema.dataset.c.name).where(schema.dataset.c.name == dataset.name)
        with self._database.write() as page:
            if page.connection.execute(here).first() is not None:
                raise LedgerError(f"data set {dataset.name!r} was registered meanwhile; look at it, or give a name")
            page.connection.execute(sa.insert(schema.dataset).values(name=dataset.name, body=dataset.to_json()))
            _note(page, by, "register", _registration(dataset))

    def change(self, dataset: Dataset, what: str, *, by: str, instead_of: Dataset | None = None) -> None:
        """Store a changed data set.

        Args:
            dataset: The data set with its new rules or snapshot.
            what: "policy" or "refresh", for the record.
            by: The curator, for the record.
            instead_of: The data set that must still be stored, or None for any.

        Raises:
            LedgerError: The stored data set is no longer `instead_of`.
        """
        with self._database.write() as page:
            here = schema.dataset.c.name == dataset.name
            stands = page.connection.execute(sa.select(schema.dataset.c.body).where(here)).scalar_one_or_none()
            if instead_of is not None and stands != instead_of.to_json():
                raise LedgerError(f"the {what} of {dataset.name!r} was changed meanwhile; look at it and try again")
            page.connection.execute(sa.update(schema.dataset).where(here).values(body=dataset.to_json()))
            _note(page, by, what, _registration(dataset))

    def tokens(self) -> tuple[Token, ...]:
        """All tokens, oldest first."""
        rows = self._rows(sa.select(schema.token).order_by(schema.token.c.created, schema.token.c.id))
        return tuple(map(_token, rows))

    def token(self, identity: str) -> tuple[Token, str] | None:
        """A token with its hash, or None."""
        with self._database.connection(writes=False) as connection:
            row = _TOKEN.row(connection, its_id=identity)
        if row is None:
            return None
        parts = dict(zip(schema.token.columns.keys(), row, strict=True))
        token_hash = parts.pop("hash")
        return Token(**parts), token_hash

    def add_token(self, token: Token, token_hash: str, *, by: str) -> None:
        """Store a new token and its hash. `by` is the curator, for the record.

        Raises:
            AccessError: Status 428. Two people are needed for a curator's token. It is a wish now. A terminal makes the next
                curator alone where none is left.
        """
        days = (datetime.fromisoformat(token.expires) - datetime.fromisoformat(token.created)).days
        act: dict[str, object] = {"name": token.name, "role": token.role, "project": token.project, "days": days}
        with self._database.write() as page:
            alone = token.role != "curator" or (by == wishes.CONSOLE and not _curators(page))
            may = alone or wishes.agreed(page, by, "token", act)
            if may:
                _put_token(page, token, token_hash, by)
        if not may:
            raise wishes.refusal("token")

    def admit(self, token: Token) -> Token:
        """Store the token of a person whom a sign-in server confirmed, or renew it under the name of the first sign-in.

        Raises:
            AccessError: Status 403. A curator revoked it, or its name is that of another token. Or it would make a curator
                where two people are needed.
        """
        here = schema.token.c
        with self._database.write() as page:
            rows = page.connection.execute(
                sa.select(schema.token).where((here.id == token.id) | (here.name == token.name))
            )
            known = {row.id: row for row in rows}
            own = known.pop(token.id, None)
            if own is not None and own.revoked:
                raise AccessError(403, "person", token.name, "was shut out by a curator", remedy="ask the curator")
            if own is None and known:
                rule, remedy = "is the name of another token", "ask the curator, who knows whose it is"
                raise AccessError(403, "name", token.name, rule, remedy=remedy)
            if token.role == "curator" != (own and own.role) and wishes.standing(page).needed:
                rule, remedy = "needs two people to become a curator", "ask two curators for a token"
                raise AccessError(403, "person", token.name, rule, remedy=remedy)
            page.connection.execute(sa.delete(schema.token).where(here.id == token.id))
            admitted = token if own is None else replace(token, name=own.name, created=own.created)
            _put_token(page, admitted, "", token.name)
        return admitted

    def revoke(self, identity: str, *, by: str) -> bool:
        """Revoke a token, and end its sessions. `by` is the curator. Returns whether the token exists."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._database.write() as page:
            connection = page.connection
            here = sa.and_(schema.token.c.id == identity, schema.token.c.revoked == "")
            changed = connection.execute(sa.update(schema.token).where(here).values(revoked=now)).rowcount
            if changed:
                _note(page, by, "revoke", {"id": identity})
                connection.execute(sa.delete(schema.session).where(schema.session.c.token == identity))
            there = connection.execute(sa.select(schema.token.c.id).where(schema.token.c.id == identity))
            return there.scalar_one_or_none() is not None

    def start_session(self, digest: str, token: str, ends: datetime, *, by: str) -> None:
        """Remember a browser's session by the digest of its cookie. It is an act of its owner, `by`."""
        table, now = schema.session, datetime.now(UTC).isoformat(timespec="seconds")
        with self._database.write() as page:
            connection = page.connection
            connection.execute(sa.delete(table).where(table.c.ends <= now))
            older = (
                sa.select(table.c.digest).where(table.c.token == token).order_by(table.c.ends.desc(), table.c.digest)
            )
            connection.execute(sa.delete(table).where(table.c.digest.in_(older.offset(_SESSIONS - 1))))
            values: dict[str, object] = {"digest": digest, "token": token, "ends": ends.isoformat(timespec="seconds")}
            connection.execute(sa.insert(table).values(values))
            _note(page, by, "sign in", values)

    def end_session(self, digest: str) -> None:
        """Forget a session."""
        self._run(sa.delete(schema.session).where(schema.session.c.digest == digest))

    def session(self, digest: str) -> str | None:
        """The token behind a session that has not ended."""
        table, now = schema.session, datetime.now(UTC).isoformat(timespec="seconds")
        rows = self._rows(sa.select(table.c.token).where(table.c.digest == digest, table.c.ends > now))
        return rows[0].token if rows else None

    def signing_key(self, own: Callable[[], str]) -> str:
        """The private key that all hosts sign with, as PEM text.

        Args:
            own: Gives this host's key, which becomes the key of all where there is none.
        """
        with self._database.connection(writes=False) as connection:
            pem = connection.execute(sa.select(schema.key.c.pem)).scalar_one_or_none()
        if pem is None:
            offered = own()
            with self._database.write() as page:  # one host at a time
                pem = page.connection.execute(sa.select(schema.key.c.pem)).scalar_one_or_none()
                if pem is None:
                    pem = offered
                    page.connection.execute(sa.insert(schema.key).values(id=1, pem=pem))
                    _note(page, "service", "key", {"key": records.digest(pem)})
        return str(pem)

    def put_job(self, identity: str, owner: str) -> None:
        """Let every process of the service know of a job under way. It costs no wait for the disk: the ledger keeps answers."""
        values = {"id": identity, "owner": owner, "outcome": "", "seen": self._now}
        self._run(sa.insert(schema.job).values(values), durable=False)

    def end_job(self, identity: str, outcome: str) -> None:
        """Let every process of the service know the outcome of a job, as JSON."""
        here = sa.update(schema.job).where(schema.job.c.id == identity)
        self._run(here.values(outcome=outcome, seen=self._now), durable=False)

    def touch_jobs(self, identities: Sequence[str]) -> None:
        """Say that jobs under way are alive, and forget those of long ago."""
        table, now = schema.job, self._now
        with self._database.connection(writes=True, durable=False) as connection:
            connection.execute(sa.update(table).where(table.c.id.in_(identities)).values(seen=now))
            connection.execute(sa.delete(table).where(table.c.seen < now - _JOB_SECONDS))

    def job(self, identity: str) -> tuple[str, str, float] | None:
        """A job's owner, its outcome, and how many seconds ago its process was alive; or None."""
        here = schema.job.c
        rows = self._rows(sa.select(here.owner, here.outcome, self._now - here.seen).where(here.id == identity))
        return tuple(rows[0]) if rows else None

    def delay_rates(self, delays: Mapping[str, float], *, most: int) -> dict[str, Any]:
        """Put off the times at which buckets of requests are full.

        Args:
            delays: The seconds to add, by caller.
            most: The most buckets to keep. Those that are full last are kept.

        Returns:
            The seconds until each bucket is full, of all that are not.
        """
        table = schema.rate
        with self._database.connection(writes=bool(delays), durable=False) as connection:
            if delays:
                if connection.dialect.name == "postgresql":  # where two at once could wait for each other's rows
                    connection.exec_driver_sql("LOCK TABLE neartwin_rate IN EXCLUSIVE MODE")
                connection.execute(sa.delete(table).where(table.c.full_at <= self._now))
                rows = [{"caller": who, "seconds": seconds} for who, seconds in delays.items()]
                connection.execute(sa.text(_DELAY.format(now=self._now)), rows)
                last = sa.select(table.c.caller).order_by(table.c.full_at.desc(), table.c.caller)
                connection.execute(sa.delete(table).where(table.c.caller.in_(last.offset(most))))
            left = sa.select(table.c.caller, table.c.full_at - self._now).where(table.c.full_at > self._now)
            return {who: float(seconds) for who, seconds in connection.execute(left)}

    def serve(self, analyst: str, account: str, position: int) -> None:
        """Remember that an analyst was served the release of a reservation."""
        self._run(_SERVED.bindparams(analyst=analyst, account=account, position=position))

    def was_served(self, analyst: str, account: str, position: int) -> bool:
        """Whether an analyst was served the release of a reservation."""
        table = schema.served.c
        here = sa.and_(table.analyst == analyst, table.account == account, table.position == position)
        return bool(self._rows(sa.select(table.position).where(here)))

    def requests(self, dataset: str, position: int = 0) -> list[dict[str, Any]]:
        """The requests for budget of a data set, newest first, each with its answer in words, or "" while it waits.

        Args:
            dataset: The data set.
            position: The position of a request that must wait, or 0.

        Raises:
            AccessError: Status 409. It waits no more.
        """
        with self._database.read() as page:
            return requests_in(page, dataset, position)

    def request(self, who: str, what: str, body: dict[str, str], position: int = 0) -> None:
        """Record a request for budget, or its end without an allotment.

        Args:
            who: The analyst or the curator.
            what: "request", "decline" or "withdraw".
            body: The data set, the holder, and the amount or the reason.
            position: The position of the request that ends, or 0 for a new one.

        Raises:
            AccessError: Status 409. The request waits no more, or the holder has one that waits.
        """
        with self._database.write() as page:
            known = requests_in(page, body["dataset"], position)
            if not position and any(one["holder"] == body["holder"] and not one["answer"] for one in known):
                raise AccessError(409, "request", body["holder"], "waits for an answer already", remedy="wait for it")
            _note(page, who, what, dict(body))

    def saved(self, dataset: str) -> list[dict[str, str]]:
        """The saved questions of a data set, oldest first."""
        table = schema.saved
        rows = sa.select(table).where(table.c.dataset == dataset).order_by(table.c.created, table.c.id)
        return [dict(row._mapping) for row in self._rows(rows)]  # noqa: SLF001 - its public name

    def save(self, question: dict[str, str], *, most: int) -> bool:
        """Save a question where there is room.

        Args:
            question: Its columns without identity and time.
            most: The most questions of its data set and project.

        Returns:
            Whether there was room.
        """
        table, now = schema.saved, datetime.now(UTC).isoformat(timespec="microseconds")
        here = (table.c[name] == question[name] for name in ("dataset", "project"))
        with self._database.write() as page:  # one save at a time
            room = page.connection.execute(sa.select(sa.func.count()).where(*here)).scalar_one() < most
            if room:
                page.connection.execute(sa.insert(table).values(id=secrets.token_urlsafe(9), created=now, **question))
        return room

    def forget(self, identity: str) -> None:
        """Remove a saved question."""
        self._run(sa.delete(schema.saved).where(schema.saved.c.id == identity))


@lru_cache(maxsize=1_000)
def _registered(body: str) -> Dataset:
    """The data set of a row. It is read at each request, and changes seldom."""
    return Dataset.from_dict(json.loads(body))


def _curators(page: Writing) -> list[Token]:
    """The curators who have a live token."""
    rows = page.connection.execute(sa.select(schema.token).where(schema.token.c.role == "curator"))
    return [token for row in rows if (token := _token(row)).live(datetime.now(UTC))]


def _put_token(page: Writing, token: Token, token_hash: str, by: str) -> None:
    if token.name == wishes.CONSOLE:
        raise ParameterError("name", token.name, "is that of the machine's terminal", remedy="give another")
    page.connection.execute(sa.insert(schema.token).values(**asdict(token), hash=token_hash))
    body: dict[str, object] = {name: getattr(token, name) for name in ("id", "name", "role", "project", "expires")}
    _note(page, by, "token", body | {"digest": integrity.token_digest(asdict(token), token_hash)})


def _note(page: Writing, who: str, what: str, body: dict[str, object]) -> None:
    account = str(body.get("dataset", ""))
    page.append(records.Acted(account=account, who=who, what=what, body=records.canonical(body)))


def _registration(dataset: Dataset) -> dict[str, object]:
    rules = [rule.as_dict() for rule in dataset.policy]
    return {"dataset": dataset.name, "policy": rules, "digest": records.digest(dataset.to_json())}


def _token(row: sa.Row[tuple[object, ...]]) -> Token:
    return Token(**{name: getattr(row, name) for name in Token.__dataclass_fields__})


_ANSWERS = {
    "allot": "{who} set the allotment to {target}",
    "decline": "{who} declined: {reason}",
    "withdraw": "{who} withdrew it",
}


def requests_in(page: Reading, dataset: str, position: int = 0) -> list[dict[str, Any]]:
    """The requests of a data set, newest first, each with its answer in words, or "" while it waits.

    Args:
        page: A transaction.
        dataset: The data set.
        position: The position of a request that must wait for its answer, or 0.

    Raises:
        AccessError: Status 409. That request was answered, or there is none.
    """
    found: list[dict[str, Any]] = []
    waiting: dict[str, dict[str, Any]] = {}  # by holder
    for act in page.acts(dataset):
        body = json.loads(act.body)
        if act.what == "request":
            waiting[body["holder"]] = body | {"position": act.position, "time": act.time, "who": act.who, "answer": ""}
            found.insert(0, waiting[body["holder"]])
        elif act.what in _ANSWERS and (one := waiting.pop(body["holder"], None)):
            one["answer"] = _ANSWERS[act.what].format(who=act.who, **body)
    if position and position not in {one["position"] for one in waiting.values()}:
        raise AccessError(409, "request", str(position), "waits no more: it was answered", remedy="look again")
    return found
