"""The tables of a service. A new version adds tables and changes none, so that `upgrade` needs no step for each."""

import sqlalchemy as sa

from neartwin.errors import LedgerError
from neartwin.ledger.store.schema import stamp

HEAD = "0005"  # the version of these tables
VERSIONS = "neartwin_service_version"

tables = sa.MetaData()

dataset = sa.Table(
    "neartwin_dataset", tables, sa.Column("name", sa.Text, primary_key=True), sa.Column("body", sa.Text, nullable=False)
)

token = sa.Table(
    "neartwin_token",
    tables,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("project", sa.Text, nullable=False),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("expires", sa.Text, nullable=False),
    sa.Column("revoked", sa.Text, nullable=False),
)

served = sa.Table(
    "neartwin_served",
    tables,
    sa.Column("analyst", sa.Text, primary_key=True),
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),  # of the reservation
)

session = sa.Table(
    "neartwin_session",
    tables,
    sa.Column("digest", sa.Text, primary_key=True),  # of the cookie
    sa.Column("token", sa.Text, nullable=False),
    sa.Column("ends", sa.Text, nullable=False),
)

key = sa.Table(
    "neartwin_key",
    tables,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),  # one row, 1: the first host's key is the key
    sa.Column("pem", sa.Text, nullable=False),  # the private key that signs certificates
)

job = sa.Table(
    "neartwin_job",
    tables,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),  # JSON, or "" while it is under way
    sa.Column("seen", sa.Float, nullable=False),  # when its process last said that it lives, in seconds since 1970
)

saved = sa.Table(
    "neartwin_saved",
    tables,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("project", sa.Text, nullable=False),  # that sees it; "" is everybody who may ask the data set
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("fields", sa.Text, nullable=False),  # of the question page, as JSON
    sa.Column("created", sa.Text, nullable=False),
)

rate = sa.Table(
    "neartwin_rate",
    tables,
    sa.Column("caller", sa.Text, primary_key=True),  # after the name of a limit
    sa.Column("full_at", sa.Double, nullable=False),  # when the bucket is full, in the database's seconds since 1970
)


def upgrade(connection: sa.Connection, version: str) -> None:
    """Make the tables that are missing.

    Args:
        connection: A transaction that writes.
        version: The version of the present tables, or "" where there are none.

    Raises:
        LedgerError: The version is newer than this neartwin.
    """
    if version > HEAD:
        raise LedgerError(f"the service's tables have version {version!r}; install a newer neartwin")
    tables.create_all(connection)
    if version == "0002":  # sessions are acts since, so that those without one end
        connection.execute(session.delete())
    stamp(connection, VERSIONS, HEAD)
