"""Writes the fields as a task: one SQL text, and the keys, limits, importance and spend that stand beside it.

The text is not parsed here, because the SQL parser reads all of it.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from sqlglot.dialects.duckdb import DuckDB

from neartwin.errors import ParameterError, QueryError
from neartwin.tables.types import ColumnType
from neartwin.web.builder.fields import FUNCTIONS, AskFields, StatisticFields
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


def sql(form: AskFields, dataset: Dataset) -> str:
    """The SQL text of the fields.

    Raises:
        ParameterError: A field is missing or has no valid value.
        QueryError: The fields are no single question.
    """
    names = [_quoted(name) for name in form.names]
    computed = dict(zip(names[len(form.groups) :], form.computed_groups, strict=True))
    if form.choice is not None:
        return _choice(form, form.choice, dataset)
    window = f"SUM({{}}) OVER (ORDER BY {names[0]})" if form.running and names else "{}"
    statistics = [(window.format(_statistic(one, dataset)), name) for name, one in named(form)]
    shown = names[: len(form.groups)]
    shown += [f"{group.grouping().text(_schema(group.of))} AS {name}" for name, group in computed.items()]
    shown += [f"{text} AS {_quoted(name)}" for text, name in statistics]
    lines = ["SELECT", ",\n".join(f"  {item}" for item in shown)]
    lines += _from(form, dataset)
    if names:
        lines.append(f"GROUP BY {', '.join(names)}")
    clauses = {"HAVING": form.having, "ORDER BY": form.order_by, "LIMIT": form.limit}
    return "\n".join([*lines, *(f"{clause} {text}" for clause, text in clauses.items() if text)])


def named(form: AskFields) -> list[tuple[str, StatisticFields]]:
    """Each statistic with its name. The default name holds the statistic and its column."""
    by_name: dict[str, StatisticFields] = {}
    for one in form.statistics:
        alone = {"count": "" if one.column else "rows", "count_distinct_units": "units"}.get(one.ask)
        plain = alone or re.sub(r"\W+", "_", f"{one.ask}_{one.column}")
        name, place = one.name or plain, 2
        while name in by_name:
            name, place = f"{one.name or plain}_{place}", place + 1
        by_name[name] = one
    return list(by_name.items())


def _choice(form: AskFields, choice: StatisticFields, dataset: Dataset) -> str:
    """The SQL text of a question for most common values."""
    if len(form.statistics) > 1 or form.names:
        raise QueryError("the most common values are a question of their own: remove other statistics and groups")
    column = _value(choice.column)
    ranked = [f"GROUP BY {column}", f"ORDER BY COUNT(DISTINCT {_quoted(dataset.unit)}) DESC", f"LIMIT {choice.k or 1}"]
    return "\n".join(["SELECT", f"  {column}", *_from(form, dataset), *ranked])


def _from(form: AskFields, dataset: Dataset) -> list[str]:
    return [f"FROM {_quoted(dataset.name)}", *([f"WHERE {form.where}"] if form.where else [])]


def _statistic(one: StatisticFields, dataset: Dataset) -> str:
    if one.ask not in FUNCTIONS:
        raise ParameterError("statistic", one.ask[:50], f"must ask one of {', '.join(FUNCTIONS)}")
    if one.ask == "count":
        return f"COUNT({_value(one.column) if one.column else '*'})"
    if one.ask in {"count_distinct_units", "count_distinct"}:
        return f"COUNT(DISTINCT {_value(one.column) if one.ask == 'count_distinct' else _quoted(dataset.unit)})"
    arguments = [_clipped(one, dataset)]
    if "edges" in one.shows:
        arguments.append(f"[{one.edges}]")
    if "rank" in one.shows:
        arguments.append(f"[{one.rank}]" if "," in one.rank else one.rank or "0.5")
    if "second" in one.shows:
        arguments += [_value(part.strip()) for part in one.second.split(",")]
    return f"{FUNCTIONS[one.ask]}({', '.join(arguments)})"


def _clipped(one: StatisticFields, dataset: Dataset) -> str:
    """The value expression, with its fill and its own bounds around it."""
    value, declared = _value(one.column), dataset.bounds.get(one.column)
    if one.fill and "fill" in one.shows:
        value = f"COALESCE({value}, {one.fill})"
    if not (one.low or one.high) or "low" not in one.shows:
        return value
    ends = [one.low, one.high] if declared is None else [one.low or declared.low, one.high or declared.high]
    if not all(map(str, ends)):
        raise ParameterError("bounds", one.low or one.high, f"must be two for {one.column!r}, which declares none")
    return f"clip({value}, {ends[0]}, {ends[1]})"


def _value(text: str) -> str:
    """A column, quoted where its name needs it, or an expression as typed."""
    if not text:
        raise ParameterError("column", "", "must be chosen")
    return _quoted(text) if _schema(text) else text


def _schema(text: str) -> dict[str, ColumnType]:
    """A schema with the column that the text names. It is empty for an expression."""
    return {text: ColumnType.OTHER} if re.fullmatch(r"[^\W\d][\w ]*", text) else {}


def _quoted(name: str) -> str:
    plain = name.isidentifier() and name.islower() and name.isascii()
    return name if plain and name.upper() not in DuckDB.Tokenizer.KEYWORDS else '"' + name.replace('"', '""') + '"'
