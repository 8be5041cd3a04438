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
from collections import Counter
from http.client import HTTPException
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


@pytest.mark.slow
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
    """`neartwin serve` on a port of its own, started again whenever it was killed.

    Its files are compiled once, as those of an installed package are.
    """

    def __init__(self, directory):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        ledger = [] if "://" not in directory.ledger_place else ["--ledger", directory.ledger_place]
        served = ["serve", "--data", str(directory.place), *ledger, "--workers", "1", "--port", str(self.port)]
        self.command = [sys.executable, "-m", "neartwin", *served]
        self.environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.environment["PYTHONPYCACHEPREFIX"] = str(directory.place.parent / "compiled")
        self.process = None

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        self.launch()
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            assert time.monotonic() < deadline, "the service did not start"
            time.sleep(0.05)

    def answers(self):
        """Whether it can write and a worker of it answers. Where it ended it is started again, as by a supervisor."""
        with contextlib.suppress(URLError, OSError, HTTPException), urlopen(f"{self.address}/readyz", timeout=10):  # noqa: S310
            return True
        if self.process.poll() is not None:  # because its database still recovered, for instance
            self.launch()
        return False

    def launch(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(self.command, env=self.environment, **quiet)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def kill_a_worker(self):
        workers = psutil.Process(self.process.pid).children()
        with contextlib.suppress(psutil.NoSuchProcess, IndexError):
            random.choice(workers).kill()


def crash_of_the_database(place):
    """Kill one of PostgreSQL's processes, at which it ends all connections and recovers from its log."""
    engine = sa.create_engine(sa.make_url(place).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool)
    with contextlib.suppress(sa.exc.DBAPIError), engine.connect() as connection:
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        os.kill(pid, signal.SIGKILL)
    engine.dispose()


def killed_in_mid_work(machines, said, place, kills):
    """Kill a server, a worker and the database in turn, and servers in turn.

    A victim answered again since it was killed last, and somebody got an answer since the last kill. A random moment later,
    up to a second, it is killed. Nobody waits for a server that starts again while another one serves.
    """
    kinds = ["server", "worker", *(["database"] if place else [])]
    for number in range(kills):
        kind, victim = kinds[number % len(kinds)], machines[number // len(kinds) % len(machines)]
        before, deadline = len(load.served(list(said))), time.monotonic() + 2 * PATIENCE
        while not victim.answers() or len(load.served(list(said))) == before:
            assert time.monotonic() < deadline, (
                f"nothing was answered any more after {number} kills, before one of a {kind}"
            )
            time.sleep(0.1)
        time.sleep(random.random())
        match kind:
            case "worker":
                victim.kill_a_worker()
            case "server":
                victim.kill()
                victim.launch()
            case "database":
                crash_of_the_database(place)


def check_no_question_was_paid_twice(directory):
    history = directory.books.account("purchases").history()
    plans = Counter(entry.plan_digest for entry in history if entry.kind == "reserve")
    assert set(plans.values()) == {1}


def service_under_fire(place, purchases, folder, *, kills):
    """One service, whose server, workers and database are killed in turn: the questions that were answered, and asked."""
    with registered(folder / "house", purchases, ledger=place) as directory:
        directory.books.raise_cap("purchases", pure(10**6))
        tokens = [directory.mint(f"analyst {who}", "analyst", by="console")[1] for who in range(ANALYSTS)]
        for who in range(ANALYSTS):
            directory.allot("purchases", f"analyst:analyst {who}", pure(10**5), by="console")
        machine, said, end = Machine(directory), [], threading.Event()
        machine.start()
        asking = {"over": end.is_set, "said": said, "pause": 0.2}
        crowd = threading.Thread(target=load.crowd, args=(lambda: machine.address, tokens), kwargs=asking)
        crowd.start()
        try:
            killed_in_mid_work([machine], said, place, kills)
        finally:
            end.set()
            crowd.join()
            machine.kill()
        machine.start()
        time.sleep(5)  # workers of a killed server finish what they had
        answered = load.served(said)
        load.check_books(directory, said)
        check_no_question_was_paid_twice(directory)
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


@pytest.mark.slow
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
