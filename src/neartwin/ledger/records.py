"""Events and their written form: one line of canonical JSON a record, chained by SHA-256, readable permanently.

A line is ASCII, keys sorted, no spaces. It holds its own position and the hash of the line before it. So its own hash
(SHA-256 of its bytes) fixes the whole history up to it. Amounts are decimal text, because they exceed 2^53, from which
other readers of JSON round. The table `_EVENTS` defines the format: a body has the fields of its event, each written by
its type. If the meaning of a kind changes, a new event gets a new line with the next version. The old line stays.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from operator import itemgetter
from typing import Any

from neartwin.errors import LedgerError

Price = tuple[tuple[str, int], ...]  # (pool name, whole number of its units), in the order of the account's pools
Pools = tuple[tuple[str, Fraction], ...]  # (pool name, exact size of one unit)
NO_HASH = "0" * 64  # stands before the first record


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The first record of every ledger. Its random name makes the hashes of two ledgers differ.

    Attributes:
        ledger: The random name.
    """

    ledger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A population was registered and its account opened.

    Attributes:
        account: The name of the population.
        unit: The column that names a person.
        relation: The neighbour relation.
        source: The place of the rows, or "".
        rule: The kind of the filter.
        pools: Name and exact size of one unit of each pool.
        caps: The whole budget, by pool.
    """

    account: str
    unit: str
    relation: str
    source: str
    rule: str
    pools: Pools
    caps: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """Another place of the same people's rows."""

    account: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The curator raised the caps of an account."""

    account: str
    caps: Price
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotted:
    """The curator set the limit of one holder of an account."""

    account: str
    holder: str
    caps: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A price was asked for.

    Attributes:
        account: The name of the account.
        plan_digest: The digest of the plan.
        snapshot: The name of the snapshot.
        description: The question in words.
        price: The price, by pool.
        holders: The holders whose allotments pay.
    """

    account: str
    plan_digest: str
    snapshot: str
    description: str
    price: Price
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved(_Asked):
    """A price was spent, before any data was read.

    Attributes:
        key: The caller's idempotency key, or "".
    """

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(_Asked):
    """A price did not fit, and nothing was spent.

    Attributes:
        pool: The first pool that fell short.
        holder: The holder whose allotment fell short, or "".
    """

    pool: str
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A reservation's release was stored.

    Attributes:
        account: The name of the account.
        reserved: The position of the reservation.
        digest: The SHA-256 of the document.
        size: The length of the document, in bytes.
    """

    account: str
    reserved: int
    digest: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A reservation's run failed, and its budget stays spent. The record has no cause, because the cause may be data."""

    account: str
    reserved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """A curator did something beside the amounts: registered, changed a policy, made or revoked a token.

    Attributes:
        account: The account that the act is about, or "".
        who: The person who acted.
        what: The kind of act.
        body: Canonical JSON, without places and secrets.
        happened: The time (UTC, ISO 8601) of an act older than the records of acts, or "".
    """

    account: str
    who: str
    what: str
    body: str
    happened: str = ""


Event = Begun | Opened | Sourced | Raised | Allotted | Reserved | Refused | Settled | Failed | Acted


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An event at its place in the chain.

    Attributes:
        position: The position; the first record has 1.
        previous: The hash of the line before.
        time: UTC, ISO 8601.
        event: The event.
    """

    position: int
    previous: str
    time: str
    event: Event


@dataclass(frozen=True, slots=True)
class _Form:
    """How one type of field is written and read back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _as_is(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is no {kind.__name__}")
        return value

    return check


_TEXT, _WHOLE = (_Form(_as_is(kind), _as_is(kind)) for kind in (str, int))
_FORM_OF: dict[Any, _Form] = {
    str: _TEXT,
    int: _WHOLE,
    tuple[str, ...]: _Form(list, tuple),
    Price: _Form(
        lambda price: [[pool, str(_as_is(int)(amount))] for pool, amount in price],
        lambda pairs: tuple((pool, int(amount)) for pool, amount in pairs),
    ),
    Pools: _Form(
        lambda pools: [[name, str(unit)] for name, unit in pools],
        lambda pairs: tuple((name, Fraction(unit)) for name, unit in pairs),
    ),
}
# (kind, version) -> the event; lines are added here and never changed, nor are an event's fields
_EVENTS: dict[tuple[str, int], type[Event]] = {
    ("begin", 1): Begun,
    ("open", 1): Opened,
    ("source", 1): Sourced,
    ("raise", 1): Raised,
    ("allot", 1): Allotted,
    ("reserve", 1): Reserved,
    ("refuse", 1): Refused,
    ("settle", 1): Settled,
    ("fail", 1): Failed,
    ("act", 1): Acted,
}
_FORMS = {event: {one.name: _FORM_OF[one.type] for one in fields(event)} for event in _EVENTS.values()}
_WRITTEN_AS = {event: written for written, event in sorted(_EVENTS.items(), key=itemgetter(0))}  # the newest version
_FRAME = {"body", "kind", "position", "previous", "time", "version"}


def kind_of(event: Event) -> str:
    """The word for this event in a record.

    >>> kind_of(Failed(account="purchases", reserved=3))
    'fail'
    """
    return _WRITTEN_AS[type(event)][0]


# The canonical JSON of a value: sorted keys, no spaces, ASCII. `json.dumps` would make an encoder a call.
canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def digest(content: str | bytes) -> str:
    """SHA-256 in hexadecimal.

    Args:
        content: Bytes, or text in UTF-8.

    Returns:
        64 hexadecimal digits.
    """
    return hashlib.sha256(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content).hexdigest()


def write(record: Record) -> str:
    """The record's line, without a line end.

    >>> write(Record(position=1, previous=NO_HASH, time="2026-01-01T00:00:00Z", event=Begun(ledger="ab")))
    '{"body":{"ledger":"ab"},"kind":"begin","position":1,"previous":"000...","time":"2026-01-01T00:00:00Z","version":1}'
    """
    kind, version = _WRITTEN_AS[type(record.event)]
    forms = _FORMS[type(record.event)]
    return canonical(
        {
            "body": {name: form.write(getattr(record.event, name)) for name, form in forms.items()},
            "kind": kind,
            "position": record.position,
            "previous": record.previous,
            "time": record.time,
            "version": version,
        }
    )


def read(line: str) -> Record:
    """The record of a line.

    Args:
        line: The line, without a line end.

    Returns:
        The record.

    Raises:
        LedgerError: This version of neartwin does not know the kind.
        ValueError: The line is no record.

    >>> line = write(Record(position=1, previous=NO_HASH, time="2026-01-01T00:00:00Z", event=Begun(ledger="ab")))
    >>> read(line).event
    Begun(ledger='ab')
    >>> read(line.replace('"version":1', '"version":2'))
    Traceback (most recent call last):
    neartwin.errors.LedgerError: record 1 is of kind 'begin', version 2, which is unknown to this neartwin; ...
    """
    try:
        parts: Mapping[str, Any] = json.loads(line)
        if set(parts) != _FRAME:
            raise ValueError("a record has six parts")
        return _read(parts)
    except (TypeError, KeyError, AttributeError, ZeroDivisionError, RecursionError) as fault:
        raise ValueError("this line is not a record") from fault


def read_strictly(line: str) -> Record:
    """The record of a line in canonical form.

    Args:
        line: The line, without a line end.

    Returns:
        The record.

    Raises:
        LedgerError: This version of neartwin does not know the kind.
        ValueError: The line is no record, or is not in canonical form.
    """
    record = read(line)
    if write(record) != line:
        raise ValueError("this line is not in canonical form")
    return record


def _read(parts: Mapping[str, Any]) -> Record:
    position, kind, version = _WHOLE.read(parts["position"]), _TEXT.read(parts["kind"]), _WHOLE.read(parts["version"])
    if (kind, version) not in _EVENTS:
        raise LedgerError(
            f"record {position} is of kind {kind!r}, version {version}, which is unknown to this neartwin; "
            "install a newer one"
        )
    event = _EVENTS[kind, version]
    forms = _FORMS[event]
    body: Mapping[str, Any] = parts["body"]
    if set(body) != set(forms):
        raise ValueError(f"a record of kind {kind!r} has the fields {', '.join(forms)}")
    values = {name: form.read(body[name]) for name, form in forms.items()}
    return Record(
        position=position, previous=_TEXT.read(parts["previous"]), time=_TEXT.read(parts["time"]), event=event(**values)
    )
