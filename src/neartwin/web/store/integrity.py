"""Compares data sets, policies, tokens and sessions with the chained acts. A change of a table by hand leaves no act."""

import json
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from neartwin.ledger import Fault, records
from neartwin.ledger.store import Reading
from neartwin.web.store import schema
from neartwin.web.tokens import Token

_TOKEN = ("id", "name", "role", "project", "created", "expires")


def token_digest(token: Token, token_hash: str) -> str:
    """The digest of a token and its hash. Its revocation is left out, because that is an act of its own."""
    return _of_token(asdict(token), token_hash)


def faults(page: Reading) -> tuple[Fault, ...]:
    """The differences between the tables and the acts. There are none in a database without a service."""
    if not sa.inspect(page.connection).has_table(schema.dataset.name):
        return ()
    datasets, tokens, revoked, signed_in, keys = _recorded_state(page)
    differences = _compared(
        "data set",
        datasets,
        {row.name: records.digest(row.body) for row in page.connection.execute(sa.select(schema.dataset))},
    )
    rows = {row.id: row for row in page.connection.execute(sa.select(schema.token))}
    differences += _compared("token", tokens, {name: _of_token(row._mapping, row.hash) for name, row in rows.items()})  # noqa: SLF001 - its public name
    for name, row in rows.items():
        if bool(row.revoked) != (name in revoked):
            words = "is live, and was revoked" if name in revoked else "is revoked, and nobody did that"
            differences.append(Fault("service", tokens.get(name, (0, ""))[0], f"token {name!r} {words}"))
    pem = page.connection.execute(sa.select(schema.key.c.pem)).scalar_one_or_none()
    differences += _compared("key", keys, {} if pem is None else {"signing": records.digest(pem)})
    started = {(body["digest"], body["token"], body["ends"]) for body in signed_in}
    for row in page.connection.execute(sa.select(schema.session)):
        if tuple(row) not in started:
            differences.append(Fault("service", 0, f"a session of token {row.token!r} was put in: nobody signed in"))
    return tuple(differences)


Standing = dict[str, tuple[int, str]]  # by name: the record of the newest act about it, and the digest that it left


def _recorded_state(page: Reading) -> tuple[Standing, Standing, set[str], list[dict[str, str]], Standing]:
    datasets: Standing = {}
    tokens: Standing = {}
    revoked: set[str] = set()
    signed_in: list[dict[str, str]] = []
    keys: Standing = {}
    for record, _ in page.acts():
        body: dict[str, Any] = json.loads(record.event.body) if isinstance(record.event, records.Acted) else {}
        if "key" in body:
            keys["signing"] = (record.position, body["key"])
        elif "ends" in body:
            signed_in.append(body)
        elif "digest" in body and "dataset" in body:
            datasets[body["dataset"]] = (record.position, body["digest"])
        elif "digest" in body:
            tokens[body["id"]] = (record.position, body["digest"])
        if body.get("revoked") or (isinstance(record.event, records.Acted) and record.event.what == "revoke"):
            revoked.add(body["id"])
    return datasets, tokens, revoked, signed_in, keys


def _compared(what: str, recorded: Standing, there: dict[str, str]) -> list[Fault]:
    differences = [
        Fault("service", at, f"{what} {name!r} is missing") for name, (at, _) in recorded.items() if name not in there
    ]
    for name, digest in there.items():
        at, expected = recorded.get(name, (0, ""))
        if not expected:
            differences.append(Fault("service", 0, f"{what} {name!r} was put in: no act made it"))
        elif digest != expected:
            differences.append(Fault("service", at, f"{what} {name!r} is other than record {at} left it"))
    return differences


def _of_token(row: Any, token_hash: str) -> str:
    first, *rest = (row[name] for name in _TOKEN)
    return records.digest(records.canonical([first, token_hash, *rest]))
