"""The tables that `schema.make` makes: records, which are only added, and the indexes of them.

No database runs this step: a new ledger is made whole at the newest version, and a ledger from before versions were kept has
these tables already. Alembic needs the step as the one below the next.
"""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing to do."""


def downgrade() -> None:
    """Never: what was spent would be forgotten."""
    raise NotImplementedError
