"""The tables that `schema.make` makes: records, which are only added, and indexes of them.

No database runs this step. A new ledger has the newest tables, and a ledger older than versions has these tables
already. Alembic needs the step below the next one.
"""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing to do."""


def downgrade() -> None:
    """Never: what was spent would be forgotten."""
    raise NotImplementedError
