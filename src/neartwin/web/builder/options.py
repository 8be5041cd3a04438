"""What stands beside the SQL text: public keys, limits, importance and the spend, as a task says them."""

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
    """The limits of one unit, and what else stands beside the spend. A text that is no number is left out."""
    numbers = {name: _whole(getattr(asked, name)) for name in ("max_rows_per_group", "max_groups", "rows")}
    found: dict[str, Any] = {name: number for name, number in numbers.items() if number is not None}
    for name, private in (("max_rows_per_group", asked.private_rows), ("max_groups", asked.private_groups)):
        if private and name in found:
            found[name] = {"at_most": found[name]} | _share(asked)
    if (number := _whole(asked.max_discovered_groups)) is not None and asked.keys == "discover":
        found["max_discovered_groups"] = number
    found |= {"norm": asked.norm} if asked.norm else {}
    beside: dict[str, Any] = {"limits": found} if found else {}
    if (size := _whole(asked.group_size)) is not None:
        beside["group_size"] = size
    if asked.private_range:
        beside["private_range"] = _share(asked)
    importance = [part.rpartition("=") for part in asked.importance.split(",") if part.strip()]
    return beside | ({"importance": {name.strip(): text.strip() for name, _, text in importance}} if importance else {})


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
    expected = _whole(asked.expected_groups)
    share = {"share": asked.private_share} if asked.private_share else {}
    return share | ({} if expected is None else {"groups": expected})


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
