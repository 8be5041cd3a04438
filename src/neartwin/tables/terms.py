r"""Row expressions as small typed terms, which engines translate, the oracle evaluates, and ranges follow from.

A term's parts already have the types of its operation. A whole number in arithmetic stands under an explicit "double".
Nothing here is text of a user: names and literals are values.

| operation | parts | value |
|---|---|---|
| column, literal | | the name; the literal, None for NULL |
| answer | | its place among the questions asked first; a literal stands for it before a statement is written |
| double | a whole number | as double precision |
| + - * neg abs | numbers | overflow is infinity, underflow 0 |
| / | a number | over a nonzero literal |
| over | two numbers | the first over the second; NULL where that is 0 |
| sqrt ln log10 exp floor ceil round | a number | of `tables.functions` |
| whole | a number | as a whole number, if it is at most 2^53 in size; else NULL |
| mod | two whole numbers | the rest, with the sign of the first |
| upper lower length strlen substr right trim ltrim rtrim replace strpos split_part | a text | with literals |
| \|\| | texts | one after the other |
| inttext datetext timetext | a whole number, date, time | as text: -1, 2024-02-29, 2024-02-29 12:00:00 |
| clip | a number | within (low, high), two finite literals; NaN and NULL stay |
| least greatest coalesce | of one type | NULL is passed over; NaN is the largest number |
| case | condition, value, ..., value | the value behind the first true condition, or the last |
| = <> < <= > >= between in | of one type | NaN equals itself and is above all other numbers |
| and or not isnull | | SQL's three-valued logic |
| like | text | a pattern in which % is any text and _ any character |
| year quarter month week day dayofyear isodow | a date or time | a whole number; isodow is 1 for Monday to 7 |
| hour minute second | a time | a whole number |
| matches replaced endswith | a text | of `tables.functions`, with literals |
| tointeger tonumber todate totimestamp | a text of the right shape | what it states; NULL for a day that its month lacks |
| midnight | a date | the start of the day |
| hour start, minute start, second start | a time | the start of its hour, minute or second |
| months later, seconds later | a time, a number | moved by so many; a day that the month lacks becomes its last |
| datefromparts | three whole numbers | the day of a year, month and day of the month; NULL for one that is not there |
| trunc | a date or time | the first day of its year, quarter, month or week |
| date | a time | its day |
| days | two dates | the first less the second, in days |

Expressions have a largest size, far below the nesting limit of any engine's parser. So none fails after the budget is
spent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from typing import Any

from sqlglot import exp

from neartwin.errors import QueryError
from neartwin.tables.types import NUMERIC, ColumnType

COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
CLOCK = ("hour", "minute", "second")
PARTS = ("year", "quarter", "month", "week", "day", "dayofyear", "isodow", *CLOCK)
UNITS = ("year", "quarter", "month", "week")
# How often engines write the part; other parts once
_WRITTEN = {"clip": 4, "floor": 3, "ceil": 3, "upper": 4, "lower": 4}

Value = bool | int | float | str | date | datetime | tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class Term:
    """An operation on parts.

    Attributes:
        operation: The operation, from the table above.
        kind: The type of its value.
        parts: Its operands.
        value: The name of a column, a literal, or a pattern.
        is_whole: Whether it is a whole number in SQL, where sums and products of whole numbers are, and computed as a double.
    """

    operation: str
    kind: ColumnType
    parts: tuple["Term", ...] = ()
    value: Value = None
    is_whole: bool = field(default=False, compare=False, repr=False)

    def walk(self) -> Iterator["Term"]:
        """This term and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def __str__(self) -> str:
        """One spelling, equal for equal terms and different for others."""
        value = "" if self.value is None and self.operation != "literal" else f" {self.value!r}"
        return f"({self.operation}:{self.kind.value}{value}{''.join(f' {part}' for part in self.parts)})"

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that it reads."""
        return frozenset(str(term.value) for term in self.walk() if term.operation == "column")

    def renamed(self, names: Mapping[str, str]) -> "Term":
        """The term with columns renamed.

        Args:
            names: From old to new names.

        Returns:
            The new term.
        """
        parts = tuple(part.renamed(names) for part in self.parts)
        value = names.get(str(self.value), self.value) if self.operation == "column" else self.value
        return replace(self, parts=parts, value=value)

    def answered(self, numbers: Sequence[float | str | date]) -> "Term":
        """The term with numbers or dates as the answers of the questions asked first."""
        if self.operation == "answer" and isinstance(self.value, int):
            return Term("literal", self.kind, value=numbers[self.value - 1])
        return replace(self, parts=tuple(part.answered(numbers) for part in self.parts))

    @property
    def is_null(self) -> bool:
        """Whether this is the literal NULL."""
        return self.operation == "literal" and self.value is None


def common_kind(terms: Iterable[Term]) -> ColumnType | None:
    """The one type to which all terms can be converted.

    Whole numbers become doubles beside doubles. Literal dates become midnight beside times. Literal texts are read as
    ISO 8601 beside dates and times. NULLs have any type.

    Args:
        terms: The terms.

    Returns:
        The type, or None if there is none.
    """
    known = [term for term in terms if not term.is_null]
    kinds = {term.kind for term in known}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds and kinds <= NUMERIC:
        return ColumnType.NUMBER
    later = ColumnType.TIMESTAMP if ColumnType.TIMESTAMP in kinds else ColumnType.DATE
    others = [term for term in known if term.kind is not later]
    return later if later in kinds and all(_moment(term, later) is not None for term in others) else None


def moment(text: str, kind: ColumnType) -> date:
    """The date or time that a text states in ISO 8601.

    Args:
        text: The text.
        kind: DATE or TIMESTAMP.

    Returns:
        The date or time.

    Raises:
        ValueError: The text states none; the message says why.
    """
    try:
        value = (date if kind is ColumnType.DATE else datetime).fromisoformat(text)
    except ValueError:
        raise ValueError("it is no date") from None
    if isinstance(value, datetime) and value.utcoffset():
        raise ValueError("times have no zone: write them in UTC")
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def _moment(term: Term, kind: ColumnType) -> date | None:
    """What a literal date or text is as a date or time; None for other terms, and for a text that is neither."""
    if isinstance(term.value, str) and term.operation == "literal":
        try:
            return moment(term.value, kind)
        except ValueError:
            return None
    if isinstance(term.value, date) and kind is ColumnType.TIMESTAMP:
        return datetime.combine(term.value, time())
    return None


def as_kind(term: Term, kind: ColumnType) -> Term:
    """The term as a value of this type: itself, a NULL, a whole number as a double, or a conversion of `common_kind`.

    Args:
        term: The term.
        kind: A type that `common_kind` returned.

    Returns:
        The new term.
    """
    if term.kind is kind:
        return term
    if term.is_null:
        return Term("literal", kind)
    if kind in {ColumnType.DATE, ColumnType.TIMESTAMP}:
        literal = _moment(term, kind)
        assert literal is not None  # noqa: S101 - as `common_kind` says; None would be NULL
        return Term("literal", kind, value=literal)
    if term.operation == "literal":
        assert isinstance(term.value, int)  # noqa: S101 - the one coercion there is
        return Term("literal", kind, value=float(term.value), is_whole=True)
    return Term("double", kind, (term,), is_whole=True)


_MOST_TERMS, _DEEPEST = 3000, 60


def check_surface(root: exp.Expr, deepest: int = _DEEPEST) -> None:
    """Refuse text that is nested too deep. Long ANDs and ORs count as one level.

    The walk uses no recursion, because no stack is as deep as a text can be.

    Args:
        root: The parsed text.
        deepest: The most levels.

    Raises:
        QueryError: The text is nested too deep.
    """
    left = [(root, 1)]
    while left:
        node, depth = left.pop()
        if depth > deepest:
            raise _too_large()
        same = type(node) if isinstance(node, exp.Connector) else ()
        left += [(child, depth + (not isinstance(child, same))) for child in node.iter_expressions()]


def check_term(term: Term) -> None:
    """Refuse a term that is too large when written out.

    Args:
        term: The term.

    Raises:
        QueryError: The term is too large.
    """
    size, depth = _measured(term, {})
    if size > _MOST_TERMS or depth > _DEEPEST:
        raise _too_large()


def _too_large() -> QueryError:
    line = "write IN (...) for many values, and take fewer bins of a histogram"
    return QueryError(
        f"the expression is too large: at most {_MOST_TERMS} operations, nested at most {_DEEPEST} deep; {line}"
    )


def _measured(term: Term, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Size as engines write it, where a clip names its part four times, and depth. A part of many places is looked at once."""
    if id(term) not in known:
        below = [_measured(part, known) for part in term.parts]
        size = 1 + _WRITTEN.get(term.operation, 1) * sum(size for size, _ in below)
        known[id(term)] = size, 1 + max((depth for _, depth in below), default=0)
    return known[id(term)]
