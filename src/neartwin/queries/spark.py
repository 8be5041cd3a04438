"""A Spark DataFrame, or a table of Spark's catalogue, as a source. Nothing here runs a job."""

from dataclasses import dataclass, field
from typing import Any

from neartwin.errors import SchemaError
from neartwin.queries.types import ColumnType, column_type


@dataclass(frozen=True, slots=True)
class SparkFrame:
    """A DataFrame. name: of the catalogue's table that it is, or empty; label: names the snapshot."""

    frame: Any = field(compare=False, repr=False)
    name: str
    label: str

    def schema(self) -> dict[str, ColumnType]:
        """The DataFrame's column names and types."""
        return {name: column_type(kind) for name, kind in self.frame.dtypes}

    def location(self) -> str:
        """A table has the catalogue's name; a DataFrame has no place that outlives the session."""
        return f"spark:{self.name}" if self.name else ""

    def snapshot(self) -> str:
        """The label."""
        return self.label


def is_spark(data: Any) -> bool:
    """Whether this is a Spark session or DataFrame. Imports nothing."""
    return type(data).__module__.startswith("pyspark.sql.") and type(data).__name__ in {"DataFrame", "SparkSession"}


def spark_frame(data: Any, table: str, label: str) -> SparkFrame:
    """A DataFrame, or the table of this name in a session's catalogue."""
    if type(data).__module__.startswith("pyspark.sql.connect"):
        raise SchemaError("Spark Connect is not supported; use a session of SparkSession.builder with a master")
    if type(data).__name__ == "DataFrame":
        _distinct(data)
        return SparkFrame(data, "", label)
    if not table:
        raise SchemaError("table='' must name a table or view of the Spark session")
    if not data.catalog.tableExists(table):
        raise SchemaError(f"table={table!r} is not a table or view of this Spark session")
    found = data.catalog.getTable(table)
    parts = (found.catalog, *(found.namespace or ()), found.name)
    name = "" if found.isTemporary else ".".join(part for part in parts if part)
    frame = data.table(table)
    _distinct(frame)
    return SparkFrame(frame, name, label)


def _distinct(frame: Any) -> None:
    """Unless its session says otherwise, Spark knows no capitals: of two such names it would take neither."""
    exact = str(frame.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
    known: dict[str, str] = {}
    for name in frame.columns:
        key = name if exact else name.lower()
        if key in known:
            raise SchemaError(f"the DataFrame has columns {known[key]!r} and {name!r}, which are one name; rename one")
        known[key] = name
