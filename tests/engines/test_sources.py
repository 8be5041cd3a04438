"""What a table may be made of, and what is refused at the door, before anything is spent."""

import gzip
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import neartwin as nt
from neartwin.engines.duckdb import DuckdbEngine
from neartwin.errors import NeartwinError, ParameterError, QueryError, SchemaError
from neartwin.planning.planner import plan


def rows_counted(rows, **limits):
    query = rows.agg(n=nt.count())
    return int(DuckdbEngine().aggregate(plan(query, spend=nt.pure(1), **limits).stage, salt=1).values["rows"][0])


def test_each_value_of_a_csv_is_cast_alone(tmp_path):
    text = 'who,day,paid,note\n1,2024-02-29,5.5,"a, ""b"""\n2,tomorrow,much,\n,2024-01-01,1,x\nthree,2024-01-01,NaN,x\n'
    (tmp_path / "v.csv").write_text(text)
    with gzip.open(tmp_path / "v.csv.gz", "wt") as file:
        file.write(text)
    for name in ("v.csv", "v.csv.gz"):
        types = {"who": "integer", "day": "date", "paid": "number", "note": "text"}
        with pytest.raises(SchemaError, match="line 5: 'who' is 'three', and no integer"):
            nt.table(tmp_path / name, unit="who", types=types)
        rows = nt.table(tmp_path / name, unit="who", types=types, accept_odd=True)
        assert (
            rows_counted(rows, limits=nt.limits(max_rows_per_group=9)) == 2
        )  # two rows have a whole number for a person
        assert rows_counted(rows.where("day = DATE '2024-02-29'"), limits=nt.limits(max_rows_per_group=9)) == 1
        assert rows_counted(rows.where("note = 'a, \"b\"'"), limits=nt.limits(max_rows_per_group=9)) == 1
        assert rows_counted(rows.where("paid > 5"), limits=nt.limits(max_rows_per_group=9)) == 1


def test_an_undeclared_column_of_a_csv_is_text(tmp_path):
    (tmp_path / "v.csv").write_text("who,paid\n1,2\n")
    rows = nt.table(tmp_path / "v.csv", unit="who", types={"who": "integer"})
    with pytest.raises(SchemaError, match="write types="):
        rows.agg(total=nt.sum("paid", 0, 1))


def test_a_frame_of_odd_objects_cannot_fail_a_release():
    frame = pd.DataFrame(
        {"who": [1, 2, 3], "paid": pd.Series([1, "much", float("nan")], dtype=object), "odd": [{1}, [2], None]}
    )
    with pytest.raises(SchemaError, match="'paid' is 'much', and no number"):
        nt.table(frame, unit="who", name="v", types={"paid": "number"})
    rows = nt.table(frame, unit="who", name="v", types={"paid": "number"}, accept_odd=True)
    query = rows.agg(total=nt.sum("paid", 0, 10, 1))
    asked = plan(query, spend=nt.pure(1), limits=nt.limits(max_rows_per_group=1))
    (name,) = asked.stage.measures
    assert DuckdbEngine().aggregate(asked.stage, salt=1).values[name].tolist() == [asked.stage.parts[name]]


def test_wide_whole_numbers_are_summed_and_no_key_that_files_cannot_hold():
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE v AS SELECT 1 AS who, (2::HUGEINT ** 100)::HUGEINT AS big, 9007199254740992 AS paid"
    )
    rows = nt.table(connection, table="v", unit="who")
    query = rows.group_by("big").agg(total=nt.sum("paid", 0, 2**53, 1))
    asked = plan(query, spend=nt.approx(2**20, "1e-9"), limits=nt.limits(max_rows_per_group=1, max_groups=1))
    found = DuckdbEngine().aggregate(asked.stage, salt=1)
    assert list(found.keys) == [(None,)]
    assert [int(values[0]) for name, values in found.values.items() if name.startswith("total")] == [2**53]


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda d: nt.table(d / "none.parquet", unit="who"), SchemaError, "matches no file"),
        (lambda d: nt.table(d / "bad.parquet", unit="who"), SchemaError, "not a Parquet file"),
        (lambda d: nt.table(d / "bad.duckdb", table="v", unit="who"), SchemaError, "cannot be opened"),
        (lambda d: nt.table(d / "twice.csv", unit="a", types={"a": "text"}), SchemaError, "distinct column names"),
        (lambda d: nt.table(d / "v.xlsx", unit="who"), SchemaError, "cannot be read as a file of excel"),
        (lambda d: nt.table(d / "v.sas7bdat", unit="who"), SchemaError, "must end in"),
        (lambda _: nt.table(5, unit="who"), SchemaError, "is not a table"),
        (lambda _: nt.table("webhdfs://example.org/v.csv", unit="who"), SchemaError, "copy the file here"),
        (lambda _: nt.table("nowhere://v.csv", unit="who"), SchemaError, "copy the file here"),
        (lambda _: nt.table(pa.table({"who": [1]}), unit="who"), ParameterError, "must name the population"),
        (lambda _: nt.table(pa.table({"who": [1.5]}), unit="who", name="v"), SchemaError, "a unit is integer or text"),
        (lambda _: nt.table(pa.table({"who": [1]}), unit="me", name="v"), SchemaError, "not in the table"),
        (
            lambda _: nt.table(pa.table({"who": [1]}), unit="who", name="v", neighbours="some"),
            ParameterError,
            "add_remove",
        ),
        (
            lambda _: nt.table(pa.table({"who": [1]}), unit="who", name="v", types={"who": "money"}),
            ParameterError,
            "one of",
        ),
        (
            lambda _: nt.table(pa.table({"who": [1]}), unit="who", name="v", types={"x": "text"}),
            SchemaError,
            "not in the table",
        ),
        (lambda _: nt.table(duckdb.connect(), unit="who"), SchemaError, "must name a table"),
        (lambda _: nt.table(duckdb.connect(), table="v; DROP", unit="who"), SchemaError, "not a table or view"),
        (
            lambda _: nt.table(
                pa.table({"who": [1], "t": ["a"]}), unit="who", name="v", columns={"t": nt.bounds(0, 1)}
            ),
            SchemaError,
            "must be a number",
        ),
    ],
)
def test_malformed_source_is_refused_on_opening(tmp_path, make, error, says):
    for name in ("bad.parquet", "bad.duckdb", "v.xlsx", "v.sas7bdat"):
        (tmp_path / name).write_text("this is nothing")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    with pytest.raises(error, match=says) as refusal:
        make(tmp_path)
    assert isinstance(refusal.value, NeartwinError)


@pytest.mark.parametrize("keys", [[2**63], [-(2**63) - 1], ["\ud800"]])
def test_keys_that_no_engine_can_hold_are_refused_before_anything_is_spent(keys):
    table = pa.table({"who": [1], "year": [1], "town": ["a"]})
    rows = nt.table(table, unit="who", name="v")
    with pytest.raises(QueryError, match="is not of the type of"):
        rows.group_by("town" if isinstance(keys[0], str) else "year", keys=keys)
    assert rows.group_by("year", keys=[2**63 - 1]).keys == ((2**63 - 1,),)


IN_A_TERMINAL = """
import sys
import duckdb
from neartwin.engines.duckdb_connections import opened
from neartwin.tables.sources import DuckdbTable, ParquetFiles

def drawn(connection):
    return connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()[0]

with duckdb.connect(sys.argv[1]) as theirs:
    theirs.execute("CREATE TABLE v AS SELECT 1 AS who")
    theirs.execute(f"COPY v TO '{sys.argv[2]}'")
    found = [drawn(theirs)]
for source in (DuckdbTable(sys.argv[1], "v"), ParquetFiles((sys.argv[2],))):
    with opened([source], [("who",)], {}) as (connection, _):
        found.append(drawn(connection))
print(found)
"""


@pytest.mark.slow
def test_no_progress_of_a_private_statement_is_drawn(tmp_path):
    command = [sys.executable, "-c", IN_A_TERMINAL, str(tmp_path / "v.duckdb"), str(tmp_path / "v.parquet")]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert told.split() == ["[True,", "False,", "False]"]  # DuckDB's own connections do draw it there


def test_a_column_with_a_collation_is_grouped_by_its_bytes():
    """By the collation one group had four spellings, and the one that was shown was one person's."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits (who INT, town VARCHAR COLLATE NOCASE)")
    connection.execute("INSERT INTO visits VALUES (1, 'Ulm'), (2, 'ulm'), (3, 'ULM'), (4, 'ULM'), (5, 'Bonn')")
    assert len(connection.execute("SELECT town FROM visits GROUP BY town").fetchall()) == 2  # the near miss
    towns = nt.table(connection, table="visits", unit="who")
    for keys, expected in (
        (None, {("Ulm",): 1, ("ulm",): 1, ("ULM",): 2, ("Bonn",): 1}),
        (["Ulm", "ULM", "uLM"], {("Ulm",): 1, ("ULM",): 2, ("uLM",): 0}),
    ):
        asked = towns.group_by("town", keys=keys).agg(n=nt.count_distinct_units())
        made = plan(asked, spend=nt.approx(1, "1e-6"), limits=nt.limits(max_groups=3))
        found = DuckdbEngine().aggregate(made.stage, salt=1)
        assert dict(zip(map(tuple, found.keys), found.values["units"].tolist(), strict=True)) == expected
    assert connection.execute("SELECT count(*) FROM visits WHERE town = 'ulm'").fetchall() == [(4,)]  # the near miss
    for condition, expected in (("town = 'ulm'", 1), ("town >= 'a'", 1), ("town IN ('ULM')", 2)):
        made = plan(towns.where(condition).agg(n=nt.count_distinct_units()), spend=nt.approx(1, "1e-6"))
        assert DuckdbEngine().aggregate(made.stage, salt=1).values["units"].tolist() == [expected]


@pytest.mark.slow
@pytest.mark.parametrize("first", ["file", "database", "connection"])
def test_questions_that_join_databases_do_not_disturb_each_other(tmp_path, first):
    """Asked in four threads at once. Attached to one instance, one question's database was gone when another let it go."""
    rows = "SELECT range AS who, range % 3 AS kind FROM range(300)"
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE visits AS {rows}")
    connection.execute(f"COPY visits TO '{tmp_path / 'visits.parquet'}'")
    for name in ("visits", "kinds", "others"):
        with duckdb.connect(str(tmp_path / f"{name}.duckdb")) as made:
            made.execute(f"CREATE TABLE visits AS {rows}")
            made.execute("CREATE TABLE kinds AS SELECT range AS kind, 'k' || range AS called FROM range(2)")
    of = {"file": (tmp_path / "visits.parquet", ""), "database": (tmp_path / "visits.duckdb", "visits"),
          "connection": (connection, "visits")}  # fmt: skip
    table = nt.table(
        of[first][0], table=of[first][1], unit="who", name="visits", snapshot="one" if first == "connection" else ""
    )
    known = [nt.public_table(tmp_path / f"{name}.duckdb", table="kinds") for name in ("kinds", "others")]
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(table, nt.pure(10**9))

        def asked(number):
            joined = table.join(known[number % 2], on="kind").where(f"who <> {1000 + number}")
            plan = account.plan(joined.agg(n=nt.count()), spend=nt.pure(10**6), limits=nt.limits(max_rows_per_group=1))
            return account.release(plan)["n"].values[0]

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(asked, range(40))) == [200] * 40
    assert connection.execute("SELECT count(*) FROM duckdb_databases() WHERE path IS NOT NULL").fetchall() == [(0,)]
