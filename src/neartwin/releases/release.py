"""A release: noisy statistics with error bars, guarantee and provenance. It is frozen and holds nothing exact."""

import io
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from html import escape
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from neartwin.accounting.guarantee import Guarantee
from neartwin.checks import needed, writable
from neartwin.errors import ParameterError
from neartwin.interactive import aligned, at_a_prompt, html_table
from neartwin.queries.query import SortKey
from neartwin.releases import consistency, postprocess
from neartwin.releases.values import Provenance, Statistic, StatisticsTable, shown
from neartwin.tables.types import UNHELD, ColumnType, json_object

MOST_LINES = 60  # the most groups that the text shows
FORMATS = (".html", ".json", ".csv", ".parquet", ".xlsx")
FORMAT = 1  # of the document that a ledger stores; a new meaning takes a new number


@at_a_prompt("release")
@dataclass(frozen=True, slots=True, kw_only=True)
class Release(StatisticsTable):
    """Noisy statistics with their guarantee and origin. It holds nothing exact.

    Attributes:
        guarantee: The promise to each unit.
    """

    guarantee: Guarantee

    @property
    def headline(self) -> str:
        """Noisy numbers in conditions, the loss to limits and clipping, statistics that noise drowns, open bars; or empty."""
        lost = self.loss or {}
        said = [f"{lost['says']} ({lost['confidence']:.0%} sure{' each' * ('clipped' in lost)})"] if lost else []
        added = any(one.what.startswith(("SUM(", "AVG(")) for one in self.statistics)
        if added and lost.get("beyond") and "totals" not in lost:
            said.append("Totals over groups may miss, as few units lose rows of many groups: ask for a total alone.")
        told = str(self.provenance.method.get("question", {}).get("conditions"))
        if compared := [f"{one.name} = {shown(one, 0)}" for one in self.asked_first if one.values and one.name in told]:
            words = "no bar holds how far off that is. Write a number for bars."
            said.insert(0, f"Rows were compared with {', '.join(compared)}; {words}")
        said += [note for note in self.notes if note.endswith(UNHELD) or note.startswith(("For $", "Groups were kept"))]
        said += ["No group was found: give keys, or ask for fewer groups."] * (self.discovered and not self.keys)
        bars = [(one, median(one.half_widths() or [0.0])) for one in self.statistics]
        to_0 = [
            (it, bar) for it, bar in bars if it.kind is ColumnType.NUMBER and any((end or 0) <= 0 for end in it.lower)
        ]
        if drowned := [one.name for one, bar in to_0 if np.nanmax(np.abs(one.values), initial=0) < bar < math.inf]:
            said.append(f"The bars of {' and '.join(drowned)} exceed the values{self._remedy(limits=False)}.")
        for whole, says in (True, "Nothing bounds the bars of {}"), (False, "The bars of {} have no upper end"):
            if names := [one.name for one, bar in bars if bar == math.inf and (None in one.lower) is whole]:
                said.append(f"{says.format(' and '.join(names))}{self._remedy(limits=not whole)}.")
        return " ".join(said)

    def _remedy(self, *, limits: bool) -> str:
        """What else makes long bars shorter. limits: whether they have a lower end alone, as limits may have taken any number."""
        lost, none = self.loss or {}, {"cut": 0, "cut_at_most": 0, "amount": 0}
        clipped = lost.get("clipped", none)
        rows, changed = (math.inf if one is None else one for one in (lost.get("rows", (0, 0))[1], clipped["amount"]))
        sure = 2 * clipped["cut"] > clipped["cut_at_most"]  # more than noise
        found = ["bounds that fit the values"] * (changed > 0)
        found += ["limits that nobody exceeds with loss_share=0"] * (limits and clipped is none)
        told = "a larger budget" in lost.get("says", "") or (sure and 0 < changed < math.inf and changed >= rows)
        found += ["a larger budget"] * (not told)
        return ": give " * bool(found) + ", or ".join(found)

    def having(self, condition: str) -> "Release":
        """The groups whose noisy values meet a condition. It costs nothing.

        Args:
            condition: A condition over the columns, such as `n > 100 AND town <> 'Ulm'`.

        Returns:
            The new release.

        Raises:
            QueryError: The condition is not allowed.
        """
        return postprocess.having(self, condition)

    def order_by(self, *columns: str | SortKey) -> "Release":
        """The groups ordered by columns, with NULL last. It costs nothing.

        Args:
            columns: Names of columns; `("n", True)` descends, and `("town", False, True)` has NULL first.

        Returns:
            The new release.
        """
        return postprocess.order_by(self, *columns)

    def limit(self, groups: int) -> "Release":
        """The first groups.

        Args:
            groups: The largest number of groups.

        Returns:
            The new release.
        """
        return postprocess.limit(self, groups)

    def margin(self, *columns: str) -> "Release":
        """One margin of a release of marginals, grouped by its own columns alone.

        Args:
            columns: The columns of the margin; none for the total.

        Returns:
            The release of the margin.
        """
        return postprocess.margin(self, *columns)

    def ratio(self, top: Any, bottom: Any) -> "Release":
        """The values of one group over those of another, with bars: a release of one row.

        Args:
            top: The key of a group: a value, or a tuple if there are several group columns.
            bottom: The key of the group by which is divided.

        Returns:
            The new release.
        """
        return postprocess.compared(self, (top, bottom), "over")

    def computed(self, name: str, text: str) -> "Release":
        """Add a statistic that is computed of others in each group, with a bar.

        Args:
            name: The name of the new statistic.
            text: A SQL expression over the statistics, such as `100 * total / n` or `n / SUM(n) OVER ()`.

        Returns:
            The new release.

        Raises:
            QueryError: The expression is not understood.
        """
        return postprocess.computed(self, name, text)

    def difference(self, first: Any, second: Any) -> "Release":
        """The values of one group less those of another, with bars: a release of one row.

        Args:
            first: The key of a group: a value, or a tuple if there are several group columns.
            second: The key of the group that is subtracted.

        Returns:
            The new release.

        >>> import neartwin as nt, pyarrow as pa
        >>> data = pa.table({"who": range(200), "town": ["Ulm"] * 150 + ["Bonn"] * 50})
        >>> rows = nt.table(data, unit="who", name="visits")
        >>> towns = rows.group_by("town", keys=["Bonn", "Ulm"]).agg(n=nt.count_distinct_units())
        >>> with nt.open_ledger(getfixture("tmp_path") / "budget.db") as ledger:
        ...     account = ledger.open(rows, nt.pure(9))
        ...     release = account.release(account.plan(towns, spend=nt.pure(9), limits=nt.limits(max_groups=1)))
        >>> release.difference("Ulm", "Bonn").keys
        (('Ulm less Bonn',),)
        >>> release.difference("Ulm", "Bonn")["n"].lower[0] > 80
        True
        """
        return postprocess.compared(self, (first, second), "less")

    def top(self, groups: int, by: str) -> "Release":
        """The groups with the largest values, in order. A note says which neighbours in the order are told apart.

        Args:
            groups: The largest number of groups.
            by: A statistic.

        Returns:
            The new release.
        """
        return postprocess.top(self, groups, by)

    def non_negative(self, *names: str) -> "Release":
        """Cut statistics and their bars at 0, for example counts.

        Args:
            names: The statistics.

        Returns:
            The new release.
        """
        return consistency.non_negative(self, *names)

    def monotone(self, *names: str, increasing: bool = True) -> "Release":
        """Replace values by the nearest ones that only grow along the groups in their order, or only fall.

        Args:
            names: The statistics.
            increasing: Whether values grow.

        Returns:
            The new release.
        """
        return consistency.monotone(self, *names, increasing=increasing)

    def to_arrow(self) -> pa.Table:
        """One row a group: the group columns, then each statistic with `_lower` and `_upper`, null where a bar is open."""
        columns: dict[str, Any] = {name: [key[i] for key in self.keys] for i, name in enumerate(self.group_columns)}
        for statistic in self.statistics:
            columns[statistic.name] = _ends(statistic.meant(statistic.values))
            columns[f"{statistic.name}_lower"] = _ends(statistic.meant(statistic.lower))
            columns[f"{statistic.name}_upper"] = _ends(statistic.meant(statistic.upper))
        return pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """A pandas DataFrame (extra `pandas`)."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A Polars DataFrame (extra `polars`)."""
        import polars as pl

        return pl.from_arrow(self.to_arrow())

    def to_json(self) -> str:
        """The whole release as one JSON document; `from_json` reads it."""
        body = {
            "format": FORMAT,
            "group_columns": self.group_columns,
            "keys": self.keys,
            "statistics": [
                _fields(one) | {"values": [None if math.isnan(v) else v for v in one.values]} for one in self.statistics
            ],
            "confidence": self.confidence,
            "guarantee": self.guarantee.as_dict(),
            "notes": self.notes,
            "provenance": _fields(self.provenance),
        } | ({} if self.loss is None else {"loss": self.loss})
        return json_object(body)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Release":
        """The release of a document.

        Args:
            text: The JSON document.

        Returns:
            The release.

        Raises:
            ParameterError: The document has another version.
        """
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> "Release":
        """The release of a document that was read as JSON. See `from_json`."""
        if body.get("format") != FORMAT:
            raise ParameterError(
                "format", body.get("format"), f"must be {FORMAT}", remedy="read it with a newer neartwin"
            )
        return cls(
            group_columns=tuple(body["group_columns"]),
            keys=tuple(
                tuple(date.fromisoformat(v["date"]) if isinstance(v, dict) else v for v in key) for key in body["keys"]
            ),
            statistics=tuple(_statistic(part) for part in body["statistics"]),
            confidence=body["confidence"],
            guarantee=Guarantee.from_dict(body["guarantee"]),
            notes=tuple(body["notes"]),
            provenance=Provenance(**body["provenance"]),
            loss=body.get("loss"),
        )

    def to_csv(self) -> str:
        """The table of `to_arrow` as CSV text. A quotation mark goes before text that spreadsheets read as a formula."""
        buffer, table = io.BytesIO(), self.to_arrow()
        for place, column in enumerate(table.columns):
            if column.type == pa.string():
                table = table.set_column(place, table.field(place), _no_formula(column))
        table = table.rename_columns(_no_formula(pa.array(table.column_names)).to_pylist())
        pacsv.write_csv(table, buffer)
        return buffer.getvalue().decode()

    def write(self, path: str | Path) -> Path:
        """Write to a file, in the format of its ending: .json, .csv, .parquet (with the guarantee in its metadata) or .xlsx.

        Beside a .csv stands a file of metadata, NAME.csv-metadata.json as in W3C's CSV on the Web, with what the limits took.

        Args:
            path: The file.

        Returns:
            Its path.

        Raises:
            ParameterError: The ending is another one, or the file cannot be written.
        """
        target = writable(endings=FORMATS, path=path)
        match target.suffix.lower():
            case ".json":
                target.write_text(self.to_json(), encoding="utf-8")
            case ".csv":
                target.write_text(self.to_csv(), encoding="utf-8")
                about = {"@context": "http://www.w3.org/ns/csvw", "url": target.name, "guarantee": str(self.guarantee)}
                about |= {"dc:description": " ".join([self.headline, *self.notes])}
                Path(f"{target}-metadata.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
            case ".parquet":
                metadata = {"neartwin.guarantee": str(self.guarantee), "neartwin.release": self.to_json()}
                pq.write_table(self.to_arrow().replace_schema_metadata(metadata), target)
            case ".xlsx":
                _write_excel(target, self)
            case _:
                raise ParameterError("path", str(path), "is a page", remedy=f"write nt.save(release, {str(path)!r})")
        return target

    def lines(self, places: Iterable[int] | None = None) -> list[list[str]]:
        """Header and rows as text, `value ± half-width`, for terminals and pages.

        Args:
            places: The places of the groups, from 0; None for all.

        Returns:
            The cells of each line.
        """
        header = [*self.group_columns, *(statistic.name for statistic in self.statistics)]
        body = [
            [*("(none)" if one is None else str(one) for one in self.keys[i]), *(shown(s, i) for s in self.statistics)]
            for i in (range(len(self)) if places is None else places)
        ]
        return [header, *body]

    def __repr__(self) -> str:
        names = ", ".join(statistic.name for statistic in self.statistics) or "names alone"
        by = f" by {', '.join(self.group_columns)}" if self.group_columns else ""
        return f"<Release of {self.provenance.population!r}: {len(self)} groups{by}, {names}; {self.guarantee}>"

    def __str__(self) -> str:
        text = aligned(self.lines(range(len(self))[:MOST_LINES]), len(self.group_columns))
        more = [f"... {len(self) - MOST_LINES} more groups"] if len(self) > MOST_LINES else []
        headline = self.headline
        notes = [note for note in self.notes if note not in headline]
        return "\n".join(filter(None, [headline, *text, *more, str(self.guarantee), *notes]))

    def _repr_html_(self) -> str:
        table = html_table(self.lines(range(len(self))[:100]), len(self.group_columns))
        more = f"<p>{len(self) - 100} more groups</p>" if len(self) > 100 else ""
        promise = f"<p><b>{escape(str(self.guarantee))}.</b> {escape(self.guarantee.describe())}</p>"
        headline = self.headline
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes if note not in headline)
        first, dot, rest = map(escape, headline.partition(". "))
        top = f"<p><b>{first}{dot}</b>{rest}</p>" if first else ""
        return f"{top}{table}{more}{promise}<ul>{notes}</ul>"


def _no_formula(texts: Any) -> Any:
    """The texts, with a quotation mark before those that spreadsheets read as a formula (OWASP, CSV injection).

    Some spreadsheets read the signs of full width, which stand last, as those of ASCII.
    """
    return pc.replace_substring_regex(texts, r"\A([=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}])", r"'\1")


def _write_excel(target: Path, release: "Release") -> None:
    """A sheet of `to_arrow`, and one of the guarantee and the notes. Text is never a formula."""
    (openpyxl,) = needed("excel", "openpyxl")
    book, odd = openpyxl.Workbook(write_only=True), openpyxl.cell.cell.ILLEGAL_CHARACTERS_RE  # XML has no such letter
    numbers, words = book.create_sheet("release"), book.create_sheet("notes")
    table = release.to_arrow()
    for row in (table.column_names, *(record.values() for record in table.to_pylist())):
        texts = (odd.sub("\ufffd", value) if isinstance(value, str) else value for value in row)
        cells = [openpyxl.cell.WriteOnlyCell(numbers, value) for value in texts]
        for cell in cells:
            cell.data_type = "s" if isinstance(cell.value, str) else cell.data_type
        numbers.append(cells)
    for line in (str(release.guarantee), release.guarantee.describe(), release.headline, *release.notes):
        words.append([line])
    book.save(target)


_OPEN = (-sys.float_info.max, sys.float_info.max)  # ends of open bars in documents older than null


def _statistic(part: dict[str, Any]) -> Statistic:
    ends = {name: tuple(None if end in _OPEN else end for end in part[name]) for name in ("lower", "upper")}
    ends["values"] = tuple(math.nan if value is None else value for value in part["values"])  # always the same NaN
    noise = part.get("noise") and tuple(map(tuple, part["noise"]))
    return Statistic(**part | ends | {"kind": ColumnType(part.get("kind", "number")), "noise": noise})


def _ends(ends: Sequence[Any]) -> pa.Array:
    """A column of values, or of ends of bars. One with open ends or undefined values alone is of doubles too."""
    column = pa.array(ends)
    return column.cast(pa.float64()) if pa.types.is_null(column.type) else column


def _fields(value: Any) -> dict[str, Any]:
    """A value's fields as they are: `dataclasses.asdict` copies every number of every group."""
    every = {field.name: getattr(value, field.name) for field in fields(value)}
    new = (("kind", ColumnType.NUMBER), ("noise", None))  # which documents do not say, as before there were others
    return {name: one for name, one in every.items() if (name, one) not in new}


_Part = TypeVar("_Part")
WRITTEN_FORMAT = "written-1"  # of the document; a new meaning takes a new number


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
        body = asdict(self) | {"format": WRITTEN_FORMAT, "guarantee": self.guarantee.as_dict()}
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
        if body.pop("format", None) != WRITTEN_FORMAT:
            raise ParameterError("format", "?", f"must be {WRITTEN_FORMAT}", remedy="read it with a newer neartwin")
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
    return (
        WrittenRelease.from_json(json.dumps(part)) if part.get("format") == WRITTEN_FORMAT else Release.from_dict(part)
    )


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
