"""Limits, headers, and answers in one shape that tell nothing private."""

import contextlib
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from hashlib import sha256
from unittest.mock import Mock

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient
from uvicorn.protocols.http.flow_control import FlowControl

from neartwin.accounting.budgets import pure
from neartwin.web import tokens as made
from neartwin.web.app import create_app
from neartwin.web.auth import Provider
from neartwin.web.connections import HeadLimit
from neartwin.web.datasets import Dataset, Rule
from neartwin.web.errors import UnexpectedError
from neartwin.web.service import Settings
from neartwin.web.workers import Workers, lost
from tests.web.conftest import ASK, bearer, released, sign_in
from tests.web.server import serving, without_processes

SHAPE = {"code", "error", "message", "name", "value", "rule", "remedy"}
AFTER = datetime.now(UTC) + timedelta(days=1)


def test_every_answer_carries_the_headers_that_bind_a_browser(client, tokens):
    for path, headers in (("/healthz", {}), ("/v1/nowhere", {}), ("/v1/datasets", bearer(tokens["analyst"]))):
        found = client.get(path, headers=headers).headers
        assert "default-src 'none'" in found["content-security-policy"]
        assert "unsafe" not in found["content-security-policy"]
        assert found["x-content-type-options"] == "nosniff"
        assert found["cache-control"] == "no-store"
        assert "server" not in found
        assert not [name for name in found if "time" in name or "duration" in name]


def test_by_https_cookies_are_secure_and_browsers_are_told_to_stay(directory, tokens):
    with TestClient(create_app(directory, Settings(workers=1, https=True)), base_url="https://testserver") as client:
        signed = sign_in(client, tokens["analyst"])
        assert "secure" in signed.headers["set-cookie"].lower()
        assert "strict-transport-security" in signed.headers


@pytest.mark.slow
def test_every_refusal_has_the_one_shape(client, tokens):
    ada = bearer(tokens["analyst"])
    answers = [
        client.get("/v1/nowhere"),
        client.put("/v1/datasets"),
        client.get("/v1/me"),
        client.get("/v1/ledger", headers=ada),
        client.get("/v1/datasets/other", headers=ada),
        client.post("/v1/datasets/purchases/plan", content=b"{", headers=ada),
        client.post("/v1/datasets/purchases/plan", json=ASK | {"more": 1}, headers=ada),
        client.post("/v1/datasets/purchases/plan", json=ASK | {"spend": {"epsilon": "-1"}}, headers=ada),
        client.post("/v1/datasets/purchases/plan", json=ASK | {"spend": {"mu": "1"}}, headers=ada),
        client.post("/v1/datasets/purchases/plan", content=b"x" * (2**20 + 1), headers=ada),
    ]
    for answer in answers:
        assert 400 <= answer.status_code < 500
        assert set(answer.json()) == SHAPE
        assert answer.json()["message"]
    assert answers[-1].status_code == 413
    assert (
        client.post("/v1/datasets/purchases/plan", content=iter([b"x" * 2**20, b"x"]), headers=ada).status_code == 413
    )


def test_too_many_requests_are_refused_and_others_are_not(directory, tokens):
    with TestClient(create_app(directory, Settings(workers=1, burst=5, per_second=0.001))) as client:
        statuses = [client.get("/v1/me", headers=bearer(tokens["analyst"])).status_code for _ in range(8)]
        assert statuses == [200] * 5 + [429] * 3
        assert client.get("/v1/me", headers=bearer(tokens["auditor"])).status_code == 200
        wrong = [client.get("/v1/me", headers=bearer(f"nt_{i}_0")).status_code for i in range(8)]
        assert wrong[-1] == 429  # guessing is slowed before a hash is computed


def test_guesses_are_refused_by_address_before_a_token_is_looked_up(directory, tokens, monkeypatch):
    app = create_app(directory, Settings(workers=1, burst=5, per_second=0.001))
    ada, carol, wrong = bearer(tokens["analyst"]), bearer(tokens["curator"]), bearer("nt_0123456789abcdef_" + "0" * 64)
    with without_processes(), TestClient(app) as client:
        other = TestClient(app, client=("10.0.0.2", 1))
        sign_in(other, tokens["auditor"])
        session = {"Cookie": f"neartwin_session={other.cookies['neartwin_session']}"}
        other.cookies.clear()
        for headers in (wrong, bearer("hello"), {"Authorization": "Basic x"}, {"Cookie": "neartwin_session=x"}, wrong):
            assert client.get("/v1/me", headers=ada).status_code == 200
            assert client.get("/v1/me", headers=headers).status_code == 401
        asked, token = [], directory.store.token
        monkeypatch.setattr(directory.store, "token", lambda identity: asked.append(identity) or token(identity))
        guesses = [client.get("/v1/me", headers=headers) for headers in (wrong, bearer("hello"), carol)]
        guesses += [client.get("/data", headers={"Cookie": "neartwin_session=x"}), client.post("/signin", data={})]
        assert [(one.status_code, one.headers["connection"]) for one in guesses] == [(429, "close")] * 5
        assert {one.headers["x-frame-options"] for one in guesses} == {"DENY"}
        assert [one.headers["content-type"].partition(";")[0] for one in guesses] == ["application/json"] * 3 + [
            "text/html"
        ] * 2
        assert all("Too fast" in page.text for page in guesses[3:])
        assert asked == []
        assert client.get("/healthz").status_code == client.get("/signin").status_code == 200
        assert other.get("/v1/me", headers=carol).status_code == 200  # from another address
        assert client.get("/v1/me", headers=session).status_code == 200  # seen lately, wherever
        assert client.get("/v1/me", headers=carol).status_code == 200
        directory.store.revoke(tokens["curator"].split("_")[1], by="console")
        codes = [other.get("/v1/me", headers=carol).status_code, client.get("/v1/me", headers=carol).status_code]
        assert codes == [401, 429]  # a revoked token is a guess


@pytest.mark.slow
def test_strangers_are_slowed_by_address_and_analysts_are_not(directory, tokens):
    app = create_app(directory, Settings(workers=1, burst=5, per_second=0.001))
    with without_processes(), TestClient(app) as client:
        other = TestClient(app, client=("10.0.0.2", 1))
        assert client.get("/v1/me", headers=bearer(tokens["analyst"])).status_code == 200
        paths = ("/readyz", "/openapi.json", "/signin", "/static/theme.js")
        secrets = ({}, bearer("x"), {"Cookie": "a=b"})
        strange = [client.get(path, headers=secret).status_code for secret in secrets for path in paths]
        assert strange == [200] * 9 + [429] * 3  # twice the burst, with the analyst's first request
        assert client.get("/readyz", headers=bearer(tokens["analyst"])).status_code == 200
        assert other.get("/readyz").status_code == 200
        mine = [TestClient(app, client=(f"2001:db8::{host}:{host}", 1)) for host in range(1, 13)]
        assert [one.get("/readyz").status_code for one in mine] == [200] * 10 + [429] * 2  # one host, all of these
        theirs = [
            TestClient(app, client=(host, 1)) for host in ("2001:db8:0:1::1", "::ffff:10.0.0.3", "::ffff:10.0.0.4")
        ]
        assert [one.get("/readyz").status_code for one in theirs for _ in range(6)] == [200] * 18


def on_the_wire(address, *parts):
    """An answer to a request that comes in parts."""
    with socket.create_connection(address[7:].split(":")) as wire:
        wire.settimeout(60)
        for part in parts:
            wire.sendall(part)
            time.sleep(0.1)  # a packet of its own
        return wire.recv(65_536)


@pytest.mark.slow
def test_guesses_are_refused_before_they_are_parsed_and_others_are_not(directory, tokens):
    head = b"GET /v1/me HTTP/1.1\r\nHost: x\r\n"
    guess, right = (head + f"Authorization: Bearer {one}\r\n".encode() for one in ("nt_0_0", tokens["analyst"]))
    shouted = right.replace(b"Authorization: ", b"AUTHORIZATION:\t")
    with serving(directory, Settings(workers=1, burst=5, per_second=0.001)) as address:
        assert on_the_wire(address, right, b"\r\n").startswith(b"HTTP/1.1 200")
        answers = [on_the_wire(address, guess + b"\r\n") for _ in range(7)]
        assert [one[9:12] for one in answers] == [b"401"] * 5 + [b"429"] * 2
        parsed = [b"content-security-policy" in one for one in answers]
        assert parsed == [True] * 5 + [False] * 2
        assert b'"code": "NT-600"' in answers[-1]
        in_two = on_the_wire(address, guess[:40], guess[40:] + b"\r\n")
        assert in_two.startswith(b"HTTP/1.1 429")
        other = right.replace(tokens["analyst"].encode(), b"nt_0_" + tokens["analyst"].split("_")[2].encode()[1:])
        assert on_the_wire(address, other + b"\r\n").startswith(b"HTTP/1.1 429")
        assert on_the_wire(address, shouted + b"\r\n").startswith(b"HTTP/1.1 200")
        assert on_the_wire(address, b"POST /signin HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 429")
        assert on_the_wire(address, head + b"\r\n").startswith(b"HTTP/1.1 401")  # no guess


def test_the_answers_of_an_analyst_take_only_so_much_room(directory, client, tokens):
    rates = client.app.state.service.authenticator.rates
    rates.limits["kept"] = 0.75, 1e-6  # MiB at once: half a one more is allowed
    ada, bob = (bearer(token) for token in (tokens["analyst"], directory.mint("bob", "analyst", by="console")[1]))

    def used():
        return rates.missing("kept analyst:ada") * 1e-6 * 2**20

    size = len(json.dumps(released(client, ASK | {"spend": {"epsilon": "0.01"}}, ada)["release"]))
    assert used() == pytest.approx(size, rel=0.2)
    before = used()
    for _ in range(30):  # an answer that is there already takes nothing
        assert released(client, ASK | {"spend": {"epsilon": "0.01"}}, ada)["error"] is None
    assert used() == pytest.approx(before, abs=100)
    released(client, ASK | {"spend": {"epsilon": "0.9"}}, ada)  # the ledger keeps its refusal
    assert used() == pytest.approx(before + 4096, abs=100)
    wide = ASK | {"question": ASK["question"] | {"keys": {"cds": list(range(9_000))}}, "spend": {"epsilon": "0.02"}}
    position = released(client, wide, ada)["position"]
    assert used() > 2**18
    before = directory.books.account("purchases").spent
    refused = released(client, ASK, ada)["error"]
    assert (refused["name"], "1 MiB a minute" in refused["rule"]) == ("answers", True)
    assert directory.books.account("purchases").spent == before
    assert released(client, wide, ada)["position"] == position  # which is there already
    assert client.get(f"/v1/datasets/purchases/releases/{position}", headers=ada).status_code == 200
    assert released(client, ASK, bob)["error"] is None


def test_whoever_reads_large_answers_again_and_again_waits(directory, client, tokens, monkeypatch):
    """As objects an answer takes many times its size, and forty are read at once. Refusing costs no look at one."""
    ada, otto = bearer(tokens["analyst"]), bearer(tokens["auditor"])
    wide = ASK | {"question": ASK["question"] | {"keys": {"cds": list(range(9_000))}}, "spend": {"epsilon": "0.02"}}
    places = [released(client, ask, ada)["position"] for ask in (wide, ASK)]
    client.app.state.service.authenticator.rates.limits["read"] = 0.75, 1e-6  # MiB: half a one more is allowed
    api, page = (f"{start}/purchases/releases/" for start in ("/v1/datasets", "/data"))
    for _ in range(5):
        assert client.get(f"{api}{places[1]}", headers=ada).status_code == 200  # a small one takes next to nothing
    assert client.get(f"{page}{places[0]}", headers=ada).status_code == 200
    reads = [f"{api}{places[0]}", f"{api}{places[0]}/certificate", *(f"{page}{places[0]}{x}" for x in ("", "/csv"))]
    with monkeypatch.context() as patched:
        patched.setattr("neartwin.ledger.account.Account.answer", Mock(side_effect=AssertionError("it was read")))
        assert [client.get(read, headers=ada).status_code for read in reads] == [429] * 4
    assert client.get("/data/purchases", headers=ada).status_code == 200
    assert client.get(reads[0], headers=otto).status_code == 200
    assert released(client, wide, ada)["position"] == places[0]  # a worker reads it, one at a time


def test_an_answer_is_parsed_once_for_its_page(client, tokens, monkeypatch):
    """This takes a second of the process that answers everybody, of one of 96,000 cells."""
    ada = bearer(tokens["analyst"])
    wide = ASK | {"question": ASK["question"] | {"keys": {"cds": list(range(9_000))}}, "spend": {"epsilon": "0.02"}}
    place, loads, parsed = f"purchases/releases/{released(client, wide, ada)['position']}", json.loads, []

    def counted(text, **more):
        parsed.append(len(text))
        return loads(text, **more)

    monkeypatch.setattr("json.loads", counted)
    for read in (f"/data/{place}", f"/data/{place}/csv", f"/v1/datasets/{place}"):
        parsed.clear()
        assert client.get(read, headers=ada).status_code == 200
        assert len([size for size in parsed if size > 2**17]) == 1, read


def test_waiting_answers_have_room_only_when_their_turn_comes(directory, client, tokens):
    rates, ada = client.app.state.service.authenticator.rates, bearer(tokens["analyst"])
    rates.limits["kept"] = 0.6, 1e-6  # MiB at once: half a one more is allowed, and so one of these
    wide = ASK | {"question": ASK["question"] | {"keys": {"cds": list(range(9_000))}}}
    asks = [wide | {"spend": {"epsilon": spend}} for spend in ("0.021", "0.022", "0.023")]
    jobs = [client.post("/v1/datasets/purchases/releases", json=ask, headers=ada).json()["job"] for ask in asks]
    done = [client.get(f"/v1/jobs/{job}?wait=60", headers=ada).json() for job in jobs]
    assert [(one["error"] or {}).get("name") for one in done] == [None, "answers", "answers"]
    assert directory.books.account("purchases").spent == {"epsilon": Fraction("0.021")}


def wire(connections, unread):
    """A connection whose other end left so many bytes unread."""
    one = HeadLimit.__new__(HeadLimit)
    one.transport = Mock(get_write_buffer_size=lambda: unread)
    one.flow, one.connections = FlowControl(one.transport), connections
    connections.add(one)
    return one


def test_largest_unread_answer_is_dropped_where_all_take_too_much(monkeypatch):
    monkeypatch.setattr("neartwin.web.connections.MOST_UNREAD", 500)
    connections = set()
    large, small, newest = (wire(connections, unread) for unread in (300, 200, 400))
    newest.pause_writing()
    assert [one.transport.abort.called for one in (large, small, newest)] == [
        False
    ] * 3  # the others have just their room
    another = wire(connections, 1)
    another.pause_writing()
    assert [one.transport.abort.called for one in (large, small, newest, another)] == [False, False, True, False]
    assert another.flow.write_paused


def test_what_stays_and_costs_no_budget_is_slow(directory, client, tokens):
    limits = client.app.state.service.authenticator.rates.limits
    limits["records"] = 3, 0.001
    ada = bearer(tokens["analyst"])
    wish, statuses = {"target": {"epsilon": "0.9"}, "reason": "more"}, []
    for _ in range(4):  # each a record of the ledger, and so is its withdrawal
        asked = client.post("/v1/datasets/purchases/requests", json=wish, headers=ada)
        statuses.append(asked.status_code)
        if asked.status_code == 201:
            place = f"/v1/datasets/purchases/requests/{asked.json()[0]['position']}"
            assert client.delete(place, headers=ada).status_code == 204
    assert statuses == [201] * 3 + [429]
    limits["records"] = 2, 0.001
    bob = bearer(directory.mint("bob", "agent", by="console")[1])
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}
    more = bob | {"Accept": "application/json, text/event-stream"}
    answers = [client.post("/mcp", json=begin, headers=more) for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]  # a session stays in memory
    session = {"mcp-session-id": answers[0].headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
    pinged = client.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "ping"}, headers=more | session)
    assert pinged.status_code == 200


def test_sign_ins_at_a_server_are_as_slow_as_others(directory, monkeypatch):
    async def person(*_):
        return replace(made.new_token("emma", "analyst")[0], id="e" * 32)

    monkeypatch.setattr(Provider, "person", person)
    provider = Provider(issuer="https://login.example", client_id="neartwin", groups=(("staff", "analyst", ""),))
    with without_processes(), TestClient(create_app(directory, Settings(workers=1, oidc=provider))) as client:
        client.app.state.service.authenticator.rates.limits["records"] = 3, 0.001
        assert [client.get("/signin/back").status_code for _ in range(5)] == [200] * 3 + [429] * 2
    acts = [act.what for act in directory.books.acts() if act.who == "emma"]
    assert acts == ["token", "sign in"] * 3


def test_a_sessions_cookie_is_no_secret_of_a_token_without_a_hash(client, directory, tokens):
    oidc = replace(made.new_token("emma", "curator")[0], id="0" * 32)
    directory.store.admit(oidc)
    cookie = "abc"  # one that has no underscore
    directory.store.start_session(sha256(cookie.encode()).hexdigest(), tokens["analyst"].split("_")[1], AFTER, by="ada")
    assert client.get("/v1/me", headers={"Cookie": f"neartwin_session={cookie}"}).json()["name"] == "ada"
    assert client.get("/v1/me", headers=bearer(f"nt_{oidc.id}_{cookie}")).status_code == 401


def test_internal_fault_is_logged_by_kind_and_hidden_from_the_caller(directory, tokens, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("customer 4711 bought a parachute")

    monkeypatch.setattr("neartwin.web.routes.datasets._answer", broken)
    with TestClient(create_app(directory, Settings(workers=1))) as client, caplog.at_level(logging.DEBUG):
        answer = client.get("/v1/datasets", headers=bearer(tokens["analyst"]))
    assert (answer.status_code, answer.json()) == (500, UnexpectedError().as_dict())
    assert "4711" not in caplog.text
    assert "RuntimeError" in caplog.text


@pytest.fixture
def fragile(directory, tmp_path):
    """A data set whose rows can no longer be read, though its schema can."""
    place = tmp_path / "people.parquet"
    pq.write_table(pa.table({"who": [f"secret {i}" for i in range(5000)]}), place)
    policy = (Rule(allotment=pure(1)),)
    people = Dataset(name="people", place=str(place), unit="who", budget=pure(1), policy=policy)
    directory.register(people, by="console")
    content = bytearray(place.read_bytes())
    content[4:2000] = b"\xff" * 1996
    place.write_bytes(content)
    return directory


@pytest.mark.slow
def test_failure_after_the_reserve_is_one_uniform_error_and_stays_spent(fragile, tokens):
    ask = {"question": {"statistics": {"n": {"ask": "count_distinct_units"}}}, "spend": {"epsilon": "0.25"}}
    with TestClient(create_app(fragile, Settings(workers=1))) as client:
        ada = bearer(tokens["analyst"])
        done = released(client, ask, ada, name="people")
        error = done["error"]
        assert error["code"] == "NT-500"
        assert "secret" not in str(done)
        left = client.get("/v1/datasets/people", headers=ada).json()["remaining"]
        assert left == {"epsilon": "3/4"}
        # a worker that dies or takes too long ends in the same words
        assert lost({"do": "release"})["refused"] == error
        assert "nothing was spent" in lost({"do": "plan"})["refused"]["rule"]


def test_a_secret_is_known_for_the_hash_that_it_was_right_for_and_no_other():
    memory, (_, token_hash, token_text) = made.VerifiedSecrets(), made.new_token("ada", "analyst")
    secret = made.parts(token_text)[1]
    assert not memory.knows(secret, token_hash)
    assert not memory.right(secret[::-1], token_hash)
    assert memory.right(secret, token_hash)
    memory.remember("cookie")
    assert memory.knows(secret, token_hash)
    pairs = [
        (secret, token_hash[::-1]),
        (secret[::-1], token_hash),
        ("cookie", token_hash),
        ("cookie", ""),
        (secret, ""),
    ]
    assert not any(memory.knows(*pair) for pair in pairs)
    memory.forget(secret)
    assert not memory.knows(secret, token_hash)


def test_a_worker_that_does_not_answer_in_time_is_ended(monkeypatch):
    real, started = subprocess.Popen, []
    hangs = "import sys\nfor line in sys.stdin:\n    if 'hang' not in line: print('{}', flush=True)"

    def start(_, **more):
        started.append(real([sys.executable, "-c", hangs], **more))
        return started[-1]

    monkeypatch.setattr("neartwin.web.workers.subprocess.Popen", start)
    workers = Workers(count=1, place="", ledger="", waiting=10, memory=2**30)
    try:
        assert workers.submit({"do": "plan"}, seconds=60).result(60) == {}
        assert workers.submit({"do": "plan", "question": "hang"}, seconds=0.1).result(60) == lost({"do": "plan"})
        assert started[0].returncode == -9
        assert workers.submit({"do": "plan"}, seconds=60).result(60) == {}  # of the next process
    finally:
        workers.close()


def test_a_body_that_does_not_come_ends_its_request(directory):
    settings = Settings(workers=1, body_seconds=0.2)
    with serving(directory, settings) as address, socket.create_connection(address[7:].split(":")) as wire:
        wire.sendall(
            b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        wire.settimeout(60)
        answer = b""
        while more := wire.recv(4096):
            answer += more
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"NT-600" in answer


def test_a_body_that_comes_letter_by_letter_ends_its_request_too(directory):
    settings = Settings(workers=1, body_seconds=0.5)
    head = b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    answers = []
    with serving(directory, settings) as address:
        for letters in (2, 12):
            with socket.create_connection(address[7:].split(":")) as wire:
                wire.settimeout(60)
                wire.sendall(head % letters)
                sending = threading.Thread(target=letter_by_letter, args=(wire, letters))
                sending.start()
                answers.append(wire.recv(65_536)[9:12])
                sending.join()
    assert answers == [b"422", b"408"]


def letter_by_letter(wire, letters):
    with contextlib.suppress(OSError):  # the other end has had enough
        for _ in range(letters):
            wire.sendall(b"{")
            time.sleep(0.1)


def test_large_bodies_of_strangers_are_few(directory, tokens):
    """They wait in memory, before anybody knows whose they are."""
    app = create_app(directory, Settings(workers=1, burst=5, per_second=0.001))
    with without_processes(), TestClient(app) as client:
        assert client.get("/v1/me", headers=bearer(tokens["analyst"])).status_code == 200
        large = {"data": {"token": "x" * 70_000}, "headers": {"Sec-Fetch-Site": "same-origin"}}
        assert [client.post("/signin", **large).status_code for _ in range(3)] == [401, 401, 429]
        unsaid = {"content": iter([b"x"]), "headers": {"Content-Type": "application/json"}}
        other = TestClient(app, client=("10.0.0.2", 1))
        assert [other.post("/v1/tokens", **unsaid).status_code for _ in range(2)] == [
            422,
            429,
        ]  # no size is the largest
        ask = ASK | {"question": ASK["question"] | {"where": ["amount > 1"] * 40 + ["amount > " + "1" * 1_900] * 9}}
        mine = [
            client.post("/v1/datasets/purchases/plan", json=ask, headers=bearer(tokens["analyst"])) for _ in range(3)
        ]
        assert {one.status_code for one in mine} <= {200, 422}
        said = {"content": b"", "headers": {"Content-Length": "9" * 30}}
        third = TestClient(app, client=("10.0.0.3", 1))
        assert third.post("/v1/tokens", **said).status_code == 413
        assert app.state.service.authenticator.rates.missing("address 10.0.0.3") < 100_000  # not for ever


@pytest.mark.slow  # eighty hashes
def test_hashes_in_forty_threads_keep_the_memory_of_a_few():
    secrets, (_, token_hash, text) = made.VerifiedSecrets(), made.new_token("ada", "analyst")
    together, before = threading.Barrier(40), psutil.Process().memory_info().rss

    def verified(_):
        together.wait()
        return secrets.right(text.split("_")[2], token_hash)

    with ThreadPoolExecutor(40) as threads:
        assert all(threads.map(verified, range(80)))
        assert psutil.Process().memory_info().rss - before < 150 * 2**20  # 700 MB where each thread hashes
