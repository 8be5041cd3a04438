"""Fail when a file of code passes 400 lines or a function 50: a second idea wants a second place."""

import ast
import sys
from pathlib import Path

FILE_LINES, FUNCTION_LINES = 400, 50


def faults(path: Path) -> list[str]:
    """One line of text for each size that is passed in this file."""
    text = path.read_text(encoding="utf-8")
    found = [f"{path}: {n} lines, at most {FILE_LINES}"] if (n := len(text.splitlines())) > FILE_LINES else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            # a docstring explains and a signature promises; the body is what must be read at one glance
            body = node.body[1:] if ast.get_docstring(node) else node.body
            length = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
            if length > FUNCTION_LINES:
                found.append(f"{path}:{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES}")
    return found


if __name__ == "__main__":
    roots = [Path(name) for name in ("src", "tests", "bench", "tools", "demo")]
    messages = [line for root in roots for path in sorted(root.rglob("*.py")) for line in faults(path)]
    print("\n".join(messages) or "sizes: fine")
    sys.exit(bool(messages))
