"""Dialects: the spellings that an engine must supply so that the one statement means the same everywhere."""

from typing import ClassVar, Protocol

from sqlglot import exp

from neartwin.tables.types import ColumnType

KEYS = "neartwin_keys"  # the table of public keys: position, then the group columns k0, k1, ...
POSITION = "p"


class Dialect(Protocol):
    """One engine's spelling. Methods with a body hold for most engines. No value in a row makes an expression fail.

    Attributes:
        name: The name of the dialect in SQLGlot.
        reads_once: Whether the engine computes a marked part of a statement once.
    """

    name: ClassVar[str]  # SQLGlot's
    reads_once: ClassVar[
        bool
    ]  # whether a part of WITH marked MATERIALIZED is computed once, and NULL-safe equality hashes

    @property
    def thins(self) -> bool:
        """Whether rows that no kept group can come from are left out before they are counted: see `bounding`."""
        ...

    def column(self, name: str, kind: ColumnType, *, declared: bool) -> exp.Expr:
        """A column of the source as one of the six types; NULL if a value does not fit.

        Text compares by its bytes. Dates are those of the years 1 to 9999.

        Args:
            name: The column.
            kind: Its type.
            declared: Whether the caller declared the type, so that the source may hold another.

        Returns:
            The expression.
        """
        ...

    def hash_key(self, salt: exp.Expr, parts: list[tuple[exp.Expr, ColumnType]]) -> exp.Expr:
        """A finalised hash of the salt and parts, without bias between groups."""
        ...

    def fingerprint(self, parts: list[exp.Expr]) -> exp.Expr:
        """MD5 in hexadecimal of the parts' texts with '/' between them; sorts by its bytes, equal on all engines."""
        return digest_of(parts)

    def is_nan(self, value: exp.Expr) -> exp.Expr:
        """Whether a double is NaN."""
        return exp.func("isnan", value)

    def arithmetic(self, node: exp.Binary) -> exp.Expr:
        """A sum, difference or product of doubles: infinite if it is too large, and 0 if it is too small."""
        return node

    def divided(self, value: exp.Expr, divisor: float) -> exp.Expr:
        """A double over a nonzero number: infinite if the quotient is too large, and 0 if it is too small."""
        return exp.paren(exp.Div(this=exp.paren(value), expression=real(divisor), typed=True))

    def text(self, value: str) -> exp.Expr:
        """A text as a literal that compares by its bytes."""
        return exp.Literal.string(value)

    def bytewise(self, value: exp.Expr) -> exp.Expr:
        """A text of `column`, compared and ordered by its bytes if `column` does not ensure that."""
        return value

    def computed(self, value: exp.Expr, kind: ColumnType) -> exp.Expr:
        """A computed value with the type, order and calendar of `column`."""
        ...

    def date_part(self, part: str, value: exp.Expr) -> exp.Expr:
        """Year, quarter, month, day, isodow or hour of a date or time, a BIGINT."""
        ...

    def truncated(self, unit: str, value: exp.Expr) -> exp.Expr:
        """The first day of a date's year, quarter, month or week, a date."""
        ...

    def days(self, value: exp.Expr, other: exp.Expr) -> exp.Expr:
        """A date less another, in days, a BIGINT."""
        ...

    def half_up(self, value: exp.Expr, *, negative: bool) -> exp.Expr:  # noqa: ARG002 - for those whose round() needs it
        """A double of at most 2**53 in size, rounded half up to a BIGINT.

        Args:
            value: The double.
            negative: Whether it may be below 0.

        Returns:
            The expression.
        """
        return floor_half_up(value)

    def summed(self, value: exp.Expr) -> exp.Expr:
        """The exact sum of whole numbers of 64 bits or of earlier sums, in a type of at least 126 bits."""
        ...

    def wide(self, value: exp.Expr) -> exp.Expr:
        """A whole number in the type of `summed`."""
        ...

    def weighted(self, total: exp.Expr, cap: exp.Expr, number: exp.Expr) -> exp.Expr:
        """Total * cap / number truncated toward zero, for number > cap, in the type of `summed`."""
        ...

    def same(self, value: exp.Expr, key: exp.Expr, kind: ColumnType, *, nullable: bool) -> exp.Expr:  # noqa: ARG002
        """Equality of a group column and a public key, in a form the engine can hash; NULL equals NULL if nullable."""
        return exp.NullSafeEQ(this=value, expression=key) if nullable else exp.EQ(this=value, expression=key)

    def by_unit(self, query: exp.Select) -> exp.Select:
        """The select of rows, with a hint for a distributed engine to bring all rows of a unit `u` together."""
        return query


Parts = dict[str, exp.Select]  # what stands in a statement's WITH, in order


def selected(source: str, *columns: str | exp.Expr) -> exp.Select:
    """SELECT these columns FROM a part of the statement; without columns all. No text is parsed and nothing copied."""
    chosen = [exp.column(one) if isinstance(one, str) else one for one in columns] or [exp.Star()]
    return exp.select(*chosen, copy=False).from_(part_named(source), copy=False)


def grouped(query: exp.Select, *columns: str) -> exp.Select:
    """The query with GROUP BY these columns, if there are any."""
    return query.group_by(*map(exp.column, columns), copy=False)


def named(value: exp.Expr, name: str) -> exp.Alias:
    """A column with a name of its own."""
    return exp.Alias(this=value, alias=exp.to_identifier(name))


def windowed(value: exp.Expr, *columns: str, order: exp.Order | None = None) -> exp.Window:
    """A value over the rows that have the same in these columns."""
    return exp.Window(this=value, partition_by=list(map(exp.column, columns)), order=order)


def part_named(name: str) -> exp.Table:
    """One of a statement's own tables as a node, because a text would be parsed each time."""
    return exp.Table(this=exp.to_identifier(name))


def with_parts(last: exp.Select, parts: Parts, *, once: str = "") -> exp.Select:
    """The whole statement. once: the part that is computed once, however often it is read."""
    for name, part in parts.items():
        alias = exp.TableAlias(this=exp.to_identifier(name))
        last = last.with_(alias, as_=part, materialized=name == once or None, copy=False)
    return last


def whole(value: int) -> exp.Expr:
    """A whole number as a literal."""
    return exp.Neg(this=exp.Literal.number(-value)) if value < 0 else exp.Literal.number(value)


def real(value: float) -> exp.Expr:
    """A double as a literal that every engine reads back to the last bit; infinities included."""
    return as_double(exp.Literal.string(repr(value)))


def as_double(value: exp.Expr) -> exp.Expr:
    """A cast to double precision; `exp.cast` would parse the type's name."""
    return exp.Cast(this=value, to=exp.DataType(this=exp.DataType.Type.DOUBLE))


def as_bigint(value: exp.Expr) -> exp.Expr:
    """A cast to a whole number of 64 bits."""
    return exp.Cast(this=value, to=exp.DataType(this=exp.DataType.Type.BIGINT))


def floor_half_up(value: exp.Expr) -> exp.Expr:
    """The floor, plus one if at least a half is left over. That is exact; value + 0.5 is not."""
    floor = exp.Floor(this=value.copy())
    up = exp.case().when(exp.paren(value - floor.copy()) >= real(0.5), exp.Literal.number(1)).else_("0")
    return as_bigint(floor) + up


def least(first: exp.Expr, second: exp.Expr) -> exp.Expr:
    """The lesser one; a NULL is ignored."""
    return exp.Least(this=first, expressions=[second], ignore_nulls=True)


def greatest(first: exp.Expr, second: exp.Expr) -> exp.Expr:
    """The greater one; a NULL is ignored."""
    return exp.Greatest(this=first, expressions=[second], ignore_nulls=True)


def digest_of(parts: list[exp.Expr]) -> exp.Expr:
    """MD5 in hexadecimal of the parts as texts with '/' between them; none is NULL."""
    text: exp.Expr = exp.cast(parts[0], "TEXT")
    for part in parts[1:]:
        text = exp.DPipe(
            this=exp.DPipe(this=text, expression=exp.Literal.string("/")), expression=exp.cast(part, "TEXT")
        )
    return exp.MD5(this=text)


def in_calendar(day: exp.Expr, kind: ColumnType) -> exp.Expr:
    """A date or time of the years 1 to 9999, else NULL. Others have no parts and do not exist in Python."""
    last = "9999-12-31" if kind is ColumnType.DATE else "9999-12-31 23:59:59.999999"
    ends = [exp.cast(exp.Literal.string(end), kind.value, dialect="duckdb") for end in ("0001-01-01", last)]
    inside = exp.Between(this=day, low=ends[0], high=ends[1])
    return exp.case().when(inside, day.copy()).else_(exp.null())
