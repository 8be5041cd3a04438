"""The owner's check reads each value on its own engine, and names keys that belong to several units."""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main

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
    assert any(fault.startswith("rate: ") and "BY_ZERO" in fault for fault in faults)


def test_each_value_that_arrow_holds_wrongly_is_found(tmp_path):
    texts = pa.array([b"a", b"\xff"]).view(pa.string())
    pq.write_table(pa.table({"who": [1, 2], "town": texts, "fine": ["a", "b"]}), tmp_path / "v.parquet")
    (fault,) = nt.check(nt.table(tmp_path / "v.parquet", unit="who"))
    assert fault.startswith("town: ")
