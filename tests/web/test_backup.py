"""A whole service is backed up while it runs, restored in another database, and found out when it is an older one."""

import http.server
import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from starlette.testclient import TestClient

from neartwin.accounting.budgets import pure
from neartwin.cli import main
from neartwin.errors import LedgerError, NeartwinError
from neartwin.ledger import Book, Head, anchors
from neartwin.releases.certificates import OwnerKey, check
from neartwin.web.app import create_app
from neartwin.web.data_directory import DataDirectory
from neartwin.web.service import Settings
from neartwin.web.workers import Jobs
from tests.ledger.conftest import PEOPLE, place, postgres_place, sqlite_place  # noqa: F401 - fixtures
from tests.web.conftest import ASK, ONE, bearer, registered, released, sign_in
from tests.web.server import without_processes

pytestmark = pytest.mark.sweep


def command(*words):
    return CliRunner().invoke(main, list(map(str, words)))


def contents(directory):
    """Everything that a service remembers, and its records."""
    with directory.store._database.read() as page:
        lines = [line for _, _, line, _ in page.lines()]
    return directory.store.datasets(), directory.store.tokens(), lines, directory.owner_key.read_bytes()


@pytest.mark.slow
def test_a_service_moves_between_databases_with_all_that_it_remembers(
    directory,
    client,
    tokens,
    postgres_place,  # noqa: F811
    tmp_path,
):
    done = released(client, ASK, bearer(tokens["analyst"]))
    sign_in(client, tokens["analyst"])
    signed = directory.certificate(directory.books.account("purchases"), done["position"])
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    written = command("backup", first, "--data", directory.place)
    assert written.exit_code == 0
    assert first.stat().st_mode & 0o077 == 0
    moved = ("--data", tmp_path / "moved", "--ledger", postgres_place)
    assert command("restore", first, *moved, "--head", written.stdout.strip()).stdout == written.stdout
    assert command("restore", first, *moved).exit_code == 2  # there is one already
    with DataDirectory(tmp_path / "moved", postgres_place) as other:
        assert contents(other) == contents(directory)
        assert check(signed.to_json(), OwnerKey.at(other.owner_key).public, ledger=other.books).valid
        with without_processes(), TestClient(create_app(other, Settings(workers=1, plan_seconds=300))) as there:
            again = released(there, ASK, bearer(tokens["analyst"]))
            assert again["release"] == done["release"]  # free
            there.cookies = client.cookies
            assert there.get("/data").status_code == 200  # the session goes on
    assert command("backup", second, *moved).exit_code == 0
    assert command("restore", second, "--data", tmp_path / "back").exit_code == 0
    with DataDirectory(tmp_path / "back") as other:
        assert contents(other)[:2] == contents(directory)[:2]
        assert other.verify(Head.parse(written.stdout)).whole
    position, _, digest = written.stdout.strip().partition(":")
    late = tmp_path / "late"
    newer = command("restore", first, "--data", late, "--head", f"{int(position) + 5}:{digest}")
    assert newer.exit_code == 4  # and nobody serves it unawares
    with DataDirectory(late) as other:
        assert not other.verify().whole
    assert "neartwin restore" in command("ledger", "import", first, tmp_path / "x.db").output


def cut(lines):
    return lines[:-1]


def without_a_token(lines):
    return [line for line in lines if '"table":"neartwin_token"' not in line]


def with_another_rule(lines):
    return [line.replace('\\"discover\\": true', '\\"discover\\": false') for line in lines]


def with_another_count(lines):
    end = json.loads(lines[-1])
    position, _, digest = end["head"].partition(":")
    return [*lines[:-1], json.dumps(end | {"head": f"{int(position) + 1}:{digest}"})]


@pytest.mark.parametrize("change", [cut, without_a_token, with_another_rule, with_another_count])
def test_a_backup_that_was_cut_or_changed_makes_no_service(directory, tokens, tmp_path, change):
    directory.backup(tmp_path / "whole.jsonl")
    lines = (tmp_path / "whole.jsonl").read_text().splitlines()
    assert change(lines) != lines
    (tmp_path / "changed.jsonl").write_text("\n".join(change(lines)) + "\n")
    with pytest.raises(LedgerError):
        DataDirectory.restored(tmp_path / "changed.jsonl", tmp_path / "other")
    with DataDirectory.restored(tmp_path / "whole.jsonl", tmp_path / "other") as other:  # the failure left nothing
        assert other.verify().whole


def ledger_of(where):
    """The ledger of a data directory: a URL, or "" for the file in it."""
    return where if "://" in where else ""


@pytest.mark.slow
def test_a_backup_of_a_running_service_is_of_one_moment(place, purchases, tmp_path):  # noqa: F811
    stop = threading.Event()
    with registered(tmp_path / "running", purchases, ledger=ledger_of(place)) as directory:

        def curate():
            number = 0
            while not stop.is_set():
                number += 1
                directory.mint(f"bob{number}", "analyst", by="console")
                directory.allot("purchases", f"analyst:bob{number}", ONE, by="console")

        def ask(who):
            account, number = directory.books.account("purchases"), 0
            while not stop.is_set():
                number += 1
                account.settle(account.reserve(f"plan {who} {number}", "monday", pure("1e-9")), random.randbytes(1000))

        load = [threading.Thread(target=curate), *(threading.Thread(target=ask, args=(who,)) for who in range(2))]
        for one in load:
            one.start()
        try:
            heads = []
            while len(set(heads)) < 5:
                heads.append(directory.backup(tmp_path / f"{len(heads)}.jsonl"))
        finally:
            stop.set()
            for one in load:
                one.join()
        for number, head in enumerate(heads):
            assert directory.verify(head).whole
            with DataDirectory.restored(tmp_path / f"{number}.jsonl", tmp_path / f"house{number}") as other:
                assert other.books.head() == head
                assert other.verify().whole


RESTORES = """
import itertools, os, signal, sys
import sqlalchemy as sa
from neartwin.web.data_directory import DataDirectory

for line in sys.stdin:
    last, archive, place, ledger = line.rstrip("\\n").split("\\t")
    if not os.fork():
        steps = itertools.count(1)

        def step(*_):
            if next(steps) == int(last):
                os.kill(os.getpid(), signal.SIGKILL)

        for event in ("before_cursor_execute", "commit"):
            sa.event.listen(sa.Engine, event, step)
        DataDirectory.restored(archive, place, ledger).close()
        print(next(steps), flush=True)
        os._exit(0)
    if os.wait()[1]:
        print("killed", flush=True)
"""


@contextmanager
def killed_restores():
    """A function that restores a backup in a process of its own, which is killed before its nth statement or commit."""
    words = [sys.executable, "-c", RESTORES]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def restore(last, *words):
        print(last, *words, sep="\t", file=process.stdin, flush=True)
        return process.stdout.readline().strip()

    try:
        yield restore
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def outside(where):
    """An engine on a database, as no part of ours makes it."""
    url = sa.make_url(where).set(drivername="postgresql+psycopg") if "://" in where else f"sqlite:///{where}"
    return sa.create_engine(url, poolclass=sa.NullPool)


@pytest.mark.slow  # a process starts, and its children are killed
def test_a_killed_restore_leaves_nothing_or_all_and_can_be_repeated(directory, tokens, place, tmp_path):  # noqa: F811
    archive, ledger = tmp_path / "backup.jsonl", ledger_of(place)
    account = directory.books.account("purchases")
    for number in range(5):
        account.settle(account.reserve(f"plan {number}", "monday", pure("1e-6")), random.randbytes(1000))
    head = directory.backup(archive)
    nothing = whole = 0
    with killed_restores() as restore:
        steps = int(restore(0, archive, tmp_path / "counted", ledger))
        for last in [*range(1, steps, max(1, steps // 5)), *range(steps - 3, steps)]:
            house = tmp_path / f"house{last}"
            if ledger:
                with outside(ledger).begin() as connection:
                    connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            assert restore(last, archive, house, ledger) == "killed"
            there = sa.inspect(outside(ledger or str(house / "budget.db"))).get_table_names()
            again = command("restore", archive, "--data", house, *(["--ledger", ledger] if ledger else []))
            assert again.exit_code == (2 if there else 0), again.output
            nothing, whole = nothing + (not there), whole + bool(there)
            with DataDirectory(house, ledger) as other:
                assert other.verify(head).whole
                assert contents(other) == contents(directory)
    assert nothing > 3
    assert whole


@pytest.mark.slow  # processes start and are killed
def test_a_killed_backup_is_complete_or_refused(directory, tmp_path):
    account = directory.books.account("purchases")
    for number in range(12):
        account.settle(account.reserve(f"plan {number}", "monday", pure("1e-6")), random.randbytes(300_000))
    complete = refused = 0
    for number in range(8):
        path = tmp_path / f"{number}.jsonl"
        words = ["backup", str(path), "--data", str(directory.place)]
        process = subprocess.Popen([sys.executable, "-m", "neartwin", *words], stdout=subprocess.DEVNULL)
        while not path.exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(random.random() * 0.1 * (number > 0))
        if number < 7:
            process.send_signal(signal.SIGKILL)
        process.wait()
        try:
            with DataDirectory.restored(path, tmp_path / f"house{number}") as other:
                assert other.books.head() == directory.books.head()
                complete += 1
        except LedgerError:
            refused += 1
    assert complete
    assert refused


class Notary(http.server.BaseHTTPRequestHandler):
    """Keeps what it is sent, and gives it back. It takes POST alone, as many do."""

    kept = b""

    def do_POST(self):
        type(self).kept = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def do_GET(self):
        self.send_response(200 if self.kept else 404)
        self.end_headers()
        self.wfile.write(self.kept)

    def do_PUT(self):
        self.send_response(405)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def notary(handler):
    """The address of a running server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,)).start()
    yield f"http://127.0.0.1:{server.server_port}/head"
    server.shutdown()
    server.server_close()


@pytest.fixture(params=["file", "web", "git"])
def anchor(request, tmp_path):
    if request.param == "file":
        yield str(tmp_path / "elsewhere" / "head")
        return
    if request.param == "git":
        remote, clone = tmp_path / "remote.git", tmp_path / "clone"
        for words in (["init", "-q", "--bare", remote], ["clone", "-q", remote, clone]):
            subprocess.run(["git", *words], check=True, capture_output=True)
        subprocess.run(["git", "-C", clone, "config", "push.autoSetupRemote", "true"], check=True)
        yield f"git:{clone}"
        return
    with notary(type("Fresh", (Notary,), {})) as address:
        yield address


def test_an_older_ledger_is_found_by_the_head_that_is_kept_elsewhere(anchor, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    newer, older = tmp_path / "budget.db", tmp_path / "older.db"
    with Book(newer) as ledger:
        account = ledger.open(PEOPLE, ONE)
        assert anchors.kept(anchor) is None
        ticket = account.reserve("plan", "monday", ONE)
        ledger.anchor(anchor)
        assert ledger.anchor(anchor) == ledger.head() == anchors.kept(anchor)
        ledger.export(tmp_path / "older.jsonl")
        Book.restored(tmp_path / "older.jsonl", older).close()
        account.fail(ticket)
        newest = ledger.anchor(anchor)
    assert command("ledger", "verify", newer, "--anchor", anchor).exit_code == 0
    assert command("ledger", "verify", older).exit_code == 0  # whole by itself
    found = command("ledger", "verify", older, "--anchor", anchor)
    assert found.exit_code == 4
    assert "it was rolled back" in found.stdout
    assert command("ledger", "anchor", older, anchor).exit_code == 2
    assert anchors.kept(anchor) == newest  # the older ledger has not replaced it


def test_a_copied_ledger_without_its_log_is_found_by_its_own_head(directory, client, tokens, tmp_path):
    head = directory.books.anchor(directory.head_file)
    file = directory.place / "budget.db"
    bare = tmp_path / "bare"
    bare.mkdir()
    with Book(
        tmp_path / "first.db"
    ) as ledger:  # all that reached the file itself, as after a crash and a careless copy
        ledger.open(PEOPLE, ONE)
    shutil.copy(tmp_path / "first.db", bare / "budget.db")
    assert command("ledger", "verify", bare / "budget.db").exit_code == 0
    shutil.copy(f"{file}.head", bare / "budget.db.head")
    assert command("ledger", "verify", bare / "budget.db").exit_code == 4
    assert command("ledger", "verify", file).exit_code == 0
    assert anchors.kept(f"{file}.head") == head
    served = command("serve", "--data", bare, "--port", "0")
    assert served.exit_code == 2
    assert "rolled back" in served.output


def test_a_service_keeps_its_newest_head_by_itself(directory, tmp_path, monkeypatch):
    monkeypatch.setattr("neartwin.web.app._BEAT", 0.05)
    other = str(tmp_path / "head")
    with without_processes(), TestClient(create_app(directory, Settings(workers=1, anchors=(other,)))):
        directory.mint("eve", "auditor", by="console")
        while anchors.kept(other) != directory.books.head():
            time.sleep(0.01)
        directory.mint("eva", "auditor", by="console")
    assert anchors.kept(other) == anchors.kept(directory.head_file) == directory.books.head()


@pytest.fixture
def hanging_git(tmp_path, monkeypatch):
    """A program git that never ends, as when a push waits for a password."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr("neartwin.ledger.anchors._SECONDS", 0.1)
    return f"git:{tmp_path}"


def test_a_place_that_hangs_or_cannot_be_used_is_an_error_of_ours(hanging_git, tmp_path):
    refusing = type("Refusing", (Notary,), {"do_POST": Notary.do_PUT})
    nonsense = type("Nonsense", (Notary,), {"do_GET": lambda self: self.wfile.write(b"what?\r\n\r\n")})
    torn = tmp_path / "torn"
    torn.write_bytes(b"7:\xff")
    with Book(tmp_path / "budget.db") as ledger, notary(refusing) as first, notary(nonsense) as second:
        for place in (hanging_git, str(tmp_path), str(torn), f"{torn}/head", first, second, "http://[::1/head"):
            with pytest.raises(NeartwinError):
                ledger.anchor(place)


def test_places_that_fail_stop_neither_the_others_nor_the_sign_of_life(directory, hanging_git, tmp_path, monkeypatch):
    monkeypatch.setattr("neartwin.web.app._BEAT", 0.02)
    alive = []
    monkeypatch.setattr(Jobs, "say_alive", lambda _: alive.append(1))
    with without_processes(), TestClient(create_app(directory, Settings(anchors=(hanging_git, str(tmp_path))))):
        while len(alive) < 20:
            time.sleep(0.01)
        directory.mint("eve", "auditor", by="console")
        while anchors.kept(directory.head_file) != directory.books.head():
            time.sleep(0.01)


def test_two_hosts_on_one_ledger_sign_with_one_key(postgres_place, tmp_path):  # noqa: F811
    hosts = [DataDirectory(tmp_path / name, postgres_place) for name in ("first", "second")]
    OwnerKey.at(tmp_path / "second" / "owner.key")  # of before the ledger kept one
    assert len({OwnerKey.at(host.owner_key).public.text for host in hosts}) == 1
    assert (tmp_path / "second" / "owner.key.old").exists()
    assert hosts[0].verify().whole
    with hosts[0].store._database.connection(writes=True) as connection:
        connection.exec_driver_sql("UPDATE neartwin_key SET pem = 'another'")
    (fault,) = hosts[1].verify().faults
    assert "key 'signing'" in fault.message
    for host in hosts:
        host.close()
