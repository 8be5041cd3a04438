"""The engine of each source."""

from typing import assert_never

from neartwin.engines.duckdb import DuckdbEngine
from neartwin.planning.stage import Engine
from neartwin.tables.postgres import PostgresTable
from neartwin.tables.sources import LocalSource, ServedTable, Source, SparkFrame


def engine_for(source: Source) -> Engine:
    """The engine at the rows: DuckDB for files, its own databases and frames; PostgreSQL; Spark.

    Args:
        source: The source.

    Returns:
        The engine.

    Raises:
        QueryError: The rows are at a service.

    >>> from neartwin.tables.sources import ParquetFiles
    >>> type(engine_for(ParquetFiles(("visits.parquet",)))).__name__
    'DuckdbEngine'
    """
    if isinstance(source, LocalSource):
        return DuckdbEngine()
    match source:
        case PostgresTable():
            from neartwin.engines.postgres import PostgresEngine

            return PostgresEngine()
        case SparkFrame():
            from neartwin.engines.spark import SparkEngine

            return SparkEngine()
        case ServedTable():
            raise source.elsewhere()
        case _:
            assert_never(source)
