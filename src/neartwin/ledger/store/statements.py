"""The statements that every reservation repeats, built once: building them anew costs more than running them."""

import sqlalchemy as sa

from neartwin.ledger.store import schema

_named = sa.bindparam("its_name", type_=sa.Text)
_held = sa.bindparam("its_holder", type_=sa.Text)
_state = sa.bindparam("its_state", type_=sa.Text)
_at = sa.bindparam("its_position", type_=sa.BigInteger)

HEAD = sa.select(schema.ledger.c.position, schema.ledger.c.hash)
RECORD = sa.select(schema.record.c.line, schema.record.c.hash).where(schema.record.c.position == _at)
DOCUMENT = sa.select(schema.document.c.content).where(schema.document.c.position == _at)
OPENED = sa.select(schema.account.c.opened).where(schema.account.c.name == _named)
ACCOUNT = sa.select(schema.account.c.caps, schema.account.c.spent).where(schema.account.c.name == _named)
ALLOTMENT = sa.select(schema.allotment.c.caps, schema.allotment.c.spent).where(
    schema.allotment.c.account == _named, schema.allotment.c.holder == _held
)
RESERVATION = sa.select(schema.reservation)
RESERVED_AT = RESERVATION.where(schema.reservation.c.position == _at)
CLOSED_AT = RESERVATION.where(schema.reservation.c.closed == _at)
RESERVED_WITH_KEY = RESERVATION.where(
    schema.reservation.c.account == _named, schema.reservation.c.key == sa.bindparam("its_key", type_=sa.Text)
)
ANSWERED = (
    RESERVATION.where(
        schema.reservation.c.ask == sa.bindparam("its_ask", type_=sa.Text), schema.reservation.c.state == "settled"
    )
    .order_by(schema.reservation.c.closed)
    .limit(1)
)
ADD_RECORD, ADD_DOCUMENT = sa.insert(schema.record), sa.insert(schema.document)
ADD_RESERVATION = sa.insert(schema.reservation)
MOVE_HEAD = sa.update(schema.ledger).values(position=_at, hash=sa.bindparam("its_hash", type_=sa.Text))
SPEND = (
    sa.update(schema.account)
    .where(schema.account.c.name == _named)
    .values(spent=sa.bindparam("its_sum", type_=sa.Text))
)
CLOSE = (
    sa.update(schema.reservation)
    .where(schema.reservation.c.position == sa.bindparam("its_reservation", type_=sa.BigInteger))
    .values(state=_state, closed=_at)
)
