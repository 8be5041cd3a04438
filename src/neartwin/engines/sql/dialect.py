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
        reads_once: Whether the engine computes a part of WITH marked MATERIALIZED once, and hashes NULL-safe equality.
        keeps: How many of a unit's numbers max(x, n) finds without a sort, which takes longer.
    """

    name: ClassVar[str]
    reads_once: ClassVar[bool]
    keeps: ClassVar[int] = 0

    @property
    def collates(self) -> bool:
        """Whether the ids of units have a collation, so that one unit may have several spellings."""
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
        """A finalised hash of the salt and parts, without bias between groups.

        Args:
            salt: The salt, 64 bits.
            parts: The hashed values with their types.

        Returns:
            The expression.
        """
        ...

    def fingerprint(self, parts: list[exp.Expr]) -> exp.Expr:
        """MD5 in hexadecimal of the parts' texts with '/' between them. It sorts by its bytes, and is equal on all
        engines.

        Args:
            parts: The texts.

        Returns:
            The expression.
        """
        text: exp.Expr = exp.cast(parts[0], "TEXT")
        for part in parts[1:]:
            text = exp.DPipe(this=text, expression=exp.Literal.string("/"))
            text = exp.DPipe(this=text, expression=exp.cast(part, "TEXT"))
        return exp.MD5(this=text)

    def is_nan(self, value: exp.Expr) -> exp.Expr:
        """Whether a double is NaN.

        Args:
            value: The double.

        Returns:
            The condition.
        """
        return exp.func("isnan", value)

    def arithmetic(self, node: exp.Binary) -> exp.Expr:
        """A sum, difference, product or quotient of doubles: infinite if it is too large, and 0 if it is too small.

        Args:
            node: The operation.

        Returns:
            The expression.
        """
        return node

    def text(self, value: str) -> exp.Expr:
        """A text as a literal that compares by its bytes.

        Args:
            value: The text.

        Returns:
            The literal.
        """
        return exp.Literal.string(value)

    def bytewise(self, value: exp.Expr) -> exp.Expr:
        """A text of `column`, compared and ordered by its bytes if `column` does not ensure that.

        Args:
            value: The text.

        Returns:
            The expression.
        """
        return value

    def computed(self, value: exp.Expr, kind: ColumnType) -> exp.Expr:
        """A computed value with the type, order and calendar of `column`.

        Args:
            value: The value.
            kind: Its type.

        Returns:
            The expression.
        """
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
        """The exact sum of whole numbers of 64 bits or of earlier sums, in a type of at least 126 bits.

        Args:
            value: The whole number.

        Returns:
            The aggregate.
        """
        return exp.Sum(this=value)

    def summed_in_doubles(self, value: exp.Expr) -> exp.Expr:
        """The sum of whole numbers that stays below 2^53, or need not be exact beyond: in doubles, where these are faster.

        Args:
            value: The whole number.

        Returns:
            The aggregate.
        """
        return self.summed(value)

    def wide(self, value: exp.Expr) -> exp.Expr:
        """A whole number in the type of `summed`.

        Args:
            value: The whole number.

        Returns:
            The expression.
        """
        ...

    def weighted(self, total: exp.Expr, cap: exp.Expr, number: exp.Expr, parts: int = 1) -> exp.Expr:
        """The quotient total * cap * parts / number, truncated toward zero, in the type of `summed`.

        Args:
            total: The total.
            cap: The cap, a literal.
            number: The number, above the cap.
            parts: The parts of a step.

        Returns:
            The expression.
        """
        ...

    def same(self, value: exp.Expr, key: exp.Expr, kind: ColumnType, *, nullable: bool) -> exp.Expr:  # noqa: ARG002
        """Equality of a group column and a public key, in a form that the engine can hash.

        Args:
            value: The group column.
            key: The column of public keys.
            kind: Their type.
            nullable: Whether a key may be NULL; then NULL equals NULL.

        Returns:
            The condition.
        """
        return exp.NullSafeEQ(this=value, expression=key) if nullable else exp.EQ(this=value, expression=key)

    def by_unit(self, query: exp.Select) -> exp.Select:
        """The select of rows, with a hint for a distributed engine to bring all rows of a unit `u` together.

        Args:
            query: The select.

        Returns:
            The select with the hint, if the engine needs one.
        """
        return query


Parts = dict[str, exp.Select]  # the common table expressions of a statement, in order


def selected(source: str, *columns: str | exp.Expr) -> exp.Select:
    """Select columns from a part of the statement. No text is parsed and nothing is copied.

    Args:
        source: The name of the part.
        columns: The columns; without any, all.

    Returns:
        The select.
    """
    chosen = [exp.column(one) if isinstance(one, str) else one for one in columns] or [exp.Star()]
    return exp.select(*chosen, copy=False).from_(part_named(source), copy=False)


def grouped(query: exp.Select, *columns: str) -> exp.Select:
    """The query with GROUP BY these columns, if there are any.

    Args:
        query: The query.
        columns: The names of the columns.

    Returns:
        The query.
    """
    return query.group_by(*map(exp.column, columns), copy=False)


def named(value: exp.Expr, name: str) -> exp.Alias:
    """A value with an alias.

    Args:
        value: The value.
        name: The alias.

    Returns:
        The column.
    """
    return exp.Alias(this=value, alias=exp.to_identifier(name))


def windowed(value: exp.Expr, *columns: str, order: exp.Order | None = None) -> exp.Window:
    """A value over the rows with equal values in these columns.

    Args:
        value: The aggregate or window function.
        columns: The columns of PARTITION BY.
        order: The order within a window.

    Returns:
        The expression.
    """
    return exp.Window(this=value, partition_by=list(map(exp.column, columns)), order=order)


def part_named(name: str) -> exp.Table:
    """A part of the statement as a table node. A text would be parsed each time."""
    return exp.Table(this=exp.to_identifier(name))


def with_parts(last: exp.Select, parts: Parts) -> exp.Select:
    """The statement with its parts as common table expressions.

    Args:
        last: The final select.
        parts: The parts, in order. Those with "once" in their meta are computed once, however often they are read.

    Returns:
        The statement.
    """
    for name, part in parts.items():
        alias = exp.TableAlias(this=exp.to_identifier(name))
        last = last.with_(alias, as_=part, materialized=part.meta.get("once") or None, copy=False)
    return last


def integer(value: int) -> exp.Expr:
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


def either(condition: exp.Expr, value: exp.Expr, other: exp.Expr | None = None) -> exp.Case:
    """One value where a condition is true, else another one, or NULL. Nothing is copied.

    Args:
        condition: The condition.
        value: The value where it is true.
        other: The value elsewhere.

    Returns:
        The expression.
    """
    return exp.Case(ifs=[exp.If(this=condition, true=value)], default=other)


def floor_half_up(value: exp.Expr) -> exp.Expr:
    """The floor, plus one if at least a half is left over. That is exact; value + 0.5 is not."""
    floor = exp.Floor(this=value.copy())
    half = exp.GTE(this=exp.paren(value - floor, copy=False), expression=real(0.5))
    return exp.Add(this=as_bigint(floor), expression=either(half, integer(1), integer(0)))


def least(first: exp.Expr, second: exp.Expr) -> exp.Expr:
    """The smaller of two values; a NULL is ignored.

    Args:
        first: One value.
        second: The other value.

    Returns:
        The expression.
    """
    return exp.Least(this=first, expressions=[second], ignore_nulls=True)


def greatest(first: exp.Expr, second: exp.Expr) -> exp.Expr:
    """The larger of two values; a NULL is ignored.

    Args:
        first: One value.
        second: The other value.

    Returns:
        The expression.
    """
    return exp.Greatest(this=first, expressions=[second], ignore_nulls=True)


def in_calendar(day: exp.Expr, kind: ColumnType) -> exp.Expr:
    """A date or time of the years 1 to 9999, else NULL. Others have no parts and do not exist in Python.

    Args:
        day: The date or time.
        kind: Its type.

    Returns:
        The expression.
    """
    last = "9999-12-31" if kind is ColumnType.DATE else "9999-12-31 23:59:59.999999"
    ends = [exp.cast(exp.Literal.string(end), kind.value, dialect="duckdb") for end in ("0001-01-01", last)]
    return either(exp.Between(this=day, low=ends[0], high=ends[1]), day.copy(), exp.null())
