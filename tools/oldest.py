"""The oldest version of each package that pyproject.toml allows, as constraints for pip.

    python tools/oldest.py > build/oldest.txt
    pip install -e ".[dev]" -c build/oldest.txt

CI runs the tests with them, so that each lower bound is a version that was tried. A package without a lower bound is refused.
Developers' tools and the libraries that bench/ compares with take the newest: they are no promise to whoever installs neartwin.
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
APART = frozenset({"dev", "docs", "peers", "peers-accounting"})
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?(?P<bounds>[^;]*)(?:;(?P<marker>.*))?")


def requirements(project: Path = PROJECT) -> Iterator[str]:
    """Every requirement of the library and its extras, but the library's own extras and those apart."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    groups = [
        table["dependencies"],
        *(group for name, group in table["optional-dependencies"].items() if name not in APART),
    ]
    own = re.compile(rf"{re.escape(table['name'])}\b")
    return (line for group in groups for line in group if not own.match(line))


def constraints(lines: Iterable[str]) -> list[str]:
    """One constraint for each requirement: its lower bound, exactly.

    >>> constraints(["numpy>=2", "sqlglot>=28,<31", "psycopg[binary]>=3.2; platform_system != 'Windows'"])
    ['numpy==2', "psycopg==3.2; platform_system != 'Windows'", 'sqlglot==28']
    """
    pins = set()
    for line in lines:
        match = REQUIREMENT.fullmatch(line)
        lowest = match and re.search(r">=\s*([^,\s]+)", match["bounds"])
        if match is None or lowest is None:
            raise SystemExit(f"oldest: {line!r} has no lower bound; write the oldest version that was tried")
        marker = f"; {match['marker'].strip()}" if match["marker"] else ""
        pins.add(f"{match['name'].lower()}=={lowest[1]}{marker}")
    return sorted(pins)


if __name__ == "__main__":
    sys.stdout.write("\n".join(constraints(requirements())) + "\n")
