"""What operators see of a running service: whether it is ready, its figures, and who did what."""

import json
import logging
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.request import Request, urlopen

import pytest
import sqlalchemy as sa

from neartwin.web.middleware import AUDIT, span
from neartwin.web.workers import Workers
from tests.docs.snippets import Serving
from tests.web.conftest import ASK, bearer, released, sign_in
from tests.web.server import PATIENCE, ThreadWorkers, without_processes


def test_a_service_that_cannot_write_or_work_is_alive_and_not_ready(client, monkeypatch):
    assert client.get("/readyz").json() == {"status": "ready"}

    def full(*_):
        raise sa.exc.OperationalError("", {}, Exception("disk is full at /srv/secret"))

    with monkeypatch.context() as patched:
        patched.setattr("neartwin.ledger.store.connect.Writing", full)
        assert client.get("/readyz").status_code == 503
        assert "secret" not in client.get("/readyz").text
        assert client.get("/healthz").status_code == 200
    refused = {"refused": {"code": "NT-600", "name": "worker"}, "status": 503}
    monkeypatch.setattr(ThreadWorkers, "alive", 0)
    assert client.get("/readyz").status_code == 200  # a worker starts
    monkeypatch.setattr("tests.web.server.outcome", lambda *_: refused)
    assert client.get("/readyz").status_code == 503


def test_a_part_that_hangs_is_named_before_a_probe_gives_up(directory, client, monkeypatch):
    monkeypatch.setattr("neartwin.web.routes.operations._READY_SECONDS", 0.1)
    released_at_last = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(ThreadWorkers, "alive", 0)
        patched.setattr("tests.web.server.outcome", lambda *_: {"done": released_at_last.wait(PATIENCE)})
        worker = client.get("/readyz")
    released_at_last.set()
    with sqlite3.connect(directory.place / "budget.db", isolation_level=None) as raw:
        raw.execute("BEGIN IMMEDIATE")
        ledger = client.get("/readyz")
        raw.execute("ROLLBACK")
    raw.close()
    assert [(one.status_code, one.json()["name"]) for one in (worker, ledger)] == [(503, "worker"), (503, "ledger")]
    monkeypatch.undo()
    assert client.get("/readyz").status_code == 200


@pytest.mark.slow  # a process starts
def test_a_worker_that_cannot_open_its_directory_is_not_alive(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a database that says nothing
        ledger = f"postgresql://someone@127.0.0.1:{silent.getsockname()[1]}/ledger"
        workers = Workers(count=1, place=str(tmp_path), ledger=ledger, waiting=1, memory=2**36)
        try:
            with silent.accept()[0]:
                (process,) = workers._processes.values()
                assert (process.poll(), workers.alive) == (None, 0)
        finally:
            workers.close()


@pytest.mark.slow  # a process starts
def test_a_worker_loads_no_web_framework_and_starts_the_sooner():
    script = "import sys, neartwin.web.worker; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "duckdb" in loaded
    assert not {"fastapi", "starlette", "pydantic", "jinja2", "mcp", "scipy", "pandas"} & set(loaded)


def test_figures_count_answers_records_and_budgets_for_those_who_oversee(directory, client, tokens):
    released(client, ASK, bearer(tokens["analyst"]))
    client.get("/v1/me", headers=bearer("nt_0_0"))
    text = client.get("/metrics", headers=bearer(tokens["auditor"])).text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert lines['neartwin_spent{dataset="purchases",pool="epsilon"}'] == "0.25"
    assert lines["neartwin_records"] == str(directory.books.head().position)
    assert lines['neartwin_answers_total{method="GET",status="401"}'] == "1"


@pytest.fixture
def audited(caplog):
    caplog.set_level(logging.INFO, AUDIT.name)
    return lambda: [json.loads(one.message) for one in caplog.records if one.name == AUDIT.name]


def test_the_audit_log_says_who_did_what_and_holds_no_question(client, tokens, audited):
    headers = bearer(tokens["analyst"])
    sign_in(client, tokens["analyst"])
    sign_in(client, "nt_0123_secret")
    done = released(client, ASK, headers)
    client.get(f"/v1/datasets/purchases/releases/{done['position']}?note=private", headers=headers)
    client.get("/v1/tokens", headers=headers)
    client.get("/v1/nt_of_a_stranger")
    client.get(f"/v1/jobs/{tokens['analyst']}", headers=headers)  # a token in the place of something else
    lines = [one for one in audited() if "method" in one]
    (outcome,) = (one for one in audited() if "method" not in one)
    assert outcome.pop("time")
    assert outcome == {"dataset": "purchases", "holder": "analyst:ada", "release": done["position"], "refused": None}
    said = [(one.get("caller", ""), one["method"], one.get("path", ""), one["status"]) for one in lines]
    assert said[:2] == [("ada", "POST", "/signin", 303), ("", "POST", "", 401)]
    asked = {status for *who, status in said if who == ["ada", "POST", "/v1/datasets/purchases/releases"]}
    assert asked in ({202}, {200})  # under way, or done before it was answered
    assert ("ada", "GET", f"/v1/datasets/purchases/releases/{done['position']}", 200) in said
    assert ("ada", "GET", "/v1/tokens", 403) in said
    assert ("ada", "GET", "/v1/jobs/nt_...", 404) in said
    assert {name for one in lines for name in one} == {"time", "address", "method", "status", "caller", "role", "path"}
    text = json.dumps(audited())
    assert not any(word in text for word in ("private", "secret", "stranger", "amount", tokens["analyst"]))


def test_without_an_audit_log_nothing_is_written(client, tokens, caplog):
    with caplog.at_level(logging.WARNING):
        released(client, ASK, bearer(tokens["analyst"]))
    assert not [one for one in caplog.records if one.name.startswith("neartwin")]


@pytest.mark.parametrize(
    ("proxies", "seen"),
    [
        ([], "127.0.0.1"),
        (["127.0.0.1"], "10.0.0.7"),
        (["10.9.9.9"], "127.0.0.1"),
        (["10.9.9.9", "127.0.0.1"], "10.0.0.7"),
    ],
)
def test_only_a_named_proxy_says_where_a_request_is_from(directory, tmp_path, monkeypatch, proxies, seen):
    """As `neartwin serve` starts it, over a real socket."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # which uvicorn reads where it is told nothing
    for name, value in {"handlers": [], "propagate": True, "level": AUDIT.level}.items():
        monkeypatch.setattr(AUDIT, name, value)
    log = tmp_path / "audit.jsonl"
    words = ["serve", "--data", str(directory.place), "--audit-log", str(log)]
    with without_processes():
        service = Serving(words + [word for proxy in proxies for word in ("--proxy", proxy)])
        try:
            sent = Request(f"{service.address}/healthz", headers={"X-Forwarded-For": "10.0.0.7"})  # noqa: S310 - our own
            urlopen(sent, timeout=PATIENCE).close()  # noqa: S310
        finally:
            service.close()
            for handler in AUDIT.handlers:
                handler.close()
    assert [json.loads(line)["address"] for line in log.read_text().splitlines()] == [seen]


@pytest.fixture
def spans(monkeypatch):
    """What a tracer hears, as pairs of a span's facts and those of the span around it."""
    heard, around = [], ContextVar("around", default=None)

    class Span(dict):
        update_name = lambda self, name: self.update(name=name)  # noqa: E731 - as OpenTelemetry calls it
        set_attributes = dict.update

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name, *, attributes, record_exception, set_status_on_exception):
            assert not record_exception
            assert not set_status_on_exception
            heard.append((Span(attributes, name=name), around.get()))
            token = around.set(heard[-1][0])
            yield heard[-1][0]
            around.reset(token)

    monkeypatch.setattr("opentelemetry.trace.get_tracer", lambda _: Tracer())
    return heard


def test_traces_have_a_span_of_each_request_and_no_private_part(client, tokens, spans):
    released(client, ASK, bearer(tokens["analyst"]))
    client.get("/v1/datasets/hidden?q=private", headers=bearer("nt_0_secret"))
    (first, outer), *_, (last, _) = spans
    route = "/v1/datasets/{name}"
    assert first.pop("http.response.status_code") in {200, 202}  # done before it was answered, or under way
    assert first == {"name": f"POST {route}/releases", "http.route": f"{route}/releases"}
    assert last == {"name": f"GET {route}", "http.route": route, "http.response.status_code": 401}
    assert outer is None
    assert not any(word in repr(spans) for word in ("amount", "purchases", "hidden", "private", "secret", "ada"))


def test_traces_have_a_span_of_each_task_below_that_of_its_request(directory, spans, monkeypatch):
    answers = 'import sys\nfor line in sys.stdin: print("{}", flush=True)'
    real = subprocess.Popen
    monkeypatch.setattr(
        "neartwin.web.workers.subprocess.Popen", lambda _, **more: real([sys.executable, "-c", answers], **more)
    )
    workers = Workers(count=1, place="", ledger="", waiting=10, memory=2**30)
    try:
        with span("request") as request:
            asked = workers.submit({"do": "plan", "dataset": "purchases", "question": "private"}, seconds=60)
        assert asked.result(60) == {}
    finally:
        workers.close()
    assert [found for found in spans if found[0]["name"] == "task plan"] == [
        ({"name": "task plan", "dataset": "purchases"}, request)
    ]


def test_no_library_traces_searches_or_texts_of_errors_beside_us(client, tokens, monkeypatch):
    class Provider:
        """Whoever asks it for a tracer would write spans of its own."""

        def __getattr__(self, name):
            raise AssertionError(name)

    monkeypatch.setattr("neartwin.web.middleware._INSTALLED", False)
    for kind, module in (("tracer", "trace"), ("meter", "metrics"), ("logger", "_logs")):
        monkeypatch.setattr(f"opentelemetry.{module}.get_{kind}_provider", Provider)
    found = client.get("/data/purchases/history?q=secret", headers=bearer(tokens["analyst"]))
    assert found.status_code == 200


def test_without_opentelemetry_nothing_is_traced(client, tokens, spans, monkeypatch):
    monkeypatch.setattr("neartwin.web.middleware._INSTALLED", False)
    assert client.get("/v1/me", headers=bearer(tokens["analyst"])).status_code == 200
    assert spans == []
