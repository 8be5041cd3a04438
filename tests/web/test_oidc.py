"""People sign in at a real server of OpenID Connect, and their groups say what they may do here."""

import asyncio
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient

from neartwin.accounting.budgets import pure
from neartwin.errors import AccessError, ParameterError
from neartwin.web.app import create_app
from neartwin.web.auth import Provider, _part
from neartwin.web.datasets import Rule
from neartwin.web.service import Settings
from tests.web.conftest import ASK, bearer, released
from tests.web.server import without_processes

httpx2 = pytest.importorskip("httpx2")
pytest.importorskip("authlib")

MODULES = Path(__file__).parents[2] / "build" / "oidc" / "node_modules"
FILE = """
issuer = "{}"
client_id = "neartwin"
client_secret = "secret of the service"
scope = "openid email groups"

[[groups]]
name = "stewards"
role = "curator"

[[groups]]
name = "census"
role = "analyst"
project = "census"

[[groups]]
name = "staff"
role = "analyst"
"""


@pytest.fixture(scope="module")
def issuer():
    if shutil.which("node") is None or not MODULES.exists():
        pytest.skip("tools/signin.sh installs the sign-in server")
    words = ["node", str(Path(__file__).with_name("oidc_server.mjs")), str(MODULES), "http://testserver/signin/back"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        yield process.stdout.readline().strip()
        process.kill()


@pytest.fixture
def provider(issuer, tmp_path):
    (tmp_path / "oidc.toml").write_text(FILE.format(issuer))
    return Provider.read(tmp_path / "oidc.toml")


@pytest.fixture
def service(directory, provider):
    with (
        without_processes(),
        TestClient(create_app(directory, Settings(workers=1, plan_seconds=300, oidc=provider))) as one,
    ):
        yield one


def sent_back(start, name):
    """The address that the server sends a browser back to, once a person has given a name and agreed."""
    with httpx2.Client() as browser:
        answer, place = None, start
        for prompt in ("login", "consent"):
            while answer is None or answer.is_redirect:
                answer = browser.get(place)
                place = str(answer.url.join(answer.headers.get("location", "")))
            sent = {"prompt": prompt, "login": name, "password": "any"}
            answer = browser.post(re.search(r'action="([^"]+)"', answer.text)[1], data=sent)
            place = str(answer.url.join(answer.headers["location"]))
        while not place.startswith("http://testserver"):
            place = str(browser.get(place).headers["location"])
    return place


def signed_in(client, name):
    client.cookies.clear()
    start = client.get("/signin/begin", follow_redirects=False).headers["location"]
    return client.get(sent_back(start, name).removeprefix("http://testserver"))


@pytest.mark.slow  # a server starts
def test_a_person_comes_in_by_a_group_and_asks_by_its_rules(service, directory):
    assert "/signin/begin" in service.get("/signin").text
    rule = Rule(who="project:census", allotment=pure("0.5"))
    directory.set_policy("purchases", (rule,), by="console")
    directory.allot("purchases", "project:census", pure("0.5"), by="console")
    assert signed_in(service, "ada.census.others").headers["refresh"] == "0; url=/data"
    me = service.get("/v1/me").json()
    assert [me[part] for part in ("name", "role", "project")] == ["ada@example.org", "analyst", "census"]
    done = released(service, ASK, {"X-CSRF-Token": me["csrf"]})
    assert done["release"]
    signed_in(service, "bob.staff")
    assert service.get("/v1/datasets").json() == []
    assert signed_in(service, "carol.census.stewards").status_code == 200
    assert service.get("/v1/me").json()["role"] == "curator"  # of the groups the one that is listed first
    assert directory.verify().whole


@pytest.mark.slow  # a server starts
@pytest.mark.parametrize("name", ["eve", "eve.others", "eve.census.unverified", "eve.staffing"])
def test_who_is_in_no_group_or_unverified_stays_out(service, name):
    answer = signed_in(service, name)
    assert answer.status_code == 403
    assert "ask the curator" in answer.text
    assert service.get("/v1/me").status_code == 401


@pytest.mark.slow  # a server starts
def test_a_name_stays_with_the_person_who_signed_in_with_it_first(service, directory, provider):
    directory.mint("dan@example.org", "analyst", by="console")
    assert signed_in(service, "dan.staff").status_code == 403
    assert signed_in(service, "ada.staff").status_code == 200
    assert signed_in(service, "ada.census").status_code == 403  # another person with the same address
    token = next(one for one in directory.store.tokens() if one.name == "ada@example.org")
    assert signed_in(service, "ada.staff").status_code == 200
    renewed = next(one for one in directory.store.tokens() if one.id == token.id)
    assert replace(renewed, expires=token.expires) == token
    directory.store.revoke(token.id, by="console")
    assert service.get("/v1/me").status_code == 401
    assert "shut out by a curator" in signed_in(service, "ada.staff").text
    assert service.get("/v1/me", headers=bearer(f"nt_{token.id}_{'0' * 64}")).status_code == 401  # no text opens it
    assert directory.verify().whole


@pytest.mark.slow  # a server starts
def test_a_sign_in_belongs_to_its_browser_code_and_server(service, directory, provider, purchases, tmp_path):
    begun = service.get("/signin/begin", follow_redirects=False)
    sent = parse_qs(urlsplit(begun.headers["location"]).query)
    assert sent["code_challenge_method"] == ["S256"]
    flags = begun.headers["set-cookie"].lower()
    assert all(flag in flags for flag in ("httponly", "samesite=lax", "path=/signin", "max-age=600"))
    back = sent_back(begun.headers["location"], "ada.staff").removeprefix("http://testserver")
    kept = dict(service.cookies)
    service.cookies.clear()
    assert service.get(back).status_code == 403  # another browser
    service.cookies = kept
    assert service.get(re.sub(r"state=\w", "state=x", back)).status_code == 403
    assert service.get(re.sub(r"code=\w", "code=-", back)).status_code == 503
    with (
        without_processes(),
        TestClient(create_app(directory, Settings(oidc=replace(provider, issuer="http://127.0.0.1:1")))) as far,
    ):
        assert far.get("/signin/begin", follow_redirects=False).status_code == 503
        far.cookies = kept
        assert far.get(back).status_code == 503
    with without_processes(), TestClient(create_app(directory, Settings(oidc=provider))) as other:  # another replica
        other.cookies = kept
        assert other.get(back).status_code == 200
    assert service.get(back).status_code == 503  # a code is used once


@pytest.mark.parametrize(("claims", "role"), [({"groups": "staff"}, "analyst"), ({"groups": "staffing"}, ""), ({}, "")])
def test_a_group_is_a_whole_name_whether_listed_or_alone(tmp_path, monkeypatch, claims, role):
    (tmp_path / "oidc.toml").write_text(FILE.format("https://login.example"))

    async def told(*_):
        return claims | {"sub": "1", "email": "ada@example.org"}

    monkeypatch.setattr(Provider, "_claims", told)
    sent = {"code": "1", "state": _part("kept", "state")}
    try:
        found = asyncio.run(Provider.read(tmp_path / "oidc.toml").person(sent, "kept", "")).role
    except AccessError as refusal:
        found = {403: ""}[refusal.status]
    assert found == role


def test_a_service_without_a_sign_in_server_has_tokens_alone(client):
    assert "/signin/begin" not in client.get("/signin").text
    assert client.get("/signin/begin", follow_redirects=False).status_code == 404
    assert client.get("/signin/back").status_code == 404


@pytest.mark.parametrize(
    "change",
    [("issuer", "isuer"), ("analyst", "king"), ("name = ", "nme = "), ("[[groups]]", "[groups]"), ('"\n', "\n")],
)
def test_a_file_that_names_no_sign_in_server_is_refused(tmp_path, change):
    (tmp_path / "oidc.toml").write_text(FILE.format("https://login.example").replace(*change, 1))
    with pytest.raises(ParameterError, match="oidc"):
        Provider.read(tmp_path / "oidc.toml")


@pytest.mark.parametrize(
    ("said", "comes_in"),
    [(True, True), ("true", True), (None, True), (False, False), ("false", False), ("False", False)],
)
def test_address_is_unverified_in_whatever_letters_that_is_said(monkeypatch, said, comes_in):
    async def claims(*_):
        told = {} if said is None else {"email_verified": said}
        return told | {"sub": "1", "email": "eve@example.org", "groups": ["staff"]}

    monkeypatch.setattr(Provider, "_claims", claims)
    provider = Provider(issuer="https://login.example", client_id="neartwin", groups=(("staff", "analyst", ""),))
    person = provider.person({"state": _part("secret", "state"), "code": "x"}, "secret", "https://house")
    if comes_in:
        assert asyncio.run(person).name == "eve@example.org"
    else:
        with pytest.raises(AccessError, match="verified"):
            asyncio.run(person)
