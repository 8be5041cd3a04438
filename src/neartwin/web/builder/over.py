"""Sums over the groups (linear workloads) as fields, JSON and SQL.

Running totals and moving sums go along the public keys in the order of their values, as windows do in SQL; runs of groups go by
the order in which the keys are given.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import sqlglot
from sqlglot import exp

from neartwin.errors import NeartwinError, ParameterError, QueryError
from neartwin.queries.query import Query
from neartwin.queries.sql_workloads import without_workload
from neartwin.web.builder.fields import Asked
from neartwin.web.builder.typed import UnwordedError, values_of

ALONG = {"prefixes", "moving"}
NOTHING_OVER = dict.fromkeys(("over", "falling", "lengths", "before", "behind", "weights"), "")


def workload_told(asked: Asked, types: Mapping[str, str]) -> dict[str, Any]:
    """The JSON form of what the fields ask over the groups; `ParameterError` for what is none."""
    match asked.over:
        case "prefixes":
            return {"ask": "prefixes"}
        case "moving":
            return {
                "ask": "moving",
                "before": _number("before", asked.before or "0"),
                "after": _number("after", asked.behind or "0"),
            }
        case "ranges":
            lengths = [_number("lengths", part.strip()) for part in asked.lengths.split(",") if part.strip()]
            return {"ask": "ranges"} | ({"lengths": lengths} if lengths else {})
        case "weights":
            return {"ask": "weights", "weights": _weights(asked, types)}
    raise ParameterError(
        "over", asked.over[:50], "must be prefixes, ranges, moving or weights, or empty for each group alone"
    )


def in_order(asked: Asked, keys: list[object]) -> list[object]:
    """Public keys as windows go along them; `QueryError` for keys without an order."""
    try:
        return sorted(keys, reverse=bool(asked.falling))  # type: ignore[type-var]
    except TypeError:
        raise QueryError(
            "running totals and moving sums go along public keys that have an order: numbers, dates, or texts, all of one kind"
        ) from None


def over_sql(asked: Asked, made: exp.Expr, column: exp.Expr | None) -> exp.Expr:
    """The statistic of each group summed as the fields say. column: the one group column."""
    statistic, told = made.sql(dialect="duckdb"), workload_told(asked, dict.fromkeys(asked.names, _kind(asked)))
    match asked.over:
        case "prefixes" | "moving" if column is not None:
            down = " DESC" if asked.falling else ""
            frame = ""
            if asked.over == "moving":
                frame = f" ROWS BETWEEN {told['before']} PRECEDING AND {told['after']} FOLLOWING"
            text = f"SUM({statistic}) OVER (ORDER BY {column.sql(dialect='duckdb')}{down}{frame})"
        case "ranges":
            lengths = f", {told['lengths']}" if "lengths" in told else ""
            text = f"RANGES({statistic}{lengths})"
        case "weights":
            maps = (f"{_quoted(name)}: MAP {{{_pairs(pairs)}}}" for name, pairs in told["weights"].items())
            text = f"WEIGHTED_SUMS({statistic}, MAP {{{', '.join(maps)}}})"
        case _:
            raise QueryError("running totals and moving sums go along one group column")
    return sqlglot.parse_one(text, read="duckdb")


def over_fields(question: Query, form: Mapping[str, Any], text: str) -> dict[str, str] | None:
    """The fields of what a question asks over its groups; None where they do not say it. form: its JSON; text: its SQL."""
    told = form.get("workload")
    if told is None:
        return NOTHING_OVER
    if form.get("computed"):
        return None
    select = sqlglot.parse_one(text, read="duckdb")
    found = without_workload(select)[1] if isinstance(select, exp.Select) else None
    made = {
        "over": told["ask"],
        "falling": "on" if found is not None and found.falling else "",
        "lengths": ", ".join(map(str, told.get("lengths", ()))),
        "before": str(told.get("before", "")),
        "behind": str(told.get("after", "")),
        "weights": _weights_text(told.get("weights", {})),
    }
    kinds = {name: str(question.table.schema[name]) for name in question.groups.columns}
    try:
        again = workload_told(Asked(groups=tuple(kinds), **made), kinds)
    except NeartwinError:
        return None
    same = all(
        _comparable(again.get(part)) == _comparable(told.get(part))
        for part in ("lengths", "before", "after", "weights")
    )
    return made if same else None


def _kind(asked: Asked) -> str:
    """Of the keys of weights, by how they are written: for ranges of whole numbers."""
    pairs = [pair for pair in re.split("[;,]", asked.weights) if pair.strip()]
    keys = [pair.rpartition("=")[0].rpartition(":")[2].strip() for pair in pairs]
    return "integer" if all(re.fullmatch(r"-?\d+", key) for key in keys) else ""


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ParameterError(name, text[:50], "must be whole numbers")
    return int(text)


def _weights(asked: Asked, types: Mapping[str, str]) -> dict[str, list[list[object]]]:
    """Of `minors: 16:17 = 1; old: 90 = 1/2, 91 = 1`."""
    if len(asked.names) != 1:
        raise QueryError("weighted sums are over one group column here; of several, write WEIGHTED_SUMS in the SQL")
    (column,) = asked.names
    found: dict[str, list[list[object]]] = {}
    for part in asked.weights.split(";"):
        name, colon, pairs = (side.strip() for side in part.partition(":"))
        if not part.strip():
            continue
        if not colon or not name or name in found:
            raise ParameterError("weights", part[:50], "must be a new name and pairs, as in minors: 16 = 1, 17 = 1/2")
        found[name] = []
        for pair in pairs.split(","):
            keys, equal, weight = (side.strip() for side in pair.rpartition("="))
            if not equal or not keys or not weight:
                raise ParameterError("weights", pair[:50], "must be a key and its weight, as in 16 = 1")
            found[name] += [[key, weight] for key in values_of(keys, types.get(column, ""))]
    if not found:
        raise ParameterError("weights", "", "must have a name and pairs", remedy="write minors: 16 = 1, 17 = 1/2")
    return found


def _weights_text(weights: Mapping[str, list[list[Any]]]) -> str:
    parts = (
        f"{name}: "
        + ", ".join(f"{_shown(key[0] if isinstance(key, list) else key)} = {weight}" for key, weight in pairs)
        for name, pairs in weights.items()
    )
    return "; ".join(parts)


def _shown(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _comparable(told: object) -> object:
    """Weights by name and key, as texts; other parts as they are."""
    if not isinstance(told, Mapping):
        return told
    return {
        name: {str(key if isinstance(key, list) else [key]): str(weight) for key, weight in pairs}
        for name, pairs in told.items()
    }


def _pairs(pairs: list[list[object]]) -> str:
    return ", ".join(f"{_literal(key)}: {_decimal(str(weight))}" for key, weight in pairs)


def _literal(key: object) -> str:
    """As SQL: whole numbers, truth values and dates as such, whatever else as text."""
    text = _shown(key)
    if re.fullmatch(r"-?\d+", text) or text in {"true", "false"}:
        return text.upper()
    return f"DATE {_quoted(text)}" if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else _quoted(text)


def _quoted(text: str) -> str:
    return exp.Literal.string(text).sql(dialect="duckdb")


def _decimal(weight: str) -> str:
    try:
        exact = Fraction(weight)
    except (ValueError, ZeroDivisionError):
        raise ParameterError("weights", weight[:50], "must be numbers, such as 1, 0.5 or -1/3") from None
    shown = f"{float(exact):.15g}"
    if "e" in shown or Fraction(shown) != exact:
        raise UnwordedError(f"the weight {weight} has no words in SQL; the fields, Python and HTTP say it")
    return shown
