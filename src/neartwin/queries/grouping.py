"""Groups by what is computed of a column: parts of dates and times, and bins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from itertools import pairwise

from sqlglot import exp

from neartwin.checks import several
from neartwin.errors import ParameterError
from neartwin.exact import Number, rational
from neartwin.queries.terms import PARTS, UNITS
from neartwin.queries.types import ColumnType

_MOST_BINS = 500
Edge = Number | date | datetime


@dataclass(frozen=True, slots=True)
class Grouping:
    """A computed group column: its name, and an expression around a column or expression `of`, marked by {}."""

    name: str
    of: str
    around: str

    def text(self, schema: Mapping[str, ColumnType]) -> str:
        """The expression, for a table with these columns."""
        inner = exp.column(self.of, quoted=True).sql(dialect="duckdb") if self.of in schema else f"({self.of})"
        return self.around.replace("{}", inner)


def part(part: str, of: str, *, name: str = "") -> Grouping:
    """Group by a part of a date or time.

    part: "year", "quarter", "month", "day" (of the month), "isodow" (1 for Monday to 7 for Sunday) or "hour", a whole number;
    or "year start", "quarter start", "month start" or "week start", the first day of it. of: a column or an expression.
    name: of the group column, by default `visited_month`.

    The public keys are all that the part can be, but for years and first days: name those, or have them discovered.

    >>> part("month", "visited").text({"visited": ColumnType.DATE})
    'month("visited")'
    """
    unit, _, start = part.partition(" ")
    if part not in PARTS and not (unit in UNITS and start == "start"):
        raise ParameterError("part", part, "must be one of " + ", ".join([*PARTS, *(f"{it} start" for it in UNITS)]))
    around = f"date_trunc('{unit}', {{}})" if start else f"{part}({{}})"
    return Grouping(name or f"{of}_{unit}", of, around)


def day(of: str, *, name: str = "") -> Grouping:
    """Group by the day of a date or time, or protect what a unit did in one: `nt.table(..., unit=("user_id", nt.day("at")))`.

    >>> day("at").text({"at": ColumnType.TIMESTAMP})
    'CAST("at" AS DATE)'
    """
    return Grouping(name or f"{of}_day", of, "CAST({} AS DATE)")


def bins(of: str, edges: Sequence[Edge], *, name: str = "") -> Grouping:
    r"""Group by bins between public edges: [e0, e1), [e1, e2), ..., and the last one with both ends.

    of: a column or an expression, of numbers, dates or times. edges: at least two, rising. name: of the group column, by
    default `age_bin`. The public keys are the bins, as text; a value in none of them is NULL, and in no group unless None
    is among the keys.

    >>> bins("age", [0, 18, 65]).text({"age": ColumnType.INTEGER})
    'CASE WHEN "age" < 0 THEN NULL WHEN "age" < 18 THEN \'[0, 18)\' WHEN "age" <= 65 THEN \'[18, 65]\' END'
    """
    if not 2 <= len(several(edges=edges)) <= _MOST_BINS:
        raise ParameterError("edges", edges, f"must be a list of 2 to {_MOST_BINS} numbers, dates or times")
    if len({_family(edge) for edge in edges}) != 1:
        raise ParameterError("edges", edges, "must be all numbers, all dates or all times")
    exact = [edge if isinstance(edge, date) else rational(edge=edge) for edge in edges]
    for low, high in pairwise(exact):
        if not low < high:  # type: ignore[operator] # of one family
            raise ParameterError("edges", edges, f"must rise, and {low} is not below {high}")
    literals = [_literal(edge) for edge in exact]
    shown = [literal.partition("'")[2].rstrip("'") or literal for literal in literals]
    last = len(exact) - 1
    branches = [f"WHEN {{}} < {literals[0]} THEN NULL"]
    branches += [f"WHEN {{}} < {literals[i]} THEN '[{shown[i - 1]}, {shown[i]})'" for i in range(1, last)]
    branches.append(f"WHEN {{}} <= {literals[last]} THEN '[{shown[last - 1]}, {shown[last]}]'")
    return Grouping(name or f"{of}_bin", of, f"CASE {' '.join(branches)} END")


def _family(edge: Edge) -> str:
    return "time" if isinstance(edge, datetime) else "date" if isinstance(edge, date) else "number"


def _literal(edge: Fraction | date | datetime) -> str:
    match edge:
        case datetime():
            return f"TIMESTAMP '{edge}'"
        case date():
            return f"DATE '{edge}'"
    return str(edge.numerator) if edge.denominator == 1 else repr(float(edge))
