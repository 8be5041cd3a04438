"""Fields, SQL, JSON and Python are four writings of one question: whatever has fields, each of them asks the same plan."""

import json
from dataclasses import fields, replace
from inspect import signature
from types import SimpleNamespace

import duckdb
import pytest

import neartwin as nt
from neartwin.accounting.targets import approx
from neartwin.errors import NeartwinError
from neartwin.queries.form import STATISTICS
from neartwin.queries.query import Rows
from neartwin.queries.table import bounded
from neartwin.releases.accounts import Account
from neartwin.web import builder
from neartwin.web.asking import outcome
from neartwin.web.builder import Asked, Grouped, Wanted
from neartwin.web.datasets import Dataset
from neartwin.web.house import House
from neartwin.web.pages.asking import Columns, _task
from neartwin.web.pages.spelling import Spelled
from neartwin.web.shapes import Ask

CURATOR = SimpleNamespace(role="curator", name="carol", project="")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    place = tmp_path_factory.mktemp("visits")
    duckdb.sql(
        "SELECT i % 300 AS id, i % 90 AS age, (i * 37 % 4000) / 10 AS pay, ['Ulm', 'Bonn'][1 + i % 2] AS town, "
        "DATE '2024-01-01' + (i % 400)::INTEGER AS day, TIMESTAMP '2024-01-01 08:00:00' + INTERVAL (i) HOUR AS at "
        "FROM range(2000) t(i)"
    ).write_parquet(str(place / "visits.parquet"))
    with House(place / "house") as opened:
        dataset = Dataset(
            name="visits",
            place=str(place / "visits.parquet"),
            unit="id",
            bounds={"age": bounded(0, 120), "pay": bounded(0, 400)},
            keys={"town": ("Bonn", "Ulm")},
            budget=approx(4, "1e-4"),
        )
        opened.register(dataset, by="console")
        yield opened


@pytest.fixture(scope="module")
def visits(house):
    """The data set, its columns as the page has them, and its account with the declared keys, as a notebook has it."""
    found = house.dataset("visits")
    account = house.account(found)
    schema = {name: str(kind) for name, kind in house.rows(found).table.schema.items()}
    columns = Columns(groupable=["age", "town", "day"], numeric=["age", "pay"], dated=["day", "at"], types=schema)
    opened = SimpleNamespace(rows=account.rows, keys=found.keys, plan=account.plan)
    return SimpleNamespace(dataset=found, columns=columns, account=opened, rows=house.rows(found))


def value(ask, **more):
    return Wanted(ask=ask, column="pay", **more)


MONTHLY = {"groups": ("town",), "grouped": (Grouped(of="day", way="month"),)}
AGES = {"groups": ("age",), "keys": "given", "given": {"age": "9, 1, 2, 3, 4, 5, 6, 7, 8"}}
WITH_SQL = {
    "a count": Asked(),
    "units and a sum by town": Asked(wanted=(Wanted(ask="count_units", name="people"), value("sum")), groups=("town",)),
    "a mean in own bounds": Asked(wanted=(value("mean", low="0", high="50"),), where="age > 5 OR town = 'Ulm'"),
    "rows with a value": Asked(wanted=(Wanted(column="pay"), Wanted(column="town", name="t"), Wanted(name="n"))),
    "the same twice": Asked(wanted=(Wanted(), Wanted()), where="town = 'O''Brien' AND pay BETWEEN 1 AND 2"),
    "ends": Asked(wanted=(value("median"), value("minimum"), value("maximum", name="most"))),
    "a quantile": Asked(wanted=(value("quantile", rank="0.9", name="high"),), groups=("town",)),
    "spread": Asked(wanted=(value("variance"), value("stddev"))),
    "relations": Asked(wanted=(value("covariance", second="age"), value("correlation", second="age", name="r"))),
    "a histogram": Asked(wanted=(value("histogram", edges="0, 100, 250.5, 400"),), groups=("town",)),
    "an expression": Asked(wanted=(Wanted(ask="sum", column="pay * 2", low="0", high="800", name="twice"),)),
    "months": Asked(wanted=(value("mean"),), **MONTHLY),
    "weeks that begin": Asked(
        grouped=(Grouped(of="day", way="week start", name="week"),), keys="discover", delta="1e-6"
    ),
    "hours and days": Asked(grouped=(Grouped(of="at", way="hour"), Grouped(of="day", way="isodow"))),
    "ages": Asked(grouped=(Grouped(of="age", way="bins", edges="0, 18, 65, 120", name="life"),)),
    "old and young": Asked(grouped=(Grouped(of="age > 65", way="expression", name="old"),), groups=("town",)),
    "sorted": Asked(
        wanted=(Wanted(name="n"),), groups=("town",), having="n > 10", order_by="n desc, town", limit="2", offset="1"
    ),
    "a line": Asked(
        wanted=(
            Wanted(ask="coefficient", column="pay", second="age", feature="age", name="slope"),
            Wanted(ask="coefficient", column="pay", second="age", name="start"),
        )
    ),
    "a regression": Asked(wanted=(Wanted(ask="regression", column="pay", second="age, age * age", name="fit"),)),
    "the most common": Asked(wanted=(Wanted(ask="most_common", column="town", k="2"),)),
    "running totals": Asked(groups=("town",), over="prefixes"),
    "running totals of sums, falling": Asked(wanted=(value("sum", name="s"),), over="prefixes", falling="on", **AGES),
    "moving sums": Asked(over="moving", before="2", behind="1", **AGES),
    "moving sums, falling": Asked(over="moving", before="3", falling="on", **AGES),
    "runs": Asked(over="ranges", **AGES),
    "runs of some lengths": Asked(over="ranges", lengths="2, 9", where="pay > 5", **AGES),
    "weighted sums": Asked(over="weights", weights="young: 1 = 1, 9 = -0.5; odd: 3 = 1, 5 = 1", **AGES),
    "weighted towns": Asked(groups=("town",), over="weights", weights="both: Bonn = 1, Ulm = 2"),
    "margins": Asked(groups=("town",), grouped=(Grouped(of="day", way="month"),), margins="town; day_month"),
}
WITHOUT_SQL = {
    "one of two slopes": Asked(
        wanted=(Wanted(ask="coefficient", column="pay", second="age, age * age", feature="age"),)
    ),
    "several ranks": Asked(wanted=(value("quantile", rank="0.25, 0.75"),)),
    "runs of computed groups": Asked(grouped=(Grouped(of="age", way="bins", edges="0, 18, 65, 120"),), over="ranges"),
    "a weight that is no decimal": Asked(over="weights", weights="third: 1 = 1/3", **AGES),
    "counted winners": Asked(wanted=(Wanted(ask="most_common", column="town", counted="on"),)),
}
BESIDE = {
    "a step and a fill": Asked(wanted=(value("sum", low="0", high="50", step="1/2", fill="3"),)),
    "given keys": Asked(groups=("town",), keys="given", given={"town": "Ulm, Köln"}),
    "given years": Asked(grouped=(Grouped(of="day", way="year"),), keys="given", given={"day_year": "2024:2025"}),
    "given winners": Asked(
        wanted=(Wanted(ask="most_common", column="age", k="3"),), keys="given", given={"age": "1:9"}
    ),
    "discovered groups": Asked(
        groups=("town",), keys="discover", delta="1e-6", discovery_groups="2", groups_per_unit="1"
    ),
    "a tuned bound": Asked(groups=("town",), rows_per_group="32", tune_rows="on", tune_share="0.2", tune_expected="2"),
    "all rows of a unit": Asked(groups=("town",), rows_per_group="4", groups_per_unit="2", rows_per_unit="5"),
    "tuned bounds of values": Asked(wanted=(value("sum"),), groups=("town",), value_range="on", tune_share="0.2"),
    "several together": Asked(units_together="3"),
    "a secret sample": Asked(sampling_rate="0.1"),
    "weights": Asked(wanted=(Wanted(weight="2"), value("sum", weight="0.5")), rows_per_group="3"),
}
ALL = WITH_SQL | WITHOUT_SQL | BESIDE


def planned(house, visits, asked, **changes):
    task = _task("plan", visits.dataset, CURATOR, visits.columns, asked) | changes
    Ask.model_validate({key: part for key, part in task.items() if key not in {"do", "dataset", "analyst", "project"}})
    told = outcome(house, task)
    assert "done" in told, told
    return told["done"]


@pytest.mark.parametrize("name", ALL)
def test_fields_are_a_question_that_the_service_takes_and_the_python_beside_them_is_the_same(house, visits, name):
    asked = ALL[name]
    form = builder.form(asked, visits.columns.types, visits.dataset.keys)
    spelled = Spelled(form, builder.spend(asked), builder.limits(asked), dataset="visits", host="http://here")
    code = "query" + spelled.python().partition("\nquery")[2].partition("\nprint")[0]
    names = {"nt": nt, "account": visits.account}
    exec(code, names)  # noqa: S102 - what the page says
    assert names["plan"].plan.digest == planned(house, visits, asked)["digest"]


@pytest.mark.parametrize("name", WITH_SQL)
def test_fields_and_sql_write_the_same_question(house, visits, name):
    asked = WITH_SQL[name]
    text = builder.sql(asked, "visits", "id")
    read = builder.from_sql(replace(asked, sql=text), visits.rows, visits.dataset.keys)
    assert builder.sql(read, "visits", "id") == text
    assert planned(house, visits, read)["digest"] == planned(house, visits, asked)["digest"]
    assert [one.way for one in read.grouped] == [one.way for one in asked.grouped]
    other = replace(asked, where="age > 6")
    assert builder.sql(other, "visits", "id") != text
    assert planned(house, visits, other)["digest"] != planned(house, visits, asked)["digest"]


@pytest.mark.parametrize("name", WITHOUT_SQL)
def test_what_sql_has_no_words_for_is_said_where_the_sql_would_be(house, visits, name):
    fields_of = builder.as_fields(WITHOUT_SQL[name])
    told = outcome(
        house, {"do": "fields", "dataset": "visits", "fields": fields_of, "source": "builder", "analyst": ""}
    )
    assert told["done"]["sql"].startswith("-- ")
    assert "no words in SQL" in told["done"]["sql"]


@pytest.mark.parametrize(
    ("over", "fields_say"),
    [
        ("age, SUM(COUNT(*)) OVER (ORDER BY age DESC) AS n", {"over": "prefixes", "falling": "on"}),
        (
            "age, SUM(SUM(pay)) OVER (ORDER BY age ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS n",
            {"over": "moving", "before": "2", "behind": "1"},
        ),
        ("RANGES(COUNT(*), [2, 9]) AS n", {"over": "ranges", "lengths": "2, 9"}),
        (
            "WEIGHTED_SUMS(COUNT(*), MAP {'young': MAP {1: 1, 9: -0.5}}) AS n",
            {"over": "weights", "weights": "young: 1 = 1, 9 = -1/2"},
        ),
    ],
)
def test_sums_over_groups_that_are_written_in_sql_fill_their_fields_and_are_shown_as_python(
    house, visits, over, fields_say
):
    typed = Asked(sql=f"SELECT {over} FROM visits GROUP BY age", keys="given", given={"age": "1:9"}, groups=("age",))
    read = builder.from_sql(typed, visits.rows, visits.dataset.keys)
    assert (read.joined, read.groups) == ("", ("age",))
    assert {name: getattr(read, name) for name in fields_say} == fields_say
    plan = planned(house, visits, read)
    asked_so = planned(house, visits, read, question={"sql": typed.sql, "keys": {"age": list(range(1, 10))}})
    assert plan["digest"] == asked_so["digest"]
    spelled = Spelled(plan["question"], builder.spend(read), builder.limits(read), dataset="visits", host="http://here")
    assert ".workload(" in spelled.python()
    others = planned(house, visits, replace(read, over="prefixes", falling="", given={"age": "1:3"}))
    assert others["digest"] != plan["digest"]
    plain = builder.from_sql(
        replace(read, sql="SELECT age, COUNT(*) AS n FROM visits GROUP BY age"), visits.rows, visits.dataset.keys
    )
    assert plain.over == ""


def test_windows_go_along_keys_that_have_an_order(visits):
    declared = {"town": ("Ulm", "Bonn")}
    asked = Asked(groups=("town",), over="prefixes")
    assert builder.form(asked, visits.columns.types, declared)["keys"] == {"town": ["Bonn", "Ulm"]}
    runs = builder.form(replace(asked, over="ranges"), visits.columns.types, declared)
    assert runs["keys"] == {"town": ["Ulm", "Bonn"]}
    with pytest.raises(NeartwinError, match="an order"):
        builder.form(asked, visits.columns.types, {"town": ("Ulm", None)})


def test_sums_over_several_columns_stay_in_their_sql(house, visits):
    text = "SELECT WEIGHTED_SUMS(COUNT(*), MAP {'one': MAP {('Ulm', 1): 1}}) AS n FROM visits GROUP BY town, age"
    typed = Asked(sql=text, keys="given", given={"age": "1:9", "town": "Ulm, Bonn"})
    read = builder.from_sql(typed, visits.rows, visits.dataset.keys)
    assert (read.joined, read.over, builder.sql(read, "visits", "id")) == ("on", "", text)
    assert planned(house, visits, read)["question"]["workload"]["ask"] == "weights"


def test_ratios_and_shapes_stay_in_their_sql_and_are_done_where_the_answer_is_shown(house, visits):
    text = (
        "SELECT town, GREATEST(COUNT(*), 0) AS n, SUM(pay) / COUNT(*) AS each FROM visits GROUP BY town HAVING each > 1"
    )
    typed = Asked(sql=text, keys="given", given={"town": "Ulm, Bonn"})
    read = builder.from_sql(typed, visits.rows, visits.dataset.keys)
    assert (read.joined, builder.sql(read, "visits", "id")) == ("on", text)
    assert planned(house, visits, read)["question"]["after"]["non_negative"] == ["n"]
    after = builder.after_of(json.dumps(builder.after_form(read)))
    assert after == nt.from_sql(text, visits.rows, keys=["Ulm", "Bonn"]).after
    assert (after.ratios, after.having) == ((("each", "sum_pay", "n"),), "each > 1")
    again = builder.from_sql(replace(read, sql="SELECT town, COUNT(*) AS n FROM visits GROUP BY town"), visits.rows, {})
    assert (again.joined, again.shaping) == ("", "")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"over": "backwards"}, "must be prefixes"),
        ({"over": "moving", "before": "two"}, "whole numbers"),
        ({"over": "ranges", "lengths": "2, -1"}, "whole numbers"),
        ({"over": "weights", "weights": ""}, "must have a name"),
        ({"over": "weights", "weights": "young 1 = 1"}, "a new name and pairs"),
        ({"over": "weights", "weights": "young: 1 = 1; young: 2 = 1"}, "a new name and pairs"),
        ({"over": "weights", "weights": "young: 1"}, "a key and its weight"),
    ],
)
def test_fields_of_sums_over_groups_that_say_nothing_are_refused_kindly(visits, changed, says):
    with pytest.raises(NeartwinError, match=says):
        builder.form(Asked(**(AGES | changed)), visits.columns.types, visits.dataset.keys)


def test_every_statistic_and_every_bound_of_a_question_has_its_field():
    assert set(builder.VERBS) == {*STATISTICS, "most_common"}
    spelled = {"column": "column", "x": "column", "target": "column", "y": "second", "features": "second"}
    for ask, make in STATISTICS.items():
        wanted = {spelled.get(name, name) for name in signature(make).parameters}
        assert wanted <= set(builder.FIELDS[ask]), ask
    bounds = set(signature(Account.plan).parameters) - {"self", "query", "spend", "weights"}
    assert bounds <= {one.name for one in fields(Asked)}
    assert bounds <= set(Ask.model_fields)


def test_bounds_typed_in_stay_while_the_sql_changes(visits):
    rows = Rows(replace(visits.rows.table, columns={}))
    typed = Asked(wanted=(value("sum", low="0", high="50", step="2"),), sql="SELECT AVG(pay) AS m FROM visits")
    read = builder.from_sql(typed, rows, {})
    assert read.wanted == (value("mean", low="0", high="50", step="2", name="m"),)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Asked(grouped=(Grouped(of="age", edges="18"),)), "edges"),
        (Asked(grouped=(Grouped(way="month"),)), "must name a column"),
        (Asked(wanted=(Wanted(), Wanted(ask="most_common", column="town"))), "a question of their own"),
        (Asked(wanted=(Wanted(ask="most_common", column="age"),)), "chosen among public ones"),
        (Asked(limit="many"), "must be a whole number"),
    ],
)
def test_fields_that_are_no_question_say_why(visits, asked, words):
    with pytest.raises(NeartwinError, match=words):
        builder.form(asked, visits.columns.types, visits.dataset.keys)


def test_a_group_that_is_none_of_the_ways_stays_the_expression_that_it_is():
    assert builder.recognised("month", 'month("day")') == Grouped(of="day", way="month", name="month")
    assert builder.recognised("day_month", "MONTH(day)") == Grouped(of="day", way="month")
    odd = "CASE WHEN age < 3 THEN 'a' WHEN age <= 9 THEN 'b' END"
    assert builder.recognised("x", odd) == Grouped(of=odd, way="expression", name="x")
    assert builder.recognised("x", "month(day) + 1").way == "expression"
