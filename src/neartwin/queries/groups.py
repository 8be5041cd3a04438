"""Computed groups (parts of dates and times, and bins), keys that follow from an expression, and margins of public groups."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any

from sqlglot import exp

from neartwin.checks import several
from neartwin.errors import ParameterError, QueryError
from neartwin.exact import Number, rational
from neartwin.tables.expressions import RowExpression
from neartwin.tables.ranges import filled_by, never_null, possible_values
from neartwin.tables.table import Table
from neartwin.tables.terms import PARTS, UNITS, Term
from neartwin.tables.types import ColumnType, Key

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
