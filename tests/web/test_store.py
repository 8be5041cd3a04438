"""What a service remembers lies in the ledger's database, whichever it is, and its migrations make what the code reads."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from click.testing import CliRunner

from neartwin.accounting.budgets import pure
from neartwin.cli import main
from neartwin.errors import LedgerError
from neartwin.ledger import Book, Population
from neartwin.ledger.store import schema as ledger_schema
from neartwin.web import tokens
from neartwin.web.datasets import Dataset
from neartwin.web.store import Store, integrity, schema
from tests.ledger.conftest import place, postgres_place, sqlite_place  # noqa: F401 - fixtures


@pytest.fixture
def store(place):  # noqa: F811 - a fixture
    with Book(place) as ledger:
        opened = Store(place)
        yield opened
        opened.close()
        assert ledger.verify().whole


def test_a_new_store_has_the_tables_that_the_code_reads_and_their_version(store):
    with store._database.connection(writes=False) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        both = sa.MetaData()
        for tables in (schema.tables, ledger_schema.tables):
            for table in tables.tables.values():
                table.to_metadata(both)
        found = compare_metadata(context, both)
        assert ledger_schema.version(connection, schema.VERSIONS) == schema.HEAD
    assert {change[1].name for change in found if change[0] == "remove_table"} <= {
        schema.VERSIONS,
        ledger_schema.VERSIONS,
    }
    assert [change for change in found if change[0] != "remove_table"] == []


def test_an_older_store_gets_new_tables_and_ends_unrecorded_sessions(store, place):  # noqa: F811
    token, kept, _ = tokens.new_token("ada", "analyst")
    store.add_token(token, kept, by="carol")
    by_hand(
        store,
        "DROP TABLE neartwin_key",
        "DROP TABLE neartwin_job",
        f"INSERT INTO neartwin_session VALUES ('{'0' * 64}', '{token.id}', '2999-01-01')",
        f"UPDATE {schema.VERSIONS} SET version_num = '0002'",
    )
    newer = Store(place)
    try:
        assert newer.token(token.id) == (token, kept)
        assert newer.session("0" * 64) is None
        newer.put_job("job", "ada")
        newer.end_job("job", "{}")
        assert newer.job("job")[:2] == ("ada", "{}")
        assert newer.signing_key(lambda: "pem") == newer.signing_key(lambda: "another") == "pem"
        assert faults(newer) == ()
    finally:
        newer.close()


def test_next_process_finds_registrations_tokens_and_answers(store, place):  # noqa: F811 - a fixture
    dataset = Dataset(name="p", place="postgresql://reader:secret@host/db", table="p", unit="id", budget=pure(1))
    store.register(dataset, by="carol")
    token, kept, _ = tokens.new_token("ada", "analyst", project="census")
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
        with Book(place) as ledger:
            acts = ledger.acts()
        assert [(act.who, act.what, act.account) for act in acts] == [
            ("carol", "register", "p"),
            ("carol", "token", ""),
        ]
        assert "secret" not in "".join(act.body for act in acts)
        assert faults(again) == ()
        assert again.revoke(token.id, by="carol")
        assert not again.revoke("none", by="carol")
        assert store.tokens()[0].revoked
        assert faults(again) == ()
    finally:
        again.close()


def test_of_many_registrations_of_a_name_at_once_one_stands(store, place):  # noqa: F811 - a fixture
    def register(number):
        store.register(Dataset(name="p", place=f"{number}.csv", unit="id", budget=pure(1)), by="carol")

    with ThreadPoolExecutor(8) as threads:
        ends = [future.exception() for future in [threads.submit(register, number) for number in range(8)]]
    assert [end for end in ends if not isinstance(end, LedgerError)] == [None]
    assert all("'p' was registered meanwhile" in str(end) for end in ends if end)
    (stands,) = store.datasets()
    assert stands.place == f"{ends.index(None)}.csv"
    assert faults(store) == ()


def test_saves_at_one_moment_take_no_more_than_the_room_that_is_left(store):
    def save(number):
        project = "census" if number < 4 else ""
        question = {"dataset": "p", "owner": "ada", "project": project, "title": str(number), "fields": "{}"}
        return store.save(question, most=5)

    with ThreadPoolExecutor(8) as threads:
        saved = list(threads.map(save, range(16)))
    assert saved[:4] == [True] * 4
    assert sum(saved[4:]) == 5
    assert len(store.saved("p")) == 9
    assert not save(4)
    assert save(0)  # of another project


def by_hand(store, *statements):
    with store._database.connection(writes=True) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def faults(store):
    with store._database.read() as page:
        return integrity.faults(page)


CHANGES = {
    "UPDATE neartwin_dataset SET body = replace(body, 'true', 'false')": "data set 'p' is other than record 2 left it",
    "DELETE FROM neartwin_dataset": "data set 'p' is missing",
    "INSERT INTO neartwin_dataset SELECT 'q', body FROM neartwin_dataset": "data set 'q' was put in",
    "UPDATE neartwin_token SET role = 'curator'": "is other than record 3 left it",
    "UPDATE neartwin_token SET hash = 'another'": "is other than record 3 left it",
    "UPDATE neartwin_token SET expires = '2999-01-01'": "is other than record 3 left it",
    "UPDATE neartwin_token SET revoked = 'today'": "is revoked, and nobody did that",
    "DELETE FROM neartwin_token": "is missing",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_policy_or_token_that_was_changed_by_hand_is_found(store, change):
    store.register(Dataset(name="p", place="p.parquet", unit="id", budget=pure(1)), by="carol")
    token, kept, _ = tokens.new_token("ada", "analyst")
    store.add_token(token, kept, by="carol")
    assert faults(store) == ()
    by_hand(store, change)
    (fault,) = faults(store)
    assert CHANGES[change] in fault.message


def test_a_revoked_token_that_was_made_live_again_by_hand_is_found(store):
    token, kept, _ = tokens.new_token("ada", "analyst")
    store.add_token(token, kept, by="carol")
    store.revoke(token.id, by="carol")
    assert faults(store) == ()
    by_hand(store, "UPDATE neartwin_token SET revoked = ''")
    assert "is live, and was revoked" in faults(store)[0].message


def test_session_ends_on_sign_out_expiry_or_a_newer_session(store, place):  # noqa: F811
    soon = datetime.now(UTC) + timedelta(hours=1)
    store.start_session("over", "t", datetime.now(UTC) - timedelta(seconds=1), by="ada")
    store.start_session("open", "t", soon, by="ada")
    assert store.session("over") is None
    other = Store(place)  # another service on the same database
    assert other.session("open") == "t"
    other.end_session("open")
    other.close()
    assert store.session("open") is None
    for number in range(25):
        store.start_session(f"{number:02}", "t", soon + timedelta(seconds=number), by="ada")
    assert sum(store.session(f"{number:02}") is not None for number in range(25)) == 20
    assert store.session("24") == "t"
    assert store.session("00") is None


def test_acts_are_part_of_the_chain(store, place):  # noqa: F811 - a fixture
    store.register(Dataset(name="p", place="p.parquet", unit="id", budget=pure(1)), by="carol")
    with Book(place) as ledger:
        kept = ledger.head()
        account = ledger.open(Population(name="p", unit="id", relation="add_remove"), pure(1))
        account.allot("analyst:ada", pure("0.5"), by="carol")
        ledger.raise_cap("p", pure(2), "the board", by="carol")
        assert [act.what for act in ledger.acts()] == ["register", "allot", "cap"]
        assert [entry.who for entry in account.history() if entry.kind == "act"] == ["carol"] * 3
        assert ledger.verify(kept).whole
        past_the_triggers(
            store, "UPDATE neartwin_record SET line = replace(line, 'carol', 'mallet') WHERE position = 2"
        )
        assert [(fault.kind, fault.position) for fault in ledger.verify().faults] == [("changed", 2)]
        by_hand(store, "UPDATE neartwin_record SET line = replace(line, 'mallet', 'carol') WHERE position = 2")
        assert ledger.verify().whole


def past_the_triggers(store, change):
    on_postgres = store._database.place.startswith("postgresql")
    trigger = "neartwin_record_append_only ON neartwin_record" if on_postgres else "neartwin_record_no_update"
    by_hand(store, f"DROP TRIGGER {trigger}", change)


def test_the_terminal_finds_what_was_changed_beside_the_ledger(store, place):  # noqa: F811 - a fixture
    store.register(Dataset(name="p", place="p.parquet", unit="id", budget=pure(1)), by="carol")
    assert CliRunner().invoke(main, ["ledger", "verify", str(place)]).exit_code == 0
    by_hand(store, "UPDATE neartwin_dataset SET body = replace(body, 'true', 'false')")
    found = CliRunner().invoke(main, ["ledger", "verify", str(place)])
    assert (found.exit_code, "data set 'p' is other than record 2 left it" in found.output) == (4, True)
