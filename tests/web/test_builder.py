"""The fields write one SQL text, and that text asks the question that the wire JSON asks."""

import ast
import re
from dataclasses import fields, replace
from inspect import signature
from types import SimpleNamespace

import duckdb
import pytest

from neartwin.accounting.budgets import approx
from neartwin.errors import NeartwinError
from neartwin.planning.limits import known_names, limits
from neartwin.releases.accounts import Account
from neartwin.statistics import CONSTRUCTORS
from neartwin.statistics.sql import SPELLINGS
from neartwin.tables.table import bounds
from neartwin.web.builder import task
from neartwin.web.builder.fields import (
    FIELDS,
    FUNCTIONS,
    STATISTIC_LABELS,
    AskFields,
    GroupFields,
    StatisticFields,
    read,
)
from neartwin.web.builder.task import sql
from neartwin.web.data_directory import DataDirectory, outcome
from neartwin.web.datasets import Dataset, Rule
from neartwin.web.pages.ask import _after_button, question_task, written
from neartwin.web.schemas import Ask
from neartwin.web.schemas import Limits as LimitsModel

CURATOR = SimpleNamespace(role="curator", name="carol", project="")


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    place = tmp_path_factory.mktemp("visits")
    duckdb.sql(
        "SELECT i % 300 AS id, i % 90 AS age, (i * 37 % 4000) / 10 AS pay, i % 7 AS order, "
        "['Ulm', 'Bonn'][1 + i % 2] AS town, i % 3 = 0 AS paid, "
        "DATE '2024-01-01' + (i % 400)::INTEGER AS day, TIMESTAMP '2024-01-01 08:00:00' + INTERVAL (i) HOUR AS at "
        "FROM range(2000) t(i)"
    ).write_parquet(str(place / "visits.parquet"))
    with DataDirectory(place / "house") as opened:
        dataset = Dataset(
            name="visits",
            place=str(place / "visits.parquet"),
            unit="id",
            bounds={"age": bounds(0, 120), "pay": bounds(0, 400)},
            keys={"town": ("Bonn", "Ulm")},
            budget=approx(4, "1e-4"),
        )
        opened.register(dataset, by="console")
        yield opened


def value(ask, **more):
    return StatisticFields(ask=ask, column="pay", **more)


def of_pay(ask, **more):
    return {"ask": ask, "column": "pay", **more}


TOWNS = {"group_by": ["town"], "keys": "declared"}
AGES = {"groups": ("age",), "keys": "given", "given": "age: 9, 1, 2, 3, 4, 5, 6, 7, 8"}
AGED = {"group_by": ["age"], "keys": {"age": list(range(1, 10))}}
LIFE = (
    'CASE WHEN "age" < 0 THEN NULL WHEN "age" < 18 THEN \'[0, 18)\' WHEN "age" < 65 THEN \'[18, 65)\' '
    "WHEN \"age\" <= 120 THEN '[65, 120]' END"
)
BINS = GroupFields(of="age", way="bins", edges="0, 18, 65, 120", name="life")
COUNT = {"statistics": {"rows": {"ask": "count"}}}
CASES = {
    "a count": (AskFields(), COUNT),
    "units and a sum by town": (
        AskFields(
            statistics=(StatisticFields(ask="count_distinct_units", name="people"), value("sum", name="s")), groups=("town",)
        ),
        {"statistics": {"people": {"ask": "count_distinct_units"}, "s": of_pay("sum")}} | TOWNS,
    ),
    "a condition": (
        AskFields(statistics=(value("mean", name="m"),), where="age > 5 OR town = 'Ulm'"),
        {"statistics": {"m": of_pay("mean")}, "where": ["age > 5 OR town = 'Ulm'"]},
    ),
    "own bounds and a fill": (
        AskFields(statistics=(value("sum", low="0", high="50", fill="3", name="s"),)),
        {"statistics": {"s": {"ask": "sum", "column": "clip(COALESCE(pay, 3), 0, 50)"}}},
    ),
    "one own bound beside a declared one": (
        AskFields(statistics=(value("sum", high="50", name="s"),)),
        {"statistics": {"s": {"ask": "sum", "column": "clip(pay, 0, 50)"}}},
    ),
    "rows with a value": (
        AskFields(statistics=(StatisticFields(column="pay", name="p"), StatisticFields(column="town", name="t"))),
        {"statistics": {"p": of_pay("count"), "t": {"ask": "count", "column": "town"}}},
    ),
    "a column and a name that are words of SQL": (
        AskFields(statistics=(StatisticFields(column="order", name="end"),)),
        {"statistics": {"end": {"ask": "count", "column": "order"}}},
    ),
    "ends": (
        AskFields(statistics=(value("median", name="m"), value("minimum", name="a"), value("maximum", name="b"))),
        {"statistics": {"m": of_pay("median"), "a": of_pay("minimum"), "b": of_pay("maximum")}},
    ),
    "quantiles": (
        AskFields(statistics=(value("quantile", rank="0.9", name="q"), value("quantile", rank="0.25, 0.75", name="p"))),
        {"statistics": {"q": of_pay("quantile", rank="0.9"), "p": of_pay("quantile", rank=["0.25", "0.75"])}},
    ),
    "shares": (
        AskFields(
            statistics=(
                StatisticFields(ask="share", column="paid", name="w"),
                StatisticFields(ask="share", column="age >= 65", name="old"),
            )
        ),
        {"statistics": {"w": {"ask": "share", "column": "paid"}, "old": {"ask": "share", "column": "age >= 65"}}},
    ),
    "the middle half": (
        AskFields(statistics=(value("interquartile_range", low="0", high="50", name="w"),)),
        {"statistics": {"w": {"ask": "interquartile_range", "column": "clip(pay, 0, 50)"}}},
    ),
    "spread": (
        AskFields(statistics=(value("variance", name="v"), value("stddev", name="d"))),
        {"statistics": {"v": of_pay("variance"), "d": of_pay("stddev")}},
    ),
    "relations": (
        AskFields(
            statistics=(value("covariance", second="age", name="c"), value("correlation", second="age", name="r"))
        ),
        {
            "statistics": {
                "c": {"ask": "covariance", "x": "pay", "y": "age"},
                "r": {"ask": "correlation", "x": "pay", "y": "age"},
            }
        },
    ),
    "a histogram": (
        AskFields(statistics=(value("histogram", edges="0, 100, 250.5, 400", name="h"),), groups=("town",)),
        {"statistics": {"h": of_pay("histogram", edges=["0", "100", "250.5", "400"])}} | TOWNS,
    ),
    "a line": (
        AskFields(statistics=(value("slope", second="age", name="s"), value("intercept", second="age", name="i"))),
        {
            "statistics": {
                "s": {"ask": "coefficient", "target": "pay", "features": ["age"], "feature": "age"},
                "i": {"ask": "coefficient", "target": "pay", "features": ["age"]},
            }
        },
    ),
    "a regression": (
        AskFields(statistics=(value("regression", second="age, age * age", name="fit"),)),
        {"statistics": {"fit": {"ask": "regression", "target": "pay", "features": ["age", "age * age"]}}},
    ),
    "months by town": (
        AskFields(groups=("town",), computed_groups=(GroupFields(of="day", way="month"),)),
        COUNT
        | {"computed": [["day_month", 'month("day")']], "group_by": ["town", "day_month"]}
        | {"keys": {"town": ["Bonn", "Ulm"]}},
    ),
    "hours and days": (
        AskFields(computed_groups=(GroupFields(of="at", way="hour"), GroupFields(of="day", way="isodow"))),
        COUNT
        | {"computed": [["at_hour", 'hour("at")'], ["day_isodow", 'isodow("day")']]}
        | {"group_by": ["at_hour", "day_isodow"]},
    ),
    "weeks that are discovered": (
        AskFields(
            computed_groups=(GroupFields(of="day", way="week start", name="week"),), keys="discover", delta="1e-6"
        ),
        COUNT | {"computed": [["week", "date_trunc('week', \"day\")"]], "group_by": ["week"]},
    ),
    "bins": (AskFields(computed_groups=(BINS,)), COUNT | {"computed": [["life", LIFE]], "group_by": ["life"]}),
    "an expression to group by": (
        AskFields(computed_groups=(GroupFields(of="age > 65", way="expression", name="old"),)),
        COUNT | {"computed": [["old", "age > 65"]], "group_by": ["old"]},
    ),
    "keys that are years": (
        AskFields(computed_groups=(GroupFields(of="day", way="year"),), keys="given", given="day_year: 2024:2025"),
        COUNT | {"computed": [["day_year", 'year("day")']], "group_by": ["day_year"], "keys": [2024, 2025]},
    ),
    "keys that are truth values": (
        AskFields(groups=("paid",), keys="given", given="paid: true, false"),
        COUNT | {"group_by": ["paid"], "keys": [True, False]},
    ),
    "running totals": (AskFields(groups=("town",), running="on"), COUNT | TOWNS | {"workload": {"ask": "prefixes"}}),
    "running totals over bins": (
        AskFields(computed_groups=(BINS,), running="on"),
        COUNT | {"computed": [["life", LIFE]], "group_by": ["life"], "workload": {"ask": "prefixes"}},
    ),
    "the most common": (
        AskFields(statistics=(StatisticFields(ask="most_common", column="town", k="2"),)),
        {"most_common": {"column": "town", "among": ["Bonn", "Ulm"], "k": 2}},
    ),
    "the most common of given values": (
        AskFields(
            statistics=(StatisticFields(ask="most_common", column="age", k="3"),), keys="given", given="age: 1:9"
        ),
        {"most_common": {"column": "age", "among": list(range(1, 10)), "k": 3}},
    ),
}  # fmt: skip
LIMITS = {
    "discovered groups": (
        AskFields(
            groups=("town",),
            keys="discover",
            delta="1e-6",
            max_rows_per_group="1",
            max_groups="3",
            max_discovered_groups="2",
            values="5",
        ),
        {"limits": {"max_rows_per_group": 1, "max_groups": 3, "max_discovered_groups": 2, "values": 5}},
    ),
    "all rows of a unit": (
        AskFields(groups=("town",), max_rows_per_group="4", max_groups="2", rows="5"),
        {"limits": {"max_rows_per_group": 4, "max_groups": 2, "rows": 5}},
    ),
    "bounds of values that are chosen privately": (
        AskFields(statistics=(value("sum"),), groups=("town",), private_range="on"),
        {"private_range": {}},
    ),
    "several units together": (AskFields(group_size="3"), {"group_size": 3}),
    "weights": (
        AskFields(statistics=(StatisticFields(), value("sum", name="s")), importance="rows = 2, s = 0.5"),
        {"importance": {"rows": "2", "s": "0.5"}},
    ),
}


def planned(directory, asked, **changes):
    told = outcome(directory, question_task("plan", directory.dataset("visits"), CURATOR, asked) | changes)
    assert "done" in told, told
    return told["done"]


def by_fields(directory, asked):
    return replace(asked, sql=sql(asked, directory.dataset("visits")))


@pytest.mark.parametrize("name", CASES)
def test_fields_write_the_sql_of_the_wire_forms_question(directory, name):
    asked, form = CASES[name]
    typed = by_fields(directory, asked)
    digest = planned(directory, typed)["digest"]
    assert digest == planned(directory, typed, question=form)["digest"]
    other = by_fields(directory, replace(asked, where="age > 6"))
    assert planned(directory, other)["digest"] != digest


@pytest.mark.parametrize("name", LIMITS)
def test_limits_stand_beside_the_sql_as_the_service_takes_them(directory, name):
    asked, limits = LIMITS[name]
    typed = by_fields(directory, asked)
    found = task.limits(typed)
    assert {part: found[part] for part in limits} == limits
    Ask.model_validate({"question": task.question(typed), "spend": task.spend(typed), **found})
    without = question_task("plan", directory.dataset("visits"), CURATOR, typed)
    plain = {part: value for part, value in without.items() if part not in limits}
    assert planned(directory, typed)["digest"] != outcome(directory, plain).get("done", {}).get("digest")


def test_every_statistic_and_every_limit_has_its_field():
    assert set(STATISTIC_LABELS) == set(FIELDS) == {*FUNCTIONS, "most_common"}
    assert {FUNCTIONS[word] for word in FUNCTIONS} == {spelled.partition("(")[0] for spelled in SPELLINGS}
    assert set(CONSTRUCTORS) - {"coefficient"} <= set(FIELDS)  # a coefficient is the slope or the intercept
    beside = set(signature(Account.plan).parameters) - {"self", "query", "spend"}
    typed = {one.name for one in fields(AskFields)}
    assert beside - {"limits"} <= typed
    assert beside <= set(Ask.model_fields)
    assert set(known_names()) <= typed
    assert set(known_names()) == set(signature(limits).parameters) == set(LimitsModel.model_fields)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (AskFields(computed_groups=(GroupFields(of="age", edges="18"),)), "edges"),
        (AskFields(computed_groups=(GroupFields(way="month"),)), "must name a column"),
        (
            AskFields(statistics=(StatisticFields(), StatisticFields(ask="most_common", column="town"))),
            "a question of their own",
        ),
        (AskFields(statistics=(StatisticFields(ask="sum"),)), "must be chosen"),
        (AskFields(statistics=(StatisticFields(ask="sum", column="day", low="1"),)), "must be two"),
        (AskFields(statistics=(StatisticFields(ask="average", column="pay"),)), "must ask one of"),
    ],
)
def test_fields_that_write_no_sql_say_why(directory, asked, words):
    with pytest.raises(NeartwinError, match=words):
        sql(asked, directory.dataset("visits"))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (AskFields(limit="many"), "LIMIT|not SQL|number"),
        (AskFields(statistics=(StatisticFields(ask="most_common", column="age"),)), "no declared keys"),
        (AskFields(computed_groups=(GroupFields(of="day", way="year"),)), "no declared keys"),
        (AskFields(where="1 = 1; DROP TABLE visits"), "SELECT|not SQL"),
        (AskFields(groups=("age",), keys="given", given="age: 1:9; town: Ulm"), "town"),
    ],
)
def test_the_judge_of_sql_refuses_what_fields_write_wrongly(directory, asked, words):
    told = outcome(directory, question_task("plan", directory.dataset("visits"), CURATOR, by_fields(directory, asked)))
    assert told["status"] < 500
    assert re.search(words, told["refused"]["message"]), told


def test_sql_that_was_edited_by_hand_is_asked_and_the_fields_write_nothing(directory):
    dataset = directory.dataset("visits")
    first = written(AskFields(groups=("town",)), dataset)
    assert not first.by_hand
    changed = written(replace(first, where="age > 6"), dataset)
    assert "age > 6" in changed.sql
    edited = "SELECT town, SUM(pay) / COUNT(*) AS each FROM visits GROUP BY town HAVING each > 1"
    typed = written(replace(first, sql=edited, where="age > 6"), dataset)
    assert (typed.sql, typed.by_hand) == (edited, True)
    assert planned(directory, typed)["question"]["after"]["having"] == "each > 1"
    back = written(_after_button(typed, "fields"), dataset)
    assert (back.by_hand, back.sql) == (False, changed.sql)
    sent = {"sql": [first.sql.replace("\n", "\r\n")], "written": [first.written.replace("\n", "\r\n")]}
    assert not read(sent).by_hand


def test_the_wire_json_in_place_of_sql_asks_what_sql_has_no_words_for(directory):
    form = '{"most_common": {"column": "town", "among": ["Ulm", "Bonn"], "counted": true}}'
    told = planned(directory, AskFields(sql=form))
    assert told["question"]["most_common"]["counted"] is True
    with pytest.raises(NeartwinError, match="JSON object"):
        task.question(AskFields(sql="{1}"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) AS n FROM visits",
        'SELECT "Town", COUNT(*) AS n FROM visits GROUP BY "Town"',
        "SELECT COUNT(*) AS n FROM visits WHERE town LIKE 'a\\n\\d'",
        'SELECT COUNT(*) AS n FROM visits -- """, None); print(open("/etc/passwd").read()); nt.from_sql("""',
    ],
)
def test_python_of_a_question_holds_its_sql_and_runs_no_part(directory, text):
    code = task.code(AskFields(sql=text), directory.dataset("visits"), "http://house", ())["python"]
    tree = ast.parse(code)
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and "from_sql" in ast.unparse(node.func)]
    assert [node.args[0].value for node in asked] == [text]
    assert len(tree.body) == 7


def test_declared_keys_are_no_demand_where_nothing_is_grouped(directory):
    assert "group_by" not in planned(directory, AskFields(sql="SELECT COUNT(*) AS n FROM visits"))["question"]


def test_release_without_a_preview_is_refused_and_spends_nothing(directory):
    asked = by_fields(directory, AskFields(groups=("town",), amount="0.01"))
    task = question_task("release", directory.dataset("visits"), CURATOR, asked) | {
        "holders": ["analyst:ada"],
        "key": "",
    }
    directory.set_policy("visits", (Rule(allotment=approx(1, "1e-6")),), by="console")
    account = directory.books.account("visits")
    before = directory.books.head()
    for wrong in ("", planned(directory, replace(asked, amount="0.02"))["digest"]):
        refused = outcome(directory, task | {"digest": wrong})["refused"]
        assert "preview" in refused["message"]
    assert directory.books.head() == before
    done = outcome(directory, task | {"digest": planned(directory, asked)["digest"]})
    assert "done" in done, done
    assert str(account.spent["epsilon"]) == "1/100"
