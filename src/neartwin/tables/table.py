"""A table about people: where it lives, who its units are, which neighbours its guarantee compares, what is public of it.

A table joined to another: which rows meet, and whose they are afterwards.

Three kinds, and after each of them every row still belongs to one unit and depends on that unit's rows (and public ones)
alone, which is all that bounding needs. Bounds are applied after all joins, so rows that a join multiplies are covered.

PUBLIC     the other table is declared public. A unit's rows, each with what is public of its key.
SAME_UNIT  the other table holds private rows of the same units; the units are equated, whatever else is.
OWNED      the other table has no unit of its own: its rows belong to the unit whose row has their key. Where rows of
           several units have it, one of them owns it: the first by MD5 of key and unit, the same in every release and on
           every engine, for a guarantee over many releases needs one answer to whose row it is.

Neighbours differ in one unit, which is all its rows in all private tables: its own, and those that it owns.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction

from neartwin.errors import ParameterError, QueryError, SchemaError
from neartwin.exact import Number, rational
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.tables.expressions import RowExpression
from neartwin.tables.sources import Source
from neartwin.tables.types import GROUPABLE, NUMERIC, ColumnType


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


_LARGEST_GRID = 2**53  # grid values stay exact in the double precision in which engines round them
_LARGEST_TERM = 2**400  # of a step written as a fraction: no value times it leaves the range of doubles


class RowUnit:
    """The explicit request that each row is its own unit: `unit=ROW`. It protects rows, not people."""

    def __repr__(self) -> str:
        return "ROW"


ROW = RowUnit()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Public bounds of a column and the step of the grid its values are rounded to; both bounds are multiples of it."""

    low: Fraction
    high: Fraction
    step: Fraction

    @property
    def low_units(self) -> int:
        """The lower bound in steps."""
        return int(self.low / self.step)

    @property
    def high_units(self) -> int:
        """The upper bound in steps."""
        return int(self.high / self.step)

    def __str__(self) -> str:
        return f"[{float(self.low):g}, {float(self.high):g}] in steps of {float(self.step):g}"


def both_ends(column: str, low: Number | None, high: Number | None) -> tuple[Fraction, Fraction] | None:
    """Both public bounds of a statistic, None where the table declares them; `QueryError` for one without the other."""
    if low is None and high is None:
        return None
    if low is None or high is None:
        raise QueryError(f"{column!r} needs both low and high, or neither where the table declares them")
    return rational(low=low), rational(high=high)


def bounds(low: Number, high: Number, step: Number = "1/100") -> Bounds:
    """Declare a column's public bounds: values are clipped to [low, high] and rounded to multiples of step, half up.

    The bounds must come from public knowledge: bounds read from the data would reveal its extremes.

    >>> bounds(0, 200)
    Bounds(low=Fraction(0, 1), high=Fraction(200, 1), step=Fraction(1, 100))
    >>> bounds(5, 1)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: high=1 must be above low=5
    """
    found = Bounds(rational(low=low), rational(high=high), rational(step=step))
    if found.step <= 0:
        raise ParameterError("step", found.step, "must be positive")
    if max(found.step.numerator, found.step.denominator) > _LARGEST_TERM:
        raise ParameterError("step", found.step, "must have terms of at most 2**400")
    if found.high <= found.low:
        raise ParameterError("high", found.high, f"must be above low={found.low}")
    for name, bound in (("low", found.low), ("high", found.high)):
        if (bound / found.step).denominator != 1:
            raise ParameterError(name, bound, f"must be a multiple of step={found.step}")
        if abs(bound / found.step) > _LARGEST_GRID:
            raise ParameterError(
                name, bound, f"must be at most 2**53 steps of {found.step}", remedy="take a larger step"
            )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table about people. Frozen; holds no rows, and reading its attributes reads none.

    name: the population that a ledger charges. unit: the column of unit ids, or ROW. schema: the type of each column,
    declared ones included. declared: the columns whose types override the source's (cast row by row; NULL where a value
    does not fit). columns: public bounds. joins: the tables that its rows are met with, in this order; schema and columns are
    then of the joined rows, and source and declared of the first table. period: where a unit is what the column names within
    one day, week, ..., the first day of that, as an expression; period_name: what it is called. computed: the columns that
    stand for an expression over the others.
    """

    source: Source
    name: str
    unit: str | RowUnit
    neighbours: Neighbours
    schema: Mapping[str, ColumnType]
    declared: frozenset[str]
    columns: Mapping[str, Bounds]
    joins: tuple[Join, ...] = ()
    computed: Mapping[str, RowExpression] = field(default_factory=dict)
    period: RowExpression | None = None
    period_name: str = ""

    def snapshot(self) -> str:
        """Which state of the data this is; of joined tables, all of theirs."""
        parts = [self.source.snapshot(), *(join.source.snapshot() for join in self.joins)]
        return parts[0] if len(parts) == 1 else hashlib.sha256(repr(parts).encode()).hexdigest()

    def joined_locations(self) -> tuple[str, ...]:
        """Where joined rows about the units are kept, as far as those places last: they belong to the same population."""
        private = (join.source for join in self.joins if join.kind is not JoinKind.PUBLIC)
        return tuple(place for source in private if (place := source.location()))

    def with_column(self, name: str, expression: str) -> "Table":
        """The same with a computed column; `SchemaError` if the name is taken."""
        if not name or name in self.schema:
            raise SchemaError(f"with_column: {name!r} is a column already; give the computed one another name")
        found = self.expression(expression)
        return replace(self, schema={**self.schema, name: found.type}, computed={**self.computed, name: found})

    def expression(self, text: str) -> RowExpression:
        """A checked expression over the columns, computed ones included; `QueryError` otherwise."""
        return RowExpression.parse(text, self.schema, self.computed)

    @property
    def unit_name(self) -> str:
        """How records and pages call the unit."""
        if not isinstance(self.unit, str):
            return "(each row)"
        return f"{self.unit} in one {self.period_name}" if self.period is not None else self.unit

    @property
    def unit_kind(self) -> ColumnType:
        """The type of a unit's name: of its column, or text where it is of one period."""
        return ColumnType.TEXT if self.period is not None else self.schema[str(self.unit)]

    def groupable(self, column: str) -> ColumnType:
        """The type of a column that rows can be grouped by; `SchemaError` otherwise."""
        kind = self.has(column, "group_by")
        if kind not in GROUPABLE:
            remedy = (
                f"; declare it where the table is opened: types={{{column!r}: 'text'}}"
                if kind is ColumnType.OTHER
                else ""
            )
            raise SchemaError(
                f"group_by: {column!r} is {kind}; group by integers, text, booleans, dates, bins(...) or date_part(...){remedy}"
            )
        return kind

    def numeric(self, column: str, asked_by: str) -> ColumnType:
        """The type of a column that can be summed; `SchemaError` otherwise."""
        kind = self.has(column, asked_by)
        if kind not in NUMERIC:
            raise SchemaError(f"{asked_by}: {column!r} is {kind}, and a number is wanted; declare it with types=")
        return kind

    def has(self, column: str, asked_by: str) -> ColumnType:
        """The type of a column; `SchemaError` if the table has none of that name."""
        if column not in self.schema:
            have = ", ".join(map(repr, self.schema))
            raise SchemaError(f"{asked_by}: column {column!r} is not in the table; it has {have}")
        return self.schema[column]
