"""Reading and writing what a service remembers. Each act of a curator is written in the transaction that does it."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import exc

from neartwin.errors import LedgerError
from neartwin.ledger.store import Database, migrate
from neartwin.web.datasets import Dataset
from neartwin.web.store import schema
from neartwin.web.tokens import Token

_FOLDER = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a curator did. body: JSON, without places and secrets."""

    time: str
    who: str
    what: str
    body: str


class Store:
    """The service's tables in a ledger's database, which must be there. Any number of processes may have it open."""

    def __init__(self, where: str) -> None:
        """Open, and migrate to the newest tables."""
        self._database = Database(where, start=None)
        with self._database.connection(writes=False) as connection:
            standing = migrate.version(connection, schema.VERSIONS)
        if standing != schema.HEAD:
            with self._database.creating() as connection:
                migrate.upgrade(connection, _FOLDER, schema.VERSIONS)

    def close(self) -> None:
        """Give all connections back."""
        self._database.close()

    def datasets(self) -> tuple[Dataset, ...]:
        """All data sets, by name."""
        with self._database.connection(writes=False) as connection:
            rows = connection.execute(sa.select(schema.dataset.c.body).order_by(schema.dataset.c.name)).scalars()
            return tuple(Dataset.from_json(body) for body in rows)

    def dataset(self, name: str) -> Dataset | None:
        """A data set by name."""
        with self._database.connection(writes=False) as connection:
            wanted = sa.select(schema.dataset.c.body).where(schema.dataset.c.name == name)
            body = connection.execute(wanted).scalar_one_or_none()
        return None if body is None else Dataset.from_json(body)

    def register(self, dataset: Dataset, *, by: str) -> None:
        """Add a data set; `LedgerError` if the name is taken."""
        with self._database.connection(writes=True) as connection:
            taken = connection.execute(sa.select(schema.dataset.c.name).where(schema.dataset.c.name == dataset.name))
            if taken.scalar_one_or_none() is not None:
                raise LedgerError(f"data set {dataset.name!r} is registered already; change its policy, or give a name")
            connection.execute(sa.insert(schema.dataset).values(name=dataset.name, body=dataset.to_json()))
            _note(connection, by, "register", {"dataset": dataset.name, "policy": _told(dataset)})

    def set_policy(self, dataset: Dataset, *, by: str) -> None:
        """Write a data set's changed rules."""
        with self._database.connection(writes=True) as connection:
            here = schema.dataset.c.name == dataset.name
            connection.execute(sa.update(schema.dataset).where(here).values(body=dataset.to_json()))
            _note(connection, by, "policy", {"dataset": dataset.name, "policy": _told(dataset)})

    def tokens(self) -> tuple[Token, ...]:
        """All tokens, oldest first."""
        with self._database.connection(writes=False) as connection:
            rows = connection.execute(sa.select(schema.token).order_by(schema.token.c.created, schema.token.c.id)).all()
        return tuple(_token(row) for row in rows)

    def token(self, identity: str) -> tuple[Token, str] | None:
        """A token with its hash."""
        with self._database.connection(writes=False) as connection:
            row = connection.execute(sa.select(schema.token).where(schema.token.c.id == identity)).one_or_none()
        return None if row is None else (_token(row), row.hash)

    def add_token(self, token: Token, kept: str, *, by: str) -> None:
        """Keep a new token by its hash."""
        with self._database.connection(writes=True) as connection:
            connection.execute(sa.insert(schema.token).values(**asdict(token), hash=kept))
            shown = {name: getattr(token, name) for name in ("id", "name", "role", "project", "expires")}
            _note(connection, by, "token", shown)

    def revoke(self, identity: str, *, by: str) -> bool:
        """End a token now; False where there is none."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._database.connection(writes=True) as connection:
            here = sa.and_(schema.token.c.id == identity, schema.token.c.revoked == "")
            changed = connection.execute(sa.update(schema.token).where(here).values(revoked=now)).rowcount
            if changed:
                _note(connection, by, "revoke", {"id": identity})
            there = connection.execute(sa.select(schema.token.c.id).where(schema.token.c.id == identity))
            return there.scalar_one_or_none() is not None

    def note(self, who: str, what: str, body: dict[str, object]) -> None:
        """Write down an act that changed something elsewhere, such as an allotment in the ledger."""
        with self._database.connection(writes=True) as connection:
            _note(connection, who, what, body)

    def acts(self) -> tuple[Act, ...]:
        """What curators did, oldest first."""
        with self._database.connection(writes=False) as connection:
            rows = connection.execute(sa.select(schema.act).order_by(schema.act.c.id)).all()
        return tuple(Act(time=row.time, who=row.who, what=row.what, body=row.body) for row in rows)

    def serve(self, analyst: str, account: str, position: int) -> None:
        """Remember that an analyst was served the release of a reservation."""
        table = schema.served
        values = {"analyst": analyst, "account": account, "position": position}
        with self._database.connection(writes=True) as connection:
            if not _was_served(connection, analyst, account, position):
                with suppress(exc.IntegrityError), connection.begin_nested():  # another server wrote it meanwhile
                    connection.execute(sa.insert(table).values(values))

    def was_served(self, analyst: str, account: str, position: int) -> bool:
        """Whether an analyst was."""
        with self._database.connection(writes=False) as connection:
            return _was_served(connection, analyst, account, position)


def _was_served(connection: sa.Connection, analyst: str, account: str, position: int) -> bool:
    table = schema.served
    here = sa.and_(table.c.analyst == analyst, table.c.account == account, table.c.position == position)
    return connection.execute(sa.select(table.c.position).where(here)).scalar_one_or_none() is not None


def _note(connection: sa.Connection, who: str, what: str, body: dict[str, object]) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    connection.execute(sa.insert(schema.act).values(time=now, who=who, what=what, body=json.dumps(body)))


def _told(dataset: Dataset) -> list[object]:
    return [rule.as_dict() for rule in dataset.policy]


def _token(row: sa.Row[tuple[object, ...]]) -> Token:
    return Token(**{name: getattr(row, name) for name in Token.__dataclass_fields__})
