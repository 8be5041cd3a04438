"""Workers, server and database killed at random points: nothing is lost but reserved budget."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pytest
import sqlalchemy as sa

from neartwin.accounting.budgets import pure
from neartwin.web.service import Settings
from tests.ledger.conftest import postgres_place, sqlite_place  # noqa: F401 - fixtures
from tests.web import load
from tests.web.conftest import ASK, registered
from tests.web.server import PATIENCE, serving

ANALYSTS = 8


def test_killed_worker_costs_its_reserved_budget_and_nothing_else(directory, tokens):
    with serving(directory, Settings(workers=1, plan_seconds=300)) as address:
        plan = load.HttpClient(address, tokens["analyst"], 120)
        assert plan.post("datasets", "purchases", "plan", body=ASK)["affordable"]
        (worker,) = [child for child in psutil.Process().children() if "neartwin.web.worker" in child.cmdline()]
        worker.kill()
        job = load.answered(
            address, tokens["analyst"], ASK
        )  # the next question finds another worker, or is lost with it
        if job.get("error"):
            assert job["error"]["code"] == "NT-500"
            job = load.answered(address, tokens["analyst"], ASK)
        load.check_books(directory, [(ASK, job)])
        assert load.served([(ASK, job)])


class Machine:
    """`neartwin serve` on a port of its own, started again whenever it was killed."""

    def __init__(self, directory):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        ledger = [] if "://" not in directory.ledger_place else ["--ledger", directory.ledger_place]
        self.command = [sys.executable, "-m", "neartwin", "serve", "--data", str(directory.place), *ledger]
        self.process = None

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        self._launch()
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(URLError, ConnectionError), urlopen(f"{self.address}/readyz"):  # noqa: S310
                return
            if self.process.poll() is not None:  # its database still recovers: started again, as a supervisor would
                self._launch()
            time.sleep(0.05)
        raise AssertionError("the service did not start")

    def _launch(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([*self.command, "--port", str(self.port)], **quiet)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def kill_a_worker(self):
        workers = psutil.Process(self.process.pid).children()
        if workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                random.choice(workers).kill()


def crash_of_the_database(place):
    """Kill one of PostgreSQL's processes, at which it ends all connections and recovers from its log."""
    engine = sa.create_engine(sa.make_url(place).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool)
    with contextlib.suppress(sa.exc.DBAPIError), engine.connect() as connection:
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        os.kill(pid, signal.SIGKILL)
    engine.dispose()


def killed_in_mid_work(machine, said, place, kills):
    """Kill one thing after another, each a random while after the last one was got over: what was killed."""
    kinds = ["worker", "server", *(["database"] if place else [])]
    killed = []
    for number in range(kills):
        before, deadline = len(load.served(list(said))), time.monotonic() + 2 * PATIENCE
        while len(load.served(list(said))) < before + ANALYSTS:
            assert time.monotonic() < deadline, f"nothing was answered any more after {killed}"
            time.sleep(0.05)
        time.sleep(random.random())
        killed.append(kinds[number % len(kinds)])
        match killed[-1]:
            case "worker":
                machine.kill_a_worker()
            case "server":
                machine.kill()
                machine.start()
            case "database":
                crash_of_the_database(place)
    return killed


def service_under_fire(place, purchases, folder, *, kills):
    """One service, whose workers, server and database are killed in turn: the questions that were answered, and asked."""
    with registered(folder / "house", purchases, ledger=place) as directory:
        directory.books.raise_cap("purchases", pure(10**6))
        tokens = [directory.mint(f"analyst {who}", "analyst", by="console")[1] for who in range(ANALYSTS)]
        for who in range(ANALYSTS):
            directory.allot("purchases", f"analyst:analyst {who}", pure(10**5), by="console")
        machine, said, end = Machine(directory), [], threading.Event()
        machine.start()
        asking = {"over": end.is_set, "said": said}
        crowd = threading.Thread(target=load.crowd, args=(lambda: machine.address, tokens), kwargs=asking)
        crowd.start()
        try:
            killed_in_mid_work(machine, said, place, kills)
        finally:
            end.set()
            crowd.join()
            machine.kill()
        machine.start()
        time.sleep(5)  # workers of a killed server finish what they had
        answered = load.served(said)
        load.check_books(directory, said)
        assert answered
        told = {job["error"]["code"] for _, job in said if not job.get("release")}
        assert told <= {"NT-500", "NT-410", "NT-600", "NT-900"}  # uniform, database away, service away
        load.check_replays(directory, machine.address, tokens[0], random.sample(answered, min(100, len(answered))))
        machine.kill()
        assert directory.books.verify(directory.books.head()).whole
        return len(answered), len(said)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_random_kills_of_the_service_lose_only_reserved_budget(request, tmp_path, purchases, kind):
    place = request.getfixturevalue("postgres_place") if kind == "postgres" else ""
    answered, asked = service_under_fire(place, purchases, tmp_path, kills=12)
    assert 0 < answered <= asked


def test_a_lost_job_is_asked_again_with_its_key_and_is_not_paid_twice(directory, tokens):
    key = {"Idempotency-Key": "one"}
    with serving(directory, Settings(workers=1, plan_seconds=300)) as address:
        wire = load.HttpClient(address, tokens["analyst"], 120)
        first = wire.post("datasets", "purchases", "releases", body=ASK, headers=key, wait=10)
        while first["state"] != "done":
            first = wire.get("jobs", first["job"], wait=10)
    with serving(directory, Settings(workers=1, plan_seconds=300)) as address:  # a new process: it knows no jobs
        wire = load.HttpClient(address, tokens["analyst"], 120)
        again = wire.post("datasets", "purchases", "releases", body=ASK, headers=key, wait=10)
        while again["state"] != "done":
            again = wire.get("jobs", again["job"], wait=10)
        assert again["release"] == first["release"]
        other = ASK | {"spend": {"epsilon": "0.1"}}
        refused = wire.post("datasets", "purchases", "releases", body=other, headers=key, wait=10)
        while refused["state"] != "done":
            refused = wire.get("jobs", refused["job"], wait=10)
        assert refused["error"]["code"] == "NT-410"
    assert directory.books.account("purchases").spent["epsilon"] == pure("0.25").epsilon
