"""What the README points to is there; its blocks are run by the Markdown collector in conftest.py."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_file_the_readme_points_to_exists():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert all((ROOT / link).exists() for link in links)


def test_the_readme_leads_to_every_how_to():
    pages = {page.relative_to(ROOT).as_posix() for page in (ROOT / "docs" / "how-to").glob("*.md")}
    assert pages <= set(re.findall(r"\]\(([^)#]+)\)", README))


def test_every_make_target_is_explained_by_a_bare_make():
    told = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE).group(1).split()
    assert all(re.search(rf"^{target}\s+\S", told, flags=re.MULTILINE) for target in targets)
