"""A service's directory that an older neartwin wrote is served whole: `tests/fixtures/write_service.py` says what it holds."""

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
SEEN = json.loads((FIXTURES / "service.json").read_text(encoding="utf-8"))
PEOPLE = "/v1/datasets/people"


@pytest.fixture
def older(tmp_path, monkeypatch):
    """The directory of the older service, opened by this neartwin, in the folder that its data lie in."""
    with zipfile.ZipFile(FIXTURES / "service.zip") as packed:
        packed.extractall(tmp_path)
    (tmp_path / "house/budget.db.key").chmod(0o600)  # which a zip does not keep
    monkeypatch.chdir(tmp_path)
    live, written = Token.live, datetime.fromisoformat(SEEN["history"][0]["time"])
    monkeypatch.setattr(Token, "live", lambda token, _: live(token, written))  # they ended three months later
    with DataDirectory("house") as directory, without_processes():
        settings = Settings(workers=1, plan_seconds=300)
        with TestClient(create_app(directory, settings)) as client:
            yield directory, client


def test_an_older_service_keeps_people_budgets_and_answers(older):
    directory, client = older
    assert directory.verify(Head.parse(SEEN["head"])).whole

    def get(who, place, status=200):
        answer = client.get(place, headers=bearer(SEEN["tokens"][who]))
        assert answer.status_code == status, (place, answer.text)
        return answer.json()

    assert [get(who, "/v1/me")["role"] for who in ("carol", "ada", "otto")] == ["curator", "analyst", "auditor"]
    get("bob", "/v1/me", 401)  # whom a curator revoked
    assert (
        client.get("/v1/me", headers={"Cookie": f"neartwin_session={SEEN['cookie']}"}).status_code == 401
    )  # it was no act
    now, then = get("ada", PEOPLE), SEEN["dataset"]
    for part in ("budget", "spent", "remaining", "unit", "promise"):
        assert now[part] == then[part], part
    assert get("otto", f"{PEOPLE}/policy") == SEEN["policy"]
    assert get("otto", f"{PEOPLE}/allotments") == SEEN["allotments"]
    for who, seen in (("ada", "history"), ("otto", "all")):
        known = {entry["position"]: entry["hash"] for entry in get(who, f"{PEOPLE}/history")}
        assert {entry["position"]: entry["hash"] for entry in SEEN[seen]}.items() <= known.items()
    acts = get("otto", "/v1/ledger/acts")
    assert [(act["position"], act["what"], act["body"]) for act in SEEN["acts"]] == [
        (act["position"], act["what"], act["body"]) for act in acts[: len(SEEN["acts"])]
    ]
    stored = get("ada", f"{PEOPLE}/releases/{SEEN['position']}")["release"]
    assert Release.from_json(json.dumps(stored)) == Release.from_json(json.dumps(SEEN["release"]))
    owner = PublicKey.parse(Path("house/budget.db.key.pub").read_text(encoding="ascii"))
    assert check(SEEN["certificate"], owner).valid
    issued = client.get(f"{PEOPLE}/releases/{SEEN['position']}/certificate", headers=bearer(SEEN["tokens"]["ada"]))
    assert check(issued.text, owner).valid


@pytest.mark.slow
def test_an_older_service_is_asked_on_at_the_same_account(older):
    directory, client = older
    spent = directory.books.account("people").spent["epsilon"]
    assert spent == Fraction(SEEN["dataset"]["spent"]["epsilon"]) > 0
    ask = {
        "question": {"sql": "SELECT COUNT(DISTINCT id) AS people FROM people WHERE town = 'Ulm'"},
        "spend": {"epsilon": "0.25"},
    }
    answer = released(client, ask, bearer(SEEN["tokens"]["ada"]), name="people")
    assert answer["release"]["statistics"][0]["name"] == "people", answer
    assert directory.books.account("people").spent == {"epsilon": spent + Fraction(1, 4)}
    refused = released(client, ask | {"spend": {"epsilon": "0.3"}}, bearer(SEEN["tokens"]["ada"]), name="people")
    assert refused["error"]["code"] == "NT-400"  # her allotment of then, with what she spent then
    assert directory.verify(Head.parse(SEEN["head"])).whole
