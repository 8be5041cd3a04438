"""The owner's check reads each value on its own engine, and names keys that belong to several units."""

import struct

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main
from neartwin.engines.engine_for import engine_for
from neartwin.errors import SchemaError
from neartwin.planning.planner import plan

VALUES = "(1, 7), (1, 7), (2, 8), (3, 8), (3, NULL), (4, NULL)"
ROWS = f"SELECT who, visit, 12 / (who - 3) AS rate FROM (VALUES {VALUES}) AS t(who, visit)"
WHOLE = ROWS.replace("who - 3", "who + 1")
CONTESTED = ("key (8,) belongs to 2 units",)


def test_keys_of_several_units_are_named_and_missing_ones_are_nobodys():
    rows = nt.table(duckdb.sql(WHOLE).to_arrow_table(), unit="who", name="v")
    assert nt.check(rows) == ()
    assert nt.check(rows, key="visit") == CONTESTED
    assert nt.check(rows, key=["visit", "who"]) == ()


def test_postgres_and_the_terminal_are_checked_alike(postgres_place):
    with postgres_place.writing() as connection:
        connection.execute(f"CREATE VIEW checked AS {WHOLE}; CREATE VIEW failing AS {ROWS}")
    assert nt.check(nt.table(postgres_place.url, table="checked", unit="who"), key="visit") == CONTESTED
    assert nt.check(nt.table(postgres_place.url, table="failing", unit="who")) == ("rate: division by zero",)
    line = ["check", postgres_place.url, "--table", "checked", "--unit", "who", "--key"]
    refused = CliRunner().invoke(main, [*line, "visit"])
    assert (refused.exit_code, CONTESTED[0] in refused.stderr) == (2, True)
    assert "each key belongs to one unit" in CliRunner().invoke(main, [*line, "who,visit"]).stdout


@pytest.mark.slow
def test_spark_is_checked_alike(spark):
    assert nt.check(nt.table(spark.sql(WHOLE), unit="who", name="v"), key="visit") == CONTESTED
    faults = nt.check(nt.table(spark.sql(ROWS.replace("12 / (", "12 div (")), unit="who", name="v"))
    assert any("rate" in fault.partition(":")[0] and "BY_ZERO" in fault for fault in faults)


def test_each_value_that_arrow_holds_wrongly_is_found(tmp_path):
    texts = pa.array([b"a", b"\xff"]).view(pa.string())
    pq.write_table(pa.table({"who": [1, 2], "town": texts, "fine": ["a", "b"]}), tmp_path / "v.parquet")
    (fault,) = nt.check(nt.table(tmp_path / "v.parquet", unit="who"))
    assert fault.startswith("town: ")


def written(path, **columns):
    """A Parquet file, and its rows as the check reads them."""
    pq.write_table(pa.table({"who": list(range(40))} | columns), path, use_dictionary=["town"], compression=None)
    return nt.table(path, unit="who", name="v")


def test_false_statistics_of_a_file_are_found(tmp_path):
    """DuckDB skips rows by them, so that a condition misses rows that are there."""
    kinds = {
        "x": [float(one) for one in range(40)],
        "town": pa.array([f"t{one:02}" for one in range(40)]).dictionary_encode(),
        "at": pa.array(range(40), pa.timestamp("ns")),
        "paid": pa.array([None, *range(39)], pa.decimal128(9, 2)),
        "rate": [float("nan"), -0.0, None, *[1.5] * 37],
        "raw": [bytes([place, 255]) for place in range(40)],
        "tags": [[place] for place in range(40)],
    }
    honest = written(tmp_path / "honest.parquet", **kinds)
    assert nt.check(honest) == ()
    content = (tmp_path / "honest.parquet").read_bytes()
    footer = content.rindex(b"ARROW:schema") - 1000  # the statistics end here, and the rows long before
    for name, held, said in (("x", struct.pack("<d", 39), struct.pack("<d", 5)), ("town", b"t39", b"t05")):
        start = content.index(held, footer)
        false = content[:start] + content[start:].replace(held, said)
        (tmp_path / "false.parquet").write_bytes(false)
        (fault,) = nt.check(nt.table(tmp_path / "false.parquet", unit="who", name="v"))
        assert fault.startswith(f"{name}: statistics in {tmp_path / 'false.parquet'} deny values")


def test_one_reason_is_given_once(tmp_path):
    late = pa.array([2**62] * 40, pa.timestamp("ms"))  # which DuckDB does not read
    rows = written(tmp_path / "late.parquet", at=late, seen=late)
    (fault,) = nt.check(rows)
    assert fault.startswith("at, seen: ")
    stage = plan(rows.agg(n=nt.count("who")), spend=nt.pure(1), limits=nt.limits(rows=1)).stage
    assert engine_for(stage.table.source).aggregate(stage, salt=0).values  # of a column without such values


UNCHECKED = "no check of these data is on record"
LIMITS = nt.limits(rows=2)


def says_unchecked(account, rows, spend):
    release = account.release(account.plan(rows.agg(n=nt.count()), spend=nt.pure(spend), limits=LIMITS))
    again = type(release).from_json(release.to_json())
    assert again == release
    assert again.guarantee.unchecked == (UNCHECKED in release.guarantee.describe())
    return again.guarantee.unchecked


def test_guarantee_says_whether_this_snapshot_was_checked(tmp_path):
    place, table = tmp_path / "v.parquet", duckdb.sql(WHOLE).to_arrow_table()
    pq.write_table(table, place)
    rows = nt.table(place, unit="who")
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        account = ledger.open(rows, nt.pure(9))
        assert says_unchecked(account, rows, 1)
        assert account.check(key="visit") == CONTESTED
        assert says_unchecked(account, rows, 2)  # a check that found something is not remembered
        assert account.check() == () == account.check()
        assert not says_unchecked(account, rows, 3)
        written = account.release_to_parquet(
            account.plan(rows.agg(n=nt.count()), spend=nt.pure("1/2"), limits=LIMITS), tmp_path / "n.parquet"
        )
        assert not written.guarantee.unchecked
        pq.write_table(pa.concat_tables([table, table]), place)
        assert says_unchecked(account, rows, 1)
        frame = ledger.open(nt.table(table, unit="who", name="frame"), nt.pure(9))
        assert not says_unchecked(frame, frame.rows, 1)
        assert not ledger.books.verify().faults


def test_check_of_another_population_or_during_a_write_counts_for_nothing(tmp_path, monkeypatch):
    place = tmp_path / "v.parquet"
    pq.write_table(duckdb.sql(WHOLE).to_arrow_table(), place)
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE v AS {WHOLE}")
    one, two = (nt.table(connection, table="v", unit="who", name=name, snapshot="may") for name in ("one", "two"))
    with nt.open_ledger(tmp_path / "budget.db") as ledger:
        accounts = [ledger.open(rows, nt.pure(9)) for rows in (one, two)]
        assert accounts[0].check() == ()
        assert [says_unchecked(account, account.rows, 1) for account in accounts] == [False, True]
        written = ledger.open(nt.table(place, unit="who", name="written"), nt.pure(9))

        def check_and_write(rows, *, key):
            pq.write_table(duckdb.sql(f"{WHOLE} LIMIT 3").to_arrow_table(), place)
            return ()

        monkeypatch.setattr("neartwin.releases.accounts.check", check_and_write)
        with pytest.raises(SchemaError, match="was written during the check"):
            written.check()
        assert says_unchecked(written, written.rows, 1)


def test_terminal_has_the_ledger_remember_a_check(tmp_path):
    place, ledger = tmp_path / "v.parquet", str(tmp_path / "budget.db")
    pq.write_table(duckdb.sql(WHOLE).to_arrow_table(), place)
    ask = ["query", str(place), "SELECT COUNT(*) FROM v", "--unit", "who", "--ledger", ledger, "--rows", "2"]
    first = CliRunner().invoke(main, [*ask, "--budget", "epsilon=9", "--spend", "epsilon=1", "--json"])
    assert '"unchecked": "true"' in first.stdout
    line = ["check", str(place), "--unit", "who", "--ledger", ledger]
    assert "every value can be read" in CliRunner().invoke(main, line).stdout
    assert "unchecked" not in CliRunner().invoke(main, [*ask, "--spend", "epsilon=2", "--json"]).stdout
