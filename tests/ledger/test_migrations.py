"""A new ledger has the tables of the oldest one, and those of a newer neartwin are refused."""

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from neartwin.accounting.budgets import pure
from neartwin.errors import LedgerError
from neartwin.ledger import Book, Stored
from neartwin.ledger.store import schema
from tests.fixtures import lay_postgres, lay_sqlite
from tests.ledger.conftest import PEOPLE


@pytest.fixture
def engine(place):
    """A connection beside the ledger's own."""
    url = place if "://" in place else f"sqlite:///{place}"
    made = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg") if "://" in place else url)
    yield made
    made.dispose()


@pytest.fixture
def spent(place):
    """A ledger with an answer that was paid for."""
    with Book(place) as ledger:
        account = ledger.open(PEOPLE, pure(1))
        account.settle(account.reserve("plan", "monday", pure("0.25")), b"the release")
    return place


def version(engine):
    with engine.connect() as connection:
        return schema.version(connection, schema.VERSIONS)


def test_a_new_ledger_has_the_tables_that_the_code_reads_and_no_others(spent, engine):
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        found = compare_metadata(context, schema.tables)
        assert {change[1].name for change in found if change[0] == "remove_table"} <= {schema.VERSIONS}
        assert [change for change in found if change[0] != "remove_table"] == []
    assert version(engine) == schema.HEAD


SAID = {
    "sqlite": ["SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"],
    "postgresql": [
        (
            "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns "
            "WHERE table_schema = 'public' ORDER BY 1, ordinal_position"
        ),
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1",
        (
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid > 0 "
            "AND connamespace = 'public'::regnamespace ORDER BY 1, 2"
        ),
        "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1",
        "SELECT prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1",
    ],
}


def described(connection):
    """What a database says of all that stands in it."""
    return [connection.exec_driver_sql(text).fetchall() for text in SAID[connection.dialect.name]]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_new_ledger_has_the_old_layout_and_a_missing_trigger_is_seen(kind, request, tmp_path):
    fresh = tmp_path / "new.db"
    if kind == "sqlite":
        lay_sqlite(tmp_path / "old.db")
        with Book(fresh):
            pass
        old, new = (sa.create_engine(f"sqlite:///{path}") for path in (tmp_path / "old.db", fresh))
    else:
        place = request.getfixturevalue("postgres_place")
        old = new = sa.create_engine(sa.make_url(lay_postgres(place)).set(drivername="postgresql+psycopg"))
    with old.begin() as connection:
        before = described(connection)
    if kind == "postgresql":
        with new.begin() as connection:
            for table in (*schema.tables.tables, schema.VERSIONS):
                connection.exec_driver_sql(f"DROP TABLE {table}")
        with Book(place):
            pass
    with new.begin() as connection:
        assert described(connection) == before
        for what in ("TRIGGER neartwin_record_no_update", "TRIGGER neartwin_record_append_only ON neartwin_record"):
            if (" ON " in what) == (kind == "postgresql"):
                connection.exec_driver_sql(f"DROP {what}")
        assert described(connection) != before
    old.dispose()
    new.dispose()


def test_tables_of_a_newer_neartwin_are_refused_not_those_of_none(spent, engine):
    with engine.begin() as connection:
        schema.stamp(connection, schema.VERSIONS, "0002")
    with pytest.raises(LedgerError, match="have version '0002'; install a newer neartwin"):
        Book.existing(spent)
    assert version(engine) == "0002"
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP TABLE {schema.VERSIONS}")
    with Book.existing(spent) as ledger:
        assert isinstance(ledger.account("purchases").reserve("plan", "monday", pure("0.25")), Stored)
        assert ledger.verify().whole
