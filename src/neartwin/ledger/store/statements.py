"""The statements that every reservation repeats, written once for each kind of database and run by its driver.

SQLAlchemy writes the text. Its own execution of a statement takes ten times as long as SQLite does.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.sql.compiler import SQLCompiler

from neartwin.ledger.store import schema


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """A statement with named parameters, to be run often.

    Attributes:
        construct: The statement in SQLAlchemy.
    """

    construct: sa.Select[Any] | sa.Insert | sa.Update
    _written: dict[str, SQLCompiler] = field(default_factory=dict)

    def rows(self, connection: sa.Connection, **named: object) -> list[Any]:
        """Run the statement, and return all rows as the driver has them. Errors are the driver's.

        Args:
            connection: A transaction.
            named: The parameters, by name.

        Returns:
            The rows; none of a statement that writes.
        """
        written = self._written.get(connection.dialect.name)
        if written is None:
            written = self._written[connection.dialect.name] = self._write_out(connection.dialect)
        cursor = connection.connection.cursor()
        try:
            cursor.execute(str(written), cast("Any", written.construct_params(named)))
            return list(cursor.fetchall()) if cursor.description else []
        finally:
            cursor.close()

    def row(self, connection: sa.Connection, **named: object) -> Any | None:
        """The only row of the answer, or None.

        Args:
            connection: The connection.
            named: The values of the statement's parameters.

        Returns:
            The row.
        """
        rows = self.rows(connection, **named)
        return rows[0] if rows else None

    def _write_out(self, dialect: sa.Dialect) -> SQLCompiler:
        kind: Any = type(dialect)
        named: sa.Dialect = kind(paramstyle="named") if dialect.name == "sqlite" else dialect
        return self.construct.compile(dialect=named)


_text, _whole = (partial(sa.bindparam, type_=kind) for kind in (sa.Text, sa.BigInteger))
_named, _at = _text("its_name"), _whole("its_position")

HEAD = Statement(sa.select(schema.ledger.c.position, schema.ledger.c.hash))
RECORD = Statement(sa.select(schema.record.c.line, schema.record.c.hash).where(schema.record.c.position == _at))
DOCUMENT = Statement(sa.select(schema.document.c.content).where(schema.document.c.position == _at))
OPENED = Statement(sa.select(schema.account.c.opened).where(schema.account.c.name == _named))
ACCOUNT = Statement(sa.select(schema.account.c.caps, schema.account.c.spent).where(schema.account.c.name == _named))
OWNER = Statement(sa.select(schema.source.c.account).where(schema.source.c.digest == _text("its_digest")))
_allotted = (schema.allotment.c.account == _named, schema.allotment.c.holder == _text("its_holder"))
ALLOTMENT = Statement(sa.select(schema.allotment.c.caps, schema.allotment.c.spent).where(*_allotted))
_reserved = schema.reservation.c
RESERVATIONS = sa.select(_reserved.position, _reserved.account, _reserved.key, _reserved.state, _reserved.closed)
RESERVED_AT = Statement(RESERVATIONS.where(_reserved.position == _at))
CLOSED_AT = Statement(RESERVATIONS.where(_reserved.closed == _at))
RESERVED_WITH_KEY = Statement(RESERVATIONS.where(_reserved.account == _named, _reserved.key == _text("its_key")))
_answered = RESERVATIONS.where(_reserved.ask == _text("its_ask"), _reserved.state == "settled")
ANSWERED = Statement(_answered.order_by(_reserved.closed).limit(1))
ADD_RECORD, ADD_DOCUMENT = Statement(sa.insert(schema.record)), Statement(sa.insert(schema.document))
ADD_RESERVATION = Statement(sa.insert(schema.reservation))
MOVE_HEAD = Statement(sa.update(schema.ledger).values(position=_at, hash=_text("its_hash")))
SPEND = Statement(sa.update(schema.account).where(schema.account.c.name == _named).values(spent=_text("its_sum")))
SPEND_ALLOTTED = Statement(sa.update(schema.allotment).where(*_allotted).values(spent=_text("its_sum")))
_close = sa.update(schema.reservation).where(_reserved.position == _whole("its_reservation"))
CLOSE = Statement(_close.values(state=_text("its_state"), closed=_at))
