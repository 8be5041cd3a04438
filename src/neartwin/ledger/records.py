"""Events and their written form: one line of canonical JSON a record, chained by SHA-256, readable for ever.

A line is ASCII, keys sorted, no spaces. It holds its own position and the hash of the line before it, so that its hash
(SHA-256 of its bytes) speaks for the whole history up to it. Amounts are decimal text, for they pass 2^53, at which
other readers of JSON begin to round. The table `_FORMS` is the definition of the format: a kind whose meaning changes
gets a new line there with the next version, and the old line stays.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from neartwin.errors import LedgerError

Price = tuple[tuple[str, int], ...]  # (pool name, whole number of its units), in the order of the account's pools
NO_HASH = "0" * 64  # stands before the first record


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The first record of every ledger: a random name, which makes its hashes like no other ledger's."""

    ledger: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A population was registered and its account opened. pools: (name, exact size of one unit)."""

    account: str
    unit: str
    relation: str
    source: str
    rule: str
    pools: tuple[tuple[str, Fraction], ...]
    caps: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """Another place where the same people can be read."""

    account: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The curator lifted the caps of an account."""

    account: str
    caps: Price
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotted:
    """The curator set what one holder may spend of an account."""

    account: str
    holder: str
    caps: Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """A price was spent, before any data was read. key: the caller's idempotency key, or ""."""

    account: str
    plan_digest: str
    snapshot: str
    description: str
    price: Price
    holders: tuple[str, ...]
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A price did not fit and nothing was spent. pool: the first that fell short; holder: whose, or ""."""

    account: str
    plan_digest: str
    snapshot: str
    description: str
    price: Price
    holders: tuple[str, ...]
    pool: str
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A reservation's release was stored. digest: SHA-256 of the document; size: its length in bytes."""

    account: str
    reserved: int
    digest: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A reservation's run failed and its budget stays spent. The record has no cause, for the cause may be data."""

    account: str
    reserved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Acted:
    """Somebody in charge did something beside the amounts: registered, changed a policy, made or revoked a token.

    account: which one it is about, or "". body: canonical JSON, without places and secrets. happened: UTC, ISO 8601, of an act
    that was done before ledgers recorded acts, or "".
    """

    account: str
    who: str
    what: str
    body: str
    happened: str = ""


Event = Begun | Opened | Sourced | Raised | Allotted | Reserved | Refused | Settled | Failed | Acted


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An event at its place in the chain. previous: the hash of the line before. time: UTC, ISO 8601."""

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


_TEXT = _Form(_as_is(str), _as_is(str))
_WHOLE = _Form(_as_is(int), _as_is(int))
_TEXTS = _Form(list, tuple)
_AMOUNTS = _Form(
    lambda price: [[pool, str(_as_is(int)(amount))] for pool, amount in price],
    lambda pairs: tuple((pool, int(amount)) for pool, amount in pairs),
)
_POOLS = _Form(
    lambda pools: [[name, str(unit)] for name, unit in pools],
    lambda pairs: tuple((name, Fraction(unit)) for name, unit in pairs),
)

_ASKED = {
    "account": _TEXT,
    "plan_digest": _TEXT,
    "snapshot": _TEXT,
    "description": _TEXT,
    "price": _AMOUNTS,
    "holders": _TEXTS,
}
# (kind, version) -> the event and the form of each of its fields; lines are added here and never changed
_FORMS: dict[tuple[str, int], tuple[type, dict[str, _Form]]] = {
    ("begin", 1): (Begun, {"ledger": _TEXT}),
    ("open", 1): (
        Opened,
        {
            "account": _TEXT,
            "unit": _TEXT,
            "relation": _TEXT,
            "source": _TEXT,
            "rule": _TEXT,
            "pools": _POOLS,
            "caps": _AMOUNTS,
        },
    ),
    ("source", 1): (Sourced, {"account": _TEXT, "source": _TEXT}),
    ("raise", 1): (Raised, {"account": _TEXT, "caps": _AMOUNTS, "reason": _TEXT}),
    ("allot", 1): (Allotted, {"account": _TEXT, "holder": _TEXT, "caps": _AMOUNTS}),
    ("reserve", 1): (Reserved, _ASKED | {"key": _TEXT}),
    ("refuse", 1): (Refused, _ASKED | {"pool": _TEXT, "holder": _TEXT}),
    ("settle", 1): (Settled, {"account": _TEXT, "reserved": _WHOLE, "digest": _TEXT, "size": _WHOLE}),
    ("fail", 1): (Failed, {"account": _TEXT, "reserved": _WHOLE}),
    ("act", 1): (Acted, {"account": _TEXT, "who": _TEXT, "what": _TEXT, "body": _TEXT, "happened": _TEXT}),
}
_WRITTEN_AS = {event: (kind, version) for (kind, version), (event, _) in sorted(_FORMS.items())}  # the newest version
_FRAME = {"body", "kind", "position", "previous", "time", "version"}


def kind_of(event: Event) -> str:
    """The word a record of this event carries.

    >>> kind_of(Failed(account="purchases", reserved=3))
    'fail'
    """
    return _WRITTEN_AS[type(event)][0]


def canonical(value: object) -> str:
    """The one way a value is written: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(content: str | bytes) -> str:
    """SHA-256 in hexadecimal; text is ASCII by construction."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content).hexdigest()


def write(record: Record) -> str:
    """The record's line, without a line end.

    >>> write(Record(position=1, previous=NO_HASH, time="2026-01-01T00:00:00Z", event=Begun(ledger="ab")))
    '{"body":{"ledger":"ab"},"kind":"begin","position":1,"previous":"000...","time":"2026-01-01T00:00:00Z","version":1}'
    """
    kind, version = _WRITTEN_AS[type(record.event)]
    _, forms = _FORMS[kind, version]
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
    """The record a line holds; `LedgerError` for a kind this version does not know, `ValueError` for no record at all.

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
        raise ValueError("this line is no record") from fault


def read_strictly(line: str) -> Record:
    """As `read`, and `ValueError` for a line that says the same in other letters than a ledger writes."""
    record = read(line)
    if write(record) != line:
        raise ValueError("this line is not in canonical form")
    return record


def _read(parts: Mapping[str, Any]) -> Record:
    position, kind, version = _WHOLE.read(parts["position"]), _TEXT.read(parts["kind"]), _WHOLE.read(parts["version"])
    if (kind, version) not in _FORMS:
        raise LedgerError(
            f"record {position} is of kind {kind!r}, version {version}, which is unknown to this neartwin; "
            "install a newer one"
        )
    event, forms = _FORMS[kind, version]
    body: Mapping[str, Any] = parts["body"]
    if set(body) != set(forms):
        raise ValueError(f"a record of kind {kind!r} has the fields {', '.join(forms)}")
    fields = {name: form.read(body[name]) for name, form in forms.items()}
    return Record(
        position=position,
        previous=_TEXT.read(parts["previous"]),
        time=_TEXT.read(parts["time"]),
        event=event(**fields),
    )
