"""The page that maps the five texts is complete, and what it names exists."""

import ast
import json
import re
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ITEMS = json.loads((HERE / "items_of_the_texts.json").read_text(encoding="utf-8"))
CELLS = re.compile(r"(?<!\\)\|")


def rows():
    text = (ROOT / "docs" / "from-the-texts.md").read_text(encoding="utf-8")
    split = ([cell.strip() for cell in CELLS.split(line)[1:-1]] for line in text.splitlines() if line.startswith("| `"))
    return {cells[0].strip("`"): cells for cells in split}


ROWS = rows()


def named(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_every_item_of_the_texts_has_its_row_and_no_row_is_without_an_item():
    assert sorted(ROWS) == sorted(ITEMS)
    # five texts; Gaussian DP has sections 1 to 6 and four figures
    assert {item.split("-")[0] for item in ITEMS} == {"RDP", "DR351", "DR33", "GDP", "IDP"}
    assert sum(item.startswith("GDP-figure") for item in ITEMS) == 4
    assert {item.split("-")[1][0] for item in ITEMS if re.match(r"GDP-\d", item)} == set("123456")


@pytest.mark.parametrize("item", sorted(ROWS))
def test_a_row_states_something_and_names_what_exists(item):
    _, what, statement, functions, tests = ROWS[item]
    assert what
    assert len(statement) > 15
    assert named(functions)
    for path in named(functions):
        assert resolved(path) is not None, path
    assert named(tests)
    for path in named(tests):
        file, _, name = path.partition("::")
        assert name in functions_of(ROOT / file), path


def resolved(path):
    """The object a dotted path names: the longest importable module, then attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name, None)
        return found
    return None


def functions_of(path):
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_a_missing_function_or_test_would_be_seen():
    assert resolved("neartwin.tradeoff.delta_of") is not None
    assert resolved("neartwin.tradeoff.no_such_function") is None
    assert resolved("neartwin.tradeoff.TradeOff.inverse") is not None
    assert resolved("neartwin.tradeoff.TradeOff.no_such_method") is None
    assert "no_such_test" not in functions_of(ROOT / "tests" / "tradeoff" / "test_gaussian_dp.py")
