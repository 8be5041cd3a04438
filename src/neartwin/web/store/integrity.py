"""Compares data sets, policies, tokens and sessions with the chained acts. A change of a table by hand leaves no act.

A backup is an archive of the ledger with these rows in it.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from neartwin.errors import LedgerError
from neartwin.ledger import Fault, records
from neartwin.ledger.book import TableRow
from neartwin.ledger.store import Reading, Writing
from neartwin.web.store import schema

_TOKEN = ("id", "name", "role", "project", "created", "expires")


def token_digest(token: Any, token_hash: str) -> str:
    """The digest of a token's facts by name, and its hash. Its revocation is left out, because that is an act of its own."""
    first, *rest = (token[name] for name in _TOKEN)
    return records.digest(records.canonical([first, token_hash, *rest]))


def faults(page: Reading) -> tuple[Fault, ...]:
    """The differences between the tables and the acts. There are none in a database without a service."""
    if not sa.inspect(page.connection).has_table(schema.dataset.name):
        return ()
    recorded, revoked, signed_in = _recorded_state(page)
    rows = {name: page.connection.execute(sa.select(table)).all() for name, table in schema.tables.tables.items()}
    there = {("data set", row.name): records.digest(row.body) for row in rows[schema.dataset.name]}
    there |= {("token", row.id): token_digest(row._mapping, row.hash) for row in rows[schema.token.name]}  # noqa: SLF001 - its public name
    for row in rows[schema.key.name]:
        there["key", "signing"] = records.digest(row.pem)
    differences = [
        (at, f"{what} {name!r} is missing") for (what, name), (at, _) in recorded.items() if (what, name) not in there
    ]
    for (what, name), digest in there.items():
        at, expected = recorded.get((what, name), (0, ""))
        if digest != expected:
            words = f"is other than record {at} left it" if expected else "was put in: no act made it"
            differences.append((at, f"{what} {name!r} {words}"))
    for row in rows[schema.token.name]:
        if bool(row.revoked) != (row.id in revoked):
            words = "is live, and was revoked" if row.id in revoked else "is revoked, and nobody did that"
            differences.append((recorded.get(("token", row.id), (0, ""))[0], f"token {row.id!r} {words}"))
    put_in = (row.token for row in rows[schema.session.name] if tuple(row) not in signed_in)
    differences += [(0, f"a session of token {token!r} was put in: nobody signed in") for token in put_in]
    return tuple(Fault("service", at, words) for at, words in differences)


# By kind and name: the newest act about it, and the digest that it left.
Standing = dict[tuple[str, str], tuple[int, str]]


def _recorded_state(page: Reading) -> tuple[Standing, set[str], set[tuple[str, ...]]]:
    standing: Standing = {}
    revoked: set[str] = set()
    signed_in: set[tuple[str, ...]] = set()
    for act in page.acts():
        body: dict[str, Any] = json.loads(act.body)
        if "key" in body:
            standing["key", "signing"] = (act.position, body["key"])
        elif "ends" in body:
            signed_in.add((body["digest"], body["token"], body["ends"]))
        elif "digest" in body:
            place = ("data set", body["dataset"]) if "dataset" in body else ("token", body["id"])
            standing[place] = (act.position, body["digest"])
        if body.get("revoked") or act.what == "revoke":
            revoked.add(body["id"])
    return standing, revoked, signed_in


def rows(page: Reading) -> Iterator[TableRow]:
    """Yield every row of the service's tables, in one transaction with the ledger's records.

    Args:
        page: A transaction.
    """
    for table in schema.tables.sorted_tables:
        for row in page.connection.execute(sa.select(table)).mappings():
            yield {"table": table.name, "row": dict(row)}


def put(page: Writing, archived: Sequence[TableRow]) -> None:
    """Make the service's tables in a new ledger's database, with the rows of a backup.

    Args:
        page: A write transaction.
        archived: The rows.

    Raises:
        LedgerError: A row is of no table of a service, or differs from the acts that made it.
    """
    schema.upgrade(page.connection, "")
    for one in archived:
        table = schema.tables.tables.get(one["table"])
        if table is None:
            raise LedgerError(
                f"the backup has rows of {one['table']!r}, which this neartwin does not know; install a newer one"
            )
        page.connection.execute(sa.insert(table).values(one["row"]))
    if found := faults(page):
        raise LedgerError(f"the backup fails verification: {found[0]}")
