"""Tables that a curator registers beside a data set, to be joined to it in questions.

A public table, a private one of the same units, or a private one whose rows belong to the unit that has their key: the kinds of
`neartwin.queries.join`. Their private rows are charged to the data set's account, whose population they are of.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from neartwin.checks import one_of, text
from neartwin.errors import ParameterError
from neartwin.queries.joining import OtherTable, owned, public
from neartwin.queries.opening import table as open_table
from neartwin.queries.query import Rows
from neartwin.queries.source import Source
from neartwin.queries.table import Bounds, bounded

KINDS = ("public", "same_unit", "owned")
Values = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A table to be joined. unit: of a table of the same units, its column of them. keys, bounds: declared public, by column.

    place: a path or database URL, never shown.
    """

    name: str
    kind: str
    place: str = field(repr=False)
    table: str = ""
    unit: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    keys: Mapping[str, Values] = field(default_factory=dict)

    def __post_init__(self) -> None:
        text(name=self.name, at_least=1, at_most=100)
        one_of(KINDS, kind=self.kind)
        if not self.name.isidentifier():
            raise ParameterError("name", self.name, "of a table to join must be a word", remedy="it stands in SQL")
        if (self.kind == "same_unit") != bool(self.unit):
            rule = (
                "must name the column of the same units"
                if self.kind == "same_unit"
                else "is for same_unit tables alone"
            )
            raise ParameterError("unit", self.unit, rule)

    def opened(self, population: str, neighbours: str) -> Rows | OtherTable:
        """The table as questions join it; reads names and types, never a row. population: of the data set beside."""
        more: dict[str, Any] = {"table": self.table, "types": self.types, "columns": self.bounds}
        if self.kind == "same_unit":
            return open_table(self.place, unit=self.unit, name=population, neighbours=neighbours, **more)
        return (public if self.kind == "public" else owned)(self.place, name=self.name, **more)

    def as_dict(self) -> dict[str, Any]:
        """As JSON that `from_dict` reads back; holds the place."""
        told = {name: getattr(self, name) for name in ("name", "kind", "place", "table", "unit")}
        return told | {
            "types": dict(self.types),
            "bounds": {name: [str(b.low), str(b.high), str(b.step)] for name, b in self.bounds.items()},
            "keys": {name: [plain(value) for value in values] for name, values in self.keys.items()},
        }

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> "Side":
        """The table that `as_dict` wrote."""
        bounds = {name: bounded(*map(Fraction, ends)) for name, ends in told["bounds"].items()}
        keys = {name: tuple(values) for name, values in told["keys"].items()}
        return cls(**{**told, "bounds": bounds, "keys": keys})


def plain(value: object) -> object:
    """A key as JSON has it."""
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def source_of(other: Rows | OtherTable) -> Source:
    """Where the rows of a table to join lie."""
    return other.table.source if isinstance(other, Rows) else other.source


def schema_of(other: Rows | OtherTable) -> Mapping[str, Any]:
    """Its columns with their types."""
    return other.table.schema if isinstance(other, Rows) else other.schema
