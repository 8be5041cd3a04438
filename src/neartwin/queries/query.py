"""Questions: the rows of a table, their groups, and statistics. They are frozen, and building one reads no row.

`PostProcessing` works on the noisy release: shapes, arithmetic, and SQL's HAVING, ORDER BY and LIMIT. It costs nothing and
is no part of a plan. A question in another order has one stored answer.

Computed groups (parts of dates and times, and bins), keys that follow from an expression, and margins of public groups.
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Any, Never

from sqlglot import exp

from neartwin.checks import integer, made_of, several
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import Number, rational
from neartwin.interactive import at_a_prompt, variable
from neartwin.queries.arithmetic import Arithmetic, label_of
from neartwin.queries.workloads import Workload, weighted
from neartwin.statistics.base import OfBoundedValues, Statistic
from neartwin.tables.expressions import RowExpression, parsed
from neartwin.tables.joins import On, OtherTable, joined, new_names, origin_of, pairs_of
from neartwin.tables.per_unit import per_unit, with_windows
from neartwin.tables.ranges import filled_by, grouped_by, never_null, possible_values
from neartwin.tables.table import Table
from neartwin.tables.terms import PARTS, UNITS, Term
from neartwin.tables.types import NUMERIC, ColumnType, Key, public_keys, with_ends

_MOST_BINS = 500
Edge = Number | dt.date | dt.datetime


@dataclass(frozen=True, slots=True)
class Grouping:
    """A computed group column.

    Attributes:
        name: The name of the group column; empty for a default.
        of: A column or expression.
        around: An expression around it, marked by {}.
    """

    name: str
    of: str
    around: str

    def text(self, schema: Mapping[str, ColumnType]) -> str:
        """The expression, for a table with these columns."""
        inner = exp.column(self.of, quoted=True).sql(dialect="duckdb") if self.of in schema else f"({self.of})"
        return self.around.replace("{}", inner)


def date_part(part: str, of: str, *, name: str = "") -> Grouping:
    """Group by a part of a date or time.

    All possible values of the part are public keys, except years and first days. Give keys for those, or two ends in
    `where`, or have them discovered. NULL is one, unless a condition leaves rows without a date out:
    `where("visited IS NOT NULL")`.

    Args:
        part: "year", "quarter", "month", "week", "day" (of the month), "dayofyear", "isodow" (1 for Monday to 7 for
            Sunday), "hour", "minute" or "second", a whole number. Or "year start", "quarter start", "month start" or
            "week start", a first day.
        of: A column or an expression.
        name: The name of the group column; by default like `visited_month`.

    Returns:
        The group column.

    Raises:
        ParameterError: The part is unknown.

    >>> date_part("month", "visited").text({"visited": ColumnType.DATE})
    'month("visited")'
    """
    unit, _, start = part.partition(" ")
    if part not in PARTS and not (unit in UNITS and start == "start"):
        raise ParameterError("part", part, "must be one of " + ", ".join([*PARTS, *(f"{it} start" for it in UNITS)]))
    around = f"date_trunc('{unit}', {{}})" if start else f"{part}({{}})"
    return Grouping(name or f"{of}_{unit}", of, around)


def date(of: str, *, name: str = "") -> Grouping:
    """Group by the day of a date or time. As a period of a unit, it protects one person's day.

    Args:
        of: A column or an expression.
        name: The name of the group column; by default like `at_day`.

    Returns:
        The group column, or the period in `nt.table(..., unit=("user_id", nt.date("at")))`.

    >>> date("at").text({"at": ColumnType.TIMESTAMP})
    'CAST("at" AS DATE)'
    """
    return Grouping(name or f"{of}_day", of, "CAST({} AS DATE)")


def bins(of: str, edges: Sequence[Edge], *, name: str = "") -> Grouping:
    r"""Group by bins between public edges: [e0, e1), [e1, e2), ..., and the last one with both ends.

    The bins are the public keys, as text. NULL is one more, for rows without a value and for values in no bin. Keys may name
    bins alone.

    Args:
        of: A column or an expression of numbers, dates or times.
        edges: At least two, rising.
        name: The name of the group column; by default like `age_bin`.

    Returns:
        The group column.

    Raises:
        ParameterError: The edges do not rise, or have different types.

    >>> bins("age", [0, 18, 65]).text({"age": ColumnType.INTEGER})
    'CASE WHEN "age" < 0 THEN NULL WHEN "age" < 18 THEN \'[0, 18)\' WHEN "age" <= 65 THEN \'[18, 65]\' END'
    """
    if not 2 <= len(several(edges=edges)) <= _MOST_BINS:
        raise ParameterError("edges", edges, f"must be a list of 2 to {_MOST_BINS} numbers, dates or times")
    if len({(isinstance(edge, dt.date), isinstance(edge, dt.datetime)) for edge in edges}) != 1:
        raise ParameterError("edges", edges, "must be all numbers, all dates or all times")
    exact = [edge if isinstance(edge, dt.date) else rational(edge=edge) for edge in edges]
    for low, high in pairwise(exact):
        if not low < high:  # type: ignore[operator] # of one family
            raise ParameterError("edges", edges, f"must be in ascending order, and {low} is not below {high}")
    literals = [_literal(edge) for edge in exact]
    shown = [literal.partition("'")[2].rstrip("'") or literal for literal in literals]
    last = len(exact) - 1
    branches = [f"WHEN {{}} < {literals[0]} THEN NULL"]
    branches += [f"WHEN {{}} < {literals[i]} THEN '[{shown[i - 1]}, {shown[i]})'" for i in range(1, last)]
    branches.append(f"WHEN {{}} <= {literals[last]} THEN '[{shown[last - 1]}, {shown[last]}]'")
    return Grouping(name or f"{of}_bin", of, f"CASE {' '.join(branches)} END")


def _literal(edge: Fraction | dt.date | dt.datetime) -> str:
    match edge:
        case dt.datetime():
            return f"TIMESTAMP '{edge}'"
        case dt.date():
            return f"DATE '{edge}'"
    return str(edge.numerator) if edge.denominator == 1 else repr(float(edge))


MOST_LISTED = 250_000  # groups that no keys name: planning lists every one


def completed(keys: Any, table: Table, names: list[str], conditions: Iterable[RowExpression] = ()) -> Any:
    """Complete the keys with all possible values of columns that have finitely many.

    Args:
        keys: The given keys, or None.
        table: The table.
        names: The group columns.
        conditions: Conditions of all rows, such as town IN ('Bonn', 'Ulm') or year BETWEEN 2020 AND 2024, which list values.

    Returns:
        The keys, or None if some column's values cannot be listed, or without given keys are too many.

    Raises:
        QueryError: Beside given keys they are too many.
    """
    if keys is not None and not isinstance(keys, Mapping):
        return keys
    listed = {name: values_in(table, name, conditions) for name in names if name not in (keys or {})}
    closed = {name: values for name, values in listed.items() if values is not None}
    cells = prod(map(len, closed.values()))
    if keys is None and (len(closed) < len(names) or cells > MOST_LISTED):
        return None
    if cells > MOST_LISTED:
        raise QueryError(f"keys= leaves {', '.join(closed)} with {cells:,} cells to list; give keys of fewer")
    return closed | dict(keys or {})


def values_in(table: Table, name: str, conditions: Iterable[RowExpression]) -> tuple[object, ...] | None:
    """All possible values of a column in rows that meet the conditions. NULL is last, unless no row can have it.

    Args:
        table: The table.
        name: The column.
        conditions: The conditions, such as town IN ('Bonn', 'Ulm') or year BETWEEN 2020 AND 2024, which list values.

    Returns:
        The values, or None if they cannot be listed.
    """
    own = table.computed[name].term if name in table.computed else Term("column", table.schema[name], value=name)
    held = [one for condition in conditions for one in _held(condition.term)]
    for first, *others in (one.parts for one in reversed(held) if one.operation in {"in", "="}):
        if first == own and all(part.operation == "literal" and not part.is_null for part in others):
            return tuple(dict.fromkeys(part.value for part in others))
    values, filled = possible_values(own, tuple(held)), frozenset[Term]().union(*map(filled_by, held))
    return values if values is None or never_null(own, filled, tuple(held)) else (*values, None)


def _held(condition: Term) -> list[Term]:
    """The conditions that all hold where this one does."""
    return [one for part in condition.parts for one in _held(part)] if condition.operation == "and" else [condition]


MARGIN = "margin"  # the release's column that says which margin a group is of
MOST_COLUMNS = 10  # margins that may be measured are subsets of them
MOST_CELLS = 2**21  # of the table behind all margins, which one statement counts


def margins_of(
    columns: tuple[str, ...], keys: tuple[Key, ...] | None, margins: Sequence[Sequence[str]]
) -> tuple[tuple[int, ...], ...]:
    """Each margin as places of columns, in the columns' order.

    Args:
        columns: The group columns.
        keys: The public keys, or None.
        margins: Lists of group columns.

    Returns:
        The margins.

    Raises:
        QueryError: A margin is not allowed, or keys are missing.
    """
    if keys is None:
        raise QueryError("marginals need public keys: give keys={column: values} for each column")
    if len(columns) > MOST_COLUMNS or len(keys) > MOST_CELLS:
        raise QueryError(f"marginals are over at most {MOST_COLUMNS} columns with {MOST_CELLS:,} combinations of keys")
    if MARGIN in columns:
        raise QueryError(f"{MARGIN!r} is the name of the release's column of margins; rename the other column")
    values_of(len(columns), keys)
    places = []
    for margin in margins:
        if isinstance(margin, str) or len(set(margin)) != len(margin):
            raise QueryError(f"marginals({margin!r}): each margin is a list of columns, each once")
        unknown = [name for name in margin if name not in columns]
        if unknown:
            raise QueryError(f"marginals: {unknown[0]!r} is not among the group columns {', '.join(columns)}")
        places.append(tuple(place for place, name in enumerate(columns) if name in margin))
    if not places or len(set(places)) != len(places):
        raise QueryError("marginals() takes at least one list of columns, each list once")
    return tuple(places)


def values_of(columns: int, keys: Sequence[Key]) -> tuple[tuple[object, ...], ...]:
    """The values of each column, if the keys are their product.

    Args:
        columns: Number of columns.
        keys: The keys.

    Returns:
        The values of each column, in order.

    Raises:
        QueryError: The keys are no product.

    >>> values_of(2, [("f", 1), ("f", 2), ("m", 1), ("m", 2)])
    (('f', 'm'), (1, 2))
    """
    values = tuple(tuple(dict.fromkeys(key[place] for key in keys)) for place in range(columns))
    if prod(map(len, values)) != len(keys):
        raise QueryError("marginals need keys that are a product: give values by column, as keys={'sex': [...], ...}")
    return values


def named(columns: Sequence[str], margin: Sequence[int]) -> str:
    """The name of a margin.

    Args:
        columns: The group columns.
        margin: The places of the margin's columns.

    Returns:
        The name.

    >>> named(("age", "sex", "town"), (0, 2)), named(("age",), ())
    ('age, town', '(all)')
    """
    return ", ".join(columns[place] for place in margin) or "(all)"


SortKey = tuple[str, bool] | tuple[str, bool, bool]  # a column, whether it descends, and whether NULL is first


@dataclass(frozen=True, slots=True, kw_only=True)
class PostProcessing:
    """Steps on a release, in this order.

    Attributes:
        monotone: Pairs of a column and whether it grows.
        non_negative: Columns that are cut at 0.
        computed: Pairs of a new name and an `Arithmetic` expression over the release's columns, or a text in quotes.
        divided: Statistics that are asked only to be divided by another or to divide it: limits are chosen for quotients.
        having: A condition over the release's columns, or "".
        order: The keys, the first one first: columns, or expressions over them.
        limit: The largest number of groups; None for all.
        offset: Groups skipped before the first.
        shown: Pairs of a group column and the name that the answer gives it.
    """

    monotone: tuple[tuple[str, bool], ...] = ()
    non_negative: tuple[str, ...] = ()
    computed: tuple[tuple[str, str], ...] = ()
    divided: tuple[str, ...] = ()
    having: str = ""
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    shown: tuple[tuple[str, str], ...] = ()

    def checked(self, released: Mapping[str, ColumnType]) -> "PostProcessing":
        """These steps, whose arithmetic and condition are known to be understood.

        Args:
            released: The columns of the result before them, and their types.

        Returns:
            The steps.

        Raises:
            QueryError: A part is not understood, or a column has the name of another.
        """
        schema, numbers = dict(released), {name for name, kind in released.items() if kind in NUMERIC}
        for name, text in self.computed:
            if not with_ends(*schema).isdisjoint(with_ends(name)):
                raise QueryError(f"{name!r} names two columns; give {text} another name with AS")
            schema[name] = ColumnType.NUMBER if label_of(text) is None else ColumnType.TEXT
            if schema[name] is ColumnType.NUMBER:
                Arithmetic.parse(text, numbers, [one for one in released if released[one] is not ColumnType.NUMBER])
        if self.having and (condition := RowExpression.parse(self.having, schema)).type is not ColumnType.BOOLEAN:
            raise QueryError(f"HAVING {self.having!r} is {condition.type}, and no condition; write COUNT(*) > 100")
        for name in sorted({name for name, *_ in self.order} - schema.keys()):
            RowExpression.parse(name, schema)
        return self


NOTHING = PostProcessing()
WAYS = {"increasing": True, "decreasing": False}  # of monotone columns, in words


def _asked_columns(rows: "Rows", asked: str) -> dict[str, str]:
    """Columns for an example: the asked one, or else one that is not the unit's."""
    columns = sorted(rows.table.schema, key=lambda name: (name != asked, name == rows.table.unit))
    numbers = [name for name in columns if rows.table.schema[name] in NUMERIC]
    habit = {"habit": "__getitem__"} if asked in rows.table.schema else {}
    return {"column": repr(columns[0]), "number": repr([*numbers, columns[0]][0])} | habit


@at_a_prompt("rows", _asked_columns)
@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table that meet every condition. Each question starts here.

    Attributes:
        table: The table.
        conditions: The conditions.
        first: Questions of one number, $1, $2, ... in conditions and on the release. Each is paid, and answered first.
        compared: Whether noisy answers stand in the conditions: no bar then holds what the exact ones would give.
    """

    table: Table
    conditions: tuple[RowExpression, ...] = ()
    first: tuple[Any, ...] = ()  # of Query
    compared: bool = False

    @property
    def answers(self) -> dict[str, ColumnType]:
        """The answers of the questions asked first, $1, $2, ..., by type: dates and numbers."""
        dated = (isinstance(one, Query) and ColumnType.DATE in one.released.values() for one in self.first)
        return {f"${i}": ColumnType.DATE if one else ColumnType.NUMBER for i, one in enumerate(dated, 1)}

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.table.schema.items())
        where = f"; where {' and '.join(one.text for one in self.conditions)}" if self.conditions else ""
        return f"<Rows of {self.table.name!r}, unit {self.table.unit_name}: {columns}{where}>"

    def where(self, condition: str, *first: "Query") -> "Rows":
        """The rows for which the condition is also true. NULL is not true.

        Args:
            condition: A SQL expression of one row.
            first: Questions about the same table with one number each, which the condition names $1, $2, ... They are
                paid with this one, a fifth of its spend for all of them, and answered first. Their noisy answers stand in
                the condition.

        Returns:
            The new rows.

        Raises:
            QueryError: The expression is not allowed, or is no condition.

        >>> import neartwin as nt, pyarrow as pa
        >>> pay = {"pay": nt.bounds(0, 9000)}
        >>> people = nt.table(pa.table({"who": ["ada"], "pay": [5.0]}), unit="who", name="people", columns=pay)
        >>> people.where("pay > 2 * $1", people.agg(typical=nt.mean("pay"))).agg(rich=nt.count())
        <Query of 'people': rich = count()>
        """
        made_of(str, "a SQL text; write rows.where('amount > 5')", where=condition)
        asked, answers = self.ask_first(*first), dict[str, RowExpression]()
        for i, (name, kind) in enumerate(asked.answers.items(), 1):
            answers[name] = RowExpression("", kind, Term("answer", kind, value=i))
        checked = RowExpression.parse(condition, self.table.schema, {**self.table.computed, **answers})
        if checked.type is not ColumnType.BOOLEAN:
            line = f"write rows.where('{condition} > 5')"
            raise QueryError(f"where={condition!r} is {checked.type}, no condition; {line}")
        return replace(asked, conditions=(*self.conditions, checked))

    def ask_first(self, *questions: "Query") -> "Rows":
        """These rows, for a question that is paid and answered with others first.

        Args:
            questions: Questions of one number each, as for `where`. They are $1, $2, ... in conditions and in arithmetic on
                the release.

        Returns:
            The rows.

        >>> import neartwin as nt, pyarrow as pa
        >>> rows = nt.table(pa.table({"who": range(90), "town": ["Ulm", "Bonn"] * 45}), unit="who", name="visits")
        >>> towns = rows.ask_first(rows.agg(n=nt.count())).group_by("town", keys=["Bonn", "Ulm"]).agg(n=nt.count())
        >>> with nt.open_ledger(getfixture("tmp_path") / "budget.db") as ledger:
        ...     account, one = ledger.open(rows, nt.pure(9)), nt.limits(max_rows_per_group=1, max_groups=1)
        ...     release = account.release(account.plan(towns, spend=nt.pure(9), limits=one))
        >>> release.computed("percent", "100 * n / $1")["percent"].what
        '100 * n / $1'
        """
        return replace(self, first=(*self.first, *questions))

    def join(
        self, other: "Rows | OtherTable", *, on: On = None, how: str = "inner", prefix: str = "", keys: On = None
    ) -> "Rows":
        """Join each row with the rows of another table that have equal values `on`. Bounds are applied after all joins.

        Args:
            other: `nt.public_table(...)`, whose rows anyone may know. Or a table with `unit=nt.owned_by(...)`, whose rows
                belong to the unit with their key here; the key is declared and need not be named. Or a table of the same
                population, whose units are then equated. Its conditions and joins hold before this one, as in a subquery.
            on: A column, a list of columns, or a mapping from columns here to the other's. Units of one name and type
                need not be named.
            how: "inner" drops unmatched rows, and "left" keeps them with NULL. "beside" continues a left join: rows
                meet both tables, or have NULL for both.
            prefix: Put before the other's columns whose names are taken.
            keys: From new names to keys of the other, which a left join leaves NULL in rows that met none; {'t_town': 'town'}.

        Returns:
            The joined rows.

        Raises:
            QueryError: The join is not safe.
            SchemaError: A column is missing, or types differ.
        """
        table_of(other)
        table = self.table
        if isinstance(table.unit, str) and not table.computed.keys().isdisjoint(left for left, _ in pairs_of(on)):
            table = with_windows(table, (), {})  # in which they are columns
        if isinstance(other, Rows):
            if other.first:
                raise QueryError("join: what is asked first is compared, so put conditions after it, not on the table")
            if other.table.computed or other.table.joins or (other.conditions and how != "inner"):
                other = Rows(with_windows(other.table, other.conditions, {}))  # as a subquery with columns of its own
            new = joined(table, other.table, on=on, how=how, prefix=prefix, keys=keys)
            moved = tuple(condition.renamed(new_names(new.joins[-1])) for condition in other.conditions)
            return replace(self, table=new, conditions=(*self.conditions, *moved))
        return replace(self, table=joined(table, other, on=on, how=how, prefix=prefix, keys=keys))

    def with_column(self, name: str, expression: str) -> "Rows":
        """The rows with one computed column more, for conditions, groups and statistics.

        Args:
            name: The name of the new column.
            expression: A SQL expression of one row.

        Returns:
            The new rows.

        Raises:
            SchemaError: The name is taken.
            QueryError: The expression is not allowed.

        >>> import pyarrow as pa
        >>> from neartwin.queries.open import table
        >>> visits = table(pa.table({"who": ["ada"], "age": [36]}), unit="who", name="visits")
        >>> visits.with_column("adult", "age >= 18").group_by("adult").columns
        ('adult',)
        """
        has_over = re.search(r"\bOVER\b", str(expression), re.IGNORECASE)
        if has_over and (tree := parsed(str(expression))).find(exp.Window):
            return Rows(with_windows(self.table, self.conditions, {name: tree}))
        return replace(self, table=self.table.with_column(name, expression))

    def per_unit(self, *by: str | Grouping, **columns: str) -> "Rows":
        """One row for each unit, or for each of a unit's groups, with aggregates of the unit's rows. They are exact, and no
        answer yet: questions about them are bounded and noisy like others.

        Args:
            by: Further columns, whose values group a unit's rows.
            columns: Aggregates in SQL, by name; see `neartwin.tables.per_unit`.

        Returns:
            The new rows, of the same units.

        Raises:
            QueryError: An aggregate is not understood, or the unit is no column.
            SchemaError: A column is missing.

        >>> import neartwin as nt, pyarrow as pa
        >>> doses = nt.table(pa.table({"who": ["ada", "ada"], "dose": [2, 3]}), unit="who", name="doses")
        >>> doses.per_unit(times="COUNT(*)", top="MAX(dose)").where("top > 2").group_by("times", keys=[1, 2]).columns
        ('times',)
        """
        rows, names = self, []
        for column in by:
            rows, name = rows.grouped(column)
            names.append(name)
        grouped = {name: name for name in (rows.table.unit, *names) if isinstance(name, str)}
        aggregates = {name: parsed(text) for name, text in columns.items()}
        return Rows(per_unit(rows.table, self.conditions, grouped, aggregates))

    def group_by(self, *columns: str | Grouping, keys: Any = None) -> "Groups":
        """Group by columns, expressions, `date_part`s and `bins`.

        Args:
            columns: The group columns.
            keys: Public keys: a list, range, product or table. Without them, an expression with finitely many values
                supplies its own (months, bins, CASE of literals, conditions), and NULL where it may be NULL. So does a
                column that `where` compares with a list, town IN ('Bonn', 'Ulm'), or with two ends: days, periods and
                whole numbers, at most 400. If any group column is open, keys are discovered privately. A mapping of
                keys may omit the columns that are not open.

        Returns:
            The groups.

        Raises:
            QueryError: A column is repeated, or a key does not fit.
            SchemaError: A column is missing, or rows cannot be grouped by its type.
        """
        given: tuple[Any, ...] = columns
        if given and isinstance(given[-1], list | tuple):
            line = f"{given[0]!r}, keys={given[-1]!r}" if given[1:] else ", ".join(map(repr, given[0]))
            raise QueryError(
                f"group_by({given[-1]!r}): columns are single, keys have a name; write rows.group_by({line})"
            )
        rows, names = self, []
        for column in columns:
            rows, name = rows.grouped(column)
            rows = replace(rows, table=grouped_by(rows.table, name))
            names.append(name)
        kinds = {name: rows.table.groupable(name) for name in names}
        if not names or len(kinds) != len(names):
            raise QueryError(f"group_by{tuple(names)!r} must name at least one column, each once")
        complete = completed(keys, rows.table, names, rows.conditions)
        return Groups(rows, tuple(names), None if complete is None else public_keys(complete, kinds))

    def grouped(self, column: str | Grouping) -> tuple["Rows", str]:
        """The rows with a group column, and its name.

        Args:
            column: A column, an expression or a computed group column.

        Returns:
            The rows, and the column's name.

        Raises:
            QueryError: It is not a column or an allowed expression.
        """
        schema, computed = self.table.schema, self.table.computed
        if isinstance(column, str):
            if column in schema or column.isidentifier():
                return self, column
            name, text = column, column
        elif isinstance(column, Grouping):
            name, text = column.name, column.text(schema)
        else:
            raise QueryError(
                f"group_by() of a {type(column).__name__}: write a column, an expression, date_part(...) or bins(...)"
            )
        if name in computed and computed[name] == self.table.expression(text):
            return self, name
        return self.with_column(name, text), name

    def agg(self, *unnamed: Never, **aggregates: Statistic) -> "Query":
        """Statistics of all rows together, as one group.

        Args:
            unnamed: None: each statistic has a name.
            aggregates: The statistics, by name.

        Returns:
            The question.
        """
        return Groups(self, (), ((),)).agg(*unnamed, **aggregates)

    def most_common(self, column: str, *, among: Any, k: int = 1, counted: bool = False) -> "TopK":
        """Find the k public values that the most units have, in order. A unit may have many values.

        Args:
            column: The column.
            among: The public values.
            k: The number of winners.
            counted: Whether to release the winners' numbers of units too, with fresh noise, for half of the spend.

        Returns:
            The question.

        Raises:
            QueryError: k exceeds the number of values.
        """
        values = public_keys(among, {column: self.table.groupable(column)})
        if not 1 <= integer(at_least=1, k=k) <= len(values):
            raise QueryError(f"k={k} must be at most the number of values among which to choose, {len(values)}")
        return TopK(self, column, values, k, counted)


@at_a_prompt("groups")
@dataclass(frozen=True, slots=True)
class Groups:
    """Rows with their group columns.

    Attributes:
        rows: The rows.
        columns: The group columns.
        keys: The public keys; None if they are discovered privately.
        margins: The asked margins, as places of columns.
        linear_workload: Linear queries over the groups, in place of the groups; or None.
    """

    rows: Rows
    columns: tuple[str, ...]
    keys: tuple[Key, ...] | None
    margins: tuple[tuple[int, ...], ...] = ()
    linear_workload: Workload | None = None

    def __repr__(self) -> str:
        keys = "keys to discover" if self.keys is None else f"{len(self.keys)} public keys"
        return f"<Groups of {self.rows.table.name!r} by {', '.join(self.columns)}, {keys}: ask them with agg(...)>"

    def marginals(self, *margins: Sequence[str]) -> "Groups":
        """Ask for margins of the groups, in place of the groups. Each list of columns gives one group a combination of its
        values.

        One plan measures the sums that best determine all margins. They are consistent: shared totals are equal. The
        keys must be public, and a product of values by column.

        Args:
            margins: Lists of group columns.

        Returns:
            The groups, for one count or sum.

        Raises:
            QueryError: A margin is not allowed, or keys are missing.
        """
        if self.linear_workload is not None:
            raise QueryError("marginals and a workload are two questions: ask one of them")
        return replace(self, margins=margins_of(self.columns, self.keys, margins))

    def workload(self, workload: Workload | Mapping[str, Mapping[Any, Number]]) -> "Groups":
        """Ask for sums of the groups, in place of the groups.

        One plan measures the sums that best determine all answers. They are consistent: sums over equal groups are
        equal. The keys must be public; ranges go by their order.

        Args:
            workload: `nt.prefix_sums()`, `nt.range_sums()`, `nt.moving_sums(6)`, or weights by name and key.

        Returns:
            The groups, for one count or sum.

        Raises:
            QueryError: The workload does not fit the keys.

        >>> import pyarrow as pa
        >>> from neartwin.queries.open import table
        >>> visits = table(pa.table({"who": ["ada"], "age": [36]}), unit="who", name="visits")
        >>> visits.group_by("age", keys=range(18, 91)).workload({"mean age, times people": {k: k for k in range(18, 91)}}).columns
        ('age',)
        """
        if self.margins:
            raise QueryError("marginals and a workload are two questions: ask one of them")
        linear = workload if isinstance(workload, Workload) else weighted(workload)
        linear.resolved(self.columns, self.keys)
        return replace(self, linear_workload=linear)

    def agg(self, *unnamed: Never, **aggregates: Statistic) -> "Query":
        """Statistics of each group, named by the keyword.

        Args:
            unnamed: None: each statistic has a name.
            aggregates: The statistics, by name.

        Returns:
            The question.

        Raises:
            QueryError: A name is taken, or a statistic does not fit the groups.
        """
        if unnamed or not aggregates:
            said = f"agg({', '.join(map(str, unnamed))}) must name at least one statistic, and each of them"
            raise QueryError(f"{said}; write agg(orders=nt.count())")
        written = dict[str, Statistic]()
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Statistic):
                raise QueryError(
                    f"{name}={variable(aggregate)} must be a statistic, such as nt.sum('amount', 0, 200) or nt.mean('amount', "
                    f"0, 200); write {name}=nt.count()"
                )
            if aggregate.bins and len(aggregates) > 1:
                raise QueryError(
                    f"{name}={aggregate} has a row for each bin, and other statistics do not; ask for it in a question of "
                    "its own: several questions can share one plan"
                )
            if (self.margins or self.linear_workload) and (len(aggregates) != 1 or not aggregate.is_linear):
                line = "ask others in questions of their own"
                raise QueryError(f"marginals and workloads take one count() or sum(...); {line}")
            linear = self.linear_workload
            columns = self.columns if linear is None else dict(linear.resolved(self.columns, self.keys).columns)
            taken = {*self.columns, *columns, *(aggregates.keys() - {name})}
            if both := sorted(taken & with_ends(name, *aggregate.labels(name))):
                raise QueryError(f"{name}={aggregate} releases {both[0]!r}, a name in use; give it another name")
            if isinstance(aggregate, OfBoundedValues):
                aggregate = replace(aggregate, conditions=tuple(one.term for one in self.rows.conditions))  # noqa: PLW2901
            aggregate.check(self.rows.table)
            written[name] = aggregate.spelled(self.rows.table)
        return Query(self, MappingProxyType(written))


@at_a_prompt("query")
@dataclass(frozen=True, slots=True)
class Query:
    """A question that can be planned: groups and named statistics.

    Attributes:
        groups: The groups.
        aggregates: The statistics, by name.
        after: Steps on the release, at no cost.
    """

    groups: Groups
    aggregates: Mapping[str, Statistic]
    after: PostProcessing = NOTHING

    def __repr__(self) -> str:
        by = f" by {', '.join(self.groups.columns)}" if self.groups.columns else ""
        statistics = ", ".join(f"{name} = {aggregate}" for name, aggregate in self.aggregates.items())
        return f"<Query of {self.table.name!r}{by}: {statistics}>"

    @property
    def table(self) -> Table:
        """The table of the question."""
        return self.groups.rows.table

    @property
    def units_alone(self) -> bool:
        """Whether nothing but distinct units is counted, so that a unit's rows in a group do not matter."""
        return all(one.counts_units for one in self.aggregates.values())

    @property
    def units_beside(self) -> bool:
        """Whether distinct units are counted beside other statistics."""
        return not self.units_alone and any(one.counts_units for one in self.aggregates.values())

    @property
    def values_alone(self) -> bool:
        """Whether nothing but distinct values is counted, and units beside them."""
        counted = [one for one in self.aggregates.values() if not one.counts_units]
        return bool(counted) and all(one.counts_values for one in counted)

    @property
    def released(self) -> dict[str, ColumnType]:
        """The columns of the release, and their types. HAVING and ORDER BY can name them."""
        groups = self.groups
        if groups.linear_workload is not None:
            types = dict(groups.linear_workload.resolved(groups.columns, groups.keys).typed(self.table.schema))
        else:
            types = {name: self.table.schema[name] for name in groups.columns}
        for name, statistic in self.aggregates.items():
            types |= statistic.released(name, self.table)
        return types | groups.rows.answers | ({MARGIN: ColumnType.TEXT} if self.groups.margins else {})


@at_a_prompt("query")
@dataclass(frozen=True, slots=True)
class TopK:
    """A question that can be planned: the k values of one column that the most units have.

    Attributes:
        rows: The rows.
        column: The column.
        among: The public values.
        k: The number of winners.
        counted: Whether their numbers of units are released too.
    """

    rows: Rows
    column: str
    among: tuple[Key, ...]
    k: int = 1
    counted: bool = False

    @property
    def table(self) -> Table:
        """The table of the question."""
        return self.rows.table


def table_of(other: Rows | OtherTable) -> Table | OtherTable:
    """The table of what can be joined: rows of the same units, or a table without a unit."""
    made_of((Rows, OtherTable), f"public, or have a unit; write nt.public_table({variable(other)})", join=other)
    return other.table if isinstance(other, Rows) else other


def origins_of(table: Table, tables: Mapping[str, Rows | OtherTable]) -> dict[str, tuple[str, str]]:
    """The origin of each column whose values a known table has: that table's name, and the column's own name there.

    Args:
        table: Joined rows.
        tables: The tables that may be joined, by name. The name of the first table is "", unless it is one of them.

    Returns:
        The origins, by the columns' names in the rows. A computed column has none.
    """
    known = {table.source: ""} | {table_of(other).source: name for name, other in tables.items()}
    found = {column: origin_of(table, column) for column in table.schema}
    return {column: (known[one[0]], one[1]) for column, one in found.items() if one and one[0] in known}
