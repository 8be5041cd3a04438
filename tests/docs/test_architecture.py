"""The map of the code names files, names and rooms that are there, and the glossary is in order."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from unicodedata import normalize

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "neartwin"
MAP = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
DECIDED = re.findall(r"^\| [^|]+ \| `([\w/]+\.py)` \| `(\w+)` \|$", MAP, re.MULTILINE)
ROOMS = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", MAP, re.MULTILINE)
WORDS = re.findall(r"^\| \*\*(.+)\*\* \| (.+) \|$", GLOSSARY, re.MULTILINE)


def test_the_map_names_files_that_are_there():
    paths = set(re.findall(r"`([\w/]+/[\w/]+\.py)`", MAP))
    assert len(paths) > 25
    assert [path for path in sorted(paths) if not (SOURCE / path).is_file()] == []


@pytest.mark.parametrize(("path", "name"), DECIDED)
def test_the_map_names_what_a_file_defines(path, name):
    defined = rf"^(?:(?:class|def) {name}\b|{name}\b(?:: [^=]+)? = )"
    assert re.search(defined, (SOURCE / path).read_text(encoding="utf-8"), re.MULTILINE)


def test_the_map_lists_every_room_above_those_that_it_imports():
    assert set(ROOMS) == {folder.parent.name for folder in SOURCE.glob("*/__init__.py")} - {"__pycache__"}
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    floors = [re.findall(r"\w+", floor) for floor in contracts[0]["layers"]]
    floor_of = {room: place for place, rooms in enumerate(floors) for room in rooms}
    assert all(floor_of[above] <= floor_of[below] for above, below in pairwise(ROOMS))


def test_the_glossary_is_in_order_and_says_one_short_sentence_a_word():
    names = [normalize("NFKD", word).encode("ascii", "ignore").lower() for word, _ in WORDS]
    assert len(names) > 50
    assert names == sorted(set(names))
    assert [word for word, meaning in WORDS if len(meaning.split()) > 26 or not meaning.endswith(".")] == []
