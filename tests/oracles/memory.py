"""The reference engine: a stage in plain Python, one row at a time. It is the oracle of every other engine.

Terms have the meaning that every engine's SQL must have: None is NULL; NaN equals itself and is the largest number.
"""

import calendar
import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np

from neartwin.engines.sql.joins import needed_parts
from neartwin.engines.sql.statement import column_aliases
from neartwin.planning.stage import FINE, Aggregates, Cells, ContributionSizes, Stage
from neartwin.tables.grid import GridColumn
from neartwin.tables.joins import claims_of
from neartwin.tables.table import How, Join, JoinKind, Table, together
from neartwin.tables.terms import COMPARISONS, PARTS, Term
from neartwin.tables.types import Key

Row = Mapping[str, Any]


def evaluate(term: Term, row: Row) -> Any:
    """The value of a term in a row."""
    operation = term.operation
    if operation == "column":
        return row[str(term.value)]
    if operation == "literal":
        return term.value
    parts = [evaluate(part, row) for part in term.parts]
    if operation in _NULLS:
        return _NULLS[operation](operation, parts)
    if operation in COMPARISONS:
        return _compared(operation, *parts)
    if any(part is None for part in parts):
        return None
    if operation in {"+", "-", "*", "/", "over"}:
        return None if operation == "over" and parts[1] == 0 else _arithmetic(operation, *parts)
    if operation in PARTS:
        return _date_part(operation, parts[0])
    return _OTHERS[operation](term, parts)


def _connected(operation: str, parts: list[bool | None]) -> bool | None:
    absorbing = operation == "or"
    if any(part is absorbing for part in parts):
        return absorbing
    return None if any(part is None for part in parts) else not absorbing


def _case(_operation: str, parts: list[Any]) -> Any:
    chosen = (value for condition, value in zip(parts[:-1:2], parts[1::2], strict=False) if condition is True)
    return next(chosen, parts[-1])


def _between(_operation: str, parts: list[Any]) -> bool | None:
    return _connected("and", [_compared(">=", *parts[:2]), _compared("<=", parts[0], parts[2])])


def _extreme(operation: str, parts: list[Any]) -> Any:
    present = [part for part in parts if part is not None]
    best = present[0] if present else None
    for part in present[1:]:
        if _sign(part, best) * (1 if operation == "greatest" else -1) > 0:
            best = part
    return best


def _arithmetic(operation: str, first: float, second: float) -> float:
    with np.errstate(all="ignore"):  # overflow is infinity, as in the engines
        left, right = np.float64(first), np.float64(second)
        match operation:
            case "+":
                return float(left + right)
            case "-":
                return float(left - right)
            case "*":
                return float(left * right)
        return float(left / right)


def _compared(operation: str, first: Any, second: Any) -> bool | None:
    if first is None or second is None:
        return None
    sign = _sign(first, second)
    truth = {"=": sign == 0, "<>": sign != 0, "<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}
    return truth[operation]


def _sign(first: Any, second: Any) -> int:
    if isinstance(first, float) and (math.isnan(first) or math.isnan(second)):
        return int(math.isnan(first)) - int(math.isnan(second))
    return int(first > second) - int(first < second)


def _date_part(part: str, value: date) -> int:
    match part:
        case "quarter":
            return (value.month + 2) // 3
        case "isodow":
            return value.isoweekday()
        case "week":
            return value.isocalendar().week
        case "dayofyear":
            return value.timetuple().tm_yday
    return int(getattr(value, part))


def _truncated(unit: str, day: date) -> date:
    match unit:
        case "year":
            return day.replace(month=1, day=1)
        case "quarter":
            return day.replace(month=day.month - (day.month - 1) % 3, day=1)
        case "month":
            return day.replace(day=1)
    return day - timedelta(days=day.weekday())


def _clip(term: Term, parts: list[Any]) -> float:
    assert isinstance(term.value, tuple)
    (value,) = parts
    return float(value) if math.isnan(value) else max(term.value[0], min(term.value[1], value))


def _like(term: Term, parts: list[Any]) -> bool:
    letters = re.findall(r"\\.|.", str(term.value), re.DOTALL)  # a backslash stands before those that mean themselves
    pattern = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter[-1])) for letter in letters)
    return re.fullmatch(pattern, parts[0], re.DOTALL) is not None


def _replaced(term: Term, parts: list[Any]) -> str:
    text, *_, pattern, end = term.value
    return re.sub(pattern + end.replace("$", r"\Z"), text, parts[0])


def _first(value: tuple[int, str, str], text: str) -> str:
    """The first match of a pattern, or a group of it; empty where there is none."""
    group, pattern, end = value
    found = re.search(pattern + end.replace("$", r"\Z"), text)
    return (found and found[group]) or ""


def _day(_term: Term, parts: list[Any]) -> date:
    value = parts[0]
    return value.date() if isinstance(value, datetime) else value


# those that look at a NULL; all others are NULL where a part is
_NULLS: dict[str, Callable[[str, list[Any]], Any]] = {
    "and": _connected,
    "or": _connected,
    "isnull": lambda _, parts: parts[0] is None,
    "case": _case,
    "coalesce": lambda _, parts: next((part for part in parts if part is not None), None),
    "least": _extreme,
    "greatest": _extreme,
    "between": _between,
}
_OTHERS: dict[str, Callable[[Term, list[Any]], Any]] = {
    "double": lambda _, parts: float(parts[0]),
    "neg": lambda _, parts: -parts[0],
    "abs": lambda _, parts: abs(parts[0]),
    "not": lambda _, parts: not parts[0],
    "in": lambda _, parts: any(_sign(parts[0], part) == 0 for part in parts[1:]),
    "clip": _clip,
    "like": _like,
    "date": _day,
    "trunc": lambda term, parts: _truncated(str(term.value), parts[0]),
    "days": lambda _, parts: (parts[0] - parts[1]).days,
    "sqrt": lambda _, parts: math.sqrt(parts[0]),
    "ln": lambda _, parts: math.log(parts[0]),
    "log10": lambda _, parts: math.log10(parts[0]),
    "exp": lambda _, parts: math.exp(parts[0]),
    "floor": lambda _, parts: float(math.floor(parts[0])) if math.isfinite(parts[0]) else parts[0],
    "ceil": lambda _, parts: float(math.ceil(parts[0])) if math.isfinite(parts[0]) else parts[0],
    "round": lambda _, parts: _rounded(parts[0]),
    "whole": lambda _, parts: int(parts[0]),
    "mod": lambda _, parts: int(math.copysign(abs(parts[0]) % abs(parts[1]), parts[0])),
    "upper": lambda _, parts: "".join(_other_case(letter, str.upper, str.lower) for letter in parts[0]),
    "lower": lambda _, parts: "".join(_other_case(letter, str.lower, str.upper) for letter in parts[0]),
    "length": lambda _, parts: len(parts[0]),
    "strlen": lambda _, parts: len(parts[0].encode()),
    "substr": lambda term, parts: parts[0][term.value[0] - 1 :][: None if len(term.value) == 1 else term.value[1]],
    "right": lambda term, parts: parts[0][-term.value[0] :] if term.value[0] else "",
    "trim": lambda term, parts: parts[0].strip(term.value[0]),
    "ltrim": lambda term, parts: parts[0].lstrip(term.value[0]),
    "rtrim": lambda term, parts: parts[0].rstrip(term.value[0]),
    "replace": lambda term, parts: parts[0].replace(*term.value),
    "split_part": lambda term, parts: (parts[0].split(term.value[0]) + [""] * term.value[1])[term.value[1] - 1],
    "strpos": lambda term, parts: parts[0].find(term.value[0]) + 1,
    "||": lambda _, parts: "".join(parts),
    "inttext": lambda _, parts: str(parts[0]),
    "datetext": lambda _, parts: parts[0].isoformat(),
    "matches": lambda term, parts: re.search(term.value[0] + term.value[1].replace("$", r"\Z"), parts[0]) is not None,
    "replaced": _replaced,
    "replacedall": _replaced,
    "extracted": lambda term, parts: _first(term.value, parts[0]),
    "lpad": lambda term, parts: (
        (term.value[1] * term.value[0])[: max(term.value[0] - len(parts[0]), 0)] + parts[0][: term.value[0]]
    ),
    "rpad": lambda term, parts: (parts[0] + term.value[1] * term.value[0])[: term.value[0]],
    "endswith": lambda term, parts: parts[0].endswith(term.value[0]),
    "tointeger": lambda _, parts: int(parts[0]),
    "tonumber": lambda _, parts: float(parts[0]),
    "todate": lambda _, parts: _day_of(parts[0]),
    "totimestamp": lambda _, parts: datetime.fromisoformat(parts[0]),
    "midnight": lambda _, parts: datetime(*parts[0].timetuple()[:3]),  # noqa: DTZ001 - UTC
    "hour start": lambda _, parts: parts[0].replace(minute=0, second=0, microsecond=0),
    "minute start": lambda _, parts: parts[0].replace(second=0, microsecond=0),
    "second start": lambda _, parts: parts[0].replace(microsecond=0),
    "months later": lambda _, parts: _shifted(parts[0], int(parts[1]), 0),
    "seconds later": lambda _, parts: _shifted(parts[0], 0, int(parts[1])),
    "datefromparts": lambda _, parts: _day_of("{:04}-{:02}-{:02}".format(*parts)),
    "timetext": lambda _, parts: parts[0].replace(microsecond=0).isoformat(" "),
}


def _day_of(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _shifted(value: datetime, months: int, seconds: int) -> datetime | None:
    """None beyond the calendar."""
    year, month = divmod(value.year * 12 + value.month - 1 + months, 12)
    try:
        day = min(value.day, calendar.monthrange(year, month + 1)[1])
        return value.replace(year=year, month=month + 1, day=day) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None


def _rounded(value: float) -> float:
    """To the nearest whole number, halves away from 0."""
    if not math.isfinite(value):
        return value
    return math.copysign(math.floor(abs(Fraction(value)) + Fraction(1, 2)), value)


def _other_case(letter: str, change: Callable[[str], str], back: Callable[[str], str]) -> str:
    """The other case of a letter of Latin-1, Latin Extended-A, Greek and Cyrillic, if it leads back."""
    other = change(letter)
    listed = all(len(one) == 1 and (ord(one) < 0x180 or 0x370 <= ord(one) < 0x530) for one in (letter, other))
    return other if listed and back(other) == letter else letter


Order = Callable[[object, Key], Any]


@dataclass(slots=True)
class _Cell:
    """One unit in one group: rows, and number and total of values by column."""

    rows: int = 0
    filled: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    total: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    short: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    values: list[int] = field(default_factory=list)


class MemoryEngine:
    """Rows as mappings from column to int, float, str, bool, date, datetime or None, of the schema's types.

    order: what a unit's groups are sorted by, its hash first, where it is in too many and counts alike in some; another
    engine's, when it is compared with one.
    """

    def __init__(
        self, rows: Iterable[Row], *, order: Order | None = None, others: Sequence[Iterable[Row]] = ()
    ) -> None:
        """Keeps the rows, and those of the tables joined to them; `order` defaults to Python's hash of salt, unit and group."""
        self._rows = list(rows)
        self._others = [list(other) for other in others]
        self._order = order

    def aggregate(self, stage: Stage, *, salt: int) -> Aggregates:
        """Exact answers to a stage."""
        order = self._order or (lambda unit, key: (hash((salt, unit, key)), repr(key)))
        conditions, computed = [condition.term for condition in stage.conditions], stage.table.computed
        by_unit: defaultdict[object, dict[Key, _Cell]] = defaultdict(dict)
        leaves = iter([self._rows, *self._others])
        for number, row in enumerate(table_rows(leaves, stage.table, tuple(column_aliases(stage)))):
            unit = unit_of(row, stage.table) if isinstance(stage.table.unit, str) else number
            key = tuple(
                evaluate(computed[name].term, row) if name in computed else row[name] for name in stage.group_columns
            )
            public = stage.keys is None or key in stage.keys
            if unit is None or not public or not all(evaluate(term, row) is True for term in conditions):
                continue
            _add(by_unit[unit].setdefault(key, _Cell()), row, stage)
        if stage.sizes is not None:
            return _sizes(stage, stage.sizes, by_unit.values())
        if stage.split is not None:
            return _in_cells(stage, by_unit, order)
        sums: defaultdict[Key, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        for unit, cells in by_unit.items():
            kept = _kept(unit, cells, order, stage)
            weight = weigher(stage, {key: cells[key].rows for key in kept})
            for place, key in enumerate(kept):
                for measure in stage.measures:
                    if measure == "finders":
                        sums[key][measure] += place < (stage.discovery_groups or 0)
                    else:
                        sums[key][measure] += weight(key, measure, _measured(cells[key], measure))
        found = tuple(key for key in sums if stage.discovery_groups is None or sums[key]["finders"])
        keys = found if stage.keys is None else stage.keys
        values = {name: np.array([sums[key][name] for key in keys], dtype=object) for name in stage.measures}
        return Aggregates(len(keys), keys, values)


def root_above(squared: int) -> int:
    """The length of a unit in parts of 1 / FINE, rounded up: the least whole number whose square is at least FINE^2 squared."""
    return math.isqrt(FINE**2 * squared - 1) + 1


def _in_group(stage: Stage, rows: int) -> int:
    """The rows for which a unit counts in a group before T."""
    return min(rows, stage.rows_per_group) if stage.capped else rows


def _kept(unit: object, cells: Mapping[Key, _Cell], order: Order, stage: Stage) -> list[Key]:
    """Those groups of a unit in which it counts for most rows; by the order where it counts alike."""
    found = sorted(cells, key=lambda key: (-_in_group(stage, cells[key].rows), order(unit, key)))
    return found[: stage.groups_per_unit]


def weigher(stage: Stage, rows: Mapping[Key, int]) -> Callable[[Key, str, int], int]:
    """How a unit with so many rows in each of its kept groups counts: from group, measure and total to parts."""
    unit_rows = isinstance(stage.table.unit, str)
    counted = sum(_in_group(stage, number) for number in rows.values())
    together: Counter[Key] = Counter()
    for group, number in rows.items():
        together[group if stage.length_by is None else tuple(group[i] for i in stage.length_by)] += number
    lengths = sum(number**2 for number in together.values()), len(together)

    def weight(key: Key, measure: str, value: int) -> int:
        parts = stage.parts.get(measure, 1)
        of_units = measure.startswith("units")
        if not unit_rows or (of_units and stage.units_norm is None):
            return value * parts
        if stage.norm is not None:
            squared, limit = lengths[of_units], stage.units_norm if of_units else stage.norm
            assert limit is not None
            if squared <= limit**2:
                return value * parts
            return toward_zero(value, parts * math.floor(FINE * limit), root_above(squared))
        number, cap, most = rows[key], stage.rows_per_group, stage.rows_per_unit
        if not stage.capped:
            return toward_zero(value, parts * most, counted) if counted > most else value * parts
        found = toward_zero(value, parts * cap, number) if number > cap else value * parts
        return found if most is None or counted <= most else toward_zero(found, most, counted)

    return weight


def toward_zero(value: int, times: int, over: int) -> int:
    """A number times / over, truncated."""
    size = abs(value) * times // over
    return size if value >= 0 else -size


def unit_of(row: Row, table: Table) -> object:
    """Whose row it is; with a period, its first day belongs to the name, and a row without one is nobody's."""
    unit = row[str(table.unit)]
    if table.period is None:
        return unit
    first = evaluate(table.period.term, row)
    return None if unit is None or first is None else f"{unit}/{first}"


def _sizes(stage: Stage, sizes: ContributionSizes, units: Iterable[Mapping[Key, _Cell]]) -> Aggregates:
    """Units by groups, rows or squared length, each in the cell of the last edge that is not above it."""
    found: Counter[int] = Counter()
    for cells in units:
        rows: Counter[Key] = Counter()
        for key, cell in cells.items():
            rows[key if stage.length_by is None else tuple(key[i] for i in stage.length_by)] += cell.rows
        size = sum(number**sizes.power for number in rows.values())
        if sizes.of:
            size = 1 + sum(cell.total[name] for cell in cells.values() for name in sizes.of)
        elif sizes.lost:
            numbers = sorted((number**sizes.power for number in rows.values()), reverse=True)
            size += 1 - _counted(stage, numbers)
        found[max((edge for edge in sizes.edges if edge <= size), default=size)] += 1
    edges = sizes.edges or tuple(found)
    counts = np.array([found[edge] for edge in edges], dtype=object)
    return Aggregates(len(counts), tuple((edge,) for edge in edges), {"units": counts})


def _counted(stage: Stage, rows: Sequence[int]) -> int:
    """The rows for which a unit counts, rounded down: rows in each of its groups, the most first."""
    total, squared = sum(rows), sum(number**2 for number in rows)
    if stage.norm is not None:
        inside = squared <= stage.norm**2
        return total if inside else total * math.floor(FINE * stage.norm) // root_above(squared)
    found = sum(_in_group(stage, number) for number in rows[: stage.groups_per_unit])
    return found if stage.rows_per_unit is None else min(found, stage.rows_per_unit)


def table_rows(leaves: Iterator[list[Row]], table: Table, columns: tuple[str, ...]) -> list[Row]:
    """The rows of a table, of its sources in order, with these columns at least."""
    from tests.oracles.per_unit import unit_rows

    parts = []
    for part, needed in zip([table, *table.joins], needed_parts(table, columns), strict=True):
        of = part.per_unit
        parts.append(
            next(leaves) if of is None else unit_rows(table_rows(leaves, of.table, of.reads(needed)), of, needed)
        )
    return joined_rows(parts[0], parts[1:], table)


def joined_rows(rows: list[Row], others: Sequence[list[Row]], table: Table) -> list[Row]:
    """Every pair of rows looked at, one join after the other."""
    given_rows, unit = dict(zip(map(id, [table, *table.joins]), [rows, *others], strict=True)), str(table.unit)
    claims = {id(join): _claims(table, join, given_rows) for join in table.joins if join.owner is not None}
    for group in together(table.joins):
        given = [(join, given_rows[id(join)]) for join in group]
        met: list[Row] = []
        for row in rows:
            found = [row]
            for join, other in given:
                found = [one for before in found for one in _met(before, join, other, claims.get(id(join), []), unit)]
            nothing = {name: None for join in group for name in join.columns}
            met += found or ([{**row, **nothing}] if group[0].how is How.LEFT else [])
        rows = met
    return rows


def _claims(table: Table, join: Join, given: Mapping[int, list[Row]]) -> list[Row]:
    """The rows that say who owns those of a join, by the names of the joined rows."""
    claims = claims_of(table, join.owner)
    rows = given[id(claims)]
    if claims is table:
        return rows
    names = {**claims.columns, **dict(claims.on)}
    return [{new: row[old] for new, old in names.items() if old in row} for row in rows]


def _met(row: Row, join: Join, other: list[Row], claims: list[Row], unit: str) -> list[Row]:
    """The row with each row of the other table that it meets."""
    pairs = [theirs for theirs in other if all(_equal(row[left], theirs[right]) for left, right in join.on)]
    if join.kind is JoinKind.OWNED and owner(claims, row, join, unit) != row[unit]:
        return []
    return [{**row, **{new: theirs.get(old) for new, old in join.columns.items()}} for theirs in pairs]


def owner(claims: list[Row], row: Row, join: Join, unit: str) -> object:
    """The unit whose rows those with this row's key are: the first by MD5 of key and unit."""
    lefts = {right: left for left, right in join.on}
    names = [lefts[right] for _, right in join.owner.on]
    key = [row[name] for name in names]
    named = {claim[unit] for claim in claims if [claim[name] for name in names] == key} - {None}
    if None in key or not named:
        return None
    texts = ["true" if part is True else "false" if part is False else str(part) for part in key]

    def first(name: object) -> tuple[str, Any]:
        return hashlib.md5("/".join([*texts, str(name)]).encode(), usedforsecurity=False).hexdigest(), name

    return min(named, key=first)


def _equal(left: object, right: object) -> bool:
    return left is not None and left == right


def _in_cells(
    stage: Stage, by_unit: Mapping[object, dict[Key, _Cell]], order: Callable[[object, Key], Any]
) -> Aggregates:
    (column,) = stage.grid.values()
    counts: defaultdict[tuple[Key, int], int] = defaultdict(int)
    for unit, groups in by_unit.items():
        kept = _kept(unit, groups, order, stage)
        weight = weigher(stage, {key: groups[key].rows for key in kept})
        for key in kept:
            for steps in groups[key].values:
                counts[key, steps] += weight(key, str(stage.split), 1)
    found = stage.keys if stage.keys is not None else tuple(dict.fromkeys(key for key, _ in counts))
    columns = [[found.index(key), steps - column.low, count] for (key, steps), count in counts.items()]
    group, cell, count = np.array(columns, dtype=np.int64).reshape(-1, 3).T
    return Aggregates(len(found), found, {}, Cells(group, cell, count))


def _add(cell: _Cell, row: Row, stage: Stage) -> None:
    cell.rows += 1
    found: dict[str, int | None] = {}
    for name, column in stage.grid.items():
        value = row[column.column] if column.expression is None else evaluate(column.expression.term, row)
        found[name] = on_grid(value, column)
    values = dict(found)
    for name, moment in stage.moments.items():
        present = [found[column.name] for column in moment.present]
        factors = [found[column.name] or 0 for column in moment.factors]
        values[name] = None if None in present else math.prod(factors) - moment.centre
    for name, steps in values.items():
        if steps is not None:
            cell.filled[name] += 1
            cell.total[name] += steps
            cell.short[name] += (stage.grid.get(name) or stage.moments[name]).high - steps
            if stage.split is not None:
                cell.values.append(steps)


def on_grid(value: float | None, column: GridColumn) -> int | None:
    """Clip, round half up to whole steps, clip again; NULL and NaN become the column's fill."""
    if value is None or math.isnan(value):
        return column.fill
    bounds = column.bounds
    steps = max(float(bounds.low), min(float(bounds.high), float(value)))
    if bounds.step.denominator != 1:
        steps *= float(bounds.step.denominator)
    if bounds.step.numerator != 1:
        steps /= float(bounds.step.numerator)
    floor = math.floor(steps)
    rounded = floor + (steps - floor >= 0.5)
    inside = max(bounds.low_units, min(bounds.high_units, rounded))
    return inside - column.centre


def _measured(cell: _Cell, measure: str) -> int:
    what, _, name = measure.partition(":")
    match what:
        case "units":
            return int(not name or cell.filled[name] > 0)
        case "rows":
            return cell.rows
        case "filled":
            return cell.filled[name]
        case "empty":
            return cell.rows - cell.filled[name]
        case "short":
            return cell.short[name]
        case _:
            return cell.total[name]
