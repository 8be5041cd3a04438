"""Row expressions: total, row-local SQL, checked against the schema through an allow-list.

User text never reaches an engine. It is parsed to a tree, and each node is checked, typed and built anew as a term, or
refused. Engines write their SQL from these terms.

An expression is total if no value in a row can make it fail. A failing query would reveal that such a row exists. So a
quotient with divisor 0 is NULL, no cast can fail, and no comparison crosses types. Arithmetic is in double precision.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Dialect
from sqlglot.errors import SqlglotError

from neartwin.errors import QueryError
from neartwin.interactive import instead, suggested
from neartwin.tables.functions import CAPITAL, FUNCTIONS, LETTERS, REGULAR, SMALL, RowFunction, brief, regular
from neartwin.tables.terms import CLOCK, PARTS, UNITS, Term, as_kind, check_surface, check_term, common_kind, moment
from neartwin.tables.types import NUMERIC, SURROGATE, ColumnType, column_in_sql, column_type

_NULL = Term("literal", ColumnType.OTHER)
_LARGEST_INTEGER = 2**63 - 1
Names = Mapping[str, Term]  # what each column stands for
_MOST_BUCKETS = 500
_LONGEST_TEXT, _LONGEST_SEARCHED = 65_536, 1000  # letters that functions, and regular expressions, read
_DATED = frozenset({ColumnType.DATE, ColumnType.TIMESTAMP})
_BOOLEAN, _NUMBER, _INTEGER = ColumnType.BOOLEAN, ColumnType.NUMBER, ColumnType.INTEGER
_TEXT = ColumnType.TEXT

COMPARED: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_CALENDAR = "TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def refused(node: exp.Expr, why: str = "") -> QueryError:
    """The error for a part that is not allowed.

    Args:
        node: The part.
        why: The reason; without one, what to write instead of this kind of part.

    Returns:
        The error, to be raised.
    """
    text = node.sql(dialect="duckdb", comments=False)[:300]
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else node.key
    why = why or instead("expressions", name, *written_parts(node)) or instead("expressions", "other")
    return QueryError(f"{text!r} is not allowed in a row expression: {why}")


def not_understood(node: exp.Expr, why: str, dialect: str = "duckdb") -> QueryError:
    """The error for a part of a statement that is not read.

    Args:
        node: The part.
        why: The reason, and what to write.
        dialect: The SQL that the part is shown in.

    Returns:
        The error, to be raised.
    """
    return QueryError(f"{node.sql(dialect=dialect, comments=False)!r} is not understood: {why}")


def written_parts(node: exp.Expr) -> tuple[str, ...]:
    """The arguments of a function or operator, as written."""
    return tuple(part.sql(dialect="duckdb", comments=False) for part in parts_of(node))


def term_of(node: exp.Expr | None, names: Names) -> Term:
    """The term of a node.

    Args:
        node: The node; None for a missing argument.
        names: The term of each column.

    Returns:
        The term.

    Raises:
        QueryError: The node is not on the allow-list.
    """
    if node is None:
        raise QueryError("a function or operator lacks an argument in a row expression")
    kind = type(node)
    if kind is exp.EQ and isinstance(node.expression, exp.Any):
        return _in(node, names)
    if kind in COMPARED:
        return _compared(node, names, COMPARED[kind], [node.this, node.expression])
    if kind in ARITHMETIC:
        return _calculated(node, names)
    reader = _READERS.get(kind)
    if reader is None:
        return _called(node, names)
    for name, part in node.args.items():
        if isinstance(part, exp.Expr) and name not in _READ and not kind.arg_types.get(name):
            raise refused(node, f"{part.sql(dialect='duckdb')} says how, and engines differ there; leave it out")
    return reader(node, names)


def _called(node: exp.Expr, names: Names) -> Term:
    """A function of the table."""
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else node.key
    parts = parts_of(node)
    if isinstance(node, exp.Trim):
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), name)
    if isinstance(node, exp.Pad):
        name = "lpad" if node.args.get("is_left") else "rpad"
    if isinstance(node, exp.Log) and node.this.name == "10":  # how log10(x) is read
        parts = parts[1:]
    function = FUNCTIONS.get(f"{name}/{len(parts)}") or FUNCTIONS.get(name)
    if function is None or " " in name:
        raise refused(node)
    given = [term_of(part, names) for part in parts]
    if function.operation == "clip" and given[0].kind in _DATED:
        raise refused(node, f"days need no bounds; write MEDIAN({parts[0].sql()})")
    if "w" in function.takes:
        given = [as_whole(term) if term.is_whole else term for term in given]
    return _applied(node, function, given)


def _applied(node: exp.Expr, function: RowFunction, given: list[Term]) -> Term:
    taken = [_taken(letter, term) for letter, term in zip(function.takes, given, strict=False)]
    terms = [term for term in taken if isinstance(term, Term)]
    if len(function.takes) != len(given) or None in taken:
        why = _typed(*given) if function.takes[:1] in {"m", "s"} else ""
        raise refused(node, why or f"write {function.spelling or 'other arguments'}: {function.meaning}")
    if function.body:
        return written(function.body, *terms)
    if function.guards:
        terms = [as_kind(written(guard, *terms), term.kind) for guard, term in zip(function.guards, terms, strict=True)]
    literals = [term.value for term, letter in zip(terms, function.takes, strict=False) if letter.isupper()]
    values = (*literals, *(part for found in taken if isinstance(found, tuple) for part in found))
    if function.takes[1:2] in {"Q", "U", "V"}:
        groups = re.findall(r"\\\d" if isinstance(values[0], str) else r"\d+", str(values[0]))
        if any(int(one.strip("\\")) > re.compile(str(given[1].value)).groups for one in groups):
            raise refused(node, "the pattern has fewer groups")
    if function.operation == "clip" and values[0] > values[1]:  # type: ignore[operator] # numbers, as F says
        raise refused(node, "clip takes the lower first")
    parts = tuple(term for term, letter in zip(terms, function.takes, strict=False) if letter.islower())
    return Term(function.operation, ColumnType(function.kind), parts, values or None)


def _taken(letter: str, term: Term) -> Term | tuple[str, str] | None:
    """An argument of a function, as its letter says; None for one that the function does not take."""
    term = as_number(term) if letter in "nw" else term
    value = term.value if term.operation == "literal" else None
    if letter in REGULAR:
        found = regular(value) if isinstance(value, str) else None
        return found if found and REGULAR[letter](str(value)) else None
    if letter in "KNW":
        most = _LONGEST_SEARCHED if letter == "W" else 2**31 - 1
        return term if isinstance(value, int) and (letter == "N") <= value <= most else None
    if letter == "F":
        return as_kind(term, _NUMBER) if isinstance(value, int | float) and math.isfinite(value) else None
    if letter in "TRSG":
        known = {"T": ".+", "R": ".*", "S": r"(\\[1-9]|[^\\$])*", "G": "g"}[letter]
        return term if isinstance(value, str) and re.fullmatch(known, value, re.DOTALL) and len(value) <= 100 else None
    if term.kind not in LETTERS[letter]:
        return None
    if letter in "tr":
        return brief(term, _LONGEST_TEXT if letter == "t" else _LONGEST_SEARCHED)
    return as_kind(term, _NUMBER) if letter == "n" else term


def as_number(term: Term) -> Term:
    """A condition as 0 or 1, and any other term as it is."""
    return written(FUNCTIONS["cast boolean integer"].body, term) if term.kind is _BOOLEAN else term


def as_whole(term: Term) -> Term:
    """A number as the nearest whole number, halves away from 0; NULL for one of more than 2^53 in size, and for NaN."""
    return term if term.kind is _INTEGER else written("CAST(x AS INTEGER)", term)


def rows_away(call: exp.Expr) -> int:
    """The number of rows of LAG or LEAD; 0 where it is none."""
    given = call.args.get("offset") or exp.Literal.number(1)
    length = int(given.name) if isinstance(given, exp.Literal) and given.is_int else 0
    return length if length < 2**31 else 0


def rows_around(spec: exp.Expr | None) -> tuple[float, float] | None:
    """The first and the last row of a frame, counted from the current one; None for one that counts no rows."""
    text = "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW" if spec is None else spec.sql()
    end = r"(UNBOUNDED|CURRENT|[0-9]{1,9}) (ROW|PRECEDING|FOLLOWING)"
    found = re.fullmatch(rf"(ROWS|RANGE) BETWEEN {end} AND {end}", text)
    if found is None or (spec and spec.args.get("exclude")):
        return None
    pairs = ((found[2], found[3]), (found[4], found[5]))
    sizes = (float({"UNBOUNDED": "inf", "CURRENT": "0"}.get(length, length)) for length, _ in pairs)
    first, last = (-size if side == "PRECEDING" else size for size, (_, side) in zip(sizes, pairs, strict=True))
    plain = found[1] == "ROWS" or (first == -math.inf and last in {0, math.inf})
    return (first, last) if plain and first <= last and first < math.inf and last > -math.inf else None


def parts_of(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a function or operator, in order.

    Args:
        node: The function or operator.

    Returns:
        The arguments, without those that are missing.
    """
    found = (part for value in node.args.values() for part in (value if isinstance(value, list) else [value]))
    return [part for part in found if isinstance(part, exp.Expr)]


@lru_cache(maxsize=256)
def body_of(text: str) -> exp.Expr:
    """The tree of a text of the library's own, parsed once.

    Args:
        text: A SQL expression.

    Returns:
        The tree, which callers copy before they change it.
    """
    return parsed(text)


def written(body: str, *arguments: Term) -> Term:
    """The term of SQL over x, y, z.

    Args:
        body: The SQL, a text of the library's own.
        arguments: The terms of x, y, z.

    Returns:
        The term.
    """
    return term_of(body_of(body), dict(zip("xyz", arguments, strict=False)))


def _column(node: exp.Expr, names: Names) -> Term:
    if node.args.get("table") or not isinstance(node.this, exp.Identifier):
        raise refused(node, "write columns without a table name")
    name = node.name
    if name not in names:
        near = suggested(name, list(names))
        line = exp.column(near).sql(dialect="duckdb") if near else f"'{name}', if it is a text"
        raise QueryError(f"column={name!r} is not in the table; it has {', '.join(sorted(names))}; write {line}")
    if names[name].kind is ColumnType.OTHER and not names[name].is_null:
        raise QueryError(f"column={name!r} has a type that questions cannot use; declare one with types=")
    return names[name]


def _literal(node: exp.Expr, _: Names) -> Term:
    if node.is_string:
        if "\0" in node.this or SURROGATE.search(node.this):
            raise refused(node, "no column can hold this text")
        return Term("literal", ColumnType.TEXT, value=node.this)
    if not node.is_int:
        return Term("literal", _NUMBER, value=float(node.this))
    if int(node.this) > _LARGEST_INTEGER:
        raise refused(node, "a whole number must fit 64 bits")
    return Term("literal", _INTEGER, value=int(node.this))


def _answer(node: exp.Expr, names: Names) -> Term:
    """$1, the number that a question asked first will have."""
    if f"${node.name}" not in names:
        raise refused(node, "what is asked first stands in the outermost WHERE alone; write where('x > $1', question)")
    return names[f"${node.name}"]


def _cast(node: exp.Expr, names: Names) -> Term:
    name = node.args["to"].this.name  # not every whole number fits types without a sign
    kind = ColumnType.OTHER if name[:1] in {"U", "E"} else column_type(name)
    literal = isinstance(node.this, exp.Literal) and node.this.is_string
    if kind in _DATED and literal:
        return _dated(node, kind)
    if kind is _NUMBER and literal and re.fullmatch("(?i)[+-]?(nan|inf|infinity)", node.this.name):
        raise refused(node, "no literal is NaN or infinite; for NaN alone write x > 1e308 AND 1 / x > 1")
    scale = node.args["to"].expressions[1:] if node.is_type("decimal") else []
    if scale and int(scale[0].name) <= 15:
        return _rounded(exp.Round(this=exp.cast(node.this, "double"), decimals=scale[0].this), names)
    inner = term_of(node.this, names)
    if kind is ColumnType.OTHER:
        raise refused(node, "a cast goes to INTEGER, DOUBLE, TEXT, DATE or TIMESTAMP")
    if inner.kind is kind:
        return inner
    if (kind, inner.kind) == (_NUMBER, _INTEGER) or inner.is_null:
        return replace(as_kind(inner, kind), is_whole=False)
    function = FUNCTIONS.get(f"cast {inner.kind} {kind}")
    if function is None:
        raise refused(node, f"no cast from {inner.kind} to {kind} is the same on all engines")
    return _applied(node, function, [inner])


def _negative(node: exp.Expr, names: Names) -> Term:
    inner = _number(node, term_of(node.this, names))
    if inner.operation == "literal" and isinstance(inner.value, int | float):
        return Term("literal", inner.kind, value=-inner.value)
    part = as_kind(inner, _NUMBER)
    return Term("neg", _NUMBER, (part,), is_whole=part.is_whole)


def _number(node: exp.Expr, term: Term) -> Term:
    inner = as_number(term)
    if inner.kind not in NUMERIC:
        raise refused(node, "arithmetic takes numbers; write a || b, d + INTERVAL '3' DAY, date_diff('hour', d, d)")
    return inner


def _calculated(node: exp.Expr, names: Names) -> Term:
    if isinstance(node.expression, exp.Interval):
        return _shifted(node, names)
    terms = [term_of(part, names) for part in (node.this, node.expression)]
    if terms[0].kind is ColumnType.DATE and not isinstance(node, exp.Mul):
        if isinstance(node, exp.Sub) and terms[1].kind is ColumnType.DATE:
            return _applied(node, FUNCTIONS["days between"], terms)
        if terms[1].is_whole or terms[1].kind is _INTEGER:
            return _moved(node, terms[0], terms[1], "day")
    parts = tuple(as_kind(_number(node, term), _NUMBER) for term in terms)
    return Term(ARITHMETIC[type(node)], _NUMBER, parts, is_whole=all(part.is_whole for part in parts))


def _divided(node: exp.Expr, given: list[Term]) -> Term:
    """By a literal, or by a value of the row: NULL where that is 0."""
    top, divisor = (as_kind(_number(node, term), _NUMBER) for term in given)
    if divisor.operation != "literal":
        return Term("over", _NUMBER, (top, divisor))
    if not isinstance(divisor.value, float) or divisor.value == 0 or not math.isfinite(divisor.value):
        raise refused(node, "the divisor must be a finite number other than 0")
    return Term("/", _NUMBER, (top, divisor))


def _rounded(node: exp.Expr, names: Names) -> Term:
    value = as_kind(_number(node, term_of(node.this, names)), _NUMBER)
    digits = node.args.get("decimals")
    places = 0 if digits is None else term_of(digits, names).value
    if not isinstance(places, int) or not -15 <= places <= 15:
        raise refused(node, "the number of digits must be a literal from -15 to 15")
    if places == 0:
        return Term("round", _NUMBER, (value,))
    power = 10 ** abs(places)
    return written(f"round(x * {power}) / {power}" if places > 0 else f"round(x / {power}) * {power}", value)


def _power(node: exp.Expr, names: Names) -> Term:
    """A product, which all engines give to the last bit."""
    value, power = as_kind(_number(node, term_of(node.this, names)), _NUMBER), term_of(node.expression, names).value
    if power == 0.5:
        return written("sqrt(x)", value)
    if not isinstance(power, int | float) or power not in range(1, 17):
        raise refused(node, "the exponent must be 0.5 or a whole number from 1 to 16; write exp(1.5 * ln(x))")
    return written(" * ".join("x" * int(power)), value)


def _joined(node: exp.Expr, names: Names) -> Term:
    """|| is NULL where a part is; concat passes over NULL."""
    parts = list(node.flatten(unnest=False)) if isinstance(node, exp.DPipe) else parts_of(node)
    terms = []
    for part in parts:
        inner = term_of(part, names)
        term = written("CAST(x AS TEXT)", as_whole(inner) if inner.is_whole else inner)
        empty = Term("literal", _TEXT, value="")
        given = term if isinstance(node, exp.DPipe) else Term("coalesce", _TEXT, (term, empty))
        terms.append(brief(given, _LONGEST_TEXT))
    return terms[0] if len(terms) == 1 else Term("||", _TEXT, tuple(terms))


def _separated(node: exp.Expr, names: Names) -> Term:
    """concat_ws passes over NULL, and over the separator before it."""
    mark, *parts = parts_of(node)
    if not mark.is_string or len(mark.name) > 100 or not parts:
        raise refused(node, "write concat_ws('-', t, t), with a separator of at most 100 letters")
    whole = exp.Concat(expressions=[exp.DPipe(this=mark.copy(), expression=part) for part in parts])
    return written(f"substr(x, {len(mark.name) + 1})", _joined(whole, names))


def _all_conditions(node: exp.Expr, names: Names) -> Term:
    """AND and OR with all their operands side by side, so that long ones are not deep ones."""
    flat = list(node.flatten(unnest=False)) if isinstance(node, exp.Connector) else [node.this]
    parts = tuple(_condition(node, names, part) for part in flat)
    return Term(type(node).__name__.lower(), _BOOLEAN, parts)


def _condition(node: exp.Expr, names: Names, part: exp.Expr) -> Term:
    inner = term_of(part, names)
    if inner.kind is not _BOOLEAN:
        raise refused(node, "AND, OR, NOT and CASE WHEN take conditions")
    return inner


def _is(node: exp.Expr, names: Names) -> Term:
    if isinstance(node.expression, exp.Boolean):
        truth = "x" if node.expression.this else "NOT x"
        return written(f"coalesce({truth}, FALSE)", _condition(node, names, node.this))
    if not isinstance(node.expression, exp.Null):
        raise refused(node, "IS takes NULL, TRUE or FALSE")
    return Term("isnull", _BOOLEAN, (_something(node, names, node.this),))


def _something(node: exp.Expr, names: Names, part: exp.Expr) -> Term:
    inner = term_of(part, names)
    if inner.is_null:
        other = "IN a list without it" if isinstance(node, exp.In) else f"IS {'NOT ' * isinstance(node, exp.NEQ)}NULL"
        raise refused(node, f"NULL is never equal to anything; write {node.this.sql(dialect='duckdb')} {other}")
    return inner


def _between(node: exp.Expr, names: Names) -> Term:
    if node.args.get("symmetric"):
        raise refused(node, "write BETWEEN least AND largest")
    return _compared(node, names, "between", [node.this, node.args["low"], node.args["high"]])


def _in(node: exp.Expr, names: Names) -> Term:
    """IN and = ANY of a list, and IN of a list of rows."""
    if isinstance(node, exp.EQ):
        return _in(exp.In(this=node.this, expressions=node.expression.this.unnest().expressions), names)
    others = any(value for name, value in node.args.items() if name not in {"this", "expressions"})
    if others or not node.expressions:
        raise refused(node, "write a IN (1, 2), with values between the parentheses")
    if isinstance(node.this, exp.Tuple):
        mine = {f"({place})": term_of(part, names) for place, part in enumerate(node.this.expressions)}
        if any(len(row.unnest().expressions) != len(mine) for row in node.expressions):
            raise refused(node, "its rows differ in length; write (a, b) IN ((1, 'x'), (2, 'y'))")
        pairs = [zip(mine, row.unnest().expressions, strict=True) for row in node.expressions]
        equal = [exp.and_(*(exp.column(name, quoted=True).eq(its) for name, its in row)) for row in pairs]
        return term_of(exp.or_(*equal, copy=False), {**names, **mine})
    term = _compared(node, names, "in", [node.this, *node.expressions])
    if any(part.operation != "literal" for part in term.parts[1:]):
        raise refused(node, "IN takes a list of literals")
    return term


def _compared(node: exp.Expr, names: Names, operation: str, parts: list[exp.Expr]) -> Term:
    terms = [_something(node, names, part) for part in parts]
    return Term(operation, _BOOLEAN, _one_type(node, terms))


def _like(node: exp.Expr, names: Names) -> Term:
    """LIKE; in its term a backslash stands before each letter that means itself."""
    of, mark = (node.this, node.expression.name) if isinstance(node, exp.Escape) else (node, "")
    pattern, value, sign = term_of(of.expression, names), term_of(of.this, names), re.escape(mark)
    letters = pattern.value if pattern.operation == "literal" else None
    if not isinstance(of, exp.Like | exp.ILike) or not isinstance(letters, str) or value.kind is not _TEXT:
        raise refused(node, "LIKE takes text, and a literal text")
    if len(mark) > 1 or (mark and mark in re.sub(f"{sign}.", "", letters, flags=re.DOTALL)):
        raise refused(node, "ESCAPE takes one letter, and another follows it in the pattern")
    themselves = rf"{sign}.|\\" if mark else r"\\"
    letters = re.sub(themselves, lambda one: re.sub(r"[%_\\]", r"\\\g<0>", one[0][-1]), letters, flags=re.DOTALL)
    if isinstance(of, exp.ILike):
        value, letters = written("lower(x)", value), letters.translate(str.maketrans(CAPITAL, SMALL))
    term = Term("like", _BOOLEAN, (value,), letters)
    return Term("not", _BOOLEAN, (term,)) if of.args.get("negate") else term


def _case(node: exp.Expr, names: Names) -> Term:
    compared = node.args.get("this") and _something(node, names, node.this)
    pairs: list[Term] = []
    for branch in node.args["ifs"]:
        both = compared and _one_type(node, [compared, _something(node, names, branch.this)])
        equal = both and Term("=", _BOOLEAN, both)
        pairs += (equal or _condition(node, names, branch.this), term_of(branch.args.get("true"), names))
    values = _one_type(node, [*pairs[1::2], term_of(node.args.get("default") or exp.null(), names)])
    pairs[1::2] = values[:-1]
    return Term("case", values[0].kind, (*pairs, values[-1]))


def _chosen(node: exp.Expr, names: Names) -> Term:
    """COALESCE, least and greatest."""
    term = _one_type(node, [term_of(part, names) for part in (node.this, *node.expressions)])
    operation, kind = type(node).__name__.lower(), term[0].kind
    if operation != "coalesce" and kind not in {*NUMERIC, ColumnType.DATE}:
        raise refused(node, "least and greatest take numbers or dates")
    return term[0] if len(term) == 1 else Term(operation, kind, term)


def _part(node: exp.Expr, names: Names, part: str, value: exp.Expr) -> Term:
    function = FUNCTIONS.get({"dow": "dayofweek", "isodow": "dayofweekiso"}.get(part, part))
    if function is None or function.takes not in {"m", "s"} or part == "lastday":
        raise refused(node, "parts are " + ", ".join(PARTS) + "; isodow is 1 for Monday to 7 for Sunday")
    return _applied(node, function, [term_of(value, names)])


def _truncated(node: exp.Expr, names: Names) -> Term:
    period, inner = node.args.get("unit"), term_of(node.this, names)
    unit = "" if period is None else Dialect.DATE_PART_MAPPING.get(period.name.upper(), period.name).lower()
    if unit in CLOCK:
        return _applied(node, FUNCTIONS[f"trunc {unit}"], [inner])
    if inner.kind not in _DATED or unit not in (*UNITS, "day"):
        raise refused(node, _typed(inner))
    day = inner if inner.kind is ColumnType.DATE else Term("date", ColumnType.DATE, (inner,))
    return day if unit == "day" else Term("trunc", ColumnType.DATE, (day,), unit)


def _difference(node: exp.Expr, names: Names) -> Term:
    """Units that start after the earlier and up to the later, as DuckDB counts them."""
    unit = "" if node.args.get("unit") is None else node.args["unit"].name.lower()
    pair = [term_of(part, names) for part in (node.expression, node.this)]
    if f"diff {unit}" not in FUNCTIONS:
        raise refused(node, f"write date_diff('day', earlier, later); units are day, {', '.join((*UNITS, *CLOCK))}")
    return _applied(node, FUNCTIONS[f"diff {unit}"], pair)


def _shifted(node: exp.Expr, names: Names) -> Term:
    """A date or time plus or minus an interval; NULL outside the years 1 to 9999, and beyond 4,000 years."""
    length = node.expression
    unit, number = length.text("unit").lower().removesuffix("s"), length.this or exp.null()
    if isinstance(number, exp.Literal) and re.fullmatch("-?[0-9]{1,12}", number.name):
        number = exp.Literal.number(number.name)  # a text in standard SQL
    value, count = term_of(node.this, names), _number(node, term_of(number, names))
    return _moved(node, value, count if count.is_whole else as_whole(count), unit)


def _moved(node: exp.Expr, value: Term, length: Term, unit: str) -> Term:
    """A date or time that many units later, or earlier."""
    if unit not in {**_MONTHS, **SECONDS} or value.kind not in _DATED:
        raise refused(node, "write d + INTERVAL '3' MONTH, or d + INTERVAL (a column of whole numbers) DAY")
    sign, start = -1 if isinstance(node, exp.Sub | exp.DateSub) else 1, written("CAST(x AS TIMESTAMP)", value)
    kind, units = ("months", _MONTHS) if unit in _MONTHS else ("seconds", SECONDS)
    count = written(f"x * {sign * units[unit]}", _number(node, length))
    moved = _applied(node, FUNCTIONS[f"{kind} later"], [start, count])
    kept = written(f"CASE WHEN x BETWEEN {_CALENDAR} THEN x END", moved)
    return kept if unit in CLOCK else written(f"CAST(x AS {value.kind})", kept)


def _formatted(node: exp.Expr, names: Names) -> Term:
    """strftime, piece by piece."""
    value, pattern = (term_of(part, names) for part in (node.this, node.args.get("format")))
    marks = pattern.value if pattern.operation == "literal" and isinstance(pattern.value, str) else ""
    pieces = re.findall("%-?[a-zA-Z]|[^%]", marks)
    known = "".join(pieces) == marks and all(f"format {piece}" in FUNCTIONS for piece in pieces if len(piece) > 1)
    if value.kind not in _DATED or "%" not in marks or not known:  # YYYY-MM is of another dialect
        marks = ", ".join(name.split()[1] for name in FUNCTIONS if name.startswith("format "))
        raise refused(node, _typed(value) or f"formats are made of {marks}, as in strftime(d, '%Y-%m')")
    texts = (FUNCTIONS[f"format {one}"].body if len(one) > 1 else exp.Literal.string(one).sql() for one in pieces)
    return written(" || ".join(f"({text})" for text in texts), written("CAST(x AS TIMESTAMP)", value))


def _bucket(node: exp.Expr, names: Names) -> Term:
    """width_bucket(x, low, high, n): 0 below low, 1 to n, n + 1 from high on; edges are rounded to doubles."""
    ends = [term_of(node.args.get(name), names) for name in ("min_value", "max_value", "num_buckets")]
    low, high, count = (part.value if part.operation == "literal" else None for part in ends)
    if not isinstance(low, int | float) or not isinstance(high, int | float) or not isinstance(count, int):
        raise refused(node, "width_bucket takes a number and three literals: low, high, how many")
    if not (-math.inf < low < high < math.inf and 1 <= count <= _MOST_BUCKETS):
        raise refused(node, f"low must be below high, and buckets from 1 to {_MOST_BUCKETS}")
    edges = [float(low + (high - low) * place / count) for place in range(count)] + [float(high)]
    bins = " ".join(f"WHEN x < {edge!r} THEN {place}" for place, edge in enumerate(edges))
    value = as_kind(_number(node, term_of(node.this, names)), _NUMBER)
    return written(f"CASE WHEN x IS NULL THEN NULL {bins} ELSE {count + 1} END", value)


def _anonymous(node: exp.Expr, names: Names) -> Term:
    name, arguments = str(node.this).lower(), node.expressions
    if name == "whole_part" and len(arguments) == 1:  # how `queries.sql` writes casts and quotients of other dialects
        value = term_of(arguments[0], names)
        return written("trunc(x)", value) if value.kind is _NUMBER else value
    if name == "quotient" and len(arguments) == 2:
        given = [term_of(part, names) for part in arguments]
        if all(term.is_whole or term.kind is _INTEGER for term in given):
            return _applied(node, FUNCTIONS["intdiv"], list(map(as_whole, given)))
        return _divided(arguments[0] / arguments[1], given)
    if name in {"date_part", "datepart"} and len(arguments) == 2 and isinstance(arguments[0], exp.Literal):
        return _part(node, names, arguments[0].name.lower(), arguments[1])
    return _called(node, names)


def _dated(node: exp.Expr, kind: ColumnType) -> Term:
    try:
        return Term("literal", kind, value=moment(node.this.this, kind))
    except ValueError as wrong:
        raise refused(node, str(wrong)) from None


def _one_type(node: exp.Expr, terms: list[Term]) -> tuple[Term, ...]:
    """Terms of one type, as `common_kind` says; NULLs take the type of the others, and days beside times are midnights."""
    if any(term.kind is _BOOLEAN for term in terms) and common_kind(terms) is None:
        terms = list(map(as_number, terms))
    if {term.kind for term in terms if not term.is_null} == _DATED and common_kind(terms) is None:
        terms = [written("CAST(x AS TIMESTAMP)", term) if term.kind in _DATED else term for term in terms]
    kind = common_kind(terms)
    if kind is None:
        words = " and ".join(sorted({term.kind for term in terms if not term.is_null})) or "nothing but NULL"
        remedy = "dates as DATE '2026-01-31'" if "date" in words or "time" in words else "values of one type: 1, 'one'"
        others = {term.kind for term in terms if not term.is_null} - {ColumnType.TEXT}
        remedy = (
            _typed(*terms, kind="DOUBLE" if others & NUMERIC else max(others, default="").upper()) or f"write {remedy}"
        )
        raise refused(node, f"it compares {words}; {remedy}")
    return tuple(as_kind(term, kind) for term in terms)


def _typed(*terms: Term, kind: str = "DATE") -> str:
    """What to write where a column of text stands for another type; nothing if none does."""
    texts = [
        column_in_sql(str(one.value)) for one in terms if one.operation == "column" and one.kind is ColumnType.TEXT
    ]
    return f"write CAST({texts[0]} AS {kind}), or declare the column's type when it is opened" if texts else ""


_READERS: dict[type[exp.Expr], Callable[[exp.Expr, Names], Term]] = {
    **dict.fromkeys((exp.And, exp.Or, exp.Not), _all_conditions),
    **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
    **dict.fromkeys((exp.Coalesce, exp.Greatest, exp.Least), _chosen),
    **dict.fromkeys((exp.Concat, exp.DPipe), _joined),
    **dict.fromkeys((exp.DateAdd, exp.DateSub), _shifted),
    **dict.fromkeys((exp.DateTrunc, exp.TimestampTrunc), _truncated),
    **dict.fromkeys((exp.Escape, exp.ILike, exp.Like), _like),
    exp.Anonymous: _anonymous,
    exp.Between: _between,
    exp.Boolean: lambda node, _: Term("literal", _BOOLEAN, value=bool(node.this)),
    exp.Case: _case,
    exp.Column: _column,
    exp.ConcatWs: _separated,
    exp.DateDiff: _difference,
    exp.Div: lambda node, names: _divided(node, [term_of(part, names) for part in (node.this, node.expression)]),
    exp.Extract: lambda node, names: _part(node, names, node.name.lower(), node.expression),
    exp.In: _in,
    exp.Is: _is,
    exp.Literal: _literal,
    exp.Neg: _negative,
    exp.Null: lambda _node, _names: _NULL,
    exp.Paren: lambda node, names: term_of(node.this, names),
    exp.Placeholder: _answer,
    exp.Pow: _power,
    exp.Round: _rounded,
    exp.TimeToStr: _formatted,
    exp.WidthBucket: _bucket,
}


_READ = {"this", "expressions", "table", "unit", "decimals", "default", "query"}
_READ |= {"min_value", "max_value", "num_buckets"}  # of buckets
_LONGEST = 100_000


@dataclass(frozen=True, slots=True)
class RowExpression:
    """A checked expression.

    Attributes:
        text: Its canonical text, in DuckDB's spelling.
        type: The type of its value.
        term: Its term.

    >>> RowExpression.parse("amount * 2 >= 10 AND cds IN (1, 2)", {"amount": ColumnType.NUMBER, "cds": ColumnType.INTEGER})
    RowExpression(text='amount * 2 >= 10 AND cds IN (1, 2)', type=<ColumnType.BOOLEAN: 'boolean'>)
    >>> RowExpression.parse("1 / 0", {})
    Traceback (most recent call last):
    neartwin.errors.QueryError: '1 / 0' is not allowed in a row expression: the divisor must be a finite number other than 0
    """

    text: str
    type: ColumnType
    term: Term = field(repr=False)

    @classmethod
    def parse(
        cls, text: str, schema: Mapping[str, ColumnType], computed: Mapping[str, "RowExpression"] | None = None
    ) -> "RowExpression":
        """Parse and check a text.

        Args:
            text: A SQL expression of one row.
            schema: The type of each column.
            computed: The columns that stand for an expression.

        Returns:
            The expression.

        Raises:
            QueryError: A part is not allowed; the message names it and the reason.
        """
        return cls.checked(parsed(text), schema, computed)

    @classmethod
    def checked(
        cls, tree: exp.Expr, schema: Mapping[str, ColumnType], computed: Mapping[str, "RowExpression"] | None = None
    ) -> "RowExpression":
        """Check a parsed tree. The caller must not use the tree afterwards, because writing it out may change it.

        Args:
            tree: The tree.
            schema: The type of each column.
            computed: The columns that stand for an expression.

        Returns:
            The expression.

        Raises:
            QueryError: A part is not allowed.
        """
        names = {name: Term("column", kind, value=name) for name, kind in schema.items()}
        names |= {name: expression.term for name, expression in (computed or {}).items()}
        check_surface(tree)
        term = term_of(tree, names)
        if term.is_null:
            raise refused(tree, "NULL alone has no type")
        check_term(term)
        return cls(tree.sql(dialect="duckdb", comments=False, copy=False), term.kind, term)

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the source that it reads."""
        return self.term.columns

    def renamed(self, names: Mapping[str, str]) -> "RowExpression":
        """The expression with columns renamed.

        Args:
            names: From old to new names; other columns keep theirs.

        Returns:
            The new expression.
        """
        tree = parsed(self.text)
        for column in tree.find_all(exp.Column):
            column.this.set("this", names.get(column.name, column.name))
            column.this.set("quoted", True)
        return RowExpression(tree.sql(dialect="duckdb", comments=False), self.type, self.term.renamed(names))


def bare_of(text: str) -> exp.Expr:
    """A text without parentheses around all of it, around names and numbers, or around a branch of CASE.

    Args:
        text: A SQL expression.

    Returns:
        The tree, of the same term.
    """

    def without(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Paren):
            return node
        inner, within = node.unnest(), isinstance(node.parent, exp.If)
        return inner if within or isinstance(inner, exp.Column | exp.Literal) else exp.paren(inner)

    return parsed(text).unnest().transform(without)


def parsed(text: str, like: str = "amount > 5 AND city = 'Ulm'") -> exp.Expr:
    """Parse a text to a tree.

    Args:
        text: A SQL expression.
        like: Another one, for the error.

    Returns:
        The tree.

    Raises:
        QueryError: The text is too long, nested too deep, or no SQL.
    """
    if len(text) <= _LONGEST:
        try:
            return sqlglot.parse_one(text, read="duckdb")
        except SqlglotError:
            raise QueryError(f'expression {text!r} is not SQL; write for instance "{like}"') from None
        except RecursionError:
            pass
    raise QueryError("the expression is too long or nested too deeply; split it into computed columns")
