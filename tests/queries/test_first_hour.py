"""Mistakes of the first hour: each message shows the corrected line, and nothing is paid."""

import sys
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main
from neartwin.errors import ParameterError, QueryError

TABLE = pa.table({"who": [1], "age": [36], "day": [date(2024, 1, 1)], "town": ["Ulm"]})
JANUARY = (date(2024, 1, 1),)


@pytest.mark.parametrize(
    ("column", "keys", "found"),
    [
        ("age", np.arange(2), ((0,), (1,))),
        ("age", [np.int64(4)], ((4,),)),
        ("age", pd.Series([1, 2]), ((1,), (2,))),
        ("age", pl.Series([1, 2]), ((1,), (2,))),
        ("age", pd.Index([3]), ((3,),)),
        ("day", ["2024-01-01"], (JANUARY,)),
        ("day", pd.date_range("2024-01-01", periods=1), (JANUARY,)),
        ("day", [np.datetime64("2024-01-01")], (JANUARY,)),
        ("day", [pd.Timestamp("2024-01-01")], (JANUARY,)),
        ("day", np.array(["2024-01-01"], "datetime64[ns]"), (JANUARY,)),
        ("day", pd.to_datetime(pd.Series(["2024-01-01", None])).unique(), (JANUARY, (None,))),
        ("age", pd.array([4, None], dtype="Int64"), ((4,), (None,))),
        ("age", pa.array([4, 5]), ((4,), (5,))),
        ("age", pd.Series([4, None]).unique(), ((4,), (None,))),  # in floats, as pandas holds them
        ("town", pd.Series(["Ulm", None]).unique(), (("Ulm",), (None,))),
        ("town", pd.Series(["Ulm", None], dtype="string").unique(), (("Ulm",), (None,))),
    ],
)
def test_keys_are_what_numpy_pandas_and_iso_texts_give(column, keys, found):
    assert nt.table(TABLE, unit="who", name="v").group_by(column, keys=keys).keys == found


@pytest.mark.parametrize(
    ("column", "key"), [("age", 1.5), ("age", "1"), ("day", "tomorrow"), ("day", pd.Timestamp("2024-01-01 10:00"))]
)
def test_near_miss_key_of_another_type_is_refused(column, key):
    with pytest.raises(QueryError, match="is not of the type"):
        nt.table(TABLE, unit="who", name="v").group_by(column, keys=[key])


def test_bounds_and_statistics_without_their_names_show_the_line_to_write():
    with pytest.raises(ParameterError, match=r"write columns=\{'age': nt.bounds\(1, 5\)\}"):
        nt.table(TABLE, unit="who", name="v", columns={"age": (1, 5)})
    rows = nt.table(TABLE, unit="who", name="v", columns={"age": nt.bounds(1, 5)})
    for asked in (rows, rows.group_by("age")):
        with pytest.raises(QueryError, match=r"agg\(orders=nt.count\(\)\)"):
            asked.agg(nt.count())


def test_a_whole_number_without_bounds_may_be_a_flag_and_a_price_is_none():
    flags = nt.table(TABLE.append_column("cost", pa.array([1.5])), unit="who", name="v")
    for asked in ("AVG(age)", "SUM(age)"):
        with pytest.raises(QueryError, match=r"if it is 0 or 1, write AVG\(age = 1\), or clip\(age, 0, 1\)$"):
            nt.from_sql(f"SELECT {asked} FROM v", flags)
    for written in ("AVG(age = 1)", "AVG(clip(age, 0, 1))"):
        nt.from_sql(f"SELECT {written} FROM v", flags)
    with pytest.raises(QueryError, match=r"--bounds cost=0:100$"):
        nt.from_sql("SELECT AVG(cost) FROM v", flags)


@pytest.mark.parametrize("out", ["x.png", "nowhere/x.html", "x"])
def test_file_of_a_release_is_checked_before_it_is_paid(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, "v.parquet")
    asked = ["query", "v.parquet", "SELECT COUNT(DISTINCT who) AS n FROM v", "--unit", "who", "--ledger", "b.db",
             "--spend", "epsilon=1", "--budget", "epsilon=1", "--out"]  # fmt: skip
    refused = CliRunner().invoke(main, [*asked, out])
    assert refused.exit_code == 2
    assert not (tmp_path / "b.db").exists()
    assert CliRunner().invoke(main, [*asked, "x.html"]).exit_code == 0


def test_package_of_excel_is_wanted_before_its_file_is_paid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, "v.parquet")
    asked = ["query", "v.parquet", "SELECT COUNT(DISTINCT who) AS n FROM v", "--unit", "who", "--ledger", "b.db",
             "--spend", "epsilon=1", "--budget", "epsilon=1", "--out", "x.xlsx"]  # fmt: skip
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "openpyxl", None)
        refused = CliRunner().invoke(main, asked)
    assert refused.exit_code == 2
    assert "pip install 'neartwin[excel]'" in refused.output
    assert not (tmp_path / "b.db").exists()
    assert CliRunner().invoke(main, asked).exit_code == 0
