"""What stands beside the SQL text: public keys, limits, weights and the spend, as a task says them."""

import json
from typing import Any

from neartwin.errors import ParameterError
from neartwin.web.builder.fields import AskFields


def question(asked: AskFields) -> dict[str, Any]:
    """The wire form of the SQL text and its keys, or of the JSON that stands in its place."""
    if asked.sql.startswith("{"):
        return json_object(asked.sql, "question")
    if asked.keys == "given":
        parts = [part.partition(":") for part in asked.given.split(";") if part.strip()]
        return {"sql": asked.sql} | ({"keys": {name.strip(): text for name, _, text in parts}} if parts else {})
    return {"sql": asked.sql} | ({"keys": "declared"} if asked.keys == "declared" else {})


def spend(asked: AskFields) -> dict[str, str]:
    """What the release may cost."""
    return {asked.currency: asked.amount} | ({"delta": asked.delta} if asked.delta else {})


def limits(asked: AskFields) -> dict[str, Any]:
    """The most that one unit counts for. A text that is no number is left out: the plan says that it is missing."""
    found: dict[str, Any] = {}
    for name, tune in (("rows_per_group", asked.tune_rows), ("groups_per_unit", asked.tune_groups)):
        number = _whole(getattr(asked, name))
        if number is not None:
            found[name] = {"at_most": number} | _share(asked) if tune else number
    for name in ("rows_per_unit", "discovery_groups", "units_together"):
        number = _whole(getattr(asked, name))
        if number is not None and (name != "discovery_groups" or asked.keys == "discover"):
            found[name] = number
    if asked.value_range:
        found["value_range"] = _share(asked)
    if asked.norm_per_unit:
        found["norm_per_unit"] = asked.norm_per_unit
    weights = [part.rpartition("=") for part in asked.weights.split(",") if part.strip()]
    return found | ({"weights": {name.strip(): text.strip() for name, _, text in weights}} if weights else {})


def json_object(text: str, name: str) -> dict[str, Any]:
    """A JSON object from its text; `ParameterError` for anything else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ParameterError(name, text[:200], "must be a JSON object")
    return found


def _share(asked: AskFields) -> dict[str, Any]:
    expected = _whole(asked.tune_expected)
    share = {"share": asked.tune_share} if asked.tune_share else {}
    return share | ({} if expected is None else {"groups": expected})


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
