"""What a service remembers lies in the ledger's database, whichever it is, and its migrations make what the code reads."""

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from neartwin.accounting.targets import pure
from neartwin.ledger import Ledger
from neartwin.ledger.store import schema as ledger_schema
from neartwin.web import tokens
from neartwin.web.datasets import Dataset
from neartwin.web.store import Store, schema
from tests.ledger.conftest import place, postgres_place, sqlite_place  # noqa: F401 - fixtures


@pytest.fixture
def store(place):  # noqa: F811 - a fixture
    with Ledger(place) as ledger:
        opened = Store(place)
        yield opened
        opened.close()
        assert ledger.verify().whole


def test_the_migrations_make_the_tables_that_the_code_reads(store):
    with store._database.connection(writes=False) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        both = sa.MetaData()
        for tables in (schema.tables, ledger_schema.tables):
            for table in tables.tables.values():
                table.to_metadata(both)
        found = compare_metadata(context, both)
    assert {change[1].name for change in found if change[0] == "remove_table"} <= {
        schema.VERSIONS,
        ledger_schema.VERSIONS,
    }
    assert [change for change in found if change[0] != "remove_table"] == []


def test_what_was_registered_minted_and_served_is_there_for_the_next_process(store, place):  # noqa: F811 - a fixture
    dataset = Dataset(name="p", place="postgresql://reader:secret@host/db", table="p", unit="id", budget=pure(1))
    store.register(dataset, by="carol")
    token, kept, _ = tokens.made("ada", "analyst", project="census")
    store.add_token(token, kept, by="carol")
    for _ in range(2):
        store.serve("ada", "p", 7)
    again = Store(place)
    try:
        assert again.datasets() == (dataset,)
        assert again.tokens() == (token,)
        assert again.token(token.id) == (token, kept)
        assert again.was_served("ada", "p", 7)
        assert not again.was_served("bob", "p", 7)
        assert [(act.who, act.what) for act in again.acts()] == [("carol", "register"), ("carol", "token")]
        assert "secret" not in "".join(act.body for act in again.acts())
        assert again.revoke(token.id, by="carol")
        assert not again.revoke("none", by="carol")
        assert store.tokens()[0].revoked
    finally:
        again.close()
