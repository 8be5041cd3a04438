"""A table joined to another: which rows meet, and whose they are afterwards.

Three kinds, and after each of them every row still belongs to one unit and depends on that unit's rows (and public ones)
alone, which is all that bounding needs. Bounds are applied after all joins, so rows that a join multiplies are covered.

PUBLIC     the other table is declared public. A unit's rows, each with what is public of its key.
SAME_UNIT  the other table holds private rows of the same units; the units are equated, whatever else is.
OWNED      the other table has no unit of its own: its rows belong to the unit whose row has their key. Where rows of
           several units have it, one of them owns it: the first by MD5 of key and unit, the same in every release and on
           every engine, for a guarantee over many releases needs one answer to whose row it is.

Neighbours differ in one unit, which is all its rows in all private tables: its own, and those that it owns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from neartwin.queries.source import Source
from neartwin.queries.types import ColumnType


class JoinKind(StrEnum):
    """Whose rows the other table holds; the value is the word in explanations."""

    PUBLIC = "public"
    SAME_UNIT = "rows of the same unit"
    OWNED = "rows owned through their key"


class How(StrEnum):
    """What becomes of rows that meet none: dropped, or kept with NULL in the other table's columns.

    BESIDE follows a LEFT join, and is part of it: a row meets rows of both tables that meet each other, or has NULL for both.
    So `a LEFT JOIN (b JOIN c ON ...) ON ...` is a LEFT join of b and a BESIDE join of c; it is no chain of the other two, which
    keep a row of b that meets none of c, or drop the row of a.
    """

    INNER = "inner"
    LEFT = "left"
    BESIDE = "beside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """The other table of a join, and how it meets the rows so far.

    name: of the other table, for explanations. on: pairs of a column of the rows so far and one of the other table; rows
    meet where all are equal, and NULL equals nothing. columns: from names in the joined rows to the other table's own.
    schema, declared: of the other table, as `Table` has them.
    """

    kind: JoinKind
    how: How
    name: str
    source: Source
    on: tuple[tuple[str, str], ...]
    columns: Mapping[str, str]
    schema: Mapping[str, ColumnType]
    declared: frozenset[str]

    def record(self) -> dict[str, object]:
        """What a digest needs: equal for joins that do the same."""
        return {
            "kind": self.kind,
            "how": self.how,
            "location": self.source.location(),
            "on": self.on,
            "columns": sorted(self.columns.items()),
            "declared": {name: self.schema[name] for name in sorted(self.declared)},
        }

    def __str__(self) -> str:
        met = " and ".join(left if left == right else f"{left} = {right}" for left, right in self.on)
        none = {How.INNER: "", How.LEFT: ", else NULL", How.BESIDE: ", else NULL for both and the join before"}
        return f"join {self.name!r} ({self.kind}) on {met}{none[self.how]}"


def together(joins: Sequence[Join]) -> list[list[Join]]:
    """The joins with those that are part of one, in their order."""
    found: list[list[Join]] = []
    for join in joins:
        if join.how is How.BESIDE:
            found[-1].append(join)
        else:
            found.append([join])
    return found
