"""Terms in plain Python: the meaning that every engine's SQL must have. None is NULL; NaN equals itself and is largest."""

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from neartwin.queries.terms import ARITHMETIC, COMPARISONS, PARTS, Term

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
    if operation in ARITHMETIC or operation == "/":
        return _arithmetic(operation, *parts)
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
    assert isinstance(term.value, tuple)  # noqa: S101 - what a clip holds
    (value,) = parts
    return float(value) if math.isnan(value) else max(term.value[0], min(term.value[1], value))


def _like(term: Term, parts: list[Any]) -> bool:
    pattern = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in str(term.value))
    return re.fullmatch(pattern, parts[0], re.DOTALL) is not None


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
}
