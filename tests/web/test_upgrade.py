"""Services' directories that older neartwins wrote are served whole: `tests/fixtures/write_service*.py` say what they hold."""

import json
import zipfile
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from neartwin.ledger import Head
from neartwin.releases.certificates import PublicKey
from neartwin.releases.certificates.check import check
from neartwin.releases.release import Release
from neartwin.web.app import create_app
from neartwin.web.data_directory import DataDirectory
from neartwin.web.service import Settings
from neartwin.web.tokens import Token
from tests.web.conftest import bearer, released
from tests.web.server import without_processes

FIXTURES = Path(__file__).parent.parent / "fixtures"
PEOPLE = "/v1/datasets/people"


@pytest.fixture(params=("service", "service-2"))
def older(request, tmp_path, monkeypatch):
    """The directory of an older service, opened by this neartwin, in the folder that its data lie in; and what was seen."""
    seen = json.loads((FIXTURES / f"{request.param}.json").read_text(encoding="utf-8"))
    with zipfile.ZipFile(FIXTURES / f"{request.param}.zip") as packed:
        packed.extractall(tmp_path)
    (tmp_path / "house/budget.db.key").chmod(0o600)  # which a zip does not keep
    monkeypatch.chdir(tmp_path)
    live, written = Token.live, datetime.fromisoformat(seen["history"][0]["time"])
    monkeypatch.setattr(Token, "live", lambda token, _: live(token, written))  # they ended three months later
    with DataDirectory("house") as directory, without_processes():
        settings = Settings(workers=1, plan_seconds=300)
        with TestClient(create_app(directory, settings)) as client:
            yield directory, client, seen


def test_an_older_service_keeps_people_budgets_and_answers(older):
    directory, client, seen = older
    assert directory.verify(Head.parse(seen["head"])).whole

    def get(who, place, status=200):
        answer = client.get(place, headers=bearer(seen["tokens"][who]))
        assert answer.status_code == status, (place, answer.text)
        return answer.json()

    assert [get(who, "/v1/me")["role"] for who in ("carol", "ada", "otto")] == ["curator", "analyst", "auditor"]
    get("bob", "/v1/me", 401)  # whom a curator revoked
    if cookie := seen.get("cookie"):
        assert (
            client.get("/v1/me", headers={"Cookie": f"neartwin_session={cookie}"}).status_code == 401
        )  # it was no act
    now, then = get("ada", PEOPLE), seen["dataset"]
    for part in ("budget", "spent", "remaining", "unit", "promise"):
        assert now[part] == then[part], part
    assert get("otto", f"{PEOPLE}/policy") == seen["policy"]
    assert get("otto", f"{PEOPLE}/allotments") == seen["allotments"]
    for who, records in (("ada", "history"), ("otto", "all")):
        known = {entry["position"]: entry["hash"] for entry in get(who, f"{PEOPLE}/history")}
        assert {entry["position"]: entry["hash"] for entry in seen[records]}.items() <= known.items()
    acts = get("otto", "/v1/ledger/acts")
    assert [(act["position"], act["what"], act["body"]) for act in seen["acts"]] == [
        (act["position"], act["what"], act["body"]) for act in acts[: len(seen["acts"])]
    ]
    stored = get("ada", f"{PEOPLE}/releases/{seen['position']}")["release"]
    assert Release.from_json(json.dumps(stored)) == Release.from_json(json.dumps(seen["release"]))
    owner = PublicKey.parse(Path("house/budget.db.key.pub").read_text(encoding="ascii"))
    assert check(seen["certificate"], owner).valid
    issued = client.get(f"{PEOPLE}/releases/{seen['position']}/certificate", headers=bearer(seen["tokens"]["ada"]))
    assert check(issued.text, owner).valid


@pytest.mark.slow
def test_an_older_service_is_asked_on_at_the_same_account(older):
    directory, client, seen = older
    spent = directory.books.account("people").spent["epsilon"]
    assert spent == Fraction(seen["dataset"]["spent"]["epsilon"]) > 0
    ask = {
        "question": {"sql": "SELECT COUNT(DISTINCT id) AS people FROM people WHERE town = 'Ulm'"},
        "spend": {"epsilon": "0.25"},
    }
    answer = released(client, ask, bearer(seen["tokens"]["ada"]), name="people")
    assert answer["release"]["statistics"][0]["name"] == "people", answer
    assert directory.books.account("people").spent == {"epsilon": spent + Fraction(1, 4)}
    refused = released(client, ask | {"spend": {"epsilon": "0.3"}}, bearer(seen["tokens"]["ada"]), name="people")
    assert refused["error"]["code"] == "NT-400"  # her allotment of then, with what she spent then
    assert directory.verify(Head.parse(seen["head"])).whole


@pytest.mark.parametrize("older", ["service-2"], indirect=True)
def test_charts_requests_and_wishes_of_an_older_service_still_stand(older):
    _, client, seen = older

    def shown(who, place):
        client.cookies.clear()
        client.get("/signin")
        client.post("/signin", data={"token": seen["tokens"][who]})
        return client.get(f"/data/people/{place}").text

    chart = shown("ada", "dashboard")
    assert "Towns" in chart
    assert "epsilon 0.25" in chart  # its price, which nobody has paid
    assert "the yearly report" in shown("ada", "budget")
    assert "Approve" in shown("carol", "budget")
    assert "a wish" in shown("otto", "office")
    ask = {"question": {"statistics": {"people": {"ask": "count"}}}, "spend": {"epsilon": "0.01"}}
    released(client, ask, bearer(seen["tokens"]["ada"]), name="people")
    history = shown("ada", "history")
    assert "count()" in history
    assert "question refused: epsilon=0.7" in history  # the words of records of then
