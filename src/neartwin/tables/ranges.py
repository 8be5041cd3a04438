"""Ranges that follow from declared bounds alone: the least and largest value of an expression, its grid, its values.

Interval arithmetic in exact fractions. It holds for values without rounding. An engine's doubles may exceed an end by a
rounding error, so they are clipped to it once more on their grid.

`Value` is the summand of a sum or mean: a column or an expression, its public bounds and its grid.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import partial, reduce
from itertools import chain, zip_longest
from shlex import quote
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from neartwin.errors import ParameterError, QueryError, SchemaError
from neartwin.exact import rational
from neartwin.tables.expressions import RowExpression, as_number, as_whole, bare_of
from neartwin.tables.functions import OPERATIONS
from neartwin.tables.table import FINE_STEPS, Bounds, Table, bounds, fine_step
from neartwin.tables.terms import COMPARISONS, Term, as_kind
from neartwin.tables.types import NUMERIC, ColumnType, column_in_sql, number_column

End = Fraction | float  # a float only where it is an infinity
_CONDITIONS = COMPARISONS | {"between", "in", "and", "or", "not", "isnull", "like"}
_FILLED = _CONDITIONS | {*"+-*/", "neg", "abs", "floor", "ceil", "round", "double", "date", "trunc"}  # of values
_FILLED |= {"||", "substr", "inttext", "datetext", "timetext", "midnight"} | {
    name for name, of in OPERATIONS.items() if of.ends
}
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COUNTS = {"count", "count distinct", "row_number", "rank", "dense_rank"}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_LAZY = {"and", "or", "isnull", "coalesce", "least", "greatest", "case"}  # which pass over a NULL
_RISING: dict[str, Callable[[float], float]] = {"sqrt": math.sqrt, "ln": math.log, "log10": math.log10, "exp": math.exp}
_TO_WHOLE: dict[str, Callable[[Fraction], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round": lambda end: math.floor(abs(end) + Fraction(1, 2)) * (1 if end > 0 else -1),
    "whole": int,
}
_EXACT = {*"+-*", "neg", "abs", "mod", "clip", "least", "greatest", "double", "case", "coalesce", *_TO_WHOLE}
_LONGEST = Fraction(2**16)  # letters or bytes of a text that its length counts in sums and quantiles
_MOST_VALUES = 400  # that are listed: the days of a year
_EPOCH = date(1970, 1, 1).toordinal()  # dates and times are days since then
_OF_DAYS = {name: getattr(pc, name) for name in ("year", "quarter", "month", "day")}
_OF_DAYS |= {"week": pc.iso_week, "dayofyear": pc.day_of_year}
_MICROSECOND = Fraction(1, 86_400 * 10**6)
_TICKS = {ColumnType.INTEGER: Fraction(1), ColumnType.DATE: Fraction(1), ColumnType.TIMESTAMP: _MICROSECOND}


@dataclass(frozen=True, slots=True)
class Range:
    """An interval [low, high]. An unknown end is infinite.

    Attributes:
        low: The lower end.
        high: The upper end.
        step: All values are multiples of it. None if they need not be; 0 if all are 0.
    """

    low: End
    high: End
    step: Fraction | None

    @property
    def finite(self) -> bool:
        """Whether both ends are finite."""
        return isinstance(self.low, Fraction) and isinstance(self.high, Fraction)


ANY = Range(-math.inf, math.inf, None)


def sure_ranges(table: Table) -> Mapping[str, Bounds | Range]:
    """Counts of one person's rows, and sums of what is never negative, are at least 0, whatever is in the data.

    Args:
        table: The table.

    Returns:
        The ranges by column, without an upper end.
    """
    made = table.per_unit.columns if table.per_unit is not None else {}
    return {
        name: Range(Fraction(0), math.inf, one.bounds.step if one.bounds else Fraction(1))
        for name, one in made.items()
        if one.function in _COUNTS or (one.function == "sum" and one.bounds and one.bounds.low >= 0)
    }


def ranges_of(table: Table) -> Mapping[str, Bounds | Range]:
    """Public bounds by column, and sure ranges.

    Args:
        table: The table.

    Returns:
        The bounds and ranges.
    """
    return {**sure_ranges(table), **table.columns}


def range_of(term: Term, columns: Mapping[str, Bounds | Range], conditions: tuple[Term, ...] = ()) -> Range:
    """The range of a number if each bounded column lies within its bounds. NULL and NaN are not covered.

    Args:
        term: The expression.
        columns: Public bounds, by column.
        conditions: Conditions that the row meets. They bound what they compare with numbers, wherever it stands.

    Returns:
        The range.

    >>> from neartwin.tables.expressions import RowExpression
    >>> number = {"price": ColumnType.NUMBER, "discount": ColumnType.NUMBER}
    >>> net = RowExpression.parse("price * (1 - discount)", number).term
    >>> found = range_of(net, {"price": bounds(0, 200, "0.01"), "discount": bounds(0, "0.5", "0.01")})
    >>> print(found.low, found.high, found.step)
    0 200 1/10000
    """
    return _where_all(conditions, term, _range_of(term, columns, conditions))


def _where_all(conditions: Iterable[Term], term: Term, reach: Range) -> Range:
    return reduce(lambda found, one: where_true(one, term, found), conditions, reach)


def _range_of(term: Term, columns: Mapping[str, Bounds | Range], conditions: tuple[Term, ...]) -> Range:
    """As far as the parts of an expression bound it."""
    operation = term.operation
    if operation == "column":
        declared = columns.get(str(term.value))
        whole = replace(ANY, step=Fraction(1)) if term.kind is ColumnType.INTEGER else ANY
        return whole if declared is None else Range(declared.low, declared.high, declared.step)
    if operation == "literal":
        if isinstance(term.value, date):
            value = pa.scalar(term.value).cast(pa.timestamp("us")).value * _MICROSECOND
            return Range(value, value, None)
        if isinstance(term.value, bool) or not isinstance(term.value, int | float) or not math.isfinite(term.value):
            return ANY
        value = rational(literal=term.value)  # 0.1 is a tenth: the difference to its double is rounding
        return Range(value, value, abs(value))
    if operation in OPERATIONS and OPERATIONS[operation].ends:
        low, high, *_ = (*OPERATIONS[operation].ends, math.inf)
        return replace(_inside(ANY, low, high), step=Fraction(1))
    if operation in {"case", "coalesce"}:
        met, untrue, reaches = term.parts[:-1:2] if operation == "case" else (), list[Term](), list[Range]()
        for part, condition in zip_longest(values_of(term), met):
            # it counts where its condition is true and those before are not, or where it is NULL itself
            held = untrue if condition is None else [*untrue, condition]
            if not part.is_null:
                reaches.append(_where_all(held, part, range_of(part, columns, conditions)))
            untrue += [] if condition is None else _held(condition, true=False)
        return _hull(reaches)
    return _of_parts(term, [range_of(part, columns, conditions) for part in term.parts])


def where_true(condition: Term, term: Term, reach: Range) -> Range:
    """The range of an expression in rows where a condition is true, as far as it compares the expression with numbers.

    Args:
        condition: The condition.
        term: The expression.
        reach: Its range in all rows; kept where no number of it meets the condition.

    Returns:
        The range.

    >>> from neartwin.tables.expressions import RowExpression
    >>> price = {"price": ColumnType.INTEGER}
    >>> kept = RowExpression.parse("price > 5 AND 90 >= price", price).term
    >>> found = where_true(kept, RowExpression.parse("price", price).term, ANY)
    >>> print(found.low, found.high)
    6 90
    """
    return reduce(partial(_compared, _bare(term)), _held(condition), reach)


def _held(condition: Term, *, true: bool = True) -> Iterator[Term]:
    """Comparisons that hold where a condition is true or NULL, else false or NULL, unless what they compare is NULL."""
    operation, parts = condition.operation, condition.parts
    if operation == "not":
        yield from _held(parts[0], true=not true)
    elif operation == ("and" if true else "or"):
        yield from chain.from_iterable(_held(part, true=true) for part in parts)
    elif all(part.columns or never_null(part) for part in parts):
        if true:
            yield condition
        elif operation in _OPPOSITE:
            yield replace(condition, operation=_OPPOSITE[operation])


def _compared(term: Term, reach: Range, condition: Term) -> Range:
    operation, parts = condition.operation, [*map(_bare, condition.parts)]
    if operation in _MIRRORED and parts[1] == term:
        operation, parts = _MIRRORED[operation], parts[::-1]
    if operation not in {"between", "in", *_MIRRORED} or parts[0] != term or any(part.columns for part in parts[1:]):
        return reach
    others = [range_of(part, {}) for part in parts[1:]]
    low = -math.inf if operation in {"<", "<="} else min(other.low for other in others)
    high = math.inf if operation in {">", ">="} else max(other.high for other in others)
    tick = _TICKS.get(term.kind)
    if tick is not None and operation in {"<", ">"}:
        low = (math.floor(low / tick) + 1) * tick if math.isfinite(low) else low
        high = (math.ceil(high / tick) - 1) * tick if math.isfinite(high) else high
    return _inside(reach, low, high)


def _bare(term: Term) -> Term:
    return term.parts[0] if term.operation == "double" else term


def _inside(reach: Range, low: End, high: End) -> Range:
    low, high = (Fraction(end) if math.isfinite(end) else end for end in (max(reach.low, low), min(reach.high, high)))
    return replace(reach, low=low, high=high) if low <= high else reach


def _of_parts(term: Term, parts: list[Range]) -> Range:
    match term.operation:
        case "double":
            return parts[0]
        case "date":
            return _of_function("floor", parts)
        case "neg":
            return _negative(parts[0])
        case "abs":
            return _absolute(parts[0])
        case "least" | "greatest":
            return _extreme(term, parts)
        case "clip":
            return _clipped(term, parts[0])
        case "+":
            return _total(*parts)
        case "-":
            return _total(parts[0], _negative(parts[1]))
        case "*":
            return _times(*parts)
        case "/":  # by a literal, which is its own range
            return _times(parts[0], Range(1 / parts[1].low, 1 / parts[1].low, abs(1 / Fraction(parts[1].low))))
    return _of_function(term.operation, parts)


def _of_function(operation: str, parts: list[Range]) -> Range:
    """The range of a function of `functions.toml`, and of a quotient."""
    if operation in _RISING:
        return _risen(_RISING[operation], parts[0])
    if operation in _TO_WHOLE:
        ends = (parts[0].low, parts[0].high)
        low, high = (Fraction(_TO_WHOLE[operation](end)) if isinstance(end, Fraction) else end for end in ends)
        return Range(low, high, Fraction(_whole(parts[0].step)))
    if operation == "over" and parts[1].finite and not parts[1].low <= 0 <= parts[1].high:
        return _times(parts[0], Range(1 / parts[1].high, 1 / parts[1].low, None))
    if operation == "mod":
        most = max(-parts[1].low, parts[1].high) - 1
        low, high = max(min(parts[0].low, Fraction(0)), -most), min(max(parts[0].high, Fraction(0)), most)
        return Range(low, high, Fraction(1))
    return ANY


def _whole(step: Fraction | None) -> int:
    """A step of whole numbers: 1 where they are not known to lie further apart."""
    return step.numerator if step and step.denominator == 1 else 1


def _risen(function: Callable[[float], float], part: Range) -> Range:
    """The range of a rising function; infinite where it has no value. All but exp get numbers of at least 0."""

    def at(end: End, otherwise: float) -> End:
        try:
            value = function(float(end))
        except (ValueError, OverflowError):
            return otherwise
        return Fraction(value) if math.isfinite(value) else otherwise

    low = part.low if function is math.exp else max(part.low, Fraction(0))
    return Range(at(low, -math.inf), at(part.high, math.inf), None)


def values_of(choice: Term) -> tuple[Term, ...]:
    """The values among which a CASE or COALESCE chooses."""
    return choice.parts if choice.operation == "coalesce" else (*choice.parts[1:-1:2], choice.parts[-1])


def _negative(part: Range) -> Range:
    return Range(-part.high, -part.low, part.step)


def _total(first: Range, second: Range) -> Range:
    return Range(first.low + second.low, first.high + second.high, _common(first.step, second.step))


def _times(first: Range, second: Range) -> Range:
    corners = [_product(x, y) for x in (first.low, first.high) for y in (second.low, second.high)]
    step = None if first.step is None or second.step is None else first.step * second.step
    return Range(min(corners), max(corners), step)


def _absolute(part: Range) -> Range:
    if part.low >= 0 or part.high <= 0:
        return part if part.low >= 0 else _negative(part)
    return Range(Fraction(0), max(part.high, -part.low), part.step)


def _extreme(term: Term, parts: list[Range]) -> Range:
    """A NULL is passed over, so only parts that are never NULL bound the result from their own side."""
    sure = [part_range for part, part_range in zip(term.parts, parts, strict=True) if never_null(part)]
    low, high = min(part.low for part in parts), max(part.high for part in parts)
    if sure and term.operation == "least":
        high = min(part.high for part in sure)
    if sure and term.operation == "greatest":
        low = max(part.low for part in sure)
    return Range(low, high, _hull(parts).step)


def never_null(term: Term, filled: frozenset[Term] = frozenset(), conditions: tuple[Term, ...] = ()) -> bool:
    """Whether an expression has a value in every row.

    Args:
        term: The expression.
        filled: Expressions that have one.
        conditions: Conditions that each row meets.
    """
    if term in filled:
        return True
    match term.operation:
        case "whole" if term.parts[0].operation == "case":  # NULL where its guard is: for numbers beyond 2^53 in size
            number = term.parts[0].parts[0].parts[0]
            reach = range_of(number, {}, conditions) if _is_exact(term) else ANY
            return never_null(number, filled) and max(-reach.low, reach.high) <= 2**53
        case "isnull":
            return True
        case "literal":
            return not term.is_null
        case "coalesce" | "least" | "greatest":
            return any(never_null(part, filled) for part in term.parts)
        case "case":
            return all(never_null(value, filled) for value in values_of(term))
        case "mod":  # NULL where its guard is, a CASE over the divisor
            value, (*_, divisor, _) = term.parts[0], term.parts[1].parts or (term, term)
            return never_null(value, filled) and divisor.operation == "literal" and divisor.value != 0
    return term.operation in _FILLED and all(never_null(part, filled) for part in term.parts)


def filled_by(condition: Term) -> frozenset[Term]:
    """The expressions that have a value wherever a condition is true: without one it would be NULL.

    Args:
        condition: The condition, without AND.

    >>> from neartwin.tables.expressions import RowExpression
    >>> price = {"price": ColumnType.INTEGER}
    >>> filled_by(RowExpression.parse("price IS NOT NULL", price).term) == {RowExpression.parse("price", price).term}
    True
    """
    operation, parts = condition.operation, condition.parts
    if operation == "not" and parts[0].operation == "isnull":
        return filled_by(parts[0].parts[0])
    needed = () if operation in _LAZY else parts[: 1 if operation in {"in", "between"} else None]  # others may be NULL
    return frozenset({condition}).union(*map(filled_by, needed))


def _clipped(term: Term, part: Range) -> Range:
    assert isinstance(term.value, tuple)  # noqa: S101 - what a clip holds
    low, high = (rational(end=end) for end in term.value)
    step = _common(_common(part.step, abs(low)), abs(high))
    return Range(min(max(part.low, low), high), max(min(part.high, high), low), step)


def _hull(parts: list[Range]) -> Range:
    step = reduce(_common, (part.step for part in parts))
    return Range(min(part.low for part in parts), max(part.high for part in parts), step)


def _product(first: End, second: End) -> End:
    """Of fractions that no double holds, too."""
    if isinstance(first, Fraction) and isinstance(second, Fraction):
        return first * second
    infinite = math.inf if (first > 0) == (second > 0) else -math.inf
    return Fraction(0) if 0 in {first, second} else infinite


def _common(first: Fraction | None, second: Fraction | None) -> Fraction | None:
    """The coarsest step that both are multiples of; all values 0 are multiples of 0."""
    if first is None or second is None:
        return None
    below = math.lcm(first.denominator, second.denominator)
    return Fraction(math.gcd(int(first * below), int(second * below)), below)


def clipped(term: Term, columns: Mapping[str, Bounds]) -> Term:
    """The expression with each column of a value clipped to its bounds, so that its range holds. Conditions see columns as
    they are.

    Args:
        term: The expression.
        columns: Public bounds, by column.

    Returns:
        The new expression.
    """
    if term.operation in _CONDITIONS:
        return term
    if term.operation == "column":
        declared = columns.get(str(term.value))
        if declared is None or term.kind not in NUMERIC:
            return term
        number = term if term.kind is ColumnType.NUMBER else Term("double", ColumnType.NUMBER, (term,))
        return Term("clip", ColumnType.NUMBER, (number,), (float(declared.low), float(declared.high)))
    parts = tuple(clipped(part, columns) for part in term.parts)
    if term.operation in {"mod", "inttext"}:
        return replace(term, parts=tuple(map(as_whole, parts)))
    # a whole number may have become a double
    if any(part.kind is not old.kind for part, old in zip(parts, term.parts, strict=True)):
        if term.operation == "double":
            return parts[0]
        parts = tuple(as_kind(part, ColumnType.NUMBER) if part.kind in NUMERIC else part for part in parts)
        return replace(term, parts=parts, kind=ColumnType.NUMBER if term.kind in NUMERIC else term.kind)
    return replace(term, parts=parts)


def without_idle_clips(term: Term, table: Table, conditions: tuple[Term, ...]) -> Term:
    """The expression without clips that change no value in rows that meet the conditions.

    Args:
        term: The expression.
        table: Its table, of which no more is known than what is sure.
        conditions: The conditions.

    Returns:
        The new expression.
    """
    term = replace(term, parts=tuple(without_idle_clips(part, table, conditions) for part in term.parts))
    if term.operation != "clip" or not isinstance(term.value, tuple):
        return term
    low, high = term.value
    reach = range_of(term.parts[0], sure_ranges(table), conditions)
    return term.parts[0] if low <= reach.low and reach.high <= high else term


def unclipped(term: Term) -> Term:
    """The expression whose values nothing clips. Conditions stay.

    Args:
        term: The expression.

    Returns:
        The new expression.
    """
    if term.operation == "clip":
        return unclipped(term.parts[0])
    return term if term.operation in _CONDITIONS else replace(term, parts=tuple(map(unclipped, term.parts)))


def grid_of(value_range: Range, step: Fraction | None) -> Bounds:
    """Bounds on a grid around a finite range, rounded outward to the step.

    Args:
        value_range: The range.
        step: The step, or None for the natural one, made coarser by tens while the grid is too fine; without one, a power of ten.

    Returns:
        The bounds and their step.

    >>> print(grid_of(Range(Fraction(0), Fraction(1, 3), None), None))
    [0, 0.333333] in steps of 1e-07
    """
    low, high = Fraction(value_range.low), Fraction(value_range.high)
    chosen = step or value_range.step or fine_step(low, high)
    while step is None and (high - low) / chosen > FINE_STEPS:
        chosen *= 10
    return bounds(math.floor(low / chosen) * chosen, math.ceil(high / chosen) * chosen, chosen)


def possible_values(term: Term, conditions: tuple[Term, ...] = ()) -> tuple[object, ...] | None:
    """All possible values of an expression but NULL, in the order in which it names them.

    Args:
        term: The expression.
        conditions: Conditions that the row meets. Those of days and of whole numbers between two ends list what is between.

    Returns:
        The values, or None if they cannot be listed.

    >>> from neartwin.tables.expressions import RowExpression
    >>> text = "CASE WHEN age < 18 THEN 'young' WHEN age < 65 THEN 'adult' ELSE 'old' END"
    >>> possible_values(RowExpression.parse(text, {"age": ColumnType.INTEGER}).term)
    ('young', 'adult', 'old')
    """
    operation = term.operation
    if operation in _CONDITIONS or (operation == "column" and term.kind is ColumnType.BOOLEAN):
        return (False, True)
    if operation == "literal":
        return () if term.is_null else (term.value,)
    dated = term.kind is ColumnType.DATE or operation in {"||", "substr", *_OF_DAYS}
    if dated and (found := _of_days(term, conditions)):
        return found
    if term.kind is ColumnType.INTEGER and operation not in {"case", "coalesce"}:
        exact = _is_exact(term)
        reach = range_of(term, {}, conditions if exact else ())
        step = _whole(reach.step) if exact else 1
        few = reach.high - reach.low < _MOST_VALUES * step
        return tuple(range(math.ceil(reach.low / step) * step, math.floor(reach.high) + 1, step)) if few else None
    if operation in {"case", "coalesce"}:
        parts = list(map(possible_values, values_of(term)))
        if all(part is not None for part in parts):
            return tuple(dict.fromkeys(value for part in parts for value in part or ()))
    return None


def _of_days(term: Term, conditions: tuple[Term, ...]) -> tuple[object, ...]:
    """What an expression says on the days between two ends, in order; nothing where it reads more, or these are too many."""
    read = {part.parts[0] for part in term.walk() if part.operation in {*_OF_DAYS, "trunc", "datetext", "timetext"}}
    day, *others = {part.parts[0] if part.operation == "midnight" else part for part in read or {term}}
    days = _days(day, conditions) if day.kind in {ColumnType.DATE, ColumnType.TIMESTAMP} and not others else None
    found = days if days is None or day == term else _on_days(term, days)
    values = [] if found is None else sorted(found.unique().to_pylist())
    return tuple(values) if len(values) <= _MOST_VALUES else ()


def _on_days(term: Term, days: Any) -> Any:
    """What it says on each day, in Arrow; None where it reads more."""
    match term:
        case Term(operation="literal"):
            return pa.scalar(term.value)
        case Term(operation="trunc", value=unit):
            return pc.floor_temporal(days, unit=unit)
        case Term(operation="||" | "inttext" | "substr" | "datetext" as made, value=value, parts=(first, *_) as parts):
            start, count, *_ = (*value, 2**16) if isinstance(value, tuple) else (1, 2**16)
            dated = first.operation == "timetext" and start + count <= 11  # of 2024-02-29 12:00:00
            texts = [days] if dated or made == "datetext" else [_on_days(part, days) for part in parts]
            if any(text is None for text in texts):
                return None
            joined = pc.binary_join_element_wise(*(text.cast(pa.string()) for text in texts), "")
            return pc.utf8_slice_codeunits(joined, start - 1, start - 1 + count)
    return _OF_DAYS[term.operation](days) if term.operation in _OF_DAYS else None


def _is_exact(term: Term) -> bool:
    """Whether engines compute it from whole numbers, so that no rounding takes a value past an end of exact arithmetic."""
    operation, parts = term.operation, values_of(term) if term.operation in {"case", "coalesce"} else term.parts
    if operation == "column" or (operation in OPERATIONS and OPERATIONS[operation].ends):
        return term.kind is ColumnType.INTEGER
    if operation == "literal":
        return not isinstance(term.value, float) or term.value.is_integer()
    if operation in _TO_WHOLE and parts[0].operation == "/":  # which is rounded once, and then to whole numbers
        parts = parts[0].parts
    return operation in _EXACT and all(map(_is_exact, parts))


def _days(day: Term, conditions: tuple[Term, ...]) -> Any:
    """The days between two ends of a date or time, in Arrow; None without such ends, or of some centuries."""
    reach = range_of(day, {}, conditions)
    for same in (day, *(day.parts if day.operation == "date" else ())):
        years = range_of(Term("year", ColumnType.INTEGER, (same,)), {}, conditions)
        first, last = date(int(years.low), 1, 1), date(int(years.high), 12, 31)
        reach = _inside(reach, first.toordinal() - _EPOCH, last.toordinal() + 1 - _EPOCH - _MICROSECOND)
    dated = range_of(Term("date", ColumnType.DATE, (day,)), {}, conditions)
    reach = _inside(reach, dated.low, dated.high + 1 - _MICROSECOND)
    if reach.high - reach.low > 366 * _MOST_VALUES:
        return None
    return pa.array(range(math.floor(reach.low), math.floor(reach.high) + 1), pa.int32()).cast(pa.date32())


@dataclass(frozen=True, slots=True)
class Value:
    """The summand of a sum or mean.

    Attributes:
        column: The name of a column, or the text of an expression.
        bounds: Its public bounds and grid.
        expression: The expression, with each column clipped to its own bounds; None for a column.
    """

    column: str
    bounds: Bounds
    expression: RowExpression | None


def value_of(
    table: Table,
    column: str,
    bounds: Bounds | None,
    step: Fraction | None = None,
    fill: Fraction | None = None,
    *,
    conditions: tuple[Term, ...] = (),
) -> Value:
    """Find the bounds of a value: given, declared for a column, or derived for an expression.

    Derived bounds hold because each column is first clipped to its own declared bounds. Given bounds clip the result
    alone.

    Args:
        table: The table.
        column: A column or a SQL expression.
        bounds: The given bounds, or None.
        step: The step of the grid, or None for the default.
        fill: The value for NULL and NaN, or None to leave such rows out.
        conditions: Conditions that all rows meet, whose comparisons with numbers are bounds, too, but for a filled value.

    Returns:
        The value with its bounds.

    Raises:
        SchemaError: A column is missing or is no number.
        QueryError: Bounds are missing.
    """
    conditions = conditions if fill is None else ()  # a filled value need not meet them
    expression = _expression(table, column)
    if expression is None:
        value = Value(column, bounds or _declared(narrowed(table, conditions), column, step), None)
    elif bounds is not None:
        value = Value(column, bounds, expression)
    else:
        value = _propagated(narrowed(table, conditions), column, expression, step, conditions)
    if fill is not None and not (
        value.bounds.low <= fill <= value.bounds.high and (fill / value.bounds.step).denominator == 1
    ):
        raise QueryError(f"fill={float(fill):g} of {column!r} must be a multiple of the step within {value.bounds}")
    return value


def narrowed(table: Table, conditions: tuple[Term, ...]) -> Table:
    """The table with bounds of the columns that conditions compare with numbers, within the declared ones.

    Args:
        table: The table.
        conditions: Conditions that all rows meet.

    Returns:
        The table, to find bounds of its values with.
    """
    found = dict(table.columns)
    for name in frozenset[str]().union(*(one.columns for one in conditions)):
        declared, column = table.columns.get(name), Term("column", table.schema[name], value=name)
        reach = range_of(column, ranges_of(table), conditions)
        if column.kind in NUMERIC and reach.finite and reach.low < reach.high:
            with suppress(ParameterError):  # too far from 0 for a grid
                found[name] = grid_of(reach, declared.step if declared else None)
    return replace(table, columns=MappingProxyType(found)) if conditions else table


def is_name(table: Table, column: str) -> bool:
    """Whether a text is the name of a column, present or missing, and no expression.

    Args:
        table: The table.
        column: The text.

    Returns:
        True or False.
    """
    return column in table.schema or column.isidentifier()


def spelled(table: Table, column: str) -> str:
    """A column's name, or an expression's canonical SQL, so that two spellings of one value are one question.

    Args:
        table: The table.
        column: A column or an expression.

    Returns:
        The canonical text.
    """
    if is_name(table, column):
        return column
    bare = bare_of(table.expression(column).text)
    return bare.name if isinstance(bare, exp.Column) else bare.sql(dialect="duckdb", comments=False)


def as_value(table: Table, column: str) -> str:
    """A column or expression, written so that it can stand inside another expression.

    Args:
        table: The table.
        column: A column or an expression.

    Returns:
        The text.
    """
    return '"' + column.replace('"', '""') + '"' if is_name(table, column) else f"({column})"


def _expression(table: Table, column: str) -> RowExpression | None:
    """None for a column of the source."""
    if column in table.computed:
        expression = table.computed[column]
    elif is_name(table, column) and table.schema.get(column) is not ColumnType.BOOLEAN:
        number_column(column, table.schema, "of a sum")
        return None
    else:
        expression = table.expression(as_value(table, column) if is_name(table, column) else column)
    if expression.type is ColumnType.BOOLEAN:
        return replace(expression, term=as_number(expression.term), type=ColumnType.INTEGER)
    if expression.type not in NUMERIC:
        raise SchemaError(f"{column!r} is {expression.type}, but must be a number; declare its type with types=")
    return expression


def grouped_by(table: Table, name: str) -> Table:
    """The table, in which a computed column of whole doubles is an integer, and one of times a text, to group by.

    Args:
        table: The table.
        name: The group column.

    Returns:
        The table.
    """
    computed = table.computed.get(name)
    if computed is None or computed.type not in {ColumnType.NUMBER, ColumnType.TIMESTAMP}:
        return table
    step = range_of(computed.term, {}).step
    if computed.type is ColumnType.NUMBER and (step is None or step.denominator != 1):
        return table
    to = ColumnType.INTEGER if computed.type is ColumnType.NUMBER else ColumnType.TEXT
    cast = table.expression(f"CAST({computed.text} AS {to.upper()})")
    return replace(table, schema={**table.schema, name: to}, computed={**table.computed, name: cast})


def _declared(table: Table, column: str, step: Fraction | None) -> Bounds:
    declared = table.columns.get(column)
    if declared is None:
        own = column_in_sql(column)
        flag = f"; if it is 0 or 1, write AVG({own} = 1), or clip({own}, 0, 1)"
        per_unit = table.per_unit
        inner = per_unit.columns.get(column) if per_unit and per_unit.by is not None else None
        if inner and inner.function == "count":
            flag = f"; for AVG({own}) alone write {inner.text} / COUNT(DISTINCT {table.unit}) of the inner rows, without bounds"
        raise QueryError(
            f"{column!r} needs bounds, and those read from the data would reveal its extremes; take them from public "
            f"knowledge; write clip({own}, 0, 100) or WHERE {own} BETWEEN 0 AND 100 in SQL, or nt.sum({column!r}, 0, 100), "
            f"or --bounds {quote(f'{column}=0:100')}"
            f"{flag if table.schema[column] is ColumnType.INTEGER else ''}"
        )
    return declared if step is None else bounds(declared.low, declared.high, step)


def _propagated(
    table: Table, column: str, expression: RowExpression, step: Fraction | None, conditions: tuple[Term, ...]
) -> Value:
    reach = range_of(expression.term, ranges_of(table), conditions)
    if expression.term.operation in {"length", "strlen"}:
        reach = replace(reach, high=min(reach.high, _LONGEST))  # the value is clipped, as text is elsewhere
    if not reach.finite:
        numbers = {
            str(part.value) for part in expression.term.walk() if part.operation == "column" and part.kind in NUMERIC
        }
        names = ", ".join(map(repr, sorted(numbers - table.columns.keys())))
        declare = (
            f": declare {names} in nt.table(columns=...), or" if names else ", and its functions give none that help:"
        )
        own = column_in_sql(column) if column in table.schema else expression.text
        raise QueryError(
            f"{column!r} needs bounds{declare} write clip({own}, 0, 100), give low and high, or bound it in WHERE"
        )
    if reach.low == reach.high and expression.columns and not never_null(expression.term):  # a multiple of a count
        reach = replace(reach, low=min(reach.low, Fraction(0)), high=max(reach.high, Fraction(0)))
    if reach.low == reach.high:
        raise QueryError(f"{column!r} is constant; write COUNT(*), or nt.count() in Python")
    term = clipped(expression.term, table.columns)
    return Value(column, grid_of(reach, step), replace(expression, term=term, type=term.kind))
