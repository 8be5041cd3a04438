"""The parts of a task that stand beside the SQL text: public keys, limits, importance and the spend."""

import json
from collections.abc import Sequence
from typing import Any

from neartwin.errors import ParameterError
from neartwin.web.builder.fields import AskFields
from neartwin.web.datasets import Dataset

_WHOLE = "max_rows_per_group", "max_groups", "rows", "values"  # limits that are whole numbers


def question(form: AskFields) -> dict[str, Any]:
    """The wire form of the SQL text with its keys, or of the JSON in its place."""
    if form.sql.startswith("{"):
        return json_object(form.sql, "question")
    if form.keys == "given":
        parts = [part.partition(":") for part in form.given.split(";") if part.strip()]
        return {"sql": form.sql} | ({"keys": {name.strip(): text for name, _, text in parts}} if parts else {})
    return {"sql": form.sql} | ({"keys": "declared"} if form.keys == "declared" else {})


def spend(form: AskFields) -> dict[str, str]:
    """The spend, as amounts by name."""
    return {form.currency: form.amount} | ({"delta": form.delta} if form.delta else {})


def limits(form: AskFields) -> dict[str, Any]:
    """The limits of one unit, the group size, the private range and the importance. Texts without a number are left out."""
    unknown = ["max_discovered_groups"] * (form.keys == "discover")
    numbers = {name: _whole_number(getattr(form, name)) for name in (*_WHOLE, *unknown)}
    texts = {name: getattr(form, name) or None for name in ("norm", "loss_share")}
    values = {name: value for name, value in (numbers | texts).items() if value is not None}
    beside: dict[str, Any] = {"limits": values} if values else {}
    if (size := _whole_number(form.group_size)) is not None:
        beside["group_size"] = size
    if form.private_range:
        beside["private_range"] = {}
    importance = [part.rpartition("=") for part in form.importance.split(",") if part.strip()]
    return beside | ({"importance": {name.strip(): text.strip() for name, _, text in importance}} if importance else {})


def code(form: AskFields, dataset: Dataset, host: str, grouped: Sequence[str]) -> dict[str, str]:
    """The question as JSON for `POST /v1/datasets/NAME/releases`, and as Python where that has words for all of it.

    Args:
        form: The fields, with their SQL.
        dataset: The data set.
        host: The address of the service.
        grouped: The columns that the question groups by.
    """
    body = {"question": question(form), "spend": spend(form)} | limits(form)
    shown = {"json": json.dumps(body, indent=2, ensure_ascii=False)}
    if form.sql.startswith("{") or not set(body) <= {"question", "spend", "limits"} or form.keys == "given":
        return shown
    budget = {"rho": "zcdp", "mu": "gdp"}.get(form.currency, "approx" if form.delta else "pure")
    amounts = ", ".join(repr(amount) for amount in body["spend"].values())
    given = ", ".join(f"{name}={value!r}" for name, value in body.get("limits", {}).items())
    declared = ", ".join(f"{name!r}: account.keys[{name!r}]" for name in grouped if name in dataset.keys)
    keys = f", keys={{{declared}}}" if form.keys == "declared" and declared else ""
    text = form.sql.replace("\\", "\\\\").replace('"', '\\"')  # a saved question may be another's
    shown["python"] = f'''import os
import neartwin as nt

account = nt.connect("{host}", os.environ["NEARTWIN_TOKEN"]).open({dataset.name!r})
question = nt.from_sql("""{text}""", account.rows{keys}, tables=account.tables)
plan = account.plan(question, spend=nt.{budget}({amounts}){f", limits=nt.limits({given})" if given else ""})
print(plan.preview())  # free
release = account.release(plan)  # pays'''
    return shown


def json_object(text: str, name: str) -> dict[str, Any]:
    """A JSON object from its text.

    Args:
        text: The text.
        name: The name of the object in a refusal.

    Raises:
        ParameterError: The text is no JSON object.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ParameterError(name, text[:200], "must be a JSON object")
    return values


def _whole_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
