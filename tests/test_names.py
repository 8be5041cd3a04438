"""Names of tests are short enough to read in a report."""

import ast
from pathlib import Path

HERE = Path(__file__).parent
LONGEST = 70


def test_names_of_tests_have_at_most_70_letters():
    names = (
        node.name
        for file in HERE.rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )
    assert [name for name in names if len(name) > LONGEST] == []
