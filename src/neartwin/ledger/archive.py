"""A whole ledger as JSON lines: records exactly as they lie, documents beside them, the head at the end.

```
{"archive":"neartwin ledger","version":1}
{"body":{...},"kind":"begin","position":1,...}      a record: these bytes are what its hash is made of
{"content":"...base64...","document":4}             the release that record 4 settled
{"head":"12:ab..."}                                 the last line: position and hash of the newest record
```
"""

import base64
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from neartwin.errors import LedgerError
from neartwin.ledger import codec
from neartwin.ledger.replay import Replay
from neartwin.ledger.store import Reading, Writing
from neartwin.ledger.values import Head
from neartwin.ledger.verify import Chain, verified

_FIRST = {"archive": "neartwin ledger", "version": 1}


def lines(page: Reading) -> Iterator[str]:
    """The lines of an archive, without line ends; `LedgerError` for a ledger that is not whole."""
    verdict = verified(page, None)
    if not verdict.whole:
        raise LedgerError(f"the ledger is not whole and cannot be archived: {verdict}")
    yield codec.canonical(_FIRST)
    documents = set(page.document_positions())
    for position, _, line, _ in page.lines():
        yield line
        if position in documents:
            content = base64.b64encode(page.document(position) or b"").decode("ascii")
            yield codec.canonical({"document": position, "content": content})
    yield codec.canonical({"head": str(verdict.head)})


def save(page: Reading, path: Path) -> None:
    """Write an archive to a new file that its owner alone can read; it is on disk when this returns."""
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise LedgerError(f"{path} exists; archives are not written over, give a new name") from None
    except OSError as fault:
        raise LedgerError(f"the archive {path} cannot be made: {fault.strerror}; choose another place") from None
    try:
        with os.fdopen(handle, "w", encoding="ascii", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines(page))
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink()
        raise


def fill(page: Writing, archived: Iterable[str]) -> None:
    """Put an archive's records and documents into an empty ledger; `LedgerError` unless they are whole to the last."""
    chain, replay, head = Chain(), Replay(), None
    numbered = enumerate(archived, start=1)
    if json.loads(next(numbered, (0, "null"))[1]) != _FIRST:
        raise LedgerError("this is no archive of a ledger, or one of a newer neartwin")
    for number, line in numbered:
        text = line.rstrip("\n")
        parts = json.loads(text)
        if head is not None:
            raise LedgerError(f"line {number} of the archive stands after its end")
        if "head" in parts:
            head = Head.parse(parts["head"])
        elif "document" in parts:
            page.store(parts["document"], base64.b64decode(parts["content"], validate=True))
        else:
            _take(page, chain, replay, text)
    if head is None:
        raise LedgerError("the archive is cut off: its last line, with the head, is missing")
    if head.position != chain.position:
        raise LedgerError(f"the archive says it has {head.position} records, it has {chain.position}")
    verdict = verified(page, head)
    if not verdict.whole:
        raise LedgerError(f"the archive is not whole: {verdict}")


def _take(page: Writing, chain: Chain, replay: Replay, line: str) -> None:
    record = chain.take(chain.position + 1, line, codec.digest(line))
    if record is None or chain.faults:
        raise LedgerError(f"the archive is not whole: {chain.faults[0]}")
    if reason := replay.broken(record):
        raise LedgerError(f"the archive is not whole: record {record.position} breaks a rule: {reason}")
    page.take(record)
