"""Faults beside the core of the service: each of these was met once, and stands here as its test."""

import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import Future
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from starlette.testclient import TestClient

import neartwin as nt
from neartwin.accounting.budgets import pure
from neartwin.cli import main
from neartwin.errors import AccessError, SchemaError
from neartwin.web.app import create_app
from neartwin.web.auth import Caller
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset, JoinableTable, Rule
from neartwin.web.routes.datasets import task_of
from neartwin.web.service import Settings
from neartwin.web.workers import FairQueue, Workers, _Task
from tests.ledger.conftest import postgres_place  # noqa: F401 - a fixture
from tests.web.conftest import ASK, bearer, registered, released, sign_in
from tests.web.server import serving, without_processes


def test_a_job_keeps_the_place_of_its_answer_and_not_the_answer(client, tokens):
    headers = bearer(tokens["analyst"])
    jobs, job = client.app.state.service.jobs, client.post("/v1/datasets/purchases/releases", json=ASK, headers=headers)
    jobs.share(kept := jobs.get(job.json()["job"], "analyst:ada"))
    done = client.get(f"/v1/jobs/{kept.id}?wait=60", headers=headers).json()
    assert done["release"]["statistics"]
    assert set(kept.outcome["done"]) == {"dataset", "position", "after"}
    assert kept.future.result() == kept.outcome == jobs.get(kept.id, "analyst:ada").outcome
    assert kept.id not in jobs._jobs
    stored = client.get(f"/v1/datasets/purchases/releases/{done['position']}", headers=headers).json()
    assert stored["release"] == done["release"]


def test_registering_and_refreshing_check_values_and_are_remembered(directory, tmp_path):
    place, bad = tmp_path / "secret-place.parquet", pa.array([b"a", b"\xff"]).view(pa.string())
    dataset = Dataset(name="towns", place=str(place), unit="who", budget=pure(9))
    pq.write_table(pa.table({"who": [1, 2], "town": bad}), place)
    with pytest.raises(SchemaError, match="values of town cannot be read") as refused:
        directory.register(dataset, by="console")
    assert "secret-place" not in str(refused.value)
    assert "towns" not in {account.name for account in directory.books.accounts()}
    pq.write_table(pa.table({"who": [1, 2], "town": ["a", "b"]}), place)
    directory.register(dataset, by="console")

    def unchecked(epsilon):
        account = directory.account(dataset)
        proposal = account.plan(account.rows.agg(n=nt.count()), spend=nt.pure(epsilon), limits=nt.limits(rows=1))
        return account.release(proposal).guarantee.unchecked

    assert not unchecked(1)
    pq.write_table(pa.table({"who": [1, 2, 3], "town": ["a", "b", "c"]}), place)
    assert unchecked(1)
    directory.refresh("towns", by="console")
    assert not unchecked(2)
    pq.write_table(pa.table({"who": [1, 2], "town": bad}), place)
    with pytest.raises(SchemaError, match="values of town cannot be read"):
        directory.refresh("towns", by="console")


@pytest.mark.slow
def test_a_vanished_file_hides_no_other_data_set_and_no_paid_answer(directory, client, tokens, tmp_path):
    gone = tmp_path / "secret-place.parquet"
    duckdb.sql("SELECT i AS who, i % 3 AS kind FROM range(100) t(i)").write_parquet(str(gone))
    dataset = Dataset(name="lost", place=str(gone), unit="who", budget=pure(1), policy=(Rule(allotment=pure(1)),))
    directory.register(dataset, by="console")
    headers = bearer(tokens["analyst"])
    ask = {"question": {"statistics": {"n": {"ask": "count"}}}, "spend": {"epsilon": "0.5"}, "limits": {"rows": 1}}
    done = released(client, ask, headers, name="lost")
    other = ask | {"spend": {"epsilon": "0.25"}}
    for change in (gone.unlink, lambda: gone.write_bytes(b"PAR1garbage")):
        change()
        for asked in (ask, other, {**other, "question": [ask["question"]] * 2}):  # of a worker that has the table open
            refused = released(client, asked, headers, name="lost")["error"]
            assert (refused["name"], refused["rule"]) == ("dataset", "cannot be read now"), refused
            assert "secret-place" not in json.dumps(refused)
    assert directory.books.account("lost").spent == {"epsilon": Fraction(1, 2)}
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
    sign_in(client, tokens["analyst"])
    pages = [client.get(path) for path in ("/data", "/data/lost", f"/data/lost/releases/{done['position']}")]
    assert [page.status_code for page in pages] == [200] * 3
    assert client.get("/data/lost/ask").status_code == 503
    assert not any("secret-place" in answer.text for answer in [*answers, *pages])


@pytest.mark.slow
def test_a_database_is_asked_again_for_nothing_by_every_worker(postgres_place, tmp_path, monkeypatch):  # noqa: F811
    import psycopg

    whole = sa.make_url(postgres_place)
    place = whole._replace(password=None).render_as_string()
    monkeypatch.setenv("PGPASSWORD", whole.password)  # which no list of processes shows, and no backup has
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
    side = JoinableTable(name="kinds", kind="public", place=place, table="kinds")
    for number in range(2):  # another service, whose worker has opened nothing yet
        with DataDirectory(tmp_path / "house") as directory:
            if not number:
                directory.register(
                    Dataset(name="visits", place=place, table="visits", unit="who", budget=pure(1), tables=(side,)),
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


@pytest.mark.slow
def test_guesses_at_unknown_tokens_cost_nothing_and_at_known_ones_are_few(client, tokens):
    start = time.process_time()
    for number in range(200):
        assert client.get("/v1/me", headers=bearer(f"nt_{number:016x}_{'0' * 64}")).status_code == 401
    assert time.process_time() - start < 200 * 0.02  # one hash takes 20 ms
    known = tokens["analyst"].rsplit("_", 1)[0]
    start = time.monotonic()
    codes = [client.get("/v1/me", headers=bearer(f"{known}_{number:064x}")).status_code for number in range(30)]
    assert set(codes) == {401, 429}
    assert codes.count(401) <= 11 + time.monotonic() - start  # ten at once, then one a second
    assert client.get("/v1/me", headers=bearer(tokens["curator"])).status_code == 200


def test_a_key_of_one_request_does_not_answer_another(directory, client, tokens, monkeypatch):
    service, headers = client.app.state.service, bearer(tokens["analyst"]) | {"Idempotency-Key": "k"}
    task = {"do": "release", "holders": ["analyst:ada"], "dataset": "purchases", "key": "k"} | ASK
    other = ASK | {"spend": {"epsilon": "0.01"}}
    with monkeypatch.context() as patched:
        patched.setattr(service.workers, "submit", lambda *_, **__: Future())  # it never ends
        first = service.jobs.submit(task)
        assert service.jobs.submit(dict(task)) is first
        job = client.post("/v1/datasets/purchases/releases", json=other, headers=headers).json()
        assert (job["state"], job["job"] == first.id) == ("queued", False)
        service.jobs._keyed.clear()
    assert released(client, ASK, headers)["release"]
    spent = directory.books.account("purchases").spent
    refused = released(client, other, headers)["error"]
    assert "was used for another request" in refused["message"]
    assert directory.books.account("purchases").spent == spent


ODD = [
    ("/v1/datasets/purchases/plan", {"content": b'"nt_0123_secret"'}),
    ("/v1/datasets/purchases/plan", {"content": json.dumps(ASK | {"question": "nt_0123_secret"}).encode()}),
    ("/v1/datasets/purchases/plan", {"content": json.dumps(ASK | {"tokn": "nt_0123_secret"}).encode()}),
    ("/v1/datasets/purchases/plan", {"content": json.dumps(ASK | {"nt_0123_secret": 1}).encode()}),
    ("/v1/datasets/purchases/plan", {"content": json.dumps(ASK | {"question": {"sql": "nt_0123_secret"}}).encode()}),
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
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" if number % 2 else b"")
        whole = socket.create_connection(where)
        whole.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
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


def test_a_release_of_another_plan_than_the_previewed_one_costs_nothing(directory, client, tokens):
    headers = bearer(tokens["analyst"])
    plan = client.post("/v1/datasets/purchases/plan", json=ASK, headers=headers).json()
    other = released(client, ASK | {"spend": {"epsilon": "0.3"}, "digest": plan["digest"]}, headers)
    assert other["error"]["name"] == "preview"
    assert directory.books.account("purchases").spent == {"epsilon": 0}
    assert released(client, ASK | {"digest": plan["digest"]}, headers)["release"]["statistics"]


def test_keys_of_too_many_cells_are_refused_before_they_are_listed(client, tokens):
    question = {"group_by": ["cds", "town"], "statistics": {"n": {"ask": "count"}}}
    many = question | {"keys": {"cds": list(range(40_000)), "town": [f"t{i}" for i in range(40_000)]}}
    start = time.process_time()
    answer = client.post(
        "/v1/datasets/purchases/plan", json=ASK | {"question": many}, headers=bearer(tokens["analyst"])
    )
    assert (answer.status_code, answer.json()["value"]) == (422, "'1,600,000,000 cells'")
    assert time.process_time() - start < 5


@pytest.mark.slow
@pytest.mark.parametrize("keys", [None, "declared", {"a": ["x0", "x1"]}])
def test_products_of_cases_are_refused_or_discovered_unlisted(client, tokens, keys):
    def asked(branches):
        when = " ".join(f"WHEN amount > {i} THEN 'x{i}'" for i in range(branches))
        cases = [f"CASE {when} END AS {name}" for name in "abcd"]
        question = {"sql": f"SELECT {', '.join(cases)}, COUNT(*) AS n FROM purchases GROUP BY a, b, c, d", "keys": keys}
        start = time.process_time()
        ask = ASK | {"question": question, "limits": {"rows": 1, "max_groups": 1}}
        answer = client.post("/v1/datasets/purchases/plan", json=ask, headers=bearer(tokens["analyst"]))
        assert time.process_time() - start < 20
        return answer

    assert asked(8).status_code == 200
    much = asked(80)  # a million cells and more, of a text within its limit
    assert much.status_code in {403, 422}
    assert ("cells" in much.text) != (keys is None)  # without keys they are discovered, which needs a delta


def test_margins_take_keys_in_every_form(client, tokens):
    parts = {"group_by": ["cds", "town"], "margins": [["cds"], ["town"]], "statistics": {"n": {"ask": "count"}}}
    for keys, status in (({"cds": [1, 2], "town": ["Ulm"]}, 200), ({"cds": [1, 2]}, 422), ("declared", 422)):
        ask = ASK | {"question": parts | {"keys": keys}, "limits": {"rows": 1, "max_groups": 1}}
        answer = client.post("/v1/datasets/purchases/plan", json=ask, headers=bearer(tokens["analyst"]))
        assert answer.status_code == status, answer.text
    assert "'town' has no declared keys" in answer.json()["message"]


def waiting(owner, do="release", line=""):
    return _Task({"holders": [owner], "do": do}, 1, line)


def test_analysts_take_turns_and_one_process_is_left_to_the_others():
    line = FairQueue(most=8, processes=3)
    for owner in ["ada", "ada", "ada", "ada", "bob", "eve"]:
        line.put(waiting(owner))
    with pytest.raises(AccessError, match="too many"):
        line.put(waiting("ada"))
    taken = [line.take() for _ in range(4)]
    assert [task.owner for task in taken] == ["ada", "bob", "eve", "ada"]
    line.put(waiting("bob"))
    assert line.take().owner == "bob"  # two of ada's are running, of three processes
    line.done(taken[0])
    assert line.take().owner == "ada"
    line.put(waiting("eve"))
    line.put(waiting("zoe", do="plan"))
    assert [line.take().owner for _ in range(2)] == ["zoe", "eve"]  # a preview does not wait for releases
    line.close()
    assert line.take() is None


def test_plans_go_before_releases_and_keep_none_waiting():
    line, taken = FairQueue(most=100, processes=3), []
    line.put(waiting("kim"))
    line.put(waiting("kim", do="plan"))
    for _ in range(12):
        for owner in ("ada", "bob"):
            line.put(waiting(owner, do="plan"))
        task = line.take()
        taken.append(task.body["do"])
        line.done(task)
    assert taken[0] == "plan"  # not even one's own release comes first
    assert taken[:9].count("release") == taken.count("release") == 1


def test_tasks_of_callers_wait_by_whose_they_are():
    workers = Workers(count=0, place="", ledger="", waiting=8, memory=1)
    for name, role in (("ada", "analyst"), ("ada", "analyst"), ("ada", "agent"), ("bob", "analyst")):
        caller = Caller(name=name, role=role, project="census", expires="")
        workers.submit(task_of("release", "purchases", caller, {"question": {}}), seconds=1)
    lines = workers._tasks._lines[1]
    workers.close()
    assert {owner: len(tasks) for owner, tasks in lines.items()} == {"analyst:ada": 2, "agent:ada": 1, "analyst:bob": 1}
    assert "question" not in lines["agent:ada"][0].body


def test_large_questions_that_wait_are_few_and_of_one_analyst_fewer():
    line, large = FairQueue(most=1000, processes=2), "x" * 2**20
    for owner in ("ada", "bob"):
        for _ in range(32):
            line.put(waiting(owner, line=large))
        with pytest.raises(AccessError, match="64 MiB, and half of that from one"):
            line.put(waiting(owner, line="x"))
    with pytest.raises(AccessError, match="too many"):
        line.put(waiting("eve", line="x"))
    line.take()
    line.put(waiting("eve", line=large))


def private_memory(workers):
    (pid,) = (process.pid for process in workers._processes.values())
    return 1024 * int(re.search(r"VmData:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1])


@pytest.mark.slow  # processes start
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_without_memory_fails_its_own_question_alone(directory):
    ask = {"dataset": "purchases", "holders": ["analyst:ada"], "key": "", "limits": {"rows": 1}}
    ask |= {"spend": {"epsilon": "0.01"}}
    big = {"group_by": ["cds"], "keys": {"cds": list(range(250_000))}, "statistics": {"n": {"ask": "count"}}}
    big["statistics"]["total"] = ASK["question"]["statistics"]["total"]
    start = {"count": 1, "place": str(directory.place), "ledger": directory.ledger_place, "waiting": 8}
    small = [{"do": do, "question": ASK["question"]} for do in ("plan", "release")]

    def outcomes(workers, tasks):
        return ["done" if "done" in workers.submit(ask | one, seconds=300).result() else "lost" for one in tasks]

    workers = Workers(**start, memory=2**36)
    try:
        assert outcomes(workers, small) == ["done", "done"]
        most = private_memory(workers) + 32 * 2**20
        assert outcomes(workers, [{"do": "release", "question": big, "spend": {"epsilon": "0.02"}}]) == ["done"]
    finally:
        workers.close()
    workers = Workers(**start, memory=most)
    try:
        assert (
            outcomes(workers, [*small, {"do": "release", "question": big}, *small])
            == ["done"] * 2 + ["lost"] + ["done"] * 2
        )
    finally:
        workers.close()


def test_words_of_the_database_stay_with_the_service(client, tokens, monkeypatch):
    def away(*_):
        raise sa.exc.OperationalError("SELECT", {}, Exception('connection to "db.house" failed for user "neartwin"'))

    with monkeypatch.context() as patched:
        patched.setattr("neartwin.ledger.store.pages.Reading.head", away)
        answer = client.get("/v1/ledger", headers=bearer(tokens["auditor"]))
    assert answer.status_code == 503
    assert not any(word in answer.text for word in ("db.house", "neartwin_", "user", str(client.app), "budget.db"))


def test_a_session_that_was_put_in_by_hand_is_found(directory, client, tokens):
    sign_in(client, tokens["analyst"])
    assert directory.verify().whole
    identity = tokens["curator"].split("_")[1]
    with directory.store._database.connection(writes=True) as connection:
        connection.exec_driver_sql(f"INSERT INTO neartwin_session VALUES ('{'0' * 64}', '{identity}', '2999-01-01')")
    (fault,) = directory.verify().faults
    assert "nobody signed in" in fault.message


def test_a_form_of_another_site_signs_nobody_in(client, tokens):
    sent = {"data": {"token": tokens["analyst"]}, "follow_redirects": False}
    assert client.post("/signin", **sent).status_code == 403  # of a browser that does not say where the form is from
    assert client.post("/signin", headers={"sec-fetch-site": "cross-site"}, **sent).status_code == 403
    client.get("/signin")
    assert client.post("/signin", headers={"sec-fetch-site": "cross-site"}, **sent).status_code == 403
    assert client.post("/signin", **sent).status_code == 303


@pytest.mark.slow
def test_pages_and_answers_stand_budgets_far_above_any_use_and_long_forms(tmp_path, purchases):
    with registered(tmp_path / "house", purchases, budget=pure(5000)) as directory:
        directory.allot("purchases", "analyst:ada", pure(4000), by="console")
        token = directory.mint("ada", "analyst", by="console")[1]
        with without_processes(), TestClient(create_app(directory, Settings(workers=1, plan_seconds=300))) as client:
            sign_in(client, token)
            csrf = client.get("/v1/me").json()["csrf"]
            done = released(client, ASK | {"spend": {"epsilon": "900"}}, bearer(token))
            pages = ["/data", "/data/purchases", "/data/purchases/ask", "/data/purchases/history"]
            pages.append(f"/data/purchases/releases/{done['position']}")
            assert [client.get(page).status_code for page in pages] == [200] * len(pages)
            form = {f"name-{number}": "x" for number in range(230)} | {"csrf": csrf, "amount": "800"}
            assert client.post("/data/purchases/ask", data=form).status_code == 200
            fields = {"group": ["cds"] * 300, "csrf": csrf, "amount": "1e308"}
            assert client.post("/data/purchases/ask", data=fields).status_code < 500
