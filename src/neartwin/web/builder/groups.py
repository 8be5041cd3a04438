"""Groups by what is computed of a column, as fields: which column, in which way, between which edges."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from neartwin.errors import NeartwinError, ParameterError, QueryError
from neartwin.queries.grouping import Edge, Grouping, bins, day, part
from neartwin.queries.terms import PARTS, UNITS
from neartwin.queries.types import ColumnType

BINS, DAY, EXPRESSION = "bins", "each day", "expression"
WAYS = {
    BINS: "bins between edges",
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "day": "day of the month",
    "isodow": "day of the week (1 is Monday)",
    "hour": "hour",
    **{f"{unit} start": f"{unit} (its first day)" for unit in UNITS},
    DAY: "each day",
    EXPRESSION: "an expression",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """One computed group as its fields. of: a column or an expression; edges: with commas between, of bins alone."""

    of: str = ""
    way: str = BINS
    edges: str = ""
    name: str = ""

    def grouping(self) -> Grouping:
        """The group that the fields say; `ParameterError` for edges that are none."""
        if not self.of:
            raise ParameterError("group", "", "must name a column", remedy="choose one, or remove the group")
        if self.way == EXPRESSION:
            return Grouping(self.name or self.of, self.of, self.of)
        if self.way == BINS:
            return bins(self.of, [_edge(text) for text in self.edges.split(",") if text.strip()], name=self.name)
        return day(self.of, name=self.name) if self.way == DAY else part(self.way, self.of, name=self.name)

    @property
    def label(self) -> str:
        """What the group is called, given or not."""
        try:
            return self.grouping().name
        except NeartwinError:
            return self.name or f"{self.of}_bin"

    def text(self) -> str:
        """The expression."""
        plain = {self.of: ColumnType.OTHER} if re.fullmatch(r"[^\W\d][\w ]*", self.of) else {}
        return self.grouping().text(plain)

    @property
    def type(self) -> ColumnType:
        """Of the keys that may be typed in."""
        if self.way in PARTS:
            return ColumnType.INTEGER
        return ColumnType.DATE if self.way == DAY or self.way.endswith(" start") else ColumnType.TEXT


def recognised(name: str, text: str) -> Grouped:
    """The fields behind a computed group: one of the ways where the expression is one, else the expression itself."""
    for pattern, way in _PATTERNS:
        found = re.fullmatch(pattern, text, flags=re.IGNORECASE | re.DOTALL)
        if found is None:
            continue
        edges = ", ".join(_literals(text)) if way == BINS else ""
        one = Grouped(of=_plain(found["of"]), way=way.format(**found.groupdict()).lower(), edges=edges)
        try:
            same = one.way in WAYS and _normal(one.text()) == _normal(text)
            default = one.grouping().name if same else ""
        except (NeartwinError, SqlglotError):
            continue
        if same:
            return Grouped(of=one.of, way=one.way, edges=one.edges, name="" if name == default else name)
    return Grouped(of=text, way=EXPRESSION, name="" if name == text else name)


_PATTERNS: Sequence[tuple[str, str]] = (
    (rf"(?P<way>{'|'.join(PARTS)})\((?P<of>.+)\)", "{way}"),
    (r"DATE_TRUNC\('(?P<unit>\w+)', (?P<of>.+)\)", "{unit} start"),
    (r"CAST\((?P<of>.+) AS DATE\)", DAY),
    (r"CASE WHEN (?P<of>.+?) < .+ END", BINS),
)


def _literals(text: str) -> list[str]:
    """The edges of bins as they stand in a CASE: numbers, dates and times."""
    found = re.findall(r"<=? (?:CAST\('([^']+)' AS \w+\)|\w+ '([^']+)'|(-?[\d.eE+-]+)) THEN", text, flags=re.IGNORECASE)
    return [next(part for part in parts if part) for parts in found]


def _edge(text: str) -> Edge:
    written = text.strip()
    for kind in (date, datetime):
        try:
            return kind.fromisoformat(written)
        except ValueError:
            continue
    return written


def _plain(text: str) -> str:
    """A column without its quotation marks; an expression as it is."""
    found = re.fullmatch(r'"((?:[^"]|"")+)"', text.strip())
    return found[1].replace('""', '"') if found else text.strip()


def _normal(text: str) -> str:
    parsed = sqlglot.parse_one(text, read="duckdb")
    for column in parsed.find_all(exp.Column):
        column.this.set("quoted", True)
    return parsed.sql(dialect="duckdb")


def checked_expression(text: str) -> exp.Expr:
    """An expression of one row, parsed; `QueryError` for what is none."""
    try:
        found: exp.Expr = sqlglot.parse_one(text, read="duckdb")
    except (SqlglotError, RecursionError):
        raise QueryError(f"{text[:200]!r} is no SQL expression") from None
    return found
