"""Names of columns that engines tell apart in their own way: each question reads the column that it names, or is refused."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import SchemaError
from neartwin.planning.planner import plan

ROWS = {"visit": [*range(80)], "ID": [*range(80)], "id": [7] * 80, "v": [1.0] * 80}


def units(rows):
    made = plan(rows.agg(n=nt.count_distinct_units()), spend=nt.pure(1))
    return int(DuckdbEngine().aggregate(made.stage, salt=1).values["units"][0])


def parquet(folder, columns):
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), folder / "v.parquet")
    return folder / "v.parquet"


def csv(folder, columns):
    columns.to_pandas().to_csv(folder / "v.csv", index=False)
    return folder / "v.csv"


KINDS = {
    "parquet": parquet,
    "csv": csv,
    "arrow": lambda _, columns: columns,
    "pandas": lambda _, columns: columns.to_pandas(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_column_names_that_differ_by_capitals_alone_are_refused(tmp_path, kind):
    """DuckDB read the first for both: asked for the people of `id`, it protected the rows of `ID`."""
    types = {"id": "integer"}
    for columns in (ROWS, {name: ROWS[name] for name in ("id", "ID", "v")}):
        with pytest.raises(SchemaError, match="one name to DuckDB; rename one"):
            nt.table(KINDS[kind](tmp_path, pa.table(columns)), unit="id", name="v", types=types)
    apart = pa.table({"who": ROWS["ID"], "id": ROWS["id"], "É": ROWS["v"], "é": ROWS["v"]})
    assert units(nt.table(KINDS[kind](tmp_path, apart), unit="id", name="v", types=types)) == 1


@pytest.mark.parametrize("kind", ["parquet", "arrow", "pandas"])
def test_a_name_that_stands_twice_or_is_empty_is_refused(tmp_path, kind):
    values = [pa.array(ROWS["id"]), pa.array(ROWS["ID"])]
    for names in (["id", "id"], ["id", ""]):
        with pytest.raises(SchemaError, match=r"rename one|without a name"):
            nt.table(KINDS[kind](tmp_path, pa.table(values, names=names)), unit="id", name="v")


def test_a_csv_may_begin_with_a_column_without_a_name(tmp_path):
    """As pandas writes its index. No release could be made of it."""
    (tmp_path / "v.csv").write_text(",id,id_\n0,5,1\n1,5,2\n2,6,3\n")
    assert units(nt.table(tmp_path / "v.csv", unit="id", types={"id": "integer"})) == 2
    assert units(nt.table(tmp_path / "v.csv", unit="id_", types={"id_": "integer"})) == 3


def test_a_frame_whose_names_are_numbers_is_asked_by_their_text():
    frame = pd.DataFrame({0: [1, 1, 2], 1: ["a", "b", "c"]})
    assert units(nt.table(frame, unit="0", name="v")) == 2
    assert units(nt.table(frame, unit="1", name="v", types={"1": "text"})) == 3


def test_spark_ignores_case_by_default(spark):
    frame = spark.sql("SELECT range AS ID, 7L AS id FROM (SELECT id AS range FROM range(9))")
    with pytest.raises(SchemaError, match="one name; rename one"):
        nt.table(frame, unit="id", name="v")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert nt.table(frame, unit="id", name="v").table.unit == "id"
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_files_of_one_table_have_the_same_columns(tmp_path):
    """A value that did not fit the first file's type made a release fail, after it was paid."""
    first = pa.table({"who": pa.array([1, 2], pa.int32()), "town": ["a", "b"], "paid": pa.array([1.0, 2.0])})

    def with_second(second):
        pq.write_table(first, tmp_path / "a.parquet")
        pq.write_table(second, tmp_path / "b.parquet")
        return nt.table(str(tmp_path / "*.parquet"), unit="who", name="v")

    wide = first.set_column(0, "who", pa.array([2**40, 2], pa.int64()))
    for second in (
        wide,
        first.drop_columns(["paid"]),
        first.rename_columns(["WHO", "town", "paid"]),
        first.set_column(2, "paid", pa.array(["much", "1"])),
        first.set_column(1, "town", pa.array([1, 2])),
    ):
        with pytest.raises(SchemaError, match=r"b\.parquet.*write it with one type"):
            with_second(second)
    for second in (
        first.set_column(0, "who", pa.array([9, 2], pa.int16())),
        first.set_column(1, "town", pa.array(["a", "c"]).dictionary_encode()),
        first.select(["paid", "town", "who"]).append_column("more", pa.array([1, 2])),
    ):
        assert units(with_second(second)) in {2, 3}
