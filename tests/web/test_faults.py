"""Faults beside the core of the service: each of these was met once, and stands here as its test."""

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import Future

import duckdb
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import neartwin as nt
from neartwin.accounting.budgets import pure
from neartwin.cli import main
from neartwin.web.app import create_app
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset, JoinableTable, Rule
from neartwin.web.service import Settings
from tests.ledger.conftest import postgres_place  # noqa: F401 - a fixture
from tests.web.conftest import ASK, bearer, released
from tests.web.server import serving, without_processes


def test_a_job_keeps_the_place_of_its_answer_and_not_the_answer(client, tokens):
    headers = bearer(tokens["analyst"])
    done = released(client, ASK, headers)
    assert done["release"]["statistics"]
    jobs = client.app.state.service.jobs
    kept = jobs.get(done["job"], "ada")
    assert set(kept.outcome["done"]) == {"dataset", "position", "after"}
    assert kept.future.result() == kept.outcome
    stored = client.get(f"/v1/datasets/purchases/releases/{done['position']}", headers=headers).json()
    assert stored["release"] == done["release"]


def test_a_vanished_file_hides_no_other_data_set_and_no_paid_answer(directory, client, tokens, tmp_path):
    gone = tmp_path / "secret-place.parquet"
    duckdb.sql("SELECT i AS who, i % 3 AS kind FROM range(100) t(i)").write_parquet(str(gone))
    dataset = Dataset(name="lost", place=str(gone), unit="who", budget=pure(1), policy=(Rule(allotment=pure(1)),))
    directory.register(dataset, by="console")
    headers = bearer(tokens["analyst"])
    ask = {"question": {"statistics": {"n": {"ask": "count"}}}, "spend": {"epsilon": "0.5"}, "limits": {"rows": 1}}
    done = released(client, ask, headers, name="lost")
    gone.unlink()
    directory._tables.clear()  # as after a restart
    answers = [client.get("/v1/datasets", headers=bearer(tokens[role])) for role in tokens]
    answers.append(client.get("/v1/datasets/lost", headers=headers))
    answers.append(client.get(f"/v1/datasets/lost/releases/{done['position']}", headers=headers))
    answers.append(client.get(f"/v1/datasets/lost/releases/{done['position']}/certificate", headers=headers))
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    for answer in answers[: len(tokens)]:
        listed = {one["name"]: one for one in answer.json()}
        assert listed["purchases"]["columns"]
        assert not listed["purchases"]["fault"]
        assert "cannot be read now" in listed["lost"]["fault"]
    client.app.state.service.workers._directory._tables.clear()
    answers += [client.post("/v1/datasets/lost/plan", json=ask, headers=headers)]
    assert answers[-1].status_code == 503
    client.post("/v1/session", json={"token": tokens["analyst"]})
    pages = [client.get(path) for path in ("/data", "/data/lost", f"/data/lost/releases/{done['position']}")]
    assert [page.status_code for page in pages] == [200] * 3
    assert client.get("/data/lost/ask").status_code == 503
    assert not any("secret-place" in answer.text for answer in [*answers, *pages])


def test_a_database_is_asked_again_for_nothing_by_every_worker(postgres_place, tmp_path):  # noqa: F811 - a fixture
    import psycopg

    with psycopg.connect(postgres_place, autocommit=True) as connection:
        connection.execute("CREATE TABLE visits AS SELECT i AS who, i % 3 AS kind FROM generate_series(1, 300) t(i)")
        connection.execute("CREATE TABLE kinds AS SELECT i AS kind, 'k' || i AS word FROM generate_series(0, 2) t(i)")
    ask = {
        "question": {"sql": "SELECT word, COUNT(*) AS n FROM visits JOIN kinds USING (kind) GROUP BY word"}
        | {"keys": {"word": ["k0", "k1"]}},
        "spend": {"epsilon": "0.25"},
        "limits": {"rows": 1},
    }
    answers = []
    side = JoinableTable(name="kinds", kind="public", place=postgres_place, table="kinds")
    for number in range(2):  # another service, whose worker has opened nothing yet
        with DataDirectory(tmp_path / "house") as directory:
            if not number:
                directory.register(
                    Dataset(
                        name="visits", place=postgres_place, table="visits", unit="who", budget=pure(1), tables=(side,)
                    ),
                    by="console",
                )
                directory.allot("visits", "analyst:ada", pure(1), by="console")
            headers = bearer(directory.mint("ada", "analyst", by="console")[1])
            with without_processes(), TestClient(create_app(directory, Settings(workers=1))) as client:
                answers.append(released(client, ask, headers, name="visits")["release"])
            assert directory.books.account("visits").spent["epsilon"] == nt.pure("0.25").epsilon
    assert answers[0] == answers[1]
    assert CliRunner().invoke(main, ["refresh", "visits", "--data", str(tmp_path / "house")]).exit_code == 0
    with DataDirectory(tmp_path / "house") as directory:
        headers = bearer(directory.mint("ada", "analyst", by="console")[1])
        with without_processes(), TestClient(create_app(directory, Settings(workers=1))) as client:
            assert released(client, ask, headers, name="visits")["release"] != answers[0]
        assert directory.books.account("visits").spent["epsilon"] == nt.pure("0.5").epsilon
        assert directory.verify().whole


def test_guesses_at_unknown_tokens_cost_nothing_and_at_known_ones_are_few(client, tokens):
    start = time.process_time()
    for number in range(200):
        assert client.get("/v1/me", headers=bearer(f"nt_{number:016x}_{'0' * 64}")).status_code == 401
    assert time.process_time() - start < 200 * 0.02  # one hash takes 20 ms
    known = tokens["analyst"].rsplit("_", 1)[0]
    codes = [client.get("/v1/me", headers=bearer(f"{known}_{number:064x}")).status_code for number in range(30)]
    assert set(codes) == {401, 429}
    assert codes.count(401) <= 15
    assert client.get("/v1/me", headers=bearer(tokens["curator"])).status_code == 200


def test_a_key_of_one_request_does_not_answer_another(client, tokens, monkeypatch):
    service = client.app.state.service
    monkeypatch.setattr(service.workers, "submit", lambda *_, **__: Future())  # it never ends
    task = {"do": "release", "analyst": "ada", "dataset": "purchases", "key": "k", "project": ""} | ASK
    first = service.jobs.submit(task)
    assert service.jobs.submit(dict(task)) is first
    other = client.post(
        "/v1/datasets/purchases/releases",
        json=ASK | {"spend": {"epsilon": "0.01"}},
        headers=bearer(tokens["analyst"]) | {"Idempotency-Key": "k"},
    )
    assert other.status_code == 422
    assert other.json()["name"] == "Idempotency-Key"


ODD = [
    ("/v1/session", {"content": b'"nt_0123_secret"', "headers": {"content-type": "application/json"}}),
    ("/v1/session", {"json": {"token": ["nt_0123_secret"]}}),
    ("/v1/session", {"json": {"tokn": "nt_0123_secret"}}),
    ("/signin", {"data": {f"f{number}": "x" for number in range(700)}}),
    ("/v1/datasets/purchases/plan", {"content": b'{"question": {"sql": "\\ud800"}, "spend": {"epsilon": "1"}}'}),
    ("/v1/datasets/purchases/plan", {"content": b'{"question": {"sql": "SELECT 1"}, "spend": {"epsilon": 1e400}}'}),
    ("/v1/datasets/purchases/plan", {"content": json.dumps(ASK | {"spend": {"epsilon": "1e400"}}).encode()}),
    ("/v1/datasets/purchases/plan", {"content": json.dumps(ASK | {"spend": {"epsilon": "1e-400000000"}}).encode()}),
]


@pytest.mark.parametrize(("path", "sent"), ODD)
def test_odd_requests_are_refused_in_words_that_hold_no_token(client, tokens, path, sent):
    headers = bearer(tokens["analyst"]) | {"content-type": "application/json"} if "content" in sent else {}
    answer = client.post(path, **(sent | {"headers": sent.get("headers", {}) | headers}))
    assert 400 <= answer.status_code < 500, answer.text
    assert "nt_0123" not in answer.text


def test_connections_without_a_whole_head_are_closed_and_others_answered(directory, monkeypatch):
    monkeypatch.setattr("neartwin.web.connections.HEAD_SECONDS", 0.5)
    with without_processes(), serving(directory) as address:
        where = (address.rsplit("/", 1)[-1].rsplit(":", 1)[0], int(address.rsplit(":", 1)[-1]))
        idle = [socket.create_connection(where) for _ in range(50)]
        for number, one in enumerate(idle):
            one.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n" if number % 2 else b"")
        whole = socket.create_connection(where)
        whole.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert whole.recv(100).startswith(b"HTTP/1.1 200")
        for one in idle:
            one.settimeout(20)
            assert one.recv(100) == b""
            one.close()
        whole.close()


@pytest.mark.slow  # a service starts
def test_a_terminated_service_leaves_its_ledger_in_one_file(tmp_path, purchases):
    with DataDirectory(tmp_path / "house") as directory:
        directory.register(Dataset(name="p", place=str(purchases), unit="customer_id", budget=pure(1)), by="console")
        acts = len(directory.books.acts())
    command = [sys.executable, "-m", "neartwin", "serve", "--data", str(tmp_path / "house"), "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    said = ""
    while "Uvicorn running" not in said:
        said += server.stderr.readline()
        assert server.poll() is None, said
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=60)
    assert server.returncode == 0
    assert not (tmp_path / "house" / "budget.db-wal").exists()
    alone = tmp_path / "alone.db"
    alone.write_bytes((tmp_path / "house" / "budget.db").read_bytes())
    with nt.open_ledger(alone) as copied:
        assert len(copied.books.acts()) == acts + 1  # the curator's token
    with sqlite3.connect(alone) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
