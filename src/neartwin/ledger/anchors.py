"""Heads kept elsewhere: in a file, at a URL, or in a Git repository. They prove a rollback that the ledger alone hides."""

import os
import shutil
import subprocess
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from neartwin.errors import LedgerError
from neartwin.ledger.values import Head

_GIT, _NAME = "git:", "ledger.head"
_WEB = ("http://", "https://")
_SECONDS = 20
_IDENTITY = ("-c", "user.name=neartwin", "-c", "user.email=neartwin@localhost", "-c", "commit.gpgsign=false")


def keep(head: Head, place: str) -> None:
    """Keep a head in a place.

    Args:
        head: The head.
        place: A file, the URL of a web server that takes PUT or POST, or git: and a folder of a Git repository. The
            repository gets a commit and, where it has a remote one, a push.

    Raises:
        LedgerError: The place cannot be used.
    """
    if place.startswith(_WEB):
        try:
            _request(place, "PUT", head)
        except HTTPError as refusal:
            if refusal.code not in {405, 501}:
                raise LedgerError(f"the head cannot be kept at {place}: HTTP {refusal.code}") from None
            _request(place, "POST", head)
        return
    folder = Path(place.removeprefix(_GIT))
    path = folder / _NAME if place.startswith(_GIT) else folder
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="ascii") as file:
            file.write(f"{head}\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as fault:
        raise LedgerError(f"the head cannot be kept in {path}: {fault.strerror}") from None
    if place.startswith(_GIT):
        _git(folder, "add", "--", _NAME)
        _git(folder, *_IDENTITY, "commit", "--quiet", "-m", f"Record {head.position}", "--", _NAME)
        if _git(folder, "remote").strip():
            _git(folder, "push", "--quiet")


def kept(place: str) -> Head | None:
    """The head that is kept in a place, or None where there is none yet.

    Args:
        place: As for `keep`.

    Returns:
        The head.

    Raises:
        LedgerError: The place cannot be read.
    """
    if place.startswith(_WEB):
        try:
            text = _request(place, "GET")
        except HTTPError as refusal:
            if refusal.code != 404:
                raise LedgerError(f"the head at {place} cannot be read: HTTP {refusal.code}") from None
            return None
    elif place.startswith(_GIT):
        folder = Path(place.removeprefix(_GIT))
        there = _git(folder, "ls-files", "--", _NAME)  # committed, for whoever wrote it without a commit was cut off
        text = _git(folder, "show", f"HEAD:./{_NAME}") if there else ""
    else:
        path = Path(place)
        text = path.read_text(encoding="ascii") if path.exists() else ""
    return Head.parse(text) if text.strip() else None


def _request(place: str, method: str, head: Head | None = None) -> str:
    body = None if head is None else f"{head}\n".encode()
    request = Request(place, body, {"Content-Type": "text/plain"}, method=method)  # noqa: S310 - http and https alone
    try:
        with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
            content: bytes = answer.read(1000)
            return content.decode("ascii", "replace")
    except HTTPError:
        raise
    except (URLError, OSError) as fault:
        raise LedgerError(f"{place} does not answer: {type(fault).__name__}") from None


def _git(folder: Path, *words: str) -> str:
    program = shutil.which("git")
    if program is None:
        raise LedgerError("a head in a Git repository needs the program git; install it")
    done = subprocess.run(  # noqa: S603 - its own words
        [program, "-C", str(folder), *words], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise LedgerError(f"git {' '.join(words[:1])} failed in {folder}: {done.stderr.strip()[:200]}")
    return done.stdout
