"""Tables that DuckDB reads as streams of Arrow: Delta and Iceberg at a fixed version, and Parquet files of a store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from neartwin.errors import SchemaError
from neartwin.tables.files import filesystem
from neartwin.tables.types import ColumnType, column_type, require_told_apart


@dataclass(frozen=True, slots=True)
class LakeTable:
    """One version of a Delta or Iceberg table.

    Attributes:
        place: The name of the place in the ledger.
        version: The version.
        columns: The columns in Arrow.
        read: Opens a new reader of the named columns.
    """

    place: str
    version: str
    columns: pa.Schema = field(compare=False, repr=False)
    read: Callable[[Sequence[str]], Any] = field(compare=False, repr=False)

    def schema(self) -> dict[str, ColumnType]:
        """The columns of this version."""
        require_told_apart(self.columns.names, self.place)
        return {one.name: column_type(str(one.type)) for one in self.columns}

    def location(self) -> str:
        """The name of the place in the ledger."""
        return self.place

    def snapshot(self) -> str:
        """The version. The table's own writers advance it."""
        return self.version


@dataclass(frozen=True, slots=True)
class Stream:
    """Columns of a table as a stream of Arrow that DuckDB opens anew for each scan.

    Attributes:
        read: Opens a new reader of the named columns.
        names: The columns.
    """

    read: Callable[[Sequence[str]], Any]
    names: Sequence[str]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.read(self.names).__arrow_c_stream__(requested_schema)


def remote_parquet(urls: Sequence[str], folders: Sequence[str]) -> Any:
    """Parquet files of a store.

    Args:
        urls: The files.
        folders: The columns that their folders give.

    Returns:
        The files, a dataset of Arrow, of which nothing but the first footer is read.
    """
    import pyarrow.dataset as ds  # it imports pandas, and most releases need neither

    files = filesystem(urls[0])
    hive = ds.partitioning(pa.schema([(name, pa.string()) for name in folders]), flavor="hive")
    paths = [str(files._strip_protocol(url)) for url in urls]  # noqa: SLF001 - fsspec's own name for it
    return ds.dataset(paths, format="parquet", filesystem=files, partitioning=hive)


def batches_of(files: Any, names: Sequence[str]) -> Any:
    """A new reader of some columns.

    Args:
        files: The files, a dataset of Arrow.
        names: The columns.
    """
    return files.scanner(columns=list(names)).to_reader()


def is_lake(data: Any) -> bool:
    """Whether this is a table of deltalake or pyiceberg, or the path of one. It imports nothing."""
    if isinstance(data, str | Path):
        return str(data).endswith(".metadata.json") or (Path(data) / "_delta_log").is_dir()
    return (type(data).__module__.partition(".")[0], type(data).__name__) in {
        ("deltalake", "DeltaTable"), ("pyiceberg", "Table"), ("pyiceberg", "StaticTable"),
    }  # fmt: skip


def lake_table(data: Any) -> LakeTable:
    """The present version of a table.

    Args:
        data: A table of deltalake or pyiceberg. Or the path of a Delta folder, or of a metadata file of Iceberg.

    Returns:
        The source.

    Raises:
        SchemaError: A package is missing, or the table cannot be read.
    """
    try:
        if isinstance(data, str | Path):
            data = _opened(str(data))
        return _delta(data) if type(data).__name__ == "DeltaTable" else _iceberg(data)
    except ImportError as fault:
        raise SchemaError(f"Delta and Iceberg need their packages: pip install 'neartwin[lakes]' ({fault})") from None
    except SchemaError:
        raise
    except Exception as fault:  # noqa: BLE001 - of either package
        raise SchemaError(f"the table cannot be read: {fault}") from None


def _opened(path: str) -> Any:
    if path.endswith(".metadata.json"):
        from pyiceberg.table import StaticTable

        return StaticTable.from_metadata(path)
    from deltalake import DeltaTable

    return DeltaTable(path)


def _delta(table: Any) -> LakeTable:
    files = table.to_pyarrow_dataset()
    return LakeTable(
        f"delta:{_place(table.table_uri)}",
        f"{table.metadata().id} version {table.version()}",
        files.schema,
        partial(batches_of, files),
    )


def _iceberg(table: Any) -> LakeTable:
    state = table.current_snapshot()
    if state is None:
        raise SchemaError(f"the table {table.location()!r} has no snapshot yet; write rows first")
    scan = table.scan(snapshot_id=state.snapshot_id)
    return LakeTable(
        f"iceberg:{_place(table.location())}",
        f"{table.metadata.table_uuid} snapshot {state.snapshot_id}",
        scan.projection().as_arrow(),
        lambda names: scan.select(*names).to_arrow_batch_reader(),
    )


def _place(uri: str) -> str:
    """A local folder by its resolved path, and any other by its URL."""
    parts = urlsplit(uri)
    return uri.rstrip("/") if parts.scheme not in {"", "file"} else str(Path(unquote(parts.path)).resolve())
