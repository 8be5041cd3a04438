"""Records, which are only added, and the indexes of them. Ledgers made before versions were kept have these tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_REFUSAL = "records of a ledger are never changed or removed"


def upgrade() -> None:
    """The first tables of a ledger."""
    op.create_table(
        "neartwin_ledger",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.CheckConstraint("id = 1"),
    )
    op.create_table(
        "neartwin_record",
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("line", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_index("ix_neartwin_record_account", "neartwin_record", ["account"])
    op.create_table(
        "neartwin_document",
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    _indexes()
    _append_only()


def _indexes() -> None:
    op.create_table(
        "neartwin_account",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("opened", sa.BigInteger, nullable=False),
        sa.Column("caps", sa.Text, nullable=False),
        sa.Column("spent", sa.Text, nullable=False),
    )
    op.create_table(
        "neartwin_source",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("account", sa.Text, nullable=False),
    )
    op.create_table(
        "neartwin_allotment",
        sa.Column("account", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text, primary_key=True),
        sa.Column("caps", sa.Text, nullable=False),
        sa.Column("spent", sa.Text, nullable=False),
    )
    op.create_table(
        "neartwin_reservation",
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("ask", sa.Text, nullable=False),
        sa.Column("key", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("closed", sa.BigInteger),
        sa.UniqueConstraint("account", "key"),
    )
    op.create_index("neartwin_reservation_ask", "neartwin_reservation", ["ask", "state", "closed"])
    op.create_index("neartwin_reservation_open", "neartwin_reservation", ["account", "state", "position"])


def _append_only() -> None:
    """Triggers that refuse to change or remove records and documents."""
    if op.get_bind().dialect.name == "sqlite":
        for table in ("neartwin_record", "neartwin_document"):
            for verb in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
                )
        return
    op.execute(
        "CREATE OR REPLACE FUNCTION neartwin_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
    )
    for table in ("neartwin_record", "neartwin_document"):
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION neartwin_append_only()"
        )


def downgrade() -> None:
    """Never: what was spent would be forgotten."""
    raise NotImplementedError
