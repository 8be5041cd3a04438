"""The JSON form of the fields, what it may cost, and the most that one unit counts for."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from neartwin.errors import ParameterError, QueryError
from neartwin.queries.after import After
from neartwin.queries.form_after import after_read
from neartwin.web.builder.fields import Asked, Wanted
from neartwin.web.builder.over import ALONG, in_order, workload_told
from neartwin.web.builder.typed import values_of

Declared = Mapping[str, Sequence[object]]


def form(asked: Asked, types: Mapping[str, str], declared: Declared) -> dict[str, Any]:
    """The service's JSON form of the fields. types: of the columns, for keys that are typed in; declared: public keys."""
    if asked.joined:
        return {"sql": asked.sql} | (_keys(asked, types, declared) if asked.names else {})
    choice = asked.choice
    made: dict[str, Any] = {} if choice is not None else {"statistics": _statistics(asked)}
    if choice is not None:
        made = _choice(asked, choice, types, declared)
    if asked.where:
        made["where"] = [asked.where]
    if asked.names and choice is None:
        made["group_by"] = list(asked.names)
        made |= _keys(asked, types, declared)
        if margins := margins_of(asked):
            made["margins"] = margins
        if asked.over:
            made |= _over(asked, made, types, declared)
    if asked.grouped:
        made["computed"] = [[one.label, one.text()] for one in asked.grouped]
    if choice is None and (after := after_form(asked)):
        made["after"] = after
    return made


def _keys(asked: Asked, types: Mapping[str, str], declared: Declared) -> dict[str, Any]:
    if asked.keys == "given":
        kinds = dict(types) | {one.label: str(one.type) for one in asked.grouped}
        brought = {one.label for one in asked.grouped}  # parts of dates and bins bring keys where none are typed in
        wanted = [name for name in asked.names if name not in brought or asked.given.get(name)]
        return {"keys": {name: values_of(asked.given.get(name, ""), kinds.get(name, "")) for name in wanted}}
    if asked.keys == "declared" and asked.grouped:
        known = {column: list(declared[column]) for column in asked.groups if column in declared}
        return {"keys": known} if known else {}
    return {"keys": "declared"} if asked.keys == "declared" else {}


def _over(asked: Asked, made: Mapping[str, Any], types: Mapping[str, str], declared: Declared) -> dict[str, Any]:
    """What is asked over the groups, which are given with it, for windows in their order."""
    kinds = dict(types) | {one.label: str(one.type) for one in asked.grouped}
    told: dict[str, Any] = {"workload": workload_told(asked, kinds)}
    keys = made.get("keys")
    if keys == "declared":
        keys = {name: list(declared.get(name, ())) for name in asked.names}
    if not keys or not all(keys.values()):
        return told
    if asked.over in ALONG and len(asked.names) == 1:
        keys = {name: in_order(asked, values) for name, values in keys.items()}
    return told | {"keys": keys}


def margins_of(asked: Asked) -> list[list[str]]:
    """The lists of group columns that the field says."""
    return [
        [name for name in map(str.strip, part.split(",")) if name] for part in asked.margins.split(";") if part.strip()
    ]


def _choice(asked: Asked, choice: Wanted, types: Mapping[str, str], declared: Declared) -> dict[str, Any]:
    """The most common values among public ones."""
    if len(asked.wanted) > 1 or asked.names:
        raise QueryError("the most common values are a question of their own: remove other statistics and groups")
    column = choice.column
    if asked.keys == "given":
        among = values_of(asked.given.get(column, ""), types.get(column, ""))
    else:
        among = list(declared.get(column, ()))
    if not among:
        raise QueryError(
            f"the most common values of {column!r} are chosen among public ones: give them under 'groups are'"
        )
    told: dict[str, Any] = {"column": column, "among": among}
    if choice.k:
        told["k"] = int(choice.k) if choice.k.isascii() and choice.k.isdigit() else choice.k
    return {"most_common": told | ({"counted": True} if choice.counted else {})}


def _statistics(asked: Asked) -> dict[str, dict[str, Any]]:
    return {name: _statistic(one) for name, one in named(asked)}


def _statistic(one: Wanted) -> dict[str, Any]:
    part: dict[str, Any] = {"ask": one.ask}
    match one.ask:
        case "count_units":
            pass
        case "count":
            part |= {"column": one.column} if one.column else {}
        case "covariance" | "correlation":
            part |= {"x": one.column, "y": one.second}
        case "regression":
            part |= {"target": one.column, "features": _listed(one.second)}
        case "coefficient":
            part |= {"target": one.column, "features": _listed(one.second)} | (
                {"feature": one.feature} if one.feature else {}
            )
        case "histogram":
            part |= {"column": one.column, "edges": _listed(one.edges)}
        case _:
            part["column"] = one.column
            part |= {key: text for key in ("low", "high", "step", "fill") if (text := getattr(one, key))}
    if one.ask == "quantile":
        ranks = _listed(one.rank or "0.5")
        part["rank"] = ranks if len(ranks) > 1 else ranks[0]
    return part | (objected(one.more, "more") if one.more else {})


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()] or [""]


def named(asked: Asked) -> list[tuple[str, Wanted]]:
    """Each statistic with its name; those without one are named by what they are."""
    found: dict[str, Wanted] = {}
    for one in asked.wanted:
        alone = {"count": "" if one.column else "rows", "count_units": "units"}.get(one.ask)
        plain = alone or re.sub(r"\W+", "_", f"{one.ask}_{one.column}")
        name, place = one.name or plain, 2
        while name in found:
            name, place = f"{one.name or plain}_{place}", place + 1
        found[name] = one
    return list(found.items())


def after_form(asked: Asked) -> dict[str, Any]:
    """What is done to the answer, for nothing; empty for nothing. Order: names with commas between, "desc" behind them."""
    told: dict[str, Any] = objected(asked.shaping or "{}", "shaping") | (
        {"having": asked.having} if asked.having else {}
    )
    if order := [part.strip() for part in asked.order_by.split(",") if part.strip()]:
        told["order_by"] = [_ordered(part) for part in order]
    for name in ("limit", "offset"):
        if text := getattr(asked, name):
            if not (text.isascii() and text.isdigit()):
                raise ParameterError(name, text, "must be a whole number")
            told[name] = int(text)
    return told


def _ordered(part: str) -> list[object]:
    name, _, way = part.rpartition(" ")
    return [name.strip(), way.lower() == "desc"] if name and way.lower() in {"asc", "desc"} else [part, False]


def after_of(text: str) -> After:
    """What is done to an answer, from its JSON; `ParameterError` for what is none. Columns are checked where it is done."""
    return after_read(objected(text, "after"))


def spend(asked: Asked) -> dict[str, str]:
    """What the fields allow a release to cost."""
    return {asked.currency: asked.amount} | ({"delta": asked.delta} if asked.delta else {})


def limits(asked: Asked) -> dict[str, Any]:
    """The most that one unit counts for; what is no number is left out, and the plan says that it is missing."""
    found: dict[str, Any] = {}
    for name, tune in (("rows_per_group", asked.tune_rows), ("groups_per_unit", asked.tune_groups)):
        number = _whole(getattr(asked, name))
        if number is not None:
            found[name] = _tuned(asked, number) if tune else number
    for name in ("rows_per_unit", "discovery_groups", "units_together"):
        number = _whole(getattr(asked, name))
        if number is not None and (name != "discovery_groups" or asked.keys == "discover"):
            found[name] = number
    if asked.value_range:
        found["value_range"] = _share(asked)
    if asked.norm_per_unit:
        found["norm_per_unit"] = asked.norm_per_unit
    if asked.sampling_rate:
        found["sampling_rate"] = asked.sampling_rate
    weights = {name: one.weight for name, one in named(asked) if one.weight and one.ask != "most_common"}
    return found | ({"weights": weights} if weights else {})


def _tuned(asked: Asked, number: int) -> dict[str, Any]:
    return {"at_most": number} | _share(asked)


def _share(asked: Asked) -> dict[str, Any]:
    expected = _whole(asked.tune_expected)
    share = {"share": asked.tune_share} if asked.tune_share else {}
    return share | ({} if expected is None else {"groups": expected})


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def objected(text: str, name: str) -> dict[str, Any]:
    """A JSON object from its text; `ParameterError` for anything else."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise ParameterError(name, text[:200], "must be a JSON object")
    return told
