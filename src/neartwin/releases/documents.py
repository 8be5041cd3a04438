"""What a ledger stored as the answer of a reservation: one release, the record of a written table, or those of a series."""

import json

from neartwin.errors import ParameterError
from neartwin.releases.release import Release
from neartwin.releases.series import SERIES_FORMAT
from neartwin.releases.written import WrittenRelease, is_written


def releases_in(document: bytes) -> tuple[Release | WrittenRelease, ...]:
    """The releases in a stored document, those of a series in the order of its questions."""
    if is_written(document):
        return (WrittenRelease.from_json(document),)
    body = json.loads(document)
    if body.get("format") == SERIES_FORMAT:
        return tuple(Release.from_json(json.dumps(part)) for part in body["releases"])
    return (Release.from_json(document),)


def release_in(document: bytes, part: int = 1) -> Release | WrittenRelease:
    """One of them, counted from 1; `ParameterError` where there are not so many."""
    found = releases_in(document)
    if not 1 <= part <= len(found):
        raise ParameterError("part", part, f"must be from 1 to {len(found)}")
    return found[part - 1]
