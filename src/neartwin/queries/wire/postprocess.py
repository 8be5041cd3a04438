"""Steps on a noisy result as JSON: shapes and arithmetic, then HAVING, ORDER BY and LIMIT, by the names of its columns.

```
{"monotone": {"orders": "increasing"}, "non_negative": ["orders"], "computed": {"each": "ROUND(total / orders, 2)"},
 "having": "orders > 100", "order_by": [["orders", true]], "limit": 5, "offset": 0}
```
"""

from collections.abc import Callable, Mapping
from typing import Any

from neartwin.errors import ParameterError, QueryError
from neartwin.queries.query import WAYS, PostProcessing
from neartwin.tables.types import ColumnType

SHAPES = {"monotone", "non_negative", "computed"}
_WORDS = SHAPES | {"having", "order_by", "limit", "offset", "shown"}


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
    for name in (*(name for name, _ in after.monotone), *after.non_negative):
        if name not in numbers:
            raise QueryError(f"question: {name!r} of after is not a statistic of the result")
    for name, down in after.order:
        if name not in {*released, *dict(after.computed)}:
            raise QueryError(f"question: {[name, down]!r} of order_by must be [column, whether it descends]")
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
    if not isinstance(form, Mapping) or set(form) - _WORDS:
        raise ParameterError("after", form, f"must be an object of {', '.join(sorted(_WORDS))}")
    steps: dict[str, Any] = {name: form.get(name) or default for name, default in _EMPTY.items()}
    for name, (fits, rule) in _FIT.items():
        if not fits(steps[name]):
            raise ParameterError(f"{name} of after", steps[name], f"must be {rule}")
    for name in ("limit", "offset"):
        if (number := form.get(name)) is not None and (type(number) is not int or not 0 <= number < 2**63):
            raise ParameterError(f"{name} of after", number, "must be a whole number")
    return PostProcessing(
        monotone=tuple((name, WAYS[way]) for name, way in steps["monotone"].items()),
        non_negative=tuple(steps["non_negative"]),
        computed=tuple(steps["computed"].items()),
        having=steps["having"],
        order=tuple((name, down) for name, down in steps["order_by"]),
        limit=form.get("limit"),
        offset=form.get("offset") or 0,
        shown=tuple(steps["shown"].items()),
    )


def after_form(after: PostProcessing) -> dict[str, Any]:
    """The JSON form of the steps; `after_from` reads it."""
    parts: dict[str, Any] = {
        "monotone": {name: "increasing" if way else "decreasing" for name, way in after.monotone},
        "non_negative": list(after.non_negative),
        "computed": dict(after.computed),
        "having": after.having,
        "order_by": [list(one) for one in after.order],
        "limit": after.limit,
        "offset": after.offset,
        "shown": dict(after.shown),
    }
    return {name: value for name, value in parts.items() if value or (value == 0 and name == "limit")}


def _is_mapping(value: object, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) and name and fits(it) for name, it in value.items())


def _is_order(one: object) -> bool:
    return isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) and isinstance(one[1], bool)


_EMPTY: Mapping[str, Any] = {
    "monotone": {}, "non_negative": [], "computed": {}, "having": "", "order_by": [], "shown": {},
}  # fmt: skip
_FIT: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "monotone": (
        lambda it: _is_mapping(it, lambda way: isinstance(way, str) and way in WAYS),
        'as in {"orders": "increasing"}, or decreasing',
    ),
    "non_negative": (
        lambda it: isinstance(it, list) and all(isinstance(one, str) for one in it),
        "a list of statistics",
    ),
    "computed": (
        lambda it: _is_mapping(it, lambda text: isinstance(text, str)),
        'as in {"each": "ROUND(total / orders, 2)"}',
    ),
    "shown": (lambda it: _is_mapping(it, lambda name: isinstance(name, str)), 'as in {"month_": "month"}'),
    "having": (lambda it: isinstance(it, str), "text"),
    "order_by": (lambda it: isinstance(it, list) and all(map(_is_order, it)), 'a list such as [["orders", true]]'),
}
