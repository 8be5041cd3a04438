"""The rows of a service's tables in a backup, and back. A backup is an archive of the ledger with these rows in it."""

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from neartwin.errors import LedgerError
from neartwin.ledger.book import TableRow
from neartwin.ledger.store import Reading, Writing
from neartwin.web.store import integrity, schema


def rows(page: Reading) -> Iterator[TableRow]:
    """Yield every row of the service's tables, in one transaction with the ledger's records.

    Args:
        page: A transaction.
    """
    for table in schema.tables.sorted_tables:
        for row in page.connection.execute(sa.select(table)).mappings():
            yield {"table": table.name, "row": dict(row)}


def put(page: Writing, archived: Sequence[TableRow]) -> None:
    """Make the service's tables in a new ledger's database, with the rows of a backup.

    Args:
        page: A write transaction.
        archived: The rows.

    Raises:
        LedgerError: A row is of no table of a service, or differs from the acts that made it.
    """
    schema.upgrade(page.connection, "")
    for one in archived:
        table = schema.tables.tables.get(one["table"])
        if table is None:
            raise LedgerError(
                f"the backup has rows of {one['table']!r}, which this neartwin does not know; install a newer one"
            )
        page.connection.execute(sa.insert(table).values(one["row"]))
    if faults := integrity.faults(page):
        raise LedgerError(f"the backup fails verification: {faults[0]}")
