"""The questions of `tests/real_tables.py` asked of PostgreSQL and Spark, in Python and in SQL: the true answer, as DuckDB says.

The first question of each data set is also asked of PostgreSQL from a terminal, which opens the table anew. A server's
table has no state to tell, so that is a new release.
`tests/releases/test_real_data.py` asks them of files.
"""

import secrets

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main
from tests.real_tables import CASES, MISSING, as_rows, asked_in_python_and_sql, same, told_by_duckdb, words

pytestmark = pytest.mark.sweep

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"the data are in {', '.join(MISSING)}")
KINDS = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE PRECISION", pa.string(): "TEXT", pa.large_string(): "TEXT"}


@pytest.fixture(scope="module")
def in_postgres(real_tables, postgres_place):
    """Copies every file to the server; gives where each table is. The role that reads may select and nothing else."""
    mark = secrets.token_hex(8)
    with postgres_place.writing() as connection:
        connection.execute(f"CREATE SCHEMA s_{mark}")
        for file in real_tables.glob("*.parquet"):
            table = pq.read_table(file)
            columns = ", ".join(f'"{one.name}" {KINDS.get(one.type, "TIMESTAMP")}' for one in table.schema)
            connection.execute(f"CREATE TABLE s_{mark}.{file.stem} ({columns})")
            with connection.cursor().copy(f"COPY s_{mark}.{file.stem} FROM STDIN") as copy:
                for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                    copy.write_row(row)
    return lambda name: {"data": postgres_place.url, "table": f"s_{mark}.{name}"}


@pytest.fixture(scope="module")
def in_spark(real_tables, spark):
    frames = {file.stem: spark.read.parquet(str(file)).cache() for file in real_tables.glob("*.parquet")}
    yield lambda name: {"data": frames[name]}
    for frame in frames.values():
        frame.unpersist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "number"),
    [pytest.param(data, number, marks=pytest.mark.slow if number else ()) for data, number in CASES],
    ids=lambda it: getattr(it, "label", str(it)),
)
def test_postgres_gives_the_true_answer_in_python_sql_and_a_terminal(real_tables, tmp_path, in_postgres, data, number):
    asked = data.asked[number]
    with nt.open_ledger(tmp_path / "budget.db") as book:
        release = asked_in_python_and_sql(data, asked, in_postgres, book)
    found_by = [release]
    if number == 0:
        done = CliRunner().invoke(main, words(data, asked, in_postgres, tmp_path / "another.db"))
        assert done.exit_code == 0, done.output
        found_by.append(nt.Release.from_json(done.output))
    truth = told_by_duckdb(asked.truth, real_tables)
    for found in found_by:
        same(as_rows(found), truth, asked.slack, ordered="LIMIT" in asked.sql)


@pytest.mark.parametrize(("data", "number"), CASES, ids=lambda it: getattr(it, "label", str(it)))
def test_spark_gives_the_true_answer_in_python_and_sql(real_tables, tmp_path, in_spark, data, number):
    asked = data.asked[number]
    with nt.open_ledger(tmp_path / "budget.db") as book:
        release = asked_in_python_and_sql(data, asked, in_spark, book)
    same(as_rows(release), told_by_duckdb(asked.truth, real_tables), asked.slack, ordered="LIMIT" in asked.sql)
