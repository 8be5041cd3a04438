"""SQL as people and tools write it, in the one spelling that the parser reads: DuckDB's dialect, plain names, no positions.

| written | read as |
|---|---|
| `"public"."purchases"."city"`, CITY | the column city of the table |
| GROUP BY 1, GROUP BY ALL | GROUP BY the expressions of SELECT |
| SUM(1), COUNT(1), SUM(3) | COUNT(*), 3 * COUNT(*) |
| DATE '1994-01-01' + INTERVAL '1' YEAR, 0.06 + 0.01 | DATE '1995-01-01', 0.07 |
| TIMESTAMP WITH TIME ZONE '2024-01-01 00:00:00+01' | TIMESTAMP '2023-12-31 23:00:00' |
| WHERE 1 = 1 AND x > 2 | WHERE x > 2 |
| EXTRACT(EPOCH FROM at) | DATE_DIFF('second', TIMESTAMP '1970-01-01 00:00:00', at), whole seconds |
| PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x) | QUANTILE_CONT(x, 0.5) |

Numbers fold in decimals, as databases fold them: 0.06 + 0.01 in doubles is less than 0.07. Only constants fold, so that no value
of a row can decide whether a statement is read.
"""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, cast

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.dialects import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.time import format_time
from sqlglot.transforms import eliminate_distinct_on

from neartwin.errors import ParameterError, QueryError
from neartwin.tables.expressions import SECONDS, body_of, not_understood, parts_of
from neartwin.tables.terms import check_surface

DIALECTS = ("duckdb", "postgres", "spark", "bigquery", "snowflake", "tsql", "mysql", "redshift", "databricks", "trino")
_LONGEST, _MOST_TOKENS, _DEEPEST, _MOST_CONSTANTS = 100_000, 10_000, 100, 500
_LIMITS = (  # the most nodes of these kinds, of the statement or of a clause
    ((), (exp.Join, exp.Select), 200, "joins and subqueries; ask several questions"),
    ((), (exp.Binary, exp.Func), 3000, "operations; write IN (...) for many values"),
    ((exp.Having, exp.Qualify), (exp.Connector,), 100, "conditions in HAVING; read the release with the others"),
    ((exp.In,), (exp.Tuple,), 1000, "rows in a list; write a public table of them, and JOIN it"),
    ((exp.Group,), (exp.Column,), 200, "columns in GROUP BY; ask several questions"),
)
_TABLE = tomllib.loads(Path(__file__).with_name("dialects.toml").read_text(encoding="utf-8"))
_RULES = {(dialect, name): rule for rule in _TABLE["rule"] for dialect in rule["dialects"] for name in rule["names"]}
_COMPUTED = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.DPipe, exp.StrToTime, exp.DateTrunc, exp.TimestampTrunc)
_WITHIN = {unit: {str(n) for n in range(2, most) if most % n == 0} for unit, most in (("minute", 60), ("hour", 24))}
_CONSTANTS = (
    *_COMPUTED, exp.Literal, exp.Paren, exp.Neg, exp.Cast, exp.Interval, exp.DataType, exp.DataTypeParam, exp.Var,
    exp.Array, exp.ToMap, exp.Struct, exp.PropertyEQ, exp.Tuple, exp.Boolean, exp.Null,
)  # fmt: skip


def trees(text: str, dialect: str = "duckdb", table: str = "purchases") -> list[exp.Expr]:
    """The parsed statements of a text.

    Args:
        text: The statements, with semicolons between them.
        dialect: One of `DIALECTS`.
        table: A table, for the error.

    Returns:
        Their trees, of DuckDB's dialect.

    Raises:
        QueryError: The text is too long, nested too deeply, or no SQL.

    >>> trees("SELECT TOP 5 [city], COUNT_BIG(*) AS n FROM [dbo].[shops] GROUP BY [city]", "tsql")[0].sql(dialect="duckdb")
    'SELECT "city", COUNT(*) AS n FROM "dbo"."shops" GROUP BY "city" LIMIT 5'
    """
    if dialect not in DIALECTS:
        raise ParameterError("dialect", dialect, f"must be one of {', '.join(DIALECTS)}; write dialect='postgres'")
    try:
        text.encode()  # refuses half a character, which no answer could be written with
        read = sqlglot.Dialect.get_or_raise(dialect)
        tokens = [] if len(text) > _LONGEST else read.tokenize(text)
        if len(text) > _LONGEST or len(tokens) > _MOST_TOKENS:
            line = f"at most {_LONGEST} letters and {_MOST_TOKENS} words are read; write a public table of values, and JOIN it"
            raise QueryError(f"a text of {len(text)} letters is too long: {line}")
        found = [tree for tree in read.parser().parse(tokens, text) if tree and not isinstance(tree, exp.Semicolon)]
        for tree in found:
            for node in reversed(checked_nodes(tree)):
                if (meant := _meant(node, dialect)) is not node:
                    node.replace(meant)
        if dialect == "duckdb":
            return found
        written = [tree.sql(dialect="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE) for tree in found]
        return [sqlglot.parse_one(one, read="duckdb") for one in written]
    except RecursionError:
        raise QueryError("the statement is nested too deeply; write it with fewer parentheses and subqueries") from None
    except (SqlglotError, ValueError) as wrong:
        if isinstance(wrong, QueryError):
            raise
        line = f"write SELECT COUNT(*) AS n FROM {table}, or name its dialect with dialect="
        raise QueryError(f"{text[:200]!r} is not SQL; {line}") from None


def checked_nodes(tree: exp.Expr) -> list[exp.Expr]:
    """The nodes of a statement, each before its parts.

    Args:
        tree: The statement.

    Returns:
        The nodes.

    Raises:
        QueryError: It is nested too deeply, or has too many parts.
    """
    check_surface(tree, _DEEPEST)
    nodes = list(tree.walk())
    for clauses, kinds, most, what in _LIMITS:
        parts = [one.walk() for one in nodes if isinstance(one, clauses)] if clauses else [nodes]
        if any(sum(isinstance(one, kinds) for one in part) > most for part in parts):
            raise QueryError(f"there are more than {most} {what}")
    return nodes


def _meant(node: exp.Expr, dialect: str) -> exp.Expr:
    """What DuckDB would read otherwise, as the dialect means it. Parents are read after their parts."""
    match node:
        case exp.ToChar(args={"format": exp.Literal(is_string=True)}) | exp.TimeToStr(args={"format": exp.Literal()}):
            if node.text("zone") not in {"", "UTC"} or node.text("culture")[:2] not in {"", "en"}:
                raise not_understood(node, "times are in UTC, and names in English; leave the others out", dialect)
            return exp.TimeToStr(this=node.this, format=exp.Literal.string(_marks(node, dialect)))
        case exp.AtTimeZone(args={"zone": exp.Literal(this="UTC" | "Etc/UTC")}):
            return cast("exp.Expr", node.this)
        case exp.Like() | exp.ILike() if "\\" in node.expression.name and dialect in _TABLE["escaping"]:
            return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))
        case exp.DateAdd(this=exp.Literal(this="0")):  # in tsql, whose times are numbers
            node.set("this", exp.cast(exp.Literal.string("1900-01-01"), "timestamp"))
        case exp.Bracket(this=exp.ApproxQuantiles(expression=exp.Literal() as whole) as of, expressions=[part]):
            return exp.PercentileCont(this=of.this, expression=exp.Literal.number(int(part.name) / int(whole.name)))
        case exp.WithinGroup(
            this=exp.PercentileCont() | exp.PercentileDisc() as of, expression=exp.Order(expressions=[by])
        ):
            if by.args.get("desc") and isinstance(of, exp.PercentileDisc):  # which is another row from the other end
                return node
            share = exp.paren(exp.Literal.number(1) - of.this) if by.args.get("desc") else of.this
            return type(of)(this=by.this, expression=share)
        case exp.National():
            return exp.Literal.string(node.name)
    name, parts = _called(node)
    rule = _RULES.get((dialect, name))
    if rule and "why" in rule:
        raise not_understood(node, f"in {dialect} {rule['why']}; write {rule['instead']}", dialect)
    if rule and "more" not in rule and len(parts) != sum(f":{name}" in rule["body"] for name in "xyzw"):
        raise not_understood(node, "it has more arguments than are read; leave the last out", dialect)
    return exp.replace_placeholders(body_of(rule["body"]), **dict(zip("xyzw", parts, strict=False))) if rule else node


def _marks(node: exp.Expr, dialect: str) -> str:
    """A format in the marks of STRFTIME. In some dialects all its letters outside quotes are parts of a date."""
    entries = [one for one in _TABLE["letters"] if dialect in one["dialects"]]
    form = node.args["format"].name
    if not entries:
        return str(form)
    if isinstance(node, exp.TimeToStr) and dialect in {"postgres", "redshift"}:  # whose words SQLGlot reads in part
        form = format_time(form, Postgres.INVERSE_TIME_MAPPING, Postgres.INVERSE_TIME_TRIE)
    known = {letters: mark for one in entries for letters, mark in one["marks"].items()}
    known |= {letters.lower(): mark for letters, mark in known.items() if letters.isupper()}
    names = sorted(known, key=len, reverse=True)
    pieces = re.findall("|".join(['"[^"]*"', *names, "%-?[a-zA-Z](?:strict)?", "[^a-zA-Z%]"]), form)
    if "".join(pieces) != form:
        line = f"are parts of a date; write {', '.join(one for one in names if not one.islower())} and signs"
        raise not_understood(node, f"letters of its format {line}", dialect)
    return "".join(known.get(piece) or piece.strip('"').removesuffix("strict") for piece in pieces)


def _called(node: exp.Expr) -> tuple[str, list[exp.Expr]]:  # noqa: C901, PLR0912 - a case for each kind of node
    """The name of a node in `dialects.toml`, and its arguments."""
    match node:
        case exp.Extract():
            part, of = node.name.lower(), node.expression.unnest()
            if part in {"epoch", "day"} and isinstance(of, exp.Sub) and not isinstance(of.expression, exp.Interval):
                return f"{part} of a difference", [of.expression, of.this]
            return part, [node.expression]
        case exp.DateBin() | exp.Anonymous(this="time_bucket" | "TIME_BUCKET", expressions=[_, _, *_]):
            length, value, *origin = parts_of(node)
            written = f"{length.name} {length.text('unit')}".lower().strip().removesuffix("s")
            number, _, unit = written.partition(" ")
            if origin and not _is_aligned(origin[0], written):
                return "bin from an origin", []
            if number in _WITHIN.get(unit, ()):
                return f"bin {unit}", [value, exp.Literal.number(number)]
            return f"bin {written}", [value]
        case exp.Anonymous():
            return node.name.lower(), node.expressions
        case exp.Window(this=exp.Anonymous() as one) if not node.args.get("partition_by"):
            return f"{one.name.lower()} over", one.expressions
        case exp.Add() if any(one.is_string or isinstance(one, exp.DPipe) for one in node.flatten()):
            return "add text", [node.this, node.expression]
        case exp.RegexpExtract(expression=of) if not node.args.get("position"):
            return "first match", [node.this, of, node.args.get("group") or exp.Literal.number(0)]
        case exp.Length(args={"binary": True}):
            return "length in bytes", [node.this]
        case exp.StrToDate(this=exp.Concat(expressions=[exp.Anonymous() as week, exp.Literal(this=" Sunday")])):
            return f"strtodate {week.name.lower()} sunday", week.expressions
        case exp.StrToDate():
            return f"strtodate {node.text('format')}", [node.this]
        case exp.DateDiff() | exp.TimestampDiff() if not node.args.get("date_part_boundary"):
            ends = (end.this if isinstance(end, exp.TsOrDsToDate) else end for end in (node.expression, node.this))
            return f"diff {node.text('unit').lower()}", list(ends)
        case exp.TimestampTrunc():
            return f"trunc {node.text('unit').lower()}", [node.this]
        case exp.Cast() | exp.Convert():
            to, value = (node.to, node.this) if isinstance(node, exp.Cast) else (node.this, node.expression)
            sizes = [one.this for one in to.expressions if isinstance(one.this, exp.Literal)]
            if node.args.get("style"):  # of a date; its size is that of the text
                value = node.copy()
                value.this.set("expressions", None)
            if isinstance(value, exp.Literal) and value.is_int:
                return "cast", []
            return f"cast {to.this.name.lower()} {len(sizes)}", [value, *sizes]
        case exp.Bracket(this=of, expressions=[exp.Literal(is_string=False) as place]):
            split, at = of.unnest(), int(place.name) + 1 - (node.args.get("offset") or 0)
            if not isinstance(split, exp.RegexpSplit) or re.fullmatch(r"[\w ,;:/-]+", split.text("expression")):
                return f"part of {split.key}", [split.this, split.expression, exp.Literal.number(at)]
        case exp.Like() if "[" in node.expression.name:
            return "like class", []
        case exp.Div() if any(
            isinstance(part, exp.Extract) for part in node.walk(prune=lambda part: isinstance(part, exp.Cast))
        ):
            return "div of a part", [node.this, node.expression]
    return node.key, list(node.iter_expressions())


def _is_aligned(origin: exp.Expr, length: str) -> bool:
    """Whether buckets from there start at midnight, and weeks on Monday, as they do without an origin."""
    start = re.fullmatch(r"(\d{4}-\d\d-\d\d)( 00:00:00)?", (origin.find(exp.Literal) or origin).name)
    if start is None or length in {"1 week", "7 day"}:
        return start is not None and date.fromisoformat(start[1]).weekday() == 0
    return length.endswith(("minute", "hour", "1 day"))


def plain(tree: exp.Expr, tables: Mapping[str, Iterable[str]]) -> exp.Expr:
    """The statement in the spelling that the parser reads.

    Args:
        tree: The statement, which is changed.
        tables: The columns of each table that it may name.

    Returns:
        The statement.

    Raises:
        QueryError: A position or a constant is no value.

    >>> text = "SELECT public.T.City, SUM(1) FROM public.T WHERE day < DATE '1994-01-31' + INTERVAL '1' MONTH GROUP BY 1"
    >>> plain(sqlglot.parse_one(text, read="duckdb"), {"t": ["city", "day"]}).sql(dialect="duckdb")
    "SELECT t.city, COUNT(*) FROM t WHERE day < CAST('1994-02-28' AS DATE) GROUP BY t.city"
    """
    fold(tree)
    for node in reversed(list(tree.walk())):
        node.pop_comments()
        changed = shortened(node)
        if changed is not node and node.parent is not None:
            node.replace(changed)
    for one in [one.parent for one in tree.find_all(exp.Distinct) if one.args.get("on")]:
        if isinstance(one, exp.Select) and one.parent:
            one.replace(eliminate_distinct_on(one.copy()))
    _named(tree, set(tables), {one for columns in tables.values() for one in columns})
    for select in tree.find_all(exp.Select):
        aliases = (item for item in select.expressions if isinstance(item, exp.Alias))
        known = {item.alias: item.this for item in aliases if item.find(exp.AggFunc, exp.Window, exp.Subquery)}
        for one in list(select.args["order"].find_all(exp.Column)) if select.args.get("order") else ():
            if not one.table and one.name in known and not isinstance(one.parent, exp.Ordered):
                one.replace(exp.paren(known[one.name]))
        source = select.args.get("from_")
        while source and source.this.alias == "" and isinstance(source.this.this, exp.Table | exp.Subquery):
            inner = source.this.this  # joined tables in parentheses
            select.set("joins", [*(inner.args.pop("joins", None) or []), *(select.args.get("joins") or [])])
            source.set("this", inner)
        _grouped(select)
        if select.args.get("where") and is_true(select.args["where"].this):
            select.set("where", None)
    return tree


def _named(tree: exp.Expr, tables: set[str], columns: set[str]) -> None:
    """Names without schemas, in the case of the tables.

    In `SELECT "CITY" AS "CITY" FROM shops` the first is the table's column `city`: its own alias is no column there.
    """
    qualifiers, aliases = ({one.alias_or_name for one in tree.find_all(kind)} for kind in (exp.TableAlias, exp.Alias))
    qualifiers |= tables
    hidden, lower = {one.alias.lower() for one in tree.find_all(exp.Subquery, exp.CTE)}, {one.lower() for one in tables}
    given = {one.alias_or_name.lower() for one in tree.find_all(exp.Table) if one.name.lower() in lower} - hidden
    for node in list(tree.find_all(exp.Table, exp.Column)):
        whole, known = (node.this, tables) if isinstance(node, exp.Table) else (node.args.get("table"), qualifiers)
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
            scope = node.find_ancestor(exp.Select, exp.Order, exp.Having, exp.Group, exp.Qualify)
            source = scope.args.get("from_") if scope and not scope.args.get("joins") else None
            of = node.table or (source.this.alias_or_name if source else "")
            _spell(node.this, columns if of.lower() in given else columns | aliases)
        if isinstance(whole, exp.Identifier) and _spell(whole, known):
            node.set("db", None)
            node.set("catalog", None)


def _spell(name: exp.Identifier, known: set[str]) -> bool:
    """Give the name its known spelling; False if there is none."""
    near = [name.name] if name.name in known else [one for one in known if one.lower() == name.name.lower()]
    if len(near) == 1:
        name.set("this", near[0])
    return len(near) == 1


def _grouped(select: exp.Select) -> None:
    """GROUP BY positions and ALL as expressions. Constants group nothing."""
    group, items = select.args.get("group"), [item.unalias() for item in select.expressions]
    if group is None:
        return
    if group.args.get("all"):
        group.set("all", None)
        group.set("expressions", [item.copy() for item in items if item.find(exp.AggFunc, exp.Window) is None])
    for node in list(group.find_all(exp.Literal)):
        if not isinstance(node.parent, exp.Group | exp.Tuple | exp.Rollup | exp.Cube | exp.GroupingSets | exp.Paren):
            continue
        if node.is_string or not node.is_int or not 1 <= int(node.this) <= len(items):
            raise QueryError(f"GROUP BY {node.this[:9]}: the SELECT has {len(items)} columns; write GROUP BY 1")
        node.replace(items[int(node.this) - 1].copy())
    known = {item.unnest(): item for item in items}  # in parentheses or not
    kept = [known.get(item.unnest(), item).copy() for item in group.expressions if not isinstance(item, exp.Literal)]
    group.set("expressions", kept)
    select.set("group", group if kept else None)


def shortened(node: exp.Expr) -> exp.Expr:  # noqa: C901, PLR0912 - a case for each kind of node
    """COUNT and SUM of a constant as COUNT(*), and conditions without those that are always true.

    Args:
        node: A part of a statement.

    Returns:
        The part, or another in its place.
    """
    match node:
        case exp.Sum(this=exp.Literal(this="1") | exp.Cast(this=exp.Literal(this="1"))):
            return exp.Count(this=exp.Star(), big_int=True)
        case exp.Count(this=exp.Literal() | exp.Boolean() | None):
            return exp.Count(this=exp.Star(), big_int=True)
        case exp.Sum(this=exp.Literal(is_string=False)) if not isinstance(node.parent, exp.Filter):
            return exp.paren(node.this * exp.Count(this=exp.Star(), big_int=True))
        case exp.EQ(this=exp.Literal(), expression=exp.Literal()) if node.this == node.expression:
            return exp.true()
        case exp.And() if is_true(node.this) or is_true(node.expression):
            return cast("exp.Expr", node.expression if is_true(node.this) else node.this)
        case exp.Mul(expression=exp.Interval(this=exp.Literal() as length) as one):
            return exp.Interval(this=exp.paren(node.this * exp.Literal.number(length.name)), unit=one.args["unit"])
        case exp.Paren(this=exp.Interval() as length):
            return length
        case exp.WindowSpec(args=words):  # in capitals
            return exp.WindowSpec(**{name: one.upper() if isinstance(one, str) else one for name, one in words.items()})
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE() if (
            isinstance(node.this, exp.Sub) and node.expression.text("unit").lower().removesuffix("s") in SECONDS
        ):
            return type(node)(this=node.this.this, expression=node.this.expression + node.expression)
        case exp.Join(this=exp.Lateral(this=exp.Subquery() as of) as one) if is_true(node.args.get("on") or exp.true()):
            return exp.Join(this=exp.Subquery(this=of.this, alias=one.args.get("alias")))  # of one number, or refused
        case exp.EQ(expression=exp.Any(this=exp.Subquery() as of)):
            return exp.In(this=node.this, query=of)
        case exp.Subquery(this=exp.Subquery(alias="")) if not node.this.args.get("joins"):
            return exp.Subquery(this=node.this.this, alias=node.args.get("alias"))
        case exp.Sum(this=exp.Div(expression=exp.Subquery() as total)):
            return exp.Div(this=exp.Sum(this=node.this.this), expression=total)
    return node


def is_true(node: exp.Expr | None) -> bool:
    """Whether a condition is TRUE, in parentheses or not."""
    return node is not None and isinstance(node.unnest(), exp.Boolean) and bool(node.unnest().this)


@cache
def _empty() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"enable_external_access": False})


def value_of(node: exp.Expr) -> Any:
    """The value of a constant, as an empty DuckDB computes it; None where it has none.

    Args:
        node: The constant.

    Returns:
        The value in Python: numbers with a point are decimals.
    """
    if not all(isinstance(one, _CONSTANTS) for one in node.walk()):
        return None
    try:
        return (_empty().cursor().execute(f"SELECT {node.sql(dialect='duckdb')}").fetchone() or (None,))[0]
    except duckdb.Error:
        return None


def fold(tree: exp.Expr) -> None:
    """Replace the largest constants by their values, in place, but for those that DuckDB cannot compute.

    Args:
        tree: The statement, which is changed.

    Raises:
        QueryError: There are too many of them.
    """
    for zoned in list(tree.find_all(exp.Cast)):
        if zoned.is_type("timestamptz") and isinstance(zoned.this, exp.Literal):
            zoned.replace(exp.cast(zoned.copy(), "timestamp"))
    constant, found = set[int](), list[exp.Expr]()
    for node in reversed(list(tree.walk())):
        if isinstance(node, _CONSTANTS) and all(id(child) in constant for child in node.iter_expressions()):
            constant.add(id(node))
    for node in tree.walk(prune=lambda node: id(node) in constant):
        if id(node) in constant and not isinstance(node, exp.Interval):
            found += [node] if node.find(*_COMPUTED) or isinstance(node.unnest().this, exp.Cast) else []
    if len(found) > _MOST_CONSTANTS:
        raise QueryError(f"{len(found)} constants are computed, at most {_MOST_CONSTANTS} may be; write their values")
    for node in found:
        value = value_of(node)
        timed = [one for one in node.find_all(exp.Cast, exp.StrToTime) if not one.is_type("date", "interval")]
        if isinstance(value, datetime) and value.time() == time() and not timed:
            value = value.date()  # DuckDB adds an interval to a date as to its midnight
        kinds = str if isinstance(node, exp.DPipe) else date
        if isinstance(value, kinds) or (isinstance(value, int | float | Decimal) and math.isfinite(value)):
            node.replace(exp.convert(value))
