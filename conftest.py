"""Run every Python block of README and docs as a test, one page a namespace, in a fresh directory."""

import os
import shutil
import tempfile
from pathlib import Path

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser


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
