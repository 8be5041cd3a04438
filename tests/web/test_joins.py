"""Tables that a curator registers beside a data set, and no others, can be joined to it, within its policy."""

import json

import duckdb
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import neartwin as nt
from neartwin.accounting.budgets import pure
from neartwin.cli import main
from neartwin.client.http import HttpClient
from neartwin.client.service import ServedAccount
from neartwin.errors import AccessError, LedgerError, NeartwinError, ParameterError
from neartwin.queries.sql import parse
from neartwin.queries.sql.parse import from_sql, statement_of
from neartwin.queries.sql.spelling import trees
from neartwin.tables.table import bounds
from neartwin.web.app import create_app
from neartwin.web.builder import task
from neartwin.web.builder.fields import AskFields
from neartwin.web.data_directory import DataDirectory, outcome
from neartwin.web.datasets import Dataset, JoinableTable, Rule
from tests.web.conftest import bearer, released
from tests.web.server import FREE, serving, without_processes

JOINED = (
    "SELECT diagnoses.code, COUNT(DISTINCT id) AS people, AVG(age) AS typical FROM patients "
    "JOIN diagnoses USING (id) JOIN towns USING (town) WHERE state = 'BW' GROUP BY diagnoses.code"
)
LIMITS = {"limits": {"max_rows_per_group": 2, "max_groups": 2}}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """Patients, their diagnoses, the lines of these by a key, and towns, which are public."""
    place = tmp_path_factory.mktemp("clinic")
    tables = {
        "patients": "SELECT i AS id, 20 + i % 60 AS age, ['Ulm', 'Bonn'][1 + i % 2] AS town, i + 5000 AS letter "
        "FROM range(900) t(i)",
        "diagnoses": "SELECT i % 900 AS id, ['a', 'b', 'c'][1 + i % 3] AS code FROM range(2000) t(i)",
        "bills": "SELECT 5000 + i % 900 AS letter, (i % 100) / 2 AS price FROM range(3000) t(i)",
        "towns": "SELECT * FROM (VALUES ('Ulm', 'BW'), ('Bonn', 'NW')) t(town, state)",
    }
    for name, text in tables.items():
        duckdb.sql(text).write_parquet(str(place / f"{name}.parquet"))
    return place


def registered(clinic, *policy):
    def at(name):
        return str(clinic / f"{name}.parquet")

    return Dataset(
        name="patients",
        place=at("patients"),
        unit="id",
        bounds={"age": bounds(18, 100)},
        budget=pure(4),
        policy=policy,
        tables=(
            JoinableTable(
                name="diagnoses", kind="same_unit", unit="id", place=at("diagnoses"), keys={"code": ("a", "b", "c")}
            ),
            JoinableTable(
                name="bills", kind="owned", on={"letter": "letter"}, place=at("bills"), bounds={"price": bounds(0, 50)}
            ),
            JoinableTable(name="towns", kind="public", place=at("towns"), keys={"state": ("BW", "NW")}),
        ),
    )


@pytest.fixture
def directory(tmp_path, clinic):
    with DataDirectory(tmp_path / "house") as opened:
        opened.register(registered(clinic, Rule(allotment=pure(2))), by="console")
        yield opened


def planned(directory, question, **more):
    task = {"do": "plan", "dataset": "patients", "holders": ["analyst:ada"], "question": question}
    return outcome(directory, task | {"spend": {"epsilon": "0.5"}} | LIMITS | more)


def test_what_is_registered_is_read_back_as_it_was(clinic):
    dataset = registered(clinic)
    assert Dataset.from_dict(json.loads(dataset.to_json())) == dataset
    assert "clinic" not in repr(dataset.tables)


@pytest.mark.parametrize("keys", ["declared", {"code": ["a", "b"]}])
def test_a_text_with_keys_by_column_is_read_once(directory, monkeypatch, keys):
    texts = []

    def noted(text, *given):
        texts.append(text)
        return trees(text, *given)

    monkeypatch.setattr(parse, "trees", noted)
    assert "done" in planned(directory, {"sql": JOINED, "keys": keys})
    assert texts == [JOINED]
    choice = {"most_common": {"column": "town", "among": ["Ulm", "Bonn"]}}
    assert "done" in planned(directory, choice | {"keys": "declared"})
    assert "takes no groups" in planned(directory, choice | {"keys": {"town": ["Ulm"]}})["refused"]["message"]


def test_a_join_in_sql_in_parts_and_local_is_one_plan(directory):
    told = planned(directory, {"sql": JOINED, "keys": "declared"})["done"]
    assert told["question"]["joins"] == [
        {"table": "diagnoses", "on": [["id", "id"]]},
        {"table": "towns", "on": [["town", "town"]]},
    ]
    assert planned(directory, told["question"])["done"]["digest"] == told["digest"]
    dataset = directory.dataset("patients")
    query = from_sql(JOINED, directory.rows(dataset), keys={"code": ["a", "b", "c"]}, tables=directory.tables(dataset))
    assert (
        directory.account(dataset)
        .plan(query, spend=pure("0.5"), limits=nt.limits(max_rows_per_group=2, max_groups=2))
        .plan.digest
        == told["digest"]
    )
    other = planned(directory, {"sql": JOINED.replace("'BW'", "'NW'"), "keys": "declared"})["done"]
    assert other["digest"] != told["digest"]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"sql": JOINED.replace("towns", "secrets")}, "JOIN must name one of the tables"),
        (
            {"statistics": {"n": {"ask": "count"}}, "joins": [{"table": "budget.db", "on": []}]},
            "must name one of the tables",
        ),
        ({"statistics": {"n": {"ask": "count"}}, "joins": [{"table": "towns", "on": [["town"]]}]}, "list of pairs"),
        (
            {"statistics": {"n": {"ask": "count"}}, "joins": [{"table": "towns", "on": [], "how": "full"}]},
            "inner, left or beside",
        ),
        ({"statistics": {"n": {"ask": "count"}}, "joins": {"table": "towns"}}, "must be a list"),
        ({"sql": "SELECT COUNT(*) AS n FROM towns"}, "asks public tables alone"),
    ],
)
def test_no_other_table_and_no_other_join_is_made(directory, question, words):
    told = planned(directory, question)
    assert words in told["refused"]["message"]


RULES = {
    "a column of a joined table that is not allowed": Rule(
        columns=("id", "age", "town", "diagnoses.code", "towns.town")
    ),
    "a table that is not allowed at all": Rule(columns=("id", "age", "town", "towns.town", "towns.state")),
    "a column to group by that is not allowed": Rule(group_columns=("town",)),
}


@pytest.mark.parametrize("case", RULES)
def test_a_policy_rules_the_columns_of_joined_tables_too(directory, case):
    directory.set_policy("patients", (RULES[case],), by="console")
    told = planned(directory, {"sql": JOINED, "keys": "declared"})
    assert (told["status"], told["refused"]["error"]) == (403, "AccessError")
    allowed = ("age", "town", "diagnoses.code", "towns.town", "towns.state")
    directory.set_policy(
        "patients", (Rule(columns=allowed, group_columns=("diagnoses.code",), own_keys=False),), by="console"
    )
    assert "done" in planned(directory, {"sql": JOINED, "keys": "declared"})
    assert planned(directory, {"sql": JOINED, "keys": {"code": ["z"]}})["status"] == 403


INSIDE = "SELECT {0}, COUNT(*) AS n FROM (SELECT id, {1} FROM diagnoses GROUP BY {2}) AS t GROUP BY {0}"


@pytest.mark.parametrize(
    ("shown", "inside", "by", "passed_on"),
    [
        ("code", "code", "id, code", True),
        ("k", "code AS k", "id, code", True),
        ("code", "COUNT(*) AS code", "id", False),
        ("code", "MAX(code) AS code", "id", False),
        ("code", "UPPER(code) AS code", "id, 2", False),
    ],
)
def test_declared_keys_are_of_a_column_and_not_of_its_name(directory, shown, inside, by, passed_on):
    """What a subquery computes under a declared column's name has no declared keys, and a renamed column has its own."""
    directory.set_policy("patients", (Rule(own_keys=False),), by="console")
    asked = INSIDE.format(shown, inside, by)
    told = planned(directory, {"sql": asked, "keys": "declared"})
    given = planned(directory, {"sql": asked, "keys": {shown: [1] if "COUNT(*) AS" in inside else ["a"]}})
    dataset = directory.dataset("patients")
    rows, tables, keys = directory.rows(dataset), directory.tables(dataset), {"diagnoses": {"code": ("a", "b", "c")}}
    client = ServedAccount(
        http=HttpClient("http://localhost", "nt_x", 1), rows=rows, keys={}, tables=tables, table_keys=keys
    )
    assert (shown in client.declared_keys(statement_of(asked, rows, tables=tables).rows)) is passed_on
    if passed_on:
        assert told["done"]["question"]["keys"] == [["a"], ["b"], ["c"]]
        assert "done" in given
    else:
        assert "no declared keys" in told["refused"]["message"]
        assert (given["status"], given["refused"]["name"]) == (403, "keys")


def test_a_policy_rules_the_columns_within_subqueries(directory):
    rule = Rule(columns=("age", "town", "diagnoses.code"), group_columns=("age",))
    directory.set_policy("patients", (rule,), by="console")
    inside = "SELECT x, COUNT(*) AS n FROM (SELECT id, {} AS x FROM patients GROUP BY id) t GROUP BY x"
    exists = "SELECT COUNT(*) AS n FROM patients p WHERE EXISTS (SELECT 1 FROM {} d WHERE d.id = p.id AND d.{})"
    for allowed in (inside.format("MAX(age)"), inside.format("COUNT(*)"), exists.format("diagnoses", "code = 'a'")):
        assert "done" in planned(
            directory, {"sql": allowed, "keys": [1, 2]} if "GROUP BY x" in allowed else {"sql": allowed}
        )
    for hidden in (inside.format("MAX(letter)"), inside.format("SUM(CASE WHEN town = 'Ulm' THEN 1 ELSE 0 END)")):
        assert planned(directory, {"sql": hidden, "keys": [1, 2]})["status"] == 403
    assert planned(directory, {"sql": exists.format("patients", "letter > 7000")})["status"] == 403
    window = {"from": {"columns": {"n": "ROW_NUMBER() OVER (PARTITION BY id ORDER BY letter)"}}, "where": ["n = 1"]}
    assert planned(directory, window | {"statistics": {"n": {"ask": "count"}}})["status"] == 403


@pytest.mark.parametrize(
    ("condition", "behind"),
    [
        ("town IN (SELECT town FROM towns WHERE state = 'BW')", ("towns.town", "towns.state")),
        ("town IN (SELECT state FROM towns)", ("towns.state",)),
        ("EXISTS (SELECT 1 FROM diagnoses d WHERE d.id = patients.id AND d.code = 'a')", ("diagnoses.code",)),
    ],
)
def test_groups_by_a_set_are_groups_by_what_decides_it(directory, condition, behind):
    """Only the person's own column may be grouped by: then neither may a set's condition, nor the column it is matched by."""
    text = f"SELECT CASE WHEN {condition} THEN 1 ELSE 2 END AS k, COUNT(*) AS n FROM patients GROUP BY k"
    own = ("town",) * ("town IN" in condition)
    for columns in [(*own, *behind), *((*own, *behind[:i], *behind[i + 1 :]) for i in range(len(behind))), behind]:
        directory.set_policy("patients", (Rule(group_columns=columns),), by="console")
        told = planned(directory, {"sql": text, "keys": [1, 2]})
        assert told.get("status") == (None if set(columns) == {*own, *behind} else 403), columns


def test_policy_can_demand_declared_bounds_of_an_owned_table(directory):
    directory.set_policy("patients", (Rule(own_bounds=False),), by="console")
    asked = {"joins": [{"table": "bills", "on": [["letter", "letter"]]}]}
    total = {"ask": "sum", "column": "price"}
    assert "done" in planned(directory, asked | {"statistics": {"total": total}})
    wider = planned(directory, asked | {"statistics": {"total": total | {"low": "0", "high": "500"}}})
    assert wider["status"] == 403


def test_rules_name_columns_that_are_there(directory):
    with pytest.raises(NeartwinError, match=r"diagnoses\.cause"):
        directory.set_policy("patients", (Rule(columns=("diagnoses.cause",)),), by="console")
    assert "diagnoses.code" in directory.policy_columns(directory.dataset("patients"))


def test_private_tables_belong_to_the_data_set_for_ever(directory, clinic):
    elsewhere = Dataset(name="other", place=str(clinic / "diagnoses.parquet"), unit="id", budget=pure(1))
    with pytest.raises(LedgerError, match="belongs to population 'patients'"):
        directory.register(elsewhere, by="console")
    public = Dataset(name="places", place=str(clinic / "towns.parquet"), unit="(each row)", budget=pure(1))
    directory.register(public, by="console")  # public rows are nobody's


@pytest.mark.parametrize(
    ("side", "words"),
    [
        ({"kind": "same_unit"}, "must name the column"),
        ({"kind": "public", "unit": "id"}, "must name the column of a same_unit table's units"),
        ({"kind": "private"}, "kind"),
        ({"kind": "public", "name": "a b"}, "must be a word"),
    ],
)
def test_a_table_says_whose_rows_it_holds(side, words):
    with pytest.raises(ParameterError, match=words):
        JoinableTable(**{"name": "x", "place": "x.parquet"} | side)


@pytest.mark.slow
def test_an_analyst_asks_a_join_over_http_and_in_a_notebook_and_pays_once(directory):
    token = directory.mint("ada", "analyst", by="console")[1]
    ask = {"question": {"sql": JOINED, "keys": "declared"}, "spend": {"epsilon": "0.5"}} | LIMITS
    with without_processes(), TestClient(create_app(directory, FREE)) as client:
        seen = client.get("/v1/datasets/patients", headers=bearer(token)).json()
        assert [(side["name"], side["kind"]) for side in seen["tables"]] == [
            ("diagnoses", "same_unit"),
            ("bills", "owned"),
            ("towns", "public"),
        ]
        assert "parquet" not in str(seen)
        job = released(client, ask, bearer(token), name="patients")
        assert [key for (key,) in job["release"]["keys"]] == ["a", "b", "c"]
        assert client.get("/v1/datasets/patients", headers=bearer(token)).json()["spent"] == {"epsilon": "1/2"}
    with without_processes(), serving(directory) as address:
        account = nt.connect(address, token).open("patients")
        joined = account.rows.join(account.tables["diagnoses"]).join(account.tables["towns"], on="town")
        query = joined.where("state = 'BW'").group_by("code", keys=["a", "b", "c"])
        plan = account.plan(
            query.agg(people=nt.count_distinct_units(), typical=nt.mean("age")),
            spend=nt.pure("0.5"),
            limits=nt.limits(max_rows_per_group=2, max_groups=2),
        )
        assert account.release(plan).provenance.position == job["position"]
        assert account.spent == {"epsilon": pure("0.5").epsilon}
        with pytest.raises(AccessError):
            nt.connect(address, token).open("diagnoses")


def test_a_join_is_asked_in_sql_on_the_page_with_declared_and_typed_keys(directory):
    for keys, given, wire in (("declared", "", "declared"), ("given", "code: a, b", {"code": ["a", "b"]})):
        question = task.question(AskFields(sql=JOINED, keys=keys, given=given))
        told = planned(directory, question)
        assert told["done"]["digest"] == planned(directory, {"sql": JOINED, "keys": wire})["done"]["digest"]


def test_tables_to_join_are_registered_from_a_terminal(tmp_path, clinic):
    line = ["register", str(clinic / "patients.parquet"), "--data", str(tmp_path / "house"), "--unit", "id"]
    line += ["--budget", "epsilon=1", "--bounds", "age=18:100", "--bounds", "bills.price=0:50"]
    line += [
        "--same-unit",
        f"diagnoses={clinic / 'diagnoses.parquet'}",
        "--owned",
        f"bills={clinic / 'bills.parquet'} by letter",
    ]
    line += ["--public", f"towns={clinic / 'towns.parquet'}", "--keys", "diagnoses.code=a,b,c"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    with DataDirectory(tmp_path / "house") as opened:
        found = opened.dataset("patients")
        assert {side.name: side.kind for side in found.tables} == {
            "diagnoses": "same_unit",
            "bills": "owned",
            "towns": "public",
        }
        assert {side.name: dict(side.keys) for side in found.tables}["diagnoses"] == {"code": ("a", "b", "c")}
        assert set(found.bounds) == {"age"}


def test_rows_of_a_registered_table_alone_have_its_own_keys(directory):
    directory.set_policy("patients", (Rule(own_keys=False, own_bounds=False),), by="console")
    told = planned(directory, {"sql": "SELECT code, COUNT(*) AS n FROM diagnoses GROUP BY code", "keys": "declared"})
    assert told["done"]["question"]["keys"] == [["a"], ["b"], ["c"]]
