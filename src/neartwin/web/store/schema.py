"""The tables of a service. `migrations` makes them; a test compares the two."""

import sqlalchemy as sa

HEAD = "0004"  # the newest migration
VERSIONS = "neartwin_service_version"

tables = sa.MetaData()

dataset = sa.Table(
    "neartwin_dataset",
    tables,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
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
