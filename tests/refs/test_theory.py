"""Every case of theory.json, through the public API, at its tolerance.

The folder comes from NEARTWIN_REFS where that is set, so that other files of the same shape are checked by this command.
A case's family is its id without the trailing number; each room's handlers stand in `handlers_<room>.py` beside this file
and take the case's params, decimal strings parsed to exact rationals.
"""

import json
import math
import os
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("NEARTWIN_REFS", Path(__file__).parent / "data"))
CASES = json.loads((FOLDER / "theory.json").read_text(encoding="utf-8"))
HANDLERS = {
    family: handler
    for path in sorted(Path(__file__).parent.glob("handlers_*.py"))
    for family, handler in import_module(f"tests.refs.{path.stem}").HANDLERS.items()
}


def exact(value):
    if isinstance(value, list):
        return [exact(part) for part in value]
    try:
        return Fraction(value)
    except (ValueError, TypeError):
        return value  # a word: a side, a direction, a method


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_reference(case):
    family = case["id"].rpartition("-")[0]
    answer = float(HANDLERS[family](**{name: exact(value) for name, value in case["params"].items()}))
    expected = float(case["expected"])
    tolerance, kind = case["tolerance"].split()
    if math.isinf(expected):
        assert answer == expected
    else:
        allowed = float(tolerance) * (abs(expected) if kind == "rel" else 1)
        assert abs(answer - expected) <= allowed
