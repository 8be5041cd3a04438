"""Steps on a noisy result as JSON: shapes and arithmetic, then HAVING, ORDER BY and LIMIT, by the names of its columns.

```
{"monotone": {"orders": "increasing"}, "non_negative": ["orders"], "computed": {"each": "ROUND(total / orders, 2)"},
 "having": "orders > 100", "order_by": [["orders", true]], "limit": 5, "offset": 0}
```

A third value of a key in `order_by`, if it is true, puts NULL first. `"divided": ["total"]` says that this statistic is
asked only in quotients, so that limits are chosen for these.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from neartwin.errors import ParameterError, QueryError
from neartwin.queries.query import NOTHING, WAYS, PostProcessing
from neartwin.tables.types import ColumnType


def after_from(form: object, released: Mapping[str, ColumnType]) -> PostProcessing:
    """The steps of a form.

    Args:
        form: The JSON form.
        released: The columns of the result, and their types.

    Returns:
        The steps.

    Raises:
        QueryError: A step names no column of the result.
        ParameterError: The form is wrong.
    """
    try:
        after = after_read(form).checked(released)
    except ParameterError as fault:
        raise QueryError(f"question: {fault}") from None
    numbers = {name for name, kind in released.items() if kind is ColumnType.NUMBER}
    for name in (*(name for name, _ in after.monotone), *after.non_negative, *after.divided):
        if name not in numbers:
            raise QueryError(f"question: {name!r} of after is not a statistic of the result")
    return after


def after_read(form: object) -> PostProcessing:
    """The steps of a form, before any column is known.

    Args:
        form: The JSON form.

    Returns:
        The steps.

    Raises:
        ParameterError: The form is wrong.
    """
    if not isinstance(form, Mapping) or set(form) - set(_STEPS):
        raise ParameterError("after", form, f"must be an object of {', '.join(sorted(_STEPS))}")
    given = {name: value for name, value in form.items() if value not in (None, "", [], {})}
    for name, value in given.items():
        if not _STEPS[name].fits(value):
            raise ParameterError(f"{name} of after", value, f"must be {_STEPS[name].rule}")
    return PostProcessing(**{_FIELDS.get(name, name): _STEPS[name].read(value) for name, value in given.items()})


def after_form(after: PostProcessing) -> dict[str, Any]:
    """The JSON form of the steps; `after_from` reads it."""
    found, empty = ({name: getattr(of, _FIELDS.get(name, name)) for name in _STEPS} for of in (after, NOTHING))
    return {name: _STEPS[name].write(value) for name, value in found.items() if value != empty[name]}


@dataclass(frozen=True, slots=True)
class _Step:
    """A step in JSON.

    Attributes:
        fits: Whether a form is one.
        rule: What a form must be.
        read: The field of `PostProcessing` of a form.
        write: The form of a field.
    """

    fits: Callable[[Any], bool]
    rule: str
    read: Callable[[Any], Any] = lambda it: it
    write: Callable[[Any], Any] = lambda it: it


def _is_mapping(value: object, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) and name and fits(it) for name, it in value.items())


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _pairs(value: Any) -> tuple[Any, ...]:
    return tuple(map(tuple, value.items() if isinstance(value, Mapping) else value))


_NAMES = _Step(lambda it: isinstance(it, list) and all(map(_is_text, it)), "a list of statistics", tuple, list)
_ORDERS = [str, bool], [str, bool, bool]
_FIELDS = {"order_by": "order"}  # where a step has another name in Python
_STEPS: Mapping[str, _Step] = {
    "monotone": _Step(
        lambda it: _is_mapping(it, lambda way: isinstance(way, str) and way in WAYS),
        'as in {"orders": "increasing"}, or decreasing',
        lambda it: tuple((name, WAYS[way]) for name, way in it.items()),
        lambda it: {name: "increasing" if way else "decreasing" for name, way in it},
    ),
    **dict.fromkeys(("non_negative", "divided"), _NAMES),
    "computed": _Step(lambda it: _is_mapping(it, _is_text), 'as in {"each": "ROUND(total / orders, 2)"}', _pairs, dict),
    "having": _Step(_is_text, "text"),
    "order_by": _Step(
        lambda it: isinstance(it, list) and all(type(one) is list and [*map(type, one)] in _ORDERS for one in it),
        'a list such as [["orders", true]]',
        _pairs,
        lambda it: list(map(list, it)),
    ),
    "limit": _Step(_is_number, "a whole number"),
    "offset": _Step(_is_number, "a whole number"),
    "shown": _Step(lambda it: _is_mapping(it, _is_text), 'as in {"month_": "month"}', _pairs, dict),
}
