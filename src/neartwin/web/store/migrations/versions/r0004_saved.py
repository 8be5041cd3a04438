"""The saved questions of dashboards."""

from alembic import op

from neartwin.web.store import schema

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the missing table."""
    schema.tables.create_all(op.get_bind(), checkfirst=True)
