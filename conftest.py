"""Run every block of README and docs as a test, one page a folder and a namespace: see tests/docs/snippets.py.

And let property tests try the same examples in each check, and fresh ones in each slow run; never against a clock.
"""

import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from sybil import Sybil
from tests.docs.snippets import PARSERS, enter, leave

MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30  # noqa: S108 - a file system in memory, and its free bytes; a run writes 1 GB


def pytest_configure(config: pytest.Config) -> None:
    """A check that passed passes again: its examples follow from the tests alone."""
    settings.register_profile("check", derandomize=config.option.markexpr == "not slow", deadline=None)
    settings.load_profile("check")
    # each record waits for the disk, which is half of the time of the ledger's tests; no test cuts the power
    writable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK | os.X_OK) and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    if "TMPDIR" not in os.environ and writable and shutil.disk_usage(MEMORY).free >= ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)  # workers and processes of tests inherit it


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the pages in Chinese to `make slow`: tests/docs/test_translations.py holds their code to that of the English ones."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent / "docs" / "zh"):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What was collected stays to the end, so that the collector of garbage need not look at it again."""
    gc.collect()
    gc.freeze()


collect_ignore = [
    "docs/reference/api",  # signatures that the site was built from: not written by hand, never run
    "src/neartwin/accounting/opacus.py",  # has no example, and needs Opacus, which is 3 GB with what it needs
]

pytest_collect_file = Sybil(parsers=PARSERS, patterns=["*.md"], setup=enter, teardown=leave).pytest()
