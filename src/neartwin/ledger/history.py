"""Records as a reader sees them."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from neartwin.errors import LedgerError
from neartwin.ledger import codec
from neartwin.ledger.codec import Record
from neartwin.ledger.rule import Rule
from neartwin.ledger.values import Entry


def entry(record: Record, made: str, rule: Rule, states: Mapping[int, str]) -> Entry:
    """One record of an account. states: of its reservations, by position."""
    event = record.event
    shown: dict[str, Any] = {}
    match event:
        case codec.Opened(caps=caps, source=source):
            shown = {"caps": rule.amounts(caps), "source": source}
        case codec.Sourced(source=source):
            shown = {"source": source}
        case codec.Raised(caps=caps, reason=reason):
            shown = {"caps": rule.amounts(caps), "description": reason}
        case codec.Allotted(caps=caps, holder=holder):
            shown = {"caps": rule.amounts(caps), "holders": (holder,)}
        case codec.Reserved():
            shown = _asked(event, rule.amounts(event.price)) | {"state": _state(record.position, states)}
        case codec.Refused():
            shown = _asked(event, rule.amounts(event.price)) | {"state": "refused", "pool": event.pool}
        case codec.Settled(reserved=reserved) | codec.Failed(reserved=reserved):
            shown = {"reserved": reserved}
        case codec.Acted(who=who, what=what):
            shown = {"who": who, "description": what}
        case codec.Begun():
            pass
    return Entry(
        position=record.position,
        hash=made,
        kind=codec.kind_of(event),
        time=record.time,
        account="" if isinstance(event, codec.Begun) else event.account,
        **shown,
    )


def _state(position: int, states: Mapping[int, str]) -> str:
    if position not in states:
        raise LedgerError(f"reservation {position} is missing from its index; verify the ledger")
    return states[position]


def _asked(event: codec.Reserved | codec.Refused, price: dict[str, Fraction]) -> dict[str, Any]:
    return {
        "price": price,
        "plan_digest": event.plan_digest,
        "snapshot": event.snapshot,
        "description": event.description,
        "holders": event.holders,
    }
