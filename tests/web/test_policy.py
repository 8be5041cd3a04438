"""A policy decides by the plan itself: what it allows is planned, and its near miss is refused, in SQL and JSON alike."""

import json

import pytest

from neartwin.accounting.budgets import approx, gdp, pure
from neartwin.errors import ParameterError, SchemaError
from neartwin.tables.table import bounds
from neartwin.web.data_directory import outcome
from neartwin.web.datasets import Dataset, Rule
from tests.web.conftest import registered


@pytest.fixture(scope="module")
def home(tmp_path_factory, purchases):
    with registered(tmp_path_factory.mktemp("policy") / "house", purchases, budget=approx(1, "1e-3")) as opened:
        yield opened


def task(question, *, analyst="ada", project="", spend="0.1", do="plan", **more):
    spent = {"epsilon": spend}
    whose = {"holders": [f"analyst:{analyst}", *([f"project:{project}"] if project else [])], "key": ""}
    return (
        {"do": do, "dataset": "purchases", "question": question, "spend": spent, "limits": {"max_rows_per_group": 5}}
        | whose
        | more
    )


COUNT = {"n": {"ask": "count"}}
BY_CDS = {"group_by": ["cds"], "keys": [1, 2], "statistics": COUNT}
MEDIAN = {"ask": "median", "column": "amount"}
CASE = "CASE WHEN amount > 5 THEN 1 ELSE 2 END"
SUM = {"statistics": {"t": {"ask": "sum", "column": "amount"}}}


@pytest.mark.parametrize(
    ("rule", "allowed", "refused", "name"),
    [
        ({"columns": ("cds",)}, BY_CDS, SUM, "column"),
        ({"columns": ("cds",)}, BY_CDS, {"where": ["amount > 5"], "statistics": COUNT}, "column"),
        ({"columns": ("cds",)}, BY_CDS, {"sql": "SELECT SUM(amount) FROM purchases"}, "column"),
        ({"columns": ("cds",)}, BY_CDS, {"sql": "SELECT COUNT(*) FROM purchases WHERE town = 'Ulm'"}, "column"),
        ({"columns": ("cds",)}, BY_CDS, {"most_common": {"column": "town", "among": ["Ulm"]}}, "column"),
        ({"group_columns": ("cds",)}, BY_CDS, BY_CDS | {"group_by": ["town"], "keys": ["Ulm"]}, "group_by"),
        ({"discover": False}, BY_CDS, {"group_by": ["town"], "statistics": COUNT}, "keys"),
        ({"discover": False}, BY_CDS, {"sql": "SELECT town, COUNT(*) FROM purchases GROUP BY town"}, "keys"),
        ({"own_keys": False}, BY_CDS, BY_CDS | {"keys": [1, 4]}, "keys"),
        ({"own_keys": False}, BY_CDS, BY_CDS | {"group_by": ["town"], "keys": ["Ulm"]}, "keys"),
        ({"columns": ("cds",)}, BY_CDS, {"statistics": {"m": MEDIAN}}, "column"),
        ({"columns": ("cds",)}, BY_CDS, {"statistics": {"v": {"ask": "variance", "column": "amount"}}}, "column"),
        ({"columns": ("cds",)}, BY_CDS, {"sql": "SELECT MEDIAN(amount) FROM purchases"}, "column"),
        ({"columns": ("cds",)}, BY_CDS, {"sql": f"SELECT COUNT(*) FROM purchases GROUP BY {CASE}"}, "column"),
        ({"group_columns": ("cds",)}, BY_CDS, {"sql": f"SELECT COUNT(*) FROM purchases GROUP BY {CASE}"}, "group_by"),
        ({"columns": ("cds",)}, BY_CDS, {"sql": "SELECT COUNT(*) FILTER (WHERE amount > 5) FROM purchases"}, "column"),
        ({"own_bounds": False}, SUM, {"statistics": {"m": MEDIAN | {"low": 0, "high": 201}}}, "bounds"),
        ({"own_bounds": False}, SUM, {"statistics": {"t": SUM["statistics"]["t"] | {"low": 0, "high": 201}}}, "bounds"),
    ],
)
def test_what_a_rule_allows_is_planned_and_its_near_miss_is_refused(home, rule, allowed, refused, name):
    home.set_policy("purchases", (Rule(**rule),), by="console")
    assert outcome(home, task(allowed, limits={"max_rows_per_group": 5, "max_groups": 2})).get("done"), rule
    asked = task(refused, limits={"max_rows_per_group": 5, "max_groups": 2})
    asked["spend"] |= {"delta": "1e-6"} if rule == {"discover": False} else {}  # which discovery needs
    told = outcome(home, asked)
    assert (told["status"], told["refused"]["name"]) == (403, name)
    assert told["refused"]["remedy"]


def test_the_most_that_a_release_may_spend_is_kept_to_the_last_unit(home):
    home.set_policy("purchases", (Rule(max_spend=pure("0.1")),), by="console")
    assert outcome(home, task(BY_CDS, limits={"max_rows_per_group": 5, "max_groups": 2})).get("done")
    told = outcome(home, task(BY_CDS, limits={"max_rows_per_group": 5, "max_groups": 2}, spend="0.100000000001"))
    assert (told["status"], told["refused"]["name"]) == (403, "spend")


def test_first_fitting_rule_decides_and_without_one_the_data_set_is_hidden(home):
    rules = (Rule(who="analyst:ada", max_spend=pure("0.01")), Rule(who="project:census"))
    home.set_policy("purchases", rules, by="console")
    assert (
        outcome(home, task(BY_CDS, limits={"max_rows_per_group": 5, "max_groups": 2}, project="census"))["status"]
        == 403
    )
    assert outcome(
        home, task(BY_CDS, limits={"max_rows_per_group": 5, "max_groups": 2}, analyst="bob", project="census")
    ).get("done")
    hidden = outcome(home, task(BY_CDS, limits={"max_rows_per_group": 5, "max_groups": 2}, analyst="bob"))
    missing = outcome(
        home, task(BY_CDS, limits={"max_rows_per_group": 5, "max_groups": 2}, analyst="bob", dataset="orders")
    )
    assert hidden["refused"] | {"value": "", "message": ""} == missing["refused"] | {"value": "", "message": ""}


def test_an_analyst_without_an_allotment_gets_the_rules_or_none(home):
    home.set_policy("purchases", (Rule(),), by="console")
    told = outcome(home, task(BY_CDS, do="release", limits={"max_rows_per_group": 5, "max_groups": 2}, analyst="new"))
    assert "has no allotment" in told["refused"]["message"]
    home.set_policy("purchases", (Rule(allotment=approx("0.15", "1e-4")),), by="console")
    assert outcome(
        home, task(BY_CDS, do="release", limits={"max_rows_per_group": 5, "max_groups": 2}, analyst="new")
    ).get("done")
    told = outcome(home, task(SUM, do="release", analyst="new"))
    assert told["refused"]["code"] == "NT-400"
    told = outcome(home, task(SUM, do="release", analyst="new", project="census"))
    assert "'project:census' has no allotment" in told["refused"]["message"] or told["refused"]["code"] == "NT-400"


def test_declared_keys_are_taken_by_name(home):
    home.set_policy("purchases", (Rule(own_keys=False),), by="console")
    told = outcome(home, task(BY_CDS | {"keys": "declared"}, limits={"max_rows_per_group": 5, "max_groups": 2}))["done"]
    assert told["question"]["keys"] == [[1], [2], [3]]
    asked = {"group_by": ["town"], "keys": "declared", "statistics": COUNT}
    assert (
        "no declared keys"
        in outcome(home, task(asked, limits={"max_rows_per_group": 5, "max_groups": 2}))["refused"]["message"]
    )


def test_policy_of_missing_columns_or_unpayable_currencies_is_refused(home, purchases):
    with pytest.raises(SchemaError, match="amnt"):
        home.set_policy("purchases", (Rule(columns=("amnt",)),), by="console")
    with pytest.raises(ParameterError, match="payable"):
        home.set_policy("purchases", (Rule(max_spend=gdp(1)),), by="console")
    with pytest.raises(ParameterError, match="own kind"):
        home.set_policy("purchases", (Rule(allotment=pure("0.1")),), by="console")
    with pytest.raises(ParameterError, match="who"):
        Rule(who="everyone")
    with pytest.raises(ParameterError, match="slash"):
        Dataset(name="a/b", place=str(purchases), unit="customer_id", budget=pure(1))


def test_a_data_set_reads_back_from_what_is_stored(purchases):
    rule = Rule(who="project:c", columns=("cds",), discover=False, max_spend=pure("1/3"), allotment=pure("0.1"))
    whole = Dataset(
        name="p", place=str(purchases), unit="customer_id", types={"town": "text"}, bounds={"amount": bounds(0, "9.5", "1/2")},
        keys={"cds": (1, None), "town": ("Ulm",)}, budget=pure(2), about="what was bought", policy=(rule, Rule()),
    )  # fmt: skip
    assert Dataset.from_dict(json.loads(whole.to_json())) == whole
    assert str(purchases) not in repr(whole)
