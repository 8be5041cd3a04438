"""The tables that `schema` names.

No database runs this step: a new one has the newest tables. Alembic needs the step below the next one.
"""

revision = "0002"
down_revision = None


def upgrade() -> None:
    """Nothing to do."""
