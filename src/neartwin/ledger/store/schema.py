"""The tables of a ledger: the records, which are the truth, and indexes, which `verify` compares with a replay.

Records and documents are only ever added: triggers refuse to change or remove them. Triggers stop accidents. `verify`
and a head kept elsewhere detect intent. The tables have been the same since the first ledger: a test compares a new one
with one that old code wrote.
"""

import sqlalchemy as sa

HEAD = "0001"  # the version of these tables; the meaning of a record has its own version, in `records`
VERSIONS = "neartwin_ledger_version"
VERSION = 1  # in the ledger's own row: what readers without migrations go by

tables = sa.MetaData()

ledger = sa.Table(
    "neartwin_ledger",
    tables,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),  # one row, 1: PostgreSQL's writers lock it
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.CheckConstraint("id = 1"),
)

record = sa.Table(
    "neartwin_record",
    tables,
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("account", sa.Text, nullable=False, index=True),
    sa.Column("line", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)

document = sa.Table(
    "neartwin_document",
    tables,
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),  # of the record that settled it
    sa.Column("content", sa.LargeBinary, nullable=False),
)

account = sa.Table(
    "neartwin_account",
    tables,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("opened", sa.BigInteger, nullable=False),  # position of the record with unit, relation, rule and pools
    sa.Column("caps", sa.Text, nullable=False),
    sa.Column("spent", sa.Text, nullable=False),
)

source = sa.Table(
    "neartwin_source",
    tables,
    sa.Column("digest", sa.Text, primary_key=True),  # a source may be longer than an index takes
    sa.Column("account", sa.Text, nullable=False),
)

allotment = sa.Table(
    "neartwin_allotment",
    tables,
    sa.Column("account", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text, primary_key=True),
    sa.Column("caps", sa.Text, nullable=False),
    sa.Column("spent", sa.Text, nullable=False),
)

reservation = sa.Table(
    "neartwin_reservation",
    tables,
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("ask", sa.Text, nullable=False),  # digest of account, plan and snapshot
    sa.Column("key", sa.Text),
    sa.Column("state", sa.Text, nullable=False),  # reserved, settled or failed
    sa.Column("closed", sa.BigInteger),  # position of the record that settled or failed it
    sa.UniqueConstraint("account", "key"),
    sa.Index("neartwin_reservation_ask", "ask", "state", "closed"),
    sa.Index("neartwin_reservation_open", "account", "state", "position"),
)


_REFUSAL = "records of a ledger are never changed or removed"


def make(connection: sa.Connection) -> None:
    """Make the tables and their version, in a database that has none of them."""
    tables.create_all(connection, checkfirst=False)
    stamp(connection, VERSIONS, HEAD)
    for text in _append_only(connection.dialect.name):
        connection.exec_driver_sql(text)


def version(connection: sa.Connection, table: str) -> str:
    """The version of tables in a database, or "" if there is none.

    Args:
        connection: A transaction.
        table: The table that holds the version.
    """
    if not sa.inspect(connection).has_table(table):
        return ""
    column = sa.column("version_num", sa.Text)
    return connection.execute(sa.select(column).select_from(sa.table(table, column))).scalar_one_or_none() or ""


def stamp(connection: sa.Connection, table: str, version: str) -> None:
    """Write the version of tables.

    Args:
        connection: The connection.
        table: The table of versions.
        version: The version.
    """
    versions = sa.Table(
        table,
        sa.MetaData(),
        sa.Column("version_num", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("version_num", name=f"{table}_pkc"),
    )
    versions.create(connection, checkfirst=True)
    connection.execute(sa.delete(versions))
    connection.execute(sa.insert(versions).values(version_num=version))


def _append_only(dialect: str) -> list[str]:
    """Statements that make the triggers."""
    names = (record.name, document.name)
    if dialect == "sqlite":
        return [
            f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
            for table in names
            for verb in ("UPDATE", "DELETE")
        ]
    function = (
        "CREATE OR REPLACE FUNCTION neartwin_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$"
    )
    triggers = [
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION neartwin_append_only()"
        for table in names
    ]
    return [function, *triggers]
