"""A question as the fields of a form, and its two other writings: the service's JSON form, and SQL.

Fields, JSON and SQL are three ways to write one question; each can be made from the others. Bounds and keys of one's own
have no place in SQL: they stay in their fields while the text changes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from neartwin.errors import ParameterError, QueryError
from neartwin.queries.after import NOTHING, After
from neartwin.queries.form import STATISTICS, form_of, question_of
from neartwin.queries.query import MostCommon, Query, Rows
from neartwin.queries.table import Bounds, bounded
from neartwin.queries.types import ColumnType
from neartwin.web.datasets import Dataset

MOST_STATISTICS = 8
_WORDS = {"count": "number of rows", "count_units": "number of units"}
_OF_VALUES = ("sum", "mean", "median", "quantile", "minimum", "maximum")
VERBS = _WORDS | {ask: f"{ask} of" for ask in _OF_VALUES if ask in STATISTICS}
_OWN = {"ask", "column", "low", "high", "rank"}  # the keywords of a statistic that have fields
KEYS = {"declared": "the declared ones", "given": "these", "discover": "discover them privately (costs a delta)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One statistic as its fields: what is asked, of which column, within which bounds, at which rank, under which name."""

    ask: str = "count"
    column: str = ""
    low: str = ""
    high: str = ""
    rank: str = ""
    name: str = ""
    more: str = ""  # JSON: keywords that have no field, as an SQL text gave them

    @property
    def of_column(self) -> bool:
        """Whether it is a statistic of a column's values."""
        return self.ask not in _WORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All fields of the question page. Everything is text as it was typed; nothing was checked yet."""

    wanted: tuple[Wanted, ...] = (Wanted(),)
    where: str = ""
    groups: tuple[str, ...] = ()
    keys: str = "declared"
    given: Mapping[str, str] = field(default_factory=dict)
    rows_per_group: str = "1"
    groups_per_unit: str = "1"
    currency: str = "epsilon"
    amount: str = "0.1"
    delta: str = ""
    computed: str = ""  # JSON: pairs of a name and the expression that it stands for in groups
    after: str = ""  # JSON: HAVING, ORDER BY and LIMIT, done to the answer for nothing
    sql: str = ""
    size: str = "1000"
    key: str = ""


def as_fields(asked: Asked) -> dict[str, Any]:
    """As JSON that `of_fields` reads back, for the way to a worker process."""
    return asdict(asked)


def of_fields(told: Mapping[str, Any]) -> Asked:
    """The fields that `as_fields` wrote."""
    wanted = tuple(Wanted(**one) for one in told["wanted"])
    return Asked(**{**told, "wanted": wanted, "groups": tuple(told["groups"])})


def read(fields: Mapping[str, list[str]], columns: list[str]) -> Asked:
    """The fields that a browser sent."""

    def one(name: str, default: str = "") -> str:
        return fields.get(name, [default])[0].strip()[:10_000]

    places = [place for place in range(MOST_STATISTICS) if f"ask_{place}" in fields]
    wanted = tuple(
        Wanted(**{name: one(f"{name}_{place}") for name in ("ask", "column", "low", "high", "rank", "name", "more")})
        for place in places
    )
    simple = (
        "where",
        "keys",
        "rows_per_group",
        "groups_per_unit",
        "currency",
        "amount",
        "delta",
        "after",
        "sql",
        "size",
        "key",
    )
    return Asked(
        wanted=wanted or (Wanted(),),
        groups=tuple(dict.fromkeys(column[:200] for column in fields.get("group", [])[:20])),
        given={column: one(f"keys_{column}") for column in columns if one(f"keys_{column}")},
        **{name: one(name) for name in simple},
    )


def start(dataset: Dataset, groupable: list[str], rule: str) -> Asked:
    """A first question that can be asked as it stands: how many units, by a column with declared keys where there is one.

    rule: the account's, whose native currency the spend is in.
    """
    keyed = [column for column in groupable if column in dataset.keys]
    unit = "count_units" if dataset.unit != "(each row)" else "count"
    currency = {"gdp": "mu", "zcdp": "rho"}.get(rule, "epsilon")
    amount = {"mu": "0.1", "rho": "0.005"}.get(currency, "0.1")
    return Asked(wanted=(Wanted(ask=unit),), groups=tuple(keyed[:1]), currency=currency, amount=amount)


def form(asked: Asked, types: Mapping[str, str], declared: Mapping[str, Sequence[object]]) -> dict[str, Any]:
    """The service's JSON form of the fields. types: of the columns, for keys that are typed in; declared: public keys."""
    made: dict[str, Any] = {"statistics": _statistics(asked)}
    if asked.where:
        made["where"] = [asked.where]
    if asked.groups:
        made["group_by"] = list(asked.groups)
        if asked.keys == "given":
            made["keys"] = {
                column: _values(asked.given.get(column, ""), types.get(column, "")) for column in asked.groups
            }
        elif asked.keys == "declared" and asked.computed:  # an expression brings its own keys
            known = {column: list(declared[column]) for column in asked.groups if column in declared}
            made |= {"keys": known} if known else {}
        elif asked.keys == "declared":
            made["keys"] = "declared"
    if asked.computed:
        made["computed"] = [[name, text] for name, text in computed_of(asked.computed).items()]
    if asked.after:
        made["after"] = _object(asked.after, "after")
    return made


def computed_of(text: str) -> dict[str, str]:
    """Expressions by the names that groups use, from their JSON; `ParameterError` for what is none."""
    try:
        told = json.loads(text) if text else []
        return {str(name): str(expression) for name, expression in told}
    except (ValueError, TypeError, RecursionError):
        raise ParameterError("computed", text[:200], "must be pairs of a name and an expression") from None


def after_of(text: str) -> After:
    """What is done to an answer, from its JSON; `ParameterError` for what is none. Columns are checked where it is done."""
    told = _object(text, "after")
    having, order, limit, offset = (told.get(name) for name in ("having", "order_by", "limit", "offset"))
    whole = all(number is None or (type(number) is int and 0 <= number < 2**63) for number in (limit, offset))
    pairs = isinstance(order or [], list) and all(isinstance(one, list) and len(one) == 2 for one in order or [])
    if not (whole and pairs and isinstance(having or "", str)):
        raise ParameterError("after", text[:200], "must be having, order_by, limit and offset")
    ordered = tuple((str(name), bool(down)) for name, down in order or [])
    return After(having=having or "", order=ordered, limit=limit, offset=offset or 0)


def spend(asked: Asked) -> dict[str, str]:
    """What the fields allow a release to cost."""
    return {asked.currency: asked.amount} | ({"delta": asked.delta} if asked.delta else {})


def limits(asked: Asked) -> dict[str, int]:
    """The most that one unit counts for; what is no number is left out, and the plan says that it is missing."""
    named = {"rows_per_group": asked.rows_per_group, "groups_per_unit": asked.groups_per_unit}
    return {name: int(text) for name, text in named.items() if text.isascii() and text.isdigit()}


def sql(asked: Asked, table: str, unit: str) -> str:
    """The fields as SQL text; bounds and keys have no place in it. Errors: `QueryError` for a condition that is no SQL."""
    named = computed_of(asked.computed)
    columns = [exp.column(name, quoted=_quoted(name)) for name in asked.groups]
    shown = [_as(_expression(named[n]), n) if n in named else c for n, c in zip(asked.groups, columns, strict=True)]
    told = [*shown, *(_aliased(one, name, unit) for name, one in _named(asked))]
    select = exp.select(*told).from_(exp.to_table(f'"{table}"' if _quoted(table) else table))
    if asked.where:
        select = select.where(_expression(asked.where))
    if columns:
        select = select.group_by(*columns)
    after = after_of(asked.after) if asked.after else NOTHING
    if after.having:
        select = select.having(_expression(after.having))
    for name, down in after.order:
        select = select.order_by(exp.Ordered(this=exp.column(name, quoted=_quoted(name)), desc=down))
    if after.limit is not None:
        select = select.limit(after.limit)
    if after.offset:
        select = select.offset(after.offset)
    return select.sql(dialect="duckdb", pretty=True)


def from_sql(asked: Asked, rows: Rows) -> Asked:
    """The fields that say what the SQL text says; bounds that were typed in stay with their columns. Refusals as of SQL."""
    own = {one.column: (one.low, one.high) for one in asked.wanted if one.low and one.high}
    bounds: dict[str, Bounds] = {
        column: bounded(low, high) for column, (low, high) in own.items() if column in rows.table.schema
    }
    known = Rows(replace(rows.table, columns={**rows.table.columns, **bounds}))
    question = question_of({"sql": asked.sql}, known)
    return _with_question(asked, question, own)


def _with_question(asked: Asked, question: Query | MostCommon, own: Mapping[str, tuple[str, str]]) -> Asked:
    told = form_of(question)
    wanted = []
    for name, part in told.get("statistics", {}).items():
        column = str(part.get("column", ""))
        low, high = own.get(column, ("", ""))
        simple = isinstance(part.get("rank", ""), str)
        more = {key: value for key, value in part.items() if key not in _OWN or (key == "rank" and not simple)}
        rank = _decimal(str(part.get("rank", ""))) if simple else ""
        ask = part["ask"]
        if ask == "quantile" and rank == "0.5":
            ask, rank = "median", ""
        rest = {"rank": rank, "more": json.dumps(more) if more else ""}
        wanted.append(Wanted(ask=ask, column=column, low=low, high=high, name=name, **rest))
    groups = tuple(told.get("group_by", ()))
    conditions = list(told.get("where", ()))
    where = conditions[0] if len(conditions) == 1 else " AND ".join(f"({one})" for one in conditions)
    after = json.dumps(told["after"]) if "after" in told else ""
    computed = json.dumps(told["computed"]) if "computed" in told else ""
    return replace(asked, wanted=tuple(wanted), groups=groups, where=where, computed=computed, after=after)


def _decimal(text: str) -> str:
    """A fraction as the decimal that it is, where it is one."""
    shown = f"{float(Fraction(text)):.15g}" if "/" in text else text
    return shown if "/" in text and Fraction(shown) == Fraction(text) else text


def _object(text: str, name: str) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise ParameterError(name, text[:200], "must be a JSON object")
    return told


def _statistics(asked: Asked) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for name, one in _named(asked):
        part: dict[str, Any] = {"ask": one.ask}
        if one.of_column:
            part["column"] = one.column
            part |= {key: text for key in ("low", "high") if (text := getattr(one, key))}
        if one.ask == "quantile":
            part["rank"] = one.rank or "0.5"
        made[name] = part | (_object(one.more, "more") if one.more else {})
    return made


def _named(asked: Asked) -> list[tuple[str, Wanted]]:
    """Each statistic with its name; those without one are named by what they are."""
    found: dict[str, Wanted] = {}
    for one in asked.wanted:
        plain = {"count": "rows", "count_units": "units"}.get(one.ask) or re.sub(r"\W+", "_", f"{one.ask}_{one.column}")
        name, place = one.name or plain, 2
        while name in found:
            name, place = f"{one.name or plain}_{place}", place + 1
        found[name] = one
    return list(found.items())


def _aliased(one: Wanted, name: str, unit: str) -> exp.Expr:
    if one.more:
        raise QueryError(f"{name!r} says more than its fields; change it in SQL")
    plain = re.fullmatch(r"[\w ]*", one.column)
    column = exp.column(one.column, quoted=_quoted(one.column)) if plain else _expression(one.column)
    match one.ask:
        case "count_units":
            made: exp.Expr = exp.Count(this=exp.Distinct(expressions=[exp.column(unit, quoted=_quoted(unit))]))
        case "sum":
            made = exp.Sum(this=column)
        case "mean":
            made = exp.Avg(this=column)
        case "median":
            made = exp.Median(this=column)
        case "minimum":
            made = exp.Min(this=column)
        case "maximum":
            made = exp.Max(this=column)
        case "quantile":
            made = exp.func("QUANTILE_CONT", column, exp.Literal.number(one.rank or "0.5"))
        case "count":
            made = exp.Count(this=exp.Star())
        case _:
            raise QueryError(f"{one.ask!r} is not written as SQL here; ask it in SQL, Python or over HTTP")
    return _as(made, name)


def _as(made: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(made, name, quoted=_quoted(name))


def _expression(text: str) -> exp.Expr:
    try:
        found: exp.Expr = sqlglot.parse_one(text, read="duckdb")
    except (SqlglotError, RecursionError):
        raise QueryError(f"{text[:200]!r} is no SQL expression") from None
    return found


def _quoted(name: str) -> bool:
    return not (name.isidentifier() and name.islower() and name.isascii()) or name in {
        "group",
        "order",
        "select",
        "where",
    }


def _values(text: str, kind: str) -> list[object]:
    """Keys that were typed in: commas between, `1:12` a range of whole numbers."""
    if kind == ColumnType.INTEGER:
        low, colon, high = text.partition(":")
        try:
            if colon and 0 <= int(high) - int(low) < 100_000:
                return list(range(int(low), int(high) + 1))
            return [int(part) for part in text.split(",") if part.strip()]
        except ValueError:
            return [part.strip() for part in text.split(",")]  # the service says what is wrong with them
    if kind == ColumnType.BOOLEAN:
        return [part.strip().lower() == "true" for part in text.split(",") if part.strip()]
    return [part.strip() for part in text.split(",") if part.strip()]
