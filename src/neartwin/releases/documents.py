"""What a ledger stored as the answer of a reservation: one release, the record of a written table, or those of a series.

A release too large for one document: a table of Parquet files, and what the ledger keeps of it.
"""

import json
from dataclasses import asdict, dataclass

from neartwin.accounting.guarantee import Guarantee
from neartwin.errors import ParameterError
from neartwin.releases.release import Release
from neartwin.releases.values import Provenance

_FORMAT = "written-1"  # of the document; a new meaning takes a new number


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRelease:
    """What leaves the house, by its place and digest. Holds nothing exact, and no row of the table.

    place: of the file, or of the folder of files. unfinished: where it lay until the ledger had it. digest: SHA-256 of the
    file's bytes; of a folder, of its data files' digests by name. columns: what each statistic is; its bar stands in
    NAME_lower and NAME_upper. Rows are sorted by key, within each file of a folder.
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
        """Everything, as one JSON document that `from_json` reads back."""
        body = asdict(self) | {"format": _FORMAT, "guarantee": self.guarantee.as_dict()}
        return json.dumps(body, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> "WrittenRelease":
        """The release whose document this is."""
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


def is_written(document: bytes) -> bool:
    """Whether a stored document is of such a release."""
    return bool(json.loads(document).get("format") == _FORMAT)


SERIES_FORMAT = "series-1"  # of the document; a new meaning takes a new number


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
