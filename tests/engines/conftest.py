"""Real engines for the tests: DuckDB in this process, a PostgreSQL server, a local Spark."""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.engines.places import DuckdbPlace, PostgresPlace, SparkPlace

_QUICK = (
    "test_spark.py"  # the one file that asks Spark in `make test`: for the oracle, its secrets, the caller's session
)
_SPARK = {"spark", "spark_place"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Every other test of Spark is slow: a session takes 10 s to start, and a statement seconds to compile."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.path.name != _QUICK and _asked(item) & _SPARK:
            item.add_marker(pytest.mark.slow)


def _asked(item):
    """The names of a test's fixtures, those that parameters name included."""
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    return {*getattr(item, "fixturenames", ()), *(value for value in values if isinstance(value, str))}


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A local Spark session that writes an event log."""
    if find_spec("pyspark") is None or not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("no Spark to test with: pip install pyspark, and a Java runtime (Debian: openjdk-17-jre-headless)")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers are this interpreter, with this library
    home = tmp_path_factory.mktemp("spark")
    (home / "events").mkdir()
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        # what its parser learns of each statement stays: after some thousand of them collecting garbage took all the time
        "spark.sql.parser.manageParserCaches": "true",
        "spark.sql.parser.parserDfaCacheFlushThreshold": "30000",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.local.dir": str(home / "local"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (home / "events").as_uri(),
        # short queries: compiling well and collecting in parallel cost more than they gain
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    builder = SparkSession.builder.master("local[2, 2]").appName("neartwin tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def duckdb_place():
    return DuckdbPlace()


@pytest.fixture(scope="session")
def postgres_place(postgres_url):
    return PostgresPlace(postgres_url)


@pytest.fixture(scope="session")
def spark_place(spark):
    return SparkPlace(spark)
