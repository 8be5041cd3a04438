"""Names, keys, SQL, headers and TOML are data: what would break out of its place is refused or stays what it was."""

import json
import tomllib
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from neartwin.accounting.budgets import pure
from neartwin.cli import main
from neartwin.errors import AccessError, NeartwinError
from neartwin.web.app import create_app
from neartwin.web.datasets import Rule
from neartwin.web.service import Settings
from tests.ledger.conftest import place, postgres_place, sqlite_place  # noqa: F401 - fixtures
from tests.web.conftest import ASK, bearer, registered, released
from tests.web.server import without_processes

HOSTILE = [
    "'; DROP TABLE neartwin_record; --",
    '" OR 1=1 --',
    "../../etc/passwd",
    "purchases\r\nSet-Cookie: x=1",
    "{{7*7}}",
    "<script>alert(1)</script>",
    "\x00",
    "a" * 5000,
    "\u202eevil",
]


@pytest.fixture
def ada(tokens):
    return bearer(tokens["analyst"])


@pytest.fixture
def carol(tokens):
    return bearer(tokens["curator"])


def plan(client, headers, **question):
    return client.post("/v1/datasets/purchases/plan", json=ASK | {"question": question}, headers=headers)


COUNT = {"n": {"ask": "count"}}


@pytest.mark.slow
def test_a_hostile_text_is_no_column_no_condition_and_no_data_set(client, directory, ada):
    for text in HOSTILE:
        answers = [
            plan(client, ada, group_by=[text], statistics=COUNT),
            plan(client, ada, where=[text], statistics=COUNT),
            plan(client, ada, sql=text),
            plan(client, ada, sql=f"SELECT COUNT(*) FROM {text}"),
            plan(client, ada, statistics={"n": {"ask": text}}),
            plan(client, ada, statistics={"n": {"ask": "sum", "column": text, "low": 0, "high": 1}}),
            plan(client, ada, group_by=["cds"], keys=text, statistics=COUNT),
            client.post(
                f"/v1/datasets/{text.strip(chr(0)) or 'x'}/plan".replace("\r\n", "%0d%0a"), json=ASK, headers=ada
            ),
            client.post("/v1/datasets/purchases/plan", json=ASK | {"spend": {"epsilon": text}}, headers=ada),
            client.post("/v1/datasets/purchases/plan", json=ASK | {text: 1}, headers=ada),
            client.get(f"/v1/jobs/{json.dumps(text)}", headers=ada),
        ]
        for answer in answers:
            assert 400 <= answer.status_code < 500, answer.text
            assert "set-cookie" not in answer.headers
            assert len(answer.content) < 20_000
        assert directory.books.verify().whole
        assert [entry.kind for entry in directory.books.account("purchases").history()] == ["open", "source", "act"]


def test_a_hostile_key_is_a_group_that_nobody_is_in_and_nothing_else(client, directory, tokens, ada):
    for text in HOSTILE:
        ask = ASK | {
            "question": {
                "group_by": ["town"],
                "keys": ["Ulm", text],
                "statistics": {"n": {"ask": "count_distinct_units"}},
            }
        }
        done = released(client, ask | {"spend": {"epsilon": "0.05"}}, ada)
        if done.get("release"):
            assert done["release"]["keys"] == [["Ulm"], [text]]
            assert abs(done["release"]["statistics"][0]["values"][1]) < 2000  # 5000 people are in Ulm, none here
        else:
            assert (done.get("error") or done)["code"] in {"NT-100", "NT-200", "NT-500"}
        assert directory.books.verify().whole


def test_hostile_headers_open_nothing(client, ada):
    for text in HOSTILE:
        plain = text.encode("utf-8").replace(b"\r", b"").replace(b"\n", b"").replace(b"\x00", b"") or b"x"
        for headers in (
            {"Authorization": b"Bearer " + plain},
            {"Authorization": plain},
            {"Cookie": b"neartwin_session=" + plain},
            {"X-Forwarded-For": plain, "Host": b"evil.example"},
            {"Content-Length": plain},
        ):
            answer = client.get("/v1/me", headers=headers)
            assert answer.status_code in {400, 401, 413}
            assert b"evil.example" not in answer.content
        key = ada | {"Idempotency-Key": plain}
        told = client.post("/v1/datasets/purchases/releases", json=ASK | {"spend": {}}, headers=key)
        assert told.status_code in ({200, 202} if plain == b"x" else {422}), text  # a key asked twice may be answered


def test_a_curators_mistake_is_no_path_no_name_and_no_holder(client, directory, carol):
    for text in HOSTILE:
        wish = {"name": "x", "file": text, "unit": "who", "budget": {"epsilon": "1"}}
        assert client.post("/v1/datasets", json=wish, headers=carol).status_code == 422
        assert client.post("/v1/tokens", json={"name": text, "role": "root"}, headers=carol).status_code == 422
        holder = f"/v1/datasets/purchases/allotments/{json.dumps(text)}"
        assert client.put(holder, json={"target": {"epsilon": "1"}}, headers=carol).status_code in {404, 422}
        rules = {"rules": [{"who": text}]}
        assert client.put("/v1/datasets/purchases/policy", json=rules, headers=carol).status_code == 422
        assert directory.store.dataset("purchases").policy == (
            Rule(allotment=directory.store.dataset("purchases").policy[0].allotment),
        )
    for rule, status in (
        ({"discover": "no"}, 422),  # no word for false
        ({"max_spend": "all of it"}, 422),
        ({"max_spend": "epsilon=0.1"}, 200),  # as in a file
    ):
        sent = client.put("/v1/datasets/purchases/policy", json={"rules": [{"who": "*"} | rule]}, headers=carol)
        assert sent.status_code == status, sent.text
    assert directory.store.dataset("purchases").policy == (Rule(max_spend=pure("0.1")),)


def test_a_file_outside_the_services_folder_cannot_be_registered(client, directory, carol, purchases):
    pq.write_table(pq.read_table(purchases).slice(1), directory.files / "mine.parquet")  # no copy of it
    wish = {"name": "mine", "unit": "customer_id", "budget": {"epsilon": "1"}}
    for file in (str(purchases), "../budget.db", "/etc/passwd", "", ".", ".."):
        assert client.post("/v1/datasets", json=wish | {"file": file}, headers=carol).status_code == 422
    assert client.post("/v1/datasets", json=wish | {"file": "mine.parquet"}, headers=carol).status_code == 201
    told = client.get("/v1/datasets/mine", headers=carol).text
    assert str(directory.files) not in told  # places are never shown


@pytest.mark.parametrize(
    "toml",
    [
        "[[rules]]\nwho = '*'\n[server]\nport = 1\n",
        "[[rules]]\nwho = '*'\nadmin = true\n",
        "[[rules]]\nwho = 'analyst:ada\\nrole=curator'\nmax_spend = 5\n",
        "rules = 'all'\n",
        "[[rules]\n",
        "[[rules]]\nmax_spend = { epsilon = '__import__(\"os\")' }\n",
        "[[rules]]\ncolumns = 'amount'\n",
        "[[rules]]\ndiscover = 'no'\n",
    ],
)
def test_a_policy_file_is_rules_and_nothing_else(tmp_path, purchases, toml):
    (tmp_path / "policy.toml").write_text(toml, encoding="utf-8")
    words = ["register", str(purchases), "--data", str(tmp_path / "house"), "--unit", "customer_id"]
    done = CliRunner().invoke(main, [*words, "--budget", "epsilon=1", "--policy", str(tmp_path / "policy.toml")])
    assert done.exit_code == 2, done.output
    assert not (tmp_path / "house" / "budget.db").exists()


def test_a_rule_survives_its_own_toml_and_json(tmp_path):
    body = tomllib.loads('[[rules]]\nwho = "project:c"\ncolumns = ["town"]\nmax_spend = { epsilon = "0.1" }\n')
    (rule,) = (Rule.from_dict(one) for one in body["rules"])
    assert Rule.from_dict(json.loads(json.dumps(rule.as_dict()))) == rule
    with pytest.raises(NeartwinError):
        Rule.from_dict({"who": "everyone"})


@pytest.mark.parametrize("name", ["\x00", "a\x00b", "\ud800"])
def test_what_no_database_stores_is_the_name_of_nothing(place, purchases, tmp_path, name):  # noqa: F811 - a fixture
    with registered(tmp_path / "house", purchases, ledger=place) as directory, without_processes():
        carol, ada = (directory.mint(who, role, by="console")[1] for who, role in (("c", "curator"), ("a", "analyst")))
        with pytest.raises(AccessError, match="is not one that you may ask"):
            directory.dataset(name)
        if name.isascii():
            quoted = quote(name)
            with TestClient(create_app(directory, Settings(workers=1))) as client:
                client.get("/signin")
                answers = [
                    client.post("/signin", data={"token": f"nt_{name}_x"}),  # of a stranger
                    client.get(f"/v1/datasets/{quoted}", headers=bearer(ada)),
                    client.get(f"/v1/jobs/{quoted}", headers=bearer(ada)),
                    client.delete(f"/v1/tokens/{quoted}", headers=bearer(carol)),
                    client.put(
                        f"/v1/datasets/purchases/allotments/analyst:{quoted}",
                        json={"target": {"epsilon": "0.1"}},
                        headers=bearer(carol),
                    ),
                ]
            assert [answer.status_code for answer in answers if not 400 <= answer.status_code < 500] == []
