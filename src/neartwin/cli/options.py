"""Reading the small languages of options: `epsilon=0.5,delta=1e-6`, `amount=0:200:0.01`, `town=Ulm,Bonn`, `cds=1:5`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import click

from neartwin.accounting.budgets import Budget, budget_in
from neartwin.errors import ParameterError
from neartwin.planning.limits import Limits, known_names
from neartwin.queries.groups import Grouping, date, date_part
from neartwin.tables.table import ROW, Bounds, RowUnit
from neartwin.tables.table import bounds as as_bounds
from neartwin.tables.types import ColumnType

T = TypeVar("T")


def target(text: str, name: str) -> Budget:
    """A privacy target: `epsilon=1`, `epsilon=1,delta=1e-6`, `rho=0.5`, `mu=1,delta=1e-9`, `order=8,epsilon=1`..."""
    return budget_in(text, name)


def bounds(texts: tuple[str, ...]) -> dict[str, Bounds]:
    """Public bounds by column: `amount=0:200`, or with a step `amount=0:200:0.5`."""
    found = {}
    for column, text in pairs(texts, "bounds").items():
        ends = text.split(":")
        if len(ends) not in (2, 3):
            raise ParameterError("bounds", f"{column}={text}", "must be column=low:high or column=low:high:step")
        found[column] = as_bounds(*ends)
    return found


def unit(text: str) -> str | RowUnit | tuple[str, Grouping]:
    """The unit: a column, `each row`, or what a column names within a period, as releases write it.

    >>> unit("customer in one week of at")
    ('customer', Grouping(name='at_week', of='at', around="date_trunc('week', {})"))
    """
    if text == "each row":
        return ROW
    found = re.fullmatch(r"(.+) in one (day|week|month|quarter|year) of (.+)", text)
    if found is None:
        return text
    column, word, of = found.groups()
    return column, date(of) if word == "day" else date_part(f"{word} start", of)


def limits(told: dict[str, Any]) -> Limits:
    """Limits of the single options, which are taken out of those told, and of `limits`: one text or a table of TOML.

    >>> print(limits({"rows": 20, "limits": "max-groups=3", "spend": "epsilon=1"}))
    nt.limits(max_groups=3, rows=20)
    """
    whole = told.pop("limits", None) or {}
    found = Limits.parse(whole) if isinstance(whole, str) else Limits.from_dict(whole)
    single = {name: told.pop(name) for name in known_names() if told.get(name) is not None}
    return replace(found, **Limits.from_dict(single).given)


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """One option for each limit of a unit, and `--limits` for several."""
    shared: list[Callable[..., Any]] = [
        click.option("--limits", help="Limits of one unit together: rows=20,max-groups=3. Or one by one:"),
        click.option("--max-rows-per-group", help="The most rows of a unit that count in one group."),
        click.option("--max-groups", help="The most groups of a unit; or private=256, private=256,groups=500."),
        click.option("--rows", help="The most rows of a unit in all groups together."),
        click.option("--norm", help="Instead: the norm of a unit's whole vector, in rows; or private=256."),
        click.option("--max-discovered-groups", help="In how many of its groups a unit helps to discover them."),
    ]
    for option in reversed(shared):
        command = option(command)
    return command


def types(texts: tuple[str, ...]) -> dict[str, str]:
    """Declared types by column: `amount=number`."""
    return pairs(texts, "types")


def keys(texts: tuple[str, ...], schema: Mapping[str, ColumnType]) -> Any:
    """Public keys: `town=Ulm,Bonn` a column (their product is taken), `cds=1:5` a range with both ends, or a file's path."""
    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    return {column: _values(text, schema.get(column)) for column, text in pairs(texts, "keys").items()}


def _values(text: str, kind: ColumnType | None) -> list[object]:
    try:
        if kind is ColumnType.INTEGER:
            if ":" in text:
                low, high = text.split(":")
                return list(range(int(low), int(high) + 1))
            return [int(part) for part in text.split(",")]
        if kind is ColumnType.BOOLEAN:
            return [{"true": True, "false": False}[part.strip().lower()] for part in text.split(",")]
        if kind is ColumnType.DATE:
            import datetime as dt

            return [dt.date.fromisoformat(part) for part in text.split(",")]
    except (ValueError, KeyError):
        raise ParameterError("keys", text, f"must be values of a column of type {kind}") from None
    return list(text.split(","))


def own(others: list[str], found: dict[str, T]) -> dict[str, T]:
    """What is told of the first table's columns: names that do not start with another table's."""
    theirs = tuple(f"{table}." for table in others)
    return {name: value for name, value in found.items() if not name.startswith(theirs)}


def of(table: str, found: dict[str, T]) -> dict[str, T]:
    """What is told of another table's columns, by their own names.

    >>> of("towns", {"towns.rent": "number", "age": "integer"})
    {'rent': 'number'}
    """
    return {name.removeprefix(f"{table}."): value for name, value in found.items() if name.startswith(f"{table}.")}


def pairs(texts: tuple[str, ...] | list[str], name: str) -> dict[str, str]:
    """`name=value` texts as a mapping."""
    found = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key.strip() or not value.strip():
            raise ParameterError(name, text, "must be name=value")
        found[key.strip()] = value.strip()
    return found
