"""A question as JSON: the verbs and keywords of Python, for services and files.

```
{"where": ["amount > 5"], "group_by": ["cds"], "keys": {"cds": [1, 2]},
 "statistics": {"orders": {"ask": "count"}, "total": {"ask": "sum", "column": "amount", "low": 0, "high": 200}}}
{"computed": [["net", "amount * 0.8"]], "group_by": ["month(day)"], "statistics": {"total": {"ask": "sum", "column": "net"}}}
{"most_common": {"column": "town", "among": ["Ulm", "Bonn"]}}
{"sql": "SELECT cds, COUNT(*) FROM purchases GROUP BY cds", "keys": {"cds": [1, 2]}, "dialect": "postgres"}
```

Other parts of the form:

- `after`: steps on the noisy result, at no cost, as in {"having": "orders > 100", "limit": 5}; see `wire.postprocess`.
- `joins`: `[{"table": "towns", "on": [["town", "name"]], "how": "left", "prefix": "t_"}]`, of tables known by name.
- `margins`: lists of group columns, as in [["age", "sex"], ["sex"]].
- `first`: questions of one number each, which `where` names $1, $2, ... and which are paid and answered first.
- `from`: rows that are computed from one unit's rows at a time, as in {"by": {"who": "who"}, "columns": {"n": "COUNT(*)"}};
  without `by` the columns are windows. It may hold `where`, `computed`, `joins` and `from` too, and stand in a join.
- `keys`: values for one column, rows, or values by column, whose product is taken. Null discovers keys privately.
- `workload`: sums over the groups, in place of the groups. One of `{"ask": "prefixes"}`, `{"ask": "ranges", "lengths":
  [5]}`,
`{"ask": "moving", "before": 6, "after": 0}`, `{"ask": "weights", "weights": {"minors": [[16, 1], [17, "1/2"]]}}`.

Weights are pairs of a key and its weight, by name; a key of several columns is a list. Dates are written 2026-01-31. No
part of the form names a file.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import reduce
from typing import Any

from neartwin.errors import QueryError
from neartwin.interactive import instead, suggested
from neartwin.queries.query import NOTHING, Groups, Query, Rows, TopK, table_of
from neartwin.queries.sql.joins import Others
from neartwin.queries.sql.parse import statement_of
from neartwin.queries.wire.postprocess import after_form, after_from
from neartwin.queries.workloads import Workload, moving_sums, prefix_sums, range_sums, weighted
from neartwin.statistics import CONSTRUCTORS, Statistic
from neartwin.statistics.clipping import PrivateRange, read_range
from neartwin.tables.expressions import RowExpression, parsed
from neartwin.tables.joins import OtherTable, is_public
from neartwin.tables.per_unit import per_unit, with_windows
from neartwin.tables.table import How, Join, PerUnit, Table
from neartwin.tables.types import Key, public_keys

_JOIN = {"table", "on", "how", "prefix", "keys", "from"}
_INSIDE = {"from", "joins", "computed", "where", "by", "columns"}


def _from_inside(form: object, rows: Rows, tables: Others) -> Rows:
    """The rows that a form computes from one unit's rows at a time."""
    if form is None:
        return rows
    line = 'write "from": {"by": {"who": "who"}, "columns": {"n": "COUNT(*)"}}'
    columns = form.get("columns") if isinstance(form, Mapping) else None
    by = form.get("by") if isinstance(form, Mapping) else None
    pairs = [*(columns or {}).items(), *(by or {}).items()] if isinstance(columns, Mapping) else []
    if (
        not isinstance(form, Mapping)
        or set(form) - _INSIDE
        or not isinstance(columns, Mapping)
        or not isinstance(by, Mapping | None)
        or not all(_texts(list(pair)) for pair in pairs)
    ):
        raise QueryError(f"question: from must hold columns by name, and by where they are aggregates; {line}")
    rows = _rows(form, rows, tables)
    trees = {name: parsed(text) for name, text in columns.items()}
    if by is None:
        return Rows(with_windows(rows.table, rows.conditions, trees))
    return Rows(per_unit(rows.table, rows.conditions, by, trees))


def _rows(form: Mapping[str, Any], rows: Rows, tables: Others, first: tuple[Any, ...] = ()) -> Rows:
    """The rows of a form: those inside, with its joins, the questions asked first, computed columns and conditions."""
    inside = _from_inside(form.get("from"), rows, tables)
    if not isinstance(joins := form.get("joins", []), list):
        raise QueryError("question: joins must be a list such as [{'table': 'towns', 'on': [['town', 'name']]}]")
    rows = reduce(lambda before, join: _joined(join, before, tables), joins, inside).ask_first(*first)
    for pair in _listed(form.get("computed", [])):  # which may name those before them
        if not (_texts(pair) and len(pair) == 2):
            raise QueryError("question: computed must be a list of pairs, a name and an expression")
        rows = rows.with_column(*pair)
    where = form.get("where", [])
    if not _texts(where):
        raise QueryError(f"question: where must be a list of texts; write {json.dumps([where], default=str)}")
    for condition in where:
        rows = rows.where(condition)
    return rows


def _rows_form(table: Table, conditions: Iterable[RowExpression], tables: Others) -> dict[str, Any]:
    """The JSON form of rows; `_rows` reads it."""
    form: dict[str, Any] = {
        "computed": [[name, expression.text] for name, expression in table.computed.items()],
        "joins": [_form(join, tables) for join in table.joins],
        "from": {} if table.per_unit is None else _inside_form(table.per_unit, tables),
        "where": [condition.text for condition in conditions],
    }
    return {name: part for name, part in form.items() if part}


def _inside_form(of: PerUnit, tables: Others) -> dict[str, Any]:
    """The JSON form of rows that are computed from one unit's rows at a time; `_from_inside` reads it."""
    form = _rows_form(of.table, of.conditions, tables)
    form |= {"by": dict(of.by)} if of.by is not None else {}
    return form | {"columns": {name: column.text for name, column in of.columns.items()}}


def _joined(join: object, rows: Rows, tables: Others) -> Rows:
    if not isinstance(join, Mapping) or set(join) - _JOIN or "table" not in join:
        raise QueryError("question: a join takes table, from, on, how, prefix and keys")
    table, on, how, prefix = join["table"], join.get("on", []), join.get("how", "inner"), join.get("prefix", "")
    if not isinstance(table, str) or table not in tables:
        known = ", ".join(map(repr, tables)) or "none"
        raise QueryError(f"question: a join must name one of the tables beside {rows.table.name!r}, which are: {known}")
    if not isinstance(on, list) or not all(_texts(one) and len(one) == 2 for one in on):
        raise QueryError("question: on of a join must be a list of pairs, a column here and one of the other table")
    if how not in set(How) or not isinstance(prefix, str) or not isinstance(join.get("keys", {}), Mapping):
        raise QueryError("question: how of a join must be inner, left or beside, prefix text, and keys names by name")
    other = tables[table]
    inside = join.get("from")
    if inside is not None and isinstance(other, OtherTable):
        if not is_public(other):
            raise QueryError(f"question: {table!r} has no unit of its own, so a join of it takes no from")
        other = Rows(other.of_nobody)
    if isinstance(other, Rows):
        other = _from_inside(inside, other, tables)
    return rows.join(other, on=dict(on) or None, how=how, prefix=prefix, keys=join.get("keys"))


def _form(join: Join, tables: Others) -> dict[str, Any]:
    named = (name for name, other in tables.items() if table_of(other).source == join.source)
    name = next(named, "")
    if not name:
        raise QueryError("question: a joined table has no written form unless it was given by name")
    form: dict[str, Any] = {"table": name, "on": [list(pair) for pair in join.on]}
    form |= {} if join.per_unit is None else {"from": _inside_form(join.per_unit, tables)}
    keys = {new: old for new, old in join.columns.items() if (old, old) in join.on}
    form |= {"keys": keys} if keys else {}
    prefixes = {new.removesuffix(old) for new, old in join.columns.items() if new not in {old, *keys}}
    form |= {"how": str(join.how)} if join.how is not How.INNER else {}
    return form | ({"prefix": prefixes.pop()} if prefixes else {})


_MAKERS: dict[str, Callable[..., Workload]] = {
    "prefixes": prefix_sums,
    "ranges": range_sums,
    "moving": moving_sums,
    "weights": weighted,
}


def with_workload(form: object, groups: Groups, key_of: Callable[[list[Any]], tuple[object, ...]]) -> Groups:
    """The groups with the workload of a form.

    Args:
        form: The JSON form of the workload, or None.
        groups: The groups.
        key_of: Reads a key from its written values, and checks it.

    Returns:
        The new groups.

    Raises:
        QueryError: The form is wrong.
    """
    if form is None:
        return groups
    ask = form.get("ask") if isinstance(form, Mapping) else None
    if not isinstance(form, Mapping) or not isinstance(ask, str) or ask not in _MAKERS:
        raise QueryError("question: workload must be {'ask': 'prefixes'}, or ask ranges, moving or weights")
    arguments = {str(name): value for name, value in form.items() if name != "ask"}
    if "weights" in arguments:
        arguments["weights"] = _weights(arguments["weights"], key_of)
    return groups.workload(_called(f"a workload of {ask}", _MAKERS[ask], arguments))


def _called(what: str, make: Callable[..., Any], keywords: Mapping[str, Any]) -> Any:
    """What a function makes of keywords; those that it does not take are refused."""
    parameters = inspect.signature(make).parameters
    try:
        inspect.signature(make).bind(**keywords)
    except TypeError:
        spare = [suggested(key, parameters) for key in keywords if key not in parameters]
        line = f'"{spare[0]}"' if any(spare) else '"low": 0, "high": 100' if "bounds" in keywords else "no other"
        known = ", ".join(parameters) or "nothing else"
        raise QueryError(f"question: {what} takes {known}; write {line}") from None
    return make(**keywords)


def _weights(form: object, key_of: Callable[[list[Any]], tuple[object, ...]]) -> dict[str, dict[Any, Fraction]]:
    if not isinstance(form, Mapping):
        raise QueryError("question: weights of a workload must be pairs by name, as in {'minors': [[16, 1], [17, 1]]}")
    weights: dict[str, dict[Any, Fraction]] = {}
    for name, pairs in form.items():
        fits = isinstance(pairs, list) and all(isinstance(one, list) and len(one) == 2 for one in pairs)
        if not fits or any(type(weight) not in (int, float, str) for _, weight in pairs):
            raise QueryError(f"question: {name!r} of a workload must be a list of pairs, a key and its weight")
        keys = [key_of(key if isinstance(key, list) else [key]) for key, _ in pairs]
        if len(set(keys)) != len(keys):
            raise QueryError(f"question: {name!r} of a workload has two weights for one key")
        weights[str(name)] = dict(zip(keys, (weight for _, weight in pairs), strict=True))
    return weights


def workload_form(workload: Workload, plain: Callable[[object], object]) -> dict[str, Any]:
    """The JSON form of a workload; `with_workload` reads it.

    Args:
        workload: The workload.
        plain: Writes a value of a key as JSON.

    Returns:
        The form.
    """
    form: dict[str, Any] = {"ask": workload.kind}
    if workload.weights:
        form["weights"] = {
            name: [[[plain(value) for value in key], str(weight)] for key, weight in pairs]
            for name, pairs in workload.weights
        }
    elif workload.lengths is not None:
        moving = workload.kind == "moving"
        form |= zip(("before", "after"), workload.lengths, strict=True) if moving else {"lengths": [*workload.lengths]}
    return form


Form = dict[str, Any]
KeysOf = Callable[[Rows, list[str]], object]

_FIELDS = {"computed", "where", "group_by", "keys", "statistics", "most_common", "sql", "after", "joins"}
_FIELDS |= {"margins", "workload", "from", "dialect", "first"}


def question_of(
    form: Mapping[str, Any], rows: Rows, tables: Others | None = None, *, keys: KeysOf | None = None
) -> Query | TopK:
    """The question of a form, checked like a question in Python.

    Args:
        form: The JSON form.
        rows: The rows of the table.
        tables: The tables that may be joined, by name.
        keys: The keys, from the rows that the question groups and the group columns, in place of the form's.

    Returns:
        The question.

    Raises:
        QueryError: The form is wrong; the message names the part.
        NeartwinError: A part of the question is refused.
    """
    fields = {name: value for name, value in form.items() if value is not None}
    if unknown := sorted(set(fields) - _FIELDS):
        line = f'; write "{near}"' if (near := suggested(unknown[0], _FIELDS)) else ""
        raise QueryError(f"question: {unknown[0]!r} is unknown; known are {', '.join(sorted(_FIELDS))}{line}")
    kinds = [name for name in ("statistics", "most_common", "sql") if name in fields]
    if len(kinds) != 1:
        line = '{"statistics": {"orders": {"ask": "count"}}}'
        raise QueryError(f"question: give one of statistics, most_common or sql; write {line}")
    try:
        if kinds[0] == "sql":
            return _from_text(fields, rows, tables or {}, keys)
        named = {rows.table.name: rows, **(tables or {})}  # a subquery may read the table too
        first = tuple(question_of(one, rows, tables) for one in _listed(fields.get("first", [])))
        chosen = _rows(fields, rows, named, first)
        return _from_parts(fields, chosen, keys) if kinds[0] == "statistics" else _from_choice(fields, chosen)
    except RecursionError:
        raise QueryError("question: it is nested too deeply; write it with fewer parentheses") from None


def form_of(question: Query | TopK, tables: Others | None = None) -> Form:
    """The JSON form of a question; `question_of` reads it with the same tables.

    Args:
        question: The question.
        tables: The tables that may be joined, by name.

    Returns:
        The form.

    Raises:
        QueryError: A joined table has no name, so that the question has no written form.
    """
    base = replace(question.table, joins=(), computed={}, per_unit=None)
    tables = {**(tables or {}), base.name: Rows(base)} if base.name not in (tables or {}) else tables or {}
    if isinstance(question, TopK):
        choice: Form = {"column": question.column, "among": [_plain(key[0]) for key in question.among]}
        choice |= ({"k": question.k} if question.k > 1 else {}) | ({"counted": True} if question.counted else {})
        form: Form = {"most_common": choice}
    else:
        groups = question.groups
        form = {"statistics": {name: _statistic_form(name, one) for name, one in question.aggregates.items()}}
        if groups.columns:
            form["group_by"] = list(groups.columns)
            if groups.keys is not None:
                form["keys"] = [[_plain(value) for value in key] for key in groups.keys]
            if groups.linear_workload is not None:
                form["workload"] = workload_form(groups.linear_workload, _plain)
            if groups.margins:
                form["margins"] = [[groups.columns[place] for place in margin] for margin in groups.margins]
        form |= {} if question.after == NOTHING else {"after": after_form(question.after)}
    rows = question.rows if isinstance(question, TopK) else question.groups.rows
    form |= {"first": [form_of(one, tables) for one in rows.first]} if rows.first else {}
    return form | _rows_form(question.table, rows.conditions, tables)


def _from_text(fields: Form, rows: Rows, tables: Others, keys_of: KeysOf | None) -> Query | TopK:
    if {"where", "group_by", "computed", "after", "joins", "margins", "workload", "from"} & set(fields):
        raise QueryError("question: where, group_by, computed, joins, margins, workload and after stand in the text")
    sql, dialect, keys = fields["sql"], fields.get("dialect", "duckdb"), fields.get("keys")
    if not isinstance(sql, str) or not isinstance(dialect, str):
        raise QueryError("question: sql and dialect must be text")
    read = statement_of(sql, rows, tables=tables, dialect=dialect)
    keys = keys if keys_of is None else keys_of(read.rows, list(read.groups))
    if keys is not None and not read.groups:
        raise QueryError("question: keys need group_by; name the group columns, or leave keys out")
    return read.question(None if keys is None else _keys(keys, tuple(read.groups)))


def _from_parts(fields: Form, rows: Rows, keys_of: KeysOf | None) -> Query:
    columns, statistics = fields.get("group_by", []), fields["statistics"]
    if not _texts(columns):
        raise QueryError(f"question: group_by must be a list of texts; write {json.dumps([columns], default=str)}")
    if not isinstance(statistics, Mapping):
        raise QueryError("question: statistics must have a statistic for each name, as in {'orders': {'ask': 'count'}}")
    aggregates = {str(name): _statistic(str(name), part) for name, part in statistics.items()}
    if keys_of is not None:
        fields["keys"] = keys_of(rows.group_by(*columns).rows if columns else rows, columns)
    keys = fields.get("keys")
    if not columns:
        for name in ("keys", "margins", "workload"):
            if fields.get(name) is not None:
                raise QueryError(f"question: {name} need group_by; name the group columns, or leave {name} out")
        query = rows.agg(**aggregates)
    else:
        groups = rows.group_by(*columns, keys=None if keys is None else _keys(keys, tuple(columns)))
        groups = with_workload(fields.get("workload"), groups, lambda key: _key(key, groups))
        if (margins := fields.get("margins")) is not None:
            if not isinstance(margins, list) or not all(_texts(margin) for margin in margins):
                raise QueryError("question: margins must be a list of lists of group columns")
            groups = groups.marginals(*margins)
        query = groups.agg(**aggregates)
    after = after_from(fields.get("after", {}), query.released)
    if spare := [name for name, _ in after.monotone if not getattr(query.aggregates.get(name), "has_bar", True)]:
        raise QueryError(f"question: {spare[0]!r} may have no finite bar, which monotone needs; leave it out")
    return replace(query, after=after)


def _from_choice(fields: Form, rows: Rows) -> TopK:
    choice = fields["most_common"]
    fits = isinstance(choice, Mapping) and {"column", "among"} <= set(choice) <= {"column", "among", "k", "counted"}
    if not fits or not isinstance(choice["column"], str):
        raise QueryError("question: most_common needs column and among, its possible values; k and counted may follow")
    k, counted = choice.get("k", 1), choice.get("counted", False)
    if type(k) is not int or not isinstance(counted, bool):
        raise QueryError("question: k of most_common must be a whole number, and counted true or false")
    if {"group_by", "keys", "after", "margins", "workload"} & set(fields):
        raise QueryError("question: most_common takes no groups, and nothing after")
    column = choice["column"]
    rows.table.groupable(column)
    return rows.most_common(column, among=_listed(choice["among"]), k=k, counted=counted)


def _statistic(name: str, part: object) -> Statistic:
    asked = part.get("ask") if isinstance(part, Mapping) else part
    if not isinstance(part, Mapping) or asked not in CONSTRUCTORS:
        habit = re.search(r"nt\.(\w+)\(", instead("nt", str(asked)))
        line = f'{{"ask": "{habit[1] if habit else suggested(str(asked), CONSTRUCTORS) or "count"}"'
        raise QueryError(f"question: {name!r} must ask one of {', '.join(sorted(CONSTRUCTORS))}; write {line}, ...}}")
    keywords = {str(key): value for key, value in part.items() if key != "ask"}
    if "clip" in keywords:
        keywords["clip"] = read_range(keywords["clip"])
    for key, value in keywords.items():
        parts = value if isinstance(value, list) else [value]
        if not all(part is None or isinstance(part, str | int | float | PrivateRange) for part in parts):
            raise QueryError(f"question: {key} of {name!r} is text or a number, or list for ranks, edges and features")
    if not isinstance(keywords.get("column", ""), str):
        raise QueryError(f"question: column of {name!r} must be text")
    made: Statistic = _called(f"{asked} of {name!r}", CONSTRUCTORS[str(asked)], keywords)
    return made


def _statistic_form(name: str, aggregate: Statistic) -> Form:
    """The keywords behind a statistic; refused where they would not make the same one."""
    form: Form = {"ask": aggregate.verb} | aggregate.keywords()
    if _statistic(name, form) != aggregate:
        raise QueryError(f"question: {name!r} has no written form")
    return form


def _keys(keys: object, columns: tuple[str, ...]) -> object:
    """Keys as `group_by` takes them; a text would be a path, and is refused."""
    if isinstance(keys, Mapping):
        return {str(name): _listed(part) for name, part in keys.items()}
    if len(columns) > 1:
        return [_listed(key) for key in _listed(keys)]
    return [key[0] if isinstance(key, list) and len(key) == 1 else key for key in _listed(keys)]


def _key(values: list[Any], groups: Groups) -> Key:
    kinds = {name: groups.rows.table.groupable(name) for name in groups.columns}
    return public_keys(_keys([values], groups.columns), kinds)[0]


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else value


def _listed(value: object) -> list[Any]:
    if not isinstance(value, list):
        line = json.dumps([value], default=str)
        raise QueryError(f"question: keys and computed must be lists, and {value!r} is not a list; write {line}")
    return value


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)
