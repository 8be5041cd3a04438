"""What the check of walls must find, and what it must let pass."""

from textwrap import dedent

import pytest

from tests.tools import tool

WALLS = tool("walls")


def package(place, files):
    """A package `p` of some files, with the empty faces that it needs."""
    for name, text in files.items():
        path = place / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    for folder in {path.parent for path in place.rglob("*.py")} | {place / "p"}:
        if not (folder / "__init__.py").exists():
            (folder / "__init__.py").write_text("", encoding="utf-8")
    return place


def groups(place):
    modules = WALLS.read(place)
    return WALLS.circles(WALLS.imports(modules))


@pytest.mark.parametrize(("files", "faults"), [(20, 0), (21, 1)])
def test_folder_of_twenty_files_passes_and_of_twenty_one_does_not(tmp_path, files, faults):
    package(tmp_path, {f"room/part{i}.py": "" for i in range(files)} | {"other/part.py": ""})
    assert len(WALLS.full_folders(tmp_path)) == faults


BACK = {
    "at the top": "import p.a",
    "of a name": "from p.a import one",
    "in a function": "def late():\n    from p.a import one",
    "in a method": "class C:\n    def late(self):\n        import p.a as other",
    "for types alone": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import one",
    "relative": "from .a import one",
    "relative, of the module": "from . import a",
    "of the module from the face": "from p import a",
    "by a string": "from importlib import import_module\nimport_module('p.a')",
}


@pytest.mark.parametrize("back", BACK.values(), ids=BACK)
def test_circle_of_two_files_is_found_however_the_import_is_written(tmp_path, back):
    package(tmp_path, {"a.py": "from p.b import two\none = 1\n", "b.py": f"{back}\ntwo = 2\n"})
    assert groups(tmp_path) == [["p.a", "p.b"]]


FACES = {
    "a face that imports": ("from p.room.b import two\n", "from p.room import two"),
    "a face that imports for types alone": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.room.b import two\n",
        "from p.room import two",
    ),
    "a face that imports at first use": ("_HOME = {'two': 'p.room.b'}\n", "from p.room import two"),
    "a face imported whole": ("from p.room.b import two\n", "import p.room as room"),
    "a face whose name hides a module": ("from p.room.b import one as a\n", "from p.room import a"),
}


@pytest.mark.parametrize(("face", "line"), FACES.values(), ids=FACES)
def test_circle_through_a_face_is_found(tmp_path, face, line):
    package(
        tmp_path,
        {
            "room/__init__.py": face,
            "room/a.py": "one = 1",
            "room/b.py": "from p.c import three",
            "c.py": f"{line}\nthree = 3",
        },
    )
    assert groups(tmp_path) == [["p.c", "p.room", "p.room.b"]]


def test_face_that_collects_its_own_room_is_no_circle(tmp_path):
    package(
        tmp_path,
        {
            "room/__init__.py": "from p.room.a import one\nfrom p.room.b import two\n",
            "room/a.py": "from p.room.b import two\none = 1",
            "room/b.py": "two = 2",
            "c.py": "from p.room import one\nfrom p.room.b import two",
        },
    )
    assert groups(tmp_path) == []


def test_circle_is_reported_with_its_size_and_a_shortest_path(tmp_path):
    following = {"a": "b", "b": "c", "c": "d", "d": "a"}
    files = {f"{name}.py": f"import p.{target}" for name, target in following.items()}
    package(tmp_path, files | {"d.py": "import p.a\nimport p.c"})
    (line,) = WALLS.import_circles(WALLS.read(tmp_path))
    assert line == "circle of 4 files: p.c:1 > p.d:2 > p.c"


KINDS = """
    class Sum: ...
    class Mean(Sum): ...
    class Count: ...
    Statistic = Sum | Count
"""
FAMILY = ("statistics", ("p.kinds.Statistic",), "p/kinds.py")
CHECKS = {
    "isinstance": "isinstance(x, Sum)",
    "of a tuple": "isinstance(x, (int, Sum))",
    "of a union": "isinstance(x, int | Sum)",
    "of a named union": "isinstance(x, Statistic)",
    "of a constant": "isinstance(x, BOTH)",
    "of a subclass": "isinstance(x, Mean)",
    "of a subclass elsewhere": "isinstance(x, Median)",
    "of a renamed class": "isinstance(x, Renamed)",
    "of a class of a module": "isinstance(x, kinds.Sum)",
    "through a face": "isinstance(x, Faced)",
    "issubclass": "issubclass(x, Sum)",
    "type is": "type(x) is Sum",
    "type equals": "Sum == type(x)",
    "type in": "type(x) in (Sum, Count)",
    "its class": "x.__class__ is Sum",
    "its class's name": "type(x).__name__ == 'Sum'",
    "dictionary": "{Sum: 1, Count: 2}[type(x)]",
}
IMPORTS = """
    from p import kinds
    from p.kinds import Count, Mean, Statistic, Sum
    from p.kinds import Sum as Renamed
    from p.medians import Median
    from p.room import Faced
    BOTH = (Sum, Count)
"""


def checks(place, text):
    package(
        place,
        {
            "kinds.py": KINDS,
            "medians.py": "from p.kinds import Sum\nclass Median(Sum): ...",
            "room/__init__.py": "from p.kinds import Sum as Faced",
            "asker.py": dedent(IMPORTS) + dedent(text),
        },
    )
    return WALLS.type_checks(WALLS.read(place), [WALLS.Family(*FAMILY)], place)


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_type_check_outside_its_place_is_found(tmp_path, check):
    lines = checks(tmp_path, f"x = 1\nfound = {check}\n")
    assert lines
    assert all(line.startswith("p/asker.py:") and "statistics" in line for line in lines)


def test_class_pattern_and_registration_are_found(tmp_path):
    pattern = "def f(x):\n    match x:\n        case int() | kinds.Sum():\n            return 1\n"
    assert len(checks(tmp_path, pattern)) == 1
    assert len(checks(tmp_path, "@f.register\ndef _(x: Sum): ...\n@f.register(Count)\ndef _(x): ...\n")) == 2


ALLOWED = {
    "other classes": "isinstance(1, (int, str))",
    "two types compared": "type(1) is type(Sum)",
    "a call": "made = Sum()",
    "a dictionary of other keys": "{'Sum': Sum, 1: Count}",
}


@pytest.mark.parametrize("text", ALLOWED.values(), ids=ALLOWED)
def test_check_of_other_types_passes(tmp_path, text):
    assert checks(tmp_path, text + "\n") == []


def test_type_check_in_its_place_and_on_a_namesake_is_let_pass(tmp_path):
    namesake = "class Sum: ...\nisinstance(1, Sum)\n"
    package(tmp_path, {"kinds.py": dedent(KINDS) + "isinstance(1, Sum)\n", "namesake.py": namesake})
    assert WALLS.type_checks(WALLS.read(tmp_path), [WALLS.Family(*FAMILY)], tmp_path) == []


def refused(place, root, allowed, word):
    with pytest.raises(SystemExit, match=word):
        WALLS.type_checks(WALLS.read(place), [WALLS.Family("statistics", (root,), allowed)], place)


def test_table_with_a_missing_name_is_refused(tmp_path):
    package(tmp_path, {"kinds.py": KINDS})
    refused(tmp_path, "p.kinds.Renamed", "p/kinds.py", "Renamed")
    refused(tmp_path, "p.kinds.Sum", "p/moved.py", "moved")


def test_package_as_root_stands_for_every_class_in_it(tmp_path):
    package(tmp_path, {"laws/a.py": "class A: ...", "b.py": "from p.laws.a import A\nisinstance(1, A)"})
    family = WALLS.Family("laws", ("p.laws",), "p/laws/a.py")
    assert len(WALLS.type_checks(WALLS.read(tmp_path), [family], tmp_path)) == 1
