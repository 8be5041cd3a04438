"""The fields as SQL text, and the fields that say what an SQL text says."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.queries.form import form_of, question_of
from neartwin.queries.form_after import SHAPES
from neartwin.queries.query import MostCommon, Query, Rows
from neartwin.queries.sql import grouped_rows
from neartwin.queries.sql_joins import Others
from neartwin.queries.table import Bounds, bounded
from neartwin.queries.types import ColumnType
from neartwin.web.builder.fields import Asked, Wanted
from neartwin.web.builder.forms import after_form, margins_of, named
from neartwin.web.builder.groups import checked_expression, recognised
from neartwin.web.builder.over import ALONG, NOTHING_OVER, over_fields, over_sql
from neartwin.web.builder.typed import UnwordedError, values_of

_KEYWORDS = {"group", "order", "select", "where"}
_OF_FIELDS = {
    "ask",
    "column",
    "low",
    "high",
    "step",
    "fill",
    "rank",
    "edges",
    "x",
    "y",
    "target",
    "features",
    "feature",
}
_OWN = ("low", "high", "step", "fill")  # they have no place in SQL, and stay while the text changes


def sql(asked: Asked, table: str, unit: str) -> str:
    """The fields as SQL text; bounds and keys have no place in it. Errors: `QueryError` for what is no SQL."""
    if asked.joined:
        return asked.sql
    source = exp.to_table(f'"{table}"' if _quoted(table) else table)
    if asked.choice is not None:
        return _choice(asked, asked.choice, source, unit)
    names = asked.names
    columns = [exp.column(name, quoted=_quoted(name)) for name in names]
    shown: list[exp.Expr] = list(columns[: len(asked.groups)])
    shown += [_as(checked_expression(one.text()), one.label) for one in asked.grouped]
    statistics = [_aliased(one, name, unit) for name, one in named(asked)]
    if asked.over and columns:
        statistics = [_over(asked, made, columns) for made in statistics]
        shown = shown if asked.over in ALONG else []
    select = exp.select(*shown, *statistics).from_(source)
    if asked.where:
        select = select.where(checked_expression(asked.where))
    if columns and asked.margins:
        shown_as = dict(zip(names, columns, strict=True))
        sets = [
            exp.Tuple(expressions=[shown_as.get(name, exp.column(name)) for name in one]) for one in margins_of(asked)
        ]
        select.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=sets)]))
    elif columns:
        select = select.group_by(*columns)
    after = after_form(asked)
    if "having" in after:
        select = select.having(checked_expression(after["having"]))
    for name, down in after.get("order_by", ()):
        select = select.order_by(exp.Ordered(this=exp.column(name, quoted=_quoted(name)), desc=down))
    if "limit" in after:
        select = select.limit(after["limit"])
    if after.get("offset"):
        select = select.offset(after["offset"])
    return select.sql(dialect="duckdb", pretty=True)


def _over(asked: Asked, made: exp.Expr, columns: Sequence[exp.Column]) -> exp.Expr:
    """A named statistic, summed over the groups."""
    if asked.grouped:
        raise UnwordedError("sums over computed groups have no words in SQL here; the fields, Python and HTTP say them")
    return _as(over_sql(asked, made.this, columns[0] if len(columns) == 1 else None), made.alias)


def _choice(asked: Asked, choice: Wanted, source: exp.Table, unit: str) -> str:
    """The most common values: SELECT shows the winners alone."""
    if choice.counted:
        raise UnwordedError(
            "the most common values with their counts have no words in SQL; the fields and the code say them"
        )
    column = exp.column(choice.column, quoted=_quoted(choice.column))
    select = exp.select(column).from_(source)
    if asked.where:
        select = select.where(checked_expression(asked.where))
    people = exp.Count(this=exp.Distinct(expressions=[exp.column(unit, quoted=_quoted(unit))]))
    ranked = select.group_by(column).order_by(exp.Ordered(this=people, desc=True)).limit(int(choice.k or "1"))
    return ranked.sql(dialect="duckdb", pretty=True)


def from_sql(asked: Asked, rows: Rows, declared: Mapping[str, Sequence[object]], tables: Others | None = None) -> Asked:
    """The fields that say what the SQL text says; bounds that were typed in stay with their columns. Refusals as of SQL.

    declared: public keys by column. tables: those that the text may join.
    """
    own = {one.column: one for one in asked.wanted if any(getattr(one, name) for name in _OWN)}
    bounds: dict[str, Bounds] = {
        column: bounded(one.low, one.high)
        for column, one in own.items()
        if column in rows.table.schema and one.low and one.high
    }
    known = Rows(replace(rows.table, columns={**rows.table.columns, **bounds}))
    try:
        question = question_of({"sql": asked.sql}, known, tables)
    except QueryError:  # what is chosen or summed among public keys alone; which, stands in fields of their own
        found, columns = grouped_rows(asked.sql, known, tables=tables)
        if not columns:
            raise
        schema = found.table.schema
        given = {name: values_of(asked.given.get(name, ""), str(schema[name])) for name in columns}
        keys = {name: given[name] or list(declared.get(name, ())) or [_SOME.get(schema[name], "")] for name in columns}
        question = question_of({"sql": asked.sql, "keys": keys}, known, tables)
    over: Mapping[str, Any] = NOTHING_OVER
    if isinstance(question, Query):
        told = form_of(question, tables)
        alone = question.table.joins or SHAPES & set(told.get("after", {}))  # what text alone says
        said = None if alone else over_fields(question, told, asked.sql)
        if said is None:
            names = tuple(told.get("group_by", ()))
            return replace(asked, joined="on", groups=names, grouped=(), **over, **_after(told.get("after", {})))
        over = said
    return _with_question(replace(asked, joined="", **over), question, own)


_SOME: Mapping[ColumnType, object] = {  # a key of each type, for a text that cannot be read without any
    ColumnType.INTEGER: 0,
    ColumnType.TEXT: "",
    ColumnType.BOOLEAN: True,
    ColumnType.DATE: "2000-01-01",
}


def _with_question(asked: Asked, question: Query | MostCommon, own: Mapping[str, Wanted]) -> Asked:
    told = form_of(question)
    conditions = list(told.get("where", ()))
    where = conditions[0] if len(conditions) == 1 else " AND ".join(f"({one})" for one in conditions)
    if isinstance(question, MostCommon):
        k = str(question.k) if question.k > 1 else ""
        choice = Wanted(ask="most_common", column=question.column, k=k)
        return replace(asked, wanted=(choice,), groups=(), grouped=(), where=where, **_after({}))
    computed = {str(name): str(text) for name, text in told.get("computed", ())}
    names = told.get("group_by", ())
    return replace(
        asked,
        wanted=tuple(_wanted(name, part, own) for name, part in told["statistics"].items()),
        groups=tuple(name for name in names if name not in computed),
        grouped=tuple(recognised(name, computed[name]) for name in names if name in computed),
        where=where,
        margins="; ".join(", ".join(margin) for margin in told.get("margins", ())),
        **_after(told.get("after", {})),
    )


def _wanted(name: str, part: Mapping[str, Any], own: Mapping[str, Wanted]) -> Wanted:
    ask, column = part["ask"], str(part.get("column", part.get("x", part.get("target", ""))))
    more = {key: value for key, value in part.items() if key not in _OF_FIELDS}
    ranks = part.get("rank", ())
    rank = ", ".join(_decimal(str(one)) for one in (ranks if isinstance(ranks, list) else [ranks])) if ranks else ""
    if ask == "quantile" and rank == "0.5":
        ask, rank = "median", ""
    before = own.get(column, Wanted())
    return Wanted(
        ask=ask,
        column=column,
        second=str(part.get("y", "")) or ", ".join(part.get("features", ())),
        feature=str(part.get("feature", "")),
        edges=", ".join(_decimal(str(edge)) for edge in part.get("edges", ())),
        rank=rank,
        name=name,
        more=json.dumps(more) if more else "",
        **{key: getattr(before, key) for key in (*_OWN, "weight")},
    )


def _after(told: Mapping[str, Any]) -> dict[str, Any]:
    order = ", ".join(f"{name} desc" if down else str(name) for name, down in told.get("order_by", ()))
    numbers = {name: str(told[name]) if name in told else "" for name in ("limit", "offset")}
    shapes = {name: told[name] for name in sorted(SHAPES & set(told))}
    shaping = json.dumps(shapes) if shapes else ""
    return {"having": str(told.get("having", "")), "order_by": order, "shaping": shaping} | numbers


def _decimal(text: str) -> str:
    """A fraction as the decimal that it is, where it is one."""
    shown = f"{float(Fraction(text)):.15g}" if "/" in text else text
    return shown if "/" in text and Fraction(shown) == Fraction(text) else text


_PLAIN = {
    "sum": exp.Sum,
    "mean": exp.Avg,
    "median": exp.Median,
    "minimum": exp.Min,
    "maximum": exp.Max,
    "variance": exp.VariancePop,
    "stddev": exp.StddevPop,
}


def _aliased(one: Wanted, name: str, unit: str) -> exp.Expr:
    if one.more:
        raise QueryError(f"{name!r} says more than its fields; change it in SQL")
    match one.ask:
        case "count":
            made: exp.Expr = exp.Count(this=_value(one.column) if one.column else exp.Star())
        case "count_units":
            made = exp.Count(this=exp.Distinct(expressions=[exp.column(unit, quoted=_quoted(unit))]))
        case "quantile" if "," not in one.rank:
            made = exp.func("QUANTILE_CONT", _value(one.column), exp.Literal.number(one.rank or "0.5"))
        case "histogram":
            edges = exp.Array(expressions=[exp.Literal.number(part.strip()) for part in one.edges.split(",")])
            made = exp.Anonymous(this="HISTOGRAM", expressions=[_value(one.column), edges])
        case "covariance":
            made = exp.CovarPop(this=_value(one.column), expression=_value(one.second))
        case "correlation":
            made = exp.Corr(this=_value(one.column), expression=_value(one.second))
        case "regression":
            features = [_value(part.strip()) for part in one.second.split(",")]
            made = exp.Anonymous(this="REGRESSION", expressions=[_value(one.column), *features])
        case "coefficient" if "," not in one.second and one.feature in {"", one.second}:
            verb = "REGR_SLOPE" if one.feature else "REGR_INTERCEPT"
            made = exp.Anonymous(this=verb, expressions=[_value(one.column), _value(one.second)])
        case ask if ask in _PLAIN:
            made = _PLAIN[ask](this=_value(one.column))
        case ask:
            what = {"quantile": "several ranks", "coefficient": "a regression on several columns"}.get(ask, f"a {ask}")
            raise UnwordedError(f"{what} has no words in SQL here; the fields, Python and HTTP say it")
    return _as(made, name)


def _value(text: str) -> exp.Expr:
    if re.fullmatch(r"[\w ]*", text):
        return exp.column(text, quoted=_quoted(text))
    return checked_expression(text)


def _as(made: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(made, name, quoted=_quoted(name))


def _quoted(name: str) -> bool:
    return not (name.isidentifier() and name.islower() and name.isascii()) or name in _KEYWORDS
