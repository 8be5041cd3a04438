"""The fields as one SQL text. It is written piece by piece and not parsed: the judge of SQL reads all of it."""

import re
from collections.abc import Sequence

from sqlglot.dialects.duckdb import DuckDB

from neartwin.errors import ParameterError, QueryError
from neartwin.tables.types import ColumnType
from neartwin.web.builder.fields import FUNCTIONS, AskFields, StatisticFields
from neartwin.web.datasets import Dataset


def sql(asked: AskFields, dataset: Dataset) -> str:
    """The SQL text of the fields. Errors: `ParameterError` and `QueryError` for fields that write none."""
    names = [_quoted(name) for name in asked.names]
    computed = dict(zip(names[len(asked.groups) :], asked.computed_groups, strict=True))
    if asked.choice is not None:
        return _choice(asked, asked.choice, dataset)
    statistics = [(_over(asked, _statistic(one, dataset), names), name) for name, one in named(asked)]
    shown = [] if asked.over == "ranges" else names[: len(asked.groups)]
    expressions = {name: group.grouping().text(_schema(group.of)) for name, group in computed.items()}
    shown += [] if asked.over == "ranges" else [f"{text} AS {name}" for name, text in expressions.items()]
    grouped = [expressions[name] if asked.over == "ranges" and name in expressions else name for name in names]
    lines = ["SELECT", _indented([*shown, *(f"{text} AS {_quoted(name)}" for text, name in statistics)])]
    lines += _from(asked, dataset)
    if names and asked.margins:
        sets = [", ".join(_quoted(name.strip()) for name in part.split(",")) for part in asked.margins.split(";")]
        lines.append(f"GROUP BY GROUPING SETS ({', '.join(f'({one})' for one in sets)})")
    elif names:
        lines.append(f"GROUP BY {', '.join(grouped)}")
    clauses = {"HAVING": asked.having, "ORDER BY": asked.order_by, "LIMIT": asked.limit, "OFFSET": asked.offset}
    return "\n".join([*lines, *(f"{clause} {text}" for clause, text in clauses.items() if text)])


def named(asked: AskFields) -> list[tuple[str, StatisticFields]]:
    """Each statistic with its name; the default name says the statistic and its column."""
    found: dict[str, StatisticFields] = {}
    for one in asked.statistics:
        alone = {"count": "" if one.column else "rows", "count_distinct_units": "units"}.get(one.ask)
        plain = alone or re.sub(r"\W+", "_", f"{one.ask}_{one.column}")
        name, place = one.name or plain, 2
        while name in found:
            name, place = f"{one.name or plain}_{place}", place + 1
        found[name] = one
    return list(found.items())


def _choice(asked: AskFields, choice: StatisticFields, dataset: Dataset) -> str:
    """The most common values: SELECT shows the winners alone."""
    if len(asked.statistics) > 1 or asked.names:
        raise QueryError("the most common values are a question of their own: remove other statistics and groups")
    column = _value(choice.column)
    ranked = [f"GROUP BY {column}", f"ORDER BY COUNT(DISTINCT {_quoted(dataset.unit)}) DESC", f"LIMIT {choice.k or 1}"]
    return "\n".join(["SELECT", f"  {column}", *_from(asked, dataset), *ranked])


def _from(asked: AskFields, dataset: Dataset) -> list[str]:
    return [f"FROM {_quoted(dataset.name)}", *([f"WHERE {asked.where}"] if asked.where else [])]


def _statistic(one: StatisticFields, dataset: Dataset) -> str:
    if one.ask not in FUNCTIONS:
        raise ParameterError("statistic", one.ask[:50], f"must ask one of {', '.join(FUNCTIONS)}")
    if one.ask == "count":
        return f"COUNT({_value(one.column) if one.column else '*'})"
    if one.ask == "count_distinct_units":
        return f"COUNT(DISTINCT {_quoted(dataset.unit)})"
    arguments = [_clipped(one, dataset)]
    if "edges" in one.shows:
        arguments.append(f"[{one.edges}]")
    if "rank" in one.shows:
        arguments.append(f"[{one.rank}]" if "," in one.rank else one.rank or "0.5")
    if "second" in one.shows:
        arguments += [_value(part.strip()) for part in one.second.split(",")]
    return f"{FUNCTIONS[one.ask]}({', '.join(arguments)})"


def _clipped(one: StatisticFields, dataset: Dataset) -> str:
    """The value, with its fill and its own bounds around it."""
    value, declared = _value(one.column), dataset.bounds.get(one.column)
    if one.fill and "fill" in one.shows:
        value = f"COALESCE({value}, {one.fill})"
    if not (one.low or one.high) or "low" not in one.shows:
        return value
    ends = [one.low, one.high] if declared is None else [one.low or declared.low, one.high or declared.high]
    if not all(map(str, ends)):
        raise ParameterError("bounds", one.low or one.high, f"must be two for {one.column!r}, which declares none")
    return f"clip({value}, {ends[0]}, {ends[1]})"


def _over(asked: AskFields, statistic: str, names: Sequence[str]) -> str:
    """The statistic of each group, summed over the groups as the fields say."""
    if not (asked.over and names):
        return statistic
    down = " DESC" if asked.descending else ""
    match asked.over:
        case "prefixes":
            return f"SUM({statistic}) OVER (ORDER BY {names[0]}{down})"
        case "moving":
            frame = f"ROWS BETWEEN {asked.before or 0} PRECEDING AND {asked.behind or 0} FOLLOWING"
            return f"SUM({statistic}) OVER (ORDER BY {names[0]}{down} {frame})"
        case "ranges":
            return f"RANGES({statistic}{f', [{asked.lengths}]' if asked.lengths else ''})"
    raise ParameterError("over", asked.over[:50], "must be prefixes, moving or ranges, or empty for each group alone")


def _indented(items: Sequence[str]) -> str:
    return ",\n".join(f"  {item}" for item in items)


def _value(text: str) -> str:
    """A column, quoted where its name needs it, or an expression as typed."""
    if not text:
        raise ParameterError("column", "", "must be chosen")
    return _quoted(text) if _schema(text) else text


def _schema(text: str) -> dict[str, ColumnType]:
    """The column that a text is; none for an expression."""
    return {text: ColumnType.OTHER} if re.fullmatch(r"[^\W\d][\w ]*", text) else {}


def _quoted(name: str) -> str:
    plain = name.isidentifier() and name.islower() and name.isascii()
    return name if plain and name.upper() not in DuckDB.Tokenizer.KEYWORDS else '"' + name.replace('"', '""') + '"'
