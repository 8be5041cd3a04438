"""A ledger's stored answer to a reservation: one release, the record of a written table, or those of a series.

A release too large for one document is a table of Parquet files, and the ledger stores its record.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from neartwin.accounting.guarantee import Guarantee
from neartwin.errors import ParameterError
from neartwin.releases.release import Release
from neartwin.releases.values import Provenance

_Part = TypeVar("_Part")
_FORMAT = "written-1"  # of the document; a new meaning takes a new number


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRelease:
    """A release in Parquet files, by its place and digest. It holds nothing exact, and no row of the table.

    Rows are sorted by key, within each file of a folder. A statistic's bar stands in NAME_lower and NAME_upper.

    Attributes:
        place: The file, or the folder of files.
        unfinished: Its place until the ledger had it.
        digest: SHA-256 of the file's bytes; for a folder, of its data files' digests by name.
        group_columns: The group columns.
        columns: Name and description of each statistic.
        confidence: The confidence of the bars.
        guarantee: The promise to each unit.
        notes: Notes for the reader.
        provenance: The origin of the release.
    """

    place: str
    unfinished: str
    digest: str
    group_columns: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    confidence: float
    guarantee: Guarantee
    notes: tuple[str, ...]
    provenance: Provenance

    def to_json(self) -> str:
        """The whole record as one JSON document; `from_json` reads it."""
        body = asdict(self) | {"format": _FORMAT, "guarantee": self.guarantee.as_dict()}
        return json.dumps(body, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> "WrittenRelease":
        """The record of a document.

        Args:
            text: The JSON document.

        Returns:
            The record.

        Raises:
            ParameterError: The document has another version.
        """
        body = json.loads(text)
        if body.pop("format", None) != _FORMAT:
            raise ParameterError("format", "?", f"must be {_FORMAT}", remedy="read it with a newer neartwin")
        return cls(
            **body
            | {
                "group_columns": tuple(body["group_columns"]),
                "columns": tuple((name, what) for name, what in body["columns"]),
                "guarantee": Guarantee.from_dict(body["guarantee"]),
                "notes": tuple(body["notes"]),
                "provenance": Provenance(**body["provenance"]),
            }
        )


def parts_in(document: bytes) -> list[dict[str, Any]]:
    """The releases in a stored document as JSON data, those of a series in the order of its questions."""
    body = json.loads(document)
    return body["releases"] if body.get("format") == SERIES_FORMAT else [body]


def answer_text(position: int | None = None, document: bytes = b"") -> str:
    """A stored answer as a service sends it: JSON with its position, its release, and for a series all of its releases.

    Args:
        position: The position of its record, or None for no answer yet.
        document: The document.
    """
    parts = parts_in(document) if document else [None]
    return json.dumps({"position": position, "release": parts[0], "releases": parts if len(parts) > 1 else None})


SERIES_FORMAT = "series-1"  # of the document; a new meaning takes a new number


def releases_in(document: bytes) -> tuple[Release | WrittenRelease, ...]:
    """The releases in a stored document, those of a series in the order of its questions."""
    return tuple(map(release_of, parts_in(document)))


def release_in(document: bytes, part: int = 1) -> Release | WrittenRelease:
    """One release of a stored document.

    Args:
        document: The document.
        part: The number of the release, from 1.

    Returns:
        The release, or the record of a written one.

    Raises:
        ParameterError: The document has no such part.
    """
    return release_of(one_of_parts(parts_in(document), part))


def release_of(part: dict[str, Any]) -> Release | WrittenRelease:
    """One of `parts_in`, as a release or the record of a written one."""
    return WrittenRelease.from_json(json.dumps(part)) if part.get("format") == _FORMAT else Release.from_dict(part)


def one_of_parts(parts: Sequence[_Part], part: int) -> _Part:
    """One part of a document.

    Args:
        parts: The parts.
        part: The number of the part, from 1.

    Returns:
        The part.

    Raises:
        ParameterError: The document has no such part.
    """
    if not 1 <= part <= len(parts):
        raise ParameterError("part", part, f"must be from 1 to {len(parts)}")
    return parts[part - 1]
