"""The deployment files start what exists, without root, on read-only systems; their entry script runs in a clean environment."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import yaml

from neartwin.cli.service import serve
from tests.web.server import PATIENCE
from tests.web.test_five_commands import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_entry_script_names_options_that_exist():
    text = (DEPLOY / "entry.sh").read_text()
    options = {option for parameter in serve.params for option in parameter.opts}
    used = set(re.findall(r"--[a-z-]+", re.sub(r"(?m)^#.*", "", text)))
    assert used
    assert used <= options
    variables = set(re.findall(r"NEARTWIN_[A-Z_]+", "".join(path.read_text() for path in DEPLOY.iterdir())))
    own = {parameter.envvar for parameter in serve.params if parameter.envvar}
    assert variables - own - {"NEARTWIN_DOMAIN"} <= set(re.findall(r"\$\{?(NEARTWIN_[A-Z_]+)", text))


def test_every_deployment_runs_without_root_on_a_read_only_system():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["neartwin"]
    assert compose["read_only"]
    assert compose["cap_drop"] == ["ALL"]
    pods = next(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))["spec"]
    assert pods["replicas"] == compose["deploy"]["replicas"] == 2
    assert pods["template"]["spec"]["securityContext"]["runAsNonRoot"]
    (container,) = pods["template"]["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert re.search(r"(?m)^USER 10001:10001$", (DEPLOY / "Dockerfile").read_text())
    unit = (DEPLOY / "neartwin.service").read_text()
    assert "DynamicUser=yes" in unit
    assert "ProtectSystem=strict" in unit


@pytest.mark.parametrize(
    ("linter", "file", "right", "wrong"),
    [
        (["hadolint"], "Dockerfile", "USER 10001:10001", "USER root"),
        (["shellcheck"], "entry.sh", '"$NEARTWIN_LEDGER_FILE"', "$NEARTWIN_LEDGER_FILE"),
        (["kubernetes-validate", "--strict"], "kubernetes.yaml", "replicas: 2", "replica: 2"),
    ],
)
def test_linters_find_nothing_and_a_planted_fault(tmp_path, linter, file, right, wrong):
    program = Path(sys.executable).with_name(linter[0])
    for count, text in enumerate(((DEPLOY / file).read_text(), (DEPLOY / file).read_text().replace(right, wrong))):
        (tmp_path / file).write_text(text)
        found = subprocess.run([program, *linter[1:], tmp_path / file], check=False, capture_output=True, text=True)
        assert (found.returncode != 0) == (count == 1), found.stdout + found.stderr


def test_the_image_has_every_part_of_a_service():
    extras = re.search(r"\.\[(.*)\]", (DEPLOY / "Dockerfile").read_text()).group(1).split(",")
    assert set(extras) == {"web", "postgres", "mcp", "oidc"}


@pytest.mark.slow  # a service starts
@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")
def test_entry_script_starts_and_ends_a_service_in_a_clean_environment(tmp_path):
    program = tmp_path / "neartwin"
    paths = ":".join(path for path in sys.path if path)
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{paths}" exec "{sys.executable}" -m neartwin "$@"\n')
    program.chmod(0o755)
    port, data = free_port(), tmp_path / "data"
    settings = {
        "NEARTWIN_DATA": str(data),
        "NEARTWIN_HOST": "127.0.0.1",
        "NEARTWIN_PORT": port,
        "NEARTWIN_WORKERS": "1",
    }
    settings |= {"NEARTWIN_PROXY": "127.0.0.1", "NEARTWIN_ANCHOR": str(tmp_path / "head")}
    process = subprocess.Popen(
        ["sh", str(DEPLOY / "entry.sh")],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"} | settings,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
                    assert answer.status == 200
                    break
            except URLError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 0
    audited = [json.loads(line) for line in said.splitlines() if line.startswith('{"time"')]
    assert len(audited) == said.count('"method"')  # each line once, whole
    assert 200 in {line["status"] for line in audited}
    assert (tmp_path / "head").read_text() == (data / "budget.db.head").read_text()
    assert data.stat().st_mode & 0o077 == 0
