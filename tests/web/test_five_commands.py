"""The README's five commands, as they stand, lead a newcomer from nothing to a served, budgeted data set."""

import re
import shlex
import socket
import subprocess
import sys
import time
import tomllib
import venv
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 120


def commands():
    """The lines of the one block in `sh` that begins with an installation, continued lines joined."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    blocks = [block for block in blocks if block.startswith('pip install "neartwin[web]')]
    assert len(blocks) == 1
    return blocks[0].replace("\\\n", " ").splitlines()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.slow
def test_five_commands_lead_to_a_served_budgeted_data_set(tmp_path):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"fastapi", "uvicorn", "argon2-cffi"} <= {
        re.split(r"[>\[]", wanted)[0] for wanted in declared["optional-dependencies"][extra()]
    }
    journey(sys.executable, tmp_path)


@pytest.mark.slow  # an installation takes a minute
def test_the_first_command_installs_whatever_the_other_four_need(tmp_path):
    venv.create(tmp_path / "fresh", with_pip=True)
    python = str(tmp_path / "fresh" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", f"{ROOT}[{extra()}]"]
    assert subprocess.run(install, capture_output=True, check=False).returncode == 0
    journey(python, tmp_path)


SERIES = "SELECT COUNT(*) AS n FROM purchases; SELECT cds, SUM(amount) AS total FROM purchases GROUP BY cds"


def extra():
    """What the first command installs beside the base."""
    return re.fullmatch(r'pip install "neartwin\[(\w+)\]"', commands()[0]).group(1)


def journey(python, tmp_path):
    """The commands after the first, run by an interpreter, in an empty folder with one table."""
    size = 4000
    table = {"customer_id": [i % 900 for i in range(size)], "cds": [1 + i % 5 for i in range(size)]}
    pq.write_table(pa.table(table | {"amount": [9.5] * size}), tmp_path / "purchases.parquet")
    _, register, token, serve, ask = commands()

    def run(line):
        line, _, target = line.partition(" > ")
        done = subprocess.run(
            [python, "-m", *shlex.split(line)], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        if target:
            (tmp_path / target).write_text(done.stdout, encoding="ascii")
        return done

    run(register)
    run(token)
    port = free_port()
    server = subprocess.Popen(
        [python, "-m", *shlex.split(serve), "--port", port], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
                    assert answer.status == 200
                    break
            except URLError:
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
        asked = run(ask.replace("8417", port))
        assert asked.stdout.splitlines()[0].split() == ["cds", "orders", "typical"]
        assert len(asked.stdout.splitlines()) == 6
        assert "left in the account: epsilon 0.75" in asked.stderr
        assert run(ask.replace("8417", port)).stdout == asked.stdout  # the same question again is free
        several = run(re.sub(r'"SELECT .*?"', f'"{SERIES}"', ask.replace("8417", port)))
        assert [line.split()[0] for line in several.stdout.splitlines() if line.strip()][:1] == ["n"]
        assert "left in the account: epsilon 0.5" in several.stderr  # one price for both
    finally:
        server.terminate()
        said = server.communicate(timeout=PATIENCE)[1]
    assert len(re.findall(r"\bnt_\w+", said)) == 1  # a curator's, since there was none
    assert (tmp_path / "ada.token").stat().st_mode & 0o777 == 0o600
