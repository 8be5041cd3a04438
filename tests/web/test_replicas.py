"""Any process of a service answers any request: sessions, keys and releases under way are in the database."""

import contextlib
import itertools
import random
import socket
import threading
import time
from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient

from neartwin.accounting.budgets import pure
from neartwin.errors import LedgerError, NeartwinError
from neartwin.web import auth
from neartwin.web.app import create_app
from neartwin.web.data_directory import DataDirectory
from neartwin.web.service import Settings
from tests.ledger.conftest import place, postgres_place, sqlite_place  # noqa: F401 - fixtures
from tests.web import load
from tests.web.conftest import ASK, bearer, registered, released, sign_in
from tests.web.server import PATIENCE, ThreadWorkers, without_processes
from tests.web.test_kills import Machine, check_no_question_was_paid_twice, killed_in_mid_work


@pytest.fixture
def replicas(place, purchases, tmp_path):  # noqa: F811 - a fixture
    """Two applications with directories of their own, on one database."""
    ledger = place if "://" in place else ""
    names = ("first", "second") if ledger else ("first", "first")
    settings = Settings(workers=1, burst=10_000, per_second=10_000, plan_seconds=300)
    with ExitStack() as stack:
        stack.enter_context(registered(tmp_path / names[0], purchases, ledger=ledger))
        hosts = [stack.enter_context(DataDirectory(tmp_path / name, ledger)) for name in names]
        stack.enter_context(without_processes())
        yield [stack.enter_context(TestClient(create_app(host, settings))) for host in hosts]


def slow(monkeypatch, seconds):
    submit = ThreadWorkers.submit

    def later(self, task, *, started=dict, **more):
        def begin():
            more = started()
            time.sleep(seconds)
            return more

        return submit(self, task, started=begin, **more)

    monkeypatch.setattr(ThreadWorkers, "submit", later)


@pytest.mark.slow
def test_a_release_that_one_replica_runs_is_followed_at_another(replicas, monkeypatch):
    first, second = replicas
    headers = bearer(first.app.state.service.directory.mint("ada", "analyst", by="console")[1])
    others = bearer(first.app.state.service.directory.mint("bob", "analyst", by="console")[1])
    slow(monkeypatch, 0.5)
    begun = first.post("/v1/datasets/purchases/releases", json=ASK, headers=headers)
    assert begun.status_code == 202
    where = f"/v1/jobs/{begun.json()['job']}"
    assert second.get(where, headers=headers).status_code == 202
    assert second.get(where, headers=others).status_code == 404
    done = second.get(f"{where}?wait=20", headers=headers)
    assert (done.status_code, done.json()["state"]) == (200, "done")
    assert first.get(where, headers=headers).json()["release"] == done.json()["release"]
    assert released(second, ASK, headers)["release"] == done.json()["release"]  # free


@pytest.mark.slow
def test_a_release_whose_replica_is_silent_is_lost_and_no_other(replicas, monkeypatch):
    first, second = replicas
    headers = bearer(first.app.state.service.directory.mint("ada", "analyst", by="console")[1])
    slow(monkeypatch, 3)
    where = "/v1/jobs/" + first.post("/v1/datasets/purchases/releases", json=ASK, headers=headers).json()["job"]
    for alive in (False, True):
        with second.app.state.service.directory.store._database.connection(writes=True) as connection:
            connection.exec_driver_sql("UPDATE neartwin_job SET seen = seen - 60")  # as a minute later
        if alive:
            first.app.state.service.jobs.say_alive()
        answer = second.get(where, headers=headers).json()
        assert answer["state"] == ("queued" if alive else "done")
        assert (answer["error"] or {}).get("code") == (None if alive else "NT-500")
    assert second.get(f"{where}?wait=20", headers=headers).json()["release"]


def test_a_release_is_alive_to_a_host_whose_clock_is_wrong(replicas, monkeypatch):
    first, second = (one.app.state.service.directory.store for one in replicas)
    first.put_job("a release", "analyst:ada")
    right = time.time
    for minutes in (-60, 60):
        monkeypatch.setattr(time, "time", lambda minutes=minutes: right() + 60 * minutes)
        owner, outcome, silent = second.job("a release")
        assert (owner, outcome, -1 < silent < 30) == ("analyst:ada", "", True)
        second.touch_jobs(["another"])  # which forgets those of long ago
        assert second.job("a release")


def test_a_session_of_one_replica_is_one_of_all(replicas):
    first, second = replicas
    token = first.app.state.service.directory.mint("ada", "analyst", by="console")[1]
    sign_in(first, token)
    second.cookies = first.cookies
    assert second.get("/data/purchases").status_code == 200


def test_requests_at_one_replica_count_at_all_of_them(replicas):
    first, second = replicas
    rates = [replica.app.state.service.authenticator.rates for replica in replicas]
    headers = bearer(first.app.state.service.directory.mint("ada", "analyst", by="console")[1])
    other = bearer(first.app.state.service.directory.mint("bob", "analyst", by="console")[1])
    guess = bearer("nt_0123456789abcdef_0")
    for one in rates:
        one.limits |= {"token": (5, 0.001), "wrong token": (4, 0.001)}

    def settled():
        for one in rates:
            one.settle()

    def statuses(replica, sent):
        return [replica.get("/v1/me", headers=sent).status_code for _ in range(2)]

    assert statuses(first, other) + statuses(second, other) == [200] * 4
    assert statuses(first, headers) + statuses(second, headers) == [200] * 4  # of five
    assert statuses(first, guess) + statuses(second, guess) == [401] * 4  # of four
    settled()
    rates[0].settle()  # which the second one has told meanwhile
    assert statuses(first, headers) == [200, 429]
    assert [one for replica in replicas for one in statuses(replica, guess)] == [429] * 4
    settled()
    assert statuses(second, headers) == [429] * 2
    assert statuses(first, other) == [200, 429]
    first.app.state.service.directory.store.close()
    rates[0].take("token", "x")
    with pytest.raises(LedgerError):
        rates[0].settle()
    assert 999 < rates[0].missing("token x") <= 1000


def test_two_settlements_at_one_moment_tell_each_request_once(directory, monkeypatch):
    rates, both = auth.Rates(directory.store, {"token": (5, 0.001)}), threading.Barrier(2)
    delay = directory.store.delay_rates

    def met(*told, **more):
        with contextlib.suppress(threading.BrokenBarrierError):  # nobody else came
            both.wait(0.1)
        return delay(*told, **more)

    monkeypatch.setattr(directory.store, "delay_rates", met)
    rates.take("token", "ada")
    settling = [threading.Thread(target=rates.settle) for _ in range(2)]
    for one in settling:
        one.start()
    for one in settling:
        one.join()
    assert 999 < rates.missing("token ada") <= 1000


@pytest.mark.slow
def test_ever_new_strangers_leave_few_buckets_and_no_stranger_refused(replicas):
    rates, other = (replica.app.state.service.authenticator.rates for replica in replicas)
    store, few = replicas[0].app.state.service.directory.store, auth._MOST_BUCKETS
    for one in (rates, other):
        one.limits["wrong token"] = (200, 1)

    def in_the_database():
        with store._database.connection(writes=False) as connection:
            return connection.exec_driver_sql("SELECT count(*) FROM neartwin_rate").scalar_one()

    def strangers(kind):
        for number in range(2 * few + 9):
            rates.take("wrong token", f"{kind} {number}")  # which refuses none of them
            assert len(rates._full) <= 2 * few
        assert rates._delays.keys() <= rates._full.keys()

    def guesses(most):
        for _ in range(most):
            rates.take("wrong token", "a guesser")

    guesses(100)
    strangers("a")
    assert rates.missing("wrong token a guesser") > 90  # further from full than those who come once
    rates.settle()
    assert in_the_database() <= few
    other.settle()
    assert len(other._full) <= few
    assert other.missing("wrong token a guesser") > 90
    strangers("b")
    store.close()  # the database is away
    for kind in "cd":
        with pytest.raises(LedgerError):
            rates.settle()
        strangers(kind)
    assert rates.missing("wrong token a guesser") > 80
    with pytest.raises(NeartwinError, match="a second"):
        guesses(200)
    rates.take("wrong token", "somebody else")


@pytest.mark.slow  # two processes
def test_guesses_at_one_process_are_refused_at_another(postgres_place, purchases, tmp_path):  # noqa: F811 - a fixture
    with registered(tmp_path / "first", purchases, ledger=postgres_place) as one, ExitStack() as stack:
        machines = [Machine(one), Machine(one)]
        for machine in machines:
            stack.callback(machine.kill)
            machine.start()

        def refused(machine):
            try:
                load.HttpClient(machine.address, "nt_0123456789abcdef_0", 60).get("me")
            except NeartwinError as refusal:
                return refusal.as_dict()["code"] == "NT-600" and "a second" in str(refusal)

        assert not refused(machines[1])
        while not refused(machines[0]):  # 200 at once
            pass
        ends = time.monotonic() + PATIENCE
        at_the_other = 1
        while not refused(machines[1]):
            at_the_other += 1
            time.sleep(0.1)
            assert time.monotonic() < ends
        assert at_the_other < 100


class Proxy:
    """A proxy on the loopback that hands each connection to a replica that answers, as one in front of them does."""

    def __init__(self, ports):
        self.ports, self.listening = ports, socket.create_server(("127.0.0.1", 0), backlog=200)
        self.address = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                one = self.listening.accept()[0]
                threading.Thread(target=self.serve, args=(one,), daemon=True).start()

    def serve(self, one):
        for port in random.sample(self.ports, len(self.ports)):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as other:
                other.settimeout(None)
                back = threading.Thread(target=self.pump, args=(other, one), daemon=True)
                back.start()
                self.pump(one, other)
                back.join()
                break
        one.close()

    @staticmethod
    def pump(source, target):
        with contextlib.suppress(OSError):
            while part := source.recv(65_536):
                target.sendall(part)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def persistent(address, token, who, over, said):
    """Ask one question after another, each sent again under its key until the service says how it ended."""
    wire = load.HttpClient(address, token, 60)
    for number in itertools.count():
        ask, job = load.question(who, number), {"state": "unknown"}
        key = {"Idempotency-Key": f"{who}-{number}"}
        while job["state"] != "done" and not over():
            try:
                job = wire.post("datasets", "purchases", "releases", body=ask, headers=key, wait=10)
                while job["state"] != "done":
                    job = wire.get("jobs", job["job"], wait=10)
            except NeartwinError as refusal:
                error = refusal.as_dict()
                job = {"state": "done" if error["code"] == "NT-410" else "unknown", "error": error}
                time.sleep(0.1)
        said.append((ask, job))
        if over():
            return
        time.sleep(0.2)


def replicas_under_fire(place, purchases, folder, *, kills, analysts):  # noqa: F811 - an argument
    """Two replicas on one database behind a proxy; they, their workers and the database are killed in turn."""
    with ExitStack() as stack:
        budget = pure(10**6)
        first = stack.enter_context(registered(folder / "first", purchases, ledger=place, budget=budget))
        second = stack.enter_context(DataDirectory(folder / "second", place))
        tokens = [first.mint(f"a{who}", "analyst", by="console")[1] for who in range(analysts)]
        for who in range(analysts):
            first.allot("purchases", f"analyst:a{who}", budget, by="console")
        machines, said, over = [Machine(one) for one in (first, second)], [], threading.Event()
        for machine in machines:
            stack.callback(machine.kill)
            machine.start()
        proxy = Proxy([machine.port for machine in machines])
        stack.callback(proxy.listening.close)
        threads = [
            threading.Thread(target=persistent, args=(proxy.address, tokens[who], who, over.is_set, said))
            for who in range(analysts)
        ]
        for thread in threads:
            thread.start()
        try:
            killed_in_mid_work(machines, said, place, kills)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        for machine in machines:
            machine.kill()
            machine.start()
        answered = load.served(said)
        load.check_books(first, said)
        check_no_question_was_paid_twice(first)
        load.check_replays(first, proxy.address, tokens[0], random.sample(answered, min(5, len(answered))))
        return len(answered), len(said)


@pytest.mark.slow  # processes are killed
def test_a_killed_replica_loses_no_answer_and_pays_for_none_twice(postgres_place, purchases, tmp_path):  # noqa: F811
    answered, asked = replicas_under_fire(postgres_place, purchases, tmp_path, kills=4, analysts=4)
    assert asked - answered <= 4 * 4 + 4  # a kill costs each analyst one question at most, and the end another
