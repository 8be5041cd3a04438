"""Questions: rows of a table, grouped or not, and the statistics asked of them. Frozen; building one reads no row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from neartwin.checks import integer
from neartwin.errors import QueryError
from neartwin.exact import Number, rational
from neartwin.queries.after import NOTHING, After
from neartwin.queries.expression import RowExpression
from neartwin.queries.grouping import Grouping
from neartwin.queries.histograms import Histogram
from neartwin.queries.joining import On, OtherTable, joined, met
from neartwin.queries.key_columns import completed
from neartwin.queries.keys import Key, public_keys
from neartwin.queries.margins import MARGIN, linear_alone, margins_of
from neartwin.queries.moments import (
    Deviation,
    MomentStatistic,
    Regression,
    Variance,
    moment_set,
)
from neartwin.queries.quantiles import Extreme, Quantile
from neartwin.queries.table import Bounds, Table, both_ends, bounded
from neartwin.queries.types import ColumnType
from neartwin.queries.values import Value, value_of
from neartwin.queries.workloads import Workload, weighted


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
    """The sum of a column or expression, each value clipped to its public bounds; NULL and NaN are left out, or stand for `fill`.

    step: of the grid, where the bounds are the table's or follow from them.
    """

    column: str
    bounds: Bounds | None
    fill: Fraction | None = None
    step: Fraction | None = None

    def __str__(self) -> str:
        return f"sum({self.column})"


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of the values of a column or expression that are neither NULL nor NaN, each clipped to its public bounds."""

    column: str
    bounds: Bounds | None
    fill: Fraction | None = None
    step: Fraction | None = None

    def __str__(self) -> str:
        return f"mean({self.column})"


Aggregate = Count | CountUnits | Sum | Mean | Quantile | Extreme | Histogram | MomentStatistic


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
    step: Number | None = None,
    *,
    fill: Number | None = None,
) -> Sum:
    """Sum a column or an expression, within public bounds. fill: what NULL and NaN stand for.

    low, high: without them the bounds are those that the table declares for the column, or those that follow from the
    declared bounds of each column in the expression. step: of the grid that values are rounded to, by default 1/100, the
    declared one, or the one that follows.

    >>> print(sum("amount", 0, 200).bounds)
    [0, 200] in steps of 0.01
    """
    return Sum(column, *_grid(column, low, high, step, fill))


def mean(
    column: str,
    low: Number | None = None,
    high: Number | None = None,
    step: Number | None = None,
    *,
    fill: Number | None = None,
) -> Mean:
    """The mean of a column or an expression, within public bounds; arguments as those of `sum`."""
    return Mean(column, *_grid(column, low, high, step, fill))


def variance(
    column: str,
    low: Number | None = None,
    high: Number | None = None,
    step: Number | None = None,
    *,
    fill: Number | None = None,
) -> Variance:
    """The variance of a column or an expression: sum (x - mean)^2 / n, with n the number of values. Arguments as of `sum`.

    Its bar is proven and its value at least 0 and at most (high - low)^2 / 4. Bounds decide its noise: take them tight.
    """
    return Variance(column, *_grid(column, low, high, step, fill))


def stddev(
    column: str,
    low: Number | None = None,
    high: Number | None = None,
    step: Number | None = None,
    *,
    fill: Number | None = None,
) -> Deviation:
    """The standard deviation: the root of `variance`, from the same sums where both are asked."""
    return Deviation(column, *_grid(column, low, high, step, fill))


def columns_of(name: str, aggregate: Aggregate) -> tuple[str, ...]:
    """The names of what a statistic releases: several for a regression and for a list of quantiles.

    >>> columns_of("fit", Regression("pay", ("age",)))
    ('fit_intercept', 'fit_age')
    """
    if isinstance(aggregate, Quantile):
        return aggregate.labels(name)
    if isinstance(aggregate, Regression):
        return (f"{name}_intercept", *(f"{name}_{feature}" for feature in aggregate.features))
    return (name,)


def _grid(
    column: str, low: Number | None, high: Number | None, step: Number | None, fill: Number | None
) -> tuple[Bounds | None, Fraction | None, Fraction | None]:
    """Bounds, fill, and the step where there are no bounds yet."""
    filled = None if fill is None else rational(fill=fill)
    ends = both_ends(column, low, high)
    if ends is None:
        chosen = None if step is None else rational(step=step)
        if chosen is not None and chosen <= 0:
            raise QueryError(f"step={step!r} of {column!r} must be positive")
        return None, filled, chosen
    return bounded(*ends, "1/100" if step is None else step), filled, None


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table that meet every condition: where each question starts."""

    table: Table
    conditions: tuple[RowExpression, ...] = ()

    def where(self, condition: str) -> "Rows":
        """Only the rows for which the condition is true (NULL is not true)."""
        checked = self.table.expression(condition)
        if checked.type is not ColumnType.BOOLEAN:
            raise QueryError(f"where={condition!r} is {checked.type}; a condition is wanted, for instance 'amount > 5'")
        return replace(self, conditions=(*self.conditions, checked))

    def join(self, other: "Rows | OtherTable", *, on: On = None, how: str = "inner", prefix: str = "") -> "Rows":
        """Each row with the rows of another table that have equal values `on`; bounds are applied after all joins.

        other: `nt.public(...)`, whose rows anyone may know; `nt.owned(...)`, whose rows belong to the unit that has their
        key here; or a table of the same population, whose units are then equated. on: a column, a list of columns, or a
        mapping from columns here to the other's; beside the units, which need not be named; rows that were joined themselves are
        joined table by table. how: "inner" drops rows that
        meet none, "left" keeps them with NULL. prefix: put before those names of the other's columns that are taken.
        """
        if isinstance(other, Rows):
            if other.conditions and how == "left":
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
        >>> from neartwin.queries.opening import table
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
            raise QueryError(f"group_by({column!r}) must be a column, an expression, part(...) or bins(...)")
        if name in computed and computed[name] == self.table.expression(text):
            return self, name
        return self.with_column(name, text), name

    def agg(self, **aggregates: Aggregate) -> "Query":
        """Statistics of all the rows together, as one group."""
        return Groups(self, (), ((),)).agg(**aggregates)

    def most_common(self, column: str, *, among: Any, k: int = 1, counted: bool = False) -> "MostCommon":
        """Which of the public values `among` the most units have in a row, the k first in order; a unit may have many.

        counted: with the winners' numbers of units, for half of the spend: their noise is fresh, and not the choice's own.
        """
        values = public_keys(among, {column: self.table.groupable(column)})
        if not 1 <= integer(at_least=1, k=k) <= len(values):
            raise QueryError(f"k={k} must be at most the number of values among which to choose, {len(values)}")
        return MostCommon(self, column, values, k, counted)


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
        return replace(self, margins=margins_of(self.columns, self.keys, margins))

    def workload(self, asked: Workload | Mapping[str, Mapping[Any, Number]]) -> "Groups":
        """Not the groups themselves but sums of them: `nt.prefixes()`, `nt.ranges()`, or any weights by name and public key.

        One count or sum of each; all come from one plan that measures what tells the most of them, and they are consistent:
        answers that the same groups make up add up. Keys must be public; ranges go by their order.

        >>> import pyarrow as pa
        >>> from neartwin.queries.opening import table
        >>> visits = table(pa.table({"who": ["ada"], "age": [36]}), unit="who", name="visits")
        >>> visits.group_by("age", keys=range(18, 91)).workload({"mean age, times people": {k: k for k in range(18, 91)}}).columns
        ('age',)
        """
        if self.margins:
            raise QueryError("marginals and a workload are two questions: ask one of them")
        found = asked if isinstance(asked, Workload) else weighted(asked)
        found.resolved(self.columns, self.keys)
        return replace(self, asked=found)

    def agg(self, **aggregates: Aggregate) -> "Query":
        """Statistics of each group, named by the keyword."""
        if not aggregates:
            raise QueryError("agg() must name at least one statistic, for instance agg(orders=count())")
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise QueryError(
                    f"{name}={aggregate!r} must be count(), count_units(), sum(...), mean(...), median(...) or another statistic"
                )
            if name in self.columns:
                raise QueryError(f"{name!r} is a group column; give the statistic another name")
            if len(columns_of(name, aggregate)) > 1 and set(columns_of(name, aggregate)) & {*aggregates, *self.columns}:
                raise QueryError(
                    f"{name!r} releases {columns_of(name, aggregate)}, and one of these is taken; rename it"
                )
            if isinstance(aggregate, Histogram) and len(aggregates) > 1:
                raise QueryError(
                    f"{name}={aggregate} has a row for each bin, which other statistics have not; ask for it in a question of "
                    "its own: several questions can share one plan"
                )
            if isinstance(aggregate, Histogram) and "count" in {name, *self.columns}:
                raise QueryError(f"{name}={aggregate} releases its counts as 'count', and that is taken; rename it")
            if self.margins or self.asked is not None:
                linear_alone(aggregates, isinstance(aggregate, Count | Sum))
            if isinstance(aggregate, Histogram):
                bin_value(self.rows.table, aggregate)
            if isinstance(aggregate, Sum | Mean | Quantile | Extreme):
                summand(self.rows.table, aggregate)
            elif isinstance(aggregate, MomentStatistic):
                moment_set(self.rows.table, aggregate)
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

    @property
    def released(self) -> dict[str, ColumnType]:
        """The columns that HAVING and ORDER BY can name, and their types."""
        groups = self.groups
        if groups.asked is not None:
            found = dict(groups.asked.resolved(groups.columns, groups.keys).typed(self.table.schema))
        else:
            found = {name: self.table.schema[name] for name in groups.columns}
        found |= {
            column: ColumnType.NUMBER for name, asked in self.aggregates.items() for column in columns_of(name, asked)
        }
        return found | ({MARGIN: ColumnType.TEXT} if self.groups.margins else {})


@dataclass(frozen=True, slots=True)
class MostCommon:
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


def summand(table: Table, aggregate: Sum | Mean | Quantile | Extreme) -> Value:
    """What a sum, mean or quantile is taken of, and its bounds; `QueryError` where there are none."""
    if isinstance(aggregate, Quantile | Extreme):  # which have a grid of their own
        return value_of(table, aggregate.column, aggregate.bounds)
    return value_of(table, aggregate.column, aggregate.bounds, aggregate.step, aggregate.fill)


def bin_value(table: Table, aggregate: Histogram) -> Value:
    """The number of the bin, computed from the column or expression that the histogram is of."""
    name = aggregate.column
    if name not in table.computed and (name in table.schema or name.isidentifier()):
        table.numeric(name, "histogram")
    plain = name in table.schema or name in table.computed or name.isidentifier()
    text = '"' + name.replace('"', '""') + '"' if plain else f"({name})"
    bins = Bounds(Fraction(0), Fraction(len(aggregate.edges) - 2), Fraction(1))
    return Value(str(aggregate), bins, table.expression(aggregate.bin_of(text)))
