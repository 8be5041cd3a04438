"""Questions: rows of a table, grouped or not, and the statistics asked of them. Frozen; building one reads no row.

What is done to the noisy release, so it costs nothing: shapes, ratios, and what SQL says as HAVING, ORDER BY, LIMIT.

It is no part of a plan: the same question in another order has the same stored answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from neartwin.checks import integer
from neartwin.errors import QueryError
from neartwin.exact import Number
from neartwin.queries.groups import MARGIN, Grouping, completed, linear_alone, margins_of
from neartwin.queries.workloads import Workload, weighted
from neartwin.statistics.base import Statistic
from neartwin.tables.expressions import RowExpression
from neartwin.tables.joins import On, OtherTable, joined, met
from neartwin.tables.table import Table
from neartwin.tables.types import ColumnType, Key, public_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class PostProcessing:
    """What is done, in this order. monotone: columns and whether they grow. ratios: name, top, bottom.

    having: over the release's columns. order: column and whether it descends, first things first. limit: None for all.
    """

    monotone: tuple[tuple[str, bool], ...] = ()
    non_negative: tuple[str, ...] = ()
    ratios: tuple[tuple[str, str, str], ...] = ()
    having: str = ""
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None
    offset: int = 0


NOTHING = PostProcessing()
WAYS = {"increasing": True, "decreasing": False}  # of monotone columns, in words


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table that meet every condition: where each question starts."""

    table: Table
    conditions: tuple[RowExpression, ...] = ()

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.table.schema.items())
        where = f"; where {' and '.join(one.text for one in self.conditions)}" if self.conditions else ""
        return f"<Rows of {self.table.name!r}, unit {self.table.unit_name}: {columns}{where}>"

    def where(self, condition: str) -> "Rows":
        """Only the rows for which the condition is true (NULL is not true)."""
        checked = self.table.expression(condition)
        if checked.type is not ColumnType.BOOLEAN:
            raise QueryError(f"where={condition!r} is {checked.type}; a condition is wanted, for instance 'amount > 5'")
        return replace(self, conditions=(*self.conditions, checked))

    def join(self, other: "Rows | OtherTable", *, on: On = None, how: str = "inner", prefix: str = "") -> "Rows":
        """Each row with the rows of another table that have equal values `on`; bounds are applied after all joins.

        other: `nt.public_table(...)`, whose rows anyone may know; `nt.owned_by(...)`, whose rows belong to the unit that
        has their
        key here; or a table of the same population, whose units are then equated. on: a column, a list of columns, or a
        mapping from columns here to the other's; beside the units, which need not be named where they have one name and type;
        rows that were joined themselves are joined table by table. how: "inner" drops rows that
        meet none, "left" keeps them with NULL, and "beside" continues a left join: rows meet both tables or have NULL for both.
        prefix: put before those names of the other's columns that are taken.
        """
        if isinstance(other, Rows):
            if other.conditions and how != "inner":
                raise QueryError(
                    "join: a left join keeps rows that meet none, so conditions go after it, not on the other table"
                )
            new, names = met(self.table, other.table, on=on, how=how, prefix=prefix)
            moved = tuple(condition.renamed(names) for condition in other.conditions)
            return Rows(new, (*self.conditions, *moved))
        return replace(self, table=joined(self.table, other, on=on, how=how, prefix=prefix))

    def with_column(self, name: str, expression: str) -> "Rows":
        """The same with a computed column, which conditions, groups and statistics can name.

        >>> import pyarrow as pa
        >>> from neartwin.queries.open import table
        >>> visits = table(pa.table({"who": ["ada"], "age": [36]}), unit="who", name="visits")
        >>> visits.with_column("adult", "age >= 18").group_by("adult").columns
        ('adult',)
        """
        return replace(self, table=self.table.with_column(name, expression))

    def group_by(self, *columns: str | Grouping, keys: Any = None) -> "Groups":
        """Group by columns, expressions, `part`s and `bins`.

        keys: public keys (a list, range, product or table). Without, those are the public keys that an expression can only
        have (months, bins, CASE of literals, conditions; NULL is not among them); and where any group column is open, keys
        are discovered privately. A mapping of keys may leave out the columns that are not open.
        """
        rows, names = self, []
        for column in columns:
            rows, name = rows.grouped(column)
            names.append(name)
        kinds = {name: rows.table.groupable(name) for name in names}
        if not names or len(kinds) != len(names):
            raise QueryError(f"group_by{tuple(names)!r} must name at least one column, each once")
        given = completed(keys, rows.table, names)
        return Groups(rows, tuple(names), None if given is None else public_keys(given, kinds))

    def grouped(self, column: str | Grouping) -> tuple["Rows", str]:
        """Rows that have what is grouped by as a column, and its name."""
        schema, computed = self.table.schema, self.table.computed
        if isinstance(column, str):
            if column in schema or column.isidentifier():
                return self, column
            name, text = column, column
        elif isinstance(column, Grouping):
            name, text = column.name, column.text(schema)
        else:
            raise QueryError(f"group_by({column!r}) must be a column, an expression, date_part(...) or bins(...)")
        if name in computed and computed[name] == self.table.expression(text):
            return self, name
        return self.with_column(name, text), name

    def agg(self, **aggregates: Statistic) -> "Query":
        """Statistics of all the rows together, as one group."""
        return Groups(self, (), ((),)).agg(**aggregates)

    def most_common(self, column: str, *, among: Any, k: int = 1, counted: bool = False) -> "TopK":
        """Which of the public values `among` the most units have in a row, the k first in order; a unit may have many.

        counted: with the winners' numbers of units, for half of the spend: their noise is fresh, and not the choice's own.
        """
        values = public_keys(among, {column: self.table.groupable(column)})
        if not 1 <= integer(at_least=1, k=k) <= len(values):
            raise QueryError(f"k={k} must be at most the number of values among which to choose, {len(values)}")
        return TopK(self, column, values, k, counted)


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows with their group columns; keys None: discovered privately. margins: places of columns, where margins are asked.

    asked: linear queries over the groups, where these are asked in their place.
    """

    rows: Rows
    columns: tuple[str, ...]
    keys: tuple[Key, ...] | None
    margins: tuple[tuple[int, ...], ...] = ()
    asked: Workload | None = None

    def marginals(self, *margins: Sequence[str]) -> "Groups":
        """Not the groups themselves but margins of them: for each list of columns, one group a value of these together.

        One count or sum of each; all come from one plan that measures what tells the most of them, and they are consistent: what
        two margins share adds up to the same. Keys must be public, and a product of values by column.
        """
        if self.asked is not None:
            raise QueryError("marginals and a workload are two questions: ask one of them")
        return replace(self, margins=margins_of(self.columns, self.keys, margins))

    def workload(self, asked: Workload | Mapping[str, Mapping[Any, Number]]) -> "Groups":
        """Not the groups themselves but sums of them: `nt.prefix_sums()`, `nt.range_sums()`, `nt.moving_sums(6)`, or
        weights by name and key.

        One count or sum of each; all come from one plan that measures what tells the most of them, and they are consistent:
        answers that the same groups make up add up. Keys must be public; ranges go by their order.

        >>> import pyarrow as pa
        >>> from neartwin.queries.open import table
        >>> visits = table(pa.table({"who": ["ada"], "age": [36]}), unit="who", name="visits")
        >>> visits.group_by("age", keys=range(18, 91)).workload({"mean age, times people": {k: k for k in range(18, 91)}}).columns
        ('age',)
        """
        if self.margins:
            raise QueryError("marginals and a workload are two questions: ask one of them")
        found = asked if isinstance(asked, Workload) else weighted(asked)
        found.resolved(self.columns, self.keys)
        return replace(self, asked=found)

    def agg(self, **aggregates: Statistic) -> "Query":
        """Statistics of each group, named by the keyword."""
        if not aggregates:
            raise QueryError("agg() must name at least one statistic, for instance agg(orders=count())")
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Statistic):
                raise QueryError(
                    f"{name}={aggregate!r} must be count(), sum(...), mean(...), median(...) or another statistic"
                )
            if name in self.columns:
                raise QueryError(f"{name!r} is a group column; give the statistic another name")
            if aggregate.bins and len(aggregates) > 1:
                raise QueryError(
                    f"{name}={aggregate} has a row for each bin, which other statistics have not; ask for it in a question of "
                    "its own: several questions can share one plan"
                )
            labels = aggregate.labels(name)
            taken = {*aggregates, *self.columns}
            if labels != (name,) and (taken & set(labels)):
                raise QueryError(f"{name}={aggregate} releases {labels}, and one of these is taken; rename it")
            if self.margins or self.asked is not None:
                linear_alone(aggregates, aggregate.is_linear)
                self._named_apart(name)
            aggregate.check(self.rows.table)
        written = {name: aggregate.spelled(self.rows.table) for name, aggregate in aggregates.items()}
        return Query(self, MappingProxyType(written))

    def _named_apart(self, name: str) -> None:
        """Refuse a statistic that is called what the answers to a workload are named by."""
        if self.asked is not None and name in dict(self.asked.resolved(self.columns, self.keys).columns):
            raise QueryError(f"{name!r} is a column of {self.asked}; give the statistic another name")


@dataclass(frozen=True, slots=True)
class Query:
    """A question that can be planned: groups and named statistics. after: what is done to the release, for nothing."""

    groups: Groups
    aggregates: Mapping[str, Statistic]
    after: PostProcessing = NOTHING

    def __repr__(self) -> str:
        by = f" by {', '.join(self.groups.columns)}" if self.groups.columns else ""
        asked = ", ".join(f"{name} = {aggregate}" for name, aggregate in self.aggregates.items())
        return f"<Query of {self.table.name!r}{by}: {asked}>"

    @property
    def table(self) -> Table:
        """The table asked."""
        return self.groups.rows.table

    @property
    def released(self) -> dict[str, ColumnType]:
        """The columns that HAVING and ORDER BY can name, and their types."""
        groups = self.groups
        if groups.asked is not None:
            found = dict(groups.asked.resolved(groups.columns, groups.keys).typed(self.table.schema))
        else:
            found = {name: self.table.schema[name] for name in groups.columns}
        for name, asked in self.aggregates.items():
            found |= asked.released(name)
        return found | ({MARGIN: ColumnType.TEXT} if self.groups.margins else {})


@dataclass(frozen=True, slots=True)
class TopK:
    """A question that can be planned: the k values of one column that the most units have; counted, with their numbers."""

    rows: Rows
    column: str
    among: tuple[Key, ...]
    k: int = 1
    counted: bool = False

    @property
    def table(self) -> Table:
        """The table asked."""
        return self.rows.table
