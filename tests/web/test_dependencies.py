"""The dependency audit of `make slow` fails for a known vulnerability, and calls nothing safe that was not audited."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_a_known_vulnerability_is_named_and_what_was_not_audited_is_counted_apart():
    spec = importlib.util.spec_from_file_location("dependencies", ROOT / "tools" / "dependencies.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    fine = {"name": "a", "version": "1", "vulns": []}
    bad = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"], "aliases": []}]}
    unknown = {"name": "c", "skip_reason": "not found"}
    assert tool.verdict([fine, unknown]) == ([], 1, 1)
    assert tool.verdict([fine, bad, unknown]) == (["b 2: CVE-1, fixed in 3"], 2, 1)


def test_make_slow_runs_the_audit():
    slow = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nslow:")[1].split("\n\n")[0]
    assert "tools/dependencies.py" in slow
