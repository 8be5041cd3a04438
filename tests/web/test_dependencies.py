"""The dependency audit of `make slow` fails for a known vulnerability, and calls nothing safe that was not audited."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


REPORT = """
import json, sys
assert sys.argv[1:3] == ["--format", "json"]
json.dump({"dependencies": DEPENDENCIES, "fixes": []}, sys.stdout)
sys.exit(EXIT)  # as pip-audit ends: 1 where it found something
"""
FINE = {"name": "jinja2", "version": "3.1.6", "vulns": []}
BAD = {
    "name": "jinja2",
    "version": "2.10",
    "vulns": [
        {
            "id": "PYSEC-2019-217",
            "fix_versions": ["2.10.1"],
            "aliases": ["CVE-2019-10906", "GHSA-462w-v97r-4m45"],
            "description": "In Pallets Jinja before 2.10.1, str.format_map allows a sandbox escape.",
        }
    ],
}
UNKNOWN = {"name": "private", "skip_reason": "Dependency not found on PyPI and could not be audited: private (1.0)"}


@pytest.fixture
def tool():
    spec = importlib.util.spec_from_file_location("dependencies", ROOT / "tools" / "dependencies.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_known_vulnerability_is_named_and_unaudited_packages_are_counted(tool):
    assert tool.verdict([FINE, UNKNOWN]) == ([], 1, 1)
    assert tool.verdict([FINE, BAD, UNKNOWN]) == (["jinja2 2.10: PYSEC-2019-217, fixed in 2.10.1"], 2, 1)


@pytest.mark.parametrize(
    "case",
    [
        ([FINE, UNKNOWN], True, 0, "1 audited, no known vulnerability; 1 NOT audited"),
        ([FINE, BAD], True, 1, "PYSEC-2019-217, fixed in 2.10.1"),
        ([FINE], False, 1, "1 audited"),
        (None, True, 0, "NOT audited: pip-audit could not reach its advisories"),
        (None, False, 1, "NOT audited"),
    ],
)
def test_audit_exits_with_1_for_a_vulnerability_and_calls_no_unknown_safe(tool, monkeypatch, capsys, tmp_path, case):
    """A stand-in for pip-audit says what the real one prints; where it cannot reach its service it prints nothing on stdout."""
    told, fits, code, words = case
    text = REPORT.replace("DEPENDENCIES", repr(told)).replace("EXIT", str(int(bool(told) and BAD in told)))
    (tmp_path / "pip_audit.py").write_text(text if told is not None else "import sys; sys.exit(1)", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(tool, "fit_together", lambda: fits)
    assert tool.main() == code
    assert words in capsys.readouterr().out


def test_make_slow_runs_the_audit():
    slow = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nslow:")[1].split("\n\n")[0]
    assert "tools/dependencies.py" in slow
