"""Run every Python block of README and docs as a test, one page a namespace, in a fresh directory.

And let property tests try the same examples in each check, and fresh ones in each slow run; never against a clock.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser


def pytest_configure(config: pytest.Config) -> None:
    """A check that passed passes again: its examples follow from the tests alone."""
    settings.register_profile("check", derandomize=config.option.markexpr == "not slow", deadline=None)
    settings.load_profile("check")


def _enter(namespace: dict[str, object]) -> None:
    namespace["_home"], namespace["_here"] = Path.cwd(), tempfile.mkdtemp()
    os.chdir(str(namespace["_here"]))


def _leave(namespace: dict[str, object]) -> None:
    os.chdir(str(namespace["_home"]))
    shutil.rmtree(str(namespace["_here"]))


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=0), SkipParser()],
    patterns=["*.md"],
    setup=_enter,
    teardown=_leave,
).pytest()
