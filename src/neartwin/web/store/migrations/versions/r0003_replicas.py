"""The key of all hosts. Sessions are acts from here on, so those without one end."""

from alembic import op

from neartwin.web.store import schema

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the missing tables, and end every session."""
    connection = op.get_bind()
    schema.tables.create_all(connection, checkfirst=True)
    connection.execute(schema.session.delete())
