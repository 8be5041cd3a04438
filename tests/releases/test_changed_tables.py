"""A table that is not what it was when the plan was made is refused before anything is spent."""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.errors import SchemaError
from tests.engines.places import PostgresPlace

ROWS = pa.table({"who": [1, 2, 3] * 9, "year": [5] * 27, "paid": [1.0] * 27})
ID = pa.table({"WHO": [7] * 27, "who": [1, 2, 3] * 9, "year": [5] * 27, "paid": [1.0] * 27})
CHANGES = {
    "gone": lambda place: place.unlink(),
    "cut off": lambda place: place.write_bytes(place.read_bytes()[:100]),
    "without the column": lambda place: pq.write_table(ROWS.drop_columns(["year"]), place),
    "with another type": lambda place: pq.write_table(ROWS.set_column(1, "year", pa.array(["x"] * 27)), place),
    "with units that are no whole numbers": lambda place: pq.write_table(
        ROWS.set_column(0, "who", pa.array([1.5] * 27)), place
    ),
    "with a name twice": lambda place: pq.write_table(ID, place),
}
LIMITS = {"limits": nt.limits(max_rows_per_group=2, max_groups=1)}


def asked(account, rows):
    return account.plan(rows.group_by("year", keys=[5]).agg(n=nt.count()), spend=nt.pure("1/10"), **LIMITS)


def releases(account, made, folder):
    series = account.plan_series([made.plan.query], spend=nt.pure("1/10"), **LIMITS)
    return (
        lambda: account.release(made),
        lambda: account.release_series(series),
        lambda: account.release_to_parquet(made, str(folder / "out.parquet")),
    )


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_file_with_changed_columns_is_refused_before_any_spend(tmp_path, change):
    place = tmp_path / "v.parquet"
    pq.write_table(ROWS, place)
    with nt.open_ledger(tmp_path / "budget.db") as book:
        rows = nt.table(place, unit="who")
        account = book.open(rows, nt.pure(1))
        ways = releases(account, asked(account, rows), tmp_path)
        before = account.history(), account.spent
        change(place)
        for release in ways:
            with pytest.raises(SchemaError) as refused:
                release()
            assert "x" not in str(refused.value).split("'")
        assert (account.history(), account.spent) == before
        pq.write_table(pa.concat_tables([ROWS, ROWS]), place)  # more rows of the same columns are no such change
        for release in ways[1:]:
            release()
        assert account.spent != before[1]


def test_closed_connection_or_altered_table_is_refused(tmp_path):
    with nt.open_ledger(tmp_path / "budget.db") as book:
        connection = duckdb.connect()
        connection.register("given", ROWS)
        connection.execute("CREATE TABLE visits AS SELECT * FROM given")
        rows = nt.table(connection, table="visits", unit="who")
        account = book.open(rows, nt.pure(1))
        made = asked(account, rows)
        before = account.history(), account.spent
        for change, says in (
            ("ALTER TABLE visits ALTER year TYPE VARCHAR", "'year' is text now, and was integer"),
            ("DROP TABLE visits", "not a table"),
        ):
            connection.execute(change)
            with pytest.raises(SchemaError, match=says):
                account.release(made)
        connection.close()
        for again in (lambda: account.release(made), lambda: nt.table(connection, table="visits", unit="who")):
            with pytest.raises(SchemaError, match="closed; give an open one"):
                again()
        assert (account.history(), account.spent) == before


@pytest.mark.slow
def test_altered_dropped_or_closed_server_table_is_refused(tmp_path, postgres_url):
    place = PostgresPlace(postgres_url)
    with place.writing() as connection:
        connection.execute("CREATE TABLE visits AS SELECT i % 3 AS who, 5 AS year FROM generate_series(1, 27) t(i)")
    with nt.open_ledger(tmp_path / "budget.db") as book:
        rows = nt.table(place.url, table="visits", unit="who", name="visits", snapshot="one")
        account = book.open(rows, nt.pure(1))
        made = asked(account, rows)
        account.release(asked(account, rows.where("year > 4")))
        before = account.history(), account.spent
        for change, says in (
            ("ALTER TABLE visits ALTER year TYPE text", "'year' is text now, and was integer"),
            (f"REVOKE SELECT ON visits FROM {place.name}", "no column that this role may select"),
            ("DROP TABLE visits", "no column that this role may select"),
            (f"ALTER ROLE {place.name} NOLOGIN", "check that it is up"),
        ):
            with place.writing() as connection:
                connection.execute(change)
            for release in releases(account, made, tmp_path):
                with pytest.raises(SchemaError, match=says):
                    release()
        assert (account.history(), account.spent) == before
