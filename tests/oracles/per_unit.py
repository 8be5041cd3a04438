"""Rows computed from one unit's rows at a time, in plain Python: the oracle of aggregates and windows by unit."""

from collections import defaultdict
from functools import cmp_to_key
from typing import Any

from tests.oracles import memory


def unit_rows(rows, of, wanted):
    """The rows of a `PerUnit` of these rows, with the wanted columns."""
    unit = str(of.table.unit)
    kept = [row for row in rows if row[unit] is not None]
    kept = [row for row in kept if all(memory.evaluate(one.term, row) is True for one in of.conditions)]
    if of.by is None:
        reads, found = of.reads(wanted), []
        parts: dict[Any, list[Any]] = defaultdict(list)
        for row in kept:
            parts[row[unit]].append(row)
        for row in kept:
            shown = {
                name: one if (one := _passed(row, of, name)) is not _NONE else None
                for name in wanted
                if name not in of.columns
            }
            for name in wanted:
                if name in of.columns:
                    shown[name] = _window(of.columns[name], row, parts[row[unit]], reads)
            found.append(shown)
        return found
    groups: dict[Any, list[Any]] = defaultdict(list)
    for row in kept:
        groups[tuple(_passed(row, of, name) for name in of.by)].append(row)
    return [
        dict(zip(of.by, key, strict=True))
        | {name: _aggregate(of.columns[name], group) for name in wanted if name in of.columns}
        for key, group in groups.items()
    ]


_NONE = object()


def _passed(row, of, name):
    one = of.expression(name)
    return row[name if of.by is None else of.by[name]] if one is None else memory.evaluate(one.term, row)


def plain(value):
    return 0.0 if isinstance(value, float) and value == 0 else value


def _values(column, rows):
    return [plain(memory.evaluate(column.value.term, row)) for row in rows]


def _aggregate(column, rows):
    if column.value is None:
        return len(rows)
    values = [value for value in _values(column, rows) if value is not None]
    match column.function:
        case "count":
            return len(values)
        case "count distinct":
            return len(set(values))
        case "min" | "max":
            best = None
            for value in values:
                sign = 1 if column.function == "max" else -1
                best = value if best is None or memory._sign(value, best) * sign > 0 else best
            return best
        case "bool_or":
            return any(values) if values else None
        case "bool_and":
            return all(values) if values else None
    if column.bounds is not None:
        grid = memory.GridColumn("x", "x", column.bounds, 0, None)
        values = [steps for steps in (memory.on_grid(value, grid) for value in values) if steps is not None]
    if not values or abs(sum(values)) > 2**63 - 1:
        return None
    if column.kind.value == "integer":
        return sum(values)
    total = float(sum(values))
    if column.bounds is not None:
        total = total * float(column.bounds.step.numerator) / float(column.bounds.step.denominator)
    return total if column.function == "sum" else total / len(values)


def _window(column, row, rows, reads):
    by = [memory.evaluate(part.term, row) for part in column.by]
    part = [one for one in rows if [memory.evaluate(part.term, one) for part in column.by] == by]
    ordered = column.frame or column.function in {"row_number", "lag", "lead", "first_value"}
    compared = cmp_to_key(lambda left, right: _order(left, right, column, reads if ordered else ()))
    if not ordered:
        return _aggregate(column, [one for one in part if not column.order or compared(one) <= compared(row)])
    part = sorted(part, key=compared)
    place = next(i for i, one in enumerate(part) if one is row)
    near = [one for at, one in enumerate(part) if _in_frame(at - place, column.frame)]
    match column.function:
        case "row_number":
            return place + 1
        case "first_value" | "last_value":
            return (_values(column, near) or [None])[0 if column.function == "first_value" else -1]
        case "lag" | "lead":
            pass
        case _:
            return _aggregate(column, near)
    other = place - column.offset if column.function == "lag" else place + column.offset
    return _values(column, part)[other] if 0 <= other < len(part) else None


def _in_frame(distance, frame):
    """Whether a row that far after another is in its frame by rows."""
    if not frame:
        return True  # of FIRST_VALUE
    far = {"CURRENT": 0, "UNBOUNDED": 10**9}
    ends = [end.split() for end in frame.removeprefix("ROWS BETWEEN ").split(" AND ")]
    first, last = ((-1 if end[-1] == "PRECEDING" else 1) * int(far.get(end[0], end[0])) for end in ends)
    return first <= distance <= last


def _order(left, right, column, reads):
    keys = [
        (plain(memory.evaluate(key.term, left)), plain(memory.evaluate(key.term, right)), down)
        for key, down in column.order
    ]
    keys += [(plain(left[name]), plain(right[name]), False) for name in reads]
    for one, other, down in keys:
        if one is None or other is None:
            sign = (one is None) - (other is None)
        else:
            sign = memory._sign(_bytes(one), _bytes(other)) * (-1 if down else 1)
        if sign:
            return sign
    return 0


def _bytes(value):
    return value.encode() if isinstance(value, str) else value
