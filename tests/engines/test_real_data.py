"""The questions of `tests/real_tables.py` asked of PostgreSQL and Spark, in Python and in SQL: the true answer, as DuckDB says.

Of PostgreSQL from a terminal too, which opens the table anew: a server's table has no state to tell, so that is a new release.
`tests/releases/test_real_data.py` asks them of files.
"""

import secrets

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main
from tests.real_tables import CASES, MISSING, Keys, as_rows, made, opened, same, told_by_duckdb, words

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"the data are in {', '.join(MISSING)}")
KINDS = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE PRECISION", pa.string(): "TEXT", pa.large_string(): "TEXT"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    made(place)
    return place


@pytest.fixture(scope="module")
def in_postgres(folder, postgres_place):
    """Copies every file to the server; gives where each table is. The role that reads may select and nothing else."""
    mark = secrets.token_hex(8)
    with postgres_place.writing() as connection:
        connection.execute(f"CREATE SCHEMA s_{mark}")
        for file in folder.glob("*.parquet"):
            table = pq.read_table(file)
            columns = ", ".join(f'"{one.name}" {KINDS.get(one.type, "TIMESTAMP")}' for one in table.schema)
            connection.execute(f"CREATE TABLE s_{mark}.{file.stem} ({columns})")
            with connection.cursor().copy(f"COPY s_{mark}.{file.stem} FROM STDIN") as copy:
                for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                    copy.write_row(row)
    return lambda name: {"data": postgres_place.url, "table": f"s_{mark}.{name}"}


@pytest.fixture(scope="module")
def in_spark(folder, spark):
    frames = {file.stem: spark.read.parquet(str(file)).cache() for file in folder.glob("*.parquet")}
    yield lambda name: {"data": frames[name]}
    for frame in frames.values():
        frame.unpersist()


def asked_in_python_and_sql(data, asked, where, book):
    """The release, which both ways of asking must share: the second one costs nothing."""
    rows, others = opened(data, asked, where)
    account = book.open(rows, asked.spend[1])
    terms = {"spend": asked.spend[1], **data.limits_of(asked)}
    release = account.release(account.plan(asked.python(rows, Keys(data.keys, others)), **terms))
    assert account.sql(asked.sql, keys=data.keys_of(asked), tables=others, **terms) == release
    assert set(account.remaining.values()) == {0}
    return release


@pytest.mark.parametrize(("data", "number"), CASES, ids=lambda it: getattr(it, "label", str(it)))
def test_postgres_gives_the_true_answer_in_python_sql_and_a_terminal(folder, tmp_path, in_postgres, data, number):
    asked = data.asked[number]
    with nt.open_ledger(tmp_path / "budget.db") as book:
        release = asked_in_python_and_sql(data, asked, in_postgres, book)
    done = CliRunner().invoke(main, words(data, asked, in_postgres, tmp_path / "another.db"))
    assert done.exit_code == 0, done.output
    truth = told_by_duckdb(asked.truth, folder)
    for found in (release, nt.Release.from_json(done.output)):
        same(as_rows(found), truth, asked.slack, ordered="LIMIT" in asked.sql)


@pytest.mark.parametrize(("data", "number"), CASES, ids=lambda it: getattr(it, "label", str(it)))
def test_spark_gives_the_true_answer_in_python_and_sql(folder, tmp_path, in_spark, data, number):
    asked = data.asked[number]
    with nt.open_ledger(tmp_path / "budget.db") as book:
        release = asked_in_python_and_sql(data, asked, in_spark, book)
    same(as_rows(release), told_by_duckdb(asked.truth, folder), asked.slack, ordered="LIMIT" in asked.sql)
