"""Tests of the project's own tools."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tool(name):
    """A file of `tools/` as a module."""
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module
