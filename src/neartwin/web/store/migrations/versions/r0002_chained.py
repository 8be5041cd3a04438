"""Curators' acts move into the ledger's chain of records, beside digests of what they made; sessions get a table."""

import hashlib
import json

import sqlalchemy as sa
from alembic import op

from neartwin.ledger.records import Acted
from neartwin.ledger.store import Writing

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Chain every act in its order, then what stands now, so that a later change by hand is found."""
    connection = op.get_bind()
    page = Writing(connection)
    names = ("who", "what", "body", "time")
    acts = connection.execute(sa.text(f"SELECT {', '.join(names)} FROM neartwin_act ORDER BY id")).all()
    for who, what, body, time in acts:
        told = json.loads(body)
        page.append(Acted(account=told.get("dataset", ""), who=who, what=what, body=_written(told), happened=time))
    for name, body in connection.execute(sa.text("SELECT name, body FROM neartwin_dataset ORDER BY name")).all():
        _stands(page, {"dataset": name, "digest": _digest(body)})
    columns = ("id", "hash", "name", "role", "project", "created", "expires")
    rows = connection.execute(sa.text(f"SELECT {', '.join(columns)}, revoked FROM neartwin_token ORDER BY id")).all()
    for *kept, revoked in rows:
        _stands(page, {"id": kept[0], "digest": _digest(_written(kept)), "revoked": bool(revoked)})
    op.drop_table("neartwin_act")
    op.create_table(
        "neartwin_session",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("ends", sa.Text, nullable=False),
    )


def _stands(page: Writing, told: dict[str, object]) -> None:
    page.append(Acted(account=str(told.get("dataset", "")), who="migration", what="standing", body=_written(told)))


def _written(told: object) -> str:
    return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def downgrade() -> None:
    """Never: records are not taken back."""
    raise NotImplementedError
