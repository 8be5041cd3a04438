"""Heads kept elsewhere: in a file, at a URL, or in a Git repository. They prove a rollback that the ledger alone hides."""

import os
import shutil
import subprocess
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
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
        status, _ = _request(place, "PUT", head)
        if status in {405, 501}:
            status, _ = _request(place, "POST", head)
        if status >= 300:
            raise LedgerError(f"the head cannot be kept at {place}: HTTP {status}")
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
        status, text = _request(place, "GET")
        if status >= 300 and status != 404:
            raise LedgerError(f"the head at {place} cannot be read: HTTP {status}")
    elif place.startswith(_GIT):
        folder = Path(place.removeprefix(_GIT))
        there = _git(folder, "ls-files", "--", _NAME)  # committed, for whoever wrote it without a commit was cut off
        text = _git(folder, "show", f"HEAD:./{_NAME}") if there else ""
    else:
        try:
            text = Path(place).read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            text = ""
        except OSError as fault:
            raise LedgerError(f"the head in {place} cannot be read: {fault.strerror}") from None
    return Head.parse(text) if text.strip() else None


def _request(place: str, method: str, head: Head | None = None) -> tuple[int, str]:
    """The status and the text of an answer. A refusal has no text."""
    body = None if head is None else f"{head}\n".encode()
    try:
        request = Request(place, body, {"Content-Type": "text/plain"}, method=method)  # noqa: S310 - http and https alone
        with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
            return answer.status, answer.read(1000).decode("ascii", "replace")
    except HTTPError as refusal:
        return refusal.code, ""
    except (OSError, HTTPException, ValueError) as fault:
        raise LedgerError(f"{place} does not answer: {type(fault).__name__}") from None


def _git(folder: Path, *words: str) -> str:
    program = shutil.which("git")
    if program is None:
        raise LedgerError("a head in a Git repository needs the program git; install it")
    command = [program, "-C", str(folder), *words]
    try:
        done = subprocess.run(  # noqa: S603 - its own words
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise LedgerError(f"git {words[0]} did not end in {folder}: {type(fault).__name__}") from None
    if done.returncode:
        raise LedgerError(f"git {words[0]} failed in {folder}: {done.stderr.strip()[:200]}")
    return done.stdout
