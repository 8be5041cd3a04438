"""The README's terminal lines work as they stand; its Python blocks are run by the Markdown collector in conftest.py."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def shell_lines():
    """Lines of blocks whose fence names no language, with continued lines joined."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    joined = "\n".join(text for language, text in blocks if not language).replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.startswith("neartwin ")]


def test_every_terminal_line_of_the_readme_runs(tmp_path):
    table = pa.table({"customer_id": range(1000), "cds": [1] * 1000, "amount": [5.0] * 1000})
    pq.write_table(table, tmp_path / "purchases.parquet")
    lines = shell_lines()
    assert len(lines) == 2
    for line in lines:
        words = shlex.split(line)
        done = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


def test_every_file_the_readme_points_to_exists():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert all((ROOT / link).exists() for link in links)


def test_every_make_target_is_explained_by_a_bare_make():
    told = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE).group(1).split()
    assert all(re.search(rf"^{target}\s+\S", told, flags=re.MULTILINE) for target in targets)
