"""One DuckDB in memory that is kept between questions: to start one takes longer than many an answer. It holds no rows.

Each question has a connection of its own to it, and the names that it makes are temporary ones of that connection, gone when it
closes. No database file is kept open, for that would lock its writers out. What DuckDB would remember of files that it read is
turned off, and one that worked from disk ends with its question: nothing private outlives it, and no old state of a file is mixed
with a new one. A process that was forked
starts its own, since threads do not survive a fork; and after any error of DuckDB the next question has a fresh one, since an
instance that failed inside answers nothing more.
"""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

_FORGETFUL = {"enable_external_file_cache": False}
_FOLDER = ".tmp"  # where DuckDB works from disk if nothing else is said
_lock = threading.Lock()
_kept: dict[object, Any] = {}  # one at most, by its settings


@contextlib.contextmanager
def memory_connection(settings: Mapping[str, str | int]) -> Iterator[Any]:
    """A connection to an empty database in memory, with these settings, for one question."""
    key = tuple(sorted(settings.items()))
    with _lock:
        instance = _kept.get(key)
        if instance is None:
            instance = duckdb.connect(config={**settings, **_FORGETFUL})
            in_utc(instance, "GLOBAL")
            _kept.clear()
            _kept[key] = instance
        connection = instance.cursor()
    try:
        with contextlib.closing(connection):
            yield connection
    except duckdb.Error:
        _forget(key, instance)
        raise
    if Path(str(settings.get("temp_directory", _FOLDER))).is_dir():  # it worked from disk, and clears that when it ends
        _forget(key, instance)
        instance.close()


def in_utc(connection: Any, scope: str = "SESSION") -> None:
    """Times with a zone are of UTC, in this cursor or all of an instance; else their parts would be those of the machine."""
    with contextlib.suppress(duckdb.Error):  # a DuckDB without time zones has no times that need one
        connection.execute(f"SET {scope} TimeZone = 'UTC'")


def _forget(key: object, instance: Any) -> None:
    with _lock:
        if _kept.get(key) is instance:
            del _kept[key]


def _after_fork() -> None:
    """In the child: start anew. What was inherited is never closed, for that would wait for threads that are not there."""
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it
    _lock = threading.Lock()
    for instance in _kept.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(instance))
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
