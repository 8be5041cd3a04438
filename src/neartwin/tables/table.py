"""A table about people: its source, its units, its neighbours, its public facts, and its joins with other tables.

There are three kinds of join. After each, every row still belongs to one unit, and depends on that unit's rows and on
public rows alone. Bounding needs nothing else. Bounds are applied after all joins, so rows that a join multiplies are
covered.

PUBLIC     The other table is declared public. A unit's rows gain public columns.
SAME_UNIT  The other table holds private rows of the same units. The units are always equated.
OWNED      The other table has no unit of its own. Its rows belong to the unit whose row has their key. If rows of
           several units have it, one of them owns it: the first by MD5 of key and unit. The owner is the same in every
           release and on every engine, because a guarantee over many releases needs one owner for each row. So the
           table declares its key, the ledger remembers it, and no question can say another.

Neighbours differ in one unit, which is all its rows in all private tables: its own, and those that it owns.

A table may also hold what each unit's rows say: `PerUnit`. Every row of it still depends on one unit's rows alone.
docs/proofs/per-unit.md has the proof.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from itertools import chain

from neartwin.errors import ParameterError, QueryError, SchemaError
from neartwin.exact import Number, rational
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.tables.expressions import RowExpression
from neartwin.tables.sources import Frame, ImportedFiles, Source
from neartwin.tables.types import GROUPABLE, UNHELD, ColumnType, any_column, has_column


class JoinKind(StrEnum):
    """The kind of the other table's rows; the value is the word in explanations."""

    PUBLIC = "public"
    SAME_UNIT = "rows of the same unit"
    OWNED = "rows owned through their key"


class How(StrEnum):
    """The treatment of unmatched rows: dropped, or kept with NULL in the other table's columns.

    BESIDE follows a LEFT join and is part of it. A row meets rows of both tables that meet each other, or has NULL for
    both. So `a LEFT JOIN (b JOIN c ON ...) ON ...` is a LEFT join of b and a BESIDE join of c. A chain of the other two
    differs: it keeps a row of b that meets none of c, or drops the row of a.
    """

    INNER = "inner"
    LEFT = "left"
    BESIDE = "beside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose rows the rows of a table without a unit are: those of the unit that has their key in another table.

    Attributes:
        name: The population of the other table.
        source: The source of the other table.
        on: The key: pairs of a column of the other table and one of the table without a unit.
    """

    name: str
    source: Source
    on: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        place = self.source.location() or self.name
        return f"{place} on {' and '.join(f'{left} = {right}' for left, right in sorted(self.on))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """The other table of a join, and its match with the rows so far.

    Attributes:
        kind: Whose rows the other table holds.
        how: The treatment of unmatched rows.
        name: The name of the other table, for explanations.
        source: The source of the other table.
        on: Pairs of a column of the rows so far and one of the other table. Rows meet if all pairs are equal. NULL
            equals nothing.
        columns: From names in the joined rows to the other table's own names.
        schema: The type of each of the other table's columns.
        declared: The other table's columns with declared types.
        owner: Whose rows the other table's are, if it is OWNED.
        per_unit: The computation of the other table's rows; None for rows of its source.
    """

    kind: JoinKind
    how: How
    name: str
    source: Source
    on: tuple[tuple[str, str], ...]
    columns: Mapping[str, str]
    schema: Mapping[str, ColumnType]
    declared: frozenset[str]
    owner: Owner | None = None
    per_unit: "PerUnit | None" = None

    def record(self) -> dict[str, object]:
        """The parts of the join that a digest covers. Joins that do the same have equal parts."""
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
        of = "" if self.per_unit is None else f", {self.per_unit},"
        none = {How.INNER: "", How.LEFT: ", else NULL", How.BESIDE: ", else NULL for both and the join before"}
        return f"join {self.name!r} ({self.kind}){of} on {met}{none[self.how]}"


def together(joins: Sequence[Join]) -> list[list[Join]]:
    """Group each LEFT join with the BESIDE joins that continue it.

    Args:
        joins: The joins, in order.

    Returns:
        The groups, in order.
    """
    groups: list[list[Join]] = []
    for join in joins:
        if join.how is How.BESIDE:
            groups[-1].append(join)
        else:
            groups.append([join])
    return groups


_LARGEST_GRID = 2**53  # grid values stay exact in the double precision in which engines round them
_LARGEST_TERM = 2**400  # of a step written as a fraction: no value times it leaves the range of doubles
FINE_STEPS = 10**7  # of a grid that nobody declared: engines sum so many in doubles, and noise hides less than one


@dataclass(frozen=True, slots=True)
class RowUnit:
    """The explicit request that each row is its own unit: `unit=ROW`. It protects rows, not people."""

    name: str = "ROW"

    def __repr__(self) -> str:
        return self.name


ROW = RowUnit()
NOBODY = RowUnit("NOBODY")  # of the rows of a public table


@dataclass(frozen=True, slots=True, repr=False)
class Bounds:
    """Public bounds of a column, and the step of its grid.

    Values are clipped to the bounds and rounded to the grid. Both bounds are multiples of the step.

    Attributes:
        low: The lower bound.
        high: The upper bound.
        step: The distance of two grid points.
    """

    low: Fraction
    high: Fraction
    step: Fraction

    def __repr__(self) -> str:
        return f"nt.bounds({str(self.low)!r}, {str(self.high)!r}, step={str(self.step)!r})"

    @property
    def low_units(self) -> int:
        """The lower bound, in steps."""
        return int(self.low / self.step)

    @property
    def high_units(self) -> int:
        """The upper bound, in steps."""
        return int(self.high / self.step)

    def reached(self, value: float, lower: float | None, upper: float | None) -> bool:
        """Whether a value lies within a hundredth of the width from a bound, and its bar reaches that bound.

        Args:
            value: The value.
            lower: The lower end of its bar; None for an open one.
            upper: The upper end of its bar; None for an open one.
        """
        near = (self.high - self.low) / 100
        at_low = value <= self.low + near and (lower is None or lower <= self.low)
        return at_low or (value >= self.high - near and (upper is None or upper >= self.high))

    def __str__(self) -> str:
        return f"[{float(self.low):g}, {float(self.high):g}] in steps of {float(self.step):g}"


def both_ends(column: str, low: Number | None, high: Number | None) -> tuple[Fraction, Fraction] | None:
    """Both public bounds of a statistic, or None if the table declares them.

    Args:
        column: The column, for the error.
        low: The lower bound, or None.
        high: The upper bound, or None.

    Returns:
        Both bounds as exact rationals, or None.

    Raises:
        QueryError: One bound is given without the other.
    """
    if low is None and high is None:
        return None
    if low is None or high is None:
        pair: object = low  # the annotation is a promise, not yet a fact
        ends = ", ".join(map(str, pair)) if isinstance(pair, tuple | list) else f"{low or 0}, {high or 100}"
        raise QueryError(
            f"{column!r} needs both low and high, or neither if the table declares them; write {column!r}, {ends}"
        )
    return rational(low=low), rational(high=high)


def fine_step(low: Fraction, high: Fraction) -> Fraction:
    """The step that nobody declared: 1/100, or the power of ten that parts a small width into one to ten million steps.

    Far from 0 it is coarser, so that both ends are on a grid of doubles.

    Args:
        low: The lower end.
        high: The upper end.

    Returns:
        The step.
    """
    step = Fraction(1, 100)
    while 0 < 10 * (high - low) / step <= FINE_STEPS and 10 * max(-low, high) / step <= _LARGEST_GRID:
        step /= 10
    return step


def bounds(low: Number, high: Number, step: Number | None = None) -> Bounds:
    """Declare a column's public bounds. Values are clipped to [low, high] and rounded to multiples of step, half up.

    The bounds must come from public knowledge. Bounds read from the data would reveal its extremes.

    Args:
        low: The lower bound, a multiple of step.
        high: The upper bound, a multiple of step.
        step: The step of the grid; by default 1/100, or a smaller power of ten, so that there are at least a million steps.

    Returns:
        The bounds.

    Raises:
        ParameterError: The bounds are not in order, are no multiples of the step, or are more than 2**53 steps.

    >>> bounds(0, 200)
    nt.bounds('0', '200', step='1/10000')
    >>> bounds(5, 1)
    Traceback (most recent call last):
    neartwin.errors.ParameterError: high=1 must be above low=5; write 1, 5
    """
    if re.match(r"\d{4}-\d\d-\d\d", str(low)):
        remedy = "days need no bounds: write nt.median('day'), or MEDIAN(day)"
        raise ParameterError("low", low, "must be a finite number", remedy=remedy)
    start, end = rational(low=low), rational(high=high)
    interval = Bounds(start, end, fine_step(start, end) if step is None else rational(step=step))
    if interval.step <= 0:
        raise ParameterError("step", interval.step, "must be positive")
    if max(interval.step.numerator, interval.step.denominator) > _LARGEST_TERM:
        raise ParameterError("step", interval.step, "must have terms of at most 2**400")
    if interval.high <= interval.low:
        ends = f"write {interval.high}, {interval.low}" * (interval.high < interval.low)
        raise ParameterError("high", interval.high, f"must be above low={interval.low}", remedy=ends)
    for name, bound in (("low", interval.low), ("high", interval.high)):
        if (bound / interval.step).denominator != 1:
            raise ParameterError(name, bound, f"must be a multiple of step={interval.step}")
        if abs(bound / interval.step) > _LARGEST_GRID:
            raise ParameterError(
                name, bound, f"must be at most 2**53 steps of {interval.step}", remedy="take a larger step"
            )
    return interval


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitColumn:
    """A column that one unit's rows decide: an aggregate of them, or a window over them.

    Attributes:
        function: The name of the function.
        kind: The type of its value.
        value: The argument; None for rows.
        bounds: The grid on which the argument is summed; None for whole numbers, which are summed as they are.
        offset: The distance of LAG and LEAD, in rows.
        by: The expressions beside the unit that part a window.
        order: The expressions that order a window, and whether each descends. NULL is last, and NaN the largest number.
        frame: The rows around each row that a window goes over, as SQL; "" for those up to the last row with an equal order.
        text: The SQL.
    """

    function: str
    kind: ColumnType
    value: RowExpression | None = None
    bounds: Bounds | None = None
    offset: int = 1
    by: tuple[RowExpression, ...] = ()
    order: tuple[tuple[RowExpression, bool], ...] = ()
    frame: str = ""
    text: str = field(default="", compare=False)

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the source that it reads."""
        read = (self.value, *self.by, *(key for key, _ in self.order))
        return frozenset().union(*(one.columns for one in read if one is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class PerUnit:
    """Rows that are computed from one unit's rows at a time: one row for each of a unit's groups, or each row with windows.

    Public rows are of nobody. Each computed one may depend on all.

    Attributes:
        table: The table whose rows are read.
        conditions: The conditions on its rows.
        by: From group columns to names in the table, the unit first; None if each row stays, with windows. Public rows
            without a group column make one row.
        columns: The aggregates or windows, by name.
    """

    table: "Table"
    conditions: tuple[RowExpression, ...]
    by: Mapping[str, str] | None
    columns: Mapping[str, UnitColumn]

    def __str__(self) -> str:
        of = f" of {self.table.per_unit}" if self.table.per_unit is not None else ""
        where = f" where {' and '.join(one.text for one in self.conditions)}" if self.conditions else ""
        each = "each row with" if self.by is None else f"one row for each {', '.join(self.by.values()) or 'table'}:"
        joins = "".join(f", {join}" for join in self.table.joins)
        return f"{each} {', '.join(f'{name} = {one.text}' for name, one in self.columns.items())}{where}{joins}{of}"

    @property
    def depth(self) -> int:
        """The number of computations within each other."""
        return 1 + max((of.depth for of in self.table.inside), default=0)

    @property
    def clipped(self) -> list[str]:
        """The sums and means of one unit's rows whose values are clipped, in sentences."""
        summed = [one for one in self.columns.values() if one.bounds is not None and one.function in {"sum", "avg"}]
        clips = " and ".join(f"{one.text} within {one.bounds}" for one in summed)
        return [*self.table.clipped, *[f"Of one unit's rows, values count in {clips}: {UNHELD}"] * bool(clips)]

    def expression(self, name: str) -> RowExpression | None:
        """The expression of a column that is passed on; None for one of the table's source."""
        return self.table.computed.get(name if self.by is None else self.by[name])

    def reads(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns of the table that these columns are computed from, sorted; one at least.

        Args:
            names: Names of its own columns.

        Returns:
            The names in the table, the unit among them if it has one.
        """
        found = {self.table.unit} if isinstance(self.table.unit, str) else set[str]()
        for name in [*(self.by or ()), *names]:
            of = self.columns.get(name) or self.expression(name)
            found |= {name if self.by is None else self.by[name]} if of is None else of.columns
        found = found.union(*(condition.columns for condition in self.conditions))
        return tuple(sorted(found or [any_column(self.table.schema, self.table.schema)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table about people. It is frozen and holds no rows, and reading its attributes reads none.

    Attributes:
        source: The source of the rows; of joined tables, the source of the first.
        name: The population that a ledger charges.
        unit: The column of unit ids, or ROW.
        neighbours: The neighbour relation of the guarantee.
        schema: The type of each column of the joined rows, declared types included.
        declared: Columns of the first table whose declared types override the source's. They are cast row by row, and a
            value that does not fit becomes NULL.
        columns: Public bounds, by column of the joined rows.
        joins: The joins with other tables, in order.
        computed: The columns that stand for an expression over the others.
        period: An expression for the first day of a period, if a unit is a person in one period; else None.
        period_name: The name of the period.
        per_unit: The computation of the first table's rows; None for rows of its source.
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
    per_unit: PerUnit | None = None

    @property
    def typed(self) -> bool:
        """Whether the owner's reading typed every value about the units, so that none can make a release fail."""
        about: list[Table | Join] = [self, *(join for join in self.joins if join.kind is not JoinKind.PUBLIC)]
        return all(
            isinstance(one.source, Frame | ImportedFiles) if one.per_unit is None else one.per_unit.table.typed
            for one in about
        )

    def all_joins(self) -> tuple[Join, ...]:
        """The joins of this table, and those of the tables within it."""
        return (*self.joins, *chain.from_iterable(of.table.all_joins() for of in self.inside))

    @property
    def inside(self) -> list[PerUnit]:
        """The computations of these rows and of joined ones from one unit's rows."""
        return [of for of in (self.per_unit, *(join.per_unit for join in self.joins)) if of is not None]

    @property
    def clipped(self) -> list[str]:
        """The sums and means of one unit's rows, in it and in joined rows, whose values are clipped, in sentences."""
        return [says for of in self.inside for says in of.clipped]

    def with_column(self, name: str, expression: str) -> "Table":
        """The table with one computed column more.

        Args:
            name: The name of the new column.
            expression: A SQL expression of one row.

        Returns:
            The new table.

        Raises:
            SchemaError: The name is taken.
            QueryError: The expression is not allowed.
        """
        if not name or name in self.schema:
            raise SchemaError(f"with_column: {name!r} is a column already; give the computed one another name")
        computed = self.expression(expression)
        return replace(self, schema={**self.schema, name: computed.type}, computed={**self.computed, name: computed})

    def expression(self, text: str) -> RowExpression:
        """Parse and check an expression over the columns, computed ones included.

        Args:
            text: A SQL expression of one row.

        Returns:
            The expression.

        Raises:
            QueryError: The expression is not allowed.
        """
        return RowExpression.parse(text, self.schema, self.computed)

    @property
    def unit_name(self) -> str:
        """The unit's name in records and pages."""
        if not isinstance(self.unit, str):
            return "(each row)"
        if self.per_unit is not None:
            return self.per_unit.table.unit_name
        return f"{self.unit} in one {self.period_name}" if self.period is not None else self.unit

    @property
    def one_row(self) -> bool:
        """Whether no unit has two rows: each row is one, or they are computed as one row a unit."""
        within = self.per_unit
        alone = within is not None and set((within.by or {}).values()) == {within.table.unit}
        return isinstance(self.unit, RowUnit) or (alone and not self.joins and self.period is None)

    @property
    def unit_kind(self) -> ColumnType:
        """The type of a unit's id: the column's type, or text for a unit of one period."""
        return ColumnType.TEXT if self.period is not None else self.schema[str(self.unit)]

    def groupable(self, column: str) -> ColumnType:
        """The type of a column that rows can be grouped by.

        Raises:
            SchemaError: The column is missing, or has another type.
        """
        kind = self.has(column, "group_by")
        if kind not in GROUPABLE:
            value = self.computed[column].text if column in self.computed else column
            remedies = {
                ColumnType.OTHER: f"declare it where the table is opened: types={{{column!r}: 'text'}}",
                ColumnType.NUMBER: f"write CAST(FLOOR({value}) AS BIGINT), or CAST({value} * 100 AS BIGINT) for cents",
                ColumnType.TIMESTAMP: f"write CAST({value} AS DATE), or date_trunc('second', {value})",
            }
            raise SchemaError(
                f"group_by: {column!r} is {kind}; group by integers, text, booleans, dates, bins(...) or date_part(...); "
                f"{remedies[kind]}"
            )
        return kind

    def has(self, column: str, asked_by: str) -> ColumnType:
        """The type of a column.

        Args:
            column: The column.
            asked_by: The statistic, for the error.

        Returns:
            The type.

        Raises:
            SchemaError: The table has no such column.
        """
        return has_column(column, self.schema, asked_by)
