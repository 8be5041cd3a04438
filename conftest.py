"""Run every block of README and docs as a test, one page a folder and a namespace: see tests/docs/snippets.py.

And let property tests try the same examples in each check, and fresh ones in each slow run; never against a clock.
"""

import pytest
from hypothesis import settings
from sybil import Sybil
from tests.docs.snippets import PARSERS, enter, leave


def pytest_configure(config: pytest.Config) -> None:
    """A check that passed passes again: its examples follow from the tests alone."""
    settings.register_profile("check", derandomize=config.option.markexpr == "not slow", deadline=None)
    settings.load_profile("check")


collect_ignore = [
    "docs/reference/api",  # signatures that the site was built from: not written by hand, never run
    "src/neartwin/accounting/opacus.py",  # has no example, and needs Opacus, which is 3 GB with what it needs
]

pytest_collect_file = Sybil(parsers=PARSERS, patterns=["*.md"], setup=enter, teardown=leave).pytest()
