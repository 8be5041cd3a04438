"""DuckDB connections for one question each: to files, databases, frames, and the connections of others.

One in-memory DuckDB is reused between questions, because starting one takes 15 ms. It holds no rows. Each question has
its own connection to it, with temporary names. No database file stays open, because that would lock its writers out.
DuckDB's cache of files is off. An instance that worked from disk gets no new question, and ends with its last one. So
nothing private outlives a question, and old and new states of a file never mix.

A forked process starts its own instance, because threads do not survive a fork. After any error of DuckDB the next
question gets a fresh instance, because one with an internal error answers nothing more.
"""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, assert_never

import duckdb
from sqlglot import exp

from neartwin.tables import sources as kinds
from neartwin.tables.files import quoted
from neartwin.tables.ingestion import in_utc
from neartwin.tables.sources import LakeTable, Stream, batches_of, remote_parquet

_attaching = threading.RLock()  # a question may ask a second time while it holds rows
_SILENT = "SET enable_progress_bar = false"  # a terminal or notebook would show how far it is, in rows that are nobody's to see


@contextlib.contextmanager
def opened(
    sources: Sequence[kinds.Source], columns: Sequence[tuple[str, ...]], settings: dict[str, str | int]
) -> Iterator[tuple[Any, list[exp.Expr]]]:
    """A connection, and the FROM clause of each source, for the life of the context.

    The connection is a cursor of the caller's connection, if a source is behind one; else it is our own. Sources behind
    the connections of two callers are never joined.

    Args:
        sources: The sources.
        columns: The needed columns of each source.
        settings: Settings of a connection of our own.

    Yields:
        The connection, and the FROM clauses.
    """
    local = [source for source in sources if isinstance(source, kinds.LocalSource)]
    if len(local) != len(sources):
        others = {type(source).__name__ for source in sources}
        raise TypeError(f"DuckDB cannot read {others}")
    with _connection(local, settings) as connection, contextlib.ExitStack() as undone:
        yield (
            connection,
            [
                _register(connection, source, needed, f"neartwin_{place}", undone)
                for place, (source, needed) in enumerate(zip(local, columns, strict=True))
            ],
        )


@contextlib.contextmanager
def _connection(sources: list[kinds.LocalSource], settings: dict[str, str | int]) -> Iterator[Any]:
    """For one question. What is attached to an instance is seen by all its questions, and gone for all when one lets it go.

    So databases are attached to an instance that no other question has; one alone is opened and not attached; and where they join
    their owner's connection, one question waits for the other.
    """
    databases = {source.path for source in sources if isinstance(source, kinds.DuckdbTable)}
    for source in sources:
        if isinstance(source, kinds.DuckdbConnection):
            one_by_one = _attaching if databases else contextlib.nullcontext()
            with one_by_one, contextlib.closing(source.connection.cursor()) as cursor:
                in_utc(cursor)
                yield cursor
            return
    if not databases:
        with memory_connection(settings) as connection:
            yield connection.execute(_SILENT)
        return
    only = {"database": next(iter(databases)), "read_only": True} if len(databases) == 1 else {}
    with duckdb.connect(**only, config=settings) as connection:
        in_utc(connection)
        yield connection.execute(_SILENT)


def _register(
    connection: Any, source: kinds.LocalSource, columns: tuple[str, ...], name: str, undone: contextlib.ExitStack
) -> exp.Expr:
    """The relation of a source in FROM. Its names go with the connection; `undone` detaches what other connections see."""
    match source:
        case kinds.DuckdbTable(path=path, table=table):
            return _of_database(connection, path, table, name, undone)
        case kinds.ParquetFiles(paths=paths) if "://" in paths[0]:
            remote = remote_parquet(paths, kinds.folder_columns(paths[0]))
            connection.register(name, Stream(partial(batches_of, remote), columns or remote.schema.names[:1]))
        # a value of a column that no statement names is not even converted
        case kinds.ParquetFiles() | kinds.ImportedFiles():
            folders = ("hive_partitioning", exp.true()), ("hive_types_autocast", exp.false())
            files, given = ((source.copy,), ()) if isinstance(source, kinds.ImportedFiles) else (source.paths, folders)
            options = [exp.EQ(this=exp.to_identifier(name), expression=value) for name, value in given]
            read = exp.Array(expressions=list(map(exp.Literal.string, files)))
            return exp.Table(this=exp.Anonymous(this="read_parquet", expressions=[read, *options]))
        case kinds.DuckdbConnection(text=text):
            return exp.Table(this=exp.Var(this=text))
        case LakeTable(columns=held, read=read):
            connection.register(name, Stream(read, columns or held.names[:1]))
        case kinds.Frame(frame=frame):
            connection.register(name, frame.select(columns or frame.column_names[:1]))
        case _:
            assert_never(source)
    return exp.table_(name, quoted=True)


def _of_database(connection: Any, path: str, table: str, name: str, undone: contextlib.ExitStack) -> exp.Expr:
    """A table of a database file: of the connection's own, or of one that is attached for reading."""
    known = connection.execute("SELECT database_name FROM duckdb_databases() WHERE path = ?", [path]).fetchall()
    if not known:
        connection.execute(f"ATTACH {quoted(path)} AS {name} (READ_ONLY)")
        undone.callback(connection.execute, f"DETACH {name}")
    return exp.table_(table, db="main", catalog=known[0][0] if known else name, quoted=True)


_lock = threading.Lock()
_instances: dict[object, Any] = {}  # at most one, by its settings


@contextlib.contextmanager
def memory_connection(settings: Mapping[str, str | int]) -> Iterator[Any]:
    """A connection to an empty database in memory, for one question.

    Args:
        settings: Its settings.

    Yields:
        The connection.
    """
    key = tuple(sorted(settings.items()))
    with _lock:
        instance = _instances.get(key)
        if instance is None:
            instance = in_utc(duckdb.connect(config={**settings, "enable_external_file_cache": False}), "GLOBAL")
            _instances.clear()
            _instances[key] = instance
        connection = instance.cursor()
    try:
        with contextlib.closing(connection):
            yield connection
    except duckdb.Error:
        _forget(key, instance)
        raise
    # A folder of temporary files, perhaps of another process: the instance gets no new question, and its own files go with its
    # last one. Closing it would close the connections of all other questions.
    if Path(str(settings.get("temp_directory", ".tmp"))).is_dir():
        _forget(key, instance)


def _forget(key: object, instance: Any) -> None:
    with _lock:
        if _instances.get(key) is instance:
            del _instances[key]


def _after_fork() -> None:
    """In the child: start anew. What was inherited is never closed, for that would wait for threads that are not there."""
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it
    _lock = threading.Lock()
    for instance in _instances.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(instance))
    _instances.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
