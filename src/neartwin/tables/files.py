"""Files by path, glob, folder or URL: which there are, what the file system says of them, and their bytes.

A URL is read through fsspec, whose packages an installation may lack. Credentials come from their own configuration.
"""

import glob
import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import Any

from neartwin.errors import SchemaError

_LASTING = re.compile("name|size|etag|last-?modified|content-md5|digest|mtime|created", re.IGNORECASE)
_END = 2**20  # bytes from either end by which a copy is known


def is_remote(path: str) -> bool:
    """Whether a path is a URL.

    >>> is_remote("s3://clinic/visits.parquet"), is_remote("visits.parquet")
    (True, False)
    """
    return "://" in path


def quoted(text: str) -> str:
    """A path or name as a text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def filesystem(url: str) -> Any:
    """The file system of a URL, by fsspec.

    Args:
        url: The URL.

    Returns:
        The file system.

    Raises:
        SchemaError: A package is missing, or the URL names no known protocol or holds a secret.
    """
    protocol, _, rest = url.partition("://")
    if "@" in rest.partition("/")[0] or (protocol.startswith("http") and "?" in rest):
        raise SchemaError(
            f"a URL of {protocol} must hold no password and no query; give these to fsspec's configuration"
        )
    try:
        import fsspec

        return fsspec.filesystem(protocol)
    except ImportError as fault:
        raise SchemaError(
            f"path={url!r} is on another machine: pip install 'neartwin[remote]', or copy the file here ({fault})"
        ) from None
    except (ValueError, TypeError, AttributeError) as fault:  # of an unknown protocol, or one that wants a host
        raise SchemaError(f"path={url!r} cannot be read: {fault}; copy the file here") from None


def matched(path: str) -> tuple[str, ...]:
    """The files of a path, a URL, a glob, or a folder of Parquet files, sorted.

    Args:
        path: The path, URL, glob or folder.

    Returns:
        The absolute paths, or the URLs.

    Raises:
        SchemaError: There is no such file.
    """
    if path.startswith(("file://", "local://")):  # a file of this machine has one name in a ledger
        path = path.rpartition("://")[2]
    if is_remote(path):
        paths = _remote(path)
    else:
        pattern = str(Path(glob.escape(path)) / "**" / "*.parquet") if Path(path).is_dir() else path
        found = [pattern] if Path(pattern).is_file() else glob.glob(pattern, recursive=True)  # noqa: PTH207 - with roots
        paths = tuple(dict.fromkeys(str(Path(match).resolve()) for match in sorted(found)))  # a link is no second file
    if lake := next((one for one in paths if is_remote(one) and "/_delta_log/" in one), ""):
        raise SchemaError(f"path={path!r} holds a Delta table ({lake!r}); give the DeltaTable")
    for folder in {} if is_remote(path) else {parent for one in paths for parent in Path(one).parents}:
        if (folder / "_delta_log").is_dir():
            raise SchemaError(f"path={path!r} holds a Delta table; give its folder {str(folder)!r}, or the DeltaTable")
        if next(folder.glob("metadata/*.metadata.json"), None):
            raise SchemaError(f"path={path!r} holds an Iceberg table; give a file of {str(folder / 'metadata')!r}")
    if not paths:
        raise SchemaError(
            f"path={path!r} matches no file; check its name and the folder; for all CSV write {path}/*.csv"
        )
    return paths


def _remote(url: str) -> tuple[str, ...]:
    files = filesystem(url)
    try:
        files.invalidate_cache()
        if glob.has_magic(url):
            found = files.glob(url)
        elif files.isdir(url) and not files.isfile(url):
            found = [one for one in files.find(url) if one.endswith(".parquet") or "/_delta_log/" in one]
        else:
            found = [url] if files.exists(url) else []
    except Exception as fault:  # noqa: BLE001 - of any package
        raise SchemaError(
            f"path={url!r} cannot be reached ({type(fault).__name__}); check address and credentials"
        ) from None
    return tuple(sorted(files.unstrip_protocol(one) for one in found))


def files_state(paths: Sequence[str]) -> str:
    """A digest of what the file system says of files, without opening them.

    Args:
        paths: The files.

    Returns:
        64 hexadecimal digits.

    Raises:
        SchemaError: A file is gone.
    """
    facts: list[object] = []
    for path in paths:
        try:
            if "://" in path:
                facts.append(_facts(path))
                continue
            stat = Path(path).stat()
        except OSError:
            raise SchemaError(
                f"path={path!r} is not there any more, or may not be read; open the table again"
            ) from None
        facts.append((path, stat.st_size, stat.st_mtime_ns, stat.st_ino))
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _facts(url: str) -> list[tuple[str, str]]:
    """Size, time and tag, without the server's words about this one request."""
    files = filesystem(url)
    files.invalidate_cache()
    facts = files.info(url)
    return sorted((name, str(value)) for name, value in facts.items() if _LASTING.fullmatch(name))


def binary(path: str) -> Any:
    """The bytes of a file or URL, as an open file.

    Args:
        path: The path or URL.

    Returns:
        The file, to be closed.

    Raises:
        OSError: It cannot be opened.
    """
    return filesystem(path).open(path, "rb") if is_remote(path) else Path(path).open("rb")


def bytes_of(place: str) -> tuple[object, ...]:
    """The facts that all links and copies of a file share.

    Args:
        place: The name of a source in a ledger.

    Returns:
        The size, a digest of the first and the last mebibyte, and the table; empty for anything but a file of this machine.
    """
    path, _, table = place.partition(":")[2].partition("#")
    try:
        stat = Path(path).stat()
        digest = _ends(path, stat.st_size, stat.st_mtime_ns) if S_ISREG(stat.st_mode) else ""
    except (OSError, ValueError):
        return ()
    return (stat.st_size, digest, table) if digest else ()


@lru_cache(maxsize=1024)
def _ends(path: str, size: int, written: int) -> str:  # noqa: ARG001 - a file that was written since is another one
    with Path(path).open("rb") as file:
        first = file.read(_END)
        file.seek(max(size - _END, 0))
        return hashlib.sha256(first + file.read(_END)).hexdigest()
