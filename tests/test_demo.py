"""`make demo` runs from an empty directory, twice, and leaves a page; nothing here depends on a draw."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_demo_runs_twice_and_leaves_a_page(tmp_path):
    env = os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "demo"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        told.append(" ".join(done.stdout.split()))
    first, second = told
    assert "314,009,075 people, 10,000 names, epsilon = 1" in first
    assert "budget refused: requested epsilon 0.6, remaining 0.5, difference 0.1" in first
    # the second run is served from the ledger: the same draws, and nothing more is spent
    assert [part for part in first.split() if part.startswith("±")] == [
        part for part in second.split() if part.startswith("±")
    ]
    page = (tmp_path / "demo-output" / "index.html").read_text()
    assert page.count("<svg") == 3
    assert "epsilon 1 before, epsilon 0.9 after" in first
