"""Questions: rows of a table, grouped or not, and the statistics asked of them. Frozen; building one reads no row."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from neartwin.errors import QueryError
from neartwin.exact import Number, rational
from neartwin.queries.after import NOTHING, After
from neartwin.queries.expression import RowExpression
from neartwin.queries.joining import On, OtherTable, joined
from neartwin.queries.keys import Key, public_keys
from neartwin.queries.table import Bounds, Table, bounded
from neartwin.queries.types import ColumnType


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows."""

    def __str__(self) -> str:
        return "count()"


@dataclass(frozen=True, slots=True)
class CountUnits:
    """How many distinct units."""

    def __str__(self) -> str:
        return "count_units()"


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of a column, each value clipped to its public bounds; NULL and NaN are left out, or stand for `fill`."""

    column: str
    bounds: Bounds | None
    fill: Fraction | None = None

    def __str__(self) -> str:
        return f"sum({self.column})"


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a column's values that are neither NULL nor NaN, each clipped to its public bounds."""

    column: str
    bounds: Bounds | None
    fill: Fraction | None = None

    def __str__(self) -> str:
        return f"mean({self.column})"


Aggregate = Count | CountUnits | Sum | Mean


def count() -> Count:
    """Count rows."""
    return Count()


def count_units() -> CountUnits:
    """Count distinct units."""
    return CountUnits()


def sum(  # noqa: A001
    column: str,
    low: Number | None = None,
    high: Number | None = None,
    step: Number = "1/100",
    *,
    fill: Number | None = None,
) -> Sum:
    """Sum a column within public bounds, or within those that the table declares. fill: what NULL and NaN stand for.

    >>> print(sum("amount", 0, 200).bounds)
    [0, 200] in steps of 0.01
    """
    return Sum(column, _bounds(column, low, high, step), None if fill is None else rational(fill=fill))


def mean(
    column: str,
    low: Number | None = None,
    high: Number | None = None,
    step: Number = "1/100",
    *,
    fill: Number | None = None,
) -> Mean:
    """The mean of a column within public bounds, or within those that the table declares."""
    return Mean(column, _bounds(column, low, high, step), None if fill is None else rational(fill=fill))


def _bounds(column: str, low: Number | None, high: Number | None, step: Number) -> Bounds | None:
    if low is None and high is None:
        return None
    if low is None or high is None:
        raise QueryError(f"{column!r} needs both low and high, or neither where the table declares them")
    return bounded(low, high, step)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table that meet every condition: where each question starts."""

    table: Table
    conditions: tuple[RowExpression, ...] = ()

    def where(self, condition: str) -> "Rows":
        """Only the rows for which the condition is true (NULL is not true)."""
        checked = RowExpression.parse(condition, self.table.schema)
        if checked.type is not ColumnType.BOOLEAN:
            raise QueryError(f"where={condition!r} is {checked.type}; a condition is wanted, for instance 'amount > 5'")
        return replace(self, conditions=(*self.conditions, checked))

    def join(self, other: "Rows | OtherTable", *, on: On = None, how: str = "inner", prefix: str = "") -> "Rows":
        """Each row with the rows of another table that have equal values `on`; bounds are applied after all joins.

        other: `nt.public(...)`, whose rows anyone may know; `nt.owned(...)`, whose rows belong to the unit that has their
        key here; or a table of the same population, whose units are then equated. on: a column, a list of columns, or a
        mapping from columns here to the other's; beside the units, which need not be named. how: "inner" drops rows that
        meet none, "left" keeps them with NULL. prefix: put before those names of the other's columns that are taken.
        """
        if isinstance(other, Rows):
            if other.conditions and how == "left":
                raise QueryError(
                    "join: a left join keeps rows that meet none, so conditions go after it, not on the other table"
                )
            new = joined(self.table, other.table, on=on, how=how, prefix=prefix)
            names = {old: new for new, old in new.joins[-1].columns.items()}
            moved = tuple(condition.renamed(names) for condition in other.conditions)
            return Rows(new, (*self.conditions, *moved))
        return replace(self, table=joined(self.table, other, on=on, how=how, prefix=prefix))

    def group_by(self, *columns: str, keys: Any = None) -> "Groups":
        """Group by columns, over public keys (a list, range, product or table) or, without, keys discovered privately."""
        kinds = {column: self.table.groupable(column) for column in columns}
        if not columns or len(kinds) != len(columns):
            raise QueryError(f"group_by{columns!r} must name at least one column, each once")
        return Groups(self, columns, None if keys is None else public_keys(keys, kinds))

    def agg(self, **aggregates: Aggregate) -> "Query":
        """Statistics of all the rows together, as one group."""
        return Groups(self, (), ((),)).agg(**aggregates)

    def most_common(self, column: str, *, among: Any) -> "MostCommon":
        """Which of the public values `among` the most units have in a row; a unit may have many."""
        return MostCommon(self, column, public_keys(among, {column: self.table.groupable(column)}))


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows with their group columns; keys None: discovered privately."""

    rows: Rows
    columns: tuple[str, ...]
    keys: tuple[Key, ...] | None

    def agg(self, **aggregates: Aggregate) -> "Query":
        """Statistics of each group, named by the keyword."""
        if not aggregates:
            raise QueryError("agg() must name at least one statistic, for instance agg(orders=count())")
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise QueryError(f"{name}={aggregate!r} must be count(), count_units(), sum(...) or mean(...)")
            if name in self.columns:
                raise QueryError(f"{name!r} is a group column; give the statistic another name")
            if isinstance(aggregate, Sum | Mean):
                self.rows.table.numeric(aggregate.column, name)
                bounds_of(self.rows.table, aggregate)
        return Query(self, MappingProxyType(dict(aggregates)))


@dataclass(frozen=True, slots=True)
class Query:
    """A question that can be planned: groups and named statistics. after: what is done to the release, for nothing."""

    groups: Groups
    aggregates: Mapping[str, Aggregate]
    after: After = NOTHING

    @property
    def table(self) -> Table:
        """The table asked."""
        return self.groups.rows.table


@dataclass(frozen=True, slots=True)
class MostCommon:
    """A question that can be planned: the value of one column that the most units have."""

    rows: Rows
    column: str
    among: tuple[Key, ...]

    @property
    def table(self) -> Table:
        """The table asked."""
        return self.rows.table


def bounds_of(table: Table, aggregate: Sum | Mean) -> Bounds:
    """The bounds of a sum or mean: its own, or the table's; `QueryError` where there are none."""
    found = aggregate.bounds or table.columns.get(aggregate.column)
    if found is None:
        raise QueryError(
            f"{aggregate} needs bounds, for instance {type(aggregate).__name__.lower()}({aggregate.column!r}, 0, 100): "
            "bounds read from the data would reveal its extremes; take them from public knowledge"
        )
    if aggregate.fill is not None and not (
        found.low <= aggregate.fill <= found.high and (aggregate.fill / found.step).denominator == 1
    ):
        raise QueryError(f"fill={float(aggregate.fill):g} of {aggregate} must be a multiple of the step within {found}")
    return found
